"""Where the pods of an object are, in CEL; for kinds that the API server itself types, so that no field has an odd type."""

import re
from collections.abc import Iterable, Mapping

from webhook.kube.templates import Place, TemplateKind
from webhook.kube.workload import FRAMEWORK_LABELS
from webhook.registration.cel import listed, quoted

RESOURCE = 'request.resource.resource + "." + request.resource.group'
"""The resource as kubectl writes it, with a dot at the end for the core group."""

POD = "pods."
BUILT_IN_GROUPS = ("", "apps", "batch")

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def full_name(resource: str) -> str:
    """A resource as `RESOURCE` gives it."""
    return resource if "." in resource else f"{resource}."


def is_any_of(resources: Iterable[str]) -> str:
    """Whether the request is about one of the resources, as policies write them."""
    names = sorted({full_name(resource) for resource in resources})
    return f"{RESOURCE} == {quoted(names[0])}" if len(names) == 1 else f"({RESOURCE}) in {listed(names)}"


def typed_templates(kinds: Iterable[TemplateKind]) -> dict[str, str]:
    """By resource, the path of the pod template of each kind that one condition can look into.

    Those are Kubernetes' own, with one template whose pods are just what it says. Objects of other kinds may hold anything at
    any place (``x-kubernetes-preserve-unknown-fields``), and an expression that meets what it does not expect is an error, so
    such objects are asked about always.
    """
    return {full_name(kind.resource): path for kind in kinds if (path := _plain_path(kind))}


def pods_of_object(templates: Mapping[str, str]) -> str:
    """A list of what an object has of pods: itself, or its template; an empty map where that is absent."""
    text = "[object]"
    for path, resources in _by_path(templates).items():
        *above, last = path.split(".")
        template = f"{'.'.join(('object', *above))}.?{last}.orValue({{}})"
        text = f"{is_any_of(resources)} ? [{template}] : {text}"
    return text


def _by_path(templates: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for resource, path in sorted(templates.items()):
        found.setdefault(path, []).append(resource)
    return found


def template_paths(kinds: Iterable[TemplateKind]) -> dict[str, str]:
    """By resource, the path of the pod template of each kind that the API server types and that has but one."""
    return {full_name(kind.resource): path for kind in kinds if (path := _only_path(kind))}


def _plain_path(kind: TemplateKind) -> str:
    """The path of the one template, "" where a condition could not tell the pods from it."""
    path = _only_path(kind)
    return path if path and not (kind.places[0].defaults or _adds_evidence(kind.places[0])) else ""


def _only_path(kind: TemplateKind) -> str:
    """The path of the one template, "" where there are several, or it is no template as Kubernetes' own are."""
    if kind.group not in BUILT_IN_GROUPS or len(kind.places) != 1:
        return ""
    place = kind.places[0]
    steps = place.template.tail
    plain = not (place.template.head or place.template.from_entry or place.containers)
    usual = (place.spec, place.metadata) == (("spec",), ("metadata",))
    return ".".join(steps) if plain and usual and steps and all(map(_IDENTIFIER.fullmatch, steps)) else ""


def _adds_evidence(place: Place) -> bool:
    """Whether the controller gives its pods what a rule looks for; what a field of the pod itself says tells it nothing new."""
    return bool(place.copies) or any(
        any(not variable.field for variable in addition.env)
        or any(key in FRAMEWORK_LABELS for key, _ in addition.labels)
        for addition in place.additions
    )


def leaves_pods_alone(templates: Mapping[str, str], resources_outside: Iterable[str]) -> str:
    """Whether an update changes nothing that pods are made of: the template of a built-in kind, else the whole spec.

    A Deployment that is scaled changes its spec, and its ReplicaSet's, and no pod.

    Args:
        templates: by resource, the paths of the templates that are looked at alone.
        resources_outside: those of which every update counts.
    """
    text = "has(object.spec) && has(oldObject.spec) && object.spec == oldObject.spec"
    for path, resources in _by_path(templates).items():
        chain = "".join(f".?{step}" for step in path.split("."))
        same = f"object{chain}.orValue({{}}) == oldObject{chain}.orValue({{}})"
        text = f"({is_any_of(resources)} ? {same} : {text})"
    outside = list(resources_outside)
    return f"!({is_any_of(outside)}) && {text}" if outside else text
