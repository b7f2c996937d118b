"""The commands of docs/operations.md: `tests/e2e/test_operations.py` runs them, all but those that are listed here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[1] / "docs/operations.md"

NOT_RUN = {
    "docker build --file deploy/Dockerfile --tag podgate:0.1.0 .": "docker is not everywhere: .ci/run builds the image where "
    "it is, and elsewhere tests/deploy/rehearsal.py carries out every step of the Dockerfile",
}
"""Commands that the walk leaves out, and why."""

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_PROMPT = "$ "


class Command(NamedTuple):
    """A command line of the page, and the heading above it."""

    section: str
    text: str


def commands(text: str) -> Iterator[Command]:
    """All command lines, in order.

    Raises:
        ValueError: a block is of a kind in which a command could be missed.
    """
    for block in _BLOCK.finditer(text):
        section = _HEADING.findall(text, 0, block.start())[-1]
        yield from (Command(section, line) for line in _lines(*block.groups()))


def _lines(kind: str, body: str) -> list[str]:
    lines = body.splitlines()
    prompted = [line.removeprefix(_PROMPT) for line in lines if line.startswith(_PROMPT)]
    if kind == "console" and len(prompted) == len(lines):
        return prompted
    if kind == "sh" and not prompted:
        return lines
    if kind == "" and not prompted:  # what a command prints
        return []
    raise ValueError(f"a block {kind!r} of this page holds commands alone, each on one line:\n{body}")
