import re
import time
from decimal import ROUND_UP, Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.quantity import (
    MAX_EXPONENT,
    MAX_LENGTH,
    Quantity,
    QuantityError,
    format_quantity,
    parse_quantity,
)

EXPECTED = (
    "a number and, if need be, one of the suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei "
    "or an exponent such as e3"
)
INT64_MAX = 2**63 - 1

REFUSED = {
    "upper-case K is no suffix": "1K",
    "leading space": " 1",
    "trailing space": "1 ",
    "space before the suffix": "1 Gi",
    "line end": "1\n",
    "underscore": "1_000",
    "thousands comma": "1,5",
    "not a number": "NaN",
    "infinite": "inf",
    "minus infinite": "-inf",
    "lower-case g": "1g",
    "lower-case mi": "0.1mi",
    "atto": "0.1am",
    "i alone": "1i",
    "fraction and i": ".5i",
    "exponent without digits": "5e",
    "exponent with only a sign": "-3.01e-",
    "fractional exponent": "1e1.5",
    "exponent and suffix": "1e3k",
    "suffix and exponent": "1Ki1",
    "two suffixes": "1Kii",
    "two points": "1.1.M",
    "two numbers": "1+1.0M",
    "two signs": "--1",
    "sign only": "+",
    "point only": ".",
    "suffix only": "Ki",
    "exponent only": "e3",
    "hexadecimal": "0x10",
    "word": "aoeu",
    "empty": "",
    "arabic digit": "\u0661",
    "full-width digit": "\uff11",
    "superscript": "1\u00b2",
    "true": True,
    "false": False,
    "null": None,
    "list": ["1"],
    "map": {"value": "1"},
    "bytes": b"1",
    "nan float": float("nan"),
    "infinite float": float("inf"),
}

ACCEPTED: dict[object, Quantity] = {
    # What the documented grammar says, each form of a number and each suffix.
    "0": 0,
    "00": 0,
    "007": 7,
    "-0": 0,
    "1": 1,
    "+1": 1,
    "-1": -1,
    "1.": 1,
    "1.G": 10**9,
    ".5": Fraction(1, 2),
    "1.5": Fraction(3, 2),
    "-1.5": Fraction(-3, 2),
    "1n": Fraction(1, 10**9),
    "1u": Fraction(1, 10**6),
    "1m": Fraction(1, 1000),
    "1k": 1000,
    "1M": 10**6,
    "1G": 10**9,
    "1T": 10**12,
    "1P": 10**15,
    "1E": 10**18,
    "1Ki": 1024,
    "1Mi": 2**20,
    "1Gi": 2**30,
    "1Ti": 2**40,
    "1Pi": 2**50,
    "1Ei": 2**60,
    "1.5Gi": 1610612736,
    "1.Ki": 1024,
    "1E3": 1000,
    "1e0": 1,
    "1e+3": 1000,
    "1e-3": Fraction(1, 1000),
    "1E-1": Fraction(1, 10),
    "129e6": 129_000_000,
    "01e-07": Fraction(1, 10**7),
    # Rounded away from zero to a nano; never to nothing.
    "0.5n": Fraction(1, 10**9),
    "-0.5n": Fraction(-1, 10**9),
    "1e-20": Fraction(1, 10**9),
    "1.0000000001": Fraction(1_000_000_001, 10**9),
    "0.0000000001Ki": Fraction(103, 10**9),
    "3.0000000000": 3,
    # Binary amounts end at the largest int64, decimal ones do not.
    "7Ei": 7 * 2**60,
    "8Ei": INT64_MAX,
    "-9Ei": -INT64_MAX,
    "9223372036854775807Ki": INT64_MAX,
    "99999999999999999999": 99999999999999999999,
    "100E": 10**20,
    # Milli-bytes, and amounts that differ only in how they are written.
    "400m": Fraction(2, 5),
    "1288490188800m": Fraction(6442450944, 5),
    "1000m": 1,
    "1.0": 1,
    "256M": 256 * 10**6,
    "256Mi": 256 * 2**20,
}


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
def test_refuses_what_is_no_quantity(value: object) -> None:
    with pytest.raises(QuantityError, match=re.escape(EXPECTED)):
        parse_quantity(value)


FOUND: dict[str, tuple[object, str]] = {
    "a text": ("x", "'x'"),
    "a long text": ("x" * 41, "'" + "x" * 40 + "...'"),
    "a bool": (True, "true"),
    "null": (None, "null"),
    "a list": (["1"], "a list"),
    "a map": ({}, "a map"),
    "bytes": (b"1", "a bytes"),
    "infinite": (float("inf"), "inf"),
    "no number": (float("nan"), "nan"),
}


@pytest.mark.parametrize(("value", "found"), FOUND.values(), ids=FOUND)
def test_says_what_was_found_and_expected(value: object, found: str) -> None:
    with pytest.raises(QuantityError) as refused:
        parse_quantity(value)
    assert str(refused.value) == f"found {found}, expected {EXPECTED}"


@pytest.mark.parametrize(("text", "amount"), ACCEPTED.items(), ids=map(str, ACCEPTED))
def test_reads_a_quantity(text: str, amount: Quantity) -> None:
    parsed = parse_quantity(text)
    assert parsed == amount
    assert isinstance(parsed, int) == (parsed == int(parsed))


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (1, 1),
        (0, 0),
        (-3, -3),
        (1.0, 1),
        (0.5, Fraction(1, 2)),
        (1e16, 10**16),
        (1e-7, Fraction(1, 10**7)),
        (0.1, Fraction(1, 10)),
    ],
)
def test_reads_a_json_number_by_its_text(value: float, amount: Quantity) -> None:
    assert parse_quantity(value) == amount


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param("1K", f"found '1K', expected {EXPECTED}: write 1k for thousands, 1Ki for 1024", id="K"),
        pytest.param("4Gi ", f"found '4Gi ', expected {EXPECTED}: remove the space", id="space"),
        pytest.param(
            "8\u0661", f"found '8\\u0661', expected {EXPECTED}", id="foreign digit is shown escaped"
        ),
        pytest.param(
            "\x1b[31m", f"found '\\x1b[31m', expected {EXPECTED}", id="control characters are shown escaped"
        ),
        pytest.param("x" * 50, f"found '{'x' * 40}...', expected {EXPECTED}", id="a long text is cut"),
        pytest.param(True, f"found true, expected {EXPECTED}", id="bool"),
        pytest.param(None, f"found null, expected {EXPECTED}", id="null"),
        pytest.param({}, f"found a map, expected {EXPECTED}", id="map"),
        pytest.param([], f"found a list, expected {EXPECTED}", id="list"),
        pytest.param(
            "1e3000000", "found the exponent 'e3000000', expected at most 324 either way", id="exponent"
        ),
        pytest.param(
            "1" * 310, "found a text of 310 characters, expected a quantity of at most 309", id="length"
        ),
        pytest.param(
            1 << 1100, "found a number of 1101 bits, expected at most 309 digits", id="whole number"
        ),
    ],
)
def test_says_what_was_found_and_what_is_expected(value: object, message: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(value)
    assert str(caught.value) == message


def test_reads_up_to_the_limits() -> None:
    assert parse_quantity("9" * MAX_LENGTH) == 10**MAX_LENGTH - 1
    assert parse_quantity(f"1e{MAX_EXPONENT}") == 10**MAX_EXPONENT
    assert parse_quantity(f"1e-{MAX_EXPONENT}") == Fraction(1, 10**9)
    assert parse_quantity(1.7976931348623157e308) == int(Decimal("1.7976931348623157e308"))
    assert parse_quantity(5e-324) == Fraction(1, 10**9)


@pytest.mark.timed
@pytest.mark.parametrize(
    "text", ["1e3000000", "1e-3000000", "9" * 7_000_000, "1e" + "9" * 300, "." * 300, "0" * 309 + "Zi"]
)
def test_refuses_the_huge_at_once(text: str) -> None:
    start = time.thread_time()
    for _ in range(100):
        with pytest.raises(QuantityError):
            parse_quantity(text)
    assert time.thread_time() - start < 1


# The oracle: another expression, and decimal arithmetic, where the parser uses whole numbers only.
ORACLE = re.compile(
    r"^(?P<number>[-+]?(?:[0-9]+|[0-9]+[.][0-9]+|[0-9]+[.]|[.][0-9]+))"
    r"(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|n|u|m||k|M|G|T|P|E|(?:e|E)(?:[-+]?[0-9]+))$(?!\n)",
    re.ASCII,
)
EXACT = Context(prec=2000, Emax=10**6, Emin=-(10**6))
NANO = Decimal("1e-9")


def by_oracle(text: str) -> Fraction | None:
    parts = ORACLE.match(text)
    if parts is None or text.endswith("\n"):
        return None
    number, suffix = Decimal(parts["number"]), parts["suffix"]
    binary = suffix.endswith("i")
    if binary:
        amount = EXACT.multiply(number, Decimal(1024 ** ("KMGTPE".index(suffix[0]) + 1)))
    elif suffix[:1] in {"e", "E"} and len(suffix) > 1:
        amount = EXACT.multiply(number, Decimal(f"1e{suffix[1:]}"))
    else:
        power = {"n": -9, "u": -6, "m": -3, "": 0}.get(
            suffix, 3 * ("kMGTPE".find(suffix or "k") + 1) if suffix else 0
        )
        amount = EXACT.multiply(number, Decimal(f"1e{power}"))
    amount = amount.quantize(NANO, rounding=ROUND_UP, context=EXACT)
    if binary:
        amount = max(min(amount, Decimal(INT64_MAX)), Decimal(-INT64_MAX))
    return Fraction(amount)


near_quantities = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", "+", "-", " ", "--"]),
        st.sampled_from(
            ["", "0", "1", "12", "1.5", ".5", "7.", "0.0000000001", "999999999999", "1_0", "\u0661", "."]
        ),
        st.sampled_from(
            [
                "",
                "n",
                "u",
                "m",
                "k",
                "K",
                "M",
                "G",
                "T",
                "P",
                "E",
                "Ki",
                "Mi",
                "Gi",
                "Ti",
                "Pi",
                "Ei",
                "i",
                "e",
                "E",
            ]
        ),
        st.sampled_from(["", "", "3", "-3", "+3", "07", "-12", "1.5", " ", "\n"]),
    ),
)


def parsed(text: str) -> Quantity | QuantityError:
    try:
        return parse_quantity(text)
    except QuantityError as error:
        return error


@given(st.one_of(near_quantities, st.text(alphabet="0123456789.+-eEinumkKMGTP \u0663", max_size=12)))
def test_agrees_with_the_oracle(text: str) -> None:
    found = parsed(text)
    if "expected at most" in str(found):  # beyond the limits, where the oracle would work for ever
        return
    expected = by_oracle(text)
    assert found == expected if expected is not None else isinstance(found, QuantityError)


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False, width=32)))
def test_a_number_means_the_same_as_its_text(value: float) -> None:
    assert parse_quantity(value) == parse_quantity(repr(value))


@given(st.text())
def test_fails_only_with_its_own_error(text: str) -> None:
    assert isinstance(parsed(text), int | Fraction | QuantityError)


FORMATTED: dict[str, tuple[Quantity, str]] = {
    "nothing": (0, "0"),
    "processors are written out": (1000, "1000"),
    "the most that is written out": (999_000, "999000"),
    "a million has a suffix": (10**6, "1M"),
    "half a processor": (Fraction(1, 2), "500m"),
    "more than a whole": (Fraction(33, 2), "16500m"),
    "a part that no suffix hits is rounded up": (Fraction(1, 3), "333333334n"),
    "binary": (64 << 30, "64Gi"),
    "decimal": (64 * 10**9, "64G"),
    "one byte more is not hidden": ((64 << 30) + 1, "68719476737"),
    "half a gibibyte more": ((64 << 30) + (512 << 20), "66048Mi"),
    "negative": (-(64 << 30), "-64Gi"),
    "the most that fits a suffix": (7 << 60, "7Ei"),
    "more than a binary suffix may say": (8 << 60, "9223372036854775808"),
}


@pytest.mark.parametrize(("amount", "text"), FORMATTED.values(), ids=FORMATTED.keys())
def test_an_amount_as_text(amount: Quantity, text: str) -> None:
    assert format_quantity(amount) == text


@given(st.one_of(near_quantities, st.integers(0, 2**70).map(str), st.integers(0, 2**33).map("{}Mi".format)))
def test_an_amount_is_read_back_from_its_text(text: str) -> None:
    amount = parsed(text)
    if isinstance(amount, QuantityError):
        return
    assert parse_quantity(format_quantity(amount)) == amount
