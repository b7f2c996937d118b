from copy import deepcopy
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.workload import (
    Workload,
    inspect_workload,
    is_classifying_annotation,
    is_classifying_label,
    is_classifying_variable,
)

GPU = "nvidia.com/gpu"
KUBEFLOW = "training.kubeflow.org"
JOBSET = "jobset.sigs.k8s.io"
LWS = "leaderworkerset.sigs.k8s.io"


class Pod(NamedTuple):
    """A pod in the few words that matter here."""

    owner: str = ""
    gpus: int | str = 0
    labels: dict[str, Any] = {}
    env: dict[str, Any] = {}
    annotations: dict[str, str] = {}
    resource: str = GPU
    claims: bool = False

    def value(self) -> dict[str, Any]:
        version, _, kind = self.owner.rpartition("/")
        owner = {"apiVersion": f"{version}/v1", "kind": kind, "name": "owner", "controller": True}
        main: dict[str, Any] = {
            "name": "main",
            "image": "registry.local/ml/main:1",
            "env": [{"name": name, "value": value} for name, value in self.env.items()],
            "resources": {"limits": {self.resource: self.gpus, "cpu": "8"}} if self.gpus else {},
        }
        spec: dict[str, Any] = {"containers": [{"name": "proxy", "image": "envoy"}, main]}
        if self.claims:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
            main["resources"] = {"claims": [{"name": "gpu"}]}
        metadata = {"name": "pod", "labels": self.labels, "annotations": self.annotations}
        return {"metadata": {**metadata, "ownerReferences": [owner]} if kind else metadata, "spec": spec}


def inspect(pod: Pod) -> Workload:
    return inspect_workload(pod.value(), shipped_catalogue())


NO_DEVICE = "no accelerator"
NO_SIGN = "nothing says that it spans nodes"
NO_AI = "no accelerator, and no owner or label of an AI framework"
NOT_SAID = "nothing says what it is"

# Near misses first: pod, (class, evidence), (communication, evidence)
WORKLOADS: dict[str, tuple[Pod, tuple[str, str], tuple[str, str]]] = {
    "web server": (Pod("apps/ReplicaSet", labels={"app": "web"}), ("other", NO_AI), ("none", NO_DEVICE)),
    "nightly backup Job": (
        Pod("batch/Job", labels={"job-name": "backup"}),
        ("other", NO_AI),
        ("none", NO_DEVICE),
    ),
    "Job with zero GPUs": (Pod("batch/Job", gpus="0"), ("other", NO_AI), ("none", NO_DEVICE)),
    "database StatefulSet": (Pod("apps/StatefulSet"), ("other", NO_AI), ("none", NO_DEVICE)),
    "Argo step on CPUs": (
        Pod("argoproj.io/Workflow", labels={"workflows.argoproj.io/workflow": "etl"}),
        ("other", NO_AI),
        ("none", NO_DEVICE),
    ),
    "bare pod with a GPU": (Pod(gpus=1), ("other", NOT_SAID), ("none", NO_SIGN)),
    "device plugin DaemonSet with a GPU": (
        Pod("apps/DaemonSet", gpus=8),
        ("other", NOT_SAID),
        ("none", NO_SIGN),
    ),
    "Kueue labels say nothing of the class": (
        Pod(gpus=1, labels={"kueue.x-k8s.io/queue-name": "gpu"}),
        ("other", NOT_SAID),
        ("none", NO_SIGN),
    ),
    "a Job that only asks for an RDMA device": (
        Pod("batch/Job", gpus=1, resource="rdma/ib"),
        ("other", NO_AI),
        ("none", NO_DEVICE),
    ),
    "an owner that is not the controller's kind in case": (
        Pod("kubeflow.org/pytorchjob"),
        ("other", NO_AI),
        ("none", NO_DEVICE),
    ),
    "part-of another product": (
        Pod("apps/ReplicaSet", labels={"app.kubernetes.io/part-of": "shop"}),
        ("other", NO_AI),
        ("none", NO_DEVICE),
    ),
    "managed-by Helm": (
        Pod("apps/ReplicaSet", labels={"app.kubernetes.io/managed-by": "Helm"}),
        ("other", NO_AI),
        ("none", NO_DEVICE),
    ),
    "an unknown class is not declared": (
        Pod("batch/Job", gpus=1, labels={"podgate.dev/workload": "Training"}),
        ("training", "owner Job of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    "a label of the wrong type": (
        Pod(gpus=1, labels={f"{KUBEFLOW}/job-name": 7}),
        ("other", NOT_SAID),
        ("none", NO_SIGN),
    ),
    "declared": (
        Pod("batch/Job", labels={"podgate.dev/workload": "inference"}),
        ("inference", "label podgate.dev/workload"),
        ("none", NO_DEVICE),
    ),
    "declared other beats the framework": (
        Pod(gpus=1, labels={"podgate.dev/workload": "other", f"{KUBEFLOW}/job-name": "x"}),
        ("other", "label podgate.dev/workload"),
        ("none", NO_SIGN),
    ),
    # Jobs
    "8-GPU single-node Job": (
        Pod("batch/Job", gpus=8, env={"WORLD_SIZE": "8", "RANK": "0"}),
        ("training", "owner Job of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    "Job of 16 processes, 8 of them here": (
        Pod("batch/Job", gpus=8, env={"WORLD_SIZE": "16"}),
        ("training", "owner Job of a pod with an accelerator"),
        ("multiNode", "env WORLD_SIZE=16"),
    ),
    "Job with a DRA claim": (
        Pod("batch/Job", claims=True),
        ("training", "owner Job of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    "Job with torchrun over 4 nodes": (
        Pod("batch/Job", gpus=8, env={"PET_NNODES": "4"}),
        ("training", "owner Job of a pod with an accelerator"),
        ("multiNode", "env PET_NNODES=4"),
    ),
    "elastic from 1 to 4 nodes": (
        Pod("batch/Job", gpus=8, env={"PET_NNODES": "1:4"}),
        ("training", "owner Job of a pod with an accelerator"),
        ("multiNode", "env PET_NNODES=4"),
    ),
    "one node": (
        Pod("batch/Job", gpus=8, env={"PET_NNODES": "1"}),
        ("training", "owner Job of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    "a number of nodes that is none": (
        Pod(
            "batch/Job",
            gpus=8,
            env={"PET_NNODES": "9" * 5000, "WORLD_SIZE": "\u0662", "LWS_GROUP_SIZE": None},
        ),
        ("training", "owner Job of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    "Argo step with a GPU": (
        Pod("argoproj.io/Workflow", gpus=1),
        ("training", "owner Workflow of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    # Kubeflow
    "PyTorchJob worker, one process a pod": (
        Pod(
            "kubeflow.org/PyTorchJob",
            gpus=8,
            labels={f"{KUBEFLOW}/job-name": "llm", f"{KUBEFLOW}/replica-type": "worker"},
            env={"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "llm-master-0"},
        ),
        ("training", f"label {KUBEFLOW}/job-name"),
        ("multiNode", "env WORLD_SIZE=2"),
    ),
    "PyTorchJob of one pod with 8 processes": (
        Pod(
            "kubeflow.org/PyTorchJob",
            gpus=8,
            labels={f"{KUBEFLOW}/job-name": "llm", f"{KUBEFLOW}/replica-type": "master"},
            env={"WORLD_SIZE": "8", "PET_NPROC_PER_NODE": "8"},
        ),
        ("training", f"label {KUBEFLOW}/job-name"),
        ("none", NO_SIGN),
    ),
    "PyTorchJob of one pod": (
        Pod("kubeflow.org/PyTorchJob", gpus=8, labels={f"{KUBEFLOW}/job-name": "x"}, env={"WORLD_SIZE": "1"}),
        ("training", f"label {KUBEFLOW}/job-name"),
        ("none", NO_SIGN),
    ),
    "PyTorchJob by owner alone": (
        Pod("kubeflow.org/PyTorchJob", gpus=1),
        ("training", "owner PyTorchJob"),
        ("none", NO_SIGN),
    ),
    "TFJob parameter server on CPUs": (
        Pod("kubeflow.org/TFJob", labels={f"{KUBEFLOW}/operator-name": "tfjob-controller"}),
        ("training", f"label {KUBEFLOW}/operator-name"),
        ("none", NO_DEVICE),
    ),
    "MPI launcher": (
        Pod("batch/Job", labels={f"{KUBEFLOW}/job-name": "nccl", f"{KUBEFLOW}/job-role": "launcher"}),
        ("training", f"label {KUBEFLOW}/job-name"),
        ("none", NO_DEVICE),
    ),
    "MPI worker": (
        Pod(gpus=8, labels={f"{KUBEFLOW}/job-name": "nccl", f"{KUBEFLOW}/job-role": "worker"}),
        ("training", f"label {KUBEFLOW}/job-name"),
        ("multiNode", f"label {KUBEFLOW}/job-role=worker"),
    ),
    "MPI worker on MIG": (
        Pod(
            gpus=1,
            labels={f"{KUBEFLOW}/job-name": "nccl", f"{KUBEFLOW}/job-role": "worker"},
            resource="nvidia.com/mig-1g.5gb",
        ),
        ("training", f"label {KUBEFLOW}/job-name"),
        ("none", "shared accelerator (mig)"),
    ),
    "TrainJob node of 4": (
        Pod(
            "batch/Job",
            gpus=8,
            labels={f"{JOBSET}/jobset-name": "llama", f"{JOBSET}/replicatedjob-replicas": "1"},
            env={"PET_NNODES": "4", "PET_NPROC_PER_NODE": "8"},
        ),
        ("training", f"label {JOBSET}/jobset-name"),
        ("multiNode", "env PET_NNODES=4"),
    ),
    "TrainJob of one node with two initializers": (
        Pod(
            "batch/Job",
            gpus=8,
            labels={
                f"{JOBSET}/jobset-name": "llama",
                f"{JOBSET}/replicatedjob-replicas": "1",
                f"{JOBSET}/global-replicas": "3",
            },
            env={"PET_NNODES": "1"},
        ),
        ("training", f"label {JOBSET}/jobset-name"),
        ("none", NO_SIGN),
    ),
    "JobSet of 4 slices": (
        Pod(
            "batch/Job",
            gpus=4,
            labels={f"{JOBSET}/jobset-name": "maxtext", f"{JOBSET}/replicatedjob-replicas": "4"},
            resource="google.com/tpu",
        ),
        ("training", f"label {JOBSET}/jobset-name"),
        ("multiNode", f"label {JOBSET}/replicatedjob-replicas=4"),
    ),
    "JobSet that names only the total": (
        Pod("batch/Job", gpus=8, labels={f"{JOBSET}/jobset-name": "x", f"{JOBSET}/global-replicas": "2"}),
        ("training", f"label {JOBSET}/jobset-name"),
        ("multiNode", f"label {JOBSET}/global-replicas=2"),
    ),
    # Volcano
    "Volcano worker beside a master": (
        Pod(
            "batch.volcano.sh/Job",
            gpus=8,
            labels={"volcano.sh/job-name": "mpi", "volcano.sh/task-spec": "worker"},
            env={"VC_WORKER_HOSTS": None, "VC_MPIMASTER_HOSTS": None},
        ),
        ("training", "label volcano.sh/job-name"),
        ("multiNode", "label volcano.sh/task-spec=worker beside another task"),
    ),
    "Volcano worker alone": (
        Pod(
            "batch.volcano.sh/Job",
            gpus=8,
            labels={"volcano.sh/job-name": "one", "volcano.sh/task-spec": "worker"},
            env={"VC_WORKER_HOSTS": None},
        ),
        ("training", "label volcano.sh/job-name"),
        ("none", NO_SIGN),
    ),
    "Volcano worker of another name alone": (
        Pod(
            "batch.volcano.sh/Job",
            gpus=8,
            labels={"volcano.sh/job-name": "one", "volcano.sh/task-spec": "mpi-worker"},
            env={"VC_MPI_WORKER_HOSTS": None},
        ),
        ("training", "label volcano.sh/job-name"),
        ("none", NO_SIGN),
    ),
    "Volcano worker of another name": (
        Pod(
            "batch.volcano.sh/Job",
            gpus=8,
            labels={"volcano.sh/job-name": "mpi", "volcano.sh/task-spec": "mpi-worker"},
            env={"VC_MPI_WORKER_HOSTS": None, "VC_MPIMASTER_HOSTS": None},
        ),
        ("training", "label volcano.sh/job-name"),
        ("multiNode", "label volcano.sh/task-spec=mpi-worker beside another task"),
    ),
    "a Volcano task that is no worker": (
        Pod(
            "batch.volcano.sh/Job",
            gpus=8,
            labels={"volcano.sh/job-name": "mpi", "volcano.sh/task-spec": "evaluator"},
            env={"VC_WORKER_HOSTS": None, "VC_EVALUATOR_HOSTS": None},
        ),
        ("training", "label volcano.sh/job-name"),
        ("none", NO_SIGN),
    ),
    # The training operator's other jobs
    "TensorFlow's cluster outside of a TFJob": (
        Pod("batch/Job", gpus=8, env={"TF_CONFIG": "{}"}),
        ("training", "owner Job of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    "TFJob of several": (
        Pod(
            "kubeflow.org/TFJob",
            gpus=8,
            labels={f"{KUBEFLOW}/job-name": "x", f"{KUBEFLOW}/operator-name": "tfjob-controller"},
            env={"TF_CONFIG": '{"cluster": {}}'},
        ),
        ("training", f"label {KUBEFLOW}/job-name"),
        ("multiNode", "env TF_CONFIG"),
    ),
    "JAX, one process for each device": (
        Pod("batch/Job", gpus=8, env={"NUM_PROCESSES": "8"}),
        ("training", "owner Job of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    "JAXJob of two": (
        Pod("kubeflow.org/JAXJob", gpus=8, labels={f"{KUBEFLOW}/job-name": "x"}, env={"NUM_PROCESSES": "2"}),
        ("training", f"label {KUBEFLOW}/job-name"),
        ("multiNode", "env NUM_PROCESSES=2"),
    ),
    "PaddleJob of one": (
        Pod("kubeflow.org/PaddleJob", gpus=8, env={"PADDLE_NNODES": "1"}),
        ("training", "owner PaddleJob"),
        ("none", NO_SIGN),
    ),
    "PaddleJob of two": (
        Pod("kubeflow.org/PaddleJob", gpus=8, env={"PADDLE_NNODES": "2"}),
        ("training", "owner PaddleJob"),
        ("multiNode", "env PADDLE_NNODES=2"),
    ),
    "launcher of the training operator's MPIJob": (
        Pod(
            "kubeflow.org/MPIJob",
            gpus=8,
            labels={
                f"{KUBEFLOW}/operator-name": "mpijob-controller",
                f"{KUBEFLOW}/replica-type": "launcher",
            },
        ),
        ("training", f"label {KUBEFLOW}/operator-name"),
        ("none", NO_SIGN),
    ),
    "worker of the training operator's MPIJob": (
        Pod(
            "kubeflow.org/MPIJob",
            gpus=8,
            labels={f"{KUBEFLOW}/operator-name": "mpijob-controller", f"{KUBEFLOW}/replica-type": "worker"},
        ),
        ("training", f"label {KUBEFLOW}/operator-name"),
        ("multiNode", f"label {KUBEFLOW}/replica-type=worker of an MPIJob"),
    ),
    "worker of a RayService": (
        Pod("ray.io/RayCluster", gpus=8, labels={"ray.io/cluster": "c", "ray.io/serve": "true"}),
        ("inference", "label ray.io/serve"),
        ("none", NO_SIGN),
    ),
    "Volcano PyTorch plugin": (
        Pod("batch.volcano.sh/Job", gpus=8, labels={"volcano.sh/job-name": "pt"}, env={"WORLD_SIZE": "2"}),
        ("training", "label volcano.sh/job-name"),
        ("multiNode", "env WORLD_SIZE=2"),
    ),
    "Volcano Job by owner alone": (
        Pod("batch.volcano.sh/Job"),
        ("training", "owner Job of batch.volcano.sh"),
        ("none", NO_DEVICE),
    ),
    "AscendJob": (
        Pod(
            "mindxdl.gitee.com/AscendJob",
            gpus=8,
            labels={"ring-controller.atlas": "ascend-910b"},
            resource="huawei.com/Ascend910",
        ),
        ("training", "owner AscendJob"),
        ("none", NO_SIGN),
    ),
    # Serving
    "Deployment with a GPU": (
        Pod("apps/ReplicaSet", gpus=1, labels={"app": "vllm"}),
        ("inference", "owner ReplicaSet of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    "StatefulSet with a GPU": (
        Pod("apps/StatefulSet", gpus=1),
        ("inference", "owner StatefulSet of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    "vLLM production stack": (
        Pod("apps/ReplicaSet", gpus=1, labels={"app.kubernetes.io/component": "serving-engine"}),
        ("inference", "label app.kubernetes.io/component=serving-engine"),
        ("none", NO_SIGN),
    ),
    "KServe predictor": (
        Pod(
            "apps/ReplicaSet",
            gpus=1,
            labels={"serving.kserve.io/inferenceservice": "qwen", "component": "predictor"},
        ),
        ("inference", "label serving.kserve.io/inferenceservice"),
        ("none", NO_SIGN),
    ),
    "LLMInferenceService router": (
        Pod(
            "apps/ReplicaSet",
            labels={
                "app.kubernetes.io/part-of": "llminferenceservice",
                "app.kubernetes.io/component": "llminferenceservice-router",
            },
        ),
        ("inference", "label app.kubernetes.io/part-of=llminferenceservice"),
        ("none", NO_DEVICE),
    ),
    "LLMInferenceService prefill": (
        Pod(
            "apps/ReplicaSet",
            gpus=1,
            labels={
                "app.kubernetes.io/part-of": "llminferenceservice",
                "app.kubernetes.io/component": "llminferenceservice-workload-prefill",
            },
        ),
        ("inference", "label app.kubernetes.io/part-of=llminferenceservice"),
        ("disaggregated", "label app.kubernetes.io/component=llminferenceservice-workload-prefill"),
    ),
    "llm-d decode": (
        Pod("apps/ReplicaSet", gpus=1, labels={"llm-d.ai/role": "decode"}),
        ("inference", "label llm-d.ai/role"),
        ("disaggregated", "label llm-d.ai/role=decode"),
    ),
    "llm-d both halves in one pod": (
        Pod("apps/ReplicaSet", gpus=1, labels={"llm-d.ai/role": "both"}),
        ("inference", "label llm-d.ai/role"),
        ("none", NO_SIGN),
    ),
    "Dynamo prefill": (
        Pod(
            "grove.io/PodClique",
            gpus=4,
            labels={
                "nvidia.com/dynamo-graph-deployment-name": "ds",
                "nvidia.com/dynamo-sub-component-type": "prefill",
            },
        ),
        ("inference", "label nvidia.com/dynamo-graph-deployment-name"),
        ("disaggregated", "label nvidia.com/dynamo-sub-component-type=prefill"),
    ),
    "Grove clique without Dynamo": (
        Pod("grove.io/PodClique", gpus=1),
        ("inference", "owner PodClique of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    "Dynamo frontend": (
        Pod("grove.io/PodClique", labels={"nvidia.com/dynamo-component-type": "frontend"}),
        ("inference", "label nvidia.com/dynamo-component-type"),
        ("none", NO_DEVICE),
    ),
    "NIM": (
        Pod("apps/ReplicaSet", gpus=2, labels={"app.kubernetes.io/managed-by": "k8s-nim-operator"}),
        ("inference", "label app.kubernetes.io/managed-by=k8s-nim-operator"),
        ("none", NO_SIGN),
    ),
    "AIBrix decode role": (
        Pod(gpus=1, labels={"storm-service-name": "1p1d", "role-name": "decode"}),
        ("inference", "label storm-service-name"),
        ("disaggregated", "label role-name=decode"),
    ),
    "a role-name of somebody else": (
        Pod("apps/ReplicaSet", gpus=1, labels={"role-name": "decode"}),
        ("inference", "owner ReplicaSet of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    "OME": (
        Pod("apps/ReplicaSet", gpus=8, labels={"ome.io/inferenceservice": "r1"}),
        ("inference", "label ome.io/inferenceservice"),
        ("none", NO_SIGN),
    ),
    "KAITO serving": (
        Pod("apps/StatefulSet", gpus=1, labels={"kaito.sh/workspace": "phi"}),
        ("inference", "label kaito.sh/workspace"),
        ("none", NO_SIGN),
    ),
    "KAITO fine-tuning": (
        Pod("batch/Job", gpus=1, labels={"kaito.sh/workspace": "phi"}),
        ("training", "owner Job of a pod with an accelerator"),
        ("none", NO_SIGN),
    ),
    # LeaderWorkerSet
    "LWS of two": (
        Pod("apps/StatefulSet", gpus=8, labels={f"{LWS}/name": "vllm"}, annotations={f"{LWS}/size": "2"}),
        ("inference", f"label {LWS}/name"),
        ("multiNode", f"annotation {LWS}/size=2"),
    ),
    "LWS of two, by its variable": (
        Pod("apps/StatefulSet", gpus=8, labels={f"{LWS}/name": "vllm"}, env={"LWS_GROUP_SIZE": "2"}),
        ("inference", f"label {LWS}/name"),
        ("multiNode", "env LWS_GROUP_SIZE=2"),
    ),
    "LWS of one": (
        Pod("apps/StatefulSet", gpus=8, labels={f"{LWS}/name": "vllm"}, annotations={f"{LWS}/size": "1"}),
        ("inference", f"label {LWS}/name"),
        ("none", NO_SIGN),
    ),
    "LWS that trains": (
        Pod("apps/StatefulSet", gpus=8, labels={f"{LWS}/name": "x", f"{KUBEFLOW}/job-name": "x"}),
        ("training", f"label {KUBEFLOW}/job-name"),
        ("none", NO_SIGN),
    ),
    # Ray
    "RayService worker": (
        Pod(
            "ray.io/RayCluster",
            gpus=1,
            labels={
                "ray.io/cluster": "c",
                "ray.io/originated-from-crd": "RayService",
                "ray.io/node-type": "worker",
            },
        ),
        ("inference", "label ray.io/originated-from-crd=RayService"),
        ("none", NO_SIGN),
    ),
    "RayJob head on CPUs": (
        Pod(
            "ray.io/RayCluster",
            labels={
                "ray.io/cluster": "c",
                "ray.io/originated-from-crd": "RayJob",
                "ray.io/node-type": "head",
            },
        ),
        ("training", "label ray.io/originated-from-crd=RayJob"),
        ("none", NO_DEVICE),
    ),
    "Ray worker on one of several hosts": (
        Pod(
            "ray.io/RayCluster",
            gpus=4,
            labels={
                "ray.io/originated-from-crd": "RayJob",
                "ray.io/node-type": "worker",
                "ray.io/replica-host-index": "0",
            },
            resource="google.com/tpu",
        ),
        ("training", "label ray.io/originated-from-crd=RayJob"),
        ("multiNode", "label ray.io/replica-host-index"),
    ),
    "Ray cluster of unknown use": (
        Pod("ray.io/RayCluster", gpus=1, labels={"ray.io/cluster": "c", "ray.io/node-type": "worker"}),
        ("other", "label ray.io/cluster: a Ray cluster trains and serves alike"),
        ("none", NO_SIGN),
    ),
    # Notebooks
    "Kubeflow notebook": (
        Pod("apps/StatefulSet", gpus=1, labels={"notebook-name": "mine", "statefulset": "mine"}),
        ("notebook", "label notebook-name"),
        ("none", "a notebook"),
    ),
    "Kubeflow workspace without a GPU": (
        Pod("apps/StatefulSet", labels={"notebooks.kubeflow.org/workspace-name": "mine"}),
        ("notebook", "label notebooks.kubeflow.org/workspace-name"),
        ("none", NO_DEVICE),
    ),
    "JupyterHub server": (
        Pod(gpus=1, labels={"hub.jupyter.org/username": "alice", "component": "singleuser-server"}),
        ("notebook", "label hub.jupyter.org/username"),
        ("none", "a notebook"),
    ),
    "a notebook never spans nodes": (
        Pod("apps/StatefulSet", gpus=8, labels={"notebook-name": "mine"}, env={"WORLD_SIZE": "64"}),
        ("notebook", "label notebook-name"),
        ("none", "a notebook"),
    ),
    # Shared devices
    "time-sliced prefill": (
        Pod("apps/ReplicaSet", gpus=1, labels={"llm-d.ai/role": "prefill"}, resource="nvidia.com/gpu.shared"),
        ("inference", "label llm-d.ai/role"),
        ("none", "shared accelerator (timeSlice)"),
    ),
    "HAMi memory only": (
        Pod("apps/ReplicaSet", gpus=4000, resource="nvidia.com/gpumem"),
        ("inference", "owner ReplicaSet of a pod with an accelerator"),
        ("none", "shared accelerator (memorySlice)"),
    ),
    "prefill with a DRA claim": (
        Pod("apps/ReplicaSet", labels={"llm-d.ai/role": "prefill"}, claims=True),
        ("inference", "label llm-d.ai/role"),
        ("disaggregated", "label llm-d.ai/role=prefill"),
    ),
}


@pytest.mark.parametrize(("pod", "workload_class", "communication"), WORKLOADS.values(), ids=WORKLOADS)
def test_says_what_a_pod_is_and_why(
    pod: Pod, workload_class: tuple[str, str], communication: tuple[str, str]
) -> None:
    value = pod.value()
    before = deepcopy(value)
    found = inspect_workload(value, shipped_catalogue())
    assert (found.workload_class, found.class_evidence) == workload_class
    assert (found.communication, found.communication_evidence) == communication
    assert value == before


def test_is_no_accelerator_pod_by_labels_alone() -> None:
    found = inspect(
        Pod("batch/Job", labels={f"{KUBEFLOW}/job-name": "x", f"{KUBEFLOW}/job-role": "launcher"})
    )
    assert not found.asks_for_accelerator
    assert (found.accelerators, found.holders, found.vendors, found.sharing) == (
        {},
        (),
        frozenset(),
        frozenset(),
    )


def test_tells_what_it_asks_for() -> None:
    assert inspect(Pod("kubeflow.org/PyTorchJob", gpus=8)) == Workload(
        workload_class="training",
        class_evidence="owner PyTorchJob",
        communication="none",
        communication_evidence=NO_SIGN,
        accelerators={GPU: 8},
        vendors=frozenset({"nvidia"}),
        claims_devices=False,
        asks_for_accelerator=True,
        sharing=frozenset({"none"}),
        holders=(("spec", "containers", 1),),
        owner="PyTorchJob",
    )


def test_a_claim_asks_for_an_accelerator() -> None:
    found = inspect(Pod(claims=True))
    assert (found.asks_for_accelerator, found.claims_devices, found.accelerators) == (True, True, {})


def test_variables_count_only_where_the_device_is() -> None:
    pod = Pod("batch/Job", gpus=8).value()
    pod["spec"]["containers"][0]["env"] = [{"name": "PET_NNODES", "value": "4"}]
    assert inspect_workload(pod, shipped_catalogue()).communication == "none"


def test_a_whole_device_beside_a_shared_one_may_span_nodes() -> None:
    pod = Pod("batch/Job", gpus=8, env={"PET_NNODES": "4"}).value()
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-1g.5gb": 1}}
    assert inspect_workload(pod, shipped_catalogue()).communication == "multiNode"


@pytest.mark.parametrize(
    ("references", "owner"),
    [
        pytest.param(None, "", id="null"),
        pytest.param([], "", id="none"),
        pytest.param({"kind": "Job", "controller": True}, "", id="no list"),
        pytest.param([{"kind": "Job"}], "", id="an owner that does not control"),
        pytest.param([{"kind": "Job", "controller": "true"}], "", id="controller as text"),
        pytest.param([None, "Job", {"kind": 7, "controller": True}], "", id="odd entries"),
        pytest.param([{"kind": "A"}, {"kind": "Job", "controller": True}], "Job", id="the second controls"),
    ],
)
def test_reads_the_controller(references: Any, owner: str) -> None:
    found = inspect_workload({"metadata": {"ownerReferences": references}}, shipped_catalogue())
    assert found.owner == owner


@pytest.mark.parametrize(
    "key",
    [
        "podgate.dev/workload",
        f"{KUBEFLOW}/job-name",
        f"{KUBEFLOW}/job-role",
        f"{JOBSET}/replicatedjob-replicas",
        f"{LWS}/name",
        "llm-d.ai/role",
        "notebook-name",
        "role-name",
        "storm-service-name",
        "app.kubernetes.io/component",
        "ray.io/cluster",
        "ray.io/serve",
        "volcano.sh/task-spec",
    ],
)
def test_knows_labels_that_classify(key: str) -> None:
    assert is_classifying_label(key)


@pytest.mark.parametrize(
    "key", ["", "app", "team", "cost-center", "kueue.x-k8s.io/queue-name", "podgate.dev/workloads"]
)
def test_knows_labels_that_do_not_classify(key: str) -> None:
    assert not is_classifying_label(key)


@pytest.mark.parametrize(
    ("key", "decides"),
    [(f"{LWS}/size", True), ("gpu-fraction", True), ("gpu-memory", True), ("gpu", False), ("size", False)],
)
def test_knows_annotations_that_classify(key: str, decides: bool) -> None:
    assert is_classifying_annotation(key) is decides


@pytest.mark.parametrize(
    ("name", "decides"),
    [
        ("WORLD_SIZE", True),
        ("PET_NNODES", True),
        ("PET_NPROC_PER_NODE", True),
        ("LWS_GROUP_SIZE", True),
        ("NUM_PROCESSES", True),
        ("PADDLE_NNODES", True),
        ("RAY_NODE_COUNT", True),
        ("TF_CONFIG", True),
        ("VC_MASTER_HOSTS", True),
        ("VC_MASTER_NUM", False),
        ("NCCL_DEBUG", False),
        ("world_size", False),
    ],
)
def test_knows_variables_that_classify(name: str, decides: bool) -> None:
    assert is_classifying_variable(name) is decides


class Recorder(dict[str, Any]):
    """A map that notes the keys it is asked for."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)


@pytest.mark.parametrize("pod", [pod for pod, _, _ in WORKLOADS.values()], ids=WORKLOADS)
def test_every_label_that_is_read_is_known_to_classify(pod: Pod) -> None:
    value = pod.value()
    labels = Recorder(value["metadata"]["labels"])
    value["metadata"]["labels"] = labels
    inspect_workload(value, shipped_catalogue())
    assert [key for key in labels.asked if not is_classifying_label(key)] == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "labels",
                    "annotations",
                    "ownerReferences",
                    "kind",
                    "controller",
                    "containers",
                    "resources",
                    "limits",
                    "env",
                    "name",
                    "value",
                    "claims",
                    "resourceClaims",
                    "schedulerName",
                    "gpu-fraction",
                    GPU,
                    "ray.io/originated-from-crd",
                    "podgate.dev/workload",
                    "llm-d.ai/role",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec"]), json_values))
def test_no_json_value_raises(value: dict[str, Any]) -> None:
    found = inspect_workload(value, shipped_catalogue())
    assert found.class_evidence
    assert found.communication_evidence


def test_every_way_of_sharing_is_said() -> None:
    pod = Pod(gpus=1, resource="nvidia.com/mig-1g.5gb").value()
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu.shared": 1}}
    found = inspect_workload(pod, shipped_catalogue())
    assert found.communication_evidence == "shared accelerator (mig, timeSlice)"


def test_a_claim_is_one_process_where_nobody_says_how_many() -> None:
    two, one = (inspect(Pod(claims=True, env={"WORLD_SIZE": size})) for size in ("2", "1"))
    assert (two.communication, one.communication) == ("multiNode", "none")
