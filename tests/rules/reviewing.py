"""One policy, its gate and its reviews, for the tests of rule types."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from webhook.engine import Gate, Outcome, Report, mutate, validate
from webhook.engine.annotations import NAMES
from webhook.engine.texts import say
from webhook.facts import Facts
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.field_path import format_field
from webhook.policy import load_policy_set

API_VERSION = "podgate.dev/v1alpha1"
GPU = "nvidia.com/gpu"
NAMESPACE = "team-a"

Json = dict[str, Any]


def as_yaml(*documents: Any) -> bytes:
    """Documents in block style, as people write them."""
    return yaml.safe_dump_all(
        documents, default_flow_style=False, allow_unicode=True, sort_keys=False
    ).encode()


def pool(name: str, **spec: Any) -> Json:
    return {"apiVersion": API_VERSION, "kind": "AcceleratorPool", "metadata": {"name": name}, "spec": spec}


def policy(*rules: Json, name: str = "p", **spec: Any) -> Json:
    """A policy of rules such as `{"setPriorityClass": {…}}`, named `r`, `r1`, `r2`, …"""
    named = [{"name": f"r{index or ''}", **rule} for index, rule in enumerate(rules)]
    body = {"mode": "enforce", "match": {"all": True}} | spec | {"rules": named}
    return {"apiVersion": API_VERSION, "kind": "PodPolicy", "metadata": {"name": name}, "spec": body}


def gate_of(*documents: Json, facts: Iterable[Mapping[str, Any]] = (), security: str | None = None) -> Gate:
    """A gate of policies and pools; a fault in one of them fails the test."""
    loaded = load_policy_set([("p.yaml", as_yaml(*documents))])
    assert [str(problem) for problem in loaded.problems] == []
    return Gate(loaded.policy_set, Facts.from_objects(facts, security))


def load_problems(*documents: Json) -> list[str]:
    """What loading says, without the place."""
    return [problem.message for problem in load_policy_set([("p.yaml", as_yaml(*documents))]).problems]


def request_of(thing: Mapping[str, Any], *, from_api_server: bool = True, **fields: Any) -> AdmissionRequest:
    kind = thing["kind"]
    given: Json = {
        "kind": kind,
        "resource": "pods" if kind == "Pod" else f"{kind.lower()}s",
        "namespace": NAMESPACE,
        "name": "p",
        "object": thing,
        "from_api_server": from_api_server,
    }
    return AdmissionRequest(**given | fields)


def container(name: str = "main", resources: Mapping[str, Any] | None = None, **fields: Any) -> Json:
    """A container whose requests are its limits."""
    given = dict(resources or {})
    return {
        "name": name,
        **({"resources": {"limits": given, "requests": dict(given)}} if given else {}),
        **fields,
    }


def pod(*containers: Json, metadata: Mapping[str, Any] | None = None, **spec: Any) -> Json:
    """A pod; by default of one container with one GPU."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": NAMESPACE, **(metadata or {})},
        "spec": {"containers": list(containers or (container(resources={GPU: "1"}),)), **spec},
    }


def mutated(gate: Gate, thing: Mapping[str, Any], *, from_api_server: bool = True) -> Outcome:
    return mutate(gate, request_of(thing, from_api_server=from_api_server))


def judged(gate: Gate, thing: Mapping[str, Any], *, from_api_server: bool = True) -> Outcome:
    return validate(gate, request_of(thing, from_api_server=from_api_server))


def without_record(thing: Any) -> Any:
    """An object without podgate's own annotations."""
    metadata = dict(thing["metadata"])
    kept = {k: v for k, v in (metadata.pop("annotations", None) or {}).items() if k not in NAMES}
    return {**thing, "metadata": {**metadata, **({"annotations": kept} if kept else {})}}


def report(outcome: Outcome, rule: str = "p/r") -> Report:
    return next(each for each in outcome.reports if each.rule.key == rule)


def said(outcome: Outcome, language: str = "en") -> list[str]:
    """Every finding as `result: message -> remediation`."""
    lines = []
    for each in outcome.reports:
        for finding in each.findings:
            words = say(each.rule, finding, language)
            lines.append(f"{finding.result}: {words.message} -> {words.remediation}")
    return lines


def places(outcome: Outcome) -> list[str]:
    """Every finding's text and field."""
    return [
        f"{finding.text} @ {format_field(outcome.object, finding.path)}"
        for each in outcome.reports
        for finding in each.findings
    ]


def texts(outcome: Outcome) -> list[str]:
    return [finding.text for each in outcome.reports for finding in each.findings]


def managed(*paths: tuple[str, ...]) -> list[Json]:
    """`managedFields` of a client that sent these fields."""
    root: Json = {"f:metadata": {"f:name": {}}}
    for path in paths:
        node = root
        for segment in path:
            node = node.setdefault(segment if segment.startswith("k:{") else f"f:{segment}", {})
    entry = {"manager": "kubectl-create", "operation": "Update", "apiVersion": "v1"}
    return [{**entry, "fieldsType": "FieldsV1", "fieldsV1": root}]
