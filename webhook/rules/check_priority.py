"""checkPriority: a pod has a priority class that its kind of workload may have, and no number of its own."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from webhook.documents import Path
from webhook.facts import PriorityClass
from webhook.kube.field_path import value_at
from webhook.kube.globs import glob_matches
from webhook.kube.workload import WorkloadClass
from webhook.rules.base import Finding, Need, Subject, Texts, ValidatingRule, fail

NAME: Path = ("spec", "priorityClassName")
PRIORITY: Path = ("spec", "priority")
KUEUE_CLASS: Path = ("metadata", "labels", "kueue.x-k8s.io/priority-class")
"""Kueue's own priority class, which orders its queue (kubernetes-sigs/kueue:pkg/controller/constants/constants.go)."""

SYSTEM_PREFIX = "system-"
"""Reserved for Kubernetes' own classes (kubernetes/kubernetes:pkg/apis/scheduling/types.go, SystemPriorityClassPrefix)."""


class CheckPriority(ValidatingRule):
    """Judges the priority class that a pod names, the one that it names to Kueue, and a number without a class.

    A pod without a class is not judged, and one whose kind of workload is not named is free to choose.

    Attributes:
        allowed: the priority classes that each class of workload may have; one that is not named here is free to
            choose.
        numbers_without_class: whether a priority without a class fails; 0 is always right, and so is the number of
            the default class.
        system_classes_outside: namespaces, or globs of them, whose pods may have Kubernetes' own `system-*` classes;
            all where not given.
    """

    type: ClassVar[str] = "checkPriority"
    asks: ClassVar[frozenset[str]] = frozenset({"PriorityClass"})
    scope: ClassVar[frozenset[Need]] = frozenset({"all"})
    texts: ClassVar[Texts] = {
        "not allowed": {
            "en": (
                "priority class {present} is not for {workload} pods ({evidence}), which may have {allowed}",
                "set spec.priorityClassName to one of: {allowed}",
            ),
            "zh": (
                "优先级类 {present} 不适用于 {workload} 类 Pod（{evidence}），可用的有 {allowed}",
                "请将 spec.priorityClassName 设为以下之一：{allowed}",
            ),
        },
        "not allowed in Kueue": {
            "en": (
                "Kueue's priority class {present} is not for {workload} pods ({evidence}), which may have {allowed}",
                "set the label kueue.x-k8s.io/priority-class to one of: {allowed}",
            ),
            "zh": (
                "Kueue 优先级类 {present} 不适用于 {workload} 类 Pod（{evidence}），可用的有 {allowed}",
                "请将标签 kueue.x-k8s.io/priority-class 设为以下之一：{allowed}",
            ),
        },
        "system class": {
            "en": (
                "priority class {present} is for the cluster's own pods, and namespace {namespace} is not one of theirs",
                "choose another priority class, or leave it out",
            ),
            "zh": (
                "优先级类 {present} 仅供集群自身的 Pod 使用，命名空间 {namespace} 不能使用",
                "请选择其他优先级类，或不设置",
            ),
        },
        "number": {
            "en": (
                "the pod has priority {present} but names no priority class, and Kubernetes takes a number only from a class",
                "remove spec.priority, and name a class in spec.priorityClassName",
            ),
            "zh": (
                "Pod 设置了 priority {present}，却没有指定优先级类；Kubernetes 只接受来自优先级类的数值",
                "请移除 spec.priority，并在 spec.priorityClassName 中指定优先级类",
            ),
        },
    }

    allowed: dict[WorkloadClass, Annotated[tuple[str, ...], Field(min_length=1, strict=False)]] = {}
    numbers_without_class: Literal["fail", "ignore"] = "fail"
    system_classes_outside: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] = ("*",)

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        """See `ValidatingRule.validate_subject`."""
        present = value_at(subject.object, NAME)
        if not (isinstance(present, str) and present):
            yield from self._number(subject)
        elif present.startswith(SYSTEM_PREFIX) and not self._is_system(subject.request.namespace):
            yield fail("system class", NAME, present=present, namespace=subject.request.namespace)
        else:
            yield from self._listed(subject, "not allowed", NAME)
        yield from self._listed(subject, "not allowed in Kueue", KUEUE_CLASS)

    def _is_system(self, namespace: str) -> bool:
        return any(glob_matches(pattern, namespace) for pattern in self.system_classes_outside)

    def _listed(self, subject: Subject, text: str, path: Path) -> Iterator[Finding]:
        present = value_at(subject.object, path)
        workload = subject.workload.workload_class
        allowed = self.allowed.get(workload)
        if allowed and isinstance(present, str) and present and present not in allowed:
            yield fail(
                text,
                path,
                present=present,
                workload=workload,
                evidence=subject.workload.class_evidence,
                allowed=", ".join(allowed),
            )

    def _number(self, subject: Subject) -> Iterator[Finding]:
        """A number is right where the Priority plugin would compute the same; 0 is what it writes where no class is default.

        Source: kubernetes/kubernetes:plugin/pkg/admission/priority/admission.go, admitPod.
        """
        present = value_at(subject.object, PRIORITY)
        if self.numbers_without_class == "ignore" or type(present) is not int or present == 0:
            return
        default = subject.facts.default_priority_class()
        if not (isinstance(default, PriorityClass) and default.value == present):
            yield fail("number", PRIORITY, present=present)
