"""What the loaded policies demand to be asked about: for each rule, what an object must have, and where."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Literal

from webhook.policy import CompiledRule, PolicySet
from webhook.policy.policy_set import CompiledPolicy
from webhook.policy.schema import MatchClause
from webhook.rules.base import Mode, MutatingRule, Need

PODS = "pods"

Wanted = Need | Literal["frameworks"]
"""`frameworks`: a label or an owner of an AI framework, by which a pod has a class other than `other`."""

_DEVICES: dict[Wanted, tuple[str, ...]] = {"devices": (), "claims": ()}


@dataclass(frozen=True, slots=True)
class Demand:
    """One reason to be called.

    Attributes:
        rule: `policy/rule`.
        target: the resource that the rule acts on, as policies write it.
        need: what the object must have.
        names: the names or patterns that matter, see `Need`.
        operations: at which operations on the target itself.
        namespaces: names or globs of the only namespaces, () for all.
        labels: labels that the object must have, with their values; () for any value.
        in_templates: whether templates of controllers are looked at, too.
    """

    rule: str
    target: str
    need: Wanted
    names: tuple[str, ...]
    operations: frozenset[str]
    namespaces: tuple[str, ...]
    labels: tuple[tuple[str, tuple[str, ...]], ...]
    in_templates: bool

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return self.rule.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a webhook configuration: what it is called for.

    Attributes:
        mutating: whether it is the one that changes objects.
        templates: the kinds whose templates it looks at, as policies write them.
        judges_metadata: resources whose labels and annotations are judged on an update, and not their spec alone.
        late: whether it is the second call of what changes objects, after all other webhooks, see `late_entry`.
    """

    mutating: bool
    demands: tuple[Demand, ...]
    templates: frozenset[str]
    judges_metadata: frozenset[str]
    late: bool = False


def mutating_entry(policy_set: PolicySet) -> Entry:
    """What `/mutate` is called for: all setters, and the templates that some policy writes into."""
    demands = tuple(demand for _, demand in _of_setters(policy_set))
    named = frozenset(name for policy in _in_force(policy_set) for name in policy.mutate_templates)
    return Entry(mutating=True, demands=demands, templates=named, judges_metadata=frozenset())


def late_entry(policy_set: PolicySet) -> Entry:
    """What `/mutate` is called for once more, after all other webhooks: what some setter that is enforced may write into.

    The API server reinvokes only what it has called before (kubernetes/apiserver:pkg/admission/plugin/webhook/mutating/
    dispatcher.go): where another webhook adds the GPU or the label that makes a policy match, the first entry was not called
    and never is. An audited setter writes nothing, whenever it is asked.

    Creations alone, which is all that setters are about. An update of a pod brings no accelerator and no class, for requests,
    priority and affinity are immutable; the first entry puts back what a client's file lacks. What an update of a controller
    brings is in the pods that it creates afterwards.
    """
    demands = tuple(demand for rule, demand in _of_setters(policy_set) if rule.mode is Mode.ENFORCE)
    writing = {demand.policy for demand in demands}
    named = frozenset(
        name for policy in policy_set.policies if policy.name in writing for name in policy.mutate_templates
    )
    return Entry(mutating=True, demands=demands, templates=named, judges_metadata=frozenset(), late=True)


def validating_entry(policy_set: PolicySet, failure_policy: Literal["Ignore", "Fail"]) -> Entry:
    """What `/validate/…` is called for: all rules of the policies with that failurePolicy; setters are verified.

    Args:
        policy_set: all policies that are loaded; disabled ones demand nothing.
        failure_policy: whose policies, the one that the entry gives the API server.
    """
    written = _written_labels(policy_set)
    policies = [policy for policy in _in_force(policy_set) if policy.failure_policy == failure_policy]
    rules = [(policy, rule) for policy in policies for rule in _rules(policy)]
    demands = [demand for policy, rule in rules for demand in _demands(policy, rule, written=written)]
    judged = frozenset(
        target for policy, rule in rules if rule.rule.beyond_spec for target in rule.rule.targets
    )
    checked = any(demand.in_templates for demand in demands)
    kinds = frozenset(kind.resource for kind in policy_set.templates.kinds) if checked else frozenset()
    return Entry(mutating=False, demands=tuple(demands), templates=kinds, judges_metadata=judged)


def _of_setters(policy_set: PolicySet) -> Iterator[tuple[CompiledRule, Demand]]:
    written = _written_labels(policy_set)
    for policy in _in_force(policy_set):
        for rule in _rules(policy):
            if isinstance(rule.rule, MutatingRule):
                yield from ((rule, demand) for demand in _demands(policy, rule, written=written))


def _in_force(policy_set: PolicySet) -> Iterator[CompiledPolicy]:
    return (policy for policy in policy_set.policies if policy.modes != {Mode.DISABLED})


def _rules(policy: CompiledPolicy) -> Iterator[CompiledRule]:
    """The rules of a policy as each of its overrides has them."""
    for variant in (policy, *(override.policy for override in policy.overrides)):
        if variant.mode is not Mode.DISABLED:
            yield from variant.rules


def _written_labels(policy_set: PolicySet) -> frozenset[str]:
    """The labels that some rule, perhaps an audited one, may give objects, so that another could match them by these."""
    rules = (rule.rule for policy in _in_force(policy_set) for rule in _rules(policy))
    return frozenset(key for rule in rules if isinstance(rule, MutatingRule) for key in rule.written_labels)


def _demands(policy: CompiledPolicy, rule: CompiledRule, *, written: Set[str]) -> Iterator[Demand]:
    for target in rule.rule.targets:
        for clause, _ in policy.clauses:
            if target != PODS and _is_about_pods(clause):
                continue
            for need, names in _wanted(clause, rule, target).items():
                yield Demand(
                    rule=rule.key,
                    target=target,
                    need=need,
                    names=names,
                    operations=frozenset(clause.operations or ("CREATE",)),
                    namespaces=clause.namespaces or (),
                    labels=tuple((key, values) for key, values in _labels(clause) if key not in written),
                    in_templates=target == PODS and policy.check_templates != "disabled",
                )


def _is_about_pods(clause: MatchClause) -> bool:
    """Whether a clause matches pods alone: nothing else is of a workload or asks for accelerators."""
    return bool(clause.workloads or clause.accelerators or clause.pools or clause.communication)


def _wanted(clause: MatchClause, rule: CompiledRule, target: str) -> dict[Wanted, tuple[str, ...]]:
    """What an object that a clause matches must have for the rule to say something: the narrower of what both demand."""
    if target != PODS:
        return {"all": ()}
    if _asks_for_devices(clause):
        return dict(_DEVICES)
    needs: dict[Wanted, tuple[str, ...]] = {need: names for need, names in rule.rule.needs.items()}  # noqa: C416 - wider keys
    if "all" in needs and clause.workloads and "other" not in clause.workloads:
        return {**_DEVICES, "frameworks": ()}
    return {"all": ()} if "all" in needs else needs


def _asks_for_devices(clause: MatchClause) -> bool:
    """Whether a clause matches only pods that ask for an accelerator; without one a pod has no pool and talks to nobody."""
    far = clause.communication and "none" not in clause.communication
    asked = clause.accelerators is not None and not clause.accelerators.none
    return bool(asked or clause.pools or far)


def _labels(clause: MatchClause) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Labels that an object must have; what it must not have is left to the call."""
    selector = clause.object_selector or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        yield key, (value,)
    for wanted in selector.get("matchExpressions") or ():
        if wanted.get("operator") in ("In", "Exists"):
            yield wanted["key"], tuple(wanted.get("values") or ())
