"""Which policies make podgate be called for what."""

from typing import NamedTuple

from webhook.policy import PolicySet
from webhook.registration.configurations import MUTATE, MUTATE_LATE, VALIDATE_FAIL, VALIDATE_IGNORE
from webhook.registration.demands import PODS, Demand, Wanted, late_entry, mutating_entry, validating_entry

WHAT: dict[Wanted, str] = {
    "devices": "pods that ask for accelerators",
    "claims": "pods with device claims",
    "resources": "pods that ask for {names}",
    "rdma": "pods that ask for RDMA devices",
    "selectors": "pods with node selectors or node affinity",
    "tolerations": "pods with tolerations of their own",
    "env": "pods that set {names}",
    "hostPaths": "pods with hostPath volumes",
    "privileged": "pods with privileged containers",
    "ephemeralVolumes": "pods with ephemeral volumes",
    "frameworks": "pods of AI frameworks",
    "all": "{target}",
}
"""In the order from narrow to wide."""

EVERY_POD = "every pod"


class Scope(NamedTuple):
    """One reason for calls.

    Attributes:
        entry: the webhook entry.
        objects: what it is called for.
        where: what narrows it, "" if nothing.
        policies: the policies that demand it, sorted.
        is_everything: whether every pod is meant: such a policy widens the scope.
    """

    entry: str
    objects: str
    where: str
    policies: tuple[str, ...]
    is_everything: bool


def explain_scope(policy_set: PolicySet) -> tuple[Scope, ...]:
    """What each entry is called for, and which policies want it; the widest last."""
    entries = {
        MUTATE: mutating_entry(policy_set),
        MUTATE_LATE: late_entry(policy_set),
        VALIDATE_FAIL: validating_entry(policy_set, "Fail"),
        VALIDATE_IGNORE: validating_entry(policy_set, "Ignore"),
    }
    found: dict[tuple[str, Wanted, str, str], set[str]] = {}
    for name, entry in entries.items():
        for demand in entry.demands:
            key = (name, demand.need, _objects(demand), _where(demand))
            found.setdefault(key, set()).add(demand.policy)
    order = list(WHAT)
    ranked = sorted(
        found.items(), key=lambda item: (list(entries).index(item[0][0]), order.index(item[0][1]), item[0])
    )
    return tuple(
        Scope(entry, objects, where, tuple(sorted(policies)), objects == EVERY_POD)
        for (entry, need, objects, where), policies in ranked
    )


def _objects(demand: Demand) -> str:
    if (demand.need, demand.target) == ("all", PODS):
        return EVERY_POD
    return WHAT[demand.need].format(names=", ".join(demand.names), target=demand.target)


def _where(demand: Demand) -> str:
    """What narrows a demand, as a reader of policies knows it."""
    parts = []
    if demand.namespaces:
        parts.append(f"in {', '.join(demand.namespaces)}")
    for key, values in demand.labels:
        parts.append(f"with {key}={'|'.join(values)}" if values else f"with {key}")
    if demand.target == PODS and "UPDATE" in demand.operations:
        parts.append("updates too")
    return ", ".join(parts)
