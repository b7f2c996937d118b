"""Who wrote a field: `metadata.managedFields`.

The API server records the fields that a client sent before it calls admission (kubernetes/apiserver:
pkg/endpoints/handlers/create.go), so a field without an entry was filled in by the server's own plugins or by
a webhook. A client cannot strip the record by sending an empty or a broken one: the server builds it anew.

The format is a trie in JSON (kubernetes-sigs/structured-merge-diff:fieldpath/serialize.go): `f:NAME` is a
field or map key, `k:{…}` an item of a list with keys, `.` the node itself. An empty node is a leaf: the whole
below it was written as one, as an atomic list or map is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from webhook.documents import Path
from webhook.kube.field_path import mapping_at, value_at

_ANNOTATIONS = ("fieldsV1", "f:metadata", "f:annotations")

_LIST_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
}
"""What tells the items of a pod's lists apart (kubernetes/api:core/v1/types.go, listMapKey); other lists are looked at whole."""


def owns(managed_fields: object, path: tuple[str, ...]) -> bool | None:
    """Whether some manager has an entry for a field, for something in it, or for the whole that it is in.

    Entries of a subresource count like the others: it only tells managers apart, the fields are those of the
    same object (kubernetes/apimachinery:pkg/apis/meta/v1/types.go, `ManagedFieldsEntry.Subresource`), and
    whoever sets `replicas` through `scale` chose it.

    Args:
        managed_fields: The value of `metadata.managedFields`, of any type.
        path: Field names and map keys from the root. An item of a list with keys is written as the server
            writes it, compact and with sorted keys: `k:{"name":"trainer"}`.

    Returns:
        None where nobody can tell: there is no entry, or one that cannot be read and none that has the field.
    """
    if not isinstance(managed_fields, list) or not managed_fields:
        return None
    keys = [segment if segment.startswith("k:{") else f"f:{segment}" for segment in path]
    found = [_entry_owns(entry, keys) for entry in managed_fields]
    if True in found:
        return True
    return None if None in found else False


def was_added(thing: Mapping[str, Any], path: Path) -> bool:
    """Whether a field is there that was not in the object as it was sent; False, too, where nobody can tell.

    Args:
        thing: an object at its creation, as a webhook receives it.
        path: of the field.
    """
    if value_at(thing, path) is None:
        return False
    return owns(value_at(thing, ("metadata", "managedFields")), _managed(thing, path)) is False


def _managed(thing: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """`path` as `owns` takes it, up to the first item of a list that is written as a whole."""
    found: list[str] = []
    for depth, segment in enumerate(path):
        if isinstance(segment, str):
            found.append(segment)
            continue
        key = _LIST_KEYS.get(found[-1]) if found else None
        name = value_at(thing, (*path[: depth + 1], key)) if key else None
        if not isinstance(name, str):
            break
        found.append(f"k:{orjson.dumps({key: name}).decode()}")
    return tuple(found)


def client_written(managed_fields: object) -> set[str]:
    """The annotations that some entry names, by their whole keys; none, too, where nobody can tell.

    Annotations are written key by key: an empty `f:annotations` is a client that applied `annotations: {}`, and tells
    nothing of the keys that came later.

    Args:
        managed_fields: `metadata.managedFields`, as it is.
    """
    entries = managed_fields if isinstance(managed_fields, list) else []
    return {key[2:] for entry in entries for key in mapping_at(entry, _ANNOTATIONS) if key.startswith("f:")}


def _entry_owns(entry: Any, keys: Sequence[str]) -> bool | None:
    if not (type(entry) is dict or isinstance(entry, Mapping)) or entry.get("fieldsType") not in (
        None,
        "FieldsV1",
    ):
        return None
    node = entry.get("fieldsV1")
    # An entry without any field cannot be told from a damaged one.
    if not node or not (type(node) is dict or isinstance(node, Mapping)):
        return None
    for key in keys:
        if key not in node:
            # An empty node is a leaf: what is below it was written with it.
            return len(node) == 0
        node = node[key]
        if not (type(node) is dict or isinstance(node, Mapping)):
            return None
    return True
