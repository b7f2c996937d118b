"""What an update may be given back: list entries of ours that the stored object has and a client's file has not.

A pod's tolerations and node affinity are atomic lists: a client that applies its own file again drops what we appended, and
the API server refuses the update, since both are immutable, unless they are put back.
"""

import json
from collections.abc import Mapping, Set
from functools import partial
from operator import eq
from typing import Any

from webhook.documents import Path
from webhook.kube.draft import Change, Draft
from webhook.kube.field_path import list_at, value_at
from webhook.kube.node_affinity import TERMS

TOLERATIONS: Path = ("spec", "tolerations")


def put_back(original: Mapping[str, Any], old: Mapping[str, Any], thought: Draft) -> Draft:
    """The update with those entries of the mutation in thought that the stored object holds, equal; nothing else.

    Args:
        original: the object of the update, read-only.
        old: the stored object.
        thought: a draft of the update on which the CREATE mutations ran.
    """
    draft, stored = Draft(original), {_text(term) for term in list_at(old, TERMS)}
    for change in thought.changes():
        if change.appended and _was_stored(change, old, stored, thought):
            draft.append(change.path[:-1], change.after, change.rule, partial(eq, change.after), change.field)
    return draft


def _was_stored(change: Change, old: Mapping[str, Any], stored: Set[str], thought: Draft) -> bool:
    if change.path[:-1] == TOLERATIONS:
        return change.after in list_at(old, TOLERATIONS)
    if change.path[: len(TERMS)] == TERMS and len(change.path) > len(TERMS):
        term = value_at(thought.object, change.path[: len(TERMS) + 1])
        sent = value_at(thought.original, change.path[: len(TERMS) + 1])
        # a term that is stored as it was sent lacks nothing
        return _text(term) in stored and _text(sent) not in stored
    return False


def _text(term: Any) -> str:
    """The same for equal terms, so that one among thousands is found at once."""
    return json.dumps(term, sort_keys=True)
