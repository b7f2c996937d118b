"""The policies that place, rank, connect and limit accelerator pods: what they are for, and what they must leave alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.rules.reviewing import GPU, Json, container, managed, request_of, without_record
from webhook.documents import listed_objects, read_documents
from webhook.engine import Gate, Outcome, mutate, validate
from webhook.engine.texts import say
from webhook.facts import Facts
from webhook.policy import Loaded, load_policy_set
from webhook.rules.base import Mode, Result

FOLDER = Path(__file__).parents[2] / "policies"
NAMES = ("ceph-storage", "gpu-limits", "gpu-placement", "gpu-placement-check", "rdma", "training-priority")
FILES = [(f"{name}.yaml", (FOLDER / f"{name}.yaml").read_bytes()) for name in ("accelerator-pools", *NAMES)]


def load() -> Loaded:
    return load_policy_set(FILES)


def prerequisites() -> list[Mapping[str, Any]]:
    objects: list[Mapping[str, Any]] = []
    for path in sorted((FOLDER / "prerequisites").glob("*.yaml")):
        reading = read_documents(path.read_bytes(), path.name, strict=False)
        assert reading.problems == ()
        objects += [thing for document in reading.documents for _, thing in listed_objects(document)]
    return objects


GATE = Gate(load().policy_set, Facts.from_objects(prerequisites()))


def test_they_load_without_a_word() -> None:
    assert load().problems == ()


def test_each_is_in_a_file_of_its_name_and_says_what_it_is_in_both_languages() -> None:
    policies = load().policy_set.policies
    assert {policy.name for policy in policies} == set(NAMES)
    for policy in policies:
        assert set(policy.title) == {"en", "zh"}, policy.name
        assert policy.mode is Mode.ENFORCE, policy.name


def test_all_that_they_refer_to_is_among_the_prerequisites() -> None:
    kinds = {(str(each["kind"]), str(each["metadata"]["name"])) for each in prerequisites()}
    assert {
        ("PriorityClass", "ai-train-high"),
        ("StorageClass", "ceph-block"),
        ("StorageClass", "ceph-filesystem"),
    } <= kinds


def test_they_audit_under_the_ceiling_with_which_they_are_installed() -> None:
    lowered = load_policy_set(FILES, mode_ceiling=Mode.AUDIT).policy_set
    gate = Gate(lowered, GATE.facts)
    assert mutate(gate, request("trainer", TRAINER)).patch == []
    assert validate(gate, request("greedy", GREEDY)).allowed


# Pods as an API server shows them to a webhook: defaulted, with the Priority plugin's numbers.

NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}


def served(
    *containers: Json,
    namespace: str = "training",
    labels: Mapping[str, str] | None = None,
    owner: tuple[str, str] | None = None,
    wrote: tuple[tuple[str, ...], ...] = (),
    **spec: Any,
) -> Json:
    metadata: Json = {
        "generateName": "w-",
        "namespace": namespace,
        "labels": dict(labels or {}),
        "managedFields": managed(("spec", "containers"), *wrote),
    }
    if owner:
        kind, version = owner
        metadata["ownerReferences"] = [
            {"apiVersion": version, "kind": kind, "name": "o", "uid": "u", "controller": True}
        ]
    defaults = {
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [NOT_READY],
        "securityContext": {},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**defaults, "containers": list(containers), **spec},
    }


def request(name: str, thing: Json) -> Any:
    return request_of(thing, name="", namespace=thing["metadata"]["namespace"], username=name)


PYTORCH = {"training.kubeflow.org/job-name": "j", "training.kubeflow.org/replica-type": "worker"}
TORCH_ENV = [{"name": "PET_NNODES", "value": "4"}]
TRAINER = served(
    container("istio-proxy"),
    container("pytorch", {GPU: "8", "cpu": "64"}, env=TORCH_ENV),
    labels=PYTORCH,
    owner=("PyTorchJob", "kubeflow.org/v1"),
)
GREEDY = served(container("pytorch", {GPU: "16"}, env=TORCH_ENV), labels=PYTORCH)
PREFILL = {"llm-d.ai/role": "prefill"}

NVIDIA_NODES = {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}
NVIDIA_TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
SLOT = {"rdma/rdma_shared_device_a": "1"}


def nodes(*requirements: Json) -> Json:
    terms = [{"matchExpressions": list(requirements)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


PLACED = {"affinity": nodes(NVIDIA_NODES), "tolerations": [NOT_READY, NVIDIA_TOLERATION]}
TRAINING = {"priorityClassName": "ai-train-high", "priority": 1_000_000}


def with_slot(name: str, gpus: str, *, lock: bool, **fields: Any) -> Json:
    resources = {**({"cpu": fields.pop("cpu")} if "cpu" in fields else {}), GPU: gpus, **SLOT}
    security = {"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}} if lock else {}
    return container(name, resources, **fields, **security)


WORKLOADS: Mapping[str, tuple[Json, Json, list[str]]] = {
    "a web server": (served(container("nginx"), namespace="web"), {}, []),
    "a nightly backup": (served(container("backup"), owner=("Job", "batch/v1")), {}, []),
    "an MPI launcher without GPUs": (
        served(container("launcher"), labels={**PYTORCH, "training.kubeflow.org/job-role": "launcher"}),
        {},
        [],
    ),
    "a Helm chart that asks for zero GPUs": (served(container("ollama", {GPU: "0"})), {}, []),
    "an Ascend 310, whose nodes have other labels": (
        served(container("npu", {"huawei.com/Ascend310": "1"}), owner=("ReplicaSet", "apps/v1")),
        {},
        [],
    ),
    "a multi-node PyTorchJob": (
        TRAINER,
        {
            **PLACED,
            **TRAINING,
            "containers": [
                container("istio-proxy"),
                with_slot("pytorch", "8", cpu="64", env=TORCH_ENV, lock=True),
            ],
        },
        [],
    ),
    "a training Job on one node": (
        served(container("main", {GPU: "4"}), owner=("Job", "batch/v1")),
        {**PLACED, **TRAINING},
        [],
    ),
    "a training pod whose author chose a class": (
        served(
            container("main", {GPU: "1"}),
            owner=("Job", "batch/v1"),
            wrote=(("spec", "priorityClassName"),),
            priorityClassName="ai-interactive",
            priority=100_000,
            preemptionPolicy="Never",
        ),
        PLACED,
        ["training-priority/class skip: the pod keeps its own priority class ai-interactive"],
    ),
    "a model server": (
        served(container("vllm", {GPU: "1"}), namespace="serving", owner=("ReplicaSet", "apps/v1")),
        PLACED,
        [],
    ),
    "a prefill server": (
        served(container("vllm", {GPU: "2"}), namespace="serving", labels=PREFILL),
        {**PLACED, "containers": [with_slot("vllm", "2", lock=True)]},
        [],
    ),
    "a prefill server where IPC_LOCK is forbidden": (
        served(container("vllm", {GPU: "2"}), namespace="web", labels=PREFILL),
        {**PLACED, "containers": [with_slot("vllm", "2", lock=False)]},
        ["rdma/devices skip: IPC_LOCK is left out: namespace web enforces the Pod Security level baseline"],
    ),
    "a prefill server on the host's network": (
        served(container("vllm", {GPU: "2"}), namespace="serving", labels=PREFILL, hostNetwork=True),
        PLACED,
        ["rdma/devices skip: the pod uses the host's network, so no RDMA is added"],
    ),
    "a prefill server on a MIG slice": (
        served(container("vllm", {"nvidia.com/mig-3g.40gb": "1"}), namespace="serving", labels=PREFILL),
        PLACED,
        [],
    ),
    "a notebook": (
        served(
            container("jupyter", {GPU: "1"}), labels={"notebook-name": "n"}, owner=("StatefulSet", "apps/v1")
        ),
        PLACED,
        [],
    ),
    "an AMD pod": (
        served(container("rocm", {"amd.com/gpu": "1"}), owner=("ReplicaSet", "apps/v1")),
        {
            "affinity": nodes(
                {"key": "feature.node.kubernetes.io/amd-gpu", "operator": "In", "values": ["true"]}
            ),
            "tolerations": [NOT_READY, {"key": "amd.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        [],
    ),
    "a GPU pod that says all of it itself": (
        served(
            container("main", {GPU: "1"}),
            owner=("ReplicaSet", "apps/v1"),
            nodeSelector={"nvidia.com/gpu.present": "true"},
            tolerations=[NVIDIA_TOLERATION],
        ),
        {},
        [],
    ),
}


def findings(outcome: Outcome) -> list[str]:
    return [
        f"{each.rule.key} {finding.result}: {say(each.rule, finding, 'en').message}"
        for each in outcome.reports
        for finding in each.findings
    ]


@pytest.mark.parametrize(("thing", "changes", "said"), WORKLOADS.values(), ids=WORKLOADS.keys())
def test_what_becomes_of_a_workload(thing: Json, changes: Json, said: list[str]) -> None:
    outcome = mutate(GATE, request("user", thing))
    assert without_record(outcome.object) == {**thing, "spec": {**thing["spec"], **changes}}
    assert (outcome.patch == []) is (not changes)
    assert findings(outcome) == said
    again = mutate(GATE, request("user", dict(outcome.object or {})))
    assert again.patch == [], "twice must be once"
    verdict = validate(GATE, request("user", dict(outcome.object or {})))
    assert verdict.allowed
    assert all(each.result is not Result.FAIL for each in verdict.reports)


TOO_MANY = "gpu-limits/cap fail: 16 nvidia.com/gpu asked, at most 8 per pod"
REFUSED: Mapping[str, tuple[Json, list[str]]] = {
    "sixteen GPUs": (
        GREEDY,
        [TOO_MANY],
    ),
    "two containers with sixteen": (
        served(container("a", {GPU: "8"}), container("b", {GPU: "8"}), labels=PYTORCH),
        [TOO_MANY],
    ),
    "request and limit differ": (
        served({"name": "a", "resources": {"limits": {GPU: "2"}, "requests": {GPU: "1"}}}),
        ["gpu-limits/cap fail: nvidia.com/gpu has request 1 and limit 2, which must be equal"],
    ),
    "a GPU pod pinned to a node": (
        served(container("a", {GPU: "1"}), nodeName="cpu-1"),
        [
            (
                "gpu-placement-check/nodes fail: the pod asks for 1 nvidia.com/gpu and is pinned to node cpu-1, past the"
                " scheduler, which alone knows where devices are free"
            )
        ],
    ),
    "a GPU pod kept off the GPU nodes": (
        served(container("a", {GPU: "1"}), nodeSelector={"nvidia.com/gpu.present": "false"}),
        [
            (
                "gpu-placement-check/nodes fail: the pod asks for 1 nvidia.com/gpu but its placement (nvidia.com/gpu.present"
                " In [false]) keeps it off the nodes that have them"
            )
        ],
    ),
}


@pytest.mark.parametrize(("thing", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(thing: Json, expected: list[str]) -> None:
    first = mutate(GATE, request("user", thing))
    assert first.allowed, "/mutate never refuses"
    verdict = validate(GATE, request("user", dict(first.object or {})))
    assert not verdict.allowed
    assert set(expected) <= {line for line in findings(verdict) if " fail: " in line}


def test_eight_are_allowed() -> None:
    eight = served(container("a", {GPU: "8"}), initContainers=[container("check", {GPU: "8"})])
    stored = mutate(GATE, request("user", eight)).object
    assert validate(GATE, request("user", dict(stored or {}))).allowed


@pytest.mark.parametrize("gpus", [{}, {GPU: "1"}], ids=["alone", "beside a GPU"])
def test_a_device_claim_is_no_reason_to_refuse(gpus: Json) -> None:
    holder = container("main", gpus)
    holder.setdefault("resources", {})["claims"] = [{"name": "d"}]
    thing = served(holder, resourceClaims=[{"name": "d", "resourceClaimName": "c"}], labels=PYTORCH)
    stored = mutate(GATE, request("user", thing)).object
    assert validate(GATE, request("user", dict(stored or {}))).allowed


def claim(*modes: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
    metadata = {
        "name": "c",
        "namespace": "training",
        "annotations": dict(annotations or {}),
        "managedFields": managed(),
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {"accessModes": list(modes), **spec},
    }


CLAIMS: Mapping[str, tuple[Json, str | None]] = {
    "one node": (claim("ReadWriteOnce"), "ceph-block"),
    "one pod": (claim("ReadWriteOncePod"), "ceph-block"),
    "many nodes": (claim("ReadWriteMany"), "ceph-filesystem"),
    "many readers": (claim("ReadOnlyMany"), "ceph-filesystem"),
    "read sequentially": (
        claim("ReadWriteOnce", annotations={"podgate.dev/io-pattern": "sequential"}),
        "ceph-filesystem",
    ),
    "many nodes, a block volume": (claim("ReadWriteMany", volumeMode="Block"), None),
    "no class is wanted": (claim("ReadWriteOnce", storageClassName=""), ""),
    "a chosen class": (claim("ReadWriteOnce", storageClassName="local-path"), "local-path"),
    "an existing volume": (claim("ReadWriteOnce", volumeName="pv"), None),
}


@pytest.mark.parametrize(("thing", "expected"), CLAIMS.values(), ids=CLAIMS.keys())
def test_which_class_a_claim_gets(thing: Json, expected: str | None) -> None:
    outcome = mutate(GATE, request("user", thing))
    assert (outcome.object or {})["spec"].get("storageClassName") == expected
    assert validate(GATE, request("user", dict(outcome.object or {}))).allowed


def test_an_ephemeral_volume_gets_a_class_and_a_pod_without_one_costs_nothing() -> None:
    volume = {
        "name": "scratch",
        "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}},
    }
    outcome = mutate(GATE, request("user", served(container("web"), volumes=[volume])))
    assert [(change.rule, change.after) for change in outcome.changes] == [
        ("ceph-storage/class", "ceph-block")
    ]


def test_the_schedule_of_rules_places_before_it_asks_for_rdma() -> None:
    names = [policy.name for policy in load().policy_set.policies]
    assert names.index("gpu-placement") < names.index("rdma")
