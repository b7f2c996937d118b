"""Calls against a small TLS server: what counts as an answer, and what is said where there is none."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.server.conftest import ca, folder
from webhook.benchmark.load import LoadError, Server, load, post
from webhook.benchmark.measure import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["ca", "folder"]  # fixtures

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CALL = post("/mutate", b"{}")


@pytest.fixture
def answering(folder: Path) -> Iterator[Callable[..., Server]]:
    """A server that sends these parts, one after the other, for each call: ``answering(*parts)``."""
    listeners: list[socket.socket] = []

    def start(*parts: bytes) -> Server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=serve, args=(listener, context, parts), daemon=True).start()
        return Server("127.0.0.1", listener.getsockname()[1], folder / "ca.crt")

    yield start
    for listener in listeners:
        listener.close()


def serve(listener: socket.socket, context: ssl.SSLContext, parts: tuple[bytes, ...]) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=answer, args=(context, listener.accept()[0], parts), daemon=True).start()


def answer(context: ssl.SSLContext, plain: socket.socket, parts: tuple[bytes, ...]) -> None:
    with suppress(OSError), context.wrap_socket(plain, server_side=True) as tls:
        while tls.recv(65536):
            for part in parts:
                tls.sendall(part)
            if not parts:
                return


@pytest.mark.parametrize(
    "parts", [(OK,), (OK[:10], OK[10:]), (OK[:-2], OK[-2:])], ids=["whole", "head in two", "body in two"]
)
def test_answers_are_counted(parts: tuple[bytes, ...], answering: Callable[..., Server]) -> None:
    turn = load(answering(*parts), [CALL], connections=2, seconds=0.5)
    assert turn.calls_per_second > 1
    assert 0 < turn.best[0] <= turn.median <= turn.p99


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (
            (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",),
            "the server answered 503 and not 200",
        ),
        ((), "the server closed the connection"),
    ],
    ids=["an error", "nothing"],
)
def test_another_answer_ends_it(
    parts: tuple[bytes, ...], text: str, answering: Callable[..., Server]
) -> None:
    with pytest.raises(LoadError) as found:
        load(answering(*parts), [CALL], connections=1, seconds=1)
    assert str(found.value) == text


def test_nobody_listens(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(LoadError, match=f"^127.0.0.1:{port}: .*refused"):
        load(Server("127.0.0.1", port, folder / "ca.crt"), [CALL], connections=1, seconds=1)


def test_each_request_is_sent_once_however_short_the_time(answering: Callable[..., Server]) -> None:
    turn = load(answering(OK), [CALL, post("/validate", b"{}")], connections=1, seconds=0)
    assert len(turn.best) == 2
    assert all(each > 0 for each in turn.best)
    assert sum(turn.best) == pytest.approx(2 * turn.median)


def test_each_server_has_its_turns_and_each_turn_is_told(answering: Callable[..., Server]) -> None:
    told: list[int] = []
    servers = {name: answering(OK) for name in ("floor", "ours")}
    found = measure(
        servers,
        {key: [CALL] for key in servers},
        connections=1,
        turns=3,
        seconds=0.4,
        told=lambda: told.append(1),
    )
    assert {name: len(turns) for name, turns in found.items()} == {"floor": 3, "ours": 3}
    assert len(told) == 6
