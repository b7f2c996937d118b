"""Accelerator pools: which nodes offer what, behind which taints, on which fabric."""

from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from webhook.documents.schema import Schema
from webhook.kube.accelerators import DEVICE_CLASS_PREFIX
from webhook.kube.globs import compile_glob
from webhook.kube.node_affinity import Placement, could_be, normalise_toleration, pinning
from webhook.kube.selectors import compile_label_selector


def _labels(value: dict[str, str]) -> dict[str, str]:
    compile_label_selector({"matchLabels": value})
    return value


NodeLabels = Annotated[dict[str, str], Field(min_length=1), AfterValidator(_labels)]
"""Labels that nodes can have: what Kubernetes refuses as a label would make it refuse every pod that is sent there."""


def _extended_resource(value: str) -> str:
    is_native = "kubernetes.io/" in value and not value.startswith(DEVICE_CLASS_PREFIX)
    if "/" not in value.strip("/") or is_native or value.startswith("requests."):
        raise ValueError("expected an extended resource such as nvidia.com/gpu or rdma/ib")
    return value


ExtendedResource = Annotated[str, AfterValidator(_extended_resource)]
"""A resource of a device plugin (kubernetes/kubernetes:pkg/apis/core/helper/helpers.go, IsExtendedResourceName)."""


class Toleration(Schema):
    """A toleration, in Kubernetes' own words."""

    key: str = ""
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""] = ""
    toleration_seconds: int | None = None

    @model_validator(mode="after")
    def _accepted(self) -> "Toleration":
        """What kubernetes/kubernetes:pkg/apis/core/validation (ValidateTolerations) refuses, and every pod with it."""
        if not self.key and self.operator != "Exists":
            raise ValueError("a toleration without a key needs operator: Exists")
        if self.operator == "Exists" and self.value:
            raise ValueError("operator Exists takes no value")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError("tolerationSeconds needs effect: NoExecute")
        return self

    @cached_property
    def as_json(self) -> dict[str, Any]:
        """As it stands in a pod: only what was written. Read-only."""
        return self.model_dump(by_alias=True, exclude_unset=True)

    @cached_property
    def meaning(self) -> tuple[Any, ...]:
        """See `normalise_toleration`."""
        return normalise_toleration(self.as_json)

    @cached_property
    def identity(self) -> str:
        """What tells it from others, as text."""
        return "/".join(str(part) for part in self.meaning if part not in ("", None))


class Rdma(Schema):
    """The fabric of a pool: all of `resourceNames`, `count` of each, per container, accelerator or node."""

    resource_names: tuple[ExtendedResource, ...] = Field(min_length=1, strict=False)
    per: Literal["container", "accelerator", "node"] = "container"
    count: int = Field(default=1, ge=1)


class PoolSpec(Schema):
    """The spec of an AcceleratorPool.

    Attributes:
        resource_names: the accelerator resources that its nodes offer; globs, `*` stops at `/`.
        node_labels: labels that all its nodes have.
        tolerations: what a pod needs in order to get onto them.
        devices_per_node: accelerators of one node, None if not said.
        rdma: its fabric, None if it has none.
    """

    resource_names: tuple[ExtendedResource, ...] = Field(min_length=1, strict=False)
    node_labels: NodeLabels
    tolerations: tuple[Toleration, ...] = Field(default=(), strict=False)
    devices_per_node: int | None = Field(default=None, ge=1)
    rdma: Rdma | None = None

    @model_validator(mode="after")
    def _node_has_devices(self) -> "PoolSpec":
        if self.rdma and self.rdma.per == "node" and self.devices_per_node is None:
            raise ValueError("rdma.per: node needs devicesPerNode")
        return self


class AcceleratorPool(PoolSpec):
    """A pool of nodes with accelerators.

    Attributes:
        name: its name in policies.
    """

    name: str = ""

    def offers(self, asked: Collection[str]) -> bool:
        """Whether its nodes have all of the accelerator resources asked for, and there is one."""
        for name in asked:
            if name not in self.resource_names and not (
                self._globs and any(fits(name) for fits in self._globs)
            ):
                return False
        return bool(asked)

    @cached_property
    def _globs(self) -> tuple[Callable[[str], bool], ...]:
        """Most pools name their resources without one."""
        return tuple(compile_glob(name) for name in self.resource_names if "*" in name)


def possible_pools(offering: Iterable[AcceleratorPool], placement: Placement) -> tuple[AcceleratorPool, ...]:
    """The pools in which a pod could land: they offer all that it asks for and contradict neither its selector nor its affinity.

    A pool of more labels describes its nodes better than one of some of these labels: where the pod can only land on such
    nodes, the more general pool is left out.

    Args:
        offering: the pools of the policy set that offer the accelerators that the pod asks for.
        placement: where the pod may go, as earlier rules of this review left it.
    """
    possible = tuple([pool for pool in offering if could_be(placement, pool.node_labels)])
    if len(possible) <= 1:
        return possible
    return tuple([pool for pool in possible if not _is_described_better(pool, possible, placement)])


def _is_described_better(
    pool: AcceleratorPool, pools: Iterable[AcceleratorPool], placement: Placement
) -> bool:
    """Whether every node of a pool that the pod may land on is in a pool of more labels."""
    finer = [other.node_labels for other in pools if other.node_labels.items() > pool.node_labels.items()]
    return bool(finer) and all(
        pinning(alternative, finer) is not None for alternative in placement.alternatives()
    )
