"""setFields: scheduler, runtime class, labels, annotations and environment, by value or by a label of the namespace."""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace as with_fields
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, model_validator

from webhook.documents import Path
from webhook.documents.schema import Schema, shown, shown_kind
from webhook.facts import Unknown
from webhook.kube.draft import FILL, Replace
from webhook.kube.field_path import is_named, value_at
from webhook.kube.pod import Container, containers
from webhook.kube.selectors import SelectorError, compile_label_selector
from webhook.kube.workload import (
    is_classifying_annotation,
    is_classifying_label,
    is_classifying_variable,
)
from webhook.rules.base import Finding, MutatingRule, Need, Subject, Texts, skip, unknown
from webhook.rules.parameters import ReplaceParameter

SCHEDULER: Path = ("spec", "schedulerName")
DEFAULT_SCHEDULER = "default-scheduler"
"""What the API server fills in (kubernetes/kubernetes:pkg/apis/core/v1/defaults.go, SetDefaults_PodSpec)."""

RUNTIME_CLASS: Path = ("spec", "runtimeClassName")
LABELS: Path = ("metadata", "labels")
ANNOTATIONS: Path = ("metadata", "annotations")

OWN_PREFIX = "podgate.dev/"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

_RUNTIME_CLASS_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_VARIABLE = re.compile(r"(?!\.\.?\Z)[-._a-zA-Z][-._a-zA-Z0-9]*")
"""kubernetes/apimachinery:pkg/util/validation, IsDNS1123Subdomain and IsEnvVarName."""


class FieldValue(Schema):
    """A text, or the value of a label of the pod's namespace; `default` where the namespace has no such label, or an empty one."""

    from_namespace_label: str
    default: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _a_text_is_a_default(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"fromNamespaceLabel": "", "default": value}
        if isinstance(value, dict):
            if value.get("fromNamespaceLabel") == "":
                raise ValueError("fromNamespaceLabel is empty; name a label of the namespace")
            return value
        raise ValueError(f"expected a string, or a map with fromNamespaceLabel, found {shown_kind(value)}")

    def value_for(self, subject: Subject) -> str | Unknown | None:
        """The value for a pod; None where its namespace has none."""
        if not self.from_namespace_label:
            return self.default
        namespace = subject.received.namespace
        if isinstance(namespace, Unknown):
            return namespace
        return namespace.labels.get(self.from_namespace_label) or self.default


Fields = dict[str, FieldValue]


class FieldError(ValueError):
    """A key that a rule may not set.

    Attributes:
        path: the key, below the map that is checked.
    """

    def __init__(self, key: str, text: str) -> None:
        self.path: Path = (key,)
        super().__init__(text)


def _labels(fields: Fields) -> Fields:
    for key, field in fields.items():
        if key == QUEUE_LABEL:
            raise FieldError(
                key,
                f"{key} on a pod makes Kueue hold back each pod by itself, even of a job that is queued; "
                "put it on the Job or other workload",
            )
        _check_key(key, is_classifying=is_classifying_label(key))
        if field.default:
            _check_selector(key, {"matchLabels": {key: field.default}})
    return fields


def _annotations(fields: Fields) -> Fields:
    for key in fields:
        _check_key(key, is_classifying=is_classifying_annotation(key))
    return fields


def _variables(fields: Fields) -> Fields:
    for name in fields:
        if not _VARIABLE.fullmatch(name):
            raise FieldError(
                name, f"expected the name of a variable, such as NCCL_DEBUG, found {shown(name)}"
            )
        _check_classifying(name, is_classifying=is_classifying_variable(name))
    return fields


def _check_key(key: str, *, is_classifying: bool) -> None:
    if key.startswith(OWN_PREFIX):
        raise FieldError(key, f"{key} is podgate's own; choose a key with another prefix")
    _check_classifying(key, is_classifying=is_classifying)
    _check_selector(key, {"matchExpressions": [{"key": key, "operator": "Exists"}]})


def _check_classifying(key: str, *, is_classifying: bool) -> None:
    if is_classifying:
        raise FieldError(
            key, f"{key} decides what kind of workload a pod is, so that a second pass would see another pod"
        )


def _check_selector(key: str, selector: Any) -> None:
    """Keys and values of labels, and keys of annotations, have one grammar wherever they stand."""
    try:
        compile_label_selector(selector)
    except SelectorError as error:
        raise FieldError(key, f"expected {error.expected}, found {error.found}") from None


def _name(field: FieldValue) -> FieldValue:
    if field.default == "":
        raise ValueError("expected a name")
    return field


def _runtime_class(field: FieldValue) -> FieldValue:
    if field.default is not None and not _RUNTIME_CLASS_NAME.fullmatch(field.default):
        raise ValueError("expected the name of a RuntimeClass, such as nvidia")
    return field


class SetFields(MutatingRule):
    """Sets fields of the pod that nobody chose; `replace` says which values may be overwritten besides.

    Environment variables are added where the container's `env` does not name them, and never changed. What `envFrom` brings is
    not known here, and an entry of `env` wins over it. A label that is there stays where the pod has a controller: it may find
    its pods by that label, and would make new ones for ever. A runtime class that defines an overhead must be set in the first
    mutating call: the API server does not fill the overhead in after a second one
    (kubernetes/kubernetes:plugin/pkg/admission/runtimeclass/admission.go).

    Attributes:
        scheduler_name: the scheduler.
        runtime_class_name: the runtime class.
        labels: labels of the pod, by key.
        annotations: annotations of the pod, by key.
        env: environment variables, by name.
        containers: the containers that `env` is for: all, those with an accelerator, or the others.
        replace: which present values may be overwritten, `env` excepted.
    """

    type: ClassVar[str] = "setFields"
    scope: ClassVar[frozenset[Need]] = frozenset({"all"})
    texts: ClassVar[Texts] = {
        "kept": {
            "en": ("the field is set already and stays", "nothing: what somebody chose is respected"),
            "zh": ("该字段已设置，保持不变", "无需处理：用户选择的值不会被覆盖"),
        },
        "selected": {
            "en": (
                "the label stays, since the pod's {owner} may find its pods by it",
                "nothing, or change the label in the {owner}",
            ),
            "zh": (
                "标签保持不变，因为 Pod 所属的 {owner} 可能依靠它识别 Pod",
                "无需处理，或在 {owner} 中修改该标签",
            ),
        },
        "overhead": {
            "en": (
                "the runtime class stays: the pod has the overhead of {present}, which no other class accepts",
                "name the runtime class in the manifest",
            ),
            "zh": (
                "运行时类保持不变：Pod 已带有 {present} 的 overhead，其他运行时类不会接受",
                "请在清单中直接指定 runtimeClassName",
            ),
        },
        "no label": {
            "en": (
                "namespace {namespace} has no label {label} to take the value from",
                "add the label to the namespace, or a default to the policy",
            ),
            "zh": (
                "命名空间 {namespace} 没有标签 {label}，无法取值",
                "请为命名空间添加该标签，或在策略中设置 default",
            ),
        },
        "no name": {
            "en": (
                "the value of label {label} of namespace {namespace} cannot be the name of a RuntimeClass",
                "correct the label of the namespace",
            ),
            "zh": (
                "命名空间 {namespace} 的标签 {label} 的值不能作为 RuntimeClass 的名称",
                "请修正命名空间的标签",
            ),
        },
        "no container": {
            "en": (
                "the pod has no container that the environment variables are for",
                "nothing: the policy chooses containers by the accelerators in them",
            ),
            "zh": ("Pod 中没有需要设置环境变量的容器", "无需处理：策略按是否持有加速卡选择容器"),
        },
    }

    scheduler_name: Annotated[FieldValue, AfterValidator(_name)] | None = None
    runtime_class_name: Annotated[FieldValue, AfterValidator(_runtime_class)] | None = None
    labels: Annotated[Fields, AfterValidator(_labels)] = {}
    annotations: Annotated[Fields, AfterValidator(_annotations)] = {}
    env: Annotated[Fields, AfterValidator(_variables)] = {}
    containers: Literal["all", "accelerator", "other"] = "all"
    replace: ReplaceParameter = Replace()

    @model_validator(mode="after")
    def _consistent(self) -> "SetFields":
        others = self.scheduler_name or self.runtime_class_name or self.labels or self.annotations
        if not (others or self.env):
            raise ValueError(
                "give at least one of schedulerName, runtimeClassName, labels, annotations and env"
            )
        if "containers" in self.model_fields_set and not self.env:
            raise ValueError("containers says where env goes; give env, or remove containers")
        if "replace" in self.model_fields_set and not others:
            raise ValueError("env is never replaced; remove replace")
        return self

    @property
    def kinds_asked(self) -> frozenset[str]:
        """See `Rule.kinds_asked`."""
        values = (*(field for _, field in self._fields()), *self.env.values())
        return frozenset({"Namespace"} if any(value.from_namespace_label for value in values) else ())

    @property
    def written_labels(self) -> Collection[str]:
        """See `MutatingRule.written_labels`."""
        return self.labels.keys()

    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        """See `MutatingRule.mutate`."""
        for path, field in self._fields():
            value = _resolve(subject, path, field)
            if isinstance(value, Finding):
                yield value
            else:
                yield from self._set(subject, key, path, value)
        if self.env:
            yield from self._add_env(subject, key)

    def _fields(self) -> Iterator[tuple[Path, FieldValue]]:
        for path, field in ((SCHEDULER, self.scheduler_name), (RUNTIME_CLASS, self.runtime_class_name)):
            if field:
                yield path, field
        for base, fields in ((LABELS, self.labels), (ANNOTATIONS, self.annotations)):
            for name, field in fields.items():
                yield (*base, name), field

    def _set(self, subject: Subject, key: str, path: Path, value: str) -> Iterator[Finding]:
        held = self._held(subject, path)
        rule = FILL if held else self.replace
        default = DEFAULT_SCHEDULER if path == SCHEDULER else None
        if not subject.draft.set(path, value, key, rule, api_default=default).holds:
            yield held or skip("kept", path)

    def _held(self, subject: Subject, path: Path) -> Finding | None:
        """Why a value that `replace` may overwrite must stay nevertheless."""
        present = value_at(subject.object, path)
        if self.replace.when != "always" and present not in self.replace.values:
            return None
        if path[:-1] == LABELS and subject.workload.owner:
            return skip("selected", path, owner=subject.workload.owner)
        if path == RUNTIME_CLASS and value_at(subject.object, ("spec", "overhead")):
            return skip("overhead", path, present=present)
        return None

    def _add_env(self, subject: Subject, key: str) -> Iterator[Finding]:
        chosen = self._chosen(subject)
        if not chosen:
            yield skip("no container", ("spec", "containers"))
            return
        for name, field in self.env.items():
            value = _resolve(subject, (*chosen[0].path, "env"), field)
            if isinstance(value, Finding):
                yield value
                continue
            for container in chosen:
                entry = {"name": name, "value": value}
                subject.draft.append((*container.path, "env"), entry, key, partial(is_named, name), name)

    def _chosen(self, subject: Subject) -> list[Container]:
        """The containers that the variables are for; ephemeral ones come later, by another call."""
        holding = set(subject.workload.holders)
        return [
            each
            for each in containers(subject.object)
            if each.role != "ephemeral"
            and (self.containers == "all" or (each.path in holding) == (self.containers == "accelerator"))
        ]


def _resolve(subject: Subject, path: Path, field: FieldValue) -> str | Finding:
    """The value for a field, or why there is none."""
    value = field.value_for(subject)
    source = {"label": field.from_namespace_label, "namespace": subject.request.namespace}
    if isinstance(value, Unknown):
        return with_fields(unknown(value), path=path)
    if value is None:
        return skip("no label", path, **source)
    if path == RUNTIME_CLASS and not _RUNTIME_CLASS_NAME.fullmatch(value):
        return skip("no name", path, **source)
    return value
