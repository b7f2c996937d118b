"""A worker's view of its cluster: live facts, and the pause."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from webhook.policy.asked import kinds_asked
from webhook.server.connections import CONNECTIONS
from webhook.watch import LiveFacts, PauseWatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from webhook.cluster import Api
    from webhook.facts import Facts
    from webhook.policy import PolicySet
    from webhook.policy.pause import Pause
    from webhook.server.deadline import Deadline
    from webhook.server.state import Content
    from webhook.watch.follower import Count, Follower, Spawn
    from webhook.watch.pace import Pace

#: The part of a review's time that is left in which what it needs may still arrive: all kinds after a start, or a namespace
#: that was made a moment ago. The rest is for the rules.
WAITING_SHARE = 0.5
#: The part of a worker's connections on which reviews may wait at the same time. They cannot give way to a newcomer as others
#: do, and anybody can ask about a namespace that there is not.
WAITING_PART = 4
#: Bodies of the reviews that wait, together: two hundred usual ones. The densest take seventy times as much as objects.
MAX_WAITING_BYTES = 2 * 1024 * 1024
#: Between two looks whether what is asked about is known.
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Which cluster is watched.

    Attributes:
        kubeconfig: See `webhook.cluster.Api.connect`.
        context: Likewise.
        namespace: podgate's own, in which a pause may be ordered.
    """

    kubeconfig: Path | None
    context: str | None
    namespace: str


class Waiting:
    """The reviews that wait.

    Args:
        places: How many may.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self.reviews = 0
        self.bytes = 0

    @contextmanager
    def place(self, size: int) -> Iterator[bool]:
        """Whether one more, with a body of this size, may wait in it."""
        if self.reviews >= self._places or self.bytes + size > MAX_WAITING_BYTES:
            yield False
            return
        self.reviews += 1
        self.bytes += size
        try:
            yield True
        finally:
            self.reviews -= 1
            self.bytes -= size


class LiveCluster:
    """What a worker knows of its cluster beside what files say.

    Args:
        api: The cluster.
        namespace: podgate's own.
        content: What is served.
        count: Counts requests to the API server.
        pace: How often it is asked.
        connections: How many the worker may hold.

    Attributes:
        facts: What is watched.
        pause: What an operator may order.
        waiting: The reviews that wait for either.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        content: Content,
        count: Count = lambda *_: None,
        pace: Pace | None = None,
        connections: int = CONNECTIONS,
    ) -> None:
        self.waiting = Waiting(max(1, connections // WAITING_PART))
        self.facts = LiveFacts(api, kinds_asked(content.policy_set), content.facts, count, pace)
        self.pause = PauseWatch(api, namespace, count, pace)
        self._paused: tuple[PolicySet, Pause, PolicySet] | None = None

    def start(self, spawn: Spawn) -> None:
        """Begin to watch.

        Args:
            spawn: ``gevent.spawn``, or what starts a thread.
        """
        self.facts.start(spawn)
        self.pause.start(spawn)

    @property
    def settled(self) -> bool:
        """Whether everything was listed once, or counts as unknown after its deadline."""
        return self.facts.settled and self.pause.follower.settled

    def prepare(self, content: Content) -> None:
        """Know what this content asks for, or have tried for as long as at the start, before it is served."""
        self.facts.prepare(kinds_asked(content.policy_set), content.facts)
        while not self.facts.settled:
            time.sleep(_LOOK_SECONDS)

    def serve(self, content: Content) -> None:
        """Watch what this content asks for, and nothing else."""
        self.facts.follow(kinds_asked(content.policy_set), content.facts)

    def await_start(self, deadline: Deadline, size: int) -> None:
        """Wait until everything is known as at a start, for a share of a review's time, if there is room.

        Args:
            deadline: Of the review.
            size: Of its body.
        """
        enough = deadline.left * (1 - WAITING_SHARE)
        with self.waiting.place(size) as may_wait:
            while may_wait and not self.settled and deadline.left > enough:
                time.sleep(_LOOK_SECONDS)

    def facts_for(self, deadline: Deadline, size: int) -> Facts:
        """The facts for a review that must be over by then; it waits for a namespace if there is room.

        Args:
            deadline: Of the review.
            size: Of its body.
        """
        await_namespace = partial(self._await_namespace, seconds=deadline.left * WAITING_SHARE, size=size)
        return self.facts.facts.waiting(await_namespace)

    def _await_namespace(self, name: str, seconds: float, size: int) -> Mapping[str, object] | None:
        with self.waiting.place(size) as may_wait:
            return self.facts.await_namespace(name, seconds if may_wait else 0)

    def policies_at(self, now: datetime, policy_set: PolicySet) -> PolicySet:
        """The policies as they are under the pause that holds at this moment."""
        pause = self.pause.in_force(now)
        if pause is None:
            return policy_set
        known = self._paused
        if known is None or known[0] is not policy_set or known[1] is not pause:
            known = self._paused = (policy_set, pause, policy_set.paused(pause))
        return known[2]

    def tell(self) -> None:
        """Log where a pause has begun or ended."""
        self.pause.tell(datetime.now(UTC))

    def readiness(self) -> dict[str, Any]:
        """What ``/readyz`` says of it."""
        followers = sorted(self.facts.followers.items())
        return {"facts": {kind: _standing(each) for kind, each in followers}, "pause": self._pause_standing()}

    def _pause_standing(self) -> dict[str, Any]:
        pause = self.pause.in_force(datetime.now(UTC))
        ordered = {} if pause is None else {"until": pause.until.isoformat(), "by": pause.by}
        watched = _standing(self.pause.follower)
        return {**watched, "paused": pause is not None, **ordered, "broken": self.pause.fault}


def _standing(follower: Follower) -> dict[str, Any]:
    return {
        "synced": follower.synced,
        "ageSeconds": round(follower.age, 1),
        "fault": follower.fault,
    }
