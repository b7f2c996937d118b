"""setStorageClass: the storage class of a claim, by how it is used."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

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

ClassName = Annotated[str, Field(min_length=1)]
AccessMode = Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod"]
DEMANDING_FIRST: tuple[AccessMode, ...] = get_args(AccessMode)
SERVES_TOO: Mapping[str, AccessMode] = {"ReadOnlyMany": "ReadWriteMany", "ReadWriteOncePod": "ReadWriteOnce"}
"""A class that serves the second mode serves the first as well."""


class SetStorageClass(MutatingRule):
    """Sets `storageClassName` of claims when they are created, and of generic ephemeral volumes of pods.

    The claims that a StatefulSet or an ephemeral volume makes are claims; a StatefulSet's own templates are never written,
    for re-applying it would be refused ever after.

    Attributes:
        by_io_pattern: classes by the annotation `podgate.dev/io-pattern` of the claim, or of the pod; wins over the
            access mode.
        by_access_mode: classes by access mode; of several modes of a claim the most demanding counts.
        default: the class where neither says one.
        replace: which present class may be overwritten.
    """

    type: ClassVar[str] = "setStorageClass"
    asks: ClassVar[frozenset[str]] = frozenset(
        {"Accessor", "Namespace", "PersistentVolumeClaim", "StorageClass", "VolumeAttributesClass"}
    )
    acts_on: ClassVar[tuple[str, ...]] = ("persistentvolumeclaims", "pods")
    scope: ClassVar[frozenset[Need]] = frozenset({"ephemeralVolumes"})
    texts: ClassVar[Texts] = {
        "kept": {
            "en": (
                "storage class {present} was chosen and stays",
                "nothing: a class that somebody chose is respected",
            ),
            "zh": ("已选择存储类 {present}，保持不变", "无需处理：用户选择的存储类不会被覆盖"),
        },
        "no class wanted": {
            "en": (
                'storageClassName "" asks for a volume without a class, and stays',
                "nothing, or remove the field if podgate shall choose the class",
            ),
            "zh": (
                'storageClassName "" 表示使用没有存储类的卷，保持不变',
                "无需处理；如需由 podgate 选择存储类，请移除该字段",
            ),
        },
        "annotated": {
            "en": (
                "annotation {annotation} names the class, so none is set",
                "nothing, or remove the annotation if podgate shall choose the class",
            ),
            "zh": (
                "注解 {annotation} 已指定存储类，未设置",
                "无需处理；如需由 podgate 选择存储类，请移除该注解",
            ),
        },
        "own volume": {
            "en": (
                "{field} chooses an existing volume, so no storage class is set",
                "nothing, or remove {field} if podgate shall choose the class",
            ),
            "zh": (
                "{field} 已选择现有的卷，未设置存储类",
                "无需处理；如需由 podgate 选择存储类，请移除 {field}",
            ),
        },
        "other attributes": {
            "en": (
                "volumeAttributesClassName {attributes} is not known to be of the driver of {wanted}, so no storage class is set",
                "name the storage class yourself, or give podgate the VolumeAttributesClass and the StorageClass",
            ),
            "zh": (
                "无法确定 volumeAttributesClassName {attributes} 与 {wanted} 属于同一驱动，未设置存储类",
                "请自行指定存储类，或为 podgate 提供 VolumeAttributesClass 与 StorageClass",
            ),
        },
        "other source": {
            "en": (
                "the data source {source} is not known to be of the driver of {wanted}, so no storage class is set",
                "name the storage class yourself, or give podgate the claim and the StorageClass",
            ),
            "zh": (
                "无法确定数据源 {source} 与 {wanted} 属于同一驱动，未设置存储类",
                "请自行指定存储类，或为 podgate 提供该存储声明与 StorageClass",
            ),
        },
        "no block volumes": {
            "en": (
                "storage class {wanted} is CephFS, which serves no block volumes, so it is not set",
                "choose a class of block devices, or volumeMode: Filesystem",
            ),
            "zh": (
                "存储类 {wanted} 属于 CephFS，不支持块设备卷，未设置",
                "请选择块存储类，或使用 volumeMode: Filesystem",
            ),
        },
        "no shared file systems": {
            "en": (
                "storage class {wanted} is Ceph RBD, whose file systems one node mounts, so it is not set",
                "choose a class of CephFS, or volumeMode: Block",
            ),
            "zh": (
                "存储类 {wanted} 属于 Ceph RBD，其文件系统只能由一个节点挂载，未设置",
                "请选择 CephFS 存储类，或使用 volumeMode: Block",
            ),
        },
        "refused": {
            "en": (
                "accessor {accessor} does not allow storage class {wanted} in namespace {namespace}, so it is not set",
                "allow the namespace in the accessor, or name another class",
            ),
            "zh": (
                "accessor {accessor} 不允许在命名空间 {namespace} 中使用存储类 {wanted}，未设置",
                "请在 accessor 中允许该命名空间，或指定其他存储类",
            ),
        },
        "no class": {
            "en": (
                "the policy names no storage class for access mode {mode}",
                "add {mode} to byAccessMode, or a default",
            ),
            "zh": ("策略没有为访问模式 {mode} 指定存储类", "请在 byAccessMode 中添加 {mode}，或设置 default"),
        },
        "no mode": {
            "en": (
                "the claim has no access mode by which to choose its storage class",
                "add spec.accessModes",
            ),
            "zh": ("存储声明没有访问模式，无法选择存储类", "请添加 spec.accessModes"),
        },
        "missing": {
            "en": (
                "storage class {wanted} does not exist in the cluster",
                "create the StorageClass {wanted}, or correct the policy",
            ),
            "zh": ("集群中不存在存储类 {wanted}", "请创建 StorageClass {wanted}，或修正策略"),
        },
    }

    by_io_pattern: dict[str, ClassName] = Field(default={}, alias="byIOPattern")
    by_access_mode: dict[AccessMode, ClassName] = {}
    default: ClassName = ""
    replace: ReplaceParameter = Replace()

    @model_validator(mode="after")
    def _some_class(self) -> "SetStorageClass":
        if not (self.by_io_pattern or self.by_access_mode or self.default):
            raise ValueError("give at least one of byIOPattern, byAccessMode and default")
        return self

    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        """See `MutatingRule.mutate`."""
        if subject.request.kind == "PersistentVolumeClaim":
            yield from self._set(subject, subject.draft.trial(), key, ())
            return
        trial: Draft | None = None
        for index, volume in enumerate(list_at(subject.object, ("spec", "volumes"))):
            if mapping_at(volume, ("ephemeral", "volumeClaimTemplate", "spec")):
                trial = trial or subject.draft.fork()  # one for all: each volume has a field of its own
                base: Path = ("spec", "volumes", index, "ephemeral", "volumeClaimTemplate")
                yield from self._set(subject, trial, key, base)

    def _set(self, subject: Subject, trial: Draft, key: str, base: Path) -> Iterator[Finding]:
        claim = mapping_at(subject.object, base)
        field: Path = (*base, "spec", "storageClassName")
        name = self._class_for(subject, claim)
        chosen = _chosen_otherwise(claim, base)
        if not name or chosen:
            yield chosen or _no_class(claim, base)
            return
        default = None if base else _filled_in(subject, claim)
        # Only tried: a class that stays anyway is no error, whatever is known of the wanted one.
        written = self._write(trial, field, name, key, default)
        obstacle = _obstacle(subject, claim, name, base) if written is Written.WRITTEN else None
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


def _no_class(claim: Mapping[str, Any], base: Path) -> Finding:
    mode, place = _access_mode(claim), (*base, "spec", "accessModes")
    return skip("no class", place, mode=mode) if mode else skip("no mode", place)


def _is_block(claim: Mapping[str, Any]) -> bool:
    return bool(value_at(claim, ("spec", "volumeMode")) == "Block")


def _is_shared_file_system(claim: Mapping[str, Any]) -> bool:
    """What RBD does not serve: its ReadWriteMany is for block volumes only (ceph/ceph-csi:docs/static-pvc.md)."""
    return _access_mode(claim) == "ReadWriteMany" and not _is_block(claim)


def _filled_in(subject: Subject, claim: Mapping[str, Any]) -> str | None:
    """The claim's class, where it is one that the DefaultStorageClass plugin could have filled in."""
    defaults = subject.facts.default_storage_classes()
    present = value_at(claim, ("spec", "storageClassName"))
    if isinstance(defaults, Unknown):
        return None
    return next((default.name for default in defaults if default.name == present), None)


def _obstacle(subject: Subject, claim: Mapping[str, Any], name: str, base: Path) -> Finding | None:
    """Why the class cannot be set, None if it can."""
    wanted = subject.facts.storage_class(name)
    field: Path = (*base, "spec", "storageClassName")
    namespace = subject.request.namespace
    accessor = subject.facts.accessor_refusal(name, namespace)
    if accessor:
        return skip("refused", field, accessor=accessor, wanted=name, namespace=namespace)
    if isinstance(wanted, StorageClass) and wanted.is_cephfs and _is_block(claim):
        return skip("no block volumes", field, wanted=name)
    if isinstance(wanted, StorageClass) and wanted.is_rbd and _is_shared_file_system(claim):
        return skip("no shared file systems", field, wanted=name)
    if wanted is None:
        return error("missing", field, wanted=name)
    other = _other_driver(subject, claim, name, base)
    if (
        other is None
        and isinstance(wanted, Unknown)
        and (subject.request.from_api_server or _is_block(claim))
    ):
        return unknown(wanted)
    return other


def _chosen_otherwise(claim: Mapping[str, Any], base: Path) -> Finding | None:
    """How the claim chooses its volume, or its class, in another way than by a class's name."""
    spec = mapping_at(claim, ("spec",))
    if spec.get("storageClassName") == "":
        return skip("no class wanted", (*base, "spec", "storageClassName"))
    if value_at(claim, ("metadata", "annotations", LEGACY_ANNOTATION)) is not None:
        return skip(
            "annotated", (*base, "metadata", "annotations", LEGACY_ANNOTATION), annotation=LEGACY_ANNOTATION
        )
    if spec.get("volumeName"):
        return skip("own volume", (*base, "spec", "volumeName"), field="spec.volumeName")
    # Provisioners refuse even an empty selector (kubernetes-csi/external-provisioner:pkg/controller/controller.go).
    if spec.get("selector") is not None:
        return skip("own volume", (*base, "spec", "selector"), field="spec.selector")
    return None


def _other_driver(subject: Subject, claim: Mapping[str, Any], name: str, base: Path) -> Finding | None:
    """A data source or attributes class that is not known to be of the same driver: the claim would never be provisioned."""
    wanted = subject.facts.storage_class(name)
    driver = wanted.provisioner if isinstance(wanted, StorageClass) else ""
    spec = mapping_at(claim, ("spec",))
    attributes = spec.get("volumeAttributesClassName")
    if attributes and (not driver or subject.facts.volume_attributes_driver(str(attributes)) != driver):
        place: Path = (*base, "spec", "volumeAttributesClassName")
        return skip("other attributes", place, attributes=attributes, wanted=name)
    field = "dataSourceRef" if spec.get("dataSourceRef") else "dataSource"
    source = spec.get(field)
    if source and (not driver or _source_driver(subject, source) != driver):
        shown = f"{value_at(source, ('kind',))} {value_at(source, ('name',))}"
        return skip("other source", (*base, "spec", field), source=shown, wanted=name)
    return None


def _source_driver(subject: Subject, source: Any) -> str:
    """The driver of the claim that a data source names; "" where it is another kind, or not known."""
    if value_at(source, ("kind",)) != "PersistentVolumeClaim":
        return ""
    namespace = value_at(source, ("namespace",)) or subject.request.namespace
    name = subject.facts.claim_class(namespace, str(value_at(source, ("name",))))
    found = subject.facts.storage_class(name) if isinstance(name, str) and name else None
    return found.provisioner if isinstance(found, StorageClass) else ""
