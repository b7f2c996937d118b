from copy import deepcopy
from typing import Any

import jsonpatch
import pytest

from tests.engine.gates import GPU, Json, container, gate, load, policy, request, said, training_pod
from webhook.engine import Outcome, mutate, validate
from webhook.engine.annotations import CHANGES, NAMES
from webhook.kube.admission_request import AdmissionRequest

CAP = {"limitAcceleratorCount": {"perPod": {"max": 4}}}
TOLERATE = {"setNodeAffinity": {"tolerations": [{"key": GPU, "operator": "Exists"}]}}
CLASS = {"setPriorityClass": {"class": "ai-train-high"}}
WRITES: Json = {"templates": {"mutate": ["jobs.batch"]}}
TRAINING = {"podgate.dev/workload": "training"}
OVER = f"8 {GPU} asked, at most 4 per pod"


def job(gpus: int = 8, annotations: Json | None = None, **spec: Any) -> Json:
    pod_spec = {"containers": [container(gpus=gpus)], "restartPolicy": "Never"} | spec
    metadata: Json = {"name": "j", "namespace": "training"} | (
        {"annotations": annotations} if annotations else {}
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": {"metadata": {"labels": TRAINING}, "spec": pod_spec}},
    }


def asked(thing: Json, operation: str = "CREATE", old: Json | None = None, **others: Any) -> AdmissionRequest:
    fields = {"kind": "Job", "group": "batch", "resource": "jobs", "old_object": old}
    return request(thing, operation, **(fields | others))


def after(thing: Json, outcome: Outcome) -> Json:
    result: Json = jsonpatch.apply_patch(deepcopy(thing), outcome.patch)
    assert result == outcome.object
    return result


CHECKS: dict[str, tuple[Json, list[str]]] = {
    "as the policy's mode": ({}, [f"p/r0 fail deny: {OVER}"]),
    "as the policy's mode, warned": ({"mode": "warn"}, [f"p/r0 fail warn: {OVER}"]),
    "warn": ({"templates": {"check": "warn"}}, [f"p/r0 fail warn: {OVER}"]),
    "warn in a policy that audits": (
        {"templates": {"check": "warn"}, "mode": "audit"},
        [f"p/r0 fail record: {OVER}"],
    ),
    "disabled": ({"templates": {"check": "disabled"}}, [f"p/r0 fail none: {OVER}"]),
}


@pytest.mark.parametrize(("spec", "lines"), CHECKS.values(), ids=CHECKS)
def test_the_author_of_a_template_is_told(spec: Json, lines: list[str]) -> None:
    outcome = validate(gate(load(policy("p", CAP, **spec))), asked(job()))
    assert said(outcome.reports) == lines
    ((finding,),) = (report.findings for report in outcome.reports)
    assert finding.path == ("spec", "template", "spec", "containers", 0, "resources", "limits", GPU)


def labelled(thing: Json) -> Json:
    """The job with another label on its template."""
    thing["spec"]["template"]["metadata"]["labels"] = TRAINING | {"team": "b"}
    return thing


UPDATES: dict[str, tuple[Json, Json, bool]] = {
    "nothing changed": (job(), job(), False),
    "a label of the template": (job(), labelled(job()), True),
    "something beside the template": (job(), job() | {"metadata": {"labels": {"a": "b"}}}, False),
    "another field of the template": (job(), job(activeDeadlineSeconds=5), True),
    "raised": (job(2), job(), True),
}


@pytest.mark.parametrize(("old", "new", "told"), UPDATES.values(), ids=UPDATES)
def test_on_update_only_where_the_template_changed(old: Json, new: Json, told: bool) -> None:
    outcome = validate(gate(load(policy("p", CAP))), asked(new, "UPDATE", old))
    assert outcome.allowed is not told


def test_a_template_is_written_only_where_a_policy_names_its_kind() -> None:
    rules = load(policy("named", CLASS, **WRITES), policy("not-named", TOLERATE))
    thing = job()
    outcome = mutate(gate(rules), asked(thing))
    spec = after(thing, outcome)["spec"]["template"]["spec"]
    assert spec == thing["spec"]["template"]["spec"] | {"priorityClassName": "ai-train-high"}
    assert {change.rule for change in outcome.changes} == {"named/r0"}
    assert mutate(gate(rules), asked(after(thing, outcome))).patch == []


def test_on_update_only_what_was_stored_comes_back_and_no_record_grows() -> None:
    rules = gate(load(policy("p", CLASS, TOLERATE, **WRITES)))
    stored = after(job(), mutate(rules, asked(job())))
    assert set(stored["metadata"]["annotations"]) == set(NAMES)
    applied = job(
        annotations=stored["metadata"]["annotations"]
    )  # kubectl keeps annotations that it did not write
    outcome = mutate(rules, asked(applied, "UPDATE", stored))
    assert after(applied, outcome) == stored
    assert outcome.object is not None
    assert outcome.object["metadata"]["annotations"][CHANGES] == stored["metadata"]["annotations"][CHANGES]
    assert mutate(rules, asked(job(), "UPDATE", job())).patch == []


AUDITED = gate(load(policy("p", TOLERATE, mode="audit", **WRITES)))
OWN = {"key": "team", "operator": "Exists"}


def stored_job(**spec: Any) -> Json:
    """A Job as it is stored under a policy that was enforced then."""
    found = after(job(**spec), mutate(gate(load(policy("p", TOLERATE, **WRITES))), asked(job(**spec))))
    assert {"key": GPU, "operator": "Exists"} in found["spec"]["template"]["spec"]["tolerations"]
    return found


@pytest.mark.parametrize("own", [{}, {"tolerations": [OWN]}], ids=["nothing of its own", "a toleration"])
def test_a_job_that_is_applied_again_gets_what_a_policy_of_an_earlier_time_appended(own: Json) -> None:
    stored = stored_job(**own)
    applied = job(annotations=stored["metadata"]["annotations"], **own)
    assert after(applied, mutate(AUDITED, asked(applied, "UPDATE", stored))) == stored


def test_a_job_that_differs_in_more_or_is_suspended_gets_nothing() -> None:
    stored = stored_job()
    other = job(gpus=4, annotations=stored["metadata"]["annotations"])
    assert mutate(AUDITED, asked(other, "UPDATE", stored)).patch == []
    suspended = job(annotations=stored["metadata"]["annotations"])
    suspended["spec"]["suspend"] = True
    assert mutate(AUDITED, asked(suspended, "UPDATE", stored)).patch == []


def test_another_kind_may_drop_what_a_policy_of_an_earlier_time_appended() -> None:
    stored = stored_job()
    applied = job(annotations=stored["metadata"]["annotations"])
    deployment = {"kind": "Deployment", "group": "apps", "resource": "deployments"}
    assert mutate(AUDITED, asked(applied, "UPDATE", stored, **deployment)).patch == []


def test_a_daemon_set_s_template_is_exempt_and_a_scale_is_no_template() -> None:
    rules = gate(load(policy("p", CAP)))
    daemon_set = job() | {"kind": "DaemonSet"}
    fields: Json = {"kind": "DaemonSet", "group": "apps", "resource": "daemonsets"}
    assert validate(rules, asked(daemon_set, **fields)).allowed
    scale = asked(
        job(), "UPDATE", job(2), kind="Scale", group="apps", resource="deployments", subresource="scale"
    )
    assert (mutate(rules, scale).patch, validate(rules, scale).reports) == ([], ())


def test_a_template_ends_as_its_pods_would() -> None:
    rules = gate(load(policy("p", CLASS, CAP)))
    outcome = validate(rules, asked(job()))
    assert [change.path[-1] for change in outcome.later] == [
        "priorityClassName",
        "priority",
        "preemptionPolicy",
    ]
    assert said(outcome.reports) == ["p/r0 pass none", f"p/r1 fail deny: {OVER}"]
    assert not validate(rules, request(training_pod())).allowed


def test_expressions_see_how_many_such_pods_there_will_be() -> None:
    few = {"expression": {"validations": [{"expression": "workload.replicas <= 4", "message": "too many"}]}}
    rules = gate(load(policy("p", few)))
    wide = job()
    wide["spec"]["parallelism"] = 5
    assert validate(rules, asked(job())).allowed
    assert said(validate(rules, asked(wide)).reports) == ["p/r0 fail deny: too many"]
    assert validate(rules, request(training_pod())).allowed


@pytest.mark.parametrize(("operation", "old"), [("CREATE", None), ("UPDATE", job(2))], ids=["new", "changed"])
def test_expressions_see_the_pod_that_will_be_made(operation: str, old: Json | None) -> None:
    made = "object.apiVersion == 'v1' && object.kind == 'Pod' && object.metadata.namespace == 'training'"
    rule = {"expression": {"validations": [{"expression": f"!({made})", "message": "as it will be"}]}}
    outcome = validate(gate(load(policy("p", rule))), asked(job(), operation, old))
    assert said(outcome.reports) == ["p/r0 fail deny: as it will be"]


def test_a_pod_that_will_be_made_has_no_stored_object() -> None:
    rule = {"expression": {"validations": [{"expression": "oldObject.kind == 'Job'"}]}}
    outcome = validate(gate(load(policy("p", rule))), asked(job(), "UPDATE", job(2)))
    (line,) = said(outcome.reports)
    assert line.startswith("p/r0 error record: ")
    assert line.endswith("the request has no oldObject")


def test_nobody_has_filled_in_the_numbers_of_a_pod_that_will_be_made() -> None:
    outcome = validate(gate(load(policy("p", CLASS))), asked(job(priorityClassName="ai-inference")))
    assert said(outcome.reports) == ["p/r0 skip none: the pod keeps its own priority class ai-inference"]


def stateful_set(*claims: Json) -> Json:
    pod_spec = {"containers": [container()]}
    spec = {"template": {"spec": pod_spec}, "volumeClaimTemplates": list(claims)}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": spec}


def test_expressions_see_the_claim_that_will_be_made() -> None:
    made = "object.apiVersion == 'v1' && object.kind == 'PersistentVolumeClaim'"
    here = "object.metadata.namespace == 'training'"
    match = {"matchConditions": [{"name": "made", "expression": f"{made} && {here}"}]}
    rules = gate(load(policy("p", {"setStorageClass": {"default": "ceph-block"}}, match=match)))
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    fields: Json = {"kind": "StatefulSet", "group": "apps", "resource": "statefulsets"}
    outcome = validate(rules, asked(stateful_set(claim), **fields))
    assert [(change.field, change.after) for change in outcome.later] == [
        ("spec.volumeClaimTemplates[0].spec.storageClassName", "ceph-block")
    ]
