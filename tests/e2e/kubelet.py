"""What kubelets do, as far as the control plane waits for it: bound pods run, and deleted ones end."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tests.e2e.client import ApiError, Json, path_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.cluster import Cluster

ROUND_SECONDS = 0.1

RUNNING = {
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")
        ],
    }
}


@contextmanager
def kubelets(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Bound pods of a namespace become Ready, and those that are being deleted go."""
    stopped = threading.Event()

    def rounds() -> None:
        while not stopped.wait(ROUND_SECONDS):
            with suppress(
                ApiError
            ):  # the API server may be down for a while, and pods change under our hands
                one_round(cluster, namespace)
        cluster.admin.close()

    thread = threading.Thread(target=rounds, name="kubelets", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def one_round(cluster: Cluster, namespace: str) -> None:
    """What every kubelet does once for its pods."""
    for pod in cluster.admin.items("Pod", namespace):
        if not pod["spec"].get("nodeName"):
            continue
        if pod["metadata"].get("deletionTimestamp"):
            cluster.admin.delete(path_to(pod), gracePeriodSeconds=0)
        elif pod["status"].get("phase") == "Pending":
            run(cluster, pod)


def run(cluster: Cluster, pod: Json) -> None:
    """Report that a pod is Ready."""
    scheduled = [each for each in pod["status"].get("conditions", []) if each["type"] == "PodScheduled"]
    status = RUNNING["status"] | {"conditions": [*scheduled, *RUNNING["status"]["conditions"]]}
    cluster.admin.patch(path_to(pod, "status"), {"status": status})
