"""What podgate must never hold up, whatever the policies are, and whether it answers or not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.e2e.client import ApiError, Json, path_of, path_to
from tests.e2e.cluster import ALICE, NODE
from tests.e2e.nodes import GPU, NODES
from tests.e2e.podgate import SHIPPED, SITE, Podgate, write_policies
from tests.e2e.pods import bound_pods, node_of
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import container, deployment, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.e2e.cluster import Cluster

GPU_TAINT = {"key": GPU, "operator": "Exists"}
SPOT = {"key": "example.com/spot", "operator": "Exists"}
HOLD = "example.com/hold"
ALL_DEVICES = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
WARNING_POLICIES = (
    "no-privileged",
    "overcommit",
    "rdma-required",
    "resources-per-gpu",
    "training-data",
    "gpu-counts",
)


def all_enforced() -> Json:
    """The site's word: what the shipped policies warn of is refused."""
    return {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicyOverride",
        "metadata": {"name": "all-enforced"},
        "spec": {"policies": list(WARNING_POLICIES), "match": {"all": True}, "mode": "enforce"},
    }


@pytest.fixture
def serve(
    start_podgate: Callable[..., Podgate], register: Callable[..., None], tmp_path: Path
) -> Callable[[], Podgate]:
    """Begin to refuse whatever the shipped policies find."""

    def start() -> Podgate:
        podgate = start_podgate((SHIPPED, SITE, write_policies(tmp_path / "site", all_enforced())))
        register(podgate)
        return podgate

    return start


def violators(namespace: str) -> dict[str, Json]:
    """Pods that podgate would refuse, each held by a finalizer."""
    privileged = container("main", 3, securityContext={"privileged": True})
    pods = [
        pod("limits", namespace, 16),
        pod("pinned", namespace, 1, nodeName="h100-1"),
        pod("guest", namespace, tolerations=[GPU_TAINT, {"operator": "Exists", "effect": "NoSchedule"}]),
        pod("bypass", namespace, containers=[container(env=ALL_DEVICES)]),
        pod(
            "privileged",
            namespace,
            containers=[privileged | {"resources": {"limits": {GPU: "3", "cpu": "99"}}}],
        ),
    ]
    for each in pods:
        each["metadata"]["finalizers"] = [HOLD]
    return {each["metadata"]["name"]: each for each in pods}


def tried(steps: Mapping[str, Callable[[], object]]) -> dict[str, str]:
    """What stood in the way of each step that failed."""
    found = {}
    for name, step in steps.items():
        try:
            step()
        except ApiError as error:
            found[name] = str(error)
    return found


def own_business(cluster: Cluster, thing: Json) -> dict[str, Callable[[], object]]:
    """What users, kubelets and controllers do to a pod, its spec apart."""
    alice, path = cluster.client(ALICE), path_to(thing)
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt"}
    root = cluster.admin.read("ConfigMap", thing["metadata"]["namespace"], owner["name"])
    owners = [owner | {"uid": root["metadata"]["uid"]}]
    return {
        "label": partial(alice.patch, path, {"metadata": {"labels": {"team": "vision"}}}),
        "annotation": partial(alice.patch, path, {"metadata": {"annotations": {"example.com/note": "x"}}}),
        "owner": partial(alice.patch, path, {"metadata": {"ownerReferences": owners}}),
        "status": partial(cluster.admin.patch, path_to(thing, "status"), running),
    }


def removal(cluster: Cluster, thing: Json) -> dict[str, Callable[[], object]]:
    alice, path = cluster.client(ALICE), path_to(thing)
    return {
        "deletion": partial(alice.delete, path, gracePeriodSeconds=0),
        "label of one that is being deleted": partial(
            alice.patch, path, {"metadata": {"labels": {"team": "x"}}}
        ),
        "finalizer": partial(alice.patch, path, {"metadata": {"finalizers": None}}),
    }


@pytest.mark.parametrize("answers", [True, False], ids=["podgate answers", "podgate is down"])
def test_a_pod_that_violates_lives_and_ends_as_any_other(
    cluster: Cluster, namespace: str, serve: Callable[[], Podgate], answers: bool
) -> None:
    """It was there before podgate. Nobody asks podgate, so that it makes no difference whether it answers."""
    pods = [cluster.client(ALICE).create(each) for each in violators(namespace).values()]
    podgate = serve()
    if not answers:
        podgate.stop()
    for each in pods:
        steps = own_business(cluster, each) | removal(cluster, each)
        assert tried(steps) == {}, each["metadata"]["name"]
    wait_for(lambda: not cluster.admin.items("Pod", namespace), "all are gone")
    assert podgate.reviews(namespace=namespace) == []


def test_an_update_of_its_spec_is_judged_by_what_it_brings(
    cluster: Cluster, namespace: str, serve: Callable[[], Podgate]
) -> None:
    """Nobody can mend what is fixed at creation: it must not hold up what may change."""
    pods = [cluster.client(ALICE).create(each) for each in violators(namespace).values()]
    podgate = serve()
    for each in pods:
        path, name = path_to(each), each["metadata"]["name"]
        stored = cluster.admin.get(path)
        image = [
            {"op": "replace", "path": "/spec/containers/0/image", "value": "registry.example.org/ai/main:1.1"}
        ]
        spot = [{"op": "add", "path": "/spec/tolerations/0", "value": SPOT}]
        change = partial(cluster.client(ALICE).patch, path, content="application/json-patch+json")
        steps = {
            "image": partial(change, image),
            "another toleration, before all others": partial(change, spot),
        }
        assert tried(steps) == {}, name
        after = cluster.admin.get(path)["spec"]
        assert after["tolerations"] == [SPOT, *stored["spec"]["tolerations"]]
    updates = podgate.reviews(namespace=namespace, operation="UPDATE")
    assert {each["decision"] for each in updates} == {"allow"}
    assert {each["name"] for each in updates} == violators(namespace).keys()


def test_a_pod_from_the_time_when_podgate_was_down_is_scheduled_and_evicted(
    cluster: Cluster, namespace: str, scheduler: None, serve: Callable[[], Podgate]
) -> None:
    """Binding and eviction are no business of a gate."""
    guest = pod(
        "guest", namespace, tolerations=[GPU_TAINT], nodeSelector={"kubernetes.io/hostname": "h100-1"}
    )
    with cluster.cordoned("h100-1"):
        cluster.client(ALICE).create(guest)
        podgate = serve()
    assert node_of(cluster, namespace, "guest") == "h100-1"
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "guest", "namespace": namespace},
        "deleteOptions": {"gracePeriodSeconds": 0},
    }
    cluster.client(ALICE).call("POST", path_of("Pod", namespace, "guest", "eviction"), eviction)
    wait_for(lambda: not cluster.admin.exists(path_of("Pod", namespace, "guest")), "it is gone")
    assert podgate.reviews(namespace=namespace) == []


@pytest.mark.parametrize("answers", [True, False], ids=["podgate answers", "podgate is down"])
def test_a_namespace_full_of_violations_can_be_deleted(
    cluster: Cluster, add_namespace: Callable[..., str], serve: Callable[[], Podgate], answers: bool
) -> None:
    name = add_namespace("doomed", {"pod-security.kubernetes.io/enforce": "privileged"})
    for each in violators(name).values():
        cluster.admin.create(each | {"metadata": each["metadata"] | {"finalizers": []}})
    cluster.admin.create(deployment("web", name, {"containers": [container(gpus=16)]}, replicas=2))
    wait_for(lambda: len(cluster.admin.items("Pod", name)) == 7, "the Deployment has its pods")
    podgate = serve()
    if not answers:
        podgate.stop()
    cluster.admin.delete(path_of("Namespace", name=name))

    def is_gone() -> bool:
        for each in cluster.admin.items("Pod", name):  # those that are bound wait for a kubelet
            cluster.end_pod(each)
        return not cluster.admin.exists(path_of("Namespace", name=name))

    wait_for(is_gone, "the namespace is gone", 60)
    assert podgate.reviews(namespace=name, kind="Pod", operation="UPDATE") == []
    assert podgate.reviews(namespace=name, decision="deny", operation="DELETE") == []


def daemon_set(namespace: str) -> Json:
    """An agent on every node, which looks at all devices."""
    agent = container("agent", env=ALL_DEVICES)
    own = {"app": "agent"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": own},
            "template": {
                "metadata": {"labels": own},
                "spec": {"containers": [agent], "tolerations": [{"operator": "Exists"}]},
            },
        },
    }


@pytest.mark.usefixtures("scheduler")
def test_the_pods_of_a_daemon_set_reach_every_node(
    cluster: Cluster, namespace: str, serve: Callable[[], Podgate]
) -> None:
    podgate = serve()
    answer = cluster.client(ALICE).call("POST", path_of("DaemonSet", namespace), daemon_set(namespace))
    assert answer.warnings == ()
    pods = bound_pods(cluster, namespace, len(NODES))
    assert sorted(each["spec"]["nodeName"] for each in pods) == sorted(
        each["metadata"]["name"] for each in NODES
    )
    assert podgate.reviews(namespace=namespace, kind="Pod") == []
    assert {each["decision"] for each in podgate.reviews(namespace=namespace)} <= {"allow"}


def test_a_mirror_pod_by_its_node(cluster: Cluster, namespace: str, serve: Callable[[], Podgate]) -> None:
    """The API's picture of a static pod, which runs whatever the API server says."""
    podgate = serve()
    node = cluster.admin.read("Node", "", "h100-1")["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "h100-1", "uid": node["uid"], "controller": True}
    mirror = pod(
        "static-h100-1",
        namespace,
        16,
        annotations={"kubernetes.io/config.mirror": "0", "kubernetes.io/config.source": "file"},
        nodeName="h100-1",
    )
    mirror["metadata"]["ownerReferences"] = [owner]
    cluster.client(NODE).create(mirror)
    assert cluster.admin.read("Pod", namespace, "static-h100-1")["spec"]["nodeName"] == "h100-1"
    assert podgate.reviews(namespace=namespace) == []


@pytest.fixture
def own_namespace(cluster: Cluster) -> Iterator[str]:
    """podgate's own namespace; what an earlier test had there is gone."""
    name, path = "podgate-system", path_of("Namespace", name="podgate-system")
    cluster.admin.delete(path)
    wait_for(lambda: not cluster.admin.exists(path), "an earlier namespace is gone", 60)
    cluster.add_namespace(name, {})
    yield name
    cluster.remove_namespace(name)


def test_nothing_is_asked_of_the_namespaces_of_kubernetes_and_of_podgate(
    cluster: Cluster, own_namespace: str, serve: Callable[[], Podgate]
) -> None:
    """A cluster that cannot start because podgate does not, and podgate that cannot because of itself, must not be."""
    podgate = serve()
    podgate.stop()
    for name in ("kube-system", "kube-public", "kube-node-lease", own_namespace):
        steps = {
            key: partial(cluster.admin.create, each, dryRun="All") for key, each in violators(name).items()
        }
        if name in ("kube-public", "kube-node-lease"):
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": name},
            }
            wait_for(partial(cluster.admin.exists, path_to(account)), "the ServiceAccount")
        assert tried(steps) == {}, name
    assert podgate.reviews() == []
    with pytest.raises(ApiError) as refused:
        cluster.admin.create(violators("default")["limits"], dryRun="All")
    assert refused.value.message.startswith(
        'Internal error occurred: failed calling webhook "fail.validate.podgate.dev"'
    )
