"""Policies that choose by the pod's own labels are not looked at for pods without them, unless a rule may write the label."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.loading import load, policy
from webhook.facts import Facts
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft
from webhook.policy.match import View
from webhook.policy.policy_set import PolicySet
from webhook.rules.base import Received, Subject

TEAM_A = "objectSelector:\n  matchLabels:\n    team: a"
WRITES_TEAM = "- name: r\n  setFields:\n    labels:\n      team: b"
WRITES_TIER = WRITES_TEAM.replace("team", "tier")
WRITES_ANNOTATION = WRITES_TEAM.replace("labels", "annotations")
WRITING_OVERRIDE = (
    "apiVersion: podgate.dev/v1alpha1\nkind: PodPolicyOverride\nmetadata:\n  name: o\nspec:\n  order: 1\n"
    "  policies: [other]\n  match:\n    all: true\n  rules:\n  - name: r\n    setFields:\n      labels:\n        team: c\n"
)


def one_of(key: str, operator: str, values: str = "") -> str:
    tail = f"\n    values: [{values}]" if values else ""
    return f"objectSelector:\n  matchExpressions:\n  - key: {key}\n    operator: {operator}{tail}"


def view_of(policies: PolicySet, labels: Any, kind: str = "Pod", operation: str = "CREATE") -> View:
    thing = {"kind": kind, "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}}
    request = AdmissionRequest(
        kind=kind, resource="pods", namespace="team-a", operation=operation, object=thing, old_object=thing
    )
    return View(Subject(Received(request, Facts(), policies.pools, policies.catalogue), Draft(thing)))


def looked_at(policies: PolicySet, labels: Any) -> list[str]:
    bucket = policies.bucket("pods", "CREATE")
    return [each.policy.name for each in bucket.candidates(view_of(policies, labels))]


def good(*files: str) -> PolicySet:
    loaded = load(*files)
    assert loaded.problems == ()
    return loaded.policy_set


SKIPPED = {
    "another value": (TEAM_A, {"team": "b"}),
    "a longer value": (TEAM_A, {"team": "ab"}),
    "another key": (TEAM_A, {"teams": "a"}),
    "no labels": (TEAM_A, None),
    "labels of another type": (TEAM_A, ["team"]),
    "a number": ("objectSelector:\n  matchLabels:\n    team: x", {"team": 1}),
    "one of several values": (one_of("team", "In", "a, b"), {"team": "c"}),
    "every alternative": (f"- {TEAM_A.replace(chr(10), chr(10) + '  ')}\n- namespaces: [m]", {"team": "b"}),
}


@pytest.mark.parametrize(("match", "labels"), SKIPPED.values(), ids=SKIPPED)
def test_a_policy_for_another_label_is_not_looked_at(match: str, labels: Any) -> None:
    assert looked_at(good(policy(match)), labels) == []


LOOKED_AT = {
    "the label": (TEAM_A, {"team": "a"}),
    "one value of several": (one_of("team", "In", "a, b"), {"team": "b"}),
    "what must not be there": (one_of("team", "NotIn", "a"), {}),
    "what may be anything": (one_of("team", "Exists"), {"team": "x"}),
    "an empty selector": ("objectSelector: {}", {}),
    "another alternative": (
        f"- {TEAM_A.replace(chr(10), chr(10) + '  ')}\n- namespaces: [team-a]",
        {"team": "b"},
    ),
    "a label and more": (f"{TEAM_A}\nworkloads: [notebook]", {"team": "a"}),
}


@pytest.mark.parametrize(("match", "labels"), LOOKED_AT.values(), ids=LOOKED_AT)
def test_a_policy_that_may_match_is_looked_at(match: str, labels: Any) -> None:
    assert looked_at(good(policy(match)), labels) == ["p"]


WRITERS = {
    "a rule that writes the label": (policy(rules=WRITES_TEAM, name="other"), ["other", "p"]),
    "for another namespace": (policy("namespaces: [m]", WRITES_TEAM, "other"), ["p"]),
    "a rule that writes another label": (policy(rules=WRITES_TIER, name="other"), ["other"]),
    "a rule that writes an annotation": (policy(rules=WRITES_ANNOTATION, name="other"), ["other"]),
}


@pytest.mark.parametrize(("writer", "expected"), WRITERS.values(), ids=WRITERS)
def test_a_label_that_a_rule_may_write_tells_nothing(writer: str, expected: list[str]) -> None:
    assert looked_at(good(writer, policy(TEAM_A)), {}) == expected


def test_a_label_that_only_an_override_writes_tells_nothing() -> None:
    other = policy("namespaces: [m]", WRITES_TIER, "other")
    assert looked_at(good(other, policy(TEAM_A), WRITING_OVERRIDE), {}) == ["p"]


def test_where_one_label_may_be_written_another_is_looked_for() -> None:
    both = f"{TEAM_A}\n    zone: z"
    policies = good(policy("namespaces: [m]", WRITES_TEAM, "other"), policy(both))
    assert looked_at(policies, {"team": "a"}) == []
    assert looked_at(policies, {"zone": "z"}) == ["p"]


MIXED = good(
    policy(rules=WRITES_TIER, name="writer"),
    policy(TEAM_A, name="team"),
    policy(TEAM_A.replace("team", "tier"), name="tier"),
    policy(one_of("team", "In", "a, b"), name="in"),
    policy(one_of("team", "NotIn", "a"), name="not-in"),
    policy(f"{TEAM_A}\n    zone: z", name="two"),
    policy(f"- {TEAM_A.replace(chr(10), chr(10) + '  ')}\n- workloads: [training]", name="either"),
)
KEYS, VALUES = ["team", "tier", "zone", "training.kubeflow.org/job-name"], ["a", "b", "z", "", 1, None]


@given(labels=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)))
def test_the_index_leaves_out_only_what_does_not_match(labels: dict[str, Any]) -> None:
    view = view_of(MIXED, labels)
    bucket = MIXED.bucket("pods", "CREATE")
    found = list(bucket.candidates(view))
    every = {each.rank: each for candidates in bucket.by_need.values() for each in candidates}
    assert [each for each in every.values() if each not in found and each.matches(view) is not False] == []
    assert [each.rank for each in found] == sorted(each.rank for each in found)
