"""Bytes to an admission request; unknown fields are fine, a call that is none is a `BadReviewError`."""

from collections.abc import Mapping
from typing import Any

import orjson

from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.plain_text import plain

API_VERSION = "admission.k8s.io/v1"
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")


class BadReviewError(ValueError):
    """The call is no AdmissionReview that can be answered: HTTP 400. The text is safe to show."""


def parse_review(body: bytes) -> AdmissionRequest:
    """An AdmissionReview's request.

    Args:
        body: the bytes of the call, JSON.

    Raises:
        BadReviewError: it is no JSON, no AdmissionReview of v1, or has no request with uid, kind, resource and operation.
    """
    review = _object(_decode(body), "the body")
    if review.get("kind") != "AdmissionReview" or review.get("apiVersion") != API_VERSION:
        found = f"{plain(review.get('apiVersion'), 40)} {plain(review.get('kind'), 40)}"
        raise BadReviewError(f"expected {API_VERSION} AdmissionReview, found {found}")
    request = _object(review.get("request"), "request")
    kind, resource = (
        _object(request.get("kind"), "request.kind"),
        _object(request.get("resource"), "request.resource"),
    )
    user = _mapping(request.get("userInfo"))
    operation = _text(request, "operation")
    if operation not in OPERATIONS:
        raise BadReviewError(
            f"request.operation: expected one of {', '.join(OPERATIONS)}, found {plain(operation, 40)}"
        )
    return AdmissionRequest(
        uid=_text(request, "uid"),
        group=str(kind.get("group") or ""),
        version=str(kind.get("version") or ""),
        kind=_text(kind, "kind"),
        resource=_text(resource, "resource"),
        subresource=str(request.get("subResource") or ""),
        operation=operation,
        namespace=str(request.get("namespace") or ""),
        name=str(request.get("name") or ""),
        username=str(user.get("username") or ""),
        groups=tuple(group for group in user.get("groups") or () if isinstance(group, str)),
        object=_optional(request, "object"),
        old_object=_optional(request, "oldObject"),
        dry_run=request.get("dryRun") is True,
        raw=_shown_to_expressions(request),
    )


def uid_of(body: bytes) -> str:
    """The uid of a call, if it can be read at all; "" else. For answers to calls that failed."""
    try:
        uid = _mapping(_mapping(_decode(body)).get("request")).get("uid")
    except BadReviewError:
        return ""
    return plain(uid, 64) if isinstance(uid, str) else ""


def _shown_to_expressions(request: Mapping[str, Any]) -> dict[str, Any]:
    """`request` of an expression: all but the objects, which are variables of their own."""
    return {key: value for key, value in request.items() if key not in ("object", "oldObject")}


def _decode(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReviewError(f"the body is no JSON: {plain(error)}") from None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadReviewError(
            f"{where}: expected an object, found {'nothing' if value is None else type(value).__name__}"
        )
    return value


def _optional(request: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    return None if request.get(key) is None else _object(request[key], f"request.{key}")


def _text(part: Mapping[str, Any], key: str) -> str:
    value = part.get(key)
    if not isinstance(value, str) or not value:
        raise BadReviewError(f"{key}: expected a string that is not empty")
    return value
