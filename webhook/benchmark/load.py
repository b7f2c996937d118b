"""A server under load: TLS, keep-alive, and callers that send the next call when the last is answered."""

from __future__ import annotations

import math
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from itertools import cycle
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CHUNK = 64 * 1024
CALL_SECONDS = 10.0
"""As long as an API server waits if nothing else is said; a server that is slower is not worth measuring."""


class LoadError(Exception):
    """A server did not answer as it should; the text says how."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server listens.

    Attributes:
        ca: the certificate by which callers know it.
    """

    host: str
    port: int
    ca: Path


class Turn(NamedTuple):
    """One server under one load.

    Attributes:
        median: of the latencies, milliseconds; likewise `p99`.
        best: the shortest latency of each request, in the order of the requests.
    """

    calls_per_second: float
    median: float
    p99: float
    best: tuple[float, ...]


def post(path: str, body: bytes) -> bytes:
    """A call as it goes over the wire."""
    head = f"POST {path} HTTP/1.1\r\nHost: podgate\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def load(server: Server, requests: Sequence[bytes], connections: int, seconds: float) -> Turn:
    """Call a server for a while.

    Args:
        server: who is called.
        requests: by `post`; each connection sends them by turns, and each begins with another one.
        connections: how many callers there are.
        seconds: how long, but each connection sends each request once at least.

    Raises:
        LoadError: an answer is not 200, or there is none.
    """
    latencies: list[list[tuple[int, float]]] = [[] for _ in range(connections)]
    failures: list[Exception] = []
    context = ssl.create_default_context(cafile=str(server.ca))
    sockets = [_connect(context, server) for _ in range(connections)]
    started = time.perf_counter()

    def call(number: int) -> None:
        at = number % len(requests)
        numbered = list(enumerate(requests))
        try:
            _call(sockets[number], [*numbered[at:], *numbered[:at]], started + seconds, latencies[number])
        except (OSError, LoadError, ValueError) as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise LoadError(str(failures[0])) from failures[0]
    return _turn(
        [call for found in latencies for call in found], len(requests), time.perf_counter() - started
    )


def _turn(calls: list[tuple[int, float]], requests: int, took: float) -> Turn:
    every = [1000 * latency for _, latency in calls]
    best = [math.inf] * requests
    for number, latency in calls:
        best[number] = min(best[number], 1000 * latency)
    p99 = quantiles(every, n=100)[98] if len(every) > 1 else every[0]
    return Turn(len(every) / took, median(every), p99, tuple(best))


def _connect(context: ssl.SSLContext, server: Server) -> ssl.SSLSocket:
    try:
        plain = socket.create_connection((server.host, server.port), timeout=CALL_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(plain, server_hostname=server.host)
    except OSError as error:
        raise LoadError(f"{server.host}:{server.port}: {error}") from error


def _call(
    tls: ssl.SSLSocket, requests: Sequence[tuple[int, bytes]], end: float, latencies: list[tuple[int, float]]
) -> None:
    with tls:
        for number, request in cycle(requests):
            started = time.perf_counter()
            if started > end and len(latencies) >= len(requests):
                return
            tls.sendall(request)
            _read_answer(tls)
            latencies.append((number, time.perf_counter() - started))


def _read_answer(tls: ssl.SSLSocket) -> None:
    data = _more(tls)
    head, found, body = data.partition(b"\r\n\r\n")
    while not found:
        data += _more(tls)
        head, found, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise LoadError(f"the server answered {head[9:12].decode(errors='replace')} and not 200")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    received = len(body)
    while received < length:
        received += len(_more(tls))


def _more(tls: ssl.SSLSocket) -> bytes:
    data = tls.recv(CHUNK)
    if not data:
        raise LoadError("the server closed the connection")
    return data
