"""checkPlacement: an accelerator pod that cannot, or will not, land on nodes with its accelerators."""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, islice
from typing import ClassVar, TypeVar

from webhook.documents import Path
from webhook.facts import NodeGroup, Unknown
from webhook.kube.field_path import list_at, value_at
from webhook.kube.node_affinity import (
    TERMS,
    Requirement,
    suits,
    tolerates,
)
from webhook.rules.base import Finding, Need, Subject, Texts, ValidatingRule, fail, skip

NODE_NAME: Path = ("spec", "nodeName")
NODE_SELECTOR: Path = ("spec", "nodeSelector")
REPELLING = ("NoSchedule", "NoExecute")

MOST_PAIRS = 1_000
"""Pairs of one alternative that are tried: those of 45 requirements. What contradicts itself only beyond stays pending in the
scheduler, as it would without a gate."""

_Found = TypeVar("_Found")


class CheckPlacement(ValidatingRule):
    """Judges where an accelerator pod can go, by what it says itself, by the pools, and by the nodes where they are known."""

    type: ClassVar[str] = "checkPlacement"
    asks: ClassVar[frozenset[str]] = frozenset({"Node"})
    scope: ClassVar[frozenset[Need]] = frozenset({"devices", "claims"})
    texts: ClassVar[Texts] = {
        "pinned": {
            "en": (
                "the pod asks for {asked} and is pinned to node {node}, past the scheduler, which alone knows where devices are free",
                "remove spec.nodeName; choose nodes with a node selector",
            ),
            "zh": (
                "Pod 申请了 {asked}，却用 nodeName 固定在节点 {node}，绕过了掌握空闲设备的调度器",
                "请删除 spec.nodeName，改用节点选择",
            ),
        },
        "off": {
            "en": (
                "the pod asks for {asked} but its placement ({own}) keeps it off the nodes that have them",
                "remove {own}",
            ),
            "zh": ("Pod 申请了 {asked}，但其调度要求（{own}）使它无法调度到相应的节点", "请移除 {own}"),
        },
        "other vendor": {
            "en": (
                "the pod asks for {asked} but its placement ({own}) takes it to nodes of {vendor}",
                "remove {own}, or ask for the accelerators of {vendor}",
            ),
            "zh": (
                "Pod 申请了 {asked}，但其调度要求（{own}）指向 {vendor} 的节点",
                "请移除 {own}，或改为申请 {vendor} 的加速卡",
            ),
        },
        "impossible": {
            "en": (
                "no node can meet both {own} and {other}, so the pod would stay pending",
                "remove one of the two",
            ),
            "zh": ("没有节点能同时满足 {own} 和 {other}，Pod 会一直等待调度", "请移除其中之一"),
        },
        "nowhere": {
            "en": (
                "no pool or node that this pod may go to could ever give it {asked}",
                "ask for fewer, or choose among: {pools}",
            ),
            "zh": ("该 Pod 可以前往的资源池或节点都无法提供 {asked}", "请减少数量，或选择：{pools}"),
        },
        "no accelerator": {
            "en": ("the pod asks for no accelerator", "nothing"),
            "zh": ("Pod 没有申请加速卡", "无需处理"),
        },
        "nodes unknown": {
            "en": (
                "whether a node could take the pod is not judged: {why}",
                "state AcceleratorPools, or give podgate the nodes",
            ),
            "zh": ("未判断是否有节点可用：{why}", "请定义 AcceleratorPool，或为 podgate 提供节点信息"),
        },
    }

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        """See `ValidatingRule.validate_subject`."""
        if not subject.received.vendors:
            yield skip("no accelerator")
            return
        node = value_at(subject.object, NODE_NAME)
        if node:
            yield fail("pinned", NODE_NAME, asked=_asked(subject), node=node)
            return
        wrong = _off(subject) or _other_vendor(subject) or _impossible(subject) or _nowhere(subject)
        if wrong:
            yield wrong


def _asked(subject: Subject) -> str:
    """The accelerators that the pod asks for, in words."""
    counts = subject.workload.accelerators
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "a device claim"


def _place(subject: Subject, requirement: Requirement) -> Path:
    """Where a requirement of the pod stands."""
    if requirement in subject.placement.selector:
        return (*NODE_SELECTOR, requirement.key)
    return TERMS


def _in_every_alternative(
    subject: Subject, find: Callable[[Subject, tuple[Requirement, ...]], _Found | None]
) -> _Found | None:
    """What is found in the first alternative of the pod, where something is found in each; else None."""
    first: _Found | None = None
    for alternative in subject.placement.alternatives():
        found = find(subject, alternative)
        if found is None:
            return None
        first = found if first is None else first
    return first


def _excluding_pair(
    _subject: Subject, alternative: tuple[Requirement, ...]
) -> tuple[Requirement, Requirement] | None:
    for own, other in islice(combinations(alternative, 2), MOST_PAIRS):
        if own.key == other.key and own.excludes(other):
            return own, other
    return None


def _off(subject: Subject) -> Finding | None:
    """Every alternative shuns the labels that mark the vendors' nodes."""
    first = _in_every_alternative(subject, _shunning)
    if first is None:
        return None
    return fail("off", _place(subject, first), asked=_asked(subject), own=first.shown)


def _shunning(subject: Subject, alternative: tuple[Requirement, ...]) -> Requirement | None:
    vendors, of = subject.received.vendors, subject.received.catalogue.node_label_vendors
    for own in alternative:
        if not vendors.isdisjoint(of(own.key)) and _shuns(own):
            return own
    return None


def _shuns(own: Requirement) -> bool:
    """Whether a requirement on a label that marks nodes keeps off them."""
    if own.operator == "In":
        return all(value == "false" for value in own.values)
    return own.operator == "DoesNotExist" or (own.operator == "NotIn" and "true" in own.values)


def _other_vendor(subject: Subject) -> Finding | None:
    """Every alternative demands labels that only nodes of other vendors have."""
    first = _in_every_alternative(subject, _demanding_others)
    if first is None:
        return None
    own, found = first
    vendor = ", ".join(sorted(found))
    return fail("other vendor", _place(subject, own), asked=_asked(subject), own=own.shown, vendor=vendor)


def _demanding_others(
    subject: Subject, alternative: tuple[Requirement, ...]
) -> tuple[Requirement, frozenset[str]] | None:
    vendors, of = subject.received.vendors, subject.received.catalogue.node_label_vendors
    for own in alternative:
        if of(own.key) and (found := _foreign(subject, own, vendors)):
            return own, found
    return None


def _foreign(subject: Subject, own: Requirement, vendors: frozenset[str]) -> frozenset[str]:
    """The vendors of the nodes that a requirement demands, where none of them is the pod's; else none."""
    of = subject.received.catalogue.node_label_vendors
    if own.operator in ("Exists", "Gt", "Lt"):
        demanded = of(own.key)
    elif (
        own.operator == "In" and all(of(own.key, value) for value in own.values) and "false" not in own.values
    ):
        demanded = frozenset().union(*(of(own.key, value) for value in own.values))
    else:
        return frozenset()
    return demanded if demanded.isdisjoint(vendors) else frozenset()


def _impossible(subject: Subject) -> Finding | None:
    """Every alternative contradicts itself."""
    first = _in_every_alternative(subject, _excluding_pair)
    if first is None:
        return None
    return fail("impossible", _place(subject, first[0]), own=first[0].shown, other=first[1].shown)


def _nowhere(subject: Subject) -> Finding | None:
    """Neither a pool nor a known node could take the pod."""
    counts = subject.workload.accelerators
    for pool in subject.possible_pools:
        if pool.devices_per_node is None or max(counts.values(), default=0) <= pool.devices_per_node:
            return None
    pools = subject.received.offering_pools
    nodes = subject.facts.nodes()
    if isinstance(nodes, Unknown) and not pools:
        return skip("nodes unknown", why=nodes.why)
    if isinstance(nodes, Unknown) or not any(_could_take(subject, counts, node) for node in nodes):
        names = ", ".join(pool.name for pool in pools) or "nodes that offer them"
        return fail("nowhere", _asking(subject), asked=_asked(subject), pools=names)
    return None


def _asking(subject: Subject) -> Path:
    """Where the pod's placement is said, for a finding about all of it."""
    said = (place for place in (NODE_SELECTOR, TERMS) if value_at(subject.object, place))
    return next(said, ("spec",))


def _could_take(subject: Subject, counts: Mapping[str, int], node: NodeGroup) -> bool:
    tolerations = list_at(subject.object, ("spec", "tolerations"))
    return (
        suits(subject.placement, node.labels)
        and all(node.allocatable.get(name, 0) >= count for name, count in counts.items())
        and all(
            any(tolerates(toleration, taint) for toleration in tolerations)
            for taint in node.taints
            if taint.get("effect") in REPELLING
        )
    )
