"""What a worker makes of a cluster: policies under a pause, facts that are awaited, readiness, metrics."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.scripted_server import until
from tests.policy.loading import policy
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
from webhook.policy import load_policy_set
from webhook.rules.base import Mode
from webhook.server.app import create_app
from webhook.server.deadline import Deadline
from webhook.server.live import MAX_WAITING_BYTES, LiveCluster, Waiting
from webhook.server.metrics import Metrics
from webhook.server.reload import Reloader
from webhook.server.state import Content, ServerState, Sources
from webhook.watch import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAUSES = "/api/v1/namespaces/ours/configmaps"
PACE = Pace(interval=0.05, longest=0.25, refused=0.4, deadline=0.5, brief=0.25)
SOON = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
BY_WORKSPACE = policy("workspaces: [w]", spec="mode: enforce")
ABOUT_STORAGE = policy(rules="- name: r\n  checkStorage:\n    refuse: [localClass]", spec="mode: enforce")


def content(*files: str, facts: Facts | None = None) -> Content:
    loaded = load_policy_set([(f"{index}.yaml", text.encode()) for index, text in enumerate(files)])
    assert not [str(problem) for problem in loaded.problems if not problem.is_warning]
    return Content(loaded.policy_set, facts or Facts(), loaded.problems)


class Worker:
    """A worker without its process: state, metrics, application and what it watches."""

    def __init__(self, cluster: FakeCluster, folder: Path, pace: Pace = PACE) -> None:
        self.next = content(BY_WORKSPACE)
        self.mark = 0
        self.state = ServerState(Sources(lambda: self.next, lambda: self.mark), ("en",))
        self.metrics = Metrics(self.state, None)
        self.live = LiveCluster(
            connect(cluster, folder), "ours", self.state.content, self.metrics.count_api_request, pace
        )
        self.state.live = self.live
        self.client = create_app(self.state, self.metrics).test_client()
        self.live.start(in_thread)

    def readyz(self) -> tuple[int, Any]:
        answer = self.client.get("/readyz")
        return answer.status_code, json.loads(answer.data)

    def series(self, name: str) -> list[str]:
        lines = self.metrics.exposition().decode().splitlines()
        return [line for line in lines if line.startswith(f"podgate_{name}")]

    def load(self, content: Content) -> None:
        """As the reloader does, after two looks."""
        self.next, self.mark = content, self.mark + 1
        Reloader(self.state, self.metrics).catch_up()

    def in_force(self) -> tuple[Any, Facts]:
        return self.state.in_force(datetime.now(UTC), Deadline(2.0), 1000)

    def stop(self) -> None:
        self.live.facts.stop()
        self.live.pause.follower.stop()


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(NAMESPACES, PRIORITIES, STORAGE, PAUSES) as cluster:
        cluster.collections[NAMESPACES].put("a")
        yield cluster


@pytest.fixture
def worker(cluster: FakeCluster, tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(cluster, tmp_path)
    yield worker
    worker.stop()


def wait_for(wanted: Callable[[], Any], seconds: float = 5.0) -> None:
    for _ in until(lambda: bool(wanted()), seconds):
        pass


class TestReadiness:
    def test_ready_when_everything_is_known(self, worker: Worker) -> None:
        wait_for(lambda: worker.readyz()[0] == 200)
        wait_for(lambda: worker.live.facts.followers["Namespace"].age == 0)
        wait_for(lambda: worker.live.pause.follower.age == 0)
        said = worker.readyz()[1]
        known = {"synced": True, "ageSeconds": 0.0, "fault": ""}
        assert said["facts"] == {"Namespace": known, "PriorityClass": known}
        assert said["pause"] == {**known, "paused": False, "broken": ""}

    def test_not_ready_while_nothing_is_known_then_ready_with_unknowns(
        self, cluster: FakeCluster, tmp_path: Path
    ) -> None:
        cluster.fault = refuse(403, "Forbidden")
        worker = Worker(cluster, tmp_path)
        assert worker.readyz()[0] == 503
        wait_for(lambda: worker.readyz()[0] == 200)
        said = worker.readyz()[1]["facts"]["Namespace"]
        assert said["synced"] is False
        assert "403 Forbidden" in said["fault"]
        assert isinstance(worker.in_force()[1].namespace("a"), Unknown)
        worker.stop()

    def test_it_stays_ready_when_the_api_server_goes(self, cluster: FakeCluster, worker: Worker) -> None:
        wait_for(lambda: worker.readyz()[0] == 200)
        cluster.__exit__()
        wait_for(lambda: worker.readyz()[1]["facts"]["Namespace"]["ageSeconds"] > 0.2)
        code, said = worker.readyz()
        assert code == 200
        assert "refused" in said["facts"]["Namespace"]["fault"]
        assert worker.in_force()[1].namespace("a") == Namespace("a", {}, {}), "the last state is served"


class TestReload:
    def test_a_kind_that_new_policies_ask_about_is_known_before_they_are_served(
        self, cluster: FakeCluster, worker: Worker
    ) -> None:
        cluster.collections[STORAGE].put("fast", provisioner="p")
        wait_for(lambda: worker.readyz()[0] == 200)
        worker.load(content(ABOUT_STORAGE))
        policy_set, facts = worker.in_force()
        assert policy_set is worker.next.policy_set
        assert facts.storage_class("fast")
        assert set(worker.live.facts.followers) == {"StorageClass"}

    def test_one_that_cannot_be_known_holds_new_policies_up_for_the_deadline_only(
        self, cluster: FakeCluster, worker: Worker
    ) -> None:
        wait_for(lambda: worker.readyz()[0] == 200)
        cluster.fault = refuse(403, "Forbidden")
        began = time.monotonic()
        worker.load(content(ABOUT_STORAGE))
        assert PACE.deadline <= time.monotonic() - began < 5
        assert isinstance(worker.in_force()[1].storage_class("fast"), Unknown)

    def test_facts_of_new_files_win(self, worker: Worker) -> None:
        wait_for(lambda: worker.readyz()[0] == 200)
        filed = Facts.from_objects([{"kind": "Namespace", "metadata": {"name": "filed"}}])
        worker.load(content(BY_WORKSPACE, facts=filed))
        assert set(worker.live.facts.followers) == {"PriorityClass"}
        facts = worker.in_force()[1]
        assert isinstance(facts.namespace("filed"), Namespace)
        assert isinstance(facts.namespace("a"), Unknown)


class TestPause:
    def _modes(self, worker: Worker) -> list[Mode]:
        return [each.mode for each in worker.in_force()[0].policies]

    def test_policies_only_audit_while_it_lasts(self, cluster: FakeCluster, worker: Worker) -> None:
        wait_for(lambda: worker.readyz()[0] == 200)
        assert self._modes(worker) == [Mode.ENFORCE]
        assert worker.series("paused") == ["podgate_paused 0.0"]
        cluster.collections[PAUSES].put("podgate-pause", data={"until": SOON, "by": "ann"})
        wait_for(lambda: self._modes(worker) == [Mode.AUDIT])
        paused = worker.in_force()[0]
        assert paused is worker.in_force()[0], "made once"
        assert paused.hash == worker.state.content.policy_set.hash
        assert worker.series("paused") == ["podgate_paused 1.0"]
        said = worker.readyz()[1]["pause"]
        assert (said["paused"], said["by"]) == (True, "ann")
        later = datetime.now(UTC) + timedelta(hours=2)
        assert worker.state.in_force(later, Deadline(2.0), 1000)[0] is worker.state.content.policy_set, (
            "it ends by itself"
        )
        cluster.collections[PAUSES].remove("podgate-pause")
        wait_for(lambda: self._modes(worker) == [Mode.ENFORCE])

    def test_policies_loaded_meanwhile_are_paused_too(self, cluster: FakeCluster, worker: Worker) -> None:
        cluster.collections[PAUSES].put("podgate-pause", data={"until": SOON})
        wait_for(lambda: self._modes(worker) == [Mode.AUDIT])
        worker.load(content(ABOUT_STORAGE))
        assert self._modes(worker) == [Mode.AUDIT]
        assert worker.in_force()[0].hash == worker.next.policy_set.hash

    def test_a_broken_one(self, cluster: FakeCluster, worker: Worker) -> None:
        cluster.collections[PAUSES].put("podgate-pause", data={"until": "soon"})
        wait_for(lambda: worker.series("pause_broken") == ["podgate_pause_broken 1.0"])
        assert self._modes(worker) == [Mode.ENFORCE]
        assert "soon" in worker.readyz()[1]["pause"]["broken"]


class TestBeforeEverythingIsKnown:
    """As a worker begins that replaces another in a pod that is ready."""

    def test_a_review_waits_for_the_cluster_and_the_pause(self, cluster: FakeCluster, tmp_path: Path) -> None:
        cluster.collections[PAUSES].put("podgate-pause", data={"until": SOON})
        cluster.fault = cluster.slow(0.2)
        worker = Worker(cluster, tmp_path)
        policy_set, facts = worker.in_force()
        worker.stop()
        assert facts.namespace("a") == Namespace("a", {}, {})
        assert [each.mode for each in policy_set.policies] == [Mode.AUDIT]

    def test_for_half_of_its_time(self, cluster: FakeCluster, tmp_path: Path) -> None:
        cluster.fault = lambda _, reply: reply.hang()
        worker = Worker(cluster, tmp_path, replace(PACE, deadline=60))
        began = time.monotonic()
        facts = worker.state.in_force(datetime.now(UTC), Deadline(2), 1000)[1]
        assert 1 <= time.monotonic() - began < 1.9
        worker.stop()
        assert isinstance(facts.namespace("a"), Unknown)


def test_a_namespace_of_a_moment_ago_is_awaited(cluster: FakeCluster, worker: Worker) -> None:
    wait_for(lambda: worker.readyz()[0] == 200)
    facts = worker.in_force()[1]
    threading.Timer(0.1, cluster.collections[NAMESPACES].put, ["late"]).start()
    assert facts.namespace("late") == Namespace("late", {}, {})


def test_a_namespace_that_does_not_come_takes_half_of_the_time(worker: Worker) -> None:
    wait_for(lambda: worker.readyz()[0] == 200)
    began = time.monotonic()
    facts = worker.state.in_force(datetime.now(UTC), Deadline(1.0), 1000)[1]
    for _ in range(3):
        assert isinstance(facts.namespace("never"), Unknown)
    assert 0.5 <= time.monotonic() - began < 0.9


def test_more_reviews_than_may_wait_do_not(cluster: FakeCluster, worker: Worker) -> None:
    wait_for(lambda: worker.readyz()[0] == 200)
    worker.live.waiting = Waiting(1)
    first, second = (worker.state.in_force(datetime.now(UTC), Deadline(2.0), 1000)[1] for _ in range(2))
    waiting = threading.Thread(target=first.namespace, args=["never"])
    waiting.start()
    wait_for(lambda: worker.live.waiting.reviews == 1)
    cluster.collections[NAMESPACES].put("late")
    wait_for(lambda: "late" in worker.live.facts.followers["Namespace"].objects)
    began = time.monotonic()
    assert isinstance(second.namespace("never"), Unknown)
    assert second.namespace("late") == Namespace("late", {}, {}), "it is there"
    assert time.monotonic() - began < 0.5
    waiting.join()
    assert worker.live.waiting.reviews == 0


def test_who_may_wait() -> None:
    waiting = Waiting(3)
    with waiting.place(MAX_WAITING_BYTES) as largest, waiting.place(1) as more:
        assert (largest, more) == (True, False)
    with waiting.place(MAX_WAITING_BYTES + 1) as too_large:
        assert not too_large
    with (
        waiting.place(1) as one,
        waiting.place(1) as two,
        waiting.place(1) as three,
        waiting.place(1) as four,
    ):
        assert (one, two, three, four) == (True, True, True, False)
    assert (waiting.reviews, waiting.bytes) == (0, 0)


def test_metrics(cluster: FakeCluster, worker: Worker) -> None:
    wait_for(lambda: worker.readyz()[0] == 200)
    wait_for(lambda: worker.live.facts.followers["Namespace"].age == 0)
    wait_for(lambda: worker.live.facts.followers["PriorityClass"].age == 0)
    assert worker.series("facts_") == [
        'podgate_facts_synced{kind="Namespace"} 1.0',
        'podgate_facts_synced{kind="PriorityClass"} 1.0',
        'podgate_facts_age_seconds{kind="Namespace"} 0.0',
        'podgate_facts_age_seconds{kind="PriorityClass"} 0.0',
    ]
    cluster.fault = refuse(429, "TooManyRequests")
    wait_for(
        lambda: any(
            'code="429",kind="Namespace",verb="watch"' in line for line in worker.series("api_requests")
        )
    )
    assert 'podgate_api_requests_total{code="200",kind="Namespace",verb="list"} 1.0' in worker.series(
        "api_requests"
    )
