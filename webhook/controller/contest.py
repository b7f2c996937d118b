"""Somebody puts back what we write, again and again: say so, and write ever more seldom. No clock of its own."""

from __future__ import annotations

from dataclasses import dataclass

#: One repair of an object is an accident, and three in a row are a dispute.
REPAIRS = 3
#: A repair so long after the last begins a new row.
ROW_SECONDS = 600.0
#: The first pause of a dispute; each further repair doubles it. Argo CD and Flux reconcile every 3 and 10 minutes, a
#: self-healing one within seconds.
FIRST_PAUSE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Contest:
    """The repairs of one object in a row: how many, and when the last was, in seconds of a monotonic clock."""

    repairs: int = 0
    last: float = 0.0

    def repaired(self, now: float) -> Contest:
        """One more repair."""
        is_new_row = now - self.last > max(ROW_SECONDS, 2 * self._pause)
        return Contest(1 if is_new_row else self.repairs + 1, now)

    @property
    def is_on(self) -> bool:
        """Whether this is a dispute."""
        return self.repairs >= REPAIRS

    def left(self, now: float) -> float:
        """Seconds until the next repair may be tried."""
        return max(0.0, self.last + self._pause - now)

    @property
    def _pause(self) -> float:
        if not self.is_on:
            return 0.0
        return min(FIRST_PAUSE_SECONDS * 2.0 ** min(self.repairs - REPAIRS, 30), LONGEST_PAUSE_SECONDS)
