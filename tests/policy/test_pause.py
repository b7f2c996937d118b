"""Pauses: what a ConfigMap says, what is refused, and what a paused policy still does."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.gates import gate, load, policy, request
from tests.property.sets import site
from webhook.engine import Action, review
from webhook.policy.pause import MOST_AHEAD, Pause, PauseError, parse_pause

Json = dict[str, Any]

UNTIL = "2026-12-01T20:00:00Z"
END = datetime(2026, 12, 1, 20, tzinfo=UTC)
ZONE = 'expected a time with its zone, such as "2026-12-01T20:00:00Z"'
NAMES = 'expected names with commas between them, or "*" for all'


def config_map(*, written: str = "", created: str = "", **data: Any) -> Json:
    metadata: Json = {"name": "podgate-pause", "namespace": "podgate-system"}
    if created:
        metadata["creationTimestamp"] = created
    if written:
        metadata["managedFields"] = [{"manager": "kubectl", "time": written}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_all_that_can_be_said() -> None:
    said = config_map(until=UNTIL, policies=" a, b.c ", reason="INC-7: scheduler", by="jane")
    assert parse_pause(said) == Pause(frozenset({"a", "b.c"}), END, "INC-7: scheduler", "jane")


@pytest.mark.parametrize(
    "policies", [{}, {"policies": "*"}, {"policies": None}], ids=["absent", "star", "null"]
)
def test_an_end_is_enough_and_pauses_all(policies: Json) -> None:
    pause = parse_pause(config_map(until=UNTIL, **policies))
    assert pause == Pause(None, END, "", "")
    assert pause.covers("anything")


@pytest.mark.parametrize(
    "until",
    ["2026-12-01T22:00:00+02:00", "2026-12-01T20:00Z", "2026-12-01 20:00:00Z", "2026-12-01T20:00:00.000Z"],
)
def test_ways_to_write_the_same_moment(until: str) -> None:
    assert parse_pause(config_map(until=until)).until == END


def test_it_ends_at_its_end() -> None:
    pause = parse_pause(config_map(until=UNTIL))
    assert pause.is_in_force(END - timedelta(seconds=1))
    assert not pause.is_in_force(END)


REFUSED: dict[str, tuple[Json, str]] = {
    "nothing": ({}, 'data has no until; give it an end, until: "2026-12-01T20:00:00Z"'),
    "no zone": ({"until": "2026-12-01T20:00:00"}, f"until is '2026-12-01T20:00:00'; {ZONE}"),
    "a date": ({"until": "2026-12-01"}, f"until is '2026-12-01'; {ZONE}"),
    "a duration": ({"until": "2h"}, f"until is '2h'; {ZONE}"),
    "no such day": ({"until": "2026-02-30T00:00:00Z"}, f"until is '2026-02-30T00:00:00Z'; {ZONE}"),
    "before the first year": ({"until": "0001-01-01T00:00:00+14:00"}, f"until is '0001-01-01T00:00:00+14:00'; {ZONE}"),
    "no text": ({"until": 20261201}, f"until is 20261201; {ZONE}"),
    "no names": ({"until": UNTIL, "policies": ""}, f"policies is ''; {NAMES}"),
    "a star among names": ({"until": UNTIL, "policies": "a,*"}, f"policies is 'a,*'; {NAMES}"),
    "a rule": ({"until": UNTIL, "policies": "a/b"}, f"policies is 'a/b'; {NAMES}"),
    "a misspelt key": ({"until": UNTIL, "policy": "a"}, "unknown key 'policy'; its data has until, policies, reason, by"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "text"), REFUSED.values(), ids=REFUSED)
def test_what_says_no_pause(data: Json, text: str) -> None:
    with pytest.raises(PauseError) as refused:
        parse_pause(config_map(**data))
    assert str(refused.value) == f"ConfigMap podgate-pause: {text}"


@pytest.mark.parametrize("thing", [{}, {"data": None}, {"data": "x"}, {"data": []}])
def test_an_object_of_any_shape_is_refused(thing: Json) -> None:
    with pytest.raises(PauseError, match="data has no until"):
        parse_pause(thing)


def test_seven_days_from_when_it_was_written_are_the_most() -> None:
    written = f"{END - MOST_AHEAD:%Y-%m-%dT%H:%M:%SZ}"
    earlier = f"{END - MOST_AHEAD - timedelta(minutes=6):%Y-%m-%dT%H:%M:%SZ}"
    assert parse_pause(config_map(until=UNTIL, written=written, created="2020-01-01T00:00:00Z")).until == END
    assert parse_pause(config_map(until=UNTIL, created=written)).until == END
    with pytest.raises(PauseError) as refused:
        parse_pause(config_map(until=UNTIL, written=earlier, created="2020-01-01T00:00:00Z"))
    assert str(refused.value) == (
        "ConfigMap podgate-pause: until 2026-12-01T20:00:00Z is more than 7 days ahead; "
        "a pause is for an emergency; what shall last longer is an override"
    )


@pytest.mark.parametrize("data", [{}, {"until": None}], ids=["absent", "null"])
def test_without_an_end_it_is_a_day_from_when_it_was_written(data: Json) -> None:
    written = f"{END - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    assert parse_pause(config_map(created=written, **data)) == Pause(None, END, "", "")
    bare = {"metadata": config_map(created=written)["metadata"]}
    assert parse_pause(bare) == Pause(None, END, "", ""), "as kubectl makes it without any data"


def test_what_is_said_is_shown_safely() -> None:
    pause = parse_pause(config_map(until=UNTIL, reason="a\n\x1b[31mb", by="x" * 500))
    assert pause.reason == "a\\u000a\\u001b[31mb"
    assert len(pause.by) == 200


CAP = {"limitAcceleratorCount": {"perPod": {"max": 1}}}
POD = {
    "metadata": {"name": "p", "namespace": "team"},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
}


def actions(policies: Any) -> dict[str, Action]:
    return {
        report.rule.policy: report.action
        for report in review(gate(policies), request(POD, namespace="team")).reports
    }


def test_a_paused_policy_is_recorded_and_refuses_nothing_and_the_hash_stays() -> None:
    policies = load(policy("a", CAP), policy("b", CAP))
    paused = policies.paused(Pause(frozenset({"a"}), END, "", ""))
    assert actions(policies) == {"a": Action.DENY, "b": Action.DENY}
    assert actions(paused) == {"a": Action.RECORD, "b": Action.DENY}
    assert paused.hash == policies.hash


def test_the_word_of_an_override_is_paused_too() -> None:
    override = site("PodPolicyOverride", "o", policies=["a"], match={"namespaces": ["team"]}, mode="enforce")
    policies = load(policy("a", CAP, mode="audit"), override)
    assert actions(policies) == {"a": Action.DENY}
    assert actions(policies.paused(Pause(None, END, "", ""))) == {"a": Action.RECORD}


def test_a_disabled_policy_stays_disabled() -> None:
    policies = load(policy("a", CAP, mode="disabled")).paused(Pause(None, END, "", ""))
    assert actions(policies) == {}


def test_a_setter_writes_nothing_while_it_is_paused() -> None:
    setter = policy("a", {"setFields": {"labels": {"tier": "gold"}}})
    policies = load(setter)
    paused = policies.paused(Pause(None, END, "", ""))
    assert review(gate(policies), request(POD, namespace="team")).changes
    assert not review(gate(paused), request(POD, namespace="team")).changes
