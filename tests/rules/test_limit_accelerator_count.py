"""limitAcceleratorCount: what passes first, then what does not, by container, pod, memory, node and sum."""

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
    places,
    pod,
    policy,
    pool,
    report,
    said,
    texts,
)
from webhook.engine import Gate
from webhook.kube.api_defaults import with_defaults
from webhook.rules.base import Result
from webhook.rules.limit_accelerator_count import LimitAcceleratorCount

MIG = "nvidia.com/mig-1g.5gb"
AMD = "amd.com/gpu"
VCUDA = "tencent.com/vcuda-core"
POD_8: Json = {"perPod": {"max": 8}}


def limit_gate(rule: Json, *pools: Json, facts: tuple[Json, ...] = ()) -> Gate:
    return gate_of(policy({"limitAcceleratorCount": rule}), *pools, facts=facts)


def asking(amount: Any, name: str = GPU) -> Json:
    return pod(container("main", {name: amount}))


def node(**allocatable: Any) -> Json:
    amounts = {GPU if name == "gpu" else name: amount for name, amount in allocatable.items()}
    return {"kind": "Node", "metadata": {"name": str(amounts)}, "status": {"allocatable": amounts}}


def claim(device_class: str) -> Json:
    request = {"name": "r", "exactly": {"deviceClassName": device_class}}
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [request]}},
    }


def claiming(*containers: Json) -> Json:
    return pod(*containers or (container(),), resourceClaims=[{"name": "d", "resourceClaimName": "claim"}])


PASSES: Mapping[str, tuple[Json, Json]] = {
    "no accelerator": (POD_8, pod(container())),
    "zero": (POD_8, asking("0")),
    "zero is allowed beside a list": ({"perPod": {"allowed": [1, 8]}}, asking(0)),
    "just the maximum": (POD_8, asking("8")),
    "a JSON number": (POD_8, asking(8)),
    "a float that is whole": (POD_8, asking(8.0)),
    "another spelling": (POD_8, asking("8000m")),
    "an exponent": (POD_8, asking("8e0")),
    "one of the allowed": ({"perPod": {"allowed": [1, 2, 4, 8]}}, asking("4")),
    "an init container runs before": (
        POD_8,
        pod(container("main", {GPU: "8"}), initContainers=[container("check", {GPU: "8"})]),
    ),
    "each name for itself": (POD_8, pod(container("a", {GPU: "8"}), container("b", {AMD: "8"}))),
    "a NIC is no accelerator": (POD_8, asking("16", "rdma/ib")),
    "memory alone is one device": ({"perPod": {"max": 1}}, asking("20000", "nvidia.com/gpumem")),
    "memory is no device": (POD_8, pod(container(resources={GPU: "1", "nvidia.com/gpumem": "20000"}))),
    "many containers, each below": (
        {"perContainer": {"max": 4}},
        pod(container("a", {GPU: "4"}), container("b", {GPU: "4"})),
    ),
    "hundred parts are one device": (
        {"perPod": {"max": 2}, "perContainer": {"max": 2}},
        asking("200", VCUDA),
    ),
    "memory below": ({"memory": {"nvidia.com/gpumem": {"max": 20000}}}, asking("20000", "nvidia.com/gpumem")),
    "memory of another name": (
        {"memory": {"nvidia.com/gpumem": {"max": 1}}},
        asking("9", "volcano.sh/vgpu-memory"),
    ),
    "a null amount is none": (POD_8, asking(None)),
    "only a limit": (POD_8, pod({"name": "main", "resources": {"limits": {GPU: "8"}}})),
    "the same in two spellings": (
        POD_8,
        pod({"name": "main", "resources": {"limits": {GPU: 1}, "requests": {GPU: "1000m"}}}),
    ),
}


@pytest.mark.parametrize(("rule", "thing"), PASSES.values(), ids=PASSES.keys())
def test_what_passes(rule: Json, thing: Json) -> None:
    assert said(judged(limit_gate(rule), thing)) == []


MAIN = 'spec.containers["main"].resources'
SPREAD_8 = "ask for fewer, or spread the work over several pods with at most 8 each"
FAILS: Mapping[str, tuple[Json, Json, str, str]] = {
    "a device that memory alone stands for": (
        {"perPod": {"max": 0}},
        asking("20000", "nvidia.com/gpumem"),
        "pod at most @ spec",
        "1 nvidia.com/gpu asked, at most 0 per pod -> ask for fewer, or spread the work over several pods with at most 0 each",
    ),
    "one too many": (
        POD_8,
        asking("9"),
        f'pod at most @ {MAIN}.limits["nvidia.com/gpu"]',
        f"9 nvidia.com/gpu asked, at most 8 per pod -> {SPREAD_8}",
    ),
    "a JSON number too many": (
        POD_8,
        asking(16),
        f'pod at most @ {MAIN}.limits["nvidia.com/gpu"]',
        f"16 nvidia.com/gpu asked, at most 8 per pod -> {SPREAD_8}",
    ),
    "none allowed": (
        {"perPod": {"max": 0}},
        asking("1"),
        f'pod at most @ {MAIN}.limits["nvidia.com/gpu"]',
        (
            "1 nvidia.com/gpu asked, at most 0 per pod"
            " -> ask for fewer, or spread the work over several pods with at most 0 each"
        ),
    ),
    "two containers together": (
        POD_8,
        pod(container("proxy", {GPU: "0"}), container("main", {GPU: "5"}), container("b", {GPU: "4"})),
        f'pod at most @ {MAIN}.limits["nvidia.com/gpu"]',
        f"9 nvidia.com/gpu asked, at most 8 per pod -> {SPREAD_8}",
    ),
    "a sidecar runs beside": (
        POD_8,
        pod(
            container("main", {GPU: "8"}), initContainers=[container("s", {GPU: "1"}, restartPolicy="Always")]
        ),
        'pod at most @ spec.initContainers["s"].resources.limits["nvidia.com/gpu"]',
        f"9 nvidia.com/gpu asked, at most 8 per pod -> {SPREAD_8}",
    ),
    "an init container alone": (
        POD_8,
        pod(container("main"), initContainers=[container("check", {GPU: "9"})]),
        'pod at most @ spec.initContainers["check"].resources.limits["nvidia.com/gpu"]',
        f"9 nvidia.com/gpu asked, at most 8 per pod -> {SPREAD_8}",
    ),
    "MIG by its profile": (
        POD_8,
        asking("10", MIG),
        f'pod at most @ {MAIN}.limits["{MIG}"]',
        f"10 {MIG} asked, at most 8 per pod -> {SPREAD_8}",
    ),
    "not one of the allowed": (
        {"perPod": {"allowed": [1, 2, 4, 8]}},
        asking("3"),
        f'pod one of @ {MAIN}.limits["nvidia.com/gpu"]',
        "3 nvidia.com/gpu asked, only 1, 2, 4, 8 are allowed per pod -> ask for one of 1, 2, 4, 8",
    ),
    "above the maximum and not allowed: said once": (
        {"perPod": {"max": 4, "allowed": [1, 2, 4]}},
        asking("5"),
        f'pod at most @ {MAIN}.limits["nvidia.com/gpu"]',
        (
            "5 nvidia.com/gpu asked, at most 4 per pod"
            " -> ask for fewer, or spread the work over several pods with at most 4 each"
        ),
    ),
    "a container too many": (
        {"perContainer": {"max": 4}},
        pod(container("a", {GPU: "4"}), container("main", {GPU: "5"})),
        f'container at most @ {MAIN}.limits["nvidia.com/gpu"]',
        "5 nvidia.com/gpu asked, at most 4 per container -> ask for at most 4 in this container",
    ),
    "a container's share of a slice": (
        {"perContainer": {"max": 1}},
        asking("2", "nvidia.com/gpu.shared"),
        f'container at most @ {MAIN}.limits["nvidia.com/gpu.shared"]',
        "2 nvidia.com/gpu.shared asked, at most 1 per container -> ask for at most 1 in this container",
    ),
    "a container not one of the allowed": (
        {"perContainer": {"allowed": [1, 2]}},
        asking("3"),
        f'container one of @ {MAIN}.limits["nvidia.com/gpu"]',
        "3 nvidia.com/gpu asked, only 1, 2 are allowed per container -> ask for one of 1, 2 in this container",
    ),
    "the sum over names": (
        {"perPod": {"max": 8}, "sum": True},
        pod(container("main", {GPU: "5"}), container("b", {AMD: "4"})),
        f'pod at most @ {MAIN}.limits["nvidia.com/gpu"]',
        f"9 nvidia.com/gpu + amd.com/gpu asked, at most 8 per pod -> {SPREAD_8}",
    ),
    "three devices in hundred parts each": (
        {"perPod": {"max": 2}},
        asking("300", VCUDA),
        f'pod at most @ {MAIN}.limits["{VCUDA}"]',
        (
            f"3 {VCUDA} asked, at most 2 per pod"
            " -> ask for fewer, or spread the work over several pods with at most 2 each"
        ),
    ),
    "too much memory": (
        {"memory": {"nvidia.com/gpumem": {"max": 20000}}},
        pod(container("main", {GPU: "1", "nvidia.com/gpumem": "20001"})),
        f'memory @ {MAIN}.limits["nvidia.com/gpumem"]',
        "20001 nvidia.com/gpumem asked, at most 20000 per pod -> ask for at most 20000 nvidia.com/gpumem",
    ),
    "a number beyond all nodes": (
        POD_8,
        asking("1e20"),
        f'pod at most @ {MAIN}.limits["nvidia.com/gpu"]',
        f"100000000000000000000 nvidia.com/gpu asked, at most 8 per pod -> {SPREAD_8}",
    ),
    "half a device": (
        POD_8,
        asking("500m"),
        f'fraction @ {MAIN}.limits["nvidia.com/gpu"]',
        (
            "500m nvidia.com/gpu is no whole number, and Kubernetes counts devices in whole numbers"
            " -> ask for a whole number, or for a shared device"
        ),
    ),
    "half a device as a number": (
        {"perContainer": {"allowed": [1]}},
        asking(0.5),
        f'fraction @ {MAIN}.limits["nvidia.com/gpu"]',
        (
            "0.5 nvidia.com/gpu is no whole number, and Kubernetes counts devices in whole numbers"
            " -> ask for a whole number, or for a shared device"
        ),
    ),
    "below zero": (
        POD_8,
        asking("-1"),
        f'negative @ {MAIN}.limits["nvidia.com/gpu"]',
        "-1 nvidia.com/gpu is below zero, which Kubernetes refuses -> ask for 0 or more",
    ),
    "no quantity": (
        POD_8,
        asking("one"),
        f'no quantity @ {MAIN}.limits["nvidia.com/gpu"]',
        "one is no quantity of nvidia.com/gpu -> write a whole number, for example 1",
    ),
    "a request that is no quantity": (
        POD_8,
        pod({"name": "main", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1K"}}}),
        f'no quantity @ {MAIN}.requests["nvidia.com/gpu"]',
        "1K is no quantity of nvidia.com/gpu -> write a whole number, for example 1",
    ),
    "request and limit differ": (
        POD_8,
        pod({"name": "main", "resources": {"limits": {GPU: "8"}, "requests": {GPU: "6"}}}),
        f'differ @ {MAIN}.requests["nvidia.com/gpu"]',
        (
            "nvidia.com/gpu has request 6 and limit 8, which must be equal"
            " -> write the same number in both, or only the limit"
        ),
    ),
    "no limit": (
        POD_8,
        pod({"name": "main", "resources": {"requests": {GPU: "1"}}}),
        f'no limit @ {MAIN}.requests["nvidia.com/gpu"]',
        "nvidia.com/gpu has a request of 1 but no limit, which Kubernetes refuses -> put the same number under limits",
    ),
    "a null limit": (
        POD_8,
        pod({"name": "main", "resources": {"limits": {GPU: None}, "requests": {GPU: "1"}}}),
        f'no limit @ {MAIN}.requests["nvidia.com/gpu"]',
        "nvidia.com/gpu has a request of 1 but no limit, which Kubernetes refuses -> put the same number under limits",
    ),
    "in the pod's own resources": (
        POD_8,
        pod(container(), resources={"limits": {GPU: "1", "cpu": "2"}}),
        'pod level @ spec.resources.limits["nvidia.com/gpu"]',
        (
            "nvidia.com/gpu stands in the pod's own resources, where Kubernetes refuses devices"
            " -> move it to the container that uses it"
        ),
    ),
}


@pytest.mark.parametrize(("rule", "thing", "place", "words"), FAILS.values(), ids=FAILS.keys())
def test_what_fails(rule: Json, thing: Json, place: str, words: str) -> None:
    outcome = judged(limit_gate(rule), thing)
    assert (places(outcome), said(outcome)) == ([place], [f"fail: {words}"])
    assert said(outcome, "zh")[0] != said(outcome)[0]
    assert not outcome.allowed


def test_all_violations_are_said_and_none_hides_another() -> None:
    rule = {"perPod": {"max": 8}, "perContainer": {"max": 4}}
    thing = pod(container("a", {GPU: "5"}), container("b", {GPU: "6", AMD: "0.5"}))
    assert texts(judged(limit_gate(rule), thing)) == [
        "fraction",
        "container at most",
        "container at most",
        "pod at most",
    ]


def test_a_file_with_only_a_limit_is_read_as_the_api_server_would() -> None:
    thing = with_defaults(pod({"name": "main", "resources": {"limits": {GPU: "9"}}}), NAMESPACE)
    assert texts(judged(limit_gate(POD_8), thing, from_api_server=False)) == ["pod at most"]


# Nodes.

FITS: Json = {"fitsNode": True}
H100 = pool("h100", resourceNames=[GPU], nodeLabels={"gpu": "h100"}, devicesPerNode=8)
UNSIZED = pool("any", resourceNames=[GPU], nodeLabels={"gpu": "any"})

NODES: Mapping[str, tuple[tuple[Json, ...], tuple[Json, ...], list[str]]] = {
    "a node has them": ((), (node(gpu="4"), node(gpu="8")), []),
    "the largest has fewer": (
        (),
        (node(gpu="4"), node(cpu="64")),
        [
            (
                "fail: 8 nvidia.com/gpu asked, but the largest node has 4"
                " -> ask for at most 4 per pod and use more pods"
            )
        ],
    ),
    "no node has any": (
        (),
        (node(cpu="64"),),
        [
            "fail: 8 nvidia.com/gpu asked, but the largest node has 0 -> ask for at most 0 per pod and use more pods"
        ],
    ),
    "no node has any, but a pool grows from nothing": ((H100,), (node(cpu="64"),), []),
    "only pools are known": ((H100,), (), []),
    "neither nodes nor the size of a pool": (
        (UNSIZED,),
        (),
        [
            (
                "error: cannot be evaluated: no facts about the cluster were given"
                " -> give podgate these facts, or ask the platform team"
            )
        ],
    ),
}


@pytest.mark.parametrize(("pools", "facts", "expected"), NODES.values(), ids=NODES.keys())
def test_no_more_than_a_node_has(
    pools: tuple[Json, ...], facts: tuple[Json, ...], expected: list[str]
) -> None:
    assert said(judged(limit_gate(FITS, *pools, facts=facts), asking("8"))) == expected


def test_more_than_a_pool_s_node_has() -> None:
    (line,) = said(judged(limit_gate(FITS, H100), asking("9")))
    assert line.startswith("fail: 9 nvidia.com/gpu asked, but the largest node has 8")


def test_nodes_count_in_devices_too() -> None:
    gate = limit_gate(FITS, facts=(node(**{VCUDA: "800"}),))
    assert texts(judged(gate, asking("800", VCUDA))) == []
    assert texts(judged(gate, asking("900", VCUDA))) == ["no node"]


def test_without_an_accelerator_no_node_is_asked() -> None:
    assert texts(judged(limit_gate(FITS), pod(container()))) == []


# Device claims.

CLAIMS: Mapping[str, tuple[tuple[Json, ...], Json, list[str]]] = {
    "nothing is known": ((), claiming(), ["claims"]),
    "an accelerator": ((claim("gpu.nvidia.com"),), claiming(), ["claims"]),
    "a NIC": ((claim("dranet"),), claiming(), []),
    "a NIC beside too many GPUs": (
        (claim("dranet"),),
        claiming(container("main", {GPU: "9"})),
        ["pod at most"],
    ),
    "an accelerator beside too many GPUs": (
        (claim("gpu.nvidia.com"),),
        claiming(container("main", {GPU: "9"})),
        ["pod at most", "claims"],
    ),
}


@pytest.mark.parametrize(("facts", "thing", "expected"), CLAIMS.values(), ids=CLAIMS.keys())
def test_device_claims(facts: tuple[Json, ...], thing: Json, expected: list[str]) -> None:
    assert texts(judged(limit_gate(POD_8, facts=facts), thing)) == expected


def test_a_claim_cannot_be_counted_and_that_is_said() -> None:
    outcome = judged(limit_gate(POD_8), claiming())
    assert said(outcome) == [
        (
            "skip: accelerators asked for through a resource claim cannot be counted"
            " -> nothing: the limit is on what is asked for by name"
        )
    ]
    assert report(outcome).result is Result.SKIP


def test_a_limit_on_memory_alone_says_nothing_of_claims() -> None:
    assert texts(judged(limit_gate({"memory": {"nvidia.com/gpumem": {"max": 1}}}), claiming())) == []


@pytest.mark.parametrize("value", [{}, [], True, "x" * 400, 10**400, float("inf"), {"a": 1}], ids=str)
def test_anything_for_an_amount_raises_nothing(value: Any) -> None:
    thing = pod({"name": "main", "resources": {"limits": {GPU: value}, "requests": value}})
    assert "pod at most" not in texts(judged(limit_gate(POD_8), thing, from_api_server=False))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "give at least one of perContainer, perPod, memory and fitsNode"),
        ({"fitsNode": False}, "give at least one of perContainer, perPod, memory and fitsNode"),
        ({"perPod": {}}, "give max or allowed"),
        ({"perPod": {"max": -1}}, "expected at least 0, found -1"),
        ({"perPod": {"allowed": ["1"]}}, "expected a whole number, found '1'"),
        ({"memory": {"a/b": {"max": "20Gi"}}}, "expected a whole number, found '20Gi'"),
    ],
    ids=["nothing", "only a false", "an empty limit", "below zero", "a word", "a quantity"],
)
def test_what_a_policy_may_not_say(rule: Json, message: str) -> None:
    (found,) = load_problems(policy({"limitAcceleratorCount": rule}))
    assert found.endswith(message)


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        pytest.param(POD_8, {}, id="devices"),
        pytest.param(
            {"memory": {"nvidia.com/gpumem": {"max": 1}}}, {"resources": ("nvidia.com/gpumem",)}, id="memory"
        ),
    ],
)
def test_what_the_rule_needs_of_an_object(rule: Json, more: dict[str, tuple[str, ...]]) -> None:
    assert LimitAcceleratorCount.model_validate(rule).needs == {"devices": (), "claims": ()} | more
