# A folder of pages is no package.
# ruff: noqa: INP001
"""Run what a page tells its reader to type, in a folder of its own, and compare what comes out.

A `yaml` block behind a line that ends with a file's name in backticks and a colon is that file. In a `console` block a line
that begins with `$ ` is a command, and what follows is its output; a line `…` stands for any lines, and `…` inside a line for
anything on it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
POLICIES = "policies"
EXAMPLE_DAYS = ("2027-06-30", "2027-07-01")
"""The last day of the exceptions on the pages, and the day behind it: they must not have ended when a page is run, nor shall its
text change with the day."""

_BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
_FILE = re.compile(r"`([\w./-]+)`[:：]\n+\Z")
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_ELISION = "…"
_LINES = f"{_ELISION}\n"
_DURATION = re.compile("[0-9.]+ m?s")
_ANY = re.compile(rf"(^{_LINES}|{_ELISION}|\b[0-9a-f]{{12}}\b|{_DURATION.pattern}\b)", re.MULTILINE)
"""What differs from run to run: elided lines, the hash of a set of policies, durations."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command, what the page says that it prints, from where on in the page, and what it does print."""

    command: str
    start: int
    expected: str
    printed: str

    @property
    def holds(self) -> bool:
        """Whether both are the same, but for what differs from run to run."""
        pattern = "".join(map(_pattern, _ANY.split(self.expected)))
        return re.fullmatch(pattern, self.printed, re.DOTALL) is not None


def steps(text: str) -> Iterator[Step]:
    """Run a page from top to bottom."""
    with tempfile.TemporaryDirectory(prefix="podgate-docs-") as folder:
        yield from _steps(text, Path(folder))


def refreshed(text: str) -> str:
    """The page with the outputs that its commands have now.

    One that still holds stays as it is, and so does one with something left out: only a person knows what.
    """
    for step in reversed(list(steps(text))):
        if not step.holds and _ELISION not in step.expected:
            text = text[: step.start] + step.printed + text[step.start + len(step.expected) :]
    return text


def _steps(text: str, folder: Path) -> Iterator[Step]:
    shutil.copytree(ROOT / POLICIES, folder / POLICIES)
    code = 0
    for found in _BLOCK.finditer(text):
        kind, body = found.groups()
        file = _FILE.search(text, 0, found.start())
        if kind == "yaml" and file:
            place = folder / file[1]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(_dated(body), encoding="utf-8")
        elif kind == "console":
            for command in _COMMAND.finditer(body):
                printed, code = _run(command[1], code, folder)
                yield Step(command[1], found.start(2) + command.start(2), command[2], printed)


def _run(command: str, code: int, folder: Path) -> tuple[str, int]:
    """What a command prints, and its exit code; `$?` is that of the command before."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S603 - the commands of our own pages
        ["/bin/sh", "-c", f"(exit {code}); {_dated(command)}"],
        cwd=folder,
        env={"PATH": path, "LANG": "C.UTF-8", "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    printed = done.stdout.decode()
    for day, example in zip(_coming_days(), EXAMPLE_DAYS, strict=True):
        printed = printed.replace(day, example)
    return printed, done.returncode


def _dated(text: str) -> str:
    for day, example in zip(_coming_days(), EXAMPLE_DAYS, strict=True):
        text = text.replace(example, day)
    return text


@cache
def _coming_days() -> tuple[str, ...]:
    """Two days in half a year: no warning of an exception's end yet."""
    last = datetime.now(UTC) + timedelta(days=180)
    return tuple(f"{last + timedelta(days=days):%Y-%m-%d}" for days in range(len(EXAMPLE_DAYS)))


def _pattern(part: str) -> str:
    """What a part of an expected output stands for."""
    if part in (_LINES, _ELISION):
        return ".*" if part == _LINES else "[^\n]*"
    if re.fullmatch("[0-9a-f]{12}", part):
        return "[0-9a-f]{12}"
    return r"[0-9.]+ m?s" if _DURATION.fullmatch(part) else re.escape(part)
