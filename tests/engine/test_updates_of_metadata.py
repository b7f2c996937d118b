"""Updates that leave the spec alone: only a rule that is about more than the spec may hold them up."""

from typing import Any

import pytest

from tests.engine.gates import Json, gate, load, policy, request, said, training_pod
from webhook.engine import validate

UPDATES: Json = {"match": {"all": True, "operations": ["UPDATE"]}}
LABELLED: Json = {
    "expression": {"validations": [{"expression": 'object.metadata.?labels["tier"].orValue("") != "gold"'}]}
}
CAP: Json = {"limitAcceleratorCount": {"perPod": {"max": 1}}}


def relabelled(thing: Json, **labels: str) -> Json:
    return thing | {"metadata": thing["metadata"] | {"labels": labels}}


@pytest.mark.parametrize(
    ("rule", "labels", "allowed"),
    [
        pytest.param(LABELLED, {"tier": "silver"}, True, id="a condition on labels that holds"),
        pytest.param(CAP, {"tier": "gold"}, True, id="a limit on the spec, which the stored pod breaks"),
        pytest.param(LABELLED, {"tier": "gold"}, False, id="a condition on labels that the update breaks"),
    ],
)
def test_an_update_of_labels(rule: Json, labels: dict[str, Any], allowed: bool) -> None:
    old = training_pod()
    outcome = validate(
        gate(load(policy("p", rule, **UPDATES))),
        request(relabelled(old, **labels), operation="UPDATE", old_object=old),
    )
    assert outcome.allowed is allowed


def test_a_policy_about_the_spec_does_not_stand_before_one_about_labels() -> None:
    old = training_pod()
    outcome = validate(
        gate(load(policy("a", CAP, **UPDATES), policy("b", LABELLED, **UPDATES))),
        request(relabelled(old, tier="gold"), operation="UPDATE", old_object=old),
    )
    assert [report.rule.key for report in outcome.reports] == ["b/r0"]


def test_each_rule_of_a_policy_knows_what_it_found_before() -> None:
    old = relabelled(training_pod(), tier="gold")
    new = relabelled(training_pod(activeDeadlineSeconds=5), tier="gold")
    outcome = validate(
        gate(load(policy("p", {"limitAcceleratorCount": {"perPod": {"max": 8}}}, LABELLED, CAP, **UPDATES))),
        request(new, operation="UPDATE", old_object=old),
    )
    assert said(outcome.reports) == [f"p/r{number} pass none" for number in range(3)]
