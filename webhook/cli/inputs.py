"""Manifests and facts: the bytes of files, of what is in folders, and of stdin."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from webhook.cli.folders import NO_PATH, Which, fingerprint, reason_of, shown

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from webhook.documents import Problem

STDIN = "-"
STDIN_NAME = "<stdin>"
SUFFIXES = (".yaml", ".yml", ".json")
#: What is left out of policies, tests and prerequisites, counts here.
INPUT_FILES = Which(SUFFIXES)

LARGEST_FILE = 512 * 1024 * 1024
"""Bytes: ten times `kubectl get pods -A -o yaml` of 5,000 pods; more would not fit into memory as values."""


class Inputs(NamedTuple):
    """Name and bytes of each file, and what could not be read."""

    files: tuple[tuple[str, bytes], ...]
    problems: tuple[Problem, ...]


def read_inputs(paths: Iterable[str]) -> Inputs:
    """Read files, all manifests below folders, and stdin for `-`; what cannot be read does not stop the rest.

    A file that is named twice, or named and below a folder that is named, is read once.
    In folders, files named *.yaml, *.yml and *.json count, hidden ones do not. Links are followed, but never
    back to a folder above.
    """
    files: list[tuple[str, bytes]] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    for path in paths:
        if path == STDIN:
            files.extend(_stdin(problems))
        elif not path:
            _say(problems, None, NO_PATH)
        else:
            files.extend(_below(Path(path), problems, seen))
    return Inputs(tuple(files), tuple(problems))


def fingerprint_with(policies: Sequence[Path], inputs: Sequence[Path]) -> Hashable:
    """Equal as long as neither the policies nor the inputs beside them changed."""
    return fingerprint(policies), fingerprint(inputs, INPUT_FILES)


def _stdin(problems: list[Problem]) -> Iterator[tuple[str, bytes]]:
    if sys.stdin is None:
        _say(problems, Path(STDIN_NAME), "cannot be read: it is closed")
        return
    try:
        yield STDIN_NAME, sys.stdin.buffer.read()
    except OSError as error:
        _say(problems, Path(STDIN_NAME), reason_of(error))


def _below(path: Path, problems: list[Problem], seen: set[str]) -> Iterator[tuple[str, bytes]]:
    for file in _files(path, problems):
        absolute = os.path.abspath(file)  # noqa: PTH100 - without a call for each file
        data = None if absolute in seen else _read(file, problems)
        seen.add(absolute)
        if data is not None:
            yield shown(file), data


def _files(path: Path, problems: list[Problem]) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = list(_walk(path, frozenset(), problems))
    if not found:
        hint = f"files named {', '.join('*' + suffix for suffix in SUFFIXES)} count, hidden ones do not"
        _say(problems, path, "there is no manifest in this folder", hint, is_warning=True)
    yield from found


def _walk(folder: Path, above: frozenset[tuple[int, int]], problems: list[Problem]) -> Iterator[Path]:
    try:
        found = folder.stat()
        entries = sorted(folder.iterdir())
    except OSError as error:
        _say(problems, folder, reason_of(error))
        return
    identity = (found.st_dev, found.st_ino)
    if identity in above:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(entry, above | {identity}, problems)
        elif entry.name.endswith(SUFFIXES):
            yield entry


def _read(path: Path, problems: list[Problem]) -> bytes | None:
    try:
        if path.stat().st_size > LARGEST_FILE:
            _say(problems, path, f"larger than {LARGEST_FILE // 1024 // 1024} MiB", "split the file")
            return None
        return path.read_bytes()
    except OSError as error:
        _say(problems, path, reason_of(error))
        return None


def _say(
    problems: list[Problem], path: Path | None, message: str, hint: str = "", *, is_warning: bool = False
) -> None:
    from webhook.documents import Problem  # noqa: PLC0415

    problems.append(Problem(shown(path) if path else "", None, message, hint, is_warning))
