"""One call of the webhook, bytes in and bytes out."""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

import orjson

from webhook.admission.parse import parse_review
from webhook.admission.response import build_response
from webhook.engine import Action, Gate, Outcome, mutate, never, validate
from webhook.facts import Facts
from webhook.policy import PolicySet
from webhook.rules.base import LONG_AGO, Mode, Result


class Endpoint(StrEnum):
    """Where a call arrives; the validating ones differ in the failurePolicy of the policies that they report."""

    MUTATE = "mutate"
    VALIDATE = "validate"
    VALIDATE_FAIL = "validate/fail"
    VALIDATE_IGNORE = "validate/ignore"


OWN_POLICIES: dict[Endpoint, Literal["Ignore", "Fail"]] = {
    Endpoint.VALIDATE_FAIL: "Fail",
    Endpoint.VALIDATE_IGNORE: "Ignore",
}


class ReviewRecord(NamedTuple):
    """What is logged and counted of a call: no value of the object but names.

    Attributes:
        decision: allow, deny, warn, mutate or error (a rule could not be evaluated).
        results: policy, rule, result and mode of every rule that applied.
        changes: policy, rule and field of every change made.
        warnings: how many the caller is sent.
        would_change: rule and field of every change that a policy in warn or audit mode would make besides.
    """

    uid: str
    decision_id: str
    webhook: Endpoint
    operation: str
    kind: str
    namespace: str
    name: str
    user: str
    dry_run: bool
    decision: str
    results: tuple[tuple[str, str, str, str], ...]
    changes: tuple[tuple[str, str, str], ...]
    policies: str
    warnings: int
    would_change: tuple[tuple[str, str], ...] = ()


class Answer(NamedTuple):
    """What to send, and what to record of it."""

    body: bytes
    record: ReviewRecord


def answer_review(  # noqa: PLR0913 - what a Gate holds, by name
    body: bytes,
    endpoint: Endpoint,
    *,
    policy_set: PolicySet,
    facts: Facts,
    settled: bool = True,
    languages: tuple[str, ...] = ("en",),
    deadline: Callable[[], bool] = never,
    now: datetime = LONG_AGO,
) -> Answer:
    """Answer one call.

    Args:
        body: the AdmissionReview received.
        endpoint: where it arrived.
        policy_set: the policies in force.
        facts: what is known of the cluster.
        settled: see `webhook.engine.Gate`.
        languages: of messages, the first first.
        deadline: whether the caller's time is over.
        now: the moment of the call; exceptions that ended before are not in force.

    Raises:
        BadReviewError: the body is no AdmissionReview that can be answered.
    """
    request = parse_review(body)
    gate = Gate(policy_set, facts, settled, deadline, now, OWN_POLICIES.get(endpoint))
    mutating = endpoint is Endpoint.MUTATE
    outcome = mutate(gate, request) if mutating else _own(validate(gate, request), endpoint)
    response = build_response(outcome, languages, mutating=mutating)
    return Answer(
        orjson.dumps(response), _record(outcome, endpoint, len(response["response"].get("warnings", ())))
    )


def _own(outcome: Outcome, endpoint: Endpoint) -> Outcome:
    """The reports of the policies that this endpoint answers for."""
    failure_policy = OWN_POLICIES.get(endpoint)
    if failure_policy is None:
        return outcome
    reports = tuple([each for each in outcome.reports if each.rule.failure_policy == failure_policy])
    return outcome if len(reports) == len(outcome.reports) else outcome._replace(reports=reports)


def _record(outcome: Outcome, endpoint: Endpoint, warnings: int) -> ReviewRecord:
    request = outcome.request
    return ReviewRecord(
        uid=request.uid,
        decision_id=outcome.decision_id,
        webhook=endpoint,
        operation=request.operation,
        kind=request.kind,
        namespace=request.namespace,
        name=request.shown_name,
        user=request.username,
        dry_run=request.dry_run,
        decision=_decision(outcome, mutating=endpoint is Endpoint.MUTATE),
        results=tuple([(r.rule.policy, r.rule.name, r.result, r.rule.mode) for r in outcome.reports]),
        changes=tuple([(*change.rule.split("/", 1), change.field) for change in outcome.changes]),  # type: ignore[misc]
        policies=outcome.policy_set.hash,
        warnings=warnings,
        would_change=tuple([(change.rule, change.field) for _, change in outcome.would_change]),
    )


def _decision(outcome: Outcome, *, mutating: bool) -> str:
    actions = {report.action for report in outcome.reports}
    would_warn = any(mode is Mode.WARN for mode, _ in outcome.would_change)
    if not mutating and Action.DENY in actions:
        return "deny"
    if mutating and outcome.patch and not outcome.marked:
        return "mutate"
    if Action.WARN in actions or would_warn:
        return "warn"
    return "error" if Result.ERROR in [report.result for report in outcome.reports] else "allow"
