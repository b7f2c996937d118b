"""SIGTERM under load: what was sent is answered, and the process is gone in time."""

from __future__ import annotations

import http.client
import signal
import ssl
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.server.running import Running, eventually, post, review, worker_of, workers_of
from webhook.server.worker import LINGER_SECONDS, STOP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

GONE_SECONDS = 5


class Caller(threading.Thread):
    """Calls as the API server does: keep-alive, and a connection that was closed while idle is made anew."""

    def __init__(self, gateway: Running) -> None:
        super().__init__()
        self.gateway = gateway
        self.answered: list[float] = []
        self.lost: list[tuple[float, str]] = []
        self.refused_at = 0.0

    def run(self) -> None:
        client = self.gateway.client()
        fresh = True
        while not self.refused_at:
            sent = time.monotonic()
            try:
                status, _ = post(client, review())
                assert status == 200
                self.answered.append(sent)
                fresh = client.sock is None
            except ConnectionRefusedError:
                self.refused_at = sent
            except (OSError, http.client.HTTPException) as error:
                if fresh:
                    self.lost.append((sent, repr(error)))
                    self.refused_at = sent
                client.close()
                fresh = True
        client.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_every_request_sent_before_the_listener_closed_is_answered(
    workers: int, start: Callable[..., Running]
) -> None:
    gateway = start(workers=workers)
    callers = [Caller(gateway) for _ in range(6)]
    for caller in callers:
        caller.start()
    time.sleep(0.5)
    told = time.monotonic()
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(GONE_SECONDS) == 0
    assert time.monotonic() - told < GONE_SECONDS
    for caller in callers:
        caller.join(5)
    closed = told + LINGER_SECONDS
    assert [lost for caller in callers for lost in caller.lost if lost[0] < closed - 0.1] == []
    assert all(any(told < sent < closed for sent in caller.answered) for caller in callers)
    assert "Traceback" not in gateway.log()


def test_answers_after_the_signal_end_their_connection(start: Callable[..., Running]) -> None:
    gateway = start()
    gateway.process.send_signal(signal.SIGTERM)
    time.sleep(0.4)
    client = gateway.client()
    client.request("GET", "/livez")
    answer = client.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (200, "close")
    client.close()


def test_a_long_review_is_finished(start: Callable[..., Running]) -> None:
    """Sent before the signal, computed for a second and a half: past the moment when the listener closes."""
    gateway = start()
    answers: list[int] = []
    caller = threading.Thread(target=lambda: answers.append(gateway.post(review("busy-1.5"))[0]))
    caller.start()
    time.sleep(0.3)
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(GONE_SECONDS) == 0
    caller.join(5)
    assert answers == [200]


@pytest.mark.parametrize("what", ["idle", "half-open", "half a body"])
def test_whoever_says_nothing_does_not_delay_the_end(what: str, start: Callable[..., Running]) -> None:
    gateway = start()
    connection = gateway.connect() if what == "half-open" else gateway.tls()
    if what == "half a body":
        connection.sendall(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
    time.sleep(0.1)
    told = time.monotonic()
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(GONE_SECONDS) == 0
    assert time.monotonic() - told < (GONE_SECONDS if what == "half a body" else STOP_SECONDS)
    connection.close()
    assert "Traceback" not in gateway.log()


def test_a_worker_without_its_arbiter_ends(start: Callable[..., Running]) -> None:
    gateway = start()
    worker = worker_of(gateway)
    gateway.process.kill()
    gateway.process.wait(5)
    eventually(lambda: not Path(f"/proc/{worker}/exe").exists())


def test_an_interrupt_ends_it_at_once(start: Callable[..., Running]) -> None:
    gateway = start()
    gateway.process.send_signal(signal.SIGINT)
    gateway.process.wait(3)
    assert "Traceback" not in gateway.log()
    with pytest.raises((OSError, ssl.SSLError)):
        gateway.post(review())


@pytest.mark.parametrize("workers", [1, 2])
def test_a_hangup_replaces_the_workers_and_loses_no_request(
    workers: int, start: Callable[..., Running]
) -> None:
    gateway = start(workers=workers)
    before = workers_of(gateway)
    callers = [Caller(gateway) for _ in range(4)]
    for caller in callers:
        caller.start()
    time.sleep(0.3)
    gateway.process.send_signal(signal.SIGHUP)
    eventually(lambda: len(workers_of(gateway)) == workers and not before & workers_of(gateway), 15)
    replaced = time.monotonic()
    eventually(lambda: all(max(caller.answered) > replaced or caller.lost for caller in callers))
    assert [caller.lost for caller in callers] == [[]] * 4
    assert "Traceback" not in gateway.log()
    gateway.stop()
    for caller in callers:
        caller.join(10)
