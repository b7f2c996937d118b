"""``/healthz`` and ``/metrics`` on a plain HTTP port, for the kubelet and Prometheus: nothing else is answered."""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from prometheus_client import CollectorRegistry

#: For a request line and headers to come, and for an answer to go.
TIMEOUT_SECONDS = 5.0
#: Connections at once; beyond it a new one is closed. A kubelet and a Prometheus need one each.
CONNECTIONS = 16


class HealthServer(ThreadingMixIn, TCPServer):
    """Answers probes in threads of its own.

    Args:
        listener: A socket that listens, closed at the end.
        is_alive: The process's main loop goes on.
        registry: Of the metrics.
    """

    daemon_threads = True

    def __init__(
        self, listener: socket.socket, is_alive: Callable[[], bool], registry: CollectorRegistry
    ) -> None:
        self.is_alive = is_alive
        self.registry = registry
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(listener.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def start(self) -> None:
        """Answer from now on."""
        threading.Thread(target=self.serve_forever, name="health", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if one is free."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and be free again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's business."""


class _Handler(BaseHTTPRequestHandler):
    server: HealthServer
    timeout = TIMEOUT_SECONDS
    server_version, sys_version = "podgate", ""

    def do_GET(self) -> None:
        """Answer one request."""
        if self.path == "/metrics":
            self._answer(HTTPStatus.OK, generate_latest(self.server.registry), CONTENT_TYPE_LATEST)
        elif self.path == "/healthz":
            alive = self.server.is_alive()
            self._answer(
                HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE, b"ok\n" if alive else b"stalled\n"
            )
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"there are /healthz and /metrics\n")

    def _answer(self, status: HTTPStatus, body: bytes, media_type: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """No access log."""
