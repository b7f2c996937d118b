"""The JSON Schemas: structural, true to what the loader takes, and telling."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from webhook.policy import load_policy_set
from webhook.policy.json_schema import SPECS, json_schema, json_schema_of_all
from webhook.rules import rule_types

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
}
KNOWN = {
    "title", "description", "type", "enum", "pattern", "properties", "required", "additionalProperties", "items",
    "minItems", "maxItems", "minLength", "minProperties", "minimum", "oneOf", "x-kubernetes-preserve-unknown-fields",
}  # fmt: skip
"""The keywords that a structural schema may have and ours do; `faults` knows each of them."""


def faults(schema: dict[str, Any], value: Any, path: str = "") -> Iterator[str]:
    """What a validator would say, for the keywords in `KNOWN`."""
    wanted = schema.get("type")
    if wanted and (not isinstance(value, TYPES[wanted]) or (wanted == "integer" and isinstance(value, bool))):
        yield f"{path}: not of type {wanted}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value} is none of {schema['enum']}"
    if isinstance(value, str):
        if not re.search(schema.get("pattern", ""), value):
            yield f"{path}: {value} does not fit"
        if len(value) < schema.get("minLength", 0):
            yield f"{path}: too short"
    if isinstance(value, int) and value < schema.get("minimum", value):
        yield f"{path}: below {schema['minimum']}"
    if isinstance(value, list):
        yield from _faults_of_list(schema, value, path)
    if isinstance(value, dict):
        yield from _faults_of_map(schema, value, path)


def _faults_of_list(schema: dict[str, Any], value: list[Any], path: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{path}: {len(value)} items"
    for index, item in enumerate(value):
        yield from faults(schema.get("items", {}), item, f"{path}[{index}]")


def _faults_of_map(schema: dict[str, Any], value: dict[str, Any], path: str) -> Iterator[str]:
    yield from (f"{path}.{key} is missing" for key in schema.get("required", ()) if key not in value)
    if len(value) < schema.get("minProperties", 0):
        yield f"{path}: too few keys"
    more = schema.get("additionalProperties", {})
    for key, each in value.items():
        known = schema.get("properties", {}).get(key)
        if known is None and more is False:
            yield f"{path}.{key} is unknown"
        else:
            yield from faults(known or more or {}, each, f"{path}.{key}")
    fitting = [each for each in schema.get("oneOf", ()) if not list(faults(each, value))]
    if "oneOf" in schema and len(fitting) != 1:
        yield f"{path}: {len(fitting)} of oneOf fit"


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every node at a structural place."""
    yield path, schema
    for key, each in schema.get("properties", {}).items():
        yield from nodes(each, f"{path}.{key}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}.{key}")


@pytest.mark.parametrize("kind", SPECS)
def test_they_are_structural(kind: str) -> None:
    for path, node in nodes(json_schema(kind)):
        assert set(node) <= KNOWN, path
        assert node.get("type") in TYPES or node.get("x-kubernetes-preserve-unknown-fields") is True, path
        assert all(list(each) == ["required"] for each in node.get("oneOf", ())), path


ELSEWHERE = (
    "matchLabels",
    "objectSelector",
    "namespaceSelector",
    "matchExpressions.items",
    "allowed",
    "byAccessMode",
)
"""Maps whose keys are Kubernetes' own words, or are described by the map."""


@pytest.mark.parametrize("kind", SPECS)
def test_every_field_is_described(kind: str) -> None:
    mute = [
        f"{path}.{key}"
        for path, node in nodes(json_schema(kind)["properties"]["spec"])
        for key, each in node.get("properties", {}).items()
        if not each.get("description") and not path.endswith(ELSEWHERE)
    ]
    assert mute == []


def test_every_rule_type_is_there() -> None:
    for kind in ("PodPolicy", "PodPolicyOverride"):
        rule = json_schema(kind)["properties"]["spec"]["properties"]["rules"]["items"]
        assert set(rule_types()) <= set(rule["properties"])


def documents() -> Iterator[tuple[str, Any]]:
    for folder in ("policies", "examples", "docs/examples"):
        for file in sorted((ROOT / folder).rglob("*.yaml")):
            if not file.name.endswith(".test.yaml"):
                yield from _ours(f"{folder}/{file.name}", file.read_text(encoding="utf-8"))
    for file in sorted((ROOT / "docs").rglob("*.md")):
        blocks = re.findall(
            r"^```yaml\n(apiVersion: podgate.*?)^```",
            file.read_text(encoding="utf-8"),
            re.DOTALL | re.MULTILINE,
        )
        for block in blocks:
            yield from _ours(file.name, block)


def _ours(name: str, text: str) -> Iterator[tuple[str, Any]]:
    for value in yaml.safe_load_all(text):
        if isinstance(value, dict) and value.get("kind") in SPECS:
            yield f"{name} {value['metadata']['name']}", value


DOCUMENTS = list(documents())


def test_there_are_documents() -> None:
    assert {value["kind"] for _, value in DOCUMENTS} == set(SPECS)


@pytest.mark.parametrize(("name", "value"), DOCUMENTS, ids=[name for name, _ in DOCUMENTS])
def test_the_schema_says_what_the_loader_says(name: str, value: dict[str, Any]) -> None:
    """The documents show mistakes too; that a pool or a policy stands in another file is none."""
    problems = load_policy_set([(name, yaml.safe_dump(value).encode())]).problems
    mistakes = [p for p in problems if not (p.is_warning or p.message.startswith("there is no "))]
    found = list(faults(json_schema(value["kind"]), value))
    assert bool(found) == bool(mistakes), found or mistakes


@pytest.mark.parametrize("name", sorted({name for name, _ in DOCUMENTS if ".yaml" in name}))
def test_what_is_shipped_is_valid(name: str) -> None:
    for value in (value for each, value in DOCUMENTS if each == name):
        assert list(faults(json_schema(value["kind"]), value)) == []


GOOD = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: p
spec:
  title: a text
  match:
    accelerators: none
  rules:
  - name: r
    message:
      zh: 文
    setFields:
      labels:
        a: b
        c:
          fromNamespaceLabel: d
      replace: [e]
"""
OVERRIDE = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicyOverride
metadata:
  name: o
spec:
  policies: [p]
  match:
  - all: true
  rules:
  - name: r
    limitAcceleratorCount:
      perPod:
        max: 4
      memory: null
"""
FAULTS = {
    "nothing": (GOOD, []),
    "an unknown key": (GOOD.replace("title", "titel"), [".spec.titel is unknown"]),
    "an unknown rule type": (
        GOOD.replace("setFields", "setField"),
        [".spec.rules[0].setField is unknown", ".spec.rules[0]: 0 of oneOf fit"],
    ),
    "two rule types": (
        GOOD + "    checkPlacement: {}\n",
        [".spec.rules[0]: 2 of oneOf fit"],
    ),
    "a wrong type": (GOOD.replace("title: a text", "order: a"), [".spec.order: not of type integer"]),
    "a wrong word": (
        GOOD.replace("title: a text", "severity: bad"),
        [".spec.severity: bad is none of ['low', 'medium', 'high', 'critical']"],
    ),
    "a typo in a match": (
        GOOD.replace("accelerators: none", "accelerator: none"),
        [".spec.match.accelerator is unknown"],
    ),
    "a typo in one of several matches": (
        GOOD.replace("    accelerators: none", "  - accelerators:\n      vendor: [a]"),
        [".spec.match[0].accelerators.vendor is unknown"],
    ),
    "a value without its source": (
        GOOD.replace("fromNamespaceLabel: d", "default: d"),
        [".spec.rules[0].setFields.labels.c.fromNamespaceLabel is missing"],
    ),
    "no rules": (GOOD.partition("  rules:")[0] + "  rules: []\n", [".spec.rules: 0 items"]),
    "no name": (GOOD.replace("name: p", "labels: {}"), [".metadata.name is missing"]),
    "an override": (OVERRIDE, []),
    "a parameter that an override does not know": (
        OVERRIDE.replace("perPod", "perPods"),
        [".spec.rules[0].limitAcceleratorCount.perPods is unknown"],
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults(case: str) -> None:
    text, expected = FAULTS[case]
    value = yaml.safe_load(text)
    assert list(faults(json_schema(value["kind"]), value)) == expected


def test_one_schema_for_editors_chooses_by_kind() -> None:
    schema = json_schema_of_all()
    assert [each["if"]["properties"]["kind"]["const"] for each in schema["allOf"]] == list(SPECS)
    assert [each["then"] for each in schema["allOf"]] == [json_schema(kind) for kind in SPECS]
