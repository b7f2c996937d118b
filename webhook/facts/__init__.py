"""What the engine may ask about the cluster: each answer a value, absent (None), or unknown with the reason."""

from webhook.facts.cluster import (
    UNKNOWN_WITHOUT_FACTS,
    Facts,
    Namespace,
    NodeGroup,
    PriorityClass,
    StorageClass,
    Unknown,
)
from webhook.facts.pools import AcceleratorPool, PoolSpec, Rdma, possible_pools

__all__ = [
    "UNKNOWN_WITHOUT_FACTS",
    "AcceleratorPool",
    "Facts",
    "Namespace",
    "NodeGroup",
    "PoolSpec",
    "PriorityClass",
    "Rdma",
    "StorageClass",
    "Unknown",
    "possible_pools",
]
