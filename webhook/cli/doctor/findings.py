"""What a check found, and how it is shown."""

from __future__ import annotations

import json
from enum import StrEnum
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 100
LEVEL_WIDTH, CHECK_WIDTH = 9, 17


class Level(StrEnum):
    """How a check came out; `unknown`: it could not be made."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


COLOURS = {Level.OK: "32", Level.WARN: "33", Level.FAIL: "31", Level.UNKNOWN: "35"}


class Finding(NamedTuple):
    """One line of the report.

    Attributes:
        check: the name of the check.
        text: what was found.
        todo: what to do about it, "" if nothing.
    """

    check: str
    level: Level
    text: str
    todo: str = ""


def exit_code(findings: Sequence[Finding]) -> int:
    """1 where something is wrong, else 3 where something could not be looked at, else 0."""
    levels = {finding.level for finding in findings}
    if Level.FAIL in levels:
        return 1
    return 3 if Level.UNKNOWN in levels else 0


def render_table(findings: Sequence[Finding], *, colour: bool) -> str:
    """A line a finding, what to do below it, and a sum."""
    lines: list[str] = []
    for finding in findings:
        lines += _lines(finding, colour=colour)
    counts = {level: sum(finding.level is level for finding in findings) for level in Level}
    lines.append(", ".join(f"{count} {level}" for level, count in counts.items() if count))
    return "".join(f"{line}\n" for line in lines)


def _lines(finding: Finding, *, colour: bool) -> list[str]:
    head = f"{finding.level.value:<{LEVEL_WIDTH}}{finding.check:<{CHECK_WIDTH}}"
    indent = " " * len(head)
    lines = _wrapped(finding.text, head, indent)
    if finding.todo:
        lines += _wrapped(finding.todo, f"{indent}do: ", f"{indent}    ")
    if colour:
        end = len(finding.level.value)
        lines[0] = f"\x1b[{COLOURS[finding.level]}m{lines[0][:end]}\x1b[0m{lines[0][end:]}"
    return lines


def _wrapped(text: str, first: str, more: str) -> list[str]:
    return wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=more,
        break_on_hyphens=False,
        break_long_words=False,
    )


def render_json(findings: Sequence[Finding]) -> str:
    """All findings with the exit code, for programs."""
    checks = [
        {"check": each.check, "level": each.level.value, "text": each.text, "todo": each.todo}
        for each in findings
    ]
    body = {"exitCode": exit_code(findings), "checks": checks}
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"
