"""The command `podgate`: its subcommands are the modules beside this one that have a `command`."""

from __future__ import annotations

import errno
import io
import os
import pkgutil
import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

import webhook.cli

if TYPE_CHECKING:
    from collections.abc import Sequence

BUG = 3
INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""

LONGEST_LINE = 1000
"""Characters of a line of a traceback: no line of our own is longer."""


class Commands(click.Group):
    """Commands that are imported when they are called for; `--help` alone imports all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return [name for name in _modules() if self.get_command(ctx, name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The `command` of the module of that name; None where there is none."""
        del ctx
        if cmd_name not in _modules():
            return None
        found = getattr(import_module(f"{webhook.cli.__name__}.{cmd_name}"), "command", None)
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name, or the nearest one as a hint."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"did you mean {near[0]}?" if near else f"it may be: {', '.join(self.list_commands(ctx))}"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; whatever it did not expect becomes one line."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, KeyboardInterrupt):
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            return _report_bug(ctx, error)
        except Exception as error:  # noqa: BLE001 - the last resort
            return _report_bug(ctx, error)


def _modules() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(webhook.cli.__path__))


def _report_bug(ctx: click.Context, error: Exception) -> None:
    from webhook.kube.plain_text import plain  # noqa: PLC0415 - needed once in a lifetime

    if ctx.params.get("debug"):  # the text of an error may quote an input, and so a secret: only on demand
        for line in "".join(traceback.format_exception(error)).splitlines():
            click.echo(plain(line, LONGEST_LINE), err=True)
    click.echo(
        f"podgate: internal error ({type(error).__name__}): please report it, with the input and "
        "what podgate --debug … prints",
        err=True,
    )
    ctx.exit(BUG)


@click.command(
    "podgate",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "PODGATE"},
    epilog="""\b
Completion of commands and options in a shell:
  bash: eval "$(_PODGATE_COMPLETE=bash_source podgate)"   in ~/.bashrc
  zsh:  eval "$(_PODGATE_COMPLETE=zsh_source podgate)"    in ~/.zshrc
  fish: _PODGATE_COMPLETE=fish_source podgate | source    in ~/.config/fish/config.fish""",
)
@click.version_option(package_name="podgate", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show where podgate itself failed.")
def podgate(*, debug: bool) -> None:
    """An admission gate for AI pods on Kubernetes and KubeSphere.

    Results go to stdout, errors and warnings to stderr. PODGATE_<COMMAND>_<OPTION> sets an option.
    """
    del debug  # `Commands.invoke` reads it


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit.

    Args:
        arguments: those behind `podgate`; the process's own where None.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode is no reason to fail
    try:
        code = podgate.main(arguments, prog_name="podgate", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("podgate: interrupted", err=True)
        code = INTERRUPTED
    sys.exit(_flushed(code if isinstance(code, int) else 0))


def _flushed(code: int) -> int:
    """The exit code, once nothing is left that the interpreter would try in vain to write at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # the shell may have closed it
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code
