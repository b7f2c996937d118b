"""Every hostile object against the whole application, each in a fresh process: how long it takes, and how much memory.

Usage: python -m tests.hostile.measured [NAME...], which prints a line for each object and path.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson
import structlog

from tests.engine.gates import training_pod
from tests.hostile.app import make_client
from tests.hostile.objects import OBJECTS, review
from tests.property.sets import policy_set

if TYPE_CHECKING:
    from flask.testing import FlaskClient

PATHS = ("/mutate", "/validate")
SETS = ("shipped", "rich")


class Measured(NamedTuple):
    """One call.

    Attributes:
        seconds: of processor time.
        kib: that the process grew by at its largest.
    """

    name: str
    policies: str
    path: str
    code: int
    seconds: float
    kib: int


def forget_peak() -> int:
    """Memory now, in KiB, from which `peak` counts anew (man 5 proc, clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """The most memory that was resident, in KiB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def call(client: FlaskClient, name: str, policies: str, path: str) -> Measured:
    """One object to one path; its making is not measured."""
    body = orjson.dumps(review(OBJECTS[name]()))
    gc.collect()
    before, started = forget_peak(), time.process_time()
    code = client.post(path, data=body, content_type="application/json").status_code
    return Measured(name, policies, path, code, time.process_time() - started, peak() - before)


def main(names: list[str]) -> None:
    """Call, each time in a child that has served one honest review."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    for policies in SETS:
        client = make_client(policies=policy_set(policies))
        honest = orjson.dumps(review(training_pod()))
        for path in PATHS:
            client.post(path, data=honest, content_type="application/json")
        for name in names or OBJECTS:
            for path in PATHS:
                _in_child(client, name, policies, path)


def _in_child(client: FlaskClient, name: str, policies: str, path: str) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            sys.stdout.write(f"{orjson.dumps(list(call(client, name, policies, path))).decode()}\n")
            sys.stdout.flush()
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit(f"{name}: {path} was not measured")


if __name__ == "__main__":
    main(sys.argv[1:])
