"""What is right for each file of the corpus, by hand: no text of the files, only what they are about.

A file has a row for each pod, and for each pod template of a controller, in the order in which they stand.
"""

from typing import NamedTuple

TRAINING, INFERENCE, NOTEBOOK, OTHER = "training", "inference", "notebook", "other"
NONE, MULTI, SPLIT = "none", "multiNode", "disaggregated"

NO_DEVICE = "no accelerator"
LAUNCHER = "an MPI launcher without an accelerator"
HEAD = "a Ray head without an accelerator"
ALONE = "nothing says that it spans nodes"
SHARED = "shared devices have no part in a fabric"
KAI_SHARE = "a share of a device by annotation, for a scheduler that the pod names"
FABRIC = "spans nodes, and its pool has a fabric"

RDMA = ("rdma/rdma_shared_device_a", "1")
"""What each accelerator container of the shipped pool gets."""


class Row(NamedTuple):
    """One pod, or one template.

    Attributes:
        what: the kind, and the role of the template.
        workload_class: what it does.
        communication: how far it talks.
        asked: its accelerators, each with the effective count.
        reason: why it gets RDMA or does not.
        rdma: the container that gets it.
    """

    what: str
    workload_class: str
    communication: str
    asked: str
    reason: str
    rdma: str = ""


TABLE: dict[str, tuple[Row, ...]] = {
    "AliyunContainerService__alibabacloud-erdma-controller__deployment": (
        Row("Deployment", OTHER, NONE, "", NO_DEVICE),
    ),
    "AliyunContainerService__alibabacloud-erdma-controller__nccl-pods": (
        Row("Deployment", OTHER, NONE, "", NO_DEVICE),
    ),
    "AliyunContainerService__gpushare-scheduler-extender__1": (
        Row("Deployment", INFERENCE, NONE, "1 aliyun.com/gpu-mem", SHARED),
    ),
    "Ascend__ascend-device-plugin__ascend": (Row("Pod", OTHER, NONE, "2 huawei.com/Ascend310", ALONE),),
    "Cambricon__cambricon-k8s-device-plugin__deployment": (
        Row("Deployment", INFERENCE, NONE, "1 cambricon.com/mlu", ALONE),
    ),
    "GoogleCloudPlatform__kubernetes-engine-samples__axolotl-training-job": (
        Row("Job", TRAINING, NONE, "1 nvidia.com/gpu", ALONE),
    ),
    "GoogleCloudPlatform__kubernetes-engine-samples__deployment-triton": (
        Row("Deployment", INFERENCE, NONE, "1 nvidia.com/gpu", ALONE),
    ),
    "GoogleCloudPlatform__kubernetes-engine-samples__finetune": (
        Row("Job", TRAINING, NONE, "8 nvidia.com/gpu", "eight GPUs, but one pod"),
    ),
    "GoogleCloudPlatform__kubernetes-engine-samples__ray-service": (
        Row("RayService/head", INFERENCE, NONE, "", HEAD),
        Row("RayService/gpu-group", INFERENCE, NONE, "2 nvidia.com/gpu", ALONE),
    ),
    "GoogleCloudPlatform__kubernetes-engine-samples__spec-filestore": (
        Row("StatefulSet", INFERENCE, NONE, "1 nvidia.com/gpu", ALONE),
    ),
    "GoogleCloudPlatform__kubernetes-engine-samples__text-generation-inference": (
        Row("Deployment", INFERENCE, NONE, "2 nvidia.com/gpu", ALONE),
    ),
    "GoogleCloudPlatform__kubernetes-engine-samples__training_multihost_jobset": (
        Row("JobSet/trainers", TRAINING, NONE, "4 google.com/tpu", "one job of two pods, which no pod shows"),
    ),
    "GoogleCloudPlatform__kubernetes-engine-samples__vllm-deepseek-r1-A3": (
        Row("LeaderWorkerSet/leader", INFERENCE, MULTI, "8 nvidia.com/gpu", FABRIC, "vllm-leader"),
        Row("LeaderWorkerSet/worker", INFERENCE, MULTI, "8 nvidia.com/gpu", FABRIC, "vllm-worker"),
    ),
    "Mellanox__k8s-rdma-shared-dev-plugin__test-hca-pod": (Row("Pod", OTHER, NONE, "", NO_DEVICE),),
    "Mellanox__network-operator__hostdevice-network-pod1": (Row("Pod", OTHER, NONE, "", NO_DEVICE),),
    "Mellanox__network-operator__rdma-gpu-test-pod1": (
        Row(
            "Pod",
            OTHER,
            NONE,
            "1 nvidia.com/gpu",
            "has rdma/rdma_shared_device_a; nothing says that it spans nodes",
        ),
    ),
    "Mellanox__network-operator__sriov-network-pod1": (Row("Pod", OTHER, NONE, "", NO_DEVICE),),
    "NVIDIA__KAI-Scheduler__gpu-sharing-init-container": (
        Row("Pod", OTHER, NONE, "1 nvidia.com/gpu", KAI_SHARE),
    ),
    "NVIDIA__KAI-Scheduler__gpu-sharing": (Row("Pod", OTHER, NONE, "1 nvidia.com/gpu", KAI_SHARE),),
    "NVIDIA__KAI-Scheduler__pytorch-job": (
        Row("PyTorchJob/Master", TRAINING, MULTI, "1 nvidia.com/gpu", FABRIC, "pytorch"),
        Row("PyTorchJob/Worker", TRAINING, MULTI, "1 nvidia.com/gpu", FABRIC, "pytorch"),
    ),
    "NVIDIA__KAI-Scheduler__train-priority-pod": (Row("Pod", OTHER, NONE, "1 nvidia.com/gpu", ALONE),),
    "NVIDIA__gpu-operator__0800_daemonset": (Row("DaemonSet", OTHER, NONE, "", NO_DEVICE),),
    "NVIDIA__gpu-operator__gpu-pod": (Row("Pod", OTHER, NONE, "1 nvidia.com/gpu", ALONE),),
    "NVIDIA__gpu-operator__plugin-workload-validation": (Row("Pod", OTHER, NONE, "", NO_DEVICE),),
    "NVIDIA__k8s-device-plugin__job-1": (Row("Job", TRAINING, NONE, "1 nvidia.com/gpu", ALONE),),
    "NVIDIA__k8s-device-plugin__nvidia-device-plugin": (Row("DaemonSet", OTHER, NONE, "", NO_DEVICE),),
    "NVIDIA__k8s-nim-operator__llm": (),
    "NVIDIA__k8s-nim-operator__multi-node-nimservice-rdma": (),
    "Project-HAMi__HAMi__default_use": (Row("Pod", OTHER, NONE, "1 nvidia.com/gpu", SHARED),),
    "Project-HAMi__HAMi__gpu-default_use": (Row("Pod", OTHER, NONE, "1 metax-tech.com/gpu", ALONE),),
    "Project-HAMi__HAMi__hygon-default_use": (Row("Pod", OTHER, NONE, "1 hygon.com/dcunum", SHARED),),
    "Project-HAMi__HAMi__job-910B3": (Row("Pod", OTHER, NONE, "1 huawei.com/Ascend910B3", SHARED),),
    "Project-HAMi__HAMi__job-on-hami": (Row("Job", TRAINING, NONE, "1 nvidia.com/gpu", SHARED),),
    "Project-HAMi__HAMi__kunlun-default_use": (Row("Pod", OTHER, NONE, "1 kunlunxin.com/vxpu", SHARED),),
    "Project-HAMi__HAMi__mlu-default_use": (
        Row("Deployment", INFERENCE, NONE, "1 cambricon.com/vmlu", SHARED),
    ),
    "Project-HAMi__HAMi__multi-containers": (Row("Pod", OTHER, NONE, "2 metax-tech.com/sgpu", SHARED),),
    "Project-HAMi__HAMi__multi-containers_MR-V100": (
        Row("Pod", OTHER, NONE, "2 iluvatar.ai/MR-V100-vgpu", SHARED),
    ),
    "Project-HAMi__HAMi__multi_cards": (Row("Pod", OTHER, NONE, "2 mthreads.com/vgpu", SHARED),),
    "Project-HAMi__HAMi__use_memory_fraction": (Row("Pod", OTHER, NONE, "2 nvidia.com/gpu", SHARED),),
    "Project-HAMi__HAMi__use_sharing_card": (
        Row("Pod", OTHER, NONE, "1 nvidia.com/gpu", SHARED),
        Row("Pod", OTHER, NONE, "1 nvidia.com/gpu", SHARED),
    ),
    "Project-HAMi__HAMi__vllm_cross_vgpu": (Row("Deployment", INFERENCE, NONE, "2 nvidia.com/gpu", SHARED),),
    "ROCm__k8s-device-plugin__deployment": (
        Row("Deployment", INFERENCE, NONE, "1 amd.com/gpu", "host network, one pod"),
    ),
    "ROCm__k8s-device-plugin__jax-multi-gpu": (Row("Pod", OTHER, NONE, "2 amd.com/gpu", ALONE),),
    "ai-dynamo__grove__mnnvl-gpu-default": (
        Row("PodCliqueSet/gpu-worker", INFERENCE, NONE, "1 nvidia.com/gpu", ALONE),
    ),
    "aws-samples__awsome-distributed-training__1-imagenet-gpu-team-a": (
        Row("Deployment", OTHER, NONE, "", NO_DEVICE),
        Row("PyTorchJob/Worker", TRAINING, MULTI, "1 nvidia.com/gpu", FABRIC, "pytorch"),
    ),
    "aws-samples__awsome-distributed-training__3-imagenet-gpu-team-b-higher-prio": (
        Row("Deployment", OTHER, NONE, "", NO_DEVICE),
        Row("PyTorchJob/Worker", TRAINING, MULTI, "1 nvidia.com/gpu", FABRIC, "pytorch"),
    ),
    "aws-samples__awsome-distributed-training__fsdp": (
        Row("PyTorchJob/Worker", TRAINING, NONE, "", "its GPUs are null, which is none"),
    ),
    "aws-samples__awsome-distributed-training__nccl-tests-gb200": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row("MPIJob/Worker", TRAINING, MULTI, "4 nvidia.com/gpu + claim", "has vpc.amazonaws.com/efa"),
    ),
    "aws-samples__awsome-distributed-training__nccl-tests": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row("MPIJob/Worker", TRAINING, MULTI, "8 nvidia.com/gpu", "has vpc.amazonaws.com/efa"),
    ),
    "coreweave__kubernetes-cloud__01-s3-serialize-job": (
        Row("Job", TRAINING, NONE, "1 nvidia.com/gpu", ALONE),
    ),
    "coreweave__kubernetes-cloud__02-bloom-176b-inferenceservice": (
        Row("InferenceService/predictor", INFERENCE, NONE, "5 nvidia.com/gpu", ALONE),
    ),
    "coreweave__kubernetes-cloud__imagenet-mpijob": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row("MPIJob/Worker", TRAINING, MULTI, "8 nvidia.com/gpu", FABRIC, "pytorch"),
    ),
    "coreweave__kubernetes-cloud__imagenet-pytorchjob": (
        Row("PyTorchJob/Master", TRAINING, MULTI, "8 nvidia.com/gpu", FABRIC, "pytorch"),
        Row("PyTorchJob/Worker", TRAINING, MULTI, "8 nvidia.com/gpu", FABRIC, "pytorch"),
    ),
    "coreweave__kubernetes-cloud__tensorflow-deployment": (
        Row("Deployment", INFERENCE, NONE, "2 nvidia.com/gpu", "a notebook by its name alone"),
    ),
    "coreweave__nccl-tests__nccl-test-distributed-a100-64-mpijob": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row("MPIJob/Worker", TRAINING, MULTI, "8 nvidia.com/gpu", "has rdma/ib"),
    ),
    "coreweave__nccl-tests__nccl-test-distributed-h100-64-mpijob": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row("MPIJob/Worker", TRAINING, MULTI, "8 nvidia.com/gpu", "has rdma/ib"),
    ),
    "intel__intel-device-plugins-for-kubernetes__intelgpu-job": (
        Row("Job", TRAINING, NONE, "1 gpu.intel.com/i915", ALONE),
    ),
    "k8snetworkplumbingwg__sriov-network-device-plugin__pod_mlx_rdma_test": (
        Row("Pod", OTHER, NONE, "", NO_DEVICE),
    ),
    "kaito-project__kaito__custom-model-deployment": (
        Row("Workspace", INFERENCE, NONE, "1 nvidia.com/gpu", ALONE),
    ),
    "kserve__kserve__llm-inference-service-dp-ep-deepseek-r1-gpu-deepep-ht": (
        Row("LLMInferenceService/leader", INFERENCE, MULTI, "8 nvidia.com/gpu", "has rdma/roce_gdr"),
        Row("LLMInferenceService/worker", INFERENCE, MULTI, "8 nvidia.com/gpu", "has rdma/roce_gdr"),
    ),
    "kserve__kserve__llm-inference-service-qwen2-7b-gpu": (
        Row("LLMInferenceService", INFERENCE, NONE, "1 nvidia.com/gpu", ALONE),
    ),
    "kserve__kserve__tensorflow-gpu": (
        Row("InferenceService/predictor", INFERENCE, NONE, "1 nvidia.com/gpu", ALONE),
    ),
    "kubeflow__mpi-operator__tensorflow-benchmarks": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row("MPIJob/Worker", TRAINING, MULTI, "1 nvidia.com/gpu", FABRIC, "tensorflow-benchmarks"),
    ),
    "kubeflow__notebooks___v1_notebook": (Row("Notebook", NOTEBOOK, NONE, "", NO_DEVICE),),
    "kubeflow__notebooks__jupyter_test": (Row("Notebook", NOTEBOOK, NONE, "", NO_DEVICE),),
    "kubeflow__notebooks__jupyterlab_v1beta1_workspace": (),
    "kubeflow__trainer__03-kueue-integration": (),
    "kubeflow__trainer__lammps-train-gpus": (),
    "kubeflow__trainer__llama3_2_1B": (
        Row("ClusterTrainingRuntime/dataset-initializer", TRAINING, NONE, "", NO_DEVICE),
        Row("ClusterTrainingRuntime/model-initializer", TRAINING, NONE, "", NO_DEVICE),
        Row("ClusterTrainingRuntime/node", TRAINING, NONE, "2 nvidia.com/gpu", ALONE),
    ),
    "kubeflow__training-operator__multi_worker_tfjob": (
        Row("TFJob/Worker", TRAINING, MULTI, "1 nvidia.com/gpu", FABRIC, "tensorflow"),
    ),
    "kubeflow__training-operator__pytorch_deepspeed_demo": (
        Row("PyTorchJob/Master", TRAINING, MULTI, "1 nvidia.com/gpu", FABRIC, "pytorch"),
        Row("PyTorchJob/Worker", TRAINING, MULTI, "1 nvidia.com/gpu", FABRIC, "pytorch"),
    ),
    "kubeflow__training-operator__pytorch_job_mnist_nccl": (
        Row("PyTorchJob/Master", TRAINING, MULTI, "1 nvidia.com/gpu", FABRIC, "pytorch"),
        Row("PyTorchJob/Worker", TRAINING, MULTI, "1 nvidia.com/gpu", FABRIC, "pytorch"),
    ),
    "kubeflow__training-operator__simple-gpu": (
        Row("PaddleJob/Worker", TRAINING, MULTI, "2 nvidia.com/gpu", FABRIC, "paddle"),
    ),
    "kubernetes-sigs__dra-driver-nvidia-gpu__gpu-full": (Row("Pod", OTHER, NONE, "1 nvidia.com/gpu", ALONE),),
    "kubernetes-sigs__dra-driver-nvidia-gpu__gpu-job-rct": (Row("Job", TRAINING, NONE, "claim", ALONE),),
    "kubernetes-sigs__dra-driver-nvidia-gpu__gpu-test1": (
        Row("Pod", OTHER, NONE, "claim", ALONE),
        Row("Pod", OTHER, NONE, "claim", ALONE),
    ),
    "kubernetes-sigs__dra-driver-nvidia-gpu__gpu-test5": (Row("Pod", OTHER, NONE, "claim", ALONE),),
    "kubernetes-sigs__dranet__mpi-job-4gpu-4nic-numa-aligned": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row(
            "MPIJob/Worker", TRAINING, MULTI, "claim", "a device claim, of which no file says what it is for"
        ),
    ),
    "kubernetes-sigs__dranet__mpi-job": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row(
            "MPIJob/Worker",
            TRAINING,
            MULTI,
            "2 nvidia.com/gpu + claim",
            "a device claim, of which no file says what it is for",
        ),
    ),
    "kubernetes-sigs__dranet__nccl-gib-test": (
        Row(
            "StatefulSet",
            INFERENCE,
            NONE,
            "1 nvidia.com/gpu + claim",
            "two pods that nothing joins, and a device claim",
        ),
    ),
    "kubernetes-sigs__dranet__nixl-kv-target": (Row("Pod", OTHER, NONE, "claim", ALONE),),
    "kubernetes-sigs__dranet__statefulset": (
        Row("StatefulSet", INFERENCE, NONE, "claim", "two pods that nothing joins, and a device claim"),
    ),
    "kubernetes-sigs__jobset__resnet": (Row("JobSet/workers", TRAINING, NONE, "", NO_DEVICE),),
    "kubernetes-sigs__jobset__v6e-jax-workload": (
        Row("JobSet/slice", TRAINING, MULTI, "4 google.com/tpu", "host network, and no pool of TPUs"),
    ),
    "kubernetes-sigs__kueue__kueue-pod-group": (
        Row("Pod", OTHER, NONE, "", NO_DEVICE),
        Row("Pod", OTHER, NONE, "", NO_DEVICE),
    ),
    "kubernetes-sigs__kueue__sample-dra-extended-resource-job": (Row("Job", OTHER, NONE, "", NO_DEVICE),),
    "kubernetes-sigs__kueue__sample-dra-rct-job": (Row("Job", TRAINING, NONE, "claim", ALONE),),
    "kubernetes-sigs__kueue__sample-hami": (Row("Deployment", INFERENCE, NONE, "2 nvidia.com/gpu", SHARED),),
    "kubernetes-sigs__kueue__sample-job": (Row("Job", OTHER, NONE, "", NO_DEVICE),),
    "kubernetes-sigs__kueue__sample-leaderworkerset-tas": (
        Row("LeaderWorkerSet/leader", INFERENCE, NONE, "", NO_DEVICE),
        Row("LeaderWorkerSet/worker", INFERENCE, MULTI, "1 nvidia.com/gpu", FABRIC, "nginx-worker"),
    ),
    "kubernetes-sigs__kueue__sample-mpijob": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row("MPIJob/Worker", TRAINING, NONE, "", NO_DEVICE),
    ),
    "kubernetes-sigs__kueue__sample-pytorchjob": (
        Row("PyTorchJob/Master", TRAINING, NONE, "", NO_DEVICE),
        Row("PyTorchJob/Worker", TRAINING, NONE, "", NO_DEVICE),
    ),
    "kubernetes-sigs__kueue__sample-statefulset": (Row("StatefulSet", OTHER, NONE, "", NO_DEVICE),),
    "kubernetes-sigs__lws__lws": (
        Row("LeaderWorkerSet/leader", INFERENCE, MULTI, "8 nvidia.com/gpu", FABRIC, "vllm-leader"),
        Row("LeaderWorkerSet/worker", INFERENCE, MULTI, "8 nvidia.com/gpu", FABRIC, "vllm-worker"),
    ),
    "kubernetes-sigs__lws__sglang-lws": (
        Row("LeaderWorkerSet/leader", INFERENCE, MULTI, "1 nvidia.com/gpu", FABRIC, "sglang-leader"),
        Row("LeaderWorkerSet/worker", INFERENCE, MULTI, "1 nvidia.com/gpu", FABRIC, "sglang-worker"),
    ),
    "kubernetes-sigs__lws__tensorrt-llm-lws": (
        Row("LeaderWorkerSet/leader", INFERENCE, MULTI, "8 nvidia.com/gpu", FABRIC, "leader"),
        Row("LeaderWorkerSet/worker", INFERENCE, MULTI, "8 nvidia.com/gpu", FABRIC, "worker"),
    ),
    "kubernetes__examples__cassandra-statefulset": (Row("StatefulSet", OTHER, NONE, "", NO_DEVICE),),
    "kubernetes__examples__frontend": (Row("Deployment", OTHER, NONE, "", NO_DEVICE),),
    "kubernetes__examples__vllm-deployment": (Row("Deployment", INFERENCE, NONE, "1 nvidia.com/gpu", ALONE),),
    "oracle-quickstart__oci-hpc-oke__BM.GPU.H100.8": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row(
            "MPIJob/Worker",
            TRAINING,
            MULTI,
            "8 nvidia.com/gpu",
            "host network, and /dev/infiniband of the node",
        ),
    ),
    "oracle-quickstart__oci-hpc-oke__BM.GPU.MI300X.8": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row(
            "MPIJob/Worker",
            TRAINING,
            MULTI,
            "8 amd.com/gpu",
            "host network, and no pool of AMD devices has a fabric",
        ),
    ),
    "oracle-quickstart__oci-hpc-oke__active-health-checks-dcgm-diag": (
        Row("CronJob", OTHER, NONE, "", NO_DEVICE),
    ),
    "oracle-quickstart__oci-hpc-oke__virtual-functions-BM.GPU.H100.8": (
        Row("MPIJob/Launcher", TRAINING, NONE, "", LAUNCHER),
        Row(
            "MPIJob/Worker",
            TRAINING,
            MULTI,
            "8 nvidia.com/gpu",
            "has nvidia.com/rdma-vf, by its annotation for Multus",
        ),
    ),
    "ray-project__kuberay__ray-cluster.kai-gpu-sharing": (
        Row("RayCluster/head", OTHER, NONE, "", HEAD),
        Row(
            "RayCluster/shared-gpu",
            OTHER,
            NONE,
            "",
            "a share by annotation counts only where the pod names a scheduler that reads it",
        ),
    ),
    "ray-project__kuberay__ray-cluster.verl": (
        Row("RayCluster/head", OTHER, NONE, "4 nvidia.com/gpu", "a head without workers"),
    ),
    "ray-project__kuberay__ray-job.batch-inference": (
        Row("RayJob/head", OTHER, NONE, "4 nvidia.com/gpu", "a head without workers"),
    ),
    "ray-project__kuberay__ray-job.pytorch-distributed-training": (
        Row("RayJob/head", OTHER, NONE, "1 nvidia.com/gpu", "a head without workers"),
    ),
    "ray-project__kuberay__ray-service.deepseek": (
        Row("RayService/head", INFERENCE, NONE, "", HEAD),
        Row(
            "RayService/gpu-group",
            INFERENCE,
            NONE,
            "8 nvidia.com/gpu",
            "the size of its pipeline stands in the application, which no pod shows",
        ),
    ),
    "rook__rook__kube-registry": (Row("Deployment", OTHER, NONE, "", NO_DEVICE),),
    "rook__rook__pod-ephemeral": (Row("Pod", OTHER, NONE, "", NO_DEVICE),),
    "rook__rook__wordpress": (Row("Deployment", OTHER, NONE, "", NO_DEVICE),),
    "sgl-project__ome__daemonset": (Row("DaemonSet", OTHER, NONE, "", NO_DEVICE),),
    "tkestack__gpu-manager__gpu-manager": (Row("DaemonSet", OTHER, NONE, "", NO_DEVICE),),
    "vllm-project__aibrix__1p1d": (
        Row("StormService/prefill", INFERENCE, SPLIT, "1 nvidia.com/gpu", "has vke.volcengine.com/rdma"),
        Row("StormService/decode", INFERENCE, SPLIT, "1 nvidia.com/gpu", "has vke.volcengine.com/rdma"),
    ),
    "vllm-project__aibrix__deepseek-coder-7b-l20-deployment": (
        Row("Deployment", INFERENCE, NONE, "1 nvidia.com/gpu", ALONE),
    ),
    "vllm-project__aibrix__deepseek-r1-ai-runtime": (
        Row(
            "RayClusterFleet/head",
            INFERENCE,
            NONE,
            "8 nvidia.com/gpu",
            "a Ray cluster shows no size; it has vke.volcengine.com/rdma anyway",
        ),
        Row(
            "RayClusterFleet/worker-group",
            INFERENCE,
            NONE,
            "8 nvidia.com/gpu",
            "a Ray cluster shows no size; it has vke.volcengine.com/rdma anyway",
        ),
    ),
    "vllm-project__aibrix__fleet-two-node": (
        Row("RayClusterFleet/head", INFERENCE, NONE, "1 nvidia.com/gpu", "a Ray cluster shows no size"),
        Row(
            "RayClusterFleet/small-group", INFERENCE, NONE, "1 nvidia.com/gpu", "a Ray cluster shows no size"
        ),
    ),
    "vllm-project__aibrix__job": (
        Row(
            "StormService/prefill",
            INFERENCE,
            SPLIT,
            "1 huawei.com/Ascend910",
            "the network of an Ascend 910 is part of it",
        ),
    ),
    "vllm-project__aibrix__model": (Row("Deployment", INFERENCE, NONE, "1 nvidia.com/gpu", ALONE),),
    "vllm-project__aibrix__ps_stack": (
        Row("Deployment", OTHER, NONE, "", NO_DEVICE),
        Row("Deployment", INFERENCE, NONE, "1 nvidia.com/gpu", ALONE),
    ),
    "vllm-project__production-stack__gpu-deployment": (
        Row("Deployment", INFERENCE, NONE, "1 nvidia.com/gpu", ALONE),
    ),
    "vllm-project__production-stack__production-stack_v1alpha1_vllmruntime": (),
    "volcano-sh__volcano__high-priority": (),
    "volcano-sh__volcano__job": (Row("Job/default-nginx", TRAINING, NONE, "", NO_DEVICE),),
    "volcano-sh__volcano__mindspore-gpu": (
        Row("Job/mpimaster", TRAINING, NONE, "", NO_DEVICE),
        Row("Job/mpiworker", TRAINING, MULTI, "1 nvidia.com/gpu", FABRIC, "mpiworker"),
    ),
    "volcano-sh__volcano__mpi-example": (
        Row("Job/mpimaster", TRAINING, NONE, "", NO_DEVICE),
        Row("Job/mpiworker", TRAINING, NONE, "", NO_DEVICE),
    ),
    "volcano-sh__volcano__tf-dist-mnist-example": (
        Row("Job/ps", TRAINING, NONE, "", NO_DEVICE),
        Row("Job/worker", TRAINING, NONE, "", NO_DEVICE),
    ),
}
