"""The control plane's programs: found where somebody has put them, or built by Go into a cache outside the project.

The cache is keyed by everything that goes into the build, so that a folder that exists is a good one for ever.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent
SOURCES = ("go.mod", "go.sum", "main.go")
KUBERNETES = "1.36.3"

REQUIRED = ("etcd", "kube-apiserver")
PROGRAMS = (*REQUIRED, "kube-scheduler", "kube-controller-manager", "kubectl")
BINARY = "controlplane"

_VERSION = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES.split(".")
LINK_FLAGS = f"-s -w -X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor={_MAJOR} -X {_VERSION}.gitMinor={_MINOR}"


class NotThereError(Exception):
    """There are no programs; the text says why, and what to do."""


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
    programs = Programs(cache_folder())
    if not programs.has(BINARY):
        hint = "`python -m tests.e2e.controlplane` builds them (about 7 minutes)"
        if shutil.which("go") is None:
            hint = f"there is no Go either, with which {hint}"
        raise NotThereError(f"the control plane's programs are not in {programs.folder}: {hint}")
    return programs


def cache_folder() -> Path:
    """Where the programs of this version of the sources are, or will be."""
    digest = hashlib.sha256(LINK_FLAGS.encode())
    for name in SOURCES:
        digest.update((SOURCE / name).read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    machine = f"{sys.platform}-{platform.machine()}"
    return base / "podgate" / f"controlplane-{KUBERNETES}-{machine}-{digest.hexdigest()[:16]}"


def build() -> Programs:
    """Build what is not there yet; other builds of the same may run beside it.

    Raises:
        NotThereError: There is no Go, or it failed.
    """
    folder = cache_folder()
    if (folder / BINARY).exists():
        return Programs(folder)
    go = shutil.which("go")
    if go is None:
        raise NotThereError(
            "there is no Go: install 1.24 or later, which fetches the version that go.mod asks for"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        _compile(go, made / BINARY)
        for name in PROGRAMS:
            (made / name).symlink_to(BINARY)
        _put(made, folder)
    return Programs(folder)


def _compile(go: str, target: Path) -> None:
    words = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", LINK_FLAGS, "-o", str(target), "."]
    ran = subprocess.run(words, cwd=SOURCE, check=False)
    if ran.returncode != 0:
        raise NotThereError(f"go build failed with exit code {ran.returncode}: its output says why")


def _put(made: Path, folder: Path) -> None:
    """In one step: nobody sees half a folder, and who comes second finds it there."""
    try:
        made.rename(folder)
    except OSError:
        if not (folder / BINARY).exists():
            raise
