"""A pause: for a while policies do no more than audit, by the word of whoever keeps the cluster running.

It is a ConfigMap of its own, `podgate-pause`, outside of what a repository of manifests holds, so that plain kubectl can make it
in an emergency and nothing puts it back. It ends by itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from webhook.documents.schema import shown
from webhook.kube.field_path import list_at, mapping_at, value_at
from webhook.kube.plain_text import plain

CONFIG_MAP = "podgate-pause"

MOST_AHEAD = timedelta(days=7)
"""From when it was written. A pause is for an emergency; what shall last is an override in the policies."""

UNLESS_SAID = timedelta(days=1)
"""From when it was written, where no end is given: who makes it with plain kubectl in an emergency need not reckon with times."""

SLACK = timedelta(minutes=5)
"""Clocks differ, and a pause for just seven days is written a moment after its end was computed."""

ALL = "*"
KEYS = ("until", "policies", "reason", "by")
LONGEST_TEXT = 200
"""Characters of a reason or a name that are shown."""

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class PauseError(ValueError):
    """A ConfigMap that says no pause; the text says what is wrong with it, and what to do."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause.

    Attributes:
        policies: the names of the policies that are paused, None for all.
        until: its end, with a time zone.
        reason: why, "" if it was not said.
        by: who, "" if it was not said.
    """

    policies: frozenset[str] | None
    until: datetime
    reason: str
    by: str

    def is_in_force(self, now: datetime) -> bool:
        """Whether it has not ended yet."""
        return now < self.until

    def covers(self, policy: str) -> bool:
        """Whether a policy is paused."""
        return self.policies is None or policy in self.policies


def parse_pause(configmap: Mapping[str, Any]) -> Pause:
    """The pause that the ConfigMap says.

    Args:
        configmap: as the API server gives it. When it was written is read from its managedFields, else from its creation; an
            object that says neither is not of an API server, and its end is taken as it stands.

    Raises:
        PauseError: it says none that can be understood, or one that ends more than seven days after it was written.
    """
    data = mapping_at(configmap, ("data",))
    unknown = sorted(map(str, data.keys() - set(KEYS)))
    if unknown:
        raise PauseError(_text(f"unknown key {shown(unknown[0])}", f"its data has {', '.join(KEYS)}"))
    written = _written_at(configmap)
    until = _until(data.get("until"), written)
    if written is not None and until > written + MOST_AHEAD + SLACK:
        raise PauseError(
            _text(
                f"until {until:%Y-%m-%dT%H:%M:%SZ} is more than {MOST_AHEAD.days} days ahead",
                "a pause is for an emergency; what shall last longer is an override",
            )
        )
    return Pause(_policies(data.get("policies")), until, _said(data, "reason"), _said(data, "by"))


def _text(what: str, todo: str) -> str:
    return f"ConfigMap {CONFIG_MAP}: {what}; {todo}"


def _until(value: Any, written: datetime | None) -> datetime:
    if value is None and written is not None:
        return written + UNLESS_SAID
    if value is None:
        raise PauseError(_text("data has no until", 'give it an end, until: "2026-12-01T20:00:00Z"'))
    moment = _moment(value)
    if moment is None:
        found = f"until is {shown(value)}"
        raise PauseError(_text(found, 'expected a time with its zone, such as "2026-12-01T20:00:00Z"'))
    return moment


def _moment(value: Any) -> datetime | None:
    """A time of RFC 3339, in UTC; None for anything else."""
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _policies(value: Any) -> frozenset[str] | None:
    if value is None:
        return None
    names = [part.strip() for part in value.split(",")] if isinstance(value, str) else []
    if names == [ALL]:
        return None
    if not names or not all(map(_NAME.fullmatch, names)):
        raise PauseError(
            _text(f"policies is {shown(value)}", 'expected names with commas between them, or "*" for all')
        )
    return frozenset(names)


def _said(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return plain(value, LONGEST_TEXT) if isinstance(value, str) else ""


def _written_at(configmap: Mapping[str, Any]) -> datetime | None:
    """When somebody last wrote the ConfigMap."""
    times = [value_at(entry, ("time",)) for entry in list_at(configmap, ("metadata", "managedFields"))]
    times.append(value_at(configmap, ("metadata", "creationTimestamp")))
    return max(filter(None, map(_moment, times)), default=None)
