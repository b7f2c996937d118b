"""The pause, as it is written with kubectl, changed, broken and over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from tests.cluster.scripted_server import until
from tests.watch.cluster import FakeCluster, connect, in_thread
from webhook.watch import Pace, PauseWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATH = "/api/v1/namespaces/ours/configmaps"
PACE = Pace(interval=0.05, longest=0.25, refused=0.4, deadline=0.5, brief=0.25)
NOW = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
DATA = {"until": "2026-12-01T20:00:00Z", "reason": "a queue is stuck", "by": "ann"}
AFTER = NOW + timedelta(hours=2)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(PATH) as cluster:
        yield cluster


@pytest.fixture
def pause(cluster: FakeCluster, tmp_path: Path) -> Iterator[PauseWatch]:
    pause = PauseWatch(connect(cluster, tmp_path), "ours", pace=PACE)
    pause.start(in_thread)
    wait_for(lambda: pause.follower.synced and pause.follower.age == 0)
    yield pause
    pause.follower.stop()


def wait_for(wanted: Callable[[], Any]) -> None:
    for _ in until(lambda: bool(wanted())):
        pass


def order(cluster: FakeCluster, **data: str) -> None:
    cluster.collections[PATH].put("podgate-pause", data=data)


def test_only_the_one_object_is_asked_for(cluster: FakeCluster, pause: PauseWatch) -> None:
    assert pause.in_force(NOW) is None
    assert [r.query["fieldSelector"] for r in cluster.server.requests] == ["metadata.name=podgate-pause"] * 2


def test_it_holds_until_its_end(cluster: FakeCluster, pause: PauseWatch) -> None:
    order(cluster, **DATA)
    wait_for(lambda: pause.in_force(NOW))
    ordered = pause.in_force(NOW)
    assert ordered is not None
    assert (ordered.policies, ordered.reason, ordered.by) == (None, "a queue is stuck", "ann")
    assert pause.in_force(AFTER - timedelta(seconds=1)) is ordered
    assert pause.in_force(AFTER) is None


def test_it_is_taken_back(cluster: FakeCluster, pause: PauseWatch) -> None:
    order(cluster, **DATA)
    wait_for(lambda: pause.in_force(NOW))
    cluster.collections[PATH].remove("podgate-pause")
    wait_for(lambda: pause.in_force(NOW) is None)


def test_a_broken_one_is_said_and_ignored(cluster: FakeCluster, pause: PauseWatch) -> None:
    order(cluster, **DATA)
    wait_for(lambda: pause.in_force(NOW))
    with structlog.testing.capture_logs() as logs:
        order(cluster, **{**DATA, "until": "tomorrow"})
        wait_for(lambda: pause.fault)
    assert "tomorrow" in pause.fault
    assert pause.in_force(NOW) is None
    assert [(line["event"], line["error"]) for line in logs] == [
        ("the pause is not understood and ignored", pause.fault)
    ]
    order(cluster, **DATA)
    wait_for(lambda: pause.in_force(NOW))
    assert pause.fault == ""


def test_one_that_was_written_for_too_long_is_known_by_its_metadata(
    cluster: FakeCluster, pause: PauseWatch
) -> None:
    metadata = {"creationTimestamp": "2026-11-01T00:00:00Z"}
    cluster.collections[PATH].put("podgate-pause", data=DATA, metadata=metadata)
    wait_for(lambda: pause.fault)


def test_each_change_is_told_once(cluster: FakeCluster, pause: PauseWatch) -> None:
    with structlog.testing.capture_logs() as logs:
        pause.tell(NOW)
        order(cluster, **DATA)
        wait_for(lambda: pause.in_force(NOW))
        for _ in range(2):
            pause.tell(NOW)
        order(cluster, **{**DATA, "policies": "b,a"})
        wait_for(lambda: (found := pause.in_force(NOW)) and found.policies)
        for moment in (NOW, AFTER, AFTER):
            pause.tell(moment)
    assert [(line["event"], line.get("policies"), line.get("until")) for line in logs] == [
        ("paused", "*", "2026-12-01T20:00:00Z"),
        ("paused", "a,b", "2026-12-01T20:00:00Z"),
        ("the pause is over: policies do again what they say", None, None),
    ]
