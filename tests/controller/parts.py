"""A controller's parts over a cluster in memory, with a small stand-in for what policies need."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import certs
from certs.rotate import Waits
from webhook.controller.certificates import OwnCertificates
from webhook.controller.configurations import Configurations
from webhook.controller.metrics import Metrics
from webhook.controller.reconcile import Reconciler
from webhook.controller.writing import Writer
from webhook.registration import (
    CONFIGURATIONS,
    LATE_NAME,
    MUTATE,
    MUTATE_LATE,
    NAME,
    VALIDATE_FAIL,
    VALIDATE_IGNORE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.controller.cluster_in_memory import FakeApi
    from webhook.cluster import Api

NAMESPACE = "podgate-system"
NAMES = certs.service_names("podgate", NAMESPACE)
START = datetime(2026, 12, 1, 12, tzinfo=UTC)

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
CA_SECRET, TLS_SECRET = f"{SECRETS}/podgate-ca", f"{SECRETS}/podgate-tls"
PAUSE = f"/api/v1/namespaces/{NAMESPACE}/configmaps/podgate-pause"
MUTATING, LATE, VALIDATING = (which.path for which in CONFIGURATIONS)


def wanted(bundle: bytes) -> tuple[dict[str, Any], ...]:
    """What the policies of a test need."""

    def entry(name: str, policy: str) -> dict[str, Any]:
        client: dict[str, Any] = {"service": {"namespace": NAMESPACE, "name": "podgate", "path": "/x"}}
        if bundle:
            client["caBundle"] = base64.b64encode(bundle).decode()
        return {"name": name, "clientConfig": client, "failurePolicy": policy}

    metadata = {
        "name": NAME,
        "labels": {"app.kubernetes.io/name": "podgate"},
        "annotations": {"ours": "stays"},
    }
    return (
        {"kind": "M", "metadata": metadata, "webhooks": [entry(MUTATE, "Ignore")]},
        {
            "kind": "M",
            "metadata": metadata | {"name": LATE_NAME},
            "webhooks": [entry(MUTATE_LATE, "Ignore")],
        },
        {
            "kind": "V",
            "metadata": metadata,
            "webhooks": [entry(VALIDATE_FAIL, "Fail"), entry(VALIDATE_IGNORE, "Ignore")],
        },
    )


def own_certificates(
    api: FakeApi,
    look: Callable[[], tuple[bytes | None, ...]] = lambda: (),
    clock: Callable[[], datetime] = lambda: START,
    check: Callable[[], None] = lambda: None,
) -> OwnCertificates:
    writer = Writer(cast("Api", api), check, lambda _kind: None)
    return OwnCertificates(cast("Api", api), writer, NAMESPACE, NAMES, Waits(), look, clock)


def configurations(
    api: FakeApi,
    probe: Callable[[str, bytes], tuple[str, ...]] = lambda _path, _bundle: (),
    monotonic: Callable[[], float] = lambda: 0.0,
    check: Callable[[], None] = lambda: None,
    *,
    may_block: bool = False,
    is_known: bool = True,
    generate: Callable[[bytes], tuple[dict[str, Any], ...]] = wanted,
) -> Configurations:
    writer = Writer(cast("Api", api), check, lambda _kind: None)
    return Configurations(
        cast("Api", api),
        writer,
        generate,
        probe,
        may_block=may_block,
        is_known=lambda: is_known,
        monotonic=monotonic,
    )


def reconciler(
    api: FakeApi,
    look: Callable[[], tuple[bytes | None, ...]] = lambda: (),
    clock: Callable[[], datetime] = lambda: START,
    check: Callable[[], None] = lambda: None,
) -> Reconciler:
    return Reconciler(
        cast("Api", api),
        NAMESPACE,
        own_certificates(api, look, clock, check),
        configurations(api, check=check),
        Metrics(),
    )
