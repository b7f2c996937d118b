"""requireRDMA: near misses first, then what is refused, with its exact words."""

from collections.abc import Mapping
from typing import Any

import pytest

from webhook.engine.texts import say
from webhook.facts import AcceleratorPool, Facts
from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft
from webhook.kube.field_path import format_field
from webhook.policy import load_policy_set
from webhook.rules.base import Finding, Received, Result, Subject
from webhook.rules.require_rdma import RequireRDMA

GPU = "nvidia.com/gpu"
IB = "rdma/ib"
LOCK = {"capabilities": {"add": ["IPC_LOCK"]}}

POLICY = b"""
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: fabric
spec:
  match:
    all: true
  rules:
  - name: rdma
    requireRDMA: {}
"""


def pool(name: str, rdma: str = "", zone: str = "a") -> AcceleratorPool:
    fabric = {"rdma": {"resourceNames": [rdma]}} if rdma else {}
    return AcceleratorPool.model_validate(
        {"name": name, "resourceNames": [GPU], "nodeLabels": {"zone": zone}, **fabric}
    )


def container(name: str = "main", resources: Mapping[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": dict(resources or {GPU: "8"})}, **more}


def worker(*held: dict[str, Any], nodes: int = 2, **spec: Any) -> dict[str, Any]:
    labels = {"training.kubeflow.org/job-name": "j"}
    if nodes > 1:
        labels["training.kubeflow.org/job-role"] = "worker"
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "labels": labels},
        "spec": {"containers": list(held or [container()]), **spec},
    }


def subject_of(
    thing: dict[str, Any],
    pools: tuple[AcceleratorPool, ...] = (),
    facts: tuple[dict[str, Any], ...] = (),
    *,
    from_api_server: bool = True,
) -> Subject:
    request = AdmissionRequest(
        kind="Pod", resource="pods", namespace="team", object=thing, from_api_server=from_api_server
    )
    received = Received(request, Facts.from_objects(facts), pools, shipped_catalogue())
    return Subject(received, Draft(thing))


def findings(subject: Subject) -> list[Finding]:
    return list(RequireRDMA().validate_subject(subject))


def failures(subject: Subject) -> list[str]:
    return [finding.text for finding in findings(subject) if finding.result is Result.FAIL]


WITH_RDMA = {GPU: "8", IB: "1"}


def env(*values: str) -> dict[str, Any]:
    return {"env": [{"name": "NCCL_IB_DISABLE", "value": value} for value in values]}


def host_devices(path: str = "/dev/infiniband", **more: Any) -> dict[str, Any]:
    mounted = container(volumeMounts=[{"name": "ib", "mountPath": "/dev/infiniband"}])
    return worker(mounted, volumes=[{"name": "ib", "hostPath": {"path": path}}], **more)


NEAR_MISSES = {
    "RDMA and the capability": worker(container(resources=WITH_RDMA, securityContext=LOCK)),
    "RDMA by request only": worker(
        {
            "name": "main",
            "resources": {"limits": {GPU: "8"}, "requests": {IB: "1"}},
            "securityContext": LOCK,
        }
    ),
    "one of two holders has RDMA": worker(
        container("a"), container("b", resources=WITH_RDMA, securityContext=LOCK)
    ),
    "the capability with its prefix": worker(
        container(resources=WITH_RDMA, securityContext={"capabilities": {"add": ["cap_ipc_lock"]}})
    ),
    "all capabilities": worker(
        container(resources=WITH_RDMA, securityContext={"capabilities": {"add": ["ALL"]}})
    ),
    "all others dropped": worker(
        container(
            resources=WITH_RDMA, securityContext={"capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]}}
        )
    ),
    "privileged": worker(container(resources=WITH_RDMA, securityContext={"privileged": True})),
    "the host's network and its devices": host_devices(hostNetwork=True),
    "the host's network and a directory above": host_devices("/dev/", hostNetwork=True),
    "the host's network and one device": host_devices("//dev/infiniband/uverbs0", hostNetwork=True),
    "the host's network and a privileged container": worker(
        container(securityContext={"privileged": True}), hostNetwork=True
    ),
    "the switch is 0": worker(container(resources=WITH_RDMA, securityContext=LOCK, **env("0"))),
    "the switch is no number": worker(container(resources=WITH_RDMA, securityContext=LOCK, **env("true"))),
    "the switch is set back": worker(container(resources=WITH_RDMA, securityContext=LOCK, **env("1", "0"))),
    "another container has the switch": worker(
        container(resources=WITH_RDMA, securityContext=LOCK),
        container("log", resources={"cpu": "1"}, **env("1")),
    ),
}


@pytest.mark.parametrize("thing", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_a_pod_with_rdma_passes(thing: dict[str, Any]) -> None:
    assert findings(subject_of(thing)) == []


SKIPPED = {
    "one node": (subject_of(worker(nodes=1)), "alone"),
    "a launcher without an accelerator": (subject_of(worker(container(resources={"cpu": "1"}))), "alone"),
    "no possible pool has a fabric": (subject_of(worker(), (pool("eth"), pool("tcp"))), "no fabric"),
    "switched off where there is no fabric": (
        subject_of(worker(container(**env("1"))), (pool("eth"),)),
        "no fabric",
    ),
    "the pool with a fabric is excluded": (
        subject_of(worker(nodeSelector={"zone": "a"}), (pool("eth"), pool("ib", IB, zone="b"))),
        "no fabric",
    ),
}


@pytest.mark.parametrize(("subject", "text"), SKIPPED.values(), ids=SKIPPED.keys())
def test_a_pod_that_needs_none_is_skipped(subject: Subject, text: str) -> None:
    assert [(finding.result, finding.text) for finding in findings(subject)] == [(Result.SKIP, text)]


WORKER = "label training.kubeflow.org/job-role=worker"
MISSING = (
    f"the pod talks to accelerators on other nodes ({WORKER}) but has no RDMA, so it would do so over TCP"
)
REQUEST = "request an RDMA device such as {} in the containers that hold the accelerators"
OFF = (
    (
        "RDMA is switched off by NCCL_IB_DISABLE in container main, but the pod talks to accelerators on "
        f"other nodes ({WORKER})"
    ),
    "remove NCCL_IB_DISABLE, or set it to 0",
)
NO_LOCK = (
    "container main has rdma/ib but not the capability IPC_LOCK, so RDMA may fail to lock memory",
    "add IPC_LOCK to securityContext.capabilities.add of the container",
)

REFUSED = {
    "no RDMA, and only one of two pools has a fabric": (
        subject_of(worker(), (pool("plain"), pool("fast", "site.example/hca"))),
        'spec.containers["main"].resources',
        (MISSING, REQUEST.format("site.example/hca")),
    ),
    "no RDMA": (
        subject_of(worker()),
        'spec.containers["main"].resources',
        (MISSING, REQUEST.format("rdma/ib")),
    ),
    "as the pool names it": (
        subject_of(worker(), (pool("ib", "site.example/hca"), pool("eth"))),
        'spec.containers["main"].resources',
        (MISSING, REQUEST.format("site.example/hca")),
    ),
    "none of RDMA": (
        subject_of(worker(container(resources={GPU: "8", IB: "0"}))),
        'spec.containers["main"].resources',
        (MISSING, REQUEST.format("rdma/ib")),
    ),
    "a sidecar has it, the holder does not": (
        subject_of(worker(container("log", resources={IB: "1"}, securityContext=LOCK), container("main"))),
        'spec.containers["main"].resources',
        (MISSING, REQUEST.format("rdma/ib")),
    ),
    "the host's network alone": (
        subject_of(worker(hostNetwork=True)),
        'spec.containers["main"].resources',
        (MISSING, REQUEST.format("rdma/ib")),
    ),
    "the host's devices without its network": (
        subject_of(host_devices()),
        'spec.containers["main"].resources',
        (MISSING, REQUEST.format("rdma/ib")),
    ),
    "another device of the host": (
        subject_of(host_devices("/dev/infiniband0", hostNetwork=True)),
        'spec.containers["main"].resources',
        (MISSING, REQUEST.format("rdma/ib")),
    ),
    "the host's devices, mounted by nobody": (
        subject_of(
            worker(hostNetwork=True, volumes=[{"name": "ib", "hostPath": {"path": "/dev/infiniband"}}])
        ),
        'spec.containers["main"].resources',
        (MISSING, REQUEST.format("rdma/ib")),
    ),
    "switched off": (
        subject_of(worker(container(**env("1")))),
        'spec.containers["main"].env["NCCL_IB_DISABLE"]',
        OFF,
    ),
    "switched off beside RDMA": (
        subject_of(worker(container(resources=WITH_RDMA, securityContext=LOCK, **env("0", "0x1")))),
        'spec.containers["main"].env["NCCL_IB_DISABLE"]',
        OFF,
    ),
    "RDMA without the capability": (
        subject_of(worker(container(resources=WITH_RDMA))),
        'spec.containers["main"].resources.limits["rdma/ib"]',
        NO_LOCK,
    ),
    "another capability": (
        subject_of(
            worker(container(resources=WITH_RDMA, securityContext={"capabilities": {"add": ["SYS_PTRACE"]}}))
        ),
        'spec.containers["main"].resources.limits["rdma/ib"]',
        NO_LOCK,
    ),
    "the capability is dropped": (
        subject_of(
            worker(
                container(
                    resources=WITH_RDMA,
                    securityContext={"capabilities": {"add": ["ALL"], "drop": ["CAP_IPC_LOCK"]}},
                )
            )
        ),
        'spec.containers["main"].resources.limits["rdma/ib"]',
        NO_LOCK,
    ),
}


@pytest.mark.parametrize(("subject", "field", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_and_why(subject: Subject, field: str, said: tuple[str, str]) -> None:
    (finding,) = findings(subject)
    loaded = load_policy_set([("p.yaml", POLICY)])
    rule = loaded.policy_set.policies[0].rules[0]
    assert loaded.problems == ()
    assert finding.result is Result.FAIL
    assert format_field(subject.object, finding.path) == field
    assert tuple(say(rule, finding, "en")) == said
    assert say(rule, finding, "zh").message != said[0]


def test_a_pod_that_talks_to_no_other_is_told_why_it_is_thought_so() -> None:
    (finding,) = findings(subject_of(worker(nodes=1)))
    evidence = finding.args["evidence"]
    rule = load_policy_set([("p.yaml", POLICY)]).policy_set.policies[0].rules[0]
    assert say(rule, finding, "en").message == f"no accelerator talks to another node: {evidence}"
    assert evidence == subject_of(worker(nodes=1)).workload.communication_evidence


def test_every_device_of_the_fabric_is_named() -> None:
    fabric = pool("rails", IB)
    rdma = fabric.rdma and fabric.rdma.model_copy(update={"resource_names": ("rdma/a", "rdma/b")})
    (finding,) = findings(subject_of(worker(), (fabric.model_copy(update={"rdma": rdma}),)))
    rule = load_policy_set([("p.yaml", POLICY)]).policy_set.policies[0].rules[0]
    assert say(rule, finding, "en").remediation == REQUEST.format("rdma/a, rdma/b")


def test_a_pod_on_one_node_still_needs_the_capability_for_its_rdma() -> None:
    assert failures(subject_of(worker(container(resources=WITH_RDMA), nodes=1))) == ["no lock"]


def test_a_device_that_only_a_pool_knows_is_rdma() -> None:
    thing = worker(container(resources={GPU: "8", "site.example/hca": "1"}, securityContext=LOCK))
    assert failures(subject_of(thing, (pool("ib", "site.example/hca"),))) == []
    assert failures(subject_of(thing)) == ["missing"]


def test_prefill_and_decode_need_rdma_as_well() -> None:
    thing = worker(container(resources={GPU: "1"}), nodes=1)
    thing["metadata"]["labels"] = {"llm-d.ai/role": "decode"}
    assert failures(subject_of(thing)) == ["missing"]


SPIDERPOOL = {"cni.spidernet.io/rdma-resource-inject": "rail"}


def claim(*device_classes: str) -> dict[str, Any]:
    requests = [{"name": name, "exactly": {"deviceClassName": name}} for name in device_classes]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {"devices": {"requests": requests}},
    }


CLAIMS = {
    "an accelerator and a NIC": ((claim("gpu.nvidia.com", "dranet"),), []),
    "accelerators alone": ((claim("gpu.nvidia.com"),), [(Result.FAIL, "missing")]),
    "not known": ((), [(Result.ERROR, "unknown")]),
}


@pytest.mark.parametrize(("facts", "expected"), CLAIMS.values(), ids=CLAIMS.keys())
def test_a_device_claim_counts_for_what_it_is(
    facts: tuple[dict[str, Any], ...], expected: list[tuple[Result, str]]
) -> None:
    thing = worker(
        container(resources={"cpu": "1"}), resourceClaims=[{"name": "c", "resourceClaimName": "c"}]
    )
    found = findings(subject_of(thing, facts=facts))
    assert [(finding.result, finding.text) for finding in found] == expected


def test_what_another_webhook_will_inject_is_not_missed_in_a_file() -> None:
    annotated = worker()
    annotated["metadata"]["annotations"] = SPIDERPOOL
    namespace = {"kind": "Namespace", "metadata": {"name": "team", "annotations": SPIDERPOOL}}
    for subject in (
        subject_of(annotated, from_api_server=False),
        subject_of(worker(), facts=(namespace,), from_api_server=False),
    ):
        assert [(finding.result, finding.text) for finding in findings(subject)] == [
            (Result.SKIP, "injected")
        ]
    assert failures(subject_of(annotated)) == ["missing"]


def test_wrong_types_are_absent() -> None:
    thing = worker(
        container(env="a", securityContext=["b"], volumeMounts=7), hostNetwork="true", volumes=[None, 3]
    )
    assert failures(subject_of(thing)) == ["missing"]


@pytest.mark.parametrize("name", [{"add": ["x"]}, ["ib"], 7, None])
def test_a_volume_and_a_mount_whose_names_are_no_texts_are_not_each_others(name: Any) -> None:
    thing = worker(
        container(volumeMounts=[{"name": name, "mountPath": "/dev/infiniband"}]),
        hostNetwork=True,
        volumes=[{"name": name, "hostPath": {"path": "/dev/infiniband"}}],
    )
    assert failures(subject_of(thing)) == ["missing"]
