import copy
import os
import re
from pathlib import Path as File
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.documents import listed_objects, read_documents
from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.field_path import format_field, value_at
from webhook.kube.templates import (
    MAX_CONTAINERS,
    MAX_TEMPLATES,
    Template,
    TemplateKind,
    TemplateKinds,
    TemplateKindsError,
    claim_templates_of,
    shipped_templates,
    templates_of,
    to_object_path,
    virtual_pod,
)
from webhook.kube.templates.references import Reference, Wildcard, compile_reference
from webhook.kube.workload import inspect_workload

JOB = "batch/v1 Job"
REPLICA_SET = "apps/v1 ReplicaSet"
STATEFUL_SET = "apps/v1 StatefulSet"
RAY_CLUSTER = "ray.io/v1 RayCluster"


def spec_of(gpus: int = 1, **more: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": "registry.local/ml/main:1"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return {"containers": [container], **more}


def template_of(gpus: int = 1, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"labels": labels or {"team": "vision"}}, "spec": spec_of(gpus)}


def obj_of(api_version: str, kind: str, spec: Any, **more: Any) -> dict[str, Any]:
    metadata = {"name": "bert", "namespace": "vision"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, **more}


def kind_of(obj: dict[str, Any]) -> TemplateKind:
    kind = shipped_templates().kind_of(obj["apiVersion"].rpartition("/")[0], obj["kind"])
    assert kind is not None
    return kind


def pods_of(obj: dict[str, Any]) -> list[tuple[Template, dict[str, Any]]]:
    kind = kind_of(obj)
    return [(template, virtual_pod(kind, obj, template)) for template in templates_of(kind, obj)]


def owner_of(pod: dict[str, Any]) -> str:
    references = pod["metadata"].get("ownerReferences", [])
    assert all(reference["controller"] is True for reference in references)
    return "".join(f"{reference['apiVersion']} {reference['kind']}" for reference in references)


class Found(NamedTuple):
    """A template, and what its pod is."""

    path: str
    replicas: int
    role: str
    owner: str
    workload_class: str
    communication: str
    asks: bool = True


def found_in(obj: dict[str, Any]) -> list[Found]:
    found = []
    for template, pod in pods_of(obj):
        workload = inspect_workload(pod, shipped_catalogue())
        found.append(
            Found(
                ".".join(map(str, template.path)),
                template.replicas,
                template.role,
                owner_of(pod),
                workload.workload_class,
                workload.communication,
                workload.asks_for_accelerator,
            )
        )
    return found


def kubeflow(kind: str, field: str, **replicas: tuple[int | None, int]) -> dict[str, Any]:
    """A job of the training operator: replicas and GPUs of each type."""
    specs = {
        name: {"template": template_of(gpus)} | ({} if count is None else {"replicas": count})
        for name, (count, gpus) in replicas.items()
    }
    return obj_of("kubeflow.org/v1", kind, {field: specs})


def ray(workers: int = 2, hosts: int = 1) -> dict[str, Any]:
    group = {"groupName": "gpus", "replicas": workers, "numOfHosts": hosts, "template": template_of(8)}
    return {"headGroupSpec": {"template": template_of(0)}, "workerGroupSpecs": [group]}


def lws(size: int | None, *, leader: bool) -> dict[str, Any]:
    group: dict[str, Any] = {"workerTemplate": template_of(8)}
    if size is not None:
        group["size"] = size
    if leader:
        group["leaderTemplate"] = template_of(8)
    return obj_of(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": group}
    )


def replicated_job(name: str, replicas: int, gpus: int = 1, step: str = "") -> dict[str, Any]:
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step}
    job = {"metadata": {"labels": labels}, "spec": {"parallelism": 2, "template": template_of(gpus)}}
    return {"name": name, "replicas": replicas, "template": job}


PYTORCH = "spec.pytorchReplicaSpecs"
MPI = "spec.mpiReplicaSpecs"
JOBSET_POD = "template.spec.template"

OBJECTS: dict[str, tuple[dict[str, Any], list[Found]]] = {
    # Near misses
    "no template": (obj_of("apps/v1", "Deployment", {"replicas": 2}), []),
    "null template": (obj_of("apps/v1", "Deployment", {"template": None}), []),
    "template of the wrong type": (obj_of("apps/v1", "Deployment", {"template": "later"}), []),
    "template without a pod spec": (obj_of("batch/v1", "Job", {"template": {"metadata": {}}}), []),
    "list where a map belongs": (
        obj_of("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": [{"template": template_of()}]}),
        [],
    ),
    "map where a list belongs": (
        obj_of("batch.volcano.sh/v1alpha1", "Job", {"tasks": {"a": {"template": template_of()}}}),
        [],
    ),
    "Deployment without GPU": (
        obj_of("apps/v1", "Deployment", {"replicas": 2, "template": template_of(0)}),
        [Found("spec.template", 2, "", REPLICA_SET, "other", "none", asks=False)],
    ),
    "one master alone": (
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=(1, 8)),
        [Found(f"{PYTORCH}.Master.template", 1, "Master", "kubeflow.org/v1 PyTorchJob", "training", "none")],
    ),
    "one worker alone in a TFJob": (
        kubeflow("TFJob", "tfReplicaSpecs", Worker=(1, 8)),
        [
            Found(
                "spec.tfReplicaSpecs.Worker.template",
                1,
                "Worker",
                "kubeflow.org/v1 TFJob",
                "training",
                "none",
            )
        ],
    ),
    "one worker alone in a PaddleJob": (
        kubeflow("PaddleJob", "paddleReplicaSpecs", Worker=(1, 8)),
        [
            Found(
                "spec.paddleReplicaSpecs.Worker.template",
                1,
                "Worker",
                "kubeflow.org/v1 PaddleJob",
                "training",
                "none",
            )
        ],
    ),
    "one worker alone in a JAXJob": (
        kubeflow("JAXJob", "jaxReplicaSpecs", Worker=(1, 8)),
        [
            Found(
                "spec.jaxReplicaSpecs.Worker.template",
                1,
                "Worker",
                "kubeflow.org/v1 JAXJob",
                "training",
                "none",
            )
        ],
    ),
    "replicas that are no number": (
        obj_of("apps/v1", "ReplicaSet", {"replicas": "many", "template": template_of()}),
        [Found("spec.template", 1, "", REPLICA_SET, "inference", "none")],
    ),
    "replicas true": (
        obj_of("apps/v1", "ReplicaSet", {"replicas": True, "template": template_of()}),
        [Found("spec.template", 1, "", REPLICA_SET, "inference", "none")],
    ),
    "fewer than no replicas": (
        obj_of("apps/v1", "ReplicaSet", {"replicas": -3, "template": template_of()}),
        [Found("spec.template", 0, "", REPLICA_SET, "inference", "none")],
    ),
    "more replicas than an int32 holds": (
        obj_of("apps/v1", "ReplicaSet", {"replicas": 10**30, "template": template_of()}),
        [Found("spec.template", 2**31 - 1, "", REPLICA_SET, "inference", "none")],
    ),
    "replicas as JSON numbers may be written": (
        obj_of("apps/v1", "ReplicaSet", {"replicas": 3.0, "template": template_of()}),
        [Found("spec.template", 3, "", REPLICA_SET, "inference", "none")],
    ),
    # Kubernetes
    "Deployment": (
        obj_of("apps/v1", "Deployment", {"template": template_of()}),
        [Found("spec.template", 1, "", REPLICA_SET, "inference", "none")],
    ),
    "Deployment of a later version": (
        obj_of("apps/v2", "Deployment", {"template": template_of()}),
        [Found("spec.template", 1, "", REPLICA_SET, "inference", "none")],
    ),
    "ReplicaSet scaled to nothing": (
        obj_of("apps/v1", "ReplicaSet", {"replicas": 0, "template": template_of()}),
        [Found("spec.template", 0, "", REPLICA_SET, "inference", "none")],
    ),
    "ReplicationController": (
        obj_of("v1", "ReplicationController", {"replicas": 2, "template": template_of()}),
        [Found("spec.template", 2, "", "v1 ReplicationController", "other", "none")],
    ),
    "StatefulSet": (
        obj_of("apps/v1", "StatefulSet", {"replicas": 4, "template": template_of()}),
        [Found("spec.template", 4, "", STATEFUL_SET, "inference", "none")],
    ),
    "DaemonSet": (
        obj_of("apps/v1", "DaemonSet", {"template": template_of()}),
        [Found("spec.template", 1, "", "apps/v1 DaemonSet", "other", "none")],
    ),
    "Job": (
        obj_of("batch/v1", "Job", {"parallelism": 3, "template": template_of()}),
        [Found("spec.template", 3, "", JOB, "training", "none")],
    ),
    "CronJob": (
        obj_of(
            "batch/v1", "CronJob", {"jobTemplate": {"spec": {"parallelism": 2, "template": template_of()}}}
        ),
        [Found("spec.jobTemplate.spec.template", 2, "", JOB, "training", "none")],
    ),
    "PodTemplate": (
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "bert"}, "template": template_of()},
        [Found("template", 1, "", "", "other", "none")],
    ),
    # Kubeflow
    "PyTorchJob of four workers": (
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", Worker=(4, 8)),
        [
            Found(
                f"{PYTORCH}.Worker.template",
                4,
                "Worker",
                "kubeflow.org/v1 PyTorchJob",
                "training",
                "multiNode",
            )
        ],
    ),
    "PyTorchJob of a master and workers": (
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=(None, 8), Worker=(3, 8)),
        [
            Found(
                f"{PYTORCH}.Master.template",
                1,
                "Master",
                "kubeflow.org/v1 PyTorchJob",
                "training",
                "multiNode",
            ),
            Found(
                f"{PYTORCH}.Worker.template",
                3,
                "Worker",
                "kubeflow.org/v1 PyTorchJob",
                "training",
                "multiNode",
            ),
        ],
    ),
    "TFJob": (
        kubeflow("TFJob", "tfReplicaSpecs", PS=(2, 0), Worker=(3, 1)),
        [
            Found(
                "spec.tfReplicaSpecs.PS.template",
                2,
                "PS",
                "kubeflow.org/v1 TFJob",
                "training",
                "none",
                asks=False,
            ),
            Found(
                "spec.tfReplicaSpecs.Worker.template",
                3,
                "Worker",
                "kubeflow.org/v1 TFJob",
                "training",
                "multiNode",
            ),
        ],
    ),
    "XGBoostJob": (
        kubeflow("XGBoostJob", "xgbReplicaSpecs", Master=(1, 1), Worker=(2, 1)),
        [
            Found(
                "spec.xgbReplicaSpecs.Master.template",
                1,
                "Master",
                "kubeflow.org/v1 XGBoostJob",
                "training",
                "multiNode",
            ),
            Found(
                "spec.xgbReplicaSpecs.Worker.template",
                2,
                "Worker",
                "kubeflow.org/v1 XGBoostJob",
                "training",
                "multiNode",
            ),
        ],
    ),
    "PaddleJob": (
        kubeflow("PaddleJob", "paddleReplicaSpecs", Worker=(2, 2)),
        [
            Found(
                "spec.paddleReplicaSpecs.Worker.template",
                2,
                "Worker",
                "kubeflow.org/v1 PaddleJob",
                "training",
                "multiNode",
            )
        ],
    ),
    "JAXJob": (
        kubeflow("JAXJob", "jaxReplicaSpecs", Worker=(2, 2)),
        [
            Found(
                "spec.jaxReplicaSpecs.Worker.template",
                2,
                "Worker",
                "kubeflow.org/v1 JAXJob",
                "training",
                "multiNode",
            )
        ],
    ),
    "MPIJob of the MPI operator": (
        {
            **kubeflow("MPIJob", "mpiReplicaSpecs", Launcher=(1, 0), Worker=(2, 8)),
            "apiVersion": "kubeflow.org/v2beta1",
        },
        [
            Found(f"{MPI}.Launcher.template", 1, "Launcher", JOB, "training", "none", asks=False),
            Found(
                f"{MPI}.Worker.template", 2, "Worker", "kubeflow.org/v2beta1 MPIJob", "training", "multiNode"
            ),
        ],
    ),
    "MPIJob of the training operator": (
        kubeflow("MPIJob", "mpiReplicaSpecs", Launcher=(1, 0), Worker=(2, 8)),
        [
            Found(
                f"{MPI}.Launcher.template",
                1,
                "Launcher",
                "kubeflow.org/v1 MPIJob",
                "training",
                "none",
                asks=False,
            ),
            Found(f"{MPI}.Worker.template", 2, "Worker", "kubeflow.org/v1 MPIJob", "training", "multiNode"),
        ],
    ),
    "ClusterTrainingRuntime": (
        obj_of(
            "trainer.kubeflow.org/v1alpha1",
            "ClusterTrainingRuntime",
            {
                "mlPolicy": {"numNodes": 4, "torch": {}},
                "template": {
                    "spec": {
                        "replicatedJobs": [
                            replicated_job("data", 1, 0),
                            replicated_job("node", 1, 8, "trainer"),
                        ]
                    }
                },
            },
        ),
        [
            Found(
                f"spec.template.spec.replicatedJobs.0.{JOBSET_POD}",
                2,
                "data",
                JOB,
                "training",
                "none",
                asks=False,
            ),
            Found(
                f"spec.template.spec.replicatedJobs.1.{JOBSET_POD}", 4, "node", JOB, "training", "multiNode"
            ),
        ],
    ),
    "TrainJob": (obj_of("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "torch"}}), []),
    "Notebook": (
        obj_of("kubeflow.org/v1beta1", "Notebook", {"template": template_of()}),
        [Found("spec.template", 1, "", STATEFUL_SET, "notebook", "none")],
    ),
    # Sets of jobs and groups of pods
    "JobSet": (
        obj_of(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [replicated_job("driver", 1, 0), replicated_job("w", 3)]},
        ),
        [
            Found(f"spec.replicatedJobs.0.{JOBSET_POD}", 2, "driver", JOB, "training", "none", asks=False),
            Found(f"spec.replicatedJobs.1.{JOBSET_POD}", 6, "w", JOB, "training", "multiNode"),
        ],
    ),
    "LeaderWorkerSet of groups of four": (
        lws(4, leader=True),
        [
            Found(
                "spec.leaderWorkerTemplate.leaderTemplate",
                2,
                "leader",
                STATEFUL_SET,
                "inference",
                "multiNode",
            ),
            Found(
                "spec.leaderWorkerTemplate.workerTemplate",
                6,
                "worker",
                STATEFUL_SET,
                "inference",
                "multiNode",
            ),
        ],
    ),
    "LeaderWorkerSet led by a worker": (
        lws(4, leader=False),
        [
            Found(
                "spec.leaderWorkerTemplate.workerTemplate",
                8,
                "worker",
                STATEFUL_SET,
                "inference",
                "multiNode",
            )
        ],
    ),
    "LeaderWorkerSet of single pods": (
        lws(None, leader=False),
        [Found("spec.leaderWorkerTemplate.workerTemplate", 2, "worker", STATEFUL_SET, "inference", "none")],
    ),
    "Volcano Job": (
        obj_of(
            "batch.volcano.sh/v1alpha1",
            "Job",
            {
                "plugins": {"svc": []},
                "tasks": [
                    {"name": "master", "template": template_of(0)},
                    {"name": "worker", "replicas": 2, "template": template_of(8)},
                ],
            },
        ),
        [
            Found(
                "spec.tasks.0.template",
                1,
                "master",
                "batch.volcano.sh/v1alpha1 Job",
                "training",
                "none",
                asks=False,
            ),
            Found(
                "spec.tasks.1.template", 2, "worker", "batch.volcano.sh/v1alpha1 Job", "training", "multiNode"
            ),
        ],
    ),
    "Volcano Job of workers that do not talk": (
        obj_of(
            "batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"name": "worker", "template": template_of(8)}]}
        ),
        [Found("spec.tasks.0.template", 1, "worker", "batch.volcano.sh/v1alpha1 Job", "training", "none")],
    ),
    "AscendJob": (
        obj_of(
            "mindxdl.gitee.com/v1",
            "AscendJob",
            {"replicaSpecs": {"Worker": {"replicas": 2, "template": template_of()}}},
        ),
        [
            Found(
                "spec.replicaSpecs.Worker.template",
                2,
                "Worker",
                "mindxdl.gitee.com/v1 AscendJob",
                "training",
                "none",
            )
        ],
    ),
    "PodCliqueSet": (
        obj_of(
            "grove.io/v1alpha1",
            "PodCliqueSet",
            {
                "replicas": 2,
                "template": {"cliques": [{"name": "decode", "spec": {"replicas": 3, "podSpec": spec_of()}}]},
            },
        ),
        [Found("spec.template.cliques.0", 6, "decode", "grove.io/v1alpha1 PodClique", "inference", "none")],
    ),
    # Ray
    "RayCluster": (
        obj_of("ray.io/v1", "RayCluster", ray()),
        [
            Found("spec.headGroupSpec.template", 1, "head", RAY_CLUSTER, "other", "none", asks=False),
            Found("spec.workerGroupSpecs.0.template", 2, "gpus", RAY_CLUSTER, "other", "none"),
        ],
    ),
    "RayCluster of replicas that span hosts": (
        obj_of("ray.io/v1", "RayCluster", ray(2, hosts=4)),
        [
            Found("spec.headGroupSpec.template", 1, "head", RAY_CLUSTER, "other", "none", asks=False),
            Found("spec.workerGroupSpecs.0.template", 8, "gpus", RAY_CLUSTER, "other", "multiNode"),
        ],
    ),
    "RayJob": (
        obj_of("ray.io/v1", "RayJob", {"rayClusterSpec": ray(), "submitterPodTemplate": template_of(0)}),
        [
            Found(
                "spec.rayClusterSpec.headGroupSpec.template",
                1,
                "head",
                RAY_CLUSTER,
                "other",
                "none",
                asks=False,
            ),
            Found("spec.rayClusterSpec.workerGroupSpecs.0.template", 2, "gpus", RAY_CLUSTER, "other", "none"),
            Found("spec.submitterPodTemplate", 1, "submitter", JOB, "other", "none", asks=False),
        ],
    ),
    "RayService": (
        obj_of("ray.io/v1", "RayService", {"rayClusterConfig": ray()}),
        [
            Found(
                "spec.rayClusterConfig.headGroupSpec.template",
                1,
                "head",
                RAY_CLUSTER,
                "inference",
                "none",
                asks=False,
            ),
            Found(
                "spec.rayClusterConfig.workerGroupSpecs.0.template",
                2,
                "gpus",
                RAY_CLUSTER,
                "inference",
                "none",
            ),
        ],
    ),
    "RayClusterFleet": (
        obj_of(
            "orchestration.aibrix.ai/v1alpha1",
            "RayClusterFleet",
            {"replicas": 3, "template": {"spec": ray()}},
        ),
        [
            Found(
                "spec.template.spec.headGroupSpec.template",
                3,
                "head",
                RAY_CLUSTER,
                "other",
                "none",
                asks=False,
            ),
            Found("spec.template.spec.workerGroupSpecs.0.template", 6, "gpus", RAY_CLUSTER, "other", "none"),
        ],
    ),
    # Serving
    "InferenceService with containers": (
        obj_of("serving.kserve.io/v1beta1", "InferenceService", {"predictor": spec_of(2, minReplicas=3)}),
        [Found("spec.predictor", 3, "predictor", REPLICA_SET, "inference", "none")],
    ),
    "InferenceService with a model and a transformer": (
        obj_of(
            "serving.kserve.io/v1beta1",
            "InferenceService",
            {
                "predictor": {"model": {"resources": {"limits": {"nvidia.com/gpu": 1}}}},
                "transformer": spec_of(0),
            },
        ),
        [
            Found("spec.predictor", 1, "predictor", REPLICA_SET, "inference", "none"),
            Found("spec.transformer", 1, "transformer", REPLICA_SET, "inference", "none", asks=False),
        ],
    ),
    "InferenceService whose predictor has no container": (
        obj_of("serving.kserve.io/v1beta1", "InferenceService", {"predictor": {"minReplicas": 1}}),
        [],
    ),
    "LLMInferenceService on one node": (
        obj_of("serving.kserve.io/v1alpha2", "LLMInferenceService", {"replicas": 3, "template": spec_of()}),
        [Found("spec.template", 3, "", REPLICA_SET, "inference", "none")],
    ),
    "LLMInferenceService of groups": (
        obj_of(
            "serving.kserve.io/v1alpha2",
            "LLMInferenceService",
            {
                "replicas": 2,
                "parallelism": {"data": 32, "dataLocal": 8},
                "template": spec_of(8),
                "worker": spec_of(8),
            },
        ),
        [
            Found("spec.template", 2, "leader", STATEFUL_SET, "inference", "multiNode"),
            Found("spec.worker", 6, "worker", STATEFUL_SET, "inference", "multiNode"),
        ],
    ),
    "LLMInferenceService of prefill and decode": (
        obj_of(
            "serving.kserve.io/v1alpha2",
            "LLMInferenceService",
            {"template": spec_of(), "prefill": {"replicas": 2, "template": spec_of()}},
        ),
        [
            Found("spec.template", 1, "", REPLICA_SET, "inference", "disaggregated"),
            Found("spec.prefill.template", 2, "prefill", REPLICA_SET, "inference", "disaggregated"),
        ],
    ),
    "LLMInferenceService that spells nothing out": (
        obj_of("serving.kserve.io/v1alpha2", "LLMInferenceService", {"model": {"uri": "hf://m"}}),
        [],
    ),
    "LLMInferenceService of groups for prefill": (
        obj_of(
            "serving.kserve.io/v1alpha2",
            "LLMInferenceService",
            {
                "prefill": {
                    "replicas": 2,
                    "parallelism": {"pipeline": 3},
                    "template": spec_of(8),
                    "worker": spec_of(8),
                }
            },
        ),
        [
            Found("spec.prefill.template", 2, "prefill-leader", STATEFUL_SET, "inference", "disaggregated"),
            Found("spec.prefill.worker", 4, "prefill-worker", STATEFUL_SET, "inference", "disaggregated"),
        ],
    ),
    "LLMInferenceService of more local ranks than ranks": (
        obj_of(
            "serving.kserve.io/v1alpha2",
            "LLMInferenceService",
            {"parallelism": {"data": 4, "dataLocal": 8}, "worker": spec_of(8)},
        ),
        [Found("spec.worker", 1, "worker", STATEFUL_SET, "inference", "disaggregated")],
    ),
    "LLMInferenceService of groups led by a worker": (
        obj_of(
            "serving.kserve.io/v1alpha2",
            "LLMInferenceService",
            {
                "parallelism": {"pipeline": 2},
                "worker": spec_of(8),
                "prefill": {"parallelism": {"pipeline": 3}, "worker": spec_of(8)},
            },
        ),
        [
            Found("spec.worker", 2, "worker", STATEFUL_SET, "inference", "disaggregated"),
            Found("spec.prefill.worker", 3, "prefill-worker", STATEFUL_SET, "inference", "disaggregated"),
        ],
    ),
    "InferenceService over nodes": (
        obj_of(
            "serving.kserve.io/v1beta1",
            "InferenceService",
            {"predictor": {"model": {}, "workerSpec": spec_of(8, pipelineParallelSize=3)}},
        ),
        [
            Found("spec.predictor", 1, "predictor", REPLICA_SET, "inference", "none", asks=False),
            Found("spec.predictor.workerSpec", 2, "worker", REPLICA_SET, "inference", "multiNode"),
        ],
    ),
    "StormService": (
        obj_of(
            "orchestration.aibrix.ai/v1alpha1",
            "StormService",
            {
                "replicas": 2,
                "template": {
                    "spec": {"roles": [{"name": "prefill", "replicas": 3, "template": template_of()}]}
                },
            },
        ),
        [
            Found(
                "spec.template.spec.roles.0.template",
                6,
                "prefill",
                "orchestration.aibrix.ai/v1alpha1 RoleSet",
                "inference",
                "disaggregated",
            )
        ],
    ),
    "kaito Workspace with a template": (
        obj_of(
            "kaito.sh/v1beta1",
            "Workspace",
            None,
            resource={"count": 2},
            inference={"template": template_of()},
        ),
        [Found("inference.template", 2, "", REPLICA_SET, "inference", "none")],
    ),
    "kaito Workspace of a preset": (
        obj_of("kaito.sh/v1beta1", "Workspace", None, inference={"preset": {"name": "falcon"}}),
        [],
    ),
    "NIMService": (obj_of("apps.nvidia.com/v1alpha1", "NIMService", {"replicas": 1}), []),
    # Argo
    "Workflow": (
        obj_of(
            "argoproj.io/v1alpha1",
            "Workflow",
            {
                "templates": [
                    {"name": "all", "steps": [[{"name": "fit", "template": "fit"}]]},
                    {"name": "fit", "container": spec_of(4)["containers"][0]},
                ]
            },
        ),
        [Found("spec.templates.1", 1, "fit", "argoproj.io/v1alpha1 Workflow", "training", "none")],
    ),
    "CronWorkflow": (
        obj_of(
            "argoproj.io/v1alpha1",
            "CronWorkflow",
            {"workflowSpec": {"templates": [{"name": "fit", "script": spec_of(4)["containers"][0]}]}},
        ),
        [
            Found(
                "spec.workflowSpec.templates.0", 1, "fit", "argoproj.io/v1alpha1 Workflow", "training", "none"
            )
        ],
    ),
    "Rollout": (
        obj_of("argoproj.io/v1alpha1", "Rollout", {"replicas": 2, "template": template_of()}),
        [Found("spec.template", 2, "", REPLICA_SET, "inference", "none")],
    ),
}


@pytest.mark.parametrize(("obj", "expected"), OBJECTS.values(), ids=OBJECTS)
def test_an_object_has_these_pods(obj: dict[str, Any], expected: list[Found]) -> None:
    assert found_in(obj) == expected


def test_every_kind_is_tried() -> None:
    alike = {
        "TrainingRuntime",
        "WorkflowTemplate",
        "ClusterWorkflowTemplate",
        "NIMCache",
        "DynamoGraphDeployment",
        "VLLMRuntime",
    }
    tried = {obj["kind"] for obj, _ in OBJECTS.values()} | alike
    assert {kind.kind for kind in shipped_templates().kinds} == tried


@pytest.mark.parametrize("obj", [obj for obj, _ in OBJECTS.values()], ids=list(OBJECTS))
def test_making_pods_leaves_the_object_alone(obj: dict[str, Any]) -> None:
    before = copy.deepcopy(obj)
    pods_of(obj)
    assert obj == before


@pytest.mark.parametrize("obj", [obj for obj, found in OBJECTS.values() if found])
def test_every_container_maps_back_to_the_object(obj: dict[str, Any]) -> None:
    for template, pod in pods_of(obj):
        for index, container in enumerate(pod["spec"]["containers"]):
            path = to_object_path(template, ("spec", "containers", index, "resources"))
            assert value_at(obj, path) == container.get("resources")


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("", "Pod"),
        ("", "Service"),
        ("example.org", "Deployment"),
        ("apps", "deployment"),
        ("apps/v1", "Deployment"),
    ],
)
def test_other_kinds_are_not_known(group: str, kind: str) -> None:
    assert shipped_templates().kind_of(group, kind) is None


ELSEWHERE = {
    "TrainJob": (
        "trainer.kubeflow.org",
        "its pods come from the training runtime that spec.runtimeRef names",
    ),
    "NIMService": ("apps.nvidia.com", "the NIM operator composes its pods"),
    "Deployment": ("apps", ""),
}


@pytest.mark.parametrize(("kind", "group", "sentence"), [(kind, *rest) for kind, rest in ELSEWHERE.items()])
def test_a_kind_says_where_its_pods_come_from(kind: str, group: str, sentence: str) -> None:
    found = shipped_templates().kind_of(group, kind)
    assert found is not None
    assert found.elsewhere == sentence


RESOURCES = {
    ("apps", "Deployment"): "deployments.apps",
    ("", "PodTemplate"): "podtemplates",
    ("batch.volcano.sh", "Job"): "jobs.batch.volcano.sh",
    ("kubeflow.org", "PyTorchJob"): "pytorchjobs.kubeflow.org",
}


@pytest.mark.parametrize(("key", "resource"), RESOURCES.items())
def test_resources_are_named_as_kubectl_names_them(key: tuple[str, str], resource: str) -> None:
    kind = shipped_templates().kind_of(*key)
    assert kind is not None
    assert kind.resource == resource


def test_every_resource_ends_with_its_group_and_is_plural() -> None:
    for kind in shipped_templates().kinds:
        plural, _, group = kind.resource.partition(".")
        assert group == kind.group
        assert plural == f"{kind.kind.lower()}s"


# -- the pod


def test_a_pod_without_additions_shares_the_template() -> None:
    obj = obj_of("apps/v1", "Deployment", {"template": template_of()})
    ((_, pod),) = pods_of(obj)
    assert pod == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "bert-",
            "namespace": "vision",
            "labels": {"team": "vision"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bert", "controller": True}
            ],
        },
        "spec": obj["spec"]["template"]["spec"],
    }
    assert pod["spec"] is obj["spec"]["template"]["spec"]
    assert pod["metadata"]["labels"] is obj["spec"]["template"]["metadata"]["labels"]


def test_variables_stand_behind_those_of_the_template() -> None:
    obj = kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=(1, 8), Worker=(3, 8))
    worker = obj["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker["env"] = [{"name": "WORLD_SIZE", "value": "8"}, {"name": "NCCL_DEBUG", "value": "INFO"}]
    _, (_, pod) = pods_of(obj)
    assert pod["spec"]["containers"] == [
        {
            **worker,
            "env": [
                {"name": "WORLD_SIZE", "value": "8"},
                {"name": "NCCL_DEBUG", "value": "INFO"},
                {"name": "MASTER_ADDR", "value": "bert-master-0"},
                {"name": "WORLD_SIZE", "value": "4"},
                {"name": "PET_NNODES", "value": "4"},
                {"name": "RANK", "value": "1"},
                {"name": "PET_NODE_RANK", "value": "1"},
            ],
        }
    ]
    assert pod["spec"]["containers"][0]["resources"] is worker["resources"]


def variables(pod: dict[str, Any]) -> dict[str, Any]:
    return {item["name"]: item.get("value") for item in pod["spec"]["containers"][0]["env"]}


ELASTIC: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "not elastic": ({}, {"PET_NNODES": "3"}),
    "processes per node": ({"nprocPerNode": "8"}, {"PET_NNODES": "3"}),
    "elastic by the workers": ({"elasticPolicy": {}}, {"PET_NNODES": "3"}),
    "elastic by bounds": ({"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}}, {"PET_NNODES": "1:4"}),
    "elastic with processes": (
        {"elasticPolicy": {"nProcPerNode": 8}},
        {"PET_NNODES": "3", "PET_NPROC_PER_NODE": "8"},
    ),
}


@pytest.mark.parametrize(("policy", "expected"), ELASTIC.values(), ids=ELASTIC)
def test_an_elastic_job_names_its_nodes(policy: dict[str, Any], expected: dict[str, str]) -> None:
    obj = kubeflow("PyTorchJob", "pytorchReplicaSpecs", Worker=(3, 8))
    obj["spec"] |= policy
    ((_, pod),) = pods_of(obj)
    assert variables(pod) == expected


def test_the_world_counts_processes() -> None:
    obj = kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=(1, 8), Worker=(1, 8))
    obj["spec"]["nprocPerNode"] = "8"
    (_, pod), _ = pods_of(obj)
    assert variables(pod) == {
        "MASTER_ADDR": "bert-master-0",
        "WORLD_SIZE": "16",
        "PET_NPROC_PER_NODE": "8",
        "PET_NNODES": "2",
        "RANK": "0",
        "PET_NODE_RANK": "0",
    }


def test_the_world_counts_pods_where_processes_are_found_out_later() -> None:
    obj = kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=(1, 8), Worker=(1, 8))
    obj["spec"]["nprocPerNode"] = "auto"
    (_, pod), _ = pods_of(obj)
    assert variables(pod)["WORLD_SIZE"] == "2"


def test_init_containers_get_the_variables_that_go_there() -> None:
    obj = lws(4, leader=False)
    spec = obj["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    spec["initContainers"] = [{"name": "fetch"}, None, "odd"]
    ((_, pod),) = pods_of(obj)
    added = [
        {"name": "LWS_LEADER_ADDRESS", "value": "bert-0.bert.vision"},
        {"name": "LWS_GROUP_SIZE", "value": "4"},
        {"name": "LWS_WORKER_INDEX", "value": "0"},
    ]
    assert pod["spec"]["initContainers"] == [{"name": "fetch", "env": added}, None, "odd"]
    assert pod["spec"]["containers"][0]["env"] == added


def test_variables_of_a_training_job_stay_out_of_init_containers() -> None:
    obj = kubeflow("PyTorchJob", "pytorchReplicaSpecs", Worker=(2, 8))
    spec = obj["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    spec["initContainers"] = [{"name": "fetch"}]
    ((_, pod),) = pods_of(obj)
    assert pod["spec"]["initContainers"] is spec["initContainers"]


def test_labels_of_the_controller_win() -> None:
    obj = kubeflow("TFJob", "tfReplicaSpecs", Worker=(1, 1))
    obj["spec"]["tfReplicaSpecs"]["Worker"]["template"]["metadata"]["labels"] = {
        "training.kubeflow.org/job-name": "another",
        "team": "vision",
    }
    ((_, pod),) = pods_of(obj)
    assert pod["metadata"]["labels"] == {
        "team": "vision",
        "training.kubeflow.org/operator-name": "tfjob-controller",
        "training.kubeflow.org/job-name": "bert",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "0",
    }


def test_jobset_writes_the_same_labels_and_annotations() -> None:
    obj = obj_of(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {"replicatedJobs": [replicated_job("a", 1), replicated_job("b", 3)]},
    )
    _, (_, pod) = pods_of(obj)
    annotations = pod["metadata"]["annotations"]
    assert annotations == {
        "jobset.sigs.k8s.io/jobset-name": "bert",
        "jobset.sigs.k8s.io/replicatedjob-name": "b",
        "jobset.sigs.k8s.io/replicatedjob-replicas": "3",
        "jobset.sigs.k8s.io/global-replicas": "4",
        "jobset.sigs.k8s.io/job-index": "0",
        "jobset.sigs.k8s.io/restart-attempt": "0",
    }
    assert annotations.items() <= pod["metadata"]["labels"].items()


def test_an_indexed_job_numbers_its_pods() -> None:
    obj = obj_of("batch/v1", "Job", {"completionMode": "Indexed", "template": template_of()})
    ((_, pod),) = pods_of(obj)
    assert pod["metadata"]["annotations"] == {"batch.kubernetes.io/job-completion-index": "0"}


def test_a_notebook_copies_its_own_metadata_and_not_that_of_its_template() -> None:
    obj = obj_of("kubeflow.org/v1", "Notebook", {"template": template_of()})
    obj["metadata"] |= {
        "labels": {"owner": "alice"},
        "annotations": {"podgate.dev/skip": "gpu-limits: urgent"},
    }
    ((template, pod),) = pods_of(obj)
    assert pod["metadata"]["labels"] == {"owner": "alice", "statefulset": "bert", "notebook-name": "bert"}
    assert pod["metadata"]["annotations"] == {"podgate.dev/skip": "gpu-limits: urgent"}
    assert to_object_path(template, ("metadata", "labels", "owner")) == ("metadata", "labels", "owner")


def test_an_inference_service_copies_labels_and_takes_those_of_the_component() -> None:
    predictor = spec_of(1, labels={"tier": "gold"}, annotations={"note": "a"})
    obj = obj_of("serving.kserve.io/v1beta1", "InferenceService", {"predictor": predictor})
    obj["metadata"] |= {"labels": {"owner": "alice"}, "annotations": {"note": "b"}}
    ((_, pod),) = pods_of(obj)
    assert pod["metadata"]["labels"] == {
        "owner": "alice",
        "tier": "gold",
        "serving.kserve.io/inferenceservice": "bert",
        "component": "predictor",
    }
    assert pod["metadata"]["annotations"] == {"note": "a"}


def test_a_model_is_a_container_behind_the_others() -> None:
    predictor = {"containers": [{"name": "proxy"}], "model": {"storageUri": "s3://m"}}
    obj = obj_of("serving.kserve.io/v1beta1", "InferenceService", {"predictor": predictor})
    ((template, pod),) = pods_of(obj)
    assert pod["spec"]["containers"] == [
        {"name": "proxy"},
        {"storageUri": "s3://m", "name": "kserve-container"},
    ]
    path = to_object_path(template, ("spec", "containers", 1, "resources"))
    assert path == ("spec", "predictor", "model", "resources")


def test_all_containers_of_a_workflow_step_are_seen() -> None:
    step = {
        "name": "fit",
        "containerSet": {"containers": [{"name": "a"}, {"name": "b"}]},
        "sidecars": [{"name": "log"}],
    }
    obj = obj_of("argoproj.io/v1alpha1", "Workflow", {"templates": [step]})
    ((template, pod),) = pods_of(obj)
    assert [container["name"] for container in pod["spec"]["containers"]] == ["a", "b", "log"]
    path = to_object_path(template, ("spec", "containers", 1))
    assert path == ("spec", "templates", 0, "containerSet", "containers", 1)


def test_what_is_no_container_of_a_workflow_step_is_passed_over() -> None:
    step = {"name": "fit", "containerSet": {"containers": [None, "a", {"name": "b"}]}}
    obj = obj_of("argoproj.io/v1alpha1", "Workflow", {"templates": [step]})
    ((template, pod),) = pods_of(obj)
    assert pod["spec"]["containers"] == [{"name": "b"}]
    path = to_object_path(template, ("spec", "containers", 0, "image"))
    assert path == ("spec", "templates", 0, "containerSet", "containers", 2, "image")


def test_fields_of_the_job_fill_in_for_those_of_the_template() -> None:
    tasks = [{"name": "a", "template": template_of()}, {"name": "b", "template": template_of()}]
    tasks[1]["template"]["spec"] |= {"schedulerName": "own", "priorityClassName": None}  # type: ignore[index]
    obj = obj_of("batch.volcano.sh/v1alpha1", "Job", {"priorityClassName": "gpu-high", "tasks": tasks})
    (_, first), (_, second) = pods_of(obj)
    assert (first["spec"]["schedulerName"], first["spec"]["priorityClassName"]) == ("volcano", "gpu-high")
    assert (second["spec"]["schedulerName"], second["spec"]["priorityClassName"]) == ("own", "gpu-high")


def test_a_field_that_nobody_fills_stays_away() -> None:
    obj = obj_of("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"template": template_of()}]})
    ((_, pod),) = pods_of(obj)
    assert "priorityClassName" not in pod["spec"]


def test_volcano_names_the_hosts_of_all_tasks() -> None:
    tasks = [
        {"name": "ps-0", "template": template_of()},
        {"name": "worker", "template": template_of()},
        {"name": 7},
    ]
    obj = obj_of("batch.volcano.sh/v1alpha1", "Job", {"plugins": {"svc": []}, "tasks": tasks})
    (_, pod), _ = pods_of(obj)
    assert pod["spec"]["containers"][0]["env"] == [
        {"name": name, "valueFrom": {"configMapKeyRef": {"name": "bert-svc", "key": name}}}
        for name in ("VC_PS_0_HOSTS", "VC_WORKER_HOSTS")
    ]


INDEX = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}},
}
OWN_INDEX = {"name": "JOB_COMPLETION_INDEX", "value": "7"}


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
@pytest.mark.parametrize(
    ("env", "expected"),
    [
        pytest.param(None, [INDEX], id="none"),
        pytest.param([{"name": "A", "value": "b"}], [{"name": "A", "value": "b"}, INDEX], id="another"),
        pytest.param([OWN_INDEX], [OWN_INDEX], id="its own"),
        pytest.param(["A", 7], ["A", 7, INDEX], id="no variables"),
        pytest.param([{"name": {}}], [{"name": {}}, INDEX], id="no name"),
        pytest.param("A", [INDEX], id="no list"),
    ],
)
def test_an_indexed_job_gives_every_container_its_index_unless_it_has_one(
    kind: str, env: Any, expected: list[Any]
) -> None:
    template = template_of()
    template["spec"] |= {
        "containers": [{"name": "main", "env": env}],
        "initContainers": [{"name": "fetch", "env": env}, 7],
    }
    spec = {"completionMode": "Indexed", "template": template}
    ((_, pod),) = pods_of(
        obj_of("batch/v1", kind, spec if kind == "Job" else {"jobTemplate": {"spec": spec}})
    )
    assert [each["env"] for each in pod["spec"]["containers"]] == [expected]
    assert [each["env"] for each in pod["spec"]["initContainers"][:1]] == [expected]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"name": "bert"}, {"generateName": "bert-"}),
        ({"generateName": "bert-"}, {"generateName": "bert-"}),
        ({"name": "bert", "namespace": "vision"}, {"generateName": "bert-", "namespace": "vision"}),
        ({"name": 7, "namespace": []}, {}),
        (None, {}),
    ],
)
def test_a_pod_is_named_after_its_object(metadata: Any, expected: dict[str, str]) -> None:
    obj = {**obj_of("v1", "PodTemplate", None), "template": {"spec": {}}, "metadata": metadata}
    ((_, pod),) = pods_of(obj)
    assert pod["metadata"] == expected


USERS = {
    "Deployment": "system:serviceaccount:kube-system:replicaset-controller",
    "DaemonSet": "system:serviceaccount:kube-system:daemon-set-controller",
    "CronJob": "system:serviceaccount:kube-system:job-controller",
    "RayCluster": "",
}


@pytest.mark.parametrize(("name", "user"), USERS.items())
def test_the_user_that_creates_the_pods(name: str, user: str) -> None:
    obj, _ = OBJECTS[name]
    assert {template.user for template, _ in pods_of(obj)} == {user}


# -- paths

PATHS: dict[str, tuple[tuple[str | int, ...], str]] = {
    "a limit": (
        ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"),
        'spec.pytorchReplicaSpecs.Worker.template.spec.containers["main"].resources.limits["nvidia.com/gpu"]',
    ),
    "the pod spec": (("spec",), "spec.pytorchReplicaSpecs.Worker.template.spec"),
    "a label of the template": (
        ("metadata", "labels", "team"),
        "spec.pytorchReplicaSpecs.Worker.template.metadata.labels.team",
    ),
    "all labels": (("metadata", "labels"), "spec.pytorchReplicaSpecs.Worker.template.metadata.labels"),
    "a label that the controller sets": (("metadata", "labels", "training.kubeflow.org/job-name"), ""),
    "the owner": (("metadata", "ownerReferences", 0), ""),
    "the namespace": (("metadata", "namespace"), ""),
    "the metadata": (("metadata",), ""),
    "the kind": (("kind",), ""),
    "the pod": ((), ""),
}


@pytest.mark.parametrize(("path", "expected"), PATHS.values(), ids=PATHS)
def test_a_path_of_the_pod_leads_to_the_object(path: tuple[str | int, ...], expected: str) -> None:
    obj = kubeflow("PyTorchJob", "pytorchReplicaSpecs", Worker=(2, 1))
    ((template, _),) = pods_of(obj)
    assert format_field(obj, to_object_path(template, path)) == expected


def test_a_label_of_an_inline_spec_has_no_place_in_the_object() -> None:
    obj, _ = OBJECTS["LLMInferenceService on one node"]
    ((template, _),) = pods_of(obj)
    assert to_object_path(template, ("metadata", "labels", "team")) == ()


# -- claims


def test_claim_templates_are_found() -> None:
    claims: list[Any] = [{"metadata": {"name": "data"}, "spec": {}}, None, {"spec": {}}]
    obj = obj_of("apps/v1", "StatefulSet", {"volumeClaimTemplates": claims})
    assert claim_templates_of(kind_of(obj), obj) == (
        ("spec", "volumeClaimTemplates", 0),
        ("spec", "volumeClaimTemplates", 2),
    )


@pytest.mark.parametrize(
    "spec", [None, {}, {"volumeClaimTemplates": {"a": {}}}, {"volumeClaimTemplates": ["a"]}]
)
def test_what_is_no_claim_template_is_none(spec: Any) -> None:
    obj = obj_of("apps/v1", "StatefulSet", spec)
    assert claim_templates_of(kind_of(obj), obj) == ()


# -- bounds


def test_no_more_templates_than_the_limit() -> None:
    tasks = [
        {"name": f"t{number}", "replicas": 2, "template": template_of()}
        for number in range(3 * MAX_TEMPLATES)
    ]
    obj = obj_of("batch.volcano.sh/v1alpha1", "Job", {"plugins": {"pytorch": []}, "tasks": tasks})
    found = pods_of(obj)
    assert len(found) == MAX_TEMPLATES
    assert variables(found[0][1])["WORLD_SIZE"] == str(2 * MAX_TEMPLATES)


@pytest.mark.parametrize(
    ("containers", "seen"),
    [([MAX_CONTAINERS, 1], 2), ([MAX_CONTAINERS + 1, 1], 1), ([MAX_CONTAINERS, 1, 1], 2), ([1] * 9, 9)],
)
def test_no_further_templates_behind_the_most_containers(containers: list[int], seen: int) -> None:
    tasks = [
        {
            "name": f"t{at}",
            "template": {
                "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "b"}] * (count - 1)}
            },
        }
        for at, count in enumerate(containers)
    ]
    obj = obj_of("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks})
    assert len(pods_of(obj)) == seen


def test_long_names_are_not_copied() -> None:
    obj = obj_of(
        "batch.volcano.sh/v1alpha1",
        "Job",
        {"plugins": {"svc": []}, "tasks": [{"name": "t" * 10**6, "template": template_of()}]},
    )
    obj["metadata"]["name"] = "n" * 10**6
    ((_, pod),) = pods_of(obj)
    assert len(pod["metadata"]["labels"]["volcano.sh/job-name"]) == 253
    assert len(pod["metadata"]["labels"]["volcano.sh/task-spec"]) == 253
    assert "env" not in pod["spec"]["containers"][0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """An object of the table with a value somewhere replaced by any other."""
    obj: Any = copy.deepcopy(draw(st.sampled_from([obj for obj, _ in OBJECTS.values()])))
    here = obj
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = draw(
            st.sampled_from([key for key in keys if here is not obj or key not in {"apiVersion", "kind"}])
        )
        if isinstance(here[key], dict | list) and here[key] and draw(st.booleans()):
            here = here[key]
            continue
        here[key] = draw(JSON)
        return dict(obj)


@given(damaged())
def test_a_damaged_object_never_raises(obj: dict[str, Any]) -> None:
    before = copy.deepcopy(obj)
    for template, pod in pods_of(obj):
        assert 0 <= template.replicas <= 2**31 - 1
        assert isinstance(value_at(obj, template.spec_path), dict)
        inspect_workload(pod, shipped_catalogue())
        to_object_path(template, ("spec", "containers", 0))
    claim_templates_of(kind_of(obj), obj)
    assert repr(obj) == repr(before)


@given(st.sampled_from(shipped_templates().kinds), st.dictionaries(st.text(max_size=8), JSON))
def test_any_json_never_raises(kind: TemplateKind, obj: dict[str, Any]) -> None:
    for template in templates_of(kind, obj):
        virtual_pod(kind, obj, template)


# -- kinds of a site

THING: dict[str, Any] = {
    "kinds": [
        {
            "group": "example.org",
            "kind": "Thing",
            "resource": "things.example.org",
            "pods": [{"template": "spec.template", "replicas": ["spec.count"]}],
        }
    ]
}


def test_a_site_adds_kinds_and_replaces_them() -> None:
    own = {
        "kinds": [
            {"group": "apps", "kind": "Deployment", "resource": "deployments.apps", "elsewhere": "nowhere"}
        ]
    }
    kinds = shipped_templates().merged(TemplateKinds.from_value(THING), TemplateKinds.from_value(own))
    thing, deployment = kinds.kind_of("example.org", "Thing"), kinds.kind_of("apps", "Deployment")
    assert thing is not None
    assert deployment is not None
    assert [
        each.replicas for each in templates_of(thing, {"spec": {"count": 2, "template": template_of()}})
    ] == [2]
    assert (deployment.elsewhere, deployment.places) == ("nowhere", ())
    assert len(kinds.kinds) == len(shipped_templates().kinds) + 1


def test_canonical_says_all_and_depends_on_no_order() -> None:
    first, second = TemplateKinds.from_value(THING), shipped_templates()
    assert first.canonical() == THING
    assert first.merged(second).canonical() == second.merged(first).canonical()
    assert first.merged(second).canonical() != second.canonical()


def test_canonical_gives_a_copy() -> None:
    kinds = TemplateKinds.from_value(THING)
    kinds.canonical()["kinds"][0]["kind"] = "Other"
    assert kinds.canonical() == THING


def thing(**changes: Any) -> dict[str, Any]:
    return {"kinds": [THING["kinds"][0] | changes]}


def thing_pods(**changes: Any) -> dict[str, Any]:
    return thing(pods=[{"template": "spec.template", **changes}])


def test_a_variable_is_repeated_for_each_item_in_its_name_and_value() -> None:
    repeated = {"name": "HOSTS_OF_{each}", "value": "{name}-{each}", "forEach": "spec.roles[*].name"}
    kind = TemplateKinds.from_value(thing_pods(env=[repeated])).kind_of("example.org", "Thing")
    roles = [{"name": "main-role"}, {"name": "x"}]
    obj = obj_of("example.org/v1", "Thing", {"template": template_of(), "roles": roles})
    assert kind is not None
    (template,) = templates_of(kind, obj)
    (main,) = virtual_pod(kind, obj, template)["spec"]["containers"]
    assert main["env"] == [
        {"name": "HOSTS_OF_MAIN_ROLE", "value": "bert-MAIN_ROLE"},
        {"name": "HOSTS_OF_X", "value": "bert-X"},
    ]


PATH = "expected a path such as spec.template or spec.tasks[*].template"
CONDITION = "expected `path`, `path = text` or `path > number`, with `not` in front or without"
PLACEHOLDERS = "each, index, name, namespace, replica-type, replicas, role, total"
FAULTS: dict[str, tuple[Any, list[str]]] = {
    "no document": (None, ["the document: expected a map, found nothing (null)"]),
    "a list": ([], ["the document: expected a map, found an empty list"]),
    "no kinds": ({}, ["kinds is missing (add kinds: …)"]),
    "a misspelt key": (
        thing_pods(replica=[]),
        ["unknown key 'replica' in kinds[0].pods[0] (did you mean replicas?)"],
    ),
    "a wrong type": (thing(resource=7), ["kinds[0].resource: expected a string, found 7 (put it in quotes)"]),
    "an empty step": (thing_pods(spec="a..b"), [f"kinds[0].pods[0].spec: {PATH}, found 'a..b'"]),
    "an index": (thing_pods(spec="a[0]"), [f"kinds[0].pods[0].spec: {PATH}, found 'a[0]'"]),
    "an empty path": (thing(pods=[{"template": ""}]), [f"kinds[0].pods[0].template: {PATH}, found ''"]),
    "a wildcard where one place is meant": (
        thing_pods(spec="a[*]"),
        ["kinds[0].pods[0].spec: expected a path without a wildcard, found 'a[*]'"],
    ),
    "a wildcard in a role": (
        thing_pods(role=".a.*"),
        ["kinds[0].pods[0].role: expected a path without a wildcard, found '.a.*'"],
    ),
    "a wildcard in a condition": (
        thing_pods(when=["a[*] = b"]),
        ["kinds[0].pods[0].when[0]: expected a path without a wildcard, found 'a[*] = b'"],
    ),
    "a factor that is none": (
        thing_pods(replicas=["a * b"]),
        ["kinds[0].pods[0].replicas[0]: expected `path`, `/ path` or `- number`, found 'a * b'"],
    ),
    "a condition that is none": (
        thing_pods(when=["a > b"]),
        [f"kinds[0].pods[0].when[0]: {CONDITION}, found 'a > b'"],
    ),
    "neither pods nor elsewhere": (
        thing(pods=[]),
        ["kinds[0]: needs pods, or says elsewhere where its pods come from"],
    ),
    "an unknown placeholder": (
        thing(values={"total": ["spec.count"]}, labels={"size": "{totl}"}),
        [f"kinds[0]: unknown placeholder {{totl}}, expected one of {PLACEHOLDERS}"],
    ),
    "a kind twice": (
        {"kinds": [THING["kinds"][0], THING["kinds"][0]]},
        ["the document: Thing of group example.org is described twice"],
    ),
    "a kind of the core twice": (
        {"kinds": [thing(group="")["kinds"][0]] * 2},
        ["the document: Thing of group core is described twice"],
    ),
    "two faults": (
        {"kinds": [thing(resource=7)["kinds"][0], 3]},
        [
            "kinds[0].resource: expected a string, found 7 (put it in quotes)",
            "kinds[1]: expected a map, found 3",
        ],
    ),
}


@pytest.mark.parametrize(("value", "expected"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_document_is_refused(value: Any, expected: list[str]) -> None:
    with pytest.raises(TemplateKindsError) as caught:
        TemplateKinds.from_value(value)
    assert [problem.text for problem in caught.value.problems] == expected


def test_a_fault_says_where() -> None:
    with pytest.raises(TemplateKindsError) as caught:
        TemplateKinds.from_value(thing_pods(spec="a..b"))
    assert [problem.path for problem in caught.value.problems] == [("kinds", 0, "pods", 0, "spec")]


@given(JSON)
def test_any_document_is_read_or_refused(value: Any) -> None:
    with pytest.raises(TemplateKindsError):
        TemplateKinds.from_value({"kinds": [value]})


# -- real manifests

# What is counted otherwise here than in the table, and why.
OTHERWISE = {
    # The container of a model format is one, too: its resources decide where the pod lands.
    "kserve__kserve__tensorflow-gpu.yaml": 1,
}
ROW = re.compile(r"^\| (?P<file>\S+\.yaml) \|[^|]*\|[^|]*\| (?P<pods>\d+) \|", re.MULTILINE)


def corpus() -> dict[str, int]:
    folder = os.environ.get("PODGATE_CORPUS")
    if not folder:
        return {}
    table = File(folder, "INDEX.md").read_text(encoding="utf-8")
    return {row["file"]: int(row["pods"]) for row in ROW.finditer(table)} | OTHERWISE


@pytest.mark.skipif(
    not os.environ.get("PODGATE_CORPUS"), reason="PODGATE_CORPUS names no folder of real manifests"
)
def test_real_manifests_have_as_many_pods_as_their_table_says() -> None:
    expected = corpus()
    assert len(expected) > 100
    assert {name: count_pods(File(os.environ["PODGATE_CORPUS"], name)) for name in expected} == expected


def count_pods(file: File) -> int:
    reading = read_documents(file.read_bytes(), file.name, strict=False)
    objects = [dict(obj) for document in reading.documents for _, obj in listed_objects(document)]
    return sum(1 if obj.get("kind") == "Pod" else count_templates(obj) for obj in objects)


def count_templates(obj: dict[str, Any]) -> int:
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    kind = shipped_templates().kind_of(group, str(obj.get("kind")))
    return len(templates_of(kind, obj)) if kind else 0


def test_a_path_with_two_wildcards_is_cut_behind_the_last() -> None:
    every = Wildcard(list)
    found = compile_reference("spec.groups[*].tasks[*].template.spec")
    assert found == Reference(False, ("spec", "groups", every, "tasks", every), ("template", "spec"))
    assert compile_reference(".replicas") == Reference(True, (), ("replicas",))
