"""Faults of our own making: an error of ours is a 500 with the uid and nothing else, and never a decision."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from importlib import import_module
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import structlog.testing

from tests.engine.gates import training_pod
from tests.hostile.app import make_client
from tests.hostile.objects import controller, review
from tests.server.conftest import SHIPPED, ca, folder, serve
from tests.server.running import Running, eventually, free_port, launch, worker_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["ca", "folder", "serve"]  # fixtures

SECRET = "planted-d41d8cd9"
WHOLE = review(training_pod())
STEPS = {
    "parse": ("webhook.admission.answer:parse_review", "both"),
    "match": ("webhook.engine.review:Lanes.of", "both"),
    "mutate": ("webhook.engine.review:run_mutations", "both"),
    "validate": ("webhook.engine.review:_judge", "/validate"),
    "decide": ("webhook.engine.review:decide", "/validate"),
    "the patch": ("webhook.kube.draft:Draft.patch", "/mutate"),
    "the response": ("webhook.admission.answer:build_response", "both"),
    "the record": ("webhook.admission.answer:_record", "both"),
}
ERRORS = [
    RuntimeError(SECRET),
    RecursionError(SECRET),
    MemoryError(SECRET),
    KeyError(SECRET),
    AssertionError(),
]
CASES = [
    (target, path)
    for target, where in STEPS.values()
    for path in ("/mutate", "/validate")
    if where in ("both", path)
]


def raising(error: Exception) -> Callable[..., None]:
    def fails(*_: object, **__: object) -> None:
        raise error

    return fails


def break_step(target: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a function raise: `module:name` or `module:Class.name`, where it is called from."""
    module, _, name = target.partition(":")
    holder, _, last = f"module.{name}".rpartition(".")
    step = SimpleNamespace(module=import_module(module))
    monkeypatch.setattr(attrgetter(holder)(step), last, raising(error))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("target", "path"), CASES)
def test_an_error_in_a_step_is_no_decision(
    target: str, path: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client()
    break_step(target, error, monkeypatch)
    with structlog.testing.capture_logs() as lines:
        answer = client.post(path, data=orjson.dumps(WHOLE), content_type="application/json")
    assert answer.status_code == 500
    status = orjson.loads(answer.data)
    assert status["message"] == "internal error in review u-1"
    assert SECRET not in answer.text
    assert "response" not in status
    assert [line["event"] for line in lines] == ["a review failed: this is a bug"]
    monkeypatch.undo()
    assert client.post(path, data=orjson.dumps(WHOLE), content_type="application/json").status_code == 200


DEPLOYMENT = review(controller("Deployment", template={"spec": training_pod()["spec"]}))
REFUSED = review(training_pod(gpus=4_000))
OTHER_STEPS: dict[str, tuple[str, str, Any]] = {
    "the facts": ("webhook.facts:Facts.namespace", "/validate", WHOLE),
    "the workload": ("webhook.rules.base:inspect_workload", "/mutate", WHOLE),
    "a rule that writes": ("webhook.rules.set_node_affinity:SetNodeAffinity.mutate", "/mutate", WHOLE),
    "a rule that judges": (
        "webhook.rules.check_placement:CheckPlacement.validate_subject",
        "/validate",
        WHOLE,
    ),
    "the record on the object": ("webhook.engine.annotations:record", "/mutate", WHOLE),
    "an update": (
        "webhook.engine.review:put_back",
        "/mutate",
        review(training_pod(), "UPDATE", oldObject=training_pod()),
    ),
    "the templates": ("webhook.engine.templates:virtual_pod", "/validate", DEPLOYMENT),
    "the templates that are written": ("webhook.engine.review:mutate_templates", "/mutate", DEPLOYMENT),
    "the text of a denial": ("webhook.admission.response:say", "/validate", REFUSED),
    "only what must not be missed": ("webhook.engine.review:decide", "/validate/fail", REFUSED),
    "only what may be missed": ("webhook.engine.review:decide", "/validate/ignore", WHOLE),
}


@pytest.mark.parametrize("step", OTHER_STEPS.values(), ids=OTHER_STEPS)
def test_an_error_deeper_down_is_no_decision(
    step: tuple[str, str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, path, asked = step
    client, body = make_client(), orjson.dumps(asked)
    break_step(target, RuntimeError(SECRET), monkeypatch)
    answer = client.post(path, data=body, content_type="application/json")
    assert answer.status_code == 500
    assert orjson.loads(answer.data)["message"] == "internal error in review u-1"
    assert SECRET not in answer.text
    monkeypatch.undo()
    assert client.post(path, data=body, content_type="application/json").status_code == 200


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_review_that_cannot_be_counted_is_answered(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_client()
    monkeypatch.setattr("webhook.server.metrics.Metrics.count_review", lambda *_, **__: 1 / 0)
    answer = client.post(path, data=orjson.dumps(WHOLE), content_type="application/json")
    assert answer.status_code == 200
    assert orjson.loads(answer.data)["response"]["uid"] == "u-1"


def test_an_error_behind_another_route_is_a_500_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_client()
    monkeypatch.setattr("webhook.server.metrics.Metrics.exposition", raising(RuntimeError(SECRET)))
    answer = client.get("/metrics")
    assert answer.status_code == 500
    assert SECRET not in answer.text
    monkeypatch.undo()
    assert client.get("/metrics").status_code == 200


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_line_that_cannot_be_written_does_not_cost_the_answer(
    path: str,
) -> None:
    client = make_client(say=lambda *_: 1 / 0)
    with structlog.testing.capture_logs() as lines:
        answer = client.post(path, data=orjson.dumps(WHOLE), content_type="application/json")
    assert answer.status_code == 200
    assert [line["event"] for line in lines] == ["a review could not be recorded"]


def answers(gateway: Running) -> bool:
    """Whether a review is answered, perhaps not yet."""
    try:
        return gateway.post(orjson.dumps(WHOLE))[0] == 200
    except OSError:
        return False


def test_a_worker_killed_under_load_is_followed_by_the_next(serve: Callable[..., Running]) -> None:
    gateway = serve()
    stop = threading.Event()
    served: list[bool] = []

    def load() -> None:
        while not stop.is_set():
            served.append(answers(gateway))

    clients = [threading.Thread(target=load) for _ in range(2)]
    for client in clients:
        client.start()
    try:
        eventually(lambda: True in served)
        killed = worker_of(gateway)
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: answers(gateway) and worker_of(gateway) != killed, 15)
    finally:
        stop.set()
        for client in clients:
            client.join(10)
    assert "Traceback" not in gateway.log()


def test_policies_and_certificate_gone_are_said_and_serving_goes_on(
    folder: Path, serve: Callable[..., Running]
) -> None:
    policies = folder / "served"
    policies.mkdir()
    for path in SHIPPED.glob("gpu-*.yaml"):
        shutil.copy(path, policies)
    gateway = serve(policies=policies)
    shutil.rmtree(policies)
    (folder / "tls.crt").unlink()
    (folder / "tls.key").unlink()
    eventually(lambda: "policies not loaded, the old set stays" in gateway.log(), 15)
    eventually(lambda: "certificate not loaded, the last good pair stays" in gateway.log(), 15)
    assert answers(gateway)
    code, ready = gateway.get("/readyz")
    assert code == 200
    assert orjson.loads(ready)["fault"]
    assert orjson.loads(ready)["certificate"]["fault"]


def test_a_log_on_a_full_disk_costs_no_answer_and_is_counted(folder: Path) -> None:
    """The process starts with room for its log, and then there is none: /dev/full takes nothing."""
    port = free_port()
    program = """
import os, sys
from webhook.cli.main import main
from webhook.server.worker import Worker
run = Worker.run
def on_a_full_disk(self):
    os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
    run(self)
Worker.run = on_a_full_disk
main()
"""
    (folder / "port").write_text(str(port))
    options = ["--policies", SHIPPED, "--cert", folder / "tls.crt", "--key", folder / "tls.key"]
    command = [sys.executable, "-c", program, "serve", *map(str, options), "--bind", f"127.0.0.1:{port}"]
    gateway = launch(command, folder)
    try:
        for path in ("/mutate", "/validate"):
            code, answer = gateway.post(orjson.dumps(WHOLE), path)
            assert (code, answer["response"]["allowed"]) == (200, True)
        assert gateway.metric("podgate_log_lines_lost_total") >= 2
        code, ready = gateway.get("/readyz")
        assert code == 200
        assert orjson.loads(ready)["lostLogLines"] >= 2
    finally:
        gateway.stop()
    assert '"event":"review"' not in gateway.log()
