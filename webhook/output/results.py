"""The results of a check as values: what was found, where it is written, and what would be changed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from webhook.documents import Document, Path, Problem
from webhook.engine import Action, Outcome, Report
from webhook.engine.decide import decide, weakest_action
from webhook.engine.exempt import DAEMON_SET_CONTROLLER
from webhook.engine.texts import say
from webhook.kube.draft import Change
from webhook.kube.field_path import format_field, mapping_at
from webhook.kube.plain_text import plain
from webhook.kube.templates import TemplateKind, claim_templates_of, templates_of
from webhook.policy import CompiledPolicy, PolicySet
from webhook.policy.policy_set import CompiledException
from webhook.rules.base import ENDING_TEXT, EXCEPTED_TEXTS, Finding, Mode, Result

LONGEST_NAME = 253
"""Of an object (kubernetes/apimachinery:pkg/util/validation/validation.go, DNS1123SubdomainMaxLength)."""

LONGEST_TEXT = 1000
"""Characters of one text; a policy's own may be a paragraph."""


class Verdict(StrEnum):
    """What comes of one object, the worst first; of the first four, several may hold."""

    REFUSED = "refused"
    UNDECIDED = "undecided"
    WARNED = "warned"
    AUDITED = "audited"
    PASSED = "passed"
    UNMATCHED = "unmatched"
    EXEMPT = "exempt"


VERDICT_OF = {Action.DENY: Verdict.REFUSED, Action.WARN: Verdict.WARNED, Action.RECORD: Verdict.AUDITED}


class Place(NamedTuple):
    """Where something is written.

    Attributes:
        line: from 1.
        column: from 1, in characters.
        origin: the template of a chart that Helm made it from, "" if it does not say.
    """

    file: str
    line: int
    column: int
    origin: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Identity:
    """An object by its names, safe to print."""

    api_version: str
    kind: str
    namespace: str
    name: str


class ExceptionSaid(NamedTuple):
    """A PodPolicyException as a report shows it, safe to print.

    Attributes:
        expires_at: the first moment at which it is no longer in force, in UTC.
        reference: a ticket or page, "" where none is given.
    """

    name: str
    expires_at: datetime
    reason: str
    owner: str
    reference: str


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One finding of one rule, or that it found nothing.

    Attributes:
        rule: `policy/rule`.
        severity: the policy's.
        title: the policy's, by language; empty where it has none.
        mode: the policy's, or the lower one that the finding allows.
        action: what the webhook would do about it.
        field: the place inside the object, in words; "" if nowhere in particular.
        message: by language; empty for a pass.
        remediation: likewise.
        needs: of an error, the kind of the facts that are missing; "" where no fact would help.
        references: the policy's link and contact.
        lifted: by what the rule was not asked, an exception or the object's own word; "" where it was.
        lifted_soon_over: whether the exception ends soon.
        exception: the one that lifts the rule, None where none does.
    """

    rule: str
    severity: str
    title: Mapping[str, str]
    result: Result
    mode: Mode
    action: Action
    place: Place
    field: str
    message: Mapping[str, str]
    remediation: Mapping[str, str]
    needs: str = ""
    references: tuple[str, ...] = ()
    lifted: str = ""
    lifted_soon_over: bool = False
    exception: ExceptionSaid | None = None


class Telling(NamedTuple):
    """How a result is told: as one of a policy, in languages, the first first."""

    policy: CompiledPolicy
    languages: Sequence[str]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that a rule changes.

    Attributes:
        rule: `policy/rule`.
        mode: the policy's: below `enforce` the change is only shown.
        path: the field in words.
        shown_path: the same for a diff, where a new item of a list is `list[]`.
        secret: whether its values may be secrets, which no output shows.
        of: what is changed: the object itself, or the pods or claims that will be made from its templates.
    """

    rule: str
    mode: Mode
    path: str
    shown_path: str
    before: Any
    after: Any
    secret: bool
    of: Literal["object", "pods", "claims"] = "object"


@dataclass(frozen=True, slots=True)
class ObjectResult:
    """What a check says of one object.

    Attributes:
        verdicts: at least one, the worst first.
        exempt: why no rule looked at it, "" else.
        later: of a controller, what the enforced policies will change in its pods and claims, at the template's places.
    """

    place: Place
    identity: Identity
    verdicts: tuple[Verdict, ...]
    exempt: str
    results: tuple[RuleResult, ...]
    changes: tuple[FieldChange, ...]
    later: tuple[FieldChange, ...] = ()

    @property
    def would_be_changed(self) -> bool:
        """Whether an enforced policy changes it."""
        return any(change.mode is Mode.ENFORCE for change in self.changes)


@dataclass(frozen=True, slots=True)
class Skipped:
    """An object that is not checked, and why, as in "3 skipped, <reason>"."""

    place: Place
    identity: Identity
    reason: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """All that a check found.

    Attributes:
        policies: the hash of the policy set.
        policy_count: how many policies it holds.
    """

    policies: str
    policy_count: int
    objects: tuple[ObjectResult, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    problems: tuple[Problem, ...] = ()

    def count(self, verdict: Verdict) -> int:
        """How many objects have this verdict."""
        return sum(verdict in each.verdicts for each in self.objects)

    @property
    def errors(self) -> Iterator[RuleResult]:
        """The rules that could not be evaluated."""
        return (result for each in self.objects for result in each.results if result.result is Result.ERROR)


def place_of(document: Document, path: Path) -> Place:
    """Where the value at `path` of `document` is written; for an absent one, its nearest ancestor."""
    line, column = document.locate(path)
    return Place(document.source, line, column, plain(document.origin, LONGEST_TEXT))


def skipped(document: Document, base: Path, thing: Mapping[str, Any], reason: str) -> Skipped:
    """An object in a document that is not checked, and why.

    Args:
        document: which holds the object.
        base: the path of the object in it; () for the document itself.
        thing: the object, of any shape.
        reason: why no rule looks at it, in words.
    """
    metadata = mapping_at(thing, ("metadata",))
    names = (thing.get("apiVersion"), thing.get("kind"), metadata.get("namespace"), metadata.get("name"))
    identity = identity_of(name if isinstance(name, str) else "" for name in names)
    return Skipped(place_of(document, base), identity, plain(reason, LONGEST_TEXT))


def object_result(outcome: Outcome, document: Document, base: Path, languages: Sequence[str]) -> ObjectResult:
    """What a review says of an object in a file.

    Args:
        outcome: the engine's answer.
        document: where the object stands.
        base: its path in the document.
        languages: of the texts, the first first.
    """
    request = outcome.request
    api_version = f"{request.group}/{request.version}" if request.group else request.version
    policies = policies_by_name(outcome.policy_set)
    results = tuple(
        rule_result(
            report,
            finding,
            outcome.audited or outcome.object,
            place_of(document, (*base, *(finding.path if finding else ()))),
            Telling(policies[report.rule.policy], languages),
        )
        for report in outcome.reports
        for finding in report.findings or (None,)
        if finding is None or _is_told(report, finding)
    )
    exempt = outcome.exempt or ("" if results else _why_pods_are_exempt(outcome))
    return ObjectResult(
        place_of(document, base),
        identity_of((api_version, request.kind, request.namespace, request.shown_name)),
        (Verdict.EXEMPT,) if exempt else _verdicts(results),
        plain(exempt),
        results,
        tuple(_changes(outcome)),
        tuple(_later(outcome)),
    )


def policies_by_name(policy_set: PolicySet) -> dict[str, CompiledPolicy]:
    """The policies that results are told of."""
    return {policy.name: policy for policy in policy_set.policies}


def kind_of(outcome: Outcome) -> TemplateKind | None:
    """What is known of a kind that makes pods; None for another."""
    return outcome.policy_set.templates.kind_of(outcome.request.group, outcome.request.kind)


def _is_told(report: Report, finding: Finding) -> bool:
    """Whether anybody is to hear of a finding: of those in a template, `templates.check: disabled` says not."""
    return finding.result is Result.SKIP or report.action is not Action.NONE


def _why_pods_are_exempt(outcome: Outcome) -> str:
    """Why no rule looks at the pods of a controller; "" where rules do.

    What they are exempt from is decided by who creates them, see `webhook.engine.exempt`.
    """
    kind = kind_of(outcome)
    templates = templates_of(kind, outcome.request.object or {}) if kind else ()
    by_daemon_set = bool(templates) and all(each.user == DAEMON_SET_CONTROLLER for each in templates)
    return "the pods of a DaemonSet, made by its controller" if by_daemon_set else ""


def identity_of(names: Iterable[str]) -> Identity:
    """An object's API version, kind, namespace and name, made safe."""
    return Identity(*(plain(name, LONGEST_NAME) for name in names))


def rule_result(
    report: Report,
    finding: Finding | None,
    thing: Mapping[str, Any] | None,
    place: Place,
    telling: Telling,
) -> RuleResult:
    """A finding of a rule in words.

    Args:
        report: the rule's report.
        finding: one of its findings; None where it has none.
        thing: the object that the finding's path leads through.
        place: where that is written.
        telling: how it is told.
    """
    rule = report.rule
    severity, title = telling.policy.severity, title_of(telling.policy, telling.languages)
    if finding is None:
        return RuleResult(rule.key, severity, title, Result.PASS, rule.mode, Action.NONE, place, "", {}, {})
    said = {language: say(rule, finding, language) for language in telling.languages}
    return RuleResult(
        rule.key,
        severity,
        title,
        finding.result,
        min(rule.mode, finding.ceiling, key=lambda mode: mode.rank),
        weakest_action(decide(finding, rule.mode, rule.failure_policy), report.action),
        place,
        plain(format_field(thing or {}, finding.path), LONGEST_TEXT),
        {language: plain(text.message, LONGEST_TEXT) for language, text in said.items()},
        {language: plain(text.remediation, LONGEST_TEXT) for language, text in said.items()},
        finding.needs,
        tuple(plain(text, LONGEST_TEXT) for text in (rule.link, rule.contact) if text),
        plain(_lifted(finding), LONGEST_TEXT),
        finding.text == ENDING_TEXT,
        _exception(finding, telling.policy),
    )


def title_of(policy: CompiledPolicy, languages: Sequence[str]) -> dict[str, str]:
    """A policy's title by language, English where it has none in that; empty where it has none at all.

    Args:
        policy: whose title it is.
        languages: the first first.
    """
    title = policy.title
    if not title:
        return {}
    other = title.get("en") or next(iter(title.values()))
    return {language: plain(title.get(language) or other, LONGEST_TEXT) for language in languages}


def exception_said(exception: CompiledException) -> ExceptionSaid:
    """An exception as reports show it."""
    texts = exception.reason, exception.owner, exception.reference
    return ExceptionSaid(exception.name, exception.expires_at, *(plain(text, LONGEST_TEXT) for text in texts))


def _exception(finding: Finding, policy: CompiledPolicy) -> ExceptionSaid | None:
    if finding.text not in EXCEPTED_TEXTS:
        return None
    return next(
        (exception_said(each) for each in policy.exceptions if each.name == finding.args["name"]), None
    )


def _lifted(finding: Finding) -> str:
    if finding.text == "opted out":
        return f"opted out ({finding.args['reason']})"
    if finding.text in EXCEPTED_TEXTS:
        return f"excepted by {finding.args['name']} until {finding.args['until']}"
    return ""


def _verdicts(results: Sequence[RuleResult]) -> tuple[Verdict, ...]:
    if not results:
        return (Verdict.UNMATCHED,)
    found = {VERDICT_OF.get(each.action) for each in results if each.result is Result.FAIL}
    if any(each.result is Result.ERROR for each in results):
        found.add(Verdict.UNDECIDED)
    return tuple(verdict for verdict in Verdict if verdict in found) or (Verdict.PASSED,)


def _changes(outcome: Outcome) -> Iterator[FieldChange]:
    for change in outcome.changes:
        yield field_change(Mode.ENFORCE, change, outcome.object)
    for mode, change in outcome.would_change:
        yield field_change(mode, change, outcome.audited)


def _later(outcome: Outcome) -> Iterator[FieldChange]:
    kind = kind_of(outcome)
    claims = claim_templates_of(kind, outcome.request.object or {}) if kind else ()
    for change in outcome.later:
        of_claim = any(change.path[: len(path)] == path for path in claims)
        yield field_change(Mode.ENFORCE, change, outcome.request.object, "claims" if of_claim else "pods")


def field_change(
    mode: Mode, change: Change, changed: Any, of: Literal["object", "pods", "claims"] = "object"
) -> FieldChange:
    """A change of a rule in words.

    Args:
        mode: the rule's.
        change: what it changed.
        changed: the object that the change's path leads through.
        of: see `FieldChange`.
    """
    shown_path = f"{format_field(changed, change.path[:-1])}[]" if change.appended else change.field
    return FieldChange(
        change.rule,
        mode,
        plain(change.field, LONGEST_TEXT),
        plain(shown_path, LONGEST_TEXT),
        change.before,
        change.after,
        _is_environment(change.path),
        of,
    )


def _is_environment(path: Path) -> bool:
    """Whether a path leads to an item of a container's `env`, wherever the container stands: it may hold a secret."""
    return any(key == "env" and isinstance(after, int) for key, after in pairwise(path))
