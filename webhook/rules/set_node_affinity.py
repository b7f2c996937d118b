"""setNodeAffinity: required node affinity and tolerations that take an accelerator pod to its nodes."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar

from pydantic import Field, model_validator

from webhook.documents import Path
from webhook.documents.schema import Schema
from webhook.facts import AcceleratorPool, Unknown
from webhook.facts.pools import NodeLabels, Toleration
from webhook.kube.draft import Draft
from webhook.kube.field_path import mapping_at
from webhook.kube.node_affinity import (
    TERMS,
    Requirement,
    Term,
    contradiction,
    normalise_toleration,
)
from webhook.rules.base import Finding, MutatingRule, Subject, Texts, skip
from webhook.rules.parameters import RequirementParameter

TOLERATIONS: Path = ("spec", "tolerations")
_FIRST_TERM: Path = (*TERMS, 0)
KUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/managed", "kueue.x-k8s.io/podset")
"""Kueue puts a flavor's node labels into the selector of such pods (kubernetes-sigs/kueue:pkg/controller/constants)."""


class VendorNodes(Schema):
    """The nodes of one vendor's accelerators.

    Attributes:
        node_labels: labels that all its nodes have.
        tolerations: what a pod needs in order to get onto them.
    """

    node_labels: NodeLabels
    tolerations: tuple[Toleration, ...] = Field(default=(), strict=False)


_Nodes = tuple[tuple[Requirement, ...], tuple[Toleration, ...]]
"""What all nodes in question have in common, and the tolerations that they need."""


class SetNodeAffinity(MutatingRule):
    """ANDs requirements into every non-empty term of the required node affinity, and adds tolerations.

    A pod without accelerators stays untouched, and so does one whose own selector or affinity no such node could meet.

    Attributes:
        pools: pools, of which those that offer what the pod asks for are required; they may differ in one label only.
        by_vendor: nodes by vendor; the vendor is that of the accelerators that the pod asks for.
        match_expressions: requirements on node labels, as Kubernetes writes them.
        tolerations: tolerations, as Kubernetes writes them; alone, or besides those of the pools or the vendor.
    """

    type: ClassVar[str] = "setNodeAffinity"
    texts: ClassVar[Texts] = {
        "no accelerator": {
            "en": (
                "the pod asks for no accelerator",
                "nothing: only accelerator pods go to accelerator nodes",
            ),
            "zh": ("Pod 没有申请加速卡", "无需处理：只有申请加速卡的 Pod 才会调度到加速卡节点"),
        },
        "device claim": {
            "en": (
                "it is not known whether the pod's device claim is for an accelerator",
                "give podgate the ResourceClaim, or name the resource",
            ),
            "zh": (
                "无法确定 Pod 的设备声明是否为加速卡",
                "请为 podgate 提供 ResourceClaim 信息，或直接申请资源",
            ),
        },
        "no nodes": {
            "en": (
                "no pool or vendor of this rule offers {asked}",
                "name a pool or vendor for {asked} in the policy",
            ),
            "zh": ("规则中没有提供 {asked} 的资源池或厂商", "请在策略中为 {asked} 指定资源池或厂商"),
        },
        "contradiction": {
            "en": (
                "the pod's own placement ({own}) contradicts {wanted}, so it is left as it is",
                "remove {own} from the pod, or choose nodes that meet {wanted}",
            ),
            "zh": (
                "Pod 自身的调度要求（{own}）与 {wanted} 冲突，因此保持不变",
                "请从 Pod 中移除 {own}，或选择满足 {wanted} 的节点",
            ),
        },
        "kueue": {
            "en": (
                "the node selector {own}, set for its Kueue flavor, contradicts {wanted}, so the pod is left as it is",
                "give the flavor and the policy the same node labels",
            ),
            "zh": (
                "Kueue flavor 设置的节点选择 {own} 与 {wanted} 冲突，因此 Pod 保持不变",
                "请让 Kueue flavor 与策略使用相同的节点标签",
            ),
        },
        "empty terms": {
            "en": (
                "every term of the pod's required node affinity is empty, so it matches no node",
                "write a requirement into a term, or remove nodeAffinity",
            ),
            "zh": ("Pod 的节点亲和性条件全部为空，无法匹配任何节点", "请补充条件，或删除 nodeAffinity"),
        },
    }

    pools: tuple[str, ...] = Field(default=(), strict=False, min_length=1)
    by_vendor: dict[str, VendorNodes] = Field(default={}, min_length=1)
    match_expressions: tuple[RequirementParameter, ...] = Field(default=(), strict=False, min_length=1)
    tolerations: tuple[Toleration, ...] = Field(default=(), strict=False, min_length=1)

    @model_validator(mode="after")
    def _one_source(self) -> "SetNodeAffinity":
        sources = [name for name in ("pools", "by_vendor", "match_expressions") if getattr(self, name)]
        if len(sources) > 1:
            raise ValueError("give one of pools, byVendor and matchExpressions, not several")
        if not sources and not self.tolerations:
            raise ValueError("give one of pools, byVendor and matchExpressions, or tolerations")
        return self

    def pool_problem(self, pools: Mapping[str, AcceleratorPool]) -> str:
        """Why these pools cannot be one requirement: they may differ in the value of one label at most; "" if they can."""
        labels = [pools[name].node_labels for name in self.pools]
        if len({frozenset(each) for each in labels}) > 1:
            return f"the pools {', '.join(self.pools)} do not have the same label keys, so one affinity cannot say them all"
        differing = [key for key in (labels[0] if labels else ()) if len({each[key] for each in labels}) > 1]
        if len(differing) > 1:
            return f"the pools {', '.join(self.pools)} differ in {' and '.join(differing)}; they may differ in one label only"
        return ""

    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        """See `MutatingRule.mutate`."""
        if not subject.received.vendors:
            claimed = subject.received.claimed_vendors
            yield skip("device claim" if isinstance(claimed, Unknown) else "no accelerator")
            return
        nodes = self._nodes(subject)
        if nodes is None:
            yield skip("no nodes", asked=", ".join(subject.workload.accelerators) or "the device claim")
            return
        requirements, tolerations = nodes
        refusal = self._refusal(subject, requirements)
        if refusal is not None:
            yield refusal
            return
        for requirement in requirements:
            _require(subject, requirement, key)
        for toleration in tolerations:
            _tolerate(subject.draft, toleration, key)

    def _nodes(self, subject: Subject) -> _Nodes | None:
        """What the nodes for this pod have in common, and the tolerations that they need; None where the rule names none."""
        if self.pools:
            return self._pool_nodes(subject)
        if self.by_vendor:
            return self._vendor_nodes(subject)
        return tuple(parameter.requirement for parameter in self.match_expressions), self.tolerations

    def _pool_nodes(self, subject: Subject) -> _Nodes | None:
        offering = [pool for pool in subject.received.offering_pools if pool.name in self.pools]
        if not offering:
            return None
        requirements = tuple(
            Requirement(key, "In", tuple(dict.fromkeys(pool.node_labels[key] for pool in offering)))
            for key in offering[0].node_labels
        )
        return requirements, (*(t for pool in offering for t in pool.tolerations), *self.tolerations)

    def _vendor_nodes(self, subject: Subject) -> _Nodes | None:
        vendors = subject.received.vendors
        if len(vendors) == 1:  # nearly always
            return self._nodes_of_one.get(*vendors)
        return self._nodes_of(vendors) if vendors and vendors <= self.by_vendor.keys() else None

    @cached_property
    def _nodes_of_one(self) -> Mapping[str, _Nodes]:
        found = {vendor: self._nodes_of(frozenset([vendor])) for vendor in self.by_vendor}
        return {vendor: nodes for vendor, nodes in found.items() if nodes is not None}

    def _nodes_of(self, vendors: frozenset[str]) -> _Nodes | None:
        """What the nodes of all these vendors have in common; None where no node can be all theirs."""
        nodes = [self.by_vendor[vendor] for vendor in sorted(vendors)]
        labels = {label for each in nodes for label in each.node_labels.items()}
        if len(labels) > len({key for key, _ in labels}):
            return None  # a node has one value for a label: no node has the accelerators of all these vendors
        requirements = tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels))
        return requirements, (*(t for each in nodes for t in each.tolerations), *self.tolerations)

    def _refusal(self, subject: Subject, requirements: tuple[Requirement, ...]) -> Finding | None:
        if not requirements:
            return None
        placement = subject.placement
        if placement.terms is not None and all(term.is_empty for term in placement.terms):
            return skip("empty terms", TERMS)
        pair = contradiction(placement, requirements)
        if pair is None:
            return None
        labels = mapping_at(subject.object, ("metadata", "labels"))
        by_kueue = pair[0] in placement.selector and any(label in labels for label in KUEUE_LABELS)
        return skip("kueue" if by_kueue else "contradiction", TERMS, own=pair[0].shown, wanted=pair[1].shown)


def _require(subject: Subject, requirement: Requirement, key: str) -> None:
    """AND the requirement into every non-empty term that does not say it already."""
    if not subject.draft.claim((*TERMS, requirement.key), key):
        return
    selector, terms = subject.placement
    if any(own.implies(requirement) for own in selector):
        return
    places = [_FIRST_TERM] if terms is None else [term.path for term in terms if _lacks(term, requirement)]
    for place in places:
        subject.draft.append(
            (*place, "matchExpressions"), requirement.to_json(), key, lambda _: False, requirement.shown
        )


def _lacks(term: Term, requirement: Requirement) -> bool:
    """Whether a term that matches nodes does not say it already."""
    return not term.is_empty and not any(own.implies(requirement) for own in term.requirements)


def _tolerate(draft: Draft, toleration: Toleration, key: str) -> None:
    item, meaning = toleration.as_json, toleration.meaning
    draft.append(
        TOLERATIONS, item, key, lambda other: normalise_toleration(other) == meaning, toleration.identity
    )
