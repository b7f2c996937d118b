"""The whole server: its own process, TLS, keep-alive, and callers that send the next call when the last is answered."""

from __future__ import annotations

import socket
import ssl
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

from tests.bench.policies import FACTS
from webhook.demonstration import gateway as demonstration
from webhook.demonstration.gateway import HOST, Gateway, running_gateway

if TYPE_CHECKING:
    from tests.bench.bodies import Bodies

BARE = "bare"
BARE_PROGRAM = "from tests.bench.bare import serve; serve()"
PATHS = ("/mutate?timeout=3s", "/validate/fail?timeout=2s", "/validate/ignore?timeout=2s")
WARM_UP_SECONDS = 1.0
CHUNK = 64 * 1024
SWITCH_SECONDS = 0.0002
"""Between the callers' threads: at Python's own 5 ms one of them calls in bursts and the others wait."""


class Round(NamedTuple):
    """One server under one load."""

    calls_per_second: float
    median: float
    p99: float


class ServerRow(NamedTuple):
    """Medians over all rounds.

    Attributes:
        median: of the latencies, milliseconds; likewise `p99`.
        share: calls a second as a share of the bare server's in the same round.
    """

    policies: str
    connections: int
    calls_per_second: float
    median: float
    p99: float
    share: float


def measure(
    pods: list[Bodies], sets: dict[str, list[Path]], connections: tuple[int, ...], rounds: int, seconds: float
) -> list[ServerRow]:
    """Every set beside the bare server, in turns.

    Args:
        pods: what is sent: by turns, each to all three endpoints.
        sets: folders by name.
        connections: numbers of connections.
        rounds: how often it is each server's turn.
        seconds: how long a turn is.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    requests = _requests(pods)
    found: dict[tuple[str, int], list[Round]] = {}
    with ExitStack() as stack:
        servers = {BARE: _start(stack, sets["0"], BARE_PROGRAM)}
        servers |= {label: _start(stack, folders, demonstration.PROGRAM) for label, folders in sets.items()}
        for server in servers.values():
            _load(server, requests, max(connections), WARM_UP_SECONDS)
        for turn in range(rounds):
            order = list(servers) if turn % 2 == 0 else list(reversed(servers))
            for count in connections:
                for label in order:
                    found.setdefault((label, count), []).append(
                        _load(servers[label], requests, count, seconds)
                    )
    return [_row(label, count, found) for count in connections for label in servers]


def _start(stack: ExitStack, policies: list[Path], program: str) -> Gateway:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="podgate-bench-"))
    with patch.object(demonstration, "PROGRAM", program):
        return stack.enter_context(running_gateway(Path(folder), policies, [FACTS], "en"))


def _row(label: str, count: int, found: dict[tuple[str, int], list[Round]]) -> ServerRow:
    rounds, bare = found[label, count], found[BARE, count]
    shares = [one.calls_per_second / other.calls_per_second for one, other in zip(rounds, bare, strict=True)]
    columns = zip(*rounds, strict=True)
    per_second, middle, p99 = (median(column) for column in columns)
    return ServerRow(label, count, per_second, middle, p99, median(shares))


def _requests(pods: list[Bodies]) -> list[bytes]:
    calls = [
        call for pod in pods for call in zip(PATHS, (pod.mutate, pod.validate, pod.validate), strict=True)
    ]
    return [
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
        for path, body in calls
    ]


def _load(server: Gateway, requests: list[bytes], connections: int, seconds: float) -> Round:
    latencies: list[list[float]] = [[] for _ in range(connections)]
    context = ssl.create_default_context(cafile=str(server.ca))
    sockets = [_connect(context, server.port) for _ in range(connections)]
    end = time.perf_counter() + seconds
    threads = [
        threading.Thread(target=_call, args=(tls, requests[index % len(requests) :] + requests, end, found))
        for index, (tls, found) in enumerate(zip(sockets, latencies, strict=True))
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - started
    every = [1000 * latency for found in latencies for latency in found]
    return Round(len(every) / took, median(every), quantiles(every, n=100)[98])


def _connect(context: ssl.SSLContext, port: int) -> ssl.SSLSocket:
    plain = socket.create_connection((HOST, port), timeout=10)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain, server_hostname=HOST)


def _call(tls: ssl.SSLSocket, requests: list[bytes], end: float, latencies: list[float]) -> None:
    with tls:
        for request in islice(cycle(requests), 10_000_000):
            started = time.perf_counter()
            if started > end:
                return
            tls.sendall(request)
            _read_answer(tls)
            latencies.append(time.perf_counter() - started)


def _read_answer(tls: ssl.SSLSocket) -> None:
    data = tls.recv(CHUNK)
    head, found, body = data.partition(b"\r\n\r\n")
    while not found:
        data += _more(tls, data)
        head, found, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"the server answered {head.decode(errors='replace')}")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    received = len(body)
    while received < length:
        received += len(_more(tls, body))


def _more(tls: ssl.SSLSocket, so_far: bytes) -> bytes:
    data = tls.recv(CHUNK)
    if not data:
        raise SystemExit(f"the server closed the connection after {so_far[:200]!r}")
    return data
