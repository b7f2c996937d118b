"""What `?timeout=` is understood to say."""

from __future__ import annotations

import time

import pytest

from webhook.server.deadline import Deadline, duration_seconds, review_seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "-3s",
        "3 s",
        "3x",
        "3s!",
        "1e3s",
        "٣s",
        "inf",
        "nan",
        "3s3",
        ".s",
        "9" * 100 + "s",
        "1s" * 100,
    ],
)
def test_no_duration(text: str) -> None:
    assert duration_seconds(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3s", 3),
        ("2500ms", 2.5),
        ("2.5s", 2.5),
        ("1m0s", 60),
        ("1h0m0.5s", 3600.5),
        ("100us", 0.0001),
        ("100µs", 0.0001),
        (".5s", 0.5),
        (" 3s ", 3),
        ("3", 3),
        ("0s", 0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        pytest.param("", 8, id="nothing said: 80 % of the default"),
        pytest.param("timeout=2s", 1.6, id="80 % of what is said"),
        pytest.param("a=b&timeout=2s", 1.6, id="beside something else"),
        pytest.param("timeout=2h", 24, id="never more than the API server waits"),
        pytest.param("timeout=soon", 8, id="not understood"),
        pytest.param("timeout=0s", 8, id="none is no deadline of zero"),
        pytest.param("timeout=", 8, id="empty"),
        pytest.param("timeout=1s&timeout=2s", 1.6, id="twice: the last"),
        pytest.param("%%%&=&timeout", 8, id="garbage"),
    ],
)
def test_seconds_of_a_review(query: str, seconds: float) -> None:
    assert review_seconds(query) == pytest.approx(seconds)


def test_a_deadline_remembers_that_it_passed() -> None:
    deadline = Deadline(0.02)
    assert not deadline()
    assert not deadline.passed
    time.sleep(0.03)
    assert not deadline.passed  # nobody asked since
    assert deadline()
    assert deadline.passed


def test_what_is_left_of_it() -> None:
    deadline = Deadline(5)
    assert 4 < deadline.left <= 5
    assert Deadline(-1).left <= -1
