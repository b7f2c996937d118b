"""Are the webhook configurations there, whole, and what the policies need?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.cli.connection import MUTATING, VALIDATING, read
from webhook.cli.doctor.findings import Finding, Level
from webhook.cli.doctor.place import Place, bundle_of, mapping, name_of, service_of, webhooks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.policy import PolicySet

CHECK = "configurations"
INSTALL = "podgate install --policies DIR"
CONTROLLER = "podgate-controller"
COMPARED = ("rules", "matchConditions")


def check_configurations(place: Place) -> Iterator[Finding]:
    """Both configurations, and each entry of ours."""
    from webhook.registration import NAME  # noqa: PLC0415

    repair = _repair(place)
    for collection, stored in ((MUTATING, place.mutating), (VALIDATING, place.validating)):
        if stored is None:
            text = f"there is no {collection.kind} {NAME}: podgate is not asked"
            yield Finding(CHECK, Level.FAIL, text, repair)
    found = [*_incomplete(place, repair), *_outdated(place, repair)]
    yield from found
    if place.entries and not found:
        blocking = [entry["name"] for entry in place.entries if entry.get("failurePolicy") == "Fail"]
        outage = (
            f"an outage blocks what {', '.join(blocking)} is for" if blocking else "an outage blocks nothing"
        )
        yield Finding(CHECK, Level.OK, f"{len(place.entries)} entries; {outage}")


def _repair(place: Place) -> str:
    """Who makes the configurations what they should be: the controller, where one is deployed."""
    from webhook.cluster import ApiError  # noqa: PLC0415

    path = f"/apis/apps/v1/namespaces/{place.namespace}/deployments/{CONTROLLER}"
    try:
        if read(place.api, path) is None:
            return INSTALL
    except ApiError:  # what is wrong is known all the same
        return INSTALL
    return (
        f"the controller does that within seconds, unless there is a pause; its log says what keeps it from it: "
        f"kubectl -n {place.namespace} logs deployment/{CONTROLLER}"
    )


def _incomplete(place: Place, repair: str) -> Iterator[Finding]:
    for entry in place.entries:
        name = entry["name"]
        if not bundle_of(entry):
            text = f"{name} has no caBundle, so that every call of it fails"
            todo = f"{INSTALL} --ca-file FILE" if repair == INSTALL else repair
            yield Finding(CHECK, Level.FAIL, text, todo)
        if entry.get("objectSelector") not in (None, {}):
            text = f"{name} has an objectSelector: whoever writes an object can exempt it by a label"
            yield Finding(CHECK, Level.FAIL, text, repair)


def _outdated(place: Place, repair: str) -> Iterator[Finding]:
    """Entries that are called for other things than the policies need."""
    if place.policy_set is None:
        yield Finding(
            CHECK,
            Level.UNKNOWN,
            "the policies are not known, so that nobody can say whether the entries fit them",
            "give --policies DIR",
        )
        return
    wanted = {entry["name"]: entry for entry in _wanted(place, place.policy_set)}
    stored = {entry["name"]: entry for entry in place.entries}
    for name, entry in wanted.items():
        if name not in stored:
            if (place.mutating if "reinvocationPolicy" in entry else place.validating) is not None:
                yield Finding(CHECK, Level.FAIL, f"{name} is missing, and policies need it", repair)
            continue
        differing = [key for key in COMPARED if stored[name].get(key) != entry[key]]
        if differing:
            text = f"{name} does not fit the policies: {' and '.join(differing)}"
            yield Finding(CHECK, Level.WARN, text, repair)


def _wanted(place: Place, policy_set: PolicySet) -> list[dict[str, Any]]:
    from webhook.registration import Endpoint, webhook_configurations  # noqa: PLC0415

    endpoint = Endpoint(service=place.service) if place.service else Endpoint(url="https://podgate")
    return [
        entry
        for configuration in webhook_configurations(policy_set, endpoint)
        for entry in configuration["webhooks"]
    ]


OTHERS = "other webhooks"
ABOUT = {("", "pods"): "pods", ("", "persistentvolumeclaims"): "claims"}


def check_other_webhooks(place: Place) -> Iterator[Finding]:
    """Webhooks of others for what podgate is about: those that block, and those that do not see what it does."""
    from webhook.registration import NAME  # noqa: PLC0415

    found: list[Finding] = []
    count = 0
    for collection in (MUTATING, VALIDATING):
        for configuration in place.items(collection.path):
            if name_of(configuration) == NAME:
                continue
            entries = [entry for entry in webhooks(configuration) if _subjects(entry)]
            count += len(entries)
            for entry in entries:
                found += _conflicts(place, collection.kind, name_of(configuration), entry)
    yield from found
    if not found:
        yield Finding(OTHERS, Level.OK, "none in the way" if count else "none for pods or claims")


def _conflicts(place: Place, kind: str, configuration: str, entry: dict[str, Any]) -> Iterator[Finding]:
    from webhook.registration import NAME  # noqa: PLC0415

    shown = f"{kind} {configuration}, entry {entry.get('name')}"
    subjects = " and ".join(_subjects(entry))
    service = service_of(entry)
    if service and service == place.service:
        text = f"{shown} calls podgate's own Service, so that it is asked twice"
        yield Finding(
            OTHERS, Level.WARN, text, f"delete it, if it is of an earlier installation; ours is {NAME}"
        )
    elif service and entry.get("failurePolicy", "Fail") == "Fail" and not _exists(place, service):
        text = f"{shown} has failurePolicy Fail for {subjects}, and its Service {'/'.join(service)} does not exist"
        yield Finding(OTHERS, Level.FAIL, text, "delete it, or bring its Service back: it refuses everything")
    if kind == MUTATING.kind and configuration < NAME and entry.get("reinvocationPolicy", "Never") == "Never":
        text = f"{shown} is called for {subjects} before podgate and never again: it does not see what podgate sets"
        yield Finding(
            OTHERS,
            Level.WARN,
            text,
            "give it reinvocationPolicy: IfNeeded, if it decides by what podgate sets",
        )


def _subjects(entry: dict[str, Any]) -> list[str]:
    """What of ours an entry is called for when it is created."""
    found = []
    for (group, resource), shown in ABOUT.items():
        for rule in entry.get("rules") or ():
            groups, resources, operations = (
                mapping(rule).get(key) or () for key in ("apiGroups", "resources", "operations")
            )
            at_all = {"*", group} & set(groups) and {"*", "*/*", resource} & set(resources)
            if at_all and {"*", "CREATE"} & set(operations) and shown not in found:
                found.append(shown)
    return found


def _exists(place: Place, service: tuple[str, str]) -> bool:
    return read(place.api, f"/api/v1/namespaces/{service[0]}/services/{service[1]}") is not None
