"""Where pods are, and how they ended up there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.e2e.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.e2e.client import Json
    from tests.e2e.cluster import Cluster

BIND_SECONDS = 20


def node_of(cluster: Cluster, namespace: str, name: str, seconds: float = BIND_SECONDS) -> str:
    """The node that a pod is bound to, once it is."""

    def bound() -> str:
        pod = cluster.admin.read("Pod", namespace, name)
        node: str = pod["spec"].get("nodeName", "")
        assert node, pod["status"]
        return node

    return wait_for(bound, f"{namespace}/{name} is bound", seconds)


def bound_pods(
    cluster: Cluster,
    namespace: str,
    count: int,
    *,
    having: Callable[[Json], bool] = lambda _: True,
    seconds: float = BIND_SECONDS,
) -> list[Json]:
    """So many pods of a namespace, once all of them are there and bound; sorted by name."""

    def all_bound() -> list[Json]:
        pods = [pod for pod in cluster.admin.items("Pod", namespace) if having(pod)]
        assert len(pods) == count, [pod["metadata"]["name"] for pod in pods]
        assert all(pod["spec"].get("nodeName") for pod in pods), [pod["status"] for pod in pods]
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    return wait_for(all_bound, f"{count} bound pods in {namespace}", seconds)


def nodes_of(pods: list[Json]) -> set[str]:
    """The nodes of bound pods."""
    return {pod["spec"]["nodeName"] for pod in pods}


def is_pending(cluster: Cluster, namespace: str, name: str) -> str:
    """Why the scheduler cannot bind a pod; "" as long as it has not said so."""
    return reason_of_pending(cluster.admin.read("Pod", namespace, name))


def reason_of_pending(pod: Mapping[str, Any]) -> str:
    """The message of the condition PodScheduled where it is False."""
    if pod["spec"].get("nodeName"):
        return ""
    conditions = pod["status"].get("conditions") or []
    found = (each for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False")
    return next((str(each["message"]) for each in found if each["reason"] == "Unschedulable"), "")
