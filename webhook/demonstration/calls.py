"""The calls for one workload, in the order of an API server, and what came of them."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any, NamedTuple

import jsonpatch
import orjson

from webhook.demonstration.gateway import post
from webhook.demonstration.reviews import about_to_be_stored, review
from webhook.kube.field_path import mapping_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http.client import HTTPSConnection

    from webhook.demonstration.workloads import Workload

MUTATING = ("mutate.podgate.dev", "/mutate?timeout=3s")
VALIDATING = (
    ("fail.validate.podgate.dev", "/validate/fail?timeout=2s"),
    ("ignore.validate.podgate.dev", "/validate/ignore?timeout=2s"),
)
CHANGES = "podgate.dev/changes"
POLICIES = "podgate.dev/policies"


class Result(NamedTuple):
    """What the gateway made of one workload.

    Attributes:
        received: the object before the first call.
        mutated: the object with the patch applied.
        refusals: what a user reads who created it, one text for each webhook that refused.
        warnings: of all calls.
        seconds: of the mutating call, and of each validating one.
    """

    workload: Workload
    received: Mapping[str, Any]
    mutated: Mapping[str, Any]
    refusals: tuple[str, ...]
    warnings: tuple[str, ...]
    seconds: tuple[float, ...]

    @property
    def changed_by(self) -> tuple[str, ...]:
        """The rules that changed the object, as it says itself."""
        text = mapping_at(self.mutated, ("metadata", "annotations")).get(CHANGES)
        entries = orjson.loads(text) if text else []
        return tuple(dict.fromkeys(entry["rule"] for entry in entries if "rule" in entry))

    @property
    def verdict(self) -> str:
        """In a few words."""
        if self.refusals:
            return "refused"
        if self.received == self.mutated:
            return "admitted unchanged"
        return f"admitted, changed by {', '.join(self.changed_by)}"


def create(connection: HTTPSConnection, workload: Workload, thing: Mapping[str, Any], time: str) -> Result:
    """Create an object as far as the webhooks are concerned.

    Args:
        connection: to the gateway.
        workload: where the object comes from.
        thing: the object as the API server received it.
        time: of the call, RFC 3339.

    Raises:
        GatewayError, OSError, http.client.HTTPException: see `post`.
    """
    name, path = MUTATING
    first = post(connection, path, review(workload, thing, name))
    mutated = _patched(thing, first.response)
    stored = about_to_be_stored(workload, mutated, time)
    others = [(name, post(connection, path, review(workload, stored, name))) for name, path in VALIDATING]
    replies = [first, *(reply for _, reply in others)]
    return Result(
        workload,
        thing,
        mutated,
        tuple(_refusal(name, reply.response) for name, reply in others if not reply.response["allowed"]),
        tuple(text for reply in replies for text in reply.response.get("warnings", ())),
        tuple(reply.seconds for reply in replies),
    )


def _patched(thing: Mapping[str, Any], response: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object with the patch; a gateway that has just begun only marks what it leaves as it is, which is no change here."""
    operations = orjson.loads(b64decode(response.get("patch", "")) or b"[]")
    if all(_marks(operation) for operation in operations):
        return thing
    patched: Mapping[str, Any] = jsonpatch.apply_patch(thing, operations)
    return patched


def _marks(operation: Mapping[str, Any]) -> bool:
    """Whether an operation does no more than name the policies (docs/decisions/0007-change-over.md)."""
    value, path = operation.get("value"), operation["path"]
    return path.endswith(POLICIES.replace("/", "~1")) or (
        isinstance(value, dict) and value.keys() == {POLICIES}
    )


def _refusal(name: str, response: Mapping[str, Any]) -> str:
    """As kubectl prints it (kubernetes/apiserver:pkg/admission/plugin/webhook/errors/statuserror.go, ToStatusErr)."""
    return f'admission webhook "{name}" denied the request: {response["status"]["message"]}'
