"""The `json` formats: one object; while its `version` is the same, keys are only added.

`podgate check`:

    version: 1
    exitCode: what the command exits with
    policies: {count, hash}
    summary: {objects, passed, refused, warned, audited, undecided, unmatched, exempt, wouldBeChanged,
      laterChanged (objects whose pods or claims would be), skipped, errors, warnings};
      an object that is refused by one rule and warned of by another counts in both
    objects: list of
      file, line, column, origin (the chart's template, "" if none), apiVersion, kind, namespace, name
      verdicts: list of refused, undecided, warned, audited, the worst first;
        or one of passed, unmatched (no policy applies), exempt
      exempt: why no rule looked at it, "" else
      results: list of
        policy, rule, severity (low | medium | high | critical) and title (by language, {} if none) of the policy,
        result (pass | fail | skip | error), mode (enforce | warn | audit),
        action: what the webhook would do: deny | warn | record | none
        file, line, column: the offending field, its nearest ancestor where it is absent
        field: the same in words, "" if nowhere in particular
        message, remediation: by language; {} for a pass
        needs: of an error, the kind of the facts that are missing, "" where no fact would help
        references: the policy's link and contact
        lifted: what keeps the rule from being asked, an exception or the object's own annotation, "" if nothing
        exception: null, else the one that lifts the rule: name, reason, owner, reference ("" if none),
          expiresAt (the first moment at which it is over)
      changes: list of
        policy, rule, mode (below enforce the change is only shown), path
        from, to: null where absent; both are left out where they may be secrets (environment values)
      later: of a controller, the same of what enforced policies will change in what is made from its templates, with
        of: pods | claims; the paths are those of the template in this object
    skipped: list of file, line, column, origin, apiVersion, kind, namespace, name, reason
    problems: list of file, line, column (null for a whole file), severity (error | warning), message, hint

`podgate lint`: version, exitCode, policies and problems of the same, and of what could be loaded
    loaded: list of policy, severity, title (in all its languages), mode
    exceptions: list of name, reason, owner, reference, expiresAt, and
      lifts: list of policy or policy/rule
"""

import json
from collections.abc import Iterable
from typing import Any

from webhook.documents import Problem
from webhook.output.problems import problem_to_json
from webhook.output.results import (
    CheckResult,
    ExceptionSaid,
    FieldChange,
    Identity,
    ObjectResult,
    Place,
    RuleResult,
    Verdict,
    exception_said,
    title_of,
)
from webhook.policy import PolicySet

VERSION = 1


def render_check(result: CheckResult, exit_code: int) -> str:
    """A check's results, see the module's text.

    Args:
        result: of all objects of all files.
        exit_code: the one that the command ends with; the text repeats it.
    """
    return dump(
        {
            **head(exit_code, result.policy_count, result.policies),
            "summary": _summary(result),
            "objects": [_object(each) for each in result.objects],
            "skipped": [
                {**place_to_json(each.place), **identity_to_json(each.identity), "reason": each.reason}
                for each in result.skipped
            ],
            "problems": [problem_to_json(problem) for problem in result.problems],
        }
    )


def render_lint(problems: Iterable[Problem], exit_code: int, policy_set: PolicySet) -> str:
    """What linting found, see the module's text.

    Args:
        problems: errors and warnings.
        exit_code: what the command exits with.
        policy_set: what could be loaded.
    """
    return dump(
        {
            **head(exit_code, len(policy_set), policy_set.hash),
            "loaded": _loaded(policy_set),
            "exceptions": _exceptions(policy_set),
            "problems": [problem_to_json(problem) for problem in problems],
        }
    )


def dump(value: dict[str, Any]) -> str:
    """A format's one object as text."""
    # ASCII, so that nothing in a manifest reaches a terminal as a control sequence.
    return json.dumps(_json(value), ensure_ascii=True, indent=2, allow_nan=False) + "\n"


def _json(value: Any) -> Any:
    """A value of a manifest, whose numbers may be some that JSON has not (.inf, .nan): they become text."""
    if isinstance(value, dict):
        return {str(key): _json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_json(each) for each in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value


def head(exit_code: int, count: int, policies: str) -> dict[str, Any]:
    """What every format begins with.

    Args:
        exit_code: the one that the command ends with.
        count: how many policies are loaded.
        policies: their hash.
    """
    return {"version": VERSION, "exitCode": exit_code, "policies": {"count": count, "hash": policies}}


def _summary(result: CheckResult) -> dict[str, int]:
    errors = sum(not problem.is_warning for problem in result.problems)
    return {
        "objects": len(result.objects),
        **{verdict.value: result.count(verdict) for verdict in Verdict},
        "wouldBeChanged": sum(each.would_be_changed for each in result.objects),
        "laterChanged": sum(bool(each.later) for each in result.objects),
        "skipped": len(result.skipped),
        "errors": errors,
        "warnings": len(result.problems) - errors,
    }


def place_to_json(place: Place) -> dict[str, Any]:
    """Where something is written."""
    return {"file": place.file, "line": place.line, "column": place.column, "origin": place.origin}


def identity_to_json(identity: Identity) -> dict[str, str]:
    """An object's names."""
    return {
        "apiVersion": identity.api_version,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
    }


def _object(each: ObjectResult) -> dict[str, Any]:
    return {
        **place_to_json(each.place),
        **identity_to_json(each.identity),
        "verdicts": [verdict.value for verdict in each.verdicts],
        "exempt": each.exempt,
        "results": [result_to_json(result) for result in each.results],
        "changes": [change_to_json(change) for change in each.changes],
        "later": [{**change_to_json(change), "of": change.of} for change in each.later],
    }


def _policy_and_rule(key: str) -> dict[str, str]:
    policy, _, rule = key.partition("/")
    return {"policy": policy, "rule": rule}


def result_to_json(result: RuleResult) -> dict[str, Any]:
    """One of `results`."""
    return {
        **_policy_and_rule(result.rule),
        "severity": result.severity,
        "title": dict(result.title),
        "result": result.result.value,
        "mode": result.mode.value,
        "action": result.action.value,
        "file": result.place.file,
        "line": result.place.line,
        "column": result.place.column,
        "field": result.field,
        "message": dict(result.message),
        "remediation": dict(result.remediation),
        "needs": result.needs,
        "references": list(result.references),
        "lifted": result.lifted,
        "exception": _exception_to_json(result.exception) if result.exception else None,
    }


def _exception_to_json(exception: ExceptionSaid) -> dict[str, str]:
    return {
        "name": exception.name,
        "reason": exception.reason,
        "owner": exception.owner,
        "reference": exception.reference,
        "expiresAt": f"{exception.expires_at:%Y-%m-%dT%H:%M:%SZ}",
    }


def _loaded(policy_set: PolicySet) -> list[dict[str, Any]]:
    return [
        {
            "policy": policy.name,
            "severity": policy.severity,
            "title": title_of(policy, tuple(policy.title)),
            "mode": policy.mode.value,
        }
        for policy in policy_set.policies
    ]


def _exceptions(policy_set: PolicySet) -> list[dict[str, Any]]:
    """Each exception once, though each policy that it concerns has one of its own."""
    found: dict[ExceptionSaid, list[str]] = {}
    for policy in policy_set.policies:
        for each in policy.exceptions:
            lifts = f"{policy.name}/{each.rule}" if each.rule else policy.name
            found.setdefault(exception_said(each), []).append(lifts)
    return [{**_exception_to_json(each), "lifts": lifts} for each, lifts in sorted(found.items())]


def change_to_json(change: FieldChange) -> dict[str, Any]:
    """One of `changes`."""
    values = {} if change.secret else {"from": change.before, "to": change.after}
    return {**_policy_and_rule(change.rule), "mode": change.mode.value, "path": change.path, **values}
