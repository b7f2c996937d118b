"""The pod that a controller would make from a template."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from webhook.kube.field_path import mapping_at, value_at
from webhook.kube.templates.kinds import TemplateKind
from webhook.kube.templates.limits import MAX_LABEL, MAX_NAME, MAX_TEMPLATES
from webhook.kube.templates.objects import Template, further_containers
from webhook.kube.templates.places import Addition, CompiledVariable, TextParts
from webhook.kube.templates.references import Condition, is_met, product, text_or_empty


def virtual_pod(kind: TemplateKind, obj: Mapping[str, Any], template: Template) -> dict[str, Any]:
    """The pod as its controller would create it.

    It shares what is unchanged with the object: neither may be written to. Its containers have the indices that they
    have in the template, so that `to_object_path` leads from a field of the pod to one of the object.

    Args:
        kind: what is known of the object's kind.
        obj: the whole object, whose names and labels the controller copies.
        template: which of its templates.
    """
    scope = _Scope(obj, template)
    additions = [each for each in template.place.additions if scope.holds(each.when)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(kind, scope, additions),
        "spec": _spec(scope, additions),
    }


class _Scope:
    """What conditions and placeholders are read from."""

    __slots__ = ("_entry", "_named", "obj", "template")

    def __init__(self, obj: Mapping[str, Any], template: Template) -> None:
        self.obj = obj
        self.template = template
        self._entry = value_at(obj, template.path[: len(template.place.template.head)])
        metadata = mapping_at(obj, ("metadata",))
        name = text_or_empty(metadata.get("name")) or text_or_empty(metadata.get("generateName")).rstrip("-")
        self._named = {
            "name": name[:MAX_NAME],
            "namespace": text_or_empty(metadata.get("namespace"))[:MAX_NAME],
            "role": template.role,
            "replica-type": template.role.lower(),
            "index": "0",
            "replicas": str(template.replicas),
        }

    def named(self, name: str) -> str:
        """What a placeholder stands for."""
        if name not in self._named:
            factors = self.template.place.values[name]
            self._named[name] = str(product(factors, self.obj, self._entry))
        return self._named[name]

    def holds(self, conditions: tuple[Condition, ...]) -> bool:
        return all(is_met(each, self.obj, self._entry) for each in conditions)

    def fill(self, text: TextParts, each: str = "") -> str:
        """The text with its placeholders filled in; `each` is the item that a variable is repeated for."""
        if len(text) == 1:
            return text[0]
        names = (each if name == "each" else self.named(name) for name in text[1::2])
        return text[0] + "".join(value + plain for value, plain in zip(names, text[2::2], strict=True))


def _metadata(kind: TemplateKind, scope: _Scope, additions: list[Addition]) -> dict[str, Any]:
    name, namespace = scope.named("name"), scope.named("namespace")
    role = scope.named("replica-type")
    metadata: dict[str, Any] = {}
    if name:
        # The API server adds the rest (kubernetes/apiserver:pkg/storage/names/generate.go).
        metadata["generateName"] = f"{name}-{role}-" if role else f"{name}-"
    if namespace:
        metadata["namespace"] = namespace
    labels = _pairs("labels", scope, ((key, text) for each in additions for key, text in each.labels))
    if labels:
        metadata["labels"] = labels
    annotations = _pairs(
        "annotations", scope, ((key, text) for each in additions for key, text in each.annotations)
    )
    if annotations:
        metadata["annotations"] = annotations
    owner = scope.template.place.owner or (text_or_empty(scope.obj.get("apiVersion")), kind.kind)
    if owner[1]:
        # The uid is not known; the name is the object's where the controller's own has a suffix.
        metadata["ownerReferences"] = [
            {"apiVersion": owner[0], "kind": owner[1], "name": name, "controller": True}
        ]
    return metadata


def _pairs(part: str, scope: _Scope, added: Iterable[tuple[str, TextParts]]) -> Mapping[str, Any]:
    """The labels or annotations: those copied from the object, those of the template, and what is added."""
    path = scope.template.metadata_path
    own = mapping_at(scope.obj, (*path, part)) if path is not None else {}
    copied = mapping_at(scope.obj, ("metadata", part)) if part in scope.template.place.copies else {}
    filled = {key: scope.fill(text) for key, text in added}
    return {**copied, **own, **filled} if copied or filled else own


def _spec(scope: _Scope, additions: list[Addition]) -> Mapping[str, Any]:
    place = scope.template.place
    spec = mapping_at(scope.obj, scope.template.spec_path)
    changed: dict[str, Any] = {}
    for default in place.defaults:
        if spec.get(default.name) is None:
            value = value_at(scope.obj, default.source) or default.value
            if value:
                changed[default.name] = value
    if scope.template.appended:
        own = spec.get("containers")
        changed["containers"] = [
            *(own if isinstance(own, list) else ()),
            *(
                value if not name or value.get("name") else {**value, "name": name}
                for _, name, value in further_containers(place, spec)
            ),
        ]
    for key in ("containers", "initContainers"):
        variables = _variables(scope, additions, only_init=key == "initContainers")
        containers = changed.get(key, spec.get(key))
        if variables and isinstance(containers, list):
            changed[key] = [_with_environment(each, variables) for each in containers]
    return {**spec, **changed} if changed else spec


def _with_environment(container: Any, variables: list[dict[str, Any]]) -> Any:
    if not isinstance(container, dict):
        return container
    env = container.get("env")
    own = env if isinstance(env, list) else []
    names = [each.get("name") for each in own if isinstance(each, dict)]
    added = [each for each in variables if not (_is_of_a_field(each) and each["name"] in names)]
    return {**container, "env": [*own, *added]} if added else container


def _is_of_a_field(variable: dict[str, Any]) -> bool:
    return "fieldRef" in variable.get("valueFrom", ())


def _variables(scope: _Scope, additions: list[Addition], *, only_init: bool) -> list[dict[str, Any]]:
    return [
        _variable(scope, variable, each)
        for addition in additions
        for variable in addition.env
        if variable.in_init_containers or not only_init
        for each in _repeated(scope, variable)
    ]


def _repeated(scope: _Scope, variable: CompiledVariable) -> Iterable[str]:
    """What a variable is repeated for, as variables are written: in capitals, with underscores."""
    if variable.for_each is None:
        return ("",)
    names = (text_or_empty(value) for _, value in islice(variable.for_each.walk(scope.obj), MAX_TEMPLATES))
    return [name.upper().replace("-", "_") for name in names if 0 < len(name) <= MAX_LABEL]


def _variable(scope: _Scope, variable: CompiledVariable, each: str) -> dict[str, Any]:
    name = scope.fill(variable.name, each)
    if variable.config_map != ("",):
        source = {"name": scope.fill(variable.config_map, each), "key": name}
        return {"name": name, "valueFrom": {"configMapKeyRef": source}}
    if variable.field:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": variable.field}}}
    return {"name": name, "value": scope.fill(variable.value, each)}
