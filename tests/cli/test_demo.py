"""The demonstration: one real run, and what must be true of each workload in it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from webhook.demonstration.report import paint_ansi, render_diff

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SECONDS = 20
PROGRAM = [sys.executable, "-c", "from webhook.cli.main import main; main()", "demo"]
DENIED = 'admission webhook "fail.validate.podgate.dev" denied the request:'
ANNOTATED = "+ annotations podgate.dev/…"


@dataclass
class Place:
    """A temporary folder of its own, and a mark by which all processes of a run are found."""

    folder: Path
    mark: str

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "TMPDIR": str(self.folder),
            "PYTHONPATH": str(ROOT),
            "PODGATE_TEST_MARK": self.mark,
        }

    def start(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, *options],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*options)
        try:
            output, errors = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def leftovers(self) -> list[str]:
        """Files, and processes that run."""
        mark = f"PODGATE_TEST_MARK={self.mark}".encode()
        return [*map(str, self.folder.iterdir()), *(str(pid) for pid in marked(mark))]


def marked(mark: bytes) -> Iterator[int]:
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and mark in (process / "environ").read_bytes():
                yield int(process.name)
        except OSError:
            continue


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = tmp_path / "tmp"
    folder.mkdir()
    return Place(folder, uuid.uuid4().hex)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = Place(tmp_path_factory.mktemp("demo"), uuid.uuid4().hex)
    started = time.monotonic()
    done = place.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - started < 10
    assert place.leftovers() == []
    return done.stdout


def block(text: str, name: str) -> str:
    """The part of the output about one workload."""
    found = [part for part in re.split(r"\n(?=\d+\. )", text) if f"/{name}," in part]
    assert len(found) == 1, name
    return found[0].rpartition("\n\n")[0] if "workloads:" in found[0] else found[0]


def lines(part: str) -> list[str]:
    """The lines without indentation; of a diff, without that of the YAML as well."""
    return [re.sub(r"^([+-]) +", r"\1", line.strip()) for line in part.splitlines()]


AFFINITY = ["+- key: nvidia.com/gpu.present", "+- 'true'"]
TOLERATION = ["+- key: nvidia.com/gpu", "+operator: Exists", "+effect: NoSchedule"]
PRIORITY = ["-priority: 0", "+priority: 1000000", "+priorityClassName: ai-train-high"]
RDMA = ["+rdma/rdma_shared_device_a: '1'", "+- IPC_LOCK"]


@pytest.mark.parametrize(
    ("name", "verdict", "present"),
    [
        pytest.param(
            "resnet-worker-0",
            "admitted, changed by gpu-placement/vendor, rdma/devices, training-priority/class",
            [*AFFINITY, *TOLERATION, *PRIORITY, *RDMA, "@@ spec.containers[pytorch].resources.limits"],
            id="multi-node training",
        ),
        pytest.param(
            "bert-worker-1",
            "admitted, changed by gpu-placement/vendor, rdma/devices, training-priority/class",
            [*AFFINITY, *PRIORITY, *RDMA, "@@ spec.containers[pytorch].resources.limits"],
            id="the sidecar comes first",
        ),
        pytest.param(
            "qwen-7b-6c9f7d5b8-…",
            "admitted, changed by gpu-placement/vendor",
            [*AFFINITY, *TOLERATION],
            id="inference on one node",
        ),
        pytest.param(
            "llama-70b-kserve-prefill-7d8b9c6f5-…",
            "admitted, changed by gpu-placement/vendor, rdma/devices",
            [*AFFINITY, *TOLERATION, *RDMA],
            id="disaggregated",
        ),
        pytest.param(
            "big-run",
            "refused",
            [f"{DENIED} 16 nvidia.com/gpu asked, at most 8 per pod."],
            id="over-allocated",
        ),
        pytest.param(
            "pinned",
            "refused",
            ['where: spec.nodeSelector["nvidia.com/gpu.present"]'],
            id="placed off the GPU nodes",
        ),
        pytest.param(
            "imagenet",
            "admitted, changed by ceph-storage/class",
            ["+storageClassName: ceph-filesystem"],
            id="a shared claim",
        ),
        pytest.param(
            "speech-worker-0",
            "admitted, changed by gpu-placement/vendor, training-priority/class",
            ["+- key: huawei.com/Ascend910", "+- huawei-Ascend910", *PRIORITY],
            id="Ascend",
        ),
        pytest.param(
            "lin-0",
            "admitted, changed by gpu-placement/vendor",
            [*AFFINITY, *TOLERATION, "priority: 100000", "preemptionPolicy: Never"],
            id="a notebook keeps its class",
        ),
        pytest.param("shop-5f7c9d8b6d-…", "admitted unchanged", [], id="a web server"),
    ],
)
def test_each_workload_gets_its_verdict(text: str, name: str, verdict: str, present: list[str]) -> None:
    found = lines(block(text, name))
    assert found[2] == verdict
    assert [line for line in present if line not in found] == []


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        pytest.param("bert-worker-1", "@@ spec.containers[log-shipper]", id="nothing for the sidecar"),
        pytest.param("bert-worker-1", "+  - key: nvidia.com/gpu\n", id="no second toleration"),
        pytest.param("qwen-7b-6c9f7d5b8-…", "rdma/", id="no RDMA on one node"),
        pytest.param("qwen-7b-6c9f7d5b8-…", "priorityClassName", id="no training priority for inference"),
        pytest.param("speech-worker-0", "rdma/", id="no RDMA of another vendor"),
        pytest.param("lin-0", "ai-train-high", id="no other class for the notebook"),
        pytest.param("shop-5f7c9d8b6d-…", "@@", id="no diff for the web server"),
        pytest.param("shop-5f7c9d8b6d-…", "podgate.dev", id="no annotation for the web server"),
    ],
)
def test_nothing_more_is_changed(text: str, name: str, absent: str) -> None:
    assert absent not in block(text, name)


def test_changed_objects_carry_their_record_and_others_do_not(text: str) -> None:
    blocks = re.split(r"\n(?=\d+\. )", text)[1:]
    assert len(blocks) == 10
    for part in blocks:
        assert (ANNOTATED in part) == ("@@" in part), part


def test_output_into_a_pipe_has_no_colours_and_ends_with_a_summary(text: str) -> None:
    assert "\x1b" not in text
    assert "Warning:" not in text
    last = text.splitlines()[-1]
    summary = "10 workloads: 7 admitted with changes, 1 admitted unchanged, 2 refused; 30 calls, "
    assert last.startswith(summary), last


def test_without_policies_nothing_is_changed_or_refused(place: Place, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = place.run("--policies", str(empty))
    assert done.returncode == 0, done.stderr
    assert "0 policies" in done.stdout
    assert done.stdout.count("\n   admitted unchanged\n") == 10
    assert "@@" not in done.stdout
    assert "denied" not in done.stdout
    assert place.leftovers() == []


def test_denials_are_shown_in_both_languages(place: Place) -> None:
    done = place.run("--languages", "zh,en")
    assert "denied the request: 申请了 16 张 nvidia.com/gpu" in done.stdout
    assert "16 nvidia.com/gpu asked" in done.stdout


def test_a_port_in_use_is_said(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = place.run("--port", str(port))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"Error: 127.0.0.1:{port}: Address already in use: choose another port, or leave it to us\n"
    )
    assert place.leftovers() == []


@pytest.fixture
def kept(place: Place) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A demonstration that stays up, and what it printed until then."""
    process = place.start("--keep")
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if "timeoutSeconds" in line:
            break
    yield process, text
    process.kill()
    process.communicate()
    assert place.leftovers() == []


def test_a_kept_gateway_answers_what_it_says_and_ends_with_ctrl_c(
    kept: tuple[subprocess.Popen[str], str],
) -> None:
    process, text = kept
    found = re.search(r"curl --cacert (\S+) .*\\\n +--data @(\S+) '(\S+)'", text)
    assert found is not None
    ca, file, url = found.groups()
    request = urllib.request.Request(url, Path(file).read_bytes(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=ca), timeout=5) as answer:
        assert json.load(answer)["response"]["patchType"] == "JSONPatch"
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    "ending",
    [pytest.param(signal.SIGTERM, id="told to stop"), pytest.param(signal.SIGHUP, id="terminal closed")],
)
def test_other_signals_clean_up_too(kept: tuple[subprocess.Popen[str], str], ending: signal.Signals) -> None:
    kept[0].send_signal(ending)
    assert kept[0].wait(SECONDS) == 0


def test_a_gateway_that_dies_is_said_with_its_last_words(kept: tuple[subprocess.Popen[str], str]) -> None:
    process = kept[0]
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.killpg(int(children[0]), signal.SIGKILL)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert errors.startswith("Error: the gateway ended by itself; its last words:\n")
    assert "Traceback" not in errors


def test_a_diff_names_the_item_of_a_list() -> None:
    before = {"metadata": {}, "spec": {"containers": [{"name": "a", "env": []}, {"name": "b", "env": []}]}}
    after = {
        "metadata": {},
        "spec": {"containers": [{"name": "a", "env": []}, {"name": "b", "env": [{"name": "X"}]}]},
    }
    assert list(render_diff(before, after, lambda text, _: text)) == [
        "@@ spec.containers[b]",
        "     env: []",
        "   - name: b",
        "-    env: []",
        "+    env:",
        "+    - name: X",
    ]


def test_a_diff_is_painted() -> None:
    painted = list(render_diff({"metadata": {"a": 1}}, {"metadata": {"a": 2}}, paint_ansi))
    assert painted[-2:] == ["\x1b[31m-  a: 1\x1b[0m", "\x1b[32m+  a: 2\x1b[0m"]
