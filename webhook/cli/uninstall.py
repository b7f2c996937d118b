"""``podgate uninstall``: the API server forgets podgate."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from webhook.cli.connection import (
    connect,
    context_option,
    kubeconfig_option,
    namespace_option,
    said,
)
from webhook.cli.targets import print_text

if TYPE_CHECKING:
    from pathlib import Path

    from webhook.cluster import Api
    from webhook.registration import Configuration

CONTROLLER = "podgate-controller"

#: A controller that is told to end does so within its grace period of 30 s; one that is killed leaves its Lease for as long.
CONTROLLER_SECONDS = 35.0
STEP_SECONDS = 0.5

TRIES = 5
"""Of one update: somebody else may write in between."""

EPILOG = """\b
Exit codes:
  0  nothing of podgate is called any more
  1  a controller is still there that will put the configurations back
  2  wrong usage, or no cluster configured
  3  the cluster did not answer or refused, or podgate has a bug"""

STAYS = """\
Stays: namespace {namespace} with all in it, its roles, priority and storage classes, and what pods were given.
Remove the namespace and the roles as they were made, for example: kubectl delete -k deploy/kustomize/base
"""


@click.command("uninstall", epilog=EPILOG)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@namespace_option
@kubeconfig_option
@context_option
def command(*, dry_run: bool, namespace: str, kubeconfig: Path | None, context: str | None) -> None:
    """Remove the webhook configurations, so that nothing of podgate can hold up anything.

    It needs no running podgate. The controller is stopped, or it would put them back; entries that others added to the
    configurations stay. Nothing else is removed.
    """
    with said():
        api = connect(kubeconfig, context)
        ends = _stop_controller(api, namespace, dry_run=dry_run)
        for which in _configurations():
            print_text(_remove(api, which, dry_run=dry_run) or f"{which}: not there\n")
        if ends and not dry_run:
            _wait_for_end(api, namespace)
            for which in _configurations():
                print_text(_remove(api, which, dry_run=False))
        holder = _holder(api, namespace)
    print_text(STAYS.format(namespace=namespace))
    if holder and not dry_run:
        raise click.ClickException(
            f"{holder} holds the Lease {CONTROLLER} of namespace {namespace} and will put the configurations back\n"
            "stop that controller, and run podgate uninstall again"
        )


def _configurations() -> tuple[Configuration, ...]:
    """What may block first."""
    from webhook.registration import CONFIGURATIONS  # noqa: PLC0415

    return CONFIGURATIONS[::-1]


def _remove(api: Api, which: Configuration, *, dry_run: bool) -> str:
    """Remove what is ours; what was done, "" where nothing of ours was there."""
    from webhook.cluster import ApiError  # noqa: PLC0415

    for left in reversed(range(TRIES)):
        try:
            return _remove_once(api, which, dry_run=dry_run)
        except ApiError as error:
            if error.reason != "Conflict" or not left:
                raise
    return ""


def _remove_once(api: Api, which: Configuration, *, dry_run: bool) -> str:
    from webhook.registration import without_ours  # noqa: PLC0415

    would = " (dry run)" if dry_run else ""
    stored = api.find(which.path)
    others = without_ours(stored or {})
    if stored is None or (others and len(others) == len(stored["webhooks"])):
        return ""
    if not others:
        api.delete(which.path, dry_run=dry_run)
        return f"{which}: removed{would}\n"
    api.update(which.path, {**stored, "webhooks": others}, dry_run=dry_run)
    names = ", ".join(str(entry.get("name")) for entry in others)
    return f"{which}: our entries removed{would}; it stays for {names}, which others added\n"


def _stop_controller(api: Api, namespace: str, *, dry_run: bool) -> bool:
    """Scale it to 0, and say so; whether it ends now. One that cannot be stopped is no reason to leave what may block."""
    from webhook.cluster import ApiError  # noqa: PLC0415

    path, shown = _deployment(namespace), f"Deployment {CONTROLLER}"
    try:
        stored = api.find(path)
        if stored is None or (stored.get("spec") or {}).get("replicas") == 0:
            return False
        api.merge_patch(path, {"spec": {"replicas": 0}}, dry_run=dry_run)
    except ApiError as error:
        print_text(f"{shown}: not stopped: {error.message}\n")
        return False
    print_text(f"{shown}: scaled to 0{' (dry run)' if dry_run else ''}\n")
    return True


def _deployment(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{CONTROLLER}"


def _wait_for_end(api: Api, namespace: str) -> None:
    """Until no pod is left, and nobody leads: a pod that ends is no replica any more, and writes on."""
    end = time.monotonic() + CONTROLLER_SECONDS
    while time.monotonic() < end:
        stored = api.find(_deployment(namespace)) or {}
        if not (stored.get("status") or {}).get("replicas") and not _holder(api, namespace):
            return
        time.sleep(STEP_SECONDS)


def _holder(api: Api, namespace: str) -> str:
    """Who leads as a controller at this moment, "" if nobody."""
    lease = api.find(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{CONTROLLER}") or {}
    spec: dict[str, Any] = lease.get("spec") or {}
    try:
        renewed = datetime.fromisoformat(str(spec.get("renewTime")))
    except ValueError:
        return ""
    lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    return str(spec.get("holderIdentity") or "") if datetime.now(UTC) < renewed + lasts else ""
