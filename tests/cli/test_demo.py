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
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from webhook.demonstration.api_server import received
from webhook.demonstration.report import paint_ansi, render_diff
from webhook.demonstration.reviews import about_to_be_stored, review
from webhook.demonstration.workloads import read_workloads

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SECONDS = 20
PROGRAM = [sys.executable, "-c", "from webhook.cli.main import main; main()", "demo"]
WORKLOADS = len(read_workloads())
DENIED = 'admission webhook "fail.validate.podgate.dev" denied the request:'
IGNORED = DENIED.replace("fail.", "ignore.")
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


def required(key: str, value: str) -> list[str]:
    return [f"+- matchExpressions: [{{key: {key}, operator: In, values: [{value}]}}]"]


AFFINITY = required("nvidia.com/gpu.present", "'true'")
TOLERATION = ["+- {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}"]
TRAINING = ["-priority: 0", "+priority: 1000000", "+priorityClassName: ai-train-high"]
INFERENCE = ["-priority: 0", "+priority: 1000000", "+priorityClassName: ai-inference"]
RDMA = ["+rdma/rdma_shared_device_a: '1'", "+securityContext: {capabilities: {add: [IPC_LOCK]}}"]
SHARED_MEMORY = [
    "+- {name: dshm, mountPath: /dev/shm}",
    "+- {name: dshm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}",
]


@pytest.mark.parametrize(
    ("name", "changed_by", "present"),
    [
        pytest.param(
            "resnet-worker-0",
            "gpu-placement/vendor rdma/devices training-priority/class",
            [*AFFINITY, *TOLERATION, *TRAINING, *RDMA, "@@ spec.containers[pytorch].resources.limits"],
            id="multi-node training",
        ),
        pytest.param(
            "bert-worker-1",
            "gpu-placement/vendor rdma/devices shared-memory/shm training-priority/class",
            [*AFFINITY, *TRAINING, *RDMA, *SHARED_MEMORY, "@@ spec.containers[pytorch].resources.limits"],
            id="the sidecar comes first",
        ),
        pytest.param(
            "qwen-7b-6c9f7d5b8-…",
            "gpu-placement/vendor inference-priority/class",
            [*AFFINITY, *TOLERATION, *INFERENCE],
            id="inference on one node",
        ),
        pytest.param(
            "llama-70b-kserve-prefill-7d8b9c6f5-…",
            "gpu-placement/vendor rdma/devices inference-priority/class shared-memory/shm",
            [*AFFINITY, *TOLERATION, *RDMA, *INFERENCE, *SHARED_MEMORY],
            id="disaggregated",
        ),
        pytest.param(
            "imagenet",
            "ceph-storage/class",
            ["+storageClassName: ceph-filesystem"],
            id="a shared claim",
        ),
        pytest.param(
            "speech-worker-0",
            "ascend-placement/generation shared-memory/shm training-priority/class",
            [
                "+- {key: huawei.com/Ascend910, operator: Exists, effect: NoSchedule}",
                *required("accelerator", "huawei-Ascend910"),
                *TRAINING,
                *SHARED_MEMORY,
            ],
            id="Ascend",
        ),
        pytest.param(
            "lin-0",
            "gpu-placement/vendor shared-memory/shm",
            [*AFFINITY, *TOLERATION, *SHARED_MEMORY],
            id="a notebook keeps its class",
        ),
        pytest.param(
            "mei-0",
            "gpu-placement/vendor notebook-priority/class",
            [*AFFINITY, *TOLERATION, "+priority: 100000", "+preemptionPolicy: Never"],
            id="a notebook on a MIG slice",
        ),
        pytest.param(
            "embedder-59d8c7b6f4-…",
            "gpu-placement/vendor inference-priority/class shared-memory/shm",
            [*AFFINITY, *TOLERATION, *INFERENCE, *SHARED_MEMORY],
            id="a HAMi share",
        ),
        pytest.param(
            "finetune",
            "gpu-placement/vendor training-priority/class",
            [
                *AFFINITY,
                *TRAINING,
                (
                    "Warning: [training-data/local] /data of container trainer is an emptyDir on the node's disk, "
                    "which is deleted with the pod"
                ),
                (
                    "Warning: [training-data/local] do: mount a PersistentVolumeClaim at /data in place of volume data"
                ),
            ],
            id="data on the disk of a node",
        ),
        pytest.param(
            "data-milvus-0",
            "ceph-storage/class",
            ["+storageClassName: ceph-block"],
            id="a claim of a StatefulSet",
        ),
    ],
)
def test_each_workload_is_changed_as_it_needs(
    text: str, name: str, changed_by: str, present: list[str]
) -> None:
    found = lines(block(text, name))
    assert set(found[2].removeprefix("admitted, changed by ").split(", ")) == set(changed_by.split())
    assert [line for line in present if line not in found] == []


@pytest.mark.parametrize(
    ("name", "text_of_denial", "where"),
    [
        pytest.param(
            "big-run",
            f"{DENIED} 16 nvidia.com/gpu asked, at most 8 per pod.",
            'spec.containers["trainer"].resources.limits["nvidia.com/gpu"]',
            id="over-allocated",
        ),
        pytest.param(
            "pinned",
            f"{IGNORED} the pod asks for 1 nvidia.com/gpu but its placement (nvidia.com/gpu.present In [false]) "
            "keeps it off the nodes that have them.",
            'spec.nodeSelector["nvidia.com/gpu.present"]',
            id="placed off the GPU nodes",
        ),
        pytest.param(
            "resize-images",
            f"{IGNORED} the pod asks for no accelerator but tolerates nvidia.com/gpu:NoSchedule, the taint that keeps "
            "accelerator nodes free.",
            'spec.tolerations["nvidia.com/gpu"]',
            id="placed on GPU nodes without a GPU",
        ),
        pytest.param(
            "llama-405b",
            f"{DENIED} 16 nvidia.com/gpu asked, at most 8 per pod.",
            'spec.template.spec.containers["vllm"].resources.limits["nvidia.com/gpu"]',
            id="a Deployment at apply time",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_the_place(
    text: str, name: str, text_of_denial: str, where: str
) -> None:
    found = lines(block(text, name))
    assert found[2:5] == ["refused", text_of_denial, f"where: {where}"]
    assert not [line for line in found if line.startswith(("@@", "+", "Warning"))]


@pytest.mark.parametrize(
    ("name", "kind", "warnings"),
    [
        pytest.param("shop-5f7c9d8b6d-…", "Pod", [], id="a web server"),
        pytest.param("qwen-7b", "Deployment", [], id="a Deployment whose pods will be changed"),
        pytest.param(
            "clip",
            "PyTorchJob",
            [
                (
                    "Warning: [resources-per-gpu/share] memory: 900Gi asked for 4 nvidia.com/gpu, at most 128Gi per accelerator"
                ),
                (
                    "Warning: [resources-per-gpu/share] do: ask for at most 512Gi in the whole pod; the rest of the node is "
                    "for its other accelerators"
                ),
            ],
            id="a PyTorchJob",
        ),
    ],
)
def test_others_stay_as_they_are(text: str, name: str, kind: str, warnings: list[str]) -> None:
    found = lines(block(text, name))
    assert found[1].startswith(f"{kind} ")
    assert found[2:-1] == ["admitted unchanged", *warnings]


def test_an_exception_holds_and_says_when_it_ends(text: str) -> None:
    found = lines(block(text, "dgx2-run"))
    assert found[2] == "admitted unchanged"
    warning, remedy = found[3:-1]
    said = re.fullmatch(
        r"Warning: \[gpu-limits/cap\] exception dgx2-nodes lifts this rule only until (\S+) 00:00 UTC: "
        r"Its nodes have 16 GPUs",
        warning,
    )
    assert said is not None, warning
    assert (
        remedy
        == "Warning: [gpu-limits/cap] do: mend the workload by then, or ask vision-platform@example.org"
    )
    # The last day is still of the exception, and midnight may come between the run and this line.
    left = date.fromisoformat(said[1]) - datetime.now(UTC).date()
    assert left.days in {5, 6}


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        pytest.param("bert-worker-1", "@@ spec.containers[log-shipper]", id="nothing for the sidecar"),
        pytest.param("bert-worker-1", "key: nvidia.com/gpu,", id="no second toleration"),
        pytest.param("qwen-7b-6c9f7d5b8-…", "rdma/", id="no RDMA on one node"),
        pytest.param("qwen-7b-6c9f7d5b8-…", "ai-train-high", id="no training priority for inference"),
        pytest.param("qwen-7b-6c9f7d5b8-…", "dshm", id="no second shared memory"),
        pytest.param("speech-worker-0", "rdma/", id="no RDMA of another vendor"),
        pytest.param("lin-0", "priorityClassName", id="no other class for the notebook"),
        pytest.param("embedder-59d8c7b6f4-…", "resources", id="a share stays as it is"),
        pytest.param("shop-5f7c9d8b6d-…", "podgate.dev", id="no annotation for the web server"),
        pytest.param("qwen-7b", "podgate.dev", id="no annotation for the Deployment"),
    ],
)
def test_nothing_more_is_changed(text: str, name: str, absent: str) -> None:
    assert absent not in block(text, name)


def test_changed_objects_carry_their_record_and_others_do_not(text: str) -> None:
    blocks = re.split(r"\n(?=\d+\. )", text)[1:]
    assert len(blocks) == WORKLOADS
    for part in blocks:
        assert (ANNOTATED in part) == ("@@" in part) == ("admitted, changed by" in part), part


def test_output_into_a_pipe_has_no_colours_and_ends_with_a_summary(text: str) -> None:
    assert "\x1b" not in text
    last = text.splitlines()[-1]
    summary = "19 workloads: 11 admitted with changes, 4 admitted unchanged, 4 refused; 57 calls, "
    assert last.startswith(summary), last


def test_it_fits_into_some_screens(text: str) -> None:
    assert len(text.splitlines()) < 300


def test_without_policies_nothing_is_changed_or_refused(place: Place, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = place.run("--policies", str(empty))
    assert done.returncode == 0, done.stderr
    assert "0 policies" in done.stdout
    assert done.stdout.count("\n   admitted unchanged\n") == WORKLOADS
    assert "@@" not in done.stdout
    assert "denied" not in done.stdout
    assert "Warning:" not in done.stdout
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


TIME = "2026-01-01T00:00:00Z"


def sent(name: str) -> dict[str, Any]:
    """The request of the validating call for a workload."""
    [workload] = [each for each in read_workloads() if each.name == name]
    thing = about_to_be_stored(workload, received(workload, TIME, {}), TIME)
    request: dict[str, Any] = review(workload, thing, "validate")["request"]
    return request


@pytest.mark.parametrize(
    ("name", "group", "version", "kind", "resource"),
    [
        ("shop-5f7c9d8b6d-…", "", "v1", "Pod", "pods"),
        ("imagenet", "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
        ("qwen-7b", "apps", "v1", "Deployment", "deployments"),
        ("clip", "kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
    ],
)
def test_a_review_names_kind_and_resource(
    name: str, group: str, version: str, kind: str, resource: str
) -> None:
    request = sent(name)
    assert request["kind"] == request["requestKind"] == {"group": group, "version": version, "kind": kind}
    expected = {"group": group, "version": version, "resource": resource}
    assert request["resource"] == request["requestResource"] == expected


def fields(name: str) -> dict[str, Any]:
    [entry] = sent(name)["object"]["metadata"]["managedFields"]
    found: dict[str, Any] = entry["fieldsV1"]["f:spec"]
    return found


def test_the_fields_of_a_deployment_are_recorded_to_the_last() -> None:
    spec = fields("qwen-7b")
    assert sorted(spec) == [
        "f:progressDeadlineSeconds",
        "f:replicas",
        "f:revisionHistoryLimit",
        "f:selector",
        "f:strategy",
        "f:template",
    ]
    containers = spec["f:template"]["f:spec"]["f:containers"]
    assert list(containers) == ['k:{"name":"vllm"}']


def test_the_lists_of_a_custom_resource_are_recorded_as_one() -> None:
    """As its schema has them: who wrote a container, nobody knows."""
    worker = fields("clip")["f:pytorchReplicaSpecs"]["f:Worker"]
    assert worker["f:template"] == {".": {}, "f:spec": {".": {}, "f:containers": {}, "f:volumes": {}}}


def test_a_controller_is_stored_with_its_first_generation() -> None:
    assert sent("qwen-7b")["object"]["metadata"]["generation"] == 1
    assert "status" not in sent("clip")["object"]


def plain(text: str, _: str) -> str:
    return text


def test_a_diff_names_the_item_of_a_list() -> None:
    before = {"metadata": {}, "spec": {"containers": [{"name": "a", "env": []}, {"name": "b", "env": []}]}}
    after = {
        "metadata": {},
        "spec": {"containers": [{"name": "a", "env": []}, {"name": "b", "env": [{"name": "X"}]}]},
    }
    assert list(render_diff(before, after, plain)) == ["@@ spec.containers[b].env", "+ - {name: X}"]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, ["@@ a", "- b: 1", "+ b: 2"], id="a value"),
        pytest.param({"a": 1}, {}, ["@@ the object", "- a: 1"], id="taken away"),
        pytest.param({"a": {}}, {"a": []}, ["@@ the object", "- a: {}", "+ a: []"], id="of another type"),
        pytest.param(
            {"a": None}, {"a": {"b": 1}}, ["@@ the object", "- a: null", "+ a: {b: 1}"], id="from null"
        ),
        pytest.param(
            {"a": ["x", "y"]}, {"a": ["y", "z"]}, ["@@ a", "- - x", "+ - z"], id="items without a name"
        ),
        pytest.param({"a": ["x"]}, {"a": ["x", "x"]}, ["@@ a", "+ - x"], id="an item twice"),
        pytest.param({"a": ["x", "y"]}, {"a": ["y", "x"]}, [], id="another order"),
        pytest.param(
            {"a": {"b": 1, "c": {"d": 1}}},
            {"a": {"b": 2, "c": {"d": 2}}},
            ["@@ a", "- b: 1", "+ b: 2", "@@ a.c", "- d: 1", "+ d: 2"],
            id="the outer first",
        ),
        pytest.param(
            {},
            {"a": {"b": "x" * 100, "c": {"d": 1}}},
            ["@@ the object", "+ a:", f"+   b: {'x' * 100}", "+   c: {d: 1}"],
            id="long in lines of its own",
        ),
    ],
)
def test_a_diff(before: dict[str, Any], after: dict[str, Any], shown: list[str]) -> None:
    assert list(render_diff({"metadata": {}, **before}, {"metadata": {}, **after}, plain)) == shown


def test_a_diff_is_painted() -> None:
    painted = list(render_diff({"metadata": {"a": 1}}, {"metadata": {"a": 2}}, paint_ansi))
    assert painted[-2:] == ["\x1b[31m- a: 1\x1b[0m", "\x1b[32m+ a: 2\x1b[0m"]
