"""Reviews that nobody honest sends against the whole WSGI application: no 500, no hang, no growth, no answer against the rules.

Usage: python -m tests.hostile.fuzz [--seconds 60] [--seed N] [--processes 2] [--findings DIR]
       python -m tests.hostile.fuzz --replay FILE
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
import traceback
from base64 import b64decode, b64encode
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonpatch
import orjson

from tests.admission.wire import check_answer, patch_of
from tests.hostile.apart import Apart, Here, silence
from tests.hostile.fuzz_seeds import SETS, mutated, seeds
from webhook.server.reviews import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.apart import Application

MOST_SECONDS = 1.0
"""Of processor time for one call; who is slower is asked twice more, for other processes share the caches."""
MOST_GROWTH = 50 * 1024
"""KiB of the application's process, from when everything was used once to the end."""
WARM = 3_000
"""Reviews until everything was used once: bounded caches of texts are full then."""
SAMPLE = 1_000
FRESH = 20_000
"""Reviews after which new seeds are generated."""
PATHS = ("/mutate", "/mutate", "/validate", "/validate/fail", "/validate/ignore")
CODES = (200, 400, 413)
MOST_FINDINGS = 10


@dataclass
class Summary:
    """What one process saw."""

    sent: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    growth: int = 0
    findings: list[str] = field(default_factory=list)

    def __add__(self, other: Summary) -> Summary:
        """Both together."""
        return Summary(
            self.sent + other.sent,
            self.counts + other.counts,
            max(self.slowest, other.slowest),
            max(self.growth, other.growth),
            self.findings + other.findings,
        )


class Fuzzer:
    """What is asked of every answer.

    Args:
        summary: where is counted.
        application: who answers.
    """

    def __init__(self, summary: Summary, application: Application) -> None:
        self.summary = summary
        self._application = application

    def fault(self, policies: str, path: str, body: bytes) -> str:
        """What is wrong with the answer to a body, "" if nothing."""
        try:
            self._check(policies, path, body)
        except AssertionError as error:
            return f"{error}\n{traceback.format_exc(limit=-3)}"
        except Exception:  # noqa: BLE001  # whatever it is, it is what we look for
            return traceback.format_exc(limit=-8)
        return ""

    def _check(self, policies: str, path: str, body: bytes) -> None:
        code, answer = self._timed(policies, path, body)
        self.summary.counts[f"{path} {code}"] += 1
        assert code in CODES, f"code {code}"
        assert (code == 413) is (len(body) > MAX_BODY), f"code {code} for {len(body)} bytes"
        if code != 200:
            assert orjson.loads(answer)["code"] == code
            return
        asked, given = orjson.loads(body), orjson.loads(answer)
        check_answer(given, asked, mutating=path == "/mutate")
        self._count(asked, given["response"])
        if path == "/mutate":
            self._check_twice(policies, asked, given["response"])
        elif path == "/validate":
            self._check_parts(policies, body, given["response"])

    def _timed(self, policies: str, path: str, body: bytes) -> tuple[int, bytes]:
        for _ in range(3):
            code, answer, took = self._application.post(policies, path, body)
            if took <= MOST_SECONDS:
                break
        self.summary.slowest = max(self.summary.slowest, took)
        assert took <= MOST_SECONDS, f"took {took:.1f} s"
        return code, answer

    def _count(self, asked: Any, response: Any) -> None:
        counts, request = self.summary.counts, asked["request"]
        counts[f"operation {request['operation']}"] += 1
        counts["allowed" if response["allowed"] else "denied"] += 1
        counts["patched"] += "patch" in response
        counts["with warnings"] += "warnings" in response
        kind = request["kind"]["kind"]
        counts[
            f"kind {kind if isinstance(kind, str) and kind.isalpha() and len(kind) < 30 else 'other'}"
        ] += 1

    def _check_twice(self, policies: str, asked: Any, response: Any) -> None:
        """The patch applies, and a second call for what comes of it changes nothing, if it is not too large by now."""
        if "patch" not in response:
            return
        asked["request"]["object"] = jsonpatch.apply_patch(asked["request"]["object"], patch_of(response))
        body = orjson.dumps(asked)
        answer = self._application.post(policies, "/mutate", body)
        code = 413 if len(body) > MAX_BODY else 200
        assert answer.code == code, f"code {answer.code} at the second call, of {len(body)} bytes"
        if code == 413:
            self.summary.counts["too large when patched"] += 1
            return
        repeated = orjson.loads(answer.body)["response"]
        again = patch_of(repeated)
        # Where what a client forged as podgate's record broke an expression, that is mended by the first patch.
        assert not again or failed(repeated) < failed(response), f"the second call changes {again[:3]}"

    def _check_parts(self, policies: str, body: bytes, response: Any) -> None:
        """`/validate` allows what both of its parts allow."""
        parts = [
            orjson.loads(self._application.post(policies, path, body).body)
            for path in ("/validate/fail", "/validate/ignore")
        ]
        assert response["allowed"] is all(part["response"]["allowed"] for part in parts), "the parts disagree"


def failed(response: Any) -> set[str]:
    """The rules that could not be evaluated."""
    told = ", ".join((response.get("auditAnnotations") or {}).values())
    return {each for each in told.split(", ") if each.endswith(" error")}


def reviews(seed: int) -> Iterator[tuple[str, str, bytes]]:
    """Set of policies, path and body without end."""
    dice = random.Random(seed)
    for round_ in range(sys.maxsize):
        bodies = seeds(seed + 2 * round_)
        for _ in range(FRESH):
            yield dice.choice(SETS), dice.choice(PATHS), mutated(dice.choice(bodies), dice)


def run(seconds: float, seed: int, findings: Path) -> Summary:
    """Send reviews until the time is over; a finding is written into a file of its own, and the next review is sent."""
    summary, first = Summary(), 0
    application = Apart()
    fuzzer = Fuzzer(summary, application)
    endless = reviews(seed)
    first_review = next(endless)  # the first seeds take some seconds
    end = time.monotonic() + seconds
    for policies, path, body in chain([first_review], endless):
        if time.monotonic() > end or len(summary.findings) >= MOST_FINDINGS:
            break
        fault = fuzzer.fault(policies, path, body)
        if fault:
            summary.findings.append(write_finding(findings, policies, path, body, fault))
        summary.sent += 1
        summary.counts[f"policies {policies}"] += 1
        if summary.sent == WARM:
            first = application.resident()
        elif first and summary.sent % SAMPLE == 0:
            summary.growth = max(summary.growth, application.resident() - first)
    application.close()
    if summary.growth > MOST_GROWTH:
        summary.findings.append(f"seed {seed}: grew by {summary.growth} KiB")
    return summary


def write_finding(folder: Path, policies: str, path: str, body: bytes, fault: str) -> str:
    """Write what `--replay` needs, and say where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"finding-{time.time_ns()}.json"
    text = {"policies": policies, "path": path, "fault": fault, "body": b64encode(body).decode()}
    file.write_bytes(orjson.dumps(text, option=orjson.OPT_INDENT_2))
    return f"{file}: {policies} {path}: {fault}"


def replay(file: Path) -> str:
    """The fault that a finding still shows, "" if none."""
    found = orjson.loads(file.read_bytes())
    return Fuzzer(Summary(), Here()).fault(found["policies"], found["path"], b64decode(found["body"]))


def shown(summary: Summary, seconds: float) -> str:
    """The closing summary."""
    lines = [f"{summary.sent} reviews in {seconds:.0f} s, {summary.sent / max(seconds, 0.001):.0f} a second"]
    lines += [f"  {name}: {count}" for name, count in sorted(summary.counts.items())]
    lines += [
        f"  slowest call: {1000 * summary.slowest:.0f} ms",
        f"  growth of a process: {summary.growth} KiB",
    ]
    return "\n".join([*lines, *summary.findings, f"{len(summary.findings) or 'no'} findings"])


def _worker(seconds: float, seed: int, findings: Path, results: Any) -> None:
    results.put(run(seconds, seed, findings))


def fuzz(seconds: float, seed: int, processes: int, findings: Path) -> Summary:
    """All processes together, each with a seed of its own."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [
        context.Process(target=_worker, args=(seconds, seed + 1_000_003 * number, findings, results))
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    found = Summary()
    for worker in workers:
        try:
            found += results.get(timeout=seconds + 120)
        except Exception:  # noqa: BLE001  # queue.Empty: it hangs, or it is gone
            found.findings.append(f"a process hangs or died (exit code {worker.exitcode})")
            worker.kill()
    return found


def main() -> int:
    """Run for a while and say what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), metavar="DIR")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="send one finding again")
    options = parser.parse_args()
    if options.replay:
        silence()
        fault = replay(options.replay)
        sys.stdout.write(f"{fault or 'no fault any more'}\n")
        return int(bool(fault))
    sys.stdout.write(f"seed {options.seed}\n")
    started = time.monotonic()
    found = fuzz(options.seconds, options.seed, options.processes, options.findings)
    sys.stdout.write(f"{shown(found, time.monotonic() - started)}\n")
    return int(bool(found.findings))


if __name__ == "__main__":
    sys.exit(main())
