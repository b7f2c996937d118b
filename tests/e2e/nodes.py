"""The nodes of the test cluster: those of `site/pools.yaml`, and those that nothing may land on by accident.

There is no kubelet: a node is an object with capacity and the condition Ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
IB = "rdma/ib"
ROCE = "rdma/roce_gdr"
ASCEND = "huawei.com/Ascend910"

GPUS_PER_NODE = 8
DECOY = "decoy-1"
H100 = frozenset({"h100-1", "h100-2"})
A100 = frozenset({"a100-1", "a100-2"})
ASCEND_NODES = frozenset({"ascend-1"})
CPU = frozenset({"cpu-1", "cpu-2"})

_NVIDIA = {"nvidia.com/gpu.present": "true"}
_NVIDIA_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
_ASCEND_TAINT = {"key": "huawei.com/Ascend910", "value": "present", "effect": "NoSchedule"}
_MACHINE = {"cpu": "192", "memory": "2Ti", "ephemeral-storage": "4Ti", "pods": "110"}


def node(
    name: str, labels: Mapping[str, str], devices: Mapping[str, int], taint: Mapping[str, str] | None = None
) -> Json:
    """A node that is Ready."""
    capacity = _MACHINE | {resource: str(count) for resource, count in devices.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            }
            | dict(labels),
        },
        "spec": {"taints": [dict(taint)] if taint else []},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "made by a test"}
            ],
        },
    }


def _h100(name: str) -> Json:
    labels = _NVIDIA | {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    return node(name, labels, {GPU: GPUS_PER_NODE, IB: 8}, _NVIDIA_TAINT)


def _a100(name: str) -> Json:
    labels = _NVIDIA | {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    return node(name, labels, {GPU: GPUS_PER_NODE, ROCE: 63}, _NVIDIA_TAINT)


def _ascend(name: str) -> Json:
    labels = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-910b-8"}
    return node(name, labels, {ASCEND: GPUS_PER_NODE}, _ASCEND_TAINT)


NODES: tuple[Json, ...] = (
    *map(_h100, sorted(H100)),
    *map(_a100, sorted(A100)),
    *map(_ascend, sorted(ASCEND_NODES)),
    *(node(name, {}, {}) for name in sorted(CPU)),
    # No taint keeps anybody off it, it has everything that a training pod asks for, and only the labels say that it is
    # none of the pools: what lands here was not placed.
    node(
        DECOY, {"example.com/retired": "true"}, {GPU: GPUS_PER_NODE, IB: 8, ROCE: 63, ASCEND: GPUS_PER_NODE}
    ),
)
