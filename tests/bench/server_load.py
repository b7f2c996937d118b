"""The whole server, in its own process, beside a bare one: `webhook.benchmark` measures."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.bench import policies
from tests.bench.bodies import marked
from tests.bench.policies import FACTS
from webhook.benchmark import measure as by_turns
from webhook.benchmark.load import Server, Turn, load, post
from webhook.cli.bench import FLOOR_PROGRAM, PATHS, WARM_UP_SECONDS
from webhook.demonstration.gateway import HOST, PROGRAM, running_gateway

if TYPE_CHECKING:
    from tests.bench.bodies import Bodies

FLASK, BARE = "Flask", "bare"
FLASK_PROGRAM = "from tests.bench.flask_view import serve; serve()"


class ServerRow(NamedTuple):
    """Medians over all rounds.

    Attributes:
        median: of the latencies, milliseconds; likewise `p99`.
        of_flask: the latency as a multiple of that of a Flask view, in the same round; likewise `of_bare`.
    """

    name: str
    connections: int
    calls_per_second: float
    median: float
    p99: float
    of_flask: float
    of_bare: float


def measure(
    pods: list[Bodies], sets: dict[str, list[Path]], connections: tuple[int, ...], rounds: int, seconds: float
) -> list[ServerRow]:
    """Every set beside a Flask view and the bare server, in turns.

    Args:
        pods: what is sent: by turns, each to all three endpoints.
        sets: folders by name.
        connections: numbers of connections.
        rounds: how often it is each server's turn.
        seconds: how long a turn is.
    """
    requests = {label: _requests(marked(pods, policies.load(folders))) for label, folders in sets.items()}
    requests |= dict.fromkeys((FLASK, BARE), requests["0"])
    with ExitStack() as stack:
        servers = {
            FLASK: _start(stack, sets["0"], FLASK_PROGRAM),
            BARE: _start(stack, sets["0"], FLOOR_PROGRAM),
        }
        servers |= {label: _start(stack, folders, PROGRAM) for label, folders in sets.items()}
        for name, server in servers.items():
            load(server, requests[name], max(connections), WARM_UP_SECONDS)
        rows = []
        for count in connections:
            turns = by_turns.measure(servers, requests, connections=count, turns=rounds, seconds=seconds)
            rows += [_row(name, count, turns) for name in servers]
        return rows


def _requests(pods: list[Bodies]) -> list[bytes]:
    return [
        post(path, pod.mutate if name == "mutate" else pod.validate)
        for pod in pods
        for name, path in PATHS.items()
    ]


def _row(name: str, connections: int, turns: dict[str, list[Turn]]) -> ServerRow:
    of_bare = by_turns.row_of(name, connections, turns[name], turns[BARE])
    of_flask = by_turns.row_of(name, connections, turns[name], turns[FLASK])
    return ServerRow(*of_bare[:-1], 1 / of_flask.share, 1 / of_bare.share)


def _start(stack: ExitStack, policies: list[Path], program: str) -> Server:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="podgate-bench-")))
    gateway = stack.enter_context(running_gateway(folder, policies, [FACTS], "en", program=program))
    return Server(HOST, gateway.port, gateway.ca)
