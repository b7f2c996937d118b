"""Where results go: `-o FORMAT[=FILE]`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FORMATS = ("table", "json")
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
        return Target(name, Path(file) if file else None)


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

    Raises:
        OutputError: it cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}: {NOT_WRITTEN}") from error


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
