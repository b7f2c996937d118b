"""Two never act at once, whatever clocks they have, and however slow and lost calls are."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.controller.lease import (
    ACT_SECONDS,
    DURATION_SECONDS,
    RENEW_SECONDS,
    Action,
    Candidate,
    Hold,
    Look,
    held,
    lease_object,
    next_step,
    saw,
)

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def lease(holder: str, version: int = 1, duration: object = DURATION_SECONDS) -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": str(version)},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": duration},
    }


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        pytest.param(
            Candidate("a", "1", "b", 30, seen_at=90.0), Look(RENEW_SECONDS), id="another's, seen 10 s ago"
        ),
        pytest.param(
            Candidate("a", "1", "b", 30, seen_at=70.5), Look(0.5), id="half a second before its end"
        ),
        pytest.param(Candidate("a", "1", "b", 30, seen_at=70.0), Hold(), id="nobody renewed it"),
        pytest.param(Candidate("a", "1", "", 1, seen_at=100.0), Hold(), id="given back"),
        pytest.param(Candidate("a"), Hold(), id="there is none"),
        pytest.param(Candidate("a", "1", "a", 30, seen_at=100.0), Hold(), id="our own is renewed"),
    ],
)
def test_what_comes_next(candidate: Candidate, expected: Action) -> None:
    assert next_step(candidate, 100.0) == expected


def test_a_leader_acts_for_a_while_after_its_renewal_began() -> None:
    leader = held(Candidate("a"), lease("a"), begun=100.0)
    assert [leader.leads(at) for at in (99.9, 100.0, 114.9, 115.0)] == [False, True, True, False]


def test_who_sees_another_as_the_holder_does_not_lead() -> None:
    leader = held(Candidate("a"), lease("a", 1), begun=100.0)
    assert not saw(leader, lease("b", 2), 101.0).leads(101.0)
    assert not saw(leader, None, 101.0).leads(101.0)
    assert saw(leader, lease("a", 1), 101.0).leads(101.0)


@pytest.mark.parametrize("duration", [None, 0, -5, "30", True, 1.5])
def test_a_duration_that_is_none_counts_as_ours(duration: object) -> None:
    assert saw(Candidate("a"), lease("b", duration=duration), 0.0).duration == DURATION_SECONDS


def test_a_new_lease() -> None:
    assert lease_object(None, name="x", namespace="ns", holder="a", now=NOW) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "x", "namespace": "ns"},
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 30,
            "acquireTime": "2026-12-01T12:00:00.000000Z",
            "renewTime": "2026-12-01T12:00:00.000000Z",
            "leaseTransitions": 1,
        },
    }


@pytest.mark.parametrize(
    ("holder", "spec"),
    [
        pytest.param(
            "a", {"acquireTime": "then", "leaseTransitions": 4, "leaseDurationSeconds": 30}, id="renewed"
        ),
        pytest.param(
            "b",
            {"acquireTime": "2026-12-01T12:00:00.000000Z", "leaseTransitions": 5, "leaseDurationSeconds": 30},
            id="taken over",
        ),
        pytest.param(
            "",
            {"acquireTime": "2026-12-01T12:00:00.000000Z", "leaseTransitions": 4, "leaseDurationSeconds": 1},
            id="given back",
        ),
    ],
)
def test_a_lease_that_is_there(holder: str, spec: dict[str, Any]) -> None:
    stored = {
        "metadata": {"name": "x", "resourceVersion": "7", "labels": {"theirs": "stays"}},
        "spec": {"holderIdentity": "a", "acquireTime": "then", "leaseTransitions": 4},
    }
    made = lease_object(stored, name="x", namespace="ns", holder=holder, now=NOW)
    assert made["metadata"] == stored["metadata"]
    assert made["spec"] == {"holderIdentity": holder, "renewTime": "2026-12-01T12:00:00.000000Z", **spec}


@dataclass
class Server:
    """Holds one Lease."""

    version: int = 0
    holder: str = ""
    exists: bool = False

    def read(self) -> dict[str, Any] | None:
        return lease(self.holder, self.version) if self.exists else None

    def write(self, holder: str, version: str) -> bool:
        if version != (str(self.version) if self.exists else ""):
            return False
        self.version, self.holder, self.exists = self.version + 1, holder, True
        return True


@dataclass
class Contender:
    """A candidate with a clock of its own, one call at a time; its answers may be lost."""

    identity: str
    offset: float
    candidate: Candidate = field(init=False)
    begun: float | None = None

    def __post_init__(self) -> None:
        self.candidate = Candidate(self.identity)

    def leads(self, now: float) -> bool:
        return self.candidate.leads(now + self.offset)

    def look(self, server: Server, now: float) -> None:
        self.candidate = saw(self.candidate, server.read(), now + self.offset)
        self.begun = now + self.offset if next_step(self.candidate, now + self.offset) == Hold() else None

    def hold(self, server: Server, *, answer_arrives: bool) -> None:
        """Comes to the server at some time after it was sent."""
        if self.begun is None:
            return
        if server.write(self.identity, self.candidate.version) and answer_arrives:
            self.candidate = held(self.candidate, server.read() or {}, self.begun)
        self.begun = None


moves = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["look", "hold", "lost", "crash", "release"]),
        st.sampled_from([0.0, 0.1, 1.0, 4.9, 14.9, 15.0, 29.9, 30.1]),
    ),
    max_size=80,
)


@given(moves, st.lists(st.floats(0, 1e6), min_size=3, max_size=3))
def test_never_two(todo: list[tuple[int, str, float]], offsets: list[float]) -> None:
    server, now = Server(), 1000.0
    contenders = [Contender(f"c{number}", offset) for number, offset in enumerate(offsets)]
    for which, what, seconds in todo:
        contender = contenders[which]
        if what == "look":
            contender.look(server, now)
        elif what == "crash":
            contenders[which] = Contender(f"{contender.identity}'", contender.offset)
        elif what == "release" and contender.leads(now):
            server.write("", contender.candidate.version)
            contender.candidate = Candidate(contender.identity)
        elif what in {"hold", "lost"}:
            contender.hold(server, answer_arrives=what == "hold")
        assert sum(each.leads(now) for each in contenders) <= 1
        now += seconds
        assert sum(each.leads(now) for each in contenders) <= 1


def test_a_leader_stops_long_before_another_may_begin() -> None:
    assert 2 * RENEW_SECONDS < ACT_SECONDS <= DURATION_SECONDS / 2
