"""A few hostile peers against the real server over TLS: it goes on, and its memory stays bounded."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.engine.gates import training_pod
from tests.hostile.objects import OBJECTS, review
from tests.server.conftest import SHIPPED, ca, furnish
from tests.server.running import Running, free_port, launch
from tests.server.test_bodies import HEAD, resident
from webhook.server.connections import MAX_UNFINISHED_BYTES

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    import certs

__all__ = ["ca"]  # a fixture

WHOLE = orjson.dumps(review(training_pod()))
MIB = 1024 * 1024
SECONDS = 10
"""By the clock, on a machine with a dozen busy processes; `test_hostile_objects` holds the second of processor time. A server
that waits for slow peers would take `REQUEST_SECONDS` for each of fifty."""
CONNECTION_BYTES = 48 * 1024
"""Of an open connection; 28 to 32 KiB were measured, most of them TLS's."""
NAMES = [
    "5,000 containers with GPUs",
    "20,000 terms",
    "names of 100 KB",
    "control characters",
    "a RayCluster of 20,000 groups",
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, ca: certs.Pair) -> Iterator[Running]:
    folder, port = furnish(tmp_path_factory.mktemp("hostile"), ca), free_port()
    (folder / "port").write_text(str(port))
    options = ["--policies", SHIPPED, "--cert", folder / "tls.crt", "--key", folder / "tls.key"]
    program = [sys.executable, "-c", "from webhook.cli.main import main; main()", "serve"]
    running = launch([*program, *map(str, options), "--bind", f"127.0.0.1:{port}"], folder)
    yield running
    assert "Traceback" not in running.log()
    running.stop()


def serves(gateway: Running) -> bool:
    code, answer = gateway.post(WHOLE)
    return code == 200 and answer["response"]["uid"] == "u-1"


@pytest.mark.parametrize("name", NAMES)
def test_an_object_gets_one_answer_and_one_line(name: str, gateway: Running) -> None:
    before = gateway.log().count('"event":"review"')
    body = orjson.dumps(review(OBJECTS[name]()))
    started = time.monotonic()
    code, answer = gateway.post(body)
    assert time.monotonic() - started < SECONDS
    assert (code, answer["response"]["allowed"]) == (200, True)
    assert gateway.log().count('"event":"review"') == before + 1
    line = gateway.log().splitlines()[-1]
    assert line.isprintable()
    assert json.loads(line)["uid"] == "u-1"
    assert serves(gateway)


def test_a_thousand_unfinished_bodies_are_bounded(gateway: Running) -> None:
    """A thousand times 128 KiB is twice what may be held."""
    before = resident(gateway)
    held: list[socket.socket] = []
    try:
        for _ in range(1_000):
            with suppress(OSError):
                connection = gateway.tls()
                held.append(connection)
                connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % MIB + b"x" * (MIB // 8))
        started = time.monotonic()
        assert serves(gateway)
        assert time.monotonic() - started < SECONDS
        assert resident(gateway) - before < MAX_UNFINISHED_BYTES + 1_000 * CONNECTION_BYTES
        assert gateway.metric('podgate_request_rejected_total{reason="unfinished_bodies"}') > 0
    finally:
        for each in held:
            each.close()
    assert serves(gateway)


def test_slow_drips_hold_nobody_up(gateway: Running) -> None:
    dripping = [gateway.tls() for _ in range(50)]
    try:
        for each in dripping:
            each.sendall(HEAD + b"Content-Length: 100\r\n\r\n")
        for _ in range(5):
            for each in dripping:
                each.sendall(b"{")
            started = time.monotonic()
            assert serves(gateway)
            assert time.monotonic() - started < SECONDS
    finally:
        for each in dripping:
            each.close()
