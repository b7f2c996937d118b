"""Bytes to an admission request; unknown fields are fine, a call that is none is a `BadReviewError`."""

from collections.abc import Mapping
from typing import Any

import orjson

from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.field_path import list_at
from webhook.kube.plain_text import plain

API_VERSION = "admission.k8s.io/v1"
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")

MOST_LEVELS = 254
"""What orjson writes, though it reads 1,024; no kind of Kubernetes nests a tenth of it."""

MOST_CONTAINERS = 200_000
"""Maps and lists in a body: 46 MB as Python objects, where 7 MiB of `{}` would be 200. No object that can be stored has as many:
the smallest map that means something, a variable with a name of two letters, takes 8 of etcd's 1.5 MiB."""

JSON_TYPES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}


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
    kind = _object(request.get("kind"), "request.kind")
    resource = _object(request.get("resource"), "request.resource")
    user = _object(request.get("userInfo") or {}, "request.userInfo")
    operation = _required(request, "request", "operation")
    if operation not in OPERATIONS:
        raise BadReviewError(
            f"request.operation: expected one of {', '.join(OPERATIONS)}, found {plain(operation, 40)}"
        )
    return AdmissionRequest(
        uid=_required(request, "request", "uid"),
        group=_text(resource, "request.resource", "group"),
        version=_text(kind, "request.kind", "version"),
        kind=_required(kind, "request.kind", "kind"),
        resource=_required(resource, "request.resource", "resource"),
        subresource=_text(request, "request", "subResource"),
        operation=operation,
        namespace=_text(request, "request", "namespace"),
        name=_text(request, "request", "name"),
        username=_text(user, "request.userInfo", "username"),
        groups=tuple(group for group in list_at(user, ("groups",)) if isinstance(group, str)),
        object=_optional(request, "object"),
        old_object=_optional(request, "oldObject"),
        dry_run=request.get("dryRun") is True,
        raw=request,
    )


def _decode(body: bytes) -> Any:
    """The JSON value; what is read without recursion must also be safe to walk with it."""
    # With those in strings: a bound, not a count. A short body has no room for as many.
    if len(body) > MOST_CONTAINERS and body.count(b"{") + body.count(b"[") > MOST_CONTAINERS:
        raise BadReviewError(f"the body holds more than {MOST_CONTAINERS} maps and lists")
    try:
        value = orjson.loads(body)
        orjson.dumps(value)
    except orjson.JSONDecodeError as error:
        raise BadReviewError(f"the body is no JSON: {plain(error)}") from None
    except orjson.JSONEncodeError:
        raise BadReviewError(f"the body is nested deeper than {MOST_LEVELS} levels") from None
    return value


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadReviewError(f"{where}: expected an object, found {_type_of(value)}")
    return value


def _optional(request: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    return None if request.get(key) is None else _object(request[key], f"request.{key}")


def _text(part: Mapping[str, Any], where: str, key: str) -> str:
    """A string, "" where it is absent or null."""
    value = part.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadReviewError(f"{where}.{key}: expected a string, found {_type_of(value)}")
    return value


def _required(part: Mapping[str, Any], where: str, key: str) -> str:
    value = _text(part, where, key)
    if not value:
        raise BadReviewError(f"{where}.{key}: expected a string that is not empty")
    return value


def _type_of(value: Any) -> str:
    return "nothing" if value is None else JSON_TYPES[type(value)]
