"""requestRDMA: the RDMA devices of the pool's fabric, for the containers that hold the accelerators."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from webhook.documents import Path
from webhook.facts import Rdma, Unknown
from webhook.kube.field_path import list_at, mapping_at, value_at
from webhook.kube.managed_fields import owns
from webhook.kube.pod import Container, container_requests, containers
from webhook.kube.quantity import QuantityError, parse_quantity
from webhook.rules.base import Finding, Mode, MutatingRule, Subject, Texts, fail, skip

INJECTOR_ANNOTATIONS = (
    "cni.spidernet.io/rdma-resource-inject",
    "cni.spidernet.io/network-resource-inject",
    "k8s.v1.cni.cncf.io/networks",
    "networking.gke.io/interfaces",
)
"""Whoever sets one of these gives the pod its network devices.

Sources: spidernet-io/spiderpool:pkg/podmanager/utils.go, k8snetworkplumbingwg/network-resources-injector:pkg/webhook/webhook.go.
"""

CEILINGS = {"warn": Mode.WARN, "fail": Mode.ENFORCE}


class RequestRDMA(MutatingRule):
    """Requests RDMA devices, request = limit, where the accelerator is: never `containers[0]` by position."""

    type: ClassVar[str] = "requestRDMA"
    texts: ClassVar[Texts] = {
        "no accelerator": {
            "en": (
                "no container of the pod holds an accelerator",
                "nothing: RDMA goes where the accelerators are",
            ),
            "zh": ("Pod 中没有容器持有加速卡", "无需处理：RDMA 只注入到持有加速卡的容器"),
        },
        "stands aside": {
            "en": ("no RDMA is added: {why}", "remove it if podgate shall request RDMA for the pod"),
            "zh": ("未注入 RDMA：{why}", "如需由 podgate 申请 RDMA，请移除该设置"),
        },
        "no pool": {
            "en": (
                "no pool with a fabric fits the pod, so no RDMA is added",
                "add an AcceleratorPool with rdma for {asked}",
            ),
            "zh": (
                "没有适合该 Pod 的带 RDMA 网络的资源池，未注入 RDMA",
                "请为 {asked} 添加带 rdma 的 AcceleratorPool",
            ),
        },
        "pool unclear": {
            "en": (
                "the pod could land in the pools {pools}, whose fabrics differ, so it is not clear which RDMA it needs",
                "choose one pool with a node selector, for example {example}",
            ),
            "zh": (
                "Pod 可能调度到资源池 {pools}，它们的 RDMA 网络不同，无法确定所需的 RDMA 资源",
                "请用节点选择指定一个资源池，例如 {example}",
            ),
        },
        "no whole number": {
            "en": (
                "{devices} of {per_node} accelerators of a node do not get a whole number of {count} {resource}",
                "ask for a share of the node that divides its RDMA devices, or state the RDMA request yourself",
            ),
            "zh": (
                "节点 {per_node} 张卡中的 {devices} 张无法分得整数个 {resource}（每节点 {count} 个）",
                "请调整卡数，或自行声明 RDMA 请求",
            ),
        },
        "devices per node": {
            "en": (
                "pool {pool} counts RDMA per node but does not say devicesPerNode",
                "add devicesPerNode to the pool",
            ),
            "zh": (
                "资源池 {pool} 按节点计算 RDMA，但未设置 devicesPerNode",
                "请在资源池中添加 devicesPerNode",
            ),
        },
        "capability forbidden": {
            "en": (
                "{capability} is left out: namespace {namespace} enforces the Pod Security level {level}",
                "use a namespace whose level is privileged, or RDMA may fail to lock memory",
            ),
            "zh": (
                "未添加 {capability}：命名空间 {namespace} 的 Pod 安全级别为 {level}",
                "请使用 privileged 级别的命名空间，否则 RDMA 可能无法锁定内存",
            ),
        },
        "capability unclear": {
            "en": ("{capability} is left out: {why}", "label the namespace with its Pod Security level"),
            "zh": ("未添加 {capability}：{why}", "请为命名空间标注 Pod 安全级别"),
        },
    }

    from_pool: bool = False
    resource_names: tuple[str, ...] = Field(default=(), strict=False)
    per: Literal["container", "accelerator", "node"] = "container"
    count: int = Field(default=1, ge=1)
    devices_per_node: int | None = Field(default=None, ge=1)
    when_pool_unclear: Literal["skip", "warn", "fail"] = "skip"
    capabilities: tuple[str, ...] = Field(default=(), strict=False)
    env: dict[str, str] = {}

    @model_validator(mode="after")
    def _one_source(self) -> "RequestRDMA":
        if self.from_pool == bool(self.resource_names):
            raise ValueError("give either fromPool: true or resourceNames")
        if self.per == "node" and not self.from_pool and self.devices_per_node is None:
            raise ValueError("per: node needs devicesPerNode")
        return self

    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        """See `MutatingRule.mutate`."""
        if not subject.workload.holders:
            yield skip("no accelerator")
            return
        fabric = self._fabric(subject)
        if isinstance(fabric, Finding):
            yield fabric
            return
        holders = _holders(subject)
        amounts = [_amount(fabric, _devices(subject, holder)) for holder in holders]
        why = _reason_to_stand_aside(subject, fabric.rdma.resource_names, holders, amounts)
        if why:
            yield skip("stands aside", why=why)
            return
        if any(amount is None for amount in amounts):
            yield _no_whole_number(subject, fabric, holders, amounts)
            return
        for holder, amount in zip(holders, amounts, strict=True):
            self._request(subject, key, holder, fabric.rdma.resource_names, str(amount))
        yield from self._add_capabilities(subject, key, holders)
        for holder in holders:
            self._add_env(subject, key, holder)

    def _fabric(self, subject: Subject) -> "_Fabric | Finding":
        if not self.from_pool:
            rdma = Rdma.model_construct(resource_names=self.resource_names, per=self.per, count=self.count)
            return _Fabric("", rdma, self.devices_per_node)
        pools = subject.possible_pools
        fabrics = [
            _Fabric(pool.name, pool.rdma, pool.devices_per_node) for pool in pools if pool.rdma is not None
        ]
        if not fabrics:
            return skip("no pool", asked=", ".join(subject.workload.accelerators))
        first = fabrics[0]
        if len(fabrics) == len(pools) and all(other.like(first) for other in fabrics):
            if first.rdma.per == "node" and first.devices_per_node is None:
                return skip("devices per node", pool=first.pool)
            return first
        label = next(iter(pools[0].node_labels.items()))
        names = ", ".join(pool.name for pool in pools)
        found = skip if self.when_pool_unclear == "skip" else fail
        unclear = found("pool unclear", pools=names, example=f"{label[0]}: {label[1]}")
        return replace(unclear, ceiling=CEILINGS.get(self.when_pool_unclear, Mode.ENFORCE))

    def _request(
        self, subject: Subject, key: str, holder: Container, names: tuple[str, ...], amount: str
    ) -> None:
        for name in names:
            for part in ("limits", "requests"):
                subject.draft.set((*holder.path, "resources", part, name), amount, key)

    def _add_capabilities(self, subject: Subject, key: str, holders: list[Container]) -> Iterator[Finding]:
        if not self.capabilities:
            return
        level = subject.facts.pod_security(subject.request.namespace)
        names = ", ".join(self.capabilities)
        if isinstance(level, Unknown):
            yield skip("capability unclear", capability=names, why=level.why)
        elif level != "privileged":
            yield skip(
                "capability forbidden", capability=names, namespace=subject.request.namespace, level=level
            )
        else:
            for holder in holders:
                for capability in self.capabilities:
                    _add_capability(subject, key, holder, capability)

    def _add_env(self, subject: Subject, key: str, holder: Container) -> None:
        for name, value in self.env.items():
            is_set = partial(_is_named, name)
            subject.draft.append((*holder.path, "env"), {"name": name, "value": value}, key, is_set, name)


class _Fabric:
    """What a pool says of its RDMA devices."""

    def __init__(self, pool: str, rdma: Rdma, devices_per_node: int | None) -> None:
        self.pool, self.rdma, self.devices_per_node = pool, rdma, devices_per_node

    def like(self, other: "_Fabric") -> bool:
        """Whether a pod gets the same devices from both."""
        same_ratio = self.rdma.per != "node" or self.devices_per_node == other.devices_per_node
        return self.rdma == other.rdma and same_ratio


def _is_named(name: str, entry: Any) -> bool:
    return bool(value_at(entry, ("name",)) == name)


def _holders(subject: Subject) -> list[Container]:
    wanted = set(subject.workload.holders)
    return [container for container in containers(subject.object) if container.path in wanted]


def _devices(subject: Subject, holder: Container) -> int:
    """Whole accelerators that one container asks for."""
    requests = container_requests(holder.value)
    return sum(int(requests.get(name, 0)) for name in subject.workload.accelerators)


def _amount(fabric: _Fabric, devices: int) -> int | None:
    """RDMA devices for a container with so many accelerators; None where that is no whole number from 1 up."""
    if fabric.rdma.per == "container":
        return fabric.rdma.count
    total = fabric.rdma.count * devices
    if fabric.rdma.per == "accelerator":
        return total or None
    whole, rest = divmod(total, fabric.devices_per_node or 1)
    return whole if whole and not rest else None


def _no_whole_number(
    subject: Subject, fabric: _Fabric, holders: list[Container], amounts: list[int | None]
) -> Finding:
    holder = holders[amounts.index(None)]
    return skip(
        "no whole number",
        (*holder.path, "resources"),
        devices=_devices(subject, holder),
        per_node=fabric.devices_per_node,
        count=fabric.rdma.count,
        resource=fabric.rdma.resource_names[0],
    )


def _reason_to_stand_aside(
    subject: Subject, names: tuple[str, ...], holders: list[Container], amounts: list[int | None]
) -> str:
    """Why the pod's network is somebody else's choice; "" if it is not."""
    pod = subject.object
    if value_at(pod, ("spec", "hostNetwork")) is True:
        return "the pod uses the host's network"
    if any(_is_infiniband(volume) for volume in list_at(pod, ("spec", "volumes"))):
        return "the pod mounts /dev/infiniband"
    annotation = _injector(subject)
    if annotation:
        return f"annotation {annotation} gives the pod its network devices"
    if subject.workload.claims_devices:
        return "the pod claims devices itself"
    if any(_disables_rdma(holder) for holder in holders):
        return "NCCL_IB_DISABLE=1"
    return _own_rdma(subject, names, holders, amounts)


def _is_infiniband(volume: Any) -> bool:
    path = value_at(volume, ("hostPath", "path"))
    return isinstance(path, str) and (path.rstrip("/") + "/").startswith("/dev/infiniband/")


def _injector(subject: Subject) -> str:
    annotations = mapping_at(subject.object, ("metadata", "annotations"))
    namespace = subject.received.namespace
    inherited = {} if isinstance(namespace, Unknown) else namespace.annotations
    return next(
        (
            name
            for name in INJECTOR_ANNOTATIONS
            if name in annotations or (name.startswith("cni.") and name in inherited)
        ),
        "",
    )


def _disables_rdma(holder: Container) -> bool:
    return any(
        value_at(entry, ("name",)) == "NCCL_IB_DISABLE" and value_at(entry, ("value",)) == "1"
        for entry in list_at(holder.value, ("env",))
    )


def _own_rdma(
    subject: Subject, names: tuple[str, ...], holders: list[Container], amounts: list[int | None]
) -> str:
    """The RDMA device that somebody chose; what this rule would write there itself, and no client wrote, is not one.

    Without managedFields nobody can tell: then the rule's own work is recognised by being complete.
    """
    wanted = {holder.path: amount for holder, amount in zip(holders, amounts, strict=True)}
    present = [
        (
            (*container.path, "resources", part, name),
            quantity,
            wanted.get(container.path) if name in names else None,
        )
        for container in containers(subject.object)
        for part in ("limits", "requests")
        for name, quantity in mapping_at(container.value, ("resources", part)).items()
        if subject.received.catalogue.is_rdma(name) or name in names
    ]
    expected = len(holders) * len(names) * 2
    for path, quantity, amount in present:
        mine = amount is not None and _is_amount(quantity, amount)
        known_mine = _client_wrote(subject, path) is False or len(present) == expected
        if not (mine and known_mine):
            return f"{path[-1]}: {quantity} is there already"
    return ""


def _is_amount(quantity: Any, amount: int) -> bool:
    try:
        return parse_quantity(quantity) == amount
    except QuantityError:
        return False


def _client_wrote(subject: Subject, path: Path) -> bool | None:
    """Whether managedFields shows a client's entry for a container's resource; lists of containers are keyed by name."""
    pod = subject.received.object
    name = value_at(pod, (*path[:3], "name"))
    keyed = ("spec", str(path[1]), f'k:{{"name":"{name}"}}', *map(str, path[3:]))
    return owns(value_at(pod, ("metadata", "managedFields")), keyed)


def _add_capability(subject: Subject, key: str, holder: Container, capability: str) -> None:
    context: Path = (*holder.path, "securityContext")
    if value_at(subject.object, (*context, "privileged")) is True:
        return
    dropped = {_plain(name) for name in list_at(subject.object, (*context, "capabilities", "drop"))}
    if _plain(capability) in dropped:
        return
    subject.draft.append(
        (*context, "capabilities", "add"),
        capability,
        key,
        lambda item: _plain(item) in (_plain(capability), "ALL"),
        _plain(capability),
    )


def _plain(capability: Any) -> str:
    """A capability without its prefix, as container runtimes compare them."""
    return str(capability).upper().removeprefix("CAP_")
