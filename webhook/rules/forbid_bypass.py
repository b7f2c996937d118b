"""forbidBypass: no container gets at accelerators without asking for them."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, model_validator

from webhook.documents import Path
from webhook.kube.field_path import list_at, value_at
from webhook.kube.file_path import absolute_path, path_parts
from webhook.kube.globs import glob_matches
from webhook.kube.pod import Container, containers
from webhook.rules.base import Finding, Need, Subject, Texts, ValidatingRule, fail

HARMLESS = ("", "void", "none")
"""Values with which a container runtime shows no device (NVIDIA/nvidia-container-toolkit:internal/config/image/devices.go)."""

AbsolutePath = Annotated[str, AfterValidator(absolute_path)]


class ForbidBypass(ValidatingRule):
    """Judges the ways past the scheduler and the device plugin: variables that runtimes obey, host paths, privilege.

    A variable is judged in each container by itself, and passes where that container holds an accelerator or names a device
    claim. What an image sets, and what `envFrom` brings in, is not seen here. Every hostPath volume of a pod counts, mounted
    or not: an ephemeral container may mount it later.

    Attributes:
        env: names of variables, or globs of them.
        host_paths: absolute paths of the node, or globs of them; a volume of such a path, of something in it or above
            it fails.
        privileged: whether privileged containers fail.
    """

    type: ClassVar[str] = "forbidBypass"
    scope: ClassVar[frozenset[Need]] = frozenset({"env", "hostPaths", "privileged"})
    texts: ClassVar[Texts] = {
        "env": {
            "en": (
                "container {container} sets {variable}, which gives it accelerators that it does not ask for",
                "remove {variable}, or ask for an accelerator in the resources of container {container}",
            ),
            "zh": (
                "容器 {container} 设置了 {variable}，会得到它没有申请的加速卡",
                "请移除 {variable}，或在容器 {container} 的 resources 中申请加速卡",
            ),
        },
        "env of an ephemeral container": {
            "en": (
                "ephemeral container {container} sets {variable}, which gives it accelerators that others hold",
                "remove {variable}, and look at accelerators from the container that holds them",
            ),
            "zh": (
                "临时容器 {container} 设置了 {variable}，会得到其他容器持有的加速卡",
                "请移除 {variable}，并在持有加速卡的容器中查看",
            ),
        },
        "hostPath": {
            "en": (
                "volume {volume} is {directory} of the node, which gives access to {pattern} past the scheduler",
                "remove volume {volume}; devices come with the resources that a container asks for",
            ),
            "zh": (
                "卷 {volume} 是节点的 {directory}，可绕过调度器访问 {pattern}",
                "请移除卷 {volume}；设备应通过容器的 resources 申请",
            ),
        },
        "privileged": {
            "en": (
                "container {container} is privileged, which gives it every device of the node past the scheduler",
                "remove securityContext.privileged, and add the single capabilities that it needs",
            ),
            "zh": (
                "容器 {container} 是特权容器，可绕过调度器访问节点上的所有设备",
                "请移除 securityContext.privileged，只添加所需的能力",
            ),
        },
    }

    env: Annotated[tuple[str, ...], Field(strict=False)] = ()
    host_paths: Annotated[tuple[AbsolutePath, ...], Field(strict=False)] = ()
    privileged: bool = False

    @model_validator(mode="after")
    def _something(self) -> "ForbidBypass":
        if not (self.env or self.host_paths or self.privileged):
            raise ValueError("give at least one of env, hostPaths and privileged: true")
        return self

    @property
    def needs(self) -> Mapping[Need, tuple[str, ...]]:
        """See `Rule.needs`; a folder above a forbidden path counts too, so every host path matters."""
        given: dict[Need, tuple[str, ...]] = {}
        if self.env:
            given["env"] = self.env
        if self.host_paths:
            given["hostPaths"] = ()
        if self.privileged:
            given["privileged"] = ()
        return given

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        """See `ValidatingRule.validate_subject`."""
        holders = set(subject.workload.holders)
        for container in subject.once(containers):
            if self.env and container.path not in holders:
                yield from self._variables(container)
            if self.privileged and value_at(container.value, ("securityContext", "privileged")) is True:
                place = (*container.path, "securityContext", "privileged")
                yield fail("privileged", place, container=container.name)
        for index, directory in subject.host_paths if self.host_paths else ():
            yield from self._host_path(subject, ("spec", "volumes", index), directory)

    def _variables(self, container: Container) -> Iterator[Finding]:
        text = "env of an ephemeral container" if container.role == "ephemeral" else "env"
        for index, entry in enumerate(list_at(container.value, ("env",))):
            name = value_at(entry, ("name",))
            if isinstance(name, str) and self._is_forbidden(name) and not _is_harmless(entry):
                place = (*container.path, "env", index)
                yield fail(text, place, container=container.name, variable=name)

    def _is_forbidden(self, name: str) -> bool:
        return any(glob_matches(pattern, name) for pattern in self.env)

    def _host_path(self, subject: Subject, place: Path, directory: str) -> Iterator[Finding]:
        for pattern in self.host_paths:
            if _reaches(directory, pattern):
                name = value_at(subject.object, (*place, "name"))
                path = (*place, "hostPath", "path")
                yield fail("hostPath", path, volume=name, directory=directory, pattern=pattern)
                return


def _is_harmless(entry: Any) -> bool:
    """Whether a variable shows no device; a value from elsewhere is not known, and counts as set."""
    if value_at(entry, ("valueFrom",)) is not None:
        return False
    return (value_at(entry, ("value",)) or "") in HARMLESS


def _reaches(directory: str, pattern: str) -> bool:
    """Whether a directory of the node is what a pattern names, something in it, or above it."""
    return all(
        glob_matches(wanted, part)
        for wanted, part in zip(path_parts(pattern), path_parts(directory), strict=False)
    )
