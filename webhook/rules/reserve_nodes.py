"""reserveNodes: accelerator nodes are for pods that ask for accelerators."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import PlainValidator

from webhook.documents import Path
from webhook.facts import AcceleratorPool, Unknown
from webhook.facts.pools import Toleration
from webhook.kube.field_path import list_at
from webhook.kube.node_affinity import (
    TERMS,
    Requirement,
    normalise_toleration,
    pinning,
)
from webhook.rules.base import Finding, Need, Subject, Texts, ValidatingRule, fail, unknown

NODE_SELECTOR: Path = ("spec", "nodeSelector")
TOLERATIONS: Path = ("spec", "tolerations")

ALL_POOLS: tuple[str, ...] = ()


def _pools(value: Any) -> tuple[str, ...]:
    if value == "all":
        return ALL_POOLS
    if isinstance(value, list) and value and all(isinstance(item, str) and item for item in value):
        return tuple(value)
    raise ValueError("expected all, or a list of pools")


class ReserveNodes(ValidatingRule):
    """Judges pods without accelerators that aim at accelerator nodes, or tolerate their way onto them.

    Aiming is demanding, in every alternative of selector and affinity, a label that marks such nodes; a pod that may also
    land elsewhere does not aim. An accelerator is asked for by resource or by device claim; a claim that is known to be no
    accelerator (a NIC) gives no right to the nodes.

    Attributes:
        pools: `all`, or the names of pools; with `all` the vendors' own node labels count as well.
    """

    type: ClassVar[str] = "reserveNodes"
    scope: ClassVar[frozenset[Need]] = frozenset({"selectors", "tolerations"})
    texts: ClassVar[Texts] = {
        "aims": {
            "en": (
                "the pod asks for no accelerator but its placement ({own}) takes it to accelerator nodes",
                "remove {own}, or ask for an accelerator",
            ),
            "zh": (
                "Pod 没有申请加速卡，但其调度要求（{own}）指向加速卡节点",
                "请移除 {own}，或申请加速卡",
            ),
        },
        "tolerates": {
            "en": (
                "the pod asks for no accelerator but tolerates {own}, the taint that keeps accelerator nodes free",
                "remove the toleration {own}, or ask for an accelerator",
            ),
            "zh": (
                "Pod 没有申请加速卡，却容忍了为加速卡节点保留的污点 {own}",
                "请移除容忍 {own}，或申请加速卡",
            ),
        },
        "tolerates everything": {
            "en": (
                "the pod asks for no accelerator but tolerates every taint, so it may land on accelerator nodes",
                "name the key of the taint that is meant in the toleration",
            ),
            "zh": (
                "Pod 没有申请加速卡，却容忍所有污点，可能被调度到加速卡节点",
                "请在容忍中写明所需污点的 key",
            ),
        },
    }

    pools: Annotated[tuple[str, ...], PlainValidator(_pools)]

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        """See `ValidatingRule.validate_subject`."""
        if subject.workload.accelerators:
            return
        found = [*self._aims(subject), *self._tolerations(subject)]
        claimed = subject.received.claimed_vendors if found else frozenset()
        if isinstance(claimed, Unknown):
            yield unknown(claimed)
        elif not claimed:
            yield from found

    def _reserved(self, subject: Subject) -> list[AcceleratorPool]:
        return [pool for pool in subject.received.pools if not self.pools or pool.name in self.pools]

    def _aims(self, subject: Subject) -> Iterator[Finding]:
        """Every alternative demands accelerator nodes."""
        culprits = [self._demanding(subject, alternative) for alternative in subject.placement.alternatives()]
        first = culprits[0] if culprits else None
        if first is not None and None not in culprits:
            in_selector = first[0] in subject.placement.selector
            place = (*NODE_SELECTOR, first[0].key) if in_selector else TERMS
            yield fail("aims", place, own=", ".join(requirement.shown for requirement in first))

    def _demanding(
        self, subject: Subject, alternative: tuple[Requirement, ...]
    ) -> tuple[Requirement, ...] | None:
        """What demands accelerator nodes in one alternative: a label by the catalogue, else all labels of pools."""
        if not self.pools:
            for own in alternative:
                if _demands_vendor(subject, own):
                    return (own,)
        return pinning(alternative, [pool.node_labels for pool in self._reserved(subject)])

    def _tolerations(self, subject: Subject) -> Iterator[Finding]:
        for index, item in enumerate(list_at(subject.object, TOLERATIONS)):
            own = _toleration(item)
            place = (*TOLERATIONS, index)
            if own.key and self._reaches(subject, own):
                yield fail("tolerates", place, own=own.shown)
            elif not own.key and own.operator == "Exists" and self._reaches_all(subject, own):
                yield fail("tolerates everything", place)

    def _reaches(self, subject: Subject, own: "_Toleration") -> bool:
        """Whether a toleration answers a taint of accelerator nodes."""
        if not self.pools and subject.received.catalogue.taint_vendors(own.key):
            return own.effect != "PreferNoSchedule"
        return any(_answers(own, theirs) for pool in self._reserved(subject) for theirs in pool.tolerations)

    def _reaches_all(self, subject: Subject, own: "_Toleration") -> bool:
        """Whether taints of accelerator nodes have its effect; those of the catalogue are NoSchedule, as vendors set them."""
        if not self.pools and own.effect in ("", "NoSchedule"):
            return True
        return any(
            _share_effect(own, theirs) for pool in self._reserved(subject) for theirs in pool.tolerations
        )


class _Toleration(NamedTuple):
    """A pod's toleration by its meaning."""

    key: str
    operator: str
    value: str
    effect: str

    @property
    def shown(self) -> str:
        """The taint that it answers, as kubectl writes it."""
        taint = f"{self.key}={self.value}" if self.value else self.key
        return f"{taint}:{self.effect}" if self.effect else taint


def _toleration(item: Any) -> _Toleration:
    """What a toleration means; one of wrong types means nothing."""
    meaning = normalise_toleration(item)[:4]
    return _Toleration(
        *meaning if meaning and all(isinstance(part, str) for part in meaning) else ("", "", "", "")
    )


def _answers(own: _Toleration, theirs: Toleration) -> bool:
    """Whether a pod's toleration answers a taint that a pool's own toleration answers."""
    same_value = "Exists" in (own.operator, theirs.operator) or own.value == theirs.value
    return own.key == theirs.key and same_value and _share_effect(own, theirs)


def _share_effect(own: _Toleration, theirs: Toleration) -> bool:
    """Whether both mean a common effect that keeps pods off; an empty one means all."""
    if "PreferNoSchedule" in (own.effect, theirs.effect):
        return False
    return not own.effect or not theirs.effect or own.effect == theirs.effect


def _demands_vendor(subject: Subject, own: Requirement) -> bool:
    """Whether only accelerator nodes meet a requirement, by the labels of the catalogue."""
    of = subject.received.catalogue.node_label_vendors
    if own.operator in ("Exists", "Gt", "Lt"):
        return bool(of(own.key))
    if own.operator != "In" or not own.values or "false" in own.values:
        return False
    return all(of(own.key, value) for value in own.values)
