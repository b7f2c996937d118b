"""Two replicas with different policies share the calls of one creation: whom the difference must not hold up."""

from typing import Any

import pytest

from tests.engine.gates import GPU, File, Json, gate, load, policy, request, said, training_pod
from webhook.engine import mutate, validate
from webhook.engine.annotations import CHANGES, DECISION, POLICIES
from webhook.engine.outcome import Action
from webhook.policy import PolicySet

CAP = {"limitAcceleratorCount": {"perPod": {"max": 4}}}
LABEL = "team"


def label(value: str, **more: Any) -> Json:
    return {"setFields": {"labels": {LABEL: value}}, "verify": "fail"} | more


def needs(value: str) -> Json:
    text = f'object.metadata.?labels.?{LABEL}.orValue("") == "{value}"'
    return {"expression": {"validations": [{"expression": text}]}}


def priority(name: str) -> list[Json]:
    return [
        {"setPriorityClass": {"class": name}, "verify": "fail"},
        {"checkPriority": {"allowed": {"training": [name]}}},
    ]


NOTHING = policy(
    "other", {"setFields": {"labels": {"example.com/other": "x"}}}, match={"namespaces": ["other"]}
)
Files = tuple[File, ...]
VERSIONS: dict[str, tuple[Files, Files]] = {
    "a setter is added": ((NOTHING,), (policy("p", label("a")),)),
    "a setter and what needs it": ((NOTHING,), (policy("p", label("a"), needs("a")),)),
    "what needs a setter was audited": (
        (NOTHING, policy("p", needs("a"), mode="audit")),
        (policy("p", label("a"), needs("a")),),
    ),
    "another value, and only that is allowed": (
        (policy("p", label("a"), needs("a")),),
        (policy("p", label("b"), needs("b")),),
    ),
    "another class, and only that is allowed": (
        (policy("p", *priority("ai-train-high")),),
        (policy("p", *priority("ai-inference")),),
    ),
}
CASES = {
    f"{name}, {word}": pair[::step]
    for name, pair in VERSIONS.items()
    for word, step in (("new", 1), ("old", -1))
}


def actions(first: PolicySet, second: PolicySet, thing: Json, *, is_first_new: bool) -> list[Action]:
    """Of the validating call by the second set, after the mutating call by the first; who has the new one is not settled."""
    changed = mutate(gate(first, settled=not is_first_new), request(thing)).object
    outcome = validate(gate(second, settled=is_first_new), request(dict(changed or {})))
    return [report.action for report in outcome.reports]


@pytest.mark.parametrize(("first", "second"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("is_first_new", [True, False], ids=["the new one changes", "the new one judges"])
def test_nobody_is_refused_because_of_the_difference(first: Files, second: Files, is_first_new: bool) -> None:
    found = actions(load(*first), load(*second), training_pod(), is_first_new=is_first_new)
    assert Action.DENY not in found


@pytest.mark.parametrize(("first", "second"), CASES.values(), ids=CASES)
def test_what_the_author_asked_for_is_refused_as_ever(first: Files, second: Files) -> None:
    ours, theirs = (load(*each, policy("cap", CAP)) for each in (first, second))
    for is_first_new in (True, False):
        assert Action.DENY in actions(ours, theirs, training_pod(8), is_first_new=is_first_new)


def test_a_value_of_the_author_gets_no_grace() -> None:
    first, second = (load(policy("p", label(value), needs(value))) for value in "ab")
    own = training_pod()
    own["metadata"]["labels"][LABEL] = "mine"
    assert Action.DENY in actions(first, second, own, is_first_new=True)


def test_once_all_have_the_new_policies_the_need_is_a_need() -> None:
    policies = load(policy("p", label("a"), needs("a")))
    outcome = validate(gate(policies), request(training_pod()))
    assert {report.action for report in outcome.reports} == {Action.DENY}


def test_what_is_excused_is_a_warning_that_says_it_all() -> None:
    new = load(policy("p", CAP), policy("q", needs("a"), label("a")))
    outcome = validate(gate(new, settled=False), request(training_pod(2)))
    [*_, warned] = said(outcome.reports)
    assert warned.startswith("q/r0 fail warn: this must hold, but does not: object.metadata")


@pytest.mark.parametrize("name", [POLICIES, CHANGES])
def test_a_client_excuses_nothing_by_what_it_writes(name: str) -> None:
    record = f'[{{"rule":"x/y","path":"spec.containers[\\"main\\"].resources.limits[\\"{GPU}\\"]"}}]'
    managed: list[Json] = [{"fieldsV1": {"f:metadata": {"f:annotations": {f"f:{name}": {}}}}}]
    thing = training_pod(8, annotations={POLICIES: "0123456789ab", CHANGES: record}, managed=managed)
    outcome = validate(gate(load(policy("cap", CAP))), request(thing))
    assert [report.action for report in outcome.reports] == [Action.DENY]


def test_a_pod_that_is_left_as_it_is_says_by_whom_only_while_replicas_differ() -> None:
    policies = load(NOTHING)
    marked = mutate(gate(policies, settled=False), request(training_pod()))
    assert (marked.changes, marked.marked) == ((), True)
    assert (marked.object or {})["metadata"]["annotations"] == {POLICIES: policies.hash}
    assert mutate(gate(policies), request(training_pod())).patch == []


def test_where_nothing_is_enforced_nothing_is_written() -> None:
    policies = load(policy("p", label("a"), mode="audit"), policy("q", CAP, mode="warn"))
    outcome = mutate(gate(policies, settled=False), request(training_pod()))
    assert (outcome.patch, outcome.marked) == ([], False)


def test_a_mark_never_takes_the_place_of_a_record() -> None:
    first, second = load(policy("p", label("a"))), load(NOTHING)
    changed = dict(mutate(gate(first), request(training_pod())).object or {})
    again = mutate(gate(second, settled=False), request(changed))
    assert again.patch == []
    assert changed["metadata"]["annotations"].keys() == {CHANGES, POLICIES, DECISION}
