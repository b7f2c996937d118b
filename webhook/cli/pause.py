"""``podgate pause``: for a while, policies do no more than audit."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from webhook.cli.connection import (
    connect,
    context_option,
    kubeconfig_option,
    namespace_option,
    said,
    stored_policies,
)
from webhook.cli.targets import print_text

if TYPE_CHECKING:
    from pathlib import Path

    from webhook.cluster import Api

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_DURATION = re.compile(r"(?:(?P<d>\d{1,3})d)?(?:(?P<h>\d{1,3})h)?(?:(?P<m>\d{1,4})m)?(?:(?P<s>\d{1,6})s)?")

EPILOG = """\b
Exit codes:
  0  done
  2  wrong usage, or no cluster configured
  3  the cluster did not answer or refused, or podgate has a bug"""


@click.command("pause", epilog=EPILOG)
@click.argument("policies", nargs=-1, metavar="[POLICY]...")
@click.option("--for", "duration", metavar="DURATION", help="How long, such as 30m, 2h or 1d12h; 7d at most.")
@click.option("--until", metavar="TIME", help="Or its end, such as 2026-12-01T20:00:00Z.")
@click.option("--reason", metavar="TEXT", help="Why; it stands in the log and in podgate doctor.")
@click.option("--end", is_flag=True, help="End the pause now.")
@namespace_option
@kubeconfig_option
@context_option
def command(  # noqa: PLR0913 - one argument for each option
    policies: tuple[str, ...],
    duration: str | None,
    until: str | None,
    reason: str | None,
    *,
    end: bool,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Let policies audit only, all of them or those named, until a moment that is at most 7 days ahead.

    It ends by itself. Meanwhile the controller leaves the webhook configurations alone. It takes effect within seconds,
    where podgate runs with --live. A second pause replaces the first.
    """
    _check_usage(policies, duration, until, reason, end=end)
    moment = None if end else _end(duration, until, datetime.now(UTC))
    with said():
        api = connect(kubeconfig, context)
        if moment is None:
            print_text(_finish(api, namespace))
        else:
            _check_names(api, namespace, policies)
            print_text(_begin(api, namespace, policies, moment, reason or ""))


def _check_usage(
    policies: tuple[str, ...], duration: str | None, until: str | None, reason: str | None, *, end: bool
) -> None:
    if end:
        if policies or duration or until or reason:
            raise click.UsageError("--end ends the whole pause and stands alone")
        return
    if (duration is None) == (until is None):
        raise click.UsageError("say how long: --for 2h, or --until 2026-12-01T20:00:00Z; --end ends a pause")
    if not (reason and reason.strip()):
        raise click.UsageError("say why, for those who find it: --reason 'INC-7: …'")


def _end(duration: str | None, until: str | None, now: datetime) -> datetime:
    from webhook.policy.pause import MOST_AHEAD  # noqa: PLC0415

    moment = now + _duration(duration) if duration is not None else _moment(until or "")
    moment = moment.replace(microsecond=0)
    if moment <= now:
        raise click.UsageError(f"{_shown(moment)} is over already")
    if moment > now + MOST_AHEAD:
        raise click.UsageError(
            f"a pause lasts at most {MOST_AHEAD.days} days; what shall last longer is an override with mode: audit"
        )
    return moment


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    parts = {
        _UNITS[unit]: int(number) for unit, number in (found.groupdict() if found else {}).items() if number
    }
    if not parts:
        raise click.UsageError(f"--for {text}: expected a duration such as 30m, 2h or 1d12h")
    return timedelta(**parts)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise click.UsageError(f"--until {text}: expected a time with its zone, such as 2026-12-01T20:00:00Z")
    return moment.astimezone(UTC)


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _path(namespace: str) -> str:
    from webhook.policy.pause import CONFIG_MAP  # noqa: PLC0415

    return f"/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}"


def _begin(api: Api, namespace: str, policies: tuple[str, ...], until: datetime, reason: str) -> str:
    from webhook.policy.pause import ALL, CONFIG_MAP  # noqa: PLC0415

    data = {
        "until": _shown(until),
        "policies": ", ".join(dict.fromkeys(policies)) or ALL,
        "reason": reason.strip(),
        "by": _user(api),
    }
    path = _path(namespace)
    stored = api.find(path)
    if stored is None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}, "data": data}
        api.create(path.rpartition("/")[0], body)
    else:
        api.update(path, {**stored, "data": data})
    whom = f"policies {data['policies']}" if policies else "all policies"
    return (
        f"Paused until {data['until']}: {whom} audit only, and the webhook configurations stay as they are.\n"
        "It ends by itself; sooner with: podgate pause --end\n"
    )


def _finish(api: Api, namespace: str) -> str:
    path = _path(namespace)
    if api.find(path) is None:
        return "There is no pause.\n"
    api.delete(path)
    return "The pause is over: policies do what they say.\n"


def _user(api: Api) -> str:
    """Who asks, as the API server knows him; "" where it does not tell."""
    from webhook.cluster import ApiError  # noqa: PLC0415

    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    except ApiError:
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")


def _check_names(api: Api, namespace: str, policies: tuple[str, ...]) -> None:
    """Refuse a name that no loaded policy has: a pause that pauses nothing is found out too late."""
    from webhook.documents.schema import did_you_mean  # noqa: PLC0415

    loaded = stored_policies(api, namespace) if policies else None
    known = [policy.name for policy in loaded.policies] if loaded else []
    for name in policies:
        if known and name not in known:
            hint = did_you_mean(name, known) or f"it may be: {', '.join(known)}"
            raise click.UsageError(f"there is no policy {name!r} in the cluster; {hint}")
