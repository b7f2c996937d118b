"""What came of a review."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Change
from webhook.policy import CompiledRule, PolicySet
from webhook.rules.base import Finding, Mode, Result


class Action(StrEnum):
    """What is done about a report; see `webhook.engine.decide`."""

    NONE = "none"
    RECORD = "record"
    WARN = "warn"
    DENY = "deny"


class Report(NamedTuple):
    """What one rule found, and what is done about it.

    Attributes:
        result: the worst of its findings; `pass` if there is none, or the rule wrote what it wanted.
    """

    rule: CompiledRule
    result: Result
    action: Action
    findings: tuple[Finding, ...] = ()


class Outcome(NamedTuple):
    """The engine's whole answer to one request.

    Attributes:
        object: the object with the enforced mutations; None on a deletion.
        audited: the object with all mutations that are not disabled.
        changes: what the enforced mutations changed.
        would_change: what the mutations in warn or audit mode would change besides.
        later: of a controller, what the enforced mutations will change in its pods and claims, at the template's own places.
        patch: JSON Patch from the object received to `object`, annotations included.
        exempt: why no rule looked at the object; "" if rules did.
        marked: whether the patch does no more than say that podgate saw the object.
    """

    request: AdmissionRequest
    policy_set: PolicySet
    object: Mapping[str, Any] | None
    audited: Mapping[str, Any] | None
    reports: tuple[Report, ...] = ()
    changes: tuple[Change, ...] = ()
    would_change: tuple[tuple[Mode, Change], ...] = ()
    later: tuple[Change, ...] = ()
    patch: list[dict[str, Any]] = []
    exempt: str = ""
    decision_id: str = ""
    marked: bool = False

    @property
    def allowed(self) -> bool:
        """Whether no report denies."""
        return Action.DENY not in [report.action for report in self.reports]
