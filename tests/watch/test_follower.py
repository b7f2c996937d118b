"""Following one kind, against a real HTTP server with every fault that a watch may meet; times are a twentieth."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from tests.cluster.scripted_server import Reply, Request, status, until
from tests.watch.cluster import NAMESPACES, FakeCluster, connect, in_thread, refuse
from webhook.cluster import api as api_module
from webhook.watch import WATCHED, Follower, Health, Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SCALE = 20
INTERVAL = 1 / SCALE
PACE = Pace(
    interval=INTERVAL,
    longest=5 / SCALE,
    refused=8 / SCALE,
    deadline=10 / SCALE,
    brief=5 / SCALE,
    watch=(240, 480),
    silence=90 / SCALE,
)
#: What a machine that does other things may add.
SLOW = 1.0
#: Right again so many seconds after the server's return.
RIGHT_AGAIN = 10 / SCALE + SLOW


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(NAMESPACES) as cluster:
        yield cluster


@contextmanager
def following(cluster: FakeCluster, folder: Path, **more: Any) -> Iterator[Follower]:
    follower = Follower(connect(cluster, folder), WATCHED["Namespace"], pace=more.pop("pace", PACE), **more)
    follower.start(in_thread)
    try:
        yield follower
    finally:
        follower.stop()


def wait_for(wanted: Callable[[], bool], seconds: float = 5.0) -> None:
    for _ in until(wanted, seconds):
        pass


def assert_paced(requests: list[Request]) -> None:
    """At most one request in each interval, over all of them: this machine is slow to note when one came."""
    span = requests[-1].at - requests[0].at
    assert span >= 0.9 * INTERVAL * (len(requests) - 2), (span, len(requests))


def labels(follower: Follower, name: str) -> Any:
    return follower.objects[name]["metadata"]["labels"]


def test_listed_and_watched(cluster: FakeCluster, tmp_path: Path) -> None:
    namespaces = cluster.collections[NAMESPACES]
    namespaces.put("a", metadata={"labels": {"x": "1"}})
    counted: list[tuple[str, str, str]] = []
    changes: list[int] = []
    with following(
        cluster, tmp_path, count=lambda *what: counted.append(what), changed=lambda: changes.append(1)
    ) as follower:
        wait_for(lambda: follower.synced)
        assert follower.health is Health.FOLLOWED
        namespaces.put("b")
        namespaces.put("a", metadata={"labels": {"x": "2"}})
        wait_for(lambda: "b" in follower.objects and labels(follower, "a") == {"x": "2"})
        namespaces.remove("a")
        wait_for(lambda: set(follower.objects) == {"b"})
        assert follower.age == 0
        assert len(changes) == 4
    listed, watched = cluster.server.requests
    assert dict(listed.query) == {"limit": "500"}
    assert watched.query["resourceVersion"] == "101"
    assert 240 <= int(watched.query["timeoutSeconds"]) <= 480
    assert counted == [("Namespace", "list", "200"), ("Namespace", "watch", "200")]


def test_a_list_of_many_pages(cluster: FakeCluster, tmp_path: Path) -> None:
    for index in range(1234):
        cluster.collections[NAMESPACES].put(f"n{index}")
    with following(cluster, tmp_path) as follower:
        wait_for(lambda: follower.synced)
        assert len(follower.objects) == 1234
    assert len(cluster.server.matching(NAMESPACES, watch=False)) == 3


def _events(*events: tuple[str, Any]) -> Callable[[Request, Reply], None]:
    def answer(_: Request, reply: Reply) -> None:
        reply.stream()
        for kind, item in events:
            reply.event(kind, item)
        reply.end()

    return answer


def test_a_stream_goes_on_where_the_last_one_ended(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.watch_fault = _events(
        ("ADDED", {"metadata": {"name": "b", "resourceVersion": "107"}}),
        ("BOOKMARK", {"metadata": {"resourceVersion": "120"}}),
    )
    with following(cluster, tmp_path) as follower:
        wait_for(lambda: len(cluster.server.requests) >= 4)
        assert set(follower.objects) == {"b"}
        assert follower.health is Health.FOLLOWED
    versions = [request.query["resourceVersion"] for request in cluster.server.requests[1:4]]
    assert versions == ["100", "120", "120"]
    assert_paced(cluster.server.requests)


def test_events_that_say_nothing_are_passed_over(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.watch_fault = _events(
        ("FUTURE", {"metadata": {"name": "f", "resourceVersion": "101"}}),
        ("ADDED", {"metadata": {"resourceVersion": "102"}}),
        ("ADDED", None),
        ("DELETED", {"metadata": {"name": "never seen", "resourceVersion": "103"}}),
        ("ADDED", {"metadata": {"name": "b", "resourceVersion": 7}}),
    )
    with following(cluster, tmp_path) as follower:
        wait_for(lambda: "b" in follower.objects)
        assert set(follower.objects) == {"b"}
        assert follower.fault == ""
        wait_for(lambda: len(cluster.server.requests) >= 3)
    assert cluster.server.requests[2].query["resourceVersion"] == "103"


def _cut_in_an_object(_: Request, reply: Reply) -> None:
    reply.stream()
    reply.piece(b'{"type": "ADDED", "object": {"metadata"')
    reply.cut()


def _garbage(request: Request, reply: Reply) -> None:
    if not request.is_watch:
        reply.plain(200, b"\x00\xff garbage")
        return
    reply.stream()
    reply.piece(b"\x00\xff garbage\n")
    reply.end()


def _no_list(_: Request, reply: Reply) -> None:
    """As of something in between that answers everything; taken for an empty list, it would make everything absent."""
    reply.json(200, {"status": "ok"})


def _gone_as_an_event(request: Request, reply: Reply) -> None:
    if not request.is_watch:
        reply.json(500, status(500, "InternalError", "no"))
        return
    reply.stream()
    reply.event("ERROR", status(410, "Expired", "too old resource version"))
    reply.end()


def _hang_up(_: Request, reply: Reply) -> None:
    reply.cut()


def _no_answer(_: Request, reply: Reply) -> None:
    reply.hang(RIGHT_AGAIN * 20)


FAULTS = {
    "410": refuse(410, "Expired"),
    "410 as an event": _gone_as_an_event,
    "401": refuse(401, "Unauthorized"),
    "403": refuse(403, "Forbidden"),
    "404": refuse(404, "NotFound"),
    "429": refuse(429, "TooManyRequests"),
    "429 with Retry-After": refuse(429, "TooManyRequests", Retry_After="1"),
    "500": refuse(500, "InternalError"),
    "503 with a long Retry-After": refuse(503, "ServiceUnavailable", Retry_After="3600"),
    "hangs up": _hang_up,
    "garbage": _garbage,
    "another answer": _no_list,
    "cut inside of an object": _cut_in_an_object,
    "hangs": _no_answer,
}


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "READ_SECONDS", 8 / SCALE)


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("fault", FAULTS)
def test_right_again_after_a_fault(cluster: FakeCluster, tmp_path: Path, fault: str) -> None:
    namespaces = cluster.collections[NAMESPACES]
    namespaces.put("a")
    with following(cluster, tmp_path) as follower:
        wait_for(lambda: follower.age == 0)
        before = len(cluster.server.requests)
        cluster.fault = FAULTS[fault]
        wait_for(lambda: len(cluster.server.requests) > before + 2)
        namespaces.put("b")
        assert follower.age > 0
        assert set(follower.objects) == {"a"}, "the last state is served"
        assert follower.synced
        cluster.fault = None
        wait_for(lambda: "b" in follower.objects, RIGHT_AGAIN)
        wait_for(lambda: follower.age == 0, RIGHT_AGAIN)
        assert (follower.health, follower.fault) == (Health.FOLLOWED, "")
    assert_paced(cluster.server.requests)


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_from_the_start(cluster: FakeCluster, tmp_path: Path, fault: str) -> None:
    cluster.collections[NAMESPACES].put("a")
    cluster.fault = FAULTS[fault]
    with following(cluster, tmp_path) as follower:
        assert not follower.settled
        wait_for(lambda: follower.settled, PACE.deadline * 1.5)
        assert not follower.synced
        cluster.fault = None
        wait_for(lambda: follower.synced, RIGHT_AGAIN)
    assert_paced(cluster.server.requests)


def test_a_kind_that_the_cluster_does_not_have_is_not_waited_for(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.fault = refuse(404, "NotFound")
    with following(cluster, tmp_path, pace=Pace(interval=INTERVAL, deadline=60)) as follower:
        assert not follower.settled
        wait_for(lambda: follower.settled)
    assert len(cluster.server.requests) == 2


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize(
    "fault", ["403", "404", "410", "500", "429 with Retry-After", "garbage", "cut inside of an object"]
)
def test_only_the_watch_fails(cluster: FakeCluster, tmp_path: Path, fault: str) -> None:
    cluster.watch_fault = FAULTS[fault]
    with following(cluster, tmp_path) as follower:
        wait_for(lambda: len(cluster.server.requests) > 5)
        assert follower.synced
    assert_paced(cluster.server.requests)


def test_the_server_is_restarted(cluster: FakeCluster, tmp_path: Path) -> None:
    namespaces = cluster.collections[NAMESPACES]
    namespaces.put("a")
    with following(cluster, tmp_path) as follower:
        wait_for(lambda: follower.age == 0)
        cluster.__exit__()
        namespaces.put("b")
        wait_for(lambda: follower.health is Health.FAILING)
        time.sleep(20 * INTERVAL)
        assert set(follower.objects) == {"a"}
        assert "refused" in follower.fault
        with cluster.restarted():
            wait_for(lambda: "b" in follower.objects, RIGHT_AGAIN)
            namespaces.put("c")
            wait_for(lambda: "c" in follower.objects, RIGHT_AGAIN)


def test_another_history_under_the_same_address(cluster: FakeCluster, tmp_path: Path) -> None:
    """An etcd restored from a backup: resourceVersions start again lower, and no event tells."""
    namespaces = cluster.collections[NAMESPACES]
    namespaces.put("a")
    with following(cluster, tmp_path) as follower:
        wait_for(lambda: follower.age == 0)
        cluster.fault = refuse(500, "InternalError")
        before = len(cluster.server.requests)
        namespaces.events.clear()
        namespaces.objects.clear()
        namespaces.version = 7
        wait_for(lambda: len(cluster.server.requests) > before + 3)
        cluster.fault = None
        wait_for(lambda: not follower.objects, RIGHT_AGAIN)


def test_silence_is_no_fault_but_opens_the_stream_anew(cluster: FakeCluster, tmp_path: Path) -> None:
    pace = replace(PACE, silence=0.3)
    with (
        structlog.testing.capture_logs() as logs,
        following(cluster, tmp_path, pace=pace) as follower,
    ):
        wait_for(lambda: len(cluster.server.matching(NAMESPACES, watch=True)) > 2)
        assert follower.fault == ""
    assert [line["event"] for line in logs] == ["facts known"]
    assert len(cluster.server.matching(NAMESPACES, watch=False)) == 1


def test_a_stream_that_always_ends_at_once_is_asked_for_less_and_less(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.watch_fault = _events()
    with following(cluster, tmp_path) as follower:
        time.sleep(1.0)
        assert follower.fault == ""
    assert 3 <= len(cluster.server.requests) <= 9


def test_a_stream_that_breaks_and_goes_on_is_no_news(cluster: FakeCluster, tmp_path: Path) -> None:
    """As behind a balancer that cuts idle connections."""
    streams: list[Request] = []

    def cut_twice(request: Request, reply: Reply) -> None:
        streams.append(request)
        reply.stream()
        reply.event("BOOKMARK", {"metadata": {"resourceVersion": "100"}})
        if len(streams) > 2:
            cluster.watch_fault = None
            reply.hang(1)
        reply.cut()

    cluster.watch_fault = cut_twice
    with structlog.testing.capture_logs() as logs, following(cluster, tmp_path) as follower:
        wait_for(lambda: len(streams) > 2)
        assert follower.health is Health.FOLLOWED
    assert [line["event"] for line in logs] == ["facts known"]


def test_one_line_for_each_change_of_state(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.collections[NAMESPACES].put("a")
    with structlog.testing.capture_logs() as logs, following(cluster, tmp_path) as follower:
        wait_for(lambda: follower.age == 0)
        for fault in (refuse(500, "InternalError"), refuse(403, "Forbidden")):
            before = len(cluster.server.requests)
            cluster.fault = fault
            wait_for(lambda before=before: len(cluster.server.requests) > before + 3)  # type: ignore[misc]
        cluster.fault = None
        wait_for(lambda: follower.age == 0)
    said = [(line["event"], line["log_level"], line["kind"]) for line in logs]
    assert said[0] == ("facts known", "info", "Namespace")
    assert said[1:-1] == [("facts not followed", "warning", "Namespace")] * len(said[1:-1])
    assert len(said[1:-1]) <= 3  # the cut stream, 500, 403
    assert "403 Forbidden" in logs[-2]["error"]
    assert logs[-2]["served"] == "the last state"
    assert said[-1] == ("facts right again", "info", "Namespace")


def test_an_error_of_ours_does_not_end_it(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [RuntimeError("bug")]
    list_it = Follower._list

    def once(self: Follower) -> None:
        if faults:
            raise faults.pop()
        list_it(self)

    monkeypatch.setattr(Follower, "_list", once)
    with structlog.testing.capture_logs() as logs, following(cluster, tmp_path) as follower:
        wait_for(lambda: follower.synced)
    assert logs[0]["event"] == "a watch failed: this is a bug"


def test_an_error_of_ours_that_stays_is_a_fault(cluster: FakeCluster, tmp_path: Path) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("bug")

    cluster.collections[NAMESPACES].put("a")
    resource = replace(WATCHED["Namespace"], reduce=broken)
    follower = Follower(connect(cluster, tmp_path), resource, pace=PACE)
    with structlog.testing.capture_logs():
        follower.step()
    assert not follower.synced
    assert (follower.health, follower.fault) == (Health.FAILING, "podgate has a bug: see its log")


def test_after_its_end_nothing_is_asked(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.fault = refuse(500, "InternalError")
    with following(cluster, tmp_path):
        wait_for(lambda: len(cluster.server.requests) > 1)
    time.sleep(2 * INTERVAL)
    asked = len(cluster.server.requests)
    time.sleep(10 * INTERVAL)
    assert len(cluster.server.requests) == asked


class TestAwaitedObjects:
    def test_one_that_comes(self, cluster: FakeCluster, tmp_path: Path) -> None:
        with following(cluster, tmp_path) as follower:
            wait_for(lambda: follower.age == 0)
            threading.Timer(0.1, cluster.collections[NAMESPACES].put, ["late"]).start()
            began = time.monotonic()
            found = follower.await_object("late", 5.0)
            assert time.monotonic() - began < 2
            assert found == {"metadata": {"name": "late", "labels": {}, "annotations": {}}}

    def test_one_that_comes_with_a_list(self, cluster: FakeCluster, tmp_path: Path) -> None:
        cluster.watch_fault = refuse(410, "Expired")
        with following(cluster, tmp_path) as follower:
            wait_for(lambda: follower.synced)
            threading.Timer(0.1, cluster.collections[NAMESPACES].put, ["late"]).start()
            assert follower.await_object("late", 5.0) is not None

    def test_one_that_does_not_come(self, cluster: FakeCluster, tmp_path: Path) -> None:
        with following(cluster, tmp_path) as follower:
            wait_for(lambda: follower.synced)
            began = time.monotonic()
            assert follower.await_object("never", 0.1) is None
            assert 0.1 <= time.monotonic() - began < 1


def test_in_true_time(cluster: FakeCluster, tmp_path: Path) -> None:
    """With the times of production: at most one request a second, and right again within 10 s."""
    namespaces = cluster.collections[NAMESPACES]
    with following(cluster, tmp_path, pace=Pace()) as follower:
        wait_for(lambda: follower.age == 0)
        cluster.fault = refuse(500, "InternalError")
        time.sleep(4)
        cluster.fault = lambda _, reply: reply.hang(60)
        before = len(cluster.server.requests)
        wait_for(lambda: len(cluster.server.requests) > before, 8)
        namespaces.put("b")
        cluster.fault = None
        wait_for(lambda: "b" in follower.objects, 10)
    gaps = [later.at - earlier.at for earlier, later in pairwise(cluster.server.requests)]
    assert all(gap >= 0.9 for gap in gaps), gaps
