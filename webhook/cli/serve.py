"""``podgate serve``: the webhook. Everything that can be wrong at the start is said before the port opens."""

from __future__ import annotations

import gc
import os
import tempfile
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

import certs
from webhook.cli.folders import PathParameter, read_folders
from webhook.cli.inputs import fingerprint_with, read_inputs
from webhook.cli.languages import Languages
from webhook.cli.listening import bind_address, listen
from webhook.cli.mode import ceiling, mode_option
from webhook.cli.site import accelerators_option, kinds_option, read_site

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from webhook.documents import Problem
    from webhook.facts import Facts
    from webhook.review_tools.site_data import SiteData
    from webhook.rules.base import Mode
    from webhook.server.live import ClusterSettings
    from webhook.server.state import Content, ServerState

#: gunicorn's own default: more than the API server opens, and what is not accepted yet costs little.
BACKLOG = 2048

PORT = 8443

#: Where podgate is installed, unless somebody says otherwise.
NAMESPACE = "podgate-system"

_FILE = PathParameter()


@click.command("serve")
@click.option(
    "--policies", multiple=True, required=True, type=_FILE, metavar="DIR", help="Policies; repeatable."
)
@click.option(
    "--facts", multiple=True, type=_FILE, metavar="DIR", help="What the cluster has, as files; repeatable."
)
@kinds_option
@accelerators_option
@click.option(
    "--pod-security-default",
    type=click.Choice(["privileged", "baseline", "restricted"]),
    help="The Pod Security level of namespaces without a label.",
)
@click.option("--live", is_flag=True, help="Watch in the cluster what the policies ask about, and the pause.")
@click.option(
    "--kubeconfig",
    type=_FILE,
    metavar="FILE",
    help="The cluster's; else $KUBECONFIG, the pod's own, ~/.kube/config.",
)
@click.option("--context", metavar="NAME", help="Of the kubeconfig.")
@click.option("--namespace", metavar="NS", help="podgate's own; else the pod's, else podgate-system.")
@click.option("--cert", required=True, type=_FILE, metavar="FILE", help="The serving certificate, PEM.")
@click.option("--key", required=True, type=_FILE, metavar="FILE", help="Its key, PEM.")
@click.option(
    "--bind",
    default=f":{PORT}",
    show_default=True,
    metavar="[HOST]:PORT",
    help="Where to listen; without HOST on all addresses, IPv4 and IPv6.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
@mode_option
@click.option(
    "--languages", type=Languages(), default="en", show_default=True, help="Of denials: en,zh or zh,en."
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def command(  # noqa: PLR0913, PLR0917  # one argument for each option
    policies: tuple[Path, ...],
    facts: tuple[Path, ...],
    kinds: tuple[Path, ...],
    accelerators: tuple[Path, ...],
    pod_security_default: str | None,
    live: bool,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    cert: Path,
    key: Path,
    bind: str,
    workers: int,
    mode: str | None,
    languages: tuple[str, ...],
    log_level: str,
) -> None:
    """Answer the API server's admission reviews.

    All these files and the certificate are followed: a change is in force within seconds, without a restart;
    whatever is wrong with it is said in the log and in /readyz, and the old stays in force.
    """
    address = bind_address(bind, PORT)
    cluster = _cluster(live, kubeconfig, context, namespace)
    _check_pair(cert, key)
    files = _Files(policies, facts, kinds, accelerators, pod_security_default)
    state = _load(files, mode, languages)
    listener = listen(address, BACKLOG)
    metrics_dir = _share_metrics() if workers > 1 else None

    from webhook.server.exceptions import say_endings  # noqa: PLC0415
    from webhook.server.gateway import Gateway, Settings  # noqa: PLC0415  # after the metrics' folder is known
    from webhook.server.logs import configure_logs  # noqa: PLC0415

    configure_logs(log_level)
    say_endings(state.content.policy_set, datetime.now(UTC))
    settings = Settings(
        listener,
        cert,
        key,
        workers=workers,
        log_reviews=log_level in {"debug", "info"},
        metrics_dir=metrics_dir,
        cluster=cluster,
    )
    gateway = Gateway(settings, state)
    # What is loaded stays: workers share it by fork as long as the collector does not touch it, and a full
    # collection that looks at it all takes tens of milliseconds in the middle of a review.
    gc.collect()
    gc.freeze()
    gateway.run()


def _cluster(
    live: bool,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
) -> ClusterSettings | None:
    """What to watch; whether there is any cluster is said before the port opens."""
    if not live:
        named = {"--kubeconfig": kubeconfig, "--context": context, "--namespace": namespace}
        given = next((option for option, value in named.items() if value is not None), None)
        if given:
            raise click.UsageError(f"{given} says which cluster is watched: add --live")
        return None
    from webhook.cluster import ApiError  # noqa: PLC0415
    from webhook.cluster.configuration import find_source, own_namespace  # noqa: PLC0415
    from webhook.server.live import ClusterSettings  # noqa: PLC0415

    try:
        find_source(kubeconfig, context)
    except ApiError as error:
        raise click.UsageError(error.message) from error
    return ClusterSettings(kubeconfig, context, namespace or own_namespace() or NAMESPACE)


def _check_pair(certificate: Path, key: Path) -> None:
    """Refuse a pair that no server can start with; warn of one that no caller accepts."""
    try:
        pair = certs.Pair(certificate.read_bytes(), key.read_bytes())
    except OSError as error:
        hint = "make a pair with: podgate certs --out DIR …"
        raise click.UsageError(f"{error.filename}: {error.strerror}; {hint}") from error
    now = datetime.now(UTC)
    problems = certs.problems_of(pair, at=_while_valid(pair, now))
    if problems:
        raise click.UsageError(f"{certificate} and {key}: {'; '.join(problems)}")
    for problem in certs.problems_of(pair, at=now):
        click.echo(f"{certificate}: warning: {problem}", err=True)


def _while_valid(pair: certs.Pair, otherwise: datetime) -> datetime:
    """A moment at which time is no problem."""
    try:
        return certs.expiry_of(pair.certificate) - timedelta(seconds=1)
    except ValueError:
        return otherwise


def _share_metrics() -> str:
    """The folder in which the workers share their counts; prometheus_client looks for it when it is imported."""
    from webhook.server.places import temporary_dir  # noqa: PLC0415

    folder = tempfile.mkdtemp(prefix="podgate-metrics-", dir=temporary_dir())
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
    return folder


class _Files(NamedTuple):
    """Where everything that is served stands."""

    policies: tuple[Path, ...]
    facts: tuple[Path, ...]
    kinds: tuple[Path, ...]
    accelerators: tuple[Path, ...]
    pod_security_default: str | None

    def fingerprint(self) -> Hashable:
        """Equal as long as nothing changed."""
        return fingerprint_with(self.policies, (*self.facts, *self.kinds, *self.accelerators))


class SiteDataError(click.ClickException):
    """The files of `--kinds` or `--accelerators` have faults: without them, policies would mean something else."""

    exit_code = 2


def _load(files: _Files, mode: str | None, languages: tuple[str, ...]) -> ServerState:
    from webhook.server.state import ServerState, Sources  # noqa: PLC0415

    read = partial(_read, files, ceiling(mode))
    state = ServerState(Sources(read, files.fingerprint), languages)
    for problem in state.content.problems:
        click.echo(f"{'warning: ' if problem.is_warning else ''}{problem}", err=True)
    if not state.usable:
        click.echo("not one policy is good: serving, but not ready until the files are repaired", err=True)
    return state


def _read(files: _Files, mode_ceiling: Mode) -> Content:
    """Read everything anew, and make it ready to answer."""
    from webhook.policy import load_policy_set  # noqa: PLC0415
    from webhook.server.state import Content  # noqa: PLC0415
    from webhook.server.warm_up import warm_up  # noqa: PLC0415

    site = _read_site(files)
    loaded = load_policy_set(
        read_folders(files.policies),
        mode_ceiling=mode_ceiling,
        catalogue=site.catalogue,
        templates=site.templates,
    )
    known, problems = _read_facts(files)
    warm_up(loaded.policy_set, known)
    return Content(loaded.policy_set, known, (*site.problems, *loaded.problems, *problems))


def _read_site(files: _Files) -> SiteData:
    site = read_site(files.kinds, files.accelerators)
    errors = [str(problem) for problem in site.problems if not problem.is_warning]
    if errors:
        raise SiteDataError("\n".join(errors))
    return site


def _read_facts(files: _Files) -> tuple[Facts, tuple[Problem, ...]]:
    from webhook.documents import read_documents  # noqa: PLC0415
    from webhook.review_tools.manifests import facts_in  # noqa: PLC0415

    inputs = read_inputs(map(str, files.facts))
    readings = [read_documents(data, source, strict=False) for source, data in inputs.files]
    documents = (document for reading in readings for document in reading.documents)
    problems = (problem.without_text() for reading in readings for problem in reading.problems)
    return facts_in(documents, files.pod_security_default), (*inputs.problems, *problems)
