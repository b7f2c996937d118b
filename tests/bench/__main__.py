"""How long a review takes: `python -m tests.bench`; see docs/performance.md."""

# ruff: noqa: T201 - a command prints

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import engine_time, footprint, server_load
from tests.bench.bodies import accelerator_pods, plain_pod
from tests.bench.policies import write_sets

if TYPE_CHECKING:
    from tests.bench.engine_time import EngineRow
    from tests.bench.footprint import FootprintRow
    from tests.bench.server_load import ServerRow


def main() -> None:
    """Measure, and print tables."""
    options = _options()
    print(_machine())
    with tempfile.TemporaryDirectory(prefix="podgate-bench-") as folder:
        sets = write_sets(Path(folder))
        pods = accelerator_pods()
        if options.profile:
            engine_time.profile(pods, sets[max(sets, key=int)], options.calls)
            return
        engine = engine_time.measure("accelerator", pods, sets, options.calls)
        engine += engine_time.measure("plain", plain_pod(), sets, options.calls)
        _print_engine(engine)
        served, taken = [], []
        if not options.engine_only:
            served = server_load.measure(pods, sets, (1, 16), options.rounds, options.seconds)
            _print_served(served)
            taken = footprint.measure()
            _print_footprint(taken)
    if options.json:
        tables = {
            name: [row._asdict() for row in rows]
            for name, rows in (("engine", engine), ("server", served), ("footprint", taken))
        }
        options.json.write_text(
            json.dumps({"machine": _machine(), **tables}, indent=2) + "\n", encoding="utf-8"
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--calls", type=int, default=3000, help="engine calls of each set and endpoint")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each server")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a turn is")
    parser.add_argument("--engine-only", action="store_true", help="leave the servers out")
    parser.add_argument("--profile", action="store_true", help="print where the engine's time goes instead")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    return parser.parse_args()


def _machine() -> str:
    load = os.getloadavg()[0]
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} cores, load {load:.1f} at the start"
    )


def _print_engine(rows: list[EngineRow]) -> None:
    print(f"\n{'pod':<12} {'policies':>8} {'call':<15} {'calls':>6} {'median ms':>10} {'p99 ms':>8}")
    for row in rows:
        print(
            f"{row.pods:<12} {row.policies:>8} {row.endpoint:<15} {row.calls:>6} {row.median:>10.3f} {row.p99:>8.3f}"
        )


def _print_served(rows: list[ServerRow]) -> None:
    print(
        f"\n{'connections':>11} {'policies':>8} {'calls/s':>8} {'× Flask':>8} {'× bare':>8} {'median ms':>10} {'p99 ms':>8}"
    )
    for row in rows:
        print(
            f"{row.connections:>11} {row.name:>8} {row.calls_per_second:>8.0f} {row.of_flask:>8.2f} "
            f"{row.of_bare:>8.2f} "
            f"{row.median:>10.2f} {row.p99:>8.2f}"
        )


def _print_footprint(rows: list[FootprintRow]) -> None:
    print()
    for row in rows:
        print(f"{row.what:<28} {row.value:>8.2f} {row.unit}")


if __name__ == "__main__":
    main()
