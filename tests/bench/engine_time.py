"""The engine alone: bytes to bytes in one thread, without a server."""

# ruff: noqa: T201 - a command prints

from __future__ import annotations

import cProfile
import gc
import pstats
import time
from itertools import cycle, islice
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from tests.bench import policies
from tests.bench.bodies import marked
from webhook.admission import Endpoint, answer_review

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.bodies import Bodies
    from webhook.facts import Facts
    from webhook.policy import PolicySet

ENDPOINTS = (Endpoint.MUTATE, Endpoint.VALIDATE_FAIL, Endpoint.VALIDATE_IGNORE)
"""The three calls that an API server makes for each pod."""

WARM_UP = 300
SLICE = 50
"""Calls in one go before it is the next set's turn: whatever else the machine does falls on all alike."""

TOP = 25


class EngineRow(NamedTuple):
    """Milliseconds of one call."""

    pods: str
    policies: str
    endpoint: str
    calls: int
    median: float
    p99: float


def measure(name: str, pods: list[Bodies], sets: dict[str, list[Path]], calls: int) -> list[EngineRow]:
    """Every set and endpoint, in turns.

    Args:
        name: of the pods, for the table.
        pods: what is sent, by turns.
        sets: folders by name.
        calls: of each set and endpoint.
    """
    facts = policies.facts()
    loaded = {label: policies.load(folders) for label, folders in sets.items()}
    sent = {label: marked(pods, policy_set) for label, policy_set in loaded.items()}
    nanoseconds: dict[tuple[str, Endpoint], list[int]] = {(s, e): [] for s in sets for e in ENDPOINTS}
    for label, endpoint in nanoseconds:
        _timed(sent[label], endpoint, loaded[label], facts, WARM_UP)
    gc.collect()
    gc.freeze()  # as `podgate serve` does
    for _ in range(-(-calls // SLICE)):
        for (label, endpoint), found in nanoseconds.items():
            found.extend(_timed(sent[label], endpoint, loaded[label], facts, SLICE))
    return [
        EngineRow(
            name, label, f"/{endpoint}", len(found), median(found) / 1e6, quantiles(found, n=100)[98] / 1e6
        )
        for (label, endpoint), found in nanoseconds.items()
    ]


def profile(pods: list[Bodies], folders: list[Path], calls: int) -> None:
    """Print where the time goes."""
    facts, policy_set = policies.facts(), policies.load(folders)
    pods = marked(pods, policy_set)
    for endpoint in ENDPOINTS:
        _timed(pods, endpoint, policy_set, facts, WARM_UP)
        profiler = cProfile.Profile()
        profiler.runcall(_timed, pods, endpoint, policy_set, facts, calls)
        print(f"/{endpoint}, {calls} calls")
        pstats.Stats(profiler).sort_stats("tottime").print_stats(TOP)


def _timed(
    pods: list[Bodies], endpoint: Endpoint, policy_set: PolicySet, facts: Facts, calls: int
) -> list[int]:
    found = []
    bodies = [pod.mutate if endpoint is Endpoint.MUTATE else pod.validate for pod in pods]
    for body in islice(cycle(bodies), calls):
        started = time.perf_counter_ns()
        answer_review(body, endpoint, policy_set=policy_set, facts=facts)
        found.append(time.perf_counter_ns() - started)
    return found
