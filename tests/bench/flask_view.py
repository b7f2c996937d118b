"""`podgate serve` with a Flask view that allows everything: what a webhook costs that is written the ordinary way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Response, request

from webhook.admission import Endpoint
from webhook.cli.bench import always_allow
from webhook.cli.main import main
from webhook.server import gateway
from webhook.server.app import create_app

if TYPE_CHECKING:
    from flask import Flask


def with_view(*args: Any, **kwargs: Any) -> Flask:
    """The application with its reviews behind Flask's routing."""
    app = create_app(*args, **kwargs)
    del app.wsgi_app  # the hot routes, in front of Flask's own
    for endpoint in Endpoint:
        app.add_url_rule(
            f"/{endpoint}", f"review {endpoint}", lambda to=endpoint: _allow(to), methods=["POST"]
        )
    return app


def _allow(endpoint: Endpoint) -> Response:
    return Response(always_allow(request.get_data(), endpoint).body, content_type="application/json")


def serve() -> None:
    """Run `podgate` with the view."""
    vars(gateway)["create_app"] = with_view
    main()
