"""What every rule type is made of.

A rule type is one file of this package: a schema of its parameters that is also what acts, with its texts in every language.
A rule finds; it never decides (`webhook.engine.decide` does).
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Generic, Literal, TypeVar

from webhook.documents import Path
from webhook.documents.schema import Schema
from webhook.expressions import Bindings
from webhook.facts import AcceleratorPool, Facts, Namespace, Unknown, possible_pools
from webhook.kube.accelerators import Catalogue
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft
from webhook.kube.field_path import list_at, mapping_at
from webhook.kube.node_affinity import Placement, placement_of
from webhook.kube.pod import (
    Container,
    Requests,
    container_requests,
    containers,
    host_paths,
    with_pod_level,
)
from webhook.kube.workload import Workload, inspect_workload
from webhook.rules.bindings import bind


class Result(StrEnum):
    """What a rule found."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    SKIP = "skip"
    ERROR = "error"


class Mode(StrEnum):
    """What is done about what a rule found; the lowest first."""

    DISABLED = "disabled"
    AUDIT = "audit"
    WARN = "warn"
    ENFORCE = "enforce"

    @property
    def rank(self) -> int:
        """How much it does, from 0 (nothing)."""
        return _RANKS[self]


_RANKS = {mode: rank for rank, mode in enumerate(Mode)}

Text = tuple[str, str]
"""What is wrong (or why nothing was done), and what to do about it; with `{placeholders}` for a finding's arguments."""

Texts = Mapping[str, Mapping[str, Text]]
"""By the name of a text, by language."""


class Sentence(str):
    """An argument of a finding that is no single value of an object: a text by whoever wrote the policy, or a list of fields."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found.

    Attributes:
        result: never `pass`: a rule that finds nothing passes.
        text: the name of one of the rule's texts.
        args: what its placeholders stand for.
        path: where in the object, () if nowhere in particular.
        ceiling: the most that may be done about it, whatever the policy's mode.
        needs: of an error, the kind of the objects that would let the rule be evaluated; "" where none would.
        judged: the values that were judged, where the path does not name them: the same fault of other values is another.
    """

    result: Result
    text: str
    args: Mapping[str, object] = field(default_factory=dict)
    path: Path = ()
    ceiling: Mode = Mode.ENFORCE
    needs: str = field(default="", compare=False)
    judged: Any = field(default=None, repr=False)


def fail(text: str, path: Path = (), **args: object) -> Finding:
    """A violation.

    Args:
        text: the name of a text of the rule's type.
        path: what is wrong, in the object; () for the object as a whole.
        args: the placeholders of the text; the engine makes them safe to print.
    """
    return Finding(Result.FAIL, text, args, path)


def skip(text: str, path: Path = (), **args: object) -> Finding:
    """A reason why the rule did nothing; `text`, `path` and `args` as in `fail`."""
    return Finding(Result.SKIP, text, args, path)


def error(text: str, path: Path = (), **args: object) -> Finding:
    """A reason why the rule cannot be evaluated; `text`, `path` and `args` as in `fail`."""
    return Finding(Result.ERROR, text, args, path)


UNKNOWN_TEXT: Mapping[str, Text] = {
    "en": ("cannot be evaluated: {why}", "give podgate these facts, or ask the platform team"),
    "zh": ("无法判断：{why}", "请为 podgate 提供这些集群信息，或联系平台团队"),
}
UNAPPLIED = "unapplied"
UNAPPLIED_TEXT: Mapping[str, Text] = {
    "en": (
        "not applied: the mutating call was missed, or a later webhook undid it ({fields})",
        "create the object again; if it happens again, tell the platform team",
    ),
    "zh": (
        "未生效：可能错过了变更调用，或被其他 webhook 撤销（{fields}）",
        "请重新创建；若再次发生，请联系平台团队",
    ),
}
"""The text `unapplied`, which every mutating rule has."""

ENDING_TEXT = "excepted, ending"
"""Of an exception that ends soon, which its user is warned of."""

EXCEPTED_TEXTS: Texts = {
    "excepted": {
        "en": (
            "exception {name} lifts this rule until {until}: {reason}",
            "nothing, while it lasts; {owner} answers for it",
        ),
        "zh": ("例外 {name} 在 {until} 之前豁免此规则：{reason}", "有效期内无需处理；负责人：{owner}"),
    },
    ENDING_TEXT: {
        "en": (
            "exception {name} lifts this rule only until {until}: {reason}",
            "mend the workload by then, or ask {owner}",
        ),
        "zh": (
            "例外 {name} 对此规则的豁免将于 {until} 结束：{reason}",
            "请在此之前调整工作负载，或联系 {owner}",
        ),
    },
    "opted out": {
        "en": (
            "the object opted out by its annotation podgate.dev/skip: {reason}",
            "remove the annotation for the rule to hold",
        ),
        "zh": ("对象通过注解 podgate.dev/skip 退出此规则：{reason}", "如需此规则生效，请移除该注解"),
    },
}
"""Why a rule was not asked at all."""

TOO_MUCH_TEXT: Mapping[str, Text] = {
    "en": (
        "not applied: policies would write more than {most} fields of this object",
        "use fewer containers or node affinity terms, or ask the platform team",
    ),
    "zh": (
        "未生效：策略需要在此对象中写入超过 {most} 个字段",
        "请减少容器或节点亲和条件的数量，或联系平台团队",
    ),
}
"""The text `too much`, of a mutating rule that has written nothing since an object of that size is no workload."""

NOT_ASKED = frozenset({"unknown", "too much", *EXCEPTED_TEXTS})
"""The texts of findings that say that a rule did not run."""

COMMON_TEXTS: Texts = {
    "unknown": UNKNOWN_TEXT,
    UNAPPLIED: UNAPPLIED_TEXT,
    "too much": TOO_MUCH_TEXT,
    **EXCEPTED_TEXTS,
}


def unknown(fact: Unknown) -> Finding:
    """A fact that the rule needs is not known."""
    return Finding(Result.ERROR, "unknown", {"why": fact.why}, needs=fact.needs)


_Value = TypeVar("_Value")

LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""The moment of a review whose moment does not matter: no exception has ended."""


class _computed(Generic[_Value]):  # noqa: N801 - as property is written
    """As `functools.cached_property`, less the lock that it takes in CPython 3.11: a review has one thread."""

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type) -> _Value:
        found = instance.__dict__[self._compute.__name__] = self._compute(instance)
        return found


@dataclass
class Received:
    """The object of one review as it was received, and what is computed of it once.

    Attributes:
        expired: whether the time for the review ran out.
        now: the moment of the review, with its zone.
        object: the object received; an empty map where there is none.
        computed: what `Subject.once` found of the object received.
    """

    request: AdmissionRequest
    facts: Facts
    pools: tuple[AcceleratorPool, ...]
    catalogue: Catalogue
    expired: Callable[[], bool] = lambda: False
    now: datetime = LONG_AGO
    computed: dict[Callable[[Any], Any], Any] = field(default_factory=dict)
    object: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.object = self.request.object or {}

    @_computed
    def workload(self) -> Workload:
        """Class, communication and accelerators of the pod received."""
        every = self.once(containers)
        requests = self.once(_requests_of, of=self)
        return inspect_workload(self.object, self.catalogue, [(each, requests[each.path]) for each in every])

    def once(self, compute: Callable[[Any], _Value], of: Any = None) -> _Value:
        """As `Subject.once`, of the object received; `compute` and `of` as there."""
        known: dict[Callable[[Any], _Value], _Value] = self.computed
        if compute not in known:
            known[compute] = compute(self.object if of is None else of)
        return known[compute]

    @_computed
    def offering_pools(self) -> tuple[AcceleratorPool, ...]:
        """The pools that offer all accelerators that the pod asks for."""
        asked = self.workload.accelerators
        return tuple([pool for pool in self.pools if pool.offers(asked)])

    @_computed
    def fabric_resources(self) -> frozenset[str]:
        """The RDMA resources of all pools."""
        return frozenset(name for pool in self.pools if pool.rdma for name in pool.rdma.resource_names)

    @_computed
    def namespace(self) -> Namespace | Unknown:
        """The namespace that the request names."""
        return self.facts.namespace(self.request.namespace)

    @_computed
    def claimed_vendors(self) -> frozenset[str] | Unknown:
        """Vendors of the accelerators that the pod's device claims ask for; a claim may be a NIC and add nothing."""
        vendors: set[str] = set()
        for claim in list_at(self.object, ("spec", "resourceClaims")):
            classes = self.facts.device_classes(
                self.request.namespace, claim if isinstance(claim, dict) else {}
            )
            if isinstance(classes, Unknown):
                return classes
            found = map(self.catalogue.device_class, classes)
            vendors.update(resource.vendor for resource in found if resource and resource.role == "device")
        return frozenset(vendors)

    @_computed
    def vendors(self) -> frozenset[str]:
        """Vendors of the accelerators that the pod asks for, those of its device claims included where they are known."""
        claimed = self.claimed_vendors if self.workload.claims_devices else frozenset()
        return self.workload.vendors | (frozenset() if isinstance(claimed, Unknown) else claimed)


class Subject:
    """What a rule looks at: the object as earlier rules of one lane left it, and what was computed of the one received."""

    __slots__ = ("_known", "_writes", "draft", "facts", "received", "request")

    def __init__(self, received: Received, draft: Draft) -> None:
        self.received = received
        self.draft = draft
        self.facts = received.facts
        self.request = received.request
        self._writes = draft.writes
        # All lanes in which nothing was written share what was found.
        self._known = received.computed if draft.object is received.object else {}

    def trial(self) -> "Subject":
        """The same with a trial of its draft; what was found of it they share until one of them writes."""
        twin = Subject(self.received, self.draft.trial())
        if self._writes == self.draft.writes:
            twin._known = self._known
        return twin

    @property
    def object(self) -> Mapping[str, Any]:
        """The object now; read-only."""
        now: Mapping[str, Any] = self.draft.object
        return now

    @property
    def labels(self) -> Mapping[str, Any]:
        """Its labels now."""
        return self.once(_labels_of)

    @property
    def workload(self) -> Workload:
        """See `Received.workload`."""
        return self.received.workload

    @property
    def requests(self) -> Mapping[Path, Requests]:
        """What each container asks for now, by its path; see `container_requests`."""
        return self.once(_requests_of, of=self)

    @property
    def own_requests(self) -> Requests:
        """What the pod asks for now, without its overhead."""
        return self.once(_own_requests_of, of=self)

    @property
    def placement(self) -> Placement:
        """Where the pod may go, as its selector and affinity are now."""
        return self.once(placement_of)

    @property
    def possible_pools(self) -> tuple[AcceleratorPool, ...]:
        """The pools in which the pod could land, as its affinity is now."""
        return self.once(_possible_pools_of, of=self)

    @property
    def holders(self) -> tuple[Container, ...]:
        """The containers that hold an accelerator, as they are now."""
        return self.once(_holders_of, of=self)

    @property
    def host_paths(self) -> tuple[tuple[int, str], ...]:
        """The directories of the node that its volumes are, each with the index of its volume."""
        return self.once(host_paths)

    def once(self, compute: Callable[[Any], _Value], of: Any = None) -> _Value:
        """What follows from the object as it is now; computed again only after a rule wrote.

        Args:
            compute: gives the same for the same object within a review, and nobody changes what it gives. A function of a
                module: a method would hold what holds it, and the whole object would wait for the garbage collector.
            of: what of the object it is given, always the same; None for the whole.
        """
        draft = self.draft
        if self._writes != draft.writes:
            self._writes = draft.writes
            self._known = {}
        known: dict[Callable[[Any], _Value], _Value] = self._known
        if compute not in known:
            known[compute] = compute(draft.object if of is None else of)
        return known[compute]

    @property
    def bindings(self) -> Bindings:
        """What expressions see; made anew only after a rule wrote."""
        return self.once(_bindings_of, of=self)


def _requests_of(of: Received | Subject) -> Mapping[Path, Requests]:
    return {each.path: container_requests(each.value) for each in of.once(containers)}


def _holders_of(subject: Subject) -> tuple[Container, ...]:
    paths = set(subject.workload.holders)
    return tuple([each for each in subject.once(containers) if each.path in paths]) if paths else ()


def _own_requests_of(subject: Subject) -> Requests:
    requests = subject.requests
    parts = [(each.role, requests[each.path]) for each in subject.once(containers)]
    return with_pod_level(subject.object, parts)


def _possible_pools_of(subject: Subject) -> tuple[AcceleratorPool, ...]:
    return possible_pools(subject.received.offering_pools, subject.placement)


def _bindings_of(subject: Subject) -> Bindings:
    received, request = subject.received, subject.request
    workload = received.workload if request.kind == "Pod" else None
    return bind(request, subject.object, received.namespace, workload)


def _labels_of(thing: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping_at(thing, ("metadata", "labels"))


Need = Literal[
    "devices",
    "claims",
    "resources",
    "rdma",
    "selectors",
    "tolerations",
    "env",
    "hostPaths",
    "privileged",
    "ephemeralVolumes",
    "all",
]
"""What an object must have for a rule to concern it; the webhook is called for the OR of the needs of all rules.

`devices`: a resource or annotation that asks for an accelerator; `claims`: a DRA claim; `resources`: one of the resources named;
`rdma`: an RDMA device; `selectors`: a node selector or node affinity; `tolerations`; `env`: one of the variables named;
`hostPaths`; `privileged`: a privileged container; `ephemeralVolumes`: a generic ephemeral volume; `all`: nothing in particular.
"""


class Rule(Schema):
    """A rule type; a subclass with a `type` is found by walking this package.

    Class attributes:
        type: its name in policies.
        acts_on: the resources that it is about.
        beyond_spec: whether it judges more of an object than its spec.
        scope: see `Need`; of a claim (PVC) or another object that is no pod it says nothing.
        asks: the kinds that it asks the facts about.
        texts: see `Texts`.
    """

    type: ClassVar[str] = ""
    acts_on: ClassVar[tuple[str, ...]] = ("pods",)
    beyond_spec: ClassVar[bool] = False
    scope: ClassVar[frozenset[Need]] = frozenset({"devices", "claims"})
    asks: ClassVar[frozenset[str]] = frozenset()
    texts: ClassVar[Texts] = {}

    @property
    def kinds_asked(self) -> frozenset[str]:
        """The kinds that this very rule asks the facts about."""
        return self.asks

    @property
    def targets(self) -> tuple[str, ...]:
        """The resources that this rule acts on; those of its type, for most."""
        return self.acts_on

    @property
    def needs(self) -> Mapping[Need, tuple[str, ...]]:
        """The scope of this very rule, with the names or patterns that matter; () where the need has none."""
        return dict.fromkeys(self.scope, ())

    @classmethod
    def text(cls, name: str, language: str) -> Text:
        """One of the type's texts; English where the language has none.

        Args:
            name: of a finding; of a text that every rule type has, where the type has none of this name.
            language: `en`, `zh`, …
        """
        by_language = cls.texts.get(name) or COMMON_TEXTS[name]
        return by_language.get(language) or by_language["en"]


class MutatingRule(Rule):
    """A rule that writes into the draft of its subject."""

    @property
    def written_labels(self) -> Collection[str]:
        """The labels of the object that it may write; policies that choose by one of them are asked of every object."""
        return ()

    @abstractmethod
    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        """Write what the rule wants; yield why something was not written.

        Args:
            subject: what to look at; written to through `subject.draft` only.
            key: `policy/rule`, the owner of what is written.
        """

    def verify(self, subject: Subject) -> Iterator[Finding]:
        """What is wrong with the final object besides what `mutate` would still write; nothing, for most."""
        del subject
        return iter(())


class ValidatingRule(Rule):
    """A rule that judges its subject."""

    @abstractmethod
    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        """Yield what is wrong, or why it cannot be judged."""
