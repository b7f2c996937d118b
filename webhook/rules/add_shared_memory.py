"""addSharedMemory: a /dev/shm large enough for data loaders and collectives."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from webhook.documents import Path
from webhook.kube.field_path import is_named, list_at, value_at
from webhook.kube.file_path import path_parts
from webhook.kube.pod import Container
from webhook.kube.quantity import QuantityError, parse_quantity
from webhook.rules.base import Finding, MutatingRule, Subject, Texts, skip
from webhook.rules.parameters import BytesParameter

VOLUME = "dshm"
MOUNT_PATH = "/dev/shm"  # noqa: S108 - a place inside the container
_MOUNT_PARTS = path_parts(MOUNT_PATH)
VOLUMES: Path = ("spec", "volumes")
HOST_IPC: Path = ("spec", "hostIPC")


class AddSharedMemory(MutatingRule):
    """Mounts a memory volume at /dev/shm of the containers that hold an accelerator; the runtime gives 64 MiB otherwise.

    What a container writes there counts as its memory. `sizeLimit` is an upper bound: where the pod's memory limits are lower,
    the kubelet makes the volume that small (kubernetes/kubernetes:pkg/volume/emptydir/empty_dir.go, calculateEmptyDirMemorySize).

    Attributes:
        size_limit: how large the volume may become, in whole bytes.
    """

    type: ClassVar[str] = "addSharedMemory"
    texts: ClassVar[Texts] = {
        "no accelerator": {
            "en": (
                "no container of the pod holds an accelerator",
                "nothing: shared memory goes where the accelerators are",
            ),
            "zh": ("Pod 中没有容器持有加速卡", "无需处理：共享内存只添加到持有加速卡的容器"),
        },
        "taken": {
            "en": (
                "the container keeps its own mount at /dev/shm",
                "nothing, or remove the mount if podgate shall size the shared memory",
            ),
            "zh": (
                "容器保留自己在 /dev/shm 的挂载",
                "无需处理；如需由 podgate 设置共享内存大小，请移除该挂载",
            ),
        },
        "other volume": {
            "en": (
                "no shared memory is added: the pod has another volume named {volume}",
                "mount it at /dev/shm yourself, or give it another name",
            ),
            "zh": (
                "未添加共享内存：Pod 中已有另一个名为 {volume} 的卷",
                "请自行将其挂载到 /dev/shm，或改用其他名称",
            ),
        },
        "host": {
            "en": (
                "no shared memory is added: with hostIPC the pod shares the node's /dev/shm",
                "nothing, or remove hostIPC if the pod needs shared memory of its own",
            ),
            "zh": (
                "未添加共享内存：启用 hostIPC 的 Pod 使用节点的 /dev/shm",
                "无需处理；如需独立的共享内存，请移除 hostIPC",
            ),
        },
    }

    size_limit: BytesParameter

    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        """See `MutatingRule.mutate`."""
        found = subject.holders
        if not found:
            yield skip("no accelerator", ("spec", "containers"))
        elif value_at(subject.object, HOST_IPC) is True:
            yield skip("host", HOST_IPC)
        else:
            yield from self._mount(subject, key, found)

    def _mount(self, subject: Subject, key: str, found: tuple[Container, ...]) -> Iterator[Finding]:
        place, volume = _volume(subject.object)
        is_other = volume is not None and not self._is_wanted(volume)
        free = []
        for holder in found:
            taken, name = _mount_of(holder)
            if not taken:
                free.append(holder)
            elif is_other or name != VOLUME:
                yield skip("taken", taken)
        if free and is_other:
            yield skip("other volume", place, volume=VOLUME)
        elif free:
            self._add(subject, key, free)

    def _add(self, subject: Subject, key: str, free: list[Container]) -> None:
        source = {"medium": "Memory", "sizeLimit": self.size_limit}
        is_ours = partial(is_named, VOLUME)
        subject.draft.append(VOLUMES, {"name": VOLUME, "emptyDir": source}, key, is_ours, VOLUME)
        for holder in free:
            mount = {"name": VOLUME, "mountPath": MOUNT_PATH}
            subject.draft.append((*holder.path, "volumeMounts"), mount, key, _is_at_shm, MOUNT_PATH)

    def _is_wanted(self, volume: Any) -> bool:
        """Whether a volume is as this rule makes it, however its size is spelt."""
        try:
            size = parse_quantity(value_at(volume, ("emptyDir", "sizeLimit")))
        except QuantityError:
            return False
        is_memory = value_at(volume, ("emptyDir", "medium")) == "Memory"
        return is_memory and size == parse_quantity(self.size_limit)


def _volume(pod: Mapping[str, Any]) -> tuple[Path, Any]:
    """Where a volume of our name is, and the volume."""
    for index, volume in enumerate(list_at(pod, VOLUMES)):
        if is_named(VOLUME, volume):
            return (*VOLUMES, index), volume
    return (), None


def _mount_of(container: Container) -> tuple[Path, Any]:
    """Where a container's mount at /dev/shm is, and the name of its volume."""
    for index, mount in enumerate(list_at(container.value, ("volumeMounts",))):
        if _is_at_shm(mount):
            return (*container.path, "volumeMounts", index), value_at(mount, ("name",))
    return (), None


def _is_at_shm(mount: Any) -> bool:
    """Whether a mount is at /dev/shm for the runtime, which cleans paths; the kubelet makes them absolute.

    Source: kubernetes/kubernetes:pkg/kubelet/kubelet_pods.go, makeMounts.
    """
    path = value_at(mount, ("mountPath",))
    return isinstance(path, str) and path_parts(path) == _MOUNT_PARTS
