"""Two rules that can write one field: which of them wins, by the order of policies."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, NamedTuple

from webhook.documents import Problem
from webhook.facts import AcceleratorPool
from webhook.kube.draft import FILL, Replace
from webhook.kube.node_affinity import Requirement
from webhook.policy.lint.overlap import may_overlap
from webhook.policy.lint.sources import Sources
from webhook.policy.policy_set import CompiledPolicy, CompiledRule, PolicySet
from webhook.rules.add_shared_memory import AddSharedMemory
from webhook.rules.base import Mode, Rule
from webhook.rules.request_rdma import RequestRDMA
from webhook.rules.set_fields import SetFields
from webhook.rules.set_node_affinity import SetNodeAffinity
from webhook.rules.set_priority_class import SetPriorityClass
from webhook.rules.set_resources import SetResources
from webhook.rules.set_storage_class import SetStorageClass

HINT = "keep their matches apart, or remove one of them; policies run by spec.order, then by name"
HOLDERS = frozenset({"accelerator"})


class Wish(NamedTuple):
    """One field that a rule sets.

    Attributes:
        field: the field in words.
        value: what it is set to; two rules that agree are in no conflict.
        replace: see `webhook.kube.draft.Replace`.
        scope: the vendors, or the containers, for which it is; None for all.
    """

    field: str
    value: Any
    replace: Replace = FILL
    scope: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class _Writer:
    policy: CompiledPolicy
    rule: CompiledRule
    wish: Wish

    @property
    def always(self) -> bool:
        return self.wish.replace.when == "always"


def conflicts(policy_set: PolicySet, sources: Sources) -> Iterator[Problem]:
    """A warning for each two rules that may want different things of one field, at the one that loses.

    Args:
        policy_set: all policies that are loaded; disabled ones conflict with none.
        sources: where their rules are written.
    """
    pools = {pool.name: pool for pool in policy_set.pools}
    writers: dict[str, list[_Writer]] = defaultdict(list)
    for policy in policy_set.policies:
        if policy.modes != {Mode.DISABLED}:
            for rule in policy.rules:
                for wish in wishes_of(rule.rule, pools):
                    writers[wish.field].append(_Writer(policy, rule, wish))
    said: set[tuple[str, str]] = set()
    for first, second in (pair for each in writers.values() for pair in combinations(each, 2)):
        pair = (first.rule.key, second.rule.key)
        if pair not in said and first.rule is not second.rule and _collide(first, second):
            said.add(pair)
            yield _conflict(first, second, sources)


def wishes_of(rule: Rule, pools: Mapping[str, AcceleratorPool]) -> Iterator[Wish]:
    """The fields that a rule sets; those that every setter adds to (tolerations, capabilities) are no matter of dispute.

    Args:
        rule: of any type; one that sets nothing has no wishes.
        pools: by name.
    """
    if isinstance(rule, SetNodeAffinity):
        yield from _of_affinity(rule, pools)
    for kind, wishes in _WISHES.items():
        if isinstance(rule, kind):
            yield from wishes(rule)


def _of_priority(rule: SetPriorityClass) -> Iterator[Wish]:
    yield Wish("spec.priorityClassName", rule.class_, rule.replace)


def _of_storage(rule: SetStorageClass) -> Iterator[Wish]:
    yield Wish("the storage class of claims", rule.model_dump(exclude={"replace"}), rule.replace)


def _of_fields(rule: SetFields) -> Iterator[Wish]:
    for path, field in (
        ("spec.schedulerName", rule.scheduler_name),
        ("spec.runtimeClassName", rule.runtime_class_name),
    ):
        if field:
            yield Wish(path, field, rule.replace)
    for place, fields in (("label", rule.labels), ("annotation", rule.annotations)):
        for name, field in fields.items():
            yield Wish(f"{place} {name}", field, rule.replace)
    scope = None if rule.containers == "all" else frozenset({rule.containers})
    for name, field in rule.env.items():
        value = field if field.from_namespace_label else field.default
        yield Wish(f"environment variable {name}", value, scope=scope)


def _of_rdma(rule: RequestRDMA) -> Iterator[Wish]:
    asked = rule.model_dump(include={"from_pool", "resource_names", "per", "count", "devices_per_node"})
    yield Wish("the RDMA devices of containers with accelerators", asked)
    for name, value in rule.env.items():
        yield Wish(f"environment variable {name}", value, scope=HOLDERS)


def _of_shared_memory(rule: AddSharedMemory) -> Iterator[Wish]:
    yield Wish("the volume at /dev/shm", rule.model_dump())


def _of_resources(rule: SetResources) -> Iterator[Wish]:
    for part in ("requests", "limits"):
        for resource, amount in getattr(rule.per_accelerator, part).items():
            yield Wish(f"{part} for {resource} of containers with accelerators", amount)


def _of_affinity(rule: SetNodeAffinity, pools: Mapping[str, AcceleratorPool]) -> Iterator[Wish]:
    labels: dict[str, set[str]] = defaultdict(set)
    for pool in (pools[name] for name in rule.pools):
        for key, value in pool.node_labels.items():
            labels[key].add(value)
    for key, values in labels.items():
        yield _node_label(Requirement(key, "In", tuple(sorted(values))), None)
    for parameter in rule.match_expressions:
        yield _node_label(parameter.requirement, None)
    for vendor, nodes in rule.by_vendor.items():
        for key, value in nodes.node_labels.items():
            yield _node_label(Requirement(key, "In", (value,)), frozenset({vendor}))


def _node_label(requirement: Requirement, scope: frozenset[str] | None) -> Wish:
    return Wish(f"the required node label {requirement.key}", requirement, scope=scope)


_WISHES: dict[type[Rule], Callable[[Any], Iterator[Wish]]] = {
    SetPriorityClass: _of_priority,
    SetStorageClass: _of_storage,
    SetFields: _of_fields,
    RequestRDMA: _of_rdma,
    AddSharedMemory: _of_shared_memory,
    SetResources: _of_resources,
}


def _collide(first: _Writer, second: _Writer) -> bool:
    one, other = first.wish, second.wish
    if one.value == other.value or (one.scope and other.scope and one.scope.isdisjoint(other.scope)):
        return False
    if first.policy is second.policy:
        return True
    pairs = product(first.policy.clauses, second.policy.clauses)
    return any(may_overlap(clause, theirs) for (clause, _), (theirs, _) in pairs)


def _conflict(first: _Writer, second: _Writer, sources: Sources) -> Problem:
    winner, loser = (second, first) if second.always else (first, second)
    why = "says replace: always" if second.always else _why_first(first.policy, second.policy)
    message = (
        f"{loser.rule.key} and {winner.rule.key} may both set {loser.wish.field}: "
        f"where both apply, {winner.rule.key} wins, since it {why}"
    )
    path = (*sources.rule(loser.policy.name, loser.rule.name), loser.rule.rule.type)
    return sources.warn("PodPolicy", loser.policy.name, path, message, HINT, key=True)


def _why_first(first: CompiledPolicy, second: CompiledPolicy) -> str:
    if first is second:
        return "stands first"
    if first.order != second.order:
        return f"comes first by its order ({first.order}, the other's is {second.order})"
    return f"comes first by name (both have order {first.order})"
