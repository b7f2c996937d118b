"""The functions that expressions have besides those of CEL itself.

The methods on strings are those of CEL's strings extension (google/cel-go:ext/strings.go) as far as their
result is no longer than what they are given: `replace`, `join`, `format`, `quote` and `reverse` are left out,
so that no object can make an expression build more than it was handed. They are our own, since the
extension's cannot be taken one by one and know no limit: an evaluation keeps every string that it makes until
it ends, and a loop makes up to 10,000 of them.
"""

from collections.abc import Callable
from typing import Any

from cel_expr_python import cel

from webhook.kube.quantity import QuantityError, parse_quantity

# The longest string that a method takes apart: twice the longest path of Linux (4,096 bytes) and far above
# names, images and label values. 10,000 copies of it are 80 MB.
MAX_TEXT = 8192
# An image reference has four parts, a path a dozen. 10,000 times as many parts of 50 bytes are 128 MB.
MAX_PARTS = 256

# Unicode's White_Space property, which is what CEL's trim() takes off; str.strip() takes a few controls more.
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_WHITE_SPACE += "\u2028\u2029\u202f\u205f\u3000"
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in range(ord("A"), ord("Z") + 1)}

_Implementation = Callable[..., Any]


class FunctionError(ValueError):
    """An argument that a function cannot take; becomes an error value of the expression."""


def _char_at(text: str, index: int) -> str:
    _check_offset(text, index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    _check_offset(text, start)
    return text.find(part, start)


def _last_index_of(text: str, part: str) -> int:
    _check_length(text)
    return text.rfind(part)


def _last_index_of_before(text: str, part: str, last: int) -> int:
    _check_offset(text, last)
    return text.rfind(part, 0, last + len(part))


def _lower_ascii(text: str) -> str:
    _check_length(text)
    return text.translate(_LOWER)


def _upper_ascii(text: str) -> str:
    _check_length(text)
    return text.translate(_UPPER)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    _check_length(text)
    if limit in (0, 1):
        return [text] * limit
    # One more than allowed is enough to see that there are too many.
    splits = MAX_PARTS if limit < 0 else min(limit - 1, MAX_PARTS)
    parts = text.split(separator, splits) if separator else _characters(text, splits)
    if len(parts) > MAX_PARTS:
        raise FunctionError(f"split() makes more than {MAX_PARTS} parts")
    return parts


def _characters(text: str, splits: int) -> list[str]:
    rest = text[splits:]
    return [*text[:splits], rest] if rest else list(text)


def _substring(text: str, start: int, end: int | None = None) -> str:
    _check_offset(text, start)
    if end is None:
        return text[start:]
    _check_offset(text, end)
    if end < start:
        raise FunctionError("substring() ends before it starts")
    return text[start:end]


def _trim(text: str) -> str:
    _check_length(text)
    return text.strip(_WHITE_SPACE)


def _quantity(value: str | int | float) -> float:
    try:
        return float(parse_quantity(value))
    except (QuantityError, OverflowError):
        # Without the value: it may be anything, and reasons are logged.
        raise FunctionError("quantity() was given what is no quantity") from None


def _check_length(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise FunctionError(f"a string of more than {MAX_TEXT} characters is too long to be taken apart")


def _check_offset(text: str, offset: int) -> None:
    _check_length(text)
    if not 0 <= offset <= len(text):
        raise FunctionError(f"offset {offset} is outside of a string of {len(text)} characters")


def _method(
    name: str, result: cel.Type, *overloads: tuple[list[cel.Type], _Implementation]
) -> cel.FunctionDecl:
    return cel.FunctionDecl(
        name,
        [
            cel.Overload(f"{name}_{len(parameters)}", result, [cel.Type.STRING, *parameters], True, function)
            for parameters, function in overloads
        ],
    )


def _declarations() -> list[cel.FunctionDecl]:
    text, number, amount = cel.Type.STRING, cel.Type.INT, cel.Type.DOUBLE
    return [
        _method("charAt", text, ([number], _char_at)),
        _method("indexOf", number, ([text], _index_of), ([text, number], _index_of)),
        _method("lastIndexOf", number, ([text], _last_index_of), ([text, number], _last_index_of_before)),
        _method("lowerAscii", text, ([], _lower_ascii)),
        _method("split", cel.Type.List(text), ([text], _split), ([text, number], _split)),
        _method("substring", text, ([number], _substring), ([number, number], _substring)),
        _method("trim", text, ([], _trim)),
        _method("upperAscii", text, ([], _upper_ascii)),
        # One overload a type: a parameter declared as dyn is matched by no argument at all.
        cel.FunctionDecl(
            "quantity",
            [
                cel.Overload("quantity_string", amount, [text], False, _quantity),
                cel.Overload("quantity_int", amount, [number], False, _quantity),
                cel.Overload("quantity_double", amount, [amount], False, _quantity),
            ],
        ),
        # Declared here, bound for each review: `accelerator_count_function`.
        cel.FunctionDecl("acceleratorCount", [cel.Overload("acceleratorCount_string", number, [text])]),
    ]


def podgate_extension() -> cel.CelExtension:
    """The declarations for `cel.NewEnv`."""
    return cel.CelExtension("podgate", _declarations())


def accelerator_count_function(count: Callable[[str], int]) -> cel.Function:
    """The implementation of `acceleratorCount` for one review."""
    return cel.Function("acceleratorCount", [cel.Type.STRING], False, count, cel.Type.INT)
