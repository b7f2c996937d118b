"""Ways past a policy that people try after the creation of a pod, or by what the pod says of itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.client import JSON_PATCH, STRATEGIC_PATCH, ApiError, Json, path_of
from tests.e2e.cluster import ALICE, NODE
from tests.e2e.nodes import GPU
from tests.e2e.podgate import SHIPPED, SITE, Podgate, write_policies
from tests.e2e.workloads import container, pod

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.client import Client
    from tests.e2e.cluster import Cluster

GPU_TAINT = {"key": GPU, "operator": "Exists"}
NO_TAINT_OF_OURS = {"key": "example.com/spot", "operator": "Exists"}
GATED: Json = {"schedulingGates": [{"name": "example.com/wait"}]}
ALL_DEVICES = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
TOO_MANY = "16 nvidia.com/gpu asked, at most 8 per pod"
TOLERATES = "the pod asks for no accelerator but tolerates nvidia.com/gpu, the taint that keeps accelerator nodes free"
PINNED = (
    "the pod asks for 1 nvidia.com/gpu and is pinned to node h100-1, past the scheduler, which alone knows where devices"
    " are free"
)


def faults(way: Callable[[], object]) -> list[str]:
    """What podgate says of it; [] where it is let through. Whatever else refuses it is an error of the test."""
    try:
        way()
    except ApiError as error:
        if (error.status, error.reason) != (403, "Forbidden") or "podgate.dev" not in error.message:
            raise
        return [str(cause["message"]) for cause in error.causes]
    return []


@pytest.fixture
def alice(cluster: Cluster, namespace: str) -> Client:
    """She may also change subresources of pods, as who debugs them does."""
    names = ["pods/resize", "pods/ephemeralcontainers"]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "debug", "namespace": namespace},
    }
    cluster.admin.create(
        role
        | {
            "kind": "Role",
            "rules": [{"apiGroups": [""], "resources": names, "verbs": ["get", "update", "patch"]}],
        }
    )
    group = "rbac.authorization.k8s.io"
    cluster.admin.create(
        role
        | {
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "debug"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": ALICE}],
        }
    )
    return cluster.client(ALICE)


def spec_of(cluster: Cluster, namespace: str, name: str) -> Json:
    spec: Json = cluster.admin.read("Pod", namespace, name)["spec"]
    return spec


@pytest.mark.usefixtures("podgate")
def test_a_toleration_added_by_an_update_is_refused_however_it_is_sent(
    cluster: Cluster, namespace: str, alice: Client
) -> None:
    alice.create(pod("p", namespace, **GATED))  # gated, so that nobody else changes it meanwhile
    stored = cluster.admin.read("Pod", namespace, "p")
    path, tolerations = path_of("Pod", namespace, "p"), stored["spec"]["tolerations"]
    more: Json = {"spec": {"tolerations": [*tolerations, GPU_TAINT]}}
    ways: dict[str, Callable[[], object]] = {
        "put": partial(alice.update, stored | {"spec": stored["spec"] | more["spec"]}),
        "merge patch": partial(alice.patch, path, more),
        "JSON patch": partial(
            alice.patch,
            path,
            [{"op": "add", "path": "/spec/tolerations/0", "value": GPU_TAINT}],
            content=JSON_PATCH,
        ),
        "strategic merge patch": partial(alice.patch, path, more, content=STRATEGIC_PATCH),
        "server-side apply": partial(alice.apply, pod("p", namespace, **more["spec"])),
    }
    assert {name: faults(way) for name, way in ways.items()} == {name: [TOLERATES] for name in ways}
    everything = {"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}
    assert faults(partial(alice.patch, path, [everything], content=JSON_PATCH)) == [
        "the pod asks for no accelerator but tolerates every taint, so it may land on accelerator nodes"
    ]
    assert spec_of(cluster, namespace, "p")["tolerations"] == tolerations
    other = {"op": "add", "path": "/spec/tolerations/-", "value": NO_TAINT_OF_OURS}
    assert faults(partial(alice.patch, path, [other], content=JSON_PATCH)) == []
    assert spec_of(cluster, namespace, "p")["tolerations"] == [*tolerations, NO_TAINT_OF_OURS]


def required(key: str, operator: str, *values: str) -> Json:
    requirement: Json = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def aims(at: str) -> str:
    return f"the pod asks for no accelerator but its placement ({at}) takes it to accelerator nodes"


def leaves(by: str) -> str:
    return f"the pod asks for 1 nvidia.com/gpu but its placement ({by}) keeps it off the nodes that have them"


@pytest.mark.usefixtures("podgate")
def test_a_gated_pod_cannot_be_sent_elsewhere_before_its_gate_opens(
    cluster: Cluster, namespace: str, alice: Client
) -> None:
    """Where a pod has a scheduling gate, its node selector and affinity may still be narrowed."""
    alice.create(pod("plain", namespace, **GATED))
    alice.create(pod("gpu", namespace, 1, **GATED))
    tried = [
        ("plain", {"nodeSelector": {"nvidia.com/gpu.present": "true"}}),
        ("plain", required("nvidia.com/gpu.present", "Exists")),
        ("plain", {"nodeSelector": {"example.com/disk": "ssd"}}),
        ("gpu", {"nodeSelector": {"nvidia.com/gpu.present": "false"}}),
        ("gpu", {"nodeSelector": {"accelerator": "huawei-Ascend910"}}),
        ("gpu", {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}),
        ("plain", {"schedulingGates": None}),
        ("gpu", {"schedulingGates": None}),
    ]
    found = [
        faults(partial(alice.patch, path_of("Pod", namespace, name), {"spec": spec})) for name, spec in tried
    ]
    assert found == [
        [aims("nvidia.com/gpu.present In [true]")],
        [aims("nvidia.com/gpu.present Exists")],
        [],
        [leaves("nvidia.com/gpu.present In [false]")],
        [
            "the pod asks for 1 nvidia.com/gpu but its placement (accelerator In [huawei-Ascend910]) takes it to nodes of huawei"
        ],
        [],
        [],
        [],
    ]
    selectors = {name: spec_of(cluster, namespace, name)["nodeSelector"] for name in ("plain", "gpu")}
    assert selectors == {
        "plain": {"example.com/disk": "ssd"},
        "gpu": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    }


def raised(*names: str) -> Json:
    """The site's word: warnings of these shipped policies become refusals."""
    return {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicyOverride",
        "metadata": {"name": "raised"},
        "spec": {"policies": list(names), "match": {"accelerators": {}}, "mode": "enforce"},
    }


@pytest.fixture
def strict(start_podgate: Callable[..., Podgate], register: Callable[..., None], tmp_path: Path) -> Podgate:
    """The shipped policies, with what they warn of as a refusal."""
    site = write_policies(tmp_path / "site", raised("resources-per-gpu", "overcommit", "no-privileged"))
    podgate = start_podgate((SHIPPED, SITE, site))
    register(podgate)
    return podgate


@pytest.mark.usefixtures("strict")
def test_a_resize_is_held_to_the_limits_of_the_creation(
    cluster: Cluster, namespace: str, alice: Client
) -> None:
    alice.create(pod("p", namespace, 1))

    def resized(**resources: Json) -> list[str]:
        change = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        path = path_of("Pod", namespace, "p", "resize")
        return faults(partial(alice.patch, path, change, content=STRATEGIC_PATCH))

    before = spec_of(cluster, namespace, "p")["containers"][0]["resources"]
    assert resized(requests={"cpu": "64"}) == [
        "cpu: 64 asked for 1 nvidia.com/gpu, at most 16 per accelerator"
    ]
    assert resized(limits={"cpu": "8"}) == ["cpu: the limit 8 is more than 4 times the request 1"]
    assert spec_of(cluster, namespace, "p")["containers"][0]["resources"] == before
    assert resized(requests={"cpu": "2"}, limits={"cpu": "8"}) == []
    after = spec_of(cluster, namespace, "p")["containers"][0]["resources"]
    assert (after["requests"]["cpu"], after["limits"]["cpu"]) == ("2", "8")


@pytest.mark.usefixtures("strict")
def test_an_ephemeral_container_gets_no_devices(cluster: Cluster, namespace: str, alice: Client) -> None:
    alice.create(pod("plain", namespace))
    alice.create(pod("gpu", namespace, 1))

    def debugged(target: str, **more: Any) -> list[str]:
        change = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"} | more]}}
        path = path_of("Pod", namespace, target, "ephemeralcontainers")
        return faults(partial(alice.patch, path, change, content=STRATEGIC_PATCH))

    takes = (
        "ephemeral container debug sets NVIDIA_VISIBLE_DEVICES, which gives it accelerators that others hold"
    )
    assert debugged("plain", env=ALL_DEVICES) == [takes]
    assert debugged("gpu", env=ALL_DEVICES) == [takes]
    assert debugged("gpu", securityContext={"privileged": True}) == [
        "container debug is privileged, which gives it every device of the node past the scheduler"
    ]
    assert debugged("gpu") == []
    names = [each["name"] for each in spec_of(cluster, namespace, "gpu")["ephemeralContainers"]]
    assert names == ["debug"]
    assert "ephemeralContainers" not in spec_of(cluster, namespace, "plain")


def owned_by_a_daemon_set(thing: Json) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}
    return thing | {"metadata": thing["metadata"] | {"ownerReferences": [owner]}}


def forged(namespace: str) -> dict[str, Json]:
    """Pods of an ordinary user that say of themselves what would exempt them."""
    mirror = {"kubernetes.io/config.mirror": "0", "kubernetes.io/config.source": "file"}
    ours = {f"podgate.dev/{name}": "9b60a0e4af93" for name in ("changes", "policies", "decision")}
    skip = {"podgate.dev/skip": "gpu-limits: urgent; gpu-limits/cap: urgent; *: urgent"}
    deleted = pod("deleted", namespace, 16)
    deleted["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return {
        "a DaemonSet as owner": owned_by_a_daemon_set(pod("owned", namespace, tolerations=[GPU_TAINT])),
        "a mirror pod": pod("mirror", namespace, 1, nodeName="h100-1", annotations=mirror),
        "an opt-out that is not allowed": pod("skip", namespace, 16, annotations=skip),
        "an opt-out as a label": pod("label", namespace, 16, labels={"podgate.dev/skip": "gpu-limits"}),
        "the record of a decision": pod("record", namespace, 16, annotations=ours),
        "already being deleted": deleted,
        "labels of other engines": pod(
            "other",
            namespace,
            16,
            labels={"admission.gatekeeper.sh/ignore": "true", "control-plane": "controller-manager"},
        ),
        "the DaemonSet's own toleration": pod(
            "tolerating",
            namespace,
            tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, GPU_TAINT],
        ),
    }


FORGED = {
    "a DaemonSet as owner": [TOLERATES],
    "a mirror pod": [PINNED],
    "an opt-out that is not allowed": [TOO_MANY],
    "an opt-out as a label": [TOO_MANY],
    "the record of a decision": [TOO_MANY],
    "already being deleted": [TOO_MANY],
    "labels of other engines": [TOO_MANY],
    "the DaemonSet's own toleration": [TOLERATES],
}


@pytest.mark.usefixtures("podgate")
@pytest.mark.parametrize("way", ["create", "apply"])
def test_what_a_pod_says_of_itself_exempts_it_from_nothing(
    cluster: Cluster, namespace: str, alice: Client, way: str
) -> None:
    pods = forged(namespace)
    assert {name: faults(partial(getattr(alice, way), thing)) for name, thing in pods.items()} == FORGED
    assert cluster.admin.items("Pod", namespace) == []


@pytest.mark.usefixtures("podgate")
def test_a_node_makes_no_pods_but_mirrors_of_its_own(cluster: Cluster, namespace: str) -> None:
    """What podgate lets nodes do, the API server's NodeRestriction bounds."""
    with pytest.raises(ApiError) as refused:
        cluster.client(NODE).create(pod("p", namespace, 16))
    assert refused.value.message == (
        'pods "p" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, node "h100-1" can only create'
        " mirror pods"
    )


def test_an_opt_out_lifts_what_allows_it_and_nothing_else(
    cluster: Cluster, namespace: str, podgate: Podgate
) -> None:
    reason = {"podgate.dev/skip": "gpu-counts: the model has three heads; gpu-limits: urgent"}
    alice = cluster.client(ALICE)
    told = alice.call("POST", path_of("Pod", namespace), pod("told", namespace, 3))
    assert told.warnings == (
        "[gpu-counts/divides] 3 nvidia.com/gpu asked, only 1, 2, 4, 8, 16 are allowed per container",
        "[gpu-counts/divides] do: ask for one of 1, 2, 4, 8, 16 in this container",
    )
    quiet = alice.call("POST", path_of("Pod", namespace), pod("quiet", namespace, 3, annotations=reason))
    assert quiet.warnings == ()
    assert podgate.metric("podgate_policy_results_total", policy="gpu-counts", result="skip") == 1
    assert faults(partial(alice.create, pod("p", namespace, 9, annotations=reason))) == [
        "9 nvidia.com/gpu asked, at most 8 per pod"
    ]


OURS = tuple(f"podgate.dev/{name}" for name in ("changes", "policies", "decision"))


def record_of(thing: Json) -> Json:
    return {key: text for key, text in (thing["metadata"].get("annotations") or {}).items() if key in OURS}


@pytest.mark.parametrize(
    ("gpus", "decisions"),
    [
        pytest.param(0, ["mutate"], id="a plain pod"),
        pytest.param(1, ["mutate", "allow"], id="a pod that is changed"),
    ],
)
def test_a_forged_record_is_taken_away(
    cluster: Cluster, namespace: str, podgate: Podgate, gpus: int, decisions: list[str]
) -> None:
    """What is changed gets no record in place of the forged one, so that the late entry is called, too."""
    annotations = dict.fromkeys(OURS, "9b60a0e4af93") | {"example.com/mine": "stays"}
    cluster.client(ALICE).create(pod("p", namespace, gpus, annotations=annotations))
    stored = cluster.admin.read("Pod", namespace, "p")
    assert record_of(stored) == {}
    assert stored["metadata"]["annotations"]["example.com/mine"] == "stays"
    assert [each["decision"] for each in podgate.reviews(namespace=namespace, webhook="mutate")] == decisions


def test_a_forged_hash_buys_no_grace(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
) -> None:
    """While replicas change their policies, what another set changed is only warned of: the record tells, unless forged."""
    policy = {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicy",
        "metadata": {"name": "label"},
        "spec": {
            "mode": "enforce",
            "match": {"accelerators": {}},
            "rules": [{"name": "team", "setFields": {"labels": {"team": "ai"}}, "verify": "fail"}],
        },
    }
    podgate = start_podgate((write_policies(tmp_path / "policies", policy),), settled=True)
    register(podgate, change=_without_mutation)
    thing = pod("p", namespace, 1, annotations={"podgate.dev/policies": "000000000000"})
    assert faults(partial(cluster.client(ALICE).create, thing)) == [
        "not applied: the mutating call was missed, or a later webhook undid it (metadata.labels.team)"
    ]


def _without_mutation(configuration: Json) -> None:
    if configuration["kind"] == "MutatingWebhookConfiguration":
        configuration["webhooks"] = []


def test_the_parts_of_a_pod_are_judged_together(cluster: Cluster, namespace: str, podgate: Podgate) -> None:
    """Containers of every sort, and requests without limits, which the API server completes or refuses."""
    side = container("side", 5)
    several = pod("several", namespace, 5)
    several["spec"]["containers"].append(side)
    sidecar = pod("sidecar", namespace, 5)
    sidecar["spec"]["initContainers"] = [side | {"restartPolicy": "Always"}]
    alice = cluster.client(ALICE)
    found = {each["metadata"]["name"]: faults(partial(alice.create, each)) for each in (several, sidecar)}
    assert found == {name: ["10 nvidia.com/gpu asked, at most 8 per pod"] for name in found}
    assert len(podgate.reviews(namespace=namespace, decision="deny")) == len(found)
