"""`podgate serve` as its user meets it: kind errors at the start, then the real core over TLS."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from click.testing import CliRunner

import certs
from tests.server.running import Running, eventually, free_port, post, write_pair
from webhook.cli.serve import command

if TYPE_CHECKING:
    from collections.abc import Callable

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

RDMA_POLICY = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: rdma
spec:
  title:
    en: RDMA for all
  severity: low
  mode: enforce
  match:
    accelerators: {}
  rules:
  - name: devices
    requestRDMA:
      resourceNames: [rdma/hca]
      per: container
      count: 1
      capabilities: [IPC_LOCK]
"""


def review(gpus: int, resource: str = "nvidia.com/gpu") -> bytes:
    """A pod that asks for so many GPUs, as the API server sends it."""
    limits = {resource: str(gpus)} if gpus else {}
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


def arguments(folder: Path, *more: str) -> list[str]:
    return [
        *("--policies", str(folder / "policies"), "--cert", str(folder / "tls.crt")),
        *("--key", str(folder / "tls.key"), *more),
    ]


def refused(*given: str) -> str:
    """What the command says when it does not start."""
    result = CliRunner().invoke(command, list(given))
    assert result.exit_code == 2, result.output
    return result.output.splitlines()[-1]


@pytest.mark.parametrize("bind", ["8443", "host:", ":", "0.0.0.0:70000", "a:b:c", ""])
def test_an_address_that_is_none(bind: str, folder: Path) -> None:
    assert refused(*arguments(folder, "--bind", bind)) == (
        f"Error: --bind {bind}: expected [HOST]:PORT, such as :8443 or 127.0.0.1:8443"
    )


def test_a_port_in_use(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        bind = f"127.0.0.1:{listener.getsockname()[1]}"
        assert refused(*arguments(folder, "--bind", bind)) == (
            f"Error: {bind}: the port is in use: stop the other program, or choose another with --bind"
        )


def test_an_address_of_another_machine(folder: Path) -> None:
    assert refused(*arguments(folder, "--bind", "192.0.2.1:8443")) == (
        "Error: 192.0.2.1:8443: this machine has no such address: without HOST it listens on all it has"
    )


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_both_families_are_listened_on_where_no_host_is_said(serve: Callable[..., Running]) -> None:
    """In a cluster of IPv6 alone nobody else could reach it."""
    port = free_port()
    gateway = serve("--bind", f":{port}", port=port)
    for host in ("127.0.0.1", "::1"):
        with socket.create_connection((host, port), timeout=5) as plain:
            tls = gateway.context().wrap_socket(plain, server_hostname="localhost")
            tls.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert tls.recv(4000).startswith(b"HTTP/1.1 200 "), host
            tls.close()


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
    assert (
        refused(*arguments(folder)) == f"Error: {folder}/policies: cannot be read: No such file or directory"
    )


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        pytest.param(
            "--accelerators",
            "vendors:\n  acme:\n    resources:\n    - names: [acme.com/npu]\n      role: devise\n",
            ":5:13: vendors.acme.resources[0].role: expected one of device, memory, cores, other, found 'devise'",
            id="a role that is none",
        ),
        pytest.param(
            "--kinds",
            "kinds:\n- group: acme.com\n  kind: Train\n  pods: []\n",
            ":2:3: kinds[0].resource is missing",
            id="a kind without its resource",
        ),
        pytest.param("--accelerators", "", ": the file is empty", id="an empty file"),
        pytest.param("--kinds", "kinds: [", ":1:", id="no YAML"),
    ],
)
def test_faults_in_a_sites_own_data(option: str, text: str, said: str, folder: Path) -> None:
    file = folder / "own.yaml"
    file.write_text(text)
    result = CliRunner().invoke(command, arguments(folder, option, str(file)))
    assert result.exit_code == 2
    assert f"Error: {file}{said}" in result.output
    assert "Traceback" not in result.output


def test_a_missing_file_of_a_sites_own_data(folder: Path) -> None:
    given = arguments(folder, "--kinds", str(folder / "none.yaml"))
    assert refused(*given) == f"Error: {folder}/none.yaml: cannot be read: No such file or directory"


@pytest.mark.parametrize("languages", ["", "de", "en,de", ","])
def test_languages_it_does_not_speak(languages: str, folder: Path) -> None:
    assert refused(*arguments(folder, "--languages", languages)).startswith(
        "Error: Invalid value for '--languages': unknown language "
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


def test_what_comes_before_the_first_review_is_neither_logged_nor_counted(
    serve: Callable[..., Running],
) -> None:
    gateway = serve("--log-level", "debug")
    series = [
        line for line in gateway.get("/metrics")[1].decode().splitlines() if line.startswith("podgate_")
    ]
    counted = ("podgate_admission", "podgate_policy_results", "podgate_mutations", "podgate_deadline")
    assert [line for line in series if line.startswith(counted)] == []
    assert "warm-up" not in gateway.log()
    assert '"event":"review"' not in gateway.log()


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


ACCELERATOR = """\
vendors:
  acme:
    resources:
    - names: [acme.com/npu]
      role: device
"""


def test_a_sites_accelerators_are_followed_and_an_error_keeps_the_old(
    folder: Path, serve: Callable[..., Running]
) -> None:
    """Sixteen of a device are too many as soon as it is known for one, and stay so while the file is broken."""
    policies, own = folder / "policies", folder / "own.yaml"
    (policies / "a.yaml").write_text(POLICY.replace("NAME", "cap").replace("LIMIT", "8"))
    own.write_text(ACCELERATOR.replace("npu", "other"))
    gateway = serve("--accelerators", str(own), policies=policies)

    def allowed() -> bool:
        answer = gateway.post(review(16, "acme.com/npu"), "/validate")[1]["response"]
        return bool(answer["allowed"])

    def fault() -> str:
        return str(json.loads(gateway.get("/readyz")[1])["fault"])

    assert allowed()
    own.write_text(ACCELERATOR)
    eventually(lambda: not allowed(), 10)
    own.write_text(ACCELERATOR.replace("names", "name"))
    eventually(fault, 10)
    assert fault().startswith(f"{own}:4:7: vendors.acme.resources[0]")
    assert not allowed()


def test_a_sites_kinds_are_known(folder: Path, serve: Callable[..., Running]) -> None:
    policies, own = folder / "policies", folder / "own.yaml"
    (policies / "a.yaml").write_text(
        POLICY.replace("NAME", "cap").replace("LIMIT", "8").replace("metadata.name", "spec")
    )
    own.write_text(
        "kinds:\n- group: acme.com\n  kind: Train\n  resource: trains.acme.com\n  pods:\n  - template: spec.wagon\n"
    )
    body = json.loads(review(gpus=16))
    request = body["request"]
    request["kind"] = {"group": "acme.com", "version": "v1", "kind": "Train"}
    request["resource"] = {"group": "acme.com", "version": "v1", "resource": "trains"}
    wagon = {"spec": request["object"]["spec"], "metadata": {"name": "w"}}
    request["object"] = {
        "apiVersion": "acme.com/v1",
        "kind": "Train",
        "metadata": {"name": "p"},
        "spec": {"wagon": wagon},
    }
    gateway = serve("--kinds", str(own), policies=policies)
    answer = gateway.post(orjson.dumps(body), "/validate")[1]["response"]
    assert answer["allowed"] is False
    [cause] = answer["status"]["details"]["causes"]
    assert cause["field"] == 'spec.wagon.spec.containers["trainer"].resources.limits["nvidia.com/gpu"]'


@pytest.mark.parametrize(
    ("options", "capabilities"),
    [
        pytest.param((), None, id="not said"),
        pytest.param(("--pod-security-default", "restricted"), None, id="restricted"),
        pytest.param(("--pod-security-default", "privileged"), ["IPC_LOCK"], id="privileged"),
    ],
)
def test_the_pod_security_level_of_namespaces_without_a_label(
    options: tuple[str, ...], capabilities: list[str] | None, folder: Path, serve: Callable[..., Running]
) -> None:
    """Whether a pod with RDMA may lock memory."""
    (folder / "policies" / "a.yaml").write_text(RDMA_POLICY)
    (folder / "facts").mkdir()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    (folder / "facts" / "a.yaml").write_bytes(orjson.dumps(namespace))
    gateway = serve("--facts", str(folder / "facts"), *options, policies=folder / "policies")
    answer = gateway.post(review(gpus=1))[1]["response"]
    patch = {each["path"]: each["value"] for each in json.loads(base64.b64decode(answer["patch"]))}
    security = patch.get("/spec/containers/0/securityContext")
    assert (security and security["capabilities"]["add"]) == capabilities


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
        try:
            target = str(descriptor.readlink())
            flags = int(Path(f"/proc/{worker}/fdinfo/{descriptor.name}").read_text().split()[3], 8)
        except FileNotFoundError:
            continue  # a folder that it looked at just then
        if target.startswith("/") and flags & (os.O_WRONLY | os.O_RDWR):
            written.append(target)
    assert [t for t in written if not t.startswith(("/dev/", str(gateway.folder / "log")))] == []
