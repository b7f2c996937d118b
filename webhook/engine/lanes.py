"""The two lanes of a review.

real: the enforced mutations; it gives the patch, and the enforced validations judge it.
audited: all mutations that are not disabled; it shows what enforcing would do, and the `warn` and `audit` validations judge it.
Where no audited mutation acts, both are one object. What the audited lane claims never reaches the real one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from webhook.facts import Unknown
from webhook.kube.draft import Draft, DraftError
from webhook.policy import CompiledRule, PolicySet
from webhook.policy.match import Answer, View
from webhook.policy.policy_set import Candidate
from webhook.rules.base import Finding, Mode, MutatingRule, Received, Subject, error, unknown

OUT_OF_TIME = Unknown("the time that the API server gives to a review ran out")


@dataclass(slots=True)
class Lanes:
    """Both lanes, and what the mutating rules said on the way."""

    received: Received
    real: View
    audited: View
    found: list[tuple[CompiledRule, tuple[Finding, ...]]] = field(default_factory=list)

    @classmethod
    def of(cls, received: Received) -> "Lanes":
        """Lanes in which nothing has happened yet."""
        view = View(Subject(received, Draft(received.object)))
        return cls(received, view, view)

    @property
    def are_one(self) -> bool:
        """Whether no audited mutation has acted."""
        return self.real is self.audited

    def fork(self) -> None:
        """Give the audited lane an object of its own."""
        if self.are_one:
            self.audited = View(Subject(self.received, self.real.subject.draft.fork()))


def run_mutations(policy_set: PolicySet, lanes: Lanes) -> None:
    """Run every mutating rule that applies, in order, each in the lanes that are its own."""
    request = lanes.received.request
    bucket = policy_set.bucket(request.resource_name, "CREATE")
    for candidate in bucket.candidates(lanes.real):
        if candidate.mutating:
            _run_policy(candidate, lanes)


def applies(candidate: Candidate, view: View) -> Answer:
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


def _run_policy(candidate: Candidate, lanes: Lanes) -> None:
    if candidate.policy.mode is Mode.ENFORCE:
        forked = not lanes.are_one
        lanes.found.extend(_run_in(candidate, lanes.real))
        if forked:
            _run_in(candidate, lanes.audited)
    elif applies(candidate, lanes.audited) is not False:
        lanes.fork()
        lanes.found.extend(_run_in(candidate, lanes.audited))


def _run_in(candidate: Candidate, view: View) -> Sequence[tuple[CompiledRule, tuple[Finding, ...]]]:
    answer = applies(candidate, view)
    if answer is False:
        return ()
    if isinstance(answer, Unknown):
        return [(compiled, (unknown(answer),)) for compiled, _ in candidate.mutating]
    return [(compiled, _mutate(rule, view.subject, compiled.key)) for compiled, rule in candidate.mutating]


def _mutate(rule: MutatingRule, subject: Subject, key: str) -> tuple[Finding, ...]:
    try:
        return tuple(rule.mutate(subject, key))
    except DraftError as found:
        return (error("unknown", why=str(found)),)
