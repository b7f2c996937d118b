"""Files to a policy set: every error said with its place, and one bad file never takes the others down."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from webhook.documents import Document, Path, Position, Problem, read_documents
from webhook.documents.schema import Schema, allowed_keys, did_you_mean, problems_of, shown, written
from webhook.expressions import Condition, ExpressionError, compile_condition
from webhook.facts import AcceleratorPool, PoolSpec
from webhook.kube.accelerators import Catalogue, shipped_catalogue
from webhook.policy.match import Predicate, all_of, any_of, compile_clause, during
from webhook.policy.policy_set import CompiledPolicy, CompiledRule, PolicySet, index_of
from webhook.policy.schema import API_VERSION, Manifest, MatchClause, PolicySpec, RuleEntry
from webhook.rules import Rule, rule_types
from webhook.rules.base import Mode, MutatingRule
from webhook.rules.reserve_nodes import ReserveNodes
from webhook.rules.set_node_affinity import SetNodeAffinity

KINDS = ("PodPolicy", "AcceleratorPool")
CEILINGS = {"warn": Mode.WARN, "fail": Mode.ENFORCE}
HASH_DIGITS = 12

_Model = TypeVar("_Model", bound=Schema)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of a set of files.

    Attributes:
        policy_set: all that could be loaded.
        problems: every error and warning; a policy with an error is not in the set.
    """

    policy_set: PolicySet
    problems: tuple[Problem, ...]

    @property
    def has_errors(self) -> bool:
        """Whether something was dropped."""
        return any(not problem.is_warning for problem in self.problems)


@dataclass(slots=True)
class _Draft:
    """A policy file half way: parsed, not yet compiled."""

    document: Document
    name: str
    spec: PolicySpec
    rules: list[tuple[Path, RuleEntry, Rule]]


def load_policy_set(
    files: Iterable[tuple[str, bytes]],
    *,
    mode_ceiling: Mode = Mode.ENFORCE,
    catalogue: Catalogue | None = None,
) -> Loaded:
    """Compile policies and pools.

    Args:
        files: name and content of each file; the order does not matter.
        mode_ceiling: the most that a policy file's mode may do (`serve --mode audit`).
        catalogue: accelerators; the shipped catalogue where None.
    """
    problems: list[Problem] = []
    drafts: dict[str, _Draft] = {}
    pools: dict[str, AcceleratorPool] = {}
    pool_documents: list[Any] = []
    for document in _documents(files, problems):
        manifest = _parse(Manifest, document.value, document, (), problems)
        if manifest is None:
            continue
        if manifest.kind != "AcceleratorPool":
            _add_policy(manifest, document, drafts, problems)
        elif _add_pool(manifest, document, pools, problems):
            pool_documents.append(document.value)
    if not drafts and not problems:
        problems.append(
            Problem("", None, "no policy was found", "give a folder with PodPolicy files", is_warning=True)
        )
    known = catalogue or shipped_catalogue()
    policies = _compile_all(drafts, pools, known, mode_ceiling, problems)
    ordered_pools = tuple(pools[name] for name in sorted(pools))
    loaded = [drafts[policy.name].document.value for policy in policies]
    digest = _hash([*loaded, *pool_documents], mode_ceiling, known)
    policy_set = PolicySet(policies, ordered_pools, known, digest, index_of(policies))
    return Loaded(policy_set, tuple(sorted(problems, key=_place)))


def _place(problem: Problem) -> tuple[str, Position]:
    return problem.source, problem.position or Position(0, 0)


def _documents(files: Iterable[tuple[str, bytes]], problems: list[Problem]) -> Iterator[Document]:
    for source, data in sorted(files):
        reading = read_documents(data, source, strict=True)
        problems.extend(reading.problems)
        broken = {problem.source for problem in reading.problems if not problem.is_warning}
        for document in reading.documents:
            if document.source not in broken and _is_ours(document, problems):
                yield document


def _is_ours(document: Document, problems: list[Problem]) -> bool:
    value = document.value
    if not isinstance(value, dict):
        _say(
            problems,
            document,
            (),
            f"expected a map, found {shown(value)}",
            "a policy starts with apiVersion and kind",
        )
        return False
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind not in KINDS:
        message = f"unknown kind {shown(kind)}" if kind is not None else "kind is missing"
        _say(problems, document, ("kind",), message, did_you_mean(str(kind), list(KINDS)))
        return False
    if version != API_VERSION:
        _say(
            problems,
            document,
            ("apiVersion",),
            f"expected {API_VERSION}, found {shown(version)}",
            f"write apiVersion: {API_VERSION}",
        )
        return False
    return True


def _say(
    problems: list[Problem],
    document: Document,
    path: Path,
    message: str,
    hint: str = "",
    *,
    key: bool = False,
) -> None:
    problems.append(Problem(document.source, document.locate(path, key=key), message, hint))


def _parse(
    model: type[_Model], value: Any, document: Document, base: Path, problems: list[Problem]
) -> _Model | None:
    """A part of a document as its schema; None, and the problems said, where it is not one."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems.extend(problems_of(error, document, base, model))
        return None


def _add_pool(
    manifest: Manifest, document: Document, pools: dict[str, AcceleratorPool], problems: list[Problem]
) -> bool:
    """Whether the pool is a new one without faults."""
    name = manifest.metadata.name
    spec = _parse(PoolSpec, manifest.spec, document, ("spec",), problems)
    if name in pools:
        _say(
            problems,
            document,
            ("metadata", "name"),
            f"there are two pools called {name}",
            "give one of them another name",
        )
    if spec is None or name in pools:
        return False
    pools[name] = AcceleratorPool.model_construct(name=name, **dict(spec))
    return True


def _add_policy(
    manifest: Manifest, document: Document, drafts: dict[str, _Draft], problems: list[Problem]
) -> None:
    name = manifest.metadata.name
    before = len(problems)
    if name in drafts:
        other = drafts[name].document.source
        _say(
            problems,
            document,
            ("metadata", "name"),
            f"there are two policies called {name}; the other is in {other}",
            "give one of them another name",
        )
    spec = _parse(PolicySpec, manifest.spec, document, ("spec",), problems)
    entries = manifest.spec.get("rules")
    rules = list(_rules(entries, document, problems)) if isinstance(entries, list) else []
    if spec is not None and len(problems) == before:
        drafts[name] = _Draft(document, name, spec, rules)


def _rules(
    entries: list[Any], document: Document, problems: list[Problem]
) -> Iterator[tuple[Path, RuleEntry, Rule]]:
    names: set[str] = set()
    for index, value in enumerate(entries):
        path: Path = ("spec", "rules", index)
        if not isinstance(value, dict):
            _say(problems, document, path, f"expected a rule (a map), found {shown(value)}")
            continue
        type_name = _rule_type(value, document, path, problems)
        own = {key: part for key, part in value.items() if key != type_name}
        if type_name is None:
            own = {key: part for key, part in own.items() if key in allowed_keys(RuleEntry)}
        entry = _parse(RuleEntry, own, document, path, problems)
        rule = None
        if type_name is not None:
            parameters = value[type_name]
            rule = _parse(
                rule_types()[type_name],
                {} if parameters is None else parameters,
                document,
                (*path, type_name),
                problems,
            )
        if entry is not None and entry.name in names:
            _say(
                problems,
                document,
                (*path, "name"),
                f"there are two rules called {entry.name} in this policy",
                "give one of them another name",
            )
        elif entry is not None and rule is not None:
            names.add(entry.name)
            yield path, entry, rule


def _rule_type(value: dict[str, Any], document: Document, path: Path, problems: list[Problem]) -> str | None:
    types = rule_types()
    found = [key for key in value if key in types]
    strange = [key for key in value if key not in types and key not in allowed_keys(RuleEntry)]
    if len(found) == 1:
        return found[0]
    if found:
        _say(
            problems,
            document,
            (*path, found[1]),
            f"a rule has one type, found {' and '.join(found)}",
            "write two rules",
            key=True,
        )
    elif strange:
        for key in strange:
            _say(
                problems,
                document,
                (*path, key),
                f"unknown rule type {shown(key)}",
                did_you_mean(key, list(types)),
                key=True,
            )
    else:
        _say(problems, document, path, "the rule has no type", f"add one of: {', '.join(types)}")
    return None


def _compile_all(
    drafts: Mapping[str, _Draft],
    pools: Mapping[str, AcceleratorPool],
    catalogue: Catalogue,
    ceiling: Mode,
    problems: list[Problem],
) -> tuple[CompiledPolicy, ...]:
    compiled: list[CompiledPolicy] = []
    for draft in drafts.values():
        before = len(problems)
        _check_updates(draft, problems)
        _check_pools(draft, pools, problems)
        _check_vendors(draft, catalogue, problems)
        clauses = tuple(_clauses(draft, "match", problems))
        excludes = tuple(predicate for _, predicate in _clauses(draft, "exclude", problems))
        if len(problems) == before:
            compiled.append(_compile(draft, clauses, any_of(excludes) if excludes else None, ceiling))
    return tuple(sorted(compiled, key=lambda policy: (policy.order, policy.name)))


def _compile(
    draft: _Draft,
    clauses: tuple[tuple[MatchClause, Predicate], ...],
    excludes: Predicate | None,
    ceiling: Mode,
) -> CompiledPolicy:
    spec = draft.spec
    mode = min(spec.mode, ceiling, key=lambda each: each.rank)
    rules = tuple(
        CompiledRule(
            key=f"{draft.name}/{entry.name}",
            policy=draft.name,
            name=entry.name,
            rule=rule,
            mode=mode,
            failure_policy=spec.failure_policy,
            ceiling=CEILINGS[entry.verify],
            message=entry.message,
            remediation=entry.remediation,
            link=spec.link,
            contact=spec.contact,
        )
        for _, entry, rule in draft.rules
    )
    return CompiledPolicy(
        draft.name, mode, spec.failure_policy, spec.order, spec.severity, spec.title, clauses, excludes, rules
    )


def _clauses(draft: _Draft, key: str, problems: list[Problem]) -> Iterator[tuple[MatchClause, Predicate]]:
    for base, clause in _placed_clauses(draft, key):
        conditions = tuple(_conditions(draft, base, clause, problems))
        holds = compile_clause(clause, conditions)
        if key == "exclude" and clause.operations:
            holds = all_of((during(clause.operations), holds))
        yield clause, holds


def _placed_clauses(draft: _Draft, key: str) -> Iterator[tuple[Path, MatchClause]]:
    """The alternatives of `match` or `exclude`, and where each stands: a single one may be written without a list."""
    is_list = isinstance(draft.document.value["spec"].get(key), list)
    for index, clause in enumerate((draft.spec.match if key == "match" else draft.spec.exclude) or ()):
        yield ("spec", key, index) if is_list else ("spec", key), clause


def _conditions(
    draft: _Draft, base: Path, clause: MatchClause, problems: list[Problem]
) -> Iterator[tuple[str, Condition]]:
    for index, named in enumerate(clause.match_conditions or ()):
        try:
            yield named.name, compile_condition(named.expression)
        except ExpressionError as error:
            path = (*base, "matchConditions", index, "expression")
            where = f"at line {error.line}, column {error.column} of the expression"
            _say(
                problems,
                draft.document,
                path,
                f"{written(path)}: {error.message} ({where})",
                error.hint,
            )


def _check_updates(draft: _Draft, problems: list[Problem]) -> None:
    """No rule may do at an UPDATE what the API server would refuse, or what would leave an object stuck."""
    updates = any("UPDATE" in (clause.operations or ()) for clause in draft.spec.match)
    for path, entry, rule in draft.rules:
        fault = _fault_at_update(rule) if updates else ""
        if fault:
            message = f"rule {entry.name} ({rule.type}) {fault}, and the policy's match names UPDATE"
            _say(
                problems,
                draft.document,
                path,
                message,
                "put it into a policy of its own with operations: [CREATE]",
            )


def _fault_at_update(rule: Rule) -> str:
    """What a rule does that must not be done at an UPDATE; "" if nothing.

    What an update of a pod may change is fixed; a claim that cannot be updated is never bound, and never deleted.
    """
    if isinstance(rule, MutatingRule):
        return "sets fields"
    return "judges claims" if "persistentvolumeclaims" in rule.targets else ""


def _check_vendors(draft: _Draft, catalogue: Catalogue, problems: list[Problem]) -> None:
    """A vendor that the catalogue does not know would never match."""
    named: list[tuple[Path, str]] = []
    for key in ("match", "exclude"):
        for base, clause in _placed_clauses(draft, key):
            vendors = (clause.accelerators.vendors if clause.accelerators else None) or ()
            named += [((*base, "accelerators", "vendors", i), vendor) for i, vendor in enumerate(vendors)]
    for path, _, rule in draft.rules:
        if isinstance(rule, SetNodeAffinity):
            named += [((*path, rule.type, "byVendor", vendor), vendor) for vendor in rule.by_vendor]
    for path, vendor in named:
        if vendor not in catalogue.vendors:
            hint = did_you_mean(vendor, sorted(catalogue.vendors))
            is_key = not isinstance(path[-1], int)
            _say(problems, draft.document, path, f"unknown vendor {shown(vendor)}", hint, key=is_key)


def _check_pools(draft: _Draft, pools: Mapping[str, AcceleratorPool], problems: list[Problem]) -> None:
    for key in ("match", "exclude"):
        for base, clause in _placed_clauses(draft, key):
            _check_pool_names(draft, (*base, "pools"), clause.pools or (), pools, problems)
    for path, _, rule in draft.rules:
        if isinstance(rule, SetNodeAffinity | ReserveNodes):
            place = (*path, rule.type, "pools")
            known = _check_pool_names(draft, place, rule.pools, pools, problems)
            why = rule.pool_problem(pools) if known and isinstance(rule, SetNodeAffinity) else ""
            if why:
                _say(
                    problems, draft.document, place, why, "write one rule for each, or plain matchExpressions"
                )


def _check_pool_names(
    draft: _Draft,
    path: Path,
    names: Iterable[str],
    pools: Mapping[str, AcceleratorPool],
    problems: list[Problem],
) -> bool:
    missing = [(index, name) for index, name in enumerate(names) if name not in pools]
    for index, name in missing:
        _say(
            problems,
            draft.document,
            (*path, index),
            f"there is no AcceleratorPool {shown(name)}",
            did_you_mean(name, list(pools)),
        )
    return not missing


def _hash(loaded: list[Any], ceiling: Mode, catalogue: Catalogue) -> str:
    """Over what was loaded, however the files are named, ordered and laid out."""
    parts = sorted(json.dumps(value, sort_keys=True) for value in loaded)
    parts += [ceiling.value, json.dumps(catalogue.canonical(), sort_keys=True)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:HASH_DIGITS]
