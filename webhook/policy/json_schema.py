"""The schemas of podgate's kinds as JSON Schema, for editors, and in the shape that a CustomResourceDefinition asks for.

Structural (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema):
every node has one type, and unions stand nowhere. What may be written in two forms (a text or a map of texts, one match or a
list of them) has no type but `x-kubernetes-preserve-unknown-fields`; what is said of a map or of a list holds for that form.
`additionalProperties: false` is for editors: a CustomResourceDefinition prunes unknown keys, or refuses them, by itself.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from inspect import cleandoc
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, PlainValidator
from pydantic.fields import FieldInfo

from webhook.facts.pools import PoolSpec, Rdma, Toleration
from webhook.policy.schema import (
    API_VERSION,
    AcceleratorMatch,
    Clauses,
    Count,
    ExceptionSpec,
    LabelSelector,
    MatchClause,
    Metadata,
    Name,
    NamedExpression,
    OverrideSpec,
    PolicySpec,
    RuleEntry,
    TemplateUse,
    Text,
)
from webhook.rules import rule_types
from webhook.rules.set_fields import FieldValue

Node = dict[str, Any]

ANY: Node = {"x-kubernetes-preserve-unknown-fields": True}
DRAFT = "http://json-schema.org/draft-07/schema#"

SPECS: Mapping[str, tuple[type[BaseModel], str]] = {
    "PodPolicy": (PolicySpec, "What is to hold for pods and claims, and what is set in them."),
    "PodPolicyOverride": (
        OverrideSpec,
        "What a site says about policies: another mode, other parameters, or both.",
    ),
    "PodPolicyException": (
        ExceptionSpec,
        "An accepted risk: rules that do not hold for some objects, for a time.",
    ),
    "AcceleratorPool": (
        PoolSpec,
        "Nodes with accelerators: what they offer, behind which taints, on which fabric.",
    ),
}

WORDS: Mapping[type[BaseModel], Mapping[str, str]] = {
    Metadata: {
        "name": "How others name it; a lower-case name of letters, digits, - and ., at most 63 characters.",
        "labels": "For the reader only.",
        "annotations": "For the reader only.",
    },
    PolicySpec: {
        "title": "What the policy says, in one line: a text, or a map of texts by language (en, zh).",
        "description": "Why, and what to do: a text, or a map of texts by language.",
        "severity": "How bad a violation is; for reports only.",
        "link": "Where to read more; shown to who is refused.",
        "contact": "Whom to ask; shown to who is refused.",
        "mode": "enforce: change and refuse. warn: admit with a warning. audit: only note. disabled: nothing.",
        "failurePolicy": "What happens where a rule cannot be evaluated: Ignore admits, Fail refuses.",
        "order": "Policies run by this number, the lowest first, then by name.",
        "match": "Which objects: a map, all of which must hold, or a list of such maps, one of which must hold.",
        "exclude": "Which of these are exempt; of the same shape as match.",
        "templates": "What is done with the pod templates of controllers.",
        "optOut": "Whether an object may exempt itself by its annotation podgate.dev/skip.",
        "rules": "What is to hold or to be set; each has a name and one rule type.",
    },
    TemplateUse: {
        "check": "Whether the author of a template is told: as of a pod, at most with a warning, or not at all.",
        "mutate": "Kinds whose templates the setters write into, as kubectl names them: pytorchjobs.kubeflow.org.",
    },
    RuleEntry: {
        "name": "The rule's name, once in the policy.",
        "verify": "What is done at the validating call where the rule's change is missing.",
        "message": "What is said instead of the rule type's own text, by language.",
        "remediation": "What to do about it, likewise.",
    },
    OverrideSpec: {
        "policies": "The policies that it adapts.",
        "order": "Overrides are asked by this number, the lowest first, then by name; the first that matches decides.",
        "match": "For which objects; of the same shape as a policy's match.",
        "mode": "The mode for these objects; the site's own word, which no flag lowers.",
        "rules": "Other parameters: each given one replaces the whole of the policy's, null removes it.",
    },
    ExceptionSpec: {
        "policies": "What it lifts: policy, or policy/rule.",
        "match": "For which objects; of the same shape as a policy's match.",
        "reason": "Why; shown wherever it counts.",
        "owner": "Who answers for it.",
        "reference": "A ticket or page.",
        "expiresAt": 'When it ends: "2027-06-30" is the end of that day in UTC, or a time with its zone.',
    },
    MatchClause: {
        "all": "Everything; stands alone.",
        "workloads": "Classes of pods.",
        "accelerators": "Pods by what they ask for; none: pods that ask for no accelerator.",
        "pools": "Pods all of whose possible pools are in this list.",
        "communication": "Pods by whether they talk to accelerators on other nodes.",
        "operations": "Only CREATE where not given.",
        "namespaces": "Names or globs.",
        "namespaceSelector": "By the labels of the namespace.",
        "workspaces": "KubeSphere's workspaces, names or globs.",
        "objectSelector": "By the object's own labels.",
        "matchConditions": "CEL expressions that must be true, as in a ValidatingAdmissionPolicy.",
    },
    AcceleratorMatch: {
        "vendors": "Whose devices, as the catalogue names them: nvidia, huawei, …",
        "resourceNames": "Names or globs of resources: nvidia.com/gpu, nvidia.com/mig-*.",
        "count": "How many devices, over all these names.",
        "sharing": "How the devices are shared.",
    },
    Count: {"min": "The smallest number.", "max": "The largest number."},
    NamedExpression: {"name": "For messages.", "expression": "A CEL expression of true or false."},
    FieldValue: {
        "fromNamespaceLabel": "The label of the pod's namespace that the value is taken from.",
        "default": "The value where the namespace has no such label, or an empty one.",
    },
    Toleration: {
        "key": "The taint's key; all taints where not given, which needs operator: Exists.",
        "operator": "Equal compares the value, Exists does not.",
        "value": "The taint's value.",
        "effect": "The taint's effect; all where not given.",
        "tolerationSeconds": "How long a taint NoExecute is tolerated.",
    },
    Rdma: {
        "resourceNames": "The RDMA resources, all of which are asked for.",
        "per": "For what count is: each container with accelerators, each accelerator, or a whole node's accelerators.",
        "count": "How many of each resource.",
    },
}
"""What the fields of schemas are whose own docstrings do not say it field by field."""


def json_schema(kind: str) -> Node:
    """The structural schema of one of podgate's kinds.

    Args:
        kind: one of `SPECS`.
    """
    spec, description = SPECS[kind]
    properties = {
        "apiVersion": {"type": "string", "enum": [API_VERSION]},
        "kind": {"type": "string", "enum": [kind]},
        "metadata": _object(Metadata),
        "spec": _object(spec),
    }
    return {
        "title": kind,
        "description": description,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def json_schema_of_all() -> Node:
    """One schema for files of any of the kinds: for editors alone, since it chooses by `kind`."""
    chosen = [
        {
            "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
            "then": json_schema(kind),
        }
        for kind in SPECS
    ]
    properties = {
        "apiVersion": {"type": "string", "enum": [API_VERSION]},
        "kind": {"type": "string", "enum": list(SPECS)},
    }
    return {"type": "object", "properties": properties, "required": list(properties), "allOf": chosen}


def _object(model: type[BaseModel]) -> Node:
    described = {**_attributes(model), **WORDS.get(model, {})}
    properties: dict[str, Node] = {}
    for name, field in model.model_fields.items():
        key = field.alias or name
        if (model, key) != (AcceleratorMatch, "none"):  # the word `none`, in the place of the map
            about = {"description": described[key]} if key in described else {}
            properties[key] = {**_field(model, key, field), **about}
    node: Node = {"description": _first_sentence(model), "type": "object", "properties": properties}
    required = [field.alias or name for name, field in model.model_fields.items() if field.is_required()]
    if required:
        node["required"] = required
    node["additionalProperties"] = False
    return _in_two_forms(node) if _has_another_form(model) else node


def _field(model: type[BaseModel], key: str, field: FieldInfo) -> Node:
    if key == "rules" and model in (PolicySpec, OverrideSpec):
        return {**_node(field.annotation, field.metadata), "items": _rule(is_partial=model is OverrideSpec)}
    return _node(field.annotation, field.metadata)


def _rule(*, is_partial: bool) -> Node:
    """A rule of a policy, or what an override says of one."""
    node = _object(RuleEntry)
    for name, rule in rule_types().items():
        parameters = _object(rule)
        node["properties"][name] = _partial(parameters) if is_partial else parameters
    if is_partial:
        node["description"] = "What is different in a rule of the policy."
    else:
        node["oneOf"] = [{"required": [name]} for name in rule_types()]
    return node


def _partial(parameters: Node) -> Node:
    """Parameters of which some may be given, and null says none."""
    kept = {
        key: {part: value for part, value in node.items() if part == "description"} | ANY
        for key, node in parameters["properties"].items()
    }
    return {key: value for key, value in parameters.items() if key != "required"} | {"properties": kept}


def _node(annotation: Any, metadata: list[Any]) -> Node:
    """A type with its validators."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _node(inner, [*(part for each in more for part in _parts(each)), *metadata])
    for validator, make in _FORMS:
        if any(each is validator for each in metadata):
            return make()
    if any(isinstance(each, PlainValidator) for each in metadata):
        return dict(ANY)
    some = [part for part in get_args(annotation) if part is not NoneType]
    if NoneType in get_args(annotation) and len(some) == 1:
        return _node(some[0], metadata)
    return {**_plain(annotation), **_bounds(annotation, metadata)}


def _parts(each: Any) -> list[Any]:
    return each.metadata if isinstance(each, FieldInfo) else [each]


def _plain(annotation: Any) -> Node:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return {"type": "boolean" if arguments == (True,) else "string", "enum": list(arguments)}
    if origin in (tuple, list):
        return {"type": "array", "items": _node(arguments[0], [])}
    if origin is dict:
        return _map(*arguments)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _object(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {"type": "string", "enum": [each.value for each in annotation]}
    return {"type": _TYPES[annotation]} if annotation in _TYPES else dict(ANY)


_TYPES: Mapping[Any, str] = {str: "string", int: "integer", bool: "boolean", datetime: "string"}


def _map(key: Any, value: Any) -> Node:
    if get_origin(key) is Literal:
        properties = {name: _node(value, []) for name in get_args(key)}
        return {"type": "object", "properties": properties, "additionalProperties": False}
    return {"type": "object", "additionalProperties": _node(value, [])}


def _bounds(annotation: Any, metadata: list[Any]) -> Node:
    what = {tuple: "Items", list: "Items", dict: "Properties"}.get(
        get_origin(annotation) or annotation, "Length"
    )
    named = {"min_length": f"min{what}", "max_length": f"max{what}", "ge": "minimum"}
    return {
        keyword: bound
        for each in metadata
        for name, keyword in named.items()
        if (bound := getattr(each, name, None)) is not None
    }


def _in_two_forms(node: Node) -> Node:
    """A map that may also be written as something shorter."""
    return {**ANY, **{key: value for key, value in node.items() if key != "type"}}


def _has_another_form(model: type[BaseModel]) -> bool:
    validators = model.__pydantic_decorators__.model_validators.values()
    return any(validator.info.mode == "before" for validator in validators)


def _name() -> Node:
    return {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$"}


def _text() -> Node:
    return {**ANY, "additionalProperties": {"type": "string"}}


def _clauses() -> Node:
    clause = _object(MatchClause)
    return {**_in_two_forms(clause), "items": clause}


def _selector() -> Node:
    requirement = {
        "type": "object",
        "properties": {
            "key": {"type": "string"},
            "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
            "values": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["key", "operator"],
        "additionalProperties": False,
    }
    properties = {
        "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        "matchExpressions": {"type": "array", "items": requirement},
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


_FORMS: tuple[tuple[Any, Callable[[], Node]], ...] = (
    (get_args(Name)[1], _name),
    (get_args(Text)[1], _text),
    (get_args(Clauses)[1], _clauses),
    (get_args(LabelSelector)[1], _selector),
)
"""What the validators of `webhook.policy.schema` let through, by the validator."""

_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def _attributes(model: type[BaseModel]) -> dict[str, str]:
    """What a schema's own docstring says of its fields, by their keys."""
    listed = cleandoc(model.__doc__ or "").partition("Attributes:\n")[2]
    by_name = {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(listed)}
    return {
        field.alias or name: by_name[name] for name, field in model.model_fields.items() if name in by_name
    }


def _first_sentence(model: type[BaseModel]) -> str:
    return " ".join(cleandoc(model.__doc__ or "").partition("\n\n")[0].split())
