"""The results of a check as values: what was found, where it is written, and what would be changed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

from webhook.documents import Document, Path, Problem
from webhook.engine import Action, Outcome, Report
from webhook.engine.decide import decide
from webhook.engine.texts import say
from webhook.kube.draft import Change
from webhook.kube.field_path import format_field, mapping_at
from webhook.kube.plain_text import plain
from webhook.rules.base import Finding, Mode, Result

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


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One finding of one rule, or that it found nothing.

    Attributes:
        rule: `policy/rule`.
        mode: the policy's, or the lower one that the finding allows.
        action: what the webhook would do about it.
        field: the place inside the object, in words; "" if nowhere in particular.
        message: by language; empty for a pass.
        remediation: likewise.
        needs: of an error, the kind of the facts that are missing; "" where no fact would help.
        references: the policy's link and contact.
    """

    rule: str
    result: Result
    mode: Mode
    action: Action
    place: Place
    field: str
    message: Mapping[str, str]
    remediation: Mapping[str, str]
    needs: str = ""
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that a rule changes.

    Attributes:
        rule: `policy/rule`.
        mode: the policy's: below `enforce` the change is only shown.
        path: the field in words.
        shown_path: the same for a diff, where a new item of a list is `list[]`.
        secret: whether its values may be secrets, which no output shows.
    """

    rule: str
    mode: Mode
    path: str
    shown_path: str
    before: Any
    after: Any
    secret: bool


@dataclass(frozen=True, slots=True)
class ObjectResult:
    """What a check says of one object.

    Attributes:
        verdicts: at least one, the worst first.
        exempt: why no rule looked at it, "" else.
    """

    place: Place
    identity: Identity
    verdicts: tuple[Verdict, ...]
    exempt: str
    results: tuple[RuleResult, ...]
    changes: tuple[FieldChange, ...]

    @property
    def would_be_changed(self) -> bool:
        """Whether an enforced policy changes it."""
        return any(change.mode is Mode.ENFORCE for change in self.changes)


@dataclass(frozen=True, slots=True)
class Skipped:
    """An object of a kind that is not checked."""

    place: Place
    identity: Identity


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
    """Where a value of a document is written; for an absent one, its nearest ancestor."""
    line, column = document.locate(path)
    return Place(document.source, line, column, plain(document.origin, LONGEST_TEXT))


def skipped(document: Document, base: Path, thing: Mapping[str, Any]) -> Skipped:
    """An object in a document that is not checked."""
    metadata = mapping_at(thing, ("metadata",))
    names = (thing.get("apiVersion"), thing.get("kind"), metadata.get("namespace"), metadata.get("name"))
    return Skipped(
        place_of(document, base), _identity(name if isinstance(name, str) else "" for name in names)
    )


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
    results = tuple(
        _result(outcome, report, finding, document, base, languages)
        for report in outcome.reports
        for finding in report.findings or (None,)
    )
    return ObjectResult(
        place_of(document, base),
        _identity((api_version, request.kind, request.namespace, request.shown_name)),
        _verdicts(outcome, results),
        plain(outcome.exempt),
        results,
        tuple(_changes(outcome)),
    )


def _identity(names: Iterable[str]) -> Identity:
    return Identity(*(plain(name, LONGEST_NAME) for name in names))


def _result(
    outcome: Outcome,
    report: Report,
    finding: Finding | None,
    document: Document,
    base: Path,
    languages: Sequence[str],
) -> RuleResult:
    rule = report.rule
    if finding is None:
        place = place_of(document, base)
        return RuleResult(rule.key, Result.PASS, rule.mode, Action.NONE, place, "", {}, {})
    said = {language: say(rule, finding, language) for language in languages}
    seen = outcome.audited or outcome.object or {}
    return RuleResult(
        rule.key,
        finding.result,
        min(rule.mode, finding.ceiling, key=lambda mode: mode.rank),
        decide(finding, rule.mode, rule.failure_policy),
        place_of(document, (*base, *finding.path)),
        plain(format_field(seen, finding.path), LONGEST_TEXT),
        {language: plain(text.message, LONGEST_TEXT) for language, text in said.items()},
        {language: plain(text.remediation, LONGEST_TEXT) for language, text in said.items()},
        finding.needs,
        tuple(plain(text, LONGEST_TEXT) for text in (rule.link, rule.contact) if text),
    )


def _verdicts(outcome: Outcome, results: Sequence[RuleResult]) -> tuple[Verdict, ...]:
    if outcome.exempt:
        return (Verdict.EXEMPT,)
    if not results:
        return (Verdict.UNMATCHED,)
    found = {VERDICT_OF.get(each.action) for each in results if each.result is Result.FAIL}
    if any(each.result is Result.ERROR for each in results):
        found.add(Verdict.UNDECIDED)
    return tuple(verdict for verdict in Verdict if verdict in found) or (Verdict.PASSED,)


def _changes(outcome: Outcome) -> Iterator[FieldChange]:
    for change in outcome.changes:
        yield _change(Mode.ENFORCE, change, outcome.object)
    for mode, change in outcome.would_change:
        yield _change(mode, change, outcome.audited)


def _change(mode: Mode, change: Change, changed: Any) -> FieldChange:
    shown_path = f"{format_field(changed, change.path[:-1])}[]" if change.appended else change.field
    return FieldChange(
        change.rule,
        mode,
        plain(change.field, LONGEST_TEXT),
        plain(shown_path, LONGEST_TEXT),
        change.before,
        change.after,
        _is_environment(change.path),
    )


def _is_environment(path: Path) -> bool:
    """Whether a path leads into a container's `env`: a value there may be a secret."""
    return any(isinstance(before, int) and key == "env" for before, key in pairwise(path))
