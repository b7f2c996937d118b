"""A program of a Go module of these tests: built once, into a cache outside the project.

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
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = ("go.mod", "go.sum", "main.go")


class NotThereError(Exception):
    """There is no program; the text says why, and what to do."""


class GoProgram(NamedTuple):
    """What is built.

    Attributes:
        source: the folder of the module.
        binary: the file's name.
        version: of what it is made of, for the cache's folder.
        minutes: how long the first build takes.
        link_flags: for the linker.
    """

    source: Path
    binary: str
    version: str
    minutes: int
    link_flags: str = "-s -w"

    @property
    def folder(self) -> Path:
        """Where the program of this version of the sources is, or will be."""
        digest = hashlib.sha256(self.link_flags.encode())
        for name in SOURCES:
            digest.update((self.source / name).read_bytes())
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        machine = f"{sys.platform}-{platform.machine()}"
        return base / "podgate" / f"{self.binary}-{self.version}-{machine}-{digest.hexdigest()[:16]}"

    def find(self) -> Path:
        """The folder with the program.

        Raises:
            NotThereError: It was not built.
        """
        if (self.folder / self.binary).exists():
            return self.folder
        hint = f"`python -m {self._module}` builds it (about {self.minutes} minutes)"
        if shutil.which("go") is None:
            hint = f"there is no Go either, with which {hint}"
        raise NotThereError(f"{self.binary} is not in {self.folder}: {hint}")

    def build(self, finish: Callable[[Path], None]) -> Path:
        """Build what is not there yet, and give its folder; other builds of the same may run beside it.

        Args:
            finish: puts beside the program what belongs to it, given the folder.

        Raises:
            NotThereError: There is no Go, or it failed.
        """
        if (self.folder / self.binary).exists():
            return self.folder
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="building-", dir=self.folder.parent) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            flags = ("-trimpath", "-buildvcs=false", "-ldflags", self.link_flags)
            self.go("build", *flags, "-o", str(made / self.binary), ".")
            finish(made)
            self._put(made)
        return self.folder

    def go(self, *words: str) -> str:
        """What Go prints, run in the module.

        Raises:
            NotThereError: There is no Go, or it failed.
        """
        go = shutil.which("go")
        if go is None:
            raise NotThereError(
                "there is no Go: install 1.21 or later, which fetches the version that go.mod asks for"
            )
        ran = subprocess.run([go, *words], cwd=self.source, check=False, stdout=subprocess.PIPE, text=True)
        if ran.returncode != 0:
            raise NotThereError(f"go {words[0]} failed with exit code {ran.returncode}: its output says why")
        return ran.stdout

    def main(self, finish: Callable[[Path], None]) -> int:
        """A command line: build, and print where; gives the exit code."""
        try:
            folder = self.build(finish)
        except NotThereError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        sys.stdout.write(f"{folder}\n")
        return 0

    @property
    def _module(self) -> str:
        return f"tests.e2e.{self.source.name}"

    def _put(self, made: Path) -> None:
        """In one step: nobody sees half a folder, and who comes second finds it there."""
        try:
            made.rename(self.folder)
        except OSError:
            if not (self.folder / self.binary).exists():
                raise
