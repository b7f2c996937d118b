"""Policy files half way: parsed into what they say, not yet compiled."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from webhook.documents import Document, Path
from webhook.documents.schema import allowed_keys, did_you_mean, shown, written
from webhook.policy.faults import Faults
from webhook.policy.schema import ExceptionSpec, Manifest, MatchClause, OverrideSpec, PolicySpec, RuleEntry
from webhook.rules import Rule, rule_types

GIVE_ANOTHER_NAME = "give one of them another name"


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """One rule: where it stands, what it says of itself, and its type with parameters.

    Attributes:
        written: the parameters as the file has them, for an override to change.
    """

    path: Path
    entry: RuleEntry
    rule: Rule
    written: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PolicyDraft:
    """A PodPolicy without faults of its own."""

    document: Document
    name: str
    spec: PolicySpec
    rules: tuple[RuleDraft, ...]


@dataclass(frozen=True, slots=True)
class OverrideDraft:
    """A PodPolicyOverride whose rules are not yet looked at: they are parts of the policies' own."""

    document: Document
    name: str
    spec: OverrideSpec


@dataclass(frozen=True, slots=True)
class ExceptionDraft:
    """A PodPolicyException."""

    document: Document
    name: str
    spec: ExceptionSpec


def read_policy(manifest: Manifest, document: Document, faults: Faults) -> PolicyDraft | None:
    """A PodPolicy; None, and its faults noted, where it has some.

    Args:
        manifest: the document's outer shape, which is good.
        document: where faults have their places.
        faults: where each is noted.
    """
    before = faults.errors
    spec = faults.parse(PolicySpec, manifest.spec, document, ("spec",))
    entries = manifest.spec.get("rules")
    rules = tuple(_rules(entries, document, faults)) if isinstance(entries, list) else ()
    if spec is None or faults.errors > before:
        return None
    return PolicyDraft(document, manifest.metadata.name, spec, rules)


def placed_clauses(
    document: Document, key: str, clauses: tuple[MatchClause, ...] | None
) -> Iterator[tuple[Path, MatchClause]]:
    """The alternatives of `match` or `exclude`, and where each stands: a single one may be written without a list.

    Args:
        document: the file's, as it is written.
        key: `match` or `exclude`, below `spec`.
        clauses: what was read there; None where the key is absent.
    """
    is_list = isinstance(document.value["spec"].get(key), list)
    for index, clause in enumerate(clauses or ()):
        yield ("spec", key, index) if is_list else ("spec", key), clause


def rule_type(value: dict[str, Any], document: Document, path: Path, faults: Faults) -> str | None:
    """The one key of a rule that is a rule type; None, and the fault noted, where there is not exactly one.

    Args:
        value: the rule as it is written.
        document: where it stands.
        path: of the rule in the document.
        faults: where a fault is noted.
    """
    types = rule_types()
    found = [key for key in value if key in types]
    strange = [key for key in value if key not in types and key not in allowed_keys(RuleEntry)]
    if len(found) == 1:
        return found[0]
    if found:
        message = f"a rule has one type, found {' and '.join(found)}"
        faults.say(document, (*path, found[1]), message, "write two rules", key=True)
    elif strange:
        for key in strange:
            hint = did_you_mean(key, list(types))
            faults.say(document, (*path, key), f"unknown rule type {shown(key)}", hint, key=True)
    else:
        faults.say(document, path, "the rule has no type", f"add one of: {', '.join(types)}")
    return None


def say_strange_key(key: str, type_name: str, document: Document, path: Path, faults: Faults) -> None:
    """Note a key of a rule that is neither its type nor one that every rule has.

    Args:
        key: as it is written.
        type_name: the rule's type; its parameters are often written beside it in place of below.
        document: where the rule stands.
        path: of the key in the document.
        faults: where the fault is noted.
    """
    if key in allowed_keys(rule_types()[type_name]):
        hint = f"it belongs to {type_name}: indent it below"
    else:
        hint = did_you_mean(key, [*allowed_keys(RuleEntry), type_name])
    faults.say(document, path, f"unknown key {shown(key)} in {written(path[:-1])}", hint, key=True)


def _rules(entries: list[Any], document: Document, faults: Faults) -> Iterator[RuleDraft]:
    names: set[str] = set()
    for index, value in enumerate(entries):
        path: Path = ("spec", "rules", index)
        if not isinstance(value, dict):
            faults.say(document, path, f"{written(path)}: expected a rule (a map), found {shown(value)}")
            continue
        draft = _rule(value, document, path, faults)
        if draft is None:
            continue
        if draft.entry.name in names:
            message = f"there are two rules called {draft.entry.name} in this policy"
            faults.say(document, (*path, "name"), message, GIVE_ANOTHER_NAME)
        else:
            names.add(draft.entry.name)
            yield draft


def _rule(value: dict[str, Any], document: Document, path: Path, faults: Faults) -> RuleDraft | None:
    type_name = rule_type(value, document, path, faults)
    own = {key: part for key, part in value.items() if key in allowed_keys(RuleEntry)}
    for key in value if type_name else ():
        if key not in own and key != type_name and key not in rule_types():
            say_strange_key(key, str(type_name), document, (*path, key), faults)
    entry = faults.parse(RuleEntry, own, document, path)
    if type_name is None:
        return None
    parameters = {} if value[type_name] is None else value[type_name]
    rule = faults.parse(rule_types()[type_name], parameters, document, (*path, type_name))
    return None if entry is None or rule is None else RuleDraft(path, entry, rule, parameters)
