"""A Dockerfile as its stages and instructions: as much of the format as ours uses, and an error for the rest."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy/Dockerfile"

_KNOWN = {"ARG", "FROM", "ENV", "WORKDIR", "COPY", "RUN", "LABEL", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}


class Instruction(NamedTuple):
    """One instruction: its word, and what stands behind it, on one line."""

    word: str
    rest: str

    @property
    def pairs(self) -> dict[str, str]:
        """The pairs of an ENV or a LABEL."""
        found = (part.partition("=") for part in shlex.split(self.rest))
        return {name: value for name, _, value in found}

    @property
    def words(self) -> list[str]:
        """The words of an instruction in the exec form.

        Raises:
            ValueError: It is in the shell form.
        """
        found: list[str] = json.loads(self.rest)
        return found


class Stage(NamedTuple):
    """One stage of the build; ``name`` is empty where it has none."""

    base: str
    name: str
    instructions: list[Instruction]

    def all(self, word: str) -> list[Instruction]:
        """Its instructions of that word, in order."""
        return [each for each in self.instructions if each.word == word]


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile, the ARGs before the first one filled in."""
    arguments: dict[str, str] = {}
    found: list[Stage] = []
    for each in _instructions(text):
        if each.word == "FROM":
            base, _, name = _filled(each.rest, arguments).partition(" AS ")
            found.append(Stage(base, name, []))
        elif found:
            found[-1].instructions.append(each)
        else:
            arguments |= each.pairs
    return found


def _instructions(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    found = [Instruction(*line.split(maxsplit=1)) for line in joined if line.strip()]
    unknown = {each.word for each in found} - _KNOWN
    if unknown:
        raise ValueError(f"instructions that are not known here: {sorted(unknown)}")
    return found


def _filled(text: str, arguments: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], text)
