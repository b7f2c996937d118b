"""What is explained is what the gate does, on every manifest that this project shows or tests with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from webhook.documents import read_documents
from webhook.engine import Action, Gate, review
from webhook.facts import Facts
from webhook.output.explanations import Explainer, Explanation, Placed
from webhook.output.results import RuleResult, object_result
from webhook.policy import load_policy_set
from webhook.review_tools.manifests import Caller, Manifest, manifests_in, request_for
from webhook.rules.base import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FILES = [
    (str(file), file.read_bytes())
    for file in sorted((ROOT / "policies").glob("*.yaml"))
    if not file.name.endswith(".test.yaml")
]
POLICIES = load_policy_set(FILES).policy_set
GATE = Gate(POLICIES, Facts())
EXPLAINER = Explainer(GATE)


def manifests() -> Iterator[tuple[str, Manifest]]:
    for folder in ("examples/workloads", "tests/documents/data"):
        for file in sorted((ROOT / folder).rglob("*.yaml")):
            for document in read_documents(file.read_bytes(), file.name, strict=False).documents:
                for index, found in enumerate(manifests_in(document)):
                    if request_for(found.value, Caller(), POLICIES.templates):
                        yield f"{file.stem} {document.index} {index}", found


MANIFESTS = dict(manifests())


def explained(found: Manifest, operation: str = "CREATE") -> list[Explanation]:
    request = request_for(found.value, Caller(operation=operation), POLICIES.templates)
    assert request is not None
    return list(EXPLAINER.explain(request, Placed(found.document, found.base, ("en",))))


def test_there_are_pods_and_controllers() -> None:
    assert {"Pod", "PyTorchJob"} <= {found.value["kind"] for found in MANIFESTS.values()}


def _finding(each: RuleResult) -> tuple[str, ...]:
    """A pass has no place of its own: it is shown at the object, or at the template."""
    place = "" if each.result is Result.PASS else str(each.place)
    return each.rule, each.result, place, each.action, *each.message.values()


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("name", MANIFESTS)
def test_explanations_are_the_gate_s_own_answer(name: str, operation: str) -> None:
    found = MANIFESTS[name]
    request = request_for(found.value, Caller(operation=operation), POLICIES.templates)
    assert request is not None
    outcome = review(GATE, request)
    result = object_result(outcome, found.document, found.base, ("en",))
    rules = [
        rule for each in explained(found, operation) for policy in each.policies for rule in policy.rules
    ]
    told = {_finding(each) for each in result.results}
    said = {_finding(each) for rule in rules for each in rule.results}
    assert told <= said
    changed = {(c.rule, c.mode, str(c.after)) for c in (*result.changes, *result.later)}
    shown = {(c.rule, c.mode, str(c.after)) for rule in rules for c in rule.changes}
    assert changed <= shown


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_policy_that_does_not_apply_says_why_and_one_that_does_has_no_excuse(name: str) -> None:
    for each in explained(MANIFESTS[name]):
        for policy in each.policies:
            assert bool(policy.reasons) == (policy.applies != "yes"), policy
            assert all(policy.reasons)
            assert bool(policy.rules) == (policy.applies != "no")
            assert all(rule.results for rule in policy.rules), policy


def test_explaining_changes_no_manifest() -> None:
    for found in MANIFESTS.values():
        before = repr(found.value)
        explained(found)
        assert repr(found.value) == before


def test_a_denial_is_shown_as_one() -> None:
    text = b"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - resources:\n      limits:\n        nvidia.com/gpu: 64\n"
    (document,) = read_documents(text, "pod.yaml", strict=False).documents
    (each,) = explained(Manifest(document, (), document.value))
    denied = {
        r.rule for p in each.policies for rule in p.rules for r in rule.results if r.action is Action.DENY
    }
    assert "gpu-limits/cap" in denied


def test_a_review_without_time_says_so() -> None:
    explainer = Explainer(replace(GATE, expired=lambda: True))
    found = next(found for found in MANIFESTS.values() if found.value["kind"] == "Pod")
    request = request_for(found.value, Caller(), POLICIES.templates)
    assert request is not None
    (each,) = explainer.explain(request, Placed(found.document, found.base, ("en",)))
    reasons = {reason for policy in each.policies if policy.applies == "unknown" for reason in policy.reasons}
    assert "not known: the time that the API server gives to a review ran out" in reasons
