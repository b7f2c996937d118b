"""Why each rule did or did not act on an object, as values: policy by policy, in the order in which they run.

What is shown is the engine's own answer. Only which part of a match said no is asked again, by `webhook.policy.explain`,
at the moment at which the engine asks: for a setter on the object as earlier rules left it, else on the final one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from webhook.documents import Document, Path
from webhook.engine import Gate, Outcome, Report, review
from webhook.engine.lanes import Lanes, run_mutations
from webhook.engine.resolve import resolve
from webhook.engine.templates import template_reports
from webhook.facts import Unknown
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Change, Draft
from webhook.kube.field_path import format_field, identify
from webhook.kube.plain_text import plain
from webhook.kube.templates import Template, claim_templates_of, templates_of, to_object_path
from webhook.output.results import (
    LONGEST_TEXT,
    FieldChange,
    Identity,
    Place,
    RuleResult,
    Telling,
    field_change,
    identity_of,
    place_of,
    rule_result,
    title_of,
)
from webhook.policy import CompiledPolicy, CompiledRule, PolicySet
from webhook.policy.explain import explain_clause
from webhook.policy.match import Answer, View
from webhook.policy.policy_set import Candidate, Resolved, index_of
from webhook.rules.base import Finding, Mode, MutatingRule, Result, Subject

NOBODY = "\0"
"""The owner of a field that no rule has; the name of no rule."""

ANSWERS = {True: "yes", False: "no"}


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a pod, and why.

    Attributes:
        accelerators: effective devices by resource name.
        holders: the containers that hold them, in words.
        pools: those in which the pod could land, after all enforced rules.
    """

    workload: str
    workload_evidence: str
    communication: str
    communication_evidence: str
    accelerators: Mapping[str, int]
    claims_devices: bool
    vendors: tuple[str, ...]
    sharing: tuple[str, ...]
    holders: tuple[str, ...]
    pools: tuple[str, ...]
    owner: str


@dataclass(frozen=True, slots=True)
class RuleExplained:
    """What one rule did.

    Attributes:
        is_setter: whether it writes; else it judges.
        results: what it found; one pass where it found nothing.
        changes: what it changed, or would change in a lower mode.
        owners: by field in words, the rule that has a field which this one left alone.
    """

    rule: str
    type: str
    is_setter: bool
    results: tuple[RuleResult, ...]
    changes: tuple[FieldChange, ...]
    owners: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PolicyExplained:
    """Whether one policy holds for an object, and why.

    Attributes:
        order: the policy's own; the lowest runs first.
        mode: the mode in force, an override's where one decides.
        applies: `yes`, `no` or `unknown`.
        reasons: of a policy that does not apply, or of which nobody knows: what said so.
        override: the override that decides, "" if none.
        overrides: what the others said, by name, those before the one that decides.
        title: by language; empty where it has none.
    """

    name: str
    severity: str
    title: Mapping[str, str]
    order: int
    mode: Mode
    applies: str
    reasons: tuple[str, ...]
    override: str
    overrides: Mapping[str, tuple[str, ...]]
    rules: tuple[RuleExplained, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an object, or the pod or claim of one of its templates, gets its answer.

    Attributes:
        of: the template in words; "" for the object itself.
        exempt: why no rule looks at it, "" else.
        traits: None for what is no pod.
    """

    place: Place
    identity: Identity
    of: str
    exempt: str
    traits: Traits | None
    policies: tuple[PolicyExplained, ...]


class Placed(NamedTuple):
    """Where an object is written, and in which languages to speak."""

    document: Document
    base: Path
    languages: Sequence[str]


class _Thing(NamedTuple):
    """What the rules look at: an object, or what will be made from one of its templates.

    Attributes:
        path: of the template; () for the object itself.
        to_object: from a path in the thing to one in the object.
    """

    request: AdmissionRequest
    path: Path
    to_object: Callable[[Path], Path]


class Explainer:
    """Explains objects by one gate.

    Args:
        gate: what reviews them.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        known = gate.policy_set
        self._alone: list[tuple[CompiledPolicy, PolicySet]] = [
            (policy, replace(known, policies=(policy,), index=index_of([policy])))
            for policy in known.policies
        ]

    def explain(self, request: AdmissionRequest, placed: Placed) -> Iterator[Explanation]:
        """The object itself, where rules look at it, and what will be made from its templates.

        Args:
            request: what would be asked of the gate about the whole object.
            placed: where the object is written, so that findings have a line.
        """
        for thing in _things(self._gate, request):
            yield self._explain(thing, request, placed)

    def _explain(self, thing: _Thing, whole: AdmissionRequest, placed: Placed) -> Explanation:
        outcome = review(self._gate, thing.request)
        group = f"{whole.group}/{whole.version}" if whole.group else whole.version
        final = self._view(thing.request._replace(object=outcome.object))
        return Explanation(
            place_of(placed.document, (*placed.base, *thing.path)),
            identity_of((group, whole.kind, whole.namespace, whole.shown_name)),
            plain(format_field(whole.object or {}, thing.path), LONGEST_TEXT),
            plain(outcome.exempt),
            _traits(final) if thing.request.kind == "Pod" else None,
            () if outcome.exempt else tuple(self._policies(thing, outcome, final, placed)),
        )

    def _view(self, request: AdmissionRequest) -> View:
        received = self._gate.receive(request)
        return View(Subject(received, Draft(received.object)))

    def _policies(
        self, thing: _Thing, outcome: Outcome, final: View, placed: Placed
    ) -> Iterator[PolicyExplained]:
        request = thing.request
        lanes = Lanes.of(self._gate.receive(request))
        audited = View(Subject(final.received, Draft(outcome.audited or final.subject.object)))
        seen: list[tuple[CompiledPolicy, Resolved | None, tuple[str, ...], View]] = []
        for policy, alone in self._alone:
            candidate = _candidate(alone, request)
            is_setter = candidate is not None and bool(candidate.mutating)
            view = lanes.real if is_setter else final
            found = resolve(candidate, view) if candidate else None
            if candidate and found and not found.enforces:
                other = lanes.audited if is_setter else audited
                lower = resolve(candidate, other)
                if not lower.enforces:  # what only an audited change would bring into force is not in force
                    view, found = other, lower
            seen.append((policy, found, tuple(self._reasons(policy, candidate, found, view)), view))
            if candidate and request.operation == "CREATE":
                run_mutations([candidate], lanes)
        acts = _Acts(thing, outcome, lanes.audited.subject.draft, placed)
        for policy, found, reasons, view in seen:
            yield _policy(policy, found, reasons, view, acts)

    def _reasons(
        self, policy: CompiledPolicy, candidate: Candidate | None, found: Resolved | None, view: View
    ) -> Iterator[str]:
        """Why a policy does not apply, or why nobody knows."""
        request = view.received.request
        if candidate is None or found is None:
            yield from _why_no_candidate(policy, request)
            return
        if found.answer is True:
            return
        matches = candidate.matches(view)
        if matches is not True:
            yield from _why_no_match(policy, view)
        elif candidate.excludes is not None and candidate.excludes(view) is not False:
            yield from _why_excluded(policy, view)
        elif isinstance(found.answer, Unknown):
            yield f"not known: {found.answer.why}"
        else:
            yield "mode: disabled"


class _Acts:
    """What the rules did to one thing."""

    def __init__(self, thing: _Thing, outcome: Outcome, draft: Draft, placed: Placed) -> None:
        self._thing = thing
        self._outcome = outcome
        self._draft = draft
        self._placed = placed
        self._reports = {report.rule.key: report for report in outcome.reports}
        self._rules = [rule.key for policy in outcome.policy_set.policies for rule in policy.rules]

    @property
    def languages(self) -> Sequence[str]:
        return self._placed.languages

    def explain(self, rule: CompiledRule, policy: CompiledPolicy) -> RuleExplained:
        telling = Telling(policy, self.languages)
        report = self._reports.get(rule.key)
        findings = report.findings if report else ()
        results = [self._result(report, each, telling) for each in findings or (None,)] if report else []
        return RuleExplained(
            rule.key,
            rule.rule.type,
            isinstance(rule.rule, MutatingRule),
            tuple(results),
            tuple(self._changes(rule.key)),
            {field: owner for finding in findings for field, owner in self._owner(rule.key, finding)},
        )

    def _result(self, report: Report, finding: Finding | None, telling: Telling) -> RuleResult:
        path = finding.path if finding else ()
        inside = (self._thing.to_object(path) if path else ()) or self._thing.path
        place = place_of(self._placed.document, (*self._placed.base, *inside))
        return rule_result(report, finding, self._outcome.audited, place, telling)

    def _changes(self, rule: str) -> Iterator[FieldChange]:
        changes: list[tuple[Mode, Change]] = [(Mode.ENFORCE, change) for change in self._outcome.changes]
        for mode, change in (*changes, *self._outcome.would_change):
            if change.rule == rule:
                yield field_change(mode, change, self._outcome.audited)

    def _owner(self, rule: str, finding: Finding) -> Iterator[tuple[str, str]]:
        """The field that a rule left alone, and the other rule that has it."""
        if finding.result is not Result.SKIP or not finding.path:
            return
        key = identify(self._draft.object, finding.path)
        probe = self._draft.fork()
        if not probe.claim(key, NOBODY):
            owner = next((other for other in self._rules if probe.claim(key, other)), rule)
            if owner != rule:
                yield plain(format_field(self._draft.object, finding.path), LONGEST_TEXT), owner


def _things(gate: Gate, request: AdmissionRequest) -> Iterator[_Thing]:
    known = gate.policy_set
    kind = known.templates.kind_of(request.group, request.kind)
    if kind is None or known.bucket(request.resource_name, request.operation).by_need:
        yield _Thing(request, (), lambda path: path)
    if kind is None:
        return
    requests: list[AdmissionRequest] = []

    def note(made: AdmissionRequest) -> Outcome:
        requests.append(made)
        return Outcome(made, known, made.object, made.object)

    template_reports(kind, request, note)
    thing = request.object or {}
    templates, claims = templates_of(kind, thing), claim_templates_of(kind, thing)
    for template, made in zip(templates, requests, strict=False):
        yield _Thing(made, template.path, _from_template(template))
    for path, made in zip(claims, requests[len(templates) :], strict=True):
        yield _Thing(made, path, _below(path))


def _from_template(template: Template) -> Callable[[Path], Path]:
    return lambda path: to_object_path(template, path)


def _below(base: Path) -> Callable[[Path], Path]:
    return lambda path: (*base, *path)


def _traits(view: View) -> Traits:
    workload = view.received.workload
    thing = view.subject.object
    return Traits(
        workload.workload_class,
        plain(workload.class_evidence, LONGEST_TEXT),
        workload.communication,
        plain(workload.communication_evidence, LONGEST_TEXT),
        {plain(name): count for name, count in workload.accelerators.items()},
        workload.claims_devices,
        tuple(sorted(view.received.vendors)),
        tuple(sorted(workload.sharing)),
        tuple(plain(format_field(thing, path), LONGEST_TEXT) for path in workload.holders),
        tuple(pool.name for pool in view.subject.possible_pools),
        plain(workload.owner),
    )


def _candidate(alone: PolicySet, request: AdmissionRequest) -> Candidate | None:
    by_need = alone.bucket(request.resource_name, request.operation).by_need
    return next((candidates[0] for candidates in by_need.values()), None)


def _why_no_candidate(policy: CompiledPolicy, request: AdmissionRequest) -> Iterator[str]:
    targets = sorted({target for rule in policy.rules for target in rule.rule.targets})
    if policy.modes == {Mode.DISABLED}:
        yield "mode: disabled"
    elif request.operation not in policy.operations:
        yield f"operations: {request.operation} is not {' or '.join(sorted(policy.operations))}"
    else:
        yield f"its rules are about {' and '.join(targets)}, not {request.resource_name}"


def _why_no_match(policy: CompiledPolicy, view: View) -> Iterator[str]:
    """One line for each alternative: what says no, or else what nobody knows."""
    operation = view.received.request.operation
    for clause, _ in policy.clauses:
        if operation in (clause.operations or ("CREATE",)):
            parts = explain_clause(clause, view)
            no = [str(part) for part in parts if part.answer is False]
            unknown = [str(part) for part in parts if isinstance(part.answer, Unknown)]
            yield plain("; ".join(no or unknown), LONGEST_TEXT)


def _why_excluded(policy: CompiledPolicy, view: View) -> Iterator[str]:
    for clause in policy.exclude_clauses:
        if clause.operations and view.received.request.operation not in clause.operations:
            continue
        parts = explain_clause(clause, view)
        if not any(part.answer is False for part in parts):
            yield f"exclude: {'; '.join(map(str, parts))}"


def _policy(
    policy: CompiledPolicy, found: Resolved | None, reasons: tuple[str, ...], view: View, acts: _Acts
) -> PolicyExplained:
    title = title_of(policy, acts.languages)
    if found is None:
        return PolicyExplained(
            policy.name, policy.severity, title, policy.order, policy.mode, "no", reasons, "", {}, ()
        )
    chosen = found.chosen.policy
    override = next((rule.override for rule in chosen.rules if rule.override), "")
    rules = found.chosen.mutating, found.chosen.validating
    acting = {rule.key for each in rules for rule, _ in each} if found.answer is not False else set()
    return PolicyExplained(
        policy.name,
        policy.severity,
        title,
        policy.order,
        chosen.mode,
        _said(found.answer),
        reasons,
        override,
        dict(_passed_over(policy, override, view)) if found.answer is not False or override else {},
        tuple(acts.explain(rule, policy) for rule in chosen.rules if rule.key in acting),
    )


def _said(answer: Answer) -> str:
    return "unknown" if isinstance(answer, Unknown) else ANSWERS[answer]


def _passed_over(policy: CompiledPolicy, decides: str, view: View) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The overrides that come before the one that decides, and why each does not."""
    for override in policy.overrides:
        if override.name == decides:
            return
        parts = [explain_clause(clause, view) for clause in override.clauses]
        said = [part for each in parts for part in each if part.answer is not True]
        yield override.name, tuple(dict.fromkeys(plain(str(part), LONGEST_TEXT) for part in said))
