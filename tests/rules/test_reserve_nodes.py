"""reserveNodes: near misses first, then what is refused, with its exact words."""

from collections.abc import Mapping
from typing import Any

import pytest

from webhook.engine.review import Gate, validate
from webhook.engine.texts import say
from webhook.facts import AcceleratorPool, Facts
from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft
from webhook.kube.field_path import format_field
from webhook.kube.node_affinity import MOST_COMBINATIONS
from webhook.policy import PolicySet, load_policy_set
from webhook.rules.base import Finding, Received, Result, Subject
from webhook.rules.reserve_nodes import ReserveNodes

GPU = "nvidia.com/gpu"
PRESENT = "nvidia.com/gpu.present"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"

POLICY = b"""
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: reserved
spec:
  mode: enforce
  match:
    all: true
    operations: [CREATE, UPDATE]
  rules:
  - name: nodes
    reserveNodes:
      pools: all
"""


def pool(name: str, key: str = "", effect: str = "NoSchedule", **labels: str) -> AcceleratorPool:
    tolerations = [{"key": key, "operator": "Equal", "value": "gold", "effect": effect}] if key else []
    return AcceleratorPool.model_validate(
        {"name": name, "resourceNames": [GPU], "nodeLabels": labels, "tolerations": tolerations}
    )


GOLD = pool("gold", "tier", accel="h100", zone="a")
SILVER = pool("silver", accel="a100", zone="b")


def pod(resources: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": resources or {"cpu": "1"}}}
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def findings(
    thing: dict[str, Any],
    pools: Any = "all",
    known: tuple[AcceleratorPool, ...] = (GOLD, SILVER),
    facts: tuple[Mapping[str, Any], ...] = (),
) -> list[Finding]:
    request = AdmissionRequest(kind="Pod", resource="pods", namespace="team", object=thing)
    received = Received(request, Facts.from_objects(facts), known, shipped_catalogue())
    return list(
        ReserveNodes.model_validate({"pools": pools}).validate_subject(Subject(received, Draft(thing)))
    )


NEAR_MISSES = {
    "no word about nodes": pod(),
    "an accelerator pod may aim": pod({GPU: "1"}, nodeSelector={PRESENT: "true"}),
    "an accelerator pod may tolerate": pod({GPU: "1"}, tolerations=[{"operator": "Exists"}]),
    "it keeps off": pod(nodeSelector={PRESENT: "false"}),
    "it keeps off by affinity": pod(affinity=affinity([expression(PRESENT, "DoesNotExist")])),
    "not in true": pod(affinity=affinity([expression(PRESENT, "NotIn", "true")])),
    "one of two values is false": pod(affinity=affinity([expression(PRESENT, "In", "true", "false")])),
    "one of two terms leads elsewhere": pod(
        affinity=affinity([expression(PRESENT, "Exists")], [expression("disk", "In", "ssd")])
    ),
    "only preferred affinity aims": pod(
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [expression(PRESENT, "Exists")]}}
                ]
            }
        }
    ),
    "every term is empty and matches no node": pod(affinity=affinity([], [])),
    "a label of the node that is no mark": pod(nodeSelector={"kubernetes.io/arch": "amd64"}),
    "one of a pool's two labels": pod(nodeSelector={"accel": "h100"}),
    "labels of two pools mixed": pod(nodeSelector={"accel": "h100", "zone": "b"}),
    "a value of no pool beside one": pod(
        affinity=affinity([expression("accel", "In", "h100", "none"), expression("zone", "In", "a")])
    ),
    "more values than pools": pod(
        affinity=affinity([expression("accel", "In", *map(str, range(MOST_COMBINATIONS + 1)))])
    ),
    "selector and affinity exclude each other": pod(
        nodeSelector={"accel": "h100", "zone": "a"}, affinity=affinity([expression("zone", "In", "b")])
    ),
    "affinity means a pool that the selector excludes": pod(
        nodeSelector={"accel": "h100", "zone": "b"}, affinity=affinity([expression("zone", "In", "a")])
    ),
    "another toleration": pod(
        tolerations=[
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "nvidia.com/gpus", "operator": "Exists"},
        ]
    ),
    "a taint that only prefers": pod(tolerations=[{"key": GPU, "effect": "PreferNoSchedule"}]),
    "another value of the pool's taint": pod(tolerations=[{"key": "tier", "value": "lead"}]),
    "an effect of the pool's taint that keeps nobody off": pod(
        tolerations=[{"key": "tier", "value": "gold", "effect": "PreferNoSchedule"}]
    ),
    "another effect of the pool's taint": pod(
        tolerations=[{"key": "tier", "value": "gold", "effect": "NoExecute"}]
    ),
    "everything that evicts": pod(tolerations=[{"operator": "Exists", "effect": "NoExecute"}]),
    "null": pod(nodeSelector=None, affinity=None, tolerations=None),
    "wrong types": pod(nodeSelector=["a"], affinity="b", tolerations=[1, {"key": 7, "operator": "Exists"}]),
    "an empty key that is Equal is refused by Kubernetes": pod(tolerations=[{"value": "x"}]),
}


@pytest.mark.parametrize("thing", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_a_pod_that_takes_no_accelerator_node_passes(thing: dict[str, Any]) -> None:
    assert findings(thing) == []


AIMS = "the pod asks for no accelerator but its placement ({own}) takes it to accelerator nodes"
TOLERATES = "the pod asks for no accelerator but tolerates {own}, the taint that keeps accelerator nodes free"
EVERYTHING = (
    "the pod asks for no accelerator but tolerates every taint, so it may land on accelerator nodes",
    "name the key of the taint that is meant in the toleration",
)


def aims(own: str) -> tuple[str, str]:
    return AIMS.format(own=own), f"remove {own}, or ask for an accelerator"


def tolerated(own: str) -> tuple[str, str]:
    return TOLERATES.format(own=own), f"remove the toleration {own}, or ask for an accelerator"


REFUSED = {
    "the vendor's label by selector": (
        pod(nodeSelector={PRESENT: "true"}),
        'spec.nodeSelector["nvidia.com/gpu.present"]',
        aims("nvidia.com/gpu.present In [true]"),
    ),
    "zero is no accelerator": (
        pod({GPU: "0"}, nodeSelector={PRESENT: "true"}),
        'spec.nodeSelector["nvidia.com/gpu.present"]',
        aims("nvidia.com/gpu.present In [true]"),
    ),
    "the vendor's label by affinity, in every term": (
        pod(
            affinity=affinity(
                [expression("nvidia.com/gpu.count", "Gt", "3")],
                [expression("amd.com/gpu.family", "Exists")],
            )
        ),
        TERMS,
        aims("nvidia.com/gpu.count Gt [3]"),
    ),
    "fewer of the vendor than some": (
        pod(affinity=affinity([expression("nvidia.com/gpu.count", "Lt", "9")])),
        TERMS,
        aims("nvidia.com/gpu.count Lt [9]"),
    ),
    "the selector holds beside every term": (
        pod(nodeSelector={"ascend": "on"}, affinity=affinity([expression("disk", "In", "ssd")])),
        "spec.nodeSelector.ascend",
        aims("ascend In [on]"),
    ),
    "an empty term beside it matches no node": (
        pod(affinity=affinity([], [expression(PRESENT, "Exists")])),
        TERMS,
        aims("nvidia.com/gpu.present Exists"),
    ),
    "all labels of a pool": (
        pod(nodeSelector={"accel": "h100", "zone": "a"}),
        "spec.nodeSelector.accel",
        aims("accel In [h100], zone In [a]"),
    ),
    "labels of a pool, half by selector and half by affinity": (
        pod(nodeSelector={"zone": "b"}, affinity=affinity([expression("accel", "In", "a100")])),
        "spec.nodeSelector.zone",
        aims("zone In [b], accel In [a100]"),
    ),
    "a toleration by the catalogue": (
        pod(tolerations=[{"key": "x", "operator": "Exists"}, {"key": GPU, "operator": "Exists"}]),
        'spec.tolerations["nvidia.com/gpu"]',
        tolerated("nvidia.com/gpu"),
    ),
    "a toleration with value and effect": (
        pod(tolerations=[{"key": GPU, "value": "present", "effect": "NoSchedule"}]),
        'spec.tolerations["nvidia.com/gpu"]',
        tolerated("nvidia.com/gpu=present:NoSchedule"),
    ),
    "a toleration of a pool": (
        pod(tolerations=[{"key": "tier", "operator": "Exists"}]),
        'spec.tolerations["tier"]',
        tolerated("tier"),
    ),
    "a toleration of a pool with its value": (
        pod(tolerations=[{"key": "tier", "value": "gold"}]),
        'spec.tolerations["tier"]',
        tolerated("tier=gold"),
    ),
    "a toleration without a key": (
        pod(tolerations=[{"operator": "Exists"}]),
        "spec.tolerations[0]",
        EVERYTHING,
    ),
    "a toleration without a key, of one effect": (
        pod(tolerations=[{"key": None, "operator": "Exists", "effect": "NoSchedule"}]),
        "spec.tolerations[0]",
        EVERYTHING,
    ),
}


@pytest.mark.parametrize(("thing", "field", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_and_why(thing: dict[str, Any], field: str, said: tuple[str, str]) -> None:
    (finding,) = findings(thing)
    rule = policy_set().policies[0].rules[0]
    assert finding.result is Result.FAIL
    assert format_field(thing, finding.path) == field
    assert tuple(say(rule, finding, "en")) == said
    assert say(rule, finding, "zh").message != said[0]


def test_several_pools_in_one_requirement() -> None:
    both = (pool("h100", accel="h100"), pool("a100", accel="a100"))
    thing = pod(affinity=affinity([expression("accel", "In", "h100", "a100")]))
    assert [finding.text for finding in findings(thing, known=both)] == ["aims"]
    assert findings(thing, known=both[:1]) == []


NAMED = {
    "labels of another pool": (pod(nodeSelector={"accel": "a100", "zone": "b"}), []),
    "a label of the catalogue": (pod(nodeSelector={PRESENT: "true"}), []),
    "a taint of the catalogue": (pod(tolerations=[{"key": GPU, "operator": "Exists"}]), []),
    "labels of the pool": (pod(nodeSelector={"accel": "h100", "zone": "a"}), ["aims"]),
    "the taint of the pool": (pod(tolerations=[{"key": "tier", "operator": "Exists"}]), ["tolerates"]),
    "everything": (pod(tolerations=[{"operator": "Exists"}]), ["tolerates everything"]),
}


@pytest.mark.parametrize(("thing", "texts"), NAMED.values(), ids=NAMED.keys())
def test_only_named_pools_are_reserved(thing: dict[str, Any], texts: list[str]) -> None:
    assert [finding.text for finding in findings(thing, ["gold"])] == texts


def test_a_pool_s_taint_that_only_prefers_keeps_nobody_off() -> None:
    tolerating = pod(tolerations=[{"key": "tier", "operator": "Exists"}])
    assert findings(tolerating, ["gold"], (pool("gold", "tier", "PreferNoSchedule", accel="h100"),)) == []
    reserved = pool("gold", "tier", "NoExecute", accel="h100")
    assert [found.text for found in findings(tolerating, ["gold"], (reserved,))] == ["tolerates"]


def test_a_pool_without_taints_is_not_reached_by_tolerations() -> None:
    assert findings(pod(tolerations=[{"operator": "Exists"}]), ["silver"]) == []


def claim(device_class: str) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": device_class}}
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {"devices": {"requests": [request]}},
    }


CLAIMS = {
    "an accelerator": ((claim("gpu.nvidia.com"),), []),
    "a NIC": ((claim("dra.net"),), [(Result.FAIL, "aims")]),
    "not known": ((), [(Result.ERROR, "unknown")]),
}


@pytest.mark.parametrize(("facts", "expected"), CLAIMS.values(), ids=CLAIMS.keys())
def test_a_device_claim_counts_for_what_it_is(
    facts: tuple[dict[str, Any], ...], expected: list[tuple[Result, str]]
) -> None:
    thing = pod(nodeSelector={PRESENT: "true"}, resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    assert [(finding.result, finding.text) for finding in findings(thing, facts=facts)] == expected


def test_a_claim_that_nobody_knows_is_no_error_on_a_pod_without_a_word_about_nodes() -> None:
    assert findings(pod(resourceClaims=[{"name": "c", "resourceClaimName": "c"}])) == []


def policy_set() -> PolicySet:
    loaded = load_policy_set([("reserved.yaml", POLICY)])
    assert loaded.problems == ()
    return loaded.policy_set


GPU_TOLERATION = {"key": GPU, "operator": "Exists"}
OWN_TOLERATION = {"key": "own", "operator": "Exists"}

UPDATES = {
    "nothing new": (pod(tolerations=[GPU_TOLERATION]), pod(tolerations=[GPU_TOLERATION], hostPID=True), []),
    "a harmless toleration more": (
        pod(tolerations=[GPU_TOLERATION]),
        pod(tolerations=[GPU_TOLERATION, OWN_TOLERATION]),
        [],
    ),
    "a toleration more": (
        pod(tolerations=[OWN_TOLERATION]),
        pod(tolerations=[OWN_TOLERATION, GPU_TOLERATION]),
        ["tolerates"],
    ),
    "a selector for a gated pod": (pod(), pod(nodeSelector={PRESENT: "true"}), ["aims"]),
}


@pytest.mark.parametrize(("old", "new", "texts"), UPDATES.values(), ids=UPDATES.keys())
def test_an_update_answers_for_what_it_brings(
    old: dict[str, Any], new: dict[str, Any], texts: list[str]
) -> None:
    request = AdmissionRequest(
        kind="Pod", resource="pods", namespace="team", operation="UPDATE", object=new, old_object=old
    )
    outcome = validate(Gate(policy_set(), Facts()), request)
    assert [finding.text for report in outcome.reports for finding in report.findings] == texts
    assert outcome.allowed is not bool(texts)


LOAD_ERRORS = {
    "nothing": (" {}", "spec.rules[0].reserveNodes.pools is missing"),
    "another word": (
        "\n      pools: some",
        "spec.rules[0].reserveNodes.pools: expected all, or a list of pools, found 'some'",
    ),
    "an empty list": (
        "\n      pools: []",
        "spec.rules[0].reserveNodes.pools: expected all, or a list of pools",
    ),
    "a pool that is not there": ("\n      pools: [gold]", "there is no AcceleratorPool 'gold'"),
}


@pytest.mark.parametrize(("parameters", "message"), LOAD_ERRORS.values(), ids=LOAD_ERRORS.keys())
def test_what_is_refused_at_load(parameters: str, message: str) -> None:
    text = POLICY.decode().replace("reserveNodes:\n      pools: all", f"reserveNodes:{parameters}")
    (problem,) = load_policy_set([("p.yaml", text.encode())]).problems
    assert problem.message == message
