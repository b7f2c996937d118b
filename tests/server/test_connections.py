"""Hostile peers: whatever they hold open, an innocent review is answered at once."""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.server.conftest import STANDIN
from tests.server.running import Running, eventually, launch, post, review
from webhook.server.connections import MAX_UNFINISHED_BYTES, Client, WaitingRoom
from webhook.server.worker import connection_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOSTILE = 70  # on a server with room for fifty
REQUEST_TIMEOUT = 'podgate_request_rejected_total{reason="request_timeout"}'
HANDSHAKE_TIMEOUT = 'podgate_request_rejected_total{reason="handshake_timeout"}'
SEND_TIMEOUT = 'podgate_request_rejected_total{reason="send_timeout"}'
INNOCENT_SECONDS = 0.25

HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def tcp_only(gateway: Running) -> socket.socket:
    return gateway.connect()


def half_hello(gateway: Running) -> socket.socket:
    connection = gateway.connect()
    connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    return connection


def idle_tls(gateway: Running) -> socket.socket:
    return gateway.tls()


def stalled_headers(gateway: Running) -> socket.socket:
    connection = gateway.tls()
    connection.sendall(HEAD)
    return connection


def stalled_body(gateway: Running) -> socket.socket:
    connection = gateway.tls()
    connection.sendall(HEAD + b"Content-Length: 100000\r\n\r\n{")
    return connection


def reads_nothing(gateway: Running) -> socket.socket:
    """Asks for more than the smallest buffers hold and takes none of it."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    plain.settimeout(1)
    plain.connect(("127.0.0.1", gateway.port))
    connection = gateway.wrapped(plain)
    connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 8)
    return connection


def served_once(gateway: Running) -> socket.socket:
    """Known by an answered request, then half of the next one."""
    connection = gateway.tls()
    connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.recv(1000)
    connection.sendall(HEAD)
    return connection


def idle_after_an_answer(gateway: Running) -> socket.socket:
    """Known by an answered request, as the API server's own idle connections are."""
    connection = gateway.tls()
    connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.recv(1000)
    return connection


@contextlib.contextmanager
def besieged(gateway: Running, attack: Callable[[Running], socket.socket]) -> Iterator[list[socket.socket]]:
    """``HOSTILE`` connections of one kind; those that are given up are made anew until the end."""
    held: list[socket.socket] = []
    over = threading.Event()

    def attack_on() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                held.append(attack(gateway))
            if len(held) >= HOSTILE:
                over.wait(0.02)
            if len(held) >= HOSTILE * 2:
                held.pop(0).close()

    attackers = [threading.Thread(target=attack_on) for _ in range(4)]
    for attacker in attackers:
        attacker.start()
    try:
        eventually(lambda: len(held) >= HOSTILE, 15)
        yield held
    finally:
        over.set()
        for attacker in attackers:
            attacker.join(5)
        for connection in held:
            connection.close()


@pytest.mark.parametrize(
    "attack",
    [
        tcp_only,
        half_hello,
        idle_tls,
        stalled_headers,
        stalled_body,
        reads_nothing,
        served_once,
        idle_after_an_answer,
    ],
    ids=lambda attack: attack.__name__,
)
def test_an_innocent_review_is_answered_at_once(
    attack: Callable[[Running], socket.socket], gateway: Running
) -> None:
    with besieged(gateway, attack):
        seconds = []
        for _ in range(10):
            began = time.monotonic()
            assert gateway.post(review())[0] == 200
            seconds.append(time.monotonic() - began)
    assert sorted(seconds)[-2] < INNOCENT_SECONDS, seconds
    assert "Traceback" not in gateway.log()


def test_a_kept_alive_connection_outlives_hundreds_of_strangers(gateway: Running) -> None:
    kept = gateway.client()
    assert post(kept, review())[0] == 200
    address = kept.sock.getsockname()
    with besieged(gateway, idle_tls) as held:
        for _ in range(20):
            assert post(kept, review())[0] == 200
            time.sleep(0.02)
        assert len(held) >= HOSTILE
    assert kept.sock.getsockname() == address
    kept.close()


def test_a_drip_does_not_move_the_deadline(gateway: Running) -> None:
    """One byte of the body every quarter of a second: given up five seconds after the request's first byte."""
    before = gateway.metric(REQUEST_TIMEOUT)
    connection = stalled_body(gateway)
    began = time.monotonic()
    with contextlib.suppress(OSError):
        while time.monotonic() - began < 8:
            connection.sendall(b" ")
            time.sleep(0.25)
    assert 4.5 < time.monotonic() - began < 6.5
    assert gateway.metric(REQUEST_TIMEOUT) == before + 1
    assert "Traceback" not in gateway.log()
    connection.close()


def test_a_drip_inside_one_tls_record_does_not_either(gateway: Running) -> None:
    """The bytes of a handshake record one by one: TLS reads on, but the time is over all the same."""
    before = gateway.metric(HANDSHAKE_TIMEOUT)
    connection = half_hello(gateway)
    began = time.monotonic()
    with contextlib.suppress(OSError):
        while time.monotonic() - began < 8:
            connection.sendall(b"\x00")
            time.sleep(0.25)
    assert 4.5 < time.monotonic() - began < 6.5
    connection.close()
    eventually(lambda: gateway.metric(HANDSHAKE_TIMEOUT) == before + 1)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GARBAGE\r\n\r\n", id="no request line"),
        pytest.param(b"POST /mutate HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", id="a bad header"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n", id="a bad chunk"),
        pytest.param(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", id="two lengths"),
        pytest.param(HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", id="smuggling"),
        pytest.param(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", id="a long line"),
    ],
)
def test_what_is_no_http_is_refused_without_a_traceback(sent: bytes, gateway: Running) -> None:
    with gateway.tls() as connection:
        connection.sendall(sent)
        answer = connection.recv(4000)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n")
    assert "Traceback" not in gateway.log()


@pytest.mark.parametrize(
    "chunks",
    [b"ZZ\r\n", b"1\r\n{ZZ", b"5\r\n{"],
    ids=["a bad size", "no end of a chunk", "half a chunk"],
)
def test_a_bad_body_behind_an_answer_is_no_event(chunks: bytes, gateway: Running) -> None:
    """Nobody has read it when the answer is found: what is wrong with it shows when it is thrown away."""
    with gateway.tls() as connection:
        connection.sendall(
            HEAD.replace(b"/mutate", b"/nowhere") + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
        )
        answer = connection.recv(4000)
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert gateway.post(review())[0] == 200
    assert '"level":"error"' not in gateway.log()


@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"PO",
        HEAD,
        HEAD + b"Content-Length: 9\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    ],
    ids=["nothing", "half a line", "half the headers", "half a body", "half a chunk"],
)
def test_a_peer_that_leaves_is_no_event(part: bytes, gateway: Running) -> None:
    with gateway.tls() as connection:
        connection.sendall(part)
    assert gateway.post(review())[0] == 200
    assert "Traceback" not in gateway.log()
    assert '"level":"error"' not in gateway.log()


OWN_FAULT = """
import runpy, sys
from webhook.server.state import ServerState
def fails(*_):
    raise OSError(28, "No space left on device")
ServerState.in_force = fails
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_fault_of_the_system_in_our_own_work_is_not_the_peers(folder: Path) -> None:
    arguments = [str(STANDIN), str(folder), str(folder / "port"), "1", "50"]
    gateway = launch([sys.executable, "-c", OWN_FAULT, *arguments], folder)
    try:
        code, said = gateway.post(review())
        assert (code, said["message"]) == (500, "internal error, see the log")
        assert gateway.metric('podgate_request_rejected_total{reason="malformed"}') == 0
        assert gateway.metric('podgate_request_rejected_total{reason="bug"}') == 1
        assert "a request failed: this is a bug" in gateway.log()
    finally:
        gateway.stop()


def test_old_tls_is_refused(gateway: Running) -> None:
    context = gateway.context()
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with gateway.connect() as connection, pytest.raises(ssl.SSLError):
        context.wrap_socket(connection, server_hostname="127.0.0.1")


PIPELINE = """\
import socket, ssl, sys, threading
context = ssl.create_default_context(cafile=sys.argv[2])
plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection = context.wrap_socket(plain, server_hostname="127.0.0.1")
def receive():
    while connection.recv(65536):
        pass
threading.Thread(target=receive, daemon=True).start()
while True:
    connection.sendall(b"GET /livez HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" * 200)
"""


def test_a_stream_of_pipelined_requests_leaves_time_for_others(gateway: Running) -> None:
    """Reading never has to wait, so nothing but our own doing lets another connection have its turn."""
    arguments = [sys.executable, "-c", PIPELINE, str(gateway.port), str(gateway.folder / "ca.crt")]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as flood:
        time.sleep(0.5)
        seconds = []
        for _ in range(5):
            began = time.monotonic()
            assert gateway.post(review())[0] == 200
            seconds.append(time.monotonic() - began)
        assert flood.poll() is None
        flood.kill()
    assert sorted(seconds)[-2] < INNOCENT_SECONDS, seconds


@pytest.mark.parametrize(
    ("soft", "limit"), [(1024, 924), (65536, 1000), (resource.RLIM_INFINITY, 1000), (64, 2)]
)
def test_connections_leave_some_open_files_for_the_rest(
    soft: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert connection_limit(1000) == limit


def test_a_peer_that_takes_no_answers_is_given_up(gateway: Running) -> None:
    before = gateway.metric(SEND_TIMEOUT)
    connection = gateway.tls()
    connection.settimeout(1)
    asking = threading.Thread(target=ask_on, args=(connection,))
    asking.start()
    eventually(lambda: gateway.metric(SEND_TIMEOUT) == before + 1, 12)
    asking.join(5)
    connection.close()
    assert "Traceback" not in gateway.log()


def ask_on(connection: socket.socket) -> None:
    """Until nothing more is taken."""
    with contextlib.suppress(OSError):
        for _ in range(100):
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)


class Taken:
    """A socket whose peer takes everything and says nothing."""

    def __init__(self) -> None:
        self._sock = self
        self.is_shut = False

    def sendall(self, _: bytes) -> None: ...

    def shutdown(self, _: int) -> None:
        self.is_shut = True


def test_answers_that_nobody_takes_are_bounded_as_bodies_are() -> None:
    """A thousand scrapes of half a MiB would be the container's memory."""
    rejected: list[str] = []
    room = WaitingRoom(1000, rejected.append)
    sockets = [Taken() for _ in range(3)]
    clients = [Client(each, room) for each in sockets]
    for client in clients:
        client.sendall(b"x" * (MAX_UNFINISHED_BYTES // 2))
    assert [each.is_shut for each in sockets] == [True, False, False]
    assert rejected == ["unfinished_bodies"]
    clients[1].request_done()
    clients[2].sendall(b"x" * (MAX_UNFINISHED_BYTES // 2))
    assert [each.is_shut for each in sockets] == [True, False, False]
