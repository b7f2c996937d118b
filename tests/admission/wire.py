"""AdmissionReviews as an API server sends them, and what it demands of an answer."""

import re
from base64 import b64decode
from typing import Any

import jsonpatch
import orjson

from tests.engine.gates import Json, facts
from webhook.admission import Answer, Endpoint, answer_review
from webhook.policy import PolicySet

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
RESOURCES = {
    "Pod": ("", "v1", "pods"),
    "PersistentVolumeClaim": ("", "v1", "persistentvolumeclaims"),
    "Deployment": ("apps", "v1", "deployments"),
}

_QUALIFIED_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ANSWER_KEYS = {"uid", "allowed", "status", "patch", "patchType", "warnings", "auditAnnotations"}


def review_of(thing: Any, operation: str = "CREATE", *, kind: str = "Pod", **others: Any) -> Json:
    """An AdmissionReview of v1 (kubernetes/api:admission/v1/types.go)."""
    group, version, resource = RESOURCES[kind]
    group_kind = {"group": group, "version": version, "kind": kind}
    group_resource = {"group": group, "version": version, "resource": resource}
    request: Json = {
        "uid": UID,
        "kind": group_kind,
        "resource": group_resource,
        "requestKind": group_kind,
        "requestResource": group_resource,
        "namespace": "training",
        "operation": operation,
        "userInfo": {"username": "ann", "groups": ["system:authenticated"], "extra": {"scopes": ["a"]}},
        "object": thing,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request | others}


def call(review: Any, endpoint: Endpoint, policies: PolicySet, **others: Any) -> Answer:
    """The answer to one call, bytes to bytes."""
    body = review if isinstance(review, bytes) else orjson.dumps(review)
    given: Json = {"policy_set": policies, "facts": facts()} | others
    return answer_review(body, endpoint, **given)


def response_of(review: Json, endpoint: Endpoint, policies: PolicySet, **others: Any) -> Json:
    """The response to one call, after proof that the API server takes it."""
    answer = orjson.loads(call(review, endpoint, policies, **others).body)
    check_answer(answer, review, mutating=endpoint is Endpoint.MUTATE)
    response: Json = answer["response"]
    return response


def patch_of(response: Json) -> list[Json]:
    """The JSON Patch of a response."""
    patch: list[Json] = (
        orjson.loads(b64decode(response["patch"], validate=True)) if "patch" in response else []
    )
    return patch


def patched(thing: Json, response: Json) -> Json:
    """The object as another library makes it of a response."""
    result: Json = jsonpatch.apply_patch(thing, patch_of(response))
    return result


def check_answer(answer: Any, review: Json, *, mutating: bool) -> None:
    """The rules of the wire, one by one.

    Sources: kubernetes/apiserver:pkg/admission/plugin/webhook/request/admissionreview.go (VerifyAdmissionResponse),
    plugin/webhook/errors/statuserror.go, pkg/audit/context.go and pkg/admission/audit.go (annotation keys).
    """
    assert set(answer) == {"apiVersion", "kind", "response"}
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answer["response"]
    assert set(response) <= _ANSWER_KEYS
    assert response["uid"] == review["request"]["uid"]
    assert type(response["allowed"]) is bool
    _check_patch(response, review["request"], mutating=mutating)
    _check_status(response, mutating=mutating)
    assert response.get("warnings", ["x"]), "an empty list says nothing"
    for warning in response.get("warnings", []):
        assert isinstance(warning, str)
        assert 0 < len(warning) <= 256
        assert not _CONTROL.search(warning)
    assert len(set(response.get("warnings", []))) == len(response.get("warnings", [])), (
        "the API server drops a second one"
    )
    assert sum(map(len, response.get("warnings", []))) <= 4096 - 1024, "others warn, too"
    for key, value in response.get("auditAnnotations", {}).items():
        assert _QUALIFIED_NAME.fullmatch(key), "a prefix is the API server's"
        assert isinstance(value, str)
        assert len(value.encode()) <= 10 * 1024
        assert not _CONTROL.search(value)


def _check_patch(response: Json, request: Json, *, mutating: bool) -> None:
    assert ("patch" in response) == ("patchType" in response)
    if "patch" in response:
        assert mutating, "a patch in a validating answer is an internal error"
        assert response["patchType"] == "JSONPatch"
        assert request["object"] is not None
        operations = patch_of(response)
        assert operations, "no patch where nothing changed"
        for operation in operations:
            assert set(operation) == {"op", "path"} | ({"value"} if operation["op"] != "remove" else set())
            assert operation["op"] in ("add", "remove", "replace")
            assert operation["path"].startswith("/")


def _check_status(response: Json, *, mutating: bool) -> None:
    assert ("status" in response) == (not response["allowed"])
    if response["allowed"]:
        return
    assert not mutating, "/mutate never refuses"
    status = response["status"]
    assert set(status) == {"code", "reason", "status", "message", "details"}
    assert (status["code"], status["reason"], status["status"]) == (403, "Forbidden", "Failure")
    assert status["message"]
    assert all(not _CONTROL.search(line) for line in status["message"].split("\n"))
    assert 0 < len(status["details"]["causes"]) <= 50
    for cause in status["details"]["causes"]:
        assert set(cause) == {"reason", "message", "field"}
        assert cause["reason"]
        assert not _CONTROL.search("".join(cause.values()))
