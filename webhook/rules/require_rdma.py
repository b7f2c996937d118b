"""requireRDMA: accelerators that talk to other nodes do it through RDMA, and may lock memory for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from webhook.documents import Path
from webhook.facts import Unknown
from webhook.kube.field_path import list_at, mapping_at, value_at
from webhook.kube.file_path import path_parts
from webhook.kube.pod import Container, Requests, containers
from webhook.kube.templates.references import text_or_empty
from webhook.rules.base import Finding, Need, Subject, Texts, ValidatingRule, fail, skip, unknown
from webhook.rules.rdma import (
    DEVICE_FOLDER,
    SWITCH,
    added_capabilities,
    dropped_capabilities,
    injector,
    switched_off,
)

CLAIMS: Path = ("spec", "resourceClaims")
LOCK = "IPC_LOCK"
EXAMPLE = "rdma/ib"


_Devices = Mapping[Path, Sequence[str]]
"""The RDMA devices that each container asks for, by its path."""


class RequireRDMA(ValidatingRule):
    """Judges accelerator pods that span nodes, and every container that has RDMA.

    RDMA is a device by name, a device claim for something besides accelerators, or the host's own: its network together with
    /dev/infiniband, which privileged containers see as well. Where all possible pools are known and none has a fabric,
    there is nothing to require.
    """

    type: ClassVar[str] = "requireRDMA"
    asks: ClassVar[frozenset[str]] = frozenset({"Namespace", "ResourceClaim", "ResourceClaimTemplate"})
    scope: ClassVar[frozenset[Need]] = frozenset({"devices", "claims", "rdma"})
    texts: ClassVar[Texts] = {
        "missing": {
            "en": (
                "the pod talks to accelerators on other nodes ({evidence}) but has no RDMA, so it would do so over TCP",
                "request an RDMA device such as {resource} in the containers that hold the accelerators",
            ),
            "zh": (
                "Pod 需要与其他节点的加速卡通信（{evidence}），但没有 RDMA，只能走 TCP",
                "请在持有加速卡的容器中申请 RDMA 设备，例如 {resource}",
            ),
        },
        "switched off": {
            "en": (
                "RDMA is switched off by {switch} in container {container}, but the pod talks to accelerators on other nodes ({evidence})",
                "remove {switch}, or set it to 0",
            ),
            "zh": (
                "容器 {container} 用 {switch} 关闭了 RDMA，但 Pod 需要与其他节点的加速卡通信（{evidence}）",
                "请移除 {switch}，或将其设为 0",
            ),
        },
        "no lock": {
            "en": (
                "container {container} has {resource} but not the capability IPC_LOCK, so RDMA may fail to lock memory",
                "add IPC_LOCK to securityContext.capabilities.add of the container",
            ),
            "zh": (
                "容器 {container} 申请了 {resource}，但没有 IPC_LOCK 能力，RDMA 可能无法锁定内存",
                "请在该容器的 securityContext.capabilities.add 中添加 IPC_LOCK",
            ),
        },
        "alone": {
            "en": ("no accelerator talks to another node: {evidence}", "nothing: such a pod needs no RDMA"),
            "zh": ("没有跨节点的加速卡通信：{evidence}", "无需处理：这样的 Pod 不需要 RDMA"),
        },
        "no fabric": {
            "en": (
                "none of the pools that the pod could land in has a fabric: {pools}",
                "nothing, or state rdma in the pool if its nodes have RDMA",
            ),
            "zh": (
                "Pod 可能调度到的资源池都没有 RDMA 网络：{pools}",
                "无需处理；如果节点有 RDMA，请在资源池中设置 rdma",
            ),
        },
        "injected": {
            "en": (
                "annotation {annotation} gives the pod its network devices in the cluster, which a file does not show",
                "nothing: the webhook judges the pod when it is created",
            ),
            "zh": (
                "注解 {annotation} 会在集群中为 Pod 注入网络设备，文件中看不到",
                "无需处理：创建 Pod 时 webhook 会再次检查",
            ),
        },
    }

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        """See `ValidatingRule.validate_subject`."""
        devices = {path: _devices(subject, asked) for path, asked in subject.requests.items()}
        yield from _without_lock(subject, devices)
        evidence = subject.workload.communication_evidence
        pools = subject.possible_pools
        if subject.workload.communication == "none":
            yield skip("alone", evidence=evidence)
        elif pools and all(pool.rdma is None for pool in pools):
            yield skip("no fabric", pools=", ".join(pool.name for pool in pools))
        else:
            yield from _without_rdma(subject, devices, evidence)


def _without_rdma(subject: Subject, devices: _Devices, evidence: str) -> Iterator[Finding]:
    held = subject.holders
    for holder in held:
        place = switched_off(holder)
        if place:
            yield fail("switched off", place, switch=SWITCH, container=holder.name, evidence=evidence)
            return
    if any(devices[holder.path] for holder in held) or _has_host_rdma(subject, held):
        return
    claimed = _claims_network(subject)
    # A created pod already has what such a webhook gives.
    annotation = "" if subject.request.from_api_server else injector(subject)
    if isinstance(claimed, Unknown):
        yield replace(unknown(claimed), path=CLAIMS)
    elif annotation:
        yield skip("injected", ("metadata", "annotations"), annotation=annotation)
    elif not claimed:
        place = (*held[0].path, "resources") if held else ("spec",)
        yield fail("missing", place, evidence=evidence, resource=_wanted(subject))


def _without_lock(subject: Subject, devices: _Devices) -> Iterator[Finding]:
    for container in subject.once(containers):
        own = devices[container.path]
        if own and not _may_lock(container):
            part = "limits" if value_at(container.value, ("resources", "limits", own[0])) else "requests"
            place = (*container.path, "resources", part, own[0])
            yield fail("no lock", place, container=container.name, resource=own[0])


def _devices(subject: Subject, asked: Requests) -> list[str]:
    """The RDMA devices that a container asks for, by the catalogue or as a pool names them; 0 is none."""
    by_pools, is_rdma = subject.received.fabric_resources, subject.received.catalogue.is_rdma
    return [
        name
        for name, quantity in asked.items()
        if "/" in name and quantity > 0 and (name in by_pools or is_rdma(name))
    ]


def _may_lock(container: Container) -> bool:
    """Whether a container has IPC_LOCK; what is dropped last is gone."""
    context = mapping_at(container.value, ("securityContext",))
    has_it = not added_capabilities(context).isdisjoint({LOCK, "ALL"})
    return context.get("privileged") is True or (has_it and LOCK not in dropped_capabilities(context))


def _claims_network(subject: Subject) -> bool | Unknown:
    """Whether a device claim is for something besides accelerators, which beside them is their network."""
    for claim in list_at(subject.object, CLAIMS):
        classes = subject.facts.device_classes(
            subject.request.namespace, claim if isinstance(claim, dict) else {}
        )
        if isinstance(classes, Unknown):
            return classes
        if any(subject.received.catalogue.device_class(name) is None for name in classes):
            return True
    return False


def _has_host_rdma(subject: Subject, held: tuple[Container, ...]) -> bool:
    if value_at(subject.object, ("spec", "hostNetwork")) is not True:
        return False
    volumes = {
        _name(volume)
        for volume in list_at(subject.object, ("spec", "volumes"))
        if _shows_devices(value_at(volume, ("hostPath", "path")))
    } - {""}
    return any(
        value_at(holder.value, ("securityContext", "privileged")) is True
        or any(_name(mount) in volumes for mount in list_at(holder.value, ("volumeMounts",)))
        for holder in held
    )


def _name(thing: Any) -> str:
    """A volume's name, or the one that a mount names; "" where it is no text, as in a template of another controller."""
    return text_or_empty(value_at(thing, ("name",)))


def _shows_devices(path: Any) -> bool:
    """Whether a directory of the node is /dev/infiniband, something in it, or above it."""
    return isinstance(path, str) and all(
        part == device for part, device in zip(path_parts(path), DEVICE_FOLDER, strict=False)
    )


def _wanted(subject: Subject) -> str:
    fabrics = [pool.rdma for pool in subject.possible_pools if pool.rdma]
    return ", ".join(fabrics[0].resource_names) if fabrics else EXAMPLE
