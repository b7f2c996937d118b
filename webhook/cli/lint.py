"""``podgate lint``: whether policies are good, and the hash under which they run."""

from __future__ import annotations

from pathlib import Path

import click

from webhook.cli.folders import read_folders
from webhook.cli.targets import Target, TargetParameter, check_targets, print_text, write_results

INVALID = 2

EPILOG = """\b
Exit codes:
  0  no error; warnings are none
  2  an error, or wrong usage
  3  podgate has a bug"""


@click.command("lint", epilog=EPILOG)
@click.argument("policies", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="POLICIES...")
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
def command(*, policies: tuple[Path, ...], targets: tuple[Target, ...]) -> None:
    """Check policies, and print how many there are and their hash.

    POLICIES are folders or files. The hash is the one that a changed pod carries in its annotation
    podgate.dev/policies. Errors and warnings go to stderr.
    """
    from webhook.output.json_format import render_lint  # noqa: PLC0415 - the core is imported when it is needed
    from webhook.output.problems import render_problems  # noqa: PLC0415
    from webhook.policy import load_policy_set  # noqa: PLC0415

    check_targets(targets)
    loaded = load_policy_set(read_folders(policies))
    count, digest = len(loaded.policy_set), loaded.policy_set.hash
    code = INVALID if loaded.has_errors else 0
    print_text(render_problems(loaded.problems), err=True)
    renderers = {
        "table": lambda _: f"{count} {'policy' if count == 1 else 'policies'}, hash {digest}\n",
        "json": lambda _: render_lint(loaded.problems, code, count, digest),
    }
    write_results(targets, renderers, no_color=True)
    click.get_current_context().exit(code)
