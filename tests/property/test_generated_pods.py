"""Each shape that matters is among the generated pods: without this, the properties could hold of nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, find, settings

from tests.engine.gates import GPU, Json, facts, gate, request
from tests.property.pods import ASCEND, HAMI_MEMORY, MIG, RDMA, pods
from tests.property.sets import policy_set
from webhook.engine import mutate
from webhook.engine.annotations import DECISION
from webhook.engine.outcome import Outcome
from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.field_path import list_at, mapping_at, value_at
from webhook.kube.managed_fields import client_written, owns
from webhook.kube.node_affinity import required_terms
from webhook.kube.pod import container_requests, containers
from webhook.kube.workload import inspect_workload

CLASS = ("spec", "priorityClassName")


def roles(thing: Json) -> set[str]:
    return {each.role for each in containers(thing)}


def asks(thing: Json, name: str) -> list[str]:
    """The roles of the containers that ask for a resource."""
    return [each.role for each in containers(thing) if container_requests(each.value).get(name)]


def terms(thing: Json) -> list[bool]:
    """Of every term, whether it is empty."""
    return [term.is_empty for term in required_terms(thing) or ()]


def sent_class(thing: Json) -> bool | None:
    return owns(value_at(thing, ("metadata", "managedFields")), CLASS)


def is_null(thing: Json, key: str) -> bool:
    return key in thing["spec"] and thing["spec"][key] is None


def workload_class(thing: Json) -> str:
    return inspect_workload(thing, shipped_catalogue()).workload_class


SHAPES: dict[str, Callable[[Json], Any]] = {
    "an init container": lambda pod: "init" in roles(pod),
    "a sidecar": lambda pod: "sidecar" in roles(pod),
    "an ephemeral container": lambda pod: "ephemeral" in roles(pod),
    "null tolerations": lambda pod: is_null(pod, "tolerations"),
    "empty tolerations": lambda pod: pod["spec"].get("tolerations") == [],
    "null init containers": lambda pod: is_null(pod, "initContainers"),
    "null volumes": lambda pod: is_null(pod, "volumes"),
    "null env": lambda pod: any(each.value.get("env", 0) is None for each in containers(pod)),
    "null affinity": lambda pod: is_null(pod, "affinity"),
    "two terms, an empty one among them": lambda pod: len(terms(pod)) >= 2 and True in terms(pod) and False in terms(pod),
    "three terms": lambda pod: len(terms(pod)) >= 3,
    "only empty terms": lambda pod: terms(pod) and all(terms(pod)),
    "a term of fields": lambda pod: any(term.fields for term in required_terms(pod) or ()),
    "pod-level resources": lambda pod: mapping_at(pod, ("spec", "resources")),
    "a device claim": lambda pod: any(list_at(each.value, ("resources", "claims")) for each in containers(pod)),
    "a class that its client sent": lambda pod: sent_class(pod) is True and value_at(pod, CLASS),
    "a class that the API server filled in": lambda pod: sent_class(pod) is False and value_at(pod, CLASS),
    "no class": lambda pod: sent_class(pod) is False and not value_at(pod, CLASS),
    "a forged record": lambda pod: DECISION in client_written(value_at(pod, ("metadata", "managedFields"))),
    "no managedFields": lambda pod: "managedFields" not in pod["metadata"],
    "several containers with GPUs": lambda pod: len(asks(pod, GPU)) > 1,
    "a GPU in an init container only": lambda pod: asks(pod, GPU) == ["init"],
    "a GPU in a sidecar": lambda pod: "sidecar" in asks(pod, GPU),
    "MIG": lambda pod: asks(pod, MIG),
    "HAMi": lambda pod: asks(pod, HAMI_MEMORY),
    "Ascend": lambda pod: asks(pod, ASCEND),
    "the host's network and a GPU": lambda pod: value_at(pod, ("spec", "hostNetwork")) and asks(pod, GPU),
    "RDMA already there": lambda pod: asks(pod, RDMA) and asks(pod, GPU),
    "an ephemeral volume": lambda pod: any(value_at(each, ("ephemeral",)) for each in list_at(pod, ("spec", "volumes"))),
    "training with a GPU": lambda pod: workload_class(pod) == "training" and asks(pod, GPU),
    "inference with a GPU": lambda pod: workload_class(pod) == "inference" and asks(pod, GPU),
    "a notebook with a GPU": lambda pod: workload_class(pod) == "notebook" and asks(pod, GPU),
    "no accelerator": lambda pod: not inspect_workload(pod, shipped_catalogue()).asks_for_accelerator,
}  # fmt: skip

GENERATE = settings(max_examples=10_000, deadline=None, phases=[Phase.generate], database=None)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_shape_is_generated(shape: Callable[[Json], Any]) -> None:
    assert find(pods(), lambda pod: bool(shape(pod)), settings=GENERATE)


def wrote(rule: str) -> Callable[[Outcome], bool]:
    return lambda outcome: any(change.rule == rule for change in outcome.changes)


def would_write(rule: str) -> Callable[[Outcome], bool]:
    return lambda outcome: any(change.rule == rule for _, change in outcome.would_change)


def found(rule: str, text: str) -> Callable[[Outcome], bool]:
    return lambda outcome: any(
        report.rule.key == rule and any(finding.text == text for finding in report.findings)
        for report in outcome.reports
    )


ENDS: dict[str, Callable[[Outcome], bool]] = {
    "placed": wrote("place/vendor"),
    "placed in pools": wrote("gold/r0"),
    "given a fabric": wrote("fabric/r0"),
    "given a class": wrote("training/r0"),
    "given a class by CEL": wrote("others/r0"),
    "given a storage class": wrote("storage/r0"),
    "given shared memory": wrote("memory/r0"),
    "given its share of cpu and memory": wrote("shares/r0"),
    "given fields": wrote("fields/r0"),
    "would be placed": would_write("newer-gpus/r0"),
    "would be given a fabric": would_write("audited-fabric/r0"),
    "would be given a class": would_write("notebooks/r0"),
    "contradicts": found("place/vendor", "contradiction"),
    "every term empty": found("place/vendor", "empty terms"),
    "has a fabric of its own": found("fabric/r0", "own devices"),
    "has an unclear pool": found("fabric/r0", "pool unclear"),
    "has a share without whole devices": found("fabric/r0", "no whole number"),
    "keeps its class": found("training/r0", "kept"),
    "is excepted": found("place/vendor", "excepted"),
    "has opted out": found("storage/r0", "opted out"),
    "has a device claim": found("newer-gpus/r0", "device claim"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_end_is_reached(end: Callable[[Outcome], bool]) -> None:
    rich = gate(policy_set("rich"), facts=facts())
    assert find(pods(), lambda pod: end(mutate(rich, request(pod))), settings=GENERATE)
