"""setFields: what somebody chose first, then what is set, and what a policy may not set."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.applying import applied
from tests.rules.reviewing import (
    GPU,
    Json,
    container,
    gate_of,
    judged,
    load_problems,
    places,
    pod,
    policy,
    report,
    said,
    without_record,
)
from webhook.engine import Gate
from webhook.kube.field_path import value_at
from webhook.policy import load_policy_set
from webhook.rules.base import Result
from webhook.rules.set_fields import SetFields


def gate(of_namespace: Json | None = None, /, **parameters: Any) -> Gate:
    """A gate that knows the pod's namespace, by its labels."""
    namespace = {"kind": "Namespace", "metadata": {"name": "team-a", "labels": of_namespace or {}}}
    return gate_of(policy({"setFields": parameters}), facts=[namespace])


def final(gate: Gate, thing: Json) -> Json:
    found: Json = without_record(applied(gate, thing).object)
    return found


VOLCANO: Json = {"schedulerName": "volcano"}
RUNTIME: Json = {"runtimeClassName": "nvidia"}
TEAM: Json = {"labels": {"team": "vision"}}
NOTE: Json = {"annotations": {"example.com/note": "by policy"}}
ENV: Json = {"env": {"NCCL_DEBUG": "WARN"}}
OWNED = {
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True}]
}


def labelled(**fields: Any) -> Json:
    return pod(metadata={"labels": {"team": "audio"}, **fields})


LEFT: dict[str, tuple[Json, Json, list[str]]] = {
    "a scheduler": (VOLCANO, pod(schedulerName="kai-scheduler"), ["kept @ spec.schedulerName"]),
    "the default scheduler, for never": (
        VOLCANO | {"replace": "never"},
        pod(schedulerName="default-scheduler"),
        ["kept @ spec.schedulerName"],
    ),
    "a scheduler that the list does not name": (
        VOLCANO | {"replace": ["yunikorn"]},
        pod(schedulerName="kai-scheduler"),
        ["kept @ spec.schedulerName"],
    ),
    "a runtime class": (RUNTIME, pod(runtimeClassName="kata"), ["kept @ spec.runtimeClassName"]),
    "a label": (TEAM, labelled(), ["kept @ metadata.labels.team"]),
    "an empty label, which is a value": (
        TEAM,
        pod(metadata={"labels": {"team": ""}}),
        ["kept @ metadata.labels.team"],
    ),
    "an annotation": (
        NOTE,
        pod(metadata={"annotations": {"example.com/note": "mine"}}),
        ['kept @ metadata.annotations["example.com/note"]'],
    ),
    "a label of a controller's pod, for always": (
        TEAM | {"replace": "always"},
        labelled(**OWNED),
        ["selected @ metadata.labels.team"],
    ),
    "a label of a controller's pod, for a list": (
        TEAM | {"replace": ["audio"]},
        labelled(**OWNED),
        ["selected @ metadata.labels.team"],
    ),
    "a runtime class with its overhead, for always": (
        RUNTIME | {"replace": "always"},
        pod(runtimeClassName="kata", overhead={"cpu": "250m"}),
        ["overhead @ spec.runtimeClassName"],
    ),
    "a variable": (
        ENV,
        pod(container(resources={GPU: "1"}, env=[{"name": "NCCL_DEBUG", "value": "INFO"}])),
        [],
    ),
    "a variable from elsewhere": (
        ENV,
        pod(
            container(env=[{"name": "NCCL_DEBUG", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}])
        ),
        [],
    ),
    "no container that holds an accelerator": (
        ENV | {"containers": "accelerator"},
        pod(container(resources={GPU: "0"})),
        ["no container @ spec.containers"],
    ),
    "no container without an accelerator": (
        ENV | {"containers": "other"},
        pod(),
        ["no container @ spec.containers"],
    ),
    "all as it is wanted": (VOLCANO | RUNTIME, pod(schedulerName="volcano", runtimeClassName="nvidia"), []),
}


@pytest.mark.parametrize(("parameters", "thing", "findings"), LEFT.values(), ids=LEFT.keys())
def test_what_is_left_alone(parameters: Json, thing: Json, findings: list[str]) -> None:
    outcome = applied(gate(**parameters), thing)
    assert outcome.patch == []
    assert places(outcome) == findings
    assert report(outcome).result is (Result.SKIP if findings else Result.PASS)


SET: dict[str, tuple[Json, Json, tuple[str, ...], Any]] = {
    "no scheduler": (VOLCANO, pod(), ("spec", "schedulerName"), "volcano"),
    "a null scheduler": (VOLCANO, pod(schedulerName=None), ("spec", "schedulerName"), "volcano"),
    "the API server's own scheduler is no choice": (
        VOLCANO,
        pod(schedulerName="default-scheduler"),
        ("spec", "schedulerName"),
        "volcano",
    ),
    "a scheduler that the list names": (
        VOLCANO | {"replace": ["kai-scheduler"]},
        pod(schedulerName="kai-scheduler"),
        ("spec", "schedulerName"),
        "volcano",
    ),
    "any scheduler": (
        VOLCANO | {"replace": "always"},
        pod(schedulerName="kai-scheduler"),
        ("spec", "schedulerName"),
        "volcano",
    ),
    "a runtime class": (RUNTIME, pod(), ("spec", "runtimeClassName"), "nvidia"),
    "a runtime class without overhead, for always": (
        RUNTIME | {"replace": "always"},
        pod(runtimeClassName="runc", overhead={}),
        ("spec", "runtimeClassName"),
        "nvidia",
    ),
    "the first label": (TEAM, pod(), ("metadata", "labels"), {"team": "vision"}),
    "null labels": (TEAM, pod(metadata={"labels": None}), ("metadata", "labels"), {"team": "vision"}),
    "a label beside others": (
        TEAM,
        pod(metadata={"labels": {"app": "x"}}),
        ("metadata", "labels"),
        {"app": "x", "team": "vision"},
    ),
    "a label of a bare pod, for always": (
        TEAM | {"replace": "always"},
        labelled(),
        ("metadata", "labels"),
        {"team": "vision"},
    ),
    "a label that a controller's pod lacks": (
        TEAM | {"replace": "always"},
        pod(metadata=OWNED),
        ("metadata", "labels"),
        {"team": "vision"},
    ),
    "an annotation": (NOTE, pod(), ("metadata", "annotations"), NOTE["annotations"]),
}


@pytest.mark.parametrize(("parameters", "thing", "path", "value"), SET.values(), ids=SET.keys())
def test_what_is_set(parameters: Json, thing: Json, path: tuple[str, ...], value: Any) -> None:
    assert value_at(final(gate(**parameters), thing), path) == value


ENTRY = {"name": "NCCL_DEBUG", "value": "WARN"}


@pytest.mark.parametrize(
    ("chosen", "who"),
    [("all", ["init", "log", "train"]), ("accelerator", ["train"]), ("other", ["init", "log"])],
)
def test_variables_go_to_the_containers_that_are_chosen(chosen: str, who: list[str]) -> None:
    ephemeral = [{"name": "debug"}]
    thing = pod(
        container("log"),
        container("train", {GPU: "1"}),
        initContainers=[container("init")],
        ephemeralContainers=ephemeral,
    )
    spec = final(gate(**ENV, containers=chosen), thing)["spec"]
    every = [*spec["initContainers"], *spec["containers"], *spec["ephemeralContainers"]]
    assert [each["name"] for each in every if each.get("env") == [ENTRY]] == who
    assert [each["name"] for each in every if "env" in each] == who


@pytest.mark.parametrize("empty", [{}, {"env": None}, {"env": []}], ids=["absent", "null", "empty"])
def test_absent_null_and_empty_environments_end_alike(empty: Json) -> None:
    assert final(gate(**ENV), pod(container(**empty)))["spec"]["containers"][0]["env"] == [ENTRY]


def test_a_variable_is_set_where_it_is_unset_only() -> None:
    own = {"name": "NCCL_DEBUG", "value": "INFO"}
    spec = final(
        gate(**ENV), pod(container("a", env=[own]), container("b", env=[{"name": "NCCL_DEBUG_FILE"}]))
    )
    environments = [each["env"] for each in spec["spec"]["containers"]]
    assert environments == [[own], [{"name": "NCCL_DEBUG_FILE"}, ENTRY]]


LABEL = "finance.example.com/cost-center"
CENTER: Json = {"fromNamespaceLabel": LABEL}

FROM_NAMESPACE: dict[str, tuple[Json, Json, str | None]] = {
    "the label": ({LABEL: "7"}, CENTER, "7"),
    "the label before the default": ({LABEL: "7"}, CENTER | {"default": "none"}, "7"),
    "no label, a default": ({"other": "7"}, CENTER | {"default": "none"}, "none"),
    "an empty label, a default": ({LABEL: ""}, CENTER | {"default": "none"}, "none"),
    "no label, no default": ({}, CENTER, None),
    "an empty label, no default": ({LABEL: ""}, CENTER, None),
    "no label, an empty default": ({}, CENTER | {"default": ""}, ""),
}


@pytest.mark.parametrize(("labels", "source", "value"), FROM_NAMESPACE.values(), ids=FROM_NAMESPACE.keys())
def test_a_value_from_the_namespace(labels: Json, source: Json, value: str | None) -> None:
    given = gate(labels, labels={"cost-center": source}, env={"CENTER": source})
    outcome = applied(given, pod())
    thing = without_record(outcome.object)
    if value is None:
        assert outcome.patch == []
        places_of_both = ['metadata.labels["cost-center"]', 'spec.containers["main"].env']
        assert places(outcome) == [f"no label @ {place}" for place in places_of_both]
    else:
        assert thing["metadata"]["labels"] == {"cost-center": value}
        assert thing["spec"]["containers"][0]["env"] == [{"name": "CENTER", "value": value}]


def test_a_namespace_that_is_not_known_is_an_error_even_with_a_default() -> None:
    unknown = gate_of(policy({"setFields": {"labels": {"cost-center": CENTER | {"default": "none"}}}}))
    outcome = applied(unknown, pod())
    assert outcome.patch == []
    assert places(outcome) == ['unknown @ metadata.labels["cost-center"]']
    assert report(outcome).result is Result.ERROR


def test_a_namespace_label_that_is_no_name_of_a_runtime_class() -> None:
    outcome = applied(gate({"class": "Kata_2"}, runtimeClassName={"fromNamespaceLabel": "class"}), pod())
    assert (outcome.patch, places(outcome)) == ([], ["no name @ spec.runtimeClassName"])


def test_the_first_of_two_rules_holds_in_every_pass() -> None:
    rules = [{"setFields": {"schedulerName": name, "env": {"A": name}}} for name in ("volcano", "kai")]
    outcome = applied(gate_of(policy(*rules)), pod(schedulerName="default-scheduler"))
    again = applied(gate_of(policy(*rules)), outcome.object or {})
    spec = without_record(outcome.object)["spec"]
    assert (spec["schedulerName"], spec["containers"][0]["env"]) == (
        "volcano",
        [{"name": "A", "value": "volcano"}],
    )
    assert places(outcome) == places(again) == ["kept @ spec.schedulerName"]


def test_values_of_the_environment_appear_nowhere() -> None:
    thing = pod(container(env=[{"name": "TOKEN", "value": "theirs"}]))
    outcome = applied(gate(env={"TOKEN": "ours", "NEW": "s3cret"}, containers="all"), thing)
    record = (outcome.object or {})["metadata"]["annotations"]
    for text in (*said(outcome), *record.values()):
        assert not any(secret in text for secret in ("theirs", "ours", "s3cret"))


ENVIRONMENTS = st.sampled_from([None, [], [{"name": "NCCL_DEBUG", "value": "INFO"}], [{"name": "OTHER"}]])
PARTS = st.lists(st.tuples(st.sampled_from([{}, {GPU: "1"}]), ENVIRONMENTS), min_size=1, max_size=3)
EVERYTHING = gate(
    {"cost": "7"},
    **VOLCANO,
    **RUNTIME,
    **NOTE,
    **ENV,
    labels={"team": "vision", "cost": {"fromNamespaceLabel": "cost"}},
    containers="accelerator",
)


def parts_of(parts: list[tuple[Json, Any]], prefix: str) -> list[Json]:
    return [container(f"{prefix}{index}", resources, env=env) for index, (resources, env) in enumerate(parts)]


@given(
    first=PARTS,
    added=PARTS,
    scheduler=st.sampled_from([None, "default-scheduler", "volcano", "kai"]),
    labels=st.sampled_from([None, {}, {"team": "audio"}, {"cost": "8"}]),
)
def test_containers_that_another_webhook_adds_end_as_in_one_pass(
    first: list[tuple[Json, Any]], added: list[tuple[Json, Any]], scheduler: Any, labels: Any
) -> None:
    before, later = parts_of(first, "a"), parts_of(added, "b")
    received = pod(*before, metadata={"labels": labels}, schedulerName=scheduler)
    once = final(EVERYTHING, received)
    once["spec"]["containers"] = [*later, *once["spec"]["containers"]]
    received["spec"]["containers"] = [*later, *before]
    assert final(EVERYTHING, once) == final(EVERYTHING, received)


def test_what_was_set_is_applied_when_validated() -> None:
    assert report(judged(EVERYTHING, applied(EVERYTHING, pod()).object or {})).result is Result.PASS


TEXTS: dict[str, tuple[Json, Json, str]] = {
    "kept": (
        VOLCANO,
        LEFT["a scheduler"][1],
        "skip: the field is set already and stays -> nothing: what somebody chose is respected",
    ),
    "selected": (
        TEAM | {"replace": "always"},
        labelled(**OWNED),
        (
            "skip: the label stays, since the pod's ReplicaSet may find its pods by it -> "
            "nothing, or change the label in the ReplicaSet"
        ),
    ),
    "overhead": (
        RUNTIME | {"replace": "always"},
        LEFT["a runtime class with its overhead, for always"][1],
        (
            "skip: the runtime class stays: the pod has the overhead of kata, which no other class accepts -> "
            "name the runtime class in the manifest"
        ),
    ),
    "no label": (
        {"labels": {"cost-center": CENTER}},
        pod(),
        (
            f"skip: namespace team-a has no label {LABEL} to take the value from -> "
            "add the label to the namespace, or a default to the policy"
        ),
    ),
    "no name": (
        {"runtimeClassName": {"fromNamespaceLabel": "upper"}},
        pod(),
        (
            "skip: the value of label upper of namespace team-a cannot be the name of a RuntimeClass -> "
            "correct the label of the namespace"
        ),
    ),
    "no container": (
        ENV | {"containers": "accelerator"},
        pod(container()),
        (
            "skip: the pod has no container that the environment variables are for -> "
            "nothing: the policy chooses containers by the accelerators in them"
        ),
    ),
}


@pytest.mark.parametrize(("parameters", "thing", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_what_it_says(parameters: Json, thing: Json, text: str) -> None:
    outcome = applied(gate({"upper": "A"}, **parameters), thing)
    assert said(outcome) == [text]
    assert said(outcome, "zh") != [text]


WHERE = "spec.rules[0].setFields"
CLASSIFIES = "decides what kind of workload a pod is, so that a second pass would see another pod"
KEY = "expected a label key such as app or kubesphere.io/workspace, found"
REFUSED: dict[str, tuple[Json, str]] = {
    "nothing": (
        {},
        f"{WHERE}: give at least one of schedulerName, runtimeClassName, labels, annotations and env",
    ),
    "nothing but containers": (
        {"containers": "other"},
        f"{WHERE}: give at least one of schedulerName, runtimeClassName, labels, annotations and env",
    ),
    "containers without env": (
        VOLCANO | {"containers": "other"},
        f"{WHERE}: containers says where env goes; give env, or remove containers",
    ),
    "replace for env": (ENV | {"replace": "always"}, f"{WHERE}: env is never replaced; remove replace"),
    "our own label": (
        {"labels": {"podgate.dev/workload": "training"}},
        f"{WHERE}.labels: podgate.dev/workload is podgate's own; choose a key with another prefix",
    ),
    "our own annotation": (
        {"annotations": {"podgate.dev/skip": "x"}},
        f"{WHERE}.annotations: podgate.dev/skip is podgate's own; choose a key with another prefix",
    ),
    "a label that classifies": (
        {"labels": {"notebook-name": "x"}},
        f"{WHERE}.labels: notebook-name {CLASSIFIES}",
    ),
    "an annotation that classifies": (
        {"annotations": {"gpu-fraction": "0.5"}},
        f"{WHERE}.annotations: gpu-fraction {CLASSIFIES}",
    ),
    "a variable that classifies": ({"env": {"WORLD_SIZE": "2"}}, f"{WHERE}.env: WORLD_SIZE {CLASSIFIES}"),
    "Kueue's queue": (
        {"labels": {"kueue.x-k8s.io/queue-name": "x"}},
        (
            f"{WHERE}.labels: kueue.x-k8s.io/queue-name on a pod makes Kueue hold back each pod by itself, "
            "even of a job that is queued; put it on the Job or other workload"
        ),
    ),
    "a key that is none": ({"labels": {"a b": "x"}}, f"{WHERE}.labels: {KEY} 'a b'"),
    "an annotation's key that is none": (
        {"annotations": {"/a": "x"}},
        f"{WHERE}.annotations: {KEY} '/a'",
    ),
    "a value that no label has": (
        {"labels": {"team": "a b"}},
        f"{WHERE}.labels: expected a label value of at most 63 letters, digits, - _ and ., found 'a b'",
    ),
    "a default that no label has": (
        {"labels": {"team": CENTER | {"default": "a b"}}},
        f"{WHERE}.labels: expected a label value of at most 63 letters, digits, - _ and ., found 'a b'",
    ),
    "a variable's name that is none": (
        {"env": {"1A": "x"}},
        f"{WHERE}.env: expected the name of a variable, such as NCCL_DEBUG, found '1A'",
    ),
    "an empty scheduler": ({"schedulerName": ""}, f"{WHERE}.schedulerName: expected a name, found ''"),
    "a runtime class that is no name": (
        {"runtimeClassName": "Nvidia"},
        f"{WHERE}.runtimeClassName: expected the name of a RuntimeClass, such as nvidia, found 'Nvidia'",
    ),
    "a number": (
        {"env": {"NCCL_IB_DISABLE": 1}},
        f"{WHERE}.env.NCCL_IB_DISABLE: expected a string, or a map with fromNamespaceLabel, found a number",
    ),
    "an empty label of the namespace": (
        {"labels": {"team": {"fromNamespaceLabel": ""}}},
        f"{WHERE}.labels.team: fromNamespaceLabel is empty; name a label of the namespace",
    ),
    "a map without a label": (
        {"labels": {"team": {"default": "x"}}},
        f"{WHERE}.labels.team.fromNamespaceLabel is missing",
    ),
}


@pytest.mark.parametrize(("parameters", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_policy_may_not_set(parameters: Json, message: str) -> None:
    assert load_problems(policy({"setFields": parameters})) == [message]


NEAR_MISSES: dict[str, Json] = {
    "a prefix that only begins like ours": {"labels": {"podgate.dev.example.com/x": "z"}},
    "Kueue's priority class": {"labels": {"kueue.x-k8s.io/priority-class": "x"}},
    "a label that only begins like one that classifies": {"labels": {"notebook-name2": "x"}},
    "a variable like one that classifies": {"env": {"LOCAL_WORLD_SIZE": "2"}},
    "an annotation that no label could be": {"annotations": {"note": "any text, at all: {}"}},
    "an empty label": {"labels": {"team": ""}},
    "an empty variable": {"env": {"PYTHONUNBUFFERED": ""}},
}


@pytest.mark.parametrize("parameters", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_what_a_policy_may_set(parameters: Json) -> None:
    assert load_problems(policy({"setFields": parameters})) == []


def test_an_error_points_to_the_key() -> None:
    text = b"""apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: p
spec:
  match:
    all: true
  rules:
  - name: r
    setFields:
      labels:
        team: vision
        notebook-name: x
"""
    (problem,) = load_policy_set([("p.yaml", text)]).problems
    assert str(problem).startswith("p.yaml:13:24: spec.rules[0].setFields.labels: notebook-name decides")
    center = b"center:\n          fromNamespaceLabel: x\n          default: a b"
    (problem,) = load_policy_set([("p.yaml", text.replace(b"notebook-name: x", center))]).problems
    assert str(problem).startswith("p.yaml:14:11: spec.rules[0].setFields.labels: expected a label value")
    own = text.replace(b"notebook-name", b"podgate.dev/x")
    (problem,) = load_policy_set([("p.yaml", own)]).problems
    assert str(problem).startswith(
        "p.yaml:13:24: spec.rules[0].setFields.labels: podgate.dev/x is podgate's own"
    )


def test_one_value_of_the_namespace_is_enough_to_ask_for_it() -> None:
    asks = SetFields.model_validate({"labels": {"a": "b", "cost-center": CENTER}})
    assert asks.kinds_asked == {"Namespace"}
    assert SetFields.model_validate({"labels": {"a": "b"}}).kinds_asked == frozenset()
