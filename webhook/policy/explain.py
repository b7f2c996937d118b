"""Which part of a match says no: each part by itself, for people. The gate never asks this; it runs the whole predicate."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from webhook.expressions import compile_condition
from webhook.facts import Unknown
from webhook.policy.match import Answer, View, compile_clause
from webhook.policy.schema import AcceleratorMatch, MatchClause

ONLY_PODS = ("workloads", "communication", "accelerators", "pools")


class Part(NamedTuple):
    """One part of a match, and what it says of an object.

    Attributes:
        key: as the file names it, `accelerators.vendors`.
        answer: whether it holds.
        said: what was found and what was wanted.
    """

    key: str
    answer: Answer
    said: str

    def __str__(self) -> str:
        return f"{self.key}: {self.said}"


def explain_clause(clause: MatchClause, view: View) -> tuple[Part, ...]:
    """The parts of one alternative of a `match` or `exclude`, each with its own answer.

    Args:
        clause: the alternative; its operations are left out.
        view: the object.
    """
    return tuple(_parts(clause, view))


def _parts(clause: MatchClause, view: View) -> Iterator[Part]:
    if clause.all:
        yield Part("all", True, "true")
    if clause.namespaces:
        yield _named("namespaces", clause.namespaces, view.received.request.namespace, view)
    if view.received.request.kind == "Pod":
        yield from _pod_parts(clause, view)
    else:
        for key in ONLY_PODS:
            if getattr(clause, key):
                yield Part(key, False, f"a {view.received.request.kind} has none, only pods do")
    for key, whose in (("object_selector", "object"), ("namespace_selector", "namespace")):
        selector = getattr(clause, key)
        if selector is not None:
            yield _selected(key, selector, whose, view)
    if clause.workspaces:
        namespace = view.received.namespace
        found = "" if isinstance(namespace, Unknown) else namespace.workspace
        yield _named("workspaces", clause.workspaces, found or "no workspace", view)
    for named in clause.match_conditions or ():
        condition = ((named.name, compile_condition(named.expression)),)
        answer = compile_clause(MatchClause.model_construct(), condition)(view)
        yield _part(f"matchConditions.{named.name}", answer, "is true" if answer is True else "is false")


def _pod_parts(clause: MatchClause, view: View) -> Iterator[Part]:
    workload = view.received.workload
    if clause.workloads:
        yield _named("workloads", clause.workloads, workload.workload_class, view)
    if clause.communication:
        yield _named("communication", clause.communication, workload.communication, view)
    if clause.accelerators:
        yield from _accelerators(clause.accelerators, view)
    if clause.pools:
        found = " or ".join(pool.name for pool in view.subject.possible_pools) or "no pool"
        yield _named("pools", clause.pools, found, view)


def _accelerators(wanted: AcceleratorMatch, view: View) -> Iterator[Part]:
    workload = view.received.workload
    asked = ", ".join(f"{count} {name}" for name, count in workload.accelerators.items())
    asked = asked or ("a device claim" if workload.claims_devices else "no accelerator")
    if wanted.none or not workload.asks_for_accelerator:
        text = f"the pod asks for {asked}"
        yield Part("accelerators", wanted.none is not workload.asks_for_accelerator, text)
        return
    if wanted.vendors:
        found = ", ".join(sorted(view.received.vendors)) or "no vendor"
        answer = _ask(view, accelerators=AcceleratorMatch.model_construct(vendors=wanted.vendors))
        yield _part("accelerators.vendors", answer, _compared(answer, found, wanted.vendors))
    if wanted.resource_names or wanted.count:
        counted = AcceleratorMatch.model_construct(resource_names=wanted.resource_names, count=wanted.count)
        answer = _ask(view, accelerators=counted)
        key = "accelerators.count" if wanted.count else "accelerators.resourceNames"
        yield _part(key, answer, _compared(answer, asked, _counted(wanted)))
    if wanted.sharing:
        answer = _ask(view, accelerators=AcceleratorMatch.model_construct(sharing=wanted.sharing))
        found = ", ".join(sorted(workload.sharing)) or "no sharing"
        yield _part("accelerators.sharing", answer, _compared(answer, found, wanted.sharing))


def _counted(wanted: AcceleratorMatch) -> tuple[str, ...]:
    names = " or ".join(wanted.resource_names or ()) or "devices"
    if wanted.count is None:
        return (names,)
    most = "" if wanted.count.max is None else f" and at most {wanted.count.max}"
    return (f"at least {wanted.count.min}{most} {names}",)


def _named(key: str, wanted: tuple[str, ...], found: str, view: View) -> Part:
    answer = _ask(view, **{key: wanted})
    return _part(key, answer, _compared(answer, found, wanted))


def _selected(key: str, selector: dict[str, Any], whose: str, view: View) -> Part:
    answer = _ask(view, **{key: selector})
    verb = "fit" if answer is True else "do not fit"
    name = "objectSelector" if whose == "object" else "namespaceSelector"
    return _part(name, answer, f"the labels of the {whose} {verb}")


def _ask(view: View, **given: Any) -> Answer:
    return compile_clause(MatchClause.model_construct(**given), ())(view)


def _compared(answer: Answer, found: str, wanted: tuple[str, ...]) -> str:
    return f"{found} {'is' if answer is True else 'is not'} {' or '.join(wanted)}"


def _part(key: str, answer: Answer, said: str) -> Part:
    return Part(key, answer, f"not known, for {answer.why}" if isinstance(answer, Unknown) else said)
