"""setPriorityClass: the pod's priority class, with the number and the preemption policy that belong to it."""

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar

from pydantic import Field, field_validator

from webhook.documents import Path
from webhook.facts import PriorityClass, Unknown
from webhook.kube.draft import ALWAYS, Draft, Replace, Written
from webhook.kube.field_path import value_at
from webhook.rules.base import Finding, MutatingRule, Need, Subject, Texts, error, fail, skip, unknown
from webhook.rules.parameters import ReplaceParameter

NAME: Path = ("spec", "priorityClassName")
PRIORITY: Path = ("spec", "priority")
PREEMPTION: Path = ("spec", "preemptionPolicy")
SYSTEM = "system-"
"""The prefix of Kubernetes' own classes (kubernetes/kubernetes:pkg/apis/scheduling/types.go, SystemPriorityClassPrefix)."""


class SetPriorityClass(MutatingRule):
    """Sets `priorityClassName` and, where the class is known, `priority` and `preemptionPolicy` to exactly its values.

    The API server's Priority plugin fills in all three before any webhook, and refuses a pod whose number or policy is not its
    class's; after a reinvocation it does not run again. Writing all three is right in both passes
    (kubernetes/kubernetes:plugin/pkg/admission/priority/admission.go).

    Attributes:
        class_: the PriorityClass; none of `system-*`.
        replace: which present class may be overwritten.
    """

    type: ClassVar[str] = "setPriorityClass"
    asks: ClassVar[frozenset[str]] = frozenset({"PriorityClass"})
    scope: ClassVar[frozenset[Need]] = frozenset({"all"})
    texts: ClassVar[Texts] = {
        "kept": {
            "en": (
                "the pod keeps its own priority class {present}",
                "nothing: a class that somebody chose is respected",
            ),
            "zh": ("Pod 保留自己的优先级类 {present}", "无需处理：用户选择的优先级类不会被覆盖"),
        },
        "missing": {
            "en": (
                "priority class {wanted} does not exist in the cluster",
                "create the PriorityClass {wanted}, or correct the policy",
            ),
            "zh": ("集群中不存在优先级类 {wanted}", "请创建 PriorityClass {wanted}，或修正策略"),
        },
        "numberless": {
            "en": (
                "the pod names priority class {present} but has no priority, so the scheduler reads it as 0",
                "create the pod again; if it happens again, tell the platform team: a webhook sets the class too late",
            ),
            "zh": (
                "Pod 指定了优先级类 {present}，但没有优先级数值，调度器会按 0 处理",
                "请重新创建 Pod；若再次发生，请联系平台团队",
            ),
        },
    }

    class_: str = Field(alias="class", min_length=1)
    replace: ReplaceParameter = Replace()

    @field_validator("class_")
    @classmethod
    def _of_the_site(cls, value: str) -> str:
        if value.startswith(SYSTEM):
            raise ValueError("system-* classes are for Kubernetes' own pods; expected a class of the site")
        return value

    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        """See `MutatingRule.mutate`."""
        present = value_at(subject.object, NAME)
        if isinstance(present, str) and present.startswith(SYSTEM):
            yield skip("kept", NAME, present=present)
            return
        wanted = subject.facts.priority_class(self.class_)
        # Where an API server has filled in a number, a name alone would contradict it.
        by_name_alone = isinstance(wanted, Unknown) and value_at(subject.object, PRIORITY) is None
        writable = isinstance(wanted, PriorityClass) or by_name_alone
        # What must not be written is only tried: a class that stays anyway is no error.
        written = self._set_name(subject.draft if writable else subject.draft.trial(), subject, key)
        if not written.holds:
            yield skip("kept", NAME, present=present)
        elif wanted is None:
            yield error("missing", NAME, wanted=self.class_)
        elif isinstance(wanted, PriorityClass):
            subject.draft.set(PRIORITY, wanted.value, key, ALWAYS)
            subject.draft.set(PREEMPTION, wanted.preemption_policy, key, ALWAYS)
        elif not writable and written is Written.WRITTEN:
            yield unknown(wanted)

    def verify(self, subject: Subject) -> Iterator[Finding]:
        """A class without a number got in behind the Priority plugin's back."""
        name = value_at(subject.object, NAME)
        if name and subject.request.from_api_server and value_at(subject.object, PRIORITY) is None:
            yield fail("numberless", PRIORITY, present=name)

    @cached_property
    def _replaced(self) -> Replace:
        """With the empty name, which is none to the Priority plugin."""
        return Replace(self.replace.when, ("", *self.replace.values))

    def _set_name(self, draft: Draft, subject: Subject, key: str) -> Written:
        present = value_at(draft.object, NAME)
        # Which class is the default matters only where it might be replaced.
        default = None if present in (None, self.class_) else subject.facts.default_priority_class()
        return draft.set(
            NAME,
            self.class_,
            key,
            self._replaced,
            cluster_default=default.name if isinstance(default, PriorityClass) else None,
        )
