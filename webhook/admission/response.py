"""An outcome to an AdmissionReview's response, by the wire's rules; nobody else builds one.

The rules (kubernetes/apiserver:pkg/admission/plugin/webhook/request/admissionreview.go): the same uid; patch and patchType
together or not at all; a validating answer has neither; no patch without an object.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import orjson

from webhook.engine import Action, Outcome, Report
from webhook.engine.decide import decide, weakest_action
from webhook.engine.texts import say
from webhook.kube.draft import Change
from webhook.kube.field_path import format_field
from webhook.kube.managed_fields import was_added
from webhook.kube.plain_text import plain
from webhook.rules.base import ENDING_TEXT, UNAPPLIED, Finding, Mode

MOST_VIOLATIONS = 5
"""Violations shown in full; a reader mends the first ones first."""

MOST_CAUSES = 50
"""As the API server bounds its own (kubernetes/apiserver:pkg/admission/plugin/policy/validating, maxValidationFailures)."""

WARNING_CHARACTERS = 120
"""What a warning should have at most (kubernetes/api:admission/v1/types.go, AdmissionResponse.Warnings)."""

LONGEST_WARNING = 256
"""What a warning may have: all that the API server leaves of one, once those of a request together have too many
(kubernetes/apiserver:pkg/endpoints/filters/warning.go, truncateItemRunes)."""

FIELD_CHARACTERS = 60
"""Of a place in a warning, half of it; the way to a node affinity term alone has 97."""

MOST_WARNINGS = 20
"""Of one answer, and a line that counts the others; more is not read."""

MOST_WARNING_CHARACTERS = MOST_WARNINGS * WARNING_CHARACTERS
"""Of one answer together. The API server drops what is over 4,096 in all answers to a request
(kubernetes/apiserver:pkg/endpoints/filters/warning.go, truncateAtTotalRunes)."""

ADDED = " (added after it was sent, by a webhook or the API server)"
"""Of a place: its author has no such field."""

ANNOTATION_BYTES = 8 * 1024
"""Of one audit annotation: below the 10 KiB at which the API server's own policies cut theirs."""


def build_response(outcome: Outcome, languages: Sequence[str] = ("en",), *, mutating: bool) -> dict[str, Any]:
    """The AdmissionReview that answers a request.

    Args:
        outcome: what the engine says.
        languages: a denial shows all, in this order, a warning the first.
        mutating: whether it answers a mutating call, which alone may carry a patch.
    """
    response: dict[str, Any] = {"uid": outcome.request.uid, "allowed": mutating or outcome.allowed}
    if mutating and outcome.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(orjson.dumps(outcome.patch)).decode()
    if not response["allowed"]:
        response["status"] = _status(outcome, languages)
    warnings = _would_warn(outcome) if mutating else _warnings(outcome, languages[0])
    if warnings:
        response["warnings"] = warnings
    audit = _audit_annotations(outcome)
    if audit:
        response["auditAnnotations"] = audit
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _acted_on(outcome: Outcome, action: Action) -> Iterator[tuple[Report, Finding]]:
    """The findings about which this is done; a finding may have a lower ceiling than others of its rule."""
    for report in outcome.reports:
        if report.action is Action.NONE:  # of most, which found nothing
            continue
        for finding in report.findings:
            own = decide(finding, report.rule.mode, report.rule.failure_policy)
            if weakest_action(own, report.action) is action:
                yield report, finding


def _status(outcome: Outcome, languages: Sequence[str]) -> dict[str, Any]:
    denials = list(_acted_on(outcome, Action.DENY))
    shown = [_violation(outcome, report, finding, languages) for report, finding in denials[:MOST_VIOLATIONS]]
    if len(denials) > MOST_VIOLATIONS:
        shown.append(f"… and {len(denials) - MOST_VIOLATIONS} more; podgate check shows all")
    return {
        "code": 403,
        "reason": "Forbidden",
        "status": "Failure",
        "message": "\n".join(shown),
        "details": {
            "causes": [
                {
                    "reason": plain(report.rule.key),
                    "message": say(report.rule, finding, languages[0]).message,
                    "field": field_of(outcome, finding),
                }
                for report, finding in denials[:MOST_CAUSES]
            ]
        },
    }


def _violation(outcome: Outcome, report: Report, finding: Finding, languages: Sequence[str]) -> str:
    """What is wrong, where, what to do, and why: the first line says enough, for consoles cut at 200 characters."""
    first, *others = (say(report.rule, finding, language) for language in languages)
    lines = [f"{first.message}."]
    place = field_of(outcome, finding)
    if place:
        lines.append(f"  where: {place}{ADDED if _was_added(outcome, finding) else ''}")
    lines.append(f"  do:    {first.remediation}")
    why = [report.rule.key, f"policies {outcome.policy_set.hash}", f"decision {outcome.decision_id}"]
    lines.append(f"  why:   {', '.join([*why, *filter(None, (report.rule.link, report.rule.contact))])}")
    lines.extend(
        f"  {other.message}。{other.remediation}" for other in others if other.message != first.message
    )
    return "\n".join(lines)


def _was_added(outcome: Outcome, finding: Finding) -> bool:
    """Whether its author never wrote what is refused, and looks for it in vain in his manifest."""
    request = outcome.request
    asked = request.operation == "CREATE" and request.from_api_server and finding.text != UNAPPLIED
    return asked and was_added(request.object or {}, finding.path)


def field_of(outcome: Outcome, finding: Finding) -> str:
    """The place of `finding` in the object of `outcome`, in words; "" where it has none."""
    if not finding.path:
        return ""
    return plain(format_field(outcome.audited or outcome.object or {}, finding.path), 256)


def _warnings(outcome: Outcome, language: str) -> list[str]:
    found = list(_acted_on(outcome, Action.WARN))
    found.extend(
        (report, finding)
        for report in outcome.reports
        for finding in report.findings
        if finding.text == ENDING_TEXT
    )
    return _bounded([partial(_warning, *each, language) for each in found])


def _warning(report: Report, finding: Finding, language: str) -> list[str]:
    """What is wrong and what to do in one line, or in a line each where one would be longer than recommended."""
    said = say(report.rule, finding, language)
    key = report.rule.key
    whole = f"[{key}] {said.message}; {said.remediation}"
    if len(whole) <= WARNING_CHARACTERS:
        return [_cut(whole)]
    return [_cut(f"[{key}] {said.message}"), _cut(f"[{key}] do: {said.remediation}")]


def _would_warn(outcome: Outcome) -> list[str]:
    """What a mutating answer warns of: changes in thought. The validating answers say all else, once."""
    found = [change for mode, change in outcome.would_change if mode is Mode.WARN]
    return _bounded([partial(_would_set, change) for change in found])


def _would_set(change: Change) -> list[str]:
    to = "" if "env" in change.path else f" to {_compact(change.after)}"
    return [plain(f"[{change.rule}] would set {_end_of(change.field)}{to}", WARNING_CHARACTERS)]


def _bounded(found: Sequence[Callable[[], list[str]]]) -> list[str]:
    """The lines of the first ones, each once as the API server shows them, and how many are left."""
    lines: dict[str, None] = {}
    for number, lines_of in enumerate(found):
        more = lines | dict.fromkeys(lines_of())
        if len(more) > MOST_WARNINGS or sum(map(len, more)) > MOST_WARNING_CHARACTERS:
            return [*lines, f"… and {len(found) - number} more; podgate check shows all"]
        lines = more
    return list(lines)


def _cut(text: str) -> str:
    """A line of at most `LONGEST_WARNING` characters, that ends at a word, where the language has some, and shows it."""
    line = plain(text, LONGEST_WARNING + 1)
    if len(line) <= LONGEST_WARNING:
        return line
    words, _, word = line[: LONGEST_WARNING - 1].rpartition(" ")
    return f"{words} …" if len(word) <= LONGEST_WARNING // 4 else f"{line[: LONGEST_WARNING - 1]}…"


def _audit_annotations(outcome: Outcome) -> dict[str, str]:
    """Keys without a prefix, which the API server adds; the same values for the same object, since it refuses a second one."""
    if outcome.exempt or not (outcome.reports or outcome.changes):
        return {}
    found: dict[str, str] = {"policies": outcome.policy_set.hash, "decision": outcome.decision_id}
    acted = [report for report in outcome.reports if report.action is not Action.NONE]
    lists = {
        "denied": _keys(acted, Action.DENY),
        "warned": _keys(acted, Action.WARN),
        "recorded": _keys(acted, Action.RECORD),
        "mutations": [f"{change.rule} {change.field}" for change in outcome.changes],
        "would-mutate": [f"{change.rule} {change.field}" for _, change in outcome.would_change],
    }
    for key, values in lists.items():
        if values:  # four bytes is the longest character of UTF-8
            found[key] = plain(", ".join(values), ANNOTATION_BYTES // 4)
    return found


def _keys(reports: Sequence[Report], action: Action) -> list[str]:
    return [f"{report.rule.key} {report.result}" for report in reports if report.action is action]


def _end_of(field: str) -> str:
    """The end of a long place: what tells it from others, and leaves room for the value."""
    return field if len(field) <= FIELD_CHARACTERS else f"…{field[1 - FIELD_CHARACTERS :]}"


def _compact(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
