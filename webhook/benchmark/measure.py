"""Servers beside each other, by turns, so that whatever else the machine does falls on all alike."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from webhook.benchmark.load import Server, Turn, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

SWITCH_SECONDS = 0.0002
"""Between the callers' threads: at Python's own 5 ms one of them calls in bursts and the others wait."""


class Row(NamedTuple):
    """What one server does with one kind of call: medians over all its turns.

    Attributes:
        name: of the server or of the calls, as the table shows it.
        connections: how many callers there were.
        median: of the latencies, milliseconds; likewise `p99`.
        share: the floor's time as a share of this one's, 1 where it is as fast: of the sums of the shortest latencies of each
            request. What else a machine does makes calls longer and never shorter, so the shortest of many depend little on it.
    """

    name: str
    connections: int
    calls_per_second: float
    median: float
    p99: float
    share: float


def measure(
    servers: Mapping[str, Server],
    requests: Mapping[str, Sequence[bytes]],
    *,
    connections: int,
    turns: int,
    seconds: float,
    told: Callable[[], object] = lambda: None,
) -> dict[str, list[Turn]]:
    """The turns of each server.

    Args:
        servers: by name.
        requests: for each of them, as many for one as for another; see `webhook.benchmark.load.load`.
        connections: how many callers there are.
        turns: how often it is each server's turn.
        seconds: how long a turn is.
        told: called after each turn of each server.

    Raises:
        LoadError: a server does not answer as it should.
    """
    found: dict[str, list[Turn]] = {name: [] for name in servers}
    order = list(servers)
    with _quick_switches():
        for _ in range(turns):
            for name in order:
                found[name].append(load(servers[name], requests[name], connections, seconds))
                told()
            order.reverse()
    return found


def row_of(name: str, connections: int, turns: Sequence[Turn], floor: Sequence[Turn]) -> Row:
    """The medians over turns, and the share of the floor."""
    per_second, middle, p99 = (
        median(column) for column in zip(*((t.calls_per_second, t.median, t.p99) for t in turns), strict=True)
    )
    return Row(name, connections, per_second, middle, p99, _shortest(floor) / _shortest(turns))


def _shortest(turns: Sequence[Turn]) -> float:
    """Of all requests together, each as short as it ever was."""
    requests = range(len(turns[0].best))
    return sum(min(turn.best[number] for turn in turns) for number in requests)


@contextmanager
def _quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
