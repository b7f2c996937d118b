"""Waiting for something to become true, with a bound and a text that says what did not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from tests.e2e.client import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

POLL_SECONDS = 0.05
NOT_FOUND = 404


def wait_for(question: Callable[[], T], what: str, seconds: float = 15) -> T:
    """The first true answer.

    Args:
        question: asked again and again; an AssertionError in it counts as no, as does what is not there (404).
        what: what is waited for, for the message.
        seconds: how long.
    """
    end = time.monotonic() + seconds
    while True:
        answer, reason = _ask(question)
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds:g} s still not: {what}; last: {reason}")
        time.sleep(POLL_SECONDS)


def _ask(question: Callable[[], T]) -> tuple[T | None, object]:
    try:
        answer = question()
    except AssertionError as error:
        return None, error
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return None, error
    return answer, answer


def stays(question: Callable[[], object], what: str, seconds: float) -> None:
    """Fail as soon as the answer is not true within that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert question(), f"no more: {what}"
        time.sleep(POLL_SECONDS)
