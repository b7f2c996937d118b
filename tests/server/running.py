"""A gateway in its own process, over real TLS on loopback; every wait is bounded."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

import certs

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
START_SECONDS = 15


def review(name: str = "", **request: Any) -> bytes:
    """An AdmissionReview as the stand-in core reads it."""
    return orjson.dumps({"request": {"uid": "u-1", "name": name, **request}})


@dataclass
class Running:
    """A gateway that listens."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "ca.crt"))

    def connect(self, timeout: float = 5) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def tls(self, timeout: float = 5) -> ssl.SSLSocket:
        return self.wrapped(self.connect(timeout))

    def wrapped(self, connection: socket.socket) -> ssl.SSLSocket:
        try:
            return self.context().wrap_socket(connection, server_hostname="127.0.0.1")
        except OSError:
            connection.close()
            raise

    def client(self, timeout: float = 5) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.context())

    def get(self, path: str) -> tuple[int, bytes]:
        client = self.client()
        try:
            client.request("GET", path)
            answer = client.getresponse()
            return answer.status, answer.read()
        finally:
            client.close()

    def post(self, body: bytes, path: str = "/mutate") -> tuple[int, Any]:
        client = self.client()
        try:
            return post(client, body, path)
        finally:
            client.close()

    def metric(self, line: str) -> float:
        """The value of a series, 0 if it is not there."""
        for text in self.get("/metrics")[1].decode().splitlines():
            if text.startswith(f"{line} "):
                return float(text.rpartition(" ")[2])
        return 0

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def stop(self) -> None:
        """At once; the workers find out that they are orphans."""
        self.process.kill()
        self.process.wait(5)


def post(client: http.client.HTTPSConnection, body: bytes, path: str = "/mutate") -> tuple[int, Any]:
    """One review on an open connection."""
    client.request("POST", path, body, {"Content-Type": "application/json"})
    answer = client.getresponse()
    return answer.status, orjson.loads(answer.read())


def worker_of(gateway: Running) -> int:
    """The process that serves, below the arbiter."""
    return min(workers_of(gateway))


def workers_of(gateway: Running) -> set[int]:
    """All of them, where there are several."""
    pid = gateway.process.pid
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def eventually(question: Callable[[], object], seconds: float = 5) -> None:
    """Wait until ``question`` is answered with something true."""
    end = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def write_pair(folder: Path, ca: certs.Pair) -> None:
    pair = certs.serving_pair(ca, names=["127.0.0.1", "localhost"], now=datetime.now(UTC))
    certs.write_pairs(folder, ca=ca, serving=pair)


def launch(arguments: list[str], folder: Path) -> Running:
    """Start a process and wait until it answers."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            arguments,
            stderr=log,
            stdout=log,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])},
        )
    port_file = folder / "port"
    eventually(lambda: port_file.exists() or process.poll() is not None, START_SECONDS)
    assert process.poll() is None, (folder / "log").read_text()
    running = Running(process, int(port_file.read_text()), folder)
    eventually(lambda: answers(running), START_SECONDS)
    return running


def answers(running: Running) -> bool:
    try:
        return running.get("/livez")[0] == 200
    except OSError:
        return False
