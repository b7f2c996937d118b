"""An object in which rules would write too much: a rule writes all that it wants or nothing, and then it is an error."""

from typing import Any

import pytest

from tests.engine.gates import Json, by_rule, container, gate, load, pod, policy, request, said
from webhook.engine import mutate, validate
from webhook.engine.annotations import CHANGES
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import MOST_FIELDS, Draft, TooManyFieldsError

ENV: Json = {"setFields": {"env": {"A": "1"}}}
SCHEDULER: Json = {"setFields": {"schedulerName": "volcano"}}
TOO_MUCH = f"not applied: policies would write more than {MOST_FIELDS} fields of this object"


def of_containers(count: int, **others: Any) -> Json:
    return pod(*(container(f"c{number}") for number in range(count)), **others)


def deployment(containers: int) -> Json:
    spec = {"containers": [container(f"c{number}") for number in range(containers)]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x", "namespace": "training"},
        "spec": {"template": {"spec": spec}},
    }


@pytest.mark.parametrize("count", [MOST_FIELDS - 1, MOST_FIELDS], ids=["one less", "just as many"])
def test_as_many_fields_as_may_be_are_written(count: int) -> None:
    outcome = mutate(gate(load(policy("env", ENV))), request(of_containers(count)))
    assert len(outcome.changes) == count
    assert said(outcome.reports) == ["env/r0 pass none"]


def test_one_more_and_the_rule_writes_nothing_while_the_others_do() -> None:
    policy_set = load(policy("a-env", ENV), policy("b-scheduler", SCHEDULER))
    outcome = mutate(gate(policy_set), request(of_containers(MOST_FIELDS + 1)))
    assert [change.field for change in outcome.changes] == ["spec.schedulerName"]
    assert said(outcome.reports) == [f"a-env/r0 error record: {TOO_MUCH}", "b-scheduler/r0 pass none"]
    assert {operation["path"].split("/")[1] for operation in outcome.patch} == {"metadata", "spec"}
    assert not any("env" in operation["path"] for operation in outcome.patch)


def test_what_was_written_before_stays() -> None:
    policy_set = load(policy("a-scheduler", SCHEDULER), policy("b-env", ENV))
    outcome = mutate(gate(policy_set), request(of_containers(MOST_FIELDS)))
    assert [change.field for change in outcome.changes] == ["spec.schedulerName"]


@pytest.mark.parametrize(
    ("failure_policy", "allowed", "line"),
    [("Fail", False, "env/r0 error deny"), ("Ignore", True, "env/r0 error record")],
)
def test_the_failure_policy_decides(failure_policy: str, allowed: bool, line: str) -> None:
    gated = gate(load(policy("env", ENV, failurePolicy=failure_policy)))
    outcome = validate(gated, request(of_containers(MOST_FIELDS + 1)))
    assert outcome.allowed is allowed
    assert said(outcome.reports) == [f"{line}: {TOO_MUCH}"]


def test_a_mutation_in_audit_mode_is_bounded_in_its_own_lane() -> None:
    policy_set = load(policy("a-env", ENV, mode="audit"), policy("b-scheduler", SCHEDULER))
    outcome = mutate(gate(policy_set), request(of_containers(MOST_FIELDS + 1)))
    assert outcome.would_change == ()
    assert by_rule(outcome.reports)["a-env/r0"].result == "error"
    assert [change.field for change in outcome.changes] == ["spec.schedulerName"]


@pytest.mark.parametrize(("count", "written"), [(MOST_FIELDS, True), (MOST_FIELDS + 1, False)])
def test_a_template_is_written_whole_or_not_at_all(count: int, written: bool) -> None:
    policy_set = load(policy("env", ENV, templates={"mutate": ["deployments.apps"]}))
    asked = request(deployment(count), group="apps", kind="Deployment", resource="deployments")
    outcome = mutate(gate(policy_set), asked)
    assert bool(outcome.patch) is written
    assert outcome.object == asked.object or written


TWO = load(
    policy(
        "env",
        {"setFields": {"env": {"A": "1", "B": "2"}}},
        templates={"mutate": ["pytorchjobs.kubeflow.org"]},
    )
)


def together(**metadata: Any) -> Json:
    """A job whose templates are too much together, each for itself is not."""
    spec = {"containers": [container(f"c{number}") for number in range(MOST_FIELDS // 4 + 1)]}
    roles = {name: {"template": {"spec": spec}} for name in ("Master", "Worker")}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "x", "namespace": "training"} | metadata,
        "spec": {"pytorchReplicaSpecs": roles},
    }


def asked_for(job: Json) -> AdmissionRequest:
    return request(job, group="kubeflow.org", kind="PyTorchJob", resource="pytorchjobs")


def test_templates_that_are_too_much_together_are_left_alone_and_said() -> None:
    outcome = mutate(gate(TWO), asked_for(together()))
    assert outcome.patch == []
    assert said(outcome.reports) == [f"env/r0 error record: {TOO_MUCH}"]


def test_a_forgery_is_removed_also_where_templates_are_left_alone() -> None:
    managed: list[Json] = [{"fieldsV1": {"f:metadata": {"f:annotations": {f"f:{CHANGES}": {}}}}}]
    job = together(annotations={CHANGES: "[]", "own": "x"}, managedFields=managed)
    outcome = mutate(gate(TWO), asked_for(job))
    assert said(outcome.reports) == [f"env/r0 error record: {TOO_MUCH}"]
    assert (outcome.object or {})["metadata"]["annotations"] == {"own": "x"}


def test_an_undone_draft_is_as_it_was() -> None:
    original: Json = {
        "spec": {"tolerations": None, "containers": [{"name": "a"}], "x": 1},
        "metadata": {"a": {}},
    }
    draft = Draft(original)
    draft.set(("spec", "schedulerName"), "volcano", "p/first")
    before, patch = draft.changes(), draft.patch()
    draft.begin()
    draft.set(("spec", "securityContext", "fsGroup"), 7, "p/r")
    draft.set(("spec", "schedulerName"), "other", "p/first")
    draft.append(("spec", "tolerations"), {"key": "k"}, "p/r", lambda _: False, "k")
    draft.append(("spec", "containers", 0, "env"), {"name": "A"}, "p/r", lambda _: False, "A")
    draft.remove(("spec", "x"), "p/r")
    assert draft.claim(("zone",), "p/r")
    draft.undo()
    assert (draft.changes(), draft.patch()) == (before, patch)
    assert draft.object == original | {"spec": original["spec"] | {"schedulerName": "volcano"}}
    assert draft.claim(("zone",), "p/another")
    assert draft.append(("spec", "tolerations"), {"key": "k"}, "p/another", lambda _: False, "k").holds


def test_the_engine_itself_may_always_write() -> None:
    draft = Draft({})
    for number in range(MOST_FIELDS):
        draft.set(("spec", f"f{number}"), 1, "p/r")
    draft.set(("metadata", "note"), "x", "")
    with pytest.raises(TooManyFieldsError):
        draft.set(("spec", "one more"), 1, "p/r")
