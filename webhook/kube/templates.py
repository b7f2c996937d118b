"""Where each kind of controller keeps its pod templates, and the pods that it would make from them.

The kinds are data (templates.yaml); a site adds kinds of its own with a document of the same shape. Objects are read as
they arrived: a value of the wrong type counts as absent, and nothing here raises for one.
"""

import copy
import importlib.resources
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

import yaml
from pydantic import AfterValidator, Field, ValidationError, model_validator

from webhook.documents import Document, Path
from webhook.documents.schema import Schema, problems_of
from webhook.kube.field_path import mapping_at, value_at

MAX_TEMPLATES = 200
"""Templates of one object that are looked at. The largest real ones, JobSets and Ray clusters, have some ten.

The pods of any further ones are judged when they are created."""

# Replicas are int32 in every API (kubernetes/api:apps/v1/types.go); a product of them stays here.
_MAX_REPLICAS = 2**31 - 1
_MAX_DIGITS = 9
# A DNS subdomain, and a DNS label (kubernetes/apimachinery:pkg/util/validation). Longer ones name nothing, and would
# be copied into every pod of an object.
_MAX_NAME = 253
_MAX_LABEL = 63


class TemplateProblem(NamedTuple):
    """One fault of a document of kinds: where in it, and what was expected and found."""

    path: Path
    text: str

    def __str__(self) -> str:
        return self.text


class TemplateKindsError(ValueError):
    """A document of kinds that cannot be used, with all of its faults."""

    def __init__(self, problems: Iterable[TemplateProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Template(NamedTuple):
    """One pod template of an object, or one inline pod spec.

    Attributes:
        path: Where the template stands in the object.
        spec_path: Where its pod spec stands.
        metadata_path: Where the labels and annotations of its pods stand; None where the controller reads none.
        replicas: How many such pods the object asks for; 1 where it does not say.
        role: The part they play, as the object names it; empty where all pods are alike.
        place: What the kind says about templates at this path.
        appended: Paths in the pod of the containers that stand elsewhere in the object, and where they stand.
    """

    path: Path
    spec_path: Path
    metadata_path: Path | None
    replicas: int
    role: str
    place: "Place"
    appended: tuple[tuple[Path, Path], ...] = ()

    @property
    def user(self) -> str:
        """The user that creates these pods; empty where installations differ."""
        return self.place.user


@dataclass(frozen=True, slots=True)
class TemplateKind:
    """A kind whose objects make pods.

    Attributes:
        group: The API group; its versions are alike, or differ in what `places` says.
        kind: The kind.
        resource: The resource as kubectl writes it, ``jobs.batch``.
        places: Where the templates stand.
        claims: Where the templates of persistent volume claims stand.
        elsewhere: Where the pods of an object without a template come from, for a sentence; empty where nowhere.
        source: The entry of the document that says so.
    """

    group: str
    kind: str
    resource: str
    places: tuple["Place", ...] = field(repr=False)
    claims: tuple["_Reference", ...] = field(repr=False)
    elsewhere: str
    source: Mapping[str, Any] = field(repr=False, compare=False)


class TemplateKinds:
    """All kinds that are known to make pods. Immutable.

    Build them with `from_value`; `merged` lays further ones on top.
    """

    def __init__(self, kinds: Iterable[TemplateKind]) -> None:
        self._kinds = {(kind.group, kind.kind): kind for kind in kinds}

    @classmethod
    def from_value(cls, value: object) -> "TemplateKinds":
        """The kinds that a document describes.

        Raises:
            TemplateKindsError: The document is not of the shape that templates.yaml explains; all faults are
                listed.
        """
        try:
            document = _Document.model_validate(value)
        except ValidationError as error:
            raise TemplateKindsError(_problems(error, value)) from None
        sources = value["kinds"] if isinstance(value, dict) else ()
        return cls(_compile_kind(kind, source) for kind, source in zip(document.kinds, sources, strict=True))

    def merged(self, *extras: "TemplateKinds") -> "TemplateKinds":
        """These kinds with others on top: what the last one says of a kind holds."""
        return TemplateKinds(kind for kinds in (self, *extras) for kind in kinds.kinds)

    def canonical(self) -> dict[str, Any]:
        """All that is known, as a JSON value: equal values mean equal answers."""
        return {"kinds": [copy.deepcopy(self._kinds[key].source) for key in sorted(self._kinds)]}

    @property
    def kinds(self) -> tuple[TemplateKind, ...]:
        """Every kind, in the order in which they were first named."""
        return tuple(self._kinds.values())

    def kind_of(self, group: str, kind: str) -> TemplateKind | None:
        """What is known of a kind, None where nothing is; the core group is ``""``."""
        return self._kinds.get((group, kind))


@cache
def shipped_templates() -> TemplateKinds:
    """The kinds that podgate brings along, read once."""
    text = importlib.resources.files(__package__).joinpath("templates.yaml").read_bytes()
    return TemplateKinds.from_value(yaml.load(text, yaml.CSafeLoader))


def templates_of(kind: TemplateKind, obj: Mapping[str, Any]) -> tuple[Template, ...]:
    """The pod templates of an object, in the order of the kind's places; at most `MAX_TEMPLATES`."""
    found = (template for place in kind.places for template in _templates_at(place, obj))
    return tuple(islice(found, MAX_TEMPLATES))


def claim_templates_of(kind: TemplateKind, obj: Mapping[str, Any]) -> tuple[Path, ...]:
    """Where an object holds templates of persistent volume claims beside its pods; at most `MAX_TEMPLATES`.

    The claims of ephemeral volumes stand in the pod itself.
    """
    found = (path for claim in kind.claims for path, value in claim.walk(obj) if isinstance(value, dict))
    return tuple(islice(found, MAX_TEMPLATES))


def virtual_pod(kind: TemplateKind, obj: Mapping[str, Any], template: Template) -> dict[str, Any]:
    """The pod as its controller would create it.

    It shares what is unchanged with the object: neither may be written to. Its containers have the indices that they
    have in the template, so that `to_object_path` leads from a field of the pod to one of the object.
    """
    scope = _Scope(obj, template)
    additions = [each for each in template.place.additions if scope.holds(each.when)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(kind, scope, additions),
        "spec": _spec(scope, additions),
    }


def to_object_path(template: Template, pod_path: Path) -> Path:
    """Where a field of the virtual pod stands in the object; ``()`` where it stands nowhere.

    What the controller adds to a list of the template has a path behind the list's end.
    """
    for start, target in template.appended:
        if pod_path[: len(start)] == start:
            return (*target, *pod_path[len(start) :])
    if pod_path[:1] == ("spec",):
        return (*template.spec_path, *pod_path[1:])
    part = pod_path[1] if len(pod_path) > 1 and pod_path[0] == "metadata" else ""
    if part not in {"labels", "annotations"} or pod_path[1:3] in template.place.sets:
        return ()
    if template.metadata_path is not None:
        return (*template.metadata_path, *pod_path[1:])
    return pod_path if part in template.place.copies else ()


# -- the document


_STEP = re.compile(
    r'(?:^|\.)(?P<key>[A-Za-z0-9_-]+)|(?:^|\.)(?P<each>\*)|\[(?P<item>\*)\]|\["(?P<quoted>[^"\]]+)"\]'
)
_NO_PATH = "expected a path such as spec.template or spec.tasks[*].template"
_FACTOR = re.compile(r"- (?P<less>\d{1,9})|(?P<over>/ )?(?P<path>\S+)")
_CONDITION = re.compile(r"(?P<negated>not )?(?P<path>\S+)(?: (?P<operator>=|>) (?P<value>\S+))?")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_BUILT_IN = frozenset({"name", "namespace", "role", "replica-type", "index", "replicas", "each"})


def _path_text(text: str) -> str:
    _compile_reference(text)
    return text


def _plain_path_text(text: str) -> str:
    _plain(text)
    return text


def _role_text(text: str) -> str:
    return _plain_path_text(text) if text.startswith(".") else text


def _factor_text(text: str) -> str:
    _compile_factor(text)
    return text


def _condition_text(text: str) -> str:
    _compile_condition(text)
    return text


_PathText = Annotated[str, AfterValidator(_path_text)]
_PlainPathText = Annotated[str, AfterValidator(_plain_path_text)]
_RoleText = Annotated[str, AfterValidator(_role_text)]
_FactorText = Annotated[str, AfterValidator(_factor_text)]
_ConditionText = Annotated[str, AfterValidator(_condition_text)]


class _Variable(Schema):
    name: str
    value: str = ""
    config_map: str = ""
    for_each: _PathText | None = None
    init_containers: bool = False


class _Added(Schema):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    env: list[_Variable] = []


class _Conditional(_Added):
    when: list[_ConditionText]


class _Owner(Schema):
    api_version: str
    kind: str


class _Default(Schema):
    source: _PlainPathText = Field(alias="from")
    value: str = ""


class _Shared(_Added):
    also: list[_Conditional] = []
    owner: _Owner | None = None
    user: str = ""


class _Pods(_Shared):
    template: _PathText
    spec: _PlainPathText = "spec"
    metadata: _PlainPathText = "metadata"
    containers: dict[_PlainPathText, str] = {}
    role: _RoleText = ""
    replicas: list[_FactorText] = []
    when: list[_ConditionText] = []


class _Kind(_Shared):
    group: str
    kind: str
    resource: str
    values: dict[str, list[_FactorText]] = {}
    copies: list[Literal["labels", "annotations"]] = []
    defaults: dict[str, _Default] = {}
    pods: list[_Pods] = []
    claims: list[_PathText] = []
    elsewhere: str = ""

    @model_validator(mode="after")
    def _is_whole(self) -> "_Kind":
        if not self.pods and not self.elsewhere:
            raise ValueError("needs pods, or says elsewhere where its pods come from")
        known = _BUILT_IN | self.values.keys()
        unknown = next(
            (name for text in _texts(self) for name in _PLACEHOLDER.findall(text) if name not in known), None
        )
        if unknown is not None:
            raise ValueError(f"unknown placeholder {{{unknown}}}, expected one of {', '.join(sorted(known))}")
        return self


class _Document(Schema):
    kinds: list[_Kind]

    @model_validator(mode="after")
    def _names_each_once(self) -> "_Document":
        seen: set[tuple[str, str]] = set()
        for each in self.kinds:
            if (each.group, each.kind) in seen:
                raise ValueError(f"{each.kind} of group {each.group or 'core'} is described twice")
            seen.add((each.group, each.kind))
        return self


def _texts(kind: _Kind) -> Iterator[str]:
    shared: tuple[_Shared, ...] = (kind, *kind.pods)
    for added in (*shared, *(also for each in shared for also in each.also)):
        yield from added.labels.values()
        yield from added.annotations.values()
        for variable in added.env:
            yield from (variable.name, variable.value, variable.config_map)


def _problems(error: ValidationError, value: object) -> Iterator[TemplateProblem]:
    found = problems_of(error, Document("", 0, value), (), _Document)
    for details, problem in zip(error.errors(include_url=False), found, strict=True):
        hint = f" ({problem.hint})" if problem.hint else ""
        yield TemplateProblem(tuple(details["loc"]), problem.message + hint)


# -- the document, made ready to be asked


class _Wildcard(NamedTuple):
    of: type


_WILDCARDS = {"each": _Wildcard(dict), "item": _Wildcard(list)}


class _Reference(NamedTuple):
    """A path from the object, or from the entry of a template.

    Attributes:
        from_entry: Whether it goes from the entry.
        head: The steps up to the last wildcard; none where there is no wildcard.
        tail: The plain steps behind them.
    """

    from_entry: bool
    head: tuple[str | _Wildcard, ...]
    tail: tuple[str, ...]

    def walk(self, root: Any) -> Iterator[tuple[Path, Any]]:
        """Every value but null that it leads to, with its path."""
        return _walk(root, (*self.head, *self.tail), ())


class _Factor(NamedTuple):
    """One step of a calculation, from left to right: times or over a number of the object, or less a fixed one."""

    reference: _Reference | None
    divides: bool
    less: int


class _Condition(NamedTuple):
    reference: _Reference
    operator: str
    value: str
    negated: bool


# Plain text and names of placeholders in turn.
_Text = tuple[str, ...]


class _CompiledVariable(NamedTuple):
    name: _Text
    value: _Text
    config_map: _Text
    for_each: _Reference | None
    in_init_containers: bool


class _Addition(NamedTuple):
    when: tuple[_Condition, ...]
    labels: tuple[tuple[str, _Text], ...]
    annotations: tuple[tuple[str, _Text], ...]
    env: tuple[_CompiledVariable, ...]


class _Filled(NamedTuple):
    name: str
    source: Path
    value: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Place:
    """What a kind says of the templates at one path.

    Attributes:
        owner: API version and kind of the immediate controller; None for the object itself, an empty kind for none.
        user: The user that creates the pods; empty where installations differ.
        sets: The labels and annotations that the controller sets, as the tail of their paths.
    """

    template: _Reference
    spec: Path
    metadata: Path | None
    containers: tuple[tuple[Path, str], ...]
    role: str
    role_path: Path | None
    replicas: tuple[_Factor, ...]
    when: tuple[_Condition, ...]
    additions: tuple[_Addition, ...]
    defaults: tuple[_Filled, ...]
    copies: tuple[str, ...]
    values: Mapping[str, tuple[_Factor, ...]]
    owner: tuple[str, str] | None
    user: str
    sets: frozenset[Path]


def _compile_reference(text: str) -> _Reference:
    from_entry = text.startswith(".")
    rest = text.removeprefix(".")
    if not text:
        raise ValueError(_NO_PATH)
    steps: list[str | _Wildcard] = []
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None:
            raise ValueError(_NO_PATH)
        kind = match.lastgroup or ""
        steps.append(_WILDCARDS.get(kind) or match[kind])
        position = match.end()
    cut = max((at + 1 for at, step in enumerate(steps) if isinstance(step, _Wildcard)), default=0)
    return _Reference(
        from_entry, tuple(steps[:cut]), tuple(step for step in steps[cut:] if isinstance(step, str))
    )


def _compile_factor(text: str) -> _Factor:
    match = _FACTOR.fullmatch(text)
    if match is None:
        raise ValueError("expected `path`, `/ path` or `- number`")
    reference = _compile_reference(match["path"]) if match["path"] else None
    return _Factor(reference, match["over"] is not None, int(match["less"] or 0))


def _compile_condition(text: str) -> _Condition:
    match = _CONDITION.fullmatch(text)
    if match is None or (match["operator"] == ">" and not _is_number(match["value"])):
        raise ValueError("expected `path`, `path = text` or `path > number`, with `not` in front or without")
    reference = (_compile_reference if match["operator"] == ">" else _without_wildcard)(match["path"])
    return _Condition(reference, match["operator"] or "", match["value"] or "", match["negated"] is not None)


def _compile_text(text: str) -> _Text:
    return tuple(_PLACEHOLDER.split(text))


def _compile_kind(kind: _Kind, source: Mapping[str, Any]) -> TemplateKind:
    places = tuple(_compile_place(kind, pods) for pods in kind.pods)
    claims = tuple(map(_compile_reference, kind.claims))
    return TemplateKind(
        kind.group, kind.kind, kind.resource, places, claims, kind.elsewhere, copy.deepcopy(source)
    )


def _compile_place(kind: _Kind, pods: _Pods) -> Place:
    every: tuple[_Added, ...] = (kind, pods, *kind.also, *pods.also)
    owner = pods.owner or kind.owner
    return Place(
        template=_compile_reference(pods.template),
        spec=_plain(pods.spec),
        metadata=None if pods.metadata == "none" else _plain(pods.metadata),
        containers=tuple((_plain(path), name) for path, name in pods.containers.items()),
        role=pods.role,
        role_path=_plain(pods.role) if pods.role.startswith(".") else None,
        replicas=tuple(map(_compile_factor, pods.replicas)),
        when=tuple(map(_compile_condition, pods.when)),
        additions=tuple(map(_compile_addition, every)),
        defaults=tuple(
            _Filled(name, _plain(each.source), each.value) for name, each in kind.defaults.items()
        ),
        copies=tuple(kind.copies),
        values={name: tuple(map(_compile_factor, factors)) for name, factors in kind.values.items()},
        owner=(owner.api_version, owner.kind) if owner else None,
        user=pods.user or kind.user,
        sets=frozenset(
            (part, key)
            for each in every
            for part, keys in (("labels", each.labels), ("annotations", each.annotations))
            for key in keys
        ),
    )


def _compile_addition(added: _Added) -> _Addition:
    when = added.when if isinstance(added, _Conditional) else ()
    return _Addition(
        tuple(map(_compile_condition, when)),
        tuple((key, _compile_text(value)) for key, value in added.labels.items()),
        tuple((key, _compile_text(value)) for key, value in added.annotations.items()),
        tuple(map(_compile_variable, added.env)),
    )


def _compile_variable(variable: _Variable) -> _CompiledVariable:
    return _CompiledVariable(
        _compile_text(variable.name),
        _compile_text(variable.value),
        _compile_text(variable.config_map),
        _compile_reference(variable.for_each) if variable.for_each else None,
        variable.init_containers,
    )


def _plain(text: str) -> Path:
    return _without_wildcard(text).tail


def _without_wildcard(text: str) -> _Reference:
    reference = _compile_reference(text)
    if reference.head:
        raise ValueError("expected a path without a wildcard")
    return reference


# -- templates of an object


def _templates_at(place: Place, obj: Mapping[str, Any]) -> Iterator[Template]:
    for entry_path, entry in _walk(obj, place.template.head, ()):
        template = value_at(entry, place.template.tail)
        spec = value_at(template, place.spec)
        if not isinstance(spec, dict) or not all(_holds(each, obj, entry) for each in place.when):
            continue
        path = (*entry_path, *place.template.tail)
        spec_path = (*path, *place.spec)
        appended = _appended(place, spec, spec_path)
        if place.containers and not appended and not isinstance(spec.get("containers"), list):
            continue
        yield Template(
            path,
            spec_path,
            None if place.metadata is None else (*path, *place.metadata),
            _product(place.replicas, obj, entry),
            _role(place, entry_path, entry),
            place,
            appended,
        )


def _walk(value: Any, steps: tuple[str | _Wildcard, ...], path: Path) -> Iterator[tuple[Path, Any]]:
    """Every value but null that the steps lead to, with its path."""
    for at, step in enumerate(steps):
        if isinstance(step, _Wildcard):
            for key, child in _children(value, step):
                yield from _walk(child, steps[at + 1 :], (*path, key))
            return
        value = value.get(step) if isinstance(value, dict) else None
        path = (*path, step)
    if value is not None:
        yield path, value


def _children(value: Any, wildcard: _Wildcard) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict) and wildcard.of is dict:
        return value.items()
    return enumerate(value) if isinstance(value, list) and wildcard.of is list else ()


def _appended(place: Place, spec: Mapping[str, Any], spec_path: Path) -> tuple[tuple[Path, Path], ...]:
    own = spec.get("containers")
    start = len(own) if isinstance(own, list) else 0
    return tuple(
        (("spec", "containers", start + at), (*spec_path, *path))
        for at, (path, _, _) in enumerate(_further_containers(place, spec))
    )


def _further_containers(
    place: Place, spec: Mapping[str, Any]
) -> Iterator[tuple[Path, str, Mapping[str, Any]]]:
    """The containers outside the list of containers: path from the pod spec, name where they have none, value."""
    for path, name in place.containers:
        value = value_at(spec, path)
        if isinstance(value, dict):
            yield path, name, value
        for at, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, dict):
                yield (*path, at), name, item


def _role(place: Place, entry_path: Path, entry: Any) -> str:
    if place.role == "*":
        name: Any = entry_path[-1] if entry_path else ""
    elif place.role_path is not None:
        name = value_at(entry, place.role_path)
    else:
        name = place.role
    return _text(name)[:_MAX_NAME]


def _holds(condition: _Condition, obj: Any, entry: Any) -> bool:
    reference = condition.reference
    root = entry if reference.from_entry else obj
    value = None if reference.head else value_at(root, reference.tail)
    if condition.operator == "=":
        holds = value == condition.value
    elif condition.operator == ">":
        holds = (_sum(reference, root) if reference.head else _number(value) or 0) > int(condition.value)
    else:
        holds = value is not None
    return bool(holds) != condition.negated


def _product(factors: tuple[_Factor, ...], obj: Any, entry: Any) -> int:
    total = 1
    for factor in factors:
        if factor.reference is None:
            total = max(total - factor.less, 0)
            continue
        number = _sum(factor.reference, entry if factor.reference.from_entry else obj)
        # A group is never smaller than one pod, however its parts divide.
        total = max(total // max(number, 1), min(total, 1)) if factor.divides else total * number
        total = min(total, _MAX_REPLICAS)
    return total


def _sum(reference: _Reference, root: Any) -> int:
    counted = islice(_walk(root, reference.head, ()), MAX_TEMPLATES)
    numbers = (_number(value_at(value, reference.tail)) for _, value in counted)
    return sum(1 if number is None else number for number in numbers)


def _number(value: object) -> int | None:
    if isinstance(value, str):
        value = int(value) if _is_number(value) else None
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return min(max(value, 0), _MAX_REPLICAS)


def _is_number(text: str) -> bool:
    return len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


# -- the virtual pod


class _Scope:
    """What conditions and placeholders are read from."""

    __slots__ = ("_entry", "_named", "obj", "template")

    def __init__(self, obj: Mapping[str, Any], template: Template) -> None:
        self.obj = obj
        self.template = template
        self._entry = value_at(obj, template.path[: len(template.place.template.head)])
        metadata = mapping_at(obj, ("metadata",))
        name = _text(metadata.get("name")) or _text(metadata.get("generateName")).rstrip("-")
        self._named = {
            "name": name[:_MAX_NAME],
            "namespace": _text(metadata.get("namespace"))[:_MAX_NAME],
            "role": template.role,
            "replica-type": template.role.lower(),
            "index": "0",
            "replicas": str(template.replicas),
        }

    def named(self, name: str) -> str:
        """What a placeholder stands for."""
        if name not in self._named:
            factors = self.template.place.values[name]
            self._named[name] = str(_product(factors, self.obj, self._entry))
        return self._named[name]

    def holds(self, conditions: tuple[_Condition, ...]) -> bool:
        return all(_holds(each, self.obj, self._entry) for each in conditions)

    def fill(self, text: _Text, each: str = "") -> str:
        """The text with its placeholders filled in; `each` is the item that a variable is repeated for."""
        if len(text) == 1:
            return text[0]
        names = (each if name == "each" else self.named(name) for name in text[1::2])
        return text[0] + "".join(value + plain for value, plain in zip(names, text[2::2], strict=True))


def _metadata(kind: TemplateKind, scope: _Scope, additions: list[_Addition]) -> dict[str, Any]:
    name, namespace = scope.named("name"), scope.named("namespace")
    role = scope.named("replica-type")
    metadata: dict[str, Any] = {}
    if name:
        # The API server adds the rest (kubernetes/apiserver:pkg/storage/names/generate.go).
        metadata["generateName"] = f"{name}-{role}-" if role else f"{name}-"
    if namespace:
        metadata["namespace"] = namespace
    labels = _pairs("labels", scope, ((key, text) for each in additions for key, text in each.labels))
    if labels:
        metadata["labels"] = labels
    annotations = _pairs(
        "annotations", scope, ((key, text) for each in additions for key, text in each.annotations)
    )
    if annotations:
        metadata["annotations"] = annotations
    owner = scope.template.place.owner or (_text(scope.obj.get("apiVersion")), kind.kind)
    if owner[1]:
        # The uid is not known; the name is the object's where the controller's own has a suffix.
        metadata["ownerReferences"] = [
            {"apiVersion": owner[0], "kind": owner[1], "name": name, "controller": True}
        ]
    return metadata


def _pairs(part: str, scope: _Scope, added: Iterable[tuple[str, _Text]]) -> Mapping[str, Any]:
    """The labels or annotations: those copied from the object, those of the template, and what is added."""
    path = scope.template.metadata_path
    own = mapping_at(scope.obj, (*path, part)) if path is not None else {}
    copied = mapping_at(scope.obj, ("metadata", part)) if part in scope.template.place.copies else {}
    filled = {key: scope.fill(text) for key, text in added}
    return {**copied, **own, **filled} if copied or filled else own


def _spec(scope: _Scope, additions: list[_Addition]) -> Mapping[str, Any]:
    place = scope.template.place
    spec = mapping_at(scope.obj, scope.template.spec_path)
    changed: dict[str, Any] = {}
    for default in place.defaults:
        if spec.get(default.name) is None:
            value = value_at(scope.obj, default.source) or default.value
            if value:
                changed[default.name] = value
    if scope.template.appended:
        own = spec.get("containers")
        changed["containers"] = [
            *(own if isinstance(own, list) else ()),
            *(
                value if not name or value.get("name") else {**value, "name": name}
                for _, name, value in _further_containers(place, spec)
            ),
        ]
    for key in ("containers", "initContainers"):
        variables = _variables(scope, additions, only_init=key == "initContainers")
        containers = changed.get(key, spec.get(key))
        if variables and isinstance(containers, list):
            changed[key] = [_with_environment(each, variables) for each in containers]
    return {**spec, **changed} if changed else spec


def _with_environment(container: Any, variables: list[dict[str, Any]]) -> Any:
    if not isinstance(container, dict):
        return container
    own = container.get("env")
    return {**container, "env": [*(own if isinstance(own, list) else ()), *variables]}


def _variables(scope: _Scope, additions: list[_Addition], *, only_init: bool) -> list[dict[str, Any]]:
    return [
        _variable(scope, variable, each)
        for addition in additions
        for variable in addition.env
        if variable.in_init_containers or not only_init
        for each in _repeated(scope, variable)
    ]


def _repeated(scope: _Scope, variable: _CompiledVariable) -> Iterable[str]:
    """What a variable is repeated for, as variables are written: in capitals, with underscores."""
    if variable.for_each is None:
        return ("",)
    names = (_text(value) for _, value in islice(variable.for_each.walk(scope.obj), MAX_TEMPLATES))
    return [name.upper().replace("-", "_") for name in names if 0 < len(name) <= _MAX_LABEL]


def _variable(scope: _Scope, variable: _CompiledVariable, each: str) -> dict[str, Any]:
    name = scope.fill(variable.name, each)
    if variable.config_map != ("",):
        source = {"name": scope.fill(variable.config_map, each), "key": name}
        return {"name": name, "valueFrom": {"configMapKeyRef": source}}
    return {"name": name, "value": scope.fill(variable.value, each)}
