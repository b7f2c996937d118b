"""The `table` format: for people, at a terminal and in the log of a pipeline."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from webhook.engine import Action
from webhook.engine.decide import ACTIONS
from webhook.kube.plain_text import plain
from webhook.output.results import (
    CheckResult,
    ExceptionSaid,
    FieldChange,
    Identity,
    ObjectResult,
    RuleResult,
    Skipped,
    Verdict,
)
from webhook.output.values import flow
from webhook.rules.base import Mode, Result

LONGEST_VALUE = 400
"""Characters of a value in a diff: a node affinity of three terms fits."""

USUAL_SEVERITY = "medium"
"""What a policy has that states none."""

MOST_NAMED = 5
"""Rules or reasons that one line lists."""

NAMESPACED = frozenset({"PersistentVolumeClaim", "ResourceClaim", "ResourceClaimTemplate", "ResourceQuota"})

RED, GREEN, YELLOW, CYAN, PLAIN = "31", "32", "33", "36", "39"
COLOUR_OF = {
    Verdict.REFUSED: RED,
    Verdict.UNDECIDED: YELLOW,
    Verdict.WARNED: YELLOW,
    Verdict.AUDITED: CYAN,
    Verdict.PASSED: GREEN,
}
VERDICT_TEXT = {Verdict.UNMATCHED: "no policy applies"}
ACTION_TEXT = {
    Action.DENY: ("refused", RED),
    Action.WARN: ("warned", YELLOW),
    Action.RECORD: ("audited", CYAN),
}

Paint = Callable[[str, str], str]


def render_table(result: CheckResult, *, colour: bool = False) -> str:
    """A check's results as text: a line for each object, what is wrong with it, what would be changed, and a summary.

    Args:
        result: what the check found.
        colour: paint with ANSI sequences; no meaning hangs on them.
    """
    paint = paint_ansi if colour else leave
    blocks = ["\n".join(_object(each, paint)) for each in result.objects]
    blocks.extend(_undecided(result, paint))
    return "\n".join([*blocks, *_summary(result)]) + "\n"


def paint_ansi(text: str, colour: str) -> str:
    """`text` in a `colour`, which is the parameters of an ANSI sequence (ECMA-48, SGR); the constants of this module are some."""
    return f"\x1b[{colour}m{text}\x1b[0m"


def leave(text: str, _colour: str) -> str:
    """Text as it is."""
    return text


def _object(each: ObjectResult, paint: Paint) -> Iterator[str]:
    place = each.place
    origin = f" (from {place.origin})" if place.origin else ""
    yield f"{place.file}:{place.line}{origin} {name_of(each.identity)}: {_verdicts(each, paint)}"
    for result in each.results:
        if result.result is Result.FAIL:
            yield from _violation(result, *ACTION_TEXT[result.action], paint)
        elif result.result is Result.ERROR and not result.needs:
            yield from _violation(result, "undecided", YELLOW, paint)
    yield from _lifted(each, paint)
    for (of, rule, mode), changes in groupby((*each.changes, *each.later), attrgetter("of", "rule", "mode")):
        yield f"  {_would(of, mode)} {rule} ({mode})"
        for change in changes:
            yield from diff(change, paint)


def _lifted(each: ObjectResult, paint: Paint) -> Iterator[str]:
    """A line for each exception, and for each word of the object's own."""
    lifted: dict[str, list[RuleResult]] = {}
    for result in each.results:
        if result.lifted:
            lifted.setdefault(result.lifted, []).append(result)
    for why, results in lifted.items():
        soon, exception = results[0].lifted_soon_over, results[0].exception
        shown = paint(f"{why}, which is soon" if soon else why, YELLOW if soon else PLAIN)
        yield f"  {shown}: {_listed([result.rule for result in results])}"
        if exception:
            yield f"    why:   {exception.reason}; {who_answers(exception)}"


def who_answers(exception: ExceptionSaid) -> str:
    """Whom to ask about an exception, and where it is recorded."""
    reference = f", reference {exception.reference}" if exception.reference else ""
    return f"owner {exception.owner}{reference}"


def severity_words(severity: str) -> str:
    """What stands behind a mode about a policy's severity: nothing where it is the usual one."""
    return "" if severity == USUAL_SEVERITY else f", severity {severity}"


def name_of(identity: Identity) -> str:
    """An object as people name it."""
    name = identity.name or "(no name)"
    return f"{identity.kind} {identity.namespace}/{name}" if identity.namespace else f"{identity.kind} {name}"


def _verdicts(each: ObjectResult, paint: Paint) -> str:
    parts = [
        paint(VERDICT_TEXT.get(verdict, verdict.value), COLOUR_OF.get(verdict, PLAIN))
        for verdict in each.verdicts
    ]
    if each.exempt:
        parts[0] += f" ({each.exempt})"
    if each.would_be_changed:
        parts.append("would be changed")
    elif each.changes:
        parts.append("would be changed if all policies were enforced")
    return ", ".join(parts)


def _would(of: str, mode: Mode) -> str:
    if of != "object":
        return f"its {of} would be changed by"
    return "changed by" if mode is Mode.ENFORCE else "would be changed by"


def _violation(result: RuleResult, word: str, colour: str, paint: Paint) -> Iterator[str]:
    message, *others = result.message.items()
    yield f"  {paint(word, colour)} {result.place}: {message[1]}"
    if result.field:
        yield f"    where: {result.field}"
    yield f"    do:    {result.remediation[message[0]]}"
    title = result.title.get(message[0], "")
    rule = f"{result.rule} ({_mode(result)}{severity_words(result.severity)}){title and f': {title}'}"
    yield f"    why:   {', '.join((rule, *result.references))}"
    for language, text in others:
        yield f"    {language}:    {text}; {result.remediation[language]}"


def _mode(result: RuleResult) -> str:
    if result.result is Result.ERROR and result.action is Action.DENY:
        return f"{result.mode}, failurePolicy Fail: the webhook refuses it"
    if result.result is Result.FAIL and result.action is not ACTIONS[result.mode]:
        return f"{result.mode}, templates.check: warn"
    return str(result.mode)


def diff(change: FieldChange, paint: Paint) -> Iterator[str]:
    """A `change` of a field, before and after, as lines in the colours of `paint`."""
    for sign, value, colour in (("-", change.before, RED), ("+", change.after, GREEN)):
        if value is not None:
            shown = "(value not shown)" if change.secret else plain(flow(value), LONGEST_VALUE)
            yield f"    {paint(f'{sign} {change.shown_path}: {shown}', colour)}"


def _undecided(result: CheckResult, paint: Paint) -> Iterator[str]:
    """Once for each kind of fact that is missing."""
    for needs in sorted({error.needs for error in result.errors if error.needs}):
        errors = [error for error in result.errors if error.needs == needs]
        objects = sum(any(each.needs == needs for each in one.results) for one in result.objects)
        rules = _listed(sorted({error.rule for error in errors}))
        reasons = _listed(sorted({next(iter(error.message.values())) for error in errors}))
        everywhere = " -A" if needs in NAMESPACED else ""
        yield (
            f"{paint('undecided', YELLOW)}: {_counted(objects, 'object')}, by {rules}: {reasons}\n"
            f"  do: kubectl get {needs.lower()}{everywhere} -o yaml > facts/{needs.lower()}.yaml, "
            f"and give --facts facts"
        )


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    return ", ".join(texts[:MOST_NAMED]) + more


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _summary(result: CheckResult) -> Iterator[str]:
    verdicts = [
        f"{result.count(verdict)} {VERDICT_TEXT.get(verdict, verdict.value)}"
        for verdict in (Verdict.PASSED, Verdict.REFUSED, Verdict.WARNED, Verdict.AUDITED, Verdict.UNDECIDED)
    ]
    rest = {"no policy applies to": Verdict.UNMATCHED, "exempt:": Verdict.EXEMPT}
    others = [f"{text} {result.count(verdict)}" for text, verdict in rest.items() if result.count(verdict)]
    yield f"{_counted(len(result.objects), 'object')}: {', '.join([*verdicts, *others])}"
    changed = sum(each.would_be_changed for each in result.objects)
    audited = sum(bool(each.changes) and not each.would_be_changed for each in result.objects)
    more = f", {audited} more if all policies were enforced" if audited else ""
    yield f"{changed} would be changed{more}"
    later = sum(bool(each.later) for each in result.objects)
    if later:
        yield f"the pods or claims of {_counted(later, 'object')} would be changed"
    yield from skipped_lines(result.skipped) or ("0 skipped",)


def skipped_lines(skipped: Sequence[Skipped]) -> list[str]:
    """How many objects were skipped, and for each reason which; nothing if none were."""
    reasons = sorted({each.reason for each in skipped})
    named = [f"  {reason}: {_kinds(each for each in skipped if each.reason == reason)}" for reason in reasons]
    return [f"{len(skipped)} skipped", *named] if skipped else []


def _kinds(skipped: Iterable[Skipped]) -> str:
    kinds = Counter(_kind(each.identity) for each in skipped)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def _kind(identity: Identity) -> str:
    return f"{identity.api_version} {identity.kind}".strip() or "without a kind"
