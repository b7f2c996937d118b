"""What a changed object says of its changes: which rule, which field, from what to what, under which policies."""

import hashlib
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import ENGINE, Change, Draft, DraftError
from webhook.kube.field_path import mapping_at
from webhook.kube.managed_fields import client_written

CHANGES = "podgate.dev/changes"
POLICIES = "podgate.dev/policies"
DECISION = "podgate.dev/decision"
NAMES = (CHANGES, POLICIES, DECISION)

MOST_BYTES = 8 * 1024
"""Of the record of changes. All annotations of an object may have 256 KiB together
(kubernetes/apimachinery:pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB); 8 KiB hold about 60 changes."""

DECISION_CHARACTERS = 8
DECISION_BYTES = DECISION_CHARACTERS * 5 // 8
"""A character of base32 says five bits."""
_BASE32 = string.ascii_lowercase + "234567"
"""Of RFC 4648, section 6, in small letters."""
_SHIFTS = range(5 * (DECISION_CHARACTERS - 1), -1, -5)
ANNOTATIONS = ("metadata", "annotations")
LEFT_OUT = b'{"leftOut":%d}'


def decision_id(request: AdmissionRequest) -> str:
    """A short name of this decision: the same request gets the same one from every replica."""
    metadata = mapping_at(request.object or request.old_object or {}, ("metadata",))
    name = request.name or str(metadata.get("generateName") or "")
    parts = (request.kind, request.namespace, name, request.operation, request.username)
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace"))
    digest.update(_digestible(request.object))
    number = int.from_bytes(digest.digest()[:DECISION_BYTES], "big")
    return "".join([_BASE32[number >> shift & 31] for shift in _SHIFTS])


def carried(thing: Mapping[str, Any]) -> Mapping[str, str]:
    """Those of our annotations that an object carries, less what a client wrote, as managedFields shows.

    Args:
        thing: the object, as received.
    """
    every = mapping_at(thing, ANNOTATIONS)
    found = {name: text for name in NAMES if isinstance(text := every.get(name), str)}
    for name in _forged(thing) if found else ():
        found.pop(name, None)
    return found


def recorded(thing: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The entries of the record of changes, whoever wrote it: who may edit an object may edit its annotations.

    Args:
        thing: an object as it is stored.
    """
    for entry in _entries(mapping_at(thing, ANNOTATIONS).get(CHANGES)):
        if isinstance(entry, dict):
            yield entry


def remove_forged(draft: Draft) -> bool:
    """Take away what a client wrote under our names; True if there was something, in this pass or an earlier one.

    Then the object gets no record at all: a second pass could not tell the record from the forgery.
    """
    forged = _forged(draft.original)
    for name in NAMES if forged else ():
        if name in forged:
            draft.remove((*ANNOTATIONS, name), ENGINE)
    return bool(forged)


def record(draft: Draft, changes: Iterable[Change], policies: str, decision: str) -> None:
    """Write the three annotations; a second pass keeps the decision and appends its changes.

    An object whose annotations are no map is refused by every API server and gets none.

    Args:
        draft: the object with the changes.
        changes: what the rules changed, the engine's own not among them.
        policies: the hash of the policy set that did.
        decision: the ID under which the log has this answer.
    """
    earlier = _earlier(mapping_at(draft.original, ANNOTATIONS).get(CHANGES))
    text = _bounded([*earlier, *map(_entry, changes)])
    with suppress(DraftError):
        draft.put(ANNOTATIONS, {CHANGES: text, POLICIES: policies, DECISION: decision})


def mark(draft: Draft, policies: str) -> None:
    """Write under which policies an object was looked at and left as it is; an earlier pass that changed it says more.

    Args:
        draft: the object.
        policies: the hash of the policy set.
    """
    if POLICIES not in mapping_at(draft.original, ANNOTATIONS):
        with suppress(DraftError):
            draft.put(ANNOTATIONS, {POLICIES: policies})


def fields_written(thing: Mapping[str, Any]) -> frozenset[str]:
    """The fields that the object's record names, as `Change.field` writes them; none where a client wrote the record."""
    if not carried(thing).get(CHANGES):
        return frozenset()
    paths = (entry.get("path") for entry in recorded(thing))
    return frozenset(path for path in paths if isinstance(path, str))


def _forged(thing: Mapping[str, Any]) -> set[str]:
    """Those of our annotations that a client wrote."""
    return client_written(mapping_at(thing, ("metadata",)).get("managedFields")).intersection(NAMES)


def _digestible(thing: Any) -> bytes:
    """Bytes that are alike for alike objects; a file may hold numbers that JSON cannot."""
    try:
        return orjson.dumps(thing)
    except orjson.JSONEncodeError:
        return repr(thing).encode()  # which writes out what UTF-8 cannot hold


def _earlier(text: Any) -> list[Any]:
    """The entries of an earlier pass; none where some cannot be written again."""
    entries = _entries(text)
    try:
        orjson.dumps(entries)
    except orjson.JSONEncodeError:
        return []
    return entries


def _entries(text: Any) -> list[Any]:
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
        entry["from"], entry["to"] = change.before, change.after
    return entry


def _bounded(entries: Sequence[Any]) -> str:
    """A JSON list of the first entries that fit, and how many were left out."""
    with suppress(orjson.JSONEncodeError):
        text = orjson.dumps(entries)
        if len(text) <= MOST_BYTES - len(LEFT_OUT % len(entries)) - len(","):
            return text.decode()
    return _cut(list(map(_text, entries)))


def _text(entry: Any) -> bytes:
    """One entry; a number of a file that JSON cannot hold is left out, with what is beside it."""
    try:
        return orjson.dumps(entry)
    except orjson.JSONEncodeError:
        return orjson.dumps({key: entry[key] for key in ("rule", "path")})


def _cut(entries: Sequence[bytes]) -> str:
    room = MOST_BYTES - len(LEFT_OUT % len(entries)) - len("[]")
    kept = 0
    for entry in entries:
        room -= len(entry) + len(",")
        if room < 0:
            break
        kept += 1
    missing = [LEFT_OUT % (len(entries) - kept)] if kept < len(entries) else []
    return (b"[%b]" % b",".join([*entries[:kept], *missing])).decode()
