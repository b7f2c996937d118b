"""Evaluation: true, false, or an error with a reason."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from webhook.expressions import Bindings, EvaluationError, compile_condition, compile_message
from webhook.expressions.reasons import MAX_REASON

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "trainer-0", "namespace": "team-a", "labels": {"app.kubernetes.io/name": "trainer"}},
    "spec": {
        "priorityClassName": "ai-train-high",
        "schedulerName": "default-scheduler",
        "hostNetwork": False,
        "containers": [
            {
                "name": "trainer",
                "image": "registry.local/ml/trainer:1.2",
                "env": [{"name": "TOKEN", "value": "hunter2"}],
                "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": 32, "memory": "256Gi"}},
            },
            {"name": "proxy", "image": "registry.local/proxy"},
        ],
        "tolerations": None,
    },
}
REQUEST = {"operation": "CREATE", "userInfo": {"username": "alice", "groups": ["team-a"]}}
WORKLOAD: dict[str, str | int] = {
    "class": "training",
    "communication": "none",
    "accelerators": 8,
    "vendor": "nvidia",
    "owner": "Job",
    "replicas": 1,
}


def count(name: str) -> int:
    if name == "unknown":
        raise ValueError("the claims of the pod are not known")
    return 8 if name.startswith("nvidia.com/") else 0


def bindings(pod: dict[str, Any] | None = POD, **others: Any) -> Bindings:
    given: dict[str, Any] = {"workload": WORKLOAD, "accelerator_count": count, "request": REQUEST} | others
    return Bindings(object=pod, **given)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("acceleratorCount('nvidia.com/gpu') >= 4", True, id="count"),
        pytest.param("acceleratorCount('amd.com/gpu') >= 4", False, id="count of what is not asked for"),
        pytest.param("workload.class == 'training' && workload.accelerators == 8", True, id="workload"),
        pytest.param("workload.vendor in ['amd', 'intel']", False, id="vendor"),
        pytest.param(
            "object.spec.containers.all(c, c.image.startsWith('registry.local/'))", True, id="images"
        ),
        pytest.param(
            "object.spec.containers.all(c, c.image.split('/').size() == 3)", False, id="image parts"
        ),
        pytest.param("object.spec.containers.all(c, has(c.resources))", False, id="a container without"),
        pytest.param("object.spec.containers.exists(c, c.image.endsWith(':latest'))", False, id="latest"),
        pytest.param("object.spec.containers.exists_one(c, has(c.resources))", True, id="exists_one"),
        pytest.param(
            "quantity(object.spec.containers[0].resources.limits['memory']) / quantity('1Gi') <= 32.0 * 8.0",
            True,
            id="memory per accelerator",
        ),
        pytest.param(
            "quantity(object.spec.containers[0].resources.limits.cpu) > 16.0", True, id="cpu as a number"
        ),
        pytest.param("object.spec.?hostNetwork.orValue(false)", False, id="dyn that is a bool"),
        pytest.param(
            "object.metadata.?annotations[?'a/b'].orValue('') == ''", True, id="optional annotation"
        ),
        pytest.param(
            "object.metadata.labels['app.kubernetes.io/name'].matches('^[a-z]+$')", True, id="label"
        ),
        pytest.param("has(object.spec.tolerations)", False, id="null is absent"),
        pytest.param("request.userInfo.groups.exists(g, g == object.metadata.namespace)", True, id="groups"),
        pytest.param(
            "has(object.spec.nodeName) || object.spec.missing == 1 || true", True, id="absorbed error"
        ),
        pytest.param("acceleratorCount('unknown') > 1 || true", True, id="absorbed unknown"),
        pytest.param("false && acceleratorCount('unknown') > 1", False, id="absorbed by false"),
    ],
)
def test_conditions_of_typical_policies(text: str, expected: bool) -> None:
    assert compile_condition(text).holds(bindings()) is expected


def test_conditions_see_the_old_object_and_the_namespace() -> None:
    both = bindings(old_object={"spec": {}}, namespace_object={"metadata": {"labels": {"tier": "gold"}}})
    assert compile_condition("!has(oldObject.spec.priorityClassName)").holds(both)
    assert compile_condition("namespaceObject.metadata.labels.tier == 'gold'").holds(both)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("object.spec.missing", 'there is no key "missing"', id="an error is a value, and truthy"),
        pytest.param("object.spec.missing == 1", 'there is no key "missing"', id="missing key"),
        pytest.param("!(object.spec.missing == 1)", 'there is no key "missing"', id="the opposite is no answer either"),
        pytest.param("object.spec.missing == 1 && true", 'there is no key "missing"', id="not absorbed"),
        pytest.param("object.spec.priorityClassName", "the value is string, not true or false", id="not a bool"),
        pytest.param("object.spec.containers[9].name == ''", "Index error: index=9 size=2", id="index"),
        pytest.param(
            "object.kind.name == ''", "a field is read from a value that is not a map", id="field of a string"
        ),
        pytest.param("object.kind > 1", '">" does not take (string, int64)', id="types"),
        pytest.param("1 / (workload.replicas - 1) == 1", "divide by zero", id="division"),
        pytest.param("int(object.metadata.name) > 1", "cannot convert string to int", id="conversion"),
        pytest.param("acceleratorCount('unknown') > 1", "the claims of the pod are not known", id="unknown count"),
        pytest.param("has(namespaceObject.metadata)", "the namespace of the object is not known", id="namespace"),
        pytest.param("oldObject.a == 1", "the request has no oldObject", id="no old object"),
    ],
)  # fmt: skip
def test_errors_are_neither_true_nor_false(text: str, reason: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        compile_condition(text).holds(bindings())
    assert raised.value.reason == reason
    assert str(raised.value) == reason


def test_variables_of_other_requests() -> None:
    files = bindings(None, request=None)
    for text, reason in {
        "object.a == 1": "the request has no object",
        "request.operation == 'CREATE'": "there is no request: the object was not sent by an API server",
    }.items():
        with pytest.raises(EvaluationError) as raised:
            compile_condition(text).holds(files)
        assert raised.value.reason == reason


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("object.metadata.labels[object.spec.containers[0].env[0].value] == ''", id="as a key"),
        pytest.param("int(object.spec.containers[0].env[0].value) == 1", id="as a number"),
        pytest.param("duration(object.spec.containers[0].env[0].value) > duration('1s')", id="as a duration"),
        pytest.param("timestamp(object.spec.containers[0].env[0].value) > timestamp('x')", id="as a time"),
        pytest.param("bool(object.spec.containers[0].env[0].value)", id="as a bool"),
        pytest.param("object.spec.containers[0].env[0].value", id="as the answer"),
    ],
)
def test_a_reason_holds_no_value_of_the_object(text: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        compile_condition(text).holds(bindings())
    assert "hunter2" not in raised.value.reason


def test_a_reason_is_one_short_line() -> None:
    def fail(_: str) -> int:
        raise ValueError("broken\n\x1b[31m" + "x" * 10_000)

    with pytest.raises(EvaluationError) as raised:
        compile_condition("acceleratorCount('a') > 1").holds(bindings(accelerator_count=fail))
    assert raised.value.reason.startswith("broken  [31mxxx")
    assert len(raised.value.reason) == MAX_REASON
    assert raised.value.reason.isprintable()


def test_a_loop_of_loops_ends_with_the_budget() -> None:
    pod = {"l": [0] * 2000}
    start = time.thread_time()
    with pytest.raises(EvaluationError) as raised:
        compile_condition("object.l.all(a, object.l.all(b, a == b))").holds(bindings(pod))
    assert time.thread_time() - start < 2
    assert raised.value.reason == "it loops more than 10,000 times"


@pytest.mark.timed
@pytest.mark.parametrize(
    ("text", "pod"),
    [
        pytest.param(
            "!('x' in object.l.map(e, e.name))",
            {"l": [{"name": str(number)} for number in range(2000)]},
            id="search in a list that is built",
        ),
        pytest.param(
            "!object.a.matches('^(a+)+$')", {"a": "a" * 3_000_000 + "!"}, id="pattern that backtracks elsewhere"
        ),
        pytest.param("!object.a.contains('/////x')", {"a": "/" * 3_000_000}, id="search in a long string"),
        pytest.param(
            "object.l.all(e, e.trim().split('/').size() > 100)",
            {"l": ["/" * 250 + " " * 1000] * 2000},
            id="many parts",
        ),
        pytest.param(
            "object.l.all(e, object.a.lowerAscii() != e)", {"a": "A" * 8192, "l": ["x"] * 2000}, id="many copies"
        ),
    ],
)  # fmt: skip
def test_hostile_objects_take_bounded_time(text: str, pod: dict[str, Any]) -> None:
    start = time.thread_time()
    assert compile_condition(text).holds(bindings(pod))
    assert time.thread_time() - start < 2


def test_a_condition_is_shared_between_threads() -> None:
    condition = compile_condition("object.l.exists(e, quantity(e) == double(object.own))")

    def evaluate(number: int) -> bool:
        pod = {"l": [str(item) for item in range(100)], "own": number % 200}
        return condition.holds(bindings(pod))

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(evaluate, range(800)))
    assert answers == [number % 200 < 100 for number in range(800)]


def test_conditions_compare_by_their_text() -> None:
    assert compile_condition("object.a == 1") == compile_condition("object.a == 1")
    assert compile_condition("object.a == 1") != compile_condition("object.a == 2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("'fixed'", "fixed", id="literal"),
        pytest.param(r"'\n ' + object.metadata.name + ' is wrong\n'", "trainer-0 is wrong", id="stripped"),
        pytest.param("string(acceleratorCount('nvidia.com/gpu')) + ' devices'", "8 devices", id="number"),
    ],
)
def test_messages(text: str, expected: str) -> None:
    assert compile_message(text).render(bindings()) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("'x' + object.missing", 'there is no key "missing"', id="error"),
        pytest.param("' '", "the message is blank", id="blank"),
        pytest.param(r"'a\nb'", "the message has a line break", id="line break"),
        pytest.param("object.long + '.'", "the message is longer than 5120 bytes", id="long"),
        pytest.param("object.wide + '.'", "the message is longer than 5120 bytes", id="long in bytes"),
    ],
)
def test_messages_that_are_not_shown(text: str, reason: str) -> None:
    pod = {"long": "x" * 5120, "wide": "中" * 1707}
    with pytest.raises(EvaluationError) as raised:
        compile_message(text).render(bindings(pod))
    assert raised.value.reason == reason
