"""What is being served: one reference, swapped whole, so that an answer is wholly old or wholly new."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from datetime import datetime

    from webhook.documents import Problem
    from webhook.facts import Facts
    from webhook.policy import PolicySet
    from webhook.server.deadline import Deadline
    from webhook.server.live import LiveCluster

#: After a start or a change of policies replicas differ for a while: until then ``verify: fail`` only warns.
#: Two minutes are the kubelet's longest delay for a ConfigMap (sync period 60 s, cache as long again).
SETTLE_SECONDS = 120.0

#: A folder that changes while it is read is read again: three times, then the last reading is taken and the
#: reloader sees to the rest.
START_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Content:
    """Policies and facts that were read together, and what was wrong with their files."""

    policy_set: PolicySet
    facts: Facts
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that made something be left out."""
        return tuple(problem for problem in self.problems if not problem.is_warning)


class Sources:
    """Where policies and facts come from: reading them, and a cheap look whether they changed.

    Args:
        read: Reads everything anew; may raise `OSError` or any error whose text is fit for people.
        fingerprint: Equal as long as nothing changed.
    """

    def __init__(self, read: Callable[[], Content], fingerprint: Callable[[], Hashable]) -> None:
        self.read = read
        self.fingerprint = fingerprint

    def read_at_rest(self) -> tuple[Content, Hashable]:
        """The content, and the fingerprint it belongs to."""
        for _ in range(START_ATTEMPTS):
            before = self.fingerprint()
            content = self.read()
            if self.fingerprint() == before:
                break
        return content, before


class ServerState:
    """The content in force, since when, and what is wrong with a newer one.

    Args:
        sources: Where the content comes from.
        languages: The languages of denials, in order.

    Attributes:
        fingerprint: Of what was read last, whether it is served or not.
        usable: Whether there ever was a set to serve.
        live: The cluster that a worker watches, None where everything is in files.
    """

    def __init__(self, sources: Sources, languages: tuple[str, ...]) -> None:
        self.sources = sources
        self.languages = languages
        self.fault = ""
        self.content, self.fingerprint = sources.read_at_rest()
        self.loaded_at = time.time()
        self._changed = time.monotonic()
        self.usable = is_usable(self.content)
        self.live: LiveCluster | None = None
        self._was_ready = False

    @property
    def ready(self) -> bool:
        """Whether reviews may come: once there were policies, and facts or a reason why not, it stays so."""
        if not self._was_ready:
            self._was_ready = self.usable and (self.live is None or self.live.settled)
        return self._was_ready

    def in_force(self, now: datetime, deadline: Deadline, size: int) -> tuple[PolicySet, Facts]:
        """The policies and facts for one review.

        A worker that replaces another gets reviews at once, since the pod stays ready: they wait for the cluster.

        Args:
            now: The moment of the review.
            deadline: When it must be over.
            size: Bytes of its body: large ones do not wait.
        """
        if self.live is not None and not self.ready:
            self.live.await_start(deadline, size)
        content = self.content
        if self.live is None:
            return content.policy_set, content.facts
        return self.live.policies_at(now, content.policy_set), self.live.facts_for(deadline, size)

    def swap(self, content: Content) -> None:
        """Serve ``content`` from the next review on."""
        if content.policy_set.hash != self.content.policy_set.hash:
            self._changed = time.monotonic()
        if self.live is not None:
            self.live.serve(content)
        self.content = content
        self.loaded_at = time.time()
        self.fault = ""
        self.usable = True

    @property
    def settled(self) -> bool:
        """Whether every replica has had the time to change over."""
        return time.monotonic() - self._changed >= SETTLE_SECONDS


def is_usable(content: Content) -> bool:
    """False where files were there and not one policy was good: such a server must not become ready.

    An empty folder is a wish; a folder of errors is a mistake, and a rollout should stop at it.
    """
    return bool(len(content.policy_set)) or not content.errors
