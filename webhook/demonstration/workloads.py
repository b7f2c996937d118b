"""The workloads of the demonstration, one file each below `manifests/`."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping


class Sender(NamedTuple):
    """Who creates an object: as the API server knows him, and as managedFields names his program."""

    username: str
    groups: tuple[str, ...]
    field_manager: str


class Workload(NamedTuple):
    """An object as its sender writes it, before the API server fills in the rest.

    Attributes:
        title: what it is, in one sentence.
    """

    title: str
    sender: Sender
    object: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name, or what its generated name begins with."""
        metadata = self.object["metadata"]
        return str(metadata.get("name") or f"{metadata['generateName']}…")


def _controller(namespace: str, account: str, field_manager: str) -> Sender:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Sender(f"system:serviceaccount:{namespace}:{account}", groups, field_manager)


SENDERS = {
    "replicaset-controller": _controller("kube-system", "replicaset-controller", "kube-controller-manager"),
    "statefulset-controller": _controller("kube-system", "statefulset-controller", "kube-controller-manager"),
    "training-operator": _controller("kubeflow", "training-operator", "training-operator"),
    "volcano": _controller("volcano-system", "volcano-controllers", "vc-controller-manager"),
    "user": Sender("lin@example.org", ("data-science", "system:authenticated"), "kubectl-create"),
}


def read_workloads() -> tuple[Workload, ...]:
    """All of them, in the order of their files."""
    folder = files(__package__) / "manifests"
    entries = sorted((each for each in folder.iterdir() if each.name.endswith(".yaml")), key=lambda e: e.name)
    texts = [yaml.safe_load(entry.read_text(encoding="utf-8")) for entry in entries]
    return tuple(Workload(text["title"], SENDERS[text["sender"]], text["object"]) for text in texts)
