"""A stream of JSON lines that breaks anywhere, and never grows without bound."""

from __future__ import annotations

from itertools import pairwise, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.cluster.lines import LineError, objects_in

STREAM = b'{"a":1}\n\n{"b":"\\n"}\r\n {"c":[2]}\n{"d":{}}'
OBJECTS = [{"a": 1}, {"b": "\n"}, {"c": [2]}, {"d": {}}]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_where_it_breaks_does_not_matter(places: list[int]) -> None:
    cuts = sorted({0, *places, len(STREAM)})
    assert list(objects_in(STREAM[start:end] for start, end in pairwise(cuts))) == OBJECTS


def test_an_object_comes_as_soon_as_its_line_has_ended() -> None:
    pieces = iter([b'{"a":1}', b'\n{"b"'])
    assert next(objects_in(pieces)) == {"a": 1}


def test_a_line_that_does_not_end() -> None:
    with pytest.raises(LineError, match="a line of more than 100 bytes"):
        list(objects_in(repeat(b"x" * 7), longest=100))


def test_many_lines_are_no_long_line() -> None:
    assert len(list(objects_in([b'{"a":1}\n'] * 50, longest=20))) == 50


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"nonsense\n", "a line that is no JSON"),
        (b"[]\n", "a line that is no JSON object"),
        (b"\xff\n", "a line that is no JSON"),
        (b'{"a":', "the stream ended inside of an object"),
    ],
)
def test_what_is_refused(stream: bytes, expected: str) -> None:
    with pytest.raises(LineError, match=f"^{expected}$"):
        list(objects_in([stream]))
