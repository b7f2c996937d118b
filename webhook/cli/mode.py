"""The option `--mode`: the webhook and whoever registers it must judge policies alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from webhook.rules.base import Mode

MODES = ("audit", "warn")

mode_option = click.option(
    "--mode",
    type=click.Choice(MODES),
    help="The most that a policy file may do; the same for the webhook and for who registers it.",
)


def ceiling(mode: str | None) -> Mode:
    """The mode of an option, the highest where none was given."""
    from webhook.rules.base import Mode  # noqa: PLC0415 - the core is imported when it is needed

    return Mode(mode) if mode else Mode.ENFORCE
