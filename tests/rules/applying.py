"""What holds for every setter: its patch is the object, and a second call adds nothing."""

from collections.abc import Mapping
from typing import Any

import jsonpatch
import orjson

from tests.rules.reviewing import mutated
from webhook.engine import Gate, Outcome


def applied(gate: Gate, thing: Mapping[str, Any]) -> Outcome:
    """The answer of the mutating call, after these checks."""
    before = orjson.loads(orjson.dumps(thing))  # as it would arrive: no two places are one object
    once = mutated(gate, thing)
    assert thing == before
    assert jsonpatch.apply_patch(before, once.patch) == once.object
    twice = mutated(gate, once.object or {})
    assert twice.patch == []
    return once
