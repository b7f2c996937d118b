"""setStorageClass: the storage class of a claim, by how it is used."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from webhook.documents import Path
from webhook.facts import StorageClass, Unknown
from webhook.kube.draft import Draft, Replace, Written
from webhook.kube.field_path import list_at, mapping_at, value_at
from webhook.rules.base import Finding, MutatingRule, Need, Subject, Texts, error, skip, unknown
from webhook.rules.parameters import ReplaceParameter

IO_PATTERN = "podgate.dev/io-pattern"
LEGACY_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""Wins over the field (kubernetes/kubernetes:pkg/apis/core/v1/helper/helpers.go, GetPersistentVolumeClaimClass)."""

AccessMode = Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod"]
DEMANDING_FIRST: tuple[AccessMode, ...] = get_args(AccessMode)
SERVES_TOO: Mapping[str, AccessMode] = {"ReadOnlyMany": "ReadWriteMany", "ReadWriteOncePod": "ReadWriteOnce"}
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
    by_access_mode: dict[AccessMode, str] = {}
    default: str = ""
    replace: ReplaceParameter = Replace()

    @model_validator(mode="after")
    def _some_class(self) -> "SetStorageClass":
        if not (self.by_io_pattern or self.by_access_mode or self.default):
            raise ValueError("give at least one of byIOPattern, byAccessMode and default")
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
        claim = mapping_at(subject.object, base)
        field: Path = (*base, "spec", "storageClassName")
        name = self._class_for(subject, claim)
        why = _own_volume(claim)
        if not name or why:
            yield (
                skip("stands aside", field, why=why) if why else skip("no class", field, usage=_usage(claim))
            )
            return
        default = _filled_in(subject, claim) if is_claim else None
        # Only tried: a class that stays anyway is no error, whatever is known of the wanted one.
        written = self._write(subject.draft.fork(), field, name, key, default)
        obstacle = _obstacle(subject, claim, name, field) if written is Written.WRITTEN else None
        if not written.holds:
            yield skip("kept", field, present=value_at(subject.object, field))
        elif obstacle:
            yield obstacle
        else:
            self._write(subject.draft, field, name, key, default)

    def _write(self, draft: Draft, field: Path, name: str, key: str, default: str | None) -> Written:
        return draft.set(field, name, key, self.replace, cluster_default=default)

    def _class_for(self, subject: Subject, claim: Mapping[str, Any]) -> str:
        """By the I/O pattern of the claim or its pod, else by the most demanding access mode, else the default."""
        for owner in (claim, subject.object):
            pattern = mapping_at(owner, ("metadata", "annotations")).get(IO_PATTERN)
            if isinstance(pattern, str) and pattern in self.by_io_pattern:
                return self.by_io_pattern[pattern]
        mode = _access_mode(claim)
        if mode is None:
            return self.default
        classes = self.by_access_mode
        return classes.get(mode) or classes.get(SERVES_TOO.get(mode, mode)) or self.default


def _access_mode(claim: Mapping[str, Any]) -> AccessMode | None:
    modes = list_at(claim, ("spec", "accessModes"))
    return next((mode for mode in DEMANDING_FIRST if mode in modes), None)


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


def _obstacle(subject: Subject, claim: Mapping[str, Any], name: str, field: Path) -> Finding | None:
    """Why the class cannot be set, None if it can."""
    wanted = subject.facts.storage_class(name)
    driver = wanted.provisioner if isinstance(wanted, StorageClass) else ""
    why = (
        _other_driver(subject, mapping_at(claim, ("spec",)), driver)
        or _unfit(wanted, claim)
        or _refused(subject, name)
    )
    if why:
        return skip("stands aside", field, why=why)
    if wanted is None:
        return error("missing", field, wanted=name)
    if isinstance(wanted, Unknown) and (subject.request.from_api_server or _is_block(claim)):
        return unknown(wanted)
    return None


def _own_volume(claim: Mapping[str, Any]) -> str:
    """How the claim chooses its volume, or its class, itself; "" if it does not."""
    spec = mapping_at(claim, ("spec",))
    if spec.get("storageClassName") == "":
        return 'storageClassName "" asks for a volume without a class'
    if mapping_at(claim, ("metadata", "annotations")).get(LEGACY_ANNOTATION) is not None:
        return f"annotation {LEGACY_ANNOTATION} names the class"
    if spec.get("volumeName"):
        return "spec.volumeName chooses an existing volume"
    # Provisioners refuse even an empty selector (kubernetes-csi/external-provisioner:pkg/controller/controller.go).
    return "spec.selector chooses an existing volume" if spec.get("selector") is not None else ""


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
