"""One review, from a request to its outcome: pure and total.

The steps of design, by number: (3) match and (4) mutate are `webhook.engine.lanes`; (5) validate is here; (6) decide is
`webhook.engine.decide`; (9) the record on the object is `webhook.engine.annotations`. (1), (2), (7) and (8), the wire and
the shell, are `webhook.admission` and `webhook.server`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Literal

from webhook.engine import annotations
from webhook.engine.change_over import ChangeOver, policies_of
from webhook.engine.decide import decide, weakest_action, worst_action, worst_result
from webhook.engine.exempt import exemption
from webhook.engine.lanes import Lanes, run_mutations
from webhook.engine.outcome import Action, Outcome, Report
from webhook.engine.put_back import put_back
from webhook.engine.resolve import not_asked, resolve
from webhook.engine.templates import mutate_templates, template_reports
from webhook.facts import Facts
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Change, Draft
from webhook.kube.field_path import identify, value_at
from webhook.policy import CompiledRule, PolicySet
from webhook.policy.match import View
from webhook.policy.policy_set import Candidate, CompiledPolicy
from webhook.rules.base import (
    LONG_AGO,
    NOT_ASKED,
    UNAPPLIED,
    Finding,
    Mode,
    MutatingRule,
    Received,
    Result,
    Sentence,
    Subject,
    fail,
)


def never() -> bool:
    """The deadline of a review that may take its time."""
    return False


@dataclass(frozen=True, slots=True)
class Gate:
    """All that a review needs besides its request.

    Attributes:
        settled: False for a while after a start or a change of policies, when replicas may answer by different sets.
        expired: whether the time for the review ran out; asked between rules.
        now: the moment of the review; exceptions that ended before are not in force.
        failure_policy: only policies with this one are judged; None for all. Whoever answers for some needs no others: what one
            rule finds does not depend on what another judges.
    """

    policy_set: PolicySet
    facts: Facts
    settled: bool = True
    expired: Callable[[], bool] = never
    now: datetime = LONG_AGO
    failure_policy: Literal["Ignore", "Fail"] | None = None

    def judges(self, thing: CompiledPolicy | CompiledRule) -> bool:
        """Whether a policy, or a rule of one, is to be judged; no override changes a failurePolicy."""
        return self.failure_policy is None or self.failure_policy == thing.failure_policy

    @property
    def marks(self) -> bool:
        """Whether what is left as it is says so: else a replica with older policies takes it for an object that was not seen.

        Where nothing is enforced, nothing is written at all.
        """
        return not self.settled and any(Mode.ENFORCE in policy.modes for policy in self.policy_set.policies)

    def receive(self, request: AdmissionRequest) -> Received:
        """The request with what rules may ask of it."""
        known = self.policy_set
        return Received(request, self.facts, known.pools, known.catalogue, self.expired, self.now)


def mutate(gate: Gate, request: AdmissionRequest) -> Outcome:
    """The answer of `/mutate`: it never refuses, for `/validate` finds everything again.

    Args:
        gate: the policies and facts that answer.
        request: what the API server asks; its object is only read.
    """
    why = exemption(request)
    if why:
        return _exempt(gate, request, why)
    kind = gate.policy_set.templates.kind_of(request.group, request.kind)
    if request.operation == "UPDATE" and (kind is None or request.subresource):
        return _put_back(gate, request)
    lanes = Lanes.of(gate.receive(request))
    draft = lanes.real.subject.draft
    created = request.operation == "CREATE"
    forged = created and annotations.remove_forged(draft)
    reports: tuple[Report, ...] = ()
    if kind is not None:
        reports = mutate_templates(kind, request, draft, partial(review, gate))
    else:  # a creation: an update without templates was put back above
        run_mutations(_candidates(gate, lanes.real, "CREATE"), lanes)
    changes = draft.changes()
    decision = _shown_decision(request, lanes.received.once(annotations.carried))
    marked = created and not changes and not forged and kind is None and gate.marks
    if marked:
        annotations.mark(draft, gate.policy_set.hash)
    if changes and created and not forged:
        annotations.record(draft, changes, gate.policy_set.hash, decision)
    return Outcome(
        request=request,
        policy_set=gate.policy_set,
        object=draft.object,
        audited=lanes.audited.subject.object,
        reports=(*reports, *[_report(rule, found, most=Action.RECORD) for rule, _, found in lanes.found]),
        changes=changes,
        would_change=tuple(_would_change(lanes, changes)),
        patch=draft.patch(),
        decision_id=decision,
        marked=marked,
    )


def validate(gate: Gate, request: AdmissionRequest) -> Outcome:
    """The answer of `/validate`: all rules run, every failing one is reported, none stops the others.

    Args:
        gate: the policies and facts that answer; with a failurePolicy, only policies of it are judged.
        request: what the API server asks; its object is only read.
    """
    why = exemption(request)
    if why:
        return _exempt(gate, request, why)
    lanes = Lanes.of(gate.receive(request))
    as_received = lanes.real
    candidates = _candidates(gate, as_received, request.operation)
    reports: list[Report] = []
    if request.operation == "CREATE" and _sees_mutations(gate, candidates):
        run_mutations(candidates, lanes)
        if lanes.real.subject.draft.writes:
            as_received = View(Subject(lanes.received, Draft(lanes.received.object)))
        reports.extend(_verify(gate, lanes, as_received))
    audited = as_received if lanes.are_one else lanes.audited
    reports.extend(_judge(gate, candidates, as_received, audited))
    kind = gate.policy_set.templates.kind_of(request.group, request.kind)
    later: tuple[Change, ...] = ()
    if kind is not None and not request.subresource:
        found, later = template_reports(kind, request, partial(review, gate))
        reports.extend(found)
    return Outcome(
        request=request,
        policy_set=gate.policy_set,
        object=request.object,
        audited=audited.subject.object,
        reports=tuple(reports),
        later=later,
        decision_id=_shown_decision(request, lanes.received.once(annotations.carried)),
    )


def review(gate: Gate, request: AdmissionRequest) -> Outcome:
    """Both calls, one after the other, as a cluster makes them: for files, and for what runs already.

    Args:
        gate: the policies and facts that answer.
        request: about the object as it is sent, or as it is stored.
    """
    first = mutate(gate, request)
    if first.exempt:
        return first
    second = validate(gate, request._replace(object=first.object))
    mutating = {report.rule.key: report for report in first.reports}
    for report in second.reports:
        if report.result is not Result.PASS or report.rule.key not in mutating:
            mutating[report.rule.key] = report
    return first._replace(
        reports=tuple(mutating.values()),
        later=second.later,
        audited=second.audited if first.audited is first.object else first.audited,
    )


def _exempt(gate: Gate, request: AdmissionRequest, why: str) -> Outcome:
    return Outcome(
        request,
        gate.policy_set,
        request.object,
        request.object,
        exempt=why,
        decision_id=_shown_decision(request, annotations.carried(request.object or {})),
    )


def _put_back(gate: Gate, request: AdmissionRequest) -> Outcome:
    """What an update may be given back; only pods have such lists, and only an update of the pod itself sends them."""
    found = request.object or {}
    draft = Draft(found)
    if request.resource_name == "pods" and request.old_object is not None:
        lanes = Lanes.of(gate.receive(request))
        run_mutations(_candidates(gate, lanes.real, "CREATE"), lanes)
        draft = put_back(found, request.old_object, lanes.real.subject.draft)
    return Outcome(
        request=request,
        policy_set=gate.policy_set,
        object=draft.object,
        audited=draft.object,
        changes=draft.changes(),
        patch=draft.patch(),
        decision_id=_shown_decision(request, annotations.carried(found)),
    )


def _would_change(lanes: Lanes, made: Sequence[Change]) -> Iterator[tuple[Mode, Change]]:
    """What audited rules would change besides what was `made`: an override may audit in one lane what the other enforces."""
    if lanes.are_one:
        return
    rules = [rule for rule, _, _ in lanes.found]
    audited = {rule.key: rule.mode for rule in rules if rule.mode is not Mode.ENFORCE}
    known = {(change.rule, change.field): change for change in made}
    for change in lanes.audited.subject.draft.changes(audited.__contains__):
        same = known.get((change.rule, change.field))
        if same is None or same.after != change.after:
            yield audited[change.rule], change


def _candidates(gate: Gate, view: View, operation: str) -> tuple[Candidate, ...]:
    return gate.policy_set.bucket(view.received.request.resource_name, operation).candidates(view)


def _sees_mutations(gate: Gate, candidates: Sequence[Candidate]) -> bool:
    """Whether anything that is judged here depends on what mutating rules would still write."""
    return any(each.sees_mutations and gate.judges(each.policy) for each in candidates)


def _verify(gate: Gate, lanes: Lanes, as_received: View) -> Iterator[Report]:
    """What the mutating rules would still write, and what else is wrong with what they own."""
    settled = gate.settled and policies_of(as_received) in ("", gate.policy_set.hash)
    missing: dict[str, list[Change]] = {}
    for change in lanes.real.subject.draft.changes():
        missing.setdefault(change.rule, []).append(change)
    for compiled, rule, found in lanes.found:
        if not gate.judges(compiled):
            continue
        findings = found
        ceiling = compiled.ceiling if settled else Mode.WARN
        if compiled.key in missing:
            findings = (*findings, replace(_unapplied(missing[compiled.key]), ceiling=ceiling))
        if type(rule).verify is not MutatingRule.verify:  # most have nothing besides
            own = _own_verification(rule, found, as_received)
            findings = (*findings, *[replace(finding, ceiling=ceiling) for finding in own])
        yield _report(compiled, findings)


def _unapplied(changes: Sequence[Change]) -> Finding:
    first = changes[0]
    # What would be appended is not in the object: its list is the place.
    place = first.path[:-1] if first.appended else first.path
    return fail(UNAPPLIED, place, fields=Sentence(", ".join([change.field for change in changes])))


def _own_verification(rule: MutatingRule, found: tuple[Finding, ...], view: View) -> Iterator[Finding]:
    was_asked = not found or NOT_ASKED.isdisjoint([finding.text for finding in found])
    return rule.verify(view.subject) if was_asked else iter(())


def _judge(gate: Gate, candidates: Sequence[Candidate], as_received: View, audited: View) -> Iterator[Report]:
    request = as_received.received.request
    stored = _stored(gate, request) if request.operation == "UPDATE" else None
    spec_stays = stored is not None and _same_spec(as_received, stored)
    for candidate in candidates:
        if not (candidate.validating and gate.judges(candidate.policy)):
            continue
        if spec_stays and not any(rule.beyond_spec for _, rule in candidate.validating):
            continue
        for compiled, findings in _findings(candidate, as_received, audited):
            if spec_stays and not compiled.rule.beyond_spec:
                continue
            own = findings
            if findings and stored is not None:
                old = _known_findings(candidate, compiled, stored)
                own = tuple(_brought(findings, as_received, old, stored))
            elif findings and (change_over := _change_over(gate, as_received)):
                own = change_over.excused(findings, partial(_findings_of, candidate, compiled.key))
            yield _report(compiled, own)


def _change_over(gate: Gate, as_received: View) -> ChangeOver | None:
    """For a new object whose mutating call other policies than ours answered, or may have answered."""
    theirs, received = policies_of(as_received), as_received.received
    if received.request.operation != "CREATE" or theirs == gate.policy_set.hash:
        return None
    return ChangeOver(gate.policy_set, received) if theirs or not gate.settled else None


def _findings(
    candidate: Candidate, as_received: View, audited: View
) -> Iterator[tuple[CompiledRule, tuple[Finding, ...]]]:
    """What a policy's validating rules find in the lane that its mode, by the site's word, gives it."""
    view, found = as_received, resolve(candidate, as_received)
    if audited is not as_received and not found.enforces:
        view, found = audited, resolve(candidate, audited)
        if found.enforces:
            return
    if found.answer is False:
        return
    for compiled, rule in found.chosen.validating:
        yield compiled, not_asked(found, compiled, view) or tuple(rule.validate_subject(view.subject))


def _stored(gate: Gate, request: AdmissionRequest) -> View:
    """The object as it is before an update: what is wrong with it already is not the update's fault."""
    received = gate.receive(request._replace(object=request.old_object or {}))
    return View(Subject(received, Draft(received.object)))


def _same_spec(now: View, stored: View) -> bool:
    """Whether an update leaves the spec alone: only a rule that is about more may hold up labels, finalizers and owners."""
    return bool(value_at(now.subject.object, ("spec",)) == value_at(stored.subject.object, ("spec",)))


def _known_findings(candidate: Candidate, compiled: CompiledRule, stored: View) -> tuple[Finding, ...]:
    return next((findings for rule, findings in _findings(candidate, stored, stored) if rule is compiled), ())


def _findings_of(candidate: Candidate, key: str, view: View) -> tuple[Finding, ...]:
    """What the rule of this key, as an override may have it, finds in a view of the object."""
    return next((findings for rule, findings in _findings(candidate, view, view) if rule.key == key), ())


def _brought(
    findings: Sequence[Finding], now: View, old: Sequence[Finding], stored: View
) -> Iterator[Finding]:
    """What an update brings; what nobody can judge is not cleared by having been so before."""
    known: dict[tuple[str, ...], list[Finding]] = {}
    for finding in old:
        known.setdefault(_place(finding, stored), []).append(replace(finding, path=()))
    for finding in findings:
        was_so = replace(finding, path=()) in known.get(_place(finding, now), ())
        if not was_so or (finding.result is Result.ERROR and not finding.path):
            yield finding


def _place(finding: Finding, view: View) -> tuple[str, ...]:
    """A place that stays the same when its lists are in another order: an item without a name is known by all of itself."""
    thing, path = view.subject.object, finding.path
    return tuple(
        json.dumps(value_at(thing, path[: depth + 1]), sort_keys=True) if isinstance(name, int) else name
        for depth, name in enumerate(identify(thing, path))
    )


# A member of an enumeration takes four times as long to look up as a name of the module (CPython 3.11).
_PASS, _NONE = Result.PASS, Action.NONE


def _report(compiled: CompiledRule, findings: tuple[Finding, ...], most: Action = Action.DENY) -> Report:
    if not findings:
        return Report(compiled, _PASS, _NONE)
    action = worst_action([decide(finding, compiled.mode, compiled.failure_policy) for finding in findings])
    return Report(compiled, worst_result(findings), weakest_action(action, most), findings)


def _shown_decision(request: AdmissionRequest, carried: Mapping[str, str]) -> str:
    """The decision that the object carries from its mutating call, else this call's own."""
    named = carried.get(annotations.DECISION, "")
    ours = len(named) == annotations.DECISION_CHARACTERS and named.isalnum() and named.isascii()
    return named if ours else annotations.decision_id(request)
