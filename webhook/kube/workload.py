"""What a pod is: training, inference or a notebook, how far it talks, and which accelerators it asks for.

Every answer carries its evidence: the label, annotation, variable or owner that decided. Labels alone never
make a pod ask for an accelerator: a launcher, a head or a router carries its gang's labels and needs none.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, cast, get_args

from webhook.documents import Path
from webhook.kube.accelerators import Catalogue
from webhook.kube.devices import SHARING_ANNOTATIONS, AskedDevices, asked_devices
from webhook.kube.field_path import list_at
from webhook.kube.pod import Container, Requests

WorkloadClass = Literal["training", "inference", "notebook", "other"]
Communication = Literal["multiNode", "disaggregated", "none"]

WORKLOAD_LABEL = "podgate.dev/workload"
"""The label by which the owner of a pod declares its class."""

WORKLOAD_CLASSES: tuple[WorkloadClass, ...] = get_args(WorkloadClass)


class Workload(NamedTuple):
    """What is known about a pod, and why.

    Attributes:
        workload_class: What the pod does.
        class_evidence: What decided that, for people to read.
        communication: Whether it talks to accelerators on other nodes.
        communication_evidence: What decided that.
        accelerators: Effective number of devices by resource name, above zero.
        vendors: Whose devices these are; claims of a class that nobody knows add none.
        claims_devices: Whether it has DRA claims, which may be devices and cannot be counted.
        sharing: How its devices are shared.
        asks_for_accelerator: Whether it asks for a device: one that is counted, or a claim that cannot be.
        holders: Paths of the containers that hold a device or a claim.
        owner: The kind of its controller, empty if there is none.
    """

    workload_class: WorkloadClass
    class_evidence: str
    communication: Communication
    communication_evidence: str
    accelerators: Mapping[str, int]
    vendors: frozenset[str]
    claims_devices: bool
    asks_for_accelerator: bool
    sharing: frozenset[str]
    holders: tuple[Path, ...]
    owner: str


def inspect_workload(
    pod: Mapping[str, Any], catalogue: Catalogue, asking: Iterable[tuple[Container, Requests]] | None = None
) -> Workload:
    """What a pod is, by its labels, owner, environment and the devices it asks for.

    Args:
        pod: as the API server stores it; wrong types count as absent.
        catalogue: which resource names are accelerators.
        asking: see `asked_devices`.
    """
    devices = asked_devices(pod, catalogue, asking)
    traits = _read_traits(pod, devices)
    workload_class, class_evidence = _classify(traits)
    communication, communication_evidence = _communicate(traits, workload_class)
    return Workload(
        workload_class=workload_class,
        class_evidence=class_evidence,
        communication=communication,
        communication_evidence=communication_evidence,
        accelerators=devices.counts,
        vendors=devices.vendors,
        claims_devices=devices.has_claims,
        asks_for_accelerator=traits.has_device,
        sharing=devices.sharing,
        holders=devices.holders,
        owner=traits.owner_kind,
    )


def is_classifying_label(key: str) -> bool:
    """Whether a label decides about the class or the communication of a pod.

    A rule that sets labels must not set this one: the next review would see another pod.
    """
    return key in _CLASSIFYING_LABELS


def is_classifying_annotation(key: str) -> bool:
    """Whether an annotation decides about the accelerators or the communication of a pod; see `is_classifying_label`."""
    return key == _LWS_SIZE or key in SHARING_ANNOTATIONS


def is_classifying_variable(name: str) -> bool:
    """Whether an environment variable decides about the communication of a pod; see `is_classifying_label`."""
    return name in _CLASSIFYING_VARIABLES or _names_volcano_hosts(name)


class _Traits(NamedTuple):
    """What the class and the communication are read from."""

    pod: Mapping[str, Any]
    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    owner_kind: str
    owner_group: str
    devices: AskedDevices
    has_device: bool


class _LabelRule(NamedTuple):
    """A label that decides about the class: with one of the values, or with any where none is named."""

    key: str
    workload_class: WorkloadClass
    values: tuple[str, ...] = ()
    not_owned_by: str = ""


# The first that holds decides. Sources: the operators' own constants, named in the order of the lines.
_LABEL_RULES = (
    # kubeflow/notebooks@notebooks-v1 notebook_controller.go, @notebooks-v2; jupyterhub/kubespawner
    _LabelRule("notebook-name", "notebook"),
    _LabelRule("notebooks.kubeflow.org/workspace-name", "notebook"),
    _LabelRule("hub.jupyter.org/username", "notebook"),
    # ray-project/kuberay:ray-operator/controllers/ray/utils/constant.go
    _LabelRule("ray.io/originated-from-crd", "inference", ("RayService",)),
    _LabelRule("ray.io/originated-from-crd", "training", ("RayJob",)),
    # Only pods of a RayService have it, true on workers and false on heads: ray-operator/controllers/ray/common/pod.go
    _LabelRule("ray.io/serve", "inference"),
    # kubeflow/training-operator:pkg/apis/kubeflow.org/v1/common_types.go, mpi-operator, trainer
    _LabelRule("training.kubeflow.org/job-name", "training"),
    _LabelRule("training.kubeflow.org/operator-name", "training"),
    _LabelRule("training.kubeflow.org/replica-type", "training"),
    _LabelRule("training.kubeflow.org/job-role", "training"),
    _LabelRule("trainer.kubeflow.org/trainjob-ancestor-step", "training"),
    # kserve/kserve:pkg/constants/constants.go
    _LabelRule("serving.kserve.io/inferenceservice", "inference"),
    _LabelRule("serving.kserve.io/inferencegraph", "inference"),
    _LabelRule("llm-d.ai/role", "inference"),
    _LabelRule("kserve.io/component", "inference", ("workload",)),
    _LabelRule("app.kubernetes.io/part-of", "inference", ("llminferenceservice", "nim-service")),
    # ai-dynamo/dynamo:deploy/operator/internal/consts/consts.go
    _LabelRule("nvidia.com/dynamo-graph-deployment-name", "inference"),
    _LabelRule("nvidia.com/dynamo-component", "inference"),
    _LabelRule("nvidia.com/dynamo-component-type", "inference"),
    _LabelRule("nvidia.com/dynamo-sub-component-type", "inference"),
    # NVIDIA/k8s-nim-operator, vllm-project/production-stack, vllm-project/aibrix, sgl-project/ome
    _LabelRule("app.kubernetes.io/managed-by", "inference", ("k8s-nim-operator",)),
    _LabelRule("app.kubernetes.io/component", "inference", ("serving-engine",)),
    _LabelRule("model.aibrix.ai/name", "inference"),
    _LabelRule("storm-service-name", "inference"),
    _LabelRule("ome.io/inferenceservice", "inference"),
    # kaito-project/kaito:api/v1beta1/labels.go; its fine-tuning runs as a Job
    _LabelRule("kaito.sh/inference-role", "inference"),
    _LabelRule("kaito.sh/workspace", "inference", not_owned_by="Job"),
    # kubernetes-sigs/jobset:api/jobset/v1alpha2, volcano-sh/volcano:batch/v1alpha1/labels.go
    _LabelRule("jobset.sigs.k8s.io/jobset-name", "training"),
    _LabelRule("volcano.sh/job-name", "training"),
    # kubernetes-sigs/lws: used for both, mostly to serve; what trains says so by a label above
    _LabelRule("leaderworkerset.sigs.k8s.io/name", "inference"),
)

# Kinds that only AI frameworks have: their pods need no accelerator to belong to the class.
_FRAMEWORK_OWNERS: Mapping[str, WorkloadClass] = {
    "PyTorchJob": "training",
    "TFJob": "training",
    "MPIJob": "training",
    "XGBoostJob": "training",
    "PaddleJob": "training",
    "JAXJob": "training",
    "TrainJob": "training",
    "AscendJob": "training",
    "RayJob": "training",
    "RayService": "inference",
    "InferenceService": "inference",
    "LLMInferenceService": "inference",
    "Notebook": "notebook",
}
# Kinds that run anything: they tell the class of pods with an accelerator. A nightly backup is a Job, too.
_GENERAL_OWNERS: Mapping[str, WorkloadClass] = {
    "Job": "training",
    "CronJob": "training",
    "Workflow": "training",
    "Deployment": "inference",
    "ReplicaSet": "inference",
    "StatefulSet": "inference",
    "LeaderWorkerSet": "inference",
    "PodClique": "inference",
}
FRAMEWORK_OWNERS = frozenset(_FRAMEWORK_OWNERS)
"""Kinds of owners whose pods are of a class other than `other` without asking for an accelerator; so are Volcano's Jobs."""

FRAMEWORK_LABELS: Mapping[str, frozenset[str]] = {
    WORKLOAD_LABEL: frozenset(WORKLOAD_CLASSES),
    **{rule.key: frozenset() for rule in _LABEL_RULES if not rule.values},
    **{
        key: frozenset(value for rule in _LABEL_RULES if rule.key == key for value in rule.values)
        for key in (rule.key for rule in _LABEL_RULES if rule.values)
    },
}
"""Labels that give a pod a class without an accelerator, with the values that do; an empty set where any does."""

VOLCANO_GROUP = "batch.volcano.sh"
_RAY_CLUSTER = "ray.io/cluster"


def _classify(traits: _Traits) -> tuple[WorkloadClass, str]:
    declared = traits.labels.get(WORKLOAD_LABEL)
    if declared in WORKLOAD_CLASSES:
        return cast("WorkloadClass", declared), f"label {WORKLOAD_LABEL}"
    for rule in _LABEL_RULES:
        if rule.key in traits.labels and _rule_holds(rule, traits):
            return rule.workload_class, _label_evidence(
                rule.key, traits.labels[rule.key] if rule.values else ""
            )
    return _classify_by_owner(traits)


def _rule_holds(rule: _LabelRule, traits: _Traits) -> bool:
    value = traits.labels[rule.key]
    if not isinstance(value, str) or (rule.values and value not in rule.values):
        return False
    return not rule.not_owned_by or traits.owner_kind != rule.not_owned_by


def _classify_by_owner(traits: _Traits) -> tuple[WorkloadClass, str]:
    kind = traits.owner_kind
    if kind in _FRAMEWORK_OWNERS:
        return _FRAMEWORK_OWNERS[kind], f"owner {kind}"
    if kind == "Job" and traits.owner_group == VOLCANO_GROUP:
        return "training", f"owner Job of {VOLCANO_GROUP}"
    if not traits.has_device:
        return "other", "no accelerator, and no owner or label of an AI framework"
    if kind in _GENERAL_OWNERS:
        return _GENERAL_OWNERS[kind], f"owner {kind} of a pod with an accelerator"
    if _RAY_CLUSTER in traits.labels:
        return "other", f"label {_RAY_CLUSTER}: a Ray cluster trains and serves alike"
    return "other", "nothing says what it is"


def _communicate(traits: _Traits, workload_class: WorkloadClass) -> tuple[Communication, str]:
    if not traits.has_device:
        return "none", "no accelerator"
    if workload_class == "notebook":
        return "none", "a notebook"
    sharing = traits.devices.sharing
    if sharing and "none" not in sharing:
        return "none", f"shared accelerator ({', '.join(sorted(sharing))})"
    if evidence := _disaggregated(traits.labels):
        return "disaggregated", evidence
    if evidence := _multi_node_by_metadata(traits) or _multi_node_by_environment(traits):
        return "multiNode", evidence
    return "none", "nothing says that it spans nodes"


class _Half(NamedTuple):
    """A label that makes a pod one half of disaggregated serving; with `beside`, only next to that label."""

    key: str
    values: tuple[str, ...]
    beside: str = ""


_PREFILL_OR_DECODE = ("prefill", "decode")
_HALVES = (
    _Half("llm-d.ai/role", _PREFILL_OR_DECODE),
    _Half("nvidia.com/dynamo-sub-component-type", _PREFILL_OR_DECODE),
    _Half("nvidia.com/dynamo-component-type", _PREFILL_OR_DECODE),
    _Half(
        "app.kubernetes.io/component",
        tuple(f"llminferenceservice-workload{role}-prefill" for role in ("", "-leader", "-worker")),
    ),
    _Half("role-name", _PREFILL_OR_DECODE, beside="storm-service-name"),
)


def _disaggregated(labels: Mapping[str, Any]) -> str:
    for half in _HALVES:
        value = labels.get(half.key)
        if value in half.values and (not half.beside or half.beside in labels):
            return _label_evidence(half.key, value)
    return ""


_LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
_JOBSET_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"
_JOBSET_ALL_REPLICAS = "jobset.sigs.k8s.io/global-replicas"
_JOB_ROLE = "training.kubeflow.org/job-role"
_OPERATOR = "training.kubeflow.org/operator-name"
_REPLICA_TYPE = "training.kubeflow.org/replica-type"
_RAY_NODE_TYPE = "ray.io/node-type"
_RAY_HOST_INDEX = "ray.io/replica-host-index"
_VOLCANO_TASK = "volcano.sh/task-spec"
# PADDLE_NNODES: kubeflow/training-operator:pkg/controller.v1/paddlepaddle/envvar.go
# RAY_NODE_COUNT: kserve/kserve:pkg/constants/constants.go, of a predictor with a workerSpec
_NODE_COUNTS = ("LWS_GROUP_SIZE", "PET_NNODES", "PADDLE_NNODES", "RAY_NODE_COUNT")
# NUM_PROCESSES is JAX's: kubeflow/training-operator:pkg/controller.v1/jax/envvar.go
_PROCESS_COUNTS = ("WORLD_SIZE", "NUM_PROCESSES")
_PROCESSES_PER_NODE = "PET_NPROC_PER_NODE"
# Set where a TFJob has several pods: kubeflow/training-operator:pkg/controller.v1/tensorflow/util.go (isDistributed)
_TENSORFLOW_CLUSTER = "TF_CONFIG"
_CLASSIFYING_VARIABLES = frozenset(
    {*_NODE_COUNTS, *_PROCESS_COUNTS, _PROCESSES_PER_NODE, _TENSORFLOW_CLUSTER}
)
_PODS_ARE_PROCESSES = ("training.kubeflow.org/job-name", "volcano.sh/job-name")


def _multi_node_by_metadata(traits: _Traits) -> str:
    labels, annotations = traits.labels, traits.annotations
    if (size := _count(annotations.get(_LWS_SIZE))) > 1:
        return f"annotation {_LWS_SIZE}={size}"
    # All jobs together include initializers and drivers: they count only where the replicas are not named.
    key = _JOBSET_REPLICAS if _JOBSET_REPLICAS in labels else _JOBSET_ALL_REPLICAS
    if (replicas := _count(labels.get(key))) > 1:
        return f"label {key}={replicas}"
    if labels.get(_JOB_ROLE) == "worker":
        return f"label {_JOB_ROLE}=worker"
    # The training operator's own MPIJob knows no role: pkg/controller.v1/mpi/mpijob.go (defaultWorkerLabels)
    if labels.get(_OPERATOR) == "mpijob-controller" and labels.get(_REPLICA_TYPE) == "worker":
        return f"label {_REPLICA_TYPE}=worker of an MPIJob"
    # KubeRay numbers the hosts of a replica only where a replica has several.
    if labels.get(_RAY_NODE_TYPE) == "worker" and _RAY_HOST_INDEX in labels:
        return f"label {_RAY_HOST_INDEX}"
    return ""


def _multi_node_by_environment(traits: _Traits) -> str:
    environment = _environment(traits)
    for name in _NODE_COUNTS:
        if (nodes := _count(environment.get(name))) > 1:
            return f"env {name}={nodes}"
    own = _own_processes(traits, environment)
    for name in _PROCESS_COUNTS:
        if (processes := _count(environment.get(name))) > own:
            return f"env {name}={processes}"
    if traits.labels.get(_OPERATOR) == "tfjob-controller" and _TENSORFLOW_CLUSTER in environment:
        return f"env {_TENSORFLOW_CLUSTER}"
    return _volcano_peer(traits, environment)


def _own_processes(traits: _Traits, environment: Mapping[str, Any]) -> int:
    """How many of the processes of a job run in this pod itself.

    The training operator sets PET_NPROC_PER_NODE where there are several, else it counts pods
    (kubeflow/training-operator:pkg/controller.v1/pytorch/envvar.go), as Volcano's pytorch plugin does. Elsewhere
    one process for each device is usual.
    """
    per_node = _count(environment.get(_PROCESSES_PER_NODE))
    if per_node or any(label in traits.labels for label in _PODS_ARE_PROCESSES):
        return max(1, per_node)
    return max(1, *traits.devices.counts.values()) if traits.devices.counts else 1


def _volcano_peer(traits: _Traits, environment: Mapping[str, Any]) -> str:
    """Evidence that a Volcano worker (worker, mpiworker, …) has another task to talk to.

    Volcano's svc plugin gives each task the hosts of all tasks, as VC_<TASK>_HOSTS
    (volcano-sh/volcano:pkg/controllers/job/plugins/svc).
    """
    task = traits.labels.get(_VOLCANO_TASK)
    if not isinstance(task, str) or not task.endswith("worker"):
        return ""
    own = f"VC_{task.upper().replace('-', '_')}_HOSTS"
    for name in environment:
        if _names_volcano_hosts(name) and name != own:
            return f"label {_VOLCANO_TASK}={task} beside another task"
    return ""


def _names_volcano_hosts(name: str) -> bool:
    return name.startswith("VC_") and name.endswith("_HOSTS")


def _environment(traits: _Traits) -> dict[str, Any]:
    """The variables of the containers that hold a device; a value from elsewhere is None."""
    return {
        name: item.get("value")
        for path in traits.devices.holders
        for item in list_at(traits.pod, (*path, "env"))
        if isinstance(item, dict) and isinstance(name := item.get("name"), str)
    }


def _read_traits(pod: Mapping[str, Any], devices: AskedDevices) -> _Traits:
    metadata, has_device = pod.get("metadata"), devices.has_claims or bool(devices.counts)
    if not isinstance(metadata, dict):
        return _Traits(pod, {}, {}, "", "", devices, has_device)
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    kind, group = _controller(metadata.get("ownerReferences"))
    return _Traits(
        pod,
        labels if isinstance(labels, dict) else {},
        annotations if isinstance(annotations, dict) else {},
        kind,
        group,
        devices,
        has_device,
    )


def _controller(references: object) -> tuple[str, str]:
    """Kind and API group of the owner that is the controller (kubernetes/apimachinery: GetControllerOf)."""
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("controller") is True:
            kind, version = reference.get("kind"), reference.get("apiVersion")
            group = version.rpartition("/")[0] if isinstance(version, str) else ""
            return (kind if isinstance(kind, str) else ""), group
    return "", ""


# More digits than any number of nodes or processes has.
_MAX_COUNT_DIGITS = 9


def _count(value: object) -> int:
    """The number in a label, annotation or variable, the larger one of ``1:4``; 0 where there is none."""
    if not isinstance(value, str):
        return 0
    text = value.rpartition(":")[2]
    return int(text) if len(text) <= _MAX_COUNT_DIGITS and text.isascii() and text.isdigit() else 0


def _label_evidence(key: str, value: str) -> str:
    return f"label {key}={value}" if value else f"label {key}"


_CLASSIFYING_LABELS = frozenset(
    {
        WORKLOAD_LABEL,
        *(rule.key for rule in _LABEL_RULES),
        *(key for half in _HALVES for key in (half.key, half.beside) if key),
        _RAY_CLUSTER,
        _JOBSET_REPLICAS,
        _JOBSET_ALL_REPLICAS,
        _RAY_NODE_TYPE,
        _RAY_HOST_INDEX,
        _VOLCANO_TASK,
    }
)
