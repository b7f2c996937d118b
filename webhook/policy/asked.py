"""Which facts about the cluster a policy set asks for."""

from collections.abc import Iterable

from webhook.expressions import compile_condition
from webhook.policy.policy_set import CompiledPolicy, PolicySet
from webhook.policy.schema import MatchClause
from webhook.rules.base import Mode


def kinds_asked(policy_set: PolicySet) -> frozenset[str]:
    """The kinds of objects of which the policies ask, so that nothing else need be watched."""
    kinds: set[str] = set()
    for policy in policy_set.policies:
        if policy.modes == {Mode.DISABLED}:
            continue
        variants = (policy, *(override.policy for override in policy.overrides))
        kinds.update(*(rule.rule.kinds_asked for variant in variants for rule in variant.rules))
        if _asks_of_namespaces(policy):
            kinds.add("Namespace")
    return frozenset(kinds)


def _asks_of_namespaces(policy: CompiledPolicy) -> bool:
    return any(
        _is_of_namespaces(clause)
        for clauses in (
            [clause for clause, _ in policy.clauses],
            policy.exclude_clauses,
            *(override.clauses for override in policy.overrides),
            *(exception.clauses for exception in policy.exceptions),
        )
        for clause in clauses
    )


def _is_of_namespaces(clause: MatchClause) -> bool:
    return bool(clause.workspaces or clause.namespace_selector is not None) or _read_namespaces(
        condition.expression for condition in clause.match_conditions or ()
    )


def _read_namespaces(expressions: Iterable[str]) -> bool:
    return any("namespaceObject" in compile_condition(text).names for text in expressions)
