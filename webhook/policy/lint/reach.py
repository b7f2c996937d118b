"""Rules that can never act, whatever the object."""

from collections.abc import Iterator

from webhook.documents import Problem
from webhook.kube.accelerators import Catalogue
from webhook.policy.lint.overlap import is_inside
from webhook.policy.lint.sources import Sources
from webhook.policy.policy_set import CompiledPolicy, CompiledRule, PolicySet
from webhook.policy.schema import MatchClause

POD_KEYS = ("workloads", "accelerators", "pools", "communication")
"""What only pods have: for everything else these never match."""

FOR_ACCELERATOR_PODS = frozenset(
    {
        "setNodeAffinity",
        "requestRDMA",
        "setResources",
        "limitAcceleratorCount",
        "limitResourcesPerAccelerator",
        "checkPlacement",
        "requireRDMA",
    }
)
"""Rule types that do nothing with a pod that asks for no accelerator."""

FOR_OTHER_PODS = frozenset({"reserveNodes"})
"""Rule types that do nothing with a pod that asks for one."""

CLAIMS = "persistentvolumeclaims"


def unreachable(policy_set: PolicySet, sources: Sources) -> Iterator[Problem]:
    """A warning for each policy, match or rule that can never hold.

    Args:
        policy_set: all policies that are loaded, and the catalogue of vendors.
        sources: where they are written.
    """
    for policy in policy_set.policies:
        yield from _excluded(policy, sources)
        yield from _foreign_names(policy, policy_set.catalogue, sources)
        for rule in policy.rules:
            message, hint = _why_never(rule, [clause for clause, _ in policy.clauses])
            if message:
                path = (*sources.rule(policy.name, rule.name), rule.rule.type)
                yield sources.warn("PodPolicy", policy.name, path, message, hint, key=True)


def _excluded(policy: CompiledPolicy, sources: Sources) -> Iterator[Problem]:
    for index, (clause, _) in enumerate(policy.clauses):
        if any(is_inside(clause, exclude) for exclude in policy.exclude_clauses):
            message = f"this never holds: the exclude of policy {policy.name} exempts all that it matches"
            path = sources.clause(policy.name, "match", index)
            yield sources.warn(
                "PodPolicy", policy.name, path, message, "narrow exclude, or remove this match"
            )


def _foreign_names(policy: CompiledPolicy, catalogue: Catalogue, sources: Sources) -> Iterator[Problem]:
    """Resource names that are all of other vendors than the ones that a match names."""
    for index, (clause, _) in enumerate(policy.clauses):
        wanted = clause.accelerators
        if wanted is None or not wanted.vendors or not wanted.resource_names:
            continue
        owners = {name: _owner(name, catalogue) for name in wanted.resource_names}
        if all(owner and owner not in wanted.vendors for owner in owners.values()):
            listed = ", ".join(f"{name} is of {owner}" for name, owner in owners.items())
            message = f"this never holds: {listed}, not of {' or '.join(wanted.vendors)}"
            path = (*sources.clause(policy.name, "match", index), "accelerators", "resourceNames")
            hint = "correct vendors, or remove it: resourceNames says enough"
            yield sources.warn("PodPolicy", policy.name, path, message, hint)


def _owner(name: str, catalogue: Catalogue) -> str:
    """Whose device a name or pattern stands for; "" where the catalogue does not say."""
    known = catalogue.resource(name)
    return known.vendor if known else ""


def _why_never(rule: CompiledRule, clauses: list[MatchClause]) -> tuple[str, str]:
    """Why a rule never acts under any alternative, and what to do; two empty texts if it may."""
    keys = sorted({key for clause in clauses for key in POD_KEYS if getattr(clause, key)})
    if all(any(getattr(clause, key) for key in POD_KEYS) for clause in clauses):
        if "pods" not in rule.rule.targets:
            message = f"{rule.key} can never act: it judges {', '.join(rule.rule.targets)}"
            return f"{message}, and {_are(keys)} about pods alone", f"remove {' and '.join(keys)} from match"
        if CLAIMS in rule.rule.targets:
            message = f"{rule.key} acts on no claim: {_are(keys)} about pods alone"
            return (
                message,
                "use namespaces, workspaces or selectors; the ephemeral volumes of pods are reached",
            )
    accelerators = [clause.accelerators for clause in clauses]
    if rule.rule.type in FOR_ACCELERATOR_PODS and all(each and each.none for each in accelerators):
        message = (
            f"{rule.key} can never act: it is about accelerators, and the match is for pods that ask for none"
        )
        return message, "remove accelerators: none"
    if rule.rule.type in FOR_OTHER_PODS and all(each and not each.none for each in accelerators):
        message = f"{rule.key} can never act: it is about pods that ask for no accelerator"
        return message, "write accelerators: none, or remove accelerators from match"
    return "", ""


def _are(keys: list[str]) -> str:
    return f"{' and '.join(keys)} {'is' if keys == ['communication'] else 'are'}"
