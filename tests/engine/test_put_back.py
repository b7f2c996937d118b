from copy import deepcopy
from typing import Any

import jsonpatch
import pytest

from tests.engine.gates import (
    GPU,
    Json,
    container,
    gate,
    load,
    pod,
    policy,
    request,
    shipped_files,
    training_pod,
)
from webhook.engine import mutate
from webhook.engine.annotations import DECISION_CHARACTERS
from webhook.kube.node_affinity import REQUIRED

GATE = gate(load(*shipped_files()))
OURS = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
OWN = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
EXPRESSION = {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}


def affinity(*terms: Any) -> Json:
    return {
        "nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}}
    }


def stored(thing: Json) -> Json:
    """The pod as it lies in the cluster after its creation through the gate."""
    found: Json = deepcopy(dict(mutate(GATE, request(thing)).object or {}))
    assert OURS in found["spec"]["tolerations"]
    return found


def update(new: Json, old: Any, **others: Any) -> list[Json]:
    outcome = mutate(GATE, request(new, "UPDATE", old_object=old, **others))
    assert outcome.reports == ()
    assert len(outcome.decision_id) == DECISION_CHARACTERS
    assert jsonpatch.apply_patch(deepcopy(new), outcome.patch) == outcome.object
    return outcome.patch


def applied_again(old: Json, **spec: Any) -> Json:
    """The stored pod with the lists of the client's own file."""
    return {**old, "spec": {key: value for key, value in (old["spec"] | spec).items() if value is not None}}


def test_what_was_dropped_comes_back() -> None:
    old = stored(training_pod())
    assert update(applied_again(old, tolerations=None, affinity=None), old) == [
        {"op": "add", "path": "/spec/affinity", "value": affinity([EXPRESSION])},
        {"op": "add", "path": "/spec/tolerations", "value": [OURS]},
    ]


def test_what_comes_back_is_a_change_of_the_rule_that_appended_it() -> None:
    rules = gate(load(policy("p", {"setNodeAffinity": {"tolerations": [OURS]}})))
    old = pod(container(gpus=1), tolerations=[OURS])
    outcome = mutate(rules, request(pod(container(gpus=1)), "UPDATE", old_object=old))
    assert [(change.rule, change.field, change.after) for change in outcome.changes] == [
        ("p/r0", f'spec.tolerations["{GPU}"]', OURS)
    ]


def test_a_requirement_comes_back_however_its_keys_are_ordered() -> None:
    old = stored(training_pod())
    turned = dict(reversed(EXPRESSION.items()))
    assert list(turned) != list(EXPRESSION)
    old["spec"]["affinity"] = affinity([turned])
    (operation,) = update(applied_again(old, affinity=None), old)
    assert operation == {"op": "add", "path": "/spec/affinity", "value": affinity([EXPRESSION])}


def test_a_toleration_comes_back_beside_the_client_s_own() -> None:
    old = stored(training_pod(tolerations=[OWN]))
    assert update(applied_again(old, tolerations=[OWN]), old) == [
        {"op": "add", "path": "/spec/tolerations/-", "value": OURS}
    ]


def test_a_requirement_comes_back_into_every_term() -> None:
    own = affinity([{"key": "zone", "operator": "Exists"}], [{"key": "zone", "operator": "DoesNotExist"}])
    old = stored(training_pod(affinity=own))
    assert update(applied_again(old, affinity=own), old) == [
        {
            "op": "add",
            "path": f"/spec/affinity/nodeAffinity/{REQUIRED[-1]}/nodeSelectorTerms/{index}/matchExpressions/-",
            "value": EXPRESSION,
        }
        for index in (0, 1)
    ]


UNTOUCHED = training_pod(nodeName="n1")
SHORT_LIVED = OURS | {"tolerationSeconds": 5}

# the stored pod, what an update sends in its spec
NOTHING: dict[str, tuple[Json, Json]] = {
    "nothing of ours was stored": (UNTOUCHED, {}),
    "a toleration that differs": (
        applied_again(UNTOUCHED, tolerations=[SHORT_LIVED]), {"tolerations": [SHORT_LIVED]},
    ),
    "a toleration that differs was dropped": (
        applied_again(UNTOUCHED, tolerations=[SHORT_LIVED]), {"tolerations": None},
    ),
    "a term with something besides": (
        applied_again(UNTOUCHED, affinity=affinity([EXPRESSION, {"key": "zone", "operator": "Exists"}])),
        {"affinity": None},
    ),
    "everything is still there": (stored(training_pod()), {}),
}  # fmt: skip


@pytest.mark.parametrize(("old", "spec"), NOTHING.values(), ids=NOTHING)
def test_nothing_else_comes_back(old: Json, spec: Json) -> None:
    assert update(applied_again(old, **spec), old) == []


def test_no_class_no_device_and_no_capability_is_written() -> None:
    old = stored(training_pod())
    plain = applied_again(
        training_pod(priority=None, preemptionPolicy=None),
        tolerations=old["spec"]["tolerations"],
        affinity=old["spec"]["affinity"],
    )
    assert update(plain, old) == []


@pytest.mark.parametrize(
    "subresource", ["status", "resize", "ephemeralcontainers", "binding", "eviction", "exec"]
)
def test_subresources_are_never_written(subresource: str) -> None:
    old = stored(training_pod())
    dropped = applied_again(old, tolerations=None, affinity=None)
    assert update(dropped, old, subresource=subresource) == []


def test_other_kinds_are_never_written() -> None:
    claim = {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    chosen = {"metadata": {"name": "c"}, "spec": {"storageClassName": "ceph-block"}}
    others = {"kind": "PersistentVolumeClaim", "resource": "persistentvolumeclaims"}
    assert update(claim, chosen, **others) == []


@pytest.mark.parametrize(
    "old", [None, {}, {"spec": None}, {"spec": {"tolerations": "x", "affinity": []}}], ids=repr
)
def test_an_old_object_that_says_nothing(old: Any) -> None:
    assert update(training_pod(), old) == []


def test_what_only_an_audited_policy_would_add_does_not_come_back() -> None:
    tolerate = {"setNodeAffinity": {"tolerations": [OURS]}}
    old = pod(container(gpus=1), tolerations=[OURS])
    dropped = pod(container(gpus=1))
    for mode, back in (("audit", []), ("warn", []), ("enforce", [OURS])):
        policies = load(policy("p", tolerate, mode=mode))
        outcome = mutate(gate(policies), request(dropped, "UPDATE", old_object=old))
        assert (outcome.object or {})["spec"].get("tolerations", []) == back
        assert outcome.would_change == ()


PAUSED = gate(load(policy("p", {"setNodeAffinity": {"tolerations": [OURS]}}, mode="audit")))
"""No policy appends anything now: what comes back is what the record says."""

OWN_TERMS = affinity([{"key": "zone", "operator": "Exists"}], [{"key": "zone", "operator": "DoesNotExist"}])


BY_NAME = {
    "nodeAffinity": {
        REQUIRED[-1]: {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
            ]
        }
    }
}


def given_back(new: Json, old: Json) -> Any:
    outcome = mutate(PAUSED, request(new, "UPDATE", old_object=old))
    assert outcome.changes == ()
    assert jsonpatch.apply_patch(deepcopy(new), outcome.patch) == outcome.object
    return outcome.object


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"tolerations": [OWN]},
        {"affinity": OWN_TERMS},
        {"affinity": affinity([], [{"key": "zone", "operator": "Exists"}])},
        {"affinity": BY_NAME},
        {"affinity": {"podAffinity": {}}, "tolerations": [OWN]},
    ],
    ids=[
        "nothing of its own",
        "a toleration",
        "two terms",
        "an empty term",
        "a node by name",
        "another affinity",
    ],
)
def test_what_policies_of_an_earlier_time_appended_comes_back(own: Json) -> None:
    old = stored(training_pod(**own))
    again = applied_again(old, **{"tolerations": None, "affinity": None, **own})
    assert given_back(again, old)["spec"] == old["spec"]


@pytest.mark.parametrize("own", [{"tolerations": [OWN]}, {"affinity": OWN_TERMS}], ids=list)
def test_without_its_record_nothing_comes_back(own: Json) -> None:
    old = stored(training_pod(**own))
    old["metadata"]["annotations"] = {}
    again = applied_again(old, **{"tolerations": None, "affinity": None, **own})
    assert given_back(again, old) == again


def test_a_capability_comes_back_beside_the_client_s_own() -> None:
    own = {"capabilities": {"add": ["SYS_PTRACE"]}}
    begun = training_pod()
    begun["spec"]["containers"][0]["securityContext"] = own
    old = stored(begun)
    (main,) = old["spec"]["containers"]
    assert main["securityContext"] == {"capabilities": {"add": ["SYS_PTRACE", "IPC_LOCK"]}}
    again = applied_again(old, containers=[{**main, "securityContext": own}])
    assert given_back(again, old)["spec"] == old["spec"]


LYING = '[{"path": "spec.tolerations[\\"x\\"]", "to": {"key": "team", "operator": "Exists"}}]'


@pytest.mark.parametrize(
    "record",
    [None, 7, "", "[", "{}", '[7, null, {"path": 7}, {"path": "spec.tolerations[0]", "to": null}]', LYING],
    ids=repr,
)
def test_a_record_that_lies_gives_nothing_that_is_not_stored(record: Any) -> None:
    old = pod(container(gpus=1), tolerations=[OWN])
    old["metadata"]["annotations"] = {"podgate.dev/changes": record}
    new = pod(container(gpus=1))
    assert given_back(new, old) == new


def test_a_term_that_was_changed_otherwise_gets_nothing() -> None:
    old = stored(training_pod(affinity=OWN_TERMS))
    for other in (
        affinity([{"key": "zone", "operator": "Exists"}]),
        affinity([], []),
        {"nodeAffinity": {REQUIRED[-1]: 7}},
    ):
        again = applied_again(old, affinity=other)
        assert given_back(again, old) == again
