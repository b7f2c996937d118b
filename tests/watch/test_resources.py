"""What is kept of objects: enough for every question, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.facts import Facts
from webhook.watch import WATCHED
from webhook.watch.resources import LAST_APPLIED, name_of

NOISE: dict[str, Any] = {"uid": "1", "managedFields": [{"manager": "m"}], "resourceVersion": "3"}
BETA = "storageclass.beta.kubernetes.io/is-default-class"

OBJECTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Namespace": (
        {
            "metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"k": "v", LAST_APPLIED: "{…}"}},
            "spec": {"finalizers": ["kubernetes"]},
        },
        {"metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"k": "v"}}},
    ),
    "PriorityClass": (
        {"metadata": {"name": "a"}, "value": 5, "globalDefault": True, "description": "long"},
        {"metadata": {"name": "a"}, "value": 5, "globalDefault": True},
    ),
    "StorageClass": (
        {
            "metadata": {"name": "a", "annotations": {BETA: "true", "k": "v"}},
            "provisioner": "p",
            "parameters": {},
        },
        {"metadata": {"name": "a", "annotations": {BETA: "true"}}, "provisioner": "p"},
    ),
    "VolumeAttributesClass": (
        {"metadata": {"name": "a"}, "driverName": "d", "parameters": {}},
        {"metadata": {"name": "a"}, "driverName": "d"},
    ),
    "Accessor": (
        {"metadata": {"name": "a"}, "spec": {"storageClassName": "s"}, "status": {}},
        {"metadata": {"name": "a"}, "spec": {"storageClassName": "s"}},
    ),
}


@pytest.mark.parametrize("kind", WATCHED)
def test_what_is_kept(kind: str) -> None:
    given, kept = OBJECTS[kind]
    assert WATCHED[kind].reduce({**given, "metadata": {**given["metadata"], **NOISE}}) == kept


@pytest.mark.parametrize("kind", WATCHED)
@pytest.mark.parametrize("metadata", [None, {}, {"name": None}, {"labels": 1, "annotations": []}, 7])
def test_a_strange_object_raises_nothing(kind: str, metadata: Any) -> None:
    WATCHED[kind].reduce({"metadata": metadata})
    assert name_of({"metadata": metadata}) == ""


def _questions(known: Facts) -> list[Any]:
    return [
        known.namespace("a"),
        known.priority_class("a"),
        known.default_priority_class(),
        known.storage_class("a"),
        known.default_storage_classes(),
        known.volume_attributes_driver("a"),
        known.accessor_refusal("s", "a"),
    ]


def test_what_is_kept_answers_as_the_whole_objects_do() -> None:
    whole, kept = Facts(), Facts()
    for kind, (item, _) in OBJECTS.items():
        item["metadata"].get("annotations", {}).pop(LAST_APPLIED, None)
        whole = whole.with_table(kind, {"a": item})
        kept = kept.with_table(kind, {"a": WATCHED[kind].reduce(item)})
    assert _questions(kept) == _questions(whole)
