"""The health port answers two paths, and nobody can hold it up."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from webhook.controller.health import CONNECTIONS, HealthServer
from webhook.controller.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterator


class Alive:
    def __init__(self) -> None:
        self.yes = True


@pytest.fixture
def alive() -> Alive:
    return Alive()


@pytest.fixture
def server(alive: Alive) -> Iterator[HealthServer]:
    listener = socket.create_server(("127.0.0.1", 0))
    with HealthServer(listener, lambda: alive.yes, Metrics().registry) as server:
        server.start()
        yield server
        server.shutdown()


def get(server: HealthServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{server.server_address[1]}{path}", timeout=5
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_is_that_of_the_loop(server: HealthServer, alive: Alive) -> None:
    assert get(server, "/healthz") == (200, "ok\n")
    alive.yes = False
    assert get(server, "/healthz") == (503, "stalled\n")


def test_metrics(server: HealthServer) -> None:
    status, text = get(server, "/metrics")
    assert status == 200
    assert "podgate_controller_leader 0.0" in text.splitlines()


@pytest.mark.parametrize("path", ["/", "/healthz/x", "/debug"])
def test_nothing_else(server: HealthServer, path: str) -> None:
    assert get(server, path) == (404, "there are /healthz and /metrics\n")


def test_connections_that_say_nothing_hold_nobody_up(server: HealthServer) -> None:
    port = int(server.server_address[1])
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS + 5)]
    try:
        for each in idle[CONNECTIONS:]:
            each.settimeout(5)
            assert each.recv(1) == b"", "beyond the bound it is closed at once"
        for each in idle[:CONNECTIONS]:
            each.close()
        for _ in range(100):
            try:
                assert get(server, "/healthz") == (200, "ok\n")
                break
            except OSError:
                continue
        else:
            pytest.fail("it never answered again")
    finally:
        for each in idle:
            each.close()
