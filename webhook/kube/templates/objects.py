"""Where one object keeps its templates, and where a field of its pods stands in it."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from webhook.documents import Path
from webhook.kube.field_path import list_at, value_at
from webhook.kube.templates.kinds import TemplateKind
from webhook.kube.templates.limits import MAX_CONTAINERS, MAX_NAME, MAX_TEMPLATES
from webhook.kube.templates.places import Place
from webhook.kube.templates.references import is_met, product, text_or_empty, walk


class Template(NamedTuple):
    """One pod template of an object, or one inline pod spec.

    Attributes:
        path: Where the template stands in the object.
        spec_path: Where its pod spec stands.
        metadata_path: Where the labels and annotations of its pods stand; None where the controller reads none.
        replicas: How many such pods the object asks for; 1 where it does not say.
        role: The part they play, as the object names it; empty where all pods are alike.
        place: What the kind says about templates at this path.
        appended: Paths in the pod of the containers that stand elsewhere in the object, and where they stand.
    """

    path: Path
    spec_path: Path
    metadata_path: Path | None
    replicas: int
    role: str
    place: Place
    appended: tuple[tuple[Path, Path], ...] = ()

    @property
    def user(self) -> str:
        """The user that creates these pods; empty where installations differ."""
        return self.place.user


def templates_of(kind: TemplateKind, obj: Mapping[str, Any]) -> tuple[Template, ...]:
    """The pod templates of an object, in the order of the kind's places; see `MAX_TEMPLATES` and `MAX_CONTAINERS`.

    Args:
        kind: what is known of the object's kind.
        obj: the whole object; what is no template where one belongs is left out.
    """
    found = (template for place in kind.places for template in _templates_at(place, obj))
    return tuple(_first_containers(islice(found, MAX_TEMPLATES), obj))


def _first_containers(templates: Iterator[Template], obj: Mapping[str, Any]) -> Iterator[Template]:
    seen = 0
    for template in templates:
        if seen > MAX_CONTAINERS:
            return
        yield template
        spec = value_at(obj, template.spec_path)
        seen += sum(len(list_at(spec, (key,))) for key in ("initContainers", "containers"))


def claim_templates_of(kind: TemplateKind, obj: Mapping[str, Any]) -> tuple[Path, ...]:
    """Where an object holds templates of persistent volume claims beside its pods; at most `MAX_TEMPLATES`.

    The claims of ephemeral volumes stand in the pod itself.

    Args:
        kind: what is known of the object's kind.
        obj: the whole object.
    """
    found = (path for claim in kind.claims for path, value in claim.walk(obj) if isinstance(value, dict))
    return tuple(islice(found, MAX_TEMPLATES))


def to_object_path(template: Template, pod_path: Path) -> Path:
    """Where a field of the virtual pod stands in the object; ``()`` where it stands nowhere.

    What the controller adds to a list of the template has a path behind the list's end.

    Args:
        template: of the object, as `templates_of` found it.
        pod_path: from the root of the pod that `virtual_pod` makes of it.
    """
    for start, target in template.appended:
        if pod_path[: len(start)] == start:
            return (*target, *pod_path[len(start) :])
    if pod_path[:1] == ("spec",):
        return (*template.spec_path, *pod_path[1:])
    part = pod_path[1] if len(pod_path) > 1 and pod_path[0] == "metadata" else ""
    if part not in {"labels", "annotations"} or pod_path[1:3] in template.place.sets:
        return ()
    if template.metadata_path is not None:
        return (*template.metadata_path, *pod_path[1:])
    return pod_path if part in template.place.copies else ()


def _templates_at(place: Place, obj: Mapping[str, Any]) -> Iterator[Template]:
    for entry_path, entry in walk(obj, place.template.head, ()):
        template = value_at(entry, place.template.tail)
        spec = value_at(template, place.spec)
        if not isinstance(spec, dict) or not all(is_met(each, obj, entry) for each in place.when):
            continue
        path = (*entry_path, *place.template.tail)
        spec_path = (*path, *place.spec)
        appended = _appended(place, spec, spec_path)
        if place.containers and not appended and not isinstance(spec.get("containers"), list):
            continue
        yield Template(
            path,
            spec_path,
            None if place.metadata is None else (*path, *place.metadata),
            product(place.replicas, obj, entry),
            _role(place, entry_path, entry),
            place,
            appended,
        )


def _appended(place: Place, spec: Mapping[str, Any], spec_path: Path) -> tuple[tuple[Path, Path], ...]:
    own = spec.get("containers")
    start = len(own) if isinstance(own, list) else 0
    return tuple(
        (("spec", "containers", start + at), (*spec_path, *path))
        for at, (path, _, _) in enumerate(further_containers(place, spec))
    )


def further_containers(
    place: Place, spec: Mapping[str, Any]
) -> Iterator[tuple[Path, str, Mapping[str, Any]]]:
    """The containers outside the list of containers: path from the pod spec, name where they have none, value.

    Args:
        place: what the kind says of its templates; most know of no such containers.
        spec: the template's pod spec.
    """
    for path, name in place.containers:
        value = value_at(spec, path)
        if isinstance(value, dict):
            yield path, name, value
        for at, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, dict):
                yield (*path, at), name, item


def _role(place: Place, entry_path: Path, entry: Any) -> str:
    if place.role == "*":
        name: Any = entry_path[-1] if entry_path else ""
    elif place.role_path is not None:
        name = value_at(entry, place.role_path)
    else:
        name = place.role
    return text_or_empty(name)[:MAX_NAME]
