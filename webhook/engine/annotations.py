"""What a changed object says of its changes: which rule, which field, from what to what, under which policies."""

import hashlib
from base64 import b32encode
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import ENGINE, Change, Draft, Replace
from webhook.kube.field_path import mapping_at
from webhook.kube.managed_fields import owns

CHANGES = "podgate.dev/changes"
POLICIES = "podgate.dev/policies"
DECISION = "podgate.dev/decision"
NAMES = (CHANGES, POLICIES, DECISION)

MOST_BYTES = 8 * 1024
"""Of the record of changes. All annotations of an object may have 256 KiB together
(kubernetes/apimachinery:pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB); 8 KiB hold about 60 changes."""

DECISION_CHARACTERS = 8
ANNOTATIONS = ("metadata", "annotations")
OVERWRITE = Replace("always")


def decision_id(request: AdmissionRequest) -> str:
    """A short name of this decision: the same request gets the same one from every replica."""
    metadata = mapping_at(request.object or request.old_object or {}, ("metadata",))
    name = request.name or str(metadata.get("generateName") or "")
    parts = (request.kind, request.namespace, name, request.operation, request.username)
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace"))
    digest.update(_digestible(request.object))
    return b32encode(digest.digest()).decode().lower()[:DECISION_CHARACTERS]


def written_by_client(received: Mapping[str, Any]) -> tuple[str, ...]:
    """Those of our annotations that a client put onto the object, as managedFields shows."""
    present = [name for name in NAMES if name in mapping_at(received, ANNOTATIONS)]
    managed = mapping_at(received, ("metadata",)).get("managedFields")
    return tuple(name for name in present if owns(managed, (*ANNOTATIONS, name)))


def remove_forged(draft: Draft) -> bool:
    """Take away what a client wrote under our names; True if there was something.

    Then the object gets no record at all: a second pass could not tell the record from the forgery.
    """
    forged = written_by_client(draft.original)
    for name in forged:
        draft.remove((*ANNOTATIONS, name), ENGINE)
    return bool(forged)


def record(draft: Draft, changes: Iterable[Change], policies: str, decision: str) -> None:
    """Write the three annotations; a second pass keeps the decision and appends its changes."""
    present = mapping_at(draft.original, ANNOTATIONS)
    earlier = _earlier(present.get(CHANGES))
    text = _bounded([*earlier, *map(_entry, changes)])
    draft.set((*ANNOTATIONS, CHANGES), text, ENGINE, OVERWRITE)
    draft.set((*ANNOTATIONS, POLICIES), policies, ENGINE, OVERWRITE)
    draft.set((*ANNOTATIONS, DECISION), decision, ENGINE)


def _digestible(thing: Any) -> bytes:
    """Bytes that are alike for alike objects; a file may hold numbers that JSON cannot."""
    try:
        return orjson.dumps(thing)
    except TypeError:
        return repr(thing).encode("utf-8", "replace")


def _earlier(text: Any) -> list[Any]:
    if not isinstance(text, str) or len(text) > MOST_BYTES:
        return []
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return []
    return found if isinstance(found, list) else []


def _entry(change: Change) -> dict[str, Any]:
    entry: dict[str, Any] = {"rule": change.rule, "path": change.field}
    if "env" not in change.path:  # a value of the environment may be a secret
        entry |= {"from": change.before, "to": change.after}
    return entry


def _bounded(entries: list[Any]) -> str:
    text = orjson.dumps(entries).decode()
    left_out = 0
    while len(text) > MOST_BYTES:
        entries = entries[:-1]
        left_out += 1
        text = orjson.dumps([*entries, {"leftOut": left_out}]).decode()
    return text
