"""The match condition of a webhook entry: the OR of what the loaded policies demand, as one CEL expression.

An expression that fails counts as the entry's failurePolicy says, so that `Ignore` would let the object past: nothing here
fails, whatever an object holds, and none runs out of its budget. That is the reason for the bounds below: an object beyond them
is asked about.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from webhook.engine.annotations import NAMES
from webhook.kube.devices import SHARING_ANNOTATIONS
from webhook.kube.workload import FRAMEWORK_LABELS, FRAMEWORK_OWNERS, VOLCANO_GROUP
from webhook.policy import PolicySet
from webhook.registration.catalogue import device_names, rdma_names, taint_keys
from webhook.registration.cel import TRUE, all_of, any_of, fits, listed, quoted
from webhook.registration.demands import PODS, Demand, Entry, Wanted
from webhook.registration.objects import POD, full_name, is_any_of, pods_of_object, typed_templates

# One expression may cost 1,000,000 and all conditions of an entry 2,500,000
# (kubernetes/apiserver:pkg/apis/cel/config.go). A pod at these bounds is evaluated by a real API server in the end-to-end tests.
MOST_CONTAINERS = 32
MOST_RESOURCES = 24
"""Of one container, limits and requests each; fewer where policies name many patterns, see `_most`."""
MOST_VARIABLES = 300
"""Of one container; likewise."""
MOST_COST = 450_000
"""Of the walk over all resources, and of that over all variables: the rest of the expression costs some 10,000."""
MOST_CHARACTERS = 90_000
"""Of an expression; the API server's parser takes 100,000 (google/cel-go:parser/options.go)."""
MOST_ITEMS = 300
"""Volumes, tolerations, node selectors and owners."""

SYSTEM_TAINTS = "node.kubernetes.io/"
"""Of taints that every node may get: the API server itself gives every pod two such tolerations
(kubernetes/kubernetes:plugin/pkg/admission/defaulttolerationseconds)."""

PLATFORM_LABELS = ("kubernetes.io/arch", "kubernetes.io/os")
"""Node selectors of pods that choose a platform and nothing else."""

CONTAINERS = (
    "[p.spec] + (has(p.spec.containers) && p.spec.containers != null ? p.spec.containers : [])"
    " + p.spec.?initContainers.orValue([]) + p.spec.?ephemeralContainers.orValue([])"
)
"""All containers, and the pod itself for its own resources."""

ANNOTATIONS = "p.?metadata.?annotations.orValue({})"
LABELS = "p.?metadata.?labels.orValue({})"


@dataclass(frozen=True, slots=True)
class _Asked:
    """The demands of one need, by where they hold: the names that matter there."""

    by_place: Mapping[str, tuple[str, ...]]

    @property
    def places(self) -> str:
        """Where any of them holds."""
        return any_of(self.by_place)

    def fits(self, name: str, names: Iterable[str] | None = None) -> str:
        """Whether a name is one that matters where it is; with `names` those, wherever something is demanded."""
        if names is not None:
            return all_of((self.places, fits(name, names)))
        return any_of(all_of((place, fits(name, found))) for place, found in self.by_place.items())


def match_condition(policy_set: PolicySet, entry: Entry) -> str:
    """The expression of an entry; `true` where it is asked about every object of its rules.

    Args:
        policy_set: what every call is judged by: its pools, catalogue and kinds.
        entry: what the entry is called for.
    """
    arms = list(_arms(policy_set, entry))
    if len(arms) == 1 or {condition for _, condition in arms} == {TRUE}:  # the entry's rules say it already
        found = arms[0][1]
    else:
        found = any_of(all_of((is_any_of(resources), condition)) for resources, condition in arms)
    if entry.mutating and not entry.late and found != TRUE:
        found = any_of((found, _carries_record()))
    return found if len(found) <= MOST_CHARACTERS else TRUE


def _arms(policy_set: PolicySet, entry: Entry) -> Iterator[tuple[tuple[str, ...], str]]:
    """Resources, and what is asked of their objects."""
    kinds = [kind for kind in policy_set.templates.kinds if kind.resource in entry.templates]
    typed = typed_templates(kinds)
    yield (POD, *typed), _of_pods(policy_set, entry, typed)
    other = tuple(kind.resource for kind in kinds if full_name(kind.resource) not in typed)
    if other:
        demands = [demand for demand in entry.demands if entry.mutating or demand.in_templates]
        yield other, any_of(map(_namespace, _of_target(PODS, demands)))
    for target in sorted({demand.target for demand in entry.demands} - {PODS}):
        yield (target,), any_of(_place_of_object(demand) for demand in _of_target(target, entry.demands))


def _of_target(target: str, demands: Iterable[Demand]) -> list[Demand]:
    return [demand for demand in demands if demand.target == target]


def _of_pods(policy_set: PolicySet, entry: Entry, typed: Mapping[str, str]) -> str:
    """The arm of pods and of templates that one can look into."""
    asked = _asked(entry, has_templates=bool(typed))
    found = any_of(
        [
            asked["all"].places if "all" in asked else "false",
            *_of_pod(asked, policy_set),
            *_of_containers(asked, policy_set),
        ]
    )
    if found in (TRUE, "false"):
        return found
    return f"({pods_of_object(typed)}).exists(p, has(p.spec) && ({found}))"


def _asked(entry: Entry, *, has_templates: bool) -> dict[Wanted, _Asked]:
    collected: dict[Wanted, dict[str, set[str]]] = {}
    for demand in _of_target(PODS, entry.demands):
        place = _place_of_pod(demand, entry, has_templates=has_templates)
        collected.setdefault(demand.need, {}).setdefault(place, set()).update(demand.names)
    return {
        need: _Asked({place: tuple(sorted(names)) for place, names in by_place.items()})
        for need, by_place in collected.items()
    }


def _place_of_pod(demand: Demand, entry: Entry, *, has_templates: bool) -> str:
    """Where the demand holds: its namespaces, its labels, its operations, and whether in templates, too."""
    is_pod = is_any_of((POD,))
    conditions = [_namespace(demand)]
    if demand.labels:
        labels = all_of(_has_label(LABELS, key, values) for key, values in demand.labels)
        conditions.append(any_of((f"!({is_pod})", labels)) if has_templates else labels)
    if not entry.mutating and has_templates and not demand.in_templates:
        conditions.append(is_pod)
    if not entry.mutating and "UPDATE" not in demand.operations:
        conditions.append(
            f'request.operation != "UPDATE" || !({is_pod})'
            if has_templates
            else 'request.operation != "UPDATE"'
        )
    return all_of(conditions)


def _place_of_object(demand: Demand) -> str:
    labels = "object.?metadata.?labels.orValue({})"
    found = [f"request.operation in {listed(demand.operations)}"] if len(demand.operations) == 1 else []
    return all_of([_namespace(demand), *found, *(_has_label(labels, *each) for each in demand.labels)])


def _namespace(demand: Demand) -> str:
    if not demand.namespaces:
        return TRUE
    return all_of(("has(request.namespace)", fits("request.namespace", demand.namespaces)))


def _has_label(labels: str, key: str, values: tuple[str, ...]) -> str:
    is_there = f"{quoted(key)} in {labels}"
    return all_of((is_there, f"{labels}[{quoted(key)}] in {listed(values)}")) if values else is_there


def _of_pod(asked: Mapping[Wanted, _Asked], policy_set: PolicySet) -> Iterator[str]:
    """Conditions on the pod itself, the cheapest first."""
    conditions: dict[Wanted, str] = {
        "claims": "has(p.spec.resourceClaims)",
        "hostPaths": _some("p.spec", "volumes", "has(i.hostPath)"),
        "ephemeralVolumes": _some("p.spec", "volumes", "has(i.ephemeral)"),
        "selectors": _selects(policy_set),
        "tolerations": _tolerates(policy_set),
        "devices": f"{listed(SHARING_ANNOTATIONS)}.exists(k, k in {ANNOTATIONS})",
        "frameworks": _is_of_framework(),
    }
    for need, condition in conditions.items():
        if need in asked:
            yield all_of((asked[need].places, condition))


def _of_containers(asked: Mapping[Wanted, _Asked], policy_set: PolicySet) -> Iterator[str]:
    """One walk over all containers for all that may stand in them."""
    found = []
    if resource := _is_asked_resource(asked, policy_set):
        either = "[i.?resources.?limits.orValue({}), i.?resources.?requests.orValue({})]"
        most = _most(MOST_RESOURCES, resource, lists=2)
        found.append(f"{either}.exists(m, size(m) > {most} || m.exists(k, {resource}))")
    if "env" in asked:
        variables = "i.?env.orValue([])"
        named = all_of(("has(e.name)", asked["env"].fits("e.name")))
        found.append(f"size({variables}) > {_most(MOST_VARIABLES, named)}")
        found.append(f"{variables}.exists(e, {named})")
    if "privileged" in asked:
        privileged = "i.?securityContext.?privileged.orValue(false) == true"
        found.append(all_of((asked["privileged"].places, privileged)))
    if found:
        yield f"[{CONTAINERS}].exists(l, size(l) > {MOST_CONTAINERS + 1} || l.exists(i, {any_of(found)}))"


def _is_asked_resource(asked: Mapping[Wanted, _Asked], policy_set: PolicySet) -> str:
    """Whether `k` is the name of a resource that matters; "" where none does."""
    names = []
    if "devices" in asked:
        names.append(asked["devices"].fits("k", device_names(policy_set.catalogue)))
    if "rdma" in asked:
        names.append(asked["rdma"].fits("k", rdma_names(policy_set)))
    if "resources" in asked:
        names.append(asked["resources"].fits("k"))
    if not names:
        return ""
    given = (
        [name for found in asked["resources"].by_place.values() for name in found]
        if "resources" in asked
        else []
    )
    # An extended resource has a domain; a look at that alone spares most names all others.
    has_domain = 'k.contains("/")' if all("/" in name for name in given) else TRUE
    return all_of((has_domain, any_of(names)))


_LISTED = re.compile(r"\[[^\]]*\]")
_TEST = re.compile(r"\w\(| in | == ")


def _most(most: int, condition: str, lists: int = 1) -> int:
    """How many items the lists of a container may have for all to be asked a condition within `MOST_COST`.

    The condition's cost has this upper bound: a test costs up to 3 with what it reads, and a tenth of the characters that it
    compares; a list of constants is one (google/cel-go:interpreter/runtimecost.go); the walk adds 5.

    Args:
        most: whatever the cost.
        condition: of one item.
        lists: of one container.
    """
    text = _LISTED.sub("", condition)
    cost = 5 + 3 * len(_TEST.findall(text)) + len(text) // 10
    return min(most, MOST_COST // (cost * lists * (MOST_CONTAINERS + 1)))


def _some(owner: str, key: str, condition: str) -> str:
    """Whether an item of a list is so, or there are too many to look at."""
    items = f"{owner}.?{key}.orValue([])"
    return f"[{items}].exists(l, size(l) > {MOST_ITEMS} || l.exists(i, {condition}))"


def _selects(policy_set: PolicySet) -> str:
    """Whether the pod chooses nodes by more than their platform."""
    of_pools = {key for pool in policy_set.pools for key in pool.node_labels}
    known = policy_set.catalogue.node_label_vendors
    platform = [key for key in PLATFORM_LABELS if key not in of_pools and not known(key)]
    selector = f"p.spec.?nodeSelector.orValue({{}}).exists(k, !(k in {listed(platform)}))"
    affinity = "has(p.spec.affinity) && has(p.spec.affinity.nodeAffinity)"
    many = f"size(p.spec.?nodeSelector.orValue({{}})) > {MOST_ITEMS}"
    return any_of((affinity, many, selector))


def _tolerates(policy_set: PolicySet) -> str:
    """Whether the pod tolerates more than what every node may become."""
    of_pools = [toleration.key or "" for pool in policy_set.pools for toleration in pool.tolerations]
    if any(map(_may_be_of_system, (*of_pools, *taint_keys(policy_set.catalogue)))):
        return "has(p.spec.tolerations)"
    return _some("p.spec", "tolerations", f"!(has(i.key) && i.key.startsWith({quoted(SYSTEM_TAINTS)}))")


def _may_be_of_system(key: str) -> bool:
    """Whether a taint's key, or one that its pattern fits, is of those that every node may get."""
    start, star, _ = key.partition("*")
    return start.startswith(SYSTEM_TAINTS) or bool(star and SYSTEM_TAINTS.startswith(start))


def _is_of_framework() -> str:
    """Whether a label or the owner gives the pod a class of its own."""
    plain = listed(key for key, values in FRAMEWORK_LABELS.items() if not values)
    valued = [_has_label("l", key, tuple(values)) for key, values in FRAMEWORK_LABELS.items() if values]
    labels = f"[{LABELS}].exists(l, {any_of((f'{plain}.exists(k, k in l)', *valued))})"
    volcano = f"has(i.apiVersion) && i.apiVersion.startsWith({quoted(f'{VOLCANO_GROUP}/')})"
    owner = any_of((f"has(i.kind) && i.kind in {listed(FRAMEWORK_OWNERS)}", volcano))
    return any_of((labels, _some("p.?metadata", "ownerReferences", owner)))


def _carries_record() -> str:
    """Whether a new object carries what only podgate may write; it is taken away before the late call is decided."""
    carries = f"{listed(NAMES)}.exists(k, k in object.?metadata.?annotations.orValue({{}}))"
    return all_of(('request.operation == "CREATE"', carries))
