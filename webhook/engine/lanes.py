"""The two lanes of a review.

real: the enforced mutations; it gives the patch, and the enforced validations judge it.
audited: all mutations that are not disabled; it shows what enforcing would do, and the `warn` and `audit` validations judge it.
Where no audited mutation acts, both are one object. What the audited lane claims never reaches the real one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from webhook.engine.resolve import not_asked, resolve
from webhook.kube.draft import MOST_FIELDS, Draft, DraftError, TooManyFieldsError
from webhook.policy import CompiledRule
from webhook.policy.match import View
from webhook.policy.policy_set import Candidate, Resolved
from webhook.rules.base import Finding, MutatingRule, Received, Subject, error

Ran = tuple[CompiledRule, MutatingRule, tuple[Finding, ...]]
"""A mutating rule, and what it said."""


@dataclass(slots=True)
class Lanes:
    """Both lanes, and what the mutating rules said on the way."""

    received: Received
    real: View
    audited: View
    found: list[Ran] = field(default_factory=list)

    @classmethod
    def of(cls, received: Received) -> "Lanes":
        """Lanes in which nothing has happened yet."""
        view = View(Subject(received, Draft(received.object)))
        return cls(received, view, view)

    @property
    def are_one(self) -> bool:
        """Whether no audited mutation has acted."""
        return self.real is self.audited

    def run_audited(self, found: Resolved) -> None:
        """Run a policy in the audited lane alone, which becomes an object of its own once a rule wished something there."""
        if not self.are_one:
            self.found.extend(_mutate_in(found, self.audited))
            return
        real = self.real.subject
        trial = View(real.trial())
        self.found.extend(_mutate_in(found, trial))
        if real.draft.keep(trial.subject.draft):
            self.audited = trial


def run_mutations(candidates: Iterable[Candidate], lanes: Lanes) -> None:
    """Run every mutating rule of `candidates` that applies, in order, each in those of the `lanes` that are its own."""
    for candidate in candidates:
        if candidate.mutating:
            _run_policy(candidate, lanes)


def _run_policy(candidate: Candidate, lanes: Lanes) -> None:
    forked = not lanes.are_one
    found = resolve(candidate, lanes.real)
    enforces = found.enforces
    if enforces:
        lanes.found.extend(_mutate_in(found, lanes.real))
    if forked:
        found = resolve(candidate, lanes.audited)
        enforces = found.enforces
        if enforces:
            _mutate_in(found, lanes.audited)
    if found.answer is not False and not enforces:
        lanes.run_audited(found)


def _mutate_in(found: Resolved, view: View) -> list[Ran]:
    return [
        (compiled, rule, not_asked(found, compiled, view) or _mutate(rule, view.subject, compiled.key))
        for compiled, rule in found.chosen.mutating
    ]


def _mutate(rule: MutatingRule, subject: Subject, key: str) -> tuple[Finding, ...]:
    """What a rule says; one that cannot write all that it wants has written nothing."""
    subject.draft.begin()
    try:
        return tuple(rule.mutate(subject, key))
    except TooManyFieldsError:
        found = error("too much", most=MOST_FIELDS)
    except DraftError as why:
        found = error("unknown", why=str(why))
    subject.draft.undo()
    return (found,)
