"""The Lease is held, kept, lost and given back."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from tests.controller.cluster_in_memory import Cluster, FakeApi
from tests.controller.parts import NAMESPACE
from webhook.cluster import Api, ApiError
from webhook.controller import leadership as module
from webhook.controller.leadership import Leadership, NotLeaderError
from webhook.controller.lease import ACT_SECONDS, RENEW_SECONDS

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/podgate-controller"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def candidate(cluster: Cluster, identity: str, **faults: Any) -> Leadership:
    return Leadership(cast("Api", FakeApi(cluster, **faults)), NAMESPACE, identity)


def holder(cluster: Cluster) -> str:
    return str(cluster[LEASE]["spec"]["holderIdentity"])


def test_the_first_leads_and_the_second_stands_by(cluster: Cluster) -> None:
    first, second = candidate(cluster, "a"), candidate(cluster, "b")
    assert first.attempt() == RENEW_SECONDS
    assert second.attempt() == RENEW_SECONDS
    assert (first.leads, second.leads) == (True, False)
    first.check()
    with pytest.raises(NotLeaderError, match="the Lease is not ours any more"):
        second.check()


def test_one_that_stops_gives_it_back_and_the_other_takes_over_at_once(cluster: Cluster) -> None:
    first, second = candidate(cluster, "a"), candidate(cluster, "b")
    first.attempt()
    second.attempt()
    first.stop()
    assert (first.leads, holder(cluster)) == (False, "")
    second.attempt()
    assert (second.leads, holder(cluster)) == (True, "b")


def test_one_that_stops_without_leading_writes_nothing(cluster: Cluster) -> None:
    first, second = candidate(cluster, "a"), candidate(cluster, "b")
    first.attempt()
    second.attempt()
    second.stop()
    assert holder(cluster) == "a"


def test_a_leader_whose_renewals_fail_stops_acting(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = False

    def fail(_method: str, _path: str) -> None:
        if broken:
            raise ApiError("no answer", status=0)

    leader = candidate(cluster, "a", before=fail)
    leader.attempt()
    broken = True
    with pytest.raises(ApiError):
        leader.attempt()
    assert leader.leads
    later = time.monotonic() + ACT_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert not leader.leads


def test_one_of_two_that_begin_together_leads(cluster: Cluster) -> None:
    """The second's Lease is there already when it wants to make it."""
    first = candidate(cluster, "a")

    def meanwhile(method: str, _path: str) -> None:
        if method == "POST" and cluster.find(LEASE) is None:
            first.attempt()

    second = candidate(cluster, "b", before=meanwhile)
    with pytest.raises(ApiError, match="already exists"):
        second.attempt()
    assert (first.leads, second.leads) == (True, False)


def test_it_follows_in_a_thread_and_says_a_fault_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, lines: list[Any]
) -> None:
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    calls = 0

    def fail(_method: str, _path: str) -> None:
        nonlocal calls
        calls += 1
        if calls < 4:
            raise ApiError("no answer", status=0)

    leader = candidate(cluster, "a", before=fail)
    leader.start()
    end = time.monotonic() + 5
    while not leader.leads and time.monotonic() < end:
        time.sleep(0.01)
    leader.stop()
    assert holder(cluster) == ""
    events = [line["event"] for line in lines]
    assert events.count("the Lease could not be renewed") == 1
    assert events.count("leading") == 1


def test_a_lease_that_cannot_be_given_back_runs_out(cluster: Cluster, lines: list[Any]) -> None:
    broken = False

    def fail(_method: str, _path: str) -> None:
        if broken:
            raise ApiError("no answer", status=0)

    leader = candidate(cluster, "a", before=fail)
    leader.attempt()
    broken = True
    leader.stop()
    assert not leader.leads
    assert [line["fault"] for line in lines if "given back" in line["event"]] == ["no answer"]
