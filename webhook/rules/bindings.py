"""What expressions see of one review: the variables and functions of the policy language."""

from collections.abc import Mapping
from typing import Any

from webhook.expressions import Bindings
from webhook.facts import Namespace, Unknown
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.globs import glob_matches
from webhook.kube.workload import Workload


def bind(
    request: AdmissionRequest,
    now: Mapping[str, Any],
    namespace: Namespace | Unknown,
    workload: Workload | None,
) -> Bindings:
    """The variables and functions for one object.

    Args:
        request: what the API server asks about.
        now: the object as earlier rules left it.
        namespace: the namespace of the request; unbound where it is not known.
        workload: what the pod is; None for what is no pod.
    """
    return Bindings(
        object=now,
        old_object=request.old_object,
        request=request.raw,
        namespace_object=None if isinstance(namespace, Unknown) else _namespace_object(namespace),
        workload={
            "class": workload.workload_class if workload else "other",
            "communication": workload.communication if workload else "none",
            "accelerators": sum(workload.accelerators.values()) if workload else 0,
            "vendor": ",".join(sorted(workload.vendors)) if workload else "",
            "owner": workload.owner if workload else "",
            "replicas": request.replicas,
        },
        accelerator_count=lambda name: count_of(workload.accelerators, (name,)) if workload else 0,
    )


def count_of(accelerators: Mapping[str, int], patterns: tuple[str, ...]) -> int:
    """Effective devices (`accelerators`, by resource name) whose names fit one of the `patterns`; a device counts once."""
    return sum(count for name, count in accelerators.items() if any(glob_matches(p, name) for p in patterns))


def _namespace_object(namespace: Namespace) -> Mapping[str, Any]:
    return {
        "metadata": {
            "name": namespace.name,
            "labels": namespace.labels,
            "annotations": namespace.annotations,
        },
    }
