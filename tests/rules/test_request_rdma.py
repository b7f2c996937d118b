"""requestRDMA: who gets nothing and why, how much the others get and where, and what comes with it."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.rules.reviewing import (
    GPU,
    NAMESPACE,
    Json,
    container,
    gate_of,
    judged,
    load_problems,
    managed,
    mutated,
    places,
    pod,
    policy,
    pool,
    report,
    said,
    texts,
    without_record,
)
from webhook.engine import Gate
from webhook.rules.base import Result

IB = "rdma/ib"
SLOT: Json = {"resourceNames": [IB], "per": "container", "count": 1}
PER_DEVICE: Json = {"resourceNames": ["vke.volcengine.com/rdma"], "per": "accelerator", "count": 1}
PER_NODE: Json = {"resourceNames": ["vpc.amazonaws.com/efa"], "per": "node", "count": 32}
RAILS: Json = {
    "resourceNames": ["spidernet.io/gpu1sriov", "spidernet.io/gpu2sriov"],
    "per": "container",
    "count": 1,
}


def fabric(name: str = "h100", rdma: Json | None = SLOT, label: str = "", **spec: Any) -> Json:
    labels = {"nvidia.com/gpu.present": "true", "gpu": label or name}
    return pool(
        name,
        resourceNames=[GPU],
        nodeLabels=labels,
        devicesPerNode=8,
        **({"rdma": rdma} if rdma else {}),
        **spec,
    )


def level(value: str | None = "privileged", **annotations: str) -> Json:
    labels = {} if value is None else {"pod-security.kubernetes.io/enforce": value}
    return {
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": labels, "annotations": annotations},
    }


def rdma_gate(
    *pools: Json, facts: tuple[Json, ...] = (level(),), security: str | None = None, **rule: Any
) -> Gate:
    parameters = {"fromPool": True} | rule if "resourceNames" not in rule else rule
    return gate_of(
        policy({"requestRDMA": parameters}), *(pools or (fabric(),)), facts=facts, security=security
    )


def claim(*classes: str) -> Json:
    requests = [{"name": f"r{i}", "exactly": {"deviceClassName": each}} for i, each in enumerate(classes)]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": NAMESPACE},
        "spec": {"devices": {"requests": requests}},
    }


CLAIMS = [{"name": "d", "resourceClaimName": "claim"}]
TRAINER = container("trainer", {GPU: "8"})


def with_fields(thing: Json, *paths: tuple[str, ...]) -> Json:
    return {**thing, "metadata": {**thing["metadata"], "managedFields": managed(*paths)}}


def field(part: str, name: str = IB, of: str = "trainer") -> tuple[str, ...]:
    return ("spec", "containers", f'k:{{"name":"{of}"}}', "resources", part, name)


UNTOUCHED: Mapping[str, tuple[Gate, Json, str]] = {
    "no accelerator": (
        rdma_gate(),
        pod(container()),
        "skip: no container of the pod holds an accelerator -> nothing: RDMA goes where the accelerators are",
    ),
    "zero accelerators": (
        rdma_gate(),
        pod(container(resources={GPU: "0"})),
        "skip: no container of the pod holds an accelerator -> nothing: RDMA goes where the accelerators are",
    ),
    "a claim for a NIC only": (
        rdma_gate(facts=(level(), claim("dranet"))),
        pod(container(resources={}) | {"resources": {"claims": [{"name": "d"}]}}, resourceClaims=CLAIMS),
        "skip: no container of the pod holds an accelerator -> nothing: RDMA goes where the accelerators are",
    ),
    "the host's network": (
        rdma_gate(),
        pod(TRAINER, hostNetwork=True),
        (
            "skip: the pod uses the host's network, so no RDMA is added"
            " -> nothing, or remove hostNetwork if podgate shall request RDMA"
        ),
    ),
    "/dev/infiniband": (
        rdma_gate(),
        pod(TRAINER, volumes=[{"name": "v"}, {"name": "ib", "hostPath": {"path": "/dev/infiniband"}}]),
        (
            "skip: the pod mounts /dev/infiniband of the node, so no RDMA is added"
            " -> nothing, or remove the volume if podgate shall request RDMA"
        ),
    ),
    "one device of it, by a path that goes round": (
        rdma_gate(),
        pod(TRAINER, volumes=[{"name": "ib", "hostPath": {"path": "/dev//shm/../infiniband/uverbs0"}}]),
        (
            "skip: the pod mounts /dev//shm/../infiniband/uverbs0 of the node, so no RDMA is added"
            " -> nothing, or remove the volume if podgate shall request RDMA"
        ),
    ),
    "Multus gives it networks": (
        rdma_gate(),
        pod(TRAINER, metadata={"annotations": {"k8s.v1.cni.cncf.io/networks": "rdma-vf"}}),
        (
            "skip: annotation k8s.v1.cni.cncf.io/networks gives the pod its network devices, so no RDMA is added"
            " -> nothing, or remove the annotation if podgate shall request RDMA"
        ),
    ),
    "Spiderpool injects, by the namespace's annotation": (
        rdma_gate(facts=(level("privileged", **{"cni.spidernet.io/rdma-resource-inject": "rail"}),)),
        pod(TRAINER),
        (
            "skip: annotation cni.spidernet.io/rdma-resource-inject gives the pod its network devices, so no RDMA is added"
            " -> nothing, or remove the annotation if podgate shall request RDMA"
        ),
    ),
    "a claim for a NIC beside a GPU": (
        rdma_gate(facts=(level(), claim("gpu.nvidia.com", "dranet"))),
        pod(TRAINER, resourceClaims=CLAIMS),
        (
            "skip: the pod claims devices of class dranet itself, so no RDMA is added"
            " -> nothing, or remove the claim if podgate shall request RDMA"
        ),
    ),
    "a claim of which nothing is known": (
        rdma_gate(),
        pod(TRAINER, resourceClaims=CLAIMS),
        (
            "skip: the pod's device claim may be for a network device, so no RDMA is added:"
            " no ResourceClaim is among the facts given -> give podgate the ResourceClaim"
        ),
    ),
    "NCCL_IB_DISABLE=1": (
        rdma_gate(),
        pod(container("trainer", {GPU: "8"}, env=[{"name": "NCCL_IB_DISABLE", "value": "1"}])),
        (
            "skip: NCCL_IB_DISABLE=1 turns RDMA off, so none is added"
            " -> nothing, or remove the variable if podgate shall request RDMA"
        ),
    ),
    "NCCL_IB_DISABLE=1, and the pool is unclear": (
        rdma_gate(fabric("a"), fabric("b", PER_DEVICE), whenPoolUnclear="fail"),
        pod(container("trainer", {GPU: "8"}, env=[{"name": "NCCL_IB_DISABLE", "value": "1"}])),
        (
            "skip: NCCL_IB_DISABLE=1 turns RDMA off, so none is added"
            " -> nothing, or remove the variable if podgate shall request RDMA"
        ),
    ),
    "another RDMA device is there": (
        rdma_gate(),
        pod(container("trainer", {GPU: "8", "vpc.amazonaws.com/efa": "32"})),
        (
            "skip: the pod states vpc.amazonaws.com/efa: 32 itself, so no RDMA is added"
            " -> nothing, or remove it if podgate shall request RDMA"
        ),
    ),
    "one is there, and the pool is unclear": (
        rdma_gate(fabric("a"), fabric("b", PER_DEVICE), whenPoolUnclear="fail"),
        pod(container("trainer", {GPU: "8", IB: "1"})),
        (
            "skip: the pod states rdma/ib: 1 itself, so no RDMA is added"
            " -> nothing, or remove it if podgate shall request RDMA"
        ),
    ),
    "a sidecar has one": (
        rdma_gate(),
        pod(TRAINER, container("proxy", {IB: "1"})),
        (
            "skip: the pod states rdma/ib: 1 itself, so no RDMA is added"
            " -> nothing, or remove it if podgate shall request RDMA"
        ),
    ),
    "an explicit zero": (
        rdma_gate(),
        pod(container("trainer", {GPU: "8", IB: 0})),
        (
            "skip: the pod states rdma/ib: 0 itself, so no RDMA is added"
            " -> nothing, or remove it if podgate shall request RDMA"
        ),
    ),
    "another amount": (
        rdma_gate(),
        pod(container("trainer", {GPU: "8", IB: "8"})),
        (
            "skip: the pod states rdma/ib: 8 itself, so no RDMA is added"
            " -> nothing, or remove it if podgate shall request RDMA"
        ),
    ),
    "only a limit, without managedFields": (
        rdma_gate(),
        pod({"name": "trainer", "resources": {"limits": {GPU: "8", IB: "1"}, "requests": {GPU: "8"}}}),
        (
            "skip: the pod states rdma/ib: 1 itself, so no RDMA is added"
            " -> nothing, or remove it if podgate shall request RDMA"
        ),
    ),
    "exactly what would be written, but a client wrote it": (
        rdma_gate(),
        with_fields(pod(container("trainer", {GPU: "8", IB: "1"})), field("limits"), field("requests")),
        (
            "skip: the pod states rdma/ib: 1 itself, so no RDMA is added"
            " -> nothing, or remove it if podgate shall request RDMA"
        ),
    ),
    "a client wrote the limit, the API server the request": (
        rdma_gate(),
        with_fields(pod(container("trainer", {GPU: "8", IB: "1"})), field("limits")),
        (
            "skip: the pod states rdma/ib: 1 itself, so no RDMA is added"
            " -> nothing, or remove it if podgate shall request RDMA"
        ),
    ),
    "MIG": (
        rdma_gate(resourceNames=[IB]),
        pod(container(resources={"nvidia.com/mig-1g.5gb": "1"})),
        (
            "skip: the pod's accelerators are shared (mig), so no RDMA is added"
            " -> ask for whole accelerators if the pod needs RDMA"
        ),
    ),
    "a share of memory": (
        rdma_gate(resourceNames=[IB]),
        pod(container(resources={GPU: "1", "nvidia.com/gpumem": "4000"})),
        (
            "skip: the pod's accelerators are shared (memorySlice), so no RDMA is added"
            " -> ask for whole accelerators if the pod needs RDMA"
        ),
    ),
    "no pool offers its accelerator": (
        rdma_gate(),
        pod(container(resources={"amd.com/gpu": "1"})),
        (
            "skip: no pool with a fabric fits the pod, so no RDMA is added"
            " -> add an AcceleratorPool with rdma for amd.com/gpu"
        ),
    ),
    "its selector leaves every pool": (
        rdma_gate(),
        pod(TRAINER, nodeSelector={"gpu": "t4"}),
        (
            "skip: no pool with a fabric fits the pod, so no RDMA is added"
            " -> add an AcceleratorPool with rdma for nvidia.com/gpu"
        ),
    ),
    "its pool has no fabric": (
        rdma_gate(fabric("h100", None)),
        pod(TRAINER),
        (
            "skip: no pool with a fabric fits the pod, so no RDMA is added"
            " -> add an AcceleratorPool with rdma for nvidia.com/gpu"
        ),
    ),
    "of two pools one has no fabric": (
        rdma_gate(fabric("eth", None), fabric("ib")),
        pod(TRAINER),
        (
            "skip: the pod could land in the pools eth, ib, whose fabrics differ, so it is not clear which RDMA it needs"
            " -> choose one pool with a node selector, for example gpu: eth"
        ),
    ),
    "no whole number per node": (
        rdma_gate(fabric("p5", {**PER_NODE, "count": 4})),
        pod(container("trainer", {GPU: "3"})),
        (
            "skip: 3 of 8 accelerators of a node do not get a whole number of 4 vpc.amazonaws.com/efa"
            " -> ask for a share of the node that divides its RDMA devices, or state the RDMA request yourself"
        ),
    ),
    "less than one per node": (
        rdma_gate(fabric("p5", {**PER_NODE, "count": 4})),
        pod(container("trainer", {GPU: "1"})),
        (
            "skip: 1 of 8 accelerators of a node do not get a whole number of 4 vpc.amazonaws.com/efa"
            " -> ask for a share of the node that divides its RDMA devices, or state the RDMA request yourself"
        ),
    ),
}


@pytest.mark.parametrize(("gate", "thing", "expected"), UNTOUCHED.values(), ids=UNTOUCHED.keys())
def test_who_gets_nothing_and_why(gate: Gate, thing: Json, expected: str) -> None:
    outcome = mutated(gate, thing)
    assert outcome.patch == []
    assert said(outcome) == [expected]
    (chinese,) = said(outcome, "zh")
    assert chinese.split(" -> ")[0] != expected.split(" -> ", maxsplit=1)[0]
    assert judged(gate, thing).allowed


PLACES = {
    "the host's network": "spec.hostNetwork",
    "/dev/infiniband": 'spec.volumes["ib"]',
    "one device of it, by a path that goes round": 'spec.volumes["ib"]',
    "Multus gives it networks": 'metadata.annotations["k8s.v1.cni.cncf.io/networks"]',
    "Spiderpool injects, by the namespace's annotation": 'metadata.annotations["cni.spidernet.io/rdma-resource-inject"]',
    "a claim for a NIC beside a GPU": 'spec.resourceClaims["d"]',
    "a claim of which nothing is known": 'spec.resourceClaims["d"]',
    "NCCL_IB_DISABLE=1": 'spec.containers["trainer"].env["NCCL_IB_DISABLE"]',
    "NCCL_IB_DISABLE=1, and the pool is unclear": 'spec.containers["trainer"].env["NCCL_IB_DISABLE"]',
    "another RDMA device is there": 'spec.containers["trainer"].resources.limits["vpc.amazonaws.com/efa"]',
    "one is there, and the pool is unclear": 'spec.containers["trainer"].resources.limits["rdma/ib"]',
    "a sidecar has one": 'spec.containers["proxy"].resources.limits["rdma/ib"]',
    "an explicit zero": 'spec.containers["trainer"].resources.limits["rdma/ib"]',
    "another amount": 'spec.containers["trainer"].resources.limits["rdma/ib"]',
    "only a limit, without managedFields": 'spec.containers["trainer"].resources.limits["rdma/ib"]',
    "exactly what would be written, but a client wrote it": 'spec.containers["trainer"].resources.limits["rdma/ib"]',
    "a client wrote the limit, the API server the request": 'spec.containers["trainer"].resources.limits["rdma/ib"]',
    "no whole number per node": 'spec.containers["trainer"].resources',
    "less than one per node": 'spec.containers["trainer"].resources',
}
"""Where a pod says what leaves it without; of the others it is no one place."""


@pytest.mark.parametrize(
    ("gate", "thing", "place"),
    [(*UNTOUCHED[case][:2], PLACES.get(case, "")) for case in UNTOUCHED],
    ids=UNTOUCHED.keys(),
)
def test_a_finding_points_to_what_was_chosen(gate: Gate, thing: Json, place: str) -> None:
    assert [found.partition(" @ ")[2] for found in places(mutated(gate, thing))] == [place]


def test_of_two_entries_with_one_name_the_last_is_pointed_to() -> None:
    env = [{"name": "NCCL_IB_DISABLE", "value": "0"}, {"name": "NCCL_IB_DISABLE", "value": "1"}]
    (report,) = mutated(rdma_gate(), pod(container("trainer", {GPU: "8"}, env=env))).reports
    assert [finding.path for finding in report.findings] == [("spec", "containers", 0, "env", 1)]


# How much, and where.


def rdma_of(thing: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """What each container asks for of these names, by `part/container`."""
    found: dict[str, Any] = {}
    for key in ("initContainers", "containers"):
        for each in thing["spec"].get(key, ()):
            for part in ("limits", "requests"):
                asked = (each.get("resources") or {}).get(part) or {}
                found |= {f"{each['name']}.{part}.{n}": asked[n] for n in names if n in asked}
    return found


def both(holder: str, name: str, amount: str) -> dict[str, str]:
    return {f"{holder}.limits.{name}": amount, f"{holder}.requests.{name}": amount}


EFA = "vpc.amazonaws.com/efa"
VKE = "vke.volcengine.com/rdma"
SIDECAR = container("proxy")
NATIVE_SIDECAR = container("native", restartPolicy="Always")

AMOUNTS: Mapping[str, tuple[Gate, Json, dict[str, str]]] = {
    "a slot": (rdma_gate(), pod(TRAINER), both("trainer", IB, "1")),
    "a slot for one GPU as well": (rdma_gate(), pod(container("main", {GPU: "1"})), both("main", IB, "1")),
    "one for each accelerator": (rdma_gate(fabric(rdma=PER_DEVICE)), pod(TRAINER), both("trainer", VKE, "8")),
    "two for each accelerator": (
        rdma_gate(fabric(rdma={**PER_DEVICE, "count": 2})),
        pod(container("main", {GPU: "3"})),
        both("main", VKE, "6"),
    ),
    "a whole node": (rdma_gate(fabric(rdma=PER_NODE)), pod(TRAINER), both("trainer", EFA, "32")),
    "a quarter of a node": (
        rdma_gate(fabric(rdma=PER_NODE)),
        pod(container("main", {GPU: "2"})),
        both("main", EFA, "8"),
    ),
    "all rails": (
        rdma_gate(fabric(rdma=RAILS)),
        pod(TRAINER),
        both("trainer", "spidernet.io/gpu1sriov", "1") | both("trainer", "spidernet.io/gpu2sriov", "1"),
    ),
    "the sidecar comes first": (rdma_gate(), pod(SIDECAR, TRAINER), both("trainer", IB, "1")),
    "a native sidecar beside it": (
        rdma_gate(),
        pod(TRAINER, initContainers=[NATIVE_SIDECAR]),
        both("trainer", IB, "1"),
    ),
    "two holders, a slot each": (
        rdma_gate(),
        pod(container("a", {GPU: "4"}), SIDECAR, container("b", {GPU: "4"})),
        both("a", IB, "1") | both("b", IB, "1"),
    ),
    "two holders, each by its accelerators": (
        rdma_gate(fabric(rdma=PER_DEVICE)),
        pod(container("a", {GPU: "6"}), container("b", {GPU: "2"})),
        both("a", VKE, "6") | both("b", VKE, "2"),
    ),
    "the holder is an init container": (
        rdma_gate(),
        pod(container("main"), initContainers=[container("check", {GPU: "1"})]),
        both("check", IB, "1"),
    ),
    "the rule's own names": (
        rdma_gate(resourceNames=["rdma/a", "rdma/b"], count=2),
        pod(TRAINER),
        both("trainer", "rdma/a", "2") | both("trainer", "rdma/b", "2"),
    ),
    "the rule's own names, per node": (
        rdma_gate(resourceNames=["rdma/a"], count=4, per="node", devicesPerNode=8),
        pod(container("main", {GPU: "4"})),
        both("main", "rdma/a", "2"),
    ),
    "hundred parts are one device": (
        rdma_gate(resourceNames=["rdma/a"], per="accelerator"),
        pod(container("main", {"tencent.com/vcuda-core": "200"})),
        both("main", "rdma/a", "2"),
    ),
    "pools that differ, but not in their fabric": (
        rdma_gate(fabric("h100"), fabric("h200")),
        pod(TRAINER),
        both("trainer", IB, "1"),
    ),
    "its selector leaves one pool": (
        rdma_gate(fabric("h100"), fabric("p5", PER_NODE)),
        pod(TRAINER, nodeSelector={"gpu": "p5"}),
        both("trainer", EFA, "32"),
    ),
    "NCCL_IB_DISABLE=0": (
        rdma_gate(),
        pod(container("trainer", {GPU: "8"}, env=[{"name": "NCCL_IB_DISABLE", "value": "0"}])),
        both("trainer", IB, "1"),
    ),
    "NCCL_IB_DISABLE=1 in a sidecar": (
        rdma_gate(),
        pod(container("proxy", env=[{"name": "NCCL_IB_DISABLE", "value": "1"}]), TRAINER),
        both("trainer", IB, "1"),
    ),
    "hostNetwork is false": (rdma_gate(), pod(TRAINER, hostNetwork=False), both("trainer", IB, "1")),
    "a path that only begins alike": (
        rdma_gate(),
        pod(TRAINER, volumes=[{"name": "v", "hostPath": {"path": "/dev/infiniband-stats"}}]),
        both("trainer", IB, "1"),
    ),
    "another annotation": (
        rdma_gate(),
        pod(TRAINER, metadata={"annotations": {"k8s.v1.cni.cncf.io/network-status": "x"}}),
        both("trainer", IB, "1"),
    ),
    "a claim for a GPU only": (
        rdma_gate(facts=(level(), claim("gpu.nvidia.com")), resourceNames=[IB]),
        pod({"name": "main", "resources": {"claims": [{"name": "d"}]}}, resourceClaims=CLAIMS),
        both("main", IB, "1"),
    ),
    "a null amount is none": (
        rdma_gate(),
        pod({"name": "trainer", "resources": {"limits": {GPU: 8, IB: None}, "requests": {GPU: 8}}}),
        both("trainer", IB, "1"),
    ),
}
ALL_NAMES = (IB, EFA, VKE, "rdma/a", "rdma/b", *RAILS["resourceNames"])


@pytest.mark.parametrize(("gate", "thing", "expected"), AMOUNTS.values(), ids=AMOUNTS.keys())
def test_how_much_and_where(gate: Gate, thing: Json, expected: dict[str, str]) -> None:
    outcome = mutated(gate, thing)
    stored = outcome.object or {}
    assert rdma_of(stored, ALL_NAMES) == expected
    assert report(outcome).result is Result.PASS
    assert mutated(gate, stored).patch == [], "twice must be once"
    assert texts(judged(gate, stored)) == []


def test_our_own_work_is_completed_where_a_client_did_not_write_it() -> None:
    """A later webhook adds a second holder; the reinvocation finds the first one done."""
    first = container("a", {GPU: "4", IB: "1"})
    thing = with_fields(pod(first, container("b", {GPU: "4"})), field("limits", GPU, "a"))
    assert rdma_of(mutated(rdma_gate(), thing).object or {}, (IB,)) == both("a", IB, "1") | both("b", IB, "1")


@pytest.mark.parametrize(
    ("when", "result", "allowed", "warned"),
    [
        ("skip", Result.SKIP, True, False),
        ("warn", Result.FAIL, True, True),
        ("fail", Result.FAIL, False, False),
    ],
)
def test_an_unclear_pool(when: str, result: Result, allowed: bool, warned: bool) -> None:
    gate = rdma_gate(fabric("h100"), fabric("p5", PER_NODE), whenPoolUnclear=when)
    first = mutated(gate, pod(TRAINER))
    assert (first.patch, first.allowed) == ([], True), "/mutate never refuses"
    second = judged(gate, pod(TRAINER))
    found = report(second)
    assert (found.result, second.allowed, found.action == "warn") == (result, allowed, warned)
    assert said(second) == [
        (
            f"{result}: the pod could land in the pools h100, p5, whose fabrics differ, so it is not clear which RDMA it"
            " needs -> choose one pool with a node selector, for example gpu: h100"
        )
    ]


# Capabilities.


def capabilities(gate: Gate, security: Json | None = None) -> tuple[Any, list[str]]:
    """The security context afterwards, and what was said."""
    holder = container("trainer", {GPU: "8"}, **({} if security is None else {"securityContext": security}))
    outcome = mutated(gate, pod(holder))
    after = (outcome.object or {})["spec"]["containers"][0]
    assert mutated(gate, outcome.object or {}).patch == []
    return after.get("securityContext"), said(outcome)


def ipc_gate(*facts: Json, security: str | None = None, names: tuple[str, ...] = ("IPC_LOCK",)) -> Gate:
    return rdma_gate(facts=facts, security=security, capabilities=list(names))


ADDED: Mapping[str, tuple[Json | None, Json | None]] = {
    "no security context": (None, {"capabilities": {"add": ["IPC_LOCK"]}}),
    "an empty one": ({}, {"capabilities": {"add": ["IPC_LOCK"]}}),
    "nulls": (
        {"capabilities": {"add": None, "drop": None}},
        {"capabilities": {"add": ["IPC_LOCK"], "drop": None}},
    ),
    "it is there": ({"capabilities": {"add": ["IPC_LOCK"]}}, {"capabilities": {"add": ["IPC_LOCK"]}}),
    "in another spelling": (
        {"capabilities": {"add": ["cap_ipc_lock"]}},
        {"capabilities": {"add": ["cap_ipc_lock"]}},
    ),
    "all are there": ({"capabilities": {"add": ["ALL"]}}, {"capabilities": {"add": ["ALL"]}}),
    "another is there": (
        {"capabilities": {"add": ["SYS_PTRACE"]}},
        {"capabilities": {"add": ["SYS_PTRACE", "IPC_LOCK"]}},
    ),
    "all are dropped, and stay so": (
        {"capabilities": {"drop": ["ALL"]}},
        {"capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}},
    ),
    "this one is dropped": (
        {"capabilities": {"drop": ["CAP_IPC_LOCK"]}},
        {"capabilities": {"drop": ["CAP_IPC_LOCK"]}},
    ),
    "privileged": ({"privileged": True}, {"privileged": True}),
    "not privileged": (
        {"privileged": False, "runAsUser": 1},
        {"privileged": False, "runAsUser": 1, "capabilities": {"add": ["IPC_LOCK"]}},
    ),
}


@pytest.mark.parametrize(("before", "after"), ADDED.values(), ids=ADDED.keys())
def test_a_capability_where_the_namespace_allows_it(before: Json | None, after: Json | None) -> None:
    assert capabilities(ipc_gate(level()), before) == (after, [])


NOT_LABELLED = f"namespace {NAMESPACE} has no label pod-security.kubernetes.io/enforce, and the cluster's default was not given"
LEVELS: Mapping[str, tuple[Gate, str | None]] = {
    "privileged": (ipc_gate(level()), None),
    "no label, and the cluster's default is privileged": (ipc_gate(level(None), security="privileged"), None),
    "baseline": (
        ipc_gate(level("baseline")),
        (
            f"skip: IPC_LOCK is left out: namespace {NAMESPACE} enforces the Pod Security level baseline"
            " -> use a namespace whose level is privileged, or RDMA may fail to lock memory"
        ),
    ),
    "the label wins over the default": (
        ipc_gate(level("restricted"), security="privileged"),
        (
            f"skip: IPC_LOCK is left out: namespace {NAMESPACE} enforces the Pod Security level restricted"
            " -> use a namespace whose level is privileged, or RDMA may fail to lock memory"
        ),
    ),
    "a word that Kubernetes cannot read": (
        ipc_gate(level("Privileged")),
        (
            f"skip: IPC_LOCK is left out: namespace {NAMESPACE} enforces the Pod Security level Privileged"
            " -> use a namespace whose level is privileged, or RDMA may fail to lock memory"
        ),
    ),
    "no label and no default": (
        ipc_gate(level(None)),
        f"skip: IPC_LOCK is left out: {NOT_LABELLED} -> label the namespace with its Pod Security level",
    ),
    "no facts": (
        ipc_gate(),
        (
            "skip: IPC_LOCK is left out: no facts about the cluster were given"
            " -> label the namespace with its Pod Security level"
        ),
    ),
}


@pytest.mark.parametrize(("gate", "expected"), LEVELS.values(), ids=LEVELS.keys())
def test_the_pod_security_level_decides(gate: Gate, expected: str | None) -> None:
    context, lines = capabilities(gate)
    assert lines == ([expected] if expected else [])
    assert context == (None if expected else {"capabilities": {"add": ["IPC_LOCK"]}})
    assert rdma_of(mutated(gate, pod(TRAINER)).object or {}, (IB,)) == both("trainer", IB, "1"), (
        "devices come anyway"
    )


@pytest.mark.parametrize("before", [{"privileged": True}, {"capabilities": {"add": ["IPC_LOCK"]}}])
def test_nothing_is_said_to_be_left_out_that_is_there(before: Json) -> None:
    assert capabilities(ipc_gate(level("baseline")), before) == (before, [])


def test_only_what_a_level_forbids_is_left_out() -> None:
    names = ("CHOWN", "IPC_LOCK", "NET_BIND_SERVICE")
    context, (line,) = capabilities(ipc_gate(level("baseline"), names=names))
    assert context == {"capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE"]}}
    assert line.startswith("skip: IPC_LOCK is left out")
    context, (line,) = capabilities(ipc_gate(level("restricted"), names=names))
    assert context == {"capabilities": {"add": ["NET_BIND_SERVICE"]}}
    assert line.startswith("skip: CHOWN, IPC_LOCK is left out")


def test_only_the_holder_gets_the_capability() -> None:
    stored = mutated(ipc_gate(level()), pod(SIDECAR, TRAINER)).object or {}
    assert "securityContext" not in stored["spec"]["containers"][0]


# Environment.

ENV: Mapping[str, tuple[Any, Any]] = {
    "none": (None, [{"name": "NCCL_IB_DISABLE", "value": "0"}, {"name": "A", "value": "b"}]),
    "set to the same": (
        [{"name": "A", "value": "b"}],
        [{"name": "A", "value": "b"}, {"name": "NCCL_IB_DISABLE", "value": "0"}],
    ),
    "set to something else": (
        [{"name": "A", "value": "c"}],
        [{"name": "A", "value": "c"}, {"name": "NCCL_IB_DISABLE", "value": "0"}],
    ),
    "set from a secret": (
        [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "NCCL_IB_DISABLE", "value": "0"},
        ],
    ),
    "set to nothing": (
        [{"name": "A"}],
        [{"name": "A"}, {"name": "NCCL_IB_DISABLE", "value": "0"}],
    ),
}


@pytest.mark.parametrize(("before", "after"), ENV.values(), ids=ENV.keys())
def test_variables_are_set_only_where_they_are_not(before: Any, after: Any) -> None:
    gate = rdma_gate(env={"NCCL_IB_DISABLE": "0", "A": "b"})
    outcome = mutated(gate, pod(SIDECAR, container("trainer", {GPU: "8"}, env=before)))
    stored = without_record(outcome.object)
    assert stored["spec"]["containers"][1]["env"] == after
    assert "env" not in stored["spec"]["containers"][0]
    assert mutated(gate, outcome.object or {}).patch == []


def test_an_amount_that_is_no_quantity_is_somebody_elses() -> None:
    assert texts(mutated(rdma_gate(), pod(container("trainer", {GPU: "8", IB: "many"})))) == ["own devices"]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "give either fromPool: true or resourceNames"),
        ({"fromPool": True, "resourceNames": [IB]}, "give either fromPool: true or resourceNames"),
        ({"resourceNames": [IB], "per": "node"}, "per: node needs devicesPerNode"),
        (
            {"fromPool": True, "count": 2},
            "with fromPool the pool says per, count and devicesPerNode; remove count",
        ),
        (
            {"fromPool": True, "per": "node", "devicesPerNode": 8},
            "with fromPool the pool says per, count and devicesPerNode; remove devicesPerNode, per",
        ),
        ({"resourceNames": [IB], "whenPoolUnclear": "warn"}, "whenPoolUnclear needs fromPool: true"),
        ({"resourceNames": [IB], "count": 0}, "expected at least 1, found 0"),
        (
            {"resourceNames": ["cpu"]},
            "expected an extended resource such as nvidia.com/gpu or rdma/ib, found 'cpu'",
        ),
        (
            {"resourceNames": ["requests.rdma/ib"]},
            "expected an extended resource such as nvidia.com/gpu or rdma/ib, found 'requests.rdma/ib'",
        ),
        ({"fromPool": True, "whenPoolUnclear": "deny"}, "expected skip, warn or fail, found 'deny'"),
    ],
    ids=[
        "no source",
        "two sources",
        "per node of what",
        "count beside a pool",
        "two keys beside a pool",
        "unclear without pools",
        "zero",
        "no device",
        "a quota's key",
        "word",
    ],
)
def test_what_a_policy_may_not_say(rule: Json, message: str) -> None:
    (found,) = load_problems(policy({"requestRDMA": rule}))
    assert found.endswith(message)
