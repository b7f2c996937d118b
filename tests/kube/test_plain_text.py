import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.plain_text import LONGEST_ARGUMENT, plain

TEXTS: dict[str, tuple[object, str]] = {
    "plain": ("trainer-0", "trainer-0"),
    "another language": ("训练任务 naïve", "训练任务 naïve"),
    "a number": (8, "8"),
    "nothing": (None, "None"),
    "forges a line": ("a\nb\r\n", "a\\u000ab\\u000d\\u000a"),
    "forges a column": ("a\tb", "a\\u0009b"),
    "clears the terminal": ("\x1b[2J", "\\u001b[2J"),
    "clears it by C1": ("\x9b2J", "\\u009b2J"),
    "ends the text": ("a\x00b", "a\\u0000b"),
    "separates lines in another way": ("a\u2028b\u2029c\x85d", "a\\u2028b\\u2029c\\u0085d"),
    "turns the text around": ("gpu\u202e8", "gpu\\u202e8"),
    "isolates": ("\u2066a\u2069", "\\u2066a\\u2069"),
    "is invisible": ("a\u200bb\ufeffc\u2060d", "a\\u200bb\\ufeffc\\u2060d"),
    "is invisible beyond 16 bits": ("a\U000e0041b", "a\\ue0041b"),
    "soft hyphen": ("a\u00adb", "a\\u00adb"),
    "lone surrogate": ("a\ud800b", "a\\ud800b"),
}


@pytest.mark.parametrize(("value", "shown"), TEXTS.values(), ids=TEXTS)
def test_unsafe_characters_are_shown(value: object, shown: str) -> None:
    assert plain(value) == shown


LENGTHS: dict[str, tuple[str, int, str]] = {
    "shorter": ("abc", 4, "abc"),
    "as long": ("abcd", 4, "abcd"),
    "longer": ("abcde", 4, "abc…"),
    "long by what is shown": ("a\nb", 4, "a\\u…"),
}


@pytest.mark.parametrize(("text", "most", "shown"), LENGTHS.values(), ids=LENGTHS)
def test_length(text: str, most: int, shown: str) -> None:
    assert plain(text, most) == shown


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 200))
def test_one_printable_line_of_bounded_length(text: str, most: int) -> None:
    shown = plain(text, most)
    assert len(shown) <= most
    assert len(shown.splitlines()) <= 1
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in shown)
    shown.encode()


def test_a_long_value_costs_no_more_than_a_short_one() -> None:
    assert plain("\n" * 10_000_000) == ("\\u000a" * 20)[: LONGEST_ARGUMENT - 1] + "…"
