"""expression: a condition in CEL, for what no other rule type says."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from webhook.documents import Path
from webhook.documents.schema import Schema
from webhook.expressions import (
    Condition,
    EvaluationError,
    ExpressionError,
    Message,
    compile_condition,
    compile_message,
)
from webhook.facts import Unknown
from webhook.kube.field_path import value_at
from webhook.rules.base import Finding, Need, Sentence, Subject, Texts, ValidatingRule, error, fail, unknown

WITHOUT_GROUP = ("pods", "persistentvolumeclaims", "replicationcontrollers")
"""What can be judged of the core group, whose resources are written without one."""

GROUPS = {
    "jobs": ("batch", "batch.volcano.sh"),
    "cronjobs": ("batch",),
    "deployments": ("apps",),
    "replicasets": ("apps",),
    "statefulsets": ("apps",),
    "daemonsets": ("apps",),
}
"""Where to find what is often written without its group."""

_RESOURCE = re.compile(r"[a-z][a-z0-9]*\.[a-z0-9-]+(?:\.[a-z0-9-]+)*\Z")
_FIELD = re.compile(r"(?<![\w.])object\b((?:\s*\.\s*\??\s*[A-Za-z_]\w*)*)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ABOUT_WORKLOAD = re.compile(r"\b(?:workload\s*\.|acceleratorCount\b)")


class _PlacedError(ValueError):
    """A fault of one key of a map."""

    def __init__(self, key: str, fault: ExpressionError) -> None:
        hint = f"; {fault.hint}" if fault.hint else ""
        where = f"at line {fault.line}, column {fault.column} of the expression"
        super().__init__(f"{key}: {fault.message} ({where}){hint}")
        self.path: Path = (key,)


def _resource(name: str) -> str:
    if "/" in name:
        raise ValueError(
            "expected a resource without a subresource; those of pods come with operations: [UPDATE]"
        )
    if name in GROUPS:
        raise ValueError(f"expected {' or '.join(f'{name}.{group}' for group in GROUPS[name])}")
    if name not in WITHOUT_GROUP and not _RESOURCE.match(name):
        raise ValueError("expected a resource as kubectl api-resources writes it, such as pods or jobs.batch")
    return name


class Validation(Schema):
    """A condition that must hold, and what is said where it does not.

    Attributes:
        expression: true or false.
        message: what is said; the expression itself where there is none.
        message_expression: what is said, written for the object; `message` where it fails.
    """

    expression: str
    message: str = ""
    message_expression: str = ""
    _condition: Condition = PrivateAttr()
    _rendered: Message | None = PrivateAttr(default=None)
    _fields: tuple[Path, ...] = PrivateAttr(default=())
    _about_workload: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _compile(self) -> "Validation":
        try:
            self._condition = compile_condition(self.expression)
        except ExpressionError as fault:
            raise _PlacedError("expression", fault) from None
        try:
            self._rendered = compile_message(self.message_expression) if self.message_expression else None
        except ExpressionError as fault:
            raise _PlacedError("messageExpression", fault) from None
        self._fields = tuple(_named_fields(self.expression))
        self._about_workload = bool(_ABOUT_WORKLOAD.search(self.expression))
        return self

    @property
    def reads_namespace(self) -> bool:
        """Whether an expression looks at the namespace."""
        return any("namespaceObject" in each.names for each in (self._condition, self._rendered) if each)

    def judge(self, subject: Subject) -> Finding | None:
        """What is wrong, if anything."""
        try:
            if self._condition.holds(subject.bindings):
                return None
            found = self._violation(subject)
        except EvaluationError as fault:
            found = self._undecided(subject, fault)
        places = [_present(subject.object, field) for field in self._fields]
        judged: list[Any] = [value_at(subject.object, place) for place in places]
        if self._about_workload:
            judged.append(subject.workload)
        spec: Path = ("spec",)
        return replace(
            found,
            path=places[0] if places else spec,
            judged=judged or value_at(subject.object, spec),
        )

    def _violation(self, subject: Subject) -> Finding:
        kind, expression = subject.request.kind, _on_one_line(self.expression)
        message = self._said(subject)
        if message:
            return fail("violated", message=_on_one_line(message), expression=expression, kind=kind)
        return fail("does not hold", expression=expression, kind=kind)

    def _said(self, subject: Subject) -> str:
        try:
            return self._rendered.render(subject.bindings) if self._rendered else self.message
        except EvaluationError:
            return self.message

    def _undecided(self, subject: Subject, fault: EvaluationError) -> Finding:
        namespace = subject.received.namespace
        if isinstance(namespace, Unknown) and "namespaceObject" in self._condition.names:
            return unknown(namespace)
        return error("undecided", why=fault.reason, expression=_on_one_line(self.expression))


class Expression(ValidatingRule):
    """Judges objects of any resource by conditions as in a ValidatingAdmissionPolicy.

    An update answers for a condition that already did not hold only where a value changed that the condition reads, as
    Kubernetes' own validation does for custom resources (kubernetes/enhancements:keps/sig-api-machinery/4008-crd-ratcheting).

    Attributes:
        resources: what is judged, as `kubectl api-resources` writes it, with its group: `pods`, `jobs.batch`.
        validations: what must hold; every condition that does not is reported.
    """

    type: ClassVar[str] = "expression"
    beyond_spec: ClassVar[bool] = True
    scope: ClassVar[frozenset[Need]] = frozenset({"all"})
    texts: ClassVar[Texts] = {
        "violated": {
            "en": ("{message}", "change the {kind} so that this holds: {expression}"),
            "zh": ("{message}", "请修改 {kind}，使以下条件成立：{expression}"),
        },
        "does not hold": {
            "en": (
                "this must hold, but does not: {expression}",
                "change the {kind} so that it holds, or ask the platform team what is meant",
            ),
            "zh": ("以下条件不成立：{expression}", "请修改 {kind} 使其成立，或联系平台团队了解含义"),
        },
        "undecided": {
            "en": (
                "the policy's condition has no answer for this object: {why}",
                "tell the platform team: {expression} must be true or false for every object",
            ),
            "zh": (
                "策略条件无法对该对象求值：{why}",
                "请告知平台团队：{expression} 对任何对象都必须为真或假",
            ),
        },
    }

    resources: Annotated[
        tuple[Annotated[str, AfterValidator(_resource)], ...], Field(min_length=1, strict=False)
    ] = ("pods",)
    validations: Annotated[tuple[Validation, ...], Field(min_length=1, strict=False)]

    @property
    def targets(self) -> tuple[str, ...]:
        """See `Rule.targets`."""
        return self.resources

    @property
    def kinds_asked(self) -> frozenset[str]:
        """See `Rule.kinds_asked`."""
        return frozenset({"Namespace"} if any(each.reads_namespace for each in self.validations) else ())

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        """See `ValidatingRule.validate_subject`."""
        for validation in self.validations:
            found = validation.judge(subject)
            if found is not None:
                yield found


def _on_one_line(text: str) -> Sentence:
    return Sentence(" ".join(text.split()))


def _named_fields(expression: str) -> Iterator[Path]:
    """The fields of the object that an expression names, with what is called on them at the end; () for all of it."""
    for match in _FIELD.finditer(expression):
        yield tuple(_NAME.findall(match[1]))


def _present(thing: Any, field: Path) -> Path:
    """As much of a path as the object has; its spec where it has nothing of it."""
    lengths = range(len(field), 0, -1)
    return next(
        (field[:length] for length in lengths if value_at(thing, field[:length]) is not None), ("spec",)
    )
