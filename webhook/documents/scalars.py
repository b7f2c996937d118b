"""What an unquoted scalar means to Kubernetes, and where that is a surprise.

Kubernetes reads YAML with sigs.k8s.io/yaml: YAML 1.1 as go-yaml v2 understands it
(kubernetes-sigs/yaml:goyaml.v2/resolve.go), then JSON. That is not what PyYAML reads: `y` is a boolean, `1e3`
and `0o17` are numbers, `12:30` and dates are text.
"""

import re
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from webhook.documents.text import shown

JSONScalar = str | int | float | bool | None


class Trap(NamedTuple):
    """A scalar that is probably not read as it was meant."""

    expected: str
    found: str
    hint: str
    is_fatal: bool = False
    """Kubernetes cannot read it either."""
    is_octal: bool = False
    """Written in octal digits: right for the mode of a file."""


class Scalar(NamedTuple):
    """An unquoted scalar as Kubernetes reads it."""

    value: JSONScalar
    trap: Trap | None = None


LEADS = frozenset("+-.0123456789=~yYnNtTfFoO")
"""The first characters of everything that is not simply text, but for the empty scalar, which is null."""

LONGEST_CACHED = 64
"""Characters. Longer texts are sentences or numbers out of range, and seldom come twice."""

LONGEST_INTEGER = 67
"""Characters: sign, `0b` and 64 bits. go-yaml reads longer ones as floats."""

LONGEST_NUMBER = 400
"""Characters: the largest float has 309 digits, and 17 tell it from any other. Longer ones are refused."""

_WORDS: dict[str, bool | None] = {
    spelling: value
    for word, value in {
        "y": True, "yes": True, "on": True, "true": True,
        "n": False, "no": False, "off": False, "false": False,
        "null": None, "~": None,
    }.items()
    for spelling in (word, word.capitalize(), word.upper())
}  # fmt: skip
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
"""What is null where it is not quoted."""
_PLAIN_WORDS = frozenset({"true", "True", "TRUE", "false", "False", "FALSE", "null"})
_NOT_FINITE = frozenset(
    sign + word
    for word in (".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN")
    for sign in (("", "+", "-") if word[1] in "iI" else ("",))
)
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?"
    r"(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)
_UNDERSCORE_IN_FRACTION = re.compile(r"(?<=[0-9])_(?=[0-9])")  # all that go-yaml takes behind a leading point
_BASES = {2: 16, 3: 2, 4: 8, 5: 10}
_BASE_NAMES = {16: "hexadecimal", 2: "binary", 8: "octal"}


def read_plain(text: str) -> Scalar:
    """What an unquoted scalar is, with the trap it may be."""
    return _read_cached(text) if len(text) <= LONGEST_CACHED else _read(text)


@lru_cache(maxsize=4096)  # the different short scalars of many manifests; entries are small
def _read_cached(text: str) -> Scalar:
    return _read(text)


def _read(text: str) -> Scalar:
    if not text:
        return Scalar(None)
    if text[0] not in LEADS:
        return Scalar(text)
    if text in _WORDS:
        return _word(text, _WORDS[text])
    if text in _NOT_FINITE:
        return Scalar(None, Trap("a finite number", _unquoted(text), _QUOTE, is_fatal=True))
    number = _number(text)
    return number if number is not None else _text(text)


_QUOTE = "quote it if it is text"


def _unquoted(text: str) -> str:
    return f"unquoted {shown(text)}"


def _trap(text: str, reads_as: str, instead: str, *, is_octal: bool = False) -> Trap:
    found = f"{_unquoted(text)}, which Kubernetes reads as {reads_as}"
    return Trap(instead, found, _QUOTE, is_octal=is_octal)


def _word(text: str, value: bool | None) -> Scalar:
    if text in _PLAIN_WORDS:
        return Scalar(value)
    canonical = "null" if value is None else str(value).lower()
    return Scalar(value, _trap(text, canonical, f'{canonical}, or "{text}" in quotes'))


def _number(text: str) -> Scalar | None:
    digits = _UNDERSCORE_IN_FRACTION.sub("", text) if text[0] == "." else text.replace("_", "")
    if len(digits) <= LONGEST_INTEGER and (match := _INTEGER.fullmatch(digits)):
        base = _BASES[match.lastindex or 0]
        value = int(match[1] + match[match.lastindex or 0], base)
        if -(2**63) <= value < 2**64:
            return Scalar(value, _integer_trap(text, value, base))
    if _FLOAT.fullmatch(digits) is None:
        return None
    return _float(text, digits)


def _integer_trap(text: str, value: int, base: int) -> Trap | None:
    if base != 10:
        reads_as = f"the {_BASE_NAMES[base]} number {value}"
        return _trap(text, reads_as, f"{value}, or {shown(text)} in quotes", is_octal=base == 8)
    return _trap(text, f"the number {value}", f"{value}, or {shown(text)} in quotes") if "_" in text else None


def _float(text: str, digits: str) -> Scalar:
    value = float(digits) if len(digits) <= LONGEST_NUMBER else float("inf")
    if abs(value) == float("inf"):
        if digits.lstrip("+-").isdecimal() or len(digits) > LONGEST_NUMBER:
            return Scalar(None, Trap("a number in range", _unquoted(text), _QUOTE, is_fatal=True))
        return Scalar(text, _trap(text, "text: it is out of range for a number", "a number in range"))
    # JSON has the shortest digits of a whole float, and no point, so that the API server reads an integer.
    number = int(Decimal(repr(value))) if value.is_integer() and abs(value) < 2**63 else value
    return Scalar(number, _float_trap(text, digits, number))


def _float_trap(text: str, digits: str, value: float) -> Trap | None:
    unsigned = digits.lstrip("+-")
    if unsigned.isdecimal() and isinstance(value, float):
        return _trap(
            text, f"the number {value!r}: it is too large for an integer", f"{shown(text)} in quotes"
        )
    has_leading_zero = unsigned[0] == "0" and unsigned[1:2].isdecimal()
    if has_leading_zero or "_" in text:
        return _trap(text, f"the number {value}", f"{value}, or {shown(text)} in quotes")
    return None


def _text(text: str) -> Scalar:
    if len(text) > LONGEST_CACHED:
        return Scalar(text)
    if _BASE_60.fullmatch(text):
        return Scalar(text, _trap(text, "text and others as a number to base 60", f"{shown(text)} in quotes"))
    if _DATE.fullmatch(text):
        return Scalar(text, _trap(text, "text and others as a date", f"{shown(text)} in quotes"))
    if text == "=":
        return Scalar(text, _trap(text, "text and others refuse", '"=" in quotes'))
    return Scalar(text)


def key_text(text: str) -> str | None:
    """The map key that Kubernetes makes of an unquoted scalar (kubernetes-sigs/yaml:yaml.go).

    Returns:
        None for null and integers beyond 64 bits, which it refuses, and for fractions and powers, which it writes
        in another way than they are read.
    """
    value = read_plain(text).value
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    is_integer = isinstance(value, int) and value < 2**63 and _INTEGER.fullmatch(text.replace("_", ""))
    return str(value) if is_integer else None
