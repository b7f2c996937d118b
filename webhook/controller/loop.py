"""Look again and again while leading, with patience where something fails."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import structlog

from webhook.cluster import ApiError
from webhook.controller.certificates import CertificatesError
from webhook.controller.leadership import NotLeaderError
from webhook.controller.reconcile import Result

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from webhook.controller.leadership import Leadership
    from webhook.controller.metrics import Metrics

log = structlog.get_logger()

#: Half a dozen GETs of single objects each ten seconds are nothing to an API server, so there is no watch that could break
#: without a word: what somebody changed by hand is repaired within this time, and the waits of a hand-over are longer.
INTERVAL_SECONDS = 10.0
#: After a change the next step is often due at once.
SOON_SECONDS = 1.0
#: The first pause after a fault; each further doubles it.
FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 60.0
#: Replicas that started together do not stay together.
JITTER = 0.2
#: A candidate looks whether it leads.
STANDBY_SECONDS = 0.5
#: One look has at most some twenty calls, each of which ends within 40 s, and rarely more than a few are slow.
STALLED_SECONDS = 300.0


class Loop:
    """Reconciles while it leads.

    Args:
        reconcile: One look.
        leadership: Whether to act.
        metrics: Where results are counted.
        stop: Ends the loop.
    """

    def __init__(
        self,
        reconcile: Callable[[], Result],
        leadership: Leadership,
        metrics: Metrics,
        stop: threading.Event,
    ) -> None:
        self._reconcile = reconcile
        self._leadership = leadership
        self._metrics = metrics
        self._stop = stop
        self._faults = 0
        self._said = ""
        self._beat = time.monotonic()

    @property
    def is_alive(self) -> bool:
        """Whether it still goes round, whatever comes of it."""
        return time.monotonic() - self._beat < STALLED_SECONDS

    def run(self) -> None:
        """Go on until told to stop."""
        while not self._stop.is_set():
            self._beat = time.monotonic()
            self._stop.wait(self.turn())

    def turn(self) -> float:
        """One turn.

        Returns:
            Seconds until the next.
        """
        leads = self._leadership.leads
        self._metrics.leader.set(leads)
        if not leads:
            return STANDBY_SECONDS
        try:
            result = self._reconcile()
        except NotLeaderError:
            return STANDBY_SECONDS
        except (ApiError, CertificatesError) as error:
            after = error.retry_after if isinstance(error, ApiError) else None
            return max(self._failed(str(error)), after or 0.0)
        except Exception as error:  # the loop must live as long as the process
            log.exception("a look at the cluster failed")
            return self._failed(type(error).__name__)
        return self._succeeded(result)

    def _failed(self, fault: str) -> float:
        self._metrics.reconciliations.labels("error").inc()
        if fault != self._said:
            self._said = fault
            log.error("a look at the cluster failed, it is tried again", fault=fault)
        self._faults += 1
        pause = FIRST_PAUSE_SECONDS * 2 ** min(self._faults - 1, 10)
        return _jittered(min(pause, LONGEST_PAUSE_SECONDS))

    def _succeeded(self, result: Result) -> float:
        if self._faults:
            log.info("a look at the cluster succeeded again")
        self._faults, self._said = 0, ""
        self._metrics.reconciliations.labels("paused" if result is Result.PAUSED else "success").inc()
        self._metrics.last_success.set_to_current_time()
        return SOON_SECONDS if result is Result.CHANGED else _jittered(INTERVAL_SECONDS)


def _jittered(seconds: float) -> float:
    return seconds * random.SystemRandom().uniform(1 - JITTER, 1 + JITTER)
