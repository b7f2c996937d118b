"""Where results go: `-o FORMAT[=FILE]`."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FORMATS = ("table", "json")
NEW_FILE = 0o666
"""The mode of a new file, of which the umask takes away."""

STDOUT = "-"
NOT_WRITTEN = "the results could not be written"


class OutputError(click.ClickException):
    """Results cannot be written."""

    exit_code = 2


class Target(NamedTuple):
    """A format, and the file for it; stdout where None."""

    format: str
    file: Path | None


class TargetParameter(click.ParamType[Target]):
    """The value of `-o`."""

    name = "FORMAT[=FILE]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        """See `click.ParamType.convert`."""
        if isinstance(value, Target):
            return value
        name, equals, file = str(value).partition("=")
        if name not in FORMATS:
            self.fail(f"unknown format {name!r}; expected {' or '.join(FORMATS)}", param, ctx)
        if equals and not file:
            self.fail(f"{value!r} names no file; write {name}=FILE, or {name} for stdout", param, ctx)
        return Target(name, Path(file) if file not in {"", STDOUT} else None)


def check_targets(targets: Sequence[Target]) -> None:
    """Refuse two formats in one place.

    Raises:
        click.UsageError: there are two for stdout, or for one file.
    """
    places = [target.file for target in targets]
    for place in places:
        if places.count(place) > 1:
            where = "stdout" if place is None else str(place)
            raise click.UsageError(f"two formats for {where}; write one of them to a file: -o FORMAT=FILE")


def wants_colour(*, no_color: bool) -> bool:
    """Whether stdout is a terminal whose user has nothing against colours (https://no-color.org)."""
    is_dumb = os.environ.get("TERM") == "dumb"
    is_terminal = sys.stdout is not None and sys.stdout.isatty()  # None where the shell closed it
    return is_terminal and not (no_color or is_dumb or os.environ.get("NO_COLOR"))


def write_results(
    targets: Sequence[Target], renderers: Mapping[str, Callable[[bool], str]], *, no_color: bool
) -> None:
    """Write each format to its place.

    Args:
        targets: what was asked for.
        renderers: by format, the results as text, with colours or without.
        no_color: whether the user wants none.

    Raises:
        OutputError: a file cannot be written.
    """
    for target in targets:
        if target.file is None:
            print_text(renderers[target.format](wants_colour(no_color=no_color)))
        else:
            write_file(target.file, renderers[target.format](False))


def print_text(text: str, *, err: bool = False) -> None:
    """Print text; where the reader has gone away (`| head`), the rest is nobody's loss.

    Raises:
        OutputError: it cannot be written (`> /dev/full`).
    """
    try:
        with suppress(BrokenPipeError):
            click.echo(text, nl=False, err=err, color=True)
    except OSError as error:
        raise OutputError(f"{'stderr' if err else 'stdout'}: {error.strerror}: {NOT_WRITTEN}") from error


def write_file(path: Path, text: str) -> None:
    """Write a file wholly or not at all; into a device or a pipe, just write.

    A link is followed, as a shell's redirection follows it, but not one that somebody else put into a folder that everybody may
    write to (linux:Documentation/admin-guide/sysctl/fs.rst, protected_symlinks).

    Raises:
        OutputError: it cannot be written.
    """
    try:
        if _is_foreign_link(path):
            raise OutputError(f"{path}: a link that somebody else made in a shared folder: {NOT_WRITTEN}")
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}: {NOT_WRITTEN}") from error


def _is_foreign_link(path: Path) -> bool:
    if not path.is_symlink():
        return False
    folder = path.parent.stat()
    is_shared = bool(folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH)
    return is_shared and path.lstat().st_uid not in {os.geteuid(), folder.st_uid}


def _replace(path: Path, text: str) -> None:
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else NEW_FILE
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    # Never into a file or a link that is there already, and never readable by more than the old file was.
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
