"""The accelerators that a pod asks for: how many, whose, how shared, and in which containers."""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from webhook.documents import Path
from webhook.kube.accelerators import Catalogue, Resource
from webhook.kube.pod import Container, Requests, Role, combined_requests, container_requests, containers
from webhook.kube.quantity import Quantity, QuantityError, parse_quantity, whole_or_fraction

# KAI and Run:ai share devices by annotation, without any resource; only a scheduler that the pod names reads it
# (NVIDIA/KAI-Scheduler:pkg/common/constants/constants.go, docs/gpu-sharing). A fraction is shared in time, nothing
# holds a pod to its part.
_KAI_DEVICE = "nvidia.com/gpu"
_KAI_VENDOR = "nvidia"
_KAI_FRACTION = "gpu-fraction"
_KAI_MEMORY = "gpu-memory"
_KAI_DEVICES = "gpu-fraction-num-devices"
_KAI_CONTAINER = "gpu-fraction-container-name"
SHARING_ANNOTATIONS = frozenset({_KAI_FRACTION, _KAI_MEMORY, _KAI_DEVICES, _KAI_CONTAINER})
_SCHEDULERS_WITHOUT_SHARING = ("", "default-scheduler", None)


class AskedDevices(NamedTuple):
    """What a pod asks for.

    Attributes:
        counts: Effective number of devices by resource name, above zero; a part of a device counts as one.
        vendors: Whose devices these are.
        sharing: How they are shared: ``none``, ``mig``, ``timeSlice``, ``memorySlice``.
        holders: The containers that ask for a device or name a device claim, in the pod's order.
        has_claims: Whether the pod has DRA claims: those may be devices, and cannot be counted.
    """

    counts: Mapping[str, int]
    vendors: frozenset[str]
    sharing: frozenset[str]
    holders: tuple[Path, ...]
    has_claims: bool


class _Holding(NamedTuple):
    """The devices of one container."""

    role: Role
    path: Path
    counts: Requests
    vendors: frozenset[str]
    sharing: frozenset[str]


def asked_devices(
    pod: Mapping[str, Any], catalogue: Catalogue, asking: Iterable[tuple[Container, Requests]] | None = None
) -> AskedDevices:
    """The accelerators that a pod asks for, by the names that the catalogue knows.

    Devices are counted as the scheduler counts (init containers, sidecars); a quantity of zero asks for
    nothing. Memory or cores without a device count as the catalogue says. Ephemeral containers ask for nothing.

    Args:
        pod: as the API server stores it; quantities that cannot be read count as none.
        catalogue: which names are devices, and of whom.
        asking: the pod's containers and what each asks for (`container_requests`), where that is known already.
    """
    known = ((each, container_requests(each.value)) for each in containers(pod)) if asking is None else asking
    parts = [each for each in known if each[0].role != "ephemeral"]
    every = [container for container, _ in parts]
    holdings = [
        found for each, requests in parts if requests and (found := _holding(each, requests, catalogue))
    ]
    if not holdings:
        holdings = _shared_by_annotation(pod, every)
    paths = {holding.path for holding in holdings}
    claims = _has_claims(pod)
    if claims:
        paths.update(each.path for each in every if _names_claim(each))
    if not paths and not claims:
        return _NOTHING
    return AskedDevices(
        counts=_effective(holdings),
        vendors=frozenset().union(*[holding.vendors for holding in holdings]),
        sharing=frozenset().union(*[holding.sharing for holding in holdings]),
        holders=tuple([each.path for each in every if each.path in paths]),
        has_claims=claims,
    )


_NOTHING = AskedDevices({}, frozenset(), frozenset(), (), has_claims=False)


def _effective(holdings: list[_Holding]) -> dict[str, int]:
    if len(holdings) == 1:  # as of most pods
        total = holdings[0].counts
    else:
        total = combined_requests([(holding.role, holding.counts) for holding in holdings])
    return {name: math.ceil(count) for name, count in total.items()}


def _holding(container: Container, requests: Requests, catalogue: Catalogue) -> _Holding | None:
    devices: dict[str, tuple[Quantity, Resource]] = {}
    shares: list[tuple[str, Quantity, Resource]] = []
    for name, quantity in requests.items():
        resource = catalogue.resource(name) if "/" in name else None
        if resource is None or quantity <= 0:
            continue
        if resource.role == "device":
            devices[name] = (_units(quantity, resource), resource)
        elif resource.role != "other":
            shares.append((name, quantity, resource))
    for name, quantity, resource in shares:
        _count_share(devices, requests, (name, quantity, resource), catalogue)
    if not devices:
        return None
    partial = _partial_sharing(shares) if shares else {}
    return _Holding(
        container.role,
        container.path,
        counts={name: count for name, (count, _) in devices.items()},
        vendors=frozenset([resource.vendor for _, resource in devices.values()]),
        sharing=frozenset([_sharing(count, resource, partial) for count, resource in devices.values()]),
    )


def _units(quantity: Quantity, resource: Resource) -> Quantity:
    return (
        quantity
        if resource.per_device is None
        else whole_or_fraction(Fraction(quantity, resource.per_device))
    )


def _count_share(
    devices: dict[str, tuple[Quantity, Resource]],
    requests: Requests,
    share: tuple[str, Quantity, Resource],
    catalogue: Catalogue,
) -> None:
    """Count the device that memory or cores ask for without naming it.

    One that is named stands, even at zero: that is what HAMi's own webhook does.
    """
    name, quantity, resource = share
    device = resource.counts_as
    if not device or (device != name and device in requests):
        return
    count = 1 if resource.per_device is None else _units(quantity, resource)
    known = devices.get(device)
    if known is None or known[0] < count:
        devices[device] = (count, catalogue.resource(device) or resource)


def _partial_sharing(shares: list[tuple[str, Quantity, Resource]]) -> dict[str, str]:
    """How the devices of each vendor are shared by the memory and cores beside them."""
    by_vendor: dict[str, str] = {}
    for _, quantity, resource in shares:
        # A share of memory says more than one of cores, which only limits the time.
        if not _is_whole(quantity, resource) and (
            resource.role == "memory" or resource.vendor not in by_vendor
        ):
            by_vendor[resource.vendor] = resource.sharing
    return by_vendor


def _sharing(count: Quantity, device: Resource, partial: Mapping[str, str]) -> str:
    if device.sharing != "none":
        return device.sharing
    return partial.get(device.vendor) or ("timeSlice" if count < 1 else "none")


def _is_whole(quantity: Quantity, resource: Resource) -> bool:
    return resource.per_device is not None and quantity % resource.per_device == 0


def _has_claims(pod: Mapping[str, Any]) -> bool:
    spec = pod.get("spec")
    claims = spec.get("resourceClaims") if isinstance(spec, dict) else None
    return isinstance(claims, list) and any(isinstance(claim, dict) for claim in claims)


def _names_claim(container: Container) -> bool:
    resources = container.value.get("resources")
    claims = resources.get("claims") if isinstance(resources, dict) else None
    return isinstance(claims, list) and any(isinstance(claim, dict) for claim in claims)


def _shared_by_annotation(pod: Mapping[str, Any], every: list[Container]) -> list[_Holding]:
    metadata, spec = pod.get("metadata"), pod.get("spec")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict) or not isinstance(spec, dict):
        return []
    sharing = _annotated_sharing(annotations)
    if not sharing or spec.get("schedulerName") in _SCHEDULERS_WITHOUT_SHARING:
        return []
    name = annotations.get(_KAI_CONTAINER)
    holder = next(
        (each for each in every if (each.name == name if isinstance(name, str) else each.role == "app")), None
    )
    if holder is None:
        return []
    devices = max(1, math.ceil(_amount(annotations.get(_KAI_DEVICES))))
    counts: Requests = {_KAI_DEVICE: devices}
    return [_Holding(holder.role, holder.path, counts, frozenset({_KAI_VENDOR}), frozenset({sharing}))]


def _annotated_sharing(annotations: Mapping[str, Any]) -> str:
    if 0 < _amount(annotations.get(_KAI_FRACTION)) <= 1:
        return "timeSlice"
    return "memorySlice" if _amount(annotations.get(_KAI_MEMORY)) > 0 else ""


def _amount(value: object) -> Quantity:
    try:
        return parse_quantity(value) if isinstance(value, str) else 0
    except QuantityError:
        return 0
