"""The cases beside the shipped policies: reading them, and judging what came of one. See test_cases for the format."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from webhook.documents import read_documents
from webhook.engine import Action, Gate, Outcome, review
from webhook.engine.annotations import NAMES
from webhook.engine.texts import say
from webhook.facts import Facts
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.field_path import format_field
from webhook.kube.templates import shipped_templates
from webhook.policy import PolicySet, load_policy_set
from webhook.review_tools.manifests import Caller, request_for

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "policies"
SITE = ROOT / "examples" / "site"
POOLS = SHIPPED / "accelerator-pools.yaml"
CASES = ".test.yaml"

Json = dict[str, Any]
NOTHING = object()
NOT_MATCHED = "not matched"
OUTCOMES = ("pass", "fail", "skip", "error", NOT_MATCHED)
DECISIONS = ("admitted", "changed", "warned", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of a policy; the attributes are what the file says."""

    policy: str
    name: str
    input: Json
    decision: str
    results: Mapping[str, str]
    changes: Mapping[str, Any] = field(default_factory=dict)
    later: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    old: Json | None = None
    operation: str = "CREATE"
    user: str = ""
    groups: tuple[str, ...] = ()
    facts: tuple[Json, ...] = ()
    mode: str = ""

    def __post_init__(self) -> None:
        assert self.decision in DECISIONS, f"{self.name}: decision {self.decision}"
        assert self.results, f"{self.name}: results"
        assert set(self.results.values()) <= set(OUTCOMES), f"{self.name}: results {self.results}"

    def __str__(self) -> str:
        return f"{self.policy}: {self.name}"

    @property
    def is_hit(self) -> bool:
        """Whether the policy does something about the input."""
        return self.decision != "admitted"

    def request(self) -> AdmissionRequest:
        """The request for the input, as `podgate check` makes it."""
        return self.request_for(self.input)

    def request_for(self, thing: Mapping[str, Any]) -> AdmissionRequest:
        """The request for another object in the place of the input."""
        caller = Caller(operation=self.operation, username=self.user, groups=self.groups)
        request = request_for(thing, caller, shipped_templates())
        old = request_for(self.old, caller, shipped_templates()) if self.old else None
        assert request is not None, f"{self.name}: {self.input.get('kind')} is not reviewed"
        return request._replace(old_object=old.object) if old else request


def policy_files(*folders: Path) -> list[tuple[str, bytes]]:
    """Name and content of the policies in folders, as the commands read them."""
    paths = (path for folder in folders for path in sorted(folder.glob("*.yaml")))
    return [(str(path), path.read_bytes()) for path in paths if not path.name.endswith(CASES)]


def policy_set_of(files: Iterable[tuple[str, bytes]]) -> PolicySet:
    """The set that the files make; an error fails."""
    loaded = load_policy_set(files)
    assert [str(problem) for problem in loaded.problems if not problem.is_warning] == []
    return loaded.policy_set


@cache
def objects_in(folder: Path) -> tuple[Json, ...]:
    """The Kubernetes objects in the files of a folder."""
    readings = [
        read_documents(path.read_bytes(), path.name, strict=False) for path in sorted(folder.glob("*.yaml"))
    ]
    assert all(reading.problems == () for reading in readings)
    return tuple(document.value for reading in readings for document in reading.documents)


def facts_of(case: Case, *folders: Path) -> Facts:
    """The prerequisites with the case's own facts in their stead or besides."""
    given = [*(thing for folder in folders for thing in objects_in(folder / "prerequisites")), *case.facts]
    return Facts.from_objects(given)


def read_cases(policy: str) -> tuple[Case, ...]:
    """The cases beside a policy; anything that the format does not know fails."""
    path = SHIPPED / f"{policy}{CASES}"
    reading = read_documents(path.read_bytes(), path.name, strict=True)
    assert [str(problem) for problem in reading.problems] == []
    (document,) = reading.documents
    assert set(document.value) <= {"mode", "cases"}, f"{path.name}: {set(document.value)}"
    mode = document.value.get("mode", "")
    return tuple(
        Case(policy=policy, mode=mode, **{key: _tupled(value, key) for key, value in each.items()})
        for each in document.value["cases"]
    )


def _tupled(value: Any, key: str) -> Any:
    return tuple(value) if key in ("facts", "groups") else value


def all_cases() -> list[Case]:
    """The cases of all shipped policies."""
    return [
        case
        for path in sorted(SHIPPED.glob(f"*{CASES}"))
        for case in read_cases(path.name.removesuffix(CASES))
    ]


def files_of(case: Case, *, without_policy: bool = False) -> list[tuple[str, bytes]]:
    """The pools, and the case's policy alone, in the mode in which its cases want it judged."""
    files = [(POOLS.name, POOLS.read_bytes())]
    if not without_policy:
        name = f"{case.policy}.yaml"
        files.append((name, (SHIPPED / name).read_bytes()))
    if not without_policy and case.mode:
        files.append(("mode.yaml", override(case.policy, mode=case.mode)))
    return files


def override(policy: str, **spec: Any) -> bytes:
    """A PodPolicyOverride of one policy, for everything."""
    body = {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicyOverride",
        "metadata": {"name": "case"},
        "spec": {"policies": [policy], "match": {"all": True}, **spec},
    }
    return yaml.safe_dump(body, default_flow_style=False).encode()


def differences(case: Case, policies: PolicySet) -> list[str]:
    """What came otherwise than the case expects."""
    request = case.request()
    outcome = review(Gate(policies, facts_of(case, SHIPPED)), request)
    found = {
        "decision": decision(outcome),
        "results": {rule: _result(outcome, f"{case.policy}/{rule}") for rule in case.results},
        "changes": changes(request.object or {}, outcome.object or {}),
        "later": {change.field: change.after for change in outcome.later},
    }
    expected = {key: getattr(case, key) for key in found}
    lines = [
        f"{key}: expected {expected[key]}, found {found[key]}" for key in found if expected[key] != found[key]
    ]
    said = sentences(outcome)
    if case.message and not any(case.message in sentence for sentence in said):
        lines.append(f"message: expected {case.message!r}, found {said}")
    return lines


def decision(outcome: Outcome) -> str:
    """The strongest thing that happened."""
    if not outcome.allowed:
        return "refused"
    if any(report.action is Action.WARN for report in outcome.reports):
        return "warned"
    return "changed" if outcome.changes or outcome.later else "admitted"


def sentences(outcome: Outcome) -> list[str]:
    """All that the rules say."""
    return [
        text
        for report in outcome.reports
        for finding in report.findings
        for text in say(report.rule, finding, "en")
    ]


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """By field, the value that it has after and had not before; the engine's own record left out."""
    found = dict(_changed((), before, without_record(after)))
    return {format_field(after, path): value for path, value in found.items()}


def without_record(thing: Mapping[str, Any]) -> Json:
    """An object without the annotations by which podgate remembers."""
    metadata = dict(thing.get("metadata") or {})
    kept = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in NAMES}
    metadata.pop("annotations", None)
    return {**thing, "metadata": {**metadata, **({"annotations": kept} if kept else {})}}


def _result(outcome: Outcome, key: str) -> str:
    found = [report.result.value for report in outcome.reports if report.rule.key == key]
    return next((result for result in ("fail", "error", "skip", "pass") if result in found), NOT_MATCHED)


def _changed(path: tuple[Any, ...], before: Any, after: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys: Iterable[Any] = dict.fromkeys((*before, *after))
        for key in keys:
            yield from _changed((*path, key), before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            pair = (each[index] if index < len(each) else None for each in (before, after))
            yield from _changed((*path, index), *pair)
    else:
        yield path, after
