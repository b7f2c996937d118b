"""Node selectors, required node affinity and tolerations: what they say, imply and contradict.

Terms are ORed, the requirements of one are ANDed, a node selector is ANDed with them, and "a null or empty node selector term
matches no objects" (kubernetes/api:core/v1/types.go, NodeSelectorTerm).
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

from webhook.documents import Path
from webhook.kube.field_path import list_at, mapping_at

REQUIRED: Path = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
TERMS: Path = (*REQUIRED, "nodeSelectorTerms")

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

_INTEGER = re.compile(r"[+-]?0*[0-9]{1,19}\Z")
_INT64 = range(-(2**63), 2**63)
"""What Go's strconv.ParseInt reads in base 10, with 64 bits."""


MOST_COMBINATIONS = 64
"""Combinations of label values that one alternative is tried with: more than a cluster has pools. With more, an alternative
names values that no pool has, and then it does not pin the pod to them."""


class Requirement(NamedTuple):
    """One requirement on a node label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As it stands in `matchExpressions`."""
        body: dict[str, Any] = {"key": self.key, "operator": self.operator}
        if self.values:
            body["values"] = list(self.values)
        return body

    @property
    def shown(self) -> str:
        """As a message shows it: `nvidia.com/gpu.present In [true]`."""
        return (
            f"{self.key} {self.operator} [{', '.join(self.values)}]"
            if self.values
            else f"{self.key} {self.operator}"
        )

    def admits(self, value: str | None) -> bool:
        """Whether a node whose label has this value (None: no such label) meets the requirement.

        Source: kubernetes/apimachinery:pkg/labels/selector.go, Requirement.Matches.
        """
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return _compares(value, self.operator, self.values)
        return False

    def implies(self, other: "Requirement") -> bool:
        """Whether every node that meets this requirement meets `other` (False where that is not plain)."""
        if self.key != other.key:
            return False
        if self.operator == "In" and self.values:
            return all(other.admits(value) for value in self.values)
        if other.operator == "Exists":
            return self.operator in ("Exists", "Gt", "Lt")
        if other.operator == "NotIn":
            return self.operator == "DoesNotExist" or (
                self.operator == "NotIn" and set(self.values) >= set(other.values)
            )
        return self == other

    def excludes(self, other: "Requirement") -> bool:
        """Whether no node can meet both (False where that is not plain)."""
        if self.key != other.key:
            return False
        if self.operator == "In":
            return not any(other.admits(value) for value in self.values)
        if other.operator == "In":
            return not any(self.admits(value) for value in other.values)
        wants_none = "DoesNotExist"
        wants_some = ("Exists", "Gt", "Lt")
        return (self.operator == wants_none and other.operator in wants_some) or (
            other.operator == wants_none and self.operator in wants_some
        )


class Term(NamedTuple):
    """A node selector term: where it stands and what it requires of labels; `fields` tells of matchFields."""

    path: Path
    requirements: tuple[Requirement, ...]
    fields: bool

    @property
    def is_empty(self) -> bool:
        """Whether it matches no node at all."""
        return not self.requirements and not self.fields


def requirements_of(expressions: Any) -> tuple[Requirement, ...]:
    """A `matchExpressions` list; what is no requirement is left out."""
    if not isinstance(expressions, list):
        return ()
    return tuple([found for e in expressions if (found := _requirement(e)) is not None])


def _requirement(expression: Any) -> Requirement | None:
    if not (type(expression) is dict or isinstance(expression, Mapping)):
        return None
    key, operator, values = expression.get("key"), expression.get("operator"), expression.get("values")
    if not (isinstance(key, str) and isinstance(operator, str)):
        return None
    texts = [value for value in values if isinstance(value, str)] if isinstance(values, list) else ()
    return Requirement(key, operator, tuple(texts))


def required_terms(pod: Mapping[str, Any]) -> tuple[Term, ...] | None:
    """The terms of a pod's required node affinity; None where it has no such affinity."""
    required = mapping_at(pod, REQUIRED)
    if not required:
        return None
    return tuple(
        [
            Term(
                (*TERMS, index), requirements_of(term.get("matchExpressions")), bool(term.get("matchFields"))
            )
            for index, term in enumerate(list_at(required, TERMS[-1:]))
            if type(term) is dict or isinstance(term, Mapping)
        ]
    )


def selector_requirements(pod: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """A pod's `nodeSelector` as requirements."""
    selector = mapping_at(pod, ("spec", "nodeSelector"))
    return tuple(
        [Requirement(key, "In", (value,)) for key, value in selector.items() if isinstance(value, str)]
    )


class Placement(NamedTuple):
    """Where a pod may go: its `selector_requirements` and its `required_terms`."""

    selector: tuple[Requirement, ...]
    terms: tuple[Term, ...] | None

    def alternatives(self) -> Iterable[tuple[Requirement, ...]]:
        """The ways in which a node can suit: each is the node selector ANDed with one non-empty term."""
        if self.terms is None:
            return (self.selector,)
        # one by one: the first often says enough
        return ((*self.selector, *term.requirements) for term in self.terms if not term.is_empty)


def placement_of(pod: Mapping[str, Any]) -> Placement:
    """Where a pod may go."""
    return Placement(selector_requirements(pod), required_terms(pod))


def could_be(placement: Placement, labels: Mapping[str, str]) -> bool:
    """Whether a node with these `labels`, and others that are not known, could suit the `placement` of a pod."""
    for alternative in placement.alternatives():
        if not [own for own in alternative if own.key in labels and not own.admits(labels[own.key])]:
            return True
    return False


def suits(placement: Placement, labels: Mapping[str, str]) -> bool:
    """Whether a node with exactly these `labels` suits the `placement` of a pod."""
    return any(
        all(requirement.admits(labels.get(requirement.key)) for requirement in alternative)
        for alternative in placement.alternatives()
    )


def pinning(
    alternative: tuple[Requirement, ...], choices: Sequence[Mapping[str, str]]
) -> tuple[Requirement, ...] | None:
    """What in an alternative leaves only nodes that have all labels of one of the choices; None where nothing does.

    Args:
        alternative: one of `Placement.alternatives`.
        choices: sets of labels, such as those of pools.
    """
    keys = {key for labels in choices for key in labels}
    found = tuple(own for own in alternative if own.operator == "In" and own.key in keys)
    pinned = {
        own.key: [value for value in own.values if _all_admit(alternative, own.key, value)] for own in found
    }
    if not 0 < math.prod(map(len, pinned.values())) <= MOST_COMBINATIONS:
        return None
    for values in product(*pinned.values()):
        labels = dict(zip(pinned, values, strict=True))
        if not any(choice.items() <= labels.items() for choice in choices):
            return None
    return found


def _all_admit(alternative: tuple[Requirement, ...], key: str, value: str) -> bool:
    return all(own.admits(value) for own in alternative if own.key == key)


def contradiction(
    placement: Placement, wanted: Iterable[Requirement]
) -> tuple[Requirement, Requirement] | None:
    """A pair (of the pod, wanted) that no node can meet, where every alternative of the pod has one; else None.

    Args:
        placement: the pod's own selector and required affinity.
        wanted: what is to hold besides.
    """
    wanted = tuple(wanted)
    found: tuple[Requirement, Requirement] | None = None
    for alternative in placement.alternatives():
        pair = _excluding(alternative, wanted)
        if pair is None:
            return None
        found = found or pair
    return found


def _excluding(
    alternative: tuple[Requirement, ...], wanted: tuple[Requirement, ...]
) -> tuple[Requirement, Requirement] | None:
    for own in alternative:
        for other in wanted:
            if own.key == other.key and own.excludes(other):
                return own, other
    return None


def normalise_toleration(toleration: Any) -> tuple[Any, ...]:
    """A toleration's meaning: without an operator it is `Equal` (kubernetes/api:core/v1/types.go, Toleration)."""
    if not (type(toleration) is dict or isinstance(toleration, Mapping)):
        return ()
    return (
        toleration.get("key") or "",
        toleration.get("operator") or "Equal",
        toleration.get("value") or "",
        toleration.get("effect") or "",
        toleration.get("tolerationSeconds"),
    )


def tolerates(toleration: Any, taint: Mapping[str, Any]) -> bool:
    """Whether `toleration` answers `taint` (kubernetes/api:core/v1/toleration.go, ToleratesTaint); wrong types answer none."""
    key, operator, value, effect, _ = normalise_toleration(toleration) or ("", "", None, "-", None)
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    if operator == "Exists":
        return True
    return operator == "Equal" and bool(key) and value == (taint.get("value") or "")


def _compares(value: str | None, operator: str, bounds: tuple[str, ...]) -> bool:
    """Integers only, as the scheduler reads them; anything else meets nothing."""
    left = _integer(value)
    right = _integer(bounds[0]) if len(bounds) == 1 else None
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def _integer(text: str | None) -> int | None:
    if text is None or not _INTEGER.match(text):
        return None
    digits = text.lstrip("+-").lstrip("0") or "0"  # a long run of zeros is more than int() takes
    number = -int(digits) if text.startswith("-") else int(digits)
    return number if number in _INT64 else None
