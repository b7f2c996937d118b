"""cert-manager at work in a cluster, and what an administrator does with it."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.e2e.certmanager.build import CERT_MANAGER, DEFINITIONS
from tests.e2e.client import path_to
from tests.e2e.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.client import Json
    from tests.e2e.cluster import Cluster

ISSUE_SECONDS = 30


@contextmanager
def cert_manager(cluster: Cluster, folder: Path, feature_gates: str = "") -> Iterator[None]:
    """Its kinds and its controllers are there.

    Args:
        cluster: where.
        folder: for `cert-manager.log`.
        feature_gates: of it, as `NAME=false`.

    Raises:
        NotThereError: It was not built.
    """
    programs = CERT_MANAGER.find()
    definitions = str(programs / DEFINITIONS)
    applied = cluster.kubectl("apply", "--server-side", "-f", definitions)
    assert applied.code == 0, applied.err
    established = cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", definitions)
    assert established.code == 0, established.err
    with (folder / "cert-manager.log").open("wb") as log:
        process = subprocess.Popen(
            [str(programs / CERT_MANAGER.binary)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig()), "FEATURE_GATES": feature_gates},
            process_group=0,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()
        cluster.kubectl("delete", "--ignore-not-found", "-f", definitions)


def renew(cluster: Cluster, namespace: str, name: str) -> None:
    """Have a Certificate issued anew, as `cmctl renew` does it, and wait until it was.

    See cert-manager/cmctl:pkg/renew/renew.go.
    """
    before = certificate(cluster, namespace, name)
    condition = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "Certificate re-issuance manually triggered",
        "lastTransitionTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
    others = [each for each in before["status"]["conditions"] if each["type"] != "Issuing"]
    status = {"status": {"conditions": [*others, condition]}}
    cluster.admin.patch(path_to(before, "status"), status)
    revision = before["status"]["revision"]
    wait_for(
        lambda: is_issued(cluster, namespace, name, revision + 1),
        f"Certificate {name} is issued anew",
        ISSUE_SECONDS,
    )


def certificate(cluster: Cluster, namespace: str, name: str) -> Json:
    """A Certificate as it is stored."""
    return {"kind": "Certificate"} | cluster.admin.read("Certificate", namespace, name)


def is_issued(cluster: Cluster, namespace: str, name: str, revision: int = 1) -> bool:
    """Whether a Certificate is ready, and that often issued."""
    status = certificate(cluster, namespace, name).get("status", {})
    states = {each["type"]: each["status"] for each in status.get("conditions", [])}
    return (
        states.get("Ready") == "True"
        and states.get("Issuing") != "True"
        and status.get("revision", 0) >= revision
    )
