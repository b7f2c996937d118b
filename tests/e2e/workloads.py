"""Manifests as users write them. Nothing in them says where, how important, or over which network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.e2e.nodes import GPU

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

IMAGE = "registry.example.org/ai/main:1.0"
VLLM_IMAGE = "vllm/vllm-openai:v0.11.0"
NOTEBOOK_IMAGE = "quay.io/jupyter/pytorch-notebook:2025-10-20"


def container(
    name: str = "main", gpus: int = 0, *, resource: str = GPU, image: str = IMAGE, **more: Any
) -> Json:
    """A container that asks for so many accelerators, and for little else."""
    resources: Json = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    if gpus:
        resources["limits"][resource] = str(gpus)
    return {"name": name, "image": image, "resources": resources} | more


def pod(
    name: str,
    namespace: str,
    gpus: int = 0,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    resource: str = GPU,
    **spec: Any,
) -> Json:
    """A pod with one container; `spec` is put over its spec."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": {"containers": [container(gpus=gpus, resource=resource)]} | spec,
    }


def template(spec: Json, labels: Mapping[str, str]) -> Json:
    """A pod template."""
    return {"metadata": {"labels": dict(labels)}, "spec": spec}


def deployment(name: str, namespace: str, pod_spec: Json, *, replicas: int = 1, **labels: str) -> Json:
    """A Deployment; `labels` are more labels of its pods."""
    own = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": own},
            "template": template(pod_spec, own | labels),
        },
    }


def inference(name: str, namespace: str, gpus: int = 2, replicas: int = 1) -> Json:
    """A model server on vLLM."""
    command = ["vllm", "serve", "/models/qwen"]
    server = container("server", gpus, image=VLLM_IMAGE, command=command)
    return deployment(name, namespace, {"containers": [server]}, replicas=replicas)


def training_job(name: str, namespace: str, gpus: int = 8, nodes: int = 2) -> Json:
    """A training run over several nodes as an indexed Job; torchrun takes its options from the variables PET_*."""
    env = [
        {"name": "PET_NNODES", "value": str(nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": str(gpus)},
        {"name": "PET_RDZV_ENDPOINT", "value": f"{name}-0.{name}:29500"},
    ]
    trainer = container("trainer", gpus, command=["torchrun", "train.py"], env=env)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "completions": nodes,
            "parallelism": nodes,
            "completionMode": "Indexed",
            "template": template(
                {"containers": [trainer], "restartPolicy": "Never", "subdomain": name}, {"app": name}
            ),
        },
    }


def pytorch_pod(job: str, namespace: str, role: str, index: int, *, workers: int = 2, gpus: int = 8) -> Json:
    """A pod as the training operator makes it for a PyTorchJob (kubeflow/training-operator:pkg/controller.v1/pytorch)."""
    labels = {
        "training.kubeflow.org/job-name": job,
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
    }
    env = [
        {"name": "MASTER_ADDR", "value": f"{job}-master-0"},
        {"name": "MASTER_PORT", "value": "23456"},
        {"name": "WORLD_SIZE", "value": str(workers)},
        {"name": "RANK", "value": str(index)},
    ]
    made = pod(f"{job}-{role}-{index}", namespace, labels=labels, restartPolicy="Never")
    made["spec"]["containers"] = [container("pytorch", gpus, env=env)]
    return made


def notebook(name: str, namespace: str, gpus: int = 1) -> Json:
    """A notebook as Kubeflow's controller makes it: a StatefulSet (kubeflow/kubeflow:components/notebook-controller)."""
    own = {"statefulset": name, "notebook-name": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": {"statefulset": name}},
            "template": template({"containers": [container(name, gpus, image=NOTEBOOK_IMAGE)]}, own),
        },
    }
