"""Kubernetes quantities: ``8``, ``500m``, ``1.5Gi``, ``2e3``, exactly.

The grammar is the documented one of kubernetes/apimachinery:pkg/api/resource/quantity.go. Its parser also
lets a few strings without a single digit pass (``.``, ``+``, ``Ki``, all read as 0); those are refused here,
since nobody means zero by them.
"""

import math
import re
from fractions import Fraction
from functools import lru_cache

Quantity = int | Fraction
"""An amount: int where it is whole, Fraction otherwise. Never a float."""

# As many digits as the largest JSON number (a float64, 1.8e308) has in full: every real amount is far below
# it, and what would cost time or memory is above it.
MAX_LENGTH = 309
# The exponents of a float64 end at e308 and e-324.
MAX_EXPONENT = 324
# What an error shows of the text that it refuses.
MAX_SHOWN = 40

_NANO = 9
_NANOS: int = 10**_NANO
# Binary quantities are capped, decimal ones are not (quantity.go, `maxAllowed`).
_MAX_BINARY = 2**63 - 1
# Below it, people read the number itself more easily than one with a suffix: 2048 processors are no 2Ki.
_WRITTEN_OUT = 10**6 * _NANOS
_PATTERN = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
_DECIMAL_EXPONENTS = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_BITS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPECTED = (
    "a number and, if need be, one of the suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei "
    "or an exponent such as e3"
)


class QuantityError(ValueError):
    """A value that is not a quantity; the text says what was found and what is expected."""


def parse_quantity(value: object) -> Quantity:
    """The amount that a quantity stands for.

    Like Kubernetes, an amount finer than a nano is rounded away from zero to the next nano.

    Args:
        value: A string, or the int or float of a JSON number.

    Raises:
        QuantityError: The value is of another type (a bool is no number), not of the grammar, or beyond
            the limits.
    """
    if isinstance(value, str):
        if len(value) > MAX_LENGTH:
            raise QuantityError(
                f"found a text of {len(value)} characters, expected a quantity of at most {MAX_LENGTH}"
            )
        return _parse_text(value)
    if isinstance(value, bool):
        raise QuantityError(f"found {str(value).lower()}, expected {_EXPECTED}")
    if isinstance(value, int):
        return _check_whole(value)
    if isinstance(value, float):
        return _parse_float(value)
    raise QuantityError(f"found {_json_type(value)}, expected {_EXPECTED}")


def whole_or_fraction(amount: Quantity) -> Quantity:
    """The same amount as an int where it is whole: sums of fractions stay fractions in Python."""
    return amount.numerator if amount.denominator == 1 else amount


@lru_cache(maxsize=1024)
def format_quantity(amount: Quantity) -> str:
    """The shortest text that stands for exactly this amount, for people to read.

    Amounts below a million, such as processors, are written out. Parts of a nano are rounded up, as in parsing.
    """
    nanos = math.ceil(amount * _NANOS)
    units = [(suffix, 10 ** (_NANO + exponent)) for suffix, exponent in _DECIMAL_EXPONENTS.items()]
    if abs(nanos) <= _MAX_BINARY * _NANOS:
        units += [(suffix, _NANOS << bits) for suffix, bits in _BINARY_BITS.items()]
    largest = _NANOS if abs(nanos) < _WRITTEN_OUT else abs(nanos)
    exact = (f"{nanos // unit}{suffix}" for suffix, unit in units if unit <= largest and nanos % unit == 0)
    return min(exact, key=len)


def _check_whole(value: int) -> int:
    if value.bit_length() > _MAX_WHOLE_BITS:
        raise QuantityError(
            f"found a number of {value.bit_length()} bits, expected at most {MAX_LENGTH} digits"
        )
    return value


_MAX_WHOLE_BITS = (10**MAX_LENGTH).bit_length()


def _parse_float(value: float) -> Quantity:
    if not math.isfinite(value):
        raise QuantityError(f"found {value}, expected {_EXPECTED}")
    # The API server hands the text of a JSON number to the same parser as a string.
    return _parse_text(repr(value))


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> Quantity:
    parts = _PATTERN.fullmatch(text)
    if parts is None:
        raise QuantityError(f"found {_shown(text)}, expected {_EXPECTED}{_hint(text)}")
    sign, number, suffix = parts.group(1), parts.group(2), parts.group(3) or ""
    whole, _, fraction = number.partition(".")
    nanos = _to_nanos(int(whole + fraction), len(fraction), suffix)
    return _from_nanos(-nanos if sign == "-" else nanos)


def _to_nanos(unscaled: int, places: int, suffix: str) -> int:
    bits = _BINARY_BITS.get(suffix)
    if bits is None:
        return _shift_up(unscaled, _decimal_exponent(suffix) - places + _NANO)
    return min(_shift_up(unscaled << bits, _NANO - places), _MAX_BINARY * _NANOS)


def _decimal_exponent(suffix: str) -> int:
    exponent = _DECIMAL_EXPONENTS.get(suffix)
    if exponent is None:
        exponent = int(suffix[1:])
        if abs(exponent) > MAX_EXPONENT:
            raise QuantityError(
                f"found the exponent {_shown(suffix)}, expected at most {MAX_EXPONENT} either way"
            )
    return exponent


def _shift_up(unscaled: int, exponent: int) -> int:
    """``unscaled`` times ten to the ``exponent``, rounded up."""
    power: int = 10 ** abs(exponent)
    return unscaled * power if exponent >= 0 else -(-unscaled // power)


def _from_nanos(nanos: int) -> Quantity:
    return whole_or_fraction(Fraction(nanos, _NANOS))


def _shown(text: str) -> str:
    return ascii(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "...")


def _hint(text: str) -> str:
    stripped = text.strip()
    if stripped != text and _PATTERN.fullmatch(stripped):
        return ": remove the space"
    if text.endswith("K") and _PATTERN.fullmatch(text[:-1]):
        return f": write {text[:-1]}k for thousands, {text[:-1]}Ki for 1024"
    return ""


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else f"a {type(value).__name__}"
