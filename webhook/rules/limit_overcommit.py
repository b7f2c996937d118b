"""limitOvercommit: how far a limit may exceed its request."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, model_validator

from webhook.documents import Path
from webhook.documents.schema import Schema, shown
from webhook.kube.field_path import mapping_at
from webhook.kube.pod import containers, quantities
from webhook.kube.quantity import Quantity, QuantityError, format_quantity, parse_quantity
from webhook.rules.base import Finding, Need, Subject, Texts, ValidatingRule, fail

POD_LEVEL: Path = ("spec", "resources")


def _ratio(value: Any) -> Fraction:
    try:
        ratio = Fraction(0 if isinstance(value, str) else parse_quantity(value))
    except QuantityError:
        ratio = Fraction(0)
    if ratio < 1:
        found = "" if isinstance(value, str) else f", found {shown(value)}"
        raise ValueError(f"expected a number from 1 up, such as 4 or 1.5{found}")
    return ratio


class Overcommit(Schema):
    """The largest ratio of limit to request.

    Attributes:
        max_limit_to_request: how many times the request the limit may be.
    """

    max_limit_to_request: Annotated[Fraction, PlainValidator(_ratio)]


class LimitOvercommit(ValidatingRule):
    """Judges each container, init containers and sidecars included, and the pod's own resources, where they set a limit.

    What has no limit is not judged, nor is a limit of 0, which to the kubelet is none
    (kubernetes/kubernetes:pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, calculateLinuxResources). A request that is
    missing is the limit, as the API server fills it in.

    Attributes:
        cpu: for processors.
        memory: for memory.
    """

    type: ClassVar[str] = "limitOvercommit"
    scope: ClassVar[frozenset[Need]] = frozenset({"all"})
    texts: ClassVar[Texts] = {
        "over": {
            "en": (
                "{resource}: the limit {limit} is more than {ratio} times the request {request}",
                "lower the limit to at most {most}, or raise the request",
            ),
            "zh": (
                "{resource}：limit {limit} 超过 request {request} 的 {ratio} 倍",
                "请将 limit 降到 {most} 以内，或提高 request",
            ),
        },
        "no request": {
            "en": (
                "{resource}: the limit is {limit} and the request {request}, so nothing is reserved for it",
                "request what is needed; the limit may be {ratio} times that",
            ),
            "zh": (
                "{resource}：limit 为 {limit}，request 为 {request}，没有预留任何资源",
                "请按需填写 request，limit 最多为其 {ratio} 倍",
            ),
        },
    }

    cpu: Overcommit | None = None
    memory: Overcommit | None = None

    @model_validator(mode="after")
    def _some_limit(self) -> "LimitOvercommit":
        if not (self.cpu or self.memory):
            raise ValueError("give cpu, memory or both")
        return self

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        """See `ValidatingRule.validate_subject`."""
        requests = subject.requests
        for each in subject.once(containers):
            limits = mapping_at(each.value, ("resources", "limits"))
            if limits:
                yield from self._judge(limits, (*each.path, "resources"), requests[each.path])
        limits = mapping_at(subject.object, (*POD_LEVEL, "limits"))
        if limits:
            yield from self._judge(limits, POD_LEVEL, subject.own_requests)

    def _judge(
        self, given: Mapping[str, Any], base: Path, requests: Mapping[str, Quantity]
    ) -> Iterator[Finding]:
        limits = quantities({name: given[name] for name in ("cpu", "memory") if name in given})
        for resource, ratio in (("cpu", self.cpu), ("memory", self.memory)):
            # A resource with a limit lacks a request here only where that is no quantity, which the API server refuses.
            if ratio and resource in requests and limits.get(resource, 0) > 0:
                found = _violation(limits[resource], requests[resource], ratio.max_limit_to_request)
                if found:
                    text, args = found
                    yield fail(text, (*base, "limits", resource), resource=resource, **args)


def _violation(limit: Quantity, request: Quantity, ratio: Fraction) -> tuple[str, dict[str, object]] | None:
    """What a limit breaks, as a text's name and what it says; None if nothing."""
    # Whole numbers on both sides: a product of fractions takes ten times as long.
    if request > 0 and limit * ratio.denominator <= request * ratio.numerator:
        return None
    args: dict[str, object] = {
        "limit": format_quantity(limit),
        "request": format_quantity(request),
        "ratio": ratio if ratio.denominator == 1 else float(ratio),
    }
    if request <= 0:
        return "no request", args
    return "over", args | {"most": format_quantity(request * ratio)}
