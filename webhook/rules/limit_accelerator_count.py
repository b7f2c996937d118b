"""limitAcceleratorCount: how many accelerators a container and a pod may ask for."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from webhook.documents import Path
from webhook.documents.schema import Schema
from webhook.facts import Unknown
from webhook.kube.field_path import mapping_at
from webhook.kube.pod import Container, container_requests, containers, effective_requests
from webhook.kube.quantity import Quantity, QuantityError, parse_quantity
from webhook.rules.base import Finding, Need, Subject, Texts, ValidatingRule, fail, skip, unknown


class CountLimit(Schema):
    """At most `max`, or one of `allowed`, or both.

    Attributes:
        max: the largest number.
        allowed: the only numbers; none at all is always allowed.
    """

    max: int | None = Field(default=None, ge=0)
    allowed: tuple[int, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _some_limit(self) -> "CountLimit":
        if self.max is None and not self.allowed:
            raise ValueError("give max or allowed")
        return self

    def violation(self, count: int) -> tuple[str, str] | None:
        """How so many break the limit, as a text's name says it, and the bound; None if they do not, as none at all."""
        if self.max is not None and count > self.max:
            return "at most", str(self.max)
        if self.allowed and count and count not in self.allowed:
            return "one of", ", ".join(map(str, self.allowed))
        return None


class MemoryLimit(Schema):
    """At most `max` of a memory resource of a share, in the unit of its device plugin.

    Attributes:
        max: the largest number, in that unit.
    """

    max: int = Field(ge=0)


class LimitAcceleratorCount(ValidatingRule):
    """Judges effective counts: init containers, sidecars and app containers as Kubernetes adds them up.

    It also says what the API server or the kubelet would refuse later, in words that help.

    Attributes:
        per_container: for each container.
        per_pod: for the whole pod.
        memory: for the memory of shares in the whole pod, by resource name, in the unit of its device plugin.
        fits_node: no more than the largest node has: of the nodes that are known and the pools' `devicesPerNode`.
        sum: count all resource names of `perContainer` and `perPod` together, not each by itself.
    """

    type: ClassVar[str] = "limitAcceleratorCount"
    asks: ClassVar[frozenset[str]] = frozenset({"Node"})
    texts: ClassVar[Texts] = {
        "pod at most": {
            "en": (
                "{count} {resource} asked, at most {limit} per pod",
                "ask for fewer, or spread the work over several pods with at most {limit} each",
            ),
            "zh": (
                "申请了 {count} 张 {resource}，每个 Pod 最多 {limit} 张",
                "请减少数量，或拆分为多个 Pod，每个最多 {limit} 张",
            ),
        },
        "pod one of": {
            "en": ("{count} {resource} asked, only {limit} are allowed per pod", "ask for one of {limit}"),
            "zh": ("申请了 {count} 张 {resource}，每个 Pod 只允许 {limit} 张", "请改为 {limit} 之一"),
        },
        "container at most": {
            "en": (
                "{count} {resource} asked, at most {limit} per container",
                "ask for at most {limit} in this container",
            ),
            "zh": (
                "容器申请了 {count} 张 {resource}，每个容器最多 {limit} 张",
                "请将该容器的数量降到 {limit} 以内",
            ),
        },
        "container one of": {
            "en": (
                "{count} {resource} asked, only {limit} are allowed per container",
                "ask for one of {limit} in this container",
            ),
            "zh": (
                "容器申请了 {count} 张 {resource}，每个容器只允许 {limit} 张",
                "请将该容器的数量改为 {limit} 之一",
            ),
        },
        "memory": {
            "en": ("{count} {resource} asked, at most {limit} per pod", "ask for at most {limit} {resource}"),
            "zh": ("申请了 {count} {resource}，每个 Pod 最多 {limit}", "请将 {resource} 降到 {limit} 以内"),
        },
        "no node": {
            "en": (
                "{count} {resource} asked, but the largest node has {limit}",
                "ask for at most {limit} per pod and use more pods",
            ),
            "zh": (
                "申请了 {count} 张 {resource}，但最大的节点只有 {limit} 张",
                "每个 Pod 最多申请 {limit} 张，并使用多个 Pod",
            ),
        },
        "claims": {
            "en": (
                "accelerators asked for through a resource claim cannot be counted",
                "nothing: the limit is on what is asked for by name",
            ),
            "zh": ("无法统计通过 ResourceClaim 申请的加速卡数量", "无需处理：限额只针对按名称申请的资源"),
        },
        "fraction": {
            "en": (
                "{value} {resource} is no whole number, and Kubernetes counts devices in whole numbers",
                "ask for a whole number, or for a shared device",
            ),
            "zh": ("{resource} 的数量 {value} 不是整数，Kubernetes 只接受整数", "请申请整数，或使用共享设备"),
        },
        "negative": {
            "en": ("{value} {resource} is below zero, which Kubernetes refuses", "ask for 0 or more"),
            "zh": ("{resource} 的数量 {value} 小于零，Kubernetes 会拒绝", "请填写 0 或更大的整数"),
        },
        "no quantity": {
            "en": ("{value} is no quantity of {resource}", "write a whole number, for example 1"),
            "zh": ("{resource} 的值 {value} 不是合法的数量", "请填写整数，例如 1"),
        },
        "no limit": {
            "en": (
                "{resource} has a request of {value} but no limit, which Kubernetes refuses",
                "put the same number under limits",
            ),
            "zh": (
                "{resource} 只有 request（{value}）而没有 limit，Kubernetes 会拒绝",
                "请在 limits 中填写相同的数量",
            ),
        },
        "differ": {
            "en": (
                "{resource} has request {value} and limit {limit}, which must be equal",
                "write the same number in both, or only the limit",
            ),
            "zh": (
                "{resource} 的 request（{value}）与 limit（{limit}）必须相等",
                "请填写相同的数量，或只填写 limits",
            ),
        },
        "pod level": {
            "en": (
                "{resource} stands in the pod's own resources, where Kubernetes refuses devices",
                "move it to the container that uses it",
            ),
            "zh": ("{resource} 写在 Pod 级 resources 中，Kubernetes 不接受", "请移到使用它的容器中"),
        },
    }

    per_container: CountLimit | None = None
    per_pod: CountLimit | None = None
    memory: dict[str, MemoryLimit] = {}
    fits_node: bool = False
    sum: bool = False

    @model_validator(mode="after")
    def _some_limit(self) -> "LimitAcceleratorCount":
        if not (self.per_container or self.per_pod or self.memory or self.fits_node):
            raise ValueError("give at least one of perContainer, perPod, memory and fitsNode")
        return self

    @property
    def needs(self) -> Mapping[Need, tuple[str, ...]]:
        """See `Rule.needs`."""
        return {**super().needs, **({"resources": tuple(self.memory)} if self.memory else {})}

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        """See `ValidatingRule.validate_subject`."""
        held = [c for c in subject.once(containers) if mapping_at(c.value, ("resources",))]
        yield from self._refused_anyway(subject, held)
        if self.per_container:
            yield from self._containers(subject, held, self.per_container)
        if self.per_pod:
            yield from self._pod(subject.workload.accelerators, held, self.per_pod)
        if self.memory:
            yield from self._memory(subject, held)
        if self.fits_node:
            yield from self._node(subject, held)
        counts_devices = self.per_container or self.per_pod or self.fits_node
        claimed = subject.received.claimed_vendors
        if counts_devices and (isinstance(claimed, Unknown) or claimed):
            yield skip("claims", ("spec", "resourceClaims"))

    def _totals(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Counts by resource name, or one total under all the names."""
        return {" + ".join(counts): sum(counts.values())} if self.sum and counts else dict(counts)

    def _pod(self, counts: Mapping[str, int], held: list[Container], limit: CountLimit) -> Iterator[Finding]:
        for resource, count in self._totals(counts).items():
            yield from _violations("pod", resource, count, limit, held)

    def _containers(self, subject: Subject, held: list[Container], limit: CountLimit) -> Iterator[Finding]:
        counts, asked = subject.workload.accelerators, subject.requests
        for container in held:
            requests = asked[container.path]
            own = {name: _in_devices(subject, name, requests[name]) for name in counts if name in requests}
            for resource, count in self._totals(own).items():
                yield from _violations("container", resource, count, limit, [container])

    def _memory(self, subject: Subject, held: list[Container]) -> Iterator[Finding]:
        asked = subject.once(effective_requests)
        for resource, limit in self.memory.items():
            if asked.get(resource, 0) > limit.max:
                yield fail(
                    "memory",
                    _place(held, resource),
                    count=asked[resource],
                    resource=resource,
                    limit=limit.max,
                )

    def _node(self, subject: Subject, held: list[Container]) -> Iterator[Finding]:
        for resource, count in subject.workload.accelerators.items():
            largest = _largest_node(subject, resource)
            if isinstance(largest, Unknown):
                yield unknown(largest)
                return
            if count > largest:
                yield fail("no node", _place(held, resource), count=count, resource=resource, limit=largest)

    def _refused_anyway(self, subject: Subject, held: list[Container]) -> Iterator[Finding]:
        """What kubernetes/kubernetes:pkg/apis/core/validation refuses, whatever the limits."""
        for container in held:
            limits = mapping_at(container.value, ("resources", "limits"))
            requests = mapping_at(container.value, ("resources", "requests"))
            for resource in {**limits, **requests}:
                if "/" in resource and _is_device(subject, resource):
                    yield from _malformed(container, resource, requests.get(resource), limits.get(resource))
        own = mapping_at(subject.object, ("spec", "resources"))
        for part in ("limits", "requests") if own else ():
            for resource in mapping_at(own, (part,)):
                if _is_device(subject, resource):
                    yield fail("pod level", ("spec", "resources", part, resource), resource=resource)


def _violations(
    whose: str, resource: str, count: int, limit: CountLimit, held: list[Container]
) -> Iterator[Finding]:
    broken = limit.violation(count)
    if broken:
        how, bound = broken
        yield fail(f"{whose} {how}", _place(held, resource), count=count, resource=resource, limit=bound)


def _is_device(subject: Subject, resource: str) -> bool:
    known = subject.received.catalogue.resource(resource)
    return known is not None and known.role == "device"


def _in_devices(subject: Subject, resource: str, quantity: Quantity) -> int:
    """A part of a device is one, and some device plugins count parts, as many to one."""
    known = subject.received.catalogue.resource(resource)
    return -int(-quantity // ((known and known.per_device) or 1))  # rounded up


def _malformed(container: Container, resource: str, request: Any, limit: Any) -> Iterator[Finding]:
    """What is wrong with one resource of one container; the limit is looked at first."""
    amounts: list[Quantity] = []
    for part, value in (("limits", limit), ("requests", request)):
        place: Path = (*container.path, "resources", part, resource)
        if value is None:
            continue
        try:
            amount = parse_quantity(value)
        except QuantityError:
            yield fail("no quantity", place, resource=resource, value=value)
            return
        if amount < 0 or not isinstance(amount, int):
            yield fail("negative" if amount < 0 else "fraction", place, resource=resource, value=value)
            return
        amounts.append(amount)
        if limit is None:
            yield fail("no limit", place, resource=resource, value=value)
        elif len(set(amounts)) > 1:
            yield fail("differ", place, resource=resource, value=value, limit=limit)


def _place(held: list[Container], resource: str) -> Path:
    """The first place that asks for the resource (of a sum, for any part of it)."""
    for container in held:
        requests = container_requests(container.value)
        for name in resource.split(" + "):
            if requests.get(name, 0) > 0:
                limits = mapping_at(container.value, ("resources", "limits"))
                part = "requests" if limits.get(name) is None else "limits"
                return (*container.path, "resources", part, name)
    return ("spec",)


def _largest_node(subject: Subject, resource: str) -> int | Unknown:
    """The most devices of one node: of those that are there, and of pools that may grow from nothing."""
    nodes = subject.facts.nodes()
    sizes = [
        pool.devices_per_node
        for pool in subject.received.pools
        if pool.devices_per_node and pool.offers([resource])
    ]
    if isinstance(nodes, Unknown):
        return max(sizes) if sizes else nodes
    sizes += [_in_devices(subject, resource, node.allocatable.get(resource, 0)) for node in nodes]
    return max(sizes, default=0)
