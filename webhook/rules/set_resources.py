"""setResources: processors and memory in proportion to the accelerators."""

import re
import string
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import AfterValidator, model_validator

from webhook.documents import Path
from webhook.documents.schema import Schema
from webhook.kube.field_path import mapping_at
from webhook.kube.pod import Container
from webhook.kube.quantity import QuantityError, parse_quantity
from webhook.rules.base import Finding, MutatingRule, Subject, Texts, skip
from webhook.rules.holders import devices_in

RESOURCES = ("cpu", "memory", "ephemeral-storage")
PARTS = ("limits", "requests")
POD_LEVEL: Path = ("spec", "resources")

_AMOUNT = re.compile(r"([1-9][0-9]{0,17})([kMGTPE]|[KMGTPE]i|m)?")
"""Eighteen digits: what an int64, which Kubernetes counts bytes in, holds of any number."""


def _amounts(values: dict[str, str]) -> dict[str, str]:
    for resource, text in values.items():
        if resource not in RESOURCES:
            raise ValueError(f"{resource} cannot be set, expected {', '.join(RESOURCES)}")
        parts = _AMOUNT.fullmatch(text)
        if parts is None or (parts.group(2) == "m" and resource != "cpu"):
            raise ValueError(
                f"{resource}: expected a whole number above zero and a suffix, such as 8 or 64Gi, found {text!r}"
            )
    return values


Amounts = Annotated[dict[str, str], AfterValidator(_amounts)]


class PerAccelerator(Schema):
    """What each accelerator of a container brings with it.

    Attributes:
        requests: by resource: `cpu`, `memory` or `ephemeral-storage`.
        limits: by resource; where no request is given, the request is the same.
    """

    requests: Amounts = {}
    limits: Amounts = {}

    @model_validator(mode="after")
    def _fitting(self) -> "PerAccelerator":
        if not (self.requests or self.limits):
            raise ValueError("give requests, limits or both")
        for resource, limit in self.limits.items():
            request = self.requests.get(resource, limit)
            if parse_quantity(limit) < parse_quantity(request):
                raise ValueError(f"the limit of {resource}, {limit}, is below its request, {request}")
        return self


class _Wanted(NamedTuple):
    """What each accelerator brings of one resource; a limit never without a request."""

    resource: str
    limit: str | None
    request: str

    def times(self, devices: int) -> dict[str, str]:
        """What is written for so many accelerators, by limits and requests."""
        request = {"requests": _times(self.request, devices)}
        return request if self.limit is None else {"limits": _times(self.limit, devices)} | request


class SetResources(MutatingRule):
    """Fills in requests and limits of the containers that hold accelerators, in proportion to the devices in each.

    Only a resource of which a container states neither request nor limit is written, and none that the pod's own resources
    name. Beside a limit a request is always written, as the API server does not fill it in after a second mutating call.
    A LimitRange is not known here: its defaults are filled in before this rule sees the pod, so that the resource is stated,
    and its bounds are checked afterwards (kubernetes/kubernetes:plugin/pkg/admission/limitranger/admission.go).

    Attributes:
        per_accelerator: the amounts for one accelerator; a container gets them as many times as it has some.
    """

    type: ClassVar[str] = "setResources"
    texts: ClassVar[Texts] = {
        "no accelerator": {
            "en": (
                "no container of the pod holds an accelerator",
                "nothing: the amounts are for each accelerator",
            ),
            "zh": ("Pod 中没有容器持有加速卡", "无需处理：资源量按加速卡数量计算"),
        },
        "no count": {
            "en": (
                "no resources are set: the accelerators of a resource claim cannot be counted",
                "state cpu and memory of the container yourself",
            ),
            "zh": (
                "未设置资源：无法统计通过 ResourceClaim 申请的加速卡数量",
                "请自行填写该容器的 cpu 和 memory",
            ),
        },
        "kept": {
            "en": ("the container keeps its own {resource}", "nothing: what somebody stated is respected"),
            "zh": ("容器保留自己的 {resource}", "无需处理：用户填写的值不会被覆盖"),
        },
        "pod level": {
            "en": (
                "no {resource} is set in containers, since the pod's own resources state it",
                "nothing: the pod's own resources hold for all of its containers",
            ),
            "zh": (
                "未在容器中设置 {resource}，因为 Pod 级 resources 已声明",
                "无需处理：Pod 级 resources 对所有容器生效",
            ),
        },
    }

    per_accelerator: PerAccelerator

    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        """See `MutatingRule.mutate`."""
        found = subject.holders
        if not found:
            yield skip("no accelerator", ("spec", "containers"))
            return
        own = mapping_at(subject.object, POD_LEVEL)
        free: list[_Wanted] = []
        for wanted in self._wanted:
            part = _stated(own, wanted.resource) if own else ""
            if part:
                yield skip("pod level", (*POD_LEVEL, part, wanted.resource), resource=wanted.resource)
            else:
                free.append(wanted)
        for holder in found:
            yield from _fill(subject, key, holder, free)

    @cached_property
    def _wanted(self) -> tuple[_Wanted, ...]:
        requests, limits = self.per_accelerator.requests, self.per_accelerator.limits
        return tuple(
            _Wanted(resource, limits.get(resource), requests.get(resource, limits.get(resource, "")))
            for resource in RESOURCES
            if resource in limits or resource in requests
        )


def _fill(subject: Subject, key: str, holder: Container, wanted: list[_Wanted]) -> Iterator[Finding]:
    devices = devices_in(subject, holder)
    base: Path = (*holder.path, "resources")
    if wanted and not devices:
        yield skip("no count", base)
        return
    stated = mapping_at(holder.value, ("resources",))
    for each in wanted:
        part = _stated(stated, each.resource)
        if not part:
            for part, amount in each.times(devices).items():
                subject.draft.set((*base, part, each.resource), amount, key)
        elif not _is_done(stated, each.resource, each.times(devices)):
            yield skip("kept", (*base, part, each.resource), resource=each.resource)


def _stated(resources: Mapping[str, Any], resource: str) -> str:
    """Whether it is in the limits or the requests of some `resources`, "" if in none."""
    for part in PARTS:
        if mapping_at(resources, (part,)).get(resource) is not None:
            return part
    return ""


def _is_done(resources: Mapping[str, Any], resource: str, amounts: Mapping[str, str]) -> bool:
    """Whether the container states just what this rule writes, however it is spelt."""
    for part in PARTS:
        present, amount = mapping_at(resources, (part,)).get(resource), amounts.get(part)
        if (present is None) != (amount is None) or (amount is not None and not _is_same(present, amount)):
            return False
    return True


def _is_same(present: object, amount: str) -> bool:
    try:
        return present == amount or parse_quantity(present) == parse_quantity(amount)
    except QuantityError:
        return False


@lru_cache(1024)
def _times(amount: str, devices: int) -> str:
    """The amount so many times, its suffix kept: eight times 64Gi are 512Gi."""
    number = amount.rstrip(string.ascii_letters)
    return f"{int(number) * devices}{amount.removeprefix(number)}"
