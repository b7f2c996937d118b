"""Label selectors, as Kubernetes reads them."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from webhook.documents import Path

LabelPredicate = Callable[[Mapping[str, str] | None], bool]

# kubernetes/apimachinery:pkg/util/validation: the lengths of a name, a label value and a DNS subdomain.
_MAX_NAME = 63
_MAX_PREFIX = 253
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
# What an error shows of a value.
_MAX_SHOWN = 40


class SelectorError(ValueError):
    """A label selector that cannot be used.

    Attributes:
        path: Where in the selector the fault is.
        expected: What should stand there.
        found: What does.
    """

    def __init__(self, path: Path, expected: str, found: str) -> None:
        self.path = path
        self.expected = expected
        self.found = found
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(
            "."
        )
        super().__init__(
            f"{where}: expected {expected}, found {found}" if where else f"expected {expected}, found {found}"
        )


class _Requirement(NamedTuple):
    """A label must (or must not) be there, with one of the values where any are named."""

    key: str
    values: frozenset[str] | None
    wanted: bool


def compile_label_selector(value: object) -> LabelPredicate:
    """A predicate for a selector of ``matchLabels`` and ``matchExpressions``; an empty one matches everything.

    All requirements must hold. ``NotIn`` and ``DoesNotExist`` hold where the label is absent
    (kubernetes/apimachinery:pkg/labels/selector.go, Matches). No labels, null, and a value that is no text are
    absent labels.

    Args:
        value: The selector as read from YAML or JSON.

    Raises:
        SelectorError: The selector is malformed; null is, since it could mean everything or nothing.
    """
    selector = _map((), value, ("matchLabels", "matchExpressions"))
    requirements = (
        *_read_labels(("matchLabels",), selector.get("matchLabels")),
        *_read_expressions(("matchExpressions",), selector.get("matchExpressions")),
    )

    def matches(labels: Mapping[str, str] | None) -> bool:
        found = labels or {}
        for requirement in requirements:  # noqa: SIM110 - a generator costs more than what it asks
            if not _holds(requirement, found):
                return False
        return True

    return matches


def _holds(requirement: _Requirement, labels: Mapping[str, Any]) -> bool:
    value = labels.get(requirement.key)
    hit = isinstance(value, str) and (requirement.values is None or value in requirement.values)
    return hit is requirement.wanted


def _read_labels(path: Path, value: object) -> Iterator[_Requirement]:
    if value is None:
        return
    for key, wanted in _map(path, value).items():
        place = (*path, str(key))
        yield _Requirement(_key(place, key), frozenset({_value(place, wanted)}), wanted=True)


def _read_expressions(path: Path, value: object) -> Iterator[_Requirement]:
    for index, item in enumerate(_list(path, value)):
        yield _read_expression((*path, index), item)


def _read_expression(path: Path, value: object) -> _Requirement:
    expression = _map(path, value, ("key", "operator", "values"))
    key = _key((*path, "key"), expression.get("key"))
    operator = expression.get("operator")
    if not isinstance(operator, str) or operator not in _OPERATORS:
        raise SelectorError((*path, "operator"), f"one of {', '.join(_OPERATORS)}", _shown(operator))
    values_path = (*path, "values")
    items = _list(values_path, expression.get("values"))
    values = frozenset(_value((*values_path, index), item) for index, item in enumerate(items))
    if operator in {"Exists", "DoesNotExist"}:
        if values:
            raise SelectorError(values_path, f"no values with {operator}", _shown(items))
        return _Requirement(key, None, wanted=operator == "Exists")
    if not values:
        raise SelectorError(
            values_path, f"at least one value with {operator}", _shown(expression.get("values"))
        )
    return _Requirement(key, values, wanted=operator == "In")


def _map(path: Path, value: object, keys: tuple[str, ...] = ()) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SelectorError(path, "a map", _shown(value))
    for key in value:
        if keys and key not in keys:
            raise SelectorError(
                (*path, str(key)), f"one of {', '.join(keys)}", f"the unknown key {_shown(key)}"
            )
    return value


def _list(path: Path, value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise SelectorError(path, "a list", _shown(value))
    return value


def _key(path: Path, value: object) -> str:
    if isinstance(value, str):
        prefix, slash, name = value.rpartition("/")
        if _fits(name, _NAME, _MAX_NAME) and (not slash or _fits(prefix, _PREFIX, _MAX_PREFIX)):
            return value
    raise SelectorError(path, "a label key such as app or kubesphere.io/workspace", _shown(value))


def _value(path: Path, value: object) -> str:
    if isinstance(value, str):
        if not value or _fits(value, _NAME, _MAX_NAME):
            return value
        expected = f"a label value of at most {_MAX_NAME} letters, digits, - _ and ."
        raise SelectorError(path, expected, _shown(value))
    raise SelectorError(path, 'a text (in quotes, as "true" or "1")', _shown(value))


def _fits(text: str, pattern: re.Pattern[str], longest: int) -> bool:
    return len(text) <= longest and pattern.fullmatch(text) is not None


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return ascii(value[:_MAX_SHOWN]) if isinstance(value, str) else str(value).lower()[:_MAX_SHOWN]
