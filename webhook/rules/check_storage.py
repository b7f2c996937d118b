"""checkStorage: data that must outlive a pod does not lie on the disk of one node."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, Field

from webhook.documents import Path
from webhook.facts import StorageClass, Unknown
from webhook.kube.field_path import list_at, mapping_at, value_at
from webhook.kube.file_path import absolute_path, at_or_below
from webhook.kube.pod import Container, containers
from webhook.rules.base import Finding, Need, Subject, Texts, ValidatingRule, fail, unknown
from webhook.rules.set_storage_class import LEGACY_ANNOTATION

LOCAL_PROVISIONERS = frozenset(
    {
        "kubernetes.io/no-provisioner",  # kubernetes/website:content/en/docs/concepts/storage/storage-classes.md (local)
        "rancher.io/local-path",  # rancher/local-path-provisioner:deploy/local-path-storage.yaml
        "openebs.io/local",  # openebs/dynamic-localpv-provisioner; the default class of KubeSphere's installer
        "local.csi.openebs.io",  # openebs/lvm-localpv
        "zfs.csi.openebs.io",  # openebs/zfs-localpv
        "topolvm.io",  # topolvm/topolvm
        "topolvm.cybozu.com",  # topolvm/topolvm, before it had a name of its own
        "directpv-min-io",  # minio/directpv
        "localplugin.csi.alibabacloud.com",  # kubernetes-sigs/alibaba-cloud-csi-driver:pkg/local
        "hostpath.csi.k8s.io",  # kubernetes-csi/csi-driver-host-path
        "k8s.io/minikube-hostpath",  # kubernetes/minikube:deploy/addons/storageclass
    }
)
"""Provisioners whose volumes stay on the node where they were made."""

Refusal = Literal["hostPath", "emptyDirDisk", "localClass"]


class _Mount(NamedTuple):
    """A volume, and where some container sees it."""

    volume: Mapping[str, Any]
    path: Path
    mount: str
    container: str

    @property
    def args(self) -> dict[str, Any]:
        """How texts name it."""
        return {"mount": self.mount, "container": self.container, "volume": self.volume.get("name")}


class CheckStorage(ValidatingRule):
    """Judges what is mounted at or below some paths, in any container of a pod.

    A claim whose storage class is not known cannot be judged; one that is known not to exist is not judged, for the pod
    waits for it.

    Attributes:
        refuse: a directory of the node, an emptyDir that is not in memory, a storage class whose volumes stay on one
            node.
        for_mounts: absolute paths; what is mounted at one of them or below is judged.
    """

    type: ClassVar[str] = "checkStorage"
    asks: ClassVar[frozenset[str]] = frozenset({"PersistentVolumeClaim", "StorageClass"})
    scope: ClassVar[frozenset[Need]] = frozenset({"all"})
    texts: ClassVar[Texts] = {
        "hostPath": {
            "en": (
                "{mount} of container {container} is the directory {directory} of whichever node the pod lands on",
                "mount a PersistentVolumeClaim at {mount} in place of volume {volume}",
            ),
            "zh": (
                "容器 {container} 的 {mount} 是 Pod 所在节点的目录 {directory}，换一个节点数据就不在了",
                "请用 PersistentVolumeClaim 代替卷 {volume} 挂载到 {mount}",
            ),
        },
        "emptyDirDisk": {
            "en": (
                "{mount} of container {container} is an emptyDir on the node's disk, which is deleted with the pod",
                "mount a PersistentVolumeClaim at {mount} in place of volume {volume}",
            ),
            "zh": (
                "容器 {container} 的 {mount} 是节点磁盘上的 emptyDir，会随 Pod 一起删除",
                "请用 PersistentVolumeClaim 代替卷 {volume} 挂载到 {mount}",
            ),
        },
        "localClass": {
            "en": (
                "{mount} of container {container} is of storage class {present} ({provisioner}), whose volumes stay on one node",
                "use a storage class that every node can reach for volume {volume}",
            ),
            "zh": (
                "容器 {container} 的 {mount} 使用存储类 {present}（{provisioner}），其卷只在一个节点上",
                "请为卷 {volume} 使用所有节点都能访问的存储类",
            ),
        },
    }

    refuse: Annotated[tuple[Refusal, ...], Field(min_length=1, strict=False)]
    for_mounts: Annotated[
        tuple[Annotated[str, AfterValidator(absolute_path)], ...], Field(min_length=1, strict=False)
    ] = ("/",)

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        """See `ValidatingRule.validate_subject`."""
        mounted = self._mounted(subject.once(containers))
        for index, volume in enumerate(list_at(subject.object, ("spec", "volumes")) if mounted else ()):
            name = value_at(volume, ("name",))
            where = mounted.get(name) if isinstance(name, str) else None
            if where is not None:
                found = self._judge(subject, _Mount(volume, ("spec", "volumes", index), *where))
                yield from [found] if found else []

    def _mounted(self, every: tuple[Container, ...]) -> dict[str, tuple[str, str]]:
        """By volume, the first path that matters where it is mounted, and the container."""
        found: dict[str, tuple[str, str]] = {}
        for container in every:
            for mount in list_at(container.value, ("volumeMounts",)):
                path = value_at(mount, ("mountPath",))
                if isinstance(path, str) and self._matters(path):
                    name = value_at(mount, ("name",))
                    if isinstance(name, str):
                        found.setdefault(name, (path, container.name))
        return found

    @cached_property
    def _matters(self) -> Callable[[str], bool]:
        return at_or_below(self.for_mounts)

    def _judge(self, subject: Subject, mount: _Mount) -> Finding | None:
        """What is wrong with one volume; a volume has one source."""
        directory = value_at(mount.volume, ("hostPath", "path"))
        if directory is not None:
            place = (*mount.path, "hostPath", "path")
            return self._refused("hostPath", place, mount, directory=directory)
        if _is_empty_dir(mount.volume):
            on_disk = not value_at(mount.volume, ("emptyDir", "medium"))
            place = (*mount.path, *(("emptyDir",) if "emptyDir" in mount.volume else ()))
            return self._refused("emptyDirDisk", place, mount) if on_disk else None
        return self._judge_class(subject, mount) if "localClass" in self.refuse else None

    def _refused(self, refusal: Refusal, place: Path, mount: _Mount, **args: object) -> Finding | None:
        return fail(refusal, place, **mount.args, **args) if refusal in self.refuse else None

    def _judge_class(self, subject: Subject, mount: _Mount) -> Finding | None:
        place, found = _storage_class(subject, mount)
        if isinstance(found, Unknown):
            return replace(unknown(found), path=place)
        if found is None or found.provisioner not in LOCAL_PROVISIONERS:
            return None
        return fail("localClass", place, **mount.args, present=found.name, provisioner=found.provisioner)


def _is_empty_dir(volume: Mapping[str, Any]) -> bool:
    """Whether a volume is an emptyDir, as one without a source becomes.

    Source: kubernetes/kubernetes:pkg/apis/core/v1/defaults.go, SetDefaults_Volume.
    """
    sources = [key for key, source in volume.items() if key != "name" and source is not None]
    return sources in ([], ["emptyDir"])


def _storage_class(subject: Subject, mount: _Mount) -> tuple[Path, StorageClass | Unknown | None]:
    """Where a volume's storage class is said, and what it is; None where it has none, or one that does not exist."""
    claim = value_at(mount.volume, ("persistentVolumeClaim", "claimName"))
    if isinstance(claim, str):
        name = subject.facts.claim_class(subject.request.namespace, claim)
        place = (*mount.path, "persistentVolumeClaim", "claimName")
        return place, name if isinstance(name, Unknown) else _class_named(subject, name)
    template = mapping_at(mount.volume, ("ephemeral", "volumeClaimTemplate"))
    if not template:
        return mount.path, None
    base = (*mount.path, "ephemeral", "volumeClaimTemplate")
    legacy = mapping_at(template, ("metadata", "annotations")).get(LEGACY_ANNOTATION)
    if legacy is not None:
        return (*base, "metadata", "annotations", LEGACY_ANNOTATION), _class_named(subject, legacy)
    name = value_at(template, ("spec", "storageClassName"))
    if name is not None:
        return (*base, "spec", "storageClassName"), _class_named(subject, name)
    return base, _default_class(subject)


def _class_named(subject: Subject, name: Any) -> StorageClass | Unknown | None:
    return subject.facts.storage_class(name) if name and isinstance(name, str) else None


def _default_class(subject: Subject) -> StorageClass | Unknown | None:
    """What a claim without a class gets; of several default classes the newest, which facts do not tell: then none is judged."""
    defaults = subject.facts.default_storage_classes()
    if isinstance(defaults, Unknown):
        return defaults
    return defaults[0] if len(defaults) == 1 else None
