"""What we want of a configuration, laid into what is stored."""

from collections.abc import Mapping
from typing import Any

from webhook.registration.configurations import ENTRY_NAMES


def merged(current: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The stored configuration with our entries as they are wanted; what others wrote stays.

    Theirs are further labels, annotations and entries, and the `caBundle` of an entry where none is given. An entry of ours that
    is wanted no more goes. Nothing is changed where all is as wanted: then the result equals `current`.

    Args:
        current: as the API server gave it, None where there is none.
        wanted: see `webhook_configurations`.
    """
    if current is None:
        return dict(wanted)
    metadata = dict(_map(current.get("metadata")))
    for key in ("labels", "annotations"):
        metadata[key] = {**_map(metadata.get(key)), **_map(_map(wanted["metadata"]).get(key))}
    stored = [entry for entry in current.get("webhooks") or () if isinstance(entry, dict)]
    entries = _entries(stored, list(wanted["webhooks"]))
    # An API server leaves out an empty list.
    return {**current, "metadata": metadata, **({"webhooks": entries} if entries or stored else {})}


def without_ours(current: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries that others put into our configuration."""
    entries = current.get("webhooks") or ()
    return [entry for entry in entries if isinstance(entry, dict) and entry.get("name") not in ENTRY_NAMES]


def _entries(stored: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ours = {entry["name"]: entry for entry in wanted}
    kept: list[dict[str, Any]] = []
    for entry in stored:
        name = entry.get("name")
        if name in ours:
            kept.append(_entry(entry, ours.pop(name)))
        elif name not in ENTRY_NAMES:
            kept.append(entry)
    return [*kept, *ours.values()]


def _entry(stored: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    bundle = _map(stored.get("clientConfig")).get("caBundle")
    client = {**({"caBundle": bundle} if bundle else {}), **wanted["clientConfig"]}
    return {**wanted, "clientConfig": client}


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
