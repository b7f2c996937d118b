"""Objects in files as requests, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.documents import read_documents
from webhook.review_tools.manifests import Caller, facts_in, problems_in, request_for

POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


def problems(text: str) -> list[str]:
    (document,) = read_documents(text.encode(), "a.yaml", strict=False).documents
    return [str(problem).partition("\n")[0] for problem in problems_in(document)]


def test_the_request_of_a_pod() -> None:
    request = request_for(POD, Caller(operation="UPDATE", username="ann", groups=("ops",), namespace="ml"))
    assert request is not None
    assert request.resource_name == "pods"
    assert (request.operation, request.namespace, request.name) == ("UPDATE", "ml", "a")
    assert (request.username, request.groups) == ("ann", ("ops",))
    assert (request.dry_run, request.from_api_server) == (True, False)
    assert request.object == {**POD, "metadata": {"name": "a", "namespace": "ml"}}
    assert request.raw["userInfo"] == {"username": "ann", "groups": ["ops"]}


def test_the_object_is_not_touched() -> None:
    request_for(POD, Caller())
    assert POD["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("apps/v1", "Deployment"),
        ("example.org/v1", "Pod"),
        ("v1", "pod"),
        ("v1", None),
        (None, "Pod"),
        (["v1"], {}),
    ],
)
def test_other_kinds_are_not_reviewed(api_version: Any, kind: Any) -> None:
    assert request_for({"apiVersion": api_version, "kind": kind}, Caller()) is None


@pytest.mark.parametrize("metadata", [None, "a", [], {"name": 1, "namespace": []}])
def test_a_request_needs_no_sound_metadata(metadata: Any) -> None:
    request = request_for({**POD, "metadata": metadata}, Caller())
    assert request is not None
    assert (request.namespace, request.name) == ("default", "")


PROBLEMS = {
    "a good pod": (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - resources:\n      limits:\n        cpu: 500m",
        [],
    ),
    "a null amount": (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - resources:\n      limits:\n        cpu:",
        [],
    ),
    "any text in another kind": (
        "apiVersion: v1\nkind: Pot\nspec:\n  resources:\n    limits:\n      cpu: some",
        [],
    ),
    "in a container": (
        "apiVersion: v1\nkind: Pod\nspec:\n  initContainers:\n  - name: i\n    resources:\n      requests:\n        cpu: some",
        ["a.yaml:8:14: spec.initContainers[\"i\"].resources.requests.cpu: expected a quantity, found 'some'"],
    ),
    "in a pod's own resources and overhead": (
        "apiVersion: v1\nkind: Pod\nspec:\n  overhead:\n    cpu: [1]\n  resources:\n    limits:\n      cpu: true",
        [
            "a.yaml:5:10: spec.overhead.cpu: expected a quantity, found a list",
            "a.yaml:8:12: spec.resources.limits.cpu: expected a quantity, found the boolean true",
        ],
    ),
    "in a claim": (
        "apiVersion: v1\nkind: PersistentVolumeClaim\nspec:\n  resources:\n    requests:\n      storage: 10 Gi",
        ["a.yaml:6:16: spec.resources.requests.storage: expected a quantity, found '10 Gi'"],
    ),
    "a document that is text": (
        "just text",
        ["a.yaml:1:1: expected a Kubernetes object (a map), found 'just text'"],
    ),
    "a document without a kind": ("a: b", ["a.yaml:1:1: no Kubernetes object: kind is missing"]),
    "an item that is text, two Lists deep": (
        "kind: List\nitems:\n- kind: List\n  items:\n  - text\n  - kind: Thing",
        ["a.yaml:5:5: expected a Kubernetes object (a map), found 'text'"],
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_problems(case: str) -> None:
    text, expected = PROBLEMS[case]
    assert problems(text) == expected


def test_facts_come_from_objects_only() -> None:
    text = b"- a\n---\nkind: PriorityClassList\nitems: []\n"
    facts = facts_in(read_documents(text, "a.yaml", strict=False).documents, "baseline")
    assert facts.priority_class("high") is None
    assert facts.pod_security_default == "baseline"
