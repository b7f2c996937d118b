"""What an update may be given back: list entries of ours that the stored object has and a client's file has not.

A pod's tolerations, node affinity and added capabilities are atomic lists: a client that applies its own file again drops what we
appended, and the API server refuses the update, since all are immutable, unless they are put back.

Ours is what the policies would append now, and what the stored object's record says was appended: policies change, and are
paused. Anybody may have edited that record; but nothing comes back that the stored object does not hold.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from functools import partial
from operator import eq
from typing import Any

from webhook.documents import Path
from webhook.engine import annotations
from webhook.kube.draft import ENGINE, Change, Draft, DraftError
from webhook.kube.field_path import format_field, list_at, mapping_at, value_at
from webhook.kube.node_affinity import TERMS

SPEC: Path = ("spec",)
TOLERATIONS: Path = (*SPEC, "tolerations")
CONTAINERS = ("initContainers", "containers")
EXPRESSIONS = "matchExpressions"
ADDED: Path = ("securityContext", "capabilities", "add")

Recorded = tuple[tuple[str, str], ...]
"""Fields, and as texts the values that were appended there."""


def put_back(original: Mapping[str, Any], old: Mapping[str, Any], thought: Draft) -> Draft:
    """The update with those entries of ours that the stored object holds, equal; nothing else.

    Args:
        original: the object of the update, read-only.
        old: the stored object.
        thought: a draft of the update on which the CREATE mutations ran.
    """
    draft, stored = Draft(original), {_text(term) for term in list_at(old, TERMS)}
    for change in thought.changes():
        if change.appended and _was_stored(change, old, stored, thought):
            draft.append(change.path[:-1], change.after, change.rule, partial(eq, change.after), change.field)
    _append(draft, _lost(draft.object, old, SPEC))
    return draft


def put_template_back(draft: Draft, old: Mapping[str, Any], spec: Path) -> None:
    """Likewise into a controller's template, where nothing but that tells it from the stored one.

    For kinds whose templates are immutable: a file with another change is refused as it would be without us.

    Args:
        draft: of the update.
        old: the stored object.
        spec: where the template's pod spec is.
    """
    lost = _lost(draft.object, old, spec)
    if lost:
        trial = draft.trial()
        _append(trial, lost)
        if value_at(trial.object, spec) == value_at(old, spec):
            _append(draft, lost)


def _append(draft: Draft, lost: Iterable[tuple[Path, Any]]) -> None:
    for path, item in lost:
        with suppress(DraftError):  # what has another type the API server refuses by itself
            draft.append(path, item, ENGINE, partial(eq, item), _text(item))


def _was_stored(change: Change, old: Mapping[str, Any], stored: Set[str], thought: Draft) -> bool:
    if change.path[:-1] == TOLERATIONS:
        return change.after in list_at(old, TOLERATIONS)
    if change.path[: len(TERMS)] == TERMS:
        term = value_at(thought.object, change.path[: len(TERMS) + 1])
        sent = value_at(thought.original, change.path[: len(TERMS) + 1])
        # a term that is stored as it was sent lacks nothing
        return _text(term) in stored and _text(sent) not in stored
    return False


def _lost(sent: Mapping[str, Any], old: Mapping[str, Any], spec: Path) -> list[tuple[Path, Any]]:
    """What the record says was appended below `spec`, the stored object holds, and the update has no more."""
    recorded = tuple(_recorded(old))
    if not recorded:
        return []
    return [*_lost_items(sent, old, spec, recorded), *_lost_requirements(sent, old, spec, recorded)]


def _recorded(old: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for entry in annotations.recorded(old):
        field, value = entry.get("path"), entry.get("to")
        if isinstance(field, str) and value is not None:
            yield field, _text(value)


def _below(recorded: Recorded, old: Mapping[str, Any], path: Path) -> set[str]:
    """What was appended to the list at `path`, or to one in it."""
    start = f"{format_field(old, path)}["
    return {value for field, value in recorded if field.startswith(start)}


def _lost_items(
    sent: Mapping[str, Any], old: Mapping[str, Any], spec: Path, recorded: Recorded
) -> Iterator[tuple[Path, Any]]:
    for path in _plain_lists(sent, spec):
        lost = _below(recorded, old, path) - set(map(_text, list_at(sent, path)))
        yield from ((path, item) for item in list_at(old, path) if lost and _text(item) in lost)


def _plain_lists(sent: Mapping[str, Any], spec: Path) -> Iterator[Path]:
    """Where entries of ours may be that are no requirements; capabilities only beside the client's own."""
    yield (*spec, *TOLERATIONS[1:])
    for kind in CONTAINERS:
        for index, container in enumerate(list_at(sent, (*spec, kind))):
            if list_at(container, ADDED):
                yield (*spec, kind, index, *ADDED)


def _lost_requirements(
    sent: Mapping[str, Any], old: Mapping[str, Any], spec: Path, recorded: Recorded
) -> list[tuple[Path, Any]]:
    """The requirements without which the terms would not be as they are stored; none where they would not be even so."""
    place: Path = (*spec, *TERMS[1:])
    ours, terms, begun = _below(recorded, old, place), list_at(old, place), list_at(sent, place)
    if not ours or len(begun) not in (0, len(terms)):
        return []
    found: list[tuple[Path, Any]] = []
    for index, term in enumerate(terms):
        own = mapping_at(begun, (index,))
        known = list_at(own, (EXPRESSIONS,))
        missing = [each for each in list_at(term, (EXPRESSIONS,))[len(known) :] if _text(each) in ours]
        if _text({**own, EXPRESSIONS: [*known, *missing]}) != _text({EXPRESSIONS: [], **term}):
            return []
        found.extend(((*place, index, EXPRESSIONS), each) for each in missing)
    return found


def _text(term: Any) -> str:
    """The same for equal terms, so that one among thousands is found at once."""
    return json.dumps(term, sort_keys=True)
