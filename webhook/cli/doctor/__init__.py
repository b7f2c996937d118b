"""``podgate doctor``: what is wrong with podgate in a cluster, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from webhook.cli.connection import (
    FORBIDDEN,
    connect,
    context_option,
    kubeconfig_option,
    load_policies,
    namespace_option,
    policies_option,
    said,
    stored_policies,
)
from webhook.cli.doctor.findings import Finding, Level, exit_code, render_json, render_table
from webhook.cli.doctor.mode import check_mode, read_modes
from webhook.cli.doctor.place import Place
from webhook.cli.doctor.policies import check_nodes, check_priority_classes, check_storage_classes
from webhook.cli.doctor.registration import check_configurations, check_other_webhooks
from webhook.cli.doctor.serving import check_certificate, check_endpoints, check_probe
from webhook.cli.doctor.state import check_pause, check_permissions
from webhook.cli.site import accelerators_option, kinds_option
from webhook.cli.targets import Target, TargetParameter, check_targets, write_results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from webhook.cluster import Api
    from webhook.registration import Configuration

    Check = Callable[[Place], Iterator[Finding]]

CHECKS: dict[str, Check] = {
    "configurations": check_configurations,
    "endpoints": check_endpoints,
    "certificate": check_certificate,
    "probe pod": check_probe,
    "mode": check_mode,
    "pause": check_pause,
    "permissions": check_permissions,
    "priority classes": check_priority_classes,
    "storage classes": check_storage_classes,
    "nodes": check_nodes,
    "other webhooks": check_other_webhooks,
}

OF_CONFIGURATIONS = ("configurations", "endpoints", "certificate", "other webhooks")
"""The checks that follow from our own configurations."""

EPILOG = """\b
Exit codes:
  0  nothing is wrong; warnings are nothing wrong
  1  something is wrong
  2  wrong usage, no cluster configured, or policies with errors
  3  something could not be looked at, the cluster does not answer, or podgate has a bug"""


@click.command("doctor", epilog=EPILOG)
@policies_option
@kinds_option
@accelerators_option
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
@click.option("--no-color", is_flag=True, help="No colours; so does NO_COLOR.")
@click.option(
    "--probe-namespace", default="default", show_default=True, metavar="NS", help="Where a pod is tried."
)
@namespace_option
@kubeconfig_option
@context_option
def command(  # noqa: PLR0913, PLR0917 - one argument for each option
    policies: tuple[Path, ...],
    kinds: tuple[Path, ...],
    accelerators: tuple[Path, ...],
    targets: tuple[Target, ...],
    probe_namespace: str,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    *,
    no_color: bool,
) -> None:
    """Look at podgate in a cluster, and say what is wrong and what to do.

    Nothing is changed. A pod is tried in a dry run. Without --policies, the policies are those of the ConfigMaps
    podgate-policies and podgate-site. What may not be looked at is said to be unknown.
    """
    check_targets(targets)
    given = load_policies(policies, kinds, accelerators) if policies else None
    with said():
        api = connect(kubeconfig, context)
        modes = read_modes(api, namespace)
        if given and modes.served:
            given = load_policies(policies, kinds, accelerators, modes.served)
        policy_set = given or stored_policies(api, namespace, modes.served)
        stored, refused = _stored(api)
        place = Place(api, namespace, stored, policy_set, modes, probe_namespace, refused)
        findings = [finding for name, check in CHECKS.items() for finding in _made(name, check, place)]
    renderers = {
        "table": lambda colour: render_table(findings, colour=colour),
        "json": lambda _: render_json(findings),
    }
    write_results(targets, renderers, no_color=no_color)
    click.get_current_context().exit(exit_code(findings))


def _stored(api: Api) -> tuple[dict[Configuration, dict[str, Any]], str]:
    """Our configurations that are there, and why they could not be read, "" if they could.

    Raises:
        ApiError: there is no cluster; a permission that is lacking is no error.
    """
    from webhook.cluster import ApiError  # noqa: PLC0415
    from webhook.registration import CONFIGURATIONS  # noqa: PLC0415

    stored: dict[Configuration, dict[str, Any]] = {}
    try:
        for which in CONFIGURATIONS:
            if found := api.find(which.path):
                stored[which] = found
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return stored, error.message
    return stored, ""


def _made(name: str, check: Check, place: Place) -> Iterator[Finding]:
    """What a check finds; where it may not ask, it is unknown, and what it found before stands."""
    from webhook.cluster import ApiError  # noqa: PLC0415

    if place.refused and name in OF_CONFIGURATIONS:
        yield Finding(name, Level.UNKNOWN, f"you may not read the configurations: {place.refused}")
        return
    try:
        yield from check(place)
    except ApiError as error:
        why = "you may not ask" if error.status == FORBIDDEN else "the cluster does not say"
        yield Finding(name, Level.UNKNOWN, f"{why}: {error.message}")
