"""Which kinds a policy set asks the facts about: no more is watched, and no less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import webhook.rules
from tests.policy.loading import HEAD, indented, load, policy
from webhook.policy.asked import kinds_asked
from webhook.rules import rule_types

NAMESPACE = frozenset({"Namespace"})
TOLD = "- name: r\n  forbidBypass:\n    privileged: true"


def _asked(*files: str) -> frozenset[str]:
    loaded = load(*files)
    assert not [str(problem) for problem in loaded.problems if not problem.is_warning]
    return kinds_asked(loaded.policy_set)


def _expression(text: str, message: str = "") -> str:
    return f'- name: r\n  expression:\n    validations:\n    - expression: "{text}"' + (
        f'\n      messageExpression: "{message}"' if message else ""
    )


@pytest.mark.parametrize(
    ("match", "rules", "spec", "expected"),
    [
        pytest.param("all: true", TOLD, "", frozenset(), id="none"),
        pytest.param("namespaces: [a]", TOLD, "", frozenset(), id="a namespace by its name"),
        pytest.param(
            "objectSelector:\n  matchLabels:\n    a: b", TOLD, "", frozenset(), id="labels of the object"
        ),
        pytest.param("workspaces: [a]", TOLD, "", NAMESPACE, id="a workspace"),
        pytest.param("namespaceSelector:\n  matchLabels:\n    a: b", TOLD, "", NAMESPACE, id="labels"),
        pytest.param("namespaceSelector: {}", TOLD, "", NAMESPACE, id="any labels"),
        pytest.param("all: true", TOLD, "exclude:\n  workspaces: [a]", NAMESPACE, id="an exclude"),
        pytest.param("all: true", TOLD, "exclude:\n  namespaces: [a]", frozenset(), id="an exclude by name"),
        pytest.param(
            "matchConditions:\n- name: c\n  expression: has(namespaceObject.metadata)",
            TOLD,
            "",
            NAMESPACE,
            id="a condition",
        ),
        pytest.param(
            "matchConditions:\n- name: c\n  expression: has(object.spec)",
            TOLD,
            "",
            frozenset(),
            id="a condition about something else",
        ),
        pytest.param("all: true", _expression("has(object.spec)"), "", frozenset(), id="an expression"),
        pytest.param(
            "all: true",
            _expression("has(namespaceObject.metadata)"),
            "",
            NAMESPACE,
            id="an expression about the namespace",
        ),
        pytest.param(
            "all: true",
            _expression("has(object.spec)", "string(namespaceObject.metadata.name)"),
            "",
            NAMESPACE,
            id="a message about the namespace",
        ),
        pytest.param(
            "all: true", "- name: r\n  setFields:\n    schedulerName: s", "", frozenset(), id="a fixed field"
        ),
        pytest.param(
            "all: true",
            "- name: r\n  setFields:\n    schedulerName:\n      fromNamespaceLabel: s",
            "",
            NAMESPACE,
            id="a field from a label",
        ),
        pytest.param(
            "all: true",
            "- name: r\n  setFields:\n    env:\n      A:\n        fromNamespaceLabel: s",
            "",
            NAMESPACE,
            id="a variable from a label",
        ),
        pytest.param(
            "all: true", "", "", frozenset({"PriorityClass"}), id="a rule that asks for priority classes"
        ),
        pytest.param("all: true", "", "mode: disabled", frozenset(), id="disabled"),
    ],
)
def test_what_a_policy_asks(match: str, rules: str, spec: str, expected: frozenset[str]) -> None:
    assert _asked(policy(match, rules, spec=spec)) == expected


def _adaptation(kind: str, match: str, spec: str) -> str:
    return (
        f"{HEAD}kind: {kind}\nmetadata:\n  name: o\nspec:\n  match:\n{indented(match, 4)}{indented(spec, 2)}"
    )


EXCEPTION = 'policies: [p]\nreason: a long enough reason\nowner: ann\nreference: T-1\nexpiresAt: "2099-01-01T00:00:00Z"'


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("PodPolicyOverride", "policies: [p]\nmode: audit"), ("PodPolicyException", EXCEPTION)],
)
def test_what_an_override_or_an_exception_asks(kind: str, spec: str) -> None:
    assert _asked(policy(rules=TOLD), _adaptation(kind, "namespaces: [a]", spec)) == frozenset()
    assert _asked(policy(rules=TOLD), _adaptation(kind, "workspaces: [a]", spec)) == NAMESPACE


def test_an_override_that_wakes_a_policy() -> None:
    override = _adaptation("PodPolicyOverride", "namespaces: [a]", "policies: [p]\nmode: audit")
    assert _asked(policy(spec="mode: disabled"), override) == frozenset({"PriorityClass"})


#: What a module of `webhook.rules` writes where it asks, and the kinds that are asked about.
QUESTIONS = {
    r"\.facts\.(default_)?priority_class\(": {"PriorityClass"},
    r"\.facts\.(default_)?storage_class(es)?\(": {"StorageClass"},
    r"\.facts\.volume_attributes_driver\(": {"VolumeAttributesClass"},
    r"\.facts\.claim_class\(": {"PersistentVolumeClaim"},
    r"\.facts\.nodes\(": {"Node"},
    r"\.facts\.device_classes\(": {"ResourceClaim", "ResourceClaimTemplate"},
    r"\.facts\.accessor_refusal\(": {"Accessor", "Namespace"},
    r"\.facts\.(namespace|pod_security)\(|\.received\.namespace\b|^from webhook.rules.rdma import": {
        "Namespace"
    },
}
ANY_QUESTION = re.compile(r"\.facts\.\w+\(")


@pytest.mark.parametrize("name", sorted(rule_types()))
def test_a_rule_declares_every_kind_that_its_code_asks_about(name: str) -> None:
    rule = rule_types()[name]
    module = rule.__module__.rpartition(".")[2]
    source = Path(webhook.rules.__file__).with_name(f"{module}.py").read_text()
    asked: set[str] = set()
    for question, kinds in QUESTIONS.items():
        if re.search(question, source, re.MULTILINE):
            asked |= kinds
    assert all(any(re.match(known, each) for known in QUESTIONS) for each in ANY_QUESTION.findall(source)), (
        "a question that this test does not know"
    )
    if "kinds_asked" in vars(rule):  # it depends on the parameters: see above
        assert asked == NAMESPACE
    else:
        assert rule.asks == asked
