"""What one review offers to expressions, converted once and shared by all of them."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from cel_expr_python import cel

from webhook.expressions.environment import ENVIRONMENT, JSON_VARIABLES
from webhook.expressions.errors import EvaluationError
from webhook.expressions.functions import accelerator_count_function

# A loop that builds a list copies it at every step: 0.05 s at 2,000 items, 4 s and 1.6 GB at 12,000. No map
# or list that somebody writes into a pod comes near.
MAX_ITEMS: Final = 2000
# Maps and lists of one variable: CEL's own copy of each takes more than a KiB. A pod of a hundred containers with fifty
# variables each has six thousand.
MAX_CONTAINERS: Final = 10_000
# CEL converts recursively in C++ and takes the process down where the stack ends. The same bound as for
# the nesting of a file.
MAX_DEPTH: Final = 100
# CEL's int. A larger one would become a uint, which compares with nothing that is written plainly.
_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**63 - 1

_ENCODED_NUL: Final = rb"\u0000"
# Not the text `\u0000`, whose backslash JSON writes twice.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class Bindings:
    """The variables and functions of one review.

    Nothing is converted before an expression asks for it, and then once: a JSON variable that no expression
    names costs nothing, one that is named twice is converted once. The objects are read, never written; make
    new bindings after a change to them. One thread or greenlet at a time may use the bindings of a review.

    Args:
        object: The object under review; None where there is none (DELETE).
        old_object: The object as it was; None but on UPDATE and DELETE.
        request: The AdmissionRequest; the objects in it are left out. None for files.
        namespace_object: The namespace as an object; None where it is not known.
        workload: Values of the `workload.*` variables by their last name (`class`, `replicas` …). One that is
            left out is not known.
        accelerator_count: Effective devices asked for, by resource name or glob; 0 where there are none. What
            it raises becomes the error of the expression that calls it. It must only compute: it is called
            from inside of CEL, and a switch to another greenlet there (any I/O or lock under gevent) aborts
            the process.
    """

    __slots__ = ("_activation", "_bound", "_data", "_faults", "_functions", "_sources")

    def __init__(
        self,
        *,
        accelerator_count: Callable[[str], int],
        workload: Mapping[str, str | int],
        object: Mapping[str, Any] | None = None,  # noqa: A002 - the name that expressions use
        old_object: Mapping[str, Any] | None = None,
        request: Mapping[str, Any] | None = None,
        namespace_object: Mapping[str, Any] | None = None,
    ) -> None:
        values = (object, old_object, request, namespace_object)
        self._sources = dict(zip(JSON_VARIABLES, values, strict=True))
        self._data: dict[str, Any] = {f"workload.{name}": value for name, value in workload.items()}
        self._functions = [accelerator_count_function(accelerator_count)]
        self._faults: dict[str, str] = {}
        self._bound: frozenset[str] = frozenset()
        self._activation: cel.Activation | None = None

    def activation(self, names: frozenset[str]) -> cel.Activation:
        """CEL's form of the bindings, with at least the JSON variables named.

        Raises:
            EvaluationError: A variable is too large or too deep, or holds what is no JSON.
        """
        if self._activation is None or not names <= self._bound:
            for name in sorted(names - self._bound):
                self._bind(name)
            self._bound |= names
            # CEL reads the data here and keeps the converted values: a new variable needs a new activation.
            self._activation = ENVIRONMENT.Activation(self._data, functions=self._functions)
        return self._activation

    def _bind(self, name: str) -> None:
        value = self._sources[name]
        if value is None or name in self._data:
            return
        if name in self._faults:
            raise EvaluationError(self._faults[name])
        try:
            self._data[name] = _bindable_root(value, is_request=name == "request")
        except EvaluationError as error:
            self._faults[name] = f"{name} {error.reason}"
            raise EvaluationError(self._faults[name]) from None


def _bindable_root(value: Mapping[str, Any], *, is_request: bool) -> dict[str, Any]:
    shown = dict(value)
    if is_request:
        # As in ValidatingAdmissionPolicy: the objects have variables of their own.
        shown.pop("object", None)
        shown.pop("oldObject", None)
    elif isinstance(metadata := shown.get("metadata"), dict):
        # Half of a large object, and of no use to a condition.
        shown["metadata"] = {key: item for key, item in metadata.items() if key != "managedFields"}
    kept = _bindable_map(shown, 1)
    _check_whole(kept)
    return kept


def _bindable_map(value: dict[str, Any], depth: int) -> dict[str, Any]:
    _check_size(value, depth)
    kept = {}
    for key, item in value.items():
        # Most of an object is text: no call for it.
        if type(item) is str:
            kept[key] = item
        elif item is not None:
            kept[key] = _bindable(item, depth + 1)
    return kept


def _bindable_list(value: list[Any], depth: int) -> list[Any]:
    _check_size(value, depth)
    # A null stays: without it, the items behind it would have another index.
    return [_bindable(item, depth + 1) for item in value]


def _bindable(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        return _bindable_map(value, depth)
    if isinstance(value, list):
        return _bindable_list(value, depth)
    if value is not None and not isinstance(value, str):
        _check_number(value)
    return value


def _check_size(value: dict[str, Any] | list[Any], depth: int) -> None:
    if len(value) > MAX_ITEMS:
        kind = "list" if isinstance(value, list) else "map"
        raise EvaluationError(f"holds a {kind} of more than {MAX_ITEMS} items")
    if depth > MAX_DEPTH:
        raise EvaluationError(f"is nested deeper than {MAX_DEPTH} levels")


def _check_number(value: object) -> None:
    if isinstance(value, int):
        if not _MIN_INT <= value <= _MAX_INT:
            raise EvaluationError("holds a whole number of more than 64 bits")
    elif not isinstance(value, float):
        raise EvaluationError("holds a value that is not JSON")
    elif not math.isfinite(value):
        raise EvaluationError("holds a number that is not finite")


def _check_whole(value: dict[str, Any]) -> None:
    """Look at all of it at once, in its JSON."""
    # Encoding looks at every key and string faster than a loop does.
    try:
        encoded = orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise EvaluationError("holds a key that is not a string, or text that is not Unicode") from None
    # CEL reads a string up to its first NUL: "good\0bad" would pass for "good".
    # Those in strings are counted, too: only where there are too many of both are they counted one by one.
    if encoded.count(b"{") + encoded.count(b"[") > MAX_CONTAINERS and _containers_in(value) > MAX_CONTAINERS:
        raise EvaluationError(f"holds more than {MAX_CONTAINERS} maps and lists")
    if _ENCODED_NUL in encoded and _NUL.search(encoded):
        raise EvaluationError("holds a string with a NUL character")


def _containers_in(value: dict[str, Any] | list[Any]) -> int:
    items = value.values() if isinstance(value, dict) else value
    return 1 + sum(_containers_in(item) for item in items if isinstance(item, (dict, list)))
