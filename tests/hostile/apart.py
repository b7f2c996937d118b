"""The application in this process, or in one of its own, whose memory is then its own and not that of who asks it."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import structlog

from tests.deploy.dockerfile import DOCKERFILE, stages
from tests.hostile.app import make_client
from tests.hostile.fuzz_seeds import policy_sets

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

LONGEST = 60.0
"""Seconds until a process that does not answer is given up."""


class Answer(NamedTuple):
    """One answer.

    Attributes:
        seconds: of processor time.
    """

    code: int
    body: bytes
    seconds: float


class Application(Protocol):
    """Who answers a body that is sent to a path, under a set of policies."""

    def post(self, policies: str, path: str, body: bytes) -> Answer:
        """Send one body."""


class Here:
    """The applications in this process, one for each set of policies."""

    def __init__(self) -> None:
        self._clients = {name: make_client(policies=found) for name, found in policy_sets().items()}

    def post(self, policies: str, path: str, body: bytes) -> Answer:
        """Send one body."""
        started = time.thread_time()
        answer = self._clients[policies].post(path, data=body, content_type="application/json")
        return Answer(answer.status_code, answer.data, time.thread_time() - started)


class Apart:
    """The same in another process, which has the image's environment; one that does not answer is replaced by a new one."""

    def __init__(self) -> None:
        self._start()

    def post(self, policies: str, path: str, body: bytes) -> Answer:
        """Send one body.

        Raises:
            ChildProcessError: that process is gone.
            TimeoutError: no answer came within a minute.
        """
        return Answer(*self._ask((policies, path, body)))

    def resident(self) -> int:
        """Memory of that process now, in KiB, after its garbage was collected."""
        return int(self._ask(None))

    def close(self) -> None:
        """End that process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _start(self) -> None:
        self._pipe, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        os.environ.update(image_environment())
        self._process = context.Process(target=_serve, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def _ask(self, what: Any) -> Any:
        try:
            return self._answer(what)
        except TimeoutError:
            self._replace()
            raise
        except (OSError, EOFError):
            self._replace()
            raise ChildProcessError("the application's process is gone") from None

    def _answer(self, what: Any) -> Any:
        self._pipe.send(what)
        if not self._pipe.poll(LONGEST):
            raise TimeoutError(f"no answer within {LONGEST:.0f} s")
        return self._pipe.recv()

    def _replace(self) -> None:
        self.close()
        self._start()


def image_environment() -> dict[str, str]:
    """How the image has the C library keep memory."""
    last = stages(DOCKERFILE.read_text())[-1]
    pairs = {name: value for each in last.all("ENV") for name, value in each.pairs.items()}
    return {name: value for name, value in pairs.items() if name.startswith("MALLOC_")}


def _serve(pipe: Connection) -> None:
    silence()
    here = Here()
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        pipe.send(tuple(here.post(*asked)) if asked else _resident())


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])


def silence() -> None:
    """No log lines from this process, which is the fuzzer's own."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
