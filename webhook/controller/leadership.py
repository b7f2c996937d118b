"""Hold the Lease: the calls and the clocks around `webhook.controller.lease`."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from webhook.cluster import ApiError
from webhook.controller.lease import RENEW_SECONDS, Candidate, Look, held, lease_object, next_step, saw

if TYPE_CHECKING:
    from webhook.cluster import Api

log = structlog.get_logger()

LEASE = "podgate-controller"


class NotLeaderError(Exception):
    """A write was asked for by one who does not lead any more; nothing was written."""


class Leadership:
    """A candidate for the Lease.

    Args:
        api: The cluster.
        namespace: The Lease's.
        identity: A name of this process alone.
    """

    def __init__(self, api: Api, namespace: str, identity: str) -> None:
        self._api = api
        self._namespace = namespace
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._candidate = Candidate(identity)
        self._stopping = threading.Event()
        self._said = ""
        self._thread = threading.Thread(target=self._follow, name="lease", daemon=True)

    @property
    def leads(self) -> bool:
        """Whether this process may act at this moment."""
        return self._candidate.leads(time.monotonic())

    def check(self) -> None:
        """Call before every write.

        Raises:
            NotLeaderError: Another may lead by now.
        """
        if not self.leads:
            raise NotLeaderError("the Lease is not ours any more")

    def start(self) -> None:
        """Be a candidate from now on, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Be none any more, and give the Lease back so that another takes it at once. Nothing may be written after it."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(RENEW_SECONDS)
        candidate, led = self._candidate, self.leads
        self._candidate = Candidate(candidate.identity)
        if led:
            self._give_back(candidate.identity)

    def attempt(self) -> float:
        """Look at the Lease, and hold it if that may be.

        Returns:
            Seconds until the next attempt.

        Raises:
            ApiError: The Lease cannot be read or written.
        """
        lease = self._api.find(f"{self._collection}/{LEASE}")
        self._candidate = saw(self._candidate, lease, time.monotonic())
        action = next_step(self._candidate, time.monotonic())
        if isinstance(action, Look):
            return action.after
        begun = time.monotonic()
        self._candidate = held(self._candidate, self._write(lease, self._candidate.identity), begun)
        return RENEW_SECONDS

    def _follow(self) -> None:
        led = False
        while not self._stopping.is_set():
            wait = self._attempt_quietly()
            if self.leads != led:
                led = not led
                log.info("leading" if led else "not leading any more", identity=self._candidate.identity)
            self._stopping.wait(wait)

    def _attempt_quietly(self) -> float:
        """An attempt whose fault is a line in the log, once: the reconciliation says the same of the same server."""
        try:
            wait = self.attempt()
        except ApiError as error:
            if error.status != 409 and error.message != self._said:  # 409: another was faster
                self._said = error.message
                log.warning("the Lease could not be renewed", fault=error.message)
            return max(error.retry_after or 0.0, RENEW_SECONDS / 2)
        self._said = ""
        return wait

    def _write(self, current: dict[str, Any] | None, holder: str) -> dict[str, Any]:
        body = lease_object(
            current, name=LEASE, namespace=self._namespace, holder=holder, now=datetime.now(UTC)
        )
        if current is None:
            return self._api.create(self._collection, body)
        return self._api.update(f"{self._collection}/{LEASE}", body)

    def _give_back(self, identity: str) -> None:
        try:
            lease = self._api.find(f"{self._collection}/{LEASE}")
            if lease is not None and lease.get("spec", {}).get("holderIdentity") == identity:
                self._write(lease, "")
        except ApiError as error:
            log.warning("the Lease could not be given back, it runs out by itself", fault=error.message)
