"""``podgate controller``: renew the certificates and keep the webhook configurations as the policies need them."""

from __future__ import annotations

import signal
import socket
import threading
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import click

from certs import service_names
from certs.rotate import API_SERVER_LAG, SECRET_SYNC, Waits
from webhook.cli.connection import connect, context_option, kubeconfig_option, namespace_option, said
from webhook.cli.folders import PathParameter, read_folders
from webhook.cli.inputs import fingerprint_with
from webhook.cli.listening import bind_address, listen
from webhook.cli.mode import ceiling, mode_option
from webhook.cli.site import accelerators_option, kinds_option, read_site

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from webhook.cluster import Api
    from webhook.controller.certificates import Certificates
    from webhook.controller.leadership import Leadership
    from webhook.controller.metrics import Metrics
    from webhook.controller.policies import FollowedPolicies
    from webhook.controller.reconcile import Reconciler
    from webhook.controller.writing import Writer
    from webhook.policy import Loaded
    from webhook.rules.base import Mode

SERVICE = "podgate"
PORT = 8080
#: The Certificate of deploy/kustomize/overlays/cert-manager.
CERTIFICATE = "podgate"

EPILOG = """\b
Exit codes:
  0  told to stop; with --once or --rotate, done
  2  wrong usage; with --once, also policies with errors: certificates were renewed, and what is registered stays
  3  with --once or --rotate: the cluster did not answer or refused, or another controller leads"""

_FILE = PathParameter()


class ControllerError(click.ClickException):
    """It cannot start; the text says why and what to do."""

    exit_code = 2


class LookError(click.ClickException):
    """`--once`: the look did not succeed."""

    exit_code = 3


class _Place(NamedTuple):
    """Where podgate is."""

    namespace: str
    service: str
    url: str

    @property
    def names(self) -> tuple[str, ...]:
        """What its certificate must be for; first, what the API server asks for."""
        host = urlsplit(self.url).hostname
        return (host,) if host else service_names(self.service, self.namespace)


class _Files(NamedTuple):
    """What policies are read from."""

    policies: tuple[Path, ...]
    kinds: tuple[Path, ...]
    accelerators: tuple[Path, ...]


class _Source(NamedTuple):
    """Where certificates come from."""

    kind: str
    ca_file: Path | None
    certificate: str
    waits: Waits


@click.command("controller", epilog=EPILOG)
@click.option("--policies", multiple=True, type=_FILE, metavar="DIR", help="Policies; repeatable.")
@kinds_option
@accelerators_option
@mode_option
@namespace_option
@click.option("--service", default=SERVICE, show_default=True, metavar="NAME", help="The webhook's Service.")
@click.option("--url", default="", metavar="URL", help="Where the webhook is, if it is not behind a Service.")
@click.option(
    "--exclude-namespace",
    "excluded",
    multiple=True,
    metavar="NS",
    help="Never called for this namespace, either; repeatable.",
)
@click.option(
    "--enforce",
    is_flag=True,
    help="Let an outage block what policies with failurePolicy: Fail concern, once a review succeeds.",
)
@click.option(
    "--certificates",
    type=click.Choice(["self", "cert-manager", "files"]),
    default="self",
    show_default=True,
    help="Who makes them.",
)
@click.option("--ca-file", type=_FILE, metavar="FILE", help="With files: the CA for every caBundle, PEM.")
@click.option(
    "--certificate",
    metavar="NS/NAME",
    help=f"With cert-manager: its Certificate.  [default: NS/{CERTIFICATE}]",
)
@click.option(
    "--api-server-lag",
    type=click.FloatRange(0),
    default=API_SERVER_LAG.total_seconds(),
    show_default=True,
    metavar="SECONDS",
    help="How long an API server may go on with an old caBundle.",
)
@click.option(
    "--secret-sync",
    type=click.FloatRange(0),
    default=SECRET_SYNC.total_seconds(),
    show_default=True,
    metavar="SECONDS",
    help="How long a kubelet may take to bring a Secret.",
)
@click.option(
    "--rotate", is_flag=True, help="Ask for a new CA, and end: the controller that leads sees to it."
)
@click.option("--once", is_flag=True, help="Look once, and end.")
@click.option(
    "--bind",
    default=f":{PORT}",
    show_default=True,
    metavar="[HOST]:PORT",
    help="For /healthz and /metrics; without HOST on all addresses, IPv4 and IPv6.",
)
@kubeconfig_option
@context_option
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def command(  # noqa: PLR0913, PLR0917  # one argument for each option
    policies: tuple[Path, ...],
    kinds: tuple[Path, ...],
    accelerators: tuple[Path, ...],
    mode: str | None,
    namespace: str,
    service: str,
    url: str,
    excluded: tuple[str, ...],
    certificates: str,
    ca_file: Path | None,
    certificate: str | None,
    api_server_lag: float,
    secret_sync: float,
    bind: str,
    kubeconfig: Path | None,
    context: str | None,
    log_level: str,
    *,
    enforce: bool,
    rotate: bool,
    once: bool,
) -> None:
    """Renew the certificates and keep the webhook configurations as the policies need them.

    Run two: one leads, by a Lease, and the other takes over. Everything it knows is in the cluster, so it may be killed
    at any moment. While a pause is in force it leaves the webhook configurations alone.
    """
    from webhook.server.logs import configure_logs  # noqa: PLC0415

    configure_logs(log_level)
    place = _Place(namespace, service, _checked_url(url))
    address = bind_address(bind, PORT)
    api = connect(kubeconfig, context)
    if rotate:
        _ask_for_rotation(api, namespace)
        return
    if not policies:
        raise click.UsageError("--policies is missing: give the folders that the webhook serves")
    waits = Waits(timedelta(seconds=api_server_lag), timedelta(seconds=secret_sync))
    source = _Source(
        certificates,
        _checked_ca_file(certificates, ca_file),
        certificate or f"{namespace}/{CERTIFICATE}",
        waits,
    )
    followed = _follow(_Files(policies, kinds, accelerators), ceiling(mode))
    parts = _assemble(api, place, source, followed, excluded, may_block=enforce)
    if once:
        _look_once(parts)
        if followed.fault:
            raise ControllerError(
                f"the webhook configurations stay as they are: {followed.fault}; see `podgate lint`"
            )
    else:
        _run(parts, address)


class _Parts(NamedTuple):
    """What one controller is made of."""

    leadership: Leadership
    metrics: Metrics
    reconciler: Reconciler


def _assemble(
    api: Api,
    place: _Place,
    source: _Source,
    policies: FollowedPolicies,
    excluded: tuple[str, ...],
    *,
    may_block: bool,
) -> _Parts:
    from webhook.controller.configurations import Configurations  # noqa: PLC0415
    from webhook.controller.leadership import Leadership  # noqa: PLC0415
    from webhook.controller.metrics import Metrics  # noqa: PLC0415
    from webhook.controller.reconcile import Reconciler  # noqa: PLC0415
    from webhook.controller.writing import Writer  # noqa: PLC0415

    leadership = Leadership(api, place.namespace, _identity())
    metrics = Metrics()
    writer = Writer(api, leadership.check, metrics.count_write)
    configurations = Configurations(
        api,
        writer,
        partial(_wanted, policies, place, excluded),
        partial(_faults, api, place),
        may_block=may_block,
        is_known=lambda: not policies.fault,
    )
    certificates = _certificates(api, writer, place, source)
    return _Parts(
        leadership, metrics, Reconciler(api, place.namespace, certificates, configurations, metrics)
    )


def _look_once(parts: _Parts) -> None:
    """One look, if nobody else leads."""
    from webhook.controller.certificates import CertificatesError  # noqa: PLC0415
    from webhook.controller.leadership import NotLeaderError  # noqa: PLC0415

    try:
        with said():
            parts.leadership.attempt()
            if not parts.leadership.leads:
                raise LookError("another controller leads: stop it, or leave this to it")
            click.echo(parts.reconciler.reconcile())
    except CertificatesError as error:
        raise LookError(str(error)) from error
    except NotLeaderError as error:
        raise LookError(f"{error}: try again") from error
    finally:
        parts.leadership.stop()


def _run(parts: _Parts, address: tuple[str, int]) -> None:
    """Lead or stand by until SIGTERM or SIGINT, then give the Lease back."""
    from webhook.controller.health import HealthServer  # noqa: PLC0415
    from webhook.controller.loop import Loop  # noqa: PLC0415

    listener = listen(address)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    loop = Loop(parts.reconciler.reconcile, parts.leadership, parts.metrics, stop)
    with HealthServer(listener, lambda: loop.is_alive, parts.metrics.registry) as health:
        health.start()
        parts.leadership.start()
        try:
            loop.run()
        finally:
            parts.leadership.stop()
            health.shutdown()


def _wanted(
    policies: FollowedPolicies, place: _Place, excluded: tuple[str, ...], bundle: bytes
) -> tuple[dict[str, Any], ...]:
    from webhook.registration import Endpoint, webhook_configurations  # noqa: PLC0415

    endpoint = Endpoint(
        service=None if place.url else (place.namespace, place.service), url=place.url, ca_bundle=bundle
    )
    return webhook_configurations(
        policies.called_for(),
        endpoint,
        excluded_namespaces=(*excluded, place.namespace),
        enforce_failure_policy=True,
    )


def _replicas(api: Api, place: _Place) -> tuple[Any, ...]:
    from webhook.controller.replicas import replicas_of_service, replicas_of_url  # noqa: PLC0415
    from webhook.registration import Endpoint  # noqa: PLC0415

    if place.url:
        return replicas_of_url(place.url)
    return replicas_of_service(api, place.namespace, place.service, Endpoint().port)


def _faults(api: Api, place: _Place, path: str, bundle: bytes) -> tuple[str, ...]:
    from webhook.cluster import ApiError  # noqa: PLC0415
    from webhook.controller.replicas import faults_of  # noqa: PLC0415

    try:
        replicas = _replicas(api, place)
    except ApiError as error:
        return (str(error),)
    return faults_of(replicas, place.names[0], path, bundle)


def _look(api: Api, place: _Place) -> tuple[bytes | None, ...]:
    from webhook.controller.replicas import served_certificates  # noqa: PLC0415

    return served_certificates(_replicas(api, place), place.names[0])


def _certificates(api: Api, writer: Writer, place: _Place, source: _Source) -> Certificates:
    from webhook.controller.certificates import (  # noqa: PLC0415
        CertManagerCertificates,
        FileCertificates,
        OwnCertificates,
    )

    if source.kind == "cert-manager":
        return CertManagerCertificates(source.certificate)
    if source.ca_file is not None:
        return FileCertificates(source.ca_file)
    look = partial(_look, api, place)
    return OwnCertificates(api, writer, place.namespace, place.names, source.waits, look)


def _follow(files: _Files, mode_ceiling: Mode) -> FollowedPolicies:
    from webhook.controller.policies import FollowedPolicies  # noqa: PLC0415

    look = partial(fingerprint_with, files.policies, (*files.kinds, *files.accelerators))
    return FollowedPolicies(partial(_read, files, mode_ceiling), look)


def _read(files: _Files, mode_ceiling: Mode) -> Loaded:
    """Read all as the webhook does; of policies that would mean something else, for the site's own data has faults, none.

    Raises:
        FolderError: A file cannot be read.
    """
    from webhook.policy import Loaded, load_policy_set  # noqa: PLC0415

    site = read_site(files.kinds, files.accelerators)
    if any(not problem.is_warning for problem in site.problems):
        return Loaded(load_policy_set([]).policy_set, tuple(site.problems))
    return load_policy_set(
        read_folders(files.policies),
        mode_ceiling=mode_ceiling,
        catalogue=site.catalogue,
        templates=site.templates,
    )


def _ask_for_rotation(api: Api, namespace: str) -> None:
    from webhook.controller.objects import AUTHORITY_SECRET, ROTATE  # noqa: PLC0415

    path = f"/api/v1/namespaces/{namespace}/secrets/{AUTHORITY_SECRET}"
    with said():
        api.merge_patch(path, {"metadata": {"annotations": {ROTATE: "now"}}})
    click.echo(f"asked for a new CA: the log of the controller in {namespace} says how the hand-over goes")


def _checked_url(url: str) -> str:
    if url and not _is_https(url):
        raise click.UsageError(f"--url {url}: expected https://HOST:PORT, as the API server is to call it")
    return url


def _is_https(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # half an IPv6 address, a port beyond 65535
        return False


def _checked_ca_file(certificates: str, ca_file: Path | None) -> Path | None:
    if (certificates == "files") != (ca_file is not None):
        raise click.UsageError("--certificates files and --ca-file FILE go together")
    return ca_file


def _identity() -> str:
    """The pod's name, and something of this process alone: a container that restarts is another candidate."""
    return f"{socket.gethostname()}_{uuid4().hex[:12]}"
