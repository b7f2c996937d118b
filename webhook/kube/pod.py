"""A pod's containers, and what the pod asks for in all.

A pod is read as it arrived: fields may be missing, null or of the wrong type, and none of that raises.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from webhook.documents import Path
from webhook.kube.quantity import Quantity, QuantityError, parse_quantity, whole_or_fraction

Role = Literal["init", "sidecar", "app", "ephemeral"]
Requests = dict[str, Quantity]

_LISTS: tuple[tuple[str, Role], ...] = (
    ("initContainers", "init"),
    ("containers", "app"),
    ("ephemeralContainers", "ephemeral"),
)
_NONE: Mapping[str, Any] = {}


class Container(NamedTuple):
    """One container and where it stands in the pod.

    A sidecar is an init container with ``restartPolicy: Always``: it keeps running beside the app containers.
    """

    role: Role
    name: str
    path: Path
    value: Mapping[str, Any]


def containers(pod: Mapping[str, Any]) -> tuple[Container, ...]:
    """Every container of a pod: init containers and sidecars, then app, then ephemeral ones."""
    spec = pod.get("spec")
    return tuple(_walk(spec)) if isinstance(spec, dict) else ()


def host_paths(pod: Mapping[str, Any]) -> tuple[tuple[int, str], ...]:
    """The directories of the node that a pod's volumes are, each with the index of its volume."""
    volumes = _map(pod, "spec").get("volumes")
    if not isinstance(volumes, list):
        return ()
    found = [
        (index, _map(volume, "hostPath").get("path"))
        for index, volume in enumerate(volumes)
        if isinstance(volume, dict) and "hostPath" in volume
    ]
    return tuple([(index, path) for index, path in found if isinstance(path, str)])


def container_requests(container: Mapping[str, Any]) -> Requests:
    """What one container asks for, by resource name.

    A request that is missing is the limit, as the API server fills it in
    (kubernetes/kubernetes:pkg/apis/core/v1/defaults.go, SetDefaults_Pod). A value that is no quantity is left
    out.
    """
    resources = _map(container, "resources")
    if not resources:
        return {}
    requests = {name: value for name, value in _map(resources, "requests").items() if value is not None}
    return quantities({**_map(resources, "limits"), **requests})


def combined_requests(parts: Iterable[tuple[Role, Mapping[str, Quantity]]]) -> Requests:
    """What containers ask for together: the larger of what runs at last and what each init step needs.

    The formula of kubernetes/component-helpers:resource/helpers.go (AggregateContainerRequests): per resource
    the maximum of all app containers and sidecars and, for each init container, of it and the sidecars before
    it. Ephemeral containers cannot ask for resources.

    Args:
        parts: Role and requests of each container; init containers and sidecars in the pod's order.
    """
    running: Requests = {}
    sidecars: Requests = {}
    peak: Requests = {}
    for role, asked in parts:
        if not asked:
            continue
        if role == "app":
            _add(running, asked)
        elif role == "sidecar":
            _add(running, asked)
            _add(sidecars, asked)
            _raise_to(peak, {name: sidecars[name] for name in asked})
        elif role == "init":
            _raise_to(peak, {name: sidecars.get(name, 0) + quantity for name, quantity in asked.items()})
        # Other names stand as the steps before left them: looking at each again would make the work quadratic.
    _raise_to(running, peak)
    # Most are whole numbers, that need no look.
    return {name: each if type(each) is int else whole_or_fraction(each) for name, each in running.items()}


def effective_requests(pod: Mapping[str, Any]) -> Requests:
    """What the scheduler and a quota count for a pod, by resource name, overhead included.

    Pod-level requests take the place of the sum for cpu, memory and hugepages-*. What a pod-level limit adds
    follows the API server's defaults (defaults.go, defaultPodRequests): it is the request where no container
    asks, and always for huge pages, which cannot be overcommitted.
    """
    requests = own_requests(pod)
    if overhead := _map(_map(pod, "spec"), "overhead"):
        _add(requests, quantities(overhead))
    return requests


def own_requests(pod: Mapping[str, Any]) -> Requests:
    """`effective_requests` without the overhead, which the runtime class adds and the author of a pod cannot change."""
    return with_pod_level(pod, [(each.role, container_requests(each.value)) for each in containers(pod)])


def with_pod_level(pod: Mapping[str, Any], parts: Iterable[tuple[Role, Requests]]) -> Requests:
    """`own_requests`, where it is known what its containers ask for.

    Args:
        pod: for its own resources.
        parts: as for `combined_requests`.
    """
    requests = combined_requests(parts)
    if resources := _map(_map(pod, "spec"), "resources"):
        _apply_pod_level(requests, resources)
    return requests


def _walk(spec: Mapping[str, Any]) -> Iterator[Container]:
    for key, role in _LISTS:
        items = spec.get(key)
        if not isinstance(items, list):
            continue
        for index, value in enumerate(items):
            if isinstance(value, dict):
                name = value.get("name")
                yield Container(
                    "sidecar" if role == "init" and value.get("restartPolicy") == "Always" else role,
                    name if isinstance(name, str) else "",
                    ("spec", key, index),
                    value,
                )


def _apply_pod_level(requests: Requests, resources: Mapping[str, Any]) -> None:
    asked = _pod_level(_map(resources, "requests"))
    for name, limit in _pod_level(_map(resources, "limits")).items():
        if name not in requests or name.startswith("hugepages-"):
            requests[name] = limit
    requests.update(asked)


def _pod_level(values: Mapping[str, Any]) -> Requests:
    return quantities({name: value for name, value in values.items() if _counts_at_pod_level(name)})


def _counts_at_pod_level(name: str) -> bool:
    # kubernetes/component-helpers:resource/helpers.go, IsSupportedPodLevelResource
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def _map(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, dict) else _NONE


def quantities(values: Mapping[str, Any]) -> Requests:
    """A resource list as quantities; what is none is left out."""
    parsed: Requests = {}
    for name, value in values.items():
        try:
            parsed[name] = parse_quantity(value)
        except QuantityError:
            continue
    return parsed


def _add(total: Requests, more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        total[name] = total.get(name, 0) + quantity


def _raise_to(total: Requests, other: Mapping[str, Quantity]) -> None:
    for name, quantity in other.items():
        if name not in total or total[name] < quantity:
            total[name] = quantity
