"""setNodeAffinity: near misses that stay untouched first, then what is written, and what is said."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.rules.reviewing import (
    GPU,
    Json,
    container,
    gate_of,
    judged,
    load_problems,
    mutated,
    places,
    pod,
    policy,
    pool,
    report,
    request_of,
    said,
    texts,
    without_record,
)
from webhook.engine import Gate, mutate
from webhook.kube.node_affinity import TERMS
from webhook.rules.base import Result

PRESENT = "nvidia.com/gpu.present"
PRODUCT = "nvidia.com/gpu.product"
REQUIRED = TERMS[-2]

NVIDIA_TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
AMD_TOLERATION = {"key": "amd.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
BY_VENDOR: Json = {
    "byVendor": {
        "nvidia": {"nodeLabels": {PRESENT: "true"}, "tolerations": [NVIDIA_TOLERATION]},
        "amd": {
            "nodeLabels": {"feature.node.kubernetes.io/amd-gpu": "true"},
            "tolerations": [AMD_TOLERATION],
        },
        "huawei": {"nodeLabels": {"accelerator": "huawei-Ascend910"}},
        "cambricon": {"nodeLabels": {"accelerator": "mlu"}},
    }
}
H100 = pool(
    "h100", resourceNames=[GPU], nodeLabels={PRODUCT: "H100", "rack": "ib"}, tolerations=[NVIDIA_TOLERATION]
)
H200 = pool(
    "h200",
    resourceNames=[GPU],
    nodeLabels={PRODUCT: "H200", "rack": "ib"},
    tolerations=[NVIDIA_TOLERATION, {"key": "big", "operator": "Equal", "value": "yes"}],
)
MIG = pool("mig", resourceNames=["nvidia.com/mig-*"], nodeLabels={PRODUCT: "A100-MIG", "rack": "eth"})


def affinity_gate(*rules: Json, facts: tuple[Json, ...] = (), pools: tuple[Json, ...] = ()) -> Gate:
    return gate_of(policy(*({"setNodeAffinity": rule} for rule in rules)), *pools, facts=facts)


def need(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def required(*terms: Any) -> Json:
    """Required node affinity of terms, each a list of requirements or a whole term."""
    whole = [{"matchExpressions": term} if isinstance(term, list) else term for term in terms]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": whole}}}


def asking(*names: str, **spec: Any) -> Json:
    return pod(container(resources=dict.fromkeys(names, "1")), **spec)


def written(gate: Gate, thing: Json) -> tuple[Any, Any]:
    """The affinity and the tolerations afterwards; everything else must be as it was."""
    outcome = mutated(gate, thing)
    after = without_record(outcome.object)
    assert {**after, "spec": {**after["spec"], "affinity": None, "tolerations": None}} == {
        **thing,
        "spec": {**thing["spec"], "affinity": None, "tolerations": None},
    }
    again = mutated(gate, outcome.object or {})
    assert again.patch == [], "twice must be once"
    assert all(each.result is not Result.FAIL for each in judged(gate, outcome.object or {}).reports)
    return after["spec"].get("affinity"), after["spec"].get("tolerations")


def claim(device_class: str, version: str = "v1") -> Json:
    request = {"name": "r", "exactly": {"deviceClassName": device_class}}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": "team-a"},
        "spec": {"devices": {"requests": [request]}},
    }


def claiming(*names: str) -> Json:
    holder = container(resources=dict.fromkeys(names, "1"))
    holder.setdefault("resources", {})["claims"] = [{"name": "d"}]
    return pod(holder, resourceClaims=[{"name": "d", "resourceClaimName": "claim"}])


NO_ACCELERATOR = (
    "skip: the pod asks for no accelerator -> nothing: only accelerator pods go to accelerator nodes"
)
DEVICE_CLAIM = (
    "skip: it is not known whether the pod's device claim is for an accelerator"
    " -> give podgate the ResourceClaim, or name the resource"
)

UNTOUCHED: Mapping[str, tuple[Gate, Json, list[str]]] = {
    "no accelerator": (affinity_gate(BY_VENDOR), pod(container()), [NO_ACCELERATOR]),
    "zero accelerators": (affinity_gate(BY_VENDOR), pod(container(resources={GPU: "0"})), [NO_ACCELERATOR]),
    "only an RDMA device": (affinity_gate(BY_VENDOR), asking("rdma/ib"), [NO_ACCELERATOR]),
    "a launcher with its gang's labels": (
        affinity_gate(BY_VENDOR),
        pod(container(), metadata={"labels": {"training.kubeflow.org/job-role": "launcher"}}),
        [NO_ACCELERATOR],
    ),
    "tolerations alone, no accelerator": (
        affinity_gate({"tolerations": [NVIDIA_TOLERATION]}),
        pod(container()),
        [NO_ACCELERATOR],
    ),
    "a claim of which nothing is known": (affinity_gate(BY_VENDOR), claiming(), [DEVICE_CLAIM]),
    "a claim that is not among the facts": (
        affinity_gate(
            BY_VENDOR, facts=(claim("x") | {"metadata": {"name": "other", "namespace": "team-a"}},)
        ),
        claiming(),
        [DEVICE_CLAIM],
    ),
    "a claim of another namespace": (
        affinity_gate(
            BY_VENDOR, facts=(claim("gpu.nvidia.com") | {"metadata": {"name": "claim", "namespace": "b"}},)
        ),
        claiming(),
        [DEVICE_CLAIM],
    ),
    "a claim for a NIC": (affinity_gate(BY_VENDOR, facts=(claim("dranet"),)), claiming(), [NO_ACCELERATOR]),
    "a vendor that the rule does not name": (
        affinity_gate(BY_VENDOR),
        asking("google.com/tpu"),
        [
            (
                "skip: no pool or vendor of this rule offers google.com/tpu"
                " -> name a pool or vendor for google.com/tpu in the policy"
            )
        ],
    ),
    "one of two vendors is not named": (
        affinity_gate(BY_VENDOR),
        asking(GPU, "google.com/tpu"),
        [
            (
                "skip: no pool or vendor of this rule offers nvidia.com/gpu, google.com/tpu"
                " -> name a pool or vendor for nvidia.com/gpu, google.com/tpu in the policy"
            )
        ],
    ),
    "two vendors whose nodes cannot be one": (
        affinity_gate(BY_VENDOR),
        asking("huawei.com/Ascend910", "cambricon.com/mlu"),
        [
            (
                "skip: no pool or vendor of this rule offers huawei.com/Ascend910, cambricon.com/mlu"
                " -> name a pool or vendor for huawei.com/Ascend910, cambricon.com/mlu in the policy"
            )
        ],
    ),
    "no pool of the rule offers it": (
        affinity_gate({"pools": ["h100"]}, pools=(H100, MIG)),
        asking("nvidia.com/mig-1g.5gb"),
        [
            (
                "skip: no pool or vendor of this rule offers nvidia.com/mig-1g.5gb"
                " -> name a pool or vendor for nvidia.com/mig-1g.5gb in the policy"
            )
        ],
    ),
    "no pool offers both": (
        affinity_gate({"pools": ["h100"]}, pools=(H100,)),
        asking(GPU, "nvidia.com/mig-1g.5gb"),
        [
            (
                "skip: no pool or vendor of this rule offers nvidia.com/gpu, nvidia.com/mig-1g.5gb"
                " -> name a pool or vendor for nvidia.com/gpu, nvidia.com/mig-1g.5gb in the policy"
            )
        ],
    ),
    "its selector contradicts": (
        affinity_gate(BY_VENDOR),
        pod(nodeSelector={PRESENT: "false"}),
        [
            (
                "skip: the pod's own placement (nvidia.com/gpu.present In [false]) contradicts nvidia.com/gpu.present"
                " In [true], so it is left as it is -> remove nvidia.com/gpu.present In [false] from the pod, or choose"
                " nodes that meet nvidia.com/gpu.present In [true]"
            )
        ],
    ),
    "every term contradicts": (
        affinity_gate(BY_VENDOR),
        pod(affinity=required([need(PRESENT, "DoesNotExist")], [need(PRESENT, "NotIn", "true")])),
        [
            (
                "skip: the pod's own placement (nvidia.com/gpu.present DoesNotExist) contradicts nvidia.com/gpu.present"
                " In [true], so it is left as it is -> remove nvidia.com/gpu.present DoesNotExist from the pod, or choose"
                " nodes that meet nvidia.com/gpu.present In [true]"
            )
        ],
    ),
    "a Kueue flavor contradicts": (
        affinity_gate({"pools": ["h100"]}, pools=(H100, H200)),
        pod(nodeSelector={PRODUCT: "H200"}, metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}),
        [
            (
                "skip: the node selector nvidia.com/gpu.product In [H200], set for its Kueue flavor, contradicts"
                " nvidia.com/gpu.product In [H100], so the pod is left as it is -> give the flavor and the policy the same"
                " node labels"
            )
        ],
    ),
    "all terms are empty": (
        affinity_gate(BY_VENDOR),
        pod(affinity=required({}, {"matchExpressions": []})),
        [
            (
                "skip: every term of the pod's required node affinity is empty, so it matches no node"
                " -> write a requirement into a term, or remove nodeAffinity"
            )
        ],
    ),
}


@pytest.mark.parametrize(("gate", "thing", "expected"), UNTOUCHED.values(), ids=UNTOUCHED.keys())
def test_pods_that_stay_as_they_are(gate: Gate, thing: Json, expected: list[str]) -> None:
    outcome = mutated(gate, thing)
    assert outcome.patch == []
    assert said(outcome) == expected
    assert not set(said(outcome, "zh")) & set(expected)


IS_NVIDIA = need(PRESENT, "In", "true")
ONE_TERM = required([IS_NVIDIA])

PLACED: Mapping[str, tuple[Gate, Json, Any, Any]] = {
    "no affinity": (affinity_gate(BY_VENDOR), pod(), ONE_TERM, [NVIDIA_TOLERATION]),
    "nulls everywhere": (
        affinity_gate(BY_VENDOR),
        pod(affinity=None, tolerations=None, nodeSelector=None),
        ONE_TERM,
        [NVIDIA_TOLERATION],
    ),
    "an empty affinity": (
        affinity_gate(BY_VENDOR),
        pod(affinity={"nodeAffinity": {}}),
        ONE_TERM,
        [NVIDIA_TOLERATION],
    ),
    "an empty required affinity": (
        affinity_gate(BY_VENDOR),
        pod(affinity={"nodeAffinity": {REQUIRED: {}}}),
        ONE_TERM,
        [NVIDIA_TOLERATION],
    ),
    "pod anti-affinity and preferred terms stay": (
        affinity_gate(BY_VENDOR),
        pod(
            affinity={
                "podAntiAffinity": {"x": 1},
                "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [2]},
            }
        ),
        {
            "podAntiAffinity": {"x": 1},
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [2],
                **ONE_TERM["nodeAffinity"],
            },
        },
        [NVIDIA_TOLERATION],
    ),
    "into every non-empty term, an empty one stays empty": (
        affinity_gate(BY_VENDOR),
        pod(
            affinity=required(
                [need("zone", "In", "a")], {}, [need("zone", "In", "b")], {"matchExpressions": None}
            )
        ),
        required(
            [need("zone", "In", "a"), IS_NVIDIA],
            {},
            [need("zone", "In", "b"), IS_NVIDIA],
            {"matchExpressions": None},
        ),
        [NVIDIA_TOLERATION],
    ),
    "a term of matchFields is not empty, and they stay": (
        affinity_gate(BY_VENDOR),
        pod(affinity=required({"matchFields": [need("metadata.name", "In", "n7")]})),
        required({"matchFields": [need("metadata.name", "In", "n7")], "matchExpressions": [IS_NVIDIA]}),
        [NVIDIA_TOLERATION],
    ),
    "only into the terms that do not say it": (
        affinity_gate(BY_VENDOR),
        pod(affinity=required([IS_NVIDIA], [need("zone", "In", "b")])),
        required([IS_NVIDIA], [need("zone", "In", "b"), IS_NVIDIA]),
        [NVIDIA_TOLERATION],
    ),
    "one term contradicts, another does not": (
        affinity_gate(BY_VENDOR),
        pod(affinity=required([need(PRESENT, "In", "false")], [need("zone", "In", "b")])),
        required([need(PRESENT, "In", "false"), IS_NVIDIA], [need("zone", "In", "b"), IS_NVIDIA]),
        [NVIDIA_TOLERATION],
    ),
    "its selector says it already": (
        affinity_gate(BY_VENDOR),
        pod(nodeSelector={PRESENT: "true"}),
        None,
        [NVIDIA_TOLERATION],
    ),
    "a weaker requirement does not say it": (
        affinity_gate(BY_VENDOR),
        pod(affinity=required([need(PRESENT, "Exists")])),
        required([need(PRESENT, "Exists"), IS_NVIDIA]),
        [NVIDIA_TOLERATION],
    ),
    "a Kueue flavor that agrees": (
        affinity_gate({"pools": ["h100"]}, pools=(H100,)),
        pod(nodeSelector={PRODUCT: "H100"}, metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}),
        required([need("rack", "In", "ib")]),
        [NVIDIA_TOLERATION],
    ),
    "the accelerator is in an init container only": (
        affinity_gate(BY_VENDOR),
        {
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": [container()], "initContainers": [container(resources={GPU: "1"})]},
        },
        ONE_TERM,
        [NVIDIA_TOLERATION],
    ),
    "mixed vendors that one node can have": (
        affinity_gate(BY_VENDOR),
        asking(GPU, "amd.com/gpu"),
        required([need("feature.node.kubernetes.io/amd-gpu", "In", "true"), IS_NVIDIA]),
        [AMD_TOLERATION, NVIDIA_TOLERATION],
    ),
    "a claim whose class is known": (
        affinity_gate(BY_VENDOR, facts=(claim("gpu.nvidia.com"),)),
        claiming(),
        ONE_TERM,
        [NVIDIA_TOLERATION],
    ),
    "a GPU by name beside a claim of which nothing is known": (
        affinity_gate(BY_VENDOR),
        claiming(GPU),
        ONE_TERM,
        [NVIDIA_TOLERATION],
    ),
    "one pool": (
        affinity_gate({"pools": ["h100"]}, pools=(H100, H200)),
        pod(),
        required([need(PRODUCT, "In", "H100"), need("rack", "In", "ib")]),
        [NVIDIA_TOLERATION],
    ),
    "two pools that differ in one label": (
        affinity_gate({"pools": ["h200", "h100"]}, pools=(H100, H200)),
        pod(),
        required([need(PRODUCT, "In", "H100", "H200"), need("rack", "In", "ib")]),
        [NVIDIA_TOLERATION, {"key": "big", "operator": "Equal", "value": "yes"}],
    ),
    "of two pools only one offers it": (
        affinity_gate(
            {"pools": ["h100", "other"]},
            pools=(
                H100,
                pool("other", resourceNames=["amd.com/gpu"], nodeLabels={PRODUCT: "MI300", "rack": "ib"}),
            ),
        ),
        pod(),
        required([need(PRODUCT, "In", "H100"), need("rack", "In", "ib")]),
        [NVIDIA_TOLERATION],
    ),
    "plain requirements": (
        affinity_gate(
            {"matchExpressions": [need("gpus", "Gt", "3"), need("gpus", "Lt", "9"), need("zone", "Exists")]}
        ),
        pod(),
        required([need("gpus", "Gt", "3"), need("gpus", "Lt", "9"), need("zone", "Exists")]),
        None,
    ),
    "tolerations alone, and all terms are empty": (
        affinity_gate({"tolerations": [NVIDIA_TOLERATION]}),
        pod(affinity=required({})),
        required({}),
        [NVIDIA_TOLERATION],
    ),
    "tolerations of the rule beside those of the pool": (
        affinity_gate({"pools": ["h100"], "tolerations": [{"key": "x"}, NVIDIA_TOLERATION]}, pools=(H100,)),
        pod(nodeSelector={PRODUCT: "H100", "rack": "ib"}),
        None,
        [NVIDIA_TOLERATION, {"key": "x"}],
    ),
}


@pytest.mark.parametrize(("gate", "thing", "affinity", "tolerations"), PLACED.values(), ids=PLACED.keys())
def test_what_is_written(gate: Gate, thing: Json, affinity: Any, tolerations: Any) -> None:
    assert written(gate, thing) == (affinity, tolerations)


EQUAL = {"key": "pool", "value": "gpu", "effect": "NoSchedule"}
TOLERATIONS: Mapping[str, tuple[Json, list[Json], list[Json]]] = {
    "none": (NVIDIA_TOLERATION, [], [NVIDIA_TOLERATION]),
    "the same, in another order": (
        NVIDIA_TOLERATION,
        [{"effect": "NoSchedule", "operator": "Exists", "key": GPU}],
        [{"effect": "NoSchedule", "operator": "Exists", "key": GPU}],
    ),
    "no operator is Equal": (EQUAL, [{**EQUAL, "operator": "Equal"}], [{**EQUAL, "operator": "Equal"}]),
    "an empty operator is Equal": (EQUAL, [{**EQUAL, "operator": ""}], [{**EQUAL, "operator": ""}]),
    "a null value is none": (
        NVIDIA_TOLERATION,
        [{**NVIDIA_TOLERATION, "value": None, "tolerationSeconds": None}],
        [{**NVIDIA_TOLERATION, "value": None, "tolerationSeconds": None}],
    ),
    "Equal with a value is another": (
        NVIDIA_TOLERATION,
        [{"key": GPU, "value": "x", "effect": "NoSchedule"}],
        [{"key": GPU, "value": "x", "effect": "NoSchedule"}, NVIDIA_TOLERATION],
    ),
    "the same key with another value stays, in its place": (
        EQUAL,
        [{**EQUAL, "value": "cpu"}],
        [{**EQUAL, "value": "cpu"}, EQUAL],
    ),
    "seconds make another": (
        NVIDIA_TOLERATION,
        [{**NVIDIA_TOLERATION, "effect": "NoExecute", "tolerationSeconds": 300}],
        [{**NVIDIA_TOLERATION, "effect": "NoExecute", "tolerationSeconds": 300}, NVIDIA_TOLERATION],
    ),
    "every effect is another": (
        NVIDIA_TOLERATION,
        [{"key": GPU, "operator": "Exists"}],
        [{"key": GPU, "operator": "Exists"}, NVIDIA_TOLERATION],
    ),
}


@pytest.mark.parametrize(("wanted", "present", "expected"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_tolerations_are_compared_by_meaning(wanted: Json, present: list[Json], expected: list[Json]) -> None:
    assert written(affinity_gate({"tolerations": [wanted]}), pod(tolerations=present)) == (None, expected)


def test_a_rule_changes_what_its_record_says() -> None:
    rule = {
        "matchExpressions": [need("gpus", "Gt", "3"), need("gpus", "Lt", "9")],
        "tolerations": [{"key": "a"}],
    }
    outcome = mutated(affinity_gate(rule), pod())
    assert [(change.rule, change.after) for change in outcome.changes] == [
        ("p/r", need("gpus", "Gt", "3")),
        ("p/r", need("gpus", "Lt", "9")),
        ("p/r", {"key": "a"}),
    ]


def test_two_rules_for_one_label_the_first_has_it() -> None:
    gate = affinity_gate(
        {"matchExpressions": [need("a", "In", "x", "w")]}, {"matchExpressions": [need("a", "In", "x")]}
    )
    assert written(gate, pod()) == (required([need("a", "In", "x", "w")]), None)


def test_two_rules_for_two_labels_share_the_terms() -> None:
    gate = affinity_gate(
        {"matchExpressions": [need("a", "Exists")]}, {"matchExpressions": [need("b", "Exists")]}
    )
    thing = pod(affinity=required([need("z", "Exists")], [need("w", "Exists")]))
    assert written(gate, thing) == (
        required(
            [need("z", "Exists"), need("a", "Exists"), need("b", "Exists")],
            [need("w", "Exists"), need("a", "Exists"), need("b", "Exists")],
        ),
        None,
    )


def test_a_later_rule_that_contradicts_an_earlier_one_leaves_the_pod() -> None:
    gate = affinity_gate(
        {"matchExpressions": [need("a", "In", "x")]}, {"matchExpressions": [need("a", "In", "w")]}
    )
    outcome = mutated(gate, pod())
    assert report(outcome, "p/r1").findings[0].text == "contradiction"
    assert without_record(outcome.object)["spec"]["affinity"] == required([need("a", "In", "x")])


def test_a_lost_toleration_is_reported_at_validation() -> None:
    stored = mutated(affinity_gate(BY_VENDOR), pod()).object or {}
    stripped = {**stored, "spec": {**stored["spec"], "tolerations": []}}
    assert places(judged(affinity_gate(BY_VENDOR), stripped)) == ["unapplied @ spec.tolerations"]


WRONG_TYPES = {
    "values is a number": required([{"key": "zone", "operator": "In", "values": 5}]),
    "a term is text": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": ["x", {"matchExpressions": "y"}]}}},
    "terms are a map": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": {"a": 1}}}},
    "required is a list": {"nodeAffinity": {REQUIRED: [1]}},
    "affinity is text": "none",
}


@pytest.mark.parametrize("affinity", WRONG_TYPES.values(), ids=WRONG_TYPES.keys())
def test_wrong_types_raise_nothing(affinity: Any) -> None:
    assert texts(mutated(affinity_gate(BY_VENDOR), pod(affinity=affinity), from_api_server=False)) in (
        [],
        ["empty terms"],
        ["unknown"],
    )


LOAD_ERRORS: Mapping[str, tuple[Json, str]] = {
    "nothing": ({}, "give one of pools, byVendor and matchExpressions, or tolerations"),
    "two sources": (
        {**BY_VENDOR, "matchExpressions": [need("a", "Exists")]},
        "give one of pools, byVendor and matchExpressions, not several",
    ),
    "an empty list of pools": (
        {"pools": [], "tolerations": [{"key": "a"}]},
        "expected at least one entry, found an empty list",
    ),
    "no vendor": (
        {"byVendor": {}, "tolerations": [{"key": "a"}]},
        "expected at least one entry, found an empty map",
    ),
    "an operator of label selectors only": (
        {"matchExpressions": [need("a", "Equals", "b")]},
        "expected In, NotIn, Exists, DoesNotExist, Gt or Lt, found 'Equals'",
    ),
    "In without values": (
        {"matchExpressions": [need("a", "In")]},
        "expected at least one value with In, found nothing",
    ),
    "Exists with values": (
        {"matchExpressions": [need("a", "Exists", "b")]},
        "expected no values with Exists, found a list",
    ),
    "Gt of a key that no label has": (
        {"matchExpressions": [need("a b", "Gt", "1")]},
        "expected a label key such as app or kubesphere.io/workspace, found 'a b'",
    ),
    "Gt with a word": ({"matchExpressions": [need("a", "Gt", "b")]}, "Gt takes one whole number, in quotes"),
    "a label that no node can have": (
        {"byVendor": {"nvidia": {"nodeLabels": {"a": "b c"}}}},
        "matchLabels.a: expected a label value of at most 63 letters, digits, - _ and ., found 'b c'",
    ),
    "Exists with a value": (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "operator Exists takes no value",
    ),
    "no key without Exists": (
        {"tolerations": [{"value": "b"}]},
        "a toleration without a key needs operator: Exists",
    ),
    "seconds without NoExecute": (
        {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]},
        "tolerationSeconds needs effect: NoExecute",
    ),
}


@pytest.mark.parametrize(("rule", "message"), LOAD_ERRORS.values(), ids=LOAD_ERRORS.keys())
def test_what_a_policy_may_not_say(rule: Json, message: str) -> None:
    (found,) = load_problems(policy({"setNodeAffinity": rule}))
    assert found.endswith(message)


def test_an_update_of_what_is_stored_gets_nothing_though_two_terms_are_alike_once_completed() -> None:
    contradicting = need(PRESENT, "In", "false")
    stored = pod(affinity=required([contradicting], [contradicting, IS_NVIDIA], [need("zone", "In", "a")]))
    request = request_of(stored, operation="UPDATE", old_object=stored)
    assert (
        mutate(affinity_gate({"byVendor": {"nvidia": {"nodeLabels": {PRESENT: "true"}}}}), request).patch
        == []
    )


def test_an_update_that_lost_our_entries_gets_them_back() -> None:
    gate, own = (
        affinity_gate(BY_VENDOR),
        pod(affinity=required([need("zone", "In", "a")]), tolerations=[EQUAL]),
    )
    stored = mutated(gate, own).object
    request = request_of(own, operation="UPDATE", old_object=stored)
    assert without_record(mutate(gate, request).object) == without_record(stored)
