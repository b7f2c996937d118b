"""The policies that the webhook configurations are made for, followed in their folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from webhook.policy import PolicySet
    from webhook.policy.load import Loaded

log = structlog.get_logger()


class FollowedPolicies:
    """A policy set that is read again when its files changed; with any error the old one stays, as at the webhook.

    Args:
        read: Reads everything; its errors have texts that are fit for people.
        fingerprint: Equal as long as nothing changed.

    Attributes:
        is_usable: False where there were files and not one policy was good.
    """

    def __init__(self, read: Callable[[], Loaded], fingerprint: Callable[[], Hashable]) -> None:
        self._read = read
        self._fingerprint = fingerprint
        self._seen = fingerprint()
        self._tried = self._seen
        loaded = read()
        self._current = loaded.policy_set
        self.is_usable = bool(len(loaded.policy_set)) or not loaded.has_errors
        for problem in loaded.problems:
            (log.warning if problem.is_warning else log.error)("problem in a file", problem=str(problem))

    def current(self) -> PolicySet:
        """The set in force."""
        now = self._fingerprint()
        at_rest, self._seen = now == self._seen, now
        if at_rest and now != self._tried:
            self._tried = now
            self._reload()
        return self._current

    def _reload(self) -> None:
        try:
            loaded = self._read()
        except Exception as error:  # noqa: BLE001  # whatever it is, the set in force must go on
            self._keep(str(error) or type(error).__name__)
            return
        if loaded.has_errors or not len(loaded.policy_set):
            errors = [str(problem) for problem in loaded.problems if not problem.is_warning]
            self._keep(errors[0] if errors else "no policy is left in the folders")
            return
        self._current = loaded.policy_set
        log.info("policies loaded", policies=loaded.policy_set.hash, count=len(loaded.policy_set))

    def _keep(self, fault: str) -> None:
        log.error("policies not loaded, the old set stays", fault=fault, policies=self._current.hash)
