"""The whole server, in its own process, beside a bare one: `webhook.benchmark` measures."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.policies import FACTS
from webhook.benchmark.load import Server, load, post
from webhook.benchmark.measure import Row, measure as measure_by_turns
from webhook.cli.bench import FLOOR_PROGRAM, PATHS, WARM_UP_SECONDS
from webhook.demonstration.gateway import HOST, PROGRAM, running_gateway

if TYPE_CHECKING:
    from tests.bench.bodies import Bodies

BARE = "bare"


def measure(
    pods: list[Bodies], sets: dict[str, list[Path]], connections: tuple[int, ...], rounds: int, seconds: float
) -> list[Row]:
    """Every set beside the bare server, in turns.

    Args:
        pods: what is sent: by turns, each to all three endpoints.
        sets: folders by name.
        connections: numbers of connections.
        rounds: how often it is each server's turn.
        seconds: how long a turn is.
    """
    requests = [
        post(path, pod.mutate if name == "mutate" else pod.validate)
        for pod in pods
        for name, path in PATHS.items()
    ]
    with ExitStack() as stack:
        servers = {BARE: _start(stack, sets["0"], FLOOR_PROGRAM)}
        servers |= {label: _start(stack, folders, PROGRAM) for label, folders in sets.items()}
        for server in servers.values():
            load(server, requests, max(connections), WARM_UP_SECONDS)
        return [
            row
            for count in connections
            for row in measure_by_turns(
                servers, BARE, requests, connections=count, turns=rounds, seconds=seconds
            )
        ]


def _start(stack: ExitStack, policies: list[Path], program: str) -> Server:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="podgate-bench-")))
    gateway = stack.enter_context(running_gateway(folder, policies, [FACTS], "en", program=program))
    return Server(HOST, gateway.port, gateway.ca)
