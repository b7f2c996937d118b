"""Policies for other workspaces and namespaces are not even looked at."""

from typing import Any

import pytest

from tests.policy.loading import load, policy
from webhook.facts import Facts, Unknown
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft
from webhook.policy import PolicySet
from webhook.policy.match import View
from webhook.policy.policy_set import Candidate
from webhook.rules.base import Received, Subject

POD: dict[str, Any] = {"kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "c"}]}}
LOADED = load(
    policy("workspaces: [research]", name="workspace"),
    policy("workspaces: [res*]", name="workspace-glob"),
    policy("namespaceSelector:\n  matchLabels:\n    team: a\n    tier: x", name="labels"),
    policy(
        "namespaceSelector:\n  matchExpressions:\n  - key: team\n    operator: In\n    values: [a]",
        name="expressions",
    ),
    policy("- workspaces: [research]\n- namespaceSelector:\n    matchLabels:\n      team: a", name="either"),
    policy("- workspaces: [research]\n- all: true", name="or-all"),
    policy("namespaceSelector: {}", name="empty-selector"),
    policy("workspaces: [research]\nworkloads: [notebook]", name="workspace-and-class"),
    policy(
        "namespaceSelector:\n  matchExpressions:\n  - key: team\n    operator: NotIn\n    values: [a]",
        name="not-in",
    ),
)
POLICIES = LOADED.policy_set
NOT_INDEXED = ["empty-selector", "not-in", "or-all", "workspace-glob"]


def candidates(
    labels: dict[str, str] | None, namespace: str = "n", policies: PolicySet = POLICIES
) -> tuple[View, list[Candidate]]:
    things = [] if labels is None else [{"kind": "Namespace", "metadata": {"name": "n", "labels": labels}}]
    request = AdmissionRequest(kind="Pod", resource="pods", namespace=namespace, object=POD)
    received = Received(request, Facts.from_objects(things), policies.pools, policies.catalogue)
    view = View(Subject(received, Draft(POD)))
    return view, list(policies.bucket("pods", "CREATE").candidates(view))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({}, NOT_INDEXED, id="no label"),
        pytest.param({"kubesphere.io/workspace": "research-2"}, NOT_INDEXED, id="a longer name"),
        pytest.param({"team": "b", "tier": "x"}, NOT_INDEXED, id="another value"),
        pytest.param(
            {"kubesphere.io/workspace": "research"},
            ["either", *NOT_INDEXED, "workspace", "workspace-and-class"],
            id="the workspace",
        ),
        pytest.param({"team": "a"}, ["either", "expressions", "labels", *NOT_INDEXED], id="one label of two"),
        pytest.param(
            {"team": "a", "kubesphere.io/workspace": "research"},
            sorted(each.name for each in POLICIES.policies),
            id="both alternatives of one policy, once",
        ),
        pytest.param(None, sorted(each.name for each in POLICIES.policies), id="an unknown namespace"),
    ],
)
def test_who_is_looked_at(labels: dict[str, str] | None, expected: list[str]) -> None:
    assert [each.policy.name for each in candidates(labels)[1]] == sorted(expected)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"team": "a"},
        {"team": "a", "tier": "x"},
        {"kubesphere.io/workspace": "research"},
        {"kubesphere.io/workspace": ""},
        {"kubesphere.io/workspace": "res", "team": ""},
    ],
    ids=str,
)
def test_what_is_not_looked_at_does_not_match(labels: dict[str, str]) -> None:
    view, found = candidates(labels)
    looked_at = {each.policy.name for each in found}
    every = {each.policy.name: each for each in candidates(None)[1]}
    assert [
        name for name, each in every.items() if name not in looked_at and each.matches(view) is not False
    ] == []
    assert len(every) > len(looked_at)


def test_the_policies_are_good() -> None:
    assert LOADED.problems == ()


def test_an_unknown_namespace_stays_unknown() -> None:
    view, found = candidates({}, namespace="other")
    answers = {each.policy.name: each.matches(view) for each in found}
    assert isinstance(answers["workspace"], Unknown)
    assert answers["workspace-and-class"] is False


def test_lists_that_are_not_kept_are_merged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.policy.policy_set.MOST_MERGED", 1)
    policies = load(
        policy("namespaces: [a]", name="here"), policy("namespaces: [b]", name="there")
    ).policy_set
    found = [[each.policy.name for each in candidates({}, namespace, policies)[1]] for namespace in "abab"]
    assert found == [["here"], ["there"]] * 2
