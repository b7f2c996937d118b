"""checkPriority: near misses first, then what is refused, with its exact words."""

from collections.abc import Mapping
from typing import Any

import pytest

from webhook.engine.texts import say
from webhook.facts import Facts
from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft
from webhook.kube.field_path import format_field
from webhook.policy import Loaded, load_policy_set
from webhook.rules.base import Finding, Received, Result, Subject
from webhook.rules.check_priority import CheckPriority

KUEUE = "kueue.x-k8s.io/priority-class"
RULES = {
    "allowed": {"notebook": ["ai-interactive", "ai-low"], "training": ["ai-train"]},
    "systemClassesOutside": ["kube-system", "kubesphere-*"],
}


def pod(labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "labels": dict(labels or {})},
        "spec": {"containers": [{"name": "main"}], **spec},
    }


def notebook(name: str | None, **labels: str) -> dict[str, Any]:
    return pod({"notebook-name": "n", **labels}, priorityClassName=name)


def default_class(value: int) -> dict[str, Any]:
    return {"kind": "PriorityClass", "metadata": {"name": "d"}, "value": value, "globalDefault": True}


def findings(
    thing: dict[str, Any],
    namespace: str = "team",
    parameters: Mapping[str, Any] = RULES,
    facts: tuple[Mapping[str, Any], ...] = (),
) -> list[Finding]:
    request = AdmissionRequest(kind="Pod", resource="pods", namespace=namespace, object=thing)
    received = Received(request, Facts.from_objects(facts), (), shipped_catalogue())
    return list(CheckPriority.model_validate(parameters).validate_subject(Subject(received, Draft(thing))))


NEAR_MISSES = {
    "an allowed class": notebook("ai-interactive"),
    "another allowed class": notebook("ai-low", **{KUEUE: "ai-interactive"}),
    "no class": notebook(None),
    "an empty class is none": notebook(""),
    "an empty class for Kueue is none": notebook(None, **{KUEUE: ""}),
    "the class of training on a workload that is not named": pod(priorityClassName="ai-train"),
    "a name that only begins like a system class": pod(priorityClassName="systematic"),
    "the number that the API server writes": pod(priority=0),
    "a number beside its class": pod(priorityClassName="ai-train", priority=1000),
    "no number": pod(priority=None),
    "wrong types": pod(priorityClassName=["a"], priority="1"),
    "true is no number": pod(priority=True),
}


@pytest.mark.parametrize("thing", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_a_pod_with_a_fitting_priority_passes(thing: dict[str, Any]) -> None:
    assert findings(thing) == []


LABELLED = f'metadata.labels["{KUEUE}"]'
REFUSED = {
    "another class": (
        notebook("ai-train"),
        "spec.priorityClassName",
        (
            "priority class ai-train is not for notebook pods (label notebook-name), which may have "
            "ai-interactive, ai-low"
        ),
        "set spec.priorityClassName to one of: ai-interactive, ai-low",
    ),
    "another class for Kueue": (
        notebook("ai-low", **{KUEUE: "ai-train"}),
        LABELLED,
        (
            "Kueue's priority class ai-train is not for notebook pods (label notebook-name), which may have "
            "ai-interactive, ai-low"
        ),
        "set the label kueue.x-k8s.io/priority-class to one of: ai-interactive, ai-low",
    ),
    "another class for Kueue alone": (
        notebook(None, **{KUEUE: "AI-LOW"}),
        LABELLED,
        (
            "Kueue's priority class AI-LOW is not for notebook pods (label notebook-name), which may have "
            "ai-interactive, ai-low"
        ),
        "set the label kueue.x-k8s.io/priority-class to one of: ai-interactive, ai-low",
    ),
    "a system class in a team's namespace": (
        notebook("system-node-critical"),
        "spec.priorityClassName",
        (
            "priority class system-node-critical is for the cluster's own pods, and namespace team is not "
            "one of theirs"
        ),
        "choose another priority class, or leave it out",
    ),
    "a number without a class": (
        pod(priority=1),
        "spec.priority",
        (
            "the pod has priority 1 but names no priority class, and Kubernetes takes a number only from a "
            "class"
        ),
        "remove spec.priority, and name a class in spec.priorityClassName",
    ),
    "a number beside an empty class": (
        pod(priorityClassName="", priority=-5),
        "spec.priority",
        (
            "the pod has priority -5 but names no priority class, and Kubernetes takes a number only from a "
            "class"
        ),
        "remove spec.priority, and name a class in spec.priorityClassName",
    ),
}


@pytest.mark.parametrize(("thing", "field", "message", "remedy"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_and_why(thing: dict[str, Any], field: str, message: str, remedy: str) -> None:
    (finding,) = findings(thing)
    rule = load("{}").policy_set.policies[0].rules[0]
    assert finding.result is Result.FAIL
    assert format_field(thing, finding.path) == field
    assert tuple(say(rule, finding, "en")) == (message, remedy)
    assert say(rule, finding, "zh").message != message


def test_both_classes_are_judged() -> None:
    both = notebook("ai-train", **{KUEUE: "ai-train"})
    assert [finding.text for finding in findings(both)] == ["not allowed", "not allowed in Kueue"]


SYSTEM = {
    "where they belong": ("kube-system", {}, []),
    "in a namespace by its pattern": ("kubesphere-monitoring-system", {}, []),
    "in a namespace that only ends alike": ("my-kube-system", {}, ["system class"]),
    "where nothing is said": ("team", {"systemClassesOutside": None}, []),
}


@pytest.mark.parametrize(("namespace", "change", "texts"), SYSTEM.values(), ids=SYSTEM.keys())
def test_system_classes_outside(namespace: str, change: dict[str, Any], texts: list[str]) -> None:
    parameters = {key: value for key, value in {**RULES, **change}.items() if value}
    thing = pod(priorityClassName="system-cluster-critical")
    assert [finding.text for finding in findings(thing, namespace, parameters)] == texts


NUMBERS = {
    "the default class gives it": (1000, {}, (default_class(1000),), []),
    "the default class gives another": (1, {}, (default_class(1000),), ["number"]),
    "there is no default class": (1, {}, ({"kind": "PriorityClassList", "items": []},), ["number"]),
    "nobody minds": (1, {"numbersWithoutClass": "ignore"}, (), []),
}


@pytest.mark.parametrize(("number", "change", "facts", "texts"), NUMBERS.values(), ids=NUMBERS.keys())
def test_numbers_without_a_class(
    number: int, change: dict[str, Any], facts: tuple[dict[str, Any], ...], texts: list[str]
) -> None:
    found = findings(pod(priority=number), parameters={**RULES, **change}, facts=facts)
    assert [finding.text for finding in found] == texts


def load(parameters: str) -> Loaded:
    policy = f"""
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: p
spec:
  match:
    all: true
  rules:
  - name: r
    checkPriority: {parameters}
"""
    return load_policy_set([("p.yaml", policy.encode())])


WHERE = "spec.rules[0].checkPriority"
LOAD_ERRORS = {
    "a workload that is none": (
        "\n      allowed:\n        notebok: [a]",
        f"{WHERE}.allowed.notebok: expected training, inference, notebook or other, found 'notebok'",
    ),
    "no class": (
        "\n      allowed:\n        notebook: []",
        f"{WHERE}.allowed.notebook: expected at least one entry, found an empty list",
    ),
    "one class without a list": (
        "\n      allowed:\n        notebook: a",
        f"{WHERE}.allowed.notebook: expected a list, found 'a'",
    ),
    "another word": (
        "\n      numbersWithoutClass: warn",
        f"{WHERE}.numbersWithoutClass: expected fail or ignore, found 'warn'",
    ),
}


@pytest.mark.parametrize(("parameters", "message"), LOAD_ERRORS.values(), ids=LOAD_ERRORS.keys())
def test_what_is_refused_at_load(parameters: str, message: str) -> None:
    (problem,) = load(parameters).problems
    assert problem.message == message
