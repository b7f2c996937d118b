"""What the controller counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

RESULTS = ("success", "paused", "error")
PHASES = ("none", "steady", "trusting", "serving")


class Metrics:
    """The controller's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.leader = Gauge("podgate_controller_leader", "Whether this process acts.", registry=self.registry)
        self.reconciliations = Counter(
            "podgate_controller_reconciliations_total",
            "Looks at the cluster, by how they ended.",
            ["result"],
            registry=self.registry,
        )
        self.writes = Counter(
            "podgate_controller_writes_total", "Objects written.", ["kind"], registry=self.registry
        )
        self.last_success = Gauge(
            "podgate_controller_last_success_timestamp_seconds",
            "When a look last ended well.",
            registry=self.registry,
        )
        self.contested = Gauge(
            "podgate_controller_contested_configurations",
            "Webhook configurations that somebody keeps changing back.",
            registry=self.registry,
        )
        self._expiry = Gauge(
            "podgate_controller_certificate_expiry_timestamp_seconds",
            "When a stored certificate ends.",
            ["certificate"],
            registry=self.registry,
        )
        self._rotation = Gauge(
            "podgate_controller_rotation",
            "Where a hand-over from one CA to the next is.",
            ["phase"],
            registry=self.registry,
        )
        for result in RESULTS:
            self.reconciliations.labels(result)

    def count_write(self, kind: str) -> None:
        """One object of the kind was written."""
        self.writes.labels(kind).inc()

    def show_certificates(self, expiries: Mapping[str, datetime], phase: str) -> None:
        """Show when they end, and where a hand-over is."""
        self._expiry.clear()
        for name, until in expiries.items():
            self._expiry.labels(name).set(until.timestamp())
        for each in PHASES:
            self._rotation.labels(each).set(each == phase)
