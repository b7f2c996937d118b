"""setStorageClass: the storage class of a claim, by how it is used."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from webhook.documents import Path
from webhook.facts import StorageClass, Unknown
from webhook.kube.draft import Replace
from webhook.kube.field_path import list_at, mapping_at, value_at
from webhook.rules.base import Finding, MutatingRule, Need, Subject, Texts, error, skip, unknown
from webhook.rules.parameters import ReplaceParameter

IO_PATTERN = "podgate.dev/io-pattern"
LEGACY_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""Wins over the field (kubernetes/kubernetes:pkg/apis/core/v1/helper/helpers.go, GetPersistentVolumeClaimClass)."""

DEMANDING_FIRST = ("ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod")
SERVES_TOO = {"ReadOnlyMany": "ReadWriteMany", "ReadWriteOncePod": "ReadWriteOnce"}
"""A class that serves the second mode serves the first as well."""


class SetStorageClass(MutatingRule):
    """Sets `storageClassName` of claims when they are created, and of generic ephemeral volumes of pods.

    The claims that a StatefulSet or an ephemeral volume makes are claims; a StatefulSet's own templates are never written,
    for re-applying it would be refused ever after.
    """

    type: ClassVar[str] = "setStorageClass"
    acts_on: ClassVar[tuple[str, ...]] = ("persistentvolumeclaims", "pods")
    scope: ClassVar[frozenset[Need]] = frozenset({"claims"})
    texts: ClassVar[Texts] = {
        "kept": {
            "en": (
                "storage class {present} was chosen and stays",
                "nothing: a class that somebody chose is respected",
            ),
            "zh": ("已选择存储类 {present}，保持不变", "无需处理：用户选择的存储类不会被覆盖"),
        },
        "stands aside": {
            "en": (
                "no storage class is set: {why}",
                "nothing, or remove it if podgate shall choose the class",
            ),
            "zh": ("未设置存储类：{why}", "无需处理；如需由 podgate 选择存储类，请移除该设置"),
        },
        "no class": {
            "en": (
                "the policy names no storage class for {usage}",
                "add the access mode to byAccessMode, or a default",
            ),
            "zh": ("策略没有为 {usage} 指定存储类", "请在 byAccessMode 中添加该访问模式，或设置 default"),
        },
        "missing": {
            "en": (
                "storage class {wanted} does not exist in the cluster",
                "create the StorageClass {wanted}, or correct the policy",
            ),
            "zh": ("集群中不存在存储类 {wanted}", "请创建 StorageClass {wanted}，或修正策略"),
        },
    }

    by_io_pattern: dict[str, str] = Field(default={}, alias="byIOPattern")
    by_access_mode: dict[str, str] = {}
    default: str = ""
    replace: ReplaceParameter = Replace()

    @model_validator(mode="after")
    def _some_class(self) -> "SetStorageClass":
        if not (self.by_io_pattern or self.by_access_mode or self.default):
            raise ValueError("give at least one of byIOPattern, byAccessMode and default")
        unknown_modes = sorted(set(self.by_access_mode) - set(DEMANDING_FIRST))
        if unknown_modes:
            raise ValueError(
                f"byAccessMode: {unknown_modes[0]} is no access mode; expected {', '.join(DEMANDING_FIRST)}"
            )
        return self

    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        """See `MutatingRule.mutate`."""
        if subject.request.kind == "PersistentVolumeClaim":
            yield from self._set(subject, key, (), is_claim=True)
            return
        for index, volume in enumerate(list_at(subject.object, ("spec", "volumes"))):
            if mapping_at(volume, ("ephemeral", "volumeClaimTemplate", "spec")):
                base: Path = ("spec", "volumes", index, "ephemeral", "volumeClaimTemplate")
                yield from self._set(subject, key, base, is_claim=False)

    def _set(self, subject: Subject, key: str, base: Path, *, is_claim: bool) -> Iterator[Finding]:
        claim = mapping_at(subject.object, base) if base else subject.object
        field: Path = (*base, "spec", "storageClassName")
        name = self._class_for(subject, claim)
        if not name:
            yield skip("no class", field, usage=_usage(claim))
            return
        wanted = subject.facts.storage_class(name)
        why = _reason_to_stand_aside(subject, claim, name, wanted)
        if why:
            yield skip("stands aside", field, why=why)
        elif wanted is None:
            yield error("missing", field, wanted=name)
        elif isinstance(wanted, Unknown) and (subject.request.from_api_server or _is_block(claim)):
            yield unknown(wanted)
        else:
            default = _filled_in(subject, claim) if is_claim else None
            if not subject.draft.set(field, name, key, self.replace, cluster_default=default).holds:
                yield skip("kept", field, present=value_at(subject.object, field))

    def _class_for(self, subject: Subject, claim: Mapping[str, Any]) -> str:
        """By the I/O pattern of the claim or its pod, else by the most demanding access mode, else the default."""
        for owner in (claim, subject.object):
            pattern = mapping_at(owner, ("metadata", "annotations")).get(IO_PATTERN)
            if isinstance(pattern, str) and pattern in self.by_io_pattern:
                return self.by_io_pattern[pattern]
        mode = _access_mode(claim)
        return (
            self.by_access_mode.get(mode) or self.by_access_mode.get(SERVES_TOO.get(mode, "")) or self.default
        )


def _access_mode(claim: Mapping[str, Any]) -> str:
    modes = list_at(claim, ("spec", "accessModes"))
    return next((mode for mode in DEMANDING_FIRST if mode in modes), "")


def _usage(claim: Mapping[str, Any]) -> str:
    return _access_mode(claim) or "a claim without an access mode"


def _is_block(claim: Mapping[str, Any]) -> bool:
    return bool(value_at(claim, ("spec", "volumeMode")) == "Block")


def _filled_in(subject: Subject, claim: Mapping[str, Any]) -> str | None:
    """The claim's class, where it is one that the DefaultStorageClass plugin could have filled in."""
    defaults = subject.facts.default_storage_classes()
    present = value_at(claim, ("spec", "storageClassName"))
    if isinstance(defaults, Unknown):
        return None
    return next((default.name for default in defaults if default.name == present), None)


def _reason_to_stand_aside(
    subject: Subject, claim: Mapping[str, Any], name: str, wanted: StorageClass | Unknown | None
) -> str:
    """Why another class is not for us to set; "" if it is."""
    spec = mapping_at(claim, ("spec",))
    if spec.get("storageClassName") == name:
        return ""
    driver = wanted.provisioner if isinstance(wanted, StorageClass) else ""
    return (
        _own_volume(claim, spec)
        or _other_driver(subject, spec, driver)
        or _unfit(wanted, claim)
        or _refused(subject, name)
    )


def _own_volume(claim: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    """The claim chooses its volume, or its class, in another way."""
    if spec.get("storageClassName") == "":
        return 'storageClassName "" asks for a volume without a class'
    if LEGACY_ANNOTATION in mapping_at(claim, ("metadata", "annotations")):
        return f"annotation {LEGACY_ANNOTATION} names the class"
    chooser = next((key for key in ("volumeName", "selector") if spec.get(key)), "")
    return f"spec.{chooser} chooses an existing volume" if chooser else ""


def _unfit(wanted: StorageClass | Unknown | None, claim: Mapping[str, Any]) -> str:
    if isinstance(wanted, StorageClass) and wanted.is_cephfs and _is_block(claim):
        return f"class {wanted.name} is CephFS, which serves no block volumes"
    return ""


def _refused(subject: Subject, name: str) -> str:
    accessor = subject.facts.accessor_refusal(name, subject.request.namespace)
    return f"accessor {accessor} does not allow class {name} in this namespace" if accessor else ""


def _other_driver(subject: Subject, spec: Mapping[str, Any], driver: str) -> str:
    """A data source or attributes class that is not known to be of the same driver: the claim would never be provisioned."""
    attributes = spec.get("volumeAttributesClassName")
    if attributes and (not driver or subject.facts.volume_attributes_driver(str(attributes)) != driver):
        return f"volumeAttributesClassName {attributes} is not known to be of the same driver"
    source = spec.get("dataSourceRef") or spec.get("dataSource")
    if source and (not driver or _source_driver(subject, source) != driver):
        return "its data source is not known to be of the same driver"
    return ""


def _source_driver(subject: Subject, source: Any) -> str:
    """The driver of the claim that a data source names; "" where it is another kind, or not known."""
    if value_at(source, ("kind",)) != "PersistentVolumeClaim":
        return ""
    namespace = value_at(source, ("namespace",)) or subject.request.namespace
    name = subject.facts.claim_class(namespace, str(value_at(source, ("name",))))
    found = subject.facts.storage_class(name) if isinstance(name, str) and name else None
    return found.provisioner if isinstance(found, StorageClass) else ""
