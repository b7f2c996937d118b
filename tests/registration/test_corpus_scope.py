"""Real manifests: whatever a shipped policy says of one, it is asked about; those without accelerators make no call."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engine.gates import gate, request
from tests.registration.conditions import Json, is_called, request_of, typed
from tests.registration.test_condition import (
    ABOUT_ACCELERATORS,
    SETS,
    entries_of,
    one_policy,
    says_something,
    shipped,
)
from webhook.documents import listed_objects, read_documents
from webhook.engine import review
from webhook.kube.templates import shipped_templates, templates_of, virtual_pod
from webhook.registration import MUTATE

if TYPE_CHECKING:
    from collections.abc import Iterator

CORPUS = os.environ.get("PODGATE_CORPUS", "")

pytestmark = pytest.mark.skipif(not CORPUS, reason="PODGATE_CORPUS names no folder of real manifests")

SHIPPED = [name for name in SETS if name.startswith("shipped ")]


def objects() -> Iterator[Json]:
    for path in sorted(Path(CORPUS).glob("*.yaml")):
        reading = read_documents(path.read_bytes(), path.name, strict=False)
        for document in reading.documents:
            yield from (dict(thing) for _, thing in listed_objects(document))


def pods_and_controllers() -> Iterator[tuple[str, str, Json]]:
    """Resource, kind and object; of a controller also the pods that it would make."""
    for thing in objects():
        group = str(thing.get("apiVersion")).rpartition("/")[0]
        kind = shipped_templates().kind_of(group, str(thing.get("kind")))
        if thing.get("kind") == "Pod":
            yield "pods", "Pod", typed(thing)
        if kind is not None:
            yield kind.resource, kind.kind, typed(thing)
            for template in templates_of(kind, thing):
                yield "pods", "Pod", typed(virtual_pod(kind, thing, template))


def test_whatever_a_shipped_policy_says_is_asked_about() -> None:
    said: Counter[str] = Counter()
    for resource, kind, thing in pods_and_controllers():
        name, _, group = resource.partition(".")
        asked = request(thing, kind=kind, resource=name, group=group, namespace="team")
        for which in SHIPPED:
            policies, entries = one_policy(which)
            outcome = review(gate(policies), asked)
            if says_something(outcome):
                said[which] += 1
                called = [each for each in entries.values() if is_called(each, thing, request_of(resource))]
                assert called, f"{which} says something of {kind} {thing['metadata']}"
                assert not outcome.changes or entries[MUTATE] in called
    assert len(said) > len(SHIPPED) / 2


def test_pods_without_accelerators_make_no_call() -> None:
    entries = entries_of(
        shipped(*(name for name in ABOUT_ACCELERATORS if "reserved" not in name and "bypass" not in name))
    )
    quiet = [
        not any(is_called(each, thing, request_of(resource)) for each in entries.values())
        for resource, _, thing in pods_and_controllers()
    ]
    assert sum(quiet) > 30
