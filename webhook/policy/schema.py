"""The shape of podgate's own kinds, as their files have it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from webhook.documents.schema import Schema, shown
from webhook.kube.selectors import compile_label_selector
from webhook.rules.base import Mode

API_VERSION = "podgate.dev/v1alpha1"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
MOST_RULES = 64
"""Rules of one policy: keys of findings, metrics and audit annotations are bounded by it."""


def _name(value: Any) -> Any:
    if isinstance(value, str) and not _NAME.match(value):
        raise ValueError("expected a lower-case name of letters, digits, - and ., at most 63 characters")
    return value


def _line(value: Any) -> Any:
    """A text that messages show, on one line, however it is folded in the file."""
    return " ".join(value.split()) if isinstance(value, str) else value


def _text(value: Any) -> Any:
    """A text is a string (English) or a map by language; its lines become one."""
    if not isinstance(value, str | dict):
        raise ValueError(  # noqa: TRY004 - pydantic reports ValueError only
            f"expected a text, or a map of texts by language, found {shown(value)}"
        )
    return {language: _line(text) for language, text in _by_language(value).items()}


def _by_language(value: str | dict[Any, Any]) -> dict[Any, Any]:
    return {"en": value} if isinstance(value, str) else value


def _selector(value: Any) -> Any:
    if isinstance(value, dict):
        compile_label_selector(value)
    return value


Name = Annotated[str, BeforeValidator(_name)]
Line = Annotated[str, BeforeValidator(_line)]
Text = Annotated[dict[str, str], BeforeValidator(_text)]
Strings = Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
LabelSelector = Annotated[dict[str, Any], BeforeValidator(_selector)]
ModeParameter = Annotated[Mode, Field(strict=False)]


class Count(Schema):
    """How many accelerators, both bounds included."""

    min: int = Field(default=1, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _some_number(self) -> "Count":
        if self.max is not None and self.min > self.max:
            raise ValueError(f"no count is at least {self.min} and at most {self.max}")
        return self


class AcceleratorMatch(Schema):
    """Which accelerators a pod asks for; all that is given must hold."""

    none: bool = False
    vendors: Strings | None = None
    resource_names: Strings | None = None
    count: Count | None = None
    sharing: (
        Annotated[tuple[Literal["none", "mig", "timeSlice", "memorySlice"], ...], Field(strict=False)] | None
    ) = None

    @model_validator(mode="before")
    @classmethod
    def _none_is_a_word(cls, value: Any) -> Any:
        if value == "none":
            return {"none": True}
        if value == ["none"]:
            raise ValueError("none is a word, not a list: write accelerators: none")
        if isinstance(value, dict) and "none" in value:
            raise ValueError(
                "write accelerators: none, or a map of vendors, resourceNames, count and sharing"
            )
        return value


class NamedExpression(Schema):
    """A CEL condition with a name, as in ValidatingAdmissionPolicy."""

    name: Name
    expression: str = Field(min_length=1)


class MatchClause(Schema):
    """One alternative of a match: all that is given must hold."""

    all: Literal[True] | None = None
    workloads: (
        Annotated[
            tuple[Literal["training", "inference", "notebook", "other"], ...],
            Field(min_length=1, strict=False),
        ]
        | None
    ) = None
    accelerators: AcceleratorMatch | None = None
    pools: Strings | None = None
    communication: (
        Annotated[
            tuple[Literal["multiNode", "disaggregated", "none"], ...], Field(min_length=1, strict=False)
        ]
        | None
    ) = None
    operations: (
        Annotated[tuple[Literal["CREATE", "UPDATE"], ...], Field(min_length=1, strict=False)] | None
    ) = None
    namespaces: Strings | None = None
    namespace_selector: LabelSelector | None = None
    workspaces: Strings | None = None
    object_selector: LabelSelector | None = None
    match_conditions: Annotated[tuple[NamedExpression, ...], Field(min_length=1, strict=False)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "MatchClause":
        given = self.model_fields_set - {"operations"}
        if not given:
            empty = (
                "operations alone say nothing about objects"
                if self.operations
                else "an empty match is an error"
            )
            raise ValueError(f"{empty}; write all: true for everything")
        if self.all and given != {"all"}:
            raise ValueError("all: true stands alone; remove it, or what else is said")
        return self


def _clauses(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


Clauses = Annotated[tuple[MatchClause, ...], BeforeValidator(_clauses), Field(strict=False, min_length=1)]


class RuleEntry(Schema):
    """A rule as a policy has it, without the parameters of its type (see `webhook.policy.load`)."""

    name: Name
    verify: Literal["warn", "fail"] = "warn"
    message: Text = {}
    remediation: Text = {}


class TemplateUse(Schema):
    """What a policy does with the pod templates of controllers.

    Attributes:
        check: whether the author of a template is told: as of a pod, at most with a warning, or not at all.
        mutate: the kinds whose templates the policy's setters write into, as kubectl names them.
    """

    check: Literal["sameAsMode", "warn", "disabled"] = "sameAsMode"
    mutate: Strings | None = None


class PolicySpec(Schema):
    """A policy's spec, without its rules."""

    title: Text = {}
    description: Text = {}
    severity: Literal["low", "medium", "high", "critical"] = "medium"
    link: Line = ""
    contact: Line = ""
    mode: ModeParameter = Mode.AUDIT
    failure_policy: Literal["Ignore", "Fail"] = "Ignore"
    order: int = 100
    match: Clauses
    exclude: Clauses | None = None
    templates: TemplateUse = TemplateUse()
    opt_out: Literal["allowed", "denied"] = "denied"
    rules: Annotated[list[Any], Field(min_length=1, max_length=MOST_RULES)]


class OverrideSpec(Schema):
    """What a site says about shipped policies: another mode, other parameters, or both."""

    policies: Strings
    order: int = 100
    match: Clauses
    mode: ModeParameter | None = None
    rules: Annotated[list[Any], Field(max_length=MOST_RULES)] = []

    @model_validator(mode="after")
    def _changes_something(self) -> "OverrideSpec":
        if self.mode is None and not self.rules:
            raise ValueError("give mode, rules, or both; without either an override changes nothing")
        return self


def _expiry(value: Any) -> Any:
    """A date is the end of that day in UTC, for whoever wrote it counts the day in."""
    try:
        if isinstance(value, str) and _DATE.match(value):
            return datetime.fromisoformat(value).replace(tzinfo=UTC) + timedelta(days=1)
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(
            'expected a date such as "2027-06-30", or a time with its zone, "2027-06-30T12:00:00Z"'
        )
    return moment


class ExceptionSpec(Schema):
    """An accepted risk: rules that do not hold for some objects, why, who answers for it, and until when."""

    policies: Strings
    match: Clauses
    reason: Line = Field(min_length=1)
    owner: Line = Field(min_length=1)
    reference: Line = ""
    expires_at: Annotated[datetime, BeforeValidator(_expiry)]


class Metadata(Schema):
    """Name and, for the reader only, labels and annotations."""

    name: Name
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Manifest(Schema):
    """What all four kinds have in common."""

    api_version: Literal["podgate.dev/v1alpha1"]
    kind: Literal["PodPolicy", "PodPolicyOverride", "PodPolicyException", "AcceleratorPool"]
    metadata: Metadata
    spec: dict[str, Any]
