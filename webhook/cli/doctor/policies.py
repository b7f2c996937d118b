"""Does the cluster have what the policies name?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.cli.doctor.findings import Finding, Level
from webhook.cli.doctor.place import Place, mapping, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from webhook.facts import AcceleratorPool
    from webhook.kube.accelerators import Catalogue
    from webhook.policy import PolicySet

PRIORITY_CLASSES = "priority classes"
STORAGE_CLASSES = "storage classes"
RDMA = "RDMA"
NODES = "nodes"

MOST_SHOWN = 5
"""Nodes that are named in one line."""


def check_priority_classes(place: Place) -> Iterator[Finding]:
    """The classes that setters give and that rules allow."""
    from webhook.rules.check_priority import CheckPriority  # noqa: PLC0415
    from webhook.rules.set_priority_class import SetPriorityClass  # noqa: PLC0415

    if place.policy_set is None:
        return
    named: dict[str, set[str]] = {}
    allowed: dict[str, set[str]] = {}
    for policy, rule in _rules(place.policy_set):
        if isinstance(rule, SetPriorityClass):
            named.setdefault(rule.class_, set()).add(policy)
        elif isinstance(rule, CheckPriority):
            for each in (name for names in rule.allowed.values() for name in names):
                allowed.setdefault(each, set()).add(policy)
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    yield from _classes(place, PRIORITY_CLASSES, path, named, allowed)


def check_storage_classes(place: Place) -> Iterator[Finding]:
    """The classes that setters give."""
    from webhook.rules.set_storage_class import SetStorageClass  # noqa: PLC0415

    if place.policy_set is None:
        return
    named: dict[str, set[str]] = {}
    for policy, rule in _rules(place.policy_set):
        if isinstance(rule, SetStorageClass):
            for name in filter(
                None, (*rule.by_io_pattern.values(), *rule.by_access_mode.values(), rule.default)
            ):
                named.setdefault(name, set()).add(policy)
    yield from _classes(place, STORAGE_CLASSES, "/apis/storage.k8s.io/v1/storageclasses", named, {})


def _rules(policy_set: PolicySet) -> Iterator[tuple[str, Any]]:
    """Every rule that some object may meet, with its policy."""
    for policy in policy_set.policies:
        for variant in (policy, *(override.policy for override in policy.overrides)):
            if variant.mode != "disabled":
                yield from ((policy.name, rule.rule) for rule in variant.rules)


def _classes(
    place: Place, check: str, path: str, named: Mapping[str, set[str]], allowed: Mapping[str, set[str]]
) -> Iterator[Finding]:
    """Classes that are named and lacking: given ones are a fault, allowed ones only curious."""
    lacking = [name for name in sorted({*named, *allowed}) if place.api.find(f"{path}/{name}") is None]
    for name in lacking:
        policies = ", ".join(sorted(named.get(name) or allowed[name]))
        level, verb = (Level.FAIL, "give") if name in named else (Level.WARN, "allow")
        text = f"there is no {check.removesuffix('es')} {name}, which policies {verb}: {policies}"
        yield Finding(
            check, level, text, f"create {name}, or correct the policies; see policies/prerequisites"
        )
    if not lacking and (named or allowed):
        yield Finding(check, Level.OK, f"there: {', '.join(sorted({*named, *allowed}))}")


def check_nodes(place: Place) -> Iterator[Finding]:
    """RDMA resources, pools without nodes, and accelerator nodes without the labels that placement relies on."""
    if place.policy_set is None:
        return
    nodes = list(place.items("/api/v1/nodes"))
    yield from _rdma(place.policy_set, nodes)
    found = [*_empty_pools(place.policy_set, nodes), *_unlabelled(place.policy_set, nodes)]
    yield from found
    if not found:
        yield Finding(
            NODES,
            Level.OK,
            "every pool has some, and those with accelerators have the labels that placement demands",
        )


def _allocatable(node: dict[str, Any]) -> set[str]:
    """Names of the resources of which a node has some."""
    resources = mapping(mapping(node.get("status")).get("allocatable"))
    return {name for name, amount in resources.items() if str(amount) not in ("", "0")}


def _labels(node: dict[str, Any]) -> dict[str, Any]:
    return mapping(mapping(node.get("metadata")).get("labels"))


def _rdma(policy_set: PolicySet, nodes: list[dict[str, Any]]) -> Iterator[Finding]:
    """RDMA that pods would be given, and no node of theirs has: they would stay pending."""
    lacking: list[tuple[str, str]] = []
    named = 0
    for name, of, offered in _given_rdma(policy_set, nodes):
        named += 1
        if name not in offered:
            lacking.append((name, of))
    for name, of in lacking:
        text = f"no node of {of} offers {name}, which pods there are given: they stay pending"
        yield Finding(
            RDMA, Level.FAIL, text, "start the device plugin that offers it, or correct what names it"
        )
    if named and not lacking:
        yield Finding(RDMA, Level.OK, "the nodes offer what policies give")


def _given_rdma(policy_set: PolicySet, nodes: list[dict[str, Any]]) -> Iterator[tuple[str, str, set[str]]]:
    """Each RDMA resource that setters give, for whom, and what the nodes offer there."""
    from webhook.rules.request_rdma import RequestRDMA  # noqa: PLC0415

    rules = [(policy, rule) for policy, rule in _rules(policy_set) if isinstance(rule, RequestRDMA)]
    everywhere = {name for node in nodes for name in _allocatable(node)}
    for policy, rule in rules:
        yield from ((name, f"the cluster (policy {policy})", everywhere) for name in rule.resource_names)
    for pool in policy_set.pools if any(rule.from_pool for _, rule in rules) else ():
        own = _nodes_of(policy_set, pool, nodes)
        if own and pool.rdma:
            offered = {name for node in own for name in _allocatable(node)}
            yield from ((name, f"pool {pool.name}", offered) for name in pool.rdma.resource_names)


def _nodes_of(
    policy_set: PolicySet, pool: AcceleratorPool, nodes: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The nodes of a pool, less those that a pool of more labels describes better."""
    finer = [other for other in policy_set.pools if other.node_labels.items() > pool.node_labels.items()]
    return [node for node in nodes if _is_in(pool, node) and not any(_is_in(other, node) for other in finer)]


def _is_in(pool: AcceleratorPool, node: dict[str, Any]) -> bool:
    return pool.node_labels.items() <= _labels(node).items()


def _empty_pools(policy_set: PolicySet, nodes: list[dict[str, Any]]) -> Iterator[Finding]:
    for pool in policy_set.pools:
        if not any(_is_in(pool, node) for node in nodes):
            labels = ", ".join(f"{key}={value}" for key, value in pool.node_labels.items())
            text = f"no node has the labels of pool {pool.name}: {labels}"
            yield Finding(NODES, Level.WARN, text, "label the nodes, or remove the pool if there are none")


def _unlabelled(policy_set: PolicySet, nodes: list[dict[str, Any]]) -> Iterator[Finding]:
    """Nodes with accelerators on which a placed pod cannot land, for they lack the labels that it demands."""
    lacking: dict[str, list[str]] = {}
    for node in nodes:
        for name in sorted(_allocatable(node)):
            wanted = list(_placements(policy_set, name))
            if wanted and not any(labels.items() <= _labels(node).items() for labels in wanted):
                lacking.setdefault(name, []).append(name_of(node))
    for name, names in lacking.items():
        shown = ", ".join(names[:MOST_SHOWN]) + (
            f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
        )
        text = f"no pod that policies place lands on {shown}, for it lacks the labels demanded for {name}"
        yield Finding(NODES, Level.WARN, text, "label the node, or describe it with an AcceleratorPool")


def _placements(policy_set: PolicySet, resource: str) -> Iterator[Mapping[str, str]]:
    """The sets of labels one of which setNodeAffinity demands of nodes for a resource."""
    from webhook.rules.set_node_affinity import SetNodeAffinity  # noqa: PLC0415

    vendor = _vendor(policy_set.catalogue, resource)
    pools = {pool.name: pool for pool in policy_set.pools}
    for _, rule in _rules(policy_set):
        if not isinstance(rule, SetNodeAffinity) or not vendor:
            continue
        if vendor in rule.by_vendor:
            yield rule.by_vendor[vendor].node_labels
        for name in rule.pools:
            if pools[name].offers([resource]):
                yield pools[name].node_labels


def _vendor(catalogue: Catalogue, resource: str) -> str:
    known = catalogue.resource(resource)
    return known.vendor if known and known.role == "device" else ""
