"""`podgate bench`: a short run of the real thing, kept and compared."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.engine.gates import training_pod
from tests.server.running import ROOT
from webhook.admission import Endpoint
from webhook.cli.bench import always_allow

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = [sys.executable, "-c", "from webhook.cli.main import main; main()", "bench"]
NAMES = [
    f"{name}{floor}" for name in ("mutate", "validate/fail", "validate/ignore") for floor in (" (floor)", "")
]


def bench(*options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, "--seconds", "1", *map(str, options)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pods")
    (folder / "pod.json").write_bytes(orjson.dumps(training_pod()))
    return folder


@pytest.fixture(scope="module")
def saved(pods: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("saved") / "before.json"
    done = bench(pods, "--save", file)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("20 policies, hash ")
    assert lines[1].endswith("; 1 objects")
    assert [line[:23].strip() for line in lines[4:]] == NAMES
    return file


def figures(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(file.read_bytes())
    return found


def test_the_floor_is_the_floor(saved: Path) -> None:
    rows = figures(saved)["rows"]
    assert [row["name"] for row in rows] == NAMES
    assert [row["share"] for row in rows[::2]] == [1, 1, 1]
    assert all(0 < row["share"] < 1 for row in rows[1::2]), "policies cost something"


@pytest.mark.parametrize(
    ("factor", "code"), [(1000, 1), (0.001, 0)], ids=["was much better", "was much worse"]
)
def test_a_share_that_fell_is_exit_code_1(
    factor: float, code: int, saved: Path, pods: Path, tmp_path: Path
) -> None:
    before = figures(saved)
    for row in before["rows"][1::2]:
        row["share"] *= factor
    (tmp_path / "before.json").write_bytes(orjson.dumps(before))
    done = bench(pods, "--compare", tmp_path / "before.json")
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.count("  worse") == 3 * code


def test_other_reviews_are_not_compared(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "pod.json").write_bytes(orjson.dumps(training_pod(gpus=1)))
    done = bench(tmp_path, "--compare", saved, "--policies", "policies/gpu-limits.yaml")
    assert done.returncode == 2
    assert (
        done.stderr
        == f"Error: {saved}: it was measured with other reviews; give the same manifests, or save it again\n"
    )


def test_the_floor_allows_everything() -> None:
    answer = always_allow(b'{"request": {"uid": "u-1"}}', Endpoint.MUTATE)
    assert orjson.loads(answer.body)["response"] == {"uid": "u-1", "allowed": True}
