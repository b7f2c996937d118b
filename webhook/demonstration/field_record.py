"""The fields of an object as `metadata.managedFields` records them when somebody creates it.

The format: kubernetes-sigs/structured-merge-diff:fieldpath/serialize.go. Which lists have keys and what is written as one:
the `x-kubernetes-list-map-keys` and `x-kubernetes-map-type: atomic` of kubernetes/kubernetes:api/openapi-spec/v3. In the
schemas of custom resources most lists have no keys: they are recorded as one (kubeflow/training-operator:manifests/base/crds).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

LIST_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "ownerReferences": ("uid",),
}
ATOMIC = frozenset(
    {"nodeSelector", "fieldRef", "secretKeyRef", "configMapKeyRef", "nodeSelectorTerms", "selector"}
)
ATOMIC_ITEMS = frozenset({"ownerReferences"})
WITHOUT_OWN_ENTRY = frozenset({"metadata", "spec", "containers", "template", "strategy"})
"""They are there in an empty object, so nobody added them; in an empty custom resource only metadata is."""

NOT_RECORDED = frozenset({"apiVersion", "kind", "status"})
IDENTITY = frozenset({"name", "namespace"})
"""Of metadata: they belong to the object's place, not to a manager."""


def is_custom(thing: Mapping[str, Any]) -> bool:
    """Whether an object is of a custom resource: of the groups with a dot, the demonstration has no built-in one."""
    return "." in thing["apiVersion"].partition("/")[0]


def fields_of(thing: Mapping[str, Any]) -> dict[str, Any]:
    """The value of `fieldsV1` for an object that did not exist before."""
    recorded = {key: value for key, value in thing.items() if key not in NOT_RECORDED}
    recorded["metadata"] = {k: v for k, v in recorded["metadata"].items() if k not in IDENTITY}
    entry = _custom_entry if is_custom(thing) else _entry
    return {f"f:{key}": entry(key, value) for key, value in sorted(recorded.items()) if value}


def _custom_entry(key: str, value: Any, *, is_top: bool = True) -> dict[str, Any]:
    own: dict[str, Any] = {} if is_top and key == "metadata" else {".": {}}
    if isinstance(value, dict) and value:
        return own | {
            f"f:{name}": _custom_entry(name, part, is_top=False) for name, part in sorted(value.items())
        }
    return {}


def _entry(key: str, value: Any) -> dict[str, Any]:
    own: dict[str, Any] = {} if key in WITHOUT_OWN_ENTRY else {".": {}}
    if isinstance(value, dict) and value and key not in ATOMIC:
        return own | {f"f:{name}": _entry(name, part) for name, part in sorted(value.items())}
    if isinstance(value, list) and key in LIST_KEYS:
        return own | {_item_key(item, LIST_KEYS[key]): _item(key, item) for item in value}
    return {}


def _item(key: str, item: Mapping[str, Any]) -> dict[str, Any]:
    if key in ATOMIC_ITEMS:
        return {}
    return {".": {}} | {f"f:{name}": _entry(name, part) for name, part in sorted(item.items())}


def _item_key(item: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return "k:" + json.dumps({key: item[key] for key in sorted(keys)}, separators=(",", ":"))
