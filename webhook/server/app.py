"""The Flask application: health, metrics and errors; reviews go past its routing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import structlog
from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from webhook.admission import answer_review
from webhook.server.logs import LOST
from webhook.server.metrics import CONTENT_TYPE
from webhook.server.reload import MAX_PROBLEMS
from webhook.server.reviews import JSON, ReviewRoutes, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.admission import Answer, ReviewRecord
    from webhook.server.certificate import ServingCertificate
    from webhook.server.metrics import Metrics
    from webhook.server.state import ServerState

log = structlog.get_logger()


def create_app(
    state: ServerState,
    metrics: Metrics,
    certificate: ServingCertificate | None = None,
    *,
    say: Callable[[ReviewRecord, float], object] | None = None,
    answer: Callable[..., Answer] = answer_review,
) -> Flask:
    """The whole application.

    Args:
        state: What is served.
        metrics: What is counted.
        certificate: Whose faults ``/readyz`` shows; None where TLS ends elsewhere, as in tests.
        say: As `ReviewRoutes` takes it.
        answer: The core; another one in tests.
    """
    app = Flask(__name__, static_folder=None)
    _add_health(app, state, certificate)
    _add_errors(app)
    app.add_url_rule("/metrics", "metrics", lambda: Response(metrics.exposition(), content_type=CONTENT_TYPE))
    app.wsgi_app = ReviewRoutes(  # type: ignore[method-assign]  # Flask's own way to add a middleware
        app.wsgi_app, state, metrics, say=say, answer=answer
    )
    return app


def _add_health(app: Flask, state: ServerState, certificate: ServingCertificate | None) -> None:
    @app.get("/livez")
    def livez() -> Response:
        return _json(200, {"live": True})

    @app.get("/readyz")
    def readyz() -> Response:
        return _json(200 if state.ready else 503, readiness(state, certificate))


def readiness(state: ServerState, certificate: ServingCertificate | None) -> dict[str, Any]:
    """What ``/readyz`` says. Faults are shown; once ready they do not change the answer's code."""
    content = state.content
    return {
        "ready": state.ready,
        "policies": len(content.policy_set),
        "hash": content.policy_set.hash,
        "settled": state.settled,
        "fault": state.fault,
        "problems": [str(problem) for problem in content.problems[:MAX_PROBLEMS]],
        "certificate": _certificate(certificate),
        "lostLogLines": LOST.count,
        **(state.live.readiness() if state.live is not None else {}),
    }


def _certificate(certificate: ServingCertificate | None) -> dict[str, str]:
    if certificate is None:
        return {}
    expires = certificate.expires.isoformat() if certificate.expires else ""
    return {"expires": expires, "fault": certificate.fault}


def _add_errors(app: Flask) -> None:
    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        code = error.code if error.code in {404, 405} else 400
        reason = {404: "NotFound", 405: "MethodNotAllowed"}.get(code, "BadRequest")
        reply = refusal(code, reason, error.name)
        headers = [(name, value) for name, value in error.get_headers() if name == "Allow"]
        return Response(reply.body, code, headers, content_type=JSON)

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Response:
        log.error("a request failed: this is a bug", exc_info=error)
        return Response(
            refusal(500, "InternalError", "internal error, see the log").body, 500, content_type=JSON
        )


def _json(code: int, body: dict[str, Any]) -> Response:
    return Response(orjson.dumps(body) + b"\n", code, content_type=JSON)
