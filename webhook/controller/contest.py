"""Somebody puts back what we write, again and again: say so, and write ever more seldom. No clock of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: One repair is an accident, and three of the same object within `WINDOW_SECONDS` are a dispute.
REPAIRS = 3
WINDOW_SECONDS = 600.0
#: The first pause of a dispute; each further repair doubles it. Argo CD and Flux reconcile every 3 and 10 minutes, a
#: self-healing one within seconds.
FIRST_PAUSE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Contest:
    """The repairs of one object: seconds of a monotonic clock, oldest first."""

    repairs: tuple[float, ...] = ()

    def repaired(self, now: float) -> Contest:
        """One more repair; those that are long past are forgotten."""
        window = max(WINDOW_SECONDS, 2 * self._pause())
        return replace(self, repairs=(*(at for at in self.repairs if now - at < window), now))

    @property
    def is_on(self) -> bool:
        """Whether this is a dispute."""
        return len(self.repairs) >= REPAIRS

    def left(self, now: float) -> float:
        """Seconds until the next repair may be tried."""
        return max(0.0, self.repairs[-1] + self._pause() - now) if self.repairs else 0.0

    def _pause(self) -> float:
        beyond = len(self.repairs) - REPAIRS
        return (
            min(FIRST_PAUSE_SECONDS * 2.0 ** min(beyond, 30), LONGEST_PAUSE_SECONDS) if beyond >= 0 else 0.0
        )
