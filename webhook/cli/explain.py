"""``podgate explain``: why each rule did or did not act on an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.check import Reviewing, read, review_options
from webhook.cli.targets import Target, TargetParameter, check_targets, print_text, write_results

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webhook.documents import Document
    from webhook.output.explanations import Explanation
    from webhook.output.results import Skipped

INVALID = 2

EPILOG = """\b
Exit codes:
  0  everything is explained, whatever the policies say
  2  wrong usage, or an invalid policy, manifest or facts file
  3  podgate has a bug

\b
Examples:
  podgate explain pod.yaml --policies policies/ --facts facts/
  kubectl get pod trainer -o yaml | podgate explain - --policies policies/"""


@click.command("explain", epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@review_options
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
@click.option("--no-color", is_flag=True, help="No colours; NO_COLOR does the same.")
def command(
    *, paths: tuple[str, ...], reviewing: Reviewing, targets: tuple[Target, ...], no_color: bool
) -> None:
    """Say why each rule did or did not act on the objects in manifests.

    PATH is a file, a folder (read with all below it), or - for stdin. For each pod and claim, and for each
    pod template of a controller: what it is taken for and why, and policy by policy, in the order in which
    they run, whether it applies, which part of its match says no, which override or exception decides, what
    its rules found and changed, and which rule has a field that another left alone. Needs no cluster.
    """
    from webhook.output.explain_formats import (  # noqa: PLC0415 - the core is imported when it is needed
        render_explanations,
        render_explanations_as_json,
    )
    from webhook.output.explanations import Explanation  # noqa: PLC0415
    from webhook.output.problems import render_problems  # noqa: PLC0415
    from webhook.output.results import Skipped  # noqa: PLC0415

    check_targets(targets)
    policy_set = reviewing.gate.policy_set
    documents, more = read(paths, policy_set.templates)
    problems = (*reviewing.problems, *more)
    found = list(_explain(documents, reviewing))
    explanations = [each for each in found if isinstance(each, Explanation)]
    skipped = [each for each in found if isinstance(each, Skipped)]
    code = 0 if all(problem.is_warning for problem in problems) else INVALID
    head = (code, len(policy_set), policy_set.hash)
    print_text(render_problems(problems), err=True)
    renderers = {
        "table": lambda colour: render_explanations(explanations, skipped, colour=colour),
        "json": lambda _: render_explanations_as_json(explanations, skipped, problems, head),
    }
    write_results(targets, renderers, no_color=no_color)
    click.get_current_context().exit(code)


def _explain(documents: Iterable[Document], reviewing: Reviewing) -> Iterator[Explanation | Skipped]:
    from webhook.output.explanations import Explainer, Placed  # noqa: PLC0415
    from webhook.output.results import skipped  # noqa: PLC0415
    from webhook.review_tools.manifests import NO_TEMPLATE, UNKNOWN_KIND, manifests_in, request_for  # noqa: PLC0415

    templates = reviewing.gate.policy_set.templates
    explainer = Explainer(reviewing.gate)
    for manifest in (manifest for document in documents for manifest in manifests_in(document)):
        request = request_for(manifest.value, reviewing.caller, templates)
        placed = Placed(manifest.document, manifest.base, reviewing.languages)
        found = list(explainer.explain(request, placed)) if request else []
        if request is None or not found:
            kind = templates.kind_of(request.group, request.kind) if request else None
            yield skipped(*manifest, (kind.elsewhere or NO_TEMPLATE) if kind else UNKNOWN_KIND)
        yield from found
