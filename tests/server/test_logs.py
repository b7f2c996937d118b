"""Nobody's text forges a line, hides in one, or carries a secret into one."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from tests.server.standin import review_record
from webhook.server.logs import (
    MAX_FRAMES,
    MAX_LISTED,
    MAX_TEXT,
    Lines,
    configure_logs,
    render_line,
    review_line,
    trace_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORGED = 'eve\r\n{"level":"info","decision":"allow"}'


@pytest.mark.parametrize(
    ("text", "written"),
    [
        pytest.param("plain", '"plain"', id="plain"),
        pytest.param("申请了 16 张", '"申请了 16 张"', id="Chinese stays readable"),
        pytest.param(FORGED, r'"eve\r\n{\"level\":\"info\",\"decision\":\"allow\"}"', id="a second line"),
        pytest.param("\x1b[2J", r'"\u001b[2J"', id="an escape sequence"),
        pytest.param("\x9b2J", r'"\u009b2J"', id="its C1 form"),
        pytest.param("\x7f", r'"\u007f"', id="DEL"),
        pytest.param("a\u2028b\u2029c", r'"a\u2028b\u2029c"', id="line and paragraph separators"),
        pytest.param("a\x85b", r'"a\u0085b"', id="next line"),
        pytest.param("\u202eevil\u2066", r'"\u202eevil\u2066"', id="marks that turn text"),
        pytest.param("a\u200bb\ufeff", r'"a\u200bb\ufeff"', id="nothing wide"),
        pytest.param("\U000e0041", r'"\udb40\udc41"', id="a tag character"),
        pytest.param("\ud800", r'"\ud800"', id="half a surrogate pair"),
    ],
)
def test_text_on_a_line(text: str, written: str) -> None:
    assert render_line({"t": text}).decode() == '{"t":' + written + "}" or render_line({"t": text}) == (
        b'{"t": ' + written.encode() + b"}"
    )


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())))
def test_any_event_is_one_line_that_reads_back(event: dict[str, Any]) -> None:
    line = render_line(event)
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == event


def test_what_json_has_no_word_for_is_written_as_text() -> None:
    assert render_line({"error": ValueError("no")}) == b'{"error":"no"}'
    assert json.loads(render_line({"n": 2**80})) == {"n": 2**80}


def test_long_texts_are_cut_so_that_a_line_is_written_in_one_piece() -> None:
    request = {
        "uid": "u",
        "name": "n" * 5000,
        "namespace": "s" * 5000,
        "userInfo": {"username": "\x00" * 5000},
    }
    record = review_record(request, "mutate", "hash")
    line = review_line(record, 0.0012345)
    assert line["name"] == "n" * (MAX_TEXT - 1) + "…"
    assert line["duration_ms"] == 1.234
    assert len(render_line(line)) < 4096


def test_what_would_change_is_said_with_its_rule() -> None:
    record = review_record({"uid": "u"}, "mutate", "hash")
    would = (("priority/class", "spec.priorityClassName"), ("priority/class", "spec.priority"))
    line = review_line(record._replace(would_change=would), 0.001)
    assert line["would_change"] == ["priority/class spec.priorityClassName", "priority/class spec.priority"]
    many = review_line(record._replace(would_change=(("r" * 400, "f"),) * 50), 0.001)
    assert len(many["changes"]) + len(many["would_change"]) == MAX_LISTED
    assert many["would_change"][0] == "r" * (MAX_TEXT - 1) + "…"
    full = record._replace(changes=(("p", "r", "f"),) * 50, would_change=would)
    assert (len(review_line(full, 0.001)["changes"]), review_line(full, 0.001)["would_change"]) == (
        MAX_LISTED,
        [],
    )


def caught(raising: Callable[[], object]) -> Exception:
    try:
        raising()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("nothing was raised")


def test_a_trace_has_types_and_places_and_no_text_of_an_error() -> None:
    def fail() -> None:
        try:
            dict[str, str]()["-".join(("a", "secret"))]
        except KeyError as error:
            raise ValueError(str(error)) from error

    trace = trace_of(caught(fail))
    first, second = trace.split("\n\n")
    assert (first.splitlines()[-1], second.splitlines()[-1]) == ("KeyError", "ValueError")
    assert "in fail" in first
    assert "a-secret" not in trace


def test_a_cause_that_is_left_out_is_not_in_a_trace() -> None:
    def fail() -> None:
        try:
            int("x")
        except ValueError:
            raise RuntimeError from None

    assert trace_of(caught(fail)).count("Error") == trace_of(caught(fail)).count("RuntimeError")


def test_a_recursion_without_end_has_a_bounded_trace() -> None:
    def fail() -> None:
        fail()

    assert len(trace_of(caught(fail)).splitlines()) < 4 * MAX_FRAMES


@pytest.fixture
def logs_put_back() -> Iterator[None]:
    """Logs are configured for the whole process: afterwards they are as before."""
    before, level = logging.root.handlers[:], logging.root.level
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = before
    logging.root.setLevel(level)


def lines(captured: pytest.CaptureFixture[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in captured.readouterr().err.splitlines()]


@pytest.mark.usefixtures("logs_put_back")
def test_our_lines_and_those_of_libraries_look_the_same(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    configure_logs("info")
    structlog.get_logger().info("ours", user=FORGED)
    logging.getLogger("library").warning("theirs %s", FORGED)
    logging.getLogger("library").debug("not this")
    ours, theirs = lines(capfdbinary)
    assert list(ours) == ["ts", "level", "event", "user"]
    assert (ours["level"], ours["user"]) == ("info", FORGED)
    assert (theirs["level"], theirs["event"], theirs["logger"]) == ("warning", f"theirs {FORGED}", "library")


@pytest.mark.usefixtures("logs_put_back")
def test_a_traceback_is_one_field_of_one_line(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    configure_logs("info")
    logging.getLogger("library").error("failed", exc_info=ValueError(FORGED))
    [line] = lines(capfdbinary)
    assert line["exception"] == f"ValueError: {FORGED}"


@pytest.mark.usefixtures("logs_put_back")
def test_levels_below_are_left_out(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    configure_logs("error")
    structlog.get_logger().warning("ours")
    logging.getLogger("library").warning("theirs")
    assert lines(capfdbinary) == []


def test_a_line_is_written_whole_whatever_the_system_takes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []

    def write(_file: int, data: bytes) -> int:
        written.append(data[:3])
        return len(written[-1])

    monkeypatch.setattr("webhook.server.logs.os.write", write)
    Lines().msg(b'{"a":1}')
    assert written == [b'{"a', b'":1', b"}\n"]
