"""``podgate check``: what the gate would say to manifests, without a cluster."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple

import click

from webhook.cli.folders import PathParameter, read_folders
from webhook.cli.inputs import read_inputs
from webhook.cli.languages import Languages
from webhook.cli.site import accelerators_option, kinds_option, read_site
from webhook.cli.targets import Target, TargetParameter, check_targets, print_text, write_results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from webhook.documents import Document, Problem
    from webhook.engine import Gate
    from webhook.kube.templates import TemplateKinds
    from webhook.output.exit_code import FailOn
    from webhook.output.results import CheckResult, ObjectResult, Skipped
    from webhook.review_tools.manifests import Caller, Manifest

NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""kubernetes/apimachinery:pkg/util/validation/validation.go, IsDNS1123Label."""

EPILOG = """\b
Exit codes; of several that hold, 3 before 2 before 1 before 4:
  0  clean; changes that policies would make are no failure
  1  a policy failed (see --fail-on)
  2  wrong usage, or an invalid policy, manifest or facts file
  3  a rule could not be evaluated, lacked facts under --on-unknown fail, or podgate has a bug
  4  no rule applied to any object, under --require-match

\b
Examples:
  podgate check pods/ --policies policies/
  helm template . | podgate check - --policies policies/ -o table -o json=report.json
  kubectl get priorityclass,storageclass,namespace -o yaml > facts/cluster.yaml
  podgate check pod.yaml --policies policies/ --facts facts/"""


class NamespaceParameter(click.ParamType[str]):
    """The value of `--namespace`."""

    name = "NS"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """See `click.ParamType.convert`."""
        text = str(value)
        if not NAMESPACE.fullmatch(text):
            self.fail(f"expected small letters, digits and -, at most 63, found {text!r}", param, ctx)
        return text


SHARED = (
    click.option(
        "--policies",
        "-p",
        multiple=True,
        required=True,
        type=PathParameter(),
        metavar="DIR",
        help="Policies; repeatable.",
    ),
    click.option(
        "--facts",
        multiple=True,
        metavar="DIR",
        help="What the cluster has, as `kubectl get -o yaml` prints it; repeatable.",
    ),
    kinds_option,
    accelerators_option,
    click.option(
        "--operation",
        type=click.Choice(["CREATE", "UPDATE"]),
        default="CREATE",
        show_default=True,
        help="What is done with the objects; on UPDATE, as if every field had changed.",
    ),
    click.option("--user", default="", metavar="NAME", help="Who sends the objects."),
    click.option(
        "--group", "groups", multiple=True, metavar="GROUP", help="A group of the user; repeatable."
    ),
    click.option(
        "--namespace",
        "-n",
        type=NamespaceParameter(),
        default="default",
        show_default=True,
        help="Of objects that name none.",
    ),
    click.option(
        "--pod-security-default",
        type=click.Choice(["privileged", "baseline", "restricted"]),
        help="The Pod Security level of namespaces without a label.",
    ),
    click.option(
        "--languages", type=Languages(), default="en", show_default=True, help="Of messages: en,zh or zh,en."
    ),
)
"""The options that decide what a review is: of `check` and of `explain`."""


class Reviewing(NamedTuple):
    """What the shared options come to.

    Attributes:
        problems: all that is wrong with policies, facts and the site's data.
    """

    gate: Gate
    caller: Caller
    languages: tuple[str, ...]
    problems: tuple[Problem, ...]


def review_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the shared options, and their outcome as its argument `reviewing`."""

    @wraps(function)
    def with_reviewing(  # noqa: PLR0913 - one argument for each option
        *,
        policies: tuple[Path, ...],
        facts: tuple[str, ...],
        kinds: tuple[Path, ...],
        accelerators: tuple[Path, ...],
        operation: str,
        user: str,
        groups: tuple[str, ...],
        namespace: str,
        pod_security_default: str | None,
        languages: tuple[str, ...],
        targets: tuple[Target, ...],
        **own: object,
    ) -> None:
        from webhook.review_tools.manifests import Caller  # noqa: PLC0415 - the core is imported when it is needed

        check_targets(targets)
        caller = Caller(operation=operation, username=user, groups=groups, namespace=namespace)
        files = read_folders(policies)
        gate, problems = _gate(files, facts, kinds, accelerators, pod_security_default)
        reviewing = Reviewing(gate, caller, languages, problems)
        function(reviewing=reviewing, targets=targets, **own)

    for option in reversed(SHARED):
        with_reviewing = option(with_reviewing)
    return with_reviewing


@click.command("check", epilog=EPILOG)
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
@click.option(
    "--fail-on",
    type=click.Choice(["enforce", "warn", "any", "never"]),
    default="enforce",
    show_default=True,
    help="Which violations make the exit code 1: of policies in this mode or a stronger one.",
)
@click.option(
    "--on-unknown",
    type=click.Choice(["warn", "fail"]),
    default="warn",
    show_default=True,
    help="What a rule that lacks facts is.",
)
@click.option("--require-match", is_flag=True, help="Exit with 4 where no rule applied to any object.")
@click.option("--no-color", is_flag=True, help="No colours; NO_COLOR does the same.")
def command(
    *,
    paths: tuple[str, ...],
    reviewing: Reviewing,
    targets: tuple[Target, ...],
    fail_on: FailOn,
    on_unknown: str,
    require_match: bool,
    no_color: bool,
) -> None:
    """Say what the gate would do with pods, claims and controllers in manifests.

    PATH is a file, a folder (read with all below it), or - for stdin. Pods, PersistentVolumeClaims and
    everything with pod templates are checked, also in Lists: Deployments, Jobs, PyTorchJobs and so on get
    the verdict of their future pods. Other kinds are listed as skipped. Needs no cluster.
    """
    from webhook.output.exit_code import exit_code_of  # noqa: PLC0415 - the core is imported when it is needed
    from webhook.output.json_format import render_check  # noqa: PLC0415
    from webhook.output.problems import render_problems  # noqa: PLC0415
    from webhook.output.table import render_table  # noqa: PLC0415

    result = _check(paths, reviewing)
    code = exit_code_of(result, fail_on, unknown_fails=on_unknown == "fail", require_match=require_match)
    print_text(render_problems(result.problems), err=True)
    renderers = {
        "table": lambda colour: render_table(result, colour=colour),
        "json": lambda _: render_check(result, code),
    }
    write_results(targets, renderers, no_color=no_color)
    click.get_current_context().exit(code)


def _gate(
    files: Sequence[tuple[str, bytes]],
    facts: Sequence[str],
    kinds: Sequence[Path],
    accelerators: Sequence[Path],
    pod_security_default: str | None,
) -> tuple[Gate, tuple[Problem, ...]]:
    """What reviews need, as of now, and all that is wrong with policies, facts and the site's data."""
    from webhook.engine import Gate  # noqa: PLC0415
    from webhook.policy import load_policy_set  # noqa: PLC0415
    from webhook.review_tools.manifests import facts_in  # noqa: PLC0415

    site = read_site(kinds, accelerators)
    loaded = load_policy_set(files, catalogue=site.catalogue, templates=site.templates)
    documents, problems = read(facts, site.templates, quoted=False)
    known = facts_in(documents, pod_security_default)
    gate = Gate(loaded.policy_set, known, now=datetime.now(UTC))
    return gate, (*site.problems, *loaded.problems, *problems)


def _check(paths: Sequence[str], reviewing: Reviewing) -> CheckResult:
    from webhook.output.results import CheckResult, ObjectResult, Skipped  # noqa: PLC0415
    from webhook.review_tools.manifests import manifests_in  # noqa: PLC0415

    gate = reviewing.gate
    documents, more = read(paths, gate.policy_set.templates)
    manifests = [manifest for document in documents for manifest in manifests_in(document)]
    found = list(_review(manifests, reviewing))
    return CheckResult(
        gate.policy_set.hash,
        len(gate.policy_set),
        tuple(each for each in found if isinstance(each, ObjectResult)),
        tuple(each for each in found if isinstance(each, Skipped)),
        (*reviewing.problems, *more),
    )


def read(
    paths: Sequence[str], templates: TemplateKinds, *, quoted: bool = True
) -> tuple[list[Document], list[Problem]]:
    """The documents in files of Kubernetes objects, and all that is wrong, file by file, from top to bottom.

    Args:
        paths: files, folders, or - for stdin.
        templates: the kinds with templates of pods.
        quoted: whether a fault in a file may be shown with the text that stands there.
    """
    from webhook.documents import read_documents  # noqa: PLC0415
    from webhook.review_tools.manifests import problems_in  # noqa: PLC0415

    inputs = read_inputs(paths)
    documents: list[Document] = []
    problems = list(inputs.problems)
    for source, data in inputs.files:
        reading = read_documents(data, source, strict=False)
        documents.extend(reading.documents)
        problems.extend(problems_in(reading, templates, quoted=quoted))
    return documents, problems


def _review(manifests: Sequence[Manifest], reviewing: Reviewing) -> Iterator[ObjectResult | Skipped]:
    from webhook.engine import review  # noqa: PLC0415
    from webhook.output.results import object_result, skipped  # noqa: PLC0415
    from webhook.review_tools.manifests import UNKNOWN_KIND, request_for, why_not_reviewed  # noqa: PLC0415

    for manifest in manifests:
        request = request_for(manifest.value, reviewing.caller, reviewing.gate.policy_set.templates)
        outcome = review(reviewing.gate, request) if request else None
        reason = why_not_reviewed(outcome) if outcome else UNKNOWN_KIND
        if outcome is None or reason:
            yield skipped(*manifest, reason)
        else:
            yield object_result(outcome, manifest.document, manifest.base, reviewing.languages)
