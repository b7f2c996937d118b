"""What a check's results mean for whoever called it."""

from typing import Literal

from webhook.engine import Action
from webhook.output.results import CheckResult
from webhook.rules.base import Result

CLEAN = 0
POLICY_FAILED = 1
INVALID = 2
NOT_EVALUATED = 3
NOTHING_EVALUATED = 4

FailOn = Literal["enforce", "warn", "any", "never"]

FAILING: dict[FailOn, frozenset[Action]] = {
    "enforce": frozenset({Action.DENY}),
    "warn": frozenset({Action.DENY, Action.WARN}),
    "any": frozenset({Action.DENY, Action.WARN, Action.RECORD}),
    "never": frozenset(),
}


def exit_code_of(
    result: CheckResult, fail_on: FailOn, *, unknown_fails: bool = False, require_match: bool = False
) -> int:
    """The exit code of a check: of several that hold, 3 before 2 before 1 before 4.

    Args:
        result: what the check found.
        fail_on: which violations count; a change that a policy would make never does.
        unknown_fails: whether a rule that lacks facts counts as one that could not be evaluated.
        require_match: whether it is a failure that no rule applied to any object.
    """
    found = [each for one in result.objects for each in one.results]
    if any(each.result is Result.ERROR and (unknown_fails or not each.needs) for each in found):
        return NOT_EVALUATED
    if any(not problem.is_warning for problem in result.problems):
        return INVALID
    if any(each.result is Result.FAIL and each.action in FAILING[fail_on] for each in found):
        return POLICY_FAILED
    return NOTHING_EVALUATED if require_match and not found else CLEAN
