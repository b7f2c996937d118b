"""Are the webhook configurations there, whole, and what the policies need?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.cli.connection import MUTATING, VALIDATING
from webhook.cli.doctor.findings import Finding, Level
from webhook.cli.doctor.place import CONTROLLER, Place, bundle_of, mapping, name_of, service_of, webhooks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.registration import Configuration

CHECK = "configurations"
INSTALL = "podgate install --policies DIR"
COMPARED = ("rules", "matchConditions")


def check_configurations(place: Place) -> Iterator[Finding]:
    """The configurations, and each entry of ours."""
    repair = _repair(place)
    found = [*_missing(place, repair), *_incomplete(place, repair), *_outdated(place, repair)]
    yield from found
    if place.entries and not found:
        blocking = [name for name, entry in place.entries.items() if entry.get("failurePolicy") == "Fail"]
        outage = (
            f"an outage blocks what {', '.join(blocking)} is for" if blocking else "an outage blocks nothing"
        )
        yield Finding(CHECK, Level.OK, f"{len(place.entries)} entries; {outage}")


def _missing(place: Place, repair: str) -> Iterator[Finding]:
    """Configurations that are not there and the policies need; where these are not known, those that nearly all need."""
    from webhook.registration import CONFIGURATIONS, LATE_NAME  # noqa: PLC0415

    wanted = _wanted(place)
    for which in CONFIGURATIONS:
        is_late = which.name == LATE_NAME
        is_needed = not is_late if wanted is None else bool(wanted[which])
        if not is_needed or which in place.stored:
            continue
        text = f"there is no {which}: podgate is not asked{' once more, after other webhooks' if is_late else ''}"
        yield _absent(place, text, repair, is_late=is_late)


def _absent(place: Place, text: str, repair: str, *, is_late: bool) -> Finding:
    """What policies need and is not there; the late entry is for policies that enforce, which `--mode` can forbid."""
    if is_late and place.modes.served is None:
        return Finding(CHECK, Level.WARN, f"{text}, unless the server runs with --mode", repair)
    return Finding(CHECK, Level.FAIL, text, repair)


def _repair(place: Place) -> str:
    """Who makes the configurations what they should be: the controller, where one is deployed."""
    if place.modes.controller is None:
        return INSTALL + (f" --mode {place.modes.served}" if place.modes.served else "")
    return (
        f"the controller does that within seconds, unless there is a pause; its log says what keeps it from it: "
        f"kubectl -n {place.namespace} logs deployment/{CONTROLLER}"
    )


def _incomplete(place: Place, repair: str) -> Iterator[Finding]:
    for name, entry in place.entries.items():
        if not bundle_of(entry):
            text = f"{name} has no caBundle, so that every call of it fails"
            todo = f"{repair} --ca-file FILE" if repair.startswith(INSTALL) else repair
            yield Finding(CHECK, Level.FAIL, text, todo)
        if entry.get("objectSelector") not in (None, {}):
            text = f"{name} has an objectSelector: whoever writes an object can exempt it by a label"
            yield Finding(CHECK, Level.FAIL, text, repair)


def _outdated(place: Place, repair: str) -> Iterator[Finding]:
    """Entries that are called for other things than the policies need."""
    from webhook.registration import MUTATE_LATE  # noqa: PLC0415

    wanted = _wanted(place)
    if wanted is None:
        yield Finding(
            CHECK,
            Level.UNKNOWN,
            "the policies are not known, so that nobody can say whether the entries fit them",
            "give --policies DIR",
        )
        return
    stored = place.entries
    for entry in (entry for which in place.stored for entry in wanted[which]):
        name = entry["name"]
        if name not in stored:
            text = f"{name} is missing, and policies need it"
            yield _absent(place, text, repair, is_late=name == MUTATE_LATE)
            continue
        differing = [key for key in COMPARED if stored[name].get(key) != entry[key]]
        if differing:
            text = f"{name} does not fit the policies: {' and '.join(differing)}"
            yield Finding(CHECK, Level.WARN, text, repair)


def _wanted(place: Place) -> dict[Configuration, list[dict[str, Any]]] | None:
    """The entries that the policies need, None where these are not known."""
    from webhook.registration import CONFIGURATIONS, Endpoint, webhook_configurations  # noqa: PLC0415

    if place.policy_set is None:
        return None
    endpoint = Endpoint(service=place.service) if place.service else Endpoint(url="https://podgate")
    needed = webhook_configurations(place.policy_set, endpoint)
    return {which: each["webhooks"] for which, each in zip(CONFIGURATIONS, needed, strict=True)}


OTHERS = "other webhooks"
ABOUT = {("", "pods"): "pods", ("", "persistentvolumeclaims"): "claims"}


def check_other_webhooks(place: Place) -> Iterator[Finding]:
    """Webhooks of others for what podgate is about: those that block, and those that do not see what it does."""
    from webhook.registration import CONFIGURATIONS  # noqa: PLC0415

    found: list[Finding] = []
    count = 0
    for collection in (MUTATING, VALIDATING):
        for configuration in place.items(collection.path):
            if (collection.kind, name_of(configuration)) in CONFIGURATIONS:
                continue
            entries = [entry for entry in webhooks(configuration) if _subjects(entry)]
            count += len(entries)
            for entry in entries:
                found += _conflicts(place, collection.kind, name_of(configuration), entry)
    yield from found
    if not found:
        yield Finding(OTHERS, Level.OK, "none in the way" if count else "none for pods or claims")


def _conflicts(place: Place, kind: str, configuration: str, entry: dict[str, Any]) -> Iterator[Finding]:
    from webhook.registration import LATE_NAME, NAME  # noqa: PLC0415

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
    if kind == MUTATING.kind and configuration > LATE_NAME:
        text = (
            f"{shown} is called for {subjects} after podgate's last call: where it adds what makes a policy match, and none did "
            "before, podgate is not asked"
        )
        yield Finding(
            OTHERS, Level.WARN, text, f"give its configuration a name that sorts before {LATE_NAME}"
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
    return place.api.find(f"/api/v1/namespaces/{service[0]}/services/{service[1]}") is not None
