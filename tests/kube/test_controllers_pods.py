"""The virtual pod of each kind beside the pod that its controller's source says it makes: the same verdict for both.

`set` is what podgate knows beforehand, exactly; `unknown` is what the controller sets besides and no file tells: hashes, uids,
addresses, ports and texts. Both are by hand, from the sources that each entry names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.engine.gates import facts, gate, load, request, shipped_files
from tests.kube.test_templates import (
    kubeflow,
    lws,
    obj_of,
    pods_of,
    ray,
    replicated_job,
    spec_of,
    template_of,
)
from webhook.engine import Outcome, review
from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.api_defaults import with_defaults
from webhook.kube.field_path import value_at
from webhook.kube.templates import Template, shipped_templates
from webhook.kube.workload import inspect_workload

Json = dict[str, Any]
KUBEFLOW = "training.kubeflow.org"
JOBSET = "jobset.sigs.k8s.io"
LWS = "leaderworkerset.sigs.k8s.io"

FROM_ELSEWHERE = None
"""The value of a variable that comes from a field, a ConfigMap or a Secret."""


@dataclass(frozen=True)
class Part:
    """Labels, annotations and variables of every container."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """What a controller makes of the template at `index` of an object.

    Attributes:
        source: where its source says so.
        owner: API version and kind of the pod's controller.
        known: what the virtual pod has as well.
        unknown: what only the real pod has.
        init: init containers that the controller adds.
        spec: fields of the pod spec that it sets besides.
        keeps: whether the template's own labels and annotations reach the pod.
    """

    source: str
    obj: Json
    owner: str
    known: Part = Part()
    unknown: Part = Part()
    index: int = 0
    init: tuple[str, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)
    keeps: bool = True


def training_labels(operator: str, role: str) -> dict[str, str]:
    """Of the training operator: pkg/controller.v1/common/{job_controller,pod}.go."""
    return {
        f"{KUBEFLOW}/operator-name": operator,
        f"{KUBEFLOW}/job-name": "bert",
        f"{KUBEFLOW}/replica-type": role,
        f"{KUBEFLOW}/replica-index": "0",
    }


def job_set(role: str, jobs: str, every: str) -> dict[str, str]:
    return {
        f"{JOBSET}/jobset-name": "bert",
        f"{JOBSET}/replicatedjob-name": role,
        f"{JOBSET}/replicatedjob-replicas": jobs,
        f"{JOBSET}/global-replicas": every,
        f"{JOBSET}/job-index": "0",
        f"{JOBSET}/restart-attempt": "0",
    }


def ray_labels(node: str, group: str, **more: str) -> dict[str, str]:
    """Of KubeRay: ray-operator/controllers/ray/common/pod.go (labelPod)."""
    return {
        "ray.io/is-ray-node": "yes",
        "ray.io/cluster": "bert",
        "ray.io/node-type": node,
        "ray.io/group": group,
        "ray.io/identifier": f"bert-{node}",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
        **more,
    }


RAY_ENVIRONMENT: dict[str, str | None] = {
    "RAY_CLUSTER_NAME": FROM_ELSEWHERE,
    "RAY_ADDRESS": "bert-head-svc.vision.svc.cluster.local:6379",
    "RAY_PORT": "6379",
    "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
    "RAY_NODE_TYPE_NAME": FROM_ELSEWHERE,
    "RAY_CLOUD_INSTANCE_ID": FROM_ELSEWHERE,
}
RAY_SHARED_MEMORY = {"volumes": [{"name": "shared-mem", "emptyDir": {"medium": "Memory"}}]}
RAY = (
    "ray-project/kuberay:ray-operator/controllers/ray/common/pod.go (labelPod, BuildPod, setContainerEnvVars)"
)
PODS = "kubernetes/kubernetes:pkg/controller/controller_utils.go (GetPodFromTemplate)"
TRAINING = "kubeflow/training-operator:pkg/controller.v1"
VOLCANO = "volcano-sh/volcano:pkg/controllers/job/job_controller_util.go (createJobPod), pkg/controllers/job/plugins/svc/svc.go"

PYTORCH = kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=(1, 8), Worker=(3, 8))
MPI = kubeflow("MPIJob", "mpiReplicaSpecs", Launcher=(1, 0), Worker=(2, 8))
JOB_SET = obj_of(
    "jobset.x-k8s.io/v1alpha2",
    "JobSet",
    {"replicatedJobs": [replicated_job("driver", 1, 0), replicated_job("w", 3)]},
)
VOLCANO_JOB = obj_of(
    "batch.volcano.sh/v1alpha1",
    "Job",
    {
        "plugins": {"svc": []},
        "tasks": [
            {"name": "master", "replicas": 1, "template": template_of(0)},
            {"name": "worker", "replicas": 2, "template": template_of(8)},
        ],
    },
)
LLM = obj_of(
    "serving.kserve.io/v1alpha2",
    "LLMInferenceService",
    {"replicas": 2, "template": spec_of(8), "prefill": {"template": spec_of(8)}},
)
LLM_GROUPS = obj_of(
    "serving.kserve.io/v1alpha2",
    "LLMInferenceService",
    {"parallelism": {"data": 32, "dataLocal": 8}, "template": spec_of(8), "worker": spec_of(8)},
)
LLM_SOURCE = "kserve/kserve:pkg/controller/v1alpha1/llmisvc/workload_multi_node.go (expectedMainMultiNodeLWS)"
OVER_NODES = obj_of(
    "serving.kserve.io/v1beta1",
    "InferenceService",
    {"predictor": {**spec_of(8), "workerSpec": spec_of(8, pipelineParallelSize=3)}},
)
RUNTIME = obj_of(
    "trainer.kubeflow.org/v1alpha1",
    "TrainingRuntime",
    {
        "mlPolicy": {"numNodes": 4, "torch": {}},
        "template": {"spec": {"replicatedJobs": [replicated_job("node", 1, 8, "trainer")]}},
    },
)

MADE: dict[str, Made] = {
    "Deployment": Made(
        f"{PODS}; pkg/controller/deployment/sync.go (getNewReplicaSet)",
        obj_of("apps/v1", "Deployment", {"template": template_of(2)}),
        "apps/v1 ReplicaSet",
        unknown=Part({"pod-template-hash": "6d4cf56db6"}),
    ),
    "ReplicaSet": Made(
        PODS, obj_of("apps/v1", "ReplicaSet", {"template": template_of(2)}), "apps/v1 ReplicaSet"
    ),
    "ReplicationController": Made(
        PODS, obj_of("v1", "ReplicationController", {"template": template_of(2)}), "v1 ReplicationController"
    ),
    "StatefulSet": Made(
        "kubernetes/kubernetes:pkg/controller/statefulset/stateful_set_utils.go (initIdentity, newVersionedStatefulSetPod)",
        obj_of("apps/v1", "StatefulSet", {"template": template_of(2)}),
        "apps/v1 StatefulSet",
        Part({"statefulset.kubernetes.io/pod-name": "bert-0", "apps.kubernetes.io/pod-index": "0"}),
        Part({"controller-revision-hash": "bert-6d4cf56db6"}),
        spec={"hostname": "bert-0"},
    ),
    "DaemonSet": Made(
        "kubernetes/kubernetes:pkg/controller/daemon/util/daemonset_util.go (CreatePodTemplate)",
        obj_of("apps/v1", "DaemonSet", {"template": template_of(2)}),
        "apps/v1 DaemonSet",
        unknown=Part({"controller-revision-hash": "6d4cf56db6", "pod-template-generation": "1"}),
        spec={
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
            ]
        },
    ),
    "Job": Made(
        "kubernetes/kubernetes:pkg/registry/batch/job/strategy.go (generateSelector)",
        obj_of("batch/v1", "Job", {"template": template_of(8)}),
        "batch/v1 Job",
        Part({"batch.kubernetes.io/job-name": "bert", "job-name": "bert"}),
        Part({"batch.kubernetes.io/controller-uid": "u-1", "controller-uid": "u-1"}),
    ),
    "Job that is indexed": Made(
        "kubernetes/kubernetes:pkg/controller/job/indexed_job_utils.go (addCompletionIndex…)",
        obj_of("batch/v1", "Job", {"completionMode": "Indexed", "template": template_of(8)}),
        "batch/v1 Job",
        Part(
            {
                "batch.kubernetes.io/job-name": "bert",
                "job-name": "bert",
                "batch.kubernetes.io/job-completion-index": "0",
            },
            {"batch.kubernetes.io/job-completion-index": "0"},
            {"JOB_COMPLETION_INDEX": FROM_ELSEWHERE},
        ),
        Part({"batch.kubernetes.io/controller-uid": "u-1", "controller-uid": "u-1"}),
    ),
    "CronJob": Made(
        "kubernetes/kubernetes:pkg/controller/cronjob/utils.go (getJobFromTemplate2)",
        obj_of("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": template_of(8)}}}),
        "batch/v1 Job",
        Part({"batch.kubernetes.io/job-name": "bert", "job-name": "bert"}),
        Part({"batch.kubernetes.io/controller-uid": "u-1", "controller-uid": "u-1"}),
    ),
    "PyTorchJob's master": Made(
        f"{TRAINING}/pytorch/envvar.go (setPodEnv), master.go",
        PYTORCH,
        "kubeflow.org/v1 PyTorchJob",
        Part(
            {**training_labels("pytorchjob-controller", "master"), f"{KUBEFLOW}/job-role": "master"},
            env={
                "MASTER_ADDR": "bert-master-0",
                "WORLD_SIZE": "4",
                "PET_NNODES": "4",
                "RANK": "0",
                "PET_NODE_RANK": "0",
            },
        ),
        Part(
            env={
                "PYTHONUNBUFFERED": "1",
                "MASTER_PORT": "23456",
                "PET_MASTER_ADDR": "bert-master-0",
                "PET_MASTER_PORT": "23456",
            }
        ),
    ),
    "PyTorchJob's worker": Made(
        f"{TRAINING}/pytorch/envvar.go (setPodEnv), initcontainer.go",
        PYTORCH,
        "kubeflow.org/v1 PyTorchJob",
        Part(
            training_labels("pytorchjob-controller", "worker"),
            env={
                "MASTER_ADDR": "bert-master-0",
                "WORLD_SIZE": "4",
                "PET_NNODES": "4",
                "RANK": "1",
                "PET_NODE_RANK": "1",
            },
        ),
        Part(
            env={
                "PYTHONUNBUFFERED": "1",
                "MASTER_PORT": "23456",
                "PET_MASTER_ADDR": "bert-master-0",
                "PET_MASTER_PORT": "23456",
            }
        ),
        index=1,
        init=("init-pytorch",),
    ),
    "TFJob": Made(
        f"{TRAINING}/tensorflow/tensorflow.go (genTFConfigJSONStr), util.go (isDistributed)",
        kubeflow("TFJob", "tfReplicaSpecs", Worker=(3, 8)),
        "kubeflow.org/v1 TFJob",
        # Its text is left out: that it is there says enough.
        Part(training_labels("tfjob-controller", "worker"), env={"TF_CONFIG": ""}),
        Part(
            env={
                "TF_CONFIG": '{"cluster":{"worker":["bert-worker-0.vision.svc:2222"]},"task":{"type":"worker"}}'
            }
        ),
    ),
    "TFJob of one pod": Made(
        f"{TRAINING}/tensorflow/util.go (isDistributed)",
        kubeflow("TFJob", "tfReplicaSpecs", Worker=(1, 8)),
        "kubeflow.org/v1 TFJob",
        Part(training_labels("tfjob-controller", "worker")),
    ),
    "XGBoostJob": Made(
        f"{TRAINING}/xgboost/xgboost.go (SetPodEnv)",
        kubeflow("XGBoostJob", "xgbReplicaSpecs", Master=(1, 1), Worker=(2, 1)),
        "kubeflow.org/v1 XGBoostJob",
        Part(
            training_labels("xgboostjob-controller", "worker"),
            env={"MASTER_ADDR": "bert-master-0", "WORLD_SIZE": "3", "RANK": "1"},
        ),
        Part(
            env={
                "PYTHONUNBUFFERED": "0",
                "MASTER_PORT": "9999",
                "WORKER_PORT": "9999",
                "WORKER_ADDRS": "bert-worker-0,bert-worker-1",
            }
        ),
        index=1,
    ),
    "PaddleJob": Made(
        f"{TRAINING}/paddlepaddle/envvar.go (setPodEnv)",
        kubeflow("PaddleJob", "paddleReplicaSpecs", Worker=(2, 8)),
        "kubeflow.org/v1 PaddleJob",
        Part(
            training_labels("paddlejob-controller", "worker"),
            env={"PADDLE_JOB_ID": "bert", "PADDLE_NNODES": "2"},
        ),
        Part(
            env={
                "PYTHONUNBUFFERED": "0",
                "POD_IP_DUMMY": FROM_ELSEWHERE,
                "PADDLE_MASTER": "$(POD_IP_DUMMY):37777",
            }
        ),
    ),
    "JAXJob": Made(
        f"{TRAINING}/jax/envvar.go (setPodEnv)",
        kubeflow("JAXJob", "jaxReplicaSpecs", Worker=(2, 8)),
        "kubeflow.org/v1 JAXJob",
        Part(
            training_labels("jaxjob-controller", "worker"),
            env={"COORDINATOR_ADDRESS": "bert-worker-0", "NUM_PROCESSES": "2", "PROCESS_ID": "0"},
        ),
        Part(env={"PYTHONUNBUFFERED": "1", "COORDINATOR_PORT": "6666"}),
    ),
    "MPIJob of the training operator, launcher": Made(
        f"{TRAINING}/mpi/mpijob_controller.go (newLauncher)",
        MPI,
        "kubeflow.org/v1 MPIJob",
        Part(
            {
                f"{KUBEFLOW}/operator-name": "mpijob-controller",
                f"{KUBEFLOW}/job-name": "bert",
                f"{KUBEFLOW}/replica-type": "launcher",
            }
        ),
        Part(
            env={
                "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
                "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
                "NVIDIA_VISIBLE_DEVICES": "",
                "NVIDIA_DRIVER_CAPABILITIES": "",
            }
        ),
        init=("kubectl-delivery",),
    ),
    "MPIJob of the training operator, worker": Made(
        f"{TRAINING}/mpi/mpijob_controller.go (newWorker)",
        MPI,
        "kubeflow.org/v1 MPIJob",
        Part(training_labels("mpijob-controller", "worker")),
        index=1,
    ),
    "MPIJob of the MPI operator, launcher": Made(
        "kubeflow/mpi-operator:pkg/controller/mpi_job_controller.go (newLauncherJob, newLauncherPodTemplate)",
        {**MPI, "apiVersion": "kubeflow.org/v2beta1"},
        "batch/v1 Job",
        Part(
            {
                f"{KUBEFLOW}/operator-name": "mpi-operator",
                f"{KUBEFLOW}/job-name": "bert",
                f"{KUBEFLOW}/job-role": "launcher",
                "batch.kubernetes.io/job-name": "bert-launcher",
                "job-name": "bert-launcher",
            }
        ),
        Part(
            {"batch.kubernetes.io/controller-uid": "u-1", "controller-uid": "u-1"},
            env={
                "K_MPI_JOB_ROLE": "launcher",
                "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
                "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
                "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
                "NVIDIA_VISIBLE_DEVICES": "",
                "NVIDIA_DRIVER_CAPABILITIES": "",
            },
        ),
    ),
    "MPIJob of the MPI operator, worker": Made(
        "kubeflow/mpi-operator:pkg/controller/mpi_job_controller.go (newWorker)",
        {**MPI, "apiVersion": "kubeflow.org/v2beta1"},
        "kubeflow.org/v2beta1 MPIJob",
        Part(
            {
                f"{KUBEFLOW}/operator-name": "mpi-operator",
                f"{KUBEFLOW}/job-name": "bert",
                f"{KUBEFLOW}/job-role": "worker",
                f"{KUBEFLOW}/replica-index": "0",
            }
        ),
        Part(env={"K_MPI_JOB_ROLE": "worker"}),
        index=1,
    ),
    "JobSet": Made(
        "kubernetes-sigs/jobset:pkg/controllers/jobset_controller.go (labelAndAnnotateObject)",
        JOB_SET,
        "batch/v1 Job",
        Part(
            {**job_set("w", "3", "4"), "batch.kubernetes.io/job-name": "bert-w-0", "job-name": "bert-w-0"},
            job_set("w", "3", "4"),
        ),
        Part(
            {
                "batch.kubernetes.io/controller-uid": "u-1",
                "controller-uid": "u-1",
                f"{JOBSET}/job-key": "a1b2",
                f"{JOBSET}/job-global-index": "1",
            },
            {f"{JOBSET}/job-key": "a1b2", f"{JOBSET}/job-global-index": "1"},
        ),
        index=1,
        spec={"subdomain": "bert"},
    ),
    "TrainingRuntime": Made(
        "kubeflow/trainer:pkg/runtime/framework/plugins/torch/torch.go (EnforceMLPolicy), plugins/jobset",
        RUNTIME,
        "batch/v1 Job",
        Part(job_set("node", "1", "1"), job_set("node", "1", "1"), {"PET_NNODES": "4"}),
        Part(
            {
                "batch.kubernetes.io/controller-uid": "u-1",
                "controller-uid": "u-1",
                "batch.kubernetes.io/job-name": "bert-node-0",
                "job-name": "bert-node-0",
                f"{JOBSET}/job-key": "a1b2",
            },
            {f"{JOBSET}/job-key": "a1b2"},
            {
                "PET_NODE_RANK": FROM_ELSEWHERE,
                "PET_MASTER_ADDR": "bert-node-0-0.bert",
                "PET_MASTER_PORT": "29400",
                "PET_NPROC_PER_NODE": "auto",
            },
        ),
    ),
    "LeaderWorkerSet's leader": Made(
        "kubernetes-sigs/lws:pkg/webhooks/pod_webhook.go, pkg/utils/pod/pod_utils.go (AddLWSVariables)",
        lws(4, leader=True),
        "apps/v1 StatefulSet",
        Part(
            {f"{LWS}/name": "bert", f"{LWS}/group-index": "0", f"{LWS}/worker-index": "0"},
            {f"{LWS}/size": "4"},
            {"LWS_LEADER_ADDRESS": "bert-0.bert.vision", "LWS_GROUP_SIZE": "4", "LWS_WORKER_INDEX": "0"},
        ),
        Part(
            {
                f"{LWS}/group-key": "a1b2",
                f"{LWS}/template-revision-hash": "a1b2",
                "statefulset.kubernetes.io/pod-name": "bert-0",
                "apps.kubernetes.io/pod-index": "0",
                "controller-revision-hash": "bert-6d4cf56db6",
            }
        ),
    ),
    "LeaderWorkerSet's worker": Made(
        "kubernetes-sigs/lws:pkg/controllers/pod_controller.go (constructWorkerStatefulSetApplyConfiguration)",
        lws(4, leader=True),
        "apps/v1 StatefulSet",
        Part(
            {f"{LWS}/name": "bert", f"{LWS}/group-index": "0", f"{LWS}/worker-index": "1"},
            {f"{LWS}/size": "4", f"{LWS}/leader-name": "bert-0"},
            {"LWS_LEADER_ADDRESS": "bert-0.bert.vision", "LWS_GROUP_SIZE": "4", "LWS_WORKER_INDEX": "1"},
        ),
        Part(
            {
                f"{LWS}/group-key": "a1b2",
                f"{LWS}/template-revision-hash": "a1b2",
                "statefulset.kubernetes.io/pod-name": "bert-0-1",
                "apps.kubernetes.io/pod-index": "1",
                "controller-revision-hash": "bert-0-6d4cf56db6",
            }
        ),
        index=1,
    ),
    "RayCluster's head": Made(
        RAY,
        obj_of("ray.io/v1", "RayCluster", ray(2)),
        "ray.io/v1 RayCluster",
        Part(ray_labels("head", "headgroup")),
        Part(
            env={
                **RAY_ENVIRONMENT,
                "RAY_USAGE_STATS_EXTRA_TAGS": "kuberay_version=v1.5.0;kuberay_crd=RayCluster",
            }
        ),
        spec=RAY_SHARED_MEMORY,
    ),
    "RayCluster's worker": Made(
        RAY,
        obj_of("ray.io/v1", "RayCluster", ray(2)),
        "ray.io/v1 RayCluster",
        Part(ray_labels("worker", "gpus")),
        Part(
            env={
                **RAY_ENVIRONMENT,
                "FQ_RAY_IP": "bert-head-svc.vision.svc.cluster.local",
                "RAY_IP": "bert-head-svc",
            }
        ),
        index=1,
        init=("wait-gcs-ready",),
        spec=RAY_SHARED_MEMORY,
    ),
    "RayCluster's worker over hosts": Made(
        f"{RAY}; controllers/ray/raycluster_controller.go (reconcileMultiHostWorkerGroup)",
        obj_of("ray.io/v1", "RayCluster", ray(2, hosts=4)),
        "ray.io/v1 RayCluster",
        Part(
            ray_labels(
                "worker",
                "gpus",
                **{"ray.io/replica-host-index": "0", "ray.io/worker-group-replica-index": "0"},
            )
        ),
        Part({"ray.io/worker-group-replica-name": "gpus-abcde"}, env=RAY_ENVIRONMENT),
        index=1,
        init=("wait-gcs-ready",),
    ),
    "RayJob's worker": Made(
        f"{RAY}; controllers/ray/rayjob_controller.go (constructRayClusterForRayJob)",
        obj_of("ray.io/v1", "RayJob", {"rayClusterSpec": ray(2)}),
        "ray.io/v1 RayCluster",
        Part(ray_labels("worker", "gpus")),
        Part(env=RAY_ENVIRONMENT),
        index=1,
        init=("wait-gcs-ready",),
    ),
    "RayService's worker": Made(
        f"{RAY}; controllers/ray/rayservice_controller.go (constructRayClusterForRayService)",
        obj_of("ray.io/v1", "RayService", {"rayClusterConfig": ray(2)}),
        "ray.io/v1 RayCluster",
        Part(ray_labels("worker", "gpus", **{"ray.io/serve": "true"})),
        Part(env=RAY_ENVIRONMENT),
        index=1,
        init=("wait-gcs-ready",),
    ),
    "RayClusterFleet's worker": Made(
        f"{RAY}; vllm-project/aibrix:pkg/controller/rayclusterreplicaset",
        obj_of("orchestration.aibrix.ai/v1alpha1", "RayClusterFleet", {"template": {"spec": ray(2)}}),
        "ray.io/v1 RayCluster",
        Part(ray_labels("worker", "gpus")),
        Part(env=RAY_ENVIRONMENT),
        index=1,
        init=("wait-gcs-ready",),
    ),
    "Volcano Job": Made(
        VOLCANO,
        VOLCANO_JOB,
        "batch.volcano.sh/v1alpha1 Job",
        Part(
            {
                "volcano.sh/job-name": "bert",
                "volcano.sh/job-namespace": "vision",
                "volcano.sh/task-spec": "worker",
                "volcano.sh/task-index": "0",
            },
            {
                "volcano.sh/job-name": "bert",
                "volcano.sh/task-spec": "worker",
                "volcano.sh/task-index": "0",
                "volcano.sh/job-version": "0",
            },
            {"VC_MASTER_HOSTS": FROM_ELSEWHERE, "VC_WORKER_HOSTS": FROM_ELSEWHERE},
        ),
        Part(
            {"volcano.sh/queue-name": "default", "volcano.sh/job-retry-count": "0"},
            {
                "volcano.sh/queue-name": "default",
                "volcano.sh/job-retry-count": "0",
                "volcano.sh/template-uid": "bert-worker",
                "scheduling.k8s.io/group-name": "bert-5a8e",
            },
            {
                "VK_TASK_INDEX": "0",
                "VC_TASK_INDEX": "0",
                "VC_MASTER_NUM": FROM_ELSEWHERE,
                "VC_WORKER_NUM": FROM_ELSEWHERE,
            },
        ),
        index=1,
        spec={"schedulerName": "volcano"},
    ),
    "InferenceService": Made(
        "kserve/kserve:pkg/controller/v1beta1/inferenceservice/components/predictor.go (Reconcile)",
        obj_of("serving.kserve.io/v1beta1", "InferenceService", {"predictor": spec_of(2)}),
        "apps/v1 ReplicaSet",
        Part({"serving.kserve.io/inferenceservice": "bert", "component": "predictor"}),
        Part({"app": "isvc.bert-predictor", "pod-template-hash": "6d4cf56db6"}),
    ),
    "InferenceService of 2019": Made(
        "kserve/kserve of before 2021, whose group was serving.kubeflow.org: pkg/constants/constants.go",
        obj_of("serving.kubeflow.org/v1beta1", "InferenceService", {"predictor": spec_of(2)}),
        "apps/v1 ReplicaSet",
        Part({"serving.kubeflow.org/inferenceservice": "bert", "component": "predictor"}),
        Part({"serving.knative.dev/service": "bert-predictor-default", "pod-template-hash": "6d4cf56db6"}),
    ),
    "InferenceService over nodes, head": Made(
        "kserve/kserve:pkg/controller/v1beta1/inferenceservice/components/predictor.go (multiNodeProcess)",
        OVER_NODES,
        "apps/v1 ReplicaSet",
        Part(
            {"serving.kserve.io/inferenceservice": "bert", "component": "predictor"},
            env={"RAY_NODE_COUNT": "3"},
        ),
        Part(
            {"app": "isvc.bert-predictor", "pod-template-hash": "6d4cf56db6", "multinode/role": "head"},
            env={"PIPELINE_PARALLEL_SIZE": "3", "TENSOR_PARALLEL_SIZE": "8", "REQUEST_GPU_COUNT": "8"},
        ),
    ),
    "InferenceService over nodes, worker": Made(
        "kserve/kserve:pkg/controller/v1beta1/inferenceservice/components/predictor.go (multiNodeProcess)",
        OVER_NODES,
        "apps/v1 ReplicaSet",
        Part(
            {"serving.kserve.io/inferenceservice": "bert", "component": "predictor"},
            env={"RAY_NODE_COUNT": "3"},
        ),
        Part(
            {"app": "isvc.bert-predictor-worker", "pod-template-hash": "6d4cf56db6"},
            env={"HEAD_SVC": "bert-head-1", "REQUEST_GPU_COUNT": "8"},
        ),
        index=1,
    ),
    "LLMInferenceService, decode": Made(
        "kserve/kserve:pkg/controller/v1alpha1/llmisvc/workload_single_node.go (expectedSingleNodeMainDeployment)",
        LLM,
        "apps/v1 ReplicaSet",
        Part(
            {
                "app.kubernetes.io/component": "llminferenceservice-workload",
                "app.kubernetes.io/name": "bert",
                "app.kubernetes.io/part-of": "llminferenceservice",
                "kserve.io/component": "workload",
                "llm-d.ai/role": "decode",
            }
        ),
        Part({"pod-template-hash": "6d4cf56db6"}),
    ),
    "LLMInferenceService, prefill": Made(
        "kserve/kserve:pkg/controller/v1alpha1/llmisvc/workload_single_node.go (expectedPrefillMainDeployment)",
        LLM,
        "apps/v1 ReplicaSet",
        Part(
            {
                "app.kubernetes.io/component": "llminferenceservice-workload-prefill",
                "app.kubernetes.io/name": "bert",
                "app.kubernetes.io/part-of": "llminferenceservice",
                "kserve.io/component": "workload",
                "llm-d.ai/role": "prefill",
            }
        ),
        Part({"pod-template-hash": "6d4cf56db6"}),
        index=1,
    ),
    "LLMInferenceService, worker of a group": Made(
        LLM_SOURCE,
        LLM_GROUPS,
        "apps/v1 StatefulSet",
        Part(
            {
                "app.kubernetes.io/component": "llminferenceservice-workload-worker",
                "app.kubernetes.io/name": "bert",
                "app.kubernetes.io/part-of": "llminferenceservice",
                f"{LWS}/name": "bert-kserve-mn",
                f"{LWS}/worker-index": "1",
            },
            {f"{LWS}/size": "4"},
            {"LWS_GROUP_SIZE": "4"},
        ),
        Part(
            {f"{LWS}/group-index": "0", f"{LWS}/group-key": "a1b2", "controller-revision-hash": "6d4cf56db6"},
            {f"{LWS}/leader-name": "bert-kserve-mn-0"},
            {"LWS_LEADER_ADDRESS": "bert-kserve-mn-0.bert-kserve-mn.vision", "LWS_WORKER_INDEX": "1"},
        ),
        index=1,
    ),
    "Notebook": Made(
        "kubeflow/notebooks:components/notebook-controller/controllers/notebook_controller.go (generateStatefulSet)",
        obj_of("kubeflow.org/v1", "Notebook", {"template": template_of(1)}),
        "apps/v1 StatefulSet",
        Part({"statefulset": "bert", "notebook-name": "bert"}, env={"NB_PREFIX": "/notebook/vision/bert"}),
        Part(
            {
                "statefulset.kubernetes.io/pod-name": "bert-0",
                "apps.kubernetes.io/pod-index": "0",
                "controller-revision-hash": "bert-6d4cf56db6",
            }
        ),
        spec={"securityContext": {"fsGroup": 100}},
        keeps=False,
    ),
    "Workflow": Made(
        "argoproj/argo-workflows:workflow/controller/workflowpod.go (createWorkflowPod)",
        obj_of("argoproj.io/v1alpha1", "Workflow", {"templates": [{"name": "train", **spec_of(2)}]}),
        "argoproj.io/v1alpha1 Workflow",
        Part({"workflows.argoproj.io/workflow": "bert", "workflows.argoproj.io/completed": "false"}),
        Part(
            annotations={
                "workflows.argoproj.io/node-id": "bert-1",
                "workflows.argoproj.io/node-name": "bert.train",
                "kubectl.kubernetes.io/default-container": "main",
            },
            env={"ARGO_TEMPLATE": "{}", "ARGO_NODE_ID": "bert-1", "ARGO_CONTAINER_NAME": "main"},
        ),
        init=("init",),
    ),
    "Rollout": Made(
        "argoproj/argo-rollouts:rollout/sync.go (createDesiredReplicaSet)",
        obj_of("argoproj.io/v1alpha1", "Rollout", {"template": template_of(2)}),
        "apps/v1 ReplicaSet",
        unknown=Part({"rollouts-pod-template-hash": "6d4cf56db6"}),
    ),
    "PodCliqueSet": Made(
        "ai-dynamo/grove:operator/internal/controller/podclique/components/pod/pod.go (getLabels, addEnvironmentVariables)",
        obj_of(
            "grove.io/v1alpha1",
            "PodCliqueSet",
            {"template": {"cliques": [{"name": "decode", "spec": {"replicas": 3, "podSpec": spec_of(8)}}]}},
        ),
        "grove.io/v1alpha1 PodClique",
        Part(
            {
                "app.kubernetes.io/managed-by": "grove-operator",
                "app.kubernetes.io/part-of": "bert",
                "grove.io/podclique": "bert-0-decode",
            }
        ),
        Part(
            {
                "grove.io/podcliqueset-replica-index": "0",
                "grove.io/podgang": "bert-0",
                "grove.io/podclique-pod-index": "0",
            },
            env={
                "GROVE_PCS_NAME": "bert",
                "GROVE_PCS_INDEX": "0",
                "GROVE_PCLQ_NAME": "bert-0-decode",
                "GROVE_PCLQ_POD_INDEX": "0",
            },
        ),
        spec={"schedulingGates": [{"name": "grove.io/podgang-pending-creation"}]},
    ),
    "StormService": Made(
        "vllm-project/aibrix:pkg/controller/roleset/utils.go (renderStormServicePod), pkg/controller/constants/stormservice.go",
        obj_of(
            "orchestration.aibrix.ai/v1alpha1",
            "StormService",
            {"template": {"spec": {"roles": [{"name": "prefill", "template": template_of(1)}]}}},
        ),
        "orchestration.aibrix.ai/v1alpha1 RoleSet",
        Part(
            {"storm-service-name": "bert", "role-name": "prefill"},
            env={"STORM_SERVICE_NAME": "bert", "ROLE_NAME": "prefill"},
        ),
        Part(
            {"roleset-name": "bert-roleset-abcde", "role-template-hash": "6d4cf56db6"},
            env={
                "ROLESET_NAME": "bert-roleset-abcde",
                "ROLESET_INDEX": FROM_ELSEWHERE,
                "ROLE_REPLICA_INDEX": "0",
                "ROLE_TEMPLATE_HASH": "6d4cf56db6",
            },
        ),
    ),
    "kaito Workspace": Made(
        "kaito-project/kaito:pkg/workspace/manifests/manifests.go (GenerateDeploymentManifestWithPodTemplate)",
        {
            "apiVersion": "kaito.sh/v1beta1",
            "kind": "Workspace",
            "metadata": {"name": "bert", "namespace": "vision"},
            "inference": {"template": template_of(1)},
        },
        "apps/v1 ReplicaSet",
        Part({"kaito.sh/workspace": "bert"}),
        Part({"pod-template-hash": "6d4cf56db6"}),
        # The affinity of resource.labelSelector, in place of the template's own.
        spec={
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "apps", "operator": "In", "values": ["bert"]}]}
                        ]
                    }
                }
            }
        },
    ),
}

WITHOUT_PODS = {"NIMCache", "NIMService", "DynamoGraphDeployment", "TrainJob", "VLLMRuntime", "PodTemplate"}
"""Kinds whose objects hold no template from which pods are made."""

NO_SOURCE = {"AscendJob"}
"""Its operator's labels and variables are not known: the template alone is judged."""

ALIKE = {
    "ClusterTrainingRuntime": "TrainingRuntime",
    "WorkflowTemplate": "Workflow",
    "ClusterWorkflowTemplate": "Workflow",
    "CronWorkflow": "Workflow",
}
"""Kinds with the pods of another kind."""


def virtual(made: Made) -> tuple[Template, Json]:
    template, pod = pods_of(made.obj)[made.index]
    return template, pod


def real(made: Made) -> Json:
    """The template, and all that the controller adds."""
    template, _ = virtual(made)
    own: Any = value_at(made.obj, template.metadata_path) if template.metadata_path and made.keeps else {}
    api_version, _, kind = made.owner.rpartition(" ")
    env = [*variables(made.known.env), *variables(made.unknown.env)]
    spec: Any = value_at(made.obj, template.spec_path)
    added = [{"name": name, "image": "registry.local/added:1"} for name in made.init]
    init = {"initContainers": [*spec.get("initContainers", ()), *added]} if added else {}
    containers = [{**each, "env": [*each.get("env", ()), *env]} for each in spec["containers"]]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "bert-0",
            "namespace": "vision",
            "labels": {**(own or {}).get("labels", {}), **made.known.labels, **made.unknown.labels},
            "annotations": {
                **(own or {}).get("annotations", {}),
                **made.known.annotations,
                **made.unknown.annotations,
            },
            "ownerReferences": [
                {"apiVersion": api_version, "kind": kind, "name": "bert", "uid": "u-1", "controller": True}
            ],
        },
        "spec": {**spec, **init, **made.spec, "containers": containers},
    }


def variables(env: Mapping[str, str | None]) -> list[Json]:
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        if value is FROM_ELSEWHERE
        else {"name": name, "value": value}
        for name, value in env.items()
    ]


def test_every_kind_is_here() -> None:
    here = {made.obj["kind"] for made in MADE.values()}
    assert {kind.kind for kind in shipped_templates().kinds} == here | WITHOUT_PODS | NO_SOURCE | ALIKE.keys()
    assert all(made.source for made in MADE.values())


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_the_virtual_pod_has_just_what_is_known(made: Made) -> None:
    template, pod = virtual(made)
    own: Any = value_at(made.obj, template.metadata_path) if template.metadata_path else {}
    metadata = pod["metadata"]
    assert metadata.get("labels", {}) == {**(own or {}).get("labels", {}), **made.known.labels}
    assert metadata.get("annotations", {}) == {**(own or {}).get("annotations", {}), **made.known.annotations}
    for container in pod["spec"]["containers"]:
        found = {entry["name"]: entry.get("value") for entry in container.get("env", ())}
        assert found == dict(made.known.env)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_the_same_owner(made: Made) -> None:
    (reference,) = virtual(made)[1]["metadata"]["ownerReferences"]
    assert f"{reference['apiVersion']} {reference['kind']}" == made.owner
    assert reference["controller"] is True


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_the_same_workload(made: Made) -> None:
    assert inspect_workload(virtual(made)[1], shipped_catalogue()) == inspect_workload(
        real(made), shipped_catalogue()
    )


def outcome(pod: Json, user: str) -> Outcome:
    thing = dict(with_defaults(pod, "vision"))
    others: Json = {"namespace": "vision", "username": user, "from_api_server": False}
    return review(gate(load(*shipped_files()), facts=facts()), request(thing, **others))


def verdict(found: Outcome) -> tuple[Any, ...]:
    """What is said of a pod, and what is changed in it."""
    return (
        found.exempt,
        [(report.rule.key, report.result, report.action, report.findings) for report in found.reports],
        [(change.rule, change.field, change.after) for change in found.changes],
        [(mode, change.rule, change.field, change.after) for mode, change in found.would_change],
    )


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_the_same_verdict(made: Made) -> None:
    template, pod = virtual(made)
    user = template.user or "system:serviceaccount:operators:operator"
    found = verdict(outcome(real(made), user))
    assert verdict(outcome(pod, user)) == found
    assert found[0] or found[1]


def test_another_pod_has_another_verdict() -> None:
    """What is compared above tells pods apart: the same pod that nobody owns is another workload."""
    made = MADE["PyTorchJob's worker"]
    stray = real(made)
    stray["metadata"] |= {"labels": {}, "ownerReferences": []}
    user = virtual(made)[0].user
    assert verdict(outcome(stray, user)) != verdict(outcome(real(made), user))
