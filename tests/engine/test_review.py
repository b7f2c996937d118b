from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.engine.gates import (
    GPU,
    File,
    Json,
    by_rule,
    container,
    deadline_after,
    facts,
    finds,
    gate,
    load,
    pod,
    policy,
    pool,
    request,
    said,
    training_pod,
    with_rule,
)
from webhook.documents import Path
from webhook.engine import mutate, review, validate
from webhook.engine.annotations import POLICIES
from webhook.facts import Facts, Unknown
from webhook.kube.draft import ALWAYS
from webhook.policy import PolicySet
from webhook.rules.base import (
    Finding,
    Mode,
    MutatingRule,
    Result,
    Subject,
    ValidatingRule,
    error,
    fail,
)

CAP = {"limitAcceleratorCount": {"perPod": {"max": 4}}}
CLASS = {"setPriorityClass": {"class": "ai-train-high"}}
TOLERATE = {"setNodeAffinity": {"tolerations": [{"key": GPU, "operator": "Exists"}]}}
PLACE = {"setNodeAffinity": {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes"]}]}}
OVER = f"8 {GPU} asked, at most 4 per pod"


class Breaks(ValidatingRule):
    """Has a bug."""

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        rules: dict[str, Iterator[Finding]] = {}
        return rules["bug"]


class Writes(MutatingRule):
    """Writes one field."""

    path: tuple[Any, ...] = ()
    value: Any = None

    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        subject.draft.set(self.path, self.value, key, ALWAYS)
        return iter(())


class Corrupts(MutatingRule):
    """Has a bug."""

    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        raise ZeroDivisionError


def lines(policies: PolicySet, thing: Json, **others: Any) -> list[str]:
    return said(validate(gate(policies, **others), request(thing)).reports)


# how the policy answers, what the rule finds -> what is said
ANSWERS: dict[str, tuple[Json, tuple[Finding, ...], str]] = {
    "nothing found": ({}, (), "p/r0 pass none"),
    "a fail": ({}, (fail("bad"),), "p/r0 fail deny: bad"),
    "a fail, warned": ({"mode": "warn"}, (fail("bad"),), "p/r0 fail warn: bad"),
    "a fail, audited": ({"mode": "audit"}, (fail("bad"),), "p/r0 fail record: bad"),
    "a fail with a ceiling": ({}, (Finding(Result.FAIL, "bad", ceiling=Mode.WARN),), "p/r0 fail warn: bad"),
    "the strongest counts": (
        {},
        (Finding(Result.FAIL, "bad", ceiling=Mode.AUDIT), fail("bad")),
        "p/r0 fail deny: bad: bad",
    ),
    "an error": ({}, (error("bad"),), "p/r0 error record: bad"),
    "an error under Fail": ({"failurePolicy": "Fail"}, (error("bad"),), "p/r0 error deny: bad"),
    "an error under Fail, audited": (
        {"failurePolicy": "Fail", "mode": "audit"},
        (error("bad"),),
        "p/r0 error record: bad",
    ),
}


@pytest.mark.parametrize(("spec", "findings", "line"), ANSWERS.values(), ids=ANSWERS)
def test_what_is_done_about_a_finding(spec: Json, findings: tuple[Finding, ...], line: str) -> None:
    assert lines(finds(*findings, **spec), pod()) == [line]


def test_a_disabled_policy_is_not_evaluated() -> None:
    policies = with_rule(load(policy("p", CAP, mode="disabled")), Breaks.model_construct())
    assert lines(policies, pod()) == []


def test_every_failing_rule_is_reported() -> None:
    policies = load(policy("a", CAP, CAP), policy("b", CAP), policy("c", CAP, match={"namespaces": ["web"]}))
    assert lines(policies, training_pod()) == [
        f"{rule} fail deny: {OVER}" for rule in ("a/r0", "a/r1", "b/r0")
    ]


def test_mutate_never_refuses() -> None:
    policies = load(
        policy("p", CAP | {"name": "cap"}, failurePolicy="Fail"), policy("q", CLASS, failurePolicy="Fail")
    )
    outcome = mutate(gate(policies, facts=Facts()), request(training_pod()))
    assert said(outcome.reports) == [
        "q/r0 error record: cannot be evaluated: no facts about the cluster were given"
    ]
    assert outcome.allowed
    assert outcome.patch == []


# match, exclude, facts -> what is said of a pod above the cap in the namespace training
UNKNOWN_LABELS = {"namespaceSelector": {"matchLabels": {"tier": "gold"}}}
BROKEN = {"matchConditions": [{"name": "boom", "expression": "object.spec.nothing == 1"}]}
FAILS = f"p/r0 fail deny: {OVER}"
UNCLEAR = "p/r0 error deny: cannot be evaluated: no facts about the cluster were given"
THREE_VALUES: dict[str, tuple[Any, Any, Facts, list[str]]] = {
    "yes": ({"all": True}, None, Facts(), [FAILS]),
    "no": ({"namespaces": ["web"]}, None, Facts(), []),
    "unknown": (UNKNOWN_LABELS, None, Facts(), [UNCLEAR]),
    "unknown, then no": (UNKNOWN_LABELS | {"objectSelector": {"matchLabels": {"a": "b"}}}, None, Facts(), []),
    "unknown or yes": ([UNKNOWN_LABELS, {"namespaces": ["training"]}], None, Facts(), [FAILS]),
    "unknown or no": ([UNKNOWN_LABELS, {"namespaces": ["web"]}], None, Facts(), [UNCLEAR]),
    "known, no": (UNKNOWN_LABELS, None, facts(), []),
    "excluded": ({"all": True}, [{"namespaces": ["training"]}], Facts(), []),
    "not excluded": ({"all": True}, [{"namespaces": ["web"]}], Facts(), [FAILS]),
    "perhaps excluded": ({"all": True}, [UNKNOWN_LABELS], Facts(), [UNCLEAR]),
    "perhaps matched, excluded": (UNKNOWN_LABELS, [{"namespaces": ["training"]}], Facts(), []),
    "perhaps or surely excluded": (
        {"all": True},
        [UNKNOWN_LABELS, {"namespaces": ["training"]}],
        Facts(),
        [],
    ),
}


@pytest.mark.parametrize(("match", "exclude", "known", "expected"), THREE_VALUES.values(), ids=THREE_VALUES)
def test_a_match_of_three_values(match: Any, exclude: Any, known: Facts, expected: list[str]) -> None:
    spec = {"match": match, "failurePolicy": "Fail"} | ({"exclude": exclude} if exclude else {})
    assert lines(load(policy("p", CAP, **spec)), training_pod(), facts=known) == expected


def test_a_condition_that_breaks_is_an_error() -> None:
    (line,) = lines(load(policy("p", CAP, match=BROKEN)), training_pod())
    assert line.startswith("p/r0 error record: cannot be evaluated: condition boom: ")


def test_a_match_sees_what_earlier_rules_wrote() -> None:
    late = policy("late", CAP, match={"matchConditions": [
        {"name": "classed", "expression": "object.spec.priorityClassName == 'ai-train-high'"}
    ]})  # fmt: skip
    outcome = review(gate(load(policy("first", CLASS), late)), request(training_pod()))
    assert said(outcome.reports) == ["first/r0 pass none", f"late/r0 fail deny: {OVER}"]


def test_the_first_by_order_then_by_name_has_the_field() -> None:
    def setting(name: str, order: int, class_: str) -> File:
        return policy(name, {"setPriorityClass": {"class": class_}}, order=order)

    policies = load(
        setting("a", 20, "ai-interactive"), setting("c", 10, "ai-train-high"), setting("b", 10, "ai-inference")
    )  # fmt: skip
    outcome = mutate(gate(policies), request(training_pod()))
    assert (outcome.object or {})["spec"]["priorityClassName"] == "ai-inference"
    assert said(outcome.reports) == [
        "b/r0 pass none",
        "c/r0 skip none: the pod keeps its own priority class ai-inference",
        "a/r0 skip none: the pod keeps its own priority class ai-inference",
    ]


def test_an_audited_mutation_shows_and_does_nothing() -> None:
    thing = training_pod()
    for mode, warned in (("warn", Mode.WARN), ("audit", Mode.AUDIT)):
        outcome = mutate(gate(load(policy("p", TOLERATE, mode=mode))), request(thing))
        assert (outcome.patch, outcome.changes) == ([], ())
        assert outcome.object is thing
        assert [(each, change.field) for each, change in outcome.would_change] == [
            (warned, 'spec.tolerations["nvidia.com/gpu"]')
        ]
        assert (outcome.audited or {})["spec"]["tolerations"] == [{"key": GPU, "operator": "Exists"}]


def test_claims_of_the_audited_lane_do_not_reach_the_real_one() -> None:
    audited = policy("a", {"setPriorityClass": {"class": "ai-inference"}}, mode="audit", order=1)
    outcome = mutate(gate(load(audited, policy("b", CLASS))), request(training_pod()))
    assert (outcome.object or {})["spec"]["priorityClassName"] == "ai-train-high"
    assert (outcome.audited or {})["spec"]["priorityClassName"] == "ai-inference"
    assert {change.rule for change in outcome.changes} == {"b/r0"}
    assert {change.rule for _, change in outcome.would_change} == {"a/r0"}


NEEDS_CLASS = {"matchConditions": [{"name": "c", "expression": "has(object.spec.priorityClassName)"}]}


def test_each_validation_judges_the_lane_of_its_mode() -> None:
    policies = load(
        policy("class", CLASS, mode="audit"),
        policy("audited", CAP, mode="audit", match=NEEDS_CLASS),
        policy("real", CAP, match=NEEDS_CLASS),
    )
    assert lines(policies, training_pod()) == ["class/r0 pass none", f"audited/r0 fail record: {OVER}"]


MODES_OF_A_FAIL: dict[str, tuple[Json, list[str]]] = {
    "enforced: as the object is": ({}, []),
    "audited: as it would be": ({"mode": "audit"}, [f"cap/r0 fail record: {OVER}"]),
}


@pytest.mark.parametrize(("spec", "expected"), MODES_OF_A_FAIL.values(), ids=MODES_OF_A_FAIL)
def test_an_endpoint_judges_by_mutations_that_it_does_not_answer_for(spec: Json, expected: list[str]) -> None:
    policies = load(
        policy("class", CLASS, mode="audit"),
        policy("cap", CAP, match=NEEDS_CLASS, failurePolicy="Fail", **spec),
    )
    outcome = validate(gate(policies, failure_policy="Fail"), request(training_pod()))
    assert said(outcome.reports) == expected


def test_what_is_enforced_after_an_audited_mutation_acts_in_both_lanes() -> None:
    policies = load(
        policy("a", TOLERATE, mode="audit", order=1),
        policy("b", CLASS, order=2),
        policy("audited", CAP, mode="audit", match=NEEDS_CLASS),
        policy("real", CAP, match=NEEDS_CLASS),
    )
    outcome = mutate(gate(policies), request(training_pod()))
    for lane in (outcome.object, outcome.audited):
        assert (lane or {})["spec"]["priorityClassName"] == "ai-train-high"
    assert [change.rule for _, change in outcome.would_change] == ["a/r0"]
    assert f"audited/r0 fail record: {OVER}" in lines(policies, training_pod())


def test_where_no_audited_mutation_acts_the_lanes_are_one_object() -> None:
    policies = load(policy("a", CLASS), policy("b", TOLERATE, mode="audit", match={"namespaces": ["web"]}))
    outcome = mutate(gate(policies), request(training_pod()))
    assert outcome.audited is not None
    assert outcome.audited["spec"] is (outcome.object or {})["spec"]
    assert outcome.would_change == ()


def test_an_audited_mutation_that_wants_nothing_leaves_the_lanes_one_object() -> None:
    own = training_pod(priorityClassName="own")
    policies = load(policy("a", CLASS, mode="audit"), policy("b", TOLERATE))
    outcome = mutate(gate(policies), request(own))
    assert outcome.audited is outcome.object
    assert [report.findings[0].text for report in outcome.reports if report.findings] == ["kept"]


UNAPPLIED = (
    "p/r0 fail {}: not applied: the mutating call was missed, or a later webhook undid it "
    '(spec.tolerations["nvidia.com/gpu"])'
)
VERIFIED: dict[str, tuple[Json, Json, Json, str]] = {
    "by default a warning": ({}, {}, {}, "warn"),
    "verify: fail": ({"verify": "fail"}, {}, {}, "deny"),
    "verify: fail in a policy that warns": ({"verify": "fail"}, {"mode": "warn"}, {}, ""),
    "verify: fail, just after a change of policies": ({"verify": "fail"}, {}, {"settled": False}, "warn"),
}


@pytest.mark.parametrize(("rule", "spec", "others", "action"), VERIFIED.values(), ids=VERIFIED)
def test_a_mutation_that_is_not_applied(rule: Json, spec: Json, others: Json, action: str) -> None:
    policies = load(policy("p", TOLERATE | rule, **spec))
    expected = [UNAPPLIED.format(action)] if action else ["p/r0 pass none"]
    assert lines(policies, training_pod(), **others) == expected
    applied = mutate(gate(policies), request(training_pod())).object
    assert lines(policies, dict(applied or {}), **others) == ["p/r0 pass none"]


def test_grace_while_the_pod_was_changed_under_other_policies() -> None:
    policies = load(policy("p", TOLERATE | {"verify": "fail"}))
    for text, action in (("0123456789ab", "warn"), (policies.hash, "deny"), ("", "deny"), (5, "deny")):
        thing = training_pod(annotations={POLICIES: text})
        assert lines(policies, thing) == [UNAPPLIED.format(action)]


def test_a_client_gets_no_grace_by_naming_other_policies() -> None:
    managed: list[Json] = [{"fieldsV1": {"f:metadata": {"f:annotations": {f"f:{POLICIES}": {}}}}}]
    thing = training_pod(annotations={POLICIES: "0123456789ab"}, managed=managed)
    policies = load(policy("p", TOLERATE | {"verify": "fail"}))
    assert lines(policies, thing) == [UNAPPLIED.format("deny")]


def test_a_later_choice_is_not_unapplied() -> None:
    policies = load(policy("p", CLASS | {"verify": "fail"}))
    thing = training_pod(priorityClassName="ai-inference", priority=500_000)
    assert lines(policies, thing) == [
        "p/r0 skip none: the pod keeps its own priority class ai-inference"
    ]  # fmt: skip


def test_on_update_nothing_is_unapplied() -> None:
    policies = load(policy("p", TOLERATE | {"verify": "fail"}))
    changed = training_pod(activeDeadlineSeconds=5)
    outcome = validate(gate(policies), request(changed, "UPDATE", old_object=training_pod()))
    assert outcome.reports == ()


BOTH = {"match": {"namespaces": ["training"], "operations": ["CREATE", "UPDATE"]}, "failurePolicy": "Fail"}

# old object, new object, subresource -> whether an update is refused
UPDATES: dict[str, tuple[Json | None, Json, str, bool]] = {
    "labels of a pod above the cap": (training_pod(), training_pod() | {"metadata": {"labels": {"a": "b"}}}, "", False),
    "another field of a pod above the cap": (training_pod(), training_pod(activeDeadlineSeconds=5), "", False),
    "nothing at all": (training_pod(), training_pod(), "", False),
    "below the cap": (training_pod(2), training_pod(3), "", False),
    "its status": (training_pod(2), training_pod(), "status", False),
    "raised": (training_pod(2), training_pod(), "", True),
    "raised by a resize": (training_pod(2), training_pod(), "resize", True),
    "raised still more": (training_pod(5), training_pod(), "", True),
    "no old object": (None, training_pod(), "", True),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "subresource", "refused"), UPDATES.values(), ids=UPDATES)
def test_an_update_answers_for_what_it_brings(
    old: Json | None, new: Json, subresource: str, refused: bool
) -> None:
    asked = request(new, "UPDATE", old_object=old, subresource=subresource)
    outcome = validate(gate(load(policy("p", CAP, **BOTH))), asked)
    assert outcome.allowed is not refused


RESERVED = {"reserveNodes": {"pools": "all"}}
GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
ALL_TAINTS = {"operator": "Exists"}
OTHER_TAINT = {"key": "disk", "operator": "Exists"}
PRIVILEGED = {"name": "debug", "securityContext": {"privileged": True}}
QUIET = {"name": "quiet"}

# rule, field of the spec, old items, new items -> how many findings are the update's own
MOVED: dict[str, tuple[Json, str, list[Json], list[Json], int]] = {
    "a named item moves": (RESERVED, "tolerations", [GPU_TAINT], [OTHER_TAINT, GPU_TAINT], 0),
    "an item without a name moves": (RESERVED, "tolerations", [ALL_TAINTS], [OTHER_TAINT, ALL_TAINTS], 0),
    "another of the same name comes": (
        RESERVED,
        "tolerations",
        [GPU_TAINT],
        [GPU_TAINT | {"effect": "NoExecute"}, GPU_TAINT],
        1,
    ),
    "another without a name comes": (
        RESERVED,
        "tolerations",
        [ALL_TAINTS],
        [ALL_TAINTS | {"effect": "NoSchedule"}, ALL_TAINTS],
        1,
    ),
    "it takes the place of one that is fine": (
        RESERVED,
        "tolerations",
        [OTHER_TAINT],
        [GPU_TAINT, OTHER_TAINT],
        1,
    ),
    "a container comes before it": (
        {"forbidBypass": {"privileged": True}},
        "ephemeralContainers",
        [PRIVILEGED],
        [QUIET, PRIVILEGED],
        0,
    ),
    "another container does the same": (
        {"forbidBypass": {"privileged": True}},
        "ephemeralContainers",
        [PRIVILEGED],
        [PRIVILEGED | {"name": "more"}, PRIVILEGED],
        1,
    ),
}


@pytest.mark.parametrize(("rule", "field", "old", "new", "own"), MOVED.values(), ids=MOVED)
def test_an_old_fault_stays_old_wherever_its_list_has_it(
    rule: Json, field: str, old: list[Json], new: list[Json], own: int
) -> None:
    now: Json = {field: new}
    before: Json = {field: old}
    asked = request(pod(**now), "UPDATE", old_object=pod(**before))
    outcome = validate(gate(load(policy("p", rule, **BOTH))), asked)
    assert sum(len(report.findings) for report in outcome.reports) == own


def test_an_update_of_labels_is_judged_by_the_rules_that_read_them() -> None:
    labelled = {
        "expression": {"validations": [{"expression": "has(object.metadata.labels)", "message": "label it"}]}
    }
    policies = load(policy("p", CAP, labelled, **BOTH))
    new = training_pod() | {"metadata": {}}
    outcome = validate(gate(policies), request(new, "UPDATE", old_object=training_pod()))
    assert said(outcome.reports) == ["p/r1 fail deny: label it"]


def test_an_update_that_cannot_be_judged_holds_up_no_finalizer() -> None:
    spec = {"match": UNKNOWN_LABELS | {"operations": ["UPDATE"]}, "failurePolicy": "Fail"}
    policies = load(policy("p", CAP, **spec))
    old, new = training_pod(), training_pod()
    new["metadata"]["finalizers"] = []
    assert validate(gate(policies, facts=Facts()), request(new, "UPDATE", old_object=old)).allowed


def test_an_update_that_cannot_be_judged_is_not_cleared_by_an_object_that_could_not() -> None:
    spec = {"match": UNKNOWN_LABELS | {"operations": ["UPDATE"]}, "failurePolicy": "Fail"}
    raised = request(training_pod(), "UPDATE", old_object=training_pod(2))
    outcome = validate(gate(load(policy("p", CAP, **spec)), facts=Facts()), raised)
    assert said(outcome.reports) == [UNCLEAR]


def test_a_policy_for_creation_says_nothing_of_updates() -> None:
    asked = request(training_pod(), "UPDATE", old_object=training_pod(1))
    assert validate(gate(load(policy("p", CAP))), asked).reports == ()


OUT_OF_TIME = "cannot be evaluated: the time that the API server gives to a review ran out"


def test_what_time_does_not_suffice_for_is_an_error() -> None:
    policies = load(
        policy("a", CAP, order=1), policy("b", CAP, order=2, failurePolicy="Fail"), policy("c", CAP, order=3)
    )
    outcome = validate(gate(policies, expired=deadline_after(1)), request(training_pod()))
    assert said(outcome.reports) == [
        f"a/r0 fail deny: {OVER}",
        f"b/r0 error deny: {OUT_OF_TIME}",
        f"c/r0 error record: {OUT_OF_TIME}",
    ]


def test_the_time_is_asked_for_between_the_rules_of_a_policy() -> None:
    policies = load(policy("a", CAP, CAP, CAP))
    outcome = validate(gate(policies, expired=deadline_after(2)), request(training_pod()))
    assert said(outcome.reports) == [
        f"a/r0 fail deny: {OVER}",
        f"a/r1 fail deny: {OVER}",
        f"a/r2 error record: {OUT_OF_TIME}",
    ]


def test_a_rule_that_mutates_without_time_writes_nothing() -> None:
    policies = load(policy("a", TOLERATE, CLASS))
    outcome = mutate(gate(policies, expired=deadline_after(1)), request(training_pod()))
    assert [change.rule for change in outcome.changes] == ["a/r0"]
    assert said(outcome.reports) == ["a/r0 pass none", f"a/r1 error record: {OUT_OF_TIME}"]


def test_a_mutation_without_time_writes_nothing_and_is_not_unapplied() -> None:
    policies = load(policy("a", TOLERATE | {"verify": "fail"}), policy("b", CLASS | {"verify": "fail"}))
    outcome = mutate(gate(policies, expired=deadline_after(0)), request(training_pod()))
    assert outcome.patch == []
    assert said(outcome.reports) == [f"{rule} error record: {OUT_OF_TIME}" for rule in ("a/r0", "b/r0")]
    again = validate(gate(policies, expired=deadline_after(0)), request(training_pod()))
    assert said(again.reports) == [f"{rule} error record: {OUT_OF_TIME}" for rule in ("a/r0", "b/r0")]


def test_a_field_that_cannot_be_written_is_an_error_of_its_rule() -> None:
    thing = training_pod(tolerations="x")
    policies = load(policy("a", TOLERATE, failurePolicy="Fail"), policy("b", CLASS))
    outcome = review(gate(policies), request(thing))
    assert said(outcome.reports) == [
        "a/r0 error deny: cannot be evaluated: spec.tolerations is a str, not a list",
        "b/r0 pass none",
    ]
    assert (outcome.object or {})["spec"]["tolerations"] == "x"


BUGS: dict[str, tuple[PolicySet, type[Exception]]] = {
    "validating": (with_rule(load(policy("p", CAP)), Breaks.model_construct()), KeyError),
    "mutating": (with_rule(load(policy("p", CLASS)), Corrupts.model_construct()), ZeroDivisionError),
    "mutating, audited": (
        with_rule(load(policy("p", CLASS, mode="audit")), Corrupts.model_construct()),
        ZeroDivisionError,
    ),
}


@pytest.mark.parametrize(("policies", "bug"), BUGS.values(), ids=BUGS)
def test_a_bug_is_never_an_answer(policies: PolicySet, bug: type[Exception]) -> None:
    with pytest.raises(bug):
        validate(gate(policies), request(pod()))


def test_a_bug_of_a_fact_is_never_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Unknown:
        raise RuntimeError

    monkeypatch.setattr(Facts, "priority_class", broken)
    with pytest.raises(RuntimeError):
        mutate(gate(load(policy("p", CLASS))), request(training_pod()))


def test_dry_run_is_answered_alike() -> None:
    policies = gate(load(policy("a", CLASS), policy("b", CAP)))
    real, dry = (review(policies, request(training_pod(), dry_run=each)) for each in (False, True))
    assert (real.patch, said(real.reports), real.decision_id) == (
        dry.patch,
        said(dry.reports),
        dry.decision_id,
    )


def test_the_namespace_is_the_request_s() -> None:
    thing = training_pod()
    thing["metadata"]["namespace"] = "kube-system"
    policies = load(policy("p", CAP, match={"namespaces": ["kube-system"]}))
    assert lines(policies, thing) == []


def test_a_review_is_both_calls() -> None:
    policies = load(policy("a", CLASS), policy("b", CAP), policy("c", TOLERATE, mode="warn"))
    thing = training_pod()
    kept = deepcopy(thing)
    both = review(gate(policies), request(thing))
    first = mutate(gate(policies), request(thing))
    second = validate(gate(policies), request(dict(first.object or {})))
    assert thing == kept
    assert (both.patch, both.changes, both.would_change) == (first.patch, first.changes, first.would_change)
    assert by_rule(both.reports)["b/r0"].findings == by_rule(second.reports)["b/r0"].findings
    assert not both.allowed


def test_a_pool_is_what_a_pod_can_still_reach() -> None:
    policies = load(
        pool("a"),
        pool("b"),
        policy("place", {"setNodeAffinity": {"pools": ["a"]}}, order=1),
        policy("cap", CAP, match={"pools": ["a"]}),
    )
    assert lines(policies, training_pod())[1:] == []
    assert said(review(gate(policies), request(training_pod())).reports) == [
        "place/r0 pass none",
        f"cap/r0 fail deny: {OVER}",
    ]
    elsewhere = training_pod(nodeSelector={"pool": "b"})
    assert [line.split(":")[0] for line in said(review(gate(policies), request(elsewhere)).reports)] == [
        "place/r0 skip none"
    ]


def test_no_rule_writes_through_a_view_of_another_object() -> None:
    policies = with_rule(load(policy("p", CLASS)), Writes.model_construct(path=("spec", "x"), value={"y": 1}))
    one, two = (mutate(gate(policies), request(container() | {"spec": None})) for _ in range(2))
    assert one.patch == two.patch
    assert {"op": "add", "path": "/spec", "value": {"x": {"y": 1}}} in one.patch


NAMED_PLACES: dict[str, tuple[Json, Json, Path]] = {
    "an item": (
        {"setNodeAffinity": {"tolerations": [GPU_TAINT]}},
        training_pod(),
        ("spec", "tolerations"),
    ),
    "an item of a container": (
        {"setFields": {"env": {"NCCL_DEBUG": "WARN"}}},
        training_pod(),
        ("spec", "containers", 0, "env"),
    ),
    "a field": ({"setFields": {"schedulerName": "volcano"}}, training_pod(), ("spec", "schedulerName")),
}


@pytest.mark.parametrize(("rule", "thing", "place"), NAMED_PLACES.values(), ids=NAMED_PLACES)
def test_what_was_not_appended_is_missed_in_its_list(rule: Json, thing: Json, place: Path) -> None:
    outcome = validate(gate(load(policy("p", rule))), request(thing))
    assert [finding.path for report in outcome.reports for finding in report.findings] == [place]
