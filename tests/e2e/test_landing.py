"""Pods that go through podgate land where the policy says, with its priority, in the real scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.client import Json, path_of
from tests.e2e.neighbour import gives, neighbour
from tests.e2e.nodes import A100, ASCEND, ASCEND_NODES, CPU, DECOY, GPU, H100, IB, ROCE
from tests.e2e.podgate import SHIPPED, SITE, Podgate, write_policies
from tests.e2e.pods import bound_pods, node_of, nodes_of, reason_of_pending
from tests.e2e.waiting import stays, wait_for
from tests.e2e.workloads import inference, notebook, pod, pytorch_pod, training_job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.cluster import Cluster

pytestmark = pytest.mark.usefixtures("scheduler")

TRAINING = {
    "priorityClassName": "ai-train-high",
    "priority": 1000000,
    "preemptionPolicy": "PreemptLowerPriority",
}
SERVING = {
    "priorityClassName": "ai-inference",
    "priority": 1000000,
    "preemptionPolicy": "PreemptLowerPriority",
}
INTERACTIVE = {"priorityClassName": "ai-interactive", "priority": 100000, "preemptionPolicy": "Never"}

FABRICS = pytest.mark.parametrize(
    ("pool", "nodes", "rdma"),
    [
        pytest.param("h100-ib", H100, {IB: "8"}, id="H100 with InfiniBand"),
        pytest.param("a100-roce", A100, {ROCE: "1"}, id="A100 with RoCE"),
    ],
)
POOLS = pytest.mark.parametrize(
    ("pool", "nodes"), [pytest.param("h100-ib", H100, id="H100"), pytest.param("a100-roce", A100, id="A100")]
)


def gpus_go_to(pool: str) -> Json:
    """The site's choice: GPU pods go to this pool."""
    return {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicyOverride",
        "metadata": {"name": "site-placement"},
        "spec": {
            "policies": ["gpu-placement"],
            "match": {"accelerators": {"resourceNames": [GPU]}},
            "rules": [{"name": "vendor", "setNodeAffinity": {"byVendor": None, "pools": [pool]}}],
        },
    }


@pytest.fixture
def serve(
    start_podgate: Callable[..., Podgate], register: Callable[..., None], tmp_path: Path
) -> Callable[[str], Podgate]:
    """A registered podgate that sends GPU pods to a pool."""

    def start(pool: str) -> Podgate:
        podgate = start_podgate((SHIPPED, SITE, write_policies(tmp_path / "site", gpus_go_to(pool))))
        register(podgate)
        return podgate

    return start


def priority_of(stored: Json) -> Json:
    return {key: stored["spec"].get(key) for key in TRAINING}


def rdma_of(stored: Json) -> Json:
    """The RDMA devices of the first container: limits, to which requests are equal."""
    resources = stored["spec"]["containers"][0]["resources"]
    found = {key: value for key, value in resources["limits"].items() if key.startswith("rdma/")}
    assert {key: resources["requests"].get(key) for key in found} == found
    return found


def decoy_is_empty(cluster: Cluster) -> bool:
    return not cluster.admin.get(path_of("Pod"), fieldSelector=f"spec.nodeName={DECOY}")["items"]


@FABRICS
def test_a_multi_node_training_job(
    cluster: Cluster, namespace: str, serve: Callable[[str], Podgate], pool: str, nodes: set[str], rdma: Json
) -> None:
    serve(pool)
    cluster.admin.create(training_job("pretrain", namespace))
    pods = bound_pods(cluster, namespace, 2)
    assert nodes_of(pods) == nodes
    assert [priority_of(each) for each in pods] == [TRAINING, TRAINING]
    assert [rdma_of(each) for each in pods] == [rdma, rdma]
    capabilities = [each["spec"]["containers"][0]["securityContext"]["capabilities"] for each in pods]
    assert capabilities == [{"add": ["IPC_LOCK"]}] * 2
    assert decoy_is_empty(cluster)


@FABRICS
def test_the_pods_of_a_pytorch_job(
    cluster: Cluster, namespace: str, serve: Callable[[str], Podgate], pool: str, nodes: set[str], rdma: Json
) -> None:
    serve(pool)
    cluster.admin.create(pytorch_pod("llm", namespace, "master", 0))
    cluster.admin.create(pytorch_pod("llm", namespace, "worker", 0))
    pods = bound_pods(cluster, namespace, 2)
    assert nodes_of(pods) == nodes
    assert [priority_of(each) for each in pods] == [TRAINING, TRAINING]
    assert [rdma_of(each) for each in pods] == [rdma, rdma]
    assert decoy_is_empty(cluster)


def said_of(stored: Json) -> Json:
    """All that podgate says it has changed in a pod."""
    annotations = stored["metadata"]["annotations"]
    return {key: annotations[f"podgate.dev/{key}"] for key in ("changes", "policies")}


@FABRICS
def test_what_a_later_webhook_gives_accelerators_lands_as_if_its_author_had_written_them(
    cluster: Cluster,
    namespace: str,
    serve: Callable[[str], Podgate],
    tmp_path: Path,
    pool: str,
    nodes: set[str],
    rdma: Json,
) -> None:
    serve(pool)
    master = pytorch_pod("llm", namespace, "master", 0)
    cluster.admin.create(master)
    with neighbour(cluster, tmp_path / "later", gives(master["spec"]["containers"][0]["resources"])):
        cluster.admin.create(pytorch_pod("llm", namespace, "worker", 0, gpus=0))
    pods = written, given = bound_pods(cluster, namespace, 2)
    assert said_of(given) == said_of(written)
    assert nodes_of(pods) == nodes
    assert (priority_of(given), rdma_of(given)) == (TRAINING, rdma)
    for part in ("affinity", "tolerations", "volumes"):
        assert without_token(given["spec"][part]) == without_token(written["spec"][part])


def without_token(part: Any) -> Any:
    """The volume of the token has a name of its own in each pod."""
    is_list = isinstance(part, list)
    return [each for each in part if "projected" not in each] if is_list else part


@POOLS
def test_an_inference_deployment(
    cluster: Cluster, namespace: str, serve: Callable[[str], Podgate], pool: str, nodes: set[str]
) -> None:
    serve(pool)
    cluster.admin.create(inference("chat", namespace, gpus=4, replicas=4))
    pods = bound_pods(cluster, namespace, 4)
    assert nodes_of(pods) == nodes
    assert [priority_of(each) for each in pods] == [SERVING] * 4
    assert [rdma_of(each) for each in pods] == [{}] * 4
    assert decoy_is_empty(cluster)


@POOLS
def test_a_notebook_of_a_stateful_set(
    cluster: Cluster, namespace: str, serve: Callable[[str], Podgate], pool: str, nodes: set[str]
) -> None:
    serve(pool)
    cluster.admin.create(notebook("explore", namespace))
    (stored,) = bound_pods(cluster, namespace, 1)
    assert stored["spec"]["nodeName"] in nodes
    assert priority_of(stored) == INTERACTIVE
    assert rdma_of(stored) == {}
    assert decoy_is_empty(cluster)


def test_an_ascend_pod_goes_to_the_ascend_node(
    cluster: Cluster, namespace: str, serve: Callable[[str], Podgate]
) -> None:
    serve("h100-ib")
    cluster.admin.create(pod("npu", namespace, gpus=4, resource=ASCEND))
    assert node_of(cluster, namespace, "npu") in ASCEND_NODES
    assert decoy_is_empty(cluster)


def test_a_plain_pod_is_left_alone(cluster: Cluster, namespace: str, serve: Callable[[str], Podgate]) -> None:
    serve("h100-ib")
    with cluster.cordoned(DECOY):
        cluster.admin.create(pod("web", namespace))
        assert node_of(cluster, namespace, "web") in CPU
    stored = cluster.admin.read("Pod", namespace, "web")
    assert "affinity" not in stored["spec"]
    assert not stored["metadata"].get("annotations")


def test_the_pool_changes_when_only_the_policy_changes(
    cluster: Cluster, namespace: str, serve: Callable[[str], Podgate], tmp_path: Path
) -> None:
    podgate = serve("h100-ib")
    cluster.admin.create(inference("before", namespace))
    loads = podgate.metric("podgate_policy_reload_total", result="success")
    write_policies(tmp_path / "site", gpus_go_to("a100-roce"))
    wait_for(
        lambda: podgate.metric("podgate_policy_reload_total", result="success") > loads,
        "the changed policy is in force",
    )
    cluster.admin.create(inference("after", namespace))
    landed = {
        each["metadata"]["labels"]["app"]: each["spec"]["nodeName"]
        for each in bound_pods(cluster, namespace, 2)
    }
    assert landed["before"] in H100
    assert landed["after"] in A100


def one_pod(cluster: Cluster, namespace: str) -> Json:
    (stored,) = wait_for(lambda: cluster.admin.items("Pod", namespace), "the Deployment's pod")
    return stored


def test_without_podgate_the_same_deployment_stays_pending(
    cluster: Cluster, namespace: str, add_namespace: Callable[..., str], serve: Callable[[str], Podgate]
) -> None:
    with cluster.cordoned(DECOY):
        cluster.admin.create(inference("chat", namespace))
        wait_for(lambda: reason_of_pending(one_pod(cluster, namespace)), "the scheduler finds no node")
        serve("h100-ib")
        beside = add_namespace("beside")
        cluster.admin.create(inference("chat", beside))
        assert nodes_of(bound_pods(cluster, beside, 1)) <= H100
        stays(lambda: reason_of_pending(one_pod(cluster, namespace)), "pending without podgate", seconds=2)


def test_without_podgate_the_same_deployment_lands_on_the_decoy(cluster: Cluster, namespace: str) -> None:
    cluster.admin.create(inference("chat", namespace))
    assert nodes_of(bound_pods(cluster, namespace, 1)) == {DECOY}


@pytest.mark.usefixtures("kubelet")
def test_a_training_pod_preempts_a_notebook(
    cluster: Cluster, namespace: str, serve: Callable[[str], Podgate]
) -> None:
    serve("h100-ib")
    for number in range(2):  # all GPUs of the pool
        cluster.admin.create(notebook(f"explore-{number}", namespace, gpus=8))
    running = bound_pods(cluster, namespace, 2)
    assert nodes_of(running) == H100
    cluster.admin.create(pytorch_pod("llm", namespace, "worker", 0, workers=1))
    landed = node_of(cluster, namespace, "llm-worker-0")
    assert landed in H100
    preempted = cluster.events(namespace, "Preempted")
    assert len(preempted) == 1, preempted
    left = [
        each for each in cluster.admin.items("Pod", namespace) if each["metadata"]["uid"] in uids(running)
    ]
    assert nodes_of(left) == H100 - {landed}


@pytest.mark.usefixtures("kubelet")
def test_a_notebook_preempts_nobody(
    cluster: Cluster, namespace: str, serve: Callable[[str], Podgate]
) -> None:
    serve("h100-ib")
    cluster.add_priority_class("batch", 1)
    for number in range(2):
        cluster.admin.create(pod(f"batch-{number}", namespace, gpus=8, priorityClassName="batch"))
    running = bound_pods(cluster, namespace, 2)
    cluster.admin.create(notebook("explore", namespace))
    wait_for(
        lambda: reason_of_pending(cluster.admin.read("Pod", namespace, "explore-0")), "the notebook waits"
    )
    stays(
        lambda: uids(cluster.admin.items("Pod", namespace)) >= uids(running),
        "everybody is left running",
        seconds=2,
    )


def uids(pods: list[Any]) -> set[str]:
    return {each["metadata"]["uid"] for each in pods}
