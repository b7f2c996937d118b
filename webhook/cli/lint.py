"""``podgate lint``: whether policies are good, and the hash under which they run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from webhook.cli.folders import PathParameter, read_folders
from webhook.cli.site import accelerators_option, kinds_option, read_site
from webhook.cli.targets import Target, TargetParameter, check_targets, print_text, write_results

if TYPE_CHECKING:
    from pathlib import Path

INVALID = 2

EPILOG = """\b
Exit codes:
  0  no error; warnings are none
  2  an error, a warning under --strict, or wrong usage
  3  podgate has a bug"""


@click.command("lint", epilog=EPILOG)
@click.argument("policies", nargs=-1, required=True, type=PathParameter(), metavar="POLICIES...")
@click.option(
    "-o",
    "--output",
    "targets",
    multiple=True,
    type=TargetParameter(),
    default=("table",),
    show_default="table",
    help="table or json, to stdout or into a file; repeatable.",
)
@kinds_option
@accelerators_option
@click.option("--strict", is_flag=True, help="Warnings are errors.")
def command(
    *,
    policies: tuple[Path, ...],
    targets: tuple[Target, ...],
    kinds: tuple[Path, ...],
    accelerators: tuple[Path, ...],
    strict: bool,
) -> None:
    """Check policies, and print how many there are and their hash.

    POLICIES are folders or files. The hash is the one that a changed pod carries in its annotation
    podgate.dev/policies. Errors and warnings go to stderr.

    An error is what cannot be loaded. Where there is none, a warning is what most likely is not meant: two
    rules that may set one field, a rule that can never act or that acts only in a second pass, a misspelt
    resource name, an exception that has ended or ends within 14 days.
    """
    from webhook.output.json_format import render_lint  # noqa: PLC0415 - the core is imported when it is needed
    from webhook.output.problems import render_problems  # noqa: PLC0415
    from webhook.policy import load_policy_set  # noqa: PLC0415
    from webhook.review_tools.lint import lint  # noqa: PLC0415

    check_targets(targets)
    site, files = read_site(kinds, accelerators), read_folders(policies)
    loaded = load_policy_set(files, catalogue=site.catalogue, templates=site.templates)
    warnings = () if loaded.has_errors else lint(files, loaded.policy_set, datetime.now(UTC))
    found = (*site.problems, *loaded.problems, *warnings)
    problems = [replace(each, is_warning=each.is_warning and not strict) for each in found]
    count, digest = len(loaded.policy_set), loaded.policy_set.hash
    code = 0 if all(problem.is_warning for problem in problems) else INVALID
    print_text(render_problems(problems), err=True)
    renderers = {
        "table": lambda _: f"{count} {'policy' if count == 1 else 'policies'}, hash {digest}\n",
        "json": lambda _: render_lint(problems, code, loaded.policy_set),
    }
    write_results(targets, renderers, no_color=True)
    click.get_current_context().exit(code)
