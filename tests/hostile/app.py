"""The whole WSGI application on the shipped policies and one with patterns, without sockets."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tests.engine.gates import facts, load, policy, shipped_files
from webhook.server.app import create_app
from webhook.server.metrics import Metrics
from webhook.server.state import Content, ServerState, Sources

if TYPE_CHECKING:
    from flask.testing import FlaskClient

    from webhook.policy import PolicySet

BACKTRACKING = policy(
    "patterns",
    {
        "expression": {
            "resources": ["pods"],
            "validations": [{"expression": '!object.spec.?schedulerName.orValue("").matches("^(a+)+$")'}],
        }
    },
    mode="warn",
)


@cache
def policy_set() -> PolicySet:
    """Every shipped policy, and a pattern that other engines backtrack on."""
    return load(*shipped_files(), BACKTRACKING)


def make_client(*, policies: PolicySet | None = None, **others: Any) -> FlaskClient:
    """A client of a new application; on `policy_set` where no other policies are given."""
    served = policy_set() if policies is None else policies
    state = ServerState(Sources(lambda: Content(served, facts(), ()), lambda: 0), ("en", "zh"))
    return create_app(state, Metrics(state, None), **others).test_client()
