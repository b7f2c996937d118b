"""What the API server fills in."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from webhook.kube.api_defaults import with_defaults


def pod(*containers: Any, key: str = "containers") -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"namespace": "ns"}, "spec": {key: list(containers)}}


def holding(limits: Any, requests: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"limits": limits, "requests": requests}}


REQUESTS = {
    "a limit without a request": (holding({"cpu": "1"}, None), {"cpu": "1"}),
    "each resource for itself": (
        holding({"cpu": "1", "memory": "1Gi"}, {"cpu": "2"}),
        {"cpu": "2", "memory": "1Gi"},
    ),
    "a request of nothing": (holding({"cpu": "1"}, {"cpu": None}), {"cpu": "1"}),
    "a limit of nothing": (holding({"cpu": None}, {}), {}),
    "requests of a wrong type": (holding({"cpu": "1"}, "all"), {"cpu": "1"}),
}


@pytest.mark.parametrize("key", ["containers", "initContainers"])
@pytest.mark.parametrize("case", REQUESTS)
def test_requests(case: str, key: str) -> None:
    container, requests = REQUESTS[case]
    filled = with_defaults(pod(container, key=key), "ns")
    assert filled["spec"][key][0]["resources"]["requests"] == requests


UNTOUCHED = {
    "a container without limits": pod(holding(None, {"cpu": "1"})),
    "limits of a wrong type": pod(holding(["cpu"], None)),
    "no container but text": pod("text", None),
    "ephemeral containers": pod(holding({"cpu": "1"}, None), key="ephemeralContainers"),
    "containers of a wrong type": {
        "kind": "Pod",
        "metadata": {"namespace": "ns"},
        "spec": {"containers": {}},
    },
    "a spec of a wrong type": {"kind": "Pod", "metadata": {"namespace": "ns"}, "spec": []},
    "a claim": {
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "ns"},
        "spec": {"containers": [holding({"cpu": "1"}, None)]},
    },
}


@pytest.mark.parametrize("case", UNTOUCHED)
def test_what_stays_as_it_is(case: str) -> None:
    assert with_defaults(UNTOUCHED[case], "ns") == UNTOUCHED[case]


def test_the_namespace() -> None:
    assert with_defaults({"kind": "Pod"}, "ns") == {"kind": "Pod", "metadata": {"namespace": "ns"}}


def test_the_object_given_is_not_touched() -> None:
    given = pod(holding({"cpu": "1"}, {}))
    before = copy.deepcopy(given)
    with_defaults(given, "other")
    assert given == before
