"""While replicas change over to other policies, the two calls of one creation may be answered by different sets.

What a rule then finds is not always the author's doing, who could not mend it: the one set had not yet, or had no longer, the
mutation with which the other's validation counts, or it wrote a value that the other does not know.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from webhook.engine import annotations
from webhook.engine.lanes import Lanes, run_mutations
from webhook.kube.field_path import format_field
from webhook.policy import PolicySet
from webhook.policy.match import View
from webhook.rules.base import Finding, Mode, Received


def policies_of(view: View) -> str:
    """The hash of the set that changed the object, "" if none did; a client that names one gets no grace for it."""
    return view.received.once(annotations.carried).get(annotations.POLICIES, "")


@dataclass(frozen=True)
class ChangeOver:
    """Lowers to a warning what is wrong with a new object only because other policies than ours had the mutating call.

    That is what our own mutations would have mended, and what stands in a field that podgate itself wrote. What the author asked
    for is judged as ever, so that a replica which stays behind lets nothing through that both sets refuse.
    """

    policy_set: PolicySet
    received: Received

    def excused(
        self, findings: tuple[Finding, ...], find_in: Callable[[View], tuple[Finding, ...]]
    ) -> tuple[Finding, ...]:
        """The findings of a rule, with a ceiling where the difference explains them.

        Args:
            findings: what the rule found in the object as received.
            find_in: what it finds in another view of it.
        """
        lasting = {finding.text for finding in find_in(self._as_ours)}
        return tuple(
            finding if finding.text in lasting and not self._is_written(finding) else _lowered(finding)
            for finding in findings
        )

    @cached_property
    def _as_ours(self) -> View:
        """The object with our own mutations."""
        lanes = Lanes.of(self.received)
        bucket = self.policy_set.bucket(self.received.request.resource_name, "CREATE")
        run_mutations(bucket.candidates(lanes.real), lanes)
        return lanes.real

    @cached_property
    def _written(self) -> frozenset[str]:
        return annotations.fields_written(self.received.object)

    def _is_written(self, finding: Finding) -> bool:
        """Whether it is about a value that podgate wrote, or about a part of one."""
        thing, path = self.received.object, finding.path
        return any(format_field(thing, path[:end]) in self._written for end in range(len(path), 0, -1))


def _lowered(finding: Finding) -> Finding:
    return replace(finding, ceiling=min(finding.ceiling, Mode.WARN, key=lambda mode: mode.rank))
