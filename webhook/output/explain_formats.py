"""The formats of `podgate explain`.

`json` is one object; while its `version` is the same, keys are only added:

    version, exitCode, policies, skipped and problems as in `webhook.output.json_format`
    objects: list of
      file, line, column, origin, apiVersion, kind, namespace, name
      of: the template whose pods or claims these are, "" for the object itself
      exempt: why no rule looks at it, "" else
      workload: null for what is no pod, else
        class, classEvidence, communication, communicationEvidence, owner
        accelerators: effective devices by resource name; claimsDevices: whether it has claims that cannot be counted
        vendors, sharing, holders (the containers), pools (where it could land after all enforced rules): lists
      policies: list, in the order in which they run, of
        policy, severity, title (by language, {} if none), order, mode (an override's where one decides)
        applies: yes | no | unknown
        reasons: why not, or why nobody knows; of several alternatives of a match one each
        override: the one that decides, "" if none
        overrides: by name, why those before it do not
        rules: list of
          rule, type
          results: as in `podgate check`
          changes: as in `podgate check`
          owners: by field, the rule that has what this one left alone
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from webhook.documents import Problem
from webhook.output.explanations import Explanation, PolicyExplained, RuleExplained, Traits
from webhook.output.json_format import (
    change_to_json,
    dump,
    head,
    identity_to_json,
    place_to_json,
    result_to_json,
)
from webhook.output.problems import problem_to_json
from webhook.output.results import RuleResult, Skipped
from webhook.output.table import (
    ACTION_TEXT,
    CYAN,
    GREEN,
    PLAIN,
    YELLOW,
    Paint,
    diff,
    leave,
    name_of,
    paint_ansi,
    severity_words,
    skipped_lines,
    who_answers,
)
from webhook.rules.base import Mode, Result

APPLIES = {"yes": ("applies", GREEN), "no": ("does not apply", PLAIN), "unknown": ("may apply", YELLOW)}


def render_explanations(
    explanations: Iterable[Explanation], skipped: Sequence[Skipped], *, colour: bool = False
) -> str:
    """Explanations as text: for each object what it is, and for each policy whether it applies, and what its rules did.

    Args:
        explanations: of all objects.
        skipped: the objects that nothing can be said of.
        colour: paint with ANSI sequences; no meaning hangs on them.
    """
    paint = paint_ansi if colour else leave
    lines = [line for each in explanations for line in _explanation(each, paint)]
    return "".join(f"{line}\n" for line in (*lines, *skipped_lines(skipped)))


def render_explanations_as_json(
    explanations: Iterable[Explanation],
    skipped: Iterable[Skipped],
    problems: Iterable[Problem],
    head_of: tuple[int, int, str],
) -> str:
    """Explanations as `json`, see the module's text.

    Args:
        explanations: of all objects.
        skipped: the objects that nothing can be said of.
        problems: errors and warnings about files.
        head_of: the exit code, how many policies there are, and their hash.
    """
    return dump(
        {
            **head(*head_of),
            "objects": [_to_json(each) for each in explanations],
            "skipped": [
                {**place_to_json(each.place), **identity_to_json(each.identity), "reason": each.reason}
                for each in skipped
            ],
            "problems": [problem_to_json(problem) for problem in problems],
        }
    )


def _explanation(each: Explanation, paint: Paint) -> Iterator[str]:
    origin = f" (from {each.place.origin})" if each.place.origin else ""
    of = f", as made from {each.of}" if each.of else ""
    yield f"{each.place.file}:{each.place.line}{origin} {name_of(each.identity)}{of}"
    if each.traits:
        yield from _traits(each.traits)
    if each.exempt:
        yield f"  exempt: {each.exempt}"
    for policy in each.policies:
        yield from _policy(policy, paint)


def _traits(traits: Traits) -> Iterator[str]:
    yield f"  class:         {traits.workload} ({traits.workload_evidence})"
    yield f"  communication: {traits.communication} ({traits.communication_evidence})"
    asked = [f"{count} {name}" for name, count in traits.accelerators.items()]
    asked += ["device claims"] if traits.claims_devices else []
    vendors = f" of {', '.join(traits.vendors)}" if traits.vendors else ""
    shared = [sharing for sharing in traits.sharing if sharing != "none"]
    more = f", shared by {', '.join(shared)}" if shared else ""
    holders = f", in {', '.join(traits.holders)}" if traits.holders else ""
    yield f"  accelerators:  {', '.join(asked) or 'none'}{vendors}{more}{holders}"
    if asked:
        yield f"  pools:         {', '.join(traits.pools) or 'no AcceleratorPool that it could land in'}"


def _policy(policy: PolicyExplained, paint: Paint) -> Iterator[str]:
    text, colour = APPLIES[policy.applies]
    by = f", by override {policy.override}" if policy.override else ""
    severity = severity_words(policy.severity)
    yield f"  {policy.name} ({policy.mode}{by}{severity}): {paint(text, colour)}"
    title = next(iter(policy.title.values()), "")
    if title and policy.applies != "no":
        yield f"    title: {title}"
    for reason in policy.reasons:
        yield f"    {reason}"
    for name, reasons in policy.overrides.items():
        yield f"    override {name} does not decide: {'; '.join(reasons)}"
    for rule in policy.rules:
        yield from _rule(rule, paint)


def _rule(rule: RuleExplained, paint: Paint) -> Iterator[str]:
    name = f"    {rule.rule.partition('/')[2]} ({rule.type})"
    told = [result for result in rule.results if result.result is not Result.PASS]
    if not told and not rule.changes:
        nothing = "has nothing to write" if rule.is_setter else "finds nothing wrong"
        yield f"{name}: {nothing if rule.results else 'did not run'}"
    for result in told:
        yield f"{name}: {_result(result, 'in part' if rule.changes else 'skips', paint)}"
        if result.exception:
            yield f"      {who_answers(result.exception)}"
        owner = rule.owners.get(result.field)
        if owner:
            yield f"      {result.field} is set by {owner}"
    for mode in dict.fromkeys(change.mode for change in rule.changes):
        yield f"{name}: {_verb(mode, paint)}"
        for change in rule.changes:
            if change.mode is mode:
                yield from (f"  {line}" for line in diff(change, paint))


def _verb(mode: Mode, paint: Paint) -> str:
    return paint("changes", GREEN) if mode is Mode.ENFORCE else paint(f"would change ({mode})", CYAN)


def _result(result: RuleResult, skips: str, paint: Paint) -> str:
    message = next(iter(result.message.values()), "")
    if result.result is Result.SKIP:
        return f"{skips}: {message}"
    word, colour = (
        ("undecided", YELLOW)
        if result.result is Result.ERROR
        else ACTION_TEXT.get(result.action, ("", PLAIN))
    )
    return f"{paint(word or 'not told', colour)} {result.place}: {message}"


def _to_json(each: Explanation) -> dict[str, Any]:
    return {
        **place_to_json(each.place),
        **identity_to_json(each.identity),
        "of": each.of,
        "exempt": each.exempt,
        "workload": _traits_to_json(each.traits) if each.traits else None,
        "policies": [_policy_to_json(policy) for policy in each.policies],
    }


def _traits_to_json(traits: Traits) -> dict[str, Any]:
    return {
        "class": traits.workload,
        "classEvidence": traits.workload_evidence,
        "communication": traits.communication,
        "communicationEvidence": traits.communication_evidence,
        "owner": traits.owner,
        "accelerators": dict(traits.accelerators),
        "claimsDevices": traits.claims_devices,
        "vendors": list(traits.vendors),
        "sharing": list(traits.sharing),
        "holders": list(traits.holders),
        "pools": list(traits.pools),
    }


def _policy_to_json(policy: PolicyExplained) -> dict[str, Any]:
    return {
        "policy": policy.name,
        "severity": policy.severity,
        "title": dict(policy.title),
        "order": policy.order,
        "mode": policy.mode.value,
        "applies": policy.applies,
        "reasons": list(policy.reasons),
        "override": policy.override,
        "overrides": {name: list(reasons) for name, reasons in policy.overrides.items()},
        "rules": [_rule_to_json(rule) for rule in policy.rules],
    }


def _rule_to_json(rule: RuleExplained) -> dict[str, Any]:
    return {
        "rule": rule.rule.partition("/")[2],
        "type": rule.type,
        "results": [result_to_json(result) for result in rule.results],
        "changes": [change_to_json(change) for change in rule.changes],
        "owners": dict(rule.owners),
    }
