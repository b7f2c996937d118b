"""The facts of a running server, from files and from what is watched."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.scripted_server import until
from tests.watch.cluster import (
    NAMESPACES,
    PRIORITIES,
    STORAGE,
    FakeCluster,
    connect,
    in_thread,
    refuse,
)
from webhook.facts import Facts, Namespace, Unknown
from webhook.watch import LiveFacts, Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PACE = Pace(interval=0.05, longest=0.25, refused=0.4, deadline=0.5, brief=0.25)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(NAMESPACES, PRIORITIES, STORAGE) as cluster:
        cluster.collections[NAMESPACES].put("a", metadata={"labels": {"x": "1"}})
        cluster.collections[PRIORITIES].put("high", value=5)
        yield cluster


@pytest.fixture
def start(cluster: FakeCluster, tmp_path: Path) -> Iterator[Callable[..., LiveFacts]]:
    """``start(*kinds, given=Facts())``: live facts that are being watched."""
    started: list[LiveFacts] = []

    def run(*kinds: str, given: Facts | None = None) -> LiveFacts:
        live = LiveFacts(connect(cluster, tmp_path), kinds, given, pace=PACE)
        live.start(in_thread)
        started.append(live)
        return live

    yield run
    for live in started:
        live.stop()


def wait_for(wanted: Callable[[], Any]) -> None:
    for _ in until(lambda: bool(wanted())):
        pass


def asked(cluster: FakeCluster) -> set[str]:
    return {request.path for request in cluster.server.requests}


def test_only_what_is_asked_for_is_watched(cluster: FakeCluster, start: Callable[..., LiveFacts]) -> None:
    live = start("Namespace", "Node")
    wait_for(lambda: live.synced("Namespace"))
    assert live.settled
    assert not live.synced("PriorityClass")
    assert not live.synced("Node")
    assert asked(cluster) == {NAMESPACES}
    assert live.facts.namespace("a") == Namespace("a", {"x": "1"}, {})
    assert live.facts.priority_class("high") == Unknown("no PriorityClass is among the facts given")


def test_nothing_is_asked_before_the_start(cluster: FakeCluster, tmp_path: Path) -> None:
    live = LiveFacts(connect(cluster, tmp_path), ["Namespace"], pace=PACE)
    assert live.facts.namespace("a") == Unknown(
        "Namespace is not known: the API server has not listed it to podgate yet"
    )
    assert cluster.server.requests == []


def test_a_change_is_seen_and_costs_only_its_kind(
    cluster: FakeCluster, start: Callable[..., LiveFacts]
) -> None:
    live = start("Namespace", "PriorityClass")
    wait_for(lambda: live.settled and live.synced("Namespace") and live.synced("PriorityClass"))
    wait_for(lambda: live.followers["Namespace"].age == 0)
    before = live.facts
    high, a = before.priority_class("high"), before.namespace("a")
    assert live.facts is before, "nothing changed"
    cluster.collections[NAMESPACES].put("b")
    wait_for(lambda: live.facts is not before)
    after = live.facts
    assert isinstance(after.namespace("b"), Namespace)
    assert isinstance(before.namespace("b"), Unknown), "facts do not change under a review"
    assert after.priority_class("high") is high
    assert after.namespace("a") is a
    assert after.tables["PriorityClass"] is before.tables["PriorityClass"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (403, "Namespace is not known: podgate may not list it in this cluster"),
        (404, "Namespace is not known: the cluster does not have this kind"),
        (500, "Namespace is not known: the API server has not listed it to podgate yet"),
    ],
)
def test_a_kind_that_cannot_be_listed_is_unknown_and_holds_nothing_up(
    cluster: FakeCluster, start: Callable[..., LiveFacts], code: int, why: str
) -> None:
    cluster.fault = refuse(code, "Why")
    live = start("Namespace")
    assert not live.settled
    wait_for(lambda: live.settled)
    assert live.facts.namespace("a") == Unknown(why)
    cluster.fault = None
    wait_for(lambda: live.facts.namespace("a") == Namespace("a", {"x": "1"}, {}))


class TestFiles:
    GIVEN = Facts.from_objects(
        [
            {"kind": "PriorityClass", "metadata": {"name": "filed"}, "value": 1},
            {"kind": "Node", "metadata": {"name": "n"}},
        ],
        "baseline",
    )

    def test_a_kind_of_files_is_not_watched(
        self, cluster: FakeCluster, start: Callable[..., LiveFacts]
    ) -> None:
        live = start("PriorityClass", "Namespace", given=self.GIVEN)
        wait_for(lambda: live.synced("Namespace"))
        assert asked(cluster) == {NAMESPACES}
        assert live.facts.priority_class("high") is None
        assert live.facts.priority_class("filed") is not None
        assert live.facts.pod_security("a") == "baseline"
        assert not isinstance(live.facts.nodes(), Unknown)

    def test_files_and_policies_change(self, cluster: FakeCluster, start: Callable[..., LiveFacts]) -> None:
        live = start("Namespace", "PriorityClass")
        wait_for(lambda: live.synced("Namespace") and live.synced("PriorityClass"))
        live.follow(["PriorityClass", "StorageClass"], self.GIVEN)
        assert not live.settled
        wait_for(lambda: live.synced("StorageClass"))
        assert set(live.followers) == {"StorageClass"}
        assert live.facts.priority_class("high") is None
        assert live.facts.storage_class("s") is None
        assert isinstance(live.facts.namespace("a"), Unknown)

    def test_a_kind_that_goes_on_being_watched_stays_known(self, start: Callable[..., LiveFacts]) -> None:
        live = start("Namespace")
        wait_for(lambda: live.synced("Namespace"))
        live.follow(["Namespace", "StorageClass"], Facts())
        assert live.facts.namespace("a") == Namespace("a", {"x": "1"}, {})


class TestLateNamespaces:
    def test_one_that_comes(self, cluster: FakeCluster, start: Callable[..., LiveFacts]) -> None:
        live = start("Namespace")
        wait_for(lambda: live.synced("Namespace"))
        known = live.facts.waiting(lambda name: live.await_namespace(name, 5.0))
        threading.Timer(0.1, cluster.collections[NAMESPACES].put, ["late"]).start()
        assert known.namespace("late") == Namespace("late", {}, {})

    @pytest.mark.parametrize("kinds", [(), ("PriorityClass",)])
    def test_no_wait_where_namespaces_are_not_watched(
        self, start: Callable[..., LiveFacts], kinds: tuple[str, ...]
    ) -> None:
        live = start(*kinds)
        began = time.monotonic()
        assert live.await_namespace("late", 5.0) is None
        assert time.monotonic() - began < 1

    def test_no_wait_before_the_first_list(
        self, cluster: FakeCluster, start: Callable[..., LiveFacts]
    ) -> None:
        cluster.fault = refuse(500, "InternalError")
        live = start("Namespace")
        began = time.monotonic()
        assert live.await_namespace("late", 5.0) is None
        assert time.monotonic() - began < 1
