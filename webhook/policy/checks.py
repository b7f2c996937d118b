"""What the schema cannot see: rules against the policy's match, the pools and the catalogue."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from webhook.documents import Document, Path
from webhook.documents.schema import did_you_mean, shown
from webhook.facts import AcceleratorPool
from webhook.kube.accelerators import Catalogue
from webhook.kube.templates import TemplateKinds
from webhook.policy.drafts import PolicyDraft, RuleDraft, placed_clauses
from webhook.policy.faults import Faults
from webhook.policy.schema import MatchClause, PolicySpec
from webhook.rules import Rule
from webhook.rules.base import MutatingRule
from webhook.rules.reserve_nodes import ReserveNodes
from webhook.rules.set_node_affinity import SetNodeAffinity


@dataclass(frozen=True, slots=True)
class Site:
    """What policies may name: pools of the set, vendors of the catalogue, kinds with templates."""

    pools: Mapping[str, AcceleratorPool]
    catalogue: Catalogue
    templates: TemplateKinds


def check_policy(draft: PolicyDraft, site: Site, faults: Faults) -> None:
    """A policy's own match, exclude, templates and rules.

    Args:
        draft: the policy, whose own shape is good.
        site: the pools, vendors and kinds that it may name.
        faults: where each fault is noted, with its place.
    """
    for key in ("match", "exclude"):
        clauses = draft.spec.match if key == "match" else draft.spec.exclude
        check_clauses(draft.document, key, clauses, site, faults)
    _check_template_kinds(draft, site, faults)
    check_rules(draft.document, draft.spec, draft.rules, site, faults)


def check_clauses(
    document: Document, key: str, clauses: tuple[MatchClause, ...] | None, site: Site, faults: Faults
) -> None:
    """Pools and vendors that a match names.

    Args:
        document: where the clauses stand.
        key: `match` or `exclude`.
        clauses: the alternatives below that key; None where it is absent.
        site: the pools and vendors that there are.
        faults: where each fault is noted, with its place.
    """
    for base, clause in placed_clauses(document, key, clauses):
        _check_pool_names(document, (*base, "pools"), clause.pools or (), site, faults)
        vendors = (clause.accelerators.vendors if clause.accelerators else None) or ()
        for index, vendor in enumerate(vendors):
            _check_vendor(document, (*base, "accelerators", "vendors", index), vendor, site, faults)


def check_rules(
    document: Document, spec: PolicySpec, rules: Iterable[RuleDraft], site: Site, faults: Faults
) -> None:
    """Rules as they stand in `document`, of a policy with this spec.

    Args:
        document: the policy's, or an override's that changes the rules.
        spec: the policy's, also where an override changes its rules.
        rules: those that stand in `document`.
        site: the pools and vendors that there are.
        faults: where each fault is noted, with its place.
    """
    updates = any("UPDATE" in (clause.operations or ()) for clause in spec.match)
    for draft in rules:
        fault = _fault_at_update(draft.rule) if updates else ""
        if fault:
            name = f"rule {draft.entry.name} ({draft.rule.type})"
            message = f"{name} {fault}, and the policy's match names UPDATE"
            faults.say(
                document, draft.path, message, "put it into a policy of its own with operations: [CREATE]"
            )
        _check_placement(document, draft, site, faults)


def _fault_at_update(rule: Rule) -> str:
    """What a rule does that must not be done at an UPDATE; "" if nothing.

    What an update of a pod may change is fixed; a claim that cannot be updated is never bound, and never deleted.
    """
    if isinstance(rule, MutatingRule):
        return "sets fields"
    return "judges claims" if "persistentvolumeclaims" in rule.targets else ""


def _check_placement(document: Document, draft: RuleDraft, site: Site, faults: Faults) -> None:
    rule = draft.rule
    if not isinstance(rule, SetNodeAffinity | ReserveNodes):
        return
    place = (*draft.path, rule.type, "pools")
    known = _check_pool_names(document, place, rule.pools, site, faults)
    if isinstance(rule, SetNodeAffinity):
        for vendor in rule.by_vendor:
            _check_vendor(document, (*draft.path, rule.type, "byVendor", vendor), vendor, site, faults)
        why = rule.pool_problem(site.pools) if known else ""
        if why:
            faults.say(document, place, why, "write one rule for each, or plain matchExpressions")


def _check_vendor(document: Document, path: Path, vendor: str, site: Site, faults: Faults) -> None:
    """A vendor that the catalogue does not know would never match."""
    if vendor not in site.catalogue.vendors:
        hint = did_you_mean(vendor, sorted(site.catalogue.vendors))
        faults.say(document, path, f"unknown vendor {shown(vendor)}", hint, key=not isinstance(path[-1], int))


def _check_pool_names(
    document: Document, path: Path, names: Iterable[str], site: Site, faults: Faults
) -> bool:
    missing = [(index, name) for index, name in enumerate(names) if name not in site.pools]
    for index, name in missing:
        hint = did_you_mean(name, list(site.pools))
        faults.say(document, (*path, index), f"there is no AcceleratorPool {shown(name)}", hint)
    return not missing


def _check_template_kinds(draft: PolicyDraft, site: Site, faults: Faults) -> None:
    known = sorted(kind.resource for kind in site.templates.kinds)
    for index, resource in enumerate(draft.spec.templates.mutate or ()):
        if resource not in known:
            message = f"unknown kind with pods {shown(resource)}; kinds are named as kubectl writes them"
            path = ("spec", "templates", "mutate", index)
            begun = [name for name in known if name.startswith(resource)]
            hint = f"did you mean {begun[0]}?" if begun else did_you_mean(resource, known)
            faults.say(draft.document, path, message, hint)
