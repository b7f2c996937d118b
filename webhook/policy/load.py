"""Files to a policy set: every error said with its place, and one bad file never takes the others down."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from webhook.documents import Document, Position, Problem, read_documents
from webhook.documents.schema import did_you_mean, shown
from webhook.facts import AcceleratorPool
from webhook.facts.pools import PoolSpec
from webhook.kube.accelerators import Catalogue, shipped_catalogue
from webhook.kube.templates import TemplateKinds, shipped_templates
from webhook.policy.checks import Site
from webhook.policy.compile import compile_policies
from webhook.policy.drafts import (
    GIVE_ANOTHER_NAME,
    ExceptionDraft,
    OverrideDraft,
    PolicyDraft,
    read_policy,
)
from webhook.policy.faults import Faults
from webhook.policy.policy_set import CompiledPolicy, PolicySet, index_of
from webhook.policy.schema import API_VERSION, ExceptionSpec, Manifest, OverrideSpec
from webhook.rules.base import Mode

KINDS = ("PodPolicy", "PodPolicyOverride", "PodPolicyException", "AcceleratorPool")
HASH_DIGITS = 12

_Draft = TypeVar("_Draft", PolicyDraft, OverrideDraft, ExceptionDraft)


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
class _Reading:
    """All files, sorted by kind; of two with one name the first stays."""

    faults: Faults = field(default_factory=Faults)
    policies: dict[str, PolicyDraft] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    overrides: dict[str, OverrideDraft] = field(default_factory=dict)
    exceptions: dict[str, ExceptionDraft] = field(default_factory=dict)
    pools: dict[str, AcceleratorPool] = field(default_factory=dict)
    pool_documents: dict[str, Document] = field(default_factory=dict)
    content: list[Any] = field(default_factory=list)

    def add(self, document: Document) -> None:
        """Sort one document in."""
        manifest = self.faults.parse(Manifest, document.value, document)
        if manifest is None:
            return
        name = manifest.metadata.name
        match manifest.kind:
            case "PodPolicy":
                policy = read_policy(manifest, document, self.faults)
                self._keep(self.policies, "policies", policy, document, name)
                if policy is None:
                    self.dropped.add(name)
            case "PodPolicyOverride":
                override = self.faults.parse(OverrideSpec, manifest.spec, document, ("spec",))
                draft = OverrideDraft(document, name, override) if override else None
                self._keep(self.overrides, "overrides", draft, document, name)
            case "PodPolicyException":
                exception = self.faults.parse(ExceptionSpec, manifest.spec, document, ("spec",))
                lifting = ExceptionDraft(document, name, exception) if exception else None
                self._keep(self.exceptions, "exceptions", lifting, document, name)
            case "AcceleratorPool":  # pragma: no branch - the schema of a manifest knows these four kinds
                self._add_pool(manifest, document)

    def _keep(
        self, kept: dict[str, _Draft], kind: str, draft: _Draft | None, document: Document, name: str
    ) -> None:
        if name in kept:
            self._say_twice(kind, name, document, kept[name].document)
        elif draft is not None:
            kept[name] = draft

    def _say_twice(self, kind: str, name: str, document: Document, other: Document) -> None:
        path = ("metadata", "name")
        place = f"{other.source}:{other.locate(path).line}"
        message = f"there are two {kind} called {name}; the other is in {place}"
        self.faults.say(document, path, message, GIVE_ANOTHER_NAME)

    def _add_pool(self, manifest: Manifest, document: Document) -> None:
        name = manifest.metadata.name
        spec = self.faults.parse(PoolSpec, manifest.spec, document, ("spec",))
        if name in self.pools:
            self._say_twice("pools", name, document, self.pool_documents[name])
        elif spec is not None:
            self.pool_documents[name] = document
            self.pools[name] = AcceleratorPool.model_construct(name=name, **dict(spec))
            self.content.append(document.value)


def load_policy_set(
    files: Iterable[tuple[str, bytes]],
    *,
    mode_ceiling: Mode = Mode.ENFORCE,
    catalogue: Catalogue | None = None,
    templates: TemplateKinds | None = None,
) -> Loaded:
    """Compile policies, overrides, exceptions and pools.

    Args:
        files: name and content of each file; the order does not matter.
        mode_ceiling: the most that a policy file's mode may do (`serve --mode audit`); an override's own mode stands.
        catalogue: accelerators; the shipped catalogue where None.
        templates: kinds with pod templates; the shipped ones where None.
    """
    reading = _Reading()
    left_out = _Reading(reading.faults)
    for document, is_good in _documents(files, reading.faults):
        (reading if is_good else left_out).add(document)
    reading.dropped |= {*left_out.policies, *left_out.dropped}
    faults = reading.faults
    if not reading.policies and not faults.problems:
        hint = "give a folder of PodPolicy files: *.yaml or *.yml, not hidden, not below prerequisites"
        faults.problems.append(Problem("", None, "no policy was found", hint, is_warning=True))
    site = Site(reading.pools, catalogue or shipped_catalogue(), templates or shipped_templates())
    policies = compile_policies(
        {**dict.fromkeys(reading.dropped), **reading.policies},
        reading.overrides.values(),
        reading.exceptions.values(),
        site,
        mode_ceiling,
        faults,
    )
    ordered_pools = tuple(reading.pools[name] for name in sorted(reading.pools))
    digest = _hash(_in_force(reading, policies), mode_ceiling, site)
    policy_set = PolicySet(
        policies, ordered_pools, site.catalogue, site.templates, digest, index_of(policies)
    )
    return Loaded(policy_set, tuple(sorted(faults.problems, key=_place)))


def _place(problem: Problem) -> tuple[str, Position]:
    return problem.source, problem.position or Position(0, 0)


def _documents(files: Iterable[tuple[str, bytes]], faults: Faults) -> Iterator[tuple[Document, bool]]:
    """The documents of all files, and whether their file is good; of one that is not, only more errors are looked for."""
    for source, data in sorted(files):
        reading = read_documents(data, source, strict=True)
        faults.problems.extend(reading.problems)
        said = {problem.position for problem in reading.problems if not problem.is_warning}
        is_good, before = not said, len(faults.problems)
        for document in sorted((*reading.documents, *reading.spoilt), key=_number):
            if _is_ours(document, faults):
                yield document, is_good
        # What is read otherwise than it looks is of a wrong type, too: that need not be said as well.
        faults.problems[before:] = [each for each in faults.problems[before:] if each.position not in said]


def _number(document: Document) -> int:
    return document.index


def _is_ours(document: Document, faults: Faults) -> bool:
    value = document.value
    if not isinstance(value, dict):
        message = f"expected a map, found {shown(value)}"
        faults.say(document, (), message, "a policy starts with apiVersion and kind")
        return False
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind not in KINDS:
        message = f"unknown kind {shown(kind)}" if kind is not None else "kind is missing"
        faults.say(document, ("kind",), message, did_you_mean(str(kind), list(KINDS)))
        return False
    if version != API_VERSION:
        message = f"expected {API_VERSION}, found {shown(version)}"
        faults.say(document, ("apiVersion",), message, f"write apiVersion: {API_VERSION}")
        return False
    return True


def _in_force(reading: _Reading, policies: tuple[CompiledPolicy, ...]) -> list[Any]:
    """The documents that decide: what was dropped for its faults does not."""
    overrides = {override.name for policy in policies for override in policy.overrides}
    exceptions = {exception.name for policy in policies for exception in policy.exceptions}
    return [
        *(reading.policies[policy.name].document.value for policy in policies),
        *(reading.overrides[name].document.value for name in sorted(overrides)),
        *(reading.exceptions[name].document.value for name in sorted(exceptions)),
        *reading.content,
    ]


def _hash(loaded: list[Any], ceiling: Mode, site: Site) -> str:
    """Over what was loaded, however the files are named, ordered and laid out."""
    parts = sorted(json.dumps(value, sort_keys=True) for value in loaded)
    for known in (site.catalogue.canonical(), site.templates.canonical()):
        parts.append(json.dumps(known, sort_keys=True))
    parts.append(ceiling.value)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:HASH_DIGITS]
