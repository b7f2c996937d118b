"""A policy as it holds for one object: does it match, which override decides, which rules are lifted.

Precedence: exception, then override (by order, then name; the first that matches), then the policy's own word.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from webhook.facts import Unknown
from webhook.kube.field_path import mapping_at
from webhook.policy import CompiledRule
from webhook.policy.match import Answer, View
from webhook.policy.policy_set import Candidate, CompiledException, CompiledPolicy, Resolved
from webhook.rules.base import ENDING_TEXT, Finding, Mode, Sentence, skip, unknown

OUT_OF_TIME = Unknown("the time that the API server gives to a review ran out")

SKIP_ANNOTATION = "podgate.dev/skip"
"""`policy: reason; policy: reason`: an object's own exemption, from policies that allow it."""

MOST_OPT_OUTS = 20
ENDING = timedelta(days=14)
"""How long before its end an exception is warned about: two weeks are time to mend a workload."""


def resolve(candidate: Candidate, view: View) -> Resolved:
    """A policy, `candidate`, as it holds for the object of `view`, which is one of the lanes."""
    answer = _applies(candidate, view)
    if answer is False:
        return candidate.passed_over
    if answer is not True:
        return Resolved.of(candidate, candidate, answer, matches=False)
    for matches, variant in candidate.overrides:
        decides = matches(view)
        if isinstance(decides, Unknown):
            return Resolved.of(candidate, candidate, decides)
        if decides:
            return Resolved.of(candidate, variant, variant.policy.mode is not Mode.DISABLED)
    return candidate.applied


def _applies(candidate: Candidate, view: View) -> Answer:
    """Whether a policy applies: it matches, and nothing exempts."""
    if view.received.expired():
        return OUT_OF_TIME
    matches = candidate.matches(view)
    if matches is False or candidate.excludes is None:
        return matches
    exempts = candidate.excludes(view)
    if exempts is True:
        return False
    return exempts if isinstance(exempts, Unknown) else matches


def not_asked(found: Resolved, rule: CompiledRule, view: View) -> tuple[Finding, ...]:
    """Why a `rule` of the policy `found` shall not run on the object of `view`; () if it shall.

    The first one's time was asked for when the policy was looked at.
    """
    if rule is not found.chosen.policy.rules[0] and view.received.expired():
        return (unknown(OUT_OF_TIME),)
    lifted = _lifted(found.base.policy, rule, view) if found.can_be_lifted else None
    if lifted is not None:
        return (lifted,)
    if found.answer is True:
        return ()
    return (unknown(found.answer),) if isinstance(found.answer, Unknown) else ()


def _lifted(policy: CompiledPolicy, rule: CompiledRule, view: View) -> Finding | None:
    """The object's own word, or an exception, that lifts a rule."""
    reason = _opted_out(view, policy.name) if policy.opt_out else ""
    if reason:
        return skip("opted out", reason=reason)
    for exception in policy.exceptions:
        found = _excepted(exception, rule, view)
        if found is not None:
            return found
    return None


def _excepted(exception: CompiledException, rule: CompiledRule, view: View) -> Finding | None:
    now = view.received.now
    if exception.rule not in ("", rule.name) or now >= exception.expires_at:
        return None
    matches = exception.matches(view)
    if isinstance(matches, Unknown):
        return unknown(matches)
    if not matches:
        return None
    return skip(
        ENDING_TEXT if exception.expires_at - now <= ENDING else "excepted",
        name=exception.name,
        until=f"{exception.expires_at:%Y-%m-%d %H:%M} UTC",
        reason=Sentence(exception.reason),
        owner=exception.owner,
    )


def _opted_out(view: View, policy: str) -> str:
    """The reason that the object gives for staying out of a policy; "" if it gives none."""
    return view.received.once(_opt_outs).get(policy, "")


def _opt_outs(thing: Mapping[str, Any]) -> Mapping[str, str]:
    """The policies that an object stays out of, each with its first reason."""
    text = mapping_at(thing, ("metadata", "annotations")).get(SKIP_ANNOTATION)
    if not isinstance(text, str):
        return {}
    entries = [entry.partition(":") for entry in text.split(";", MOST_OPT_OUTS)[:MOST_OPT_OUTS]]
    return {name.strip(): reason.strip() for name, _, reason in reversed(entries) if reason.strip()}
