"""Mutated real reviews against the whole WSGI application: no 500, no hang, no growth.

Usage: python -m tests.hostile.fuzz [--seconds 60] [--seed N]
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import structlog

from tests.bench.bodies import accelerator_pods, plain_pod
from tests.hostile.app import make_client
from tests.hostile.objects import OBJECTS, review

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flask.testing import FlaskClient

MOST_SECONDS = 1.0
MOST_GROWTH = 50 * 1024
"""KiB, from the first thousandth review to the last one."""
PATHS = ("/mutate", "/validate", "/validate/fail", "/validate/ignore")
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 1e300, 0.1, "", "x", "8", "1e9", "-1", "9" * 400, "a" * 5_000),
    *("\u202e\x00", "true", "nvidia.com/gpu", "../..", "*", [], {}, [None], [[]], {"": None}, {"a": {"b": [1]}}),
    *({"nvidia.com/gpu": "8"}, [{"name": "x"}] * 50, {f"k{n}": "v" for n in range(50)}),
]  # fmt: skip


def seeds() -> list[bytes]:
    """Reviews as API servers send them, and the small ones among the hostile objects."""
    real = [body for each in (*accelerator_pods(), *plain_pod()) for body in (each.mutate, each.validate)]
    made = [orjson.dumps(review(make())) for name, make in OBJECTS.items() if "00 " not in name]
    return [*real, *(body for body in made if len(body) < 100_000)]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every map and list with each key or index of it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def mutated(body: bytes, dice: random.Random) -> bytes:
    """The review with up to eight values, keys, list items or bytes changed."""
    asked = orjson.loads(body)
    asked["request"]["operation"] = dice.choice(["CREATE", "CREATE", "UPDATE", "DELETE", "CONNECT"])
    if asked["request"]["operation"] == "UPDATE":
        asked["request"]["oldObject"] = orjson.loads(body)["request"]["object"]
    for _ in range(dice.randint(0, 8)):
        change(asked, dice)
    body = orjson.dumps(asked)
    return damaged(body, dice) if dice.random() < 0.1 else body


def change(asked: Any, dice: random.Random) -> None:
    """One change somewhere, mostly in the object."""
    within = asked["request"].get("object") if isinstance(asked.get("request"), dict) else None
    found = list(places(within if isinstance(within, dict) and dice.random() < 0.9 else asked))
    if not found:
        return
    holder, key = dice.choice(found)
    match dice.randrange(5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[str(dice.choice(VALUES))[:300]] = holder[key]
        case 2 if isinstance(holder, list):
            holder.extend(orjson.loads(orjson.dumps([holder[key]] * dice.randint(1, 200))))
        case 3:
            other, place = dice.choice(found)
            holder[key] = orjson.loads(orjson.dumps(other[place]))
        case _:
            holder[key] = orjson.loads(orjson.dumps(dice.choice(VALUES)))


def damaged(body: bytes, dice: random.Random) -> bytes:
    start, end = sorted(dice.choices(range(len(body) + 1), k=2))
    return dice.choice(
        [body[:start], body[:start] + body[end:], body[:start] + dice.randbytes(8) + body[start:]]
    )


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])


def fault_of(client: FlaskClient, body: bytes, path: str) -> str:
    """What is wrong with the answer to a body, "" if nothing."""
    started = time.process_time()
    try:
        code = client.post(path, data=body, content_type="application/json").status_code
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what we look for
        return f"raised {error!r}"
    took = time.process_time() - started
    if took > MOST_SECONDS:
        return f"took {took:.1f} s"
    return "" if code in (200, 400, 413) else f"code {code}"


def fuzz(seconds: float, seed: int) -> tuple[int, str]:
    """How many reviews were sent, and the first fault, "" if there was none."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    dice, client, bodies, first, sent = random.Random(seed), make_client(), seeds(), 0, 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        body, path = mutated(dice.choice(bodies), dice), dice.choice(PATHS)
        fault = fault_of(client, body, path)
        if fault:
            Path("fuzz-fault.json").write_bytes(body)
            return sent, f"{path}: {fault}; the body is in fuzz-fault.json"
        sent += 1
        first = resident() if sent == 1_000 else first
    growth = resident() - first if first else 0
    return sent, f"grew by {growth} KiB" if growth > MOST_GROWTH else ""


def main() -> int:
    """Run for a while and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    sent, fault = fuzz(options.seconds, options.seed)
    sys.stdout.write(f"{sent} reviews, seed {options.seed}: {fault or 'no fault'}\n")
    return int(bool(fault))


if __name__ == "__main__":
    sys.exit(main())
