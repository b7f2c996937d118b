"""Objects in files, as if they were sent to a cluster, and facts in files."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from webhook.documents import Document, Path, Problem, listed_objects
from webhook.documents.schema import shown
from webhook.facts import Facts
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.api_defaults import with_defaults
from webhook.kube.field_path import format_field, mapping_at
from webhook.kube.plain_text import plain
from webhook.kube.pod import containers
from webhook.kube.quantity import QuantityError, parse_quantity

RESOURCES = {("v1", "Pod"): "pods", ("v1", "PersistentVolumeClaim"): "persistentvolumeclaims"}
OBJECT_HINT = "a manifest starts with apiVersion and kind"
QUANTITY_HINT = "write a number, or one with a suffix, as in 8, 500m or 64Gi"

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


def problems_in(document: Document) -> Iterator[Problem]:
    """What is no object where one must stand, and what is no quantity in a pod or claim."""
    yield from _strays(document, (), document.value)
    for manifest in manifests_in(document):
        if _resource_of(manifest.value):
            yield from _no_quantities(manifest)


def request_for(thing: Mapping[str, Any], caller: Caller) -> AdmissionRequest | None:
    """The request with which the API server would ask about an object; None for a kind that is not reviewed.

    Args:
        thing: the object, read-only.
        caller: who sends it.
    """
    resource = _resource_of(thing)
    if resource is None:
        return None
    kind = str(thing["kind"])
    metadata = mapping_at(thing, ("metadata",))
    namespace = _text(metadata.get("namespace")) or caller.namespace
    name = _text(metadata.get("name"))
    raw = {
        "kind": {"group": "", "version": "v1", "kind": kind},
        "resource": {"group": "", "version": "v1", "resource": resource},
        "operation": caller.operation,
        "namespace": namespace,
        "name": name,
        "userInfo": {"username": caller.username, "groups": list(caller.groups)},
        "dryRun": True,
    }
    return AdmissionRequest(
        kind=kind,
        resource=resource,
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


def facts_in(documents: Iterable[Document], pod_security_default: str | None) -> Facts:
    """Facts from what `kubectl get -o yaml` prints.

    Args:
        documents: of the files; what is no object is left out.
        pod_security_default: see `webhook.facts.Facts`.
    """
    values = (document.value for document in documents)
    return Facts.from_objects((value for value in values if isinstance(value, dict)), pod_security_default)


def _resource_of(thing: Mapping[str, Any]) -> str | None:
    return RESOURCES.get((str(thing.get("apiVersion")), str(thing.get("kind"))))


def _no_quantities(manifest: Manifest) -> Iterator[Problem]:
    """Rules cannot count these, and Kubernetes refuses the object."""
    document, base, thing = manifest
    for path in _resource_lists(thing):
        for name, amount in mapping_at(thing, path).items():
            try:
                parse_quantity(0 if amount is None else amount)
            except QuantityError:
                place = document.locate((*base, *path, name))
                message = f"{format_field(thing, (*path, name))}: expected a quantity, found {shown(amount)}"
                yield Problem(document.source, place, plain(message, LONGEST_MESSAGE), QUANTITY_HINT)


def _resource_lists(thing: Mapping[str, Any]) -> Iterator[Path]:
    """The maps from resources to amounts in a pod, or in a claim."""
    owners: list[Path] = [("spec",)]
    if thing.get("kind") == "Pod":
        owners.extend(container.path for container in containers(thing))
        yield "spec", "overhead"
    for owner in owners:
        yield *owner, "resources", "requests"
        yield *owner, "resources", "limits"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _strays(document: Document, path: Path, value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        message = f"expected a Kubernetes object (a map), found {shown(value)}"
        yield Problem(document.source, document.locate(path), message, OBJECT_HINT)
    elif not path and not value.get("kind"):
        message = "no Kubernetes object: kind is missing"
        yield Problem(document.source, document.locate(path), message, OBJECT_HINT, is_warning=True)
    elif str(value.get("kind")).endswith("List") and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            yield from _strays(document, (*path, "items", index), item)
