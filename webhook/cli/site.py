"""The options `--kinds` and `--accelerators`: a site's own data on top of the shipped one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.folders import PathParameter, read_folders

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from webhook.review_tools.site_data import SiteData

kinds_option = click.option(
    "--kinds",
    multiple=True,
    type=PathParameter(),
    metavar="FILE",
    help="Further kinds with pods, in the shape of podgate's templates.yaml; repeatable.",
)
accelerators_option = click.option(
    "--accelerators",
    multiple=True,
    type=PathParameter(),
    metavar="FILE",
    help="Further accelerators, in the shape of podgate's accelerators.yaml; repeatable.",
)


def read_site(kinds: Sequence[Path], accelerators: Sequence[Path]) -> SiteData:
    """The site's data in these files, and all that is wrong with them.

    Raises:
        FolderError: a file cannot be read.
    """
    from webhook.review_tools.site_data import site_data  # noqa: PLC0415 - the core is imported when it is needed

    return site_data(read_folders(kinds), read_folders(accelerators))
