"""expression: near misses first, then what is refused, with its exact words."""

import textwrap
from collections.abc import Mapping
from typing import Any

import pytest

from webhook.engine.outcome import Outcome
from webhook.engine.review import Gate, validate
from webhook.engine.texts import LONGEST_SENTENCE, say
from webhook.facts import Facts
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import ALWAYS, Draft
from webhook.kube.field_path import format_field
from webhook.policy import Loaded, load_policy_set
from webhook.rules.base import Finding, Result, Subject
from webhook.rules.expression import Expression

REGISTRY = 'object.spec.containers.all(c, c.image.startsWith("registry.local/"))'


def load(parameters: str, operations: str = "[CREATE, UPDATE]") -> Loaded:
    policy = f"""\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: p
spec:
  mode: enforce
  match:
    all: true
    operations: {operations}
  rules:
  - name: r
    expression:
{textwrap.indent(textwrap.dedent(parameters).strip(), "      ")}
"""
    return load_policy_set([("p.yaml", policy.encode())])


def rule_of(*validations: Mapping[str, str]) -> Expression:
    return Expression.model_validate({"validations": list(validations)})


def pod(*images: str, **spec: Any) -> dict[str, Any]:
    held = [
        {"name": f"c{index}", "image": image} for index, image in enumerate(images or ("registry.local/a",))
    ]
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": held, **spec}}


def subject_of(
    thing: Mapping[str, Any], facts: tuple[Mapping[str, Any], ...] = (), **request: Any
) -> Subject:
    asked = AdmissionRequest(
        **{"kind": "Pod", "resource": "pods", "namespace": "team", "object": thing, **request}
    )
    gate = Gate(load_policy_set([]).policy_set, Facts.from_objects(facts))
    return Subject(gate.receive(asked), Draft(thing))


def judge(rule: Expression, subject: Subject) -> list[Finding]:
    return list(rule.validate_subject(subject))


HOLDS = {
    "a field": REGISTRY,
    "a field that is absent": "!has(object.spec.nodeName)",
    "the workload": 'workload.class == "other" && workload.replicas == 1',
    "a count of nothing": 'acceleratorCount("nvidia.com/*") == 0',
    "the vendors": 'workload.vendor == ""',
    "the name of the namespace": 'namespaceObject.metadata.name == "team"',
    "the annotations of the namespace": 'namespaceObject.metadata.annotations["room"] == "4"',
    "the request": 'request.userInfo.username == "alice"',
    "the namespace": 'namespaceObject.metadata.labels["tier"] == "gold"',
}
TEAM = {
    "kind": "Namespace",
    "metadata": {"name": "team", "labels": {"tier": "gold"}, "annotations": {"room": "4"}},
}


@pytest.mark.parametrize("expression", HOLDS.values(), ids=HOLDS.keys())
def test_a_condition_that_holds_passes(expression: str) -> None:
    subject = subject_of(pod(), (TEAM,), raw={"userInfo": {"username": "alice"}})
    assert judge(rule_of({"expression": expression}), subject) == []


LONG = "use the team's registry " * 20
ABOUT = f"change the Pod so that this holds: {REGISTRY}"

REFUSED = {
    "without a message the condition is said": (
        {"expression": REGISTRY},
        "spec.containers",
        f"this must hold, but does not: {REGISTRY}",
        "change the Pod so that it holds, or ask the platform team what is meant",
    ),
    "a condition over several lines": (
        {"expression": "object.spec.containers.all(c,\n  c.image.startsWith('a'))\n"},
        "spec.containers",
        "this must hold, but does not: object.spec.containers.all(c, c.image.startsWith('a'))",
        "change the Pod so that it holds, or ask the platform team what is meant",
    ),
    "its message": (
        {"expression": REGISTRY, "message": "images come from {registry.local}"},
        "spec.containers",
        "images come from {registry.local}",
        ABOUT,
    ),
    "a message may be longer than a value": (
        {"expression": REGISTRY, "message": LONG},
        "spec.containers",
        LONG.strip(),
        ABOUT,
    ),
    "a message for the object": (
        {
            "expression": REGISTRY,
            "message": "not this one",
            "messageExpression": '"image " + string(object.spec.containers[0].image) + " is not ours"',
        },
        "spec.containers",
        "image docker.io/x\\u001b[31m is not ours",
        ABOUT,
    ),
    "a message for the object that fails gives way to the other": (
        {
            "expression": REGISTRY,
            "message": "images come from us",
            "messageExpression": "string(object.spec.containers[7].image)",
        },
        "spec.containers",
        "images come from us",
        ABOUT,
    ),
    "a message for the object that fails, and no other": (
        {"expression": REGISTRY, "messageExpression": "string(object.spec.containers[7].image)"},
        "spec.containers",
        f"this must hold, but does not: {REGISTRY}",
        "change the Pod so that it holds, or ask the platform team what is meant",
    ),
    "what is not there points to what should have it": (
        {"expression": "has(object.metadata.labels)", "message": "labels, please"},
        "metadata",
        "labels, please",
        "change the Pod so that this holds: has(object.metadata.labels)",
    ),
    "a condition that names no field": (
        {"expression": 'workload.class == "training"', "message": "training only"},
        "spec",
        "training only",
        'change the Pod so that this holds: workload.class == "training"',
    ),
    "the object as it was is no field": (
        {"expression": "oldObject == null && object.spec.hostPID", "message": "why"},
        "spec.hostPID",
        "why",
        "change the Pod so that this holds: oldObject == null && object.spec.hostPID",
    ),
}


@pytest.mark.parametrize(("validation", "field", "message", "remedy"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_and_why(validation: dict[str, str], field: str, message: str, remedy: str) -> None:
    thing = pod("docker.io/x\x1b[31m", hostPID=False)
    (finding,) = judge(rule_of(validation), subject_of(thing, old_object=None, raw={"oldObject": None}))
    compiled = load(f"validations:\n- expression: '{REGISTRY}'").policy_set.policies[0].rules[0]
    assert finding.result is Result.FAIL
    assert format_field(thing, finding.path) == field
    assert tuple(say(compiled, finding, "en")) == (message, remedy)
    assert say(compiled, finding, "zh").remediation != remedy


def test_a_message_has_an_end() -> None:
    (finding,) = judge(rule_of({"expression": "false", "message": "a" * 2000}), subject_of(pod()))
    compiled = load("validations:\n- expression: 'false'").policy_set.policies[0].rules[0]
    assert len(say(compiled, finding, "en").message) == LONGEST_SENTENCE


def test_every_condition_is_judged() -> None:
    rule = rule_of(
        {"expression": "false", "message": "one"},
        {"expression": "true"},
        {"expression": "object.spec.nowhere == 1"},
        {"expression": "false", "message": "two"},
    )
    found = judge(rule, subject_of(pod()))
    assert [(finding.result, finding.args.get("message")) for finding in found] == [
        (Result.FAIL, "one"),
        (Result.ERROR, None),
        (Result.FAIL, "two"),
    ]


UNDECIDED = {
    "a field that is not there": ("object.spec.nowhere == 1", 'there is no key "nowhere"'),
    "neither true nor false": ("object.spec.containers", "the value is list<dyn>, not true or false"),
}


@pytest.mark.parametrize(("expression", "why"), UNDECIDED.values(), ids=UNDECIDED.keys())
def test_a_condition_without_an_answer_is_an_error(expression: str, why: str) -> None:
    (finding,) = judge(rule_of({"expression": expression}), subject_of(pod()))
    compiled = load("validations:\n- expression: 'true'").policy_set.policies[0].rules[0]
    assert finding.result is Result.ERROR
    assert tuple(say(compiled, finding, "en")) == (
        f"the policy's condition has no answer for this object: {why}",
        f"tell the platform team: {expression} must be true or false for every object",
    )


def test_several_vendors_are_shown_in_their_order() -> None:
    held = [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1", "amd.com/gpu": "1"}}}]
    thing = {"kind": "Pod", "spec": {"containers": held}}
    assert judge(rule_of({"expression": 'workload.vendor == "amd,nvidia"'}), subject_of(thing)) == []


def test_one_condition_about_the_namespace_is_enough_to_ask_for_it() -> None:
    rule = rule_of({"expression": "has(object.spec)"}, {"expression": "has(namespaceObject.metadata)"})
    assert rule.kinds_asked == {"Namespace"}
    assert rule_of({"expression": "has(object.spec)"}).kinds_asked == frozenset()


def test_a_namespace_that_is_not_known_is_asked_for() -> None:
    (finding,) = judge(rule_of({"expression": "has(namespaceObject.metadata)"}), subject_of(pod()))
    assert (finding.result, finding.text, finding.needs) == (Result.ERROR, "unknown", "Namespace")


def test_conditions_see_what_earlier_rules_wrote() -> None:
    subject = subject_of(pod())
    rule = rule_of({"expression": 'object.spec.schedulerName == "volcano"'})
    before = subject.bindings
    assert [finding.result for finding in judge(rule, subject)] == [Result.ERROR]
    assert subject.bindings is before
    for name, expected in (("kai", [Result.FAIL]), ("volcano", [])):
        subject.draft.set(("spec", "schedulerName"), name, "p/r", ALWAYS)
        assert [finding.result for finding in judge(rule, subject)] == expected


JOB = {"kind": "Job", "metadata": {"name": "j"}, "spec": {"suspend": True}}


def review(loaded: Loaded, **request: Any) -> Outcome:
    assert loaded.problems == ()
    asked = AdmissionRequest(**{"kind": "Pod", "resource": "pods", "namespace": "team", **request})
    return validate(Gate(loaded.policy_set, Facts()), asked)


def test_a_rule_acts_on_the_resources_that_it_names() -> None:
    jobs = load(
        """
        resources: [jobs.batch, persistentvolumeclaims]
        validations:
        - expression: has(object.spec.suspend)
        """,
        "[CREATE]",
    )
    job = {"kind": "Job", "group": "batch", "resource": "jobs"}
    claim = {"kind": "PersistentVolumeClaim", "resource": "persistentvolumeclaims", "object": {"spec": {}}}
    assert review(jobs, object=pod()).reports == ()
    assert review(jobs, **{**job, "group": "batch.volcano.sh"}, object={"spec": {}}).reports == ()
    assert review(jobs, **job, object=JOB).allowed
    assert not review(jobs, **job, object={"spec": {"a": 1}}).allowed
    assert not review(jobs, **claim).allowed


def test_what_is_no_pod_is_no_workload() -> None:
    claims = load(
        """
        resources: [persistentvolumeclaims]
        validations:
        - expression: workload.class == "other" && workload.communication == "none" && workload.owner == ""
        - expression: workload.accelerators == 0 && workload.vendor == "" && workload.replicas == 1
        - expression: acceleratorCount("*/*") == 0
        """,
        "[CREATE]",
    )
    claim = {"kind": "PersistentVolumeClaim", "resource": "persistentvolumeclaims", "object": {"spec": {}}}
    assert [report.result for report in review(claims, **claim).reports] == [Result.PASS]


IMAGES = load(
    f"""
    validations:
    - expression: '{REGISTRY}'
    - expression: '!has(object.spec.ephemeralContainers) ||
        object.spec.ephemeralContainers.all(c, c.image.startsWith("registry.local/"))'
    """
)
DEBUGGER = {"name": "dbg", "image": "docker.io/anyone/cuda:latest", "targetContainerName": "c0"}
OWN_DEBUGGER = {"name": "own", "image": "registry.local/cuda"}

UPDATES = {
    "a good ephemeral container beside an old image": (
        pod("docker.io/old"),
        pod("docker.io/old", ephemeralContainers=[OWN_DEBUGGER]),
        [],
    ),
    "an image is mended": (pod("docker.io/old"), pod("registry.local/new"), []),
    "another field": (pod("docker.io/old"), pod("docker.io/old", activeDeadlineSeconds=60), []),
    "a bad ephemeral container": (pod(), pod(ephemeralContainers=[DEBUGGER]), ["spec.ephemeralContainers"]),
    "a bad ephemeral container beside an old image": (
        pod("docker.io/old"),
        pod("docker.io/old", ephemeralContainers=[DEBUGGER]),
        ["spec.ephemeralContainers"],
    ),
    "another bad one": (
        pod(ephemeralContainers=[DEBUGGER]),
        pod(ephemeralContainers=[DEBUGGER, {**DEBUGGER, "name": "again"}]),
        ["spec.ephemeralContainers"],
    ),
    "a bad image after another bad one": (pod("docker.io/a"), pod("docker.io/b"), ["spec.containers"]),
}


@pytest.mark.parametrize(("old", "new", "fields"), UPDATES.values(), ids=UPDATES.keys())
@pytest.mark.parametrize("subresource", ["", "ephemeralcontainers"])
def test_an_update_answers_for_the_values_that_it_changes(
    old: dict[str, Any], new: dict[str, Any], fields: list[str], subresource: str
) -> None:
    outcome = review(IMAGES, operation="UPDATE", subresource=subresource, object=new, old_object=old)
    found = [finding for report in outcome.reports for finding in report.findings]
    assert [format_field(new, finding.path) for finding in found] == fields
    assert outcome.allowed is not bool(fields)


def test_an_update_answers_for_accelerators_that_it_changes() -> None:
    limit = load("validations:\n- expression: workload.accelerators <= 4")
    old, new = (
        {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": count}}}]}}
        for count in ("6", "8")
    )
    assert not review(limit, operation="UPDATE", object=new, old_object=old).allowed


def test_an_update_does_not_answer_for_accelerators_that_it_leaves() -> None:
    limit = load("validations:\n- expression: acceleratorCount('nvidia.com/gpu') <= 4")
    held = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    old = {"kind": "Pod", "spec": {"containers": [held]}}
    new = {"kind": "Pod", "spec": {"containers": [held], "activeDeadlineSeconds": 1}}
    assert not review(limit, object=old).allowed
    assert review(limit, operation="UPDATE", object=new, old_object=old).allowed


WHERE = "spec.rules[0].expression"
LOAD_ERRORS = {
    "no conditions": ("resources: [pods]", 12, f"{WHERE}.validations is missing"),
    "an empty list": (
        "validations: []",
        13,
        f"{WHERE}.validations: expected at least one entry, found an empty list",
    ),
    "no expression": ("validations:\n- message: a", 14, f"{WHERE}.validations[0].expression is missing"),
    "an expression that does not compile": (
        "validations:\n- message: a\n  expression: objekt.spec.hostPID",
        15,
        (
            f'{WHERE}.validations[0]: expression: unknown variable "objekt" '
            '(at line 1, column 1 of the expression); did you mean "object"?'
        ),
    ),
    "a condition that is text": (
        "validations:\n- expression: string(object.kind)",
        14,
        (
            f"{WHERE}.validations[0]: expression: the expression is string; a condition must be true or false "
            "(at line 1, column 1 of the expression)"
        ),
    ),
    "a message that is no text": (
        "validations:\n- expression: 'true'\n  messageExpression: object.kind",
        15,
        (
            f"{WHERE}.validations[0]: messageExpression: the expression is dyn; a message must be a string "
            "(at line 1, column 1 of the expression); write string(…) around it"
        ),
    ),
    "a resource without its group": (
        "resources: [pods, jobs]\nvalidations:\n- expression: 'true'",
        13,
        f"{WHERE}.resources[1]: expected jobs.batch or jobs.batch.volcano.sh, found 'jobs'",
    ),
    "a kind": (
        "resources: [Pod]\nvalidations:\n- expression: 'true'",
        13,
        (
            f"{WHERE}.resources[0]: expected a resource as kubectl api-resources writes it, such as pods or "
            "jobs.batch, found 'Pod'"
        ),
    ),
    "a subresource": (
        "resources: [pods/resize]\nvalidations:\n- expression: 'true'",
        13,
        (
            f"{WHERE}.resources[0]: expected a resource without a subresource; those of pods come with operations: "
            "[UPDATE], found 'pods/resize'"
        ),
    ),
    "claims at an update": (
        "resources: [persistentvolumeclaims]\nvalidations:\n- expression: 'true'",
        11,
        "rule r (expression) judges claims, and the policy's match names UPDATE",
    ),
}


@pytest.mark.parametrize(("parameters", "line", "message"), LOAD_ERRORS.values(), ids=LOAD_ERRORS.keys())
def test_what_is_refused_at_load(parameters: str, line: int, message: str) -> None:
    (problem,) = load(parameters).problems
    assert problem.position is not None
    assert (problem.position.line, problem.message) == (line, message)


def test_a_pattern_that_could_take_long_is_linear() -> None:
    slow = rule_of(
        {"expression": 'object.spec.containers.all(c, c.image.matches("^registry\\\\.local/(a+)+$"))'}
    )
    assert [f.result for f in judge(slow, subject_of(pod("registry.local/" + "a" * 5000 + "!")))] == [
        Result.FAIL
    ]


def test_the_type_is_of_pods_unless_it_says_otherwise() -> None:
    assert rule_of({"expression": "true"}).targets == ("pods",)
