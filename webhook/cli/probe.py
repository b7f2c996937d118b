"""A probe: does the API server get an answer from podgate?

A pod that carries one of podgate's own annotations is created with a server-side dry run, so that nothing is
stored. The mutating webhook takes such an annotation away from whatever a client creates, in every mode and by
every policy set. If the pod comes back without it, the API server has called podgate, has trusted its certificate
and has understood its answer, whatever failurePolicy stands in the configuration.

The validating entry that may block is tried once it says `Fail`: then a call that fails refuses a pod that asks for
an accelerator, in a dry run as well, and the text says so.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from webhook.cluster import Api, ApiError

ANNOTATION = "podgate.dev/decision"

#: A new configuration is in force within a second; a cluster with many API servers and little to do may take longer.
PATIENCE_SECONDS = 10.0
STEP_SECONDS = 0.5

ACCELERATOR = "nvidia.com/gpu"


class Probe(NamedTuple):
    """What came of it.

    Attributes:
        answered: whether podgate answered; None where the probe itself could not be made.
        text: what the API server said, "" if nothing.
    """

    answered: bool | None
    text: str = ""


def probe_pod(namespace: str, accelerators: int = 0) -> dict[str, Any]:
    """A pod that every Pod Security level accepts."""
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    resources = {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}}
    if accelerators:
        resources["limits"][ACCELERATOR] = str(accelerators)
    container = {
        "name": "probe",
        "image": "registry.k8s.io/pause:3.10",
        "securityContext": security,
        "resources": resources,
    }
    metadata = {
        "generateName": "podgate-probe-",
        "namespace": namespace,
        "annotations": {ANNOTATION: "probe"},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"automountServiceAccountToken": False, "containers": [container]},
    }


def probe(api: Api, namespace: str, patience: float = 0.0) -> Probe:
    """Ask once, or again until podgate answers or the patience, in seconds, is at its end."""
    end = time.monotonic() + patience
    while True:
        found = _ask(api, namespace)
        if found.answered is not False or time.monotonic() >= end:
            return found
        time.sleep(STEP_SECONDS)


def blocked(api: Api, namespace: str, patience: float) -> str:
    """Why a pod that asks for an accelerator is refused for want of an answer; "" if that does not happen in so many seconds."""
    from webhook.cluster import ApiError  # noqa: PLC0415
    from webhook.registration import VALIDATE_FAIL  # noqa: PLC0415

    end = time.monotonic() + patience
    while True:
        try:
            api.create(
                f"/api/v1/namespaces/{namespace}/pods", probe_pod(namespace, accelerators=1), dry_run=True
            )
        except ApiError as error:
            said = _said(error)
            if f'failed calling webhook "{VALIDATE_FAIL}"' in said:
                return said
        if time.monotonic() >= end:
            return ""
        time.sleep(STEP_SECONDS)


def _said(error: ApiError) -> str:
    return str((error.body or {}).get("message") or error.message)


def _ask(api: Api, namespace: str) -> Probe:
    from webhook.cluster import ApiError  # noqa: PLC0415
    from webhook.registration import ENTRY_NAMES  # noqa: PLC0415

    try:
        made = api.create(f"/api/v1/namespaces/{namespace}/pods", probe_pod(namespace), dry_run=True)
    except ApiError as error:
        said = _said(error)
        if any(f'admission webhook "{name}" denied' in said for name in ENTRY_NAMES):
            return Probe(answered=True, text=said)
        called = any(f'failed calling webhook "{name}"' in said for name in ENTRY_NAMES)
        return Probe(answered=False if called else None, text=said)
    return Probe(answered=ANNOTATION not in ((made.get("metadata") or {}).get("annotations") or {}))
