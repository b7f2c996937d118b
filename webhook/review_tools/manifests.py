"""Objects in files, as if they were sent to a cluster, and facts in files."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from webhook.documents import Document, Path, Problem, Reading, listed_objects
from webhook.documents.schema import shown, shown_kind
from webhook.engine import Outcome
from webhook.facts import Facts
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.api_defaults import with_defaults
from webhook.kube.field_path import format_field, list_at, mapping_at, value_at
from webhook.kube.plain_text import plain
from webhook.kube.pod import containers
from webhook.kube.quantity import QuantityError, parse_quantity
from webhook.kube.templates import (
    TemplateKind,
    TemplateKinds,
    claim_templates_of,
    templates_of,
    to_object_path,
    virtual_pod,
)

CORE_RESOURCES = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims"}
OWN_GROUPS = ("", "apps", "batch")
"""Kubernetes' own groups of kinds with pods; none of them is defined in another group as well."""

FORMER_GROUP = "extensions"
"""Where Deployments and their like were until 1.16 (kubernetes/kubernetes:CHANGELOG/CHANGELOG-1.16.md)."""

OBJECT_HINT = "a manifest starts with apiVersion and kind"
QUANTITY_HINT = "write a number, or one with a suffix, as in 8, 500m or 64Gi"
BYTES_HINT = "m means thousandths; write Mi for mebibytes"
TEXT_HINT = "put it in quotes"
CONTAINERS_HINT = "Kubernetes refuses a pod without containers; look at the spelling and the indentation"

BYTES = ("memory", "ephemeral-storage", "storage")
"""Resources that are counted in whole bytes (kubernetes/kubernetes:pkg/api/pod/warnings.go, "fractional byte value")."""

UNKNOWN_KIND = "of kinds that are not known to make pods (--kinds FILE describes more)"
NO_TEMPLATE = "without a pod template"

NAME_TEXTS = ("name", "generateName", "namespace")
POD_TEXTS = ("nodeName", "priorityClassName", "runtimeClassName", "schedulerName", "serviceAccountName")
TOLERATION_TEXTS = ("key", "operator", "value", "effect")
CONTAINER_TEXTS = ("name", "image")
MOUNT_TEXTS = ("name", "mountPath")
CLAIM_TEXTS = ("storageClassName", "volumeName")
"""Fields of one text that policies read, or that YAML easily reads as something else."""

LONGEST_MESSAGE = 1000
"""Characters; a field path of a manifest may hold any text."""


class Manifest(NamedTuple):
    """An object in a document.

    Attributes:
        base: its path in the document: () but for what a List holds.
        value: the object, read-only.
    """

    document: Document
    base: Path
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends objects, and how.

    Attributes:
        namespace: of objects that name none.
    """

    operation: str = "CREATE"
    username: str = ""
    groups: tuple[str, ...] = ()
    namespace: str = "default"


def manifests_in(document: Document) -> Iterator[Manifest]:
    """The object that a document is, or those that its List holds."""
    for base, value in listed_objects(document):
        yield Manifest(document, base, value)


def problems_in(reading: Reading, templates: TemplateKinds, *, quoted: bool = True) -> list[Problem]:
    """All that is wrong with a file of manifests, from top to bottom.

    That is, besides what reading it found: what is no object where one must stand, what is no quantity or no text in a
    pod, a claim or a template of either, and what Kubernetes would find no containers in.

    Args:
        reading: of the file; its objects may be of any shape.
        templates: the kinds that make pods.
        quoted: whether a fault may be shown with the text that stands there.
    """
    found = [each for document in reading.documents for each in _problems_of(document, templates)]
    refused = {each.position for each in found if not each.is_warning}
    read = {each.position for each in reading.problems}
    # A word that YAML reads as a boolean is a warning; where a text must stand, Kubernetes refuses the object.
    said = [
        replace(
            each if quoted else each.without_text(),
            is_warning=each.is_warning and each.position not in refused,
        )
        for each in reading.problems
    ]
    said += (each for each in found if each.position not in read)
    return sorted(said, key=lambda each: each.position or (0, 0))


def _problems_of(document: Document, templates: TemplateKinds) -> Iterator[Problem]:
    yield from _strays(document, (), document.value)
    for manifest in manifests_in(document):
        if resource := _resource_of(manifest.value, templates):
            yield from _former_version(manifest, resource)
            yield from _no_quantities(manifest, templates)
            yield from _no_texts(manifest, templates)
            yield from _no_containers(manifest, templates)
        else:
            yield from _other_kind(manifest, templates)


def request_for(
    thing: Mapping[str, Any], caller: Caller, templates: TemplateKinds
) -> AdmissionRequest | None:
    """The request with which the API server would ask about an object; None for a kind that is not reviewed.

    Args:
        thing: the object, read-only.
        caller: who sends it.
        templates: the kinds that make pods.
    """
    found = _resource_of(thing, templates)
    if found is None:
        return None
    metadata = mapping_at(thing, ("metadata",))
    namespace = _text(metadata.get("namespace")) or caller.namespace
    name = _text(metadata.get("name"))
    raw = {
        "kind": {"group": found.group, "version": found.version, "kind": found.kind},
        "resource": {"group": found.group, "version": found.version, "resource": found.resource},
        "operation": caller.operation,
        "namespace": namespace,
        "name": name,
        "userInfo": {"username": caller.username, "groups": list(caller.groups)},
        "dryRun": True,
    }
    return AdmissionRequest(
        group=found.group,
        version=found.version,
        kind=found.kind,
        resource=found.resource,
        operation=caller.operation,
        namespace=namespace,
        name=name,
        username=caller.username,
        groups=caller.groups,
        object=with_defaults(thing, namespace),
        dry_run=True,
        from_api_server=False,
        raw=raw,
    )


def why_not_reviewed(outcome: Outcome) -> str:
    """Why there was nothing to review in an object that makes pods; "" where there was something."""
    kind = _kind_of(outcome)
    thing = outcome.request.object or {}
    if kind is None or outcome.reports or outcome.exempt:
        return ""
    if templates_of(kind, thing) or claim_templates_of(kind, thing):
        return ""
    return kind.elsewhere or NO_TEMPLATE


def facts_in(documents: Iterable[Document], pod_security_default: str | None) -> Facts:
    """Facts from what `kubectl get -o yaml` prints.

    Args:
        documents: of the files; what is no object is left out.
        pod_security_default: see `webhook.facts.Facts`.
    """
    values = (document.value for document in documents)
    return Facts.from_objects((value for value in values if isinstance(value, dict)), pod_security_default)


class _Resource(NamedTuple):
    group: str
    version: str
    kind: str
    resource: str


def _resource_of(thing: Mapping[str, Any], templates: TemplateKinds) -> _Resource | None:
    api_version, kind = thing.get("apiVersion"), thing.get("kind")
    if not (isinstance(api_version, str) and isinstance(kind, str)):
        return None
    group, _, version = api_version.rpartition("/")
    if api_version == "v1" and kind in CORE_RESOURCES:
        return _Resource(group, version, kind, CORE_RESOURCES[kind])
    known = templates.kind_of(group, kind)
    return _Resource(group, version, kind, known.resource.removesuffix(f".{group}")) if known else None


def _known_kind(thing: Mapping[str, Any], templates: TemplateKinds) -> TemplateKind | None:
    return templates.kind_of(str(thing.get("apiVersion")).rpartition("/")[0], str(thing.get("kind")))


def _kind_of(outcome: Outcome) -> TemplateKind | None:
    return outcome.policy_set.templates.kind_of(outcome.request.group, outcome.request.kind)


def _no_quantities(manifest: Manifest, templates: TemplateKinds) -> Iterator[Problem]:
    """Rules cannot count these, and Kubernetes refuses the object."""
    thing = manifest.value
    for path in dict.fromkeys(
        _resource_lists(thing, templates)
    ):  # two templates may share a part of the object
        for name, amount in mapping_at(thing, path).items():
            try:
                quantity = parse_quantity(0 if amount is None else amount)
            except QuantityError:
                yield _expected(manifest, (*path, name), "a quantity", QUANTITY_HINT)
                continue
            if name in BYTES and not isinstance(quantity, int):
                found = _expected(manifest, (*path, name), "whole bytes", BYTES_HINT)
                yield replace(found, is_warning=True)


def _no_texts(manifest: Manifest, templates: TemplateKinds) -> Iterator[Problem]:
    """What YAML reads as a number or a boolean where Kubernetes takes only text, and refuses the object."""
    for path in dict.fromkeys(_texts(manifest.value, templates)):
        value = value_at(manifest.value, path)
        if value is not None and not isinstance(value, str):
            yield _fault(manifest, path, f"expected text, found {shown_kind(value)}", TEXT_HINT)


def _no_containers(manifest: Manifest, templates: TemplateKinds) -> Iterator[Problem]:
    """A pod without containers; of another's kinds it may be the controller that adds them."""
    thing = manifest.value
    kind = _known_kind(thing, templates)
    if kind is None:
        specs: tuple[Path, ...] = (("spec",),) if thing.get("kind") == "Pod" else ()
    else:
        own = kind.group in OWN_GROUPS
        places = [to_object_path(each, ("spec",)) for each in (templates_of(kind, thing) if own else ())]
        specs = tuple(place for place in places if place)
    for spec in specs:
        path = (*spec, "containers")
        if not list_at(thing, path):
            found = shown_kind(value_at(thing, path))
            yield _fault(manifest, path, f"expected at least one container, found {found}", CONTAINERS_HINT)


def _other_kind(manifest: Manifest, templates: TemplateKinds) -> Iterator[Problem]:
    """A kind that is almost one that is reviewed: passed over, it would look as if all were well with it."""
    api_version, kind = (_text(manifest.value.get(key)) for key in ("apiVersion", "kind"))
    group = api_version.rpartition("/")[0]
    for other, name in _named_like(kind, templates):
        if other == group and api_version and kind != name:
            yield _fault(manifest, ("kind",), f"expected {name}, found {shown(kind)}", f"write kind: {name}")
        elif kind == name and other in OWN_GROUPS and group in (*OWN_GROUPS, FORMER_GROUP):
            yield _other_version(manifest, other, name)


def _former_version(manifest: Manifest, resource: "_Resource") -> Iterator[Problem]:
    """A version of Kubernetes' own kinds that is served no more; the last were gone in 1.25.

    Source: kubernetes/website:content/en/docs/reference/using-api/deprecation-guide.md.
    """
    if resource.group in OWN_GROUPS and resource.version != "v1":
        yield _other_version(manifest, resource.group, resource.kind)


def _other_version(manifest: Manifest, group: str, kind: str) -> Problem:
    wanted = f"{group}/v1".removeprefix("/")
    found = shown(_text(manifest.value.get("apiVersion")) or None)
    message = f"expected {wanted} for a {kind}, found {found}"
    return _fault(manifest, ("apiVersion",), message, f"write apiVersion: {wanted}")


def _named_like(kind: str, templates: TemplateKinds) -> list[tuple[str, str]]:
    """Group and name of the reviewed kinds that have this name, large letters or small."""
    core = [("", name) for name in CORE_RESOURCES]
    known = (*core, *((each.group, each.kind) for each in templates.kinds))
    return [(group, name) for group, name in known if name.lower() == kind.lower()]


def _expected(manifest: Manifest, path: Path, expected: str, hint: str) -> Problem:
    found = shown(value_at(manifest.value, path))
    return _fault(manifest, path, f"expected {expected}, found {found}", hint)


def _fault(manifest: Manifest, path: Path, text: str, hint: str) -> Problem:
    document, base, thing = manifest
    message = f"{format_field(thing, path)}: {text}"
    return Problem(document.source, document.locate((*base, *path)), plain(message, LONGEST_MESSAGE), hint)


def _texts(thing: Mapping[str, Any], templates: TemplateKinds) -> Iterator[Path]:
    """Where text must stand in a pod or claim, or in an object's templates of either."""
    yield from _of_metadata(thing, ("metadata",))
    kind = _known_kind(thing, templates)
    if kind is None:
        yield from _of_pod_spec(thing) if thing.get("kind") == "Pod" else _of_claim(thing, ("spec",))
        return
    for template in templates_of(kind, thing):
        if template.metadata_path is not None:
            yield from _of_metadata(thing, template.metadata_path)
        pod = virtual_pod(kind, thing, template)
        places = (to_object_path(template, path) for path in _of_pod_spec(pod))
        yield from (place for place in places if place)
    for claim in claim_templates_of(kind, thing):
        yield from _of_metadata(thing, (*claim, "metadata"))
        yield from _of_claim(thing, (*claim, "spec"))


def _of_metadata(thing: Mapping[str, Any], base: Path) -> Iterator[Path]:
    yield from _each(base, NAME_TEXTS)
    for part in ("labels", "annotations"):
        yield from _each((*base, part), mapping_at(thing, (*base, part)))


def _each(base: Path, names: Iterable[str | int]) -> Iterator[Path]:
    return ((*base, name) for name in names)


def _items(thing: Mapping[str, Any], path: Path) -> Iterator[Path]:
    return _each(path, range(len(list_at(thing, path))))


def _of_pod_spec(pod: Mapping[str, Any]) -> Iterator[Path]:
    yield from _each(("spec",), POD_TEXTS)
    yield from _each(("spec", "nodeSelector"), mapping_at(pod, ("spec", "nodeSelector")))
    for toleration in _items(pod, ("spec", "tolerations")):
        yield from _each(toleration, TOLERATION_TEXTS)
    for term in _node_selector_terms(pod):
        for requirement in _items(pod, (*term, "matchExpressions")):
            yield from _each(requirement, ("key", "operator"))
            yield from _items(pod, (*requirement, "values"))
    for container in containers(pod):
        yield from _of_container(pod, container.path)


def _node_selector_terms(pod: Mapping[str, Any]) -> Iterator[Path]:
    affinity = ("spec", "affinity", "nodeAffinity")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    yield from _items(pod, (*affinity, required, "nodeSelectorTerms"))
    for item in _items(pod, (*affinity, "preferredDuringSchedulingIgnoredDuringExecution")):
        yield *item, "preference"


def _of_container(pod: Mapping[str, Any], path: Path) -> Iterator[Path]:
    yield from _each(path, CONTAINER_TEXTS)
    for part in ("command", "args"):
        yield from _items(pod, (*path, part))
    for variable in _items(pod, (*path, "env")):
        yield from _each(variable, ("name", "value"))
    for mount in _items(pod, (*path, "volumeMounts")):
        yield from _each(mount, MOUNT_TEXTS)


def _of_claim(thing: Mapping[str, Any], spec: Path) -> Iterator[Path]:
    yield from _each(spec, CLAIM_TEXTS)
    yield from _items(thing, (*spec, "accessModes"))


def _resource_lists(thing: Mapping[str, Any], templates: TemplateKinds) -> Iterator[Path]:
    """The maps from resources to amounts in a pod or claim, or in an object's templates of either."""
    kind = _known_kind(thing, templates)
    if kind is None:
        yield from _of_pod(thing) if thing.get("kind") == "Pod" else _of_owner(("spec",))
        return
    for template in templates_of(kind, thing):
        places = (to_object_path(template, path) for path in _of_pod(virtual_pod(kind, thing, template)))
        yield from (place for place in places if place)
    for claim in claim_templates_of(kind, thing):
        yield from _of_owner((*claim, "spec"))


def _of_pod(pod: Mapping[str, Any]) -> Iterator[Path]:
    yield "spec", "overhead"
    for owner in [("spec",), *(container.path for container in containers(pod))]:
        yield from _of_owner(owner)


def _of_owner(owner: Path) -> Iterator[Path]:
    yield *owner, "resources", "requests"
    yield *owner, "resources", "limits"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _strays(document: Document, path: Path, value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        message = f"expected a Kubernetes object (a map), found {shown_kind(value)}"
        yield Problem(document.source, document.locate(path), message, OBJECT_HINT)
    elif not path and not _text(value.get("kind")):
        message = "no Kubernetes object: kind is missing"
        yield Problem(document.source, document.locate(path), message, OBJECT_HINT, is_warning=True)
    elif str(value.get("kind")).endswith("List") and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            yield from _strays(document, (*path, "items", index), item)
