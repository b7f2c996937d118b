from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.admission.wire import UID, call, check_answer, review_of
from tests.engine.gates import Json, shipped_files, training_pod
from tests.engine.gates import load as load_policies
from webhook.admission import BadReviewError, Endpoint, parse_review
from webhook.admission.parse import MOST_CONTAINERS
from webhook.kube.admission_request import AdmissionRequest
from webhook.policy import PolicySet, load_policy_set

NAMESPACED: Json = {
    "uid": UID,
    "namespace": "training",
    "username": "ann",
    "groups": ("system:authenticated",),
}


def test_a_review_of_a_creation() -> None:
    review = review_of({"metadata": {}}, name="p", dryRun=True)
    raw = review["request"]
    assert parse_review(orjson.dumps(review)) == AdmissionRequest(
        kind="Pod", resource="pods", name="p", object={"metadata": {}}, dry_run=True, raw=raw, **NAMESPACED
    )


def test_only_what_is_needed_is_demanded() -> None:
    request = {"uid": "u", "kind": {"kind": "Pod"}, "resource": {"resource": "pods"}, "operation": "DELETE"}
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request, "more": [1]}
    assert parse_review(orjson.dumps(body)) == AdmissionRequest(
        uid="u", version="", kind="Pod", resource="pods", operation="DELETE", object=None, raw=request
    )


RESOURCE_NAMES: dict[str, tuple[Json, Json, str, str]] = {
    "pods": ({"kind": "Pod"}, {"resource": "pods"}, "", "pods"),
    "a subresource": ({"kind": "Pod"}, {"resource": "pods"}, "resize", "pods/resize"),
    "a group": ({"group": "apps", "kind": "Deployment"}, {"group": "apps", "resource": "deployments"}, "",
                "deployments.apps"),
    "a subresource whose kind has another group": (
        {"group": "autoscaling", "kind": "Scale"}, {"group": "apps", "resource": "deployments"}, "scale",
        "deployments.apps/scale",
    ),
    "an eviction is of pods": (
        {"group": "policy", "kind": "Eviction"}, {"group": "", "resource": "pods"}, "eviction", "pods/eviction",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "resource", "subresource", "name"), RESOURCE_NAMES.values(), ids=RESOURCE_NAMES
)
def test_resource_names(kind: Json, resource: Json, subresource: str, name: str) -> None:
    review = review_of({}, resource=resource, subResource=subresource)
    review["request"]["kind"] = kind
    assert parse_review(orjson.dumps(review)).resource_name == name


def put(path: str, value: Any) -> Json:
    """A good review with something else at one place."""
    review = review_of({"metadata": {}})
    *parents, last = path.split(".")
    node = review
    for parent in parents:
        node = node[parent]
    node[last] = value
    return review


def nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


# the body, the character at which it ceases to be JSON
NOT_JSON: dict[str, tuple[bytes, int]] = {
    "no UTF-8": (b"\xff", 0),
    "YAML": (b"kind: x", 0),
    "half": (b'{"a":', 5),
    "two": (b"{}{}", 2),
    "NaN": (b"NaN", 0),
    "a number beyond all bounds": (b"1e999", 0),
    "a lone surrogate": (b'"\\ud800"', 1),
    "an encoded surrogate": (b'"\xed\xa0\x80"', 0),
    "a raw NUL": (b'"a\x00"', 2),
    "10,000 levels": (nested(10_000), 1029),
}


@pytest.mark.parametrize(("body", "character"), NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_no_json(body: bytes, character: int) -> None:
    """What is wrong is said in the words of the library; where, by us."""
    with pytest.raises(
        BadReviewError,
        match=rf"^the body is no JSON: [a-zA-Z:8, -]+: line 1 column [0-9]+ \(char {character}\)$",
    ):
        parse_review(body)


@pytest.mark.parametrize("depth", [256, 500, 1_000], ids=str)
def test_what_is_nested_too_deep(depth: int) -> None:
    for body in (
        nested(depth),
        orjson.dumps(put("request.object", {"a": 0})).replace(b'{"a":0}', nested(depth)),
    ):
        with pytest.raises(BadReviewError, match="the body is nested deeper than 254 levels"):
            parse_review(body)


VERSION = "expected admission.k8s.io/v1 AdmissionReview, found "
NO_REVIEW: dict[str, tuple[Any, str]] = {
    "null": (None, "the body: expected an object, found nothing"),
    "a list": ([], "the body: expected an object, found a list"),
    "a text": ("x", "the body: expected an object, found a string"),
    "a number": (5, "the body: expected an object, found a number"),
    "a fraction": (5.5, "the body: expected an object, found a number"),
    "true": (True, "the body: expected an object, found a boolean"),
    "an empty map": ({}, VERSION + "None None"),
    "v1beta1": (put("apiVersion", "admission.k8s.io/v1beta1"), VERSION + "admission.k8s.io/v1beta1 AdmissionReview"),
    "a version that is long": (put("apiVersion", "v" * 41), VERSION + "v" * 39 + "… AdmissionReview"),
    "a pod": ({"apiVersion": "v1", "kind": "Pod"}, VERSION + "v1 Pod"),
    "a kind that clears the terminal": (put("kind", "\x1b[2J"), VERSION + "admission.k8s.io/v1 \\u001b[2J"),
    "a kind of another type": (put("kind", {"a": ["b"] * 100}), VERSION + f"admission.k8s.io/v1 {str({'a': ['b'] * 9})[:39]}…"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "why"), NO_REVIEW.values(), ids=NO_REVIEW)
def test_what_is_no_review(value: Any, why: str) -> None:
    with pytest.raises(BadReviewError) as found:
        parse_review(orjson.dumps(value))
    assert str(found.value) == why


A_TEXT, NOT_EMPTY, AN_OBJECT = (
    "expected a string",
    "expected a string that is not empty",
    "expected an object",
)
OPERATIONS = "expected one of CREATE, UPDATE, DELETE, CONNECT"

# place, what stands there -> what is said of the place
PLACES: list[tuple[str, Any, str]] = [
    ("request", None, f"{AN_OBJECT}, found nothing"),
    ("request", [], f"{AN_OBJECT}, found a list"),
    ("request.uid", None, NOT_EMPTY),
    ("request.uid", "", NOT_EMPTY),
    ("request.uid", 5, f"{A_TEXT}, found a number"),
    ("request.kind", None, f"{AN_OBJECT}, found nothing"),
    ("request.kind", "Pod", f"{AN_OBJECT}, found a string"),
    ("request.kind.kind", None, NOT_EMPTY),
    ("request.kind.version", 1, f"{A_TEXT}, found a number"),
    ("request.resource", None, f"{AN_OBJECT}, found nothing"),
    ("request.resource.resource", "", NOT_EMPTY),
    ("request.resource.group", [], f"{A_TEXT}, found a list"),
    ("request.subResource", {}, f"{A_TEXT}, found an object"),
    ("request.operation", None, NOT_EMPTY),
    ("request.operation", "create\n", f"{OPERATIONS}, found create\\u000a"),
    ("request.operation", "c" * 41, f"{OPERATIONS}, found {'c' * 39}…"),
    ("request.namespace", {"a": 1}, f"{A_TEXT}, found an object"),
    ("request.name", False, f"{A_TEXT}, found a boolean"),
    ("request.userInfo", "ann", f"{AN_OBJECT}, found a string"),
    ("request.userInfo.username", ["ann"], f"{A_TEXT}, found a list"),
    ("request.object", [], f"{AN_OBJECT}, found a list"),
    ("request.object", "", f"{AN_OBJECT}, found a string"),
    ("request.oldObject", False, f"{AN_OBJECT}, found a boolean"),
]


@pytest.mark.parametrize(("place", "value", "why"), PLACES, ids=[f"{each[0]} {each[1]!r}" for each in PLACES])
def test_what_is_no_request(place: str, value: Any, why: str) -> None:
    with pytest.raises(BadReviewError) as found:
        parse_review(orjson.dumps(put(place, value)))
    assert str(found.value) == f"{place}: {why}"


GROUPS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "null": (None, ()),
    "a number": (5, ()),
    "a text is no list of letters": ("system:nodes", ()),
    "a map": ({"system:nodes": True}, ()),
    "other types among them": (["a", 5, None, ["b"], "c"], ("a", "c")),
}


@pytest.mark.parametrize(("written", "read"), GROUPS.values(), ids=GROUPS)
def test_groups(written: Any, read: tuple[str, ...]) -> None:
    assert parse_review(orjson.dumps(put("request.userInfo.groups", written))).groups == read


@pytest.mark.parametrize("value", [None, "true", 1, [], "false"], ids=repr)
def test_only_true_is_a_dry_run(value: Any) -> None:
    assert parse_review(orjson.dumps(put("request.dryRun", value))).dry_run is False


def test_of_a_key_that_is_there_twice_the_last_counts_as_for_the_api_server() -> None:
    body = orjson.dumps(review_of({})).replace(
        b'"operation":"CREATE"', b'"operation":"DELETE","operation":"CREATE"'
    )
    assert parse_review(body).operation == "CREATE"


SHIPPED = load_policies(*shipped_files())


def everything(mode: str) -> PolicySet:
    """The shipped policies, all in one mode."""
    files = [
        (name, data.replace(b"mode: enforce", f"mode: {mode}".encode())) for name, data in shipped_files()
    ]
    return load_policy_set(files).policy_set


AUDITED = everything("audit")

HOSTILE_VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        2**63,
        1e30,
        "",
        "x",
        "\x00",
        "\n",
        "\u202e",
        "0",
        "1e99",
        "-5",
        "9" * 400,
    ),
    *(
        [],
        {},
        [None],
        [[]],
        {"": None},
        ["x"] * 3,
        {"name": 5},
        {"x": {"y": []}},
        [{"name": "a"}, {"name": "a"}],
    ),
]


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place inside a JSON value."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


REAL = [
    review_of(training_pod(tolerations=[{"key": "a"}], nodeSelector={"a": "b"}, volumes=[{"name": "v"}])),
    review_of(training_pod(), "UPDATE", oldObject=training_pod(4)),
    review_of(
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"annotations": {"a": "b"}},
            "spec": {"accessModes": ["x"]},
        },
        kind="PersistentVolumeClaim",
    ),
    review_of(
        {"metadata": {"name": "d", "labels": {}}, "spec": {"replicas": 2, "template": training_pod()}},
        kind="Deployment",
    ),
]


@st.composite
def damaged_reviews(draw: st.DrawFn) -> Json:
    """A real review in which up to three places hold something else, or are gone."""
    review = deepcopy(draw(st.sampled_from(REAL)))
    for _ in range(draw(st.integers(1, 3))):
        *parents, last = draw(st.sampled_from(places(review)[1:]))
        node: Any = review
        for parent in parents:
            node = node[parent]
        node[last] = deepcopy(draw(st.sampled_from(HOSTILE_VALUES)))
    return review


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged_reviews(), st.sampled_from(list(Endpoint)), st.sampled_from([SHIPPED, AUDITED]))
def test_any_json_is_answered_or_is_a_bad_review(
    review: Json, endpoint: Endpoint, policies: PolicySet
) -> None:
    before = orjson.dumps(review)
    try:
        answer = call(before, endpoint, policies)
    except BadReviewError as found:
        text = str(found)
    else:
        check_answer(orjson.loads(answer.body), review, mutating=endpoint is Endpoint.MUTATE)
        text = repr(answer.record)
    assert text.isprintable()


def test_a_review_holds_a_bounded_number_of_maps_and_lists() -> None:
    own = orjson.dumps(review_of({"metadata": {}, "spec": []}))
    room = MOST_CONTAINERS - own.count(b"{") - own.count(b"[")
    body = orjson.dumps(review_of({"metadata": {}, "spec": [[]] * room}))
    assert parse_review(body).object == {"metadata": {}, "spec": [[]] * room}
    body = orjson.dumps(review_of({"metadata": {}, "spec": [[]] * room + [{}]}))
    with pytest.raises(BadReviewError, match=f"^the body holds more than {MOST_CONTAINERS} maps and lists$"):
        parse_review(body)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_bad_review(body: bytes) -> None:
    with pytest.raises(BadReviewError):
        parse_review(body)
