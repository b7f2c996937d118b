"""What a policy's `match` and `exclude` say, compiled to predicates of three values."""

from collections.abc import Callable, Iterator
from typing import Any

from webhook.expressions import Condition, EvaluationError
from webhook.facts import Unknown
from webhook.kube.globs import compile_glob, glob_matches
from webhook.kube.selectors import compile_label_selector
from webhook.policy.schema import AcceleratorMatch, MatchClause
from webhook.rules.base import Received, Subject
from webhook.rules.bindings import count_of

Answer = bool | Unknown
Predicate = Callable[["View"], Answer]


class View:
    """What a match looks at: one lane of one review."""

    __slots__ = ("received", "subject")

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.received: Received = subject.received


def all_of(predicates: tuple[Predicate, ...]) -> Predicate:
    """AND: a no ends it; an unknown counts only where all others say yes."""

    def holds(view: View) -> Answer:
        unknown: Unknown | None = None
        for predicate in predicates:
            answer = predicate(view)
            if answer is False:
                return False
            if answer is not True:
                unknown = unknown or answer
        return unknown or True

    return predicates[0] if len(predicates) == 1 else holds


def any_of(predicates: tuple[Predicate, ...]) -> Predicate:
    """OR: a yes ends it; an unknown counts only where no other says yes."""

    def holds(view: View) -> Answer:
        unknown: Unknown | None = None
        for predicate in predicates:
            answer = predicate(view)
            if answer is True:
                return True
            if answer is not False:
                unknown = unknown or answer
        return unknown or False

    return predicates[0] if len(predicates) == 1 else holds


def during(operations: tuple[str, ...]) -> Predicate:
    """Whether the request is one of these operations; of a match they are the index's affair."""
    return lambda view: view.received.request.operation in operations


def compile_clause(clause: MatchClause, conditions: tuple[tuple[str, Condition], ...]) -> Predicate:
    """One alternative, cheapest predicate first.

    Args:
        clause: what the file says, less its operations.
        conditions: its compiled CEL conditions by name.
    """
    predicates: list[Predicate] = []
    if clause.namespaces:
        predicates.append(_names_namespace(clause.namespaces))
    if any((clause.workloads, clause.accelerators, clause.pools, clause.communication)):
        predicates.append(_is_pod_that(clause))
    if clause.accelerators:
        predicates.extend(_accelerators_are(clause.accelerators))
    if clause.object_selector is not None:
        predicates.append(_labels_match(clause.object_selector))
    if clause.workspaces:
        predicates.append(_in_workspace(clause.workspaces))
    if clause.namespace_selector is not None:
        predicates.append(_namespace_labels_match(clause.namespace_selector))
    if clause.pools:
        predicates.append(_lands_in(clause.pools))
    predicates.extend(_condition(name, condition) for name, condition in conditions)
    return all_of(tuple(predicates)) if predicates else _always


def _always(view: View) -> Answer:
    del view
    return True


def _names_namespace(patterns: tuple[str, ...]) -> Predicate:
    exact = frozenset(p for p in patterns if "*" not in p)
    globs = tuple(compile_glob(p) for p in patterns if p not in exact)

    def holds(view: View) -> Answer:
        name = view.received.request.namespace
        if name in exact:
            return True
        for fits in globs:  # noqa: SIM110 - a generator costs more than what it asks
            if fits(name):
                return True
        return False

    return holds


def _is_pod_that(clause: MatchClause) -> Predicate:
    """What is known of a pod without facts; a claim is of no workload, asks for no accelerator and lands in no pool."""
    wanted = clause.accelerators
    workloads, communications = frozenset(clause.workloads or ()), frozenset(clause.communication or ())
    sharing = frozenset(wanted.sharing or ()) if wanted else frozenset()
    asks = None if wanted is None else not wanted.none

    def holds(view: View) -> Answer:
        received = view.received
        if received.request.kind != "Pod":
            return False
        workload = received.workload
        return not (
            (asks is not None and workload.asks_for_accelerator is not asks)
            or (workloads and workload.workload_class not in workloads)
            or (communications and workload.communication not in communications)
            or (sharing and sharing.isdisjoint(workload.sharing))
        )

    return holds


def _accelerators_are(wanted: AcceleratorMatch) -> Iterator[Predicate]:
    """What of the accelerators may depend on facts, or has to be counted."""
    names = wanted.resource_names
    if wanted.vendors:
        vendors = frozenset(wanted.vendors)
        yield lambda view: _of_vendor(view, vendors)
    if names or wanted.count:
        low = wanted.count.min if wanted.count else 1
        high = wanted.count.max if wanted.count else None
        yield lambda view: _counts(view, names, low, high)


def _of_vendor(view: View, vendors: frozenset[str]) -> Answer:
    workload = view.received.workload
    if not vendors.isdisjoint(workload.vendors):
        return True
    if workload.claims_devices:
        claimed = view.received.claimed_vendors
        return claimed if isinstance(claimed, Unknown) else not vendors.isdisjoint(claimed)
    return False


def _counts(view: View, names: tuple[str, ...] | None, low: int, high: int | None) -> Answer:
    """Devices asked for by name; a resource claim has no name, and where no names are given its number is not known."""
    workload = view.received.workload
    count = count_of(workload.accelerators, names) if names else sum(workload.accelerators.values())
    if workload.claims_devices and not names and (count < low or high is not None):
        return Unknown("accelerators asked for through a resource claim cannot be counted")
    return low <= count and (high is None or count <= high)


def _labels_match(selector: dict[str, Any]) -> Predicate:
    matches = compile_label_selector(selector)
    return lambda view: matches(view.subject.labels)


def _in_workspace(patterns: tuple[str, ...]) -> Predicate:
    def holds(view: View) -> Answer:
        namespace = view.received.namespace
        if isinstance(namespace, Unknown):
            return namespace
        workspace = namespace.workspace
        return bool(workspace) and any(glob_matches(pattern, workspace) for pattern in patterns)

    return holds


def _namespace_labels_match(selector: dict[str, Any]) -> Predicate:
    matches = compile_label_selector(selector)

    def holds(view: View) -> Answer:
        namespace = view.received.namespace
        return namespace if isinstance(namespace, Unknown) else matches(namespace.labels)

    return holds


def _lands_in(names: tuple[str, ...]) -> Predicate:
    listed = frozenset(names)

    def holds(view: View) -> Answer:
        pools = view.subject.possible_pools
        return bool(pools) and all(pool.name in listed for pool in pools)

    return holds


def _condition(name: str, condition: Condition) -> Predicate:
    def holds(view: View) -> Answer:
        try:
            return condition.holds(view.subject.bindings)
        except EvaluationError as found:
            return Unknown(f"condition {name}: {found}")

    return holds
