"""gunicorn's gevent worker, made to survive hostile peers and to stop without losing a request.

What differs from the stock worker: the TLS handshake has a deadline and follows the certificate's files;
every read and write is bounded (`connections`); accept never stops; at the end idle connections are closed,
requests under way are answered, and the process is gone within `STOP_SECONDS`.
"""

from __future__ import annotations

import resource
import ssl
import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import gevent
from gevent.pool import Pool
from gevent.server import StreamServer
from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.workers.ggevent import GeventWorker

from webhook.server.connections import Client, GivenUpError, WaitingRoom
from webhook.server.logs import LOST
from webhook.server.reload import Reloader, follow
from webhook.server.reviews import MAX_BODY, refusal

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

#: How often the worker looks whether it was told to stop, and tells the arbiter that it lives.
TICK_SECONDS = 0.2
#: After SIGTERM new connections are still taken for a second: the Service's endpoints change a little later
#: than the signal comes. Answers say ``Connection: close`` from here on.
LINGER_SECONDS = 1.0
#: After that, whoever was taken last still gets to say what it wants: a handshake and a request take milliseconds.
NEWCOMER_SECONDS = 0.5
#: From SIGTERM to the end of the worker; what is not answered then never will be. The arbiter kills after
#: `KILL_SECONDS`, so that the process is gone within 5 s.
STOP_SECONDS = 3.5
KILL_SECONDS = 4

#: Files a worker needs beside its connections: listener, pipes, logs, metrics, the policies being read.
SPARE_FILES = 100

#: A body that nobody read (of a request refused by its path or size) is read and thrown away up to this, so
#: that the client gets to see the answer instead of a reset connection.
MAX_DISCARDED = 2 * MAX_BODY
_DISCARD_STEP = 64 * 1024


def connection_limit(wanted: int) -> int:
    """How many connections a worker may hold open: ``wanted``, or what the open-files limit leaves."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(2, min(wanted, soft - SPARE_FILES))


class _Address(NamedTuple):
    """What gunicorn asks of a listener, beyond the listener's end: a connection may be accepted just before."""

    name: Any

    def getsockname(self) -> Any:
        """The address listened on."""
        return self.name


class Worker(GeventWorker):  # type: ignore[misc]  # gunicorn has no types
    """The worker class of `webhook.server.gateway.Gateway`.

    Attributes:
        place: Which of the workers it is, from 1; given by the arbiter.
    """

    place: int

    def run(self) -> None:
        """Serve until told to stop, then stop."""
        self.worker_connections: int = connection_limit(self.cfg.worker_connections)
        self._certificate = self.app.certificate
        self._metrics = self.app.metrics
        self._certificate.on_reload = lambda result: self._metrics.certificate_reloads.labels(result).inc()
        LOST.told = self._metrics.lost_lines.inc
        self._room = WaitingRoom(self.worker_connections, self._metrics.count_rejected)
        servers = [self._listen(listener) for listener in self.sockets]
        for poll in (Reloader(self.app.state, self._metrics, _in_thread).poll, self._certificate.context):
            gevent.spawn(follow, poll, self.app.poll_seconds)
        while self.alive:
            self.notify()
            gevent.sleep(TICK_SECONDS)
        self._stop(servers)

    def _listen(self, listener: Any) -> StreamServer:
        listener.setblocking(1)
        pool = Pool(self.worker_connections)
        address = _Address(listener.getsockname())
        server = StreamServer(listener, handle=partial(self._serve, address), spawn=pool)
        if self.cfg.workers > 1:
            server.max_accept = 1  # leave some to the others
        server.start()
        return server

    def _serve(self, listener: _Address, plain: Any, peer: Any) -> None:
        """One connection, from accept to close."""
        self._room.arrive()
        try:
            client = self._handshaken(plain)
            if client is not None:
                self.handle(listener, client, peer)
        except Exception:
            self.log.exception("a connection failed")
        finally:
            self._room.leave()
            plain.close()

    def _handshaken(self, plain: Any) -> Client | None:
        client = None
        try:
            tls = self._certificate.context().wrap_socket(
                plain, server_side=True, do_handshake_on_connect=False
            )
            client = Client(tls, self._room)
            client.handshake()
        except OSError as error:
            if not isinstance(error, GivenUpError):
                self._metrics.count_rejected("handshake")
            self.log.debug("TLS handshake: %s", error)
            if client is not None:
                client.close()
            return None
        return client

    def timeout_ctx(self) -> AbstractContextManager[None]:
        """Nothing: a `Client` keeps its own time."""
        return nullcontext()

    def handle_request(self, listener_name: Any, req: Any, sock: Client, addr: Any) -> bool:
        """Answer one request and make the connection ready for the next.

        Raises:
            StopIteration: The connection ends here (gunicorn's way to say so).
        """
        try:
            super().handle_request(listener_name, req, sock, addr)
            sock.flush()
        except StopIteration:
            sock.flush()
            raise
        except (ConnectionError, ssl.SSLError):
            raise
        except OSError as error:  # the end of a body before its last chunk, or a fault of our own
            self.handle_error(req, sock, addr, error)
            raise StopIteration from error
        if not _read_to_end(req.body, sock):
            raise StopIteration
        sock.request_done()
        # The next request may be here already: those who are ready go first. With 16 busy connections the slowest call in a
        # hundred takes 20 ms instead of 35 (tests/bench), at the same throughput.
        gevent.sleep(0)
        return True

    def handle_error(self, req: Any, client: Client, addr: Any, exc: BaseException) -> None:  # noqa: ARG002
        """Answer what is no HTTP with 400, and say it at debug level: it is the peer's mistake; all else is ours."""
        if isinstance(exc, (ParseException, NoMoreData, ssl.SSLError)):
            self._metrics.count_rejected("malformed")
            self.log.debug("no HTTP request: %s", exc)
            reply = refusal(400, "BadRequest", "this is no HTTP/1.1 request")
        else:
            self._metrics.count_rejected("bug")
            self.log.error("a request failed: this is a bug", exc_info=exc)
            reply = refusal(500, "InternalError", "internal error, see the log")
        try:
            client.sendall(reply.as_http())
            client.flush()
        except (OSError, ValueError) as error:  # ValueError: TLS is closed already
            self.log.debug("no answer sent: %s", error)

    def _stop(self, servers: list[StreamServer]) -> None:
        end = time.monotonic() + STOP_SECONDS
        self._wait_until(time.monotonic() + LINGER_SECONDS)
        for server in servers:
            server.close()
        patient_until = time.monotonic() + NEWCOMER_SECONDS
        while self._room.open and time.monotonic() < end:
            self._room.close_idle(newcomers=time.monotonic() >= patient_until)
            self._wait_until(time.monotonic() + TICK_SECONDS / 4)

    def _wait_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            self.notify()
            gevent.sleep(min(left, TICK_SECONDS))


def _in_thread(read: Any) -> Any:
    """Run ``read`` in a thread: the interpreter switches every 5 ms, so a review waits that long at most."""
    return gevent.get_hub().threadpool.apply(read)


def _read_to_end(body: Any, client: Client) -> bool:
    """Whether the request's body is read, if need be by throwing a bounded rest away."""
    for _ in range(MAX_DISCARDED // _DISCARD_STEP):
        client.forget()
        if not body.read(_DISCARD_STEP):
            return True
    return False
