"""Who leads, by a Lease: what to do next, from what was seen of it. No clock and no call of its own.

A candidate never believes a clock but its own: it takes a Lease over once it has seen no change of it for its whole
duration, as client-go does (kubernetes/client-go:tools/leaderelection/leaderelection.go). A leader acts only for a while
after the start of its last renewal that was confirmed, which is shorter, so that two never act at once.

Seconds are of a monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

#: A Lease is anybody's when nobody renewed it for this long.
DURATION_SECONDS = 30
#: How long a leader acts after its last renewal began. What it began just before the end may take as long again until the
#: API server does it; after that, and always, it is the resourceVersion that keeps two apart.
ACT_SECONDS = 15.0
#: Two renewals may fail before a leader stops acting.
RENEW_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate's view.

    Attributes:
        identity: Its name, of its own alone.
        version: The Lease's resourceVersion as last seen; "" while none was seen.
        holder: Who holds it; "" for nobody.
        duration: Of the Lease, in seconds.
        seen_at: When the version was first seen.
        confirmed: When the last renewal of our own that succeeded was begun; None where we do not lead.
    """

    identity: str
    version: str = ""
    holder: str = ""
    duration: float = DURATION_SECONDS
    seen_at: float = 0.0
    confirmed: float | None = None

    def leads(self, now: float) -> bool:
        """Whether it may act."""
        return self.confirmed is not None and 0 <= now - self.confirmed < ACT_SECONDS


@dataclass(frozen=True, slots=True)
class Look:
    """Read the Lease after this many seconds."""

    after: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Write the Lease with our name, if it still has the version seen; create it where that is ""."""


Action = Look | Hold


def next_step(candidate: Candidate, now: float) -> Action:
    """What the candidate does now; `Hold` after a fresh look only."""
    if candidate.holder in {"", candidate.identity}:
        return Hold()
    left = candidate.seen_at + candidate.duration - now
    return Hold() if left <= 0 else Look(min(left, RENEW_SECONDS))


def saw(candidate: Candidate, lease: Mapping[str, Any] | None, now: float) -> Candidate:
    """The candidate after it read the Lease (None: there is none); ``now`` is when the answer had come."""
    if lease is None:
        return replace(candidate, version="", holder="", seen_at=now, confirmed=None)
    version, holder, duration = _read(lease)
    confirmed = candidate.confirmed if holder == candidate.identity else None
    if version == candidate.version:
        return replace(candidate, confirmed=confirmed)
    return replace(
        candidate, version=version, holder=holder, duration=duration, seen_at=now, confirmed=confirmed
    )


def held(candidate: Candidate, lease: Mapping[str, Any], begun: float) -> Candidate:
    """The candidate after its `Hold` succeeded; ``begun`` is when it was sent."""
    version, holder, duration = _read(lease)
    return replace(
        candidate, version=version, holder=holder, duration=duration, seen_at=begun, confirmed=begun
    )


def lease_object(
    current: Mapping[str, Any] | None, *, name: str, namespace: str, holder: str, now: datetime
) -> dict[str, Any]:
    """The Lease to write.

    Args:
        current: As it was read; None to create it.
        name: Of the Lease.
        namespace: Of the Lease.
        holder: Who holds it from now on; "" gives it back.
        now: The wall clock, for people who look at it.
    """
    spec = _mapping((current or {}).get("spec"))
    transitions = spec.get("leaseTransitions")
    count = transitions if type(transitions) is int else 0
    time = f"{now:%Y-%m-%dT%H:%M:%S.%fZ}"
    same = spec.get("holderIdentity") == holder
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": dict(_mapping((current or {}).get("metadata"))) or {"name": name, "namespace": namespace},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": DURATION_SECONDS if holder else 1,
            "acquireTime": (spec.get("acquireTime") or time) if same else time,
            "renewTime": time,
            "leaseTransitions": count if same or not holder else count + 1,
        },
    }


def _read(lease: Mapping[str, Any]) -> tuple[str, str, float]:
    spec = _mapping(lease.get("spec"))
    duration = spec.get("leaseDurationSeconds")
    seconds = duration if type(duration) is int and duration > 0 else DURATION_SECONDS
    version = _mapping(lease.get("metadata")).get("resourceVersion")
    return str(version or ""), str(spec.get("holderIdentity") or ""), float(seconds)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
