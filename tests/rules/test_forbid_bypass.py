"""forbidBypass: near misses first, then what is refused, with its exact words."""

from collections.abc import Mapping
from typing import Any

import pytest

from webhook.engine.outcome import Outcome
from webhook.engine.review import Gate, validate
from webhook.engine.texts import say
from webhook.facts import Facts
from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft
from webhook.kube.field_path import format_field
from webhook.policy import Loaded, load_policy_set
from webhook.rules.base import Finding, Received, Result, Subject
from webhook.rules.forbid_bypass import ForbidBypass

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
RULES = {
    "env": [VISIBLE, "ASCEND_*"],
    "hostPaths": ["/dev/nvidia*", "/var/run/nvidia-container-devices"],
    "privileged": True,
}


def container(name: str = "main", gpus: str = "", **more: Any) -> dict[str, Any]:
    resources = {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    return {"name": name, **resources, **more}


def env(value: Any = "all", name: str = VISIBLE) -> dict[str, Any]:
    return {"env": [{"name": "HOME", "value": "/root"}, {"name": name, "value": value}]}


def pod(*held: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": list(held) or [container()], **spec},
    }


def host(path: Any) -> dict[str, Any]:
    return pod(volumes=[{"name": "d", "hostPath": {"path": path}}])


def findings(thing: dict[str, Any], parameters: Mapping[str, Any] = RULES) -> list[Finding]:
    request = AdmissionRequest(kind="Pod", resource="pods", namespace="team", object=thing)
    received = Received(request, Facts(), (), shipped_catalogue())
    return list(ForbidBypass.model_validate(parameters).validate_subject(Subject(received, Draft(thing))))


PRIVILEGED: dict[str, Any] = {"securityContext": {"privileged": True}}
FROM_FIELD: dict[str, Any] = {
    "env": [{"name": VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
}

NEAR_MISSES = {
    "nothing": pod(),
    "the variable beside a device": pod(container(gpus="1", **env())),
    "the variable beside a claim": pod(
        container(resources={"claims": [{"name": "c"}]}, **env()),
        resourceClaims=[{"name": "c", "resourceClaimName": "c"}],
    ),
    "the variable beside a device by request": pod(
        container(resources={"requests": {"huawei.com/Ascend910": "1"}}, **env("0", "ASCEND_VISIBLE_DEVICES"))
    ),
    "void": pod(container(**env("void"))),
    "none": pod(container(**env("none"))),
    "empty": pod(container(**env(""))),
    "no value": pod(container(env=[{"name": VISIBLE}])),
    "null": pod(container(**env(None))),
    "a longer name": pod(container(**env(name=f"{VISIBLE}_X"))),
    "another case": pod(container(**env(name=VISIBLE.lower()))),
    "another device": host("/dev/shm"),
    "a longer directory": host("/device"),
    "a file of the node": host("/var/log"),
    "beside it, in the end": host("/dev/nvidia0/../shm"),
    "beside it, by a whole name": host("/var/run/nvidia-container-devices-old"),
    "not privileged": pod(container(securityContext={"privileged": False})),
    "not privileged, in words": pod(container(securityContext={"privileged": "true"})),
    "wrong types": pod(
        {"env": "a", "securityContext": []},
        {"env": [1, {"name": 2, "value": "all"}]},
        volumes=[None, {"hostPath": "/"}, {"hostPath": {"path": 3}}],
    ),
}


@pytest.mark.parametrize("thing", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_a_pod_that_goes_past_nothing_passes(thing: dict[str, Any]) -> None:
    assert findings(thing) == []


def sets(name: str, variable: str = VISIBLE) -> tuple[str, str]:
    return (
        f"container {name} sets {variable}, which gives it accelerators that it does not ask for",
        f"remove {variable}, or ask for an accelerator in the resources of container {name}",
    )


def mounts(directory: str, pattern: str = "/dev/nvidia*") -> tuple[str, str]:
    return (
        f"volume d is {directory} of the node, which gives access to {pattern} past the scheduler",
        "remove volume d; devices come with the resources that a container asks for",
    )


def privileged(name: str) -> tuple[str, str]:
    return (
        f"container {name} is privileged, which gives it every device of the node past the scheduler",
        "remove securityContext.privileged, and add the single capabilities that it needs",
    )


ENV = f'spec.containers["main"].env["{VISIBLE}"]'
PATH = 'spec.volumes["d"].hostPath.path'

REFUSED = {
    "the variable": (pod(container(**env())), ENV, sets("main")),
    "one device": (pod(container(**env("GPU-1"))), ENV, sets("main")),
    "a value that expands": (pod(container(**env("$(GPUS)"))), ENV, sets("main")),
    "a value from elsewhere": (pod(container(**FROM_FIELD)), ENV, sets("main")),
    "the variable beside no device": (pod(container(gpus="0", **env())), ENV, sets("main")),
    "another container has the device": (
        pod(container("trainer", gpus="8"), container(**env())),
        ENV,
        sets("main"),
    ),
    "by a pattern": (
        pod(container(**env("0", "ASCEND_RT_VISIBLE_DEVICES"))),
        'spec.containers["main"].env["ASCEND_RT_VISIBLE_DEVICES"]',
        sets("main", "ASCEND_RT_VISIBLE_DEVICES"),
    ),
    "in an init container": (
        pod(initContainers=[container("setup", **env())]),
        f'spec.initContainers["setup"].env["{VISIBLE}"]',
        sets("setup"),
    ),
    "in an ephemeral container": (
        pod(container(gpus="1"), ephemeralContainers=[container("dbg", **env())]),
        f'spec.ephemeralContainers["dbg"].env["{VISIBLE}"]',
        (
            f"ephemeral container dbg sets {VISIBLE}, which gives it accelerators that others hold",
            f"remove {VISIBLE}, and look at accelerators from the container that holds them",
        ),
    ),
    "a device of the node": (host("/dev/nvidia0"), PATH, mounts("/dev/nvidia0")),
    "a device inside": (host("/dev/nvidia-caps/c1"), PATH, mounts("/dev/nvidia-caps/c1")),
    "the directory above": (host("/dev/../dev/"), PATH, mounts("/dev/../dev/")),
    "the whole node": (host("/"), PATH, mounts("/")),
    "the whole node, in dots": (host("/.."), PATH, mounts("/..")),
    "another path, in slashes": (
        host("//var//run/nvidia-container-devices"),
        PATH,
        mounts("//var//run/nvidia-container-devices", "/var/run/nvidia-container-devices"),
    ),
    "privileged": (
        pod(container(**PRIVILEGED)),
        'spec.containers["main"].securityContext.privileged',
        privileged("main"),
    ),
    "a privileged sidecar beside a device": (
        pod(container("agent", **PRIVILEGED), container(gpus="1")),
        'spec.containers["agent"].securityContext.privileged',
        privileged("agent"),
    ),
    "a privileged ephemeral container": (
        pod(ephemeralContainers=[container("dbg", **PRIVILEGED)]),
        'spec.ephemeralContainers["dbg"].securityContext.privileged',
        privileged("dbg"),
    ),
}


@pytest.mark.parametrize(("thing", "field", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_and_why(thing: dict[str, Any], field: str, said: tuple[str, str]) -> None:
    (finding,) = findings(thing)
    rule = load("privileged: true").policy_set.policies[0].rules[0]
    assert finding.result is Result.FAIL
    assert format_field(thing, finding.path) == field
    assert tuple(say(rule, finding, "en")) == said
    assert say(rule, finding, "zh").message != said[0]


def test_the_value_of_a_variable_is_never_said() -> None:
    (finding,) = findings(pod(container(**env("s3cret"))))
    assert "s3cret" not in str(finding)


def test_every_way_is_reported() -> None:
    thing = pod(
        container(**env(), **PRIVILEGED),
        volumes=[{"name": "d", "hostPath": {"path": "/dev"}}, {"name": "e", "hostPath": {"path": "/"}}],
    )
    assert [finding.text for finding in findings(thing)] == ["env", "privileged", "hostPath", "hostPath"]


ONLY = {
    "variables": ({"env": ["X"]}, []),
    "paths": ({"hostPaths": ["/run"]}, ["hostPath"]),
    "privilege": ({"privileged": True}, ["privileged"]),
}


@pytest.mark.parametrize(("parameters", "texts"), ONLY.values(), ids=ONLY.keys())
def test_only_what_is_named_is_forbidden(parameters: dict[str, Any], texts: list[str]) -> None:
    thing = pod(container(**env(), **PRIVILEGED), volumes=[{"name": "d", "hostPath": {"path": "/run/x"}}])
    assert [finding.text for finding in findings(thing, parameters)] == texts


def load(parameters: str) -> Loaded:
    policy = f"""
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: p
spec:
  mode: enforce
  match:
    all: true
    operations: [CREATE, UPDATE]
  rules:
  - name: r
    forbidBypass:
      {parameters}
"""
    return load_policy_set([("p.yaml", policy.encode())])


LOADED = load("env: [NVIDIA_VISIBLE_DEVICES]\n      privileged: true")


def update(old: dict[str, Any], new: dict[str, Any]) -> Outcome:
    request = AdmissionRequest(
        kind="Pod",
        resource="pods",
        subresource="ephemeralcontainers",
        namespace="team",
        operation="UPDATE",
        object=new,
        old_object=old,
    )
    return validate(Gate(LOADED.policy_set, Facts()), request)


DEBUGGER = container("dbg", **env())
UPDATES = {
    "a harmless debugger": (pod(), pod(ephemeralContainers=[container("dbg")]), []),
    "a harmless debugger beside an old fault": (
        pod(container(**PRIVILEGED)),
        pod(container(**PRIVILEGED), ephemeralContainers=[container("dbg")]),
        [],
    ),
    "a harmless debugger after a bad one": (
        pod(ephemeralContainers=[DEBUGGER]),
        pod(ephemeralContainers=[DEBUGGER, container("more")]),
        [],
    ),
    "a debugger that takes the accelerators": (
        pod(),
        pod(ephemeralContainers=[DEBUGGER]),
        ["env of an ephemeral container"],
    ),
    "another one beside an old fault": (
        pod(container(**PRIVILEGED), ephemeralContainers=[DEBUGGER]),
        pod(container(**PRIVILEGED), ephemeralContainers=[DEBUGGER, container("more", **PRIVILEGED)]),
        ["privileged"],
    ),
}


@pytest.mark.parametrize(("old", "new", "texts"), UPDATES.values(), ids=UPDATES.keys())
def test_an_update_answers_for_what_it_brings(
    old: dict[str, Any], new: dict[str, Any], texts: list[str]
) -> None:
    outcome = update(old, new)
    assert LOADED.problems == ()
    assert [finding.text for report in outcome.reports for finding in report.findings] == texts
    assert outcome.allowed is not bool(texts)


WHERE = "spec.rules[0].forbidBypass"
LOAD_ERRORS = {
    "nothing": ("privileged: false", f"{WHERE}: give at least one of env, hostPaths and privileged: true"),
    "a relative path": (
        "hostPaths: [dev]",
        f"{WHERE}.hostPaths[0]: expected an absolute path, found 'dev'",
    ),
}


@pytest.mark.parametrize(("parameters", "message"), LOAD_ERRORS.values(), ids=LOAD_ERRORS.keys())
def test_what_is_refused_at_load(parameters: str, message: str) -> None:
    (problem,) = load(parameters).problems
    assert problem.message == message


NEEDS: dict[str, tuple[dict[str, Any], dict[str, tuple[str, ...]]]] = {
    "variables by their names": ({"env": [VISIBLE, "ASCEND_*"]}, {"env": (VISIBLE, "ASCEND_*")}),
    "every host path, for one above a forbidden one counts": (
        {"hostPaths": ["/dev/nvidia*"]},
        {"hostPaths": ()},
    ),
    "privileged containers": ({"privileged": True}, {"privileged": ()}),
    "all three": (
        RULES,
        {"env": (VISIBLE, "ASCEND_*"), "hostPaths": (), "privileged": ()},
    ),
}


@pytest.mark.parametrize("case", NEEDS)
def test_what_the_rule_needs_of_an_object(case: str) -> None:
    given, needs = NEEDS[case]
    assert ForbidBypass.model_validate(given).needs == needs
