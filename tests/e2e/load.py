"""Creations at an even pace, each by itself; every one is looked at, and what was created is deleted again."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.e2e.client import ApiError, Json, path_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.cluster import Cluster

PER_SECOND = 25.0
LEAST_PER_SECOND = 20.0
MOST_TOLD = 20
THREADS = 8
"""As many creations at once at most; the pace is kept while each takes less than a third of a second."""


class Load:
    """A context, inside which pods are created as a user creates them.

    Attributes:
        faults: what went wrong, with the time of day.
        created: how many creations succeeded.
        slowest: seconds.
    """

    def __init__(
        self, cluster: Cluster, user: str, make: Callable[[int], Json], judge: Callable[[Json], str]
    ) -> None:
        """Say what is created.

        Args:
            cluster: where.
            user: who.
            make: the pod of a number; its name is its own.
            judge: what is wrong with a pod as it was stored; "" if nothing is.
        """
        self.faults: list[str] = []
        self.created = 0
        self.slowest = 0.0
        self._client = cluster.client(user)
        self._make, self._judge = make, judge
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(THREADS)

    def __enter__(self) -> Load:
        self._begun = time.monotonic()
        self._threads = [self._pool.submit(self._run) for _ in range(THREADS)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._lasted = time.monotonic() - self._begun
        self._pool.shutdown()
        for each in self._threads:
            each.result()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._begun

    def wait_until(self, seconds: float) -> None:
        """Go on until it is so old."""
        time.sleep(max(0.0, seconds - self.seconds))

    def check(self) -> None:
        """Everything went well, and there was enough of it to say so; after the end."""
        told = "\n".join(self.faults[:MOST_TOLD])
        assert not self.faults, f"{len(self.faults)} of {self.created + len(self.faults)} went wrong:\n{told}"
        rate = self.created / self._lasted
        assert rate >= LEAST_PER_SECOND, (
            f"{rate:.1f} creations a second were reached in {self._lasted:.0f} s, of {LEAST_PER_SECOND:.0f} that are asked: "
            "this machine is too busy to show anything"
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            number = next(self._numbers)
            if self._stop.wait(max(0.0, self._begun + number / PER_SECOND - time.monotonic())):
                return
            self._create(self._make(number))

    def _create(self, thing: Json) -> None:
        started, at = time.monotonic(), datetime.now(UTC)
        try:
            stored = self._client.create(thing)
            fault = self._judge(stored)
        except ApiError as error:
            stored, fault = None, str(error)
        lasted = time.monotonic() - started
        with self._lock:
            self.created += stored is not None
            self.slowest = max(self.slowest, lasted)
            if fault:
                name = thing["metadata"]["name"]
                self.faults.append(f"{at:%H:%M:%S.%f} {name}, {lasted:.2f} s: {fault}")
        if stored is not None:
            self._client.delete(path_to(stored), gracePeriodSeconds=0)
