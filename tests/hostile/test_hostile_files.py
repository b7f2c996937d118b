"""Hostile files: `check` and `lint` say what is wrong, soon and without a traceback."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml
from click.testing import CliRunner

from tests.engine.gates import POLICIES, Json, policy, training_pod
from tests.hostile.objects import OBJECTS
from webhook.cli.main import podgate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECONDS = 6
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 90))
NAMES = ["wrong types everywhere", "control characters", "right-to-left marks", "forged annotations",
         "an exponent of nine digits", "names of 100 KB"]  # fmt: skip


def _policy(*rules: Json, **spec: Any) -> Callable[[], str]:
    return policy("x", *rules, **spec)[1].decode


def _expression(text: str) -> Json:
    return {"expression": {"resources": ["pods"], "validations": [{"expression": text}]}}


CAP: Json = {"limitAcceleratorCount": {"perPod": {"max": 1}}}
MANIFESTS: dict[str, Callable[[], str]] = {
    **{name: lambda name=name: orjson.dumps(OBJECTS[name]()).decode() for name in NAMES},  # type: ignore[misc]
    "an alias bomb": lambda: f"apiVersion: v1\nkind: Pod\nspec:\n{BOMB}",
    "lists 10,000 deep": lambda: f"apiVersion: v1\nkind: Pod\nspec: {'[' * 10_000}",
    "a list of 2,000 odd items": lambda: yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [None, 1, "x", []] * 500}),
    "lists within lists": lambda: "{apiVersion: v1, kind: List, items: [" * 300 + "]}" * 300,
    "bytes that are no text": lambda: "\x00\x01\x1b[2J",
}  # fmt: skip
POLICY_FILES: dict[str, Callable[[], str]] = {
    "an alias bomb": lambda: f"apiVersion: podgate.dev/v1alpha1\nkind: PodPolicy\nspec:\n{BOMB}",
    "2,000 rules of no type": _policy(*({} for _ in range(2_000))),
    "an expression of 4,000 brackets": _policy(_expression("(" * 4_000)),
    "an expression of 100,000 brackets": _policy(_expression("(" * 100_000)),
    "an expression with a bad pattern": _policy(_expression("'x'.matches('((((a{1000}){1000}){1000})')")),
    "a selector of nothing": _policy(CAP, match={"objectSelector": {"matchExpressions": [{"key": "a" * 5_000}] * 500}}),
    "a huge number": _policy({"limitAcceleratorCount": {"perPod": {"max": 10**4_000}}}),
}  # fmt: skip


def bounded(*arguments: str) -> str:
    """What a command says, in time and without a traceback."""
    started = time.process_time()
    result = CliRunner().invoke(podgate, list(arguments))
    assert time.process_time() - started < SECONDS
    assert isinstance(result.exception, SystemExit | None)
    assert result.exit_code in (0, 1, 2)
    assert "Traceback" not in result.output
    return result.output


@pytest.mark.parametrize("make", MANIFESTS.values(), ids=MANIFESTS)
def test_a_manifest_is_checked_or_refused(make: Callable[[], str], tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(make())
    said = bounded("check", str(tmp_path / "a.yaml"), "--policies", str(POLICIES))
    assert all(character.isprintable() for line in said.splitlines() for character in line)


@pytest.mark.parametrize("command", ["lint", "check"])
@pytest.mark.parametrize("make", POLICY_FILES.values(), ids=POLICY_FILES)
def test_a_policy_is_refused(make: Callable[[], str], command: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(make())
    pods = str(tmp_path / "pod.yaml")
    (tmp_path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: []}}"
    )
    arguments = (
        ["lint", str(tmp_path)]
        if command == "lint"
        else ["check", pods, "--policies", str(tmp_path / "a.yaml")]
    )
    said = bounded(*arguments)
    assert "a.yaml:" in said
    assert max(map(len, said.splitlines())) < 2_000


def test_a_pattern_of_many_stars_is_answered_soon(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(_policy(CAP, match={"namespaces": ["*a" * 200 + "b"]})())
    (tmp_path / "pod.yaml").write_text(
        orjson.dumps(training_pod()).decode().replace('"training"', f'"{"a" * 250}"')
    )
    bounded("check", str(tmp_path / "pod.yaml"), "--policies", str(tmp_path / "a.yaml"))
