"""For which objects podgate is called: never for what no policy concerns, always for what one would change or refuse."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.gates import File, gate, load, policy, pool, request
from tests.property.pods import claims, pods
from tests.property.sets import FILES
from tests.registration.conditions import Json, is_called, request_of, typed
from webhook.engine import Outcome, mutate, validate
from webhook.engine.annotations import NAMES, POLICIES
from webhook.engine.outcome import Action
from webhook.kube.accelerators import Catalogue
from webhook.policy import PolicySet
from webhook.registration import (
    MUTATE,
    MUTATE_LATE,
    VALIDATE_FAIL,
    VALIDATE_IGNORE,
    Endpoint,
    webhook_configurations,
)
from webhook.rules.base import Result

ENDPOINT = Endpoint(url="https://127.0.0.1:8443", ca_bundle=b"ca")
GPU = "nvidia.com/gpu"
ACCELERATORS: Json = {"accelerators": {}}
CAP = {"limitAcceleratorCount": {"perPod": {"max": 8}}}


def entries_of(policies: PolicySet) -> dict[str, Json]:
    found = webhook_configurations(policies, ENDPOINT)
    return {entry["name"]: entry for configuration in found for entry in configuration["webhooks"]}


def pod(*, meta: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    """A pod as an API server sends it: defaulted, with the two tolerations that every pod gets."""
    container = {"name": "app", "image": "app", "resources": {"limits": limits} if limits else {}}
    tolerations = [
        {
            "key": f"node.kubernetes.io/{what}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for what in ("not-ready", "unreachable")
    ]
    common = {"containers": [container], "tolerations": tolerations, "schedulerName": "default-scheduler"}
    metadata = {"name": "p", "namespace": "team"} | (meta or {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": common | spec}


def with_container(kind: str = "containers", **fields: Any) -> Json:
    """The plain pod with a further container."""
    found = pod()
    found["spec"][kind] = [*found["spec"].get(kind, []), {"name": "more", **fields}]
    return found


def plain_pods() -> dict[str, Json]:
    """Pods that concern no policy about accelerators, some of which look nearly as if they did."""
    return {
        "the plainest": pod(),
        "CPU and memory": pod(limits={"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}),
        "another device": pod(limits={"smarter-devices/fuse": "1"}),
        "a device's name without its domain": pod(limits={"gpu": "1"}),
        "a longer name": pod(limits={"nvidia.com/gpus": "1"}),
        "a platform": pod(nodeSelector={"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}),
        "a variable": with_container(env=[{"name": "VISIBLE_DEVICES", "value": "all"}]),
        "not privileged": with_container(securityContext={"privileged": False}),
        "other volumes": pod(volumes=[{"name": "v", "emptyDir": {}}]),
        "no containers": pod(containers=None),
        "a label with a common key": pod(meta={"labels": {"app.kubernetes.io/component": "web"}}),
        "an owner": pod(
            meta={
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}]
            }
        ),
    }


PLAIN = plain_pods()

ABOUT_ACCELERATORS = [
    "gpu-counts.yaml",
    "gpu-defaults.yaml",
    "gpu-limits.yaml",
    "gpu-placement-check.yaml",
    "gpu-placement.yaml",
    "nodes-reserved.yaml",
    "no-bypass.yaml",
    "no-privileged.yaml",
    "overcommit.yaml",
    "rdma-required.yaml",
    "rdma.yaml",
    "resources-per-gpu.yaml",
    "shared-memory.yaml",
    "training-data.yaml",
    "training-priority.yaml",
    "inference-priority.yaml",
    "notebook-priority.yaml",
    "allowed-priorities.yaml",
]


def shipped(*names: str) -> PolicySet:
    files = dict(FILES["shipped"])
    return load(*((name, files[name]) for name in (*names, "accelerator-pools.yaml")))


@pytest.mark.parametrize("thing", PLAIN.values(), ids=PLAIN)
def test_a_plain_pod_makes_no_call_when_all_shipped_policies_about_accelerators_are_loaded(
    thing: Json,
) -> None:
    entries = entries_of(shipped(*ABOUT_ACCELERATORS))
    assert [name for name, entry in entries.items() if is_called(entry, thing, request_of())] == []


CONCERNED: dict[str, tuple[Json, Json]] = {
    "a device": (CAP, pod(limits={GPU: "1"})),
    "a device by a pattern": (CAP, pod(limits={"nvidia.com/mig-1g.5gb": "1"})),
    "a device of any class": (CAP, pod(limits={"deviceclass.resource.kubernetes.io/x": "1"})),
    "a share of a device": (CAP, pod(limits={"nvidia.com/gpumem": "1"})),
    "a device in a request": (CAP, with_container(resources={"requests": {GPU: "1"}})),
    "a device in an init container": (
        CAP,
        with_container("initContainers", resources={"limits": {GPU: "1"}}),
    ),
    "a device for the whole pod": (CAP, pod(resources={"limits": {GPU: "1"}})),
    "a device claim": (CAP, pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])),
    "a fraction by annotation": (CAP, pod(meta={"annotations": {"gpu-fraction": "0.5"}})),
    "memory that only the policy names": (
        {"limitAcceleratorCount": {"memory": {"example.com/mem": {"max": 1}}}},
        pod(limits={"example.com/mem": "1"}),
    ),
    "memory of the container itself": (
        {"limitAcceleratorCount": {"memory": {"memory": {"max": 1}}}},
        pod(limits={"memory": "1Gi"}),
    ),
    "an RDMA device": ({"requireRDMA": {}}, pod(limits={"rdma/hca": "1"})),
    "an RDMA device of a pool": ({"requireRDMA": {}}, pod(limits={"example.com/fabric": "1"})),
    "a node selector": ({"reserveNodes": {"pools": "all"}}, pod(nodeSelector={"pool": "gpu"})),
    "node affinity": (
        {"reserveNodes": {"pools": "all"}},
        pod(
            affinity={
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
            }
        ),
    ),
    "a toleration of its own": ({"reserveNodes": {"pools": "all"}}, pod(tolerations=[{"key": GPU}])),
    "a toleration of everything": (
        {"reserveNodes": {"pools": "all"}},
        pod(tolerations=[{"operator": "Exists"}]),
    ),
    "a variable": (
        {"forbidBypass": {"env": ["NVIDIA_*"]}},
        with_container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
    ),
    "a variable of an ephemeral container": (
        {"forbidBypass": {"env": ["NVIDIA_VISIBLE_DEVICES"]}},
        with_container("ephemeralContainers", env=[{"name": "NVIDIA_VISIBLE_DEVICES"}]),
    ),
    "a host path": (
        {"forbidBypass": {"hostPaths": ["/dev/nvidia*"]}},
        pod(volumes=[{"name": "dev", "hostPath": {"path": "/dev"}}]),
    ),
    "a privileged container": (
        {"forbidBypass": {"privileged": True}},
        with_container("initContainers", securityContext={"privileged": True}),
    ),
    "more containers than are looked at": (CAP, pod(containers=[{"name": f"c{i}"} for i in range(33)])),
    "more resources than are looked at": (CAP, pod(limits={f"example.com/{i}": "1" for i in range(25)})),
    "more variables than are looked at": (
        {"forbidBypass": {"env": ["NVIDIA_VISIBLE_DEVICES"]}},
        with_container(env=[{"name": f"V{i}"} for i in range(301)]),
    ),
    "more volumes than are looked at": (
        {"forbidBypass": {"hostPaths": ["/dev"]}},
        pod(volumes=[{"name": f"v{i}"} for i in range(301)]),
    ),
    "anything": ({"limitOvercommit": {"cpu": {"maxLimitToRequest": 4}}}, pod()),
}


@pytest.mark.parametrize(("rule", "thing"), CONCERNED.values(), ids=CONCERNED)
def test_an_object_that_concerns_a_rule_is_asked_about(rule: Json, thing: Json) -> None:
    fabric = pool("p", rdma={"resourceNames": ["example.com/fabric"]})
    entry = entries_of(load(policy("one", rule), fabric))[VALIDATE_IGNORE]
    assert is_called(entry, thing, request_of())


@pytest.mark.parametrize("rule", [rule for rule, _ in CONCERNED.values()][:-1], ids=list(CONCERNED)[:-1])
def test_a_plain_pod_concerns_none_of_these_rules(rule: Json) -> None:
    entry = entries_of(load(policy("one", rule)))[VALIDATE_IGNORE]
    assert not is_called(entry, pod(), request_of())


@pytest.mark.parametrize(
    ("taint", "called"),
    [
        pytest.param("node.kubernetes.io/gpu", True, id="one of Kubernetes'"),
        pytest.param("*.kubernetes.io/gpu", True, id="a pattern that fits one of Kubernetes'"),
        pytest.param("example.com/node.kubernetes.io", False, id="one of its own"),
    ],
)
def test_a_vendor_behind_a_taint_of_kubernetes_makes_every_toleration_count(taint: str, called: bool) -> None:
    catalogue = Catalogue.from_value({"vendors": {"acme": {"taints": [taint]}}})
    policies = replace(load(policy("one", {"reserveNodes": {"pools": "all"}})), catalogue=catalogue)
    usual = pod(tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}])
    assert is_called(entries_of(policies)[VALIDATE_IGNORE], usual, request_of()) is called


def test_the_more_patterns_there_are_the_fewer_variables_are_looked_at() -> None:
    """One pattern of 9,600 variables is cheap; forty cost a real API server more than an expression may."""
    many = {"forbidBypass": {"env": [f"P{number}_*_Z" for number in range(40)]}}
    plain = with_container(env=[{"name": f"V{number}"} for number in range(40)])
    assert is_called(entries_of(load(policy("one", many)))[VALIDATE_IGNORE], plain, request_of())
    few = {"forbidBypass": {"env": [f"P{number}_*_Z" for number in range(3)]}}
    assert not is_called(entries_of(load(policy("one", few)))[VALIDATE_IGNORE], plain, request_of())


def test_a_condition_longer_than_a_parser_takes_is_none() -> None:
    names = {"forbidBypass": {"env": [f"{'A' * 200}{number}_*" for number in range(500)]}}
    entry = entries_of(load(policy("one", names)))[VALIDATE_IGNORE]
    assert "concerns-a-policy" not in [each["name"] for each in entry["matchConditions"]]
    assert is_called(entry, pod(), request_of())


@pytest.mark.parametrize(
    ("key", "called"),
    [
        pytest.param("example.com/reserved", False, id="a taint of its own"),
        pytest.param("node.kubernetes.io/not-ready", True, id="one that every pod tolerates"),
    ],
)
def test_a_pool_behind_a_taint_of_kubernetes_makes_every_toleration_count(key: str, called: bool) -> None:
    reserved = pool("p", tolerations=[{"key": key, "operator": "Exists", "effect": "NoExecute"}])
    policies = load(policy("one", {"reserveNodes": {"pools": ["p"]}}), reserved)
    assert is_called(entries_of(policies)[VALIDATE_IGNORE], pod(), request_of()) is called
    assert validate(gate(policies), request(pod())).allowed is not called


ALL = {"limitOvercommit": {"cpu": {"maxLimitToRequest": 4}}}
NARROWED: dict[str, tuple[Json, Json, Json]] = {
    "a namespace": ({"namespaces": ["team"]}, pod(), request_of(namespace="other")),
    "a pattern of namespaces": ({"namespaces": ["team-*"]}, pod(), request_of(namespace="team")),
    "a label": (
        {"objectSelector": {"matchLabels": {"tier": "gold"}}},
        pod(meta={"labels": {"tier": "iron"}}),
        request_of(),
    ),
    "a label that must be there": (
        {"objectSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}},
        pod(),
        request_of(),
    ),
    "accelerators": (ACCELERATORS, pod(), request_of()),
    "a workload": ({"workloads": ["training"]}, pod(), request_of()),
    "a pool": ({"pools": ["p"]}, pod(), request_of()),
    "communication": ({"communication": ["multiNode"]}, pod(), request_of()),
}


@pytest.mark.parametrize(("match", "thing", "asked"), NARROWED.values(), ids=NARROWED)
def test_a_match_narrows(match: Json, thing: Json, asked: Json) -> None:
    entry = entries_of(load(policy("one", ALL, match=match), pool("p")))[VALIDATE_IGNORE]
    assert not is_called(entry, thing, asked)


MATCHED: dict[str, tuple[Json, Json]] = {
    "a pattern of namespaces": ({"namespaces": ["te*"]}, pod()),
    "a label": (
        {"objectSelector": {"matchLabels": {"tier": "gold"}}},
        pod(meta={"labels": {"tier": "gold"}}),
    ),
    "a label that must not be there": (
        {"objectSelector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}},
        pod(),
    ),
    "a workload by label": ({"workloads": ["training"]}, pod(meta={"labels": {"volcano.sh/job-name": "j"}})),
    "a declared workload": (
        {"workloads": ["training"]},
        pod(meta={"labels": {"podgate.dev/workload": "training"}}),
    ),
    "a workload by owner": (
        {"workloads": ["training"]},
        pod(meta={"ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}]}),
    ),
    "Volcano's Job": (
        {"workloads": ["training"]},
        pod(meta={"ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}]}),
    ),
    "no accelerator": ({"accelerators": "none"}, pod()),
    "other workloads": ({"workloads": ["training", "other"]}, pod()),
    "an expression, which is not looked into": (
        {"matchConditions": [{"name": "never", "expression": "false"}]},
        pod(),
    ),
}


@pytest.mark.parametrize(("match", "thing"), MATCHED.values(), ids=MATCHED)
def test_what_a_match_leaves_open_is_asked_about(match: Json, thing: Json) -> None:
    entry = entries_of(load(policy("one", ALL, match=match)))[VALIDATE_IGNORE]
    assert is_called(entry, thing, request_of())


def test_a_label_does_not_narrow_where_a_rule_may_set_it_and_others_do() -> None:
    setter = policy(
        "setter", {"setFields": {"labels": {"tier": "gold"}}}, match={"namespaces": ["x"]}, mode="audit"
    )
    selecting = policy("one", ALL, match={"objectSelector": {"matchLabels": {"tier": "gold", "app": "a"}}})
    entry = entries_of(load(setter, selecting))[VALIDATE_IGNORE]
    assert is_called(entry, pod(meta={"labels": {"app": "a"}}), request_of())
    assert not is_called(entry, pod(meta={"labels": {"tier": "gold"}}), request_of())


GPU_POD = pod(limits={GPU: "1"})
NODE: Json = {"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]}
MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}
PLACE = {"setNodeAffinity": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}


def test_a_mirror_pod_by_a_node_is_left_alone_and_by_another_is_not() -> None:
    entry = entries_of(load(policy("one", CAP)))[VALIDATE_IGNORE]
    mirror = pod(meta=MIRROR, limits={GPU: "1"})
    assert not is_called(entry, mirror, request_of(**NODE))
    assert is_called(entry, mirror, request_of())
    assert is_called(entry, GPU_POD, request_of(**NODE))
    assert is_called(entry, mirror, {**request_of(), "userInfo": {}})


def test_a_pod_of_the_daemonset_controller_is_left_alone() -> None:
    entry = entries_of(load(policy("one", CAP)))[VALIDATE_IGNORE]
    user = "system:serviceaccount:kube-system:daemon-set-controller"
    assert not is_called(entry, GPU_POD, request_of(username=user))
    assert is_called(entry, GPU_POD, request_of(username=f"{user}x"))


def test_an_object_that_is_being_deleted_is_left_alone() -> None:
    entry = entries_of(load(policy("one", CAP, match={**ACCELERATORS, "operations": ["UPDATE"]})))[
        VALIDATE_IGNORE
    ]
    going = pod(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}, limits={GPU: "1"})
    assert is_called(entry, GPU_POD, request_of(operation="UPDATE"), pod())
    assert not is_called(entry, going, request_of(operation="UPDATE"), pod())


def test_an_object_that_is_created_with_the_time_of_its_deletion_is_asked_about() -> None:
    match = {**ACCELERATORS, "operations": ["CREATE", "UPDATE"]}
    entries = entries_of(load(policy("one", CAP, match=match), policy("two", PLACE, match=ACCELERATORS)))
    going = pod(meta={"deletionTimestamp": "2030-01-01T00:00:00Z"}, limits={GPU: "1"})
    assert is_called(entries[VALIDATE_IGNORE], going, request_of())
    assert is_called(entries[MUTATE], going, request_of())


def test_an_update_that_leaves_the_spec_alone_makes_no_call() -> None:
    match = {**ACCELERATORS, "operations": ["CREATE", "UPDATE"]}
    entries = entries_of(load(policy("one", CAP, match=match), policy("two", PLACE, match=ACCELERATORS)))
    labelled = pod(meta={"labels": {"a": "b"}}, limits={GPU: "1"})
    changed = pod(limits={GPU: "2"})
    asked = request_of(operation="UPDATE")
    assert [name for name, entry in entries.items() if is_called(entry, labelled, asked, GPU_POD)] == []
    called = [name for name, entry in entries.items() if is_called(entry, changed, asked, GPU_POD)]
    assert called == [MUTATE, VALIDATE_IGNORE]


def test_an_expression_may_judge_labels_of_an_update() -> None:
    rule = {"expression": {"resources": ["pods"], "validations": [{"expression": "false"}]}}
    match = {"all": True, "operations": ["UPDATE"]}
    entry = entries_of(load(policy("one", rule, match=match)))[VALIDATE_IGNORE]
    assert is_called(entry, pod(meta={"labels": {"a": "b"}}), request_of(operation="UPDATE"), pod())


def test_a_policy_about_creation_makes_no_call_at_an_update() -> None:
    about_updates = policy(
        "two", {"forbidBypass": {"privileged": True}}, match={"all": True, "operations": ["UPDATE"]}
    )
    entry = entries_of(load(policy("one", CAP), about_updates))[VALIDATE_IGNORE]
    assert not is_called(entry, pod(limits={GPU: "2"}), request_of(operation="UPDATE"), GPU_POD)
    assert is_called(entry, pod(limits={GPU: "2"}), request_of())


@pytest.mark.parametrize("name", NAMES)
def test_a_forged_record_is_asked_about_when_the_pod_is_created(name: str) -> None:
    entry = entries_of(load(policy("one", PLACE, match=ACCELERATORS)))[MUTATE]
    forged = pod(meta={"annotations": {name: "x"}})
    assert is_called(entry, forged, request_of())
    assert not is_called(entry, forged, request_of(operation="UPDATE"), pod())


def test_the_late_entry_is_called_for_what_the_first_has_not_changed() -> None:
    entry = entries_of(load(policy("one", PLACE, match=ACCELERATORS)))[MUTATE_LATE]
    assert is_called(entry, GPU_POD, request_of())
    seen = {POLICIES: "0123456789ab"}
    assert not is_called(entry, pod(meta={"annotations": seen}, limits={GPU: "1"}), request_of())
    assert is_called(entry, pod(meta={"annotations": {"a": "b"}}, limits={GPU: "1"}), request_of())


@pytest.mark.parametrize("name", NAMES)
def test_a_forged_record_alone_is_not_for_the_late_entry(name: str) -> None:
    """The first has taken it away."""
    entry = entries_of(load(policy("one", PLACE, match=ACCELERATORS)))[MUTATE_LATE]
    assert not is_called(entry, pod(meta={"annotations": {name: "x"}}), request_of())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("resource", ["persistentvolumeclaims", "jobs.batch", "pytorchjobs.kubeflow.org"])
def test_a_forged_record_is_asked_about_when_anything_is_created(resource: str, name: str) -> None:
    """Else the late entry would not be called for what another webhook adds to it."""
    match = {"namespaces": ["other"]}
    kinds = ["jobs.batch", "pytorchjobs.kubeflow.org"]
    policies = load(
        policy("one", STORAGE, match=match), policy("two", PLACE, match=match, templates={"mutate": kinds})
    )
    thing = {"kind": "Any", "metadata": {"name": "c", "annotations": {name: "x"}}, "spec": {}}
    plain = {"kind": "Any", "metadata": {"name": "c"}, "spec": {}}
    first = entries_of(policies)[MUTATE]
    assert is_called(first, thing, request_of(resource))
    assert not is_called(first, plain, request_of(resource))
    assert not is_called(first, thing, request_of(resource, "UPDATE"), plain)


def deployment(template: Json, kind: str = "Deployment") -> Json:
    inner = {"metadata": template["metadata"], "spec": template["spec"]}
    spec: Json = {"template": inner}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": spec}}
    if kind == "PodTemplate":
        return {"kind": kind, "metadata": {"name": "d"}, "template": inner}
    return {"kind": kind, "metadata": {"name": "d"}, "spec": spec}


KINDS = {
    "deployments.apps": "Deployment",
    "replicasets.apps": "ReplicaSet",
    "statefulsets.apps": "StatefulSet",
    "daemonsets.apps": "DaemonSet",
    "jobs.batch": "Job",
    "cronjobs.batch": "CronJob",
    "replicationcontrollers": "ReplicationController",
    "podtemplates": "PodTemplate",
}


@pytest.mark.parametrize(("resource", "kind"), KINDS.items(), ids=KINDS.values())
def test_a_controller_is_asked_about_by_what_its_template_has(resource: str, kind: str) -> None:
    entry = entries_of(load(policy("one", CAP, match=ACCELERATORS)))[VALIDATE_IGNORE]
    asked = request_of(resource)
    assert is_called(entry, deployment(GPU_POD, kind), asked)
    assert not is_called(entry, deployment(pod(), kind), asked)


def test_a_template_that_is_absent_is_no_error() -> None:
    entry = entries_of(load(policy("one", CAP, match=ACCELERATORS)))[VALIDATE_IGNORE]
    thing = {"kind": "ReplicationController", "metadata": {"name": "r"}, "spec": {}}
    assert not is_called(entry, thing, request_of("replicationcontrollers"))


@pytest.mark.parametrize("spec", [{}, {"pytorchReplicaSpecs": None}, {"pytorchReplicaSpecs": ["odd"]}])
def test_a_kind_that_may_hold_anything_is_always_asked_about(spec: Json) -> None:
    entry = entries_of(load(policy("one", CAP, match=ACCELERATORS)))[VALIDATE_IGNORE]
    asked = request_of("pytorchjobs.kubeflow.org")
    assert is_called(entry, {"kind": "PyTorchJob", "metadata": {"name": "j"}, "spec": spec}, asked)


def test_a_template_is_judged_as_on_creation_when_it_changes() -> None:
    entry = entries_of(load(policy("one", CAP, match=ACCELERATORS)))[VALIDATE_IGNORE]
    asked = request_of("deployments.apps", "UPDATE")
    assert is_called(entry, deployment(pod(limits={GPU: "9"})), asked, deployment(GPU_POD))
    assert not is_called(entry, deployment(GPU_POD), asked, deployment(GPU_POD))


SCALED = {
    "Deployment": ("deployments.apps", {"replicas": 3}),
    "ReplicaSet": ("replicasets.apps", {"replicas": 3}),
    "StatefulSet": ("statefulsets.apps", {"replicas": 3}),
    "Job": ("jobs.batch", {"suspend": False, "parallelism": 4}),
    "CronJob": ("cronjobs.batch", {"schedule": "0 3 * * *"}),
}


@pytest.mark.parametrize(("kind", "resource", "change"), [(kind, *each) for kind, each in SCALED.items()])
def test_a_controller_that_is_scaled_makes_no_call(kind: str, resource: str, change: Json) -> None:
    entry = entries_of(load(policy("one", CAP, match=ACCELERATORS)))[VALIDATE_IGNORE]
    asked, old = request_of(resource, "UPDATE"), deployment(GPU_POD, kind)
    scaled = {**old, "spec": {**old["spec"], **change}}
    assert not is_called(entry, scaled, asked, old)
    new = deployment(pod(limits={GPU: "9"}), kind)
    assert is_called(entry, {**new, "spec": {**new["spec"], **change}}, asked, old)


def test_a_pod_template_that_only_gets_labels_makes_no_call() -> None:
    entry = entries_of(load(policy("one", CAP, match=ACCELERATORS)))[VALIDATE_IGNORE]
    old: Json = {"kind": "PodTemplate", "metadata": {"name": "t"}, "template": GPU_POD}
    labelled = {**old, "metadata": {"name": "t", "labels": {"a": "b"}}}
    asked = request_of("podtemplates", "UPDATE")
    assert not is_called(entry, labelled, asked, old)
    assert is_called(entry, {**old, "template": pod(limits={GPU: "9"})}, asked, old)


def test_a_rule_on_the_controller_itself_is_asked_about_its_scale() -> None:
    rule = {"expression": {"resources": ["deployments.apps"], "validations": [{"expression": "true"}]}}
    match = {"all": True, "operations": ["CREATE", "UPDATE"]}
    files = (policy("one", CAP, match=ACCELERATORS), policy("two", rule, match=match))
    entry = entries_of(load(*files))[VALIDATE_IGNORE]
    old = deployment(pod())
    scaled = {**old, "spec": {**old["spec"], "replicas": 3}}
    assert is_called(entry, scaled, request_of("deployments.apps", "UPDATE"), old)


def test_templates_are_left_alone_where_no_policy_checks_them() -> None:
    unchecked = policy("one", CAP, templates={"check": "disabled"})
    checked = policy("two", {"forbidBypass": {"privileged": True}})
    asked = request_of("deployments.apps")
    assert not is_called(entries_of(load(unchecked))[VALIDATE_IGNORE], deployment(GPU_POD), asked)
    assert not is_called(entries_of(load(unchecked, checked))[VALIDATE_IGNORE], deployment(GPU_POD), asked)


def test_templates_are_changed_only_of_the_kinds_that_a_policy_names() -> None:
    files = [policy("one", PLACE, match=ACCELERATORS, templates={"mutate": ["deployments.apps"]})]
    entry = entries_of(load(*files))[MUTATE]
    assert is_called(entry, deployment(GPU_POD), request_of("deployments.apps"))
    assert not is_called(entry, deployment(pod()), request_of("deployments.apps"))
    assert not is_called(entry, deployment(GPU_POD, "Job"), request_of("jobs.batch"))


def test_templates_are_looked_at_late_only_when_they_are_created() -> None:
    """What an update brings is in the pods that are created afterwards."""
    files = [policy("one", PLACE, match=ACCELERATORS, templates={"mutate": ["deployments.apps"]})]
    entry, old = entries_of(load(*files))[MUTATE_LATE], deployment(pod())
    assert is_called(entry, deployment(GPU_POD), request_of("deployments.apps"))
    assert not is_called(entry, deployment(pod()), request_of("deployments.apps"))
    assert not is_called(entry, deployment(GPU_POD), request_of("deployments.apps", "UPDATE"), old)
    marked = deployment(GPU_POD)
    marked["metadata"]["annotations"] = {POLICIES: "0123456789ab"}
    assert not is_called(entry, marked, request_of("deployments.apps"))


STORAGE = {"setStorageClass": {"default": "ceph-block"}}
CLAIM = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {}}


def test_claims_are_asked_about_where_a_policy_is_about_them() -> None:
    asked = request_of("persistentvolumeclaims")
    entries = entries_of(load(policy("one", STORAGE), policy("two", CAP)))
    assert is_called(entries[MUTATE], CLAIM, asked)
    assert is_called(entries[VALIDATE_IGNORE], CLAIM, asked)
    assert not is_called(entries[MUTATE], pod(), request_of())
    ephemeral = pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}])
    assert is_called(entries[MUTATE], ephemeral, request_of())


def test_claims_in_other_namespaces_and_claims_that_only_a_pod_could_match_are_left_alone() -> None:
    asked = request_of("persistentvolumeclaims", namespace="other")
    elsewhere = entries_of(load(policy("one", STORAGE, match={"namespaces": ["team"]})))
    of_pods = entries_of(load(policy("one", STORAGE, match=ACCELERATORS)))
    assert not is_called(elsewhere[MUTATE], CLAIM, asked)
    assert not is_called(of_pods[MUTATE], CLAIM, asked)


def single_sets() -> dict[str, tuple[File, ...]]:
    """Each policy for itself, with the pools and with what the site says of it."""
    found: dict[str, tuple[File, ...]] = {}
    for name, files in FILES.items():
        others = tuple(each for each in files if b"kind: AcceleratorPool" in each[1])
        for file, data in files:
            if b"kind: PodPolicy\n" in data:
                found[f"{name} {file}"] = ((file, data), *(each for each in others if each[0] != file))
    return found


SETS = single_sets()


@cache
def one_policy(name: str) -> tuple[PolicySet, dict[str, Json]]:
    policies = load(*SETS[name])
    return policies, entries_of(policies)


def says_something(outcome: Outcome) -> bool:
    """Whether somebody would notice that the call was not made."""
    acted = any(report.result in (Result.FAIL, Result.ERROR) for report in outcome.reports)
    return bool(acted or outcome.changes or outcome.would_change)


def is_seen(thing: Json) -> bool:
    """Whether the late entry takes an object for one that the first has changed."""
    return POLICIES in (thing["metadata"].get("annotations") or {})


@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(sorted(SETS)), thing=pods() | claims())
def test_whatever_a_policy_would_change_or_refuse_is_asked_about(name: str, thing: Json) -> None:
    policies, entries = one_policy(name)
    thing = typed(thing)
    resource = "pods" if thing["kind"] == "Pod" else "persistentvolumeclaims"
    namespace = thing["metadata"]["namespace"]
    asked = request(thing, kind=thing["kind"], resource=resource, namespace=namespace)
    outcome = mutate(gate(policies), asked)
    variable = request_of(resource, namespace=namespace)
    if says_something(outcome):
        assert is_called(entries[MUTATE], thing, variable)
    if outcome.changes and not is_seen(thing):
        assert is_called(entries[MUTATE_LATE], thing, variable)
    final = typed(outcome.object)
    again = validate(
        gate(policies), request(final, kind=thing["kind"], resource=resource, namespace=namespace)
    )
    for report in again.reports:
        if report.result in (Result.FAIL, Result.ERROR):
            entry = entries[VALIDATE_FAIL if report.rule.failure_policy == "Fail" else VALIDATE_IGNORE]
            assert is_called(entry, final, variable), report.rule.key


WHOLE = {**FILES, **SETS}
ABOUT_UPDATES = [name for name, files in WHOLE.items() if any(b"UPDATE" in data for _, data in files)]
TEMPLATES = {
    "deployments.apps": "Deployment",
    "daemonsets.apps": "DaemonSet",
    "replicationcontrollers": "ReplicationController",
    "jobs.batch": "Job",
    "cronjobs.batch": "CronJob",
}


@cache
def whole_set(name: str) -> tuple[PolicySet, dict[str, Json]]:
    """A set with its overrides and exceptions, or one policy of it."""
    policies = load(*WHOLE[name])
    return policies, entries_of(policies)


def template_of(resource: str, template: Json) -> Json:
    """A controller's object with a pod as its template."""
    namespace = template["metadata"]["namespace"]
    spec: Json = {"template": {"metadata": template["metadata"], "spec": template["spec"]}}
    if resource == "cronjobs.batch":
        spec = {"jobTemplate": {"spec": spec}}
    return {"kind": TEMPLATES[resource], "metadata": {"name": "x", "namespace": namespace}, "spec": spec}


def check_calls(name: str, resource: str, thing: Json, old: Json | None, subresource: str = "") -> None:
    """Whatever is changed or said of an object, an entry whose rules and conditions fit is called for it."""
    policies, entries = whole_set(name)
    namespace, operation = thing["metadata"]["namespace"], "UPDATE" if old else "CREATE"
    plural, _, group = resource.partition(".")
    asked = request(
        thing,
        kind=thing["kind"],
        resource=plural,
        group=group,
        namespace=namespace,
        operation=operation,
        old_object=old,
        subresource=subresource,
    )
    full = f"{plural}/{subresource}" if subresource else plural
    wanted = {
        VALIDATE_FAIL if report.rule.failure_policy == "Fail" else VALIDATE_IGNORE
        for report in validate(gate(policies), asked).reports
        if report.result in (Result.FAIL, Result.ERROR) and report.action is not Action.NONE
    }
    if mutate(gate(policies), asked).changes:
        wanted |= {MUTATE} if old or is_seen(thing) else {MUTATE, MUTATE_LATE}
    variable = request_of(resource, operation, namespace)
    for entry in (entries[each] for each in wanted):
        assert any(full in rule["resources"] and operation in rule["operations"] for rule in entry["rules"])
        assert is_called(entry, thing, variable, old), entry["name"]


SOME = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@SOME
@given(
    name=st.sampled_from(sorted(WHOLE)),
    resource=st.sampled_from(sorted(TEMPLATES)),
    new=pods(),
    old=st.none() | pods(),
)
def test_whatever_is_said_of_a_template_is_asked_about(
    name: str, resource: str, new: Json, old: Json | None
) -> None:
    stored = typed(template_of(resource, old)) if old else None
    check_calls(name, resource, typed(template_of(resource, new)), stored)


@SOME
@given(
    name=st.sampled_from(sorted(ABOUT_UPDATES)),
    subresource=st.sampled_from(["", "ephemeralcontainers", "resize"]),
    new=pods(),
    old=pods(),
    spec_stays=st.booleans(),
)
def test_whatever_is_said_of_an_update_is_asked_about(
    name: str, subresource: str, new: Json, old: Json, spec_stays: bool
) -> None:
    stored = {**old, "spec": new["spec"]} if spec_stays else old
    check_calls(name, "pods", typed(new), typed(stored), subresource)
