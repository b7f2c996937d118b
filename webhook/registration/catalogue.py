"""The names by which objects ask for devices, as the catalogue and the pools know them."""

from collections.abc import Iterator

from webhook.kube.accelerators import DEVICE_CLASS_PREFIX, Catalogue
from webhook.policy import PolicySet


def device_names(catalogue: Catalogue) -> tuple[str, ...]:
    """Names and patterns of all resources that ask for an accelerator, or for a part of one."""
    return tuple(sorted({*_devices(catalogue), f"{DEVICE_CLASS_PREFIX}*"}))


def rdma_names(policy_set: PolicySet) -> tuple[str, ...]:
    """Names and patterns of all RDMA devices, those of pools included."""
    layers = policy_set.catalogue.canonical()["layers"]
    known = {name for layer in layers for name in (layer or {}).get("rdmaResources") or ()}
    of_pools = {name for pool in policy_set.pools if pool.rdma for name in pool.rdma.resource_names}
    return tuple(sorted(known | of_pools))


def _devices(catalogue: Catalogue) -> Iterator[str]:
    for layer in catalogue.canonical()["layers"]:
        for vendor in ((layer or {}).get("vendors") or {}).values():
            for entry in (vendor or {}).get("resources") or ():
                if entry["role"] != "other":
                    yield from entry["names"]
