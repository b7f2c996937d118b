"""The fixture itself: what other tests take for granted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.client import ApiError, path_of
from tests.e2e.cluster import ALICE, NODE
from tests.e2e.nodes import CPU, NODES
from tests.e2e.pods import is_pending, node_of
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.cluster import Cluster
    from tests.e2e.control_plane import ControlPlane


def test_every_node_is_ready_and_has_its_capacity(cluster: Cluster) -> None:
    found = {each["metadata"]["name"]: each for each in cluster.admin.items("Node")}
    assert found.keys() == {each["metadata"]["name"] for each in NODES}
    for node in NODES:
        stored = found[node["metadata"]["name"]]
        assert stored["status"]["allocatable"] == node["status"]["allocatable"]
        assert stored["status"]["conditions"][0]["status"] == "True"
        assert (stored["spec"].get("taints") or []) == node["spec"]["taints"]


@pytest.mark.usefixtures("scheduler")
def test_a_plain_pod_is_bound_to_a_node_without_a_taint(cluster: Cluster, namespace: str) -> None:
    with cluster.cordoned("decoy-1"):
        cluster.admin.create(pod("plain", namespace))
        assert node_of(cluster, namespace, "plain") in CPU


@pytest.mark.usefixtures("scheduler")
def test_a_gpu_pod_that_tolerates_nothing_stays_pending_for_the_taint(
    cluster: Cluster, namespace: str
) -> None:
    with cluster.cordoned("decoy-1"):
        cluster.admin.create(pod("gpu", namespace, gpus=1))
        reason = wait_for(lambda: is_pending(cluster, namespace, "gpu"), "the scheduler says why")
    assert "untolerated taint" in reason


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("time", ["first", "second"])
def test_the_whole_capacity_is_there_for_the_next_test(cluster: Cluster, namespace: str, time: str) -> None:
    cluster.admin.create(pod("all", namespace, gpus=8))
    assert node_of(cluster, namespace, "all") == "decoy-1"


def test_an_ordinary_user_makes_pods_and_no_nodes(cluster: Cluster, namespace: str) -> None:
    cluster.client(ALICE).create(pod("mine", namespace))
    with pytest.raises(ApiError) as refused:
        cluster.client(ALICE).delete(path_of("Node", name="cpu-1"))
    assert refused.value.status == 403


def test_a_node_may_only_touch_itself(cluster: Cluster) -> None:
    own = cluster.client(NODE).read("Node", "", "h100-1")
    with pytest.raises(ApiError) as refused:
        cluster.client(NODE).patch(path_of("Node", name="h100-2", subresource="status"), {"status": {}})
    assert (own["metadata"]["name"], refused.value.status) == ("h100-1", 403)


def test_kubectl_is_of_the_same_version_and_asks_as_the_user(cluster: Cluster, namespace: str) -> None:
    version = cluster.kubectl("version", "-o", "json")
    assert version.out.count('"gitVersion": "v1.36.3"') == 2, version
    whoami = cluster.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", user=ALICE)
    assert whoami.out == ALICE
    ran = cluster.kubectl("get", "pod", "nobody", namespace=namespace)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == 'Error from server (NotFound): pods "nobody" not found\n'


def test_what_a_test_changes_in_the_whole_cluster_is_taken_back(cluster: Cluster) -> None:
    cluster.remove_priority_class("ai-train-high")
    cluster.admin.patch(path_of("Node", name="cpu-1"), {"spec": {"unschedulable": True}})
    cluster.add_priority_class("mine", 7, globalDefault=True)
    cluster.reset()
    classes = {each["metadata"]["name"]: each["value"] for each in cluster.admin.items("PriorityClass")}
    assert {name: value for name, value in classes.items() if not name.startswith("system-")} == {
        "ai-train-high": 1000000,
        "ai-inference": 1000000,
        "ai-interactive": 100000,
    }
    assert "unschedulable" not in cluster.admin.read("Node", "", "cpu-1")["spec"]


def test_the_audit_log_tells_of_a_creation(cluster: Cluster, namespace: str) -> None:
    cluster.admin.create(pod("seen", namespace))
    found = wait_for(
        lambda: cluster.audit_events(resource="pods", namespace=namespace, name="seen"), "the audit event"
    )
    assert found[0]["user"]["username"] == "admin"


def test_a_private_api_server_keeps_its_data_when_it_is_started_again(
    own_control_plane: ControlPlane,
) -> None:
    admin = own_control_plane.cluster.admin
    own_control_plane.stop_api_server()
    with pytest.raises(ApiError) as gone:
        admin.get("/readyz")
    own_control_plane.start_api_server()
    assert gone.value.status == 0
    assert len(admin.items("Node")) == len(NODES)


def test_two_namespaces_of_a_test(add_namespace: Callable[..., str], cluster: Cluster) -> None:
    names = {add_namespace(), add_namespace("other", {"team": "b"})}
    assert len(names) == 2
    assert all(cluster.admin.exists(path_of("Namespace", name=name)) for name in names)
