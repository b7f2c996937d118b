"""A server on 127.0.0.1 that answers as a test tells it to, byte by byte, and remembers what was asked."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping
    from typing import Self


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"


class Reply:
    """What a test does with one request."""

    def __init__(self, handler: BaseHTTPRequestHandler, stopping: threading.Event) -> None:
        self._handler = handler
        self.stopping = stopping

    def json(self, code: int, body: Any, **headers: str) -> None:
        self.plain(code, json.dumps(body).encode(), **headers)

    def plain(self, code: int, data: bytes, **headers: str) -> None:
        handler = self._handler
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    def stream(self) -> None:
        """Begin a chunked answer, as a watch has it."""
        self._handler.send_response(200)
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()

    def piece(self, data: bytes) -> None:
        self._handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def event(self, kind: str, thing: Any) -> None:
        self.piece(json.dumps({"type": kind, "object": thing}).encode() + b"\n")

    def end(self) -> None:
        """The end of a stream, as the API server ends a watch whose time is over."""
        self._handler.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """The connection is gone, in the middle of whatever was sent."""
        self._handler.close_connection = True
        with suppress(OSError):
            self._handler.connection.shutdown(socket.SHUT_RDWR)

    def hang(self, seconds: float = 60) -> None:
        self.stopping.wait(seconds)


class ScriptedServer:
    """Use as a context manager; ``answer`` may be replaced at any time."""

    def __init__(
        self, answer: Callable[[Request, Reply], None], port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self._stopping = threading.Event()
        self._connections: list[socket.socket] = []
        self._http = _Server(("127.0.0.1", port), self._handler())
        self.tls = tls is not None
        if tls:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self.port: int = self._http.server_address[1]

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """As a process that dies: listener and all connections at once."""
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def matching(self, path: str, *, watch: bool | None = None) -> list[Request]:
        return [r for r in self.requests if r.path == path and (watch is None or r.is_watch is watch)]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are written apart: the second would wait 40 ms

            def setup(self) -> None:
                super().setup()
                server._connections.append(self.connection)

            def handle(self) -> None:
                with suppress(OSError):
                    super().handle()

            def log_message(self, *_: Any) -> None: ...

            def answer(self) -> None:
                url = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(
                    self.command, url.path, dict(parse_qsl(url.query)), dict(self.headers), body
                )
                server.requests.append(request)
                server.answer(request, Reply(self, server._stopping))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 50

    def handle_error(self, *_: Any) -> None:
        """A peer that hangs up is part of the tests."""


def kubeconfig(url: str, **user: str) -> str:
    """A kubeconfig for a server, as text."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "c", "user": "u"}},
        ],
    }
    return json.dumps(config)


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code} | {
        "reason": reason,
        "message": message,
    }


def until(wanted: Callable[[], bool], seconds: float = 5.0) -> Iterator[None]:
    """Yield between looks until it is so; fails when the time is over."""
    end = time.monotonic() + seconds
    while not wanted():
        assert time.monotonic() < end, "it did not come to pass"
        yield
        time.sleep(0.01)
