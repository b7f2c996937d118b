"""Objects that nobody honest sends, as an API server would pass them on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.engine.gates import GPU, Json, container, pod, training_pod
from webhook.kube.node_affinity import REQUIRED

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 20_000
LONG = 100_000
OWNER = "kubeflow.org/PyTorchJob"

KINDS = {
    "Pod": ("", "v1", "pods"),
    "Deployment": ("apps", "v1", "deployments"),
    "StatefulSet": ("apps", "v1", "statefulsets"),
    "Job": ("batch", "v1", "jobs"),
    "CronJob": ("batch", "v1", "cronjobs"),
    "PersistentVolumeClaim": ("", "v1", "persistentvolumeclaims"),
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    "RayCluster": ("ray.io", "v1", "rayclusters"),
    "PyTorchJob": ("kubeflow.org", "v1", "pytorchjobs"),
}


def review(thing: Json, operation: str = "CREATE", **others: Any) -> Json:
    """The AdmissionReview for an object."""
    group, version, resource = KINDS[thing["kind"]]
    request = {
        "uid": "u-1",
        "kind": {"group": group, "version": version, "kind": thing["kind"]},
        "resource": {"group": group, "version": version, "resource": resource},
        "operation": operation,
        "namespace": "training",
        "userInfo": {"username": "ann"},
        "object": thing,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | others}


def controller(kind: str, **spec: Any) -> Json:
    group, version, _ = KINDS[kind]
    metadata = {"name": "x", "namespace": "training"}
    return {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def with_metadata(**metadata: Any) -> Json:
    thing = training_pod()
    return thing | {"metadata": thing["metadata"] | metadata}


def with_terms(*terms: Json) -> Json:
    return training_pod(affinity={"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": list(terms)}}})


def _in(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}


def _template(**others: Any) -> Json:
    return {"spec": {"containers": [container("pytorch", 16)]} | others}


def _some(count: int) -> list[Json]:
    return [container(f"c{n}", 8) for n in range(count)]


def _managed(fields: Json, count: int) -> list[Json]:
    return [
        {"manager": f"m{n}", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}
        for n in range(count)
    ]


def _limits(**limits: Any) -> Json:
    return pod(container("main") | {"resources": {"limits": limits}}, owner=OWNER)


OBJECTS: dict[str, Callable[[], Json]] = {
    "5,000 containers with GPUs": lambda: pod(*(container(f"c{n}", 8) for n in range(5_000)), owner=OWNER),
    "5,000 sidecars with GPUs": lambda: training_pod(
        initContainers=[container(f"c{n}", 8, restartPolicy="Always") for n in range(5_000)]
    ),
    "so many containers that what rules write is just allowed": lambda: pod(
        *(container(f"c{n}", 8) for n in range(330)), owner=OWNER
    ),
    "300 containers with 100 variables each": lambda: pod(
        *(container(f"c{n}", 8, env=[{"name": f"E{m}", "value": "x"} for m in range(100)]) for n in range(300)), owner=OWNER
    ),
    "12,000 environment entries": lambda: pod(
        container("main", 8, env=[{"name": f"E{n}", "value": "x"} for n in range(12_000)]), owner=OWNER
    ),
    "20,000 tolerations": lambda: training_pod(
        tolerations=[{"key": f"t{n}", "operator": "Exists"} for n in range(MANY)]
    ),
    "20,000 terms": lambda: with_terms(*({"matchExpressions": [_in(f"k{n}", "a")]} for n in range(MANY))),
    "so many terms that what rules write is just allowed": lambda: with_terms(
        *({"matchExpressions": [_in(f"k{n}", "a")]} for n in range(950))
    ),
    "20,000 requirements on one label": lambda: with_terms(
        {"matchExpressions": [_in("zone", "a", f"b{n}") for n in range(MANY)]}
    ),
    "20,000 values of one requirement": lambda: with_terms(
        {"matchExpressions": [_in("zone", *(f"b{n}" for n in range(MANY)))]}
    ),
    "20,000 volumes": lambda: training_pod(
        volumes=[{"name": f"v{n}", "hostPath": {"path": "/dev/infiniband"}} for n in range(MANY)]
    ),
    "5,000 ephemeral volumes": lambda: training_pod(
        volumes=[
            {"name": f"v{n}", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteMany"]}}}}
            for n in range(5_000)
        ]
    ),
    "20,000 labels": lambda: with_metadata(labels={f"l{n}": "x" for n in range(MANY)}),
    "20,000 annotations of ours": lambda: with_metadata(annotations={f"podgate.dev/{n}": "x" for n in range(MANY)}),
    "20,000 owners": lambda: with_metadata(
        ownerReferences=[{"apiVersion": "v1", "kind": f"K{n}", "name": "o"} for n in range(MANY)]
    ),
    "20,000 managers": lambda: with_metadata(managedFields=_managed({"f:spec": {"f:priorityClassName": {}}}, MANY)),
    "20,000 fields of one manager": lambda: with_metadata(
        managedFields=_managed(
            {"f:spec": {"f:containers": {f'k:{{"name":"c{n}"}}': {"f:image": {}} for n in range(MANY)}}}, 1
        )
    ),
    "20,000 resources": lambda: _limits(**{f"nvidia.com/mig-{n}g.10gb": "1" for n in range(MANY)}),
    "names of 100 KB": lambda: with_metadata(name="n" * LONG, namespace="s" * LONG, labels={"l" * LONG: "v" * LONG}),
    "resources and containers with names of 100 KB": lambda: pod(
        container("c" * LONG, 8) | {"resources": {"limits": {f"nvidia.com/{'m' * LONG}": "1", GPU: "8"}}}
    ),
    "a number of 100,000 digits": lambda: _limits(**{GPU: "9" * LONG}),
    "an exponent of nine digits": lambda: _limits(**{GPU: "1e999999999", "cpu": "1e-999999999"}),
    "numbers beyond every integer": lambda: _limits(**{GPU: 1e300, "cpu": 2**63, "memory": -(2**63)}),
    "control characters": lambda: with_metadata(name="a\x00\n\x1b[2J\x7f\x9b", labels={"tier": "go\nld"}),
    "right-to-left marks": lambda: with_metadata(name="a\u202egnp\u2066b\u200b", annotations={"x": "\u2028"}),
    "forged annotations": lambda: with_metadata(
        annotations={
            "podgate.dev/changes": "[" * 10_000,
            "podgate.dev/policies": "x" * LONG,
            "podgate.dev/decision": "\u202e" * 8,
            "podgate.dev/skip": ";" * LONG,
        }
    ),
    "text for a pattern that backtracks": lambda: training_pod(schedulerName="a" * LONG + "!"),
    "wrong types everywhere": lambda: pod(
        container("a", [GPU]) | {"env": {"name": 1}, "resources": [1], "securityContext": "x"},
        tolerations={"key": GPU},
        volumes=[1, None, "x", {"emptyDir": 7}],
        affinity=[[]],
        nodeSelector=[GPU],
        priorityClassName=7,
    ),
    "a Deployment of 2,000 containers and huge replicas": lambda: controller(
        "Deployment",
        replicas=2**63 - 1,
        template={"spec": {"containers": [container(f"c{n}", 8) for n in range(2_000)]}},
    ),
    "a Deployment of 5,000 containers": lambda: controller(
        "Deployment", template={"spec": {"containers": _some(5_000)}}
    ),
    "a JobSet of 11,000 templates, the 3 MiB that an API server takes": lambda: controller(
        "JobSet",
        replicatedJobs=[
            {"name": f"j{n}", "replicas": 10**18, "template": {"spec": {"parallelism": 10**18, "template": _template()}}}
            for n in range(11_000)
        ],
    ),
    "a JobSet of 200 templates with 25 containers": lambda: controller(
        "JobSet",
        replicatedJobs=[
            {"name": f"j{n}", "template": {"spec": {"template": _template(containers=_some(25))}}} for n in range(200)
        ],
    ),
    "a RayCluster of 20,000 groups": lambda: controller(
        "RayCluster",
        workerGroupSpecs=[{"groupName": f"g{n}", "replicas": -1, "template": _template()} for n in range(MANY)],
    ),
    "a PyTorchJob of 20,000 roles": lambda: controller(
        "PyTorchJob",
        pytorchReplicaSpecs={f"W{n}": {"replicas": "many", "template": _template()} for n in range(MANY)},
    ),
    "a StatefulSet of 20,000 claims": lambda: controller(
        "StatefulSet",
        replicas=1e300,
        template=_template(),
        volumeClaimTemplates=[
            {"metadata": {"name": f"c{n}"}, "spec": {"accessModes": ["ReadWriteMany"]}} for n in range(MANY)
        ],
    ),
}  # fmt: skip
