"""`podgate lint`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from click.testing import CliRunner, Result

from webhook.cli.main import podgate

SHIPPED = Path(__file__).parents[2] / "policies"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(podgate, ["lint", *arguments])


def test_the_shipped_policies_are_good() -> None:
    result = run(str(SHIPPED))
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.fullmatch(r"[0-9]+ policies, hash [0-9a-f]{12}\n", result.stdout)


def test_the_hash_does_not_depend_on_how_files_are_named_and_split(tmp_path: Path) -> None:
    files = sorted(SHIPPED.glob("*.yaml"))
    together = tmp_path / "all.yaml"
    together.write_text("\n---\n".join(file.read_text(encoding="utf-8") for file in files), encoding="utf-8")
    assert run(str(together)).stdout == run(*map(str, files)).stdout


def test_json(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: PodPolicy\n", encoding="utf-8")
    result = run(str(tmp_path), "-o", "json")
    found = json.loads(result.stdout)
    assert result.exit_code == found["exitCode"] == 2
    assert found["policies"]["count"] == 0
    assert [(each["line"], each["severity"]) for each in found["problems"]] == [(1, "error")]
