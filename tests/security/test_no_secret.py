"""What may be a secret is in no answer, log, metric, report or message: planted texts are searched for in every channel."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml
from click.testing import CliRunner

import certs
from tests.admission.wire import patch_of, review_of
from tests.engine.gates import facts, load, policy, shipped_files
from tests.property.sets import in_mode
from tests.security.planted import (
    CONDITIONS,
    ENCODED,
    MALFORMED,
    MARKER,
    OBJECTS,
    as_yaml,
    files,
    leaks,
    pod,
    secret_objects,
)
from tests.server.running import ROOT, Running, free_port, launch, write_pair
from webhook.admission import Endpoint, answer_review
from webhook.cli.main import podgate
from webhook.documents import read_documents
from webhook.policy import load_policy_set
from webhook.server.logs import render_line, review_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine.gates import File

MODES = ("enforce", "warn", "audit")
SETS = ("everything", "shipped")
OPERATIONS = ("CREATE", "UPDATE")
#: Bodies, paths and headers that are no review.
BAD_BODIES = (
    MARKER.encode(),
    b'{"request": "%s"}' % MARKER.encode(),
    b'{"request": {"uid": ["%s"]}}' % MARKER.encode(),
    orjson.dumps(review_of(MARKER)),
    orjson.dumps(review_of(pod()))[:-9],
    orjson.dumps(review_of(pod(), userInfo=MARKER)),
    orjson.dumps(review_of(pod(), kind="Pod", resource=MARKER)),
)


def policy_files(name: str, mode: str) -> list[File]:
    return files(mode) if name == "everything" else in_mode(shipped_files(), mode)


def write(folder: Path, things: list[File]) -> Path:
    folder.mkdir()
    for name, data in things:
        (folder / Path(name).name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Policies in every mode, facts with Secrets among them, manifests."""
    place = tmp_path_factory.mktemp("planted")
    for mode in MODES:
        write(place / mode, files(mode))
    broken = [(f"{name}.yaml", text.encode()) for name, text in MALFORMED.items()]
    write(place / "facts", [("all.yaml", as_yaml(secret_objects()).encode()), *broken])
    manifests = [*OBJECTS.values(), *secret_objects()]
    write(place / "manifests", [("all.yaml", as_yaml(manifests).encode())])
    return place


def test_a_planted_text_is_found_in_each_form() -> None:
    assert leaks("nothing here") == []
    for text in (f"x{MARKER}x", f"x{ENCODED}x", b64encode(f"{MARKER}-place".encode()).decode()):
        assert leaks(text)


def test_the_set_is_whole() -> None:
    loaded = load_policy_set(files("enforce"))
    assert loaded.problems == ()
    assert len(loaded.policy_set) > len(CONDITIONS) + 20


def requests(name: str, operation: str) -> bytes:
    thing = OBJECTS[name]
    old = {"oldObject": pod(2) if thing["kind"] == "Pod" else thing} if operation == "UPDATE" else {}
    return orjson.dumps(review_of(thing, operation, kind=thing["kind"], **old))


def leaks_of_patch(response: dict[str, Any]) -> list[str]:
    """What a patch shows beside the environment itself: the record of changes is an annotation."""
    operations = patch_of(response)
    return [leak for each in operations if "/env" not in each["path"] for leak in leaks(json.dumps(each))]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SETS)
def test_no_answer_and_no_line_of_the_log(name: str, mode: str) -> None:
    policies, now = load(*policy_files(name, mode)), datetime.now(UTC)
    found, results = [], set()
    for thing in OBJECTS:
        for operation in OPERATIONS:
            for endpoint in Endpoint:
                body = requests(thing, operation)
                answer = answer_review(
                    body, endpoint, policy_set=policies, facts=facts(), languages=("en", "zh"), now=now
                )
                response = orjson.loads(answer.body)["response"]
                found += leaks_of_patch(response)
                rest = {key: value for key, value in response.items() if key != "patch"}
                line = render_line(review_line(answer.record, 0.001)).decode()
                found += leaks(json.dumps(rest)) + leaks(line)
                results |= {result for _, _, result, _ in answer.record.results}
    assert found == []
    assert results >= ({"fail", "pass"} if name == "shipped" else {"fail", "skip", "pass", "error"})


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Running]:
    """The real command, at its most talkative."""
    place = folder / "server"
    place.mkdir()
    write_pair(place, certs.new_ca(now=datetime.now(UTC)))
    port = free_port()
    (place / "port").write_text(str(port))
    options = [
        "--policies",
        str(folder / "enforce"),
        "--facts",
        str(folder / "facts"),
        "--log-level",
        "debug",
    ]
    options += ["--cert", str(place / "tls.crt"), "--key", str(place / "tls.key"), "--languages", "en,zh"]
    program = [sys.executable, "-c", "from webhook.cli.main import main; main()", "serve"]
    running = launch([*program, *options, "--bind", f"127.0.0.1:{port}"], place)
    yield running
    running.stop()


def test_no_channel_of_the_server(gateway: Running) -> None:
    found, reviews = [], 0
    for thing in OBJECTS:
        for operation in OPERATIONS:
            for path in ("/mutate", "/validate", "/validate/fail", "/validate/ignore"):
                status, answer = gateway.post(requests(thing, operation), path)
                assert status == 200
                found += leaks_of_patch(answer["response"])
                answer["response"].pop("patch", None)
                found += leaks(json.dumps(answer))
                reviews += 1
    for body in BAD_BODIES:
        found += leaks(json.dumps(gateway.post(body)))
    for path in (
        f"/livez?{MARKER}",
        f"/mutate?timeout={MARKER}",
        "/livez",
        "/readyz",
        "/metrics",
    ):
        found += leaks(gateway.get(path)[1].decode())
    log = gateway.log()
    assert found + leaks(log) == []
    assert log.count('"event":"review"') >= reviews
    faults = orjson.loads(gateway.get("/readyz")[1])["problems"]
    assert any("facts/alias.yaml:1:11" in fault for fault in faults), faults


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("command", ["check", "explain"])
@pytest.mark.parametrize("policies", [*MODES, "shipped"])
def test_no_report(policies: str, command: str, form: str, folder: Path) -> None:
    chosen = ROOT / "policies" if policies == "shipped" else folder / policies
    arguments = [command, str(folder / "manifests"), "--facts", str(folder / "facts"), "-o", form]
    result = CliRunner().invoke(podgate, [*arguments, "--policies", str(chosen), "--languages", "en,zh"])
    assert "trainer" in result.stdout
    assert "facts/alias.yaml:1:11" in result.stderr
    assert leaks(result.output) == []


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("mode", MODES)
def test_lint_does_not_show_the_values_of_policies(mode: str, form: str, folder: Path) -> None:
    result = CliRunner().invoke(podgate, ["lint", str(folder / mode), "-o", form])
    assert result.exit_code == 0
    assert leaks(result.output) == []


@pytest.mark.parametrize("value", ["5123412341", "[5eCr3T]", "{a: 5eCr3T}"], ids=["number", "list", "map"])
@pytest.mark.parametrize("rule", ["setFields: {", "requestRDMA: {resourceNames: [rdma/x], "])
def test_a_value_of_the_wrong_type_in_a_policy_is_not_shown(rule: str, value: str) -> None:
    rules = yaml.safe_load(f"[{{name: r, {rule}env: {{PASSWORD: {value}}}}}}}]")
    said = "\n".join(map(str, load_policy_set([policy("p", *rules)]).problems))
    assert "env.PASSWORD" in said
    assert "5123412341" not in said
    assert leaks(said) == []


@pytest.mark.parametrize(
    "place",
    [
        {"metadata": {"annotations": {"token": 5123412341}}},
        {"spec": {"containers": [{"name": "m", "env": [{"name": "A", "value": 5123412341}]}]}},
        {"spec": {"containers": [{"name": "m", "args": [5123412341]}]}},
        {"spec": {"containers": [{"name": "m", "command": [5123412341]}]}},
    ],
    ids=["annotation", "environment", "argument", "command"],
)
def test_a_number_where_text_must_stand_is_not_shown(place: dict[str, Any], tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(as_yaml([{"apiVersion": "v1", "kind": "Pod", **place}]))
    result = CliRunner().invoke(podgate, ["check", str(manifest), "--policies", str(ROOT / "policies")])
    assert "expected text, found a number" in result.stderr
    assert "5123412341" not in result.output


@pytest.mark.parametrize("name", MALFORMED)
def test_a_fault_of_a_file_can_be_said_without_its_text(name: str) -> None:
    for problem in read_documents(MALFORMED[name].encode(), name, strict=False).problems:
        said = problem.without_text()
        assert leaks(str(said)) == []
        assert (said.source, said.position, said.is_warning) == (name, problem.position, problem.is_warning)


def test_the_demonstration(folder: Path) -> None:
    options = [
        "--policies",
        str(ROOT / "policies"),
        "--policies",
        str(folder / "enforce" / "own-environment.yaml"),
    ]
    options += ["--policies", str(folder / "enforce" / "own-fabric.yaml")]
    program = [sys.executable, "-c", "from webhook.cli.main import main; main()", "demo"]
    done = subprocess.run(
        [*program, *options], capture_output=True, text=True, timeout=30, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "PASSWORD" in done.stdout
    assert leaks(done.stdout + done.stderr) == []
