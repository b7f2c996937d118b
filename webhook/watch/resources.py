"""What can be watched, and what is kept of each object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.facts.cluster import DEFAULT_CLASS_ANNOTATIONS
from webhook.kube.field_path import mapping_at

Object = Mapping[str, Any]

#: The whole manifest once more, up to 256 KiB of it, which no policy has a use for.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection that is listed and watched.

    Attributes:
        kind: The kind of its objects.
        path: Where it stands in the API.
        reduce: Keeps of an object what is asked about it.
        selector: What narrows it, as in a query.
    """

    kind: str
    path: str
    reduce: Callable[[Object], Object]
    selector: Mapping[str, Any] = field(default_factory=dict)


def _named(item: Object, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": mapping_at(item, ("metadata",)).get("name"), **more}}


def _without(annotations: Object, *names: str) -> dict[str, Any]:
    return {name: value for name, value in annotations.items() if name not in names}


def _namespace(item: Object) -> Object:
    metadata = mapping_at(item, ("metadata",))
    annotations = _without(mapping_at(metadata, ("annotations",)), LAST_APPLIED)
    return _named(item, labels=mapping_at(metadata, ("labels",)), annotations=annotations)


def _storage_class(item: Object) -> Object:
    annotations = mapping_at(item, ("metadata", "annotations"))
    marks = {name: annotations[name] for name in DEFAULT_CLASS_ANNOTATIONS if name in annotations}
    return {**_named(item, annotations=marks), "provisioner": item.get("provisioner")}


def _with(*fields: str) -> Callable[[Object], Object]:
    def reduce(item: Object) -> Object:
        return {**_named(item), **{name: item[name] for name in fields if name in item}}

    return reduce


_ALL = (
    Resource("Namespace", "/api/v1/namespaces", _namespace),
    Resource(
        "PriorityClass",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        _with("value", "preemptionPolicy", "globalDefault"),
    ),
    Resource("StorageClass", "/apis/storage.k8s.io/v1/storageclasses", _storage_class),
    Resource("VolumeAttributesClass", "/apis/storage.k8s.io/v1/volumeattributesclasses", _with("driverName")),
    Resource("Accessor", "/apis/storage.kubesphere.io/v1alpha1/accessors", _with("spec")),
)
WATCHED: Mapping[str, Resource] = {resource.kind: resource for resource in _ALL}
"""By kind, what is watched if a policy asks about it; all are cluster-scoped, so that a name is a key."""


def name_of(item: Any) -> str:
    """The name of an object, "" for what has none."""
    name = mapping_at(item, ("metadata",)).get("name") if isinstance(item, Mapping) else ""
    return name if isinstance(name, str) else ""
