"""The policy sets that are compared: none, six and all of the shipped ones, and both among many that do not apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from webhook.cli.folders import read_folders
from webhook.demonstration.gateway import SHIPPED
from webhook.documents import read_documents
from webhook.facts import Facts
from webhook.policy import load_policy_set

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webhook.policy import PolicySet

FACTS = SHIPPED / "prerequisites"
SIX = ("training-priority", "gpu-placement", "rdma", "ceph-storage", "gpu-limits", "gpu-placement-check")
"""The first thing that most sites want, one policy for each question."""

OTHERS = 200
RULES: tuple[dict[str, Any], ...] = (
    {"setPriorityClass": {"class": "ai-inference"}},
    {"limitAcceleratorCount": {"perPod": {"max": 4}}},
    {"setNodeAffinity": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}},
)


def write_sets(folder: Path) -> dict[str, list[Path]]:
    """The folders of each set, by the number of its policies as a table shows it."""
    empty, others = folder / "empty", folder / "others"
    empty.mkdir()
    others.mkdir()
    for name, policy in _others():
        (others / f"{name}.yaml").write_text(yaml.safe_dump(policy), encoding="utf-8")
    six = [SHIPPED / "accelerator-pools.yaml", *(SHIPPED / f"{name}.yaml" for name in SIX)]
    sets = [[empty], six, [*six, others], [SHIPPED], [SHIPPED, others]]
    return {str(len(load(folders))): folders for folders in sets}


def load(folders: list[Path]) -> PolicySet:
    """A set, of which every policy must be good."""
    loaded = load_policy_set(read_folders(folders))
    if loaded.has_errors:
        raise SystemExit(str(loaded.problems[0]))
    return loaded.policy_set


def facts() -> Facts:
    """What the shipped policies need to know."""
    readings = [read_documents(data, source, strict=False) for source, data in read_folders([FACTS])]
    return Facts.from_objects([document.value for reading in readings for document in reading.documents])


def _others() -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(OTHERS):
        name = f"other-{number:03d}"
        rule = {"name": "rule", **RULES[number % len(RULES)]}
        spec = {"mode": "enforce", "match": _match(number), "rules": [rule]}
        yield (
            name,
            {
                "apiVersion": "podgate.dev/v1alpha1",
                "kind": "PodPolicy",
                "metadata": {"name": name},
                "spec": spec,
            },
        )


def _match(number: int) -> dict[str, Any]:
    """By turns: another namespace, workspace, class, label of the pod, label of the namespace."""
    team = f"team-{number}"
    return (
        {"namespaces": [team]},
        {"workspaces": [team]},
        {"workloads": ["notebook"], "accelerators": {"count": {"min": 1}}},
        {"objectSelector": {"matchLabels": {"example.org/team": team}}},
        {"namespaceSelector": {"matchLabels": {"example.org/team": team}}},
    )[number % 5]
