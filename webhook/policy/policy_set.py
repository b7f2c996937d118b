"""Compiled policies: what the engine runs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from webhook.facts import AcceleratorPool, Unknown
from webhook.facts.cluster import WORKSPACE_LABEL
from webhook.kube.accelerators import Catalogue
from webhook.kube.field_path import mapping_at
from webhook.kube.templates import TemplateKinds
from webhook.policy.match import Answer, Predicate, View, any_of
from webhook.policy.pause import Pause
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
        order: the lowest runs first, of equals the first by name.
        clauses: the alternatives of its match with their predicates.
        excludes: what exempts, None if nothing does.
        exclude_clauses: the alternatives of its exclude, for whoever explains it.
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
    exclude_clauses: tuple[MatchClause, ...] = ()
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
    """A policy as it concerns one resource and operation.

    Attributes:
        rank: its place among all policies, from 0, in the order in which they run.
        sees_mutations: whether what it says of an object to be created depends on what mutating rules would still write: its own
            are verified, and what is not enforced judges the audited lane.
        applied: the policy as it holds where it matches and no override decides.
        passed_over: the policy as it holds where it does not match.
    """

    rank: int
    policy: CompiledPolicy
    matches: Predicate
    excludes: Predicate | None
    mutating: tuple[tuple[CompiledRule, MutatingRule], ...]
    validating: tuple[tuple[CompiledRule, ValidatingRule], ...]
    overrides: tuple[tuple[Predicate, "Candidate"], ...] = ()
    sees_mutations: bool = True
    applied: "Resolved" = field(init=False, repr=False, compare=False)
    passed_over: "Resolved" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        applied = Resolved.of(self, self, self.policy.mode is not Mode.DISABLED)
        object.__setattr__(self, "applied", applied)
        object.__setattr__(self, "passed_over", Resolved.of(self, self, answer=False, matches=False))


@dataclass(frozen=True, slots=True)
class Resolved:
    """A policy as it holds for one object.

    Attributes:
        base: the policy itself.
        chosen: the policy as an override has it, else itself.
        answer: whether it applies; an unknown one is an error of each of its rules.
        enforces: whether it applies and is enforced.
        can_be_lifted: whether the object's own word, or an exception, may lift its rules; its own match must be known to
            hold, while it does not matter whether the override is known.
    """

    base: Candidate
    chosen: Candidate
    answer: Answer
    enforces: bool
    can_be_lifted: bool

    @classmethod
    def of(cls, base: Candidate, chosen: Candidate, answer: Answer, *, matches: bool = True) -> "Resolved":
        """The policy `base` as it holds, by `chosen`, where its `answer` is that.

        Args:
            base: the policy as it stands in its file.
            chosen: the same with the overrides that were chosen.
            answer: whether it matches, as far as is known.
            matches: whether its own match, without exceptions and opt-outs, is known to hold.
        """
        enforces = answer is not False and chosen.policy.mode is Mode.ENFORCE
        return cls(
            base, chosen, answer, enforces, matches and bool(base.policy.opt_out or base.policy.exceptions)
        )


Need = tuple[str, str]
"""What an object must have for a policy to match: a kind of need, and which one of it.

`("namespace", name)`, `("namespaceLabel", "key=value")`, `("label", "key=value")`, `("workload", class)`,
`("accelerator", "")`, or `("", "")`, which every object has.
"""

NOTHING: Need = ("", "")
ANY_LABEL: Need = ("namespaceLabel", "")
"""Of a namespace whose labels are not known: it may have any."""
MOST_MERGED = 1024
"""Merged lists that are kept: one for each combination of needs, which only policies name, that some object met."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The candidates for one resource and operation, by what they all need, so that one which cannot apply costs nothing.

    What needs a namespace's label also stands under `ANY_LABEL`.
    """

    by_need: Mapping[Need, tuple[Candidate, ...]] = field(default_factory=dict)
    _keys: Mapping[str, frozenset[str]] = field(init=False, repr=False, compare=False)
    _merged: dict[tuple[Need, ...], tuple[Candidate, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        keys: dict[str, set[str]] = {kind: set() for kind, _ in self.by_need}
        for kind, which in self.by_need:
            keys[kind].add(which.partition("=")[0])
        object.__setattr__(self, "_keys", {kind: frozenset(found) for kind, found in keys.items()})

    def candidates(self, view: View) -> tuple[Candidate, ...]:
        """Those that may match, in order."""
        met = tuple([need for need in self._met(view.received) if need in self.by_need])
        found = self._merged.get(met)
        if found is None:
            by_rank = {candidate.rank: candidate for need in met for candidate in self.by_need[need]}
            found = tuple(by_rank[rank] for rank in sorted(by_rank))
            if len(self._merged) < MOST_MERGED:
                self._merged[met] = found
        return found

    def _met(self, received: Received) -> list[Need]:
        """What the object has of what some candidate needs; of a kind that none needs nothing is looked at."""
        keys, met = self._keys, [NOTHING]
        if "namespace" in keys:
            met.append(("namespace", received.request.namespace))
        if "namespaceLabel" in keys:
            namespace = received.namespace
            if isinstance(namespace, Unknown):
                met.append(ANY_LABEL)
            else:
                met.extend(_labels_met("namespaceLabel", keys, namespace.labels))
        if "label" in keys:
            met.extend(_labels_met("label", keys, mapping_at(received.object, ("metadata", "labels"))))
        if received.request.kind == "Pod":
            if "workload" in keys:
                met.append(("workload", received.workload.workload_class))
            if "accelerator" in keys and received.workload.asks_for_accelerator:
                met.append(("accelerator", ""))
        return met


def _labels_met(kind: str, keys: Mapping[str, frozenset[str]], labels: Mapping[str, Any]) -> Iterator[Need]:
    """In the order of the keys' names, so that alike objects meet alike lists."""
    for key in sorted(keys[kind] & labels.keys()):
        yield kind, f"{key}={labels[key]}"


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
        """The candidates for `resource_name` (as `AdmissionRequest.resource_name` writes it) and an `operation`."""
        return self.index.get((resource_name, operation), NO_CANDIDATES)

    def paused(self, pause: Pause) -> "PolicySet":
        """The set with the policies that a pause covers at most in audit, overrides included; it keeps its hash."""
        policies = tuple(_audited(each) if pause.covers(each.name) else each for each in self.policies)
        return replace(self, policies=policies, index=index_of(policies))


def _audited(policy: CompiledPolicy) -> CompiledPolicy:
    return replace(
        policy,
        mode=_at_most_audit(policy.mode),
        rules=tuple(replace(rule, mode=_at_most_audit(rule.mode)) for rule in policy.rules),
        overrides=tuple(replace(each, policy=_audited(each.policy)) for each in policy.overrides),
    )


def _at_most_audit(mode: Mode) -> Mode:
    return min(mode, Mode.AUDIT, key=lambda each: each.rank)


def index_of(policies: Iterable[CompiledPolicy]) -> dict[tuple[str, str], Bucket]:
    """The index of a policy set; disabled policies are not in it."""
    table: dict[tuple[str, str], dict[Need, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
    policies = tuple(policies)
    written = frozenset(key for policy in policies for key in _written_labels(policy))
    for rank, policy in enumerate(policies):
        if policy.modes == {Mode.DISABLED}:
            continue
        for place, candidate, clauses in _places(rank, policy):
            for need in sorted({need for clause in clauses for need in _needs(clause, written)}):
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
    mutating = tuple((r, r.rule) for r in rules if isinstance(r.rule, MutatingRule))
    return Candidate(
        rank,
        policy,
        matches,
        policy.excludes,
        mutating,
        tuple((r, r.rule) for r in rules if isinstance(r.rule, ValidatingRule)),
        tuple((o.matches, _candidate(rank, o.policy, matches, resource)) for o in policy.overrides),
        sees_mutations=bool(mutating) or not policy.modes <= {Mode.ENFORCE, Mode.DISABLED},
    )


def _written_labels(policy: CompiledPolicy) -> Iterator[str]:
    """The labels that rules of a policy may write, in any of its variants."""
    for variant in (policy, *(override.policy for override in policy.overrides)):
        for rule in variant.rules:
            if isinstance(rule.rule, MutatingRule):
                yield from rule.rule.written_labels


def _needs(clause: MatchClause, written: Set[str]) -> tuple[Need, ...]:
    """What an object must have one of for a clause to match, the most selective kind that it names."""
    if clause.namespaces and not any("*" in name for name in clause.namespaces):
        return tuple(("namespace", name) for name in clause.namespaces)
    if labels := _namespace_labels(clause):
        return (ANY_LABEL, *(("namespaceLabel", text) for text in labels))
    if labels := _object_labels(clause, written):
        return tuple(("label", text) for text in labels)
    if clause.workloads:
        return tuple(("workload", name) for name in clause.workloads)
    if clause.accelerators and not clause.accelerators.none:
        return (("accelerator", ""),)
    return (NOTHING,)


def _namespace_labels(clause: MatchClause) -> tuple[str, ...]:
    """Labels, as `key=value`, of which the namespace must have one; () where the clause needs none for certain."""
    if clause.workspaces and not any("*" in name for name in clause.workspaces):
        return tuple(f"{WORKSPACE_LABEL}={name}" for name in clause.workspaces)
    return next(_required_labels(clause.namespace_selector, frozenset()), ())


def _object_labels(clause: MatchClause, written: Set[str]) -> tuple[str, ...]:
    """Labels of which the object must have one; a match sees it as earlier rules left it, so none that a rule may write."""
    return next(_required_labels(clause.object_selector, written), ())


def _required_labels(selector: Mapping[str, Any] | None, but: Set[str]) -> Iterator[tuple[str, ...]]:
    """For each requirement on a label that must be there, the values that it may have, as `key=value`."""
    selector = selector or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        if key not in but:
            yield (f"{key}={value}",)
    for requirement in selector.get("matchExpressions") or ():
        key = requirement["key"]
        if requirement["operator"] == "In" and key not in but:
            yield tuple(f"{key}={value}" for value in requirement["values"])
