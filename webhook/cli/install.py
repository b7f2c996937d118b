"""``podgate install``: tell the API server of podgate, or print what it should be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from webhook.cli.connection import (
    FORBIDDEN,
    NAMESPACE,
    ClusterError,
    connect,
    context_option,
    kubeconfig_option,
    load_policies,
    said,
)
from webhook.cli.folders import PathParameter
from webhook.cli.mode import mode_option
from webhook.cli.probe import PATIENCE_SECONDS, blocked, probe
from webhook.cli.site import accelerators_option, kinds_option
from webhook.cli.targets import print_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from webhook.cluster import Api
    from webhook.policy import PolicySet
    from webhook.registration import Configuration, Endpoint, Scope

SERVICE = f"{NAMESPACE}/podgate"
SECRET = "podgate-tls"  # noqa: S105 - the name of one
CA_KEY = "ca.crt"

TRIES = 5
"""Of one update: somebody else (the controller, cert-manager) may write in between."""

BLOCKING_SECONDS = 2.0
"""How long `Fail` is tried: an API server has a changed configuration within a second."""

WIDTH = 100

EPILOG = """\b
Exit codes:
  0  done, or nothing was to be done
  1  --enforce: podgate does not answer, so failurePolicy stays Ignore
  2  wrong usage, no cluster configured, or policies with errors
  3  the cluster did not answer or refused, or podgate has a bug"""

_FILE = PathParameter()


class ProbeError(click.ClickException):
    """podgate does not answer the API server."""

    exit_code = 1


class _Change(NamedTuple):
    """What becomes of one configuration."""

    which: Configuration
    stored: dict[str, Any] | None
    wanted: dict[str, Any]

    @property
    def verb(self) -> str:
        if self.stored is None:
            return "created" if self.wanted["webhooks"] else ""
        return "unchanged" if self.stored == self.wanted else "changed"


@click.command("install", epilog=EPILOG)
@click.option(
    "--policies", multiple=True, required=True, type=_FILE, metavar="DIR", help="Policies; repeatable."
)
@kinds_option
@accelerators_option
@mode_option
@click.option(
    "--service", metavar="NS/NAME[:PORT]", help=f"The Service of podgate.  [default: {SERVICE}:443]"
)
@click.option("--url", metavar="URL", help="Where podgate is, if it is not behind a Service.")
@click.option(
    "--ca-file",
    type=_FILE,
    metavar="FILE",
    help=f"The CA of podgate's certificate, PEM.  [default: what stands there, else {CA_KEY} of the Secret {SECRET}]",
)
@click.option(
    "--exclude-namespace",
    "excluded",
    multiple=True,
    metavar="NS",
    help="Never call podgate for this namespace; repeatable. kube-system and podgate's own are always out.",
)
@click.option("-o", "--output", type=click.Choice(["yaml"]), help="Print the objects and write nothing.")
@click.option("--dry-run", is_flag=True, help="Let the API server check it all, and write nothing.")
@click.option("--explain-scope", is_flag=True, help="Say which policy wants which calls, and write nothing.")
@click.option(
    "--enforce/--no-enforce",
    default=None,
    help="Whether an outage blocks what policies with failurePolicy: Fail concern. [default: as it is; at first no]",
)
@click.option(
    "--probe-namespace", default="default", show_default=True, metavar="NS", help="Where --enforce tries it."
)
@kubeconfig_option
@context_option
def command(  # noqa: PLR0913, PLR0917 - one argument for each option
    policies: tuple[Path, ...],
    kinds: tuple[Path, ...],
    accelerators: tuple[Path, ...],
    mode: str | None,
    service: str | None,
    url: str | None,
    ca_file: Path | None,
    excluded: tuple[str, ...],
    output: str | None,
    *,
    dry_run: bool,
    explain_scope: bool,
    enforce: bool | None,
    probe_namespace: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Make the webhook configurations that the policies need, or bring them up to date.

    The API server calls podgate only for what a policy can concern; --explain-scope shows it. What others wrote
    into the configurations stays. At first an outage of podgate blocks nothing; --enforce changes that, once a
    probe has shown that podgate answers.
    """
    endpoint = _endpoint(service, url, ca_file)
    policy_set = load_policies(policies, kinds, accelerators, mode)
    if explain_scope:
        print_text(_scope_table(policy_set))
        return
    if output:
        print_text(_as_yaml(policy_set, endpoint, excluded, enforce=bool(enforce)))
        return
    with said():
        api = connect(kubeconfig, context)
        installation = _Installation(api, policy_set, endpoint, excluded)
        installation.run(enforce, probe_namespace, dry_run=dry_run)
    print_text(_epilogue(policy_set, policies, mode, installation, dry_run=dry_run))


class _Installation:
    """One run against a cluster."""

    def __init__(self, api: Api, policy_set: PolicySet, endpoint: Endpoint, excluded: Sequence[str]) -> None:
        self._api = api
        self._policy_set = policy_set
        self._endpoint = endpoint
        self._excluded = excluded
        self.blocks = False

    def run(self, enforce: bool | None, probe_namespace: str, *, dry_run: bool) -> None:
        """Write the configurations; `Fail` only where it stands already or once podgate has answered.

        Raises:
            ApiError: the cluster refused.
            ProbeError: podgate did not answer.
        """
        from webhook.registration import CONFIGURATIONS  # noqa: PLC0415

        stored = [self._api.find(which.path) for which in CONFIGURATIONS]
        self._endpoint = self._with_ca(stored)
        blocking = _blocking(stored)
        asked = blocking is not None if enforce is None else enforce
        stands = asked and blocking is not None and self._is_as_wanted(blocking)
        begins = asked and not stands and self._can_fail()
        self.blocks = stands or (begins and dry_run)
        self._write(dry_run=dry_run)
        if begins and not dry_run:
            self._probe(probe_namespace)
            self.blocks = True
            self._write(dry_run=False)
            self._try_blocking(probe_namespace)

    def _with_ca(self, stored: Iterable[dict[str, Any] | None]) -> Endpoint:
        """The endpoint with the CA that entries for this place have already, else with the one beside the certificate.

        The controller may have two CAs in them, while it hands over from one to the other.
        """
        from dataclasses import replace  # noqa: PLC0415

        from webhook.cli.doctor.place import bundle_of, client_of, webhooks  # noqa: PLC0415

        if self._endpoint.ca_bundle:
            return self._endpoint
        has_moved = ""
        wanted = self._clients()
        for entry in (entry for each in stored if each for entry in webhooks(each)):
            place = {key: value for key, value in client_of(entry).items() if key != "caBundle"}
            name = str(entry.get("name"))
            bundle = bundle_of(entry)
            if bundle and place == wanted.get(name):
                return replace(self._endpoint, ca_bundle=bundle)
            if name in wanted and place != wanted[name]:
                has_moved = name
        ca_bundle = _stored_ca(self._api, self._endpoint)
        if has_moved and not ca_bundle:
            raise ClusterError(
                f"{has_moved} would go to another place, with the CA of the old one: give --ca-file"
            )
        return replace(self._endpoint, ca_bundle=ca_bundle)

    def _wanted(self) -> tuple[dict[str, Any], ...]:
        from webhook.registration import webhook_configurations  # noqa: PLC0415

        return webhook_configurations(
            self._policy_set,
            self._endpoint,
            excluded_namespaces=self._excluded,
            enforce_failure_policy=self.blocks,
        )

    def _is_as_wanted(self, entry: dict[str, Any]) -> bool:
        """Whether an entry goes where it is to go: nobody at another place, or by another CA, has answered yet."""
        from webhook.cli.doctor.place import client_of  # noqa: PLC0415

        return client_of(entry) == self._clients().get(entry["name"])

    def _clients(self) -> dict[str, dict[str, Any]]:
        """The `clientConfig` of each entry that is wanted, by its name."""
        return {entry["name"]: entry["clientConfig"] for each in self._wanted() for entry in each["webhooks"]}

    def _try_blocking(self, namespace: str) -> None:
        """Take `Fail` back where it refuses pods for want of an answer.

        Raises:
            ProbeError: it was taken back.
        """
        why = blocked(self._api, namespace, BLOCKING_SECONDS)
        if why:
            self.blocks = False
            self._write(dry_run=False)
            raise ProbeError(f"with failurePolicy Fail pods are refused, so it is Ignore again: {why}")

    def _can_fail(self) -> bool:
        return any(policy.failure_policy == "Fail" for policy in self._policy_set.policies)

    def _probe(self, namespace: str) -> None:
        found = probe(self._api, namespace, PATIENCE_SECONDS)
        if not found.answered:
            why = f": {found.text}" if found.text else ""
            raise ProbeError(
                f"a probe pod in namespace {namespace} shows no answer of podgate{why}\n"
                "failurePolicy stays Ignore; podgate doctor says what is wrong"
            )
        print_text(f"probe pod in namespace {namespace}: podgate answers\n")

    def _write(self, *, dry_run: bool) -> None:
        from webhook.registration import CONFIGURATIONS  # noqa: PLC0415

        for which, wanted in zip(CONFIGURATIONS, self._wanted(), strict=True):
            print_text(self._write_one(which, wanted, dry_run=dry_run))

    def _write_one(self, which: Configuration, wanted: dict[str, Any], *, dry_run: bool) -> str:
        from webhook.cluster import ApiError  # noqa: PLC0415

        for left in reversed(range(TRIES)):
            change = self._change(which, wanted)
            try:
                self._store(change, dry_run=dry_run)
            except ApiError as error:
                if error.reason in ("Conflict", "AlreadyExists") and left:
                    continue
                raise
            break
        return "".join(_change_lines(change, dry_run=dry_run))

    def _change(self, which: Configuration, wanted: dict[str, Any]) -> _Change:
        from webhook.registration import merged  # noqa: PLC0415

        stored = self._api.find(which.path)
        result = merged(stored, wanted)
        for entry in result.get("webhooks", ()):
            if not entry["clientConfig"].get("caBundle"):
                raise ClusterError(
                    f"{entry['name']} would have no caBundle, so that every call of it fails\n"
                    f"give --ca-file, or wait until the Secret {SECRET} has a {CA_KEY}"
                )
        return _Change(which, stored, result)

    def _store(self, change: _Change, *, dry_run: bool) -> None:
        if change.verb == "created":
            self._api.create(change.which.collection, change.wanted, dry_run=dry_run)
        elif change.verb == "changed":
            self._api.update(change.which.path, change.wanted, dry_run=dry_run)


def _endpoint(service: str | None, url: str | None, ca_file: Path | None) -> Endpoint:
    from webhook.registration import Endpoint  # noqa: PLC0415

    if service and url:
        raise click.UsageError("--service and --url are two ways to say the same; give one of them")
    ca_bundle = _read_ca(ca_file) if ca_file else b""
    if url is not None:
        if not url.startswith("https://") or any(mark in url for mark in "?#@"):
            raise click.UsageError(
                f"--url {url}: expected an address such as https://10.0.0.7:8443, without a user or a query"
            )
        return Endpoint(url=url, ca_bundle=ca_bundle)
    place, _, port = (service or SERVICE).partition(":")
    namespace, _, name = place.partition("/")
    if not (namespace and name and "/" not in name and (port or "443").isdecimal()):
        raise click.UsageError(f"--service {service}: expected NAMESPACE/NAME, such as {SERVICE}")
    return Endpoint(service=(namespace, name), port=int(port or 443), ca_bundle=ca_bundle)


def _read_ca(path: Path) -> bytes:
    from certs import expiry_of  # noqa: PLC0415

    try:
        data = path.read_bytes()
        expiry_of(data)
    except OSError as error:
        raise click.UsageError(f"--ca-file {path}: {error.strerror}") from error
    except ValueError as error:
        raise click.UsageError(f"--ca-file {path}: expected a CA certificate in PEM") from error
    return data


def _stored_ca(api: Api, endpoint: Endpoint) -> bytes:
    """The CA that the controller, or cert-manager, keeps beside the certificate; empty where there is none to be read."""
    from webhook.cli.doctor.place import decoded  # noqa: PLC0415
    from webhook.cluster import ApiError  # noqa: PLC0415

    if not endpoint.service:
        return b""
    try:
        secret = api.find(f"/api/v1/namespaces/{endpoint.service[0]}/secrets/{SECRET}") or {}
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return b""
    return decoded((secret.get("data") or {}).get(CA_KEY))


def _blocking(stored: Iterable[dict[str, Any] | None]) -> dict[str, Any] | None:
    """The entry that blocks in an outage, None where there is none."""
    from webhook.registration import VALIDATE_FAIL  # noqa: PLC0415

    entries = (entry for each in stored if each for entry in each.get("webhooks") or ())
    found = (
        each for each in entries if each["name"] == VALIDATE_FAIL and each.get("failurePolicy") == "Fail"
    )
    return next(found, None)


def _change_lines(change: _Change, *, dry_run: bool) -> Iterator[str]:
    if not change.verb:
        return
    would = " (dry run)" if dry_run and change.verb != "unchanged" else ""
    yield f"{change.which}: {change.verb}{would}\n"
    if change.verb == "unchanged":
        return
    before = {entry["name"]: entry for entry in (change.stored or {}).get("webhooks") or ()}
    after = {entry["name"]: entry for entry in change.wanted["webhooks"]}
    for name, entry in after.items():
        what = _differences(before.get(name), entry)
        if what:
            yield f"  {name}: {what}\n"
    for name in before.keys() - after.keys():
        yield f"  {name}: removed, no policy needs it\n"


def _differences(before: dict[str, Any] | None, after: dict[str, Any]) -> str:
    if before is None:
        return f"new, failurePolicy {after['failurePolicy']}"
    if before.get("failurePolicy") != after["failurePolicy"]:
        turned = f"failurePolicy {before.get('failurePolicy')} -> {after['failurePolicy']}"
    else:
        turned = ""
    keys = sorted({*before, *after} - {"failurePolicy"})
    return ", ".join(filter(None, [turned, *(key for key in keys if before.get(key) != after.get(key))]))


def _as_yaml(policy_set: PolicySet, endpoint: Endpoint, excluded: Iterable[str], *, enforce: bool) -> str:
    import yaml  # noqa: PLC0415

    from webhook.registration import webhook_configurations  # noqa: PLC0415

    wanted = webhook_configurations(
        policy_set, endpoint, excluded_namespaces=excluded, enforce_failure_policy=enforce
    )
    if not endpoint.ca_bundle:
        click.echo(
            "podgate: no --ca-file, so there is no caBundle: whoever writes it (the controller, cert-manager) must do so before "
            "the entries can be called",
            err=True,
        )
    needed = [each for each in wanted if each["webhooks"]]
    return yaml.safe_dump_all(needed, sort_keys=False, width=WIDTH, explicit_start=True)


def _scope_table(policy_set: PolicySet) -> str:
    from webhook.registration import explain_scope  # noqa: PLC0415

    scopes = explain_scope(policy_set)
    lines: list[str] = []
    for entry in dict.fromkeys(scope.entry for scope in scopes):
        lines.append(f"{entry} is called{_once_more(entry)} for")
        for scope in scopes:
            if scope.entry == entry:
                lines += _scope_lines(scope)
    if any(scope.is_everything for scope in scopes):
        lines.append(
            "* asks about pods without accelerators, too: narrow the match of these policies if you can"
        )
    lines.append(
        "Controllers are asked about by their pod templates." if lines else "No policy needs a call."
    )
    return "".join(f"{line}\n" for line in lines)


def _once_more(entry: str) -> str:
    """What sets the late entry apart."""
    from webhook.registration import MUTATE_LATE  # noqa: PLC0415

    return ", at their creation, where podgate has written nothing yet," if entry == MUTATE_LATE else ""


def _scope_lines(scope: Scope) -> list[str]:
    what = (
        f"{'*' if scope.is_everything else ' '} {scope.objects}{f' ({scope.where})' if scope.where else ''}"
    )
    return [*_wrapped(what, 2), *_wrapped(", ".join(scope.policies), 8)]


def _wrapped(text: str, indent: int) -> list[str]:
    from textwrap import wrap  # noqa: PLC0415

    more = " " * (indent + 2)
    return wrap(
        text,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=more,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def _epilogue(
    policy_set: PolicySet,
    policies: tuple[Path, ...],
    mode: str | None,
    installation: _Installation,
    *,
    dry_run: bool,
) -> str:
    count = len(policy_set)
    said_count = f"{count} {'policy' if count == 1 else 'policies'}, hash {policy_set.hash}"
    fail = any(policy.failure_policy == "Fail" for policy in policy_set.policies)
    if installation.blocks and fail:
        outage = "an outage of podgate blocks what policies with failurePolicy: Fail concern"
    else:
        outage = "an outage of podgate blocks nothing"
    folders = " ".join(f"--policies {path}" for path in policies)
    again = f"podgate install {folders}{f' --mode {mode}' if mode else ''}"
    if dry_run:
        following = f"Next: {again}"
    elif fail and not installation.blocks:
        following = f"Next: {again} --enforce"
    else:
        following = "Next: podgate doctor"
    return f"{said_count}; {outage}\n{following}\n"
