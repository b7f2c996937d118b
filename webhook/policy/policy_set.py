"""Compiled policies: what the engine runs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Literal

from webhook.facts import AcceleratorPool, Unknown
from webhook.facts.cluster import WORKSPACE_LABEL
from webhook.kube.accelerators import Catalogue
from webhook.kube.templates import TemplateKinds
from webhook.policy.match import Predicate, View, any_of
from webhook.policy.schema import MatchClause
from webhook.rules.base import Mode, MutatingRule, Received, Rule, ValidatingRule

POD_SUBRESOURCES = ("pods/ephemeralcontainers", "pods/resize")
"""Ways to change a pod that are no update of `pods`; rules on pods that name UPDATE see them."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule of a policy, ready to run.

    Attributes:
        key: `policy/rule`.
        ceiling: the most that may be done where /validate finds its mutation not applied.
        message: the policy's own text by language, {} for the rule type's.
        remediation: likewise.
        override: the PodPolicyOverride that had the last word, "" if none.
    """

    key: str
    policy: str
    name: str
    rule: Rule
    mode: Mode
    failure_policy: Literal["Ignore", "Fail"]
    ceiling: Mode
    message: Mapping[str, str]
    remediation: Mapping[str, str]
    link: str
    contact: str
    override: str = ""


@dataclass(frozen=True, slots=True)
class CompiledException:
    """A PodPolicyException as it concerns one policy.

    Attributes:
        rule: the rule that it lifts, "" for all of the policy.
        expires_at: the first moment at which it is no longer in force.
    """

    name: str
    rule: str
    clauses: tuple[MatchClause, ...]
    matches: Predicate
    reason: str
    owner: str
    reference: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Override:
    """A PodPolicyOverride as it concerns one policy: the policy as it is where the override matches."""

    name: str
    clauses: tuple[MatchClause, ...]
    matches: Predicate
    policy: "CompiledPolicy"


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """A policy, ready to run.

    Attributes:
        clauses: the alternatives of its match with their predicates.
        excludes: what exempts, None if nothing does.
        opt_out: whether an object may exempt itself by annotation.
        check_templates: see `TemplateUse.check`.
        mutate_templates: see `TemplateUse.mutate`.
        overrides: the first that matches decides.
        exceptions: before all overrides.
    """

    name: str
    mode: Mode
    failure_policy: Literal["Ignore", "Fail"]
    order: int
    severity: str
    title: Mapping[str, str]
    clauses: tuple[tuple[MatchClause, Predicate], ...]
    excludes: Predicate | None
    rules: tuple[CompiledRule, ...]
    opt_out: bool = False
    check_templates: Literal["sameAsMode", "warn", "disabled"] = "sameAsMode"
    mutate_templates: frozenset[str] = frozenset()
    overrides: tuple[Override, ...] = ()
    exceptions: tuple[CompiledException, ...] = ()

    @property
    def modes(self) -> frozenset[Mode]:
        """Every mode that it may have, by some override."""
        return frozenset({self.mode, *(override.policy.mode for override in self.overrides)})

    @property
    def operations(self) -> frozenset[str]:
        """The operations that some clause names."""
        return frozenset(
            operation for clause, _ in self.clauses for operation in clause.operations or ("CREATE",)
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy as it concerns one resource and operation."""

    rank: int
    policy: CompiledPolicy
    matches: Predicate
    excludes: Predicate | None
    mutating: tuple[tuple[CompiledRule, MutatingRule], ...]
    validating: tuple[tuple[CompiledRule, ValidatingRule], ...]
    overrides: tuple[tuple[Predicate, "Candidate"], ...] = ()


ANY_LABEL = ("namespaceLabel", "")
MOST_MERGED = 1024
"""Merged lists that are kept: one for each combination of needs, which only policies name, that some object met."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The candidates for one resource and operation, by what they all need, so that one which cannot apply costs nothing.

    A key is `("namespace", name)`, `("namespaceLabel", "key=value")`, `("workload", class)`, `("accelerator", "")` or
    `("", "")`. What needs a namespace's label also stands under `ANY_LABEL`, for namespaces whose labels are not known.
    """

    by_need: Mapping[tuple[str, str], tuple[Candidate, ...]] = field(default_factory=dict)
    _merged: dict[tuple[tuple[str, str], ...], tuple[Candidate, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def candidates(self, view: View) -> Iterable[Candidate]:
        """Those that may match, in order."""
        met = tuple(need for need in self._met(view.received) if need in self.by_need)
        found = self._merged.get(met)
        if found is None:
            by_rank = {candidate.rank: candidate for need in met for candidate in self.by_need[need]}
            found = tuple(by_rank[rank] for rank in sorted(by_rank))
            if len(self._merged) < MOST_MERGED:
                self._merged[met] = found
        return found

    def _met(self, received: Received) -> Iterator[tuple[str, str]]:
        yield ("", "")
        yield ("namespace", received.request.namespace)
        if ANY_LABEL in self.by_need:
            namespace = received.namespace
            if isinstance(namespace, Unknown):
                yield ANY_LABEL
            else:
                yield from (("namespaceLabel", f"{key}={value}") for key, value in namespace.labels.items())
        if received.request.kind == "Pod":
            yield ("workload", received.workload.workload_class)
            if received.workload.asks_for_accelerator:
                yield ("accelerator", "")


NO_CANDIDATES = Bucket()


@dataclass(frozen=True, slots=True)
class PolicySet:
    """All policies and pools in force; immutable, so that an answer is wholly of one set.

    Attributes:
        policies: in the order in which they run.
        hash: 12 hexadecimal digits over everything that decides; the same files give the same hash everywhere.
    """

    policies: tuple[CompiledPolicy, ...]
    pools: tuple[AcceleratorPool, ...]
    catalogue: Catalogue
    templates: TemplateKinds
    hash: str
    index: Mapping[tuple[str, str], Bucket] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.policies)

    def bucket(self, resource_name: str, operation: str) -> Bucket:
        """The candidates for a resource (as `AdmissionRequest.resource_name` writes it) and an operation."""
        return self.index.get((resource_name, operation), NO_CANDIDATES)


def index_of(policies: Iterable[CompiledPolicy]) -> dict[tuple[str, str], Bucket]:
    """The index of a policy set; disabled policies are not in it."""
    table: dict[tuple[str, str], dict[tuple[str, str], list[Candidate]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for rank, policy in enumerate(policies):
        if policy.modes == {Mode.DISABLED}:
            continue
        for place, candidate, clauses in _places(rank, policy):
            for need in _needs(clauses):
                table[place][need].append(candidate)
    return {place: Bucket({need: tuple(found) for need, found in by.items()}) for place, by in table.items()}


def _places(
    rank: int, policy: CompiledPolicy
) -> Iterator[tuple[tuple[str, str], Candidate, list[MatchClause]]]:
    for operation in sorted(policy.operations):
        chosen = [(c, p) for c, p in policy.clauses if operation in (c.operations or ("CREATE",))]
        matches = any_of(tuple(predicate for _, predicate in chosen))
        for resource in sorted({resource for rule in policy.rules for resource in rule.rule.targets}):
            candidate = _candidate(rank, policy, matches, resource)
            also = POD_SUBRESOURCES if (resource, operation) == ("pods", "UPDATE") else ()
            for name in (resource, *also):
                yield (name, operation), candidate, [clause for clause, _ in chosen]


def _candidate(rank: int, policy: CompiledPolicy, matches: Predicate, resource: str) -> Candidate:
    rules = [rule for rule in policy.rules if resource in rule.rule.targets]
    return Candidate(
        rank,
        policy,
        matches,
        policy.excludes,
        tuple((r, r.rule) for r in rules if isinstance(r.rule, MutatingRule)),
        tuple((r, r.rule) for r in rules if isinstance(r.rule, ValidatingRule)),
        tuple((o.matches, _candidate(rank, o.policy, matches, resource)) for o in policy.overrides),
    )


def _needs(clauses: list[MatchClause]) -> list[tuple[str, str]]:
    """What every clause needs, the most selective kind first."""
    if all(clause.namespaces and not any("*" in name for name in clause.namespaces) for clause in clauses):
        return [("namespace", name) for name in sorted({n for c in clauses for n in c.namespaces or ()})]
    labels = [_namespace_labels(clause) for clause in clauses]
    if all(labels):
        return [ANY_LABEL, *(("namespaceLabel", text) for text in sorted(set(chain.from_iterable(labels))))]
    if all(clause.workloads for clause in clauses):
        return [("workload", name) for name in sorted({w for c in clauses for w in c.workloads or ()})]
    if all(clause.accelerators and not clause.accelerators.none for clause in clauses):
        return [("accelerator", "")]
    return [("", "")]


def _namespace_labels(clause: MatchClause) -> tuple[str, ...]:
    """Labels, as `key=value`, of which the namespace must have one; () where the clause needs none for certain."""
    if clause.workspaces and not any("*" in name for name in clause.workspaces):
        return tuple(f"{WORKSPACE_LABEL}={name}" for name in clause.workspaces)
    wanted = (clause.namespace_selector or {}).get("matchLabels") or {}
    return tuple(f"{key}={value}" for key, value in wanted.items())[:1]
