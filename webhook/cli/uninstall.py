"""``podgate uninstall``: the API server forgets podgate."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from webhook.cli.connection import (
    MUTATING,
    VALIDATING,
    Collection,
    connect,
    context_option,
    kubeconfig_option,
    namespace_option,
    read,
    said,
)
from webhook.cli.targets import print_text

if TYPE_CHECKING:
    from pathlib import Path

    from webhook.cluster import Api

CONTROLLER = "podgate-controller"

#: A controller that is told to end does so within its grace period of 30 s.
CONTROLLER_SECONDS = 30.0
STEP_SECONDS = 0.5

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

    It needs no running podgate. The controller is stopped first, or it would put them back; entries that others added to the
    configurations stay. Nothing else is removed.
    """
    with said():
        api = connect(kubeconfig, context)
        _stop_controller(api, namespace, dry_run=dry_run)
        for collection in (VALIDATING, MUTATING):
            print_text(_remove(api, collection, dry_run=dry_run))
        holder = _holder(api, namespace)
    print_text(STAYS.format(namespace=namespace))
    if holder and not dry_run:
        raise click.ClickException(
            f"{holder} holds the Lease {CONTROLLER} of namespace {namespace} and will put the configurations back\n"
            "stop that controller, and run podgate uninstall again"
        )


def _remove(api: Api, collection: Collection, *, dry_run: bool) -> str:
    from webhook.registration import NAME, without_ours  # noqa: PLC0415

    path, shown = f"{collection.path}/{NAME}", f"{collection.kind} {NAME}"
    would = " (dry run)" if dry_run else ""
    stored = read(api, path)
    if stored is None:
        return f"{shown}: not there\n"
    others = without_ours(stored)
    if not others:
        api.delete(path, dry_run=dry_run)
        return f"{shown}: removed{would}\n"
    api.update(path, {**stored, "webhooks": others}, dry_run=dry_run)
    names = ", ".join(str(entry.get("name")) for entry in others)
    return f"{shown}: our entries removed{would}; it stays for {names}, which others added\n"


def _stop_controller(api: Api, namespace: str, *, dry_run: bool) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{CONTROLLER}"
    shown = f"Deployment {CONTROLLER}"
    stored = read(api, path)
    if stored is None or (stored.get("spec") or {}).get("replicas") == 0:
        return
    if dry_run:
        print_text(f"{shown}: scaled to 0 (dry run)\n")
        return
    api.merge_patch(path, {"spec": {"replicas": 0}})
    gone = _wait_for_no_replicas(api, path)
    print_text(
        f"{shown}: scaled to 0{'' if gone else f', but a pod is still there after {CONTROLLER_SECONDS:.0f} s'}\n"
    )


def _wait_for_no_replicas(api: Api, path: str) -> bool:
    end = time.monotonic() + CONTROLLER_SECONDS
    while time.monotonic() < end:
        stored = read(api, path)
        if stored is None or not (stored.get("status") or {}).get("replicas"):
            return True
        time.sleep(STEP_SECONDS)
    return False


def _holder(api: Api, namespace: str) -> str:
    """Who leads as a controller at this moment, "" if nobody."""
    lease = read(api, f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{CONTROLLER}") or {}
    spec: dict[str, Any] = lease.get("spec") or {}
    try:
        renewed = datetime.fromisoformat(str(spec.get("renewTime")))
    except ValueError:
        return ""
    lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    return str(spec.get("holderIdentity") or "") if datetime.now(UTC) < renewed + lasts else ""
