"""Drafts to compiled policies: their overrides as variants, their exceptions as predicates."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from webhook.documents import Document, Path
from webhook.documents.schema import allowed_keys, did_you_mean, shown, written
from webhook.expressions import Condition, ExpressionError, compile_condition
from webhook.policy.checks import Site, check_clauses, check_policy, check_rules
from webhook.policy.drafts import (
    ExceptionDraft,
    OverrideDraft,
    PolicyDraft,
    RuleDraft,
    placed_clauses,
    say_strange_key,
)
from webhook.policy.faults import Faults
from webhook.policy.match import Predicate, all_of, any_of, compile_clause, during
from webhook.policy.policy_set import CompiledException, CompiledPolicy, CompiledRule, Override
from webhook.policy.schema import MatchClause, PolicySpec, RuleEntry
from webhook.rules import rule_types
from webhook.rules.base import Mode

CEILINGS = {"warn": Mode.WARN, "fail": Mode.ENFORCE}


def compile_policies(
    drafts: Mapping[str, PolicyDraft | None],
    overrides: Iterable[OverrideDraft],
    exceptions: Iterable[ExceptionDraft],
    site: Site,
    ceiling: Mode,
    faults: Faults,
) -> tuple[CompiledPolicy, ...]:
    """Every policy without faults, with what the site says about it, in the order in which they run.

    Args:
        drafts: by name; None for a policy that was dropped when it was read.
        overrides: of all policies.
        exceptions: of all policies.
        site: what policies may name.
        ceiling: the most that a policy file's mode may do.
        faults: where problems are noted.
    """
    policies = {
        name: policy
        for name, draft in drafts.items()
        if draft is not None and (policy := _policy(draft, site, ceiling, faults))
    }
    for override in sorted(overrides, key=lambda each: (each.spec.order, each.name)):
        _apply_override(override, drafts, policies, site, faults)
    for exception in sorted(exceptions, key=lambda each: each.name):
        _apply_exception(exception, drafts, policies, site, faults)
    return tuple(sorted(policies.values(), key=lambda policy: (policy.order, policy.name)))


def _policy(draft: PolicyDraft, site: Site, ceiling: Mode, faults: Faults) -> CompiledPolicy | None:
    before = faults.errors
    check_policy(draft, site, faults)
    spec = draft.spec
    clauses = tuple(_clauses(draft.document, "match", spec.match, faults))
    excludes = tuple(_any_operation(draft.document, "exclude", spec.exclude, faults))
    if faults.errors > before:
        return None
    mode = min(spec.mode, ceiling, key=lambda each: each.rank)
    return CompiledPolicy(
        name=draft.name,
        mode=mode,
        failure_policy=spec.failure_policy,
        order=spec.order,
        severity=spec.severity,
        title=spec.title,
        clauses=clauses,
        excludes=any_of(excludes) if excludes else None,
        exclude_clauses=spec.exclude or (),
        rules=tuple(_rule(draft.name, spec, rule, mode) for rule in draft.rules),
        opt_out=spec.opt_out == "allowed",
        check_templates=spec.templates.check,
        mutate_templates=frozenset(spec.templates.mutate or ()),
    )


def _rule(policy: str, spec: PolicySpec, draft: RuleDraft, mode: Mode) -> CompiledRule:
    entry = draft.entry
    return CompiledRule(
        key=f"{policy}/{entry.name}",
        policy=policy,
        name=entry.name,
        rule=draft.rule,
        mode=mode,
        failure_policy=spec.failure_policy,
        ceiling=CEILINGS[entry.verify],
        message=entry.message,
        remediation=entry.remediation,
        link=spec.link,
        contact=spec.contact,
    )


def _clauses(
    document: Document, key: str, clauses: tuple[MatchClause, ...] | None, faults: Faults
) -> Iterator[tuple[MatchClause, Predicate]]:
    for base, clause in placed_clauses(document, key, clauses):
        yield clause, compile_clause(clause, tuple(_conditions(document, base, clause, faults)))


def _any_operation(
    document: Document, key: str, clauses: tuple[MatchClause, ...] | None, faults: Faults
) -> Iterator[Predicate]:
    """Clauses that hold at every operation, unless they name some: those of all but a policy's own match."""
    for clause, holds in _clauses(document, key, clauses, faults):
        yield all_of((during(clause.operations), holds)) if clause.operations else holds


def _conditions(
    document: Document, base: Path, clause: MatchClause, faults: Faults
) -> Iterator[tuple[str, Condition]]:
    for index, named in enumerate(clause.match_conditions or ()):
        try:
            yield named.name, compile_condition(named.expression)
        except ExpressionError as error:
            path = (*base, "matchConditions", index, "expression")
            where = f"at line {error.line}, column {error.column} of the expression"
            faults.say(document, path, f"{written(path)}: {error.message} ({where})", error.hint)


def _apply_override(
    draft: OverrideDraft,
    known: Mapping[str, PolicyDraft | None],
    policies: dict[str, CompiledPolicy],
    site: Site,
    faults: Faults,
) -> None:
    before = faults.errors
    check_clauses(draft.document, "match", draft.spec.match, site, faults)
    matches = any_of(tuple(_any_operation(draft.document, "match", draft.spec.match, faults)))
    named = list(_named(draft, [(name, "") for name in draft.spec.policies], known, policies, faults))
    for index, policy, _ in named:
        shadow = next(
            (other for other in policy.overrides if _shadows(other.clauses, draft.spec.match)), None
        )
        if shadow is not None:
            path = ("spec", "policies", index)
            message = f"override {shadow.name} matches first whatever this one matches, so it never decides"
            faults.say(draft.document, path, message, "give it a lower order, or another match")
    bases = {name: base for name, base in known.items() if base is not None}
    variants = [_variant(draft, policy, bases[policy.name], site, faults) for _, policy, _ in named]
    if faults.errors == before:
        for variant in variants:
            own = policies[variant.name]
            override = Override(draft.name, draft.spec.match, matches, replace(variant, overrides=()))
            policies[variant.name] = replace(own, overrides=(*own.overrides, override))


def _named(
    draft: OverrideDraft | ExceptionDraft,
    names: list[tuple[str, str]],
    known: Mapping[str, PolicyDraft | None],
    policies: dict[str, CompiledPolicy],
    faults: Faults,
) -> Iterator[tuple[int, CompiledPolicy, str]]:
    """The policies (and rules) that an adaptation names; one that was dropped takes its adaptations with it."""
    for index, (name, rule) in enumerate(names):
        path = ("spec", "policies", index)
        policy = policies.get(name)
        if name in known and policy is None:
            faults.warn(
                draft.document, path, f"policy {name} was dropped, and this with it", "mend the policy"
            )
        elif policy is None:
            begun = name.partition("/")[0]
            hint = f"write {begun}: an override names policies, and rules below" if begun in known else ""
            hint = hint or did_you_mean(name, list(known))
            faults.say(draft.document, path, f"there is no policy {shown(name)}", hint)
        elif rule and rule not in [each.name for each in policy.rules]:
            hint = did_you_mean(rule, [each.name for each in policy.rules])
            faults.say(draft.document, path, f"policy {name} has no rule {shown(rule)}", hint)
        else:
            yield index, policy, rule


def _shadows(earlier: tuple[MatchClause, ...], later: tuple[MatchClause, ...]) -> bool:
    return any(clause.all and not clause.operations for clause in earlier) or earlier == later


def _variant(
    draft: OverrideDraft, policy: CompiledPolicy, base: PolicyDraft, site: Site, faults: Faults
) -> CompiledPolicy:
    """The policy as the override has it; a rule that cannot be changed so is a fault."""
    mode = policy.mode if draft.spec.mode is None else draft.spec.mode
    changed = {rule.entry.name: rule for rule in _changed_rules(draft, base, faults)}
    check_rules(draft.document, base.spec, changed.values(), site, faults)
    rules = tuple(
        replace(_rule(policy.name, base.spec, changed.get(rule.entry.name, rule), mode), override=draft.name)
        for rule in base.rules
    )
    return replace(policy, mode=mode, rules=rules)


def _changed_rules(draft: OverrideDraft, base: PolicyDraft, faults: Faults) -> Iterator[RuleDraft]:
    own = {rule.entry.name: rule for rule in base.rules}
    for index, value in enumerate(draft.spec.rules):
        path: Path = ("spec", "rules", index)
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            message = f"{written(path)}: expected a rule (a map with a name), found {shown(value)}"
            faults.say(draft.document, path, message)
        elif value["name"] not in own:
            message = f"policy {base.name} has no rule {shown(value['name'])}"
            faults.say(draft.document, (*path, "name"), message, did_you_mean(value["name"], list(own)))
        else:
            rule = _changed_rule(value, own[value["name"]], draft.document, path, faults)
            if rule is not None:
                yield rule


def _changed_rule(
    value: dict[str, object], own: RuleDraft, document: Document, path: Path, faults: Faults
) -> RuleDraft | None:
    """A rule with the override's parameters: each replaces the whole of it, null removes it, the others stay."""
    type_name = own.rule.type
    other = next((key for key in value if key in rule_types() and key != type_name), None)
    if other is not None:
        message = f"rule {own.entry.name} is a {type_name}, not a {other}"
        faults.say(document, (*path, other), message, f"write {type_name}: …", key=True)
        return None
    strange = [key for key in value if key != type_name and key not in allowed_keys(RuleEntry)]
    for key in strange:
        say_strange_key(key, type_name, document, (*path, key), faults)
    given = {} if value.get(type_name) is None else value[type_name]
    if not isinstance(given, dict):
        place = (*path, type_name)
        faults.say(document, place, f"{written(place)}: expected a map, found {shown(given)}")
        return None
    rest = {key: part for key, part in value.items() if key != type_name and key not in strange}
    entry = faults.parse(RuleEntry, {**_said(own.entry), **rest}, document, path)
    merged = {key: part for key, part in {**own.written, **given}.items() if part is not None}
    rule = faults.parse(rule_types()[type_name], merged, document, (*path, type_name))
    return None if entry is None or rule is None else RuleDraft(path, entry, rule, merged)


def _said(entry: RuleEntry) -> dict[str, object]:
    """What a rule's file says of it, less its type."""
    return entry.model_dump(by_alias=True, exclude_unset=True)


def _check_shadow(
    draft: ExceptionDraft, index: int, policy: CompiledPolicy, rule: str, faults: Faults
) -> None:
    """Whatever an earlier exception lifts already needs no second one, whose end would be no end."""
    for other in policy.exceptions:
        if other.rule in ("", rule) and _shadows(other.clauses, draft.spec.match):
            message = f"exception {other.name} lifts this already, until {other.expires_at:%Y-%m-%d}"
            faults.say(draft.document, ("spec", "policies", index), message, "keep one of the two")


def _apply_exception(
    draft: ExceptionDraft,
    known: Mapping[str, PolicyDraft | None],
    policies: dict[str, CompiledPolicy],
    site: Site,
    faults: Faults,
) -> None:
    before = faults.errors
    check_clauses(draft.document, "match", draft.spec.match, site, faults)
    matches = any_of(tuple(_any_operation(draft.document, "match", draft.spec.match, faults)))
    names = [(name, rule) for name, _, rule in (each.partition("/") for each in draft.spec.policies)]
    named = list(_named(draft, names, known, policies, faults))
    for index, policy, rule in named:
        _check_shadow(draft, index, policy, rule, faults)
    if faults.errors > before:
        return
    for _, policy, rule in named:
        spec = draft.spec
        exception = CompiledException(
            draft.name, rule, spec.match, matches, spec.reason, spec.owner, spec.reference, spec.expires_at
        )
        current = policies[policy.name]
        policies[policy.name] = replace(current, exceptions=(*current.exceptions, exception))
