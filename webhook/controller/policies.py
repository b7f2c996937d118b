"""The policies that the webhook configurations are made for, followed in their folders.

A ConfigMap reaches the replicas and the controller at different moments. Who is not called cannot answer: calls that only the old
policies want end when every replica has the new ones, and those that only the new ones want begin at once.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from webhook.policy import PolicySet
    from webhook.policy.load import Loaded

log = structlog.get_logger()

#: The kubelet's longest delay for a ConfigMap (sync period 60 s, cache as long again), as in `webhook.server.state`.
OVERLAP_SECONDS = 120.0


class FollowedPolicies:
    """A policy set that is read again when its files changed; with any error the old one stays, as at the webhook.

    At the start there is no old one: then it is all that is good.

    Args:
        read: Reads everything; its errors have texts that are fit for people.
        fingerprint: Equal as long as nothing changed.
        monotonic: A clock, for the overlap of old and new.

    Attributes:
        fault: Why the set is not all that is meant, "" where it is: nothing may be concluded from what it lacks.
    """

    def __init__(
        self,
        read: Callable[[], Loaded],
        fingerprint: Callable[[], Hashable],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._fingerprint = fingerprint
        self._monotonic = monotonic
        self._earlier: tuple[PolicySet, ...] = ()
        self._overlaps_until = 0.0
        self._seen = fingerprint()
        self._tried = self._seen
        loaded = read()
        self._current = loaded.policy_set
        self.fault = _fault(loaded)
        for problem in loaded.problems:
            (log.warning if problem.is_warning else log.error)("problem in a file", problem=str(problem))
        if self.fault:
            log.error(
                "the webhook configurations stay as they are until the policies are good", fault=self.fault
            )

    def current(self) -> PolicySet:
        """The set in force."""
        now = self._fingerprint()
        at_rest, self._seen = now == self._seen, now
        if at_rest and now != self._tried:
            self._tried = now
            self._reload()
        return self._current

    def called_for(self) -> PolicySet:
        """What calls are to be made for: for a while after a change with the policies and pools of the sets before, too."""
        current = self.current()
        if self._monotonic() >= self._overlaps_until:
            self._earlier = ()
        sets = (current, *self._earlier)
        return replace(
            current,
            policies=tuple(policy for each in sets for policy in each.policies),
            pools=tuple(pool for each in sets for pool in each.pools),
        )

    def _reload(self) -> None:
        try:
            loaded = self._read()
        except Exception as error:  # noqa: BLE001  # whatever it is, the set in force must go on
            self._keep(str(error) or type(error).__name__)
            return
        if fault := _fault(loaded):
            self._keep(fault)
            return
        others = (each for each in (*self._earlier, self._current) if each.hash != loaded.policy_set.hash)
        self._earlier = tuple(others)
        self._overlaps_until = self._monotonic() + OVERLAP_SECONDS
        self._current, self.fault = loaded.policy_set, ""
        log.info("policies loaded", policies=loaded.policy_set.hash, count=len(loaded.policy_set))

    def _keep(self, fault: str) -> None:
        log.error("policies not loaded, the old set stays", fault=fault, policies=self._current.hash)


def _fault(loaded: Loaded) -> str:
    """Why a set cannot be all that is meant: the first error, "" if there is none."""
    errors = [str(problem) for problem in loaded.problems if not problem.is_warning]
    if errors:
        return errors[0]
    return "" if len(loaded.policy_set) else "there is no policy in the folders"
