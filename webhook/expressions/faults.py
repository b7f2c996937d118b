"""CEL's compile errors in our words: what is wrong, where, and what to write instead."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from webhook.expressions.environment import JSON_VARIABLES, WORKLOAD_VARIABLES
from webhook.expressions.errors import ExpressionError
from webhook.expressions.operators import written

_LOCATED = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_RESERVED = re.compile(r"reserved identifier: (\S+)")
_OVERLOAD = re.compile(r"found no matching overload for '([^']*)' applied to '(.*)'$")
# The list of all tokens that could have come instead says nothing to a reader.
_EXPECTING = re.compile(r" expecting (\{.*\}|\S+)$")
_SYNTAX_WORDS = (
    ("mismatched input '<EOF>'", "unexpected end of the expression"),
    ("at '<EOF>'", "at the end of the expression"),
    ("mismatched input", "unexpected"),
    ("extraneous input", "unexpected"),
    ("token recognition error at:", "unexpected"),
)
_TOO_DEEP = "nested too deeply: CEL allows 32 levels"

_UNBOUNDED = frozenset({"replace", "join", "format", "quote", "reverse"})
_FUNCTIONS = (
    *("acceleratorCount", "quantity", "charAt", "indexOf", "lastIndexOf", "lowerAscii", "split", "substring"),
    *("trim", "upperAscii", "contains", "startsWith", "endsWith", "matches", "size", "has", "all", "exists"),
    *("exists_one", "map", "filter", "int", "uint", "double", "string", "bool", "type", "duration"),
    *("timestamp", "orValue", "hasValue", "optMap", "optFlatMap"),
)
_NUMBERS = frozenset({"int", "uint", "double"})
_NUMBER_OPERATORS = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_+_", "_-_", "_*_", "_/_"})


def error_at(text: str, offset: int, message: str, hint: str = "") -> ExpressionError:
    """An error with `message` and `hint`, and line and column, both from 1, of an `offset` in the characters of `text`."""
    before = text[:offset]
    return ExpressionError(message, before.count("\n") + 1, offset - before.rfind("\n"), hint)


def compile_error(text: str, raised: str) -> ExpressionError:
    """The first error in the text of the exception that CEL's compiler raises.

    Args:
        text: The expression.
        raised: The text of the exception: lines `ERROR: <input>:LINE:COLUMN: what`, columns from 1 in
            characters; or a text without a place where the expression is too deep to be read.
    """
    found = _LOCATED.search(raised)
    if found is None or "recursion" in found[3]:
        return ExpressionError(_TOO_DEEP if "recursion" in raised else _first_line(raised))
    offset = _offset(text, int(found[1]), int(found[2]))
    return _describe(text, offset, found[3].removesuffix(" [INVALID_ARGUMENT]"))


def _describe(text: str, offset: int, what: str) -> ExpressionError:
    if undeclared := _UNDECLARED.match(what):
        return _undeclared(text, offset, undeclared[1])
    if reserved := _RESERVED.match(what):
        return _reserved(text, offset, reserved[1])
    if overload := _OVERLOAD.match(what):
        return _no_overload(text, offset, overload[1], overload[2])
    return error_at(text, offset, _syntax(what))


def _undeclared(text: str, offset: int, name: str) -> ExpressionError:
    if text[offset : offset + 1] == "(":
        return _unknown_function(text, offset, name)
    # CEL points to the last dot of a dotted name.
    offset = _start(text, offset, name.rpartition(".")[0])
    segments = name.lstrip(".").split(".")
    if segments[0] == "workload":
        dotted = ".".join(segments[:2])
        hint = _suggest(dotted if segments[1:] else "", WORKLOAD_VARIABLES)
        return error_at(text, offset, f'unknown variable "{dotted}"', hint)
    known = [*JSON_VARIABLES, *WORKLOAD_VARIABLES]
    return error_at(text, offset, f'unknown variable "{segments[0]}"', _suggest(segments[0], known))


def _unknown_function(text: str, offset: int, name: str) -> ExpressionError:
    offset = _start(text, offset, name)
    if name in _UNBOUNDED:
        hint = "not offered, since it can build strings without bound: compare the parts instead"
        return error_at(text, offset, f'function "{name}" is not allowed', hint)
    if name in _FUNCTIONS:
        return error_at(text, offset, f'function "{name}" does not take these arguments')
    return error_at(text, offset, f'unknown function "{name}"', _suggest(name, _FUNCTIONS))


def _start(text: str, end: int, name: str) -> int:
    """Where a name that ends at `end` starts; `end` where it is written with spaces inside."""
    return end - len(name) if text.endswith(name, 0, end) else end


def _suggest(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f'did you mean "{close[0]}"?' if close else "known are " + ", ".join(known)


def _reserved(text: str, offset: int, name: str) -> ExpressionError:
    hint = "the namespace of the object is namespaceObject" if name == "namespace" else ""
    return error_at(text, offset, f'"{name}" is a reserved word of CEL', hint)


def _no_overload(text: str, offset: int, function: str, types: str) -> ExpressionError:
    operand_types = types.strip("()").split(", ")
    hint = ""
    if function in _NUMBER_OPERATORS and len(set(operand_types)) > 1 and _NUMBERS.issuperset(operand_types):
        hint = _number_hint(operand_types)
    return error_at(text, offset, f'"{written(function)}" does not take {types}', hint)


def _number_hint(types: list[str]) -> str:
    if "double" in types:
        return "write 1.0 instead of 1, or double(x): CEL does not mix int and double"
    return "convert one side with int(x): CEL does not mix int and uint"


def _syntax(what: str) -> str:
    message = _EXPECTING.sub("", what.removeprefix("Syntax error: "))
    for theirs, ours in _SYNTAX_WORDS:
        message = message.replace(theirs, ours)
    return "syntax error: " + message if what.startswith("Syntax error") else message


def _offset(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    return sum(len(before) + 1 for before in lines[: line - 1]) + column - 1


def _first_line(raised: str) -> str:
    return raised.partition("\n")[0]
