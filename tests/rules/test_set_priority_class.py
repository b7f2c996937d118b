"""setPriorityClass: what the API server stores, from every state in which a pod can arrive."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.rules.priority_plugin import ApiServer, ForbiddenError, Webhook, podgate, priority_class
from tests.rules.reviewing import (
    Json,
    gate_of,
    judged,
    load_problems,
    managed,
    mutated,
    places,
    pod,
    policy,
    report,
    said,
    texts,
    without_record,
)
from webhook.engine import Gate
from webhook.rules.base import Result

Triple = tuple[str | None, int | None, str | None]

LOWER = "PreemptLowerPriority"
TRAIN = priority_class("ai-train-high", 1_000_000)
PATIENT = priority_class("patient", 500, "Never")
TEAM = priority_class("team", 700)
EVERYONE = priority_class("everyone", 10, "Never", globalDefault=True)
SYSTEM = priority_class("system-cluster-critical", 2_000_000_000)
CLASSES = (TRAIN, PATIENT, TEAM, SYSTEM)
WITH_DEFAULT = (*CLASSES, EVERYONE)

REPLACES: Mapping[str, Any] = {
    "defaulted": "defaulted",
    "never": "never",
    "always": "always",
    "list": ["team"],
}


def gate(replace: Any = "defaulted", facts: tuple[Json, ...] = CLASSES, name: str = "ai-train-high") -> Gate:
    return gate_of(
        policy({"setPriorityClass": {"class": name, "replace": replace}}, match=MATCH), facts=facts
    )


MATCH = {"objectSelector": {"matchLabels": {"train": "yes"}}}
LABELS = {"train": "yes"}


def triple(thing: Mapping[str, Any]) -> Triple:
    spec = thing["spec"]
    return spec.get("priorityClassName"), spec.get("priority"), spec.get("preemptionPolicy")


def sets_class(name: str) -> Webhook:
    """A webhook that sets a class where its own mark is missing, with the numbers as it should."""
    chosen = next(each for each in WITH_DEFAULT if each["metadata"]["name"] == name)

    def call(thing: Json) -> Json:
        spec = {
            **thing["spec"],
            "priorityClassName": name,
            "priority": chosen["value"],
            "preemptionPolicy": chosen["preemptionPolicy"],
        }
        return {**thing, "spec": spec}

    return call


def labels_it(thing: Json) -> Json:
    """A webhook that adds the label by which the policy applies."""
    return {**thing, "metadata": {**thing["metadata"], "labels": dict(LABELS)}}


def touches(thing: Json) -> Json:
    """A webhook that changes something else."""
    return {**thing, "metadata": {**thing["metadata"], "annotations": {"touched": "yes"}}}


@dataclass(frozen=True)
class Start:
    """A state in which a pod can arrive, and the triple that must be stored for each `replace`."""

    defaulted: Triple | str
    never: Triple | str
    always: Triple | str
    listed: Triple | str
    spec: Json = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=lambda: LABELS)
    cluster: tuple[Json, ...] = CLASSES
    facts: tuple[Json, ...] | None = None
    before: tuple[Webhook, ...] = ()
    after: tuple[Webhook, ...] = ()
    wanted: str = "ai-train-high"

    def expected(self, replace: str) -> Triple | str:
        return {
            "defaulted": self.defaulted,
            "never": self.never,
            "always": self.always,
            "list": self.listed,
        }[replace]

    def stored(self, replace: str) -> Triple | str:
        facts = self.cluster if self.facts is None else self.facts
        ours = podgate(gate(REPLACES[replace], facts, self.wanted))
        server = ApiServer(self.cluster, (*self.before, ours, *self.after))
        try:
            return triple(server.create(pod(metadata={"labels": dict(self.labels)}, **self.spec)))
        except ForbiddenError as refusal:
            return str(refusal)


def alike(outcome: Triple | str, **fields: Any) -> Start:
    """A state whose outcome does not depend on `replace`."""
    return Start(outcome, outcome, outcome, outcome, **fields)


OURS: Triple = ("ai-train-high", 1_000_000, LOWER)
GENTLE: Triple = ("patient", 500, "Never")
THEIRS: Triple = ("team", 700, LOWER)
DEFAULT: Triple = ("everyone", 10, "Never")
CRITICAL: Triple = ("system-cluster-critical", 2_000_000_000, LOWER)
NONE: Triple = (None, 0, LOWER)
EMPTY: Triple = ("", 0, LOWER)
UNKNOWN_CLASS = "no PriorityClass with name nobody was found"

STARTS = {
    # What nobody chose.
    "nothing set": alike(OURS),
    "nothing set, a class that never preempts": alike(GENTLE, wanted="patient"),
    "an empty name": alike(OURS, spec={"priorityClassName": ""}),
    "a null name": alike(OURS, spec={"priorityClassName": None}),
    "globalDefault class filled in": Start(OURS, DEFAULT, OURS, OURS, cluster=WITH_DEFAULT),
    "globalDefault class filled in, a class that never preempts": Start(
        GENTLE, DEFAULT, GENTLE, GENTLE, cluster=WITH_DEFAULT, wanted="patient"
    ),
    # What somebody chose.
    "user chose a class": Start(THEIRS, THEIRS, OURS, OURS, spec={"priorityClassName": "team"}),
    "user chose a class, another is globalDefault": Start(
        THEIRS, THEIRS, OURS, OURS, spec={"priorityClassName": "team"}, cluster=WITH_DEFAULT
    ),
    "user chose the globalDefault class itself": Start(
        DEFAULT, DEFAULT, OURS, DEFAULT, spec={"priorityClassName": "everyone"}, cluster=WITH_DEFAULT
    ),
    "user chose the wanted class": alike(OURS, spec={"priorityClassName": "ai-train-high"}),
    "user chose the wanted class, with its number": alike(
        OURS, spec={"priorityClassName": "ai-train-high", "priority": 1_000_000}
    ),
    "user chose a system class": alike(CRITICAL, spec={"priorityClassName": "system-cluster-critical"}),
    # What the plugin refuses before any webhook is called.
    "user wrote a number without a class": alike(
        (
            "the integer value of priority (5) must not be provided in pod spec; "
            "priority admission controller computed 0 from the given PriorityClass name"
        ),
        spec={"priority": 5},
    ),
    "user named a class that does not exist": alike(UNKNOWN_CLASS, spec={"priorityClassName": "nobody"}),
    # Other webhooks.
    "an earlier webhook chose a class": Start(THEIRS, THEIRS, OURS, OURS, before=(sets_class("team"),)),
    "a later webhook insists on its class, and has the last word": alike(THEIRS, after=(sets_class("team"),)),
    "a later webhook touches something else": alike(OURS, after=(touches,)),
    "a later webhook touches a pod of the globalDefault class": Start(
        OURS, DEFAULT, OURS, OURS, after=(touches,), cluster=WITH_DEFAULT
    ),
    "a later webhook's label makes the policy apply in the reinvocation only": alike(
        OURS, labels={}, after=(labels_it,)
    ),
    "the same, a class that never preempts": alike(GENTLE, labels={}, after=(labels_it,), wanted="patient"),
    "the same, over the globalDefault class": Start(
        OURS, DEFAULT, OURS, OURS, labels={}, after=(labels_it,), cluster=WITH_DEFAULT
    ),
    "the same, over a chosen class": Start(
        THEIRS, THEIRS, OURS, OURS, labels={}, after=(labels_it,), spec={"priorityClassName": "team"}
    ),
    "the same, over a system class": alike(
        CRITICAL,
        labels={},
        after=(labels_it,),
        spec={"priorityClassName": "system-cluster-critical"},
    ),
    # The policy does not apply.
    "no label": alike(NONE, labels={}),
    # What is known of the cluster.
    "no facts": alike(NONE, facts=()),
    "no facts, an empty name": alike(EMPTY, facts=(), spec={"priorityClassName": ""}),
    "no facts, globalDefault class filled in": alike(DEFAULT, facts=(), cluster=WITH_DEFAULT),
    "no facts, user chose a class": alike(THEIRS, facts=(), spec={"priorityClassName": "team"}),
    "no facts, reinvocation only": alike(NONE, facts=(), labels={}, after=(labels_it,)),
    "the class is known to be absent": alike(NONE, cluster=(TEAM,)),
    "the class is known to be absent, reinvocation only": alike(
        NONE, cluster=(TEAM,), labels={}, after=(labels_it,)
    ),
    "facts still have a class that is gone": alike(
        "no PriorityClass with name ai-train-high was found",
        cluster=(TEAM,),
        facts=CLASSES,
    ),
}


@pytest.mark.parametrize("replace", REPLACES)
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS.keys())
def test_what_the_api_server_stores(start: Start, replace: str) -> None:
    assert start.stored(replace) == start.expected(replace)


def test_the_simulated_server_refuses_what_the_real_one_does() -> None:
    def names_only(thing: Json) -> Json:
        return {**thing, "spec": {**thing["spec"], "priorityClassName": "patient"}}

    def without_policy(thing: Json) -> Json:
        return {**thing, "spec": {**thing["spec"], "priorityClassName": "patient", "priority": 500}}

    with pytest.raises(ForbiddenError, match=r"the integer value of priority \(0\) must not be provided"):
        ApiServer(CLASSES, (names_only,)).create(pod())
    with pytest.raises(
        ForbiddenError, match=r"value of PreemptionPolicy \(PreemptLowerPriority\) must not be"
    ):
        ApiServer(CLASSES, (without_policy,)).create(pod())

    def removes_in_the_reinvocation(thing: Json) -> Json:
        if not thing["metadata"].get("labels"):
            return thing
        spec = {k: v for k, v in thing["spec"].items() if k not in ("priority", "preemptionPolicy")}
        return {**thing, "spec": {**spec, "priorityClassName": "patient"}}

    stored = ApiServer(CLASSES, (removes_in_the_reinvocation, labels_it)).create(pod())
    assert triple(stored) == ("patient", None, None), "a plugin ran after the second round"


# What is said.


def labelled(**spec: Any) -> Json:
    return pod(
        metadata={"labels": dict(LABELS), "managedFields": managed(*(("spec", key) for key in spec))}, **spec
    )


NUMBERS = {"priority": 0, "preemptionPolicy": LOWER}

SAID = {
    "a chosen class stays": (
        gate(),
        labelled(priorityClassName="team", priority=700),
        [
            "skip: the pod keeps its own priority class team -> nothing: a class that somebody chose is respected"
        ],
    ),
    "a chosen class stays, whatever the facts": (
        gate(facts=()),
        labelled(priorityClassName="team", priority=700),
        [
            "skip: the pod keeps its own priority class team -> nothing: a class that somebody chose is respected"
        ],
    ),
    "a chosen class stays, though the wanted one is absent": (
        gate(facts=(TEAM,)),
        labelled(priorityClassName="team", priority=700),
        [
            "skip: the pod keeps its own priority class team -> nothing: a class that somebody chose is respected"
        ],
    ),
    "the wanted class is there already, whatever the facts": (
        gate(facts=()),
        labelled(priorityClassName="ai-train-high", priority=1_000_000),
        [],
    ),
    "the class is absent": (
        gate(facts=(TEAM,)),
        labelled(**NUMBERS),
        [
            (
                "error: priority class ai-train-high does not exist in the cluster"
                " -> create the PriorityClass ai-train-high, or correct the policy"
            )
        ],
    ),
    "the class is not known": (
        gate(facts=()),
        labelled(**NUMBERS),
        [
            (
                "error: cannot be evaluated: no facts about the cluster were given"
                " -> give podgate these facts, or ask the platform team"
            )
        ],
    ),
    "other facts are known, classes are not": (
        gate(facts=({"kind": "Namespace", "metadata": {"name": "x"}},)),
        labelled(**NUMBERS),
        [
            (
                "error: cannot be evaluated: no PriorityClass is among the facts given"
                " -> give podgate these facts, or ask the platform team"
            )
        ],
    ),
}


@pytest.mark.parametrize(("gate_", "thing", "expected"), SAID.values(), ids=SAID.keys())
def test_what_is_said(gate_: Gate, thing: Json, expected: list[str]) -> None:
    outcome = mutated(gate_, thing)
    assert said(outcome) == expected
    assert len(said(outcome, "zh")) == len(expected)
    assert not set(said(outcome, "zh")) & set(expected)
    assert outcome.patch == []


def test_an_error_names_the_kind_of_fact_that_would_help() -> None:
    (finding,) = report(mutated(gate(facts=()), labelled(**NUMBERS))).findings
    assert finding.needs == "PriorityClass"


# Files.

FILES: Mapping[str, tuple[Gate, Json, Triple, Result]] = {
    "class known": (gate(), labelled(), OURS, Result.PASS),
    "class not known: the name alone": (
        gate(facts=()),
        labelled(),
        ("ai-train-high", None, None),
        Result.PASS,
    ),
    "class not known, a live export with its number": (
        gate(facts=()),
        labelled(priority=0),
        (None, 0, None),
        Result.ERROR,
    ),
    "class absent": (gate(facts=(TEAM,)), labelled(), (None, None, None), Result.ERROR),
    "class chosen": (
        gate(),
        labelled(priorityClassName="team"),
        ("team", None, None),
        Result.SKIP,
    ),
    "the globalDefault class in a file was chosen": (
        gate(facts=WITH_DEFAULT),
        pod(metadata={"labels": LABELS}, priorityClassName="everyone"),
        ("everyone", None, None),
        Result.SKIP,
    ),
}


@pytest.mark.parametrize(("gate_", "thing", "expected", "result"), FILES.values(), ids=FILES.keys())
def test_a_file_without_an_api_server(gate_: Gate, thing: Json, expected: Triple, result: Result) -> None:
    outcome = mutated(gate_, thing, from_api_server=False)
    assert outcome.object is not None
    assert (triple(outcome.object), report(outcome).result) == (expected, result)


def test_twice_is_once() -> None:
    once = mutated(gate(), labelled(**NUMBERS)).object
    assert once is not None
    assert mutated(gate(), once).patch == []
    assert judged(gate(), once).allowed


def test_every_number_of_the_class_is_a_change_of_the_rule() -> None:
    outcome = mutated(gate(name="patient"), labelled(**NUMBERS))
    assert [(change.rule, change.field, change.after) for change in outcome.changes] == [
        ("p/r", "spec.priorityClassName", "patient"),
        ("p/r", "spec.priority", 500),
        ("p/r", "spec.preemptionPolicy", "Never"),
    ]


@pytest.mark.parametrize("present", ["team", "system-cluster-critical"])
def test_a_class_that_is_kept_is_pointed_to(present: str) -> None:
    assert places(mutated(gate(), labelled(priorityClassName=present))) == ["kept @ spec.priorityClassName"]


# /validate.


def test_a_class_without_a_priority_is_reported_at_validation() -> None:
    stored = labelled(priorityClassName="team")
    outcome = judged(gate(), stored)
    assert places(outcome)[-1] == "numberless @ spec.priority"
    assert said(outcome)[-1] == (
        "fail: the pod names priority class team but has no priority, so the scheduler reads it as 0"
        " -> create the pod again; if it happens again, tell the platform team: a webhook sets the class too late"
    )


def test_a_file_has_no_priority_and_that_is_right() -> None:
    assert texts(judged(gate(), labelled(priorityClassName="team"), from_api_server=False)) == ["kept"]


def test_a_mutation_that_was_missed_is_reported() -> None:
    outcome = judged(gate(), labelled(**NUMBERS))
    assert said(outcome) == [
        (
            "fail: not applied: the mutating call was missed, or a later webhook undid it"
            " (spec.priorityClassName, spec.priority) -> create the object again; if it happens again, tell the platform team"
        )
    ]
    assert outcome.allowed, "verify: warn is the default"


def test_a_later_webhooks_other_class_counts_as_chosen() -> None:
    once = mutated(gate(), labelled(**NUMBERS)).object
    assert once is not None
    undone = sets_class("team")(dict(once))
    assert texts(judged(gate(), undone)) == ["kept"]


# Several rules.


def two_rules(second: Json) -> Gate:
    first = {"setPriorityClass": {"class": "patient"}}
    return gate_of(policy(first, {"setPriorityClass": second}), facts=CLASSES)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({"class": "ai-train-high"}, GENTLE),
        ({"class": "ai-train-high", "replace": ["patient"]}, GENTLE),
        ({"class": "ai-train-high", "replace": "always"}, OURS),
    ],
    ids=["the first owns the field", "a list does not reach over rules", "always does"],
)
def test_two_rules_for_one_field(second: Json, expected: Triple) -> None:
    once = mutated(two_rules(second), labelled(**NUMBERS)).object
    assert once is not None
    assert triple(once) == expected
    assert mutated(two_rules(second), once).patch == []


# Loading.


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "spec.rules[0].setPriorityClass.class is missing"),
        ({"class": ""}, "spec.rules[0].setPriorityClass.class: expected a text that is not empty, found ''"),
        (
            {"class": "system-node-critical"},
            (
                "spec.rules[0].setPriorityClass.class: system-* classes are for Kubernetes' own pods;"
                " expected a class of the site, found 'system-node-critical'"
            ),
        ),
        (
            {"class": "x", "replace": "sometimes"},
            (
                "spec.rules[0].setPriorityClass.replace: expected defaulted, never, always, or a list of values"
                " that may be replaced, found 'sometimes'"
            ),
        ),
        (
            {"class": "x", "replace": []},
            (
                "spec.rules[0].setPriorityClass.replace: expected defaulted, never, always, or a list of values"
                " that may be replaced"
            ),
        ),
    ],
    ids=["no class", "empty class", "a system class", "another word", "an empty list"],
)
def test_what_a_policy_may_not_say(parameters: Json, message: str) -> None:
    assert load_problems(policy({"setPriorityClass": parameters})) == [message]


def test_only_the_three_fields_and_the_record_change() -> None:
    thing = labelled(**NUMBERS, nodeSelector={"a/b~c": "d"}, tolerations=None)
    outcome = mutated(gate(), thing)
    changed = {"priorityClassName": "ai-train-high", "priority": 1_000_000}
    assert without_record(outcome.object) == {**thing, "spec": {**thing["spec"], **changed}}
