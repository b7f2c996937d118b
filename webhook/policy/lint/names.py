"""Misspelt resource names: unknown ones that are near to a known one."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from webhook.documents import Path, Problem
from webhook.documents.schema import shown
from webhook.kube.accelerators import Catalogue
from webhook.kube.globs import glob_matches
from webhook.policy.lint.sources import Sources
from webhook.policy.policy_set import PolicySet

COMMON_RDMA = ("rdma/ib", "rdma/hca", "rdma/roce", "rdma/hca_shared_devices_a", "rdma/rdma_shared_device_a")
"""Of the names that the catalogue takes as a pattern only, those that installations have.

Mellanox/k8s-rdma-shared-dev-plugin:README.md, Mellanox/network-operator:example, CoreWeave (rdma/ib).
"""

MOST_EDITS = 2
SHORT_NAME = 10
"""Characters; in a name up to here one edit is all that can be called near."""

_IN_EXPRESSION = re.compile(r"""acceleratorCount\(\s*["']([^"'\s]{1,253})["']\s*\)""")
_DIGITS = re.compile(r"[0-9]+")


def misspelt_names(policy_set: PolicySet, sources: Sources) -> Iterator[Problem]:
    """A warning for each resource name that is most likely another one.

    Args:
        policy_set: all policies that are loaded, and the catalogue of names that there are.
        sources: where the names are written.
    """
    in_pools = {name for pool in policy_set.pools for name in _names_of(pool.resource_names, pool.rdma)}
    known = _known_names(policy_set.catalogue)
    for (kind, name), document in sources.documents.items():
        own = set() if kind == "AcceleratorPool" else in_pools
        for path, written, is_key in _resource_names(document.value.get("spec"), ("spec",)):
            near = _meant(written, policy_set.catalogue, known | own)
            if near:
                message = f"unknown resource name {shown(written)}"
                yield sources.warn(kind, name, path, message, f"did you mean {near}?", key=is_key)


def edits(one: str, other: str, most: int) -> int:
    """How many letters differ: added, left out, changed, or two neighbours swapped; `most` + 1 for all beyond.

    Args:
        one: a name.
        other: another.
        most: the bound; the work grows with the shorter name times this.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, right in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if i > 1 and j > 1 and left == other[j - 2] and one[i - 2] == right:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return min(row[-1], most + 1)


def _names_of(names: Iterable[str], rdma: Any) -> Iterator[str]:
    yield from names
    if rdma is not None:
        yield from rdma.resource_names


def _known_names(catalogue: Catalogue) -> frozenset[str]:
    """Names and patterns, as the catalogue has them."""
    names: set[str] = set(COMMON_RDMA)
    for layer in catalogue.canonical()["layers"]:
        names.update(layer.get("rdmaResources") or ())
        for vendor in (layer.get("vendors") or {}).values():
            names.update(name for entry in (vendor or {}).get("resources") or () for name in entry["names"])
    return frozenset(names)


def _meant(name: str, catalogue: Catalogue, known: Iterable[str]) -> str:
    """The name that a misspelt one is nearest to; "" for one that is known, or near to none."""
    if name in known or catalogue.resource(name) or "/" not in name:
        return ""
    if "*" in name and any(glob_matches(name, each) for each in known):
        return ""
    by_pattern = catalogue.is_rdma(name)
    most = 1 if by_pattern or len(name) <= SHORT_NAME else MOST_EDITS
    near = sorted((edits(name, each, most), each) for each in known if ("*" in each) == ("*" in name))
    if not near or near[0][0] > most or _DIGITS.sub("", near[0][1]) == _DIGITS.sub("", name):
        return ""
    return near[0][1]


def _resource_names(value: Any, path: Path) -> Iterator[tuple[Path, str, bool]]:
    """Where resource names stand: in `resourceNames`, as keys of `memory`, and in expressions."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "resourceNames" and isinstance(each, list):
                yield from (
                    ((*path, key, i), name, False) for i, name in enumerate(each) if isinstance(name, str)
                )
            elif key == "memory" and isinstance(each, dict):
                yield from (((*path, key, name), name, True) for name in each if "/" in name)
            else:
                yield from _resource_names(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _resource_names(each, (*path, index))
    elif isinstance(value, str):
        yield from ((path, name, False) for name in _IN_EXPRESSION.findall(value))
