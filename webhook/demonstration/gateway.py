"""A gateway as its own process on loopback, with certificates of its own, and a caller as the API server is one."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from base64 import b64encode
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

import certs
import webhook
from certs.files import CA_CERTIFICATE, CERTIFICATE, KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HOST = "127.0.0.1"
START_SECONDS = 20.0
STOP_SECONDS = 15.0
POLL_SECONDS = 0.02
CALL_SECONDS = 5.0
LOG_LINES = 8
"""Of a server that died: the reason is among its last."""

SHIPPED = Path(webhook.__file__).parent.parent / "policies"
PROGRAM = "from webhook.cli.main import main; main()"
"""Instead of the script beside the interpreter, which a plain checkout does not have."""


class GatewayError(Exception):
    """The gateway did not start, did not answer or did not stop well; the text says why."""


class Reply(NamedTuple):
    """What came back, and after how many seconds."""

    response: Mapping[str, Any]
    seconds: float


@dataclass(slots=True)
class Gateway:
    """A gateway that runs.

    Attributes:
        folder: its certificates and its log; the CA's certificate is `ca`.
    """

    process: subprocess.Popen[bytes]
    port: int
    folder: Path

    @property
    def ca(self) -> Path:
        """The certificate by which callers know it."""
        return self.folder / CA_CERTIFICATE

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://{HOST}:{self.port}"

    @property
    def ca_bundle(self) -> str:
        """The CA as a webhook configuration holds it."""
        return b64encode(self.ca.read_bytes()).decode()

    def connect(self) -> http.client.HTTPSConnection:
        """An open connection that stays open, verified against the CA.

        Raises:
            OSError: nobody listens there, or it is somebody else.
        """
        context = ssl.create_default_context(cafile=str(self.ca))
        connection = http.client.HTTPSConnection(HOST, self.port, timeout=CALL_SECONDS, context=context)
        try:
            connection.connect()
        except OSError:
            connection.close()
            raise
        return connection

    def complaint(self, what: str) -> GatewayError:
        """An error with the last lines of the log."""
        with (self.folder / "log").open(encoding="utf-8", errors="replace") as log:
            lines = deque(log, LOG_LINES)
        return GatewayError("\n  ".join([f"{what}; its last words:", *map(str.rstrip, lines)]))


@contextmanager
def running_gateway(
    folder: Path,
    policies: Sequence[Path],
    facts: Sequence[Path],
    languages: str,
    port: int = 0,
    program: str = PROGRAM,
) -> Iterator[Gateway]:
    """A gateway that listens; it is stopped at the end, however the end comes.

    Args:
        folder: for certificates and the log.
        policies: folders of policies.
        facts: folders of facts.
        languages: as `podgate serve --languages` takes them.
        port: on loopback; a free one where 0.
        program: Python that is run instead of `podgate`, with its arguments.

    Raises:
        GatewayError: it did not start, or did not stop as it should.
    """
    _make_certificates(folder)
    gateway = _start(folder, policies, facts, languages, _port(port), program)
    try:
        _wait_until_live(gateway)
        yield gateway
    except BaseException:
        _end(gateway.process)
        raise
    code = _end(gateway.process)
    if code != 0:
        raise gateway.complaint(f"the gateway ended with exit code {code} instead of 0")


def post(connection: http.client.HTTPSConnection, path: str, review: Mapping[str, Any]) -> Reply:
    """One call, as the API server makes it.

    Raises:
        GatewayError: the answer is no AdmissionReview with the uid of the call.
        OSError, http.client.HTTPException: there is no answer.
    """
    body = orjson.dumps(review)
    headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
    started = time.perf_counter()
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    data = answer.read()
    seconds = time.perf_counter() - started
    if answer.status != http.client.OK:
        raise GatewayError(f"{path} answered {answer.status}: {data.decode(errors='replace')[:200]}")
    response: Mapping[str, Any] = orjson.loads(data)["response"]
    if response["uid"] != review["request"]["uid"]:
        raise GatewayError(f"{path} answered another call")
    return Reply(response, seconds)


def _make_certificates(folder: Path) -> None:
    now = datetime.now(UTC)
    ca = certs.new_ca(now=now)
    certs.write_pairs(folder, ca=ca, serving=certs.serving_pair(ca, names=[HOST, "localhost"], now=now))


def _port(wanted: int) -> int:
    """The port, or a free one for 0; asked here because a gateway says it only after everything is loaded."""
    try:
        with socket.create_server((HOST, wanted)) as probe:
            port: int = probe.getsockname()[1]
    except OSError as error:
        raise GatewayError(
            f"{HOST}:{wanted}: {os.strerror(error.errno or 0)}: choose another port, or leave it to us"
        ) from error
    return port


def _start(
    folder: Path, policies: Sequence[Path], facts: Sequence[Path], languages: str, port: int, program: str
) -> Gateway:
    options = [("--bind", f"{HOST}:{port}"), ("--languages", languages)]
    options += [("--cert", str(folder / CERTIFICATE)), ("--key", str(folder / KEY))]
    options += [("--policies", str(path.absolute())) for path in policies]
    options += [("--facts", str(path.absolute())) for path in facts]
    arguments = [word for option in options for word in option]
    environment = {**os.environ, "PYTHONPATH": str(SHIPPED.parent)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-P", "-c", program, "serve", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            # Ctrl-C at a terminal reaches the whole group: the gateway is to end by our signal, once.
            process_group=0,
        )
    return Gateway(process, port, folder)


def _wait_until_live(gateway: Gateway) -> None:
    end = time.monotonic() + START_SECONDS
    while not _is_live(gateway):
        if gateway.process.poll() is not None:
            raise gateway.complaint(f"the gateway did not start (exit code {gateway.process.returncode})")
        if time.monotonic() > end:
            raise gateway.complaint(f"the gateway did not answer within {START_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _is_live(gateway: Gateway) -> bool:
    try:
        connection = gateway.connect()
    except OSError:
        return False
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _end(process: subprocess.Popen[bytes]) -> int:
    """Ask it to stop; what does not stop in time, or what nobody waits for any more, is killed with its workers."""
    process.terminate()
    try:
        return process.wait(STOP_SECONDS)
    except BaseException as stopped:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(stopped, subprocess.TimeoutExpired):
            raise GatewayError(f"the gateway did not stop within {STOP_SECONDS:.0f} s") from None
        raise
