"""The loop goes on, whatever a look at the cluster comes to."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from webhook.cluster import ApiError
from webhook.controller.certificates import CertificatesError
from webhook.controller.leadership import NotLeaderError
from webhook.controller.loop import (
    FIRST_PAUSE_SECONDS,
    INTERVAL_SECONDS,
    JITTER,
    LONGEST_PAUSE_SECONDS,
    SOON_SECONDS,
    STANDBY_SECONDS,
    Loop,
)
from webhook.controller.metrics import Metrics
from webhook.controller.reconcile import Result

if TYPE_CHECKING:
    from webhook.controller.leadership import Leadership


class Leading:
    leads = True


class Looks:
    """What each look comes to, the last for ever."""

    def __init__(self, *outcomes: Result | Exception) -> None:
        self.outcomes = list(outcomes)
        self.calls = 0

    def __call__(self) -> Result:
        self.calls += 1
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def loop(looks: Looks, metrics: Metrics | None = None, leading: Any = None) -> Loop:
    leadership = cast("Leadership", leading or Leading())
    return Loop(looks, leadership, metrics or Metrics(), threading.Event())


def about(seconds: float) -> Any:
    return pytest.approx(seconds, rel=JITTER + 1e-9)


def counted(metrics: Metrics, result: str) -> float | None:
    return metrics.registry.get_sample_value("podgate_controller_reconciliations_total", {"result": result})


@pytest.mark.parametrize(
    ("result", "seconds", "counts_as"),
    [
        pytest.param(Result.UNCHANGED, about(INTERVAL_SECONDS), "success", id="nothing to do"),
        pytest.param(Result.PAUSED, about(INTERVAL_SECONDS), "paused", id="paused"),
        pytest.param(Result.CHANGED, SOON_SECONDS, "success", id="the next step may be due at once"),
    ],
)
def test_how_long_until_the_next(result: Result, seconds: float, counts_as: str) -> None:
    metrics = Metrics()
    assert loop(Looks(result), metrics).turn() == seconds
    assert counted(metrics, counts_as) == 1


def test_who_does_not_lead_only_waits() -> None:
    metrics, looks = Metrics(), Looks(Result.UNCHANGED)

    class Following:
        leads = False

    assert loop(looks, metrics, Following()).turn() == STANDBY_SECONDS
    assert looks.calls == 0
    assert metrics.registry.get_sample_value("podgate_controller_leader") == 0


def test_one_who_lost_the_lease_in_the_middle_is_at_no_fault() -> None:
    metrics = Metrics()
    assert loop(Looks(NotLeaderError()), metrics).turn() == STANDBY_SECONDS
    assert counted(metrics, "error") == 0


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ApiError("no answer", status=0), id="the API server"),
        pytest.param(CertificatesError("no file"), id="a file"),
        pytest.param(ZeroDivisionError("ours"), id="a fault of ours"),
    ],
)
def test_faults_are_met_with_patience_and_said_once(error: Exception, lines: list[Any]) -> None:
    metrics = Metrics()
    ours = loop(Looks(error), metrics)
    pauses = [ours.turn() for _ in range(8)]
    expected = [min(FIRST_PAUSE_SECONDS * 2**each, LONGEST_PAUSE_SECONDS) for each in range(8)]
    assert pauses == [about(each) for each in expected]
    assert counted(metrics, "error") == 8
    faults = [line["fault"] for line in lines if "fault" in line]
    assert faults == ["ZeroDivisionError" if isinstance(error, ZeroDivisionError) else str(error)]


def test_a_server_that_asks_for_more_patience_gets_it() -> None:
    assert loop(Looks(ApiError("busy", status=429, retry_after=120.0))).turn() == 120.0


def test_after_a_success_patience_begins_anew(lines: list[Any]) -> None:
    fault = ApiError("no answer", status=0)
    ours = loop(Looks(fault, fault, Result.UNCHANGED, fault))
    assert [ours.turn() for _ in range(4)] == [about(each) for each in (2.0, 4.0, 10.0, 2.0)]
    assert [line["event"] for line in lines if "again" in line["event"]] == [
        "a look at the cluster failed, it is tried again",
        "a look at the cluster succeeded again",
        "a look at the cluster failed, it is tried again",
    ]


def test_it_ends_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, looks = threading.Event(), Looks(Result.UNCHANGED)
    ours = Loop(looks, cast("Leadership", Leading()), Metrics(), stop)
    thread = threading.Thread(target=ours.run)
    thread.start()
    while not looks.calls:
        time.sleep(0.01)
    assert ours.is_alive
    stop.set()
    thread.join(5)
    assert not thread.is_alive()


def test_a_loop_that_hangs_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = loop(Looks(Result.UNCHANGED))
    later = time.monotonic() + 301
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert not ours.is_alive
