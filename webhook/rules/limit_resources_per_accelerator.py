"""limitResourcesPerAccelerator: how much cpu and memory a pod may ask for beside each of its accelerators."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from webhook.documents import Path
from webhook.documents.schema import Schema
from webhook.kube.field_path import mapping_at, value_at
from webhook.kube.pod import container_requests, containers, quantities
from webhook.kube.quantity import format_quantity, parse_quantity
from webhook.rules.base import Finding, Mode, Subject, Texts, ValidatingRule, fail, skip
from webhook.rules.parameters import AmountParameter, BytesParameter

POD_LEVEL: Path = ("spec", "resources")
PARTS = ("requests", "limits")

CEILINGS = {"warn": Mode.WARN, "fail": Mode.ENFORCE}


class CpuPerAccelerator(Schema):
    """The most for each accelerator.

    Attributes:
        max: processors, such as "16" or 500m.
    """

    max: AmountParameter


class MemoryPerAccelerator(Schema):
    """The most for each accelerator.

    Attributes:
        max: memory in whole bytes, such as 128Gi.
    """

    max: BytesParameter


class LimitResourcesPerAccelerator(ValidatingRule):
    """Judges what the pod asks for in all, by the number of its accelerators: a node whose memory is gone has idle devices.

    Counted is the effective request (init containers and sidecars as Kubernetes adds them up; a limit where there is no
    request; the pod's own resources), without the overhead of a runtime class. `whenMissing` judges a container that holds
    accelerators and states nothing, or 0, of the resource, where the pod's own resources do not state it either.

    Attributes:
        cpu: for processors.
        memory: for memory.
        when_missing: what it is when a container with accelerators requests none of the resource.
    """

    type: ClassVar[str] = "limitResourcesPerAccelerator"
    texts: ClassVar[Texts] = {
        "over": {
            "en": (
                "{resource}: {asked} asked for {devices}, at most {limit} per accelerator",
                "ask for at most {total} in the whole pod; the rest of the node is for its other accelerators",
            ),
            "zh": (
                "{resource}：为 {devices} 申请了 {asked}，每张加速卡最多 {limit}",
                "请将整个 Pod 降到 {total} 以内，节点其余的资源要留给其他加速卡",
            ),
        },
        "missing": {
            "en": (
                "{resource}: the container holds accelerators and requests none, so nothing is reserved for it",
                "request what it needs, at most {limit} per accelerator",
            ),
            "zh": (
                "{resource}：容器持有加速卡却没有申请该资源，无法为其预留",
                "请按需申请，每张加速卡最多 {limit}",
            ),
        },
        "claims": {
            "en": (
                "accelerators asked for through a resource claim cannot be counted",
                "nothing: the limit is for what is asked for by name",
            ),
            "zh": ("无法统计通过 ResourceClaim 申请的加速卡数量", "无需处理：限额只针对按名称申请的资源"),
        },
        "no accelerator": {
            "en": ("the pod asks for no accelerator", "nothing"),
            "zh": ("Pod 没有申请加速卡", "无需处理"),
        },
    }

    cpu: CpuPerAccelerator | None = None
    memory: MemoryPerAccelerator | None = None
    when_missing: Literal["ignore", "warn", "fail"] = "ignore"

    @model_validator(mode="after")
    def _some_limit(self) -> "LimitResourcesPerAccelerator":
        if not (self.cpu or self.memory):
            raise ValueError("give cpu, memory or both")
        return self

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        """See `ValidatingRule.validate_subject`."""
        if _has_uncounted(subject):
            yield skip("claims", ("spec", "resourceClaims"))
        elif not subject.workload.accelerators:
            yield skip("no accelerator", ("spec", "containers"))
        else:
            asked = subject.own_requests
            for resource, limit in (("cpu", self.cpu), ("memory", self.memory)):
                if limit:
                    if self.when_missing != "ignore":
                        yield from self._missing(subject, resource, limit.max)
                    yield from _over(subject, resource, asked.get(resource, 0), limit.max)

    def _missing(self, subject: Subject, resource: str, limit: str) -> Iterator[Finding]:
        if _is_stated_by_pod(subject.object, resource):
            return
        for holder in subject.holders:
            if subject.requests[holder.path].get(resource, 0) <= 0:
                place: Path = (*holder.path, "resources", "requests", resource)
                missing = fail("missing", place, resource=resource, limit=limit)
                yield replace(missing, ceiling=CEILINGS[self.when_missing])


def _over(subject: Subject, resource: str, asked: Any, limit: str) -> Iterator[Finding]:
    counts = subject.workload.accelerators
    total = parse_quantity(limit) * sum(counts.values())
    if asked > total:
        yield fail(
            "over",
            _place(subject.object, resource),
            resource=resource,
            asked=format_quantity(asked),
            devices=" + ".join(f"{count} {name}" for name, count in counts.items()),
            limit=limit,
            total=format_quantity(total),
        )


def _has_uncounted(subject: Subject) -> bool:
    """Whether some claim is for accelerators, or nobody knows what for; one for a network card changes no count."""
    return subject.workload.claims_devices and subject.received.claimed_vendors != frozenset()


def _is_stated_by_pod(pod: Mapping[str, Any], resource: str) -> bool:
    return any(quantities(mapping_at(pod, (*POD_LEVEL, part))).get(resource, 0) > 0 for part in PARTS)


def _place(pod: Mapping[str, Any], resource: str) -> Path:
    """Where most of the resource is asked for: in the pod's own resources, else in the container that asks for most."""
    asking = max(containers(pod), key=lambda each: container_requests(each.value).get(resource, 0))
    bases: tuple[Path, ...] = (POD_LEVEL, (*asking.path, "resources"))
    places: Iterator[Path] = ((*base, part, resource) for base in bases for part in PARTS)
    return next((place for place in places if value_at(pod, place) is not None), POD_LEVEL)
