"""The control plane's programs: found where somebody has put them, or built by Go into a cache outside the project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tests.e2e.go_program import GoProgram, NotThereError

KUBERNETES = "1.36.3"

REQUIRED = ("etcd", "kube-apiserver")
PROGRAMS = (*REQUIRED, "kube-scheduler", "kube-controller-manager", "kubectl")

_VERSION = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES.split(".")
LINK_FLAGS = f"-s -w -X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor={_MAJOR} -X {_VERSION}.gitMinor={_MINOR}"

CONTROL_PLANE = GoProgram(Path(__file__).parent, "controlplane", KUBERNETES, 7, LINK_FLAGS)


class Programs(NamedTuple):
    """A folder with programs; tests that need one which is not in it skip."""

    folder: Path

    def path(self, name: str) -> Path:
        """Where a program is.

        Raises:
            NotThereError: It is not in the folder (`KUBEBUILDER_ASSETS` has neither scheduler nor controller manager).
        """
        found = self.folder / name
        if not found.exists():
            raise NotThereError(f"there is no {name} in {self.folder}")
        return found

    def has(self, name: str) -> bool:
        """Whether a program is in the folder."""
        return (self.folder / name).exists()


def find() -> Programs:
    """The programs of `KUBEBUILDER_ASSETS`, or those in the cache.

    Raises:
        NotThereError: There are none.
    """
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        programs = Programs(Path(assets))
        for name in REQUIRED:
            programs.path(name)
        return programs
    return Programs(CONTROL_PLANE.find())


def link_names(folder: Path) -> None:
    """One program is all of them, by the name it is started under."""
    for name in PROGRAMS:
        (folder / name).symlink_to(CONTROL_PLANE.binary)
