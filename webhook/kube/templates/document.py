"""The shape of templates.yaml, and what is wrong with a document of another shape."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, ValidationError, model_validator

from webhook.documents import Document, Path
from webhook.documents.schema import Schema, problems_of
from webhook.kube.templates.references import (
    compile_condition,
    compile_factor,
    compile_reference,
    plain_path,
)

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_BUILT_IN = frozenset({"name", "namespace", "role", "replica-type", "index", "replicas", "each"})


class TemplateProblem(NamedTuple):
    """One fault of a document of kinds: where in it, and what was expected and found."""

    path: Path
    text: str

    def __str__(self) -> str:
        return self.text


class TemplateKindsError(ValueError):
    """A document of kinds that cannot be used, with all of its faults."""

    def __init__(self, problems: Iterable[TemplateProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def _path_text(text: str) -> str:
    compile_reference(text)
    return text


def _plain_path_text(text: str) -> str:
    plain_path(text)
    return text


def _role_text(text: str) -> str:
    return _plain_path_text(text) if text.startswith(".") else text


def _factor_text(text: str) -> str:
    compile_factor(text)
    return text


def _condition_text(text: str) -> str:
    compile_condition(text)
    return text


_PathText = Annotated[str, AfterValidator(_path_text)]
_PlainPathText = Annotated[str, AfterValidator(_plain_path_text)]
_RoleText = Annotated[str, AfterValidator(_role_text)]
_FactorText = Annotated[str, AfterValidator(_factor_text)]
_ConditionText = Annotated[str, AfterValidator(_condition_text)]


class Variable(Schema):
    """An environment variable that the controller adds to the containers."""

    name: str
    value: str = ""
    config_map: str = ""
    field: str = ""
    for_each: _PathText | None = None
    init_containers: bool = False


class Added(Schema):
    """What the controller adds to the pods."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    env: list[Variable] = []


class Conditional(Added):
    """What the controller adds where all conditions hold."""

    when: list[_ConditionText]


class _Owner(Schema):
    api_version: str
    kind: str


class _Default(Schema):
    source: _PlainPathText = Field(alias="from")
    value: str = ""


class _Shared(Added):
    also: list[Conditional] = []
    owner: _Owner | None = None
    user: str = ""


class Pods(_Shared):
    """The templates at one path."""

    template: _PathText
    spec: _PlainPathText = "spec"
    metadata: _PlainPathText = "metadata"
    containers: dict[_PlainPathText, str] = {}
    role: _RoleText = ""
    replicas: list[_FactorText] = []
    when: list[_ConditionText] = []


class Kind(_Shared):
    """A kind whose objects make pods."""

    group: str
    kind: str
    resource: str
    values: dict[str, list[_FactorText]] = {}
    copies: list[Literal["labels", "annotations"]] = []
    defaults: dict[str, _Default] = {}
    pods: list[Pods] = []
    claims: list[_PathText] = []
    elsewhere: str = ""

    @model_validator(mode="after")
    def _is_whole(self) -> "Kind":
        if not self.pods and not self.elsewhere:
            raise ValueError("needs pods, or says elsewhere where its pods come from")
        known = _BUILT_IN | self.values.keys()
        unknown = next(
            (name for text in _texts(self) for name in PLACEHOLDER.findall(text) if name not in known), None
        )
        if unknown is not None:
            raise ValueError(f"unknown placeholder {{{unknown}}}, expected one of {', '.join(sorted(known))}")
        return self


class KindsDocument(Schema):
    """The whole document."""

    kinds: list[Kind]

    @model_validator(mode="after")
    def _names_each_once(self) -> "KindsDocument":
        seen: set[tuple[str, str]] = set()
        for each in self.kinds:
            if (each.group, each.kind) in seen:
                raise ValueError(f"{each.kind} of group {each.group or 'core'} is described twice")
            seen.add((each.group, each.kind))
        return self


def _texts(kind: Kind) -> Iterator[str]:
    shared: tuple[_Shared, ...] = (kind, *kind.pods)
    for added in (*shared, *(also for each in shared for also in each.also)):
        yield from added.labels.values()
        yield from added.annotations.values()
        for variable in added.env:
            yield from (variable.name, variable.value, variable.config_map)


def template_problems(error: ValidationError, value: object) -> Iterator[TemplateProblem]:
    """The faults that validation found (`error`) in a document (`value`), each with its place."""
    found = problems_of(error, Document("", 0, value), (), KindsDocument)
    for details, problem in zip(error.errors(include_url=False), found, strict=True):
        hint = f" ({problem.hint})" if problem.hint else ""
        yield TemplateProblem(tuple(details["loc"]), problem.message + hint)
