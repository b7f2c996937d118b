"""``podgate certs``: make the webhook's certificates, or say what is wrong with those there are."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

import certs
from certs.files import CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY
from webhook.cli.folders import PathParameter, reason_of, shown

#: Below this the check speaks up: a third of a serving certificate's life, time for a renewal and a
#: second try.
EXPIRES_SOON = certs.SERVING_LIFETIME / 3


EPILOG = """\b
Exit codes:
  0  made, or good; an end that is near is said and no failure
  1  with --check, something is wrong with the pair
  2  wrong usage, or a file that cannot be read or written
  3  podgate has a bug

\b
Examples:
  podgate certs --out certs.d --service podgate --namespace podgate-system
  podgate certs --check certs.d --service podgate --namespace podgate-system"""


class FileError(click.ClickException):
    """A file cannot be read or written."""

    exit_code = 2


@click.command("certs", epilog=EPILOG)
@click.option("--out", type=PathParameter(), metavar="DIR", help="Make a CA and a serving pair here.")
@click.option("--check", type=PathParameter(), metavar="DIR", help="Say what is wrong with a pair.")
@click.option("--service", metavar="NAME", help="The webhook's Service.")
@click.option("--namespace", metavar="NS", help="The Service's namespace.")
@click.option("--dns", "dns_names", multiple=True, metavar="NAME", help="A further DNS name; repeatable.")
@click.option("--ip", "addresses", multiple=True, metavar="IP", help="An IP address; repeatable.")
@click.option(
    "--days",
    type=click.IntRange(1, certs.CA_LIFETIME.days),
    default=certs.SERVING_LIFETIME.days,
    show_default=True,
    help="How long the serving certificate is valid.",
)
def command(  # one argument for each option
    out: Path | None,
    check: Path | None,
    service: str | None,
    namespace: str | None,
    dns_names: tuple[str, ...],
    addresses: tuple[str, ...],
    days: int,
) -> None:
    """Make a CA and a serving certificate, or check those in a folder.

    A good CA that is already in DIR is kept, so the caBundle in the cluster stays right; the serving
    certificate is always made anew.
    """
    names = _names(service, namespace, dns_names, addresses)
    if (out is None) == (check is None):
        raise click.UsageError("say either --out DIR to make certificates or --check DIR to look at them")
    if check is not None:
        _check(check, names)
    elif out is not None:
        _make(out, names, timedelta(days=days))


def _names(
    service: str | None, namespace: str | None, dns_names: tuple[str, ...], addresses: tuple[str, ...]
) -> tuple[str, ...]:
    if (service is None) != (namespace is None):
        raise click.UsageError("--service and --namespace go together")
    of_service = certs.service_names(service, namespace) if service and namespace else ()
    return tuple(dict.fromkeys((*of_service, *dns_names, *addresses)))


def _make(folder: Path, names: tuple[str, ...], lifetime: timedelta) -> None:
    if not names:
        raise click.UsageError(
            "a serving certificate needs a name: --service and --namespace, or --dns, or --ip"
        )
    now = datetime.now(UTC)
    kept = _good_ca(folder, now, lifetime)
    try:
        ca = kept or certs.new_ca(now=now)
        serving = certs.serving_pair(ca, names=names, now=now, lifetime=lifetime)
        certs.write_pairs(folder, ca=ca, serving=serving)
    except certs.IssueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise FileError(f"{error.filename or folder}: cannot be written: {error.strerror}") from error
    click.echo(f"{folder / CA_CERTIFICATE}: CA, {'kept' if kept else 'made'}, {_until(ca)}")
    click.echo(f"{folder / CERTIFICATE}: for {', '.join(names)}, {_until(serving)}")
    click.echo(f"caBundle: {base64.b64encode(ca.certificate).decode()}")


def _until(pair: certs.Pair) -> str:
    return f"valid until {certs.expiry_of(pair.certificate):%Y-%m-%d}"


def _good_ca(folder: Path, now: datetime, lifetime: timedelta) -> certs.Pair | None:
    """The CA in the folder, if it outlives what it is to sign (the long-lived are cut at its own end)."""
    try:
        ca = certs.read_pair(folder, CA_CERTIFICATE, CA_KEY)
    except OSError:
        return None
    return None if certs.problems_of(ca, at=now + min(lifetime, certs.SERVING_LIFETIME)) else ca


def _check(folder: Path, names: tuple[str, ...]) -> None:
    try:
        pair = certs.read_pair(folder)
        ca = (folder / CA_CERTIFICATE).read_bytes() if (folder / CA_CERTIFICATE).exists() else None
    except OSError as error:
        raise FileError(f"{shown(Path(error.filename or folder))}: {reason_of(error)}") from error
    now = datetime.now(UTC)
    problems = certs.problems_of(pair, at=now, names=names, ca=ca)
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise click.ClickException(
            f"{folder / CERTIFICATE} and {KEY}:\n{listed}\nMake a new pair: podgate certs --out {folder} …"
        )
    left = certs.expiry_of(pair.certificate) - now
    soon = ": renew it now" if left < EXPIRES_SOON else ""
    click.echo(f"{folder / CERTIFICATE}: good, {_until(pair)} ({left.days} days left){soon}")
