"""`podgate serve` as its user meets it: kind errors at the start, then the real core over TLS."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from click.testing import CliRunner

import certs
from tests.server.running import ROOT, Running, eventually, launch, post, write_pair
from webhook.cli.serve import command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POLICY = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: NAME
spec:
  title:
    en: No more than LIMIT GPUs a pod
  severity: high
  mode: enforce
  match:
    accelerators: {}
    matchConditions:
    - name: named
      expression: has(object.metadata.name)
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: LIMIT
"""


def review(gpus: int) -> bytes:
    """A pod that asks for so many GPUs, as the API server sends it."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container = {"name": "trainer", "image": "x", "resources": {"limits": limits, "requests": limits}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team-a"},
        "spec": {"containers": [container]},
    }
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {
        "uid": "u-1",
        "kind": kind,
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "team-a",
        "name": "p",
        "userInfo": {"username": "eve", "groups": ["system:authenticated"]},
        "object": pod,
        "dryRun": False,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def arguments(folder: Path, *more: str) -> list[str]:
    return [
        *("--policies", str(folder / "policies"), "--cert", str(folder / "tls.crt")),
        *("--key", str(folder / "tls.key"), *more),
    ]


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Running]]:
    """Start the real command on the shipped policies, or those given."""
    started: list[Running] = []

    def run(*more: str, policies: Path = ROOT / "policies") -> Running:
        port = free_port()
        (folder / "port").write_text(str(port))
        files = [
            "--policies",
            str(policies),
            "--cert",
            str(folder / "tls.crt"),
            "--key",
            str(folder / "tls.key"),
        ]
        program = "from webhook.cli.main import main; main()"
        running = launch(
            [sys.executable, "-c", program, "serve", *files, "--bind", f"127.0.0.1:{port}", *more], folder
        )
        started.append(running)
        return running

    yield run
    for running in started:
        running.stop()


def refused(*given: str) -> str:
    """What the command says when it does not start."""
    result = CliRunner().invoke(command, list(given))
    assert result.exit_code == 2, result.output
    return result.output.splitlines()[-1]


@pytest.mark.parametrize("bind", ["8443", ":8443", "host:", "0.0.0.0:70000", "a:b:c", ""])
def test_an_address_that_is_none(bind: str, folder: Path) -> None:
    assert refused(*arguments(folder, "--bind", bind)) == (
        f"Error: --bind {bind}: expected HOST:PORT, such as 0.0.0.0:8443 or [::]:8443"
    )


def test_a_port_in_use(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        bind = f"127.0.0.1:{listener.getsockname()[1]}"
        assert refused(*arguments(folder, "--bind", bind)) == (
            f"Error: {bind}: the port is in use: stop the other program, or choose another with --bind"
        )


def test_an_address_of_another_machine(folder: Path) -> None:
    assert refused(*arguments(folder, "--bind", "192.0.2.1:8443")) == (
        "Error: 192.0.2.1:8443: this machine has no such address: 0.0.0.0 listens on all it has"
    )


def test_a_key_of_another_certificate(folder: Path, ca: certs.Pair) -> None:
    (folder / "other.key").write_bytes(ca.key)
    given = ["--policies", str(folder), "--cert", str(folder / "tls.crt"), "--key", str(folder / "other.key")]
    assert refused(*given) == (
        f"Error: {folder}/tls.crt and {folder}/other.key: the key does not belong to the certificate"
    )


def test_missing_files(folder: Path) -> None:
    (folder / "tls.key").unlink()
    assert refused(*arguments(folder)) == (
        f"Error: {folder}/tls.key: No such file or directory; make a pair with: podgate certs --out DIR …"
    )


def test_a_missing_policy_folder(folder: Path) -> None:
    shutil.rmtree(folder / "policies")
    assert refused(*arguments(folder)) == f"Error: {folder}/policies: No such file or directory"


@pytest.mark.parametrize("languages", ["", "de", "en,de", ","])
def test_languages_it_does_not_speak(languages: str, folder: Path) -> None:
    assert refused(*arguments(folder, "--languages", languages)).startswith(
        f"Error: --languages {languages}: "
    )


def test_a_review_of_the_real_core(serve: Callable[..., Running]) -> None:
    gateway = serve("--languages", "en,zh")
    status, answer = gateway.post(review(gpus=1), "/mutate?timeout=3s")
    assert (status, answer["response"]["uid"], answer["response"]["allowed"]) == (200, "u-1", True)
    patch = json.loads(base64.b64decode(answer["response"]["patch"]))
    assert patch
    assert gateway.get("/readyz")[0] == 200
    assert gateway.metric("podgate_inflight_requests") == 0
    [line] = [json.loads(line) for line in gateway.log().splitlines() if '"event":"review"' in line]
    assert (line["decision"], line["user"], line["webhook"]) == ("mutate", "eve", "mutate")


def test_a_mode_lowers_what_policies_do(serve: Callable[..., Running]) -> None:
    gateway = serve("--mode", "audit")
    assert "patch" not in gateway.post(review(gpus=1))[1]["response"]
    assert gateway.metric('podgate_policies{mode="enforce"}') == 0


def test_bad_files_are_said_and_the_good_ones_served(folder: Path, serve: Callable[..., Running]) -> None:
    policies = folder / "policies"
    (policies / "a.yaml").write_text(POLICY.replace("NAME", "good").replace("LIMIT", "8"))
    (policies / "b.yaml").write_text("kind: [")
    gateway = serve(policies=policies)
    assert gateway.log().startswith(f"{policies}/b.yaml:1:")
    assert json.loads(gateway.get("/readyz")[1])["policies"] == 1
    status, answer = gateway.post(review(gpus=16), "/validate")
    assert (status, answer["response"]["allowed"]) == (200, False)


def test_an_empty_folder_is_a_warning(folder: Path, serve: Callable[..., Running]) -> None:
    (folder / "empty").mkdir()
    gateway = serve(policies=folder / "empty")
    assert gateway.log().startswith("warning: ")
    assert gateway.get("/readyz")[0] == 200
    assert gateway.post(review(gpus=16), "/validate")[1]["response"]["allowed"] is True


def test_an_expired_certificate_is_a_warning(folder: Path, ca: certs.Pair) -> None:
    long_ago = certs.expiry_of(ca.certificate).replace(year=2024)
    write_pair(folder, ca)
    old_ca = certs.new_ca(now=long_ago)
    expired = certs.serving_pair(old_ca, names=["127.0.0.1"], now=long_ago)
    certs.write_pairs(folder, ca=old_ca, serving=expired)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        bind = f"127.0.0.1:{listener.getsockname()[1]}"
        result = CliRunner().invoke(command, arguments(folder, "--bind", bind))
    assert f"{folder}/tls.crt: warning: it expired on " in result.output


def test_policies_change_under_load_with_the_real_core(folder: Path, serve: Callable[..., Running]) -> None:
    """A cap of 8 becomes one of 20 and back: sixteen GPUs are denied or allowed, and never an error."""
    policies = folder / "policies"
    file = policies / "a.yaml"
    file.write_text(POLICY.replace("NAME", "cap").replace("LIMIT", "8"))
    gateway = serve(policies=policies)
    client = gateway.client()
    verdicts = []

    def allowed(verdict: bool) -> bool:
        status, answer = post(client, review(gpus=16), "/validate")
        assert status == 200
        verdicts.append(answer["response"]["allowed"])
        return verdicts[-1] is verdict

    assert allowed(False)
    temporary = folder / "new"
    temporary.write_text(POLICY.replace("NAME", "cap").replace("LIMIT", "20"))
    temporary.replace(file)
    eventually(lambda: allowed(True), 10)
    assert verdicts == sorted(verdicts)
    client.close()


def test_workers_share_the_load_and_stop_together(serve: Callable[..., Running]) -> None:
    gateway = serve("--workers", "2", "--log-level", "warning")
    for _ in range(10):
        assert gateway.post(review(gpus=0))[0] == 200
    line = 'podgate_admission_requests_total{decision="allow",dry_run="false",kind="Pod",operation="CREATE",webhook="mutate"}'
    assert gateway.metric(line) == 10
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(5) == 0
    assert gateway.log() == ""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_it_writes_nothing_but_to_memory(serve: Callable[..., Running]) -> None:
    """Every open file of the worker that is on a disk is open for reading, or is the log."""
    gateway = serve()
    pid = gateway.process.pid
    worker = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
    written: list[Any] = []
    for descriptor in Path(f"/proc/{worker}/fd").iterdir():
        target = str(descriptor.readlink())
        flags = int(Path(f"/proc/{worker}/fdinfo/{descriptor.name}").read_text().split()[3], 8)
        if target.startswith("/") and flags & (os.O_WRONLY | os.O_RDWR):
            written.append(target)
    assert [t for t in written if not t.startswith(("/dev/", str(gateway.folder / "log")))] == []
