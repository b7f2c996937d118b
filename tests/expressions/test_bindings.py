"""What a review offers to expressions."""

import copy
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.expressions import Bindings, EvaluationError, compile_condition
from webhook.expressions.bindings import MAX_DEPTH, MAX_ITEMS


def bind(value: Any = None, **others: Any) -> Bindings:
    return Bindings(object=value, workload={}, accelerator_count=lambda _: 0, **others)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(
            {"metadata": {"managedFields": [{}]}}, "!has(object.metadata.managedFields)", id="managed"
        ),
        pytest.param(
            {"spec": {"managedFields": [1]}}, "has(object.spec.managedFields)", id="only in metadata"
        ),
        pytest.param({"metadata": None}, "!has(object.metadata)", id="null metadata"),
        pytest.param({"metadata": "x"}, "object.metadata == 'x'", id="metadata of a wrong type"),
        pytest.param({"a": None, "b": 1}, "!has(object.a) && object.b == 1", id="null"),
        pytest.param({"a": {"b": None}}, "!has(object.a.b)", id="nested null"),
        pytest.param({"a": [{"b": None}]}, "!has(object.a[0].b)", id="null in a list's item"),
        pytest.param({"a": None}, "object.?a.?b.orValue(1) == 1", id="optional below null"),
        pytest.param(
            {"a": [None, 1]}, "object.a[0] == null && object.a[1] == 1", id="an item keeps its index"
        ),
        pytest.param({"a": -(2**63)}, "object.a < 0", id="smallest int"),
        pytest.param({"a": 2**63 - 1}, "object.a > 0", id="largest int"),
        pytest.param({"a": "\\u0000"}, "object.a.size() == 6", id="backslash u0000 is no NUL"),
        pytest.param({"a": "\\\\u0000"}, "object.a.size() == 7", id="two backslashes u0000 are no NUL"),
        pytest.param({"a": "é中😀"}, "object.a.size() == 3", id="wide characters"),
        pytest.param({"a": [0] * MAX_ITEMS}, "object.a.size() == 2000", id="longest list"),
        pytest.param({"a": [[{}] * 998] * 10}, "object.a.size() == 10", id="most maps and lists"),
        pytest.param({"a": "{[" * 6_000}, "object.a.size() == 12000", id="brackets in a string"),
        pytest.param(nested(MAX_DEPTH), "has(object.a)", id="deepest"),
    ],
)
def test_objects_as_expressions_see_them(value: dict[str, Any], text: str) -> None:
    before = copy.deepcopy(value)
    assert compile_condition(text).holds(bind(value))
    assert value == before


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param({"a": [0] * 2001}, "object holds a list of more than 2000 items", id="long list"),
        pytest.param({"a": [[{"b": [0] * 2001}]]}, "object holds a list of more than 2000 items", id="inside"),
        pytest.param({"a": [[{}] * 1000] * 10}, "object holds more than 10000 maps and lists", id="many maps"),
        pytest.param(
            {"a": dict.fromkeys(map(str, range(2001)), 0)},
            "object holds a map of more than 2000 items",
            id="large map",
        ),
        pytest.param(nested(MAX_DEPTH + 1), "object is nested deeper than 100 levels", id="deep"),
        pytest.param({"a": 2**63}, "object holds a whole number of more than 64 bits", id="huge int"),
        pytest.param({"a": -(2**63) - 1}, "object holds a whole number of more than 64 bits", id="huge negative"),
        pytest.param({"a": float("nan")}, "object holds a number that is not finite", id="NaN"),
        pytest.param({"a": [float("-inf")]}, "object holds a number that is not finite", id="infinity"),
        pytest.param({"a": {1: 2}}, "object holds a key that is not a string, or text that is not Unicode", id="key"),
        pytest.param(
            {"a": "\ud800"}, "object holds a key that is not a string, or text that is not Unicode", id="surrogate"
        ),
        pytest.param(
            {"a": [{"\udc80": 1}]},
            "object holds a key that is not a string, or text that is not Unicode",
            id="surrogate in a key",
        ),
        pytest.param({"a": "good\0bad"}, "object holds a string with a NUL character", id="NUL"),
        pytest.param({"good\0bad": 1}, "object holds a string with a NUL character", id="NUL in a key"),
        pytest.param({"a": "\\\0"}, "object holds a string with a NUL character", id="NUL after a backslash"),
        pytest.param({"a": {1, 2}}, "object holds a value that is not JSON", id="set"),
        pytest.param({"a": b"x"}, "object holds a value that is not JSON", id="bytes"),
    ],
)  # fmt: skip
def test_objects_that_cannot_be_bound(value: dict[str, Any], reason: str) -> None:
    bindings = bind(value)
    condition = compile_condition("has(object.x) || true")
    for _ in range(2):
        with pytest.raises(EvaluationError) as raised:
            condition.holds(bindings)
        assert raised.value.reason == reason


@pytest.mark.parametrize("number", [0.0, -1.5, 1e308], ids=str)
def test_a_number_that_is_finite_is_bound(number: float) -> None:
    assert compile_condition(f"object.a == {number!r}").holds(bind({"a": number}))


def test_a_condition_that_does_not_read_the_object_does_not_mind_it() -> None:
    assert compile_condition("acceleratorCount('a') == 0").holds(bind({"a": [0] * 5000}))


def test_a_fault_of_one_variable_leaves_the_others() -> None:
    bindings = bind({"a": 1}, old_object={"a": [0] * 5000})
    with pytest.raises(EvaluationError):
        compile_condition("object == oldObject").holds(bindings)
    bound = bindings._data["object"]
    assert compile_condition("object.a == 1").holds(bindings)
    assert bindings._data["object"] is bound


def test_request_comes_without_the_objects() -> None:
    request = {"object": {"a": [0] * 5000}, "oldObject": {}, "userInfo": {"username": "alice"}}
    condition = compile_condition("request.userInfo.username == 'alice' && request.size() == 1")
    assert condition.holds(bind(request=request))
    assert set(request) == {"object", "oldObject", "userInfo"}


def test_conditions_share_one_activation() -> None:
    bindings = bind({"a": 1}, namespace_object={"b": 2})
    first = bindings.activation(frozenset({"object"}))
    assert bindings.activation(frozenset()) is first
    assert bindings.activation(frozenset({"object"})) is first
    both = bindings.activation(frozenset({"namespaceObject"}))
    assert both is not first
    assert bindings.activation(frozenset({"object", "namespaceObject"})) is both


def test_bindings_do_not_follow_later_changes() -> None:
    pod = {"metadata": {"labels": {"a": "x"}}}
    bindings = bind(pod)
    condition = compile_condition("object.metadata.labels.a == 'x'")
    assert condition.holds(bindings)
    pod["metadata"]["labels"]["a"] = "y"
    assert condition.holds(bindings)
    assert not condition.holds(bind(pod))


def test_only_the_workload_values_that_are_known_are_bound() -> None:
    bindings = Bindings(workload={"class": "training", "replicas": 2}, accelerator_count=lambda _: 0)
    assert compile_condition("workload.class == 'training' && workload.replicas == 2").holds(bindings)
    with pytest.raises(EvaluationError) as raised:
        compile_condition("workload.owner == ''").holds(bindings)
    assert raised.value.reason == "workload.owner is not known"


@pytest.mark.timed
def test_the_largest_object_is_bound_in_bounded_time() -> None:
    names = {f"k{number}": "v" * 20 for number in range(1900)}
    large = {"a": [dict(names) for _ in range(60)]}
    start = time.thread_time()
    assert compile_condition("object.a.size() == 60").holds(bind(large))
    assert time.thread_time() - start < 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=20,
)
WALK = compile_condition("object.all(k, type(object[k]) != type(k) || true) && object == object")


def refusal(value: dict[str, Any]) -> str:
    try:
        assert WALK.holds(bind(value))
    except EvaluationError as error:
        return error.reason
    return ""


@settings(max_examples=300)
@given(st.dictionaries(st.text(st.characters()), JSON, max_size=5))
def test_any_json_is_bound_or_refused_and_never_changed(value: dict[str, Any]) -> None:
    before = repr(value)
    reason = refusal(value)
    assert reason == "" or reason.startswith("object holds ")
    assert repr(value) == before


ODD = st.sampled_from([b"x", {1}, (1,), 1j, object(), range(3), Bindings, 2**64, "\0", {None: 1}, {1.5: 1}])


@given(st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\0")), ODD, min_size=1))
def test_what_is_not_json_is_refused(value: dict[str, Any]) -> None:
    assert refusal(value).startswith("object holds ")
    assert refusal({"list": [value]}).startswith("object holds ")
