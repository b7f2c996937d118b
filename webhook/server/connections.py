"""Connections with total deadlines, and a room for those who wait, where there is always space for one more.

A gevent pool that is full stops accepting, and a connection that says nothing holds its slot: sixty
half-open ones freeze a server with fifty slots. Here each phase of a connection has one deadline for all of
it (a byte now and then does not help), and a newcomer takes the place of whoever has waited longest.
"""

from __future__ import annotations

import errno
import socket
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import gevent

if TYPE_CHECKING:
    from collections.abc import Callable

#: gevent costs some 30 KiB a connection; an API server needs a few dozen.
CONNECTIONS = 1000

#: TCP accept to TLS established. The API server gives its own dial and handshake 30 s and 10 s, but a cluster
#: network takes milliseconds; five seconds let a lost packet be sent twice more.
HANDSHAKE_SECONDS = 5.0
#: TLS established to the first byte: a client that connects has something to ask.
UNUSED_SECONDS = 10.0
#: First byte of a request to the last of its body: 7 MiB at 12 Mbit/s. A webhook call is over after 3 s.
REQUEST_SECONDS = 5.0
#: An answer of a few KiB fits the kernel's buffers; only a client that reads nothing takes as long as this.
SEND_SECONDS = 5.0
#: The API server closes an idle connection after 90 s (kubernetes/apimachinery:pkg/util/net/http.go). It must be
#: the one that closes: a request on its way when we close would be lost.
KEEPALIVE_SECONDS = 120

#: Unfinished bodies together, and answers that nobody takes: nine of the largest. A container of 256 MiB must survive them.
MAX_UNFINISHED_BYTES = 64 * 1024 * 1024

#: A peer that always has more to read (pipelined requests, a large body) never makes us wait; after so long, the
#: time of two reviews, the loop looks all the same who else is ready.
TURN_SECONDS = 0.002
#: Any time above 0: `gevent.sleep(0)` goes on some fifty times before it looks who is ready.
_A_MOMENT = 1e-6

#: An answer is a few KiB, and a scrape of the metrics half a MiB at most; no reason to hold back more.
MAX_UNSENT_BYTES = 64 * 1024

#: A TLS record (RFC 8446, 5.1), and so the most that one read gives. The buffer for a larger read is made and cut down each
#: time, and leaves holes in the heap: a thousand unfinished bodies then take three times their size.
MAX_READ_BYTES = 16 * 1024

_P = ParamSpec("_P")
_T = TypeVar("_T")


class GivenUpError(ConnectionResetError):
    """A connection was ended by us: too slow, or its place was needed.

    As an OSError with `ECONNRESET` gunicorn takes it for what it is, an ended connection, at debug level.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(errno.ECONNRESET, reason)


class WaitingRoom:
    """The connections of one worker that wait for their peer, the longest-waiting first.

    Args:
        size: How many connections may be open.
        rejected: Told the reason whenever one is given up.
    """

    def __init__(self, size: int, rejected: Callable[[str], None]) -> None:
        self._size = size
        self.rejected = rejected
        self.open = 0
        self._busy: OrderedDict[Client, None] = OrderedDict()
        self._idle: OrderedDict[Client, None] = OrderedDict()
        self._holders: OrderedDict[Client, bool] = OrderedDict()
        self._held = 0
        self._turn_ends = 0.0
        self._polled = gevent.get_hub().loop.check()
        self._polled.start(self._begin_turn)

    def arrive(self) -> None:
        """Count a connection in; one place stays free, so that the pool is never full and accept never stops."""
        self.open += 1
        if self.open >= self._size:
            victim = self._victim()
            if victim is not None:
                victim.give_up("evicted")

    def _victim(self) -> Client | None:
        """The longest-waiting of the longer queue.

        So neither can displace the other: strangers that say nothing cost the API server none of its idle
        connections, and idle connections held by anybody cost a newcomer no place.
        """
        queue = self._idle if len(self._idle) > len(self._busy) else self._busy
        return next(iter(queue), None)

    def leave(self) -> None:
        """Count a connection out."""
        self.open -= 1

    def wait(self, client: Client) -> None:
        """Put ``client`` at the end of its queue."""
        (self._idle if client.is_idle else self._busy)[client] = None

    def give_way(self) -> None:
        """Let the others go on, if nobody looked for a while who is ready."""
        if time.monotonic() > self._turn_ends:
            gevent.sleep(_A_MOMENT)

    def _begin_turn(self) -> None:
        """The loop has just looked."""
        self._turn_ends = time.monotonic() + TURN_SECONDS

    def wake(self, client: Client) -> None:
        """Take ``client`` out of its queue."""
        self._busy.pop(client, None)
        self._idle.pop(client, None)

    def hold(self, client: Client, size: int) -> None:
        """Count ``size`` more bytes of an unfinished request or its answer; above the limit the oldest is dropped."""
        self._holders.setdefault(client, True)
        client.held += size
        self._held += size
        while self._held > MAX_UNFINISHED_BYTES:
            oldest = next(iter(self._holders))
            self.release(oldest)
            oldest.give_up("unfinished_bodies")

    def release(self, client: Client) -> None:
        """The request of ``client`` is finished or given up."""
        if self._holders.pop(client, None) is not None:
            self._held -= client.held
            client.held = 0

    def close_idle(self, *, newcomers: bool) -> None:
        """End the connections on which no request is under way.

        Args:
            newcomers: Also those that never had one: it may be on its way.
        """
        for client in [*(self._busy if newcomers else ()), *self._idle]:
            client.finish()


class Client:
    """A peer's socket as gunicorn uses it, with a deadline on each phase.

    Args:
        tls: The wrapped socket, before its handshake.
        room: Where it waits.
    """

    def __init__(self, tls: Any, room: WaitingRoom) -> None:
        self._tls = tls
        self._room = room
        self._deadline = time.monotonic() + HANDSHAKE_SECONDS
        self._late = "handshake_timeout"
        self._given_up = ""
        self._between_requests = True
        self._unsent = b""
        self.is_idle = False
        self.held = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tls, name)

    def handshake(self) -> None:
        """Establish TLS.

        Raises:
            OSError: The peer does not speak TLS, is too slow, or was given up.
        """
        self._waited(self._tls.do_handshake)
        self._begin(UNUSED_SECONDS, "unused_timeout")

    def recv(self, size: int) -> bytes:
        """The next bytes, at most ``size``; the first ones start the request's clock.

        Raises:
            GivenUpError: The time is over, or the place or the memory was needed.
        """
        data: bytes = self._waited(self._tls.recv, min(size, MAX_READ_BYTES))
        if self._between_requests:
            self._between_requests = self.is_idle = False
            self._begin(REQUEST_SECONDS, "request_timeout")
        self._room.hold(self, len(data))
        if self._given_up:
            raise GivenUpError(self._given_up)
        return data

    def sendall(self, data: bytes) -> None:
        """Take a part of an answer; it goes out with the rest (`flush`), or when there is much of it.

        gunicorn sends the headers and the body one by one: two TLS records, two system calls and two wake-ups of
        the peer, a tenth of the time that a small answer takes.
        """
        self._unsent += data
        self._room.hold(self, len(data))
        if len(self._unsent) > MAX_UNSENT_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what was taken."""
        if self._unsent:
            data, self._unsent = self._unsent, b""
            self._begin(SEND_SECONDS, "send_timeout")
            self._waited(self._tls.sendall, data)

    def send(self, data: bytes) -> int:
        """What gunicorn calls for ``100 Continue``: it neither ends the request nor moves its deadline."""
        sent: int = self._waited(self._tls.send, data)
        return sent

    def request_done(self) -> None:
        """The answer is sent: from here on the connection is idle, and its peer known."""
        self._between_requests = self.is_idle = True
        self._room.release(self)
        self._begin(KEEPALIVE_SECONDS, "")

    def forget(self) -> None:
        """What was read is no longer in memory."""
        self._room.release(self)

    def give_up(self, reason: str) -> None:
        """End the connection from outside; its own greenlet finds out when it reads or writes."""
        self._given_up = reason
        self._room.rejected(reason)
        self._room.wake(self)
        self._shut(socket.SHUT_RDWR)

    def finish(self) -> None:
        """End the connection if no request is under way; one that is here already is still answered."""
        if self._between_requests:
            self._shut(socket.SHUT_RD)

    def close(self) -> None:
        """Close the socket and forget what was held."""
        self._room.release(self)
        self._tls.close()

    def _begin(self, seconds: float, late: str) -> None:
        self._deadline = time.monotonic() + seconds
        self._late = late

    def _waited(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        late = GivenUpError(self._late)
        self._room.wait(self)
        try:
            self._room.give_way()
            with gevent.Timeout(max(0.0, self._deadline - time.monotonic()), late):
                result = call(*args, **kwargs)
        except GivenUpError:
            if self._late:
                self._room.rejected(self._late)
            raise
        except OSError:
            self._raise_if_given_up()
            raise
        finally:
            self._room.wake(self)
        if not result:
            self._raise_if_given_up()
        return result

    def _raise_if_given_up(self) -> None:
        if self._given_up:
            raise GivenUpError(self._given_up) from None

    def _shut(self, how: int) -> None:
        """Shut the TCP connection; gevent's own ``shutdown`` would throw into whoever still reads."""
        try:
            self._tls._sock.shutdown(how)  # noqa: SLF001
        except OSError:
            return  # it has ended already
