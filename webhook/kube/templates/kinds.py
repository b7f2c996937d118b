"""The kinds that make pods: those that podgate brings along, and those of a site."""

import copy
import importlib.resources
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml
from pydantic import ValidationError

from webhook.kube.templates.document import Kind, KindsDocument, TemplateKindsError, template_problems
from webhook.kube.templates.places import Place, compile_place
from webhook.kube.templates.references import Reference, compile_reference


@dataclass(frozen=True, slots=True)
class TemplateKind:
    """A kind whose objects make pods.

    Attributes:
        group: The API group; its versions are alike, or differ in what `places` says.
        kind: The kind.
        resource: The resource as kubectl writes it, ``jobs.batch``.
        places: Where the templates stand.
        claims: Where the templates of persistent volume claims stand.
        elsewhere: Where the pods of an object without a template come from, for a sentence; empty where nowhere.
        source: The entry of the document that says so.
    """

    group: str
    kind: str
    resource: str
    places: tuple[Place, ...] = field(repr=False)
    claims: tuple[Reference, ...] = field(repr=False)
    elsewhere: str
    source: Mapping[str, Any] = field(repr=False, compare=False)


class TemplateKinds:
    """All kinds that are known to make pods. Immutable.

    Build them with `from_value`; `merged` lays further ones on top.
    """

    def __init__(self, kinds: Iterable[TemplateKind]) -> None:
        self._kinds = {(kind.group, kind.kind): kind for kind in kinds}

    @classmethod
    def from_value(cls, value: object) -> "TemplateKinds":
        """The kinds that a document describes.

        Raises:
            TemplateKindsError: The document is not of the shape that templates.yaml explains; all faults are
                listed.
        """
        try:
            document = KindsDocument.model_validate(value)
        except ValidationError as error:
            raise TemplateKindsError(template_problems(error, value)) from None
        sources = value["kinds"] if isinstance(value, dict) else ()
        return cls(_compile_kind(kind, source) for kind, source in zip(document.kinds, sources, strict=True))

    def merged(self, *extras: "TemplateKinds") -> "TemplateKinds":
        """These kinds with others on top: what the last one says of a kind holds."""
        return TemplateKinds(kind for kinds in (self, *extras) for kind in kinds.kinds)

    def canonical(self) -> dict[str, Any]:
        """All that is known, as a JSON value: equal values mean equal answers."""
        return {"kinds": [copy.deepcopy(self._kinds[key].source) for key in sorted(self._kinds)]}

    @property
    def kinds(self) -> tuple[TemplateKind, ...]:
        """Every kind, in the order in which they were first named."""
        return tuple(self._kinds.values())

    def kind_of(self, group: str, kind: str) -> TemplateKind | None:
        """What is known of `kind` in the API group `group` ("" for the core), None where nothing is."""
        return self._kinds.get((group, kind))


@cache
def shipped_templates() -> TemplateKinds:
    """The kinds that podgate brings along, read once."""
    text = importlib.resources.files(__package__).joinpath("templates.yaml").read_bytes()
    return TemplateKinds.from_value(yaml.load(text, yaml.CSafeLoader))


def _compile_kind(kind: Kind, source: Mapping[str, Any]) -> TemplateKind:
    places = tuple(compile_place(kind, pods) for pods in kind.pods)
    claims = tuple(map(compile_reference, kind.claims))
    return TemplateKind(
        kind.group, kind.kind, kind.resource, places, claims, kind.elsewhere, copy.deepcopy(source)
    )
