"""The hot routes: reviews, answered in front of Flask's routing (docs/decisions/0002-hot-routes.md)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import structlog

from webhook.admission import BadReviewError, Endpoint, answer_review
from webhook.server.deadline import Deadline, review_seconds
from webhook.server.logs import trace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from webhook.admission import Answer, ReviewRecord
    from webhook.server.metrics import Metrics
    from webhook.server.state import ServerState

log = structlog.get_logger()

#: The largest body taken. An object is at most 1.5 MiB in etcd (its default request limit), a review holds
#: the old one, too, and JSON is up to twice the stored form; controller-runtime comes to the same 7 MB
#: (kubernetes-sigs/controller-runtime:pkg/webhook/admission/http.go).
MAX_BODY = 7 * 1024 * 1024

JSON = "application/json"
_ENDPOINTS = {f"/{endpoint}": endpoint for endpoint in Endpoint}
_PHRASES = {
    200: "200 OK",
    400: "400 Bad Request",
    404: "404 Not Found",
    405: "405 Method Not Allowed",
    413: "413 Content Too Large",
    415: "415 Unsupported Media Type",
    500: "500 Internal Server Error",
}
_MAX_UID = 64  # a UUID has 36


class Reply(NamedTuple):
    """An HTTP answer with a JSON body."""

    code: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def status(self) -> str:
        """The status line's code and phrase."""
        return _PHRASES[self.code]

    def as_http(self) -> bytes:
        """The whole answer of a connection that ends with it, for what never became a request."""
        head = f"HTTP/1.1 {self.status}\r\nConnection: close\r\nContent-Type: {JSON}\r\n"
        return f"{head}Content-Length: {len(self.body)}\r\n\r\n".encode() + self.body


def refusal(code: int, reason: str, message: str, *headers: tuple[str, str]) -> Reply:
    """An answer that is no review: a ``Status``, whose message the API server shows to the user.

    See ``Result.Error`` in kubernetes/client-go:rest/request.go.
    """
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    body = orjson.dumps({**status, "message": message, "reason": reason, "code": code})
    return Reply(code, body + b"\n", headers)


class ReviewRoutes:
    """WSGI: the four review paths here, everything else passed on.

    Args:
        rest: Whatever else is served.
        state: What reviews are answered from; its content is read once a review.
        metrics: Where they are counted.
        say: Told of each review that was answered, and how many seconds it took; None where nobody wants to know.
        answer: The core, `webhook.admission.answer_review`.
    """

    def __init__(
        self,
        rest: WSGIApplication,
        state: ServerState,
        metrics: Metrics,
        *,
        say: Callable[[ReviewRecord, float], object] | None = None,
        answer: Callable[..., Answer] = answer_review,
    ) -> None:
        self._rest = rest
        self._state = state
        self._metrics = metrics
        self._say = say
        self._answer = answer

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        endpoint = _ENDPOINTS.get(environ["PATH_INFO"])
        if endpoint is None:
            return self._rest(environ, start_response)
        self._metrics.inflight.inc()
        try:
            reply = self._reply(environ, endpoint)
        finally:
            self._metrics.inflight.dec()
        headers = [("Content-Type", JSON), ("Content-Length", str(len(reply.body))), *reply.headers]
        start_response(reply.status, headers)
        return [reply.body]

    def _reply(self, environ: WSGIEnvironment, endpoint: Endpoint) -> Reply:
        if environ["REQUEST_METHOD"] != "POST":
            return self._refuse("method", 405, "MethodNotAllowed", "POST a review here", ("Allow", "POST"))
        if media_type(environ) != JSON:
            return self._refuse("content_type", 415, "UnsupportedMediaType", f"send a review as {JSON}")
        body = read_body(environ)
        if body is None:
            return self._refuse(
                "body_too_large", 413, "RequestEntityTooLarge", f"a review has at most {MAX_BODY} bytes"
            )
        return self._review(body, endpoint, environ.get("QUERY_STRING", ""))

    def _review(self, body: bytes, endpoint: Endpoint, query: str) -> Reply:
        started = time.perf_counter()
        now, deadline = datetime.now(UTC), Deadline(review_seconds(query))
        policy_set, facts = self._state.in_force(now, deadline, len(body))
        try:
            answer = self._answer(
                body,
                endpoint,
                policy_set=policy_set,
                facts=facts,
                settled=self._state.settled,
                languages=self._state.languages,
                deadline=deadline,
                now=now,
            )
        except BadReviewError as error:
            return self._refuse("bad_review", 400, "BadRequest", str(error))
        except Exception as error:  # noqa: BLE001  # our own bug: the webhook entry's failurePolicy has the last word
            return self._bug(error, body, endpoint)
        self._record(answer.record, time.perf_counter() - started, deadline)
        return Reply(200, answer.body)

    def _record(self, record: ReviewRecord, seconds: float, deadline: Deadline) -> None:
        """Count and log; an answer that was found is sent even where this fails."""
        try:
            self._metrics.count_review(record, seconds, out_of_time=deadline.passed)
            if self._say is not None:
                self._say(record, seconds)
        except Exception as error:  # noqa: BLE001  # what was found is sent whatever becomes of its record
            log.error("a review could not be recorded", exception=trace_of(error))  # noqa: TRY400  # it would quote values

    def _bug(self, error: Exception, body: bytes, endpoint: Endpoint) -> Reply:
        uid = uid_of(body)
        trace = trace_of(error)
        log.error("a review failed: this is a bug", uid=uid, webhook=str(endpoint), exception=trace)
        return self._refuse("bug", 500, "InternalError", f"internal error in review {uid or 'without uid'}")

    def _refuse(self, counted: str, code: int, reason: str, message: str, *headers: tuple[str, str]) -> Reply:
        self._metrics.count_rejected(counted)
        return refusal(code, reason, message, *headers)


def media_type(environ: WSGIEnvironment) -> str:
    """The request's media type, without parameters."""
    return str(environ.get("CONTENT_TYPE", "")).partition(";")[0].strip().lower()


def read_body(environ: WSGIEnvironment) -> bytes | None:
    """The whole body, or None if it is above `MAX_BODY`; whatever else goes wrong is the connection's end."""
    length = str(environ.get("CONTENT_LENGTH") or "")
    if length.isdecimal() and int(length) > MAX_BODY:
        return None
    body: bytes = environ["wsgi.input"].read(MAX_BODY + 1)
    return body if len(body) <= MAX_BODY else None


def uid_of(body: bytes) -> str:
    """The uid of a review that could not be answered, if it has one that can be shown."""
    try:
        review: Any = orjson.loads(body)
        uid = review["request"]["uid"]
    except (ValueError, TypeError, KeyError):
        return ""
    return uid if isinstance(uid, str) and len(uid) <= _MAX_UID and uid.isprintable() else ""
