"""Bodies: one is bounded, and all unfinished ones together are."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.server.running import Running, review, worker_of
from webhook.server.connections import MAX_UNFINISHED_BYTES
from webhook.server.reviews import MAX_BODY

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

MIB = 1024 * 1024
HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def sized(size: int) -> bytes:
    """A review of exactly ``size`` bytes."""
    body = review(padding="")
    return body.replace(b'"padding":""', b'"padding":"' + b"x" * (size - len(body)) + b'"')


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


@pytest.mark.parametrize("framed", [False, True], ids=["with a length", "chunked"])
def test_the_largest_review_is_answered(framed: bool, gateway: Running) -> None:
    assert exchange(gateway, sized(MAX_BODY), framed=framed).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("framed", [False, True], ids=["with a length", "chunked"])
def test_one_byte_more_is_413_and_the_answer_is_seen(framed: bool, gateway: Running) -> None:
    answer = exchange(gateway, sized(MAX_BODY + 1), framed=framed)
    assert answer.startswith(b"HTTP/1.1 413 Content Too Large")
    assert b"a review has at most 7340032 bytes" in answer


def test_the_connection_goes_on_after_a_413(gateway: Running) -> None:
    with gateway.tls() as connection:
        for _ in range(2):
            connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1) + b"x" * (MAX_BODY + 1))
            assert receive(connection).startswith(b"HTTP/1.1 413")
        body = review()
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert receive(connection).startswith(b"HTTP/1.1 200")


def test_a_body_without_end_is_not_read_for_ever(gateway: Running) -> None:
    """A gigabyte announced: the answer comes at once, and after twice the limit the connection ends."""
    sent = 0
    with gateway.tls() as connection:
        connection.sendall(HEAD + b"Content-Length: 1000000000\r\n\r\n")
        assert receive(connection).startswith(b"HTTP/1.1 413")
        with contextlib.suppress(OSError):
            while sent < 100 * MIB:
                connection.sendall(b"x" * MIB)
                sent += MIB
    assert sent < 40 * MIB  # 14 MiB, and what the kernel's buffers take


def test_a_refused_path_throws_the_body_away(gateway: Running) -> None:
    with gateway.tls() as connection:
        body = b"x" * MIB
        connection.sendall(
            b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        assert receive(connection).startswith(b"HTTP/1.1 404")
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert receive(connection).startswith(b"HTTP/1.1 200")


def test_unfinished_bodies_together_stay_below_64_mib(start: Callable[..., Running]) -> None:
    """Thirty times 6 MiB without an end: the oldest are dropped, the newest stay, a review is answered."""
    gateway = start()
    before = resident(gateway)
    held: list[socket.socket] = []
    try:
        for _ in range(30):
            connection = gateway.tls()
            connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % MAX_BODY + b"x" * (6 * MIB))
            held.append(connection)
        began = time.monotonic()
        assert gateway.post(review())[0] == 200
        assert time.monotonic() - began < 0.5
        dropped = gateway.metric('podgate_request_rejected_total{reason="unfinished_bodies"}')
        assert 30 - MAX_UNFINISHED_BYTES // (6 * MIB) <= dropped < 30
        assert resident(gateway) - before < 2 * MAX_UNFINISHED_BYTES
        held[-1].sendall(b"x" * (MAX_BODY - 6 * MIB))
        assert held[-1].recv(12) == b"HTTP/1.1 400"
    finally:
        for one in held:
            one.close()
    assert "Traceback" not in gateway.log()


def resident(gateway: Running) -> int:
    """Memory of the worker in bytes."""
    status = Path(f"/proc/{worker_of(gateway)}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def exchange(gateway: Running, body: bytes, *, framed: bool) -> bytes:
    length = b"Transfer-Encoding: chunked" if framed else b"Content-Length: %d" % len(body)
    with gateway.tls() as connection:
        connection.sendall(HEAD + length + b"\r\n\r\n" + (chunked(body) if framed else body))
        return receive(connection)


def receive(connection: socket.socket) -> bytes:
    """One whole answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
