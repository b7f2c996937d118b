"""What a kind says of the templates at one path, made ready to be asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from webhook.documents import Path
from webhook.kube.templates.document import PLACEHOLDER, Added, Conditional, Kind, Pods, Variable
from webhook.kube.templates.references import (
    Condition,
    Factor,
    Reference,
    compile_condition,
    compile_factor,
    compile_reference,
    plain_path,
)

TextParts = tuple[str, ...]
"""Plain text and names of placeholders in turn."""


class CompiledVariable(NamedTuple):
    """An environment variable that the controller adds to the containers."""

    name: TextParts
    value: TextParts
    config_map: TextParts
    field: str
    for_each: Reference | None
    in_init_containers: bool


class Addition(NamedTuple):
    """What the controller adds to the pods where all conditions hold."""

    when: tuple[Condition, ...]
    labels: tuple[tuple[str, TextParts], ...]
    annotations: tuple[tuple[str, TextParts], ...]
    env: tuple[CompiledVariable, ...]


class Filled(NamedTuple):
    """A field of the pod spec that the controller fills in where the template leaves it out."""

    name: str
    source: Path
    value: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Place:
    """What a kind says of the templates at one path.

    Attributes:
        owner: API version and kind of the immediate controller; None for the object itself, an empty kind for none.
        user: The user that creates the pods; empty where installations differ.
        sets: The labels and annotations that the controller sets, as the tail of their paths.
    """

    template: Reference
    spec: Path
    metadata: Path | None
    containers: tuple[tuple[Path, str], ...]
    role: str
    role_path: Path | None
    replicas: tuple[Factor, ...]
    when: tuple[Condition, ...]
    additions: tuple[Addition, ...]
    defaults: tuple[Filled, ...]
    copies: tuple[str, ...]
    values: Mapping[str, tuple[Factor, ...]]
    owner: tuple[str, str] | None
    user: str
    sets: frozenset[Path]


def compile_place(kind: Kind, pods: Pods) -> Place:
    """What `kind` says of the templates at one of its paths, `pods`: what holds for all of them and what for these alone."""
    every: tuple[Added, ...] = (kind, pods, *kind.also, *pods.also)
    owner = pods.owner or kind.owner
    return Place(
        template=compile_reference(pods.template),
        spec=plain_path(pods.spec),
        metadata=None if pods.metadata == "none" else plain_path(pods.metadata),
        containers=tuple((plain_path(path), name) for path, name in pods.containers.items()),
        role=pods.role,
        role_path=plain_path(pods.role) if pods.role.startswith(".") else None,
        replicas=tuple(map(compile_factor, pods.replicas)),
        when=tuple(map(compile_condition, pods.when)),
        additions=tuple(map(_compile_addition, every)),
        defaults=tuple(
            Filled(name, plain_path(each.source), each.value) for name, each in kind.defaults.items()
        ),
        copies=tuple(kind.copies),
        values={name: tuple(map(compile_factor, factors)) for name, factors in kind.values.items()},
        owner=(owner.api_version, owner.kind) if owner else None,
        user=pods.user or kind.user,
        sets=frozenset(
            (part, key)
            for each in every
            for part, keys in (("labels", each.labels), ("annotations", each.annotations))
            for key in keys
        ),
    )


def _compile_addition(added: Added) -> Addition:
    when = added.when if isinstance(added, Conditional) else ()
    return Addition(
        tuple(map(compile_condition, when)),
        tuple((key, _compile_text(value)) for key, value in added.labels.items()),
        tuple((key, _compile_text(value)) for key, value in added.annotations.items()),
        tuple(map(_compile_variable, added.env)),
    )


def _compile_variable(variable: Variable) -> CompiledVariable:
    return CompiledVariable(
        _compile_text(variable.name),
        _compile_text(variable.value),
        _compile_text(variable.config_map),
        variable.field,
        compile_reference(variable.for_each) if variable.for_each else None,
        variable.init_containers,
    )


def _compile_text(text: str) -> TextParts:
    return tuple(PLACEHOLDER.split(text))
