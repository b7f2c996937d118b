"""requestRDMA: the RDMA devices of the pool's fabric, for the containers that hold the accelerators."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from webhook.documents import Path
from webhook.facts import AcceleratorPool, Rdma, Unknown
from webhook.facts.pools import ExtendedResource
from webhook.kube.field_path import is_named, list_at, mapping_at, value_at
from webhook.kube.file_path import path_parts
from webhook.kube.managed_fields import owns
from webhook.kube.pod import Container, containers
from webhook.kube.quantity import QuantityError, parse_quantity
from webhook.rules.base import Finding, Mode, MutatingRule, Subject, Texts, fail, skip
from webhook.rules.holders import devices_in
from webhook.rules.rdma import (
    DEVICE_FOLDER,
    added_capabilities,
    dropped_capabilities,
    injector,
    plain_capability,
    switched_off,
)

ALLOWED_CAPABILITIES = {
    "restricted": frozenset({"NET_BIND_SERVICE"}),
    "baseline": frozenset(
        [
            "AUDIT_WRITE",
            "CHOWN",
            "DAC_OVERRIDE",
            "FOWNER",
            "FSETID",
            "KILL",
            "MKNOD",
            "NET_BIND_SERVICE",
            "SETFCAP",
            "SETGID",
            "SETPCAP",
            "SETUID",
            "SYS_CHROOT",
        ]
    ),
}
"""What may be added at a Pod Security level (kubernetes/pod-security-admission:policy/check_capabilities_{restricted,baseline}.go);
privileged allows all. A level that Kubernetes cannot read counts as restricted (api/helpers.go, ParseLevel)."""

CEILINGS = {"warn": Mode.WARN, "fail": Mode.ENFORCE}


class RequestRDMA(MutatingRule):
    """Requests RDMA devices, request = limit, where the accelerator is: never `containers[0]` by position.

    Attributes:
        from_pool: take resources, counts and `devicesPerNode` from the pool in which the pod lands.
        resource_names: the RDMA resources, all of them, where no pool says them.
        per: what `count` is for: a container with accelerators, each accelerator, or a node, of which a container
            gets its share.
        count: how many of each resource.
        devices_per_node: how many accelerators a node has, for `per: node`.
        when_pool_unclear: what it is when the possible pools have different fabrics; nothing is written in any case.
        capabilities: capabilities that the containers get besides, where the namespace's Pod Security level allows
            them.
        env: environment variables that the containers get besides, where they are not set.
    """

    type: ClassVar[str] = "requestRDMA"
    asks: ClassVar[frozenset[str]] = frozenset({"Namespace", "ResourceClaim", "ResourceClaimTemplate"})
    texts: ClassVar[Texts] = {
        "no accelerator": {
            "en": (
                "no container of the pod holds an accelerator",
                "nothing: RDMA goes where the accelerators are",
            ),
            "zh": ("Pod 中没有容器持有加速卡", "无需处理：RDMA 只注入到持有加速卡的容器"),
        },
        "host network": {
            "en": (
                "the pod uses the host's network, so no RDMA is added",
                "nothing, or remove hostNetwork if podgate shall request RDMA",
            ),
            "zh": ("Pod 使用主机网络，未注入 RDMA", "无需处理；如需由 podgate 申请 RDMA，请移除 hostNetwork"),
        },
        "infiniband": {
            "en": (
                "the pod mounts {mounted} of the node, so no RDMA is added",
                "nothing, or remove the volume if podgate shall request RDMA",
            ),
            "zh": (
                "Pod 挂载了节点的 {mounted}，未注入 RDMA",
                "无需处理；如需由 podgate 申请 RDMA，请移除该卷",
            ),
        },
        "injector": {
            "en": (
                "annotation {annotation} gives the pod its network devices, so no RDMA is added",
                "nothing, or remove the annotation if podgate shall request RDMA",
            ),
            "zh": (
                "注解 {annotation} 已为 Pod 提供网络设备，未注入 RDMA",
                "无需处理；如需由 podgate 申请 RDMA，请移除该注解",
            ),
        },
        "network claim": {
            "en": (
                "the pod claims devices of class {claimed} itself, so no RDMA is added",
                "nothing, or remove the claim if podgate shall request RDMA",
            ),
            "zh": (
                "Pod 通过 ResourceClaim 申请了 {claimed} 类设备，未注入 RDMA",
                "无需处理；如需由 podgate 申请 RDMA，请移除该声明",
            ),
        },
        "claim unclear": {
            "en": (
                "the pod's device claim may be for a network device, so no RDMA is added: {why}",
                "give podgate the ResourceClaim",
            ),
            "zh": (
                "Pod 的设备声明可能包含网络设备，未注入 RDMA：{why}",
                "请为 podgate 提供 ResourceClaim 信息",
            ),
        },
        "disabled": {
            "en": (
                "NCCL_IB_DISABLE=1 turns RDMA off, so none is added",
                "nothing, or remove the variable if podgate shall request RDMA",
            ),
            "zh": (
                "NCCL_IB_DISABLE=1 已关闭 RDMA，未注入",
                "无需处理；如需由 podgate 申请 RDMA，请移除该变量",
            ),
        },
        "own devices": {
            "en": (
                "the pod states {resource}: {quantity} itself, so no RDMA is added",
                "nothing, or remove it if podgate shall request RDMA",
            ),
            "zh": (
                "Pod 已自行声明 {resource}：{quantity}，未注入 RDMA",
                "无需处理；如需由 podgate 申请 RDMA，请移除该声明",
            ),
        },
        "shared": {
            "en": (
                "the pod's accelerators are shared ({sharing}), so no RDMA is added",
                "ask for whole accelerators if the pod needs RDMA",
            ),
            "zh": ("Pod 使用共享加速卡（{sharing}），未注入 RDMA", "如需 RDMA，请申请整卡"),
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
    resource_names: tuple[ExtendedResource, ...] = Field(default=(), strict=False)
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
        beside = self.model_fields_set & {"per", "count", "devices_per_node"}
        if self.from_pool and beside:
            names = ", ".join(sorted(map(to_camel, beside)))
            raise ValueError(f"with fromPool the pool says per, count and devicesPerNode; remove {names}")
        if not self.from_pool and "when_pool_unclear" in self.model_fields_set:
            raise ValueError("whenPoolUnclear needs fromPool: true")
        if self.per == "node" and not self.from_pool and self.devices_per_node is None:
            raise ValueError("per: node needs devicesPerNode")
        return self

    def mutate(self, subject: Subject, key: str) -> Iterator[Finding]:
        """See `MutatingRule.mutate`."""
        held = subject.holders
        fabric = _unfit(subject) or _chosen_otherwise(subject, held) or self._fabric(subject)
        if isinstance(fabric, Finding):
            # Whoever states devices himself need not be told which pool is unclear.
            yield _own_devices(subject, (), held, [None] * len(held)) or fabric
            return
        amounts = [_amount(fabric, devices_in(subject, holder)) for holder in held]
        obstacle = _own_devices(subject, fabric.rdma.resource_names, held, amounts)
        if obstacle or None in amounts:
            yield obstacle or _no_whole_number(subject, fabric, held, amounts)
            return
        for holder, amount in zip(held, amounts, strict=True):
            self._request(subject, key, holder, fabric.rdma.resource_names, str(amount))
        yield from self._add_capabilities(subject, key, held)
        for holder in held:
            self._add_env(subject, key, holder)

    def _fabric(self, subject: Subject) -> "_Fabric | Finding":
        if not self.from_pool:
            rdma = Rdma.model_construct(resource_names=self.resource_names, per=self.per, count=self.count)
            return _Fabric(rdma, self.devices_per_node)
        pools = subject.possible_pools
        fabrics = [_Fabric(pool.rdma, pool.devices_per_node) for pool in pools if pool.rdma is not None]
        if not fabrics:
            return skip("no pool", asked=", ".join(subject.workload.accelerators))
        first, *others = fabrics
        if len(fabrics) == len(pools) and all(other.like(first) for other in others):
            return first
        names = ", ".join(pool.name for pool in pools)
        found = skip if self.when_pool_unclear == "skip" else fail
        unclear = found("pool unclear", pools=names, example=_telling_label(pools))
        return replace(unclear, ceiling=CEILINGS.get(self.when_pool_unclear, Mode.ENFORCE))

    def _request(
        self, subject: Subject, key: str, holder: Container, names: tuple[str, ...], amount: str
    ) -> None:
        for name in names:
            for part in ("limits", "requests"):
                subject.draft.set((*holder.path, "resources", part, name), amount, key)

    def _add_capabilities(self, subject: Subject, key: str, held: Sequence[Container]) -> Iterator[Finding]:
        lacking = [(h, name) for h in held for name in self.capabilities if _lacks(subject, h, name)]
        if not lacking:
            return
        namespace = subject.request.namespace
        level = subject.facts.pod_security(namespace)
        known = "restricted" if isinstance(level, Unknown) else level
        allowed = ALLOWED_CAPABILITIES.get(known, ALLOWED_CAPABILITIES["restricted"])
        left_out: list[str] = []
        for holder, capability in lacking:
            if known == "privileged" or plain_capability(capability) in allowed:
                _add_capability(subject, key, holder, capability)
            else:
                left_out.append(capability)
        names = ", ".join(dict.fromkeys(left_out))
        if names and isinstance(level, Unknown):
            yield skip("capability unclear", capability=names, why=level.why)
        elif names:
            yield skip("capability forbidden", capability=names, namespace=namespace, level=level)

    def _add_env(self, subject: Subject, key: str, holder: Container) -> None:
        for name, value in self.env.items():
            is_set = partial(is_named, name)
            subject.draft.append((*holder.path, "env"), {"name": name, "value": value}, key, is_set, name)


class _Fabric:
    """What a pool says of its RDMA devices."""

    def __init__(self, rdma: Rdma, devices_per_node: int | None) -> None:
        self.rdma, self.devices_per_node = rdma, devices_per_node

    def like(self, other: "_Fabric") -> bool:
        """Whether a pod gets the same devices from both."""
        same_ratio = self.rdma.per != "node" or self.devices_per_node == other.devices_per_node
        return self.rdma == other.rdma and same_ratio


def _unfit(subject: Subject) -> Finding | None:
    """Why the pod can have no RDMA at all."""
    claimed = subject.received.claimed_vendors
    if not subject.workload.holders or not (subject.received.vendors or isinstance(claimed, Unknown)):
        return skip("no accelerator")
    shared = subject.workload.sharing - {"none"}
    if shared:
        return skip("shared", sharing=", ".join(sorted(shared)))
    return None


def _telling_label(pools: Sequence[AcceleratorPool]) -> str:
    """A label of the first pool that some other pool has not, as an example of how to choose."""
    labels = pools[0].node_labels.items()
    telling = (label for label in labels if any(label not in pool.node_labels.items() for pool in pools[1:]))
    key, value = next(telling, next(iter(labels)))
    return f"{key}: {value}"


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
    subject: Subject, fabric: _Fabric, held: Sequence[Container], amounts: list[int | None]
) -> Finding:
    holder = held[amounts.index(None)]
    return skip(
        "no whole number",
        (*holder.path, "resources"),
        devices=devices_in(subject, holder),
        per_node=fabric.devices_per_node,
        count=fabric.rdma.count,
        resource=fabric.rdma.resource_names[0],
    )


def _chosen_otherwise(subject: Subject, held: Sequence[Container]) -> Finding | None:
    """Why the pod's network is somebody else's choice."""
    if value_at(subject.object, ("spec", "hostNetwork")) is True:
        return skip("host network", ("spec", "hostNetwork"))
    for index, path in subject.host_paths:
        if path_parts(path)[: len(DEVICE_FOLDER)] == DEVICE_FOLDER:
            return skip("infiniband", ("spec", "volumes", index), mounted=path)
    annotation = injector(subject)
    if annotation:
        return skip("injector", ("metadata", "annotations", annotation), annotation=annotation)
    return _claimed(subject) or _disabled(held)


def _claimed(subject: Subject) -> Finding | None:
    """A device claim for something that is no accelerator, or of which nobody knows what it is for."""
    for index, claim in enumerate(list_at(subject.object, ("spec", "resourceClaims"))):
        place: Path = ("spec", "resourceClaims", index)
        classes = subject.facts.device_classes(
            subject.request.namespace, claim if isinstance(claim, dict) else {}
        )
        if isinstance(classes, Unknown):
            return skip("claim unclear", place, why=classes.why)
        other = [name for name in classes if subject.received.catalogue.device_class(name) is None]
        if other:
            return skip("network claim", place, claimed=", ".join(other))
    return None


def _disabled(found: Sequence[Container]) -> Finding | None:
    for holder in found:
        place = switched_off(holder)
        if place:
            return skip("disabled", place)
    return None


def _own_devices(
    subject: Subject, names: tuple[str, ...], held: Sequence[Container], amounts: list[int | None]
) -> Finding | None:
    """The RDMA device that somebody chose; what this rule would write there itself, and no client wrote, is not one.

    Without managedFields nobody can tell: then the rule's own work is recognised by being complete.
    """
    present = [
        found for container in subject.once(containers) for found in _rdma_in(subject, container, names)
    ]
    if not present:
        return None
    wanted = {holder.path: amount for holder, amount in zip(held, amounts, strict=True)}
    expected = len(held) * len(names) * 2
    for path, quantity in present:
        amount = wanted.get(path[:3]) if path[-1] in names else None
        is_ours = amount is not None and _is_amount(quantity, amount)
        client_wrote = is_ours and _client_wrote(subject, path)
        if not is_ours or client_wrote or (client_wrote is None and len(present) != expected):
            return skip("own devices", path, resource=path[-1], quantity=quantity)
    return None


def _rdma_in(subject: Subject, container: Container, names: tuple[str, ...]) -> list[tuple[Path, Any]]:
    """Where a container states RDMA devices, by the catalogue or these names, and how many."""
    resources = mapping_at(container.value, ("resources",))
    is_rdma = subject.received.catalogue.is_rdma
    return [
        ((*container.path, "resources", part, name), quantity)
        for part in (("limits", "requests") if resources else ())
        for name, quantity in mapping_at(resources, (part,)).items()
        if quantity is not None and (name in names or ("/" in name and is_rdma(name)))
    ]


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
    return owns(mapping_at(pod, ("metadata",)).get("managedFields"), keyed)


def _lacks(subject: Subject, holder: Container, capability: str) -> bool:
    """Whether a container neither has a capability nor gave it up: a privileged one has all."""
    context = mapping_at(subject.object, (*holder.path, "securityContext"))
    name = plain_capability(capability)
    return (
        context.get("privileged") is not True
        and added_capabilities(context).isdisjoint({name, "ALL"})
        and name not in dropped_capabilities(context)
    )


def _add_capability(subject: Subject, key: str, holder: Container, capability: str) -> None:
    name = plain_capability(capability)
    place: Path = (*holder.path, "securityContext", "capabilities", "add")
    subject.draft.append(place, capability, key, lambda item: plain_capability(item) == name, name)
