from copy import deepcopy
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.pod import (
    Container,
    combined_requests,
    container_requests,
    containers,
    effective_requests,
    own_requests,
)
from webhook.kube.quantity import Quantity

GPU = "nvidia.com/gpu"


def asks(*, always: bool = False, **requests: Any) -> dict[str, Any]:
    """A container with these requests; `gpu` and `hugepages` stand for names that no argument can have."""
    names = {"gpu": GPU, "hugepages": "hugepages-2Mi"}
    container: dict[str, Any] = {
        "name": "c",
        "resources": {"requests": {names.get(name, name): value for name, value in requests.items()}},
    }
    return {**container, "restartPolicy": "Always"} if always else container


def sidecar(**requests: Any) -> dict[str, Any]:
    return asks(always=True, **requests)


def pod(
    *, init: Any = None, app: Any = None, resources: Any = None, overhead: Any = None, ephemeral: Any = None
) -> dict[str, Any]:
    return {
        "spec": {
            "initContainers": init,
            "containers": app,
            "ephemeralContainers": ephemeral,
            "resources": resources,
            "overhead": overhead,
        }
    }


TOTALS: dict[str, tuple[dict[str, Any], dict[str, Quantity]]] = {
    "larger init container: max(1, 4)": (pod(init=[asks(cpu=4)], app=[asks(cpu=1)]), {"cpu": 4}),
    "larger app containers: max(2 + 3, 2)": (
        pod(init=[asks(cpu=2)], app=[asks(cpu=2), asks(cpu=3)]),
        {"cpu": 5},
    ),
    "init containers run one by one: max(1, 3, 2), not 1 + 3 + 2": (
        pod(init=[asks(cpu=3), asks(cpu=2)], app=[asks(cpu=1)]),
        {"cpu": 3},
    ),
    "a sidecar runs beside the app: 1 + 1": (pod(init=[sidecar(gpu=1)], app=[asks(gpu=1)]), {GPU: 2}),
    "an init container after a sidecar: max(1 + 2, 5 + 2)": (
        pod(init=[sidecar(cpu=2), asks(cpu=5)], app=[asks(cpu=1)]),
        {"cpu": 7},
    ),
    "an init container before a sidecar runs without it: max(1 + 2, 5)": (
        pod(init=[asks(cpu=5), sidecar(cpu=2)], app=[asks(cpu=1)]),
        {"cpu": 5},
    ),
    "sidecars add up as they start: max(1 + 1 + 2 + 3, 10 + 1 + 2)": (
        pod(init=[sidecar(cpu=1), sidecar(cpu=2), asks(cpu=10), sidecar(cpu=3)], app=[asks(cpu=1)]),
        {"cpu": 13},
    ),
    "an early small and a late large step: max(1 + 3, 4, 1 + 3)": (
        pod(init=[asks(cpu=4), sidecar(cpu=3), asks(cpu=1)], app=[asks(cpu=1)]),
        {"cpu": 4},
    ),
    "each resource on its own: cpu from the app, memory from the init container": (
        pod(init=[asks(cpu=1, memory="4Gi")], app=[asks(cpu=2, memory="1Gi")]),
        {"cpu": 2, "memory": 4 * 2**30},
    ),
    "a device only in the init container counts": (
        pod(init=[asks(gpu=1)], app=[asks(cpu=1)]),
        {GPU: 1, "cpu": 1},
    ),
    "a resource that only a sidecar asks for": (pod(init=[sidecar(gpu=1)], app=[asks()]), {GPU: 1}),
    "overhead on top: 2 + 3 + 1, and what only it names": (
        pod(app=[asks(cpu=2), asks(cpu=3)], overhead={"cpu": 1, "memory": "1Gi"}),
        {"cpu": 6, "memory": 2**30},
    ),
    "overhead on top of an init container: max(1, 4) + 1": (
        pod(init=[asks(cpu=4)], app=[asks(cpu=1)], overhead={"cpu": 1}),
        {"cpu": 5},
    ),
    "restartPolicy Never on an init container makes no sidecar: max(1, 1)": (
        pod(init=[{**asks(gpu=1), "restartPolicy": "Never"}], app=[asks(gpu=1)]),
        {GPU: 1},
    ),
    "restartPolicy Always on an app container makes no sidecar": (
        pod(init=[asks(gpu=2)], app=[sidecar(gpu=1)]),
        {GPU: 2},
    ),
    "an ephemeral container counts nothing": (
        pod(app=[asks(cpu=1)], ephemeral=[asks(cpu=9, gpu=1)]),
        {"cpu": 1},
    ),
    "zero is kept": (pod(app=[asks(gpu=0)]), {GPU: 0}),
    "negative is kept, not absent": (pod(app=[asks(gpu="-1")]), {GPU: -1}),
    "halves make a whole number": (pod(app=[asks(gpu="500m"), asks(gpu=0.5)]), {GPU: 1}),
    "pod level takes the place of the sum": (
        pod(app=[asks(cpu="2m", memory="3Mi")], resources={"requests": {"cpu": "8m", "memory": "6Mi"}}),
        {"cpu": Fraction(8, 1000), "memory": 6 * 2**20},
    ),
    "pod level without any container-level resources": (
        pod(app=[{"name": "one"}, {"name": "two"}], resources={"requests": {"cpu": 4}, "limits": {"cpu": 5}}),
        {"cpu": 4},
    ),
    "pod level leaves the other resource alone": (
        pod(app=[asks(cpu="2m")], resources={"requests": {"memory": "2Mi"}}),
        {"cpu": Fraction(2, 1000), "memory": 2 * 2**20},
    ),
    "pod level knows no devices and no storage": (
        pod(app=[asks(gpu=1)], resources={"requests": {GPU: 8, "ephemeral-storage": "1Gi"}}),
        {GPU: 1},
    ),
    "pod level is below an init container: it wins still": (
        pod(init=[asks(cpu=4)], app=[asks(cpu=1)], resources={"requests": {"cpu": 2}}),
        {"cpu": 2},
    ),
    "overhead on top of pod level: 2 + 1": (
        pod(app=[asks(cpu=9)], resources={"requests": {"cpu": 2}}, overhead={"cpu": 1}),
        {"cpu": 3},
    ),
    "pod-level limit is the request where no container asks": (
        pod(app=[{"name": "c"}], resources={"limits": {"cpu": 4}}),
        {"cpu": 4},
    ),
    "pod-level limit is not the request where a container asks": (
        pod(app=[asks(cpu=1)], resources={"limits": {"cpu": 4}}),
        {"cpu": 1},
    ),
    "huge pages: the pod-level limit is the request": (
        pod(app=[asks(hugepages="4Mi")], resources={"limits": {"hugepages-2Mi": "8Mi"}}),
        {"hugepages-2Mi": 8 * 2**20},
    ),
}


@pytest.mark.parametrize(("value", "total"), TOTALS.values(), ids=TOTALS)
def test_counts_what_a_pod_asks_for(value: dict[str, Any], total: dict[str, Quantity]) -> None:
    before = deepcopy(value)
    counted = effective_requests(value)
    assert counted == total
    assert {type(amount) for amount in counted.values()} == {type(amount) for amount in total.values()}
    assert value == before


CONTAINERS: dict[str, tuple[Any, dict[str, Quantity]]] = {
    "limit only": ({"limits": {GPU: 2}}, {GPU: 2}),
    "request below the limit": ({"requests": {"cpu": 1}, "limits": {"cpu": 2}}, {"cpu": 1}),
    "request of zero beats the limit": ({"requests": {"cpu": 0}, "limits": {"cpu": 2}}, {"cpu": 0}),
    "each name by itself": ({"requests": {"cpu": 1}, "limits": {GPU: 1}}, {"cpu": 1, GPU: 1}),
    "null request is the limit": ({"requests": {GPU: None}, "limits": {GPU: 2}}, {GPU: 2}),
    "null requests": ({"requests": None, "limits": {GPU: 2}}, {GPU: 2}),
    "null limit": ({"limits": {GPU: None}}, {}),
    "a request that is no quantity is left out, and the limit does not stand in": (
        {"requests": {GPU: "two", "cpu": 1}, "limits": {GPU: 2}},
        {"cpu": 1},
    ),
    "a bool is no quantity": ({"limits": {GPU: True}}, {}),
    "requests of the wrong type": ({"requests": ["cpu"], "limits": {"cpu": 1}}, {"cpu": 1}),
    "empty": ({}, {}),
    "null": (None, {}),
    "list": ([], {}),
    "text": ("cpu: 1", {}),
}


@pytest.mark.parametrize(("resources", "asked"), CONTAINERS.values(), ids=CONTAINERS)
def test_reads_the_requests_of_a_container(resources: Any, asked: dict[str, Quantity]) -> None:
    assert container_requests({"name": "c", "resources": resources}) == asked


def test_a_container_without_resources_asks_for_nothing() -> None:
    assert container_requests({}) == {}


def test_walks_every_container_in_order_with_role_and_path() -> None:
    value: dict[str, Any] = {
        "spec": {
            "ephemeralContainers": [{"name": "debug"}],
            "containers": [{"name": "main"}, None, "odd", {"image": "unnamed"}, {"name": 7}],
            "initContainers": [
                {"name": "fetch"},
                {"name": "watch", "restartPolicy": "Always"},
                {"name": "once", "restartPolicy": "OnFailure"},
            ],
        }
    }
    assert [(each.role, each.name, each.path) for each in containers(value)] == [
        ("init", "fetch", ("spec", "initContainers", 0)),
        ("sidecar", "watch", ("spec", "initContainers", 1)),
        ("init", "once", ("spec", "initContainers", 2)),
        ("app", "main", ("spec", "containers", 0)),
        ("app", "", ("spec", "containers", 3)),
        ("app", "", ("spec", "containers", 4)),
        ("ephemeral", "debug", ("spec", "ephemeralContainers", 0)),
    ]
    assert all(
        value["spec"][str(each.path[1])][int(each.path[2])] is each.value  # the object itself, no copy
        for each in containers(value)
    )


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"spec": None},
        {"spec": []},
        {"spec": "text"},
        {"spec": {}},
        {"spec": {"containers": None}},
        {"spec": {"containers": {"name": "main"}}},
        {"spec": {"containers": "main"}},
        {"spec": {"containers": [None, 1, []], "resources": 1, "overhead": ["cpu"]}},
    ],
    ids=str,
)
def test_odd_shapes_are_empty_pods(value: dict[str, Any]) -> None:
    assert containers(value) == ()
    assert effective_requests(value) == {}


def test_a_container_is_what_the_others_expect() -> None:
    assert Container._fields == ("role", "name", "path", "value")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "containers", "initContainers", "resources", "requests", "limits", "cpu", GPU]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.just("spec"), json_values))
def test_no_json_value_raises(value: dict[str, Any]) -> None:
    containers(value)
    effective_requests(value)


roles = st.sampled_from(["init", "sidecar", "app"])


@given(st.lists(st.tuples(roles, st.integers(0, 9)), max_size=8))
def test_the_total_is_the_peak_of_a_simulated_start(parts: list[tuple[Any, int]]) -> None:
    """Start the pod step by step and note the most that ran at one time."""
    before_app = [part for part in parts if part[0] != "app"]
    running = peak = 0
    for role, amount in before_app:
        if role == "sidecar":
            running += amount
        peak = max(peak, running + (amount if role == "init" else 0))
    peak = max(peak, running + sum(amount for role, amount in parts if role == "app"))
    combined = combined_requests((role, {"cpu": amount}) for role, amount in parts)
    assert combined.get("cpu", 0) == peak


def test_what_a_pod_asks_for_itself_leaves_the_overhead_out() -> None:
    thing = pod(
        app=[asks(cpu=9)], resources={"requests": {"memory": 2}}, overhead={"cpu": 1, "memory": 1, "disk": 1}
    )
    assert own_requests(thing) == {"cpu": 9, "memory": 2}
