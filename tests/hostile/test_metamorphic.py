"""What changes nothing for Kubernetes changes nothing for us: the same verdict, and the same change."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.gates import Json, gate, request
from tests.property.pods import as_received, pods
from tests.property.sets import FILES, policy_set
from webhook.engine import mutate, validate
from webhook.kube.node_affinity import normalise_toleration
from webhook.kube.pod import containers

Change = Callable[[Json, random.Random], Json]
LISTS = ("containers", "initContainers", "ephemeralContainers")
SPELLINGS: dict[str, list[Any]] = {
    "1": ["1", 1, "1000m", "1e0", "1.0"],
    "2": ["2", 2, "2000m", "2.0"],
    "4": ["4", 4, "4000m", "4e0"],
    "8": ["8", 8, "8000m", "0.008k"],
    "16": ["16", 16, "16000m"],
    "0": ["0", 0, "0m"],
    "8000": ["8000", 8000, "8k", "8e3"],
}


def other_key_order(thing: Any, dice: random.Random) -> Any:
    if isinstance(thing, dict):
        keys = list(thing)
        dice.shuffle(keys)
        return {key: other_key_order(thing[key], dice) for key in keys}
    return [other_key_order(each, dice) for each in thing] if isinstance(thing, list) else thing


def other_list_order(thing: Json, dice: random.Random) -> Json:
    for key in ("tolerations", "volumes"):
        if thing["spec"].get(key):
            dice.shuffle(thing["spec"][key])
    for key in LISTS:
        for each in thing["spec"].get(key) or ():
            if each.get("env"):
                dice.shuffle(each["env"])
    return thing


def unknown_fields(thing: Json, dice: random.Random) -> Json:
    holders = [
        thing,
        thing["metadata"],
        thing["spec"],
        *(each for key in LISTS for each in thing["spec"].get(key) or ()),
    ]
    for holder in holders:
        holder[f"field{dice.randrange(9)}OfTheFuture"] = dice.choice(
            [None, 1, "x", {"a": [1]}, [{"b": None}]]
        )
    return thing


def other_spellings(thing: Json, dice: random.Random) -> Json:
    for key in LISTS:
        for each in thing["spec"].get(key) or ():
            amounts = each.get("resources", {})
            for name in amounts.get("limits", {}):
                spelling = dice.choice(SPELLINGS[str(amounts["limits"][name])])
                amounts["limits"][name] = amounts["requests"][name] = spelling
    return thing


def limits_only(thing: Json, dice: random.Random) -> Json:
    for key in LISTS:
        for each in thing["spec"].get(key) or ():
            each.get("resources", {}).pop("requests", None)
    return thing


CHANGES: dict[str, Change] = {
    "the order of keys": other_key_order,
    "the order of tolerations, variables and volumes": other_list_order,
    "fields that nobody knows": unknown_fields,
    "other spellings of a quantity": other_spellings,
    "limits without requests": limits_only,
}


def verdict(thing: Json, name: str) -> tuple[Any, ...]:
    """What is found, and what is done about it."""
    asked = request(thing, namespace=thing["metadata"]["namespace"])
    first, second = mutate(gate(policy_set(name)), asked), validate(gate(policy_set(name)), asked)
    return (
        second.allowed,
        {
            each.rule.key: (each.result, each.action, frozenset(found.text for found in each.findings))
            for each in second.reports
        },
        frozenset(
            (each.rule, each.path[0], each.path[-1] if not each.appended else "-", meaning(each.after))
            for each in first.changes
        ),
    )


def meaning(value: Any) -> str:
    is_toleration = isinstance(value, dict) and "operator" in value
    return repr(normalise_toleration(value)) if is_toleration else repr(value)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(thing=pods(), seed=st.integers(0, 2**32))
def test_it_changes_nothing(change: Change, name: str, thing: Json, seed: int) -> None:
    before = as_received(thing)
    assert verdict(change(as_received(thing), random.Random(seed)), name) == verdict(before, name)


def test_the_changes_do_change_something() -> None:
    dice = random.Random(1)
    amounts = {"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "8"}}
    main = {
        "name": "main",
        "resources": amounts,
        "env": [{"name": "A"}, {"name": "B"}, {"name": "C"}, {"name": "D"}],
    }
    thing: Json = {
        "metadata": {"namespace": "x", "name": "y"},
        "spec": {"containers": [main], "volumes": None},
    }
    for change in CHANGES.values():
        assert any(repr(change(as_received(thing), dice)) != repr(thing) for _ in range(20))


def test_no_spelling_is_of_another_amount() -> None:
    from webhook.kube.quantity import parse_quantity

    assert all(
        parse_quantity(each) == parse_quantity(key) for key, found in SPELLINGS.items() for each in found
    )
    assert containers({"spec": {"containers": [{"name": "a"}]}})
