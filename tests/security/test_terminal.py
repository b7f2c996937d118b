"""No text from a manifest, a policy, a review or a file's name acts on a terminal or forges a line."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml
from click.testing import CliRunner

from tests.admission.wire import review_of
from tests.engine.gates import GPU, facts, load, policy
from webhook.admission import Endpoint, answer_review
from webhook.cli.main import podgate
from webhook.server.logs import render_line, review_line

if TYPE_CHECKING:
    from pathlib import Path

#: C0 but for the line feed, DEL, C1, separators, marks of direction, what is invisible, tags.
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
FORGED = "FORGED: everything passed"
HOSTILE = {
    "clear screen": "\x1b[2J\x1b[H",
    "link": "\x1b]8;;https://example.org\x1b\\here\x1b]8;;\x1b\\",
    "title and bell": "\x1b]0;root\x07",
    "C1": "\x9b2J\x9d0;x\x9c",
    "right to left": "\u202egpj.exe\u202c\u2067x\u2069",
    "invisible": "a\u200bb\ufeffc\xadd\u180ee",
    "tags": "a\U000e0041\U000e0042",
    "new line": f"x\n{FORGED}",
    "carriage return": f"x\r{FORGED}",
    "separator": f"x\u2028{FORGED}",
    "next line": f"x\x85{FORGED}",
    "backspace and DEL": "x\b\b\x7fy",
}
FORMS = ("table", "json")


def unsafe(text: str) -> list[str]:
    """Raw characters and forged lines, each with what stands around it."""
    found = [text[max(0, match.start() - 60) : match.end() + 20] for match in RAW.finditer(text)]
    return found + [line for line in text.splitlines() if line.strip().startswith(FORGED)]


def manifest(text: str) -> dict[str, Any]:
    """A pod with the text in every place."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": text,
            "generateName": text,
            "namespace": text,
            "labels": {text: text, "kueue.x-k8s.io/queue-name": text},
            "annotations": {text: text, "podgate.dev/changes": text},
            "ownerReferences": [{"kind": text, "name": text, "controller": True}],
        },
        "spec": {
            "priorityClassName": text,
            "schedulerName": text,
            "runtimeClassName": text,
            "nodeSelector": {text: text},
            "tolerations": [{"key": text, "operator": "Exists", "effect": text}],
            "containers": [
                {
                    "name": text,
                    "image": text,
                    "env": [{"name": text, "value": text}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": text}],
                    "securityContext": {"privileged": True},
                    "resources": {
                        "limits": {GPU: "16", text: "1", "cpu": text},
                        "requests": {"memory": text},
                    },
                }
            ],
            "volumes": [{"name": text, "hostPath": {"path": f"/dev/{text}"}}],
        },
    }


def others(text: str) -> list[dict[str, Any]]:
    """Objects of other kinds, with the text where they differ from a pod."""
    claim = {"accessModes": [text], "storageClassName": text, "resources": {"requests": {"storage": text}}}
    metadata = {"name": text, "namespace": text}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim},
        {"apiVersion": text, "kind": text, "metadata": metadata},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
         "spec": {"template": {"metadata": {"labels": {text: 1}}, "spec": manifest(text)["spec"]}}},
    ]  # fmt: skip


def rules(text: str) -> list[tuple[str, bytes]]:
    """Policies that find fault with the pod and say what it holds, with a text in what their author writes."""
    message = f'"of " + object.metadata.name + {orjson.dumps(text).decode()}'
    validation = {"expression": "false", "messageExpression": message}
    return [
        policy("cap", {"limitAcceleratorCount": {"perPod": {"max": 8}}}),
        policy("past", {"forbidBypass": {"env": ["*"], "hostPaths": ["/dev/*"], "privileged": True}}),
        policy("class", {"setPriorityClass": {"class": "ai-train-high"}}),
        policy("placed", {"checkPlacement": {}}),
        policy("fields", {"setFields": {"schedulerName": "volcano", "labels": {"team": "a"}}}),
        policy("said", {"expression": {"resources": ["pods"], "validations": [validation]}}),
    ]


def faulty(text: str) -> list[dict[str, Any]]:
    """Policies with the text where they have faults."""
    good: dict[str, Any] = {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicy",
        "metadata": {"name": "p"},
        "spec": {"mode": "audit", "match": {"all": True}, "rules": [{"name": "r", "checkPlacement": {}}]},
    }
    spec = good["spec"]
    return [
        {**good, text: 1},
        {**good, "kind": text},
        {**good, "metadata": {"name": text}},
        {**good, "spec": {**spec, "mode": text}},
        {**good, "spec": {**spec, "match": {text: text}}},
        {**good, "spec": {**spec, "rules": [{"name": text, text: {}}]}},
        {**good, "spec": {**spec, "rules": [{"name": "r", "setFields": {"labels": {text: text}}}]}},
        {
            **good,
            "spec": {**spec, "rules": [{"name": "r", "expression": {"validations": [{"expression": text}]}}]},
        },
    ]


def written(path: Path, things: list[Any]) -> str:
    """A file in which everything is escaped."""
    path.write_text(yaml.safe_dump_all(things, sort_keys=False))
    return str(path)


@pytest.fixture(params=HOSTILE)
def text(request: pytest.FixtureRequest) -> str:
    return HOSTILE[request.param]


def test_each_hostile_text_is_noticed(text: str) -> None:
    assert unsafe(f"a {text} b")
    assert unsafe(f"a {FORGED}\n b") == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", ["check", "explain"])
def test_a_manifest(command: str, form: str, text: str, tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    for name, data in rules(text):
        (folder / name).write_bytes(data)
    pods = written(tmp_path / "pods.yaml", [manifest(text), *others(text), text, [text]])
    arguments = [
        command,
        pods,
        "--policies",
        str(folder),
        "--facts",
        pods,
        "-o",
        form,
        "--languages",
        "en,zh",
    ]
    result = CliRunner().invoke(podgate, arguments)
    assert "cap" in result.stdout
    assert result.exit_code in {1, 2, 3}, result.output
    assert unsafe(result.stdout) + unsafe(result.stderr) == []


@pytest.mark.parametrize("form", FORMS)
def test_a_policy(form: str, text: str, tmp_path: Path) -> None:
    for number, each in enumerate(faulty(text)):
        path = tmp_path / f"{number}.yaml"
        path.write_text(yaml.safe_dump(each, sort_keys=False))
        result = CliRunner().invoke(podgate, ["lint", str(path), "-o", form])
        assert result.exit_code == 2, result.output
        assert unsafe(result.stdout) + unsafe(result.stderr) == []


@pytest.mark.parametrize("command", ["check", "lint"])
def test_raw_bytes_in_a_file(command: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "raw.yaml"
    path.write_bytes(f"kind: Pod\nname: {text}\nother: [{text}\n".encode())
    more = ["--policies", str(path)] if command == "check" else []
    result = CliRunner().invoke(podgate, [command, str(path), *more])
    assert result.exit_code == 2
    assert unsafe(result.stdout) + unsafe(result.stderr) == []


@pytest.mark.parametrize("command", ["check", "explain", "lint"])
@pytest.mark.parametrize("is_there", [True, False], ids=["there", "missing"])
def test_the_name_of_a_file(command: str, text: str, tmp_path: Path, *, is_there: bool) -> None:
    path = tmp_path / f"{text.replace('/', '')}.yaml"
    if is_there:
        path.write_text("kind: [")
    more = [] if command == "lint" else ["--policies", str(path)]
    result = CliRunner().invoke(podgate, [command, str(path), *more])
    assert result.exit_code == 2
    assert unsafe(result.stdout) + unsafe(result.stderr) == []


@pytest.mark.parametrize("endpoint", [Endpoint.MUTATE, Endpoint.VALIDATE])
def test_answers_and_the_log(endpoint: Endpoint, text: str) -> None:
    user = {"username": text, "groups": [text], "extra": {text: [text]}}
    review = review_of(manifest(text), userInfo=user, name=text, namespace=text, uid="u-1")
    answer = answer_review(
        orjson.dumps(review), endpoint, policy_set=load(*rules(text)), facts=facts(), now=datetime.now(UTC)
    )
    line = render_line(review_line(answer.record, 0.001)).decode()
    assert unsafe(line) == []
    assert "\n" not in line
    response = orjson.loads(answer.body)["response"]
    said = [response.get("warnings", []), response.get("status", {}), response.get("auditAnnotations", {})]
    assert [found for each in texts(said) for found in unsafe(each)] == []


def texts(value: Any) -> list[str]:
    """All texts in a JSON value."""
    if isinstance(value, dict):
        return [found for each in value.values() for found in texts(each)]
    if isinstance(value, list):
        return [found for each in value for found in texts(each)]
    return [value] if isinstance(value, str) else []
