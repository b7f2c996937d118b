"""What Prometheus may ask. No label's value comes from an object: kinds and fields go through allow-lists."""

from __future__ import annotations

import re
import sys
from collections import Counter as Tally
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import prometheus_client
import prometheus_client.values
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.values import MultiProcessValue

from webhook.kube.templates import shipped_templates
from webhook.server.exceptions import ExceptionState, exceptions_in, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.admission import ReviewRecord
    from webhook.server.certificate import ServingCertificate
    from webhook.server.live import LiveCluster
    from webhook.server.state import ServerState

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4

#: From half a millisecond, what a review takes, to the 2 and 3 seconds that the webhook entries allow.
DURATION_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

#: (policy, rule) pairs with series of their own; the rest is one ``other``, so that a scrape stays below 1 MB.
MAX_RULES = 500

#: The kinds that have pods, and the claim; anything else is ``other``.
KINDS = frozenset({"Pod", "PersistentVolumeClaim", *(kind.kind for kind in shipped_templates().kinds)})
OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})

#: The fields that rules write, by the first of these names on the path; anything else is ``other``.
FIELDS = frozenset(
    [
        "priorityClassName",
        "priority",
        "preemptionPolicy",
        "affinity",
        "tolerations",
        "schedulerName",
        "runtimeClassName",
        "securityContext",
        "resources",
        "env",
        "volumes",
        "volumeMounts",
        "storageClassName",
        "labels",
        "annotations",
    ]
)
_BRACKETED = re.compile(r"\[[^\]]*\]")
OTHER = "other"

LONGEST_KEPT = 256
"""Characters of a field whose series is remembered: more than any that Kubernetes accepts is seldom written."""


def field_label(path: str) -> str:
    """Which of `FIELDS` a field path is about."""
    return next((part for part in _BRACKETED.sub("", path).split(".") if part in FIELDS), OTHER)


def count_at(place: int) -> None:
    """Let this process count in the files of a place, going on with the counts of whoever had it before.

    By default the files would be named by the process: each worker that dies would leave its own, in memory and for every
    scrape to read.

    Args:
        place: No other running worker has it.
    """
    prometheus_client.values.ValueClass = MultiProcessValue(lambda: place)  # type: ignore[no-untyped-call]


class Metrics:
    """Counters and gauges of one worker.

    Args:
        state: Read at each scrape, so that the series of removed policies go.
        certificate: Read at each scrape, for its expiry.
        multiprocess_dir: Where the workers share their counts, when there are several.
    """

    def __init__(
        self, state: ServerState, certificate: ServingCertificate | None, multiprocess_dir: str | None = None
    ) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        own = CollectorRegistry()
        self._scraped = CollectorRegistry() if multiprocess_dir else own
        if multiprocess_dir:
            MultiProcessCollector(self._scraped, path=multiprocess_dir)  # type: ignore[no-untyped-call]
        else:
            ProcessCollector(registry=own)
        self._scraped.register(_Now(state, certificate))
        self._rules: dict[tuple[str, str], tuple[str, str]] = {}
        self._define(own)
        self._keep_series()

    def _define(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"podgate_{name}", text, labels, registry=registry)

        self.requests = counter(
            "admission_requests_total",
            "Reviews answered.",
            "webhook",
            "operation",
            "kind",
            "decision",
            "dry_run",
        )
        self.duration = Histogram(
            "podgate_admission_duration_seconds",
            "From the whole body read to the answer ready.",
            ("webhook", "decision"),
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self.results = counter(
            "policy_results_total", "What rules found.", "policy", "rule", "result", "mode", "origin"
        )
        self.errors = counter("policy_errors_total", "Rules that could not be evaluated.", "policy", "rule")
        self.mutations = counter("mutations_total", "Fields written.", "policy", "field")
        self.reloads = counter("policy_reload_total", "Attempts to load changed policies.", "result")
        self.certificate_reloads = counter(
            "certificate_reload_total", "Attempts to load a new pair.", "result"
        )
        self.rejected = counter(
            "request_rejected_total", "Requests and connections without an answer.", "reason"
        )
        self.deadlines = counter("deadline_exceeded_total", "Reviews that ran out of time.", "webhook")
        self.lost_lines = counter(
            "log_lines_lost_total",
            "Log lines that could not be written: a full disk, or a reader that is gone.",
        )
        self.api_requests = counter(
            "api_requests_total", "Lists and watches asked of the API server.", "kind", "verb", "code"
        )
        self.inflight = Gauge(
            "podgate_inflight_requests",
            "Reviews being read or answered.",
            registry=registry,
            multiprocess_mode="livesum",
        )

    def _keep_series(self) -> None:
        """Find a series again without `labels`, which takes a lock; metrics keep as many series themselves."""
        self._requests_of = cache(self.requests.labels)
        self._duration_of = cache(self.duration.labels)
        self._results_of = cache(self._result_series)
        self._mutations_of = lru_cache(maxsize=1024)(self._mutation_series)

    def count_review(self, record: ReviewRecord, seconds: float, *, out_of_time: bool) -> None:
        """Count one review that was answered."""
        webhook, decision = str(record.webhook), str(record.decision)
        kind = record.kind if record.kind in KINDS else OTHER
        operation = record.operation if record.operation in OPERATIONS else OTHER
        dry_run = "true" if record.dry_run else "false"
        self._requests_of(webhook, operation, kind, decision, dry_run).inc()
        self._duration_of(webhook, decision).observe(seconds)
        for found in record.results:
            self._results_of(found).inc()
            if found[2] == "error":
                self.errors.labels(*self._rule_labels(*found[:2])).inc()
        for change in record.changes:
            # A field has names that an object's author chose, of any length.
            series = self._mutations_of if len(change[2]) <= LONGEST_KEPT else self._mutation_series
            series(change).inc()
        if out_of_time:
            self.deadlines.labels(webhook).inc()

    def _result_series(self, found: tuple[str, str, str, str]) -> Counter:
        policy, rule, result, mode = found
        return self.results.labels(*self._rule_labels(policy, rule), str(result), str(mode), "admission")

    def _mutation_series(self, change: tuple[str, str, str]) -> Counter:
        policy, rule, field = change
        return self.mutations.labels(self._rule_labels(policy, rule)[0], field_label(field))

    def _rule_labels(self, policy: str, rule: str) -> tuple[str, str]:
        pair = (policy, rule)
        if pair not in self._rules:
            if len(self._rules) >= MAX_RULES:
                return OTHER, OTHER
            self._rules[pair] = pair
        return pair

    def count_rejected(self, reason: str) -> None:
        """Count a request or connection that gets no review; ``reason`` is one of ours, no caller's text."""
        self.rejected.labels(reason).inc()

    def count_api_request(self, kind: str, verb: str, code: str) -> None:
        """Count a list or a watch; ``kind`` is one of those that are watched."""
        self.api_requests.labels(kind, verb, code).inc()

    def exposition(self) -> bytes:
        """What a scrape gets."""
        return prometheus_client.generate_latest(self._scraped)


class _Now(Collector):
    """Gauges read when asked for: they are the same in every worker and leave nothing behind."""

    def __init__(self, state: ServerState, certificate: ServingCertificate | None) -> None:
        self._state = state
        self._certificate = certificate

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Every gauge, as things are now."""
        yield from _policy_gauges(self._state)
        yield _exceptions_gauge(self._state)
        if self._state.live is not None:
            yield from _live_gauges(self._state.live)
        yield _gauge(
            "policy_last_reload_success_timestamp_seconds",
            "When the set in force was loaded.",
            self._state.loaded_at,
        )
        content = self._state.content
        yield _gauge(
            "policy_last_reload_successful",
            "Whether all that the files say is in force: 0 while there are errors in them.",
            not (self._state.fault or content.errors),
        )
        if self._certificate is not None and self._certificate.expires is not None:
            yield _gauge(
                "certificate_expiry_timestamp_seconds",
                "When the certificate in force expires.",
                self._certificate.expires.timestamp(),
            )
            yield _gauge(
                "certificate_last_reload_successful",
                "Whether the pair in the files is the one in force.",
                not self._certificate.fault,
            )
        build = GaugeMetricFamily("podgate_build_info", "The program.", labels=["version", "python_version"])
        build.add_metric([_version(), sys.version.partition(" ")[0]], 1)
        yield build

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing in advance: the registry would otherwise collect to find out."""
        return iter(())


def _policy_gauges(state: ServerState) -> Iterator[GaugeMetricFamily]:
    policy_set = state.content.policy_set
    modes: Tally[str] = Tally()
    info = GaugeMetricFamily(
        "podgate_policy_info", "The policies in force.", labels=["policy", "mode", "revision"]
    )
    for policy in policy_set.policies:
        modes[str(policy.mode)] += 1
        info.add_metric([policy.name, str(policy.mode), policy_set.hash], 1)
    policies = GaugeMetricFamily("podgate_policies", "How many policies are in force.", labels=["mode"])
    for mode, count in sorted(modes.items()):
        policies.add_metric([mode], count)
    yield policies
    yield info


def _exceptions_gauge(state: ServerState) -> GaugeMetricFamily:
    now = datetime.now(UTC)
    found = Tally(state_of(each, now) for each in exceptions_in(state.content.policy_set))
    gauge = GaugeMetricFamily("podgate_exceptions", "How the exceptions in force stand.", labels=["state"])
    for each in ExceptionState:
        gauge.add_metric([each], found[each])
    return gauge


def _live_gauges(live: LiveCluster) -> Iterator[GaugeMetricFamily]:
    synced = GaugeMetricFamily(
        "podgate_facts_synced", "Whether a kind was listed at least once.", labels=["kind"]
    )
    age = GaugeMetricFamily(
        "podgate_facts_age_seconds",
        "How old what is known of a kind is: 0 while it is watched.",
        labels=["kind"],
    )
    for kind, follower in sorted(live.facts.followers.items()):
        synced.add_metric([kind], follower.synced)
        age.add_metric([kind], follower.age)
    yield synced
    yield age
    yield _gauge("paused", "Whether policies only audit.", live.pause.in_force(datetime.now(UTC)) is not None)
    yield _gauge(
        "pause_broken", "Whether a pause was ordered that is not understood.", bool(live.pause.fault)
    )


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"podgate_{name}", text, value=value)


def _version() -> str:
    try:
        return version("podgate")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
