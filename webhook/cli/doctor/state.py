"""May podgate do its work, and does it do what its policies say?"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from webhook.cli.doctor.findings import Finding, Level
from webhook.cli.doctor.place import CONTROLLER, WEBHOOK, Place, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

PERMISSIONS = "permissions"
PAUSE = "pause"


class _Permission(NamedTuple):
    """A call that a ServiceAccount must be able to make."""

    account: str
    verb: str
    group: str
    resource: str
    namespaced: bool = False
    name: str = ""

    @property
    def shown(self) -> str:
        """As `kubectl auth can-i` takes it."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource}{f'/{self.name}' if self.name else ''}"


WATCHING = ("list", "watch")
_CONFIGURATIONS = (
    ("mutatingwebhookconfigurations", "gate.podgate.dev"),
    ("mutatingwebhookconfigurations", "zzz.gate.podgate.dev"),
    ("validatingwebhookconfigurations", "gate.podgate.dev"),
)
NEEDED = (
    *(
        _Permission(WEBHOOK, verb, "", "configmaps", namespaced=True, name="podgate-pause")
        for verb in WATCHING
    ),
    *(
        _Permission(CONTROLLER, verb, "admissionregistration.k8s.io", resource, name=name)
        for resource, name in _CONFIGURATIONS
        for verb in ("get", "update")
    ),
    _Permission(CONTROLLER, "update", "coordination.k8s.io", "leases", namespaced=True, name=CONTROLLER),
    _Permission(CONTROLLER, "get", "", "configmaps", namespaced=True, name="podgate-pause"),
    _Permission(CONTROLLER, "get", "", "services", namespaced=True, name=WEBHOOK),
    _Permission(CONTROLLER, "list", "discovery.k8s.io", "endpointslices", namespaced=True),
)
"""Whatever the policies are; what the webhook watches for them comes in addition."""


def check_permissions(place: Place) -> Iterator[Finding]:
    """What the ServiceAccounts must be able to do, asked of the API server; those that are not there are not used."""
    found = []
    there = [account for account in (WEBHOOK, CONTROLLER) if _has_account(place, account)]
    if not there:
        text = f"there is neither ServiceAccount {WEBHOOK} nor {CONTROLLER} in namespace {place.namespace}"
        yield Finding(PERMISSIONS, Level.WARN, text, "deploy podgate; another namespace: --namespace NS")
        return
    for permission in (*_watched(place), *NEEDED):
        if permission.account in there and not _is_allowed(place, permission):
            text = f"ServiceAccount {permission.account} may not {permission.shown}"
            found.append(
                Finding(PERMISSIONS, Level.FAIL, text, "apply the Roles and bindings of deploy/ again")
            )
    yield from found or [
        Finding(PERMISSIONS, Level.OK, f"ServiceAccounts {', '.join(there)} may do all they must")
    ]


def _watched(place: Place) -> Iterator[_Permission]:
    """What `podgate serve --live` watches: what the policies ask about, or all of it where they are not known."""
    from webhook.policy.asked import kinds_asked  # noqa: PLC0415
    from webhook.watch import WATCHED  # noqa: PLC0415

    asked = WATCHED.keys() if place.policy_set is None else kinds_asked(place.policy_set)
    for kind, resource in WATCHED.items():
        if kind in asked:
            head, *group, _version, plural = resource.path.strip("/").split("/")
            named = group[0] if head == "apis" else ""
            yield from (_Permission(WEBHOOK, verb, named, plural) for verb in WATCHING)


def _has_account(place: Place, name: str) -> bool:
    return place.api.find(f"/api/v1/namespaces/{place.namespace}/serviceaccounts/{name}") is not None


def _is_allowed(place: Place, permission: _Permission) -> bool:
    attributes = {"verb": permission.verb, "group": permission.group, "resource": permission.resource}
    if permission.namespaced:
        attributes["namespace"] = place.namespace
    if permission.name:
        attributes["name"] = permission.name
    account = f"system:serviceaccount:{place.namespace}:{permission.account}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{place.namespace}", "system:authenticated"]
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account, "groups": groups, "resourceAttributes": attributes},
    }
    answer = place.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return mapping(answer.get("status")).get("allowed") is True


def check_pause(place: Place) -> Iterator[Finding]:
    """Whether a pause is in force, or was meant to be."""
    from webhook.policy.pause import CONFIG_MAP, PauseError, parse_pause  # noqa: PLC0415

    stored = place.api.find(f"/api/v1/namespaces/{place.namespace}/configmaps/{CONFIG_MAP}")
    if stored is None:
        yield Finding(PAUSE, Level.OK, "there is none")
        return
    try:
        pause = parse_pause(stored)
    except PauseError as error:
        yield Finding(
            PAUSE,
            Level.FAIL,
            f"a pause was meant, but does not hold: {error}",
            "podgate pause …, or podgate pause --end",
        )
        return
    end = f"{pause.until:%Y-%m-%dT%H:%M:%SZ}"
    if not pause.is_in_force(datetime.now(UTC)):
        yield Finding(PAUSE, Level.OK, f"the last one ended at {end}")
        return
    whom = "all policies" if pause.policies is None else f"policies {', '.join(sorted(pause.policies))}"
    by = f" by {pause.by}" if pause.by else ""
    reason = f": {pause.reason}" if pause.reason else ""
    yield Finding(PAUSE, Level.WARN, f"{whom} audit only until {end}{by}{reason}", "podgate pause --end")
