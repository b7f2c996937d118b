"""What a worker costs before and beside its reviews, and how long a check of many files takes."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import orjson

from tests.bench.policies import FACTS
from webhook.demonstration.gateway import PROGRAM, SHIPPED, running_gateway
from webhook.demonstration.workloads import read_workloads

if TYPE_CHECKING:
    from webhook.demonstration.gateway import Gateway

TURNS = 5
PODS = 1000
_RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)


class FootprintRow(NamedTuple):
    """One figure."""

    what: str
    value: float
    unit: str


def measure() -> list[FootprintRow]:
    """With the shipped policies; medians of several turns."""
    starts = [_start() for _ in range(TURNS)]
    with tempfile.TemporaryDirectory(prefix="podgate-bench-") as folder:
        _write_pods(Path(folder))
        checks = [_check(Path(folder)) for _ in range(TURNS)]
    return [
        FootprintRow("start to ready", median(seconds for seconds, _ in starts), "s"),
        FootprintRow("memory of a worker, ready", median(size for _, size in starts), "MiB"),
        FootprintRow(f"check of {PODS} pods", median(checks), "s"),
    ]


def _start() -> tuple[float, float]:
    """Seconds from the start of the process until it is ready, and MiB of its worker."""
    with tempfile.TemporaryDirectory(prefix="podgate-bench-") as folder:
        started = time.perf_counter()
        with running_gateway(Path(folder), [SHIPPED], [FACTS], "en") as gateway:
            _wait_until_ready(gateway)
            seconds = time.perf_counter() - started
            return seconds, worker_mebibytes(gateway)


def _wait_until_ready(gateway: Gateway) -> None:
    connection = gateway.connect()
    code = 0
    while code != 200:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        answer.read()
        code = answer.status
    connection.close()


def worker_mebibytes(gateway: Gateway) -> float:
    """Resident memory of the one worker, what it shares with its parent included."""
    parent = gateway.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split()
    (worker,) = children
    found = _RESIDENT.search(Path(f"/proc/{worker}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found.group(1)) / 1024


def _write_pods(folder: Path) -> None:
    """The pods of the demonstration by turns, a file each."""
    pods = [each.object for each in read_workloads() if each.object["kind"] == "Pod"]
    for number in range(PODS):
        (folder / f"pod-{number:04d}.json").write_bytes(orjson.dumps(pods[number % len(pods)]))


def _check(folder: Path) -> float:
    command = [sys.executable, "-c", PROGRAM, "check", str(folder)]
    options = ["--policies", str(SHIPPED), "--facts", str(FACTS), "-o", "json"]
    started = time.perf_counter()
    done = subprocess.run([*command, *options], stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"podgate check ended with exit code {done.returncode}")
    return time.perf_counter() - started
