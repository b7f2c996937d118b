"""What the API server does to an object before it calls a webhook: defaults, the record of fields, its own plugins.

In this order, as in a cluster: defaults come with decoding (kubernetes/kubernetes:pkg/apis/core/v1/defaults.go), then the
fields are recorded (kubernetes/apiserver:pkg/endpoints/handlers/create.go), then the plugins in front of the webhooks run
(kubernetes/kubernetes:pkg/kubeapiserver/options/plugins.go).
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from webhook.demonstration.field_record import fields_of, is_custom
from webhook.kube.field_path import list_at, mapping_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from webhook.demonstration.workloads import Workload

TOKEN_VOLUME = "kube-api-access-x7k2p"  # noqa: S105 - a volume's name; the API server's ends in five random characters
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
TOKEN_SECONDS = 3607
"""An hour and some, by which the kubelet's tokens are told from others (plugin/pkg/admission/serviceaccount)."""

FILE_MODE = 0o644
TOLERATION_SECONDS = 300
"""plugin/pkg/admission/defaulttolerationseconds."""

FIRST_STATUS: Mapping[str, Mapping[str, Any]] = {"PersistentVolumeClaim": {"phase": "Pending"}}
"""What decoding fills in; pods get theirs later (pkg/registry/core/pod/strategy.go)."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "deployment": {  # pkg/apis/apps/v1/defaults.go
        "replicas": 1,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
        },
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    },
    "spec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    },
    "container": {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
    "probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
}


def received(
    workload: Workload, time: str, priority_classes: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The object as the first mutating webhook sees it.

    Args:
        workload: what the sender wrote.
        time: of the call, RFC 3339.
        priority_classes: those of the cluster by name; without them every pod has priority 0.
    """
    thing = deepcopy(dict(workload.object))
    if default := DEFAULTING.get(thing["kind"]):
        default(thing["spec"])
    thing["metadata"]["managedFields"] = [
        {
            "manager": workload.sender.field_manager,
            "operation": "Update",
            "apiVersion": thing["apiVersion"],
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields_of(thing),
        }
    ]
    if thing["kind"] == "Pod":
        _admit_pod(thing["spec"], priority_classes)
    elif thing["kind"] == "PersistentVolumeClaim":
        thing["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
    if not is_custom(thing):
        thing["status"] = dict(FIRST_STATUS.get(thing["kind"], {}))
    return thing


def _fill(target: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    for key, value in defaults.items():
        target.setdefault(key, value)


def _default_claim(spec: dict[str, Any]) -> None:
    spec.setdefault("volumeMode", "Filesystem")


def _default_deployment(spec: dict[str, Any]) -> None:
    _fill(spec, DEFAULTS["deployment"])
    _default_pod(spec["template"]["spec"])


def _default_pod(spec: dict[str, Any]) -> None:
    _fill(spec, DEFAULTS["spec"])
    spec.setdefault("securityContext", {})
    for container in _containers(spec):
        _default_container(container)
    for volume in list_at(spec, ("volumes",)):
        for source in ("configMap", "secret"):
            if source in volume:
                volume[source].setdefault("defaultMode", FILE_MODE)
        if "hostPath" in volume:
            volume["hostPath"].setdefault("type", "")


DEFAULTING: Mapping[str, Callable[[dict[str, Any]], None]] = {
    "Pod": _default_pod,
    "PersistentVolumeClaim": _default_claim,
    "Deployment": _default_deployment,
}
"""By kind; custom resources have the defaults of their own schema, and PyTorchJobs none for what stands in a pod template."""


def _containers(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("initContainers", "containers"):
        yield from list_at(spec, (key,))


def _default_container(container: dict[str, Any]) -> None:
    _fill(container, DEFAULTS["container"])
    tag = container["image"].rpartition("/")[2].partition(":")[2]
    container.setdefault("imagePullPolicy", "Always" if tag in ("", "latest") else "IfNotPresent")
    resources = container.setdefault("resources", {})
    if limits := mapping_at(resources, ("limits",)):
        _fill(resources.setdefault("requests", {}), limits)
    for port in list_at(container, ("ports",)):
        port.setdefault("protocol", "TCP")
    for variable in list_at(container, ("env",)):
        if "fieldRef" in mapping_at(variable, ("valueFrom",)):
            variable["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")
    for probe in (container[key] for key in ("livenessProbe", "readinessProbe") if key in container):
        _fill(probe, DEFAULTS["probe"])
        probe["httpGet"].setdefault("scheme", "HTTP")


def _admit_pod(spec: dict[str, Any], priority_classes: Mapping[str, Mapping[str, Any]]) -> None:
    """ServiceAccount, DefaultTolerationSeconds and Priority."""
    spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    spec.setdefault("volumes", []).append(_token_volume())
    for container in _containers(spec):
        mount = {"name": TOKEN_VOLUME, "readOnly": True, "mountPath": TOKEN_PATH}
        container.setdefault("volumeMounts", []).append(mount)
    spec.setdefault("tolerations", []).extend(
        {
            "key": f"node.kubernetes.io/{condition}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": TOLERATION_SECONDS,
        }
        for condition in ("not-ready", "unreachable")
    )
    chosen = priority_classes.get(spec.get("priorityClassName", ""), {})
    spec["priority"] = chosen.get("value", 0)
    spec["preemptionPolicy"] = chosen.get("preemptionPolicy", "PreemptLowerPriority")


def _token_volume() -> dict[str, Any]:
    """The projected volume of plugin/pkg/admission/serviceaccount/admission.go, TokenVolumeSource."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": TOKEN_VOLUME, "projected": {"sources": sources, "defaultMode": FILE_MODE}}
