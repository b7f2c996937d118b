"""When a changed folder is loaded, and when it is not: looks one by one, without a process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import structlog.testing

from tests.server.standin import ExceptionUntil, FilePolicies
from webhook.documents import Problem
from webhook.server.metrics import Metrics
from webhook.server.reload import MAX_PROBLEMS, RETRY_SECONDS, Reloader, follow, listed
from webhook.server.state import SETTLE_SECONDS, Content, ServerState, Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class Folder:
    """A folder whose content and fingerprint a test sets; it counts its readings."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.problems: tuple[Problem, ...] = ()
        self.exceptions: dict[str, tuple[ExceptionUntil, ...]] = {}
        self.mark: Hashable = 0
        self.readings = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def set(self, mark: Hashable, *names: str, problems: tuple[Problem, ...] = ()) -> None:
        self.mark, self.names, self.problems = mark, names, problems

    def read(self) -> Content:
        self.readings += 1
        policy_set: Any = FilePolicies(self.names, self.exceptions)
        facts: Any = None
        content = Content(policy_set, facts, self.problems)
        self.meanwhile()
        return content


@pytest.fixture
def folder() -> Folder:
    return Folder("one")


@pytest.fixture
def state(folder: Folder) -> ServerState:
    return ServerState(Sources(folder.read, lambda: folder.mark), ("en",))


@pytest.fixture
def reloader(state: ServerState) -> Reloader:
    return Reloader(state, Metrics(state, None))


def served(state: ServerState) -> str:
    return state.content.policy_set.hash


def test_nothing_changed_nothing_is_read(folder: Folder, reloader: Reloader) -> None:
    for _ in range(5):
        reloader.poll()
    assert folder.readings == 1


def test_a_change_is_loaded_when_it_was_seen_twice(
    folder: Folder, state: ServerState, reloader: Reloader
) -> None:
    folder.set(1, "two")
    reloader.poll()
    assert served(state) == "one"
    reloader.poll()
    assert served(state) == "two"


def test_a_folder_that_is_being_written_waits(folder: Folder, state: ServerState, reloader: Reloader) -> None:
    for mark in range(1, 5):
        folder.set(mark, f"half {mark}")
        reloader.poll()
    assert (served(state), folder.readings) == ("one", 1)
    reloader.poll()
    assert served(state) == "half 4"


def test_what_changed_while_it_was_read_is_not_served(
    folder: Folder, state: ServerState, reloader: Reloader
) -> None:
    """A ConfigMap swapped between two files: the halves of two states are read, and thrown away."""
    folder.set(1, "half old, half new")
    reloader.poll()
    folder.meanwhile = lambda: folder.set(2, "new")
    reloader.poll()
    assert served(state) == "one"
    folder.meanwhile = lambda: None
    reloader.poll()
    reloader.poll()
    assert served(state) == "new"


def test_exceptions_that_end_are_said_once_with_the_set(
    folder: Folder, state: ServerState, reloader: Reloader
) -> None:
    today = datetime.now(UTC)
    folder.exceptions = {
        "two": (
            ExceptionUntil("over", datetime(2025, 3, 1, tzinfo=UTC)),
            ExceptionUntil("soon", today + timedelta(days=3), "vision"),
            ExceptionUntil("later", today + timedelta(days=30)),
        )
    }
    folder.set(1, "two")
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            reloader.poll()
    assert served(state) == "two"
    assert [line for line in lines if line["log_level"] == "warning"] == [
        {
            "event": "an exception has ended",
            "log_level": "warning",
            "exception": "over",
            "end": "2025-03-01T00:00Z",
            "owner": "owner",
        },
        {
            "event": "an exception ends soon",
            "log_level": "warning",
            "exception": "soon",
            "end": f"{today + timedelta(days=3):%Y-%m-%dT%H:%MZ}",
            "owner": "vision",
        },
    ]


def test_an_error_is_tried_once_and_keeps_the_old_set(
    folder: Folder, state: ServerState, reloader: Reloader
) -> None:
    folder.set(1, "two", problems=(Problem("a.yaml", None, "bad"),))
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            reloader.poll()
    assert (served(state), state.fault, folder.readings) == ("one", "a.yaml: bad", 2)
    assert [line["event"] for line in lines] == ["policies not loaded, the old set stays"]


def test_the_same_error_after_a_change_is_said_again(folder: Folder, reloader: Reloader) -> None:
    with structlog.testing.capture_logs() as lines:
        for mark in (1, 2):
            folder.set(mark, "two", problems=(Problem("a.yaml", None, "bad"),))
            reloader.poll()
            reloader.poll()
    assert [line["event"] for line in lines] == ["policies not loaded, the old set stays"] * 2


def test_a_warning_is_said_and_does_not_keep_the_old_set(
    folder: Folder, state: ServerState, reloader: Reloader
) -> None:
    folder.set(1, "two", problems=(Problem("a.yaml", None, "odd", is_warning=True),))
    with structlog.testing.capture_logs() as lines:
        reloader.poll()
        reloader.poll()
    assert served(state) == "two"
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("policies loaded", "info"),
        ("problem in a file", "warning"),
    ]


@pytest.mark.parametrize("error", [OSError("gone"), ValueError(), RecursionError("deep")], ids=repr)
def test_a_reading_that_raises_keeps_the_old_set(
    error: Exception, folder: Folder, state: ServerState, reloader: Reloader
) -> None:
    def fail() -> None:
        raise error

    folder.set(1, "two")
    folder.meanwhile = fail
    reloader.poll()
    reloader.poll()
    assert served(state) == "one"
    assert state.fault == (str(error) or "ValueError")


def test_what_could_not_be_read_is_read_again_after_a_minute(
    folder: Folder, state: ServerState, reloader: Reloader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times and sizes are the same when a permission is mended, or files may be opened again."""

    def fail() -> None:
        raise OSError("Permission denied")

    now = [1000.0]
    monkeypatch.setattr("webhook.server.reload.time.monotonic", lambda: now[0])
    folder.set(1, "two")
    folder.meanwhile = fail
    with structlog.testing.capture_logs() as lines:
        for later in (0, 0, RETRY_SECONDS - 1, 1):
            now[0] += later
            reloader.poll()
        assert (state.fault, folder.readings) == ("Permission denied", 3)
        folder.meanwhile = lambda: None
        now[0] += RETRY_SECONDS
        reloader.poll()
    assert (served(state), state.fault) == ("two", "")
    assert [line["event"] for line in lines] == [
        "policies not loaded, the old set stays",
        "policies loaded",
    ]


def test_what_went_away_while_it_was_read_is_no_fault(
    folder: Folder, state: ServerState, reloader: Reloader
) -> None:
    """The folder of the old ConfigMap is removed under the reader."""

    def swap() -> None:
        folder.set(2, "new")
        raise OSError("No such file or directory")

    folder.set(1, "old")
    reloader.poll()
    folder.meanwhile = swap
    with structlog.testing.capture_logs() as lines:
        reloader.poll()
        folder.meanwhile = lambda: None
        reloader.poll()
        reloader.poll()
    assert served(state) == "new"
    assert [line["event"] for line in lines] == ["policies loaded"]


def test_going_back_to_what_is_served_clears_the_fault(
    folder: Folder, state: ServerState, reloader: Reloader
) -> None:
    folder.set(1)
    reloader.poll()
    reloader.poll()
    assert state.fault == "no policy is left in the folders"
    folder.set(2, "one")
    reloader.poll()
    reloader.poll()
    assert (served(state), state.fault) == ("one", "")


def test_policies_settle_two_minutes_after_a_start_or_a_change(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("webhook.server.state.time.monotonic", lambda: now[0])
    state = ServerState(Sources(folder.read, lambda: folder.mark), ("en",))
    reloader = Reloader(state, Metrics(state, None))
    assert settled(state, now, SETTLE_SECONDS - 1) is False
    assert settled(state, now, 1) is True
    folder.set(1, "one")  # the same content in other files
    reloader.poll()
    reloader.poll()
    assert settled(state, now, 0) is True
    folder.set(2, "two")
    reloader.poll()
    reloader.poll()
    assert settled(state, now, 0) is False


def settled(state: ServerState, now: list[float], later: float) -> bool:
    now[0] += later
    return state.settled


def test_a_start_reads_again_what_changed_while_it_was_read(folder: Folder) -> None:
    def change() -> None:
        if folder.readings == 1:
            folder.set(1, "whole")

    folder.set(0, "half")
    folder.meanwhile = change
    state = ServerState(Sources(folder.read, lambda: folder.mark), ("en",))
    assert (served(state), state.fingerprint) == ("whole", 1)


def test_a_folder_that_never_rests_does_not_stop_the_start(folder: Folder) -> None:
    folder.meanwhile = lambda: folder.set(folder.readings, "restless")
    state = ServerState(Sources(folder.read, lambda: folder.mark), ("en",))
    assert folder.readings == 3
    assert state.fingerprint != folder.mark  # so the reloader reads it again


def test_many_problems_are_cut() -> None:
    problems = tuple(Problem(f"{number}.yaml", None, "bad") for number in range(MAX_PROBLEMS + 3))
    policy_set: Any = FilePolicies(())
    facts: Any = None
    lines = listed(Content(policy_set, facts, problems)).splitlines()
    assert (len(lines), lines[-1]) == (MAX_PROBLEMS + 1, "and 3 more")


def test_an_error_in_a_look_does_not_end_the_looking() -> None:
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise SystemExit
        raise ValueError("once")

    with structlog.testing.capture_logs() as lines, pytest.raises(SystemExit):
        follow(look, 0.001)
    assert [line["event"] for line in lines] == ["a regular look failed"] * 2
