"""How often, and how long: the arithmetic of asking again."""

from __future__ import annotations

from dataclasses import dataclass

#: Refusals that only an administrator ends: no permission, or no such kind.
REFUSALS = frozenset({401, 403, 404})

#: The part of a delay that is drawn, so that replicas that failed together do not come back together.
JITTER = 0.25


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of following one kind, in seconds.

    Attributes:
        interval: Between the beginnings of two requests, the pages of one list apart: one request a second and kind.
        longest: Between two requests while the server fails: it is right again within 10 s of the server's return,
            the time of a request that hangs (8 s at most, and then there is no other wait) included.
        refused: The same for what only an administrator can change.
        deadline: After which a kind that could not be listed counts as unknown.
        brief: A stream that ended sooner, without an event, counts as a failure.
        watch: The least and the most that a stream is asked to last; drawn, so that replicas do not come together.
        silence: After which a stream that is silent is opened anew.
    """

    interval: float = 1.0
    longest: float = 5.0
    refused: float = 8.0
    deadline: float = 10.0
    brief: float = 5.0
    watch: tuple[int, int] = (240, 480)
    silence: float = 90.0

    def wait(
        self, failures: int, *, elapsed: float, draw: float, status: int = 0, retry_after: float | None = None
    ) -> float:
        """Seconds until the next request.

        Args:
            failures: In a row.
            elapsed: Since the beginning of the last request: who waited for an answer need not wait again.
            draw: A random number from 0 to 1, for the jitter.
            status: Of the last failure.
            retry_after: What the server asked for.
        """
        most = self.refused if status in REFUSALS else self.longest
        delay = self.interval
        if failures:
            delay = min(most / (1 + JITTER), self.interval * 2.0 ** min(failures - 1, 16)) * (
                1 + JITTER * draw
            )
        if retry_after is not None:
            delay = max(delay, min(retry_after, most))
        return max(0.0, max(self.interval, delay) - elapsed)

    def watch_seconds(self, draw: float) -> int:
        """How long a stream is asked to last."""
        least, most = self.watch
        return least + round((most - least) * draw)
