"""The paths, factors and conditions that a document of kinds is written in, and what they yield for an object."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from webhook.documents import Path
from webhook.kube.field_path import value_at
from webhook.kube.templates.limits import MAX_DIGITS, MAX_REPLICAS, MAX_TEMPLATES

_STEP = re.compile(
    r'(?:^|\.)(?P<key>[A-Za-z0-9_-]+)|(?:^|\.)(?P<each>\*)|\[(?P<item>\*)\]|\["(?P<quoted>[^"\]]+)"\]'
)
_NO_PATH = "expected a path such as spec.template or spec.tasks[*].template"
_FACTOR = re.compile(r"- (?P<less>\d{1,9})|(?P<over>/ )?(?P<path>\S+)")
_CONDITION = re.compile(r"(?P<negated>not )?(?P<path>\S+)(?: (?P<operator>=|>) (?P<value>\S+))?")


class Wildcard(NamedTuple):
    """A step to every value of a map or every item of a list."""

    of: type


_WILDCARDS = {"each": Wildcard(dict), "item": Wildcard(list)}


class Reference(NamedTuple):
    """A path from the object, or from the entry of a template.

    Attributes:
        from_entry: Whether it goes from the entry.
        head: The steps up to the last wildcard; none where there is no wildcard.
        tail: The plain steps behind them.
    """

    from_entry: bool
    head: tuple[str | Wildcard, ...]
    tail: tuple[str, ...]

    def walk(self, root: Any) -> Iterator[tuple[Path, Any]]:
        """Every value but null that it leads to, with its path."""
        return walk(root, (*self.head, *self.tail), ())


class Factor(NamedTuple):
    """One step of a calculation, from left to right: times or over a number of the object, or less a fixed one.

    Attributes:
        less: the fixed number, which counts where there is no reference.
    """

    reference: Reference | None
    divides: bool
    less: int


class Condition(NamedTuple):
    """A comparison of one value of the object, or of the entry of a template, that can be negated."""

    reference: Reference
    operator: str
    value: str
    negated: bool


def compile_reference(text: str) -> Reference:
    """A path as the document writes it, ``spec.tasks[*].template``; one that starts with a dot goes from the entry.

    Raises:
        ValueError: It is not such a path.
    """
    from_entry = text.startswith(".")
    rest = text.removeprefix(".")
    if not text:
        raise ValueError(_NO_PATH)
    steps: list[str | Wildcard] = []
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None:
            raise ValueError(_NO_PATH)
        kind = match.lastgroup or ""
        steps.append(_WILDCARDS.get(kind) or match[kind])
        position = match.end()
    cut = max((at + 1 for at, step in enumerate(steps) if isinstance(step, Wildcard)), default=0)
    return Reference(
        from_entry, tuple(steps[:cut]), tuple(step for step in steps[cut:] if isinstance(step, str))
    )


def compile_factor(text: str) -> Factor:
    """A step of a calculation as the document writes it.

    Raises:
        ValueError: It is none of the three forms.
    """
    match = _FACTOR.fullmatch(text)
    if match is None:
        raise ValueError("expected `path`, `/ path` or `- number`")
    reference = compile_reference(match["path"]) if match["path"] else None
    return Factor(reference, match["over"] is not None, int(match["less"] or 0))


def compile_condition(text: str) -> Condition:
    """A condition as the document writes it.

    Raises:
        ValueError: It is none of the three forms, or has a wildcard in another than `path > number`.
    """
    match = _CONDITION.fullmatch(text)
    if match is None or (match["operator"] == ">" and not _is_number(match["value"])):
        raise ValueError("expected `path`, `path = text` or `path > number`, with `not` in front or without")
    reference = (compile_reference if match["operator"] == ">" else _without_wildcard)(match["path"])
    return Condition(reference, match["operator"] or "", match["value"] or "", match["negated"] is not None)


def plain_path(text: str) -> Path:
    """The steps of a path without a wildcard.

    Raises:
        ValueError: It is not a path, or has a wildcard.
    """
    return _without_wildcard(text).tail


def _without_wildcard(text: str) -> Reference:
    reference = compile_reference(text)
    if reference.head:
        raise ValueError("expected a path without a wildcard")
    return reference


def walk(value: Any, steps: tuple[str | Wildcard, ...], path: Path) -> Iterator[tuple[Path, Any]]:
    """Every value but null that the steps lead to, with its path.

    Args:
        value: where the steps begin.
        steps: map keys, and wildcards for every key of a map or every item of a list.
        path: of `value` itself, from the root of the object.
    """
    for at, step in enumerate(steps):
        if isinstance(step, Wildcard):
            for key, child in _children(value, step):
                yield from walk(child, steps[at + 1 :], (*path, key))
            return
        value = value.get(step) if isinstance(value, dict) else None
        path = (*path, step)
    if value is not None:
        yield path, value


def _children(value: Any, wildcard: Wildcard) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict) and wildcard.of is dict:
        return value.items()
    return enumerate(value) if isinstance(value, list) and wildcard.of is list else ()


def is_met(condition: Condition, obj: Any, entry: Any) -> bool:
    """Whether a condition is met by an object and the entry of one of its templates.

    Args:
        condition: which field must, or must not, have which value.
        obj: what it is about, unless it is about the entry.
        entry: the item of a list that holds the template; the object itself where there is no list.
    """
    reference = condition.reference
    root = entry if reference.from_entry else obj
    value = None if reference.head else value_at(root, reference.tail)
    if condition.operator == "=":
        holds = value == condition.value
    elif condition.operator == ">":
        holds = (_sum(reference, root) if reference.head else _number(value) or 0) > int(condition.value)
    else:
        holds = value is not None
    return bool(holds) != condition.negated


def product(factors: tuple[Factor, ...], obj: Any, entry: Any) -> int:
    """What the factors make of 1, from left to right; at most `MAX_REPLICAS`. A number that is absent counts as 1.

    Args:
        factors: numbers, and fields that hold some.
        obj: where fields of the object are looked up.
        entry: where fields of the template's own entry are.
    """
    total = 1
    for factor in factors:
        if factor.reference is None:
            total = max(total - factor.less, 0)
            continue
        number = _sum(factor.reference, entry if factor.reference.from_entry else obj)
        # A group is never smaller than one pod, however its parts divide.
        total = max(total // max(number, 1), min(total, 1)) if factor.divides else total * number
        total = min(total, MAX_REPLICAS)
    return total


def _sum(reference: Reference, root: Any) -> int:
    counted = islice(walk(root, reference.head, ()), MAX_TEMPLATES)
    numbers = (_number(value_at(value, reference.tail)) for _, value in counted)
    return sum(1 if number is None else number for number in numbers)


def _number(value: object) -> int | None:
    if isinstance(value, str):
        value = int(value) if _is_number(value) else None
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return min(max(value, 0), MAX_REPLICAS)


def _is_number(text: str) -> bool:
    return len(text) <= MAX_DIGITS and text.isascii() and text.isdigit()


def text_or_empty(value: object) -> str:
    """A text as it is, anything else as empty."""
    return value if isinstance(value, str) else ""
