"""The pods that real controllers make are those that `podgate check` foresees in their objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.waiting import wait_for
from tests.e2e.workloads import container, deployment, notebook, template
from webhook.kube.templates import shipped_templates, templates_of, virtual_pod

if TYPE_CHECKING:
    from tests.e2e.client import Json
    from tests.e2e.cluster import Cluster

UNFORESEEABLE = {
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
}
"""Labels that hold a hash, a uid or a count of changes."""


def replica_set(name: str, namespace: str) -> Json:
    thing = deployment(name, namespace, {"containers": [container()]})
    return thing | {"kind": "ReplicaSet"}


def daemon_set(name: str, namespace: str) -> Json:
    thing = deployment(name, namespace, {"containers": [container()]})
    del thing["spec"]["replicas"]
    return thing | {"kind": "DaemonSet"}


def job(name: str, namespace: str, **spec: Any) -> Json:
    pod_spec = {"containers": [container()], "initContainers": [container("fetch")], "restartPolicy": "Never"}
    head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace}}
    return head | {"spec": {"template": template(pod_spec, {"app": name}), **spec}}


def indexed_job(name: str, namespace: str) -> Json:
    return job(name, namespace, completionMode="Indexed", completions=1)


def one_deployment(name: str, namespace: str) -> Json:
    return deployment(name, namespace, {"containers": [container()]})


def variables(pod: Json) -> dict[str, Json]:
    """Each container's environment; the API server fills in the version of a path of the downward API."""
    found = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    return {each["name"]: {own["name"]: source_of(own) for own in each.get("env", [])} for each in found}


def source_of(variable: Json) -> Any:
    field = variable.get("valueFrom", {}).get("fieldRef", {})
    return field.get("fieldPath", variable.get("value"))


def owners(pod: Json) -> list[tuple[str, str, bool]]:
    return [
        (each["apiVersion"], each["kind"], each["controller"]) for each in pod["metadata"]["ownerReferences"]
    ]


@pytest.mark.parametrize("make", [one_deployment, replica_set, notebook, daemon_set, job, indexed_job])
def test_a_controller_makes_the_pod_that_is_foreseen(cluster: Cluster, namespace: str, make: Any) -> None:
    thing = make("main", namespace)
    cluster.admin.create(thing)
    kind = next(each for each in shipped_templates().kinds if each.kind == thing["kind"])
    (foreseen,) = templates_of(kind, thing)
    expected = virtual_pod(kind, thing, foreseen)
    made = wait_for(lambda: cluster.admin.items("Pod", namespace), "the pod is made")[0]

    labels = made["metadata"]["labels"]
    assert {key: labels[key] for key in labels.keys() - UNFORESEEABLE} == expected["metadata"]["labels"]
    assert made["metadata"].get("annotations", {}) == expected["metadata"].get("annotations", {})
    assert owners(made) == owners(expected)
    assert variables(made) == variables(expected)
    creations = wait_for(
        lambda: [
            event
            for event in cluster.audit_events(resource="pods", namespace=namespace)
            if event["verb"] == "create" and "subresource" not in event["objectRef"]
        ],
        "the audit log tells of the creation",
    )
    assert {event["user"]["username"] for event in creations} == {foreseen.user}
