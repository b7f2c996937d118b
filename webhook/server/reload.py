"""Follow the folders: load changed policies once they are at rest, and keep the old set on any error."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import gevent
import structlog

from webhook.server.exceptions import say_endings

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from webhook.server.metrics import Metrics
    from webhook.server.state import Content, ServerState

log = structlog.get_logger()

#: A ConfigMap takes a minute to arrive anyway; 2 s cost some 50 stat calls.
POLL_SECONDS = 2.0

#: After a fault, files that look the same are read again: what kept them from being read (a permission, a limit of open
#: files, a storage that was away) shows in no time and no size. Rare enough to cost nothing where the fault is in them.
RETRY_SECONDS = 60.0

#: How many problems are listed in one message; ``podgate lint`` shows all.
MAX_PROBLEMS = 10


class Reloader:
    """One worker's look at the folders.

    Args:
        state: Whose content is replaced.
        metrics: Where attempts are counted.
        run: Runs the reading; in a worker a thread, so that reviews go on beside it.
    """

    def __init__(
        self,
        state: ServerState,
        metrics: Metrics,
        run: Callable[[Callable[[], Content]], Content] = lambda read: read(),
    ) -> None:
        self._state = state
        self._metrics = metrics
        self._run = run
        self._seen = state.fingerprint
        self._failed_at = 0.0
        self._said: tuple[str, Hashable] = ("", None)

    def poll(self) -> None:
        """Look once; load what changed and looked the same twice, as a file being written does not."""
        now = self._state.sources.fingerprint()
        at_rest, self._seen = now == self._seen, now
        if at_rest and (now != self._state.fingerprint or self._is_worth_a_retry()):
            self._load(now)

    def _is_worth_a_retry(self) -> bool:
        return bool(self._state.fault) and time.monotonic() - self._failed_at >= RETRY_SECONDS

    def catch_up(self) -> None:
        """Load what changed since the arbiter's start: a worker that replaces another begins with what was read then."""
        for _ in range(2):
            self.poll()

    def _load(self, fingerprint: Hashable) -> None:
        fault = ""
        try:
            content = self._run(self._state.sources.read)
        except Exception as error:  # noqa: BLE001  # whatever it is, the set in force must go on
            fault = str(error) or type(error).__name__
        if self._state.sources.fingerprint() != fingerprint:
            return  # it changed while it was read: perhaps halves of two states; the next look sees it again
        self._state.fingerprint = fingerprint
        if fault:
            self._keep("unreadable", fault)
        else:
            self._take(content)

    def _take(self, content: Content) -> None:
        if content.errors and self._state.usable:
            self._keep("error", listed(content))
        elif not len(content.policy_set):
            self._keep("empty", listed(content) or "no policy is left in the folders")
        else:
            if self._state.live is not None:
                self._state.live.prepare(content)
            self._state.swap(content)
            self._metrics.reloads.labels("success").inc()
            log.info("policies loaded", policies=content.policy_set.hash, count=len(content.policy_set))
            say_problems(content)
            say_endings(content.policy_set, datetime.now(UTC))

    def _keep(self, result: str, fault: str) -> None:
        is_known, self._said = (fault, self._seen) == self._said, (fault, self._seen)
        self._state.fault = fault
        self._failed_at = time.monotonic()
        self._metrics.reloads.labels(result).inc()
        if is_known:
            return
        log.error(
            "policies not loaded, the old set stays",
            fault=fault,
            policies=self._state.content.policy_set.hash,
        )


def listed(content: Content) -> str:
    """The first problems, one a line."""
    shown = [str(problem) for problem in content.errors[:MAX_PROBLEMS]]
    more = len(content.errors) - len(shown)
    return "\n".join([*shown, f"and {more} more"] if more else shown)


def say_problems(content: Content) -> None:
    """Log each problem of a set that is served all the same."""
    for problem in content.problems:
        (log.warning if problem.is_warning else log.error)("problem in a file", problem=str(problem))


def follow(poll: Callable[[], None], seconds: float) -> None:
    """Call ``poll`` for ever; an error of ours in it is logged and does not end it."""
    while True:
        gevent.sleep(seconds)
        try:
            poll()
        except Exception:  # the greenlet must live as long as the worker
            log.exception("a regular look failed")
