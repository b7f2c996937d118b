"""The names by which objects ask for devices and reach their nodes, as the catalogue and the pools know them."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.kube.accelerators import DEVICE_CLASS_PREFIX, Catalogue
from webhook.policy import PolicySet


def device_names(catalogue: Catalogue) -> tuple[str, ...]:
    """Names and patterns of all resources that ask for an accelerator, or for a part of one."""
    entries = (entry for vendor in _vendors(catalogue) for entry in vendor.get("resources") or ())
    found = {name for entry in entries if entry["role"] != "other" for name in entry["names"]}
    return tuple(sorted({*found, f"{DEVICE_CLASS_PREFIX}*"}))


def taint_keys(catalogue: Catalogue) -> tuple[str, ...]:
    """Keys and patterns of the taints of accelerator nodes."""
    marks = {mark for vendor in _vendors(catalogue) for mark in vendor.get("taints") or ()}
    return tuple(sorted(mark.partition("=")[0] for mark in marks))


def rdma_names(policy_set: PolicySet) -> tuple[str, ...]:
    """Names and patterns of all RDMA devices, those of pools included."""
    known = {name for layer in _layers(policy_set.catalogue) for name in layer.get("rdmaResources") or ()}
    of_pools = {name for pool in policy_set.pools if pool.rdma for name in pool.rdma.resource_names}
    return tuple(sorted(known | of_pools))


def _layers(catalogue: Catalogue) -> Iterator[Mapping[str, Any]]:
    yield from (layer or {} for layer in catalogue.canonical()["layers"])


def _vendors(catalogue: Catalogue) -> Iterator[Mapping[str, Any]]:
    for layer in _layers(catalogue):
        yield from (vendor or {} for vendor in (layer.get("vendors") or {}).values())
