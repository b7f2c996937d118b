"""The page about reports names every key that there is, and no other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from webhook.cli.main import podgate

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).parents[2] / "docs/reports.md").read_text(encoding="utf-8")

POLICIES = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: limits
spec:
  title: At most eight
  severity: critical
  mode: enforce
  match:
    accelerators: {}
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 8
---
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: scheduler
spec:
  mode: enforce
  match:
    accelerators: {}
  rules:
  - name: set
    setFields:
      schedulerName: volcano
---
apiVersion: podgate.dev/v1alpha1
kind: PodPolicyException
metadata:
  name: legacy
spec:
  policies: [limits/cap]
  match:
    namespaces: [legacy]
  reason: Migration
  owner: vision
  reference: OPS-4711
  expiresAt: "2999-12-30"
"""
SPEC = "containers: [{name: m, resources: {limits: {nvidia.com/gpu: 16}}}]"
MANIFESTS = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: a, namespace: vision}}
spec: {{{SPEC}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: b, namespace: legacy}}
spec: {{{SPEC}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: c, namespace: vision}}
spec: {{template: {{spec: {{{SPEC}}}}}}}
---
apiVersion: v1
kind: Service
---
apiVersion: v1
kind: pod
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policies").mkdir()
    Path("policies/all.yaml").write_text(POLICIES, encoding="utf-8")
    Path("all.yaml").write_text(MANIFESTS, encoding="utf-8")
    runner = CliRunner()
    assert runner.invoke(podgate, ["check", "all.yaml", "-p", "policies", "-o", "json=report.json"]).exit_code
    assert runner.invoke(
        podgate, ["explain", "all.yaml", "-p", "policies", "-o", "json=explain.json"]
    ).exit_code
    assert not runner.invoke(podgate, ["lint", "policies", "-o", "json=lint.json"]).exit_code


def read(name: str) -> Any:
    return json.loads(Path(name).read_text(encoding="utf-8"))


def keys_of(value: Any) -> Iterator[str]:
    """Every key below a value; not those of texts by language, nor of values of manifests."""
    if isinstance(value, list):
        for each in value:
            yield from keys_of(each)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in {"title", "message", "remediation", "from", "to"}:
                yield from keys_of(inner)


def documented(heading: str) -> set[str]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| `")]
    return set(re.findall(r"[\w]+", " ".join(re.findall(r"`([^`]+)`", " ".join(rows)))))


VALUES = {
    *("error", "warning", "pass", "fail", "skip", "enforce", "warn", "audit", "deny", "record", "none"),
    *("pods", "claims", "languages"),
}
"""What the tables name besides keys."""


def test_every_key_of_a_check_is_documented_and_no_other() -> None:
    named = documented("JSON of check")
    found = set(keys_of(read("report.json")))
    assert found - named == set()
    assert named - found == VALUES


def test_every_key_of_lint_is_documented_and_no_other() -> None:
    report = read("lint.json")
    of_check = {"count", "hash"}
    assert set(keys_of(report)) - of_check == documented("JSON of lint")


def test_every_key_of_explain_is_documented_and_no_other() -> None:
    for report in read("explain.json")["objects"]:
        for policy in report["policies"]:
            policy["overrides"] = {}
            for rule in policy["rules"]:
                rule |= {"results": [], "changes": [], "owners": {}}
        report["workload"] = report["workload"] and report["workload"] | {"accelerators": {}}
        named = documented("JSON of explain") - {"yes", "no", "unknown"}
        of_the_whole = {"version", "exitCode", "skipped", "problems", "objects"}
        assert set(keys_of(report)) == named - of_the_whole


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
def test_the_programs_of_the_page_say_what_they_promise() -> None:
    programs = re.findall(r"```sh\n(jq .*?)```", PAGE, re.DOTALL)
    soon = read("lint.json")
    soon["exceptions"][0]["expiresAt"] = "2020-01-01T00:00:00Z"
    Path("lint.json").write_text(json.dumps(soon), encoding="utf-8")
    said = [
        subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True)
        for program in programs
    ]
    assert [done.stdout.splitlines() for done in said] == [
        [
            "::error file=all.yaml,line=4,col=68,title=limits/cap::16 nvidia.com/gpu asked, at most 8 per pod",
            "::error file=all.yaml,line=14,col=86,title=limits/cap::16 nvidia.com/gpu asked, at most 8 per pod",
        ],
        [f"vision/{name}: 16 nvidia.com/gpu asked, at most 8 per pod" for name in "ac"],
        ["2020-01-01T00:00:00Z legacy vision OPS-4711"],
    ]
