"""`podgate install`: what is written, what is left alone, and what is said."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import certs
from tests.cli.fake_cluster import LATE, MUTATING, SYSTEM, VALIDATING, FakeCluster, Json
from webhook.cli import install
from webhook.cli.main import podgate

Run = Callable[..., Result]

SECRET = f"{SYSTEM}/secrets/podgate-tls"
NO_CA = """\
Error: mutate.podgate.dev would have no caBundle, so that every call of it fails
give --ca-file, or wait until the Secret podgate-tls has a ca.crt
"""
PODS = "/api/v1/namespaces/default/pods"
CA = certs.new_ca(now=datetime.now(UTC)).certificate
BUNDLE = base64.b64encode(CA).decode()
MASKED = re.compile(r"\b[0-9a-f]{12}\b")

POLICY = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: {name}
spec:
  failurePolicy: {failure_policy}
  match:
    accelerators: {{}}
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 8
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two policies, one of each failurePolicy."""
    found = tmp_path / "policies"
    found.mkdir()
    for name, failure_policy in (("cap", "Fail"), ("soft", "Ignore")):
        (found / f"{name}.yaml").write_text(POLICY.format(name=name, failure_policy=failure_policy))
    return found


@pytest.fixture(autouse=True)
def _without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "BLOCKING_SECONDS", 0.0)


@pytest.fixture
def install_it(run: Run, folder: Path, fake: FakeCluster) -> Run:
    fake.put(SECRET, {"data": {"ca.crt": BUNDLE}})
    return lambda *words: run("install", "--policies", str(folder), *words)


def entries(fake: FakeCluster, path: str = VALIDATING) -> dict[str, Json]:
    return {entry["name"]: entry for entry in fake.objects[path]["webhooks"]}


def failure_policies(fake: FakeCluster) -> list[str]:
    return [
        entry["failurePolicy"] for path in (MUTATING, VALIDATING) for entry in entries(fake, path).values()
    ]


def text(result: Result, folder: Path) -> str:
    return MASKED.sub("<hash>", result.output).replace(str(folder), "policies")


def answers(pod: Json) -> tuple[int, Json]:
    """An API server that has called podgate."""
    del pod["metadata"]["annotations"]
    return 201, pod


def test_a_first_time_creates_both_and_blocks_nothing(
    install_it: Run, fake: FakeCluster, folder: Path
) -> None:
    result = install_it()
    assert (result.exit_code, text(result, folder)) == (
        0,
        """\
MutatingWebhookConfiguration gate.podgate.dev: created
  mutate.podgate.dev: new, failurePolicy Ignore
ValidatingWebhookConfiguration gate.podgate.dev: created
  fail.validate.podgate.dev: new, failurePolicy Ignore
  ignore.validate.podgate.dev: new, failurePolicy Ignore
2 policies, hash <hash>; an outage of podgate blocks nothing
Next: podgate install --policies policies --enforce
""",
    )
    assert failure_policies(fake) == ["Ignore"] * 3
    assert entries(fake)["fail.validate.podgate.dev"]["clientConfig"]["caBundle"] == BUNDLE


def test_a_second_time_changes_nothing(install_it: Run, fake: FakeCluster, folder: Path) -> None:
    install_it()
    before = len(fake.writes)
    result = install_it()
    assert text(result, folder).startswith(
        "MutatingWebhookConfiguration gate.podgate.dev: unchanged\n"
        "ValidatingWebhookConfiguration gate.podgate.dev: unchanged\n"
    )
    assert len(fake.writes) == before


def test_what_changed_is_said(install_it: Run, fake: FakeCluster, folder: Path) -> None:
    install_it()
    (folder / "soft.yaml").unlink()
    result = install_it("--exclude-namespace", "db")
    assert text(result, folder).startswith(
        """\
MutatingWebhookConfiguration gate.podgate.dev: changed
  mutate.podgate.dev: namespaceSelector
ValidatingWebhookConfiguration gate.podgate.dev: changed
  fail.validate.podgate.dev: namespaceSelector
  ignore.validate.podgate.dev: removed, no policy needs it
1 policy, hash <hash>;"""
    )


SETTER = POLICY.replace(
    "limitAcceleratorCount:\n      perPod:\n        max: 8", "setPriorityClass:\n      class: train"
)


def setter(folder: Path, mode: str) -> None:
    """A third policy, which gives pods a class."""
    text = SETTER.format(name="class", failure_policy="Ignore")
    (folder / "class.yaml").write_text(text.replace("spec:\n", f"spec:\n  mode: {mode}\n"))


def test_a_policy_that_may_write_makes_a_late_call(install_it: Run, fake: FakeCluster, folder: Path) -> None:
    """Also where podgate is installed already, by a version or for policies that needed none."""
    install_it()
    assert LATE not in fake.objects
    setter(folder, "enforce")
    result = install_it()
    assert text(result, folder).startswith(
        """\
MutatingWebhookConfiguration gate.podgate.dev: changed
  mutate.podgate.dev: matchConditions, rules
MutatingWebhookConfiguration zzz.gate.podgate.dev: created
  late.mutate.podgate.dev: new, failurePolicy Ignore
ValidatingWebhookConfiguration gate.podgate.dev: unchanged
"""
    )
    assert entries(fake, LATE)["late.mutate.podgate.dev"]["clientConfig"]["caBundle"] == BUNDLE
    assert install_it().output.count(": unchanged\n") == 3


def test_the_late_call_ends_with_the_policy_that_needs_it(
    install_it: Run, fake: FakeCluster, folder: Path
) -> None:
    setter(folder, "enforce")
    install_it()
    setter(folder, "audit")
    lines = text(install_it(), folder)
    assert (
        "MutatingWebhookConfiguration zzz.gate.podgate.dev: changed\n"
        "  late.mutate.podgate.dev: removed, no policy needs it\n"
    ) in lines
    assert fake.objects[LATE]["webhooks"] == []
    del fake.objects[LATE]["webhooks"]  # as an API server gives it back
    assert install_it().output.count(": unchanged\n") == 3


def test_where_the_server_audits_there_is_no_late_call(
    install_it: Run, fake: FakeCluster, folder: Path
) -> None:
    setter(folder, "enforce")
    lines = text(install_it("--mode", "audit"), folder)
    assert LATE not in fake.objects
    assert lines.endswith("Next: podgate install --policies policies --mode audit --enforce\n")


def test_the_late_call_is_tried_in_a_dry_run(install_it: Run, fake: FakeCluster, folder: Path) -> None:
    setter(folder, "enforce")
    assert "zzz.gate.podgate.dev: created (dry run)\n" in install_it("--dry-run").output
    assert LATE not in fake.objects


def test_what_others_wrote_stays(install_it: Run, fake: FakeCluster) -> None:
    install_it()
    stored = fake.objects[VALIDATING]
    stored["metadata"]["labels"]["team"] = "platform"
    stored["webhooks"].append({"name": "other.example.com"})
    fake.put(VALIDATING, stored)
    install_it("--exclude-namespace", "db")
    assert fake.objects[VALIDATING]["metadata"]["labels"]["team"] == "platform"
    assert list(entries(fake))[-1] == "other.example.com"


def test_somebody_who_writes_in_between_is_respected(install_it: Run, fake: FakeCluster) -> None:
    install_it()
    attempts: list[Json] = []

    def conflict_once(body: Json) -> tuple[int, Json]:
        attempts.append(body)
        del fake.answers["PUT", VALIDATING]
        stored = fake.objects[VALIDATING]
        stored["metadata"]["labels"]["late"] = "yes"
        fake.put(VALIDATING, stored)
        return 409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "modified"}

    fake.answers["PUT", VALIDATING] = conflict_once
    result = install_it("--exclude-namespace", "db")
    assert result.exit_code == 0
    assert len(attempts) == 1
    assert fake.objects[VALIDATING]["metadata"]["labels"]["late"] == "yes"


def test_enforcing_needs_an_answer_of_podgate(install_it: Run, fake: FakeCluster, folder: Path) -> None:
    fake.answers["POST", PODS] = answers
    result = install_it("--enforce")
    assert (result.exit_code, text(result, folder)) == (
        0,
        """\
MutatingWebhookConfiguration gate.podgate.dev: created
  mutate.podgate.dev: new, failurePolicy Ignore
ValidatingWebhookConfiguration gate.podgate.dev: created
  fail.validate.podgate.dev: new, failurePolicy Ignore
  ignore.validate.podgate.dev: new, failurePolicy Ignore
probe pod in namespace default: podgate answers
MutatingWebhookConfiguration gate.podgate.dev: unchanged
ValidatingWebhookConfiguration gate.podgate.dev: changed
  fail.validate.podgate.dev: failurePolicy Ignore -> Fail
2 policies, hash <hash>; an outage of podgate blocks what policies with failurePolicy: Fail concern
Next: podgate doctor
""",
    )
    assert failure_policies(fake) == ["Ignore", "Fail", "Ignore"]


def test_a_refusal_by_podgate_is_an_answer(install_it: Run, fake: FakeCluster) -> None:
    said = 'admission webhook "ignore.validate.podgate.dev" denied the request: no'
    fake.answers["POST", PODS] = lambda _: (403, {"kind": "Status", "code": 403, "message": said})
    assert install_it("--enforce").exit_code == 0
    assert failure_policies(fake) == ["Ignore", "Fail", "Ignore"]


SILENCE: dict[str, tuple[Any, str]] = {
    "the annotation is still there": (lambda pod: (201, pod), ""),
    "a failing call": (
        lambda _: (
            500,
            {"kind": "Status", "code": 500, "message": 'failed calling webhook "mutate.podgate.dev": x509'},
        ),
        ': failed calling webhook "mutate.podgate.dev": x509',
    ),
    "the probe itself is refused": (
        lambda _: (403, {"kind": "Status", "code": 403, "message": "exceeded quota: pods=0"}),
        ": exceeded quota: pods=0",
    ),
}


@pytest.mark.parametrize(("answer", "why"), SILENCE.values(), ids=SILENCE)
def test_without_an_answer_nothing_may_block(
    answer: Any, why: str, install_it: Run, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "PATIENCE_SECONDS", 0.0)
    fake.answers["POST", PODS] = answer
    result = install_it("--enforce")
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: a probe pod in namespace default shows no answer of podgate{why}\n"
        "failurePolicy stays Ignore; podgate doctor says what is wrong\n"
    )
    assert failure_policies(fake) == ["Ignore"] * 3


def test_what_blocks_without_an_answer_is_taken_back(
    install_it: Run, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = 'failed calling webhook "fail.validate.podgate.dev": 500'

    def answer(pod: Json) -> tuple[int, Json]:
        if "annotations" in pod["metadata"] and "Fail" not in failure_policies(fake):
            return answers(pod)
        assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
        return 500, {"kind": "Status", "code": 500, "message": said}

    fake.answers["POST", PODS] = answer
    result = install_it("--enforce")
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: with failurePolicy Fail pods are refused, so it is Ignore again: {said}\n",
    )
    assert failure_policies(fake) == ["Ignore"] * 3


def test_what_is_enforced_stays_so_until_it_is_taken_back(install_it: Run, fake: FakeCluster) -> None:
    fake.answers["POST", PODS] = answers
    install_it("--enforce")
    install_it("--exclude-namespace", "db")
    assert failure_policies(fake) == ["Ignore", "Fail", "Ignore"]
    assert "failurePolicy Fail -> Ignore" in install_it("--no-enforce").output
    assert failure_policies(fake) == ["Ignore"] * 3


@pytest.mark.parametrize("place", [["--service", "other/gate"], ["--url", "https://10.0.0.7"]], ids=" ".join)
def test_another_place_blocks_only_once_it_has_answered(
    place: list[str],
    run: Run,
    folder: Path,
    fake: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(install, "PATIENCE_SECONDS", 0.0)
    ca = tmp_path / "ca.crt"
    ca.write_bytes(CA)
    words = ["install", "--policies", str(folder), "--ca-file", str(ca)]
    fake.answers["POST", PODS] = answers
    run(*words, "--enforce")
    assert failure_policies(fake) == ["Ignore", "Fail", "Ignore"]
    fake.answers["POST", PODS] = lambda pod: (201, pod)
    assert run(*words, *place).exit_code == 1
    assert failure_policies(fake) == ["Ignore"] * 3
    fake.answers["POST", PODS] = answers
    assert run(*words, *place).exit_code == 0
    assert failure_policies(fake) == ["Ignore"] * 3, "it is not asked for any more"
    assert run(*words, "--enforce").exit_code == 0
    assert run(*words, *place).exit_code == 0
    assert failure_policies(fake) == ["Ignore", "Fail", "Ignore"]


def test_without_a_policy_that_may_block_there_is_nothing_to_enforce(
    install_it: Run, fake: FakeCluster, folder: Path
) -> None:
    (folder / "cap.yaml").unlink()
    result = install_it("--enforce")
    assert result.exit_code == 0
    assert "an outage of podgate blocks nothing\nNext: podgate doctor\n" in result.output
    assert not fake.server.matching(PODS)


def test_a_dry_run_writes_nothing(install_it: Run, fake: FakeCluster) -> None:
    result = install_it("--dry-run", "--enforce")
    assert result.exit_code == 0
    assert result.output.count("gate.podgate.dev: created (dry run)\n") == 2
    assert "fail.validate.podgate.dev: new, failurePolicy Fail\n" in result.output
    assert MUTATING not in fake.objects
    assert all(each.query["dryRun"] == "All" for each in fake.server.requests if each.method == "POST")


def test_without_a_ca_nothing_is_created(run: Run, folder: Path, fake: FakeCluster) -> None:
    result = run("install", "--policies", str(folder))
    assert (result.exit_code, result.stderr) == (
        3,
        NO_CA,
    )
    assert fake.writes == []


def test_a_bundle_that_is_there_is_kept(install_it: Run, fake: FakeCluster) -> None:
    install_it()
    del fake.objects[SECRET]
    assert "unchanged" in install_it().output
    assert entries(fake)["fail.validate.podgate.dev"]["clientConfig"]["caBundle"] == BUNDLE


def test_two_cas_of_a_hand_over_stay(install_it: Run, fake: FakeCluster) -> None:
    install_it()
    both = base64.b64encode(CA + CA).decode()
    for path in (MUTATING, VALIDATING):
        for each in fake.objects[path]["webhooks"]:
            each["clientConfig"]["caBundle"] = both
    assert install_it().output.count(": unchanged\n") == 2
    install_it("--exclude-namespace", "db")
    assert entries(fake)["fail.validate.podgate.dev"]["clientConfig"]["caBundle"] == both


def test_the_ca_of_another_place_is_not_taken_over(install_it: Run, fake: FakeCluster) -> None:
    install_it()
    del fake.objects[SECRET]
    result = install_it("--service", "elsewhere/podgate")
    assert (result.exit_code, result.stderr) == (
        3,
        "Error: ignore.validate.podgate.dev would go to another place, with the CA of the old one: give --ca-file\n",
    )


def test_a_secret_that_may_not_be_read_is_none(run: Run, folder: Path, fake: FakeCluster) -> None:
    fake.refused[SECRET] = 403
    result = run("install", "--policies", str(folder))
    assert (result.exit_code, result.stderr) == (3, NO_CA)


def test_a_url_and_a_file(run: Run, folder: Path, fake: FakeCluster, tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(CA)
    words = ("--url", "https://10.0.0.7:8443", "--ca-file", str(ca_file))
    assert run("install", "--policies", str(folder), *words).exit_code == 0
    client = entries(fake, MUTATING)["mutate.podgate.dev"]["clientConfig"]
    assert client == {"url": "https://10.0.0.7:8443/mutate", "caBundle": BUNDLE}


TWO = "--service and --url are two ways to say the same; give one of them"
PLACE = "expected NAMESPACE/NAME, such as podgate-system/podgate"
ADDRESS = "expected an address such as https://10.0.0.7:8443, without a user or a query"
WRONG: dict[str, tuple[list[str], str]] = {
    "both places": (["--service", "a/b", "--url", "https://x"], TWO),
    "plain HTTP": (["--url", "http://x"], f"--url http://x: {ADDRESS}"),
    "a query": (["--url", "https://x?a"], f"--url https://x?a: {ADDRESS}"),
    "no namespace": (["--service", "podgate"], f"--service podgate: {PLACE}"),
    "a port that is none": (["--service", "a/b:https"], f"--service a/b:https: {PLACE}"),
    "no file": (["--ca-file", "/nowhere/ca.crt"], "--ca-file /nowhere/ca.crt: No such file or directory"),
    "no certificate": (["--ca-file", __file__], f"--ca-file {__file__}: expected a CA certificate in PEM"),
}


@pytest.mark.parametrize(("words", "error"), WRONG.values(), ids=WRONG)
def test_wrong_usage(words: list[str], error: str, folder: Path) -> None:
    result = CliRunner().invoke(podgate, ["install", "--policies", str(folder), *words])
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: {error}\n")


def test_policies_with_errors_are_not_installed(run: Run, folder: Path, fake: FakeCluster) -> None:
    (folder / "bad.yaml").write_text("apiVersion: podgate.dev/v1alpha1\nkind: PodPolicy\n")
    result = run("install", "--policies", str(folder))
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: the policies have errors\n")
    assert "bad.yaml:" in result.stderr
    assert fake.server.requests == []


def test_a_refusal_of_the_cluster_is_said(install_it: Run, fake: FakeCluster) -> None:
    fake.refused[VALIDATING] = 403
    result = install_it()
    assert result.exit_code == 3
    assert "403 Forbidden" in result.stderr
    assert "Traceback" not in result.output


def test_yaml_is_what_is_written_and_needs_no_cluster(folder: Path, tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(CA)
    words = ["install", "--policies", str(folder), "--ca-file", str(ca_file), "-o", "yaml"]
    result = CliRunner().invoke(podgate, words)
    mutating, validating = yaml.safe_load_all(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [mutating["kind"], validating["kind"]] == [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]
    assert {entry["failurePolicy"] for entry in validating["webhooks"]} == {"Ignore"}


def test_yaml_has_the_late_configuration_where_a_policy_may_write(folder: Path) -> None:
    setter(folder, "enforce")
    result = CliRunner().invoke(podgate, ["install", "--policies", str(folder), "-o", "yaml"])
    names = [each["metadata"]["name"] for each in yaml.safe_load_all(result.stdout)]
    assert names == ["gate.podgate.dev", "zzz.gate.podgate.dev", "gate.podgate.dev"]


def test_yaml_without_a_ca_says_who_must_write_it(folder: Path) -> None:
    result = CliRunner().invoke(podgate, ["install", "--policies", str(folder), "-o", "yaml"])
    assert result.exit_code == 0
    assert result.stderr.startswith("podgate: no --ca-file, so there is no caBundle: whoever writes it")
    assert "caBundle" not in result.stdout


def test_the_scope_is_explained_without_a_cluster(folder: Path) -> None:
    wide = POLICY.format(name="wide", failure_policy="Ignore").replace(
        "    accelerators: {}", "    namespaces: [db]"
    )
    wide = wide.replace(
        "    limitAcceleratorCount:\n      perPod:\n        max: 8\n",
        "    setPriorityClass:\n      class: x\n",
    )
    (folder / "wide.yaml").write_text(wide.replace("spec:\n", "spec:\n  mode: enforce\n"))
    result = CliRunner().invoke(podgate, ["install", "--policies", str(folder), "--explain-scope"])
    assert (
        result.stdout
        == """\
mutate.podgate.dev is called for
  * every pod (in db)
        wide
late.mutate.podgate.dev is called, at their creation, where podgate has written nothing yet, for
  * every pod (in db)
        wide
fail.validate.podgate.dev is called for
    pods that ask for accelerators
        cap
    pods with device claims
        cap
ignore.validate.podgate.dev is called for
    pods that ask for accelerators
        soft
    pods with device claims
        soft
  * every pod (in db)
        wide
* asks about pods without accelerators, too: narrow the match of these policies if you can
Controllers are asked about by their pod templates.
"""
    )


def test_no_line_is_longer_than_a_terminal() -> None:
    policies = str(Path(__file__).parents[2] / "policies")
    result = CliRunner().invoke(podgate, ["install", "--policies", policies, "--explain-scope"])
    assert max(map(len, result.stdout.splitlines())) <= 100
