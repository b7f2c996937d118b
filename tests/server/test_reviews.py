"""The hot routes and what stands around them, without sockets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import structlog.testing

from tests.server.running import review
from tests.server.standin import FilePolicies, steered_answer
from webhook.documents import Problem
from webhook.server.app import create_app
from webhook.server.logs import ReviewLog
from webhook.server.metrics import Metrics
from webhook.server.reviews import uid_of
from webhook.server.state import Content, ServerState, Sources

if TYPE_CHECKING:
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

SECRET = "p4ssw0rd-of-the-database"


def content(*names: str, problems: tuple[Problem, ...] = ()) -> Content:
    policy_set: Any = FilePolicies(names)
    facts: Any = None
    return Content(policy_set, facts, problems)


@pytest.fixture
def state() -> ServerState:
    return ServerState(Sources(lambda: content("one"), lambda: 0), ("en",))


@pytest.fixture
def metrics(state: ServerState) -> Metrics:
    return Metrics(state, None)


@pytest.fixture
def client(state: ServerState, metrics: Metrics) -> FlaskClient:
    return create_app(state, metrics, answer=steered_answer).test_client()


def send(
    client: FlaskClient, body: bytes, path: str = "/mutate", media: str = "application/json"
) -> TestResponse:
    return client.post(path, data=body, content_type=media)


def status(answer: TestResponse) -> tuple[int, str, str]:
    """The code, and the reason and message of the Status that the API server shows."""
    found = orjson.loads(answer.data)
    assert (found["kind"], found["status"], found["code"]) == ("Status", "Failure", answer.status_code)
    assert answer.data.count(b"\n") == 1
    return answer.status_code, found["reason"], found["message"]


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/validate/fail", "/validate/ignore"])
def test_each_review_path_answers(path: str, client: FlaskClient) -> None:
    answer = send(client, review(), path)
    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    assert orjson.loads(answer.data)["response"]["uid"] == "u-1"


@pytest.mark.parametrize("media", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_media_types_that_are_json(media: str, client: FlaskClient) -> None:
    assert send(client, review(), media=media).status_code == 200


@pytest.mark.parametrize(
    "media", ["", "text/plain", "application/yaml", "application/jsonp", "multipart/form-data"]
)
def test_media_types_that_are_not(media: str, client: FlaskClient) -> None:
    assert status(send(client, review(), media=media)) == (
        415,
        "UnsupportedMediaType",
        "send a review as application/json",
    )


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b"{", b'{"request":{}}', b"\xff"])
def test_what_is_no_review_is_a_bad_request(body: bytes, client: FlaskClient) -> None:
    assert status(send(client, body)) == (400, "BadRequest", "this is no AdmissionReview")


@pytest.mark.parametrize("path", ["/mutate/", "/MUTATE", "/validate/other", "/", "//mutate", "/metrics/x"])
def test_other_paths_are_not_found(path: str, client: FlaskClient) -> None:
    assert status(send(client, review(), path)) == (404, "NotFound", "Not Found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/mutate", "POST"),
        ("PUT", "/validate", "POST"),
        ("POST", "/livez", "GET"),
        ("DELETE", "/metrics", "GET"),
    ],
)
def test_other_methods_are_refused(method: str, path: str, allowed: str, client: FlaskClient) -> None:
    answer = client.open(path, method=method)
    assert status(answer)[:2] == (405, "MethodNotAllowed")
    assert allowed in answer.headers["Allow"]


def test_a_bug_is_500_with_the_uid_and_no_detail(client: FlaskClient) -> None:
    body = review("bug", object={"spec": {"containers": [{"env": [{"name": "PW", "value": SECRET}]}]}})
    with structlog.testing.capture_logs() as lines:
        answer = send(client, body)
    assert status(answer) == (500, "InternalError", "internal error in review u-1")
    [line] = lines
    assert (line["event"], line["uid"], line["log_level"]) == (
        "a review failed: this is a bug",
        "u-1",
        "error",
    )
    assert line["exception"].endswith("RuntimeError")
    assert "in steered_answer" in line["exception"]
    assert SECRET not in line["exception"]


def test_a_record_that_cannot_be_counted_does_not_cost_the_answer(
    client: FlaskClient, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "count_review", lambda *_, **__: 1 / 0)
    with structlog.testing.capture_logs() as lines:
        assert send(client, review()).status_code == 200
    assert [line["event"] for line in lines] == ["a review could not be recorded"]


@pytest.mark.parametrize(
    ("body", "uid"),
    [
        (b'{"request":{"uid":"u-1"}}', "u-1"),
        (b'{"request":{"uid":7}}', ""),
        (b'{"request":{"uid":"a\\nb"}}', ""),
        (b'{"request":{"uid":"%s"}}' % (b"x" * 65), ""),
        (b'{"request":null}', ""),
        (b"[]", ""),
        (b"no", ""),
    ],
)
def test_a_uid_that_can_be_shown(body: bytes, uid: str) -> None:
    assert uid_of(body) == uid


def test_each_refusal_is_counted(client: FlaskClient, metrics: Metrics) -> None:
    send(client, b"no")
    send(client, review(), media="text/plain")
    client.get("/mutate")
    send(client, review("bug"))
    text = metrics.exposition().decode()
    for reason in ("bad_review", "content_type", "method", "bug"):
        assert f'podgate_request_rejected_total{{reason="{reason}"}} 1.0' in text


def test_ready_with_policies(client: FlaskClient) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert orjson.loads(answer.data) == {
        "ready": True,
        "policies": 1,
        "hash": "one",
        "settled": False,
        "fault": "",
        "problems": [],
        "certificate": {},
        "lostLogLines": 0,
    }


@pytest.mark.parametrize(
    ("first", "code"),
    [
        pytest.param(content(), 200, id="an empty folder is a wish"),
        pytest.param(
            content(problems=(Problem("a.yaml", None, "odd", is_warning=True),)), 200, id="only a warning"
        ),
        pytest.param(
            content("one", problems=(Problem("a.yaml", None, "bad"),)), 200, id="one good beside a bad one"
        ),
        pytest.param(content(problems=(Problem("a.yaml", None, "bad"),)), 503, id="not one good"),
    ],
)
def test_readiness_at_the_start(first: Content, code: int) -> None:
    state = ServerState(Sources(lambda: first, lambda: 0), ("en",))
    app = create_app(state, Metrics(state, None), answer=steered_answer)
    answer = app.test_client().get("/readyz")
    assert answer.status_code == code
    assert orjson.loads(answer.data)["problems"] == [str(problem) for problem in first.problems]


def test_nobody_is_told_of_a_review_where_nobody_wants_to_know(
    client: FlaskClient, capfd: pytest.CaptureFixture[str]
) -> None:
    assert send(client, review()).status_code == 200
    assert capfd.readouterr() == ("", "")


def test_one_line_a_review(state: ServerState, metrics: Metrics, capfd: pytest.CaptureFixture[str]) -> None:
    client = create_app(state, metrics, say=ReviewLog(), answer=steered_answer).test_client()
    send(client, review("trainer", namespace="team-a", userInfo={"username": "eve"}))
    [text] = capfd.readouterr().err.splitlines()
    line = orjson.loads(text)
    assert line.pop("duration_ms") > 0
    assert datetime.fromisoformat(line.pop("ts")).tzinfo is UTC
    assert line == {
        "event": "review",
        "level": "info",
        "uid": "u-1",
        "decision_id": "d1",
        "webhook": "mutate",
        "operation": "CREATE",
        "kind": "Pod",
        "namespace": "team-a",
        "name": "trainer",
        "user": "eve",
        "dry_run": False,
        "decision": "allow",
        "failed": [],
        "changes": ["spec.priorityClassName"],
        "would_change": [],
        "warnings": 0,
        "policies": "one",
    }
