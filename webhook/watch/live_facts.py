"""The facts of a running server: files, and what is watched."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from webhook.facts import Facts
from webhook.watch.follower import Follower
from webhook.watch.resources import WATCHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from webhook.cluster import Api
    from webhook.watch.follower import Count, Spawn
    from webhook.watch.pace import Pace

_WHY = {
    401: "the API server does not accept podgate's credentials",
    403: "podgate may not list it in this cluster",
    404: "the cluster does not have this kind",
}
_NOT_YET = "the API server has not listed it to podgate yet"


class LiveFacts:
    """What is known of a cluster now.

    A kind that files give is what the files say, and is not watched: whoever wrote it down meant it.

    Args:
        api: The cluster.
        kinds: The kinds that policies ask about; those that cannot be watched stay what the files say.
        given: What files say.
        count: Counts requests to the API server.
        pace: How often it is asked.
    """

    def __init__(
        self,
        api: Api,
        kinds: Iterable[str] = (),
        given: Facts | None = None,
        count: Count = lambda *_: None,
        pace: Pace | None = None,
    ) -> None:
        self._api = api
        self._count = count
        self._pace = pace
        self._spawn: Spawn | None = None
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._followers: dict[str, Follower] = {}
        self._given = self._facts = given or Facts()
        self.follow(kinds, self._given)

    @property
    def followers(self) -> Mapping[str, Follower]:
        """By kind, what is watched."""
        return self._followers

    @property
    def facts(self) -> Facts:
        """The facts now: immutable, and the same object until something changes."""
        if self._changed:
            with self._lock:
                self._take_changes()
        return self._facts

    @property
    def settled(self) -> bool:
        """Whether every kind was listed once, or counts as unknown after its deadline."""
        return all(follower.settled for follower in self._followers.values())

    def synced(self, kind: str) -> bool:
        """Whether a kind is watched and was listed at least once."""
        follower = self._followers.get(kind)
        return follower is not None and follower.synced

    def start(self, spawn: Spawn) -> None:
        """Begin to watch; kinds that `follow` adds later begin at once.

        Args:
            spawn: ``gevent.spawn``, or what starts a thread.
        """
        self._spawn = spawn
        for follower in self._followers.values():
            follower.start(spawn)

    def stop(self) -> None:
        """Watch nothing any more."""
        for follower in self._followers.values():
            follower.stop()

    def prepare(self, kinds: Iterable[str], given: Facts) -> None:
        """Watch these kinds, too, while the facts stay what they are: `follow` comes when they are settled.

        Args:
            kinds: See the class.
            given: See the class.
        """
        for kind in _watched(kinds, given) - set(self._followers):
            self._begin(kind)

    def follow(self, kinds: Iterable[str], given: Facts) -> None:
        """Watch these kinds from now on, and no others.

        Args:
            kinds: See the class.
            given: See the class.
        """
        for kind in set(self._followers) - _watched(kinds, given):
            self._followers.pop(kind).stop()
        self.prepare(kinds, given)
        with self._lock:
            self._changed.update(self._followers)
            self._given = self._facts = given

    def await_namespace(self, name: str, seconds: float) -> Mapping[str, object] | None:
        """A namespace that was made a moment ago; None if it does not come, or if namespaces are not watched."""
        follower = self._followers.get("Namespace")
        return follower.await_object(name, seconds) if follower is not None and follower.synced else None

    def _begin(self, kind: str) -> None:
        mark = partial(self._changed.add, kind)
        follower = Follower(self._api, WATCHED[kind], mark, self._count, self._pace)
        self._followers[kind] = follower
        if self._spawn is not None:
            follower.start(self._spawn)

    def _take_changes(self) -> None:
        changed, facts = tuple(self._changed), self._facts
        self._changed.difference_update(changed)
        for kind in changed:
            follower = self._followers.get(kind)
            if follower is None or kind in self._given.tables:
                continue
            facts = (
                facts.with_table(kind, dict(follower.objects))
                if follower.synced
                else facts.without(kind, f"{kind} is not known: {_WHY.get(follower.status, _NOT_YET)}")
            )
        self._facts = facts


def _watched(kinds: Iterable[str], given: Facts) -> set[str]:
    return set(kinds) & set(WATCHED) - set(given.tables)
