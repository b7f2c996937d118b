"""The only place that turns what a rule found into what is done about it."""

from typing import Literal

from webhook.engine.outcome import Action
from webhook.rules.base import Finding, Mode, Result

ACTIONS = {
    Mode.ENFORCE: Action.DENY,
    Mode.WARN: Action.WARN,
    Mode.AUDIT: Action.RECORD,
    Mode.DISABLED: Action.NONE,
}
STRENGTH = {action: strength for strength, action in enumerate(Action)}
WORST_FIRST = (Result.FAIL, Result.ERROR, Result.SKIP)


def decide(finding: Finding, mode: Mode, failure_policy: Literal["Ignore", "Fail"]) -> Action:
    """What is done about one finding.

    Args:
        finding: a fail is answered by the policy's mode, an error by its failurePolicy, a skip by nothing.
        mode: the policy's mode; the finding's own ceiling may lower it.
        failure_policy: what an error is.
    """
    if finding.result is Result.FAIL or (finding.result is Result.ERROR and failure_policy == "Fail"):
        return ACTIONS[mode if mode.rank <= finding.ceiling.rank else finding.ceiling]
    return Action.RECORD if finding.result is Result.ERROR else Action.NONE


def worst_result(findings: tuple[Finding, ...]) -> Result:
    """The result of a rule: that of its worst finding, a pass where there is none."""
    found = {finding.result for finding in findings}
    for result in WORST_FIRST:
        if result in found:
            return result
    return Result.PASS


def worst_action(actions: list[Action]) -> Action:
    """The strongest of several actions."""
    return max(actions, key=STRENGTH.__getitem__, default=Action.NONE)


def weakest_action(one: Action, other: Action) -> Action:
    """The weaker of `one` action and the `other`."""
    return one if STRENGTH[one] <= STRENGTH[other] else other
