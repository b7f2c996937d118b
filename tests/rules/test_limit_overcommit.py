"""limitOvercommit: ratios that just fit first, then those that do not, with their exact words."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.reviewing import (
    Json,
    container,
    gate_of,
    judged,
    load_problems,
    places,
    pod,
    policy,
    report,
    said,
    texts,
)
from webhook.engine import Action, Gate
from webhook.rules.base import Result


def gate(cpu: Any = 4, memory: Any = 1.5) -> Gate:
    ratios = {"cpu": cpu, "memory": memory}
    return gate_of(policy({"limitOvercommit": {k: {"maxLimitToRequest": v} for k, v in ratios.items() if v}}))


GATE = gate()


def amounts(
    limits: Json | None = None, requests: Json | None = None, name: str = "main", **fields: Any
) -> Json:
    return {"name": name, "resources": {"limits": limits, "requests": requests}, **fields}


FITS = {
    "no resources": pod(container()),
    "null resources": pod({"name": "main", "resources": None}),
    "exactly the ratio": pod(amounts({"cpu": "4", "memory": "1536Mi"}, {"cpu": "1", "memory": "1Gi"})),
    "the ratio in other spellings": pod(amounts({"cpu": 0.4}, {"cpu": "100m"})),
    "a request without a limit": pod(amounts(None, {"cpu": "1"})),
    "a limit without a request, which becomes the request": pod(amounts({"cpu": "64"})),
    "a null request": pod(amounts({"cpu": "64"}, {"cpu": None})),
    "a limit of zero, which is none": pod(amounts({"cpu": "0"}, {"cpu": "0"})),
    "another resource": pod(amounts({"ephemeral-storage": "100Gi"}, {"ephemeral-storage": "1Gi"})),
    "a limit that is no quantity, which the API server refuses": pod(amounts({"cpu": "many"}, {"cpu": "1"})),
    "a request that is no quantity, likewise": pod(amounts({"cpu": "4"}, {"cpu": "many"})),
    "the pod's own, exactly": pod(container(), resources={"limits": {"cpu": "4"}, "requests": {"cpu": "1"}}),
    "the pod's own limit without a request": pod(container(), resources={"limits": {"cpu": "64"}}),
    "the pod's own request without a limit": pod(container(), resources={"requests": {"cpu": "1"}}),
    "the overhead is no request": pod(
        container(), resources={"limits": {"cpu": "4"}, "requests": {"cpu": "1"}}, overhead={"cpu": "1"}
    ),
}


@pytest.mark.parametrize("thing", FITS.values(), ids=FITS.keys())
def test_what_fits_passes(thing: Json) -> None:
    outcome = judged(GATE, thing)
    assert (texts(outcome), report(outcome).result) == ([], Result.PASS)


MAIN = 'spec.containers["main"].resources.limits'
REFUSED: dict[str, tuple[Json, str, str]] = {
    "one thousandth too much": (
        pod(amounts({"cpu": "4001m"}, {"cpu": "1"})),
        f"over @ {MAIN}.cpu",
        (
            "fail: cpu: the limit 4001m is more than 4 times the request 1 -> "
            "lower the limit to at most 4, or raise the request"
        ),
    ),
    "one byte too much": (
        pod(amounts({"memory": 3 * 2**29 + 1}, {"memory": "1Gi"})),
        f"over @ {MAIN}.memory",
        (
            "fail: memory: the limit 1610612737 is more than 1.5 times the request 1Gi -> "
            "lower the limit to at most 1536Mi, or raise the request"
        ),
    ),
    "decimal and binary are told apart": (
        pod(amounts({"memory": "1536Mi"}, {"memory": "1G"})),
        f"over @ {MAIN}.memory",
        (
            "fail: memory: the limit 1536Mi is more than 1.5 times the request 1G -> "
            "lower the limit to at most 1500M, or raise the request"
        ),
    ),
    "a request of zero": (
        pod(amounts({"cpu": "4"}, {"cpu": "0"})),
        f"no request @ {MAIN}.cpu",
        (
            "fail: cpu: the limit is 4 and the request 0, so nothing is reserved for it -> "
            "request what is needed; the limit may be 4 times that"
        ),
    ),
    "an init container": (
        pod(container(), initContainers=[amounts({"cpu": "8"}, {"cpu": "1"}, "fetch")]),
        'over @ spec.initContainers["fetch"].resources.limits.cpu',
        (
            "fail: cpu: the limit 8 is more than 4 times the request 1 -> "
            "lower the limit to at most 4, or raise the request"
        ),
    ),
    "a sidecar": (
        pod(
            container(),
            initContainers=[amounts({"cpu": "2"}, {"cpu": "100m"}, "proxy", restartPolicy="Always")],
        ),
        'over @ spec.initContainers["proxy"].resources.limits.cpu',
        (
            "fail: cpu: the limit 2 is more than 4 times the request 100m -> "
            "lower the limit to at most 400m, or raise the request"
        ),
    ),
    "the pod's own": (
        pod(container(), resources={"limits": {"cpu": "8"}, "requests": {"cpu": "1"}}),
        "over @ spec.resources.limits.cpu",
        (
            "fail: cpu: the limit 8 is more than 4 times the request 1 -> "
            "lower the limit to at most 4, or raise the request"
        ),
    ),
    "the pod's own limit beside what its containers request": (
        pod(container(resources={"cpu": "1"}), resources={"limits": {"cpu": "8"}}),
        "over @ spec.resources.limits.cpu",
        (
            "fail: cpu: the limit 8 is more than 4 times the request 1 -> "
            "lower the limit to at most 4, or raise the request"
        ),
    ),
}


@pytest.mark.parametrize(("thing", "place", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_and_why(thing: Json, place: str, text: str) -> None:
    outcome = judged(GATE, thing)
    assert (places(outcome), said(outcome)) == ([place], [text])
    assert report(outcome).action is Action.DENY
    assert said(outcome, "zh") != [text]


def test_every_container_and_resource_is_reported() -> None:
    both = {"cpu": "8", "memory": "8Gi"}, {"cpu": "1", "memory": "1Gi"}
    thing = pod(amounts(*both, "a"), amounts(*both, "b"))
    assert places(judged(GATE, thing)) == [
        f'over @ spec.containers["{name}"].resources.limits.{resource}'
        for name in ("a", "b")
        for resource in ("cpu", "memory")
    ]


def test_a_resource_that_the_policy_does_not_name_is_free() -> None:
    thing = pod(amounts({"cpu": "8", "memory": "8Gi"}, {"cpu": "1", "memory": "1Gi"}))
    assert places(judged(gate(memory=None), thing)) == [f"over @ {MAIN}.cpu"]


@given(limit=st.integers(1, 10**7), request=st.integers(0, 10**6), tenths=st.integers(10, 200))
def test_the_arithmetic_is_exact(limit: int, request: int, tenths: int) -> None:
    thing = pod(amounts({"cpu": f"{limit}m"}, {"cpu": f"{request}m"}))
    expected = ["no request"] if not request else ["over"] if Fraction(limit, request) * 10 > tenths else []
    assert texts(judged(gate(cpu=tenths / 10), thing)) == expected


WHERE = "spec.rules[0].limitOvercommit"
RATIO = "expected a number from 1 up, such as 4 or 1.5, found"
NO_RATIO: dict[str, tuple[Json, str]] = {
    "nothing": ({}, f"{WHERE}: give cpu, memory or both"),
    "no ratio": ({"cpu": {}}, f"{WHERE}.cpu.maxLimitToRequest is missing"),
    "below one": ({"cpu": {"maxLimitToRequest": 0.5}}, f"{WHERE}.cpu.maxLimitToRequest: {RATIO} 0.5"),
    "zero": ({"cpu": {"maxLimitToRequest": 0}}, f"{WHERE}.cpu.maxLimitToRequest: {RATIO} 0"),
    "a text": ({"cpu": {"maxLimitToRequest": "4x"}}, f"{WHERE}.cpu.maxLimitToRequest: {RATIO} '4x'"),
    "a boolean": (
        {"cpu": {"maxLimitToRequest": True}},
        f"{WHERE}.cpu.maxLimitToRequest: {RATIO} the boolean true",
    ),
    "a list": ({"cpu": {"maxLimitToRequest": [4]}}, f"{WHERE}.cpu.maxLimitToRequest: {RATIO} a list"),
}


@pytest.mark.parametrize(("parameters", "message"), NO_RATIO.values(), ids=NO_RATIO.keys())
def test_a_ratio_must_be_one(parameters: Json, message: str) -> None:
    assert load_problems(policy({"limitOvercommit": parameters})) == [message]
