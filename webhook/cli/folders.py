"""Read the files of policies and facts from folders, among them mounted ConfigMaps."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

SUFFIXES = (".yaml", ".yml")
#: Suites beside the policies, and the objects that policies only refer to.
TEST_SUFFIXES = (".test.yaml", ".test.yml")
PREREQUISITES = "prerequisites"


class Which(NamedTuple):
    """Which files of a folder count.

    Attributes:
        suffixes: They end so.
        other_suffixes: But not so.
        other_folder: And are in no folder below of this name.
    """

    suffixes: tuple[str, ...]
    other_suffixes: tuple[str, ...] = ()
    other_folder: str = ""


POLICY_FILES = Which(SUFFIXES, TEST_SUFFIXES, PREREQUISITES)

#: PATH_MAX of Linux: no name of a file is cut.
LONGEST_NAME = 4096

#: A ConfigMap holds 1 MiB; a file ten times as large is a mistake, and would be read every time it changes.
MAX_FILE = 10 * 1024 * 1024
#: Far more policies than anybody has; a wrong path (a home folder) should say so instead of taking minutes.
MAX_FILES = 10_000


NO_PATH = "expected a path, found an empty one (is a variable of the shell not set?); the current folder is ."


class PathParameter(click.Path):
    """The value of an option for a file or folder; not an empty one, which pathlib takes for the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See `click.ParamType.convert`."""
        if value == "":
            self.fail(NO_PATH, param, ctx)
        return super().convert(value, param, ctx)


class FolderError(click.ClickException):
    """A folder or file cannot be read; the text says which and what to do."""

    exit_code = 2


def read_folders(paths: Sequence[Path]) -> list[tuple[str, bytes]]:
    """The name and the bytes of each YAML file in ``paths``, sorted by path; a path may be a file itself.

    Raises:
        FolderError: A path does not exist, or something in it cannot be read.
    """
    return [(shown(path), _read(path)) for path in _files(paths, POLICY_FILES)]


def shown(path: Path) -> str:
    """A path as messages show it: whoever names a file may put control characters into its name."""
    from webhook.kube.plain_text import plain  # noqa: PLC0415 - commands import the core when they run

    return plain(path, LONGEST_NAME)


def fingerprint(paths: Sequence[Path], which: Which = POLICY_FILES) -> Hashable:
    """Equal as long as no file was added, removed, replaced or written; a stat call a file, never raises."""
    try:
        files = list(_files(paths, which))
    except FolderError as error:
        return error.message
    return tuple((str(path), *_stamp(path)) for path in files)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        return (error.errno or 0,)
    return found.st_mtime_ns, found.st_ino, found.st_size


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_FILE:
            raise FolderError(
                f"{shown(path)}: larger than {MAX_FILE // 1024 // 1024} MiB: not a file of policies"
            )
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> FolderError:
    return FolderError(f"{shown(path)}: {reason_of(error)}")


def reason_of(error: OSError) -> str:
    """Why a file or folder could not be read, in words."""
    return f"cannot be read: {os.strerror(error.errno) if error.errno else error}"


def _files(paths: Iterable[Path], which: Which) -> Iterator[Path]:
    """Each file once, though it is named and below a folder that is named, too."""
    seen: set[str] = set()
    for path in paths:
        for file in _under(path, which):
            absolute = os.path.abspath(file)  # noqa: PTH100 - without a call for each file
            if absolute in seen:
                continue
            seen.add(absolute)
            if len(seen) > MAX_FILES:
                raise FolderError(
                    f"{shown(path)}: more than {MAX_FILES} YAML files: is this the right folder?"
                )
            yield file


def _under(path: Path, which: Which) -> Iterator[Path]:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _unreadable(path, error) from error
    if stat.S_ISDIR(mode):
        yield from _walk(path, which, frozenset())
    elif stat.S_ISREG(mode):
        yield path
    else:
        raise FolderError(f"{shown(path)}: neither a folder nor a file")


def _walk(folder: Path, which: Which, above: frozenset[tuple[int, int]]) -> Iterator[Path]:
    """The files below ``folder``; links are followed, but never back to a folder above."""
    try:
        found = folder.stat()
    except OSError as error:
        raise _unreadable(folder, error) from error
    identity = (found.st_dev, found.st_ino)
    if identity in above:
        return
    for entry in _entries(folder):
        mode = _mode(entry)
        if stat.S_ISDIR(mode) and entry.name != which.other_folder:
            yield from _walk(Path(entry.path), which, above | {identity})
        elif stat.S_ISREG(mode) and _counts(entry.name, which):
            yield Path(entry.path)


def _counts(name: str, which: Which) -> bool:
    return name.endswith(which.suffixes) and not name.endswith(which.other_suffixes)


def _mode(entry: os.DirEntry[str]) -> int:
    """What a name leads to; 0 for a link that leads nowhere or to itself."""
    try:
        return entry.stat().st_mode
    except OSError:
        return 0


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Sorted, without hidden ones: a ConfigMap's ``..data`` holds the same files once more."""
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=_name)
    except OSError as error:
        raise _unreadable(folder, error) from error


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name
