"""The calls, against a real HTTP server."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import certs
from tests.cluster.scripted_server import Reply, Request, ScriptedServer, kubeconfig, status
from webhook.cluster import Api, ApiError, configuration, patience
from webhook.cluster import api as api_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATH = "/api/v1/namespaces/x/configmaps/y"
OBJECT = {"kind": "ConfigMap", "metadata": {"name": "y"}}
EVENT = {"type": "ADDED", "object": OBJECT}


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[..., tuple[Api, ScriptedServer]]]:
    """``connect(answer, **user)``: a server that answers so, and an Api for it."""
    servers: list[ScriptedServer] = []

    def run(answer: Callable[[Request, Reply], None], **user: str) -> tuple[Api, ScriptedServer]:
        server = ScriptedServer(answer).__enter__()
        servers.append(server)
        (tmp_path / "config").write_text(kubeconfig(server.url, **user))
        return Api.connect(tmp_path / "config"), server

    yield run
    for server in servers:
        server.__exit__()


def _echo(_: Request, reply: Reply) -> None:
    reply.json(200, OBJECT)


def _watch(api: Api, **more: Any) -> list[dict[str, Any]]:
    return list(api.watch("/api/v1/namespaces", resource_version="7", timeout_seconds=30, **more))


@pytest.mark.parametrize(
    ("call", "method", "query", "media_type", "body"),
    [
        pytest.param(lambda a: a.get(PATH, limit=3), "GET", {"limit": "3"}, None, b"", id="get"),
        pytest.param(
            lambda a: a.create(PATH, OBJECT),
            "POST",
            {"fieldManager": "podgate"},
            "application/json",
            OBJECT,
            id="create",
        ),
        pytest.param(
            lambda a: a.create(PATH, OBJECT, dry_run=True),
            "POST",
            {"fieldManager": "podgate", "dryRun": "All"},
            "application/json",
            OBJECT,
            id="create, dry run",
        ),
        pytest.param(
            lambda a: a.update(PATH, OBJECT, dry_run=True),
            "PUT",
            {"fieldManager": "podgate", "dryRun": "All"},
            "application/json",
            OBJECT,
            id="update, dry run",
        ),
        pytest.param(
            lambda a: a.apply(PATH, OBJECT),
            "PATCH",
            {"fieldManager": "podgate", "force": "true"},
            "application/apply-patch+yaml",
            OBJECT,
            id="apply",
        ),
        pytest.param(
            lambda a: a.apply(PATH, OBJECT, dry_run=True, force=False),
            "PATCH",
            {"fieldManager": "podgate", "force": "false", "dryRun": "All"},
            "application/apply-patch+yaml",
            OBJECT,
            id="apply, dry run, without force",
        ),
        pytest.param(
            lambda a: a.merge_patch(PATH, {"data": None}),
            "PATCH",
            {"fieldManager": "podgate"},
            "application/merge-patch+json",
            {"data": None},
            id="merge patch",
        ),
        pytest.param(
            lambda a: a.delete(PATH, dry_run=True) or OBJECT,
            "DELETE",
            {"dryRun": "All"},
            None,
            b"",
            id="delete, dry run",
        ),
    ],
)
def test_what_is_sent(
    connect: Callable[..., tuple[Api, ScriptedServer]],
    call: Callable[[Api], Any],
    method: str,
    query: dict[str, str],
    media_type: str | None,
    body: Any,
) -> None:
    api, server = connect(_echo)
    assert call(api) == OBJECT
    (request,) = server.requests
    assert (request.method, request.path, request.query) == (method, PATH, query)
    assert request.headers.get("Content-Type") == media_type
    assert (json.loads(request.body) if request.body else b"") == body


def test_a_connection_serves_several_calls(connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
    api, server = connect(_echo)
    for _ in range(3):
        api.get(PATH)
    assert len(server._connections) == 1


def test_an_object_that_is_not_there_is_deleted(connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
    api, _ = connect(lambda _, reply: reply.json(404, status(404, "NotFound", "gone")))
    api.delete(PATH)
    with pytest.raises(ApiError):
        api.get(PATH)


def test_an_object_that_is_not_there_is_none_and_what_may_not_be_read_is_an_error(
    connect: Callable[..., tuple[Api, ScriptedServer]],
) -> None:
    api, server = connect(lambda _, reply: reply.json(404, status(404, "NotFound", "gone")))
    assert api.find(PATH) is None
    server.answer = lambda _, reply: reply.json(200, {"kind": "ConfigMap"})
    assert api.find(PATH) == {"kind": "ConfigMap"}
    server.answer = lambda _, reply: reply.json(403, status(403, "Forbidden", "no"))
    with pytest.raises(ApiError, match="403 Forbidden"):
        api.find(PATH)


@pytest.mark.parametrize(
    ("code", "reason", "said", "expected"),
    [
        (404, "NotFound", 'configmaps "y" not found', '404 NotFound; configmaps "y" not found'),
        (
            403,
            "Forbidden",
            "User x cannot get",
            (
                "403 Forbidden; User x cannot get; the user lacks a permission: see the Roles in deploy/, and ask "
                "with `kubectl auth can-i`"
            ),
        ),
        (
            401,
            "Unauthorized",
            "Unauthorized",
            (
                "401 Unauthorized; Unauthorized; the credentials were not accepted: they may have expired, belong to "
                "another cluster, or be missing because an exec plugin failed"
            ),
        ),
        (500, "InternalError", "line\none\x1b[31m", "500 InternalError; line\\u000aone\\u001b[31m"),
    ],
    ids=["not found", "forbidden", "unauthorized", "a text that would forge lines"],
)
def test_a_refusal_says_what_to_do(
    connect: Callable[..., tuple[Api, ScriptedServer]], code: int, reason: str, said: str, expected: str
) -> None:
    api, server = connect(lambda _, reply: reply.json(code, status(code, reason, said)))
    with pytest.raises(ApiError) as raised:
        api.get(PATH)
    assert (raised.value.status, raised.value.reason) == (code, reason)
    assert raised.value.body == status(code, reason, said)
    assert str(raised.value) == raised.value.message == f"{server.url} GET {PATH}: {expected}"


@pytest.mark.parametrize(
    ("header", "expected"),
    [("3", 3.0), ("999999", 3600.0), ("soon", None), ("-1", None), ("٣", None)],
)
def test_retry_after(
    connect: Callable[..., tuple[Api, ScriptedServer]], header: str, expected: float | None
) -> None:
    def answer(_: Request, reply: Reply) -> None:
        reply.plain(429, b"Too many requests", Retry_After=header.encode().decode("latin-1"))

    api, _ = connect(answer)
    with pytest.raises(ApiError, match="429; Too many requests") as raised:
        api.get(PATH)
    assert raised.value.retry_after == expected
    assert raised.value.body is None


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"", b"1"])
def test_an_answer_that_is_no_object(
    connect: Callable[..., tuple[Api, ScriptedServer]], answer: bytes
) -> None:
    api, _ = connect(lambda _, reply: reply.plain(200, answer))
    with pytest.raises(ApiError, match="is this an API server") as raised:
        api.get(PATH)
    assert raised.value.status == 0


def test_a_redirection_is_not_followed(connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
    api, server = connect(lambda _, reply: reply.plain(302, b"", Location="http://127.0.0.1:1/"))
    with pytest.raises(ApiError) as raised:
        api.get(PATH)
    assert raised.value.status == 302
    assert len(server.requests) == 1


def test_nobody_listens(connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
    api, server = connect(_echo)
    server.__exit__()
    with pytest.raises(
        ApiError, match=r"GET .*no connection: .*refused; is the API server up, and is this its address\?"
    ) as raised:
        api.get(PATH)
    assert raised.value.status == 0


def test_no_answer(
    connect: Callable[..., tuple[Api, ScriptedServer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "READ_SECONDS", 0.2)
    api, _ = connect(lambda _, reply: reply.hang())
    started = time.monotonic()
    with pytest.raises(ApiError, match="no answer in time"):
        api.get(PATH)
    assert time.monotonic() - started < 2


def test_an_answer_that_never_ends(
    connect: Callable[..., tuple[Api, ScriptedServer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "MAX_ANSWER", 1000)

    def answer(_: Request, reply: Reply) -> None:
        reply.stream()
        while not reply.stopping.is_set():
            reply.piece(b" " * 500)

    api, _ = connect(answer)
    with pytest.raises(ApiError, match="an answer of more than 1000 bytes"):
        api.get(PATH)


def test_an_answer_that_trickles(
    connect: Callable[..., tuple[Api, ScriptedServer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "ANSWER_SECONDS", 0.3)

    def answer(_: Request, reply: Reply) -> None:
        reply.stream()
        while not reply.stopping.wait(0.05):
            reply.piece(b" ")

    api, _ = connect(answer)
    with pytest.raises(ApiError, match="no answer in time"):
        api.get(PATH)


def test_pages(connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
    def answer(request: Request, reply: Reply) -> None:
        at = int(request.query.get("continue", "0"))
        more = {"continue": str(at + 1)} if at < 2 else {}
        reply.json(200, {"items": [at], "metadata": {"resourceVersion": "9", **more}})

    api, server = connect(answer)
    assert [page["items"] for page in api.pages(PATH, limit=1, labelSelector="a=b")] == [[0], [1], [2]]
    assert [dict(request.query) for request in server.requests] == [
        {"limit": "1", "labelSelector": "a=b"},
        {"limit": "1", "labelSelector": "a=b", "continue": "1"},
        {"limit": "1", "labelSelector": "a=b", "continue": "2"},
    ]


def test_a_page_without_metadata_is_the_last(connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
    api, _ = connect(lambda _, reply: reply.json(200, {"metadata": None}))
    assert list(api.pages(PATH)) == [{"metadata": None}]


class TestWatch:
    def test_events_come_when_they_happen(self, connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
        def answer(_: Request, reply: Reply) -> None:
            reply.stream()
            reply.event("ADDED", OBJECT)
            reply.hang()

        api, server = connect(answer)
        events = api.watch(
            "/api/v1/namespaces", resource_version="7", timeout_seconds=30, fieldSelector="a=b"
        )
        assert next(events) == EVENT
        events.close()  # type: ignore[attr-defined]
        assert server.requests[0].query == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "7",
            "timeoutSeconds": "30",
            "fieldSelector": "a=b",
        }

    def test_an_event_in_pieces_and_two_in_one(
        self, connect: Callable[..., tuple[Api, ScriptedServer]]
    ) -> None:
        line = json.dumps(EVENT).encode()

        def answer(_: Request, reply: Reply) -> None:
            reply.stream()
            reply.piece(line[:5])
            reply.piece(line[5:] + b"\n" + line + b"\n" + line[:9])
            reply.piece(line[9:] + b"\n")
            reply.end()

        api, _ = connect(answer)
        assert _watch(api) == [EVENT] * 3

    def test_the_server_ends_it(self, connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
        def answer(_: Request, reply: Reply) -> None:
            reply.stream()
            reply.end()

        api, _ = connect(answer)
        assert _watch(api) == []

    @pytest.mark.parametrize(
        ("sent", "expected"),
        [
            (b'{"type": "ADDED", "obj', "the connection broke"),
            (b"<html>\n", "a line that is no JSON"),
            (b"[1]\n", "a line that is no JSON object"),
            (b'{"status": "ok"}\n', "a line that is no event"),
        ],
        ids=["cut inside of an object", "garbage", "another value", "another object"],
    )
    def test_a_broken_stream(
        self, connect: Callable[..., tuple[Api, ScriptedServer]], sent: bytes, expected: str
    ) -> None:
        def answer(_: Request, reply: Reply) -> None:
            reply.stream()
            reply.event("ADDED", OBJECT)
            reply.piece(sent)
            reply.cut()

        api, _ = connect(answer)
        events = api.watch("/api/v1/namespaces", resource_version="7", timeout_seconds=30)
        assert next(events) == EVENT
        with pytest.raises(ApiError, match=expected) as raised:
            next(events)
        assert raised.value.status == 0

    def test_an_end_inside_of_an_object(self, connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
        def answer(_: Request, reply: Reply) -> None:
            reply.stream()
            reply.piece(b'{"type": ')
            reply.end()

        api, _ = connect(answer)
        with pytest.raises(ApiError, match="WATCH /api/v1/namespaces: the stream ended inside of an object"):
            _watch(api)

    def test_an_error_event(self, connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
        def answer(_: Request, reply: Reply) -> None:
            reply.stream()
            reply.event("ERROR", status(410, "Expired", "too old resource version"))
            reply.end()

        api, _ = connect(answer)
        with pytest.raises(ApiError, match="410 Expired; too old resource version") as raised:
            _watch(api)
        assert (raised.value.status, raised.value.reason) == (410, "Expired")

    def test_silence(self, connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
        def answer(_: Request, reply: Reply) -> None:
            reply.stream()
            reply.event("ADDED", OBJECT)
            reply.hang()

        api, _ = connect(answer)
        started = time.monotonic()
        assert _watch(api, silence_seconds=0.2) == [EVENT]
        assert time.monotonic() - started < 2

    def test_silence_inside_of_an_object(self, connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
        def answer(_: Request, reply: Reply) -> None:
            reply.stream()
            reply.piece(b'{"type": ')
            reply.hang()

        api, _ = connect(answer)
        with pytest.raises(ApiError, match="the stream ended inside of an object"):
            _watch(api, silence_seconds=0.2)

    def test_a_refusal_is_said_at_once(self, connect: Callable[..., tuple[Api, ScriptedServer]]) -> None:
        api, _ = connect(lambda _, reply: reply.json(403, status(403, "Forbidden", "no")))
        with pytest.raises(ApiError, match="403 Forbidden"):
            api.watch("/api/v1/namespaces", resource_version="7", timeout_seconds=30)


class TestCredentials:
    def test_a_token_is_sent_and_never_shown(
        self, connect: Callable[..., tuple[Api, ScriptedServer]]
    ) -> None:
        api, server = connect(
            lambda _, reply: reply.json(401, status(401, "Unauthorized", "no")), token="sesame"
        )
        with pytest.raises(ApiError) as raised:
            api.get(PATH)
        assert [r.headers["Authorization"] for r in server.requests] == ["Bearer sesame"]
        assert "sesame" not in f"{raised.value!r} {vars(raised.value)}"

    def test_the_end_of_a_files_line_is_no_part_of_a_token(
        self, connect: Callable[..., tuple[Api, ScriptedServer]], tmp_path: Path
    ) -> None:
        (tmp_path / "token").write_text("sesame\n")
        api, server = connect(_echo, tokenFile=str(tmp_path / "token"))
        assert api.get(PATH) == OBJECT
        assert server.requests[0].headers["Authorization"] == "Bearer sesame"

    @pytest.mark.parametrize("token", ["ses\name", "ses\rame", "sesame\u2026", "ses\x00ame"])
    def test_one_that_no_header_can_carry_is_not_shown(
        self, connect: Callable[..., tuple[Api, ScriptedServer]], token: str
    ) -> None:
        api, server = connect(_echo, token=token)
        with pytest.raises(ApiError) as raised:
            api.get(PATH)
        assert (
            raised.value.message
            == f"{server.url} GET {PATH}: the token holds characters that no token has: is its file intact?"
        )
        assert token not in "".join(traceback.format_exception(raised.value))
        assert server.requests == []

    def test_several_refused_at_the_same_time_are_all_renewed(
        self, connect: Callable[..., tuple[Api, ScriptedServer]], tmp_path: Path
    ) -> None:
        """One renews; the others must see that what they used is not what is known now."""
        all_refused = threading.Barrier(4)

        def answer(request: Request, reply: Reply) -> None:
            if request.headers["Authorization"] == "Bearer new":
                reply.json(200, OBJECT)
            else:
                all_refused.wait(5)
                reply.json(401, status(401, "Unauthorized", "no"))

        token = tmp_path / "token"
        token.write_text("old")
        api, _ = connect(answer, tokenFile=str(token))
        token.write_text("new")
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(api.get, [PATH] * 4)) == [OBJECT] * 4

    def test_one_that_was_replaced_is_read_again(
        self, connect: Callable[..., tuple[Api, ScriptedServer]], tmp_path: Path
    ) -> None:
        def answer(request: Request, reply: Reply) -> None:
            good = request.headers["Authorization"] == "Bearer new"
            reply.json(200, OBJECT) if good else reply.json(401, status(401, "Unauthorized", "no"))

        token = tmp_path / "token"
        token.write_text("old")
        api, server = connect(answer, tokenFile=str(token))
        token.write_text("new")
        assert api.get(PATH) == OBJECT
        assert api.get(PATH) == OBJECT
        assert len(server.requests) == 3

    def test_a_configuration_that_is_gone_meanwhile(
        self, connect: Callable[..., tuple[Api, ScriptedServer]], tmp_path: Path
    ) -> None:
        api, _ = connect(lambda _, reply: reply.json(401, status(401, "Unauthorized", "no")), token="t")
        (tmp_path / "config").write_text("")
        with pytest.raises(ApiError, match="401 Unauthorized"):
            api.get(PATH)

    def test_the_pods_own_token_is_read_again_each_minute(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from kubernetes.config import incluster_config

        token, ca = tmp_path / "token", tmp_path / "ca.crt"
        token.write_text("old")
        ca.write_text("a CA")
        monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
        monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
        api = Api.connect()
        assert api.server == "https://[::1]:6443"
        assert api._headers(None)["Authorization"] == "bearer old"
        monkeypatch.setattr("datetime.datetime", _InAnHour)
        token.write_text("")
        with pytest.raises(ApiError, match=r"GET .*/y: the credentials cannot be read \(ConfigException\)"):
            api.get(PATH)
        token.write_text("new")
        assert api._headers(None)["Authorization"] == "bearer new"

    def test_an_exec_plugin(self, tmp_path: Path) -> None:
        api = Api.connect(_with_plugin(tmp_path, "", "http://127.0.0.1:1"))
        assert api._headers(None)["Authorization"] == "Bearer from the plugin"

    def test_one_that_hangs_at_the_start(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.2)
        with pytest.raises(ApiError, match=r"config: the plugin that gives the credentials does not end: "):
            Api.connect(_with_plugin(tmp_path, "echo >> begun; sleep 1", "http://127.0.0.1:1"))

    @pytest.mark.parametrize("ends", ["", "2026-01-01T00:00:00Z"], ids=["when refused", "at its end"])
    def test_one_that_hangs_later_holds_up_no_call_and_is_begun_once(
        self,
        connect: Callable[..., tuple[Api, ScriptedServer]],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        ends: str,
    ) -> None:
        _, server = connect(lambda _, reply: reply.json(401, status(401, "Unauthorized", "no")))
        begun = tmp_path / "begun"
        hang = f"[ -e {begun} ] && {{ echo >> {begun}; sleep 3; }}"
        api = Api.connect(_with_plugin(tmp_path, hang, server.url, expirationTimestamp=ends))
        begun.touch()
        monkeypatch.setattr(patience, "PATIENCE_SECONDS", 0.2)
        began = time.monotonic()
        for _ in range(5):
            with pytest.raises(ApiError):
                api.get(PATH)
        assert time.monotonic() - began < 2
        assert begun.read_text() == "\n"


def _with_plugin(folder: Path, before: str, url: str, **more: str) -> Path:
    """A kubeconfig whose plugin does something before it gives a token."""
    plugin = folder / "plugin"
    credential = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"token": "from the plugin", **{name: value for name, value in more.items() if value}},
    }
    plugin.write_text(f"#!/bin/sh\n{before}\necho '{json.dumps(credential)}'\n")
    plugin.chmod(0o700)
    config = json.loads(kubeconfig(url))
    config["users"][0]["user"] = {"exec": {"apiVersion": credential["apiVersion"], "command": str(plugin)}}
    (folder / "config").write_text(json.dumps(config))
    return folder / "config"


class _InAnHour(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + timedelta(hours=1)


class TestTls:
    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[ScriptedServer]:
        now = datetime.now(UTC)
        ca = certs.new_ca(now=now)
        certs.write_pairs(tmp_path, ca=ca, serving=certs.serving_pair(ca, names=["127.0.0.1"], now=now))
        (tmp_path / "other.crt").write_bytes(certs.new_ca(now=now).certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
        with ScriptedServer(_echo, tls=context) as server:
            yield server

    def _api(self, folder: Path, server: ScriptedServer, **cluster: Any) -> Api:
        config = json.loads(kubeconfig(server.url))
        config["clusters"][0]["cluster"].update(cluster)
        (folder / "config").write_text(json.dumps(config))
        return Api.connect(folder / "config")

    def test_the_ca_is_verified(self, tmp_path: Path, server: ScriptedServer) -> None:
        trusting = {"certificate-authority": "ca.crt"}
        assert self._api(tmp_path, server, **trusting).get(PATH) == OBJECT

    def test_another_ca(self, tmp_path: Path, server: ScriptedServer) -> None:
        api = self._api(tmp_path, server, **{"certificate-authority": str(tmp_path / "other.crt")})
        with pytest.raises(
            ApiError, match=r"TLS failed: .*; do the CA and the client certificate belong"
        ) as raised:
            api.get(PATH)
        assert raised.value.status == 0

    def test_without_verification_there_is_no_warning(self, tmp_path: Path, server: ScriptedServer) -> None:
        assert self._api(tmp_path, server, **{"insecure-skip-tls-verify": True}).get(PATH) == OBJECT


class TestWhere:
    """Which configuration is taken."""

    @pytest.fixture(autouse=True)
    def _nowhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
            monkeypatch.delenv(name, raising=False)

    def test_none_at_all(self) -> None:
        with pytest.raises(ApiError, match=r"no cluster: there is no --kubeconfig, .*name a file"):
            Api.connect()

    def test_a_file_that_is_not_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ApiError, match=r"/none: no such file; name a kubeconfig with --kubeconfig"):
            Api.connect(tmp_path / "none")
        monkeypatch.setenv("KUBECONFIG", "/none")
        with pytest.raises(ApiError, match=r"/none \(from \$KUBECONFIG\): no such file"):
            Api.connect()

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "config: Invalid kube-config"),
            ("[", "config: cannot be read: ParserError; is it a kubeconfig?"),
            ("hello", "config: cannot be read: .*; is it a kubeconfig?"),
            ("{}", "config: Invalid kube-config"),
        ],
    )
    def test_a_broken_file(self, tmp_path: Path, text: str, expected: str) -> None:
        (tmp_path / "config").write_text(text)
        with pytest.raises(ApiError, match=expected) as raised:
            Api.connect(tmp_path / "config")
        assert raised.value.status == 0

    def test_a_context_that_is_not_there(self, tmp_path: Path) -> None:
        (tmp_path / "config").write_text(kubeconfig("http://a"))
        with pytest.raises(ApiError, match=r"config, context elsewhere: .*elsewhere"):
            Api.connect(tmp_path / "config", "elsewhere")

    def test_the_order(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("named", "environment", ".kube/config"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(kubeconfig(f"http://{name.rpartition('/')[2]}"))
        assert Api.connect().server == "http://config"
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        with pytest.raises(ApiError, match="the ServiceAccount of the pod: Service host/port is not set"):
            Api.connect()
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "environment"))
        assert Api.connect().server == "http://environment"
        assert Api.connect(tmp_path / "named").server == "http://named"
        assert Api.connect(tmp_path / "named", "there").server == "http://named"


def test_the_namespace_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "SERVICE_ACCOUNT", tmp_path)
    assert configuration.own_namespace() == ""
    (tmp_path / "namespace").write_text("ours\n")
    assert configuration.own_namespace() == "ours"


def test_the_client_library_is_not_imported_early() -> None:
    program = (
        "import sys, webhook.cluster, webhook.cluster.configuration\n"
        "sys.exit(bool({'kubernetes', 'urllib3'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
