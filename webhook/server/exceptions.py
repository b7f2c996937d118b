"""How the exceptions in force stand to their end."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

from webhook.engine.resolve import ENDING

if TYPE_CHECKING:
    from datetime import datetime

    from webhook.policy import PolicySet
    from webhook.policy.policy_set import CompiledException

log = structlog.get_logger()


class ExceptionState(StrEnum):
    """Each exception is in one of these."""

    ACTIVE = "active"
    ENDING = "ending"
    ENDED = "ended"


def state_of(exception: CompiledException, now: datetime) -> ExceptionState:
    """Where an exception stands: ended, or about to within the time in which its users are warned."""
    left = exception.expires_at - now
    if now >= exception.expires_at:
        return ExceptionState.ENDED
    return ExceptionState.ENDING if left <= ENDING else ExceptionState.ACTIVE


def exceptions_in(policy_set: PolicySet) -> tuple[CompiledException, ...]:
    """Each exception once, however many policies it concerns."""
    by_name = {each.name: each for policy in policy_set.policies for each in policy.exceptions}
    return tuple(by_name.values())


def say_endings(policy_set: PolicySet, now: datetime) -> None:
    """Log a warning for each exception that has ended or is about to."""
    for exception in exceptions_in(policy_set):
        state = state_of(exception, now)
        if state is not ExceptionState.ACTIVE:
            log.warning(
                "an exception has ended" if state is ExceptionState.ENDED else "an exception ends soon",
                exception=exception.name,
                end=f"{exception.expires_at:%Y-%m-%dT%H:%MZ}",
                owner=exception.owner,
            )
