"""limitResourcesPerAccelerator: what just fits first, then what is over or missing, with its exact words."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.reviewing import (
    GPU,
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


def gate(facts: tuple[Json, ...] = (), **parameters: Any) -> Gate:
    return gate_of(policy({"limitResourcesPerAccelerator": parameters}), facts=facts)


CPU: Json = {"cpu": {"max": "16"}}
GATE = gate(**CPU, memory={"max": "128Gi"})
MISSING_FAILS = gate(**CPU, whenMissing="fail")


def holder(gpus: int = 1, name: str = "main", **amounts: Any) -> Json:
    """A container with GPUs whose request of anything else is its limit."""
    return container(name, {GPU: str(gpus), **amounts})


def asking(part: str, **amounts: Any) -> Json:
    """A container with one GPU that only has requests, or only limits, of something else."""
    resources: Json = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    resources[part] = resources[part] | amounts
    return {"name": "main", "resources": resources}


SIDECAR = {"restartPolicy": "Always"}

FITS = {
    "exactly the limit": pod(holder(2, cpu="32", memory="256Gi")),
    "the limit in thousandths": pod(holder(cpu="16000m")),
    "decimal below binary": pod(holder(memory="137G")),
    "nothing stated": pod(),
    "a request below and a limit above": pod(
        {
            "name": "main",
            "resources": {"limits": {GPU: "1", "cpu": "64"}, "requests": {GPU: "1", "cpu": "16"}},
        }
    ),
    "an init step that is done before the rest starts": pod(
        holder(2, cpu="32"), initContainers=[container("fetch", {"cpu": "32"})]
    ),
    "the pod's own request takes the place of the sum": pod(
        holder(cpu="64"), resources={"requests": {"cpu": "16"}}
    ),
    "the overhead of the runtime class is not the author's": pod(
        holder(cpu="16"), overhead={"cpu": "1"}, runtimeClassName="kata"
    ),
    "devices of two kinds count together": pod(
        container(resources={GPU: "1", "nvidia.com/mig-1g.5gb": "1", "cpu": "32"})
    ),
    "no quantity, which the API server refuses": pod(asking("requests", cpu="many")),
}


@pytest.mark.parametrize("thing", FITS.values(), ids=FITS.keys())
def test_what_fits_passes(thing: Json) -> None:
    outcome = judged(GATE, thing)
    assert (texts(outcome), report(outcome).result) == ([], Result.PASS)


SKIPPED = {
    "no accelerator": (pod(container(resources={"cpu": "64"})), "no accelerator @ spec.containers"),
    "zero accelerators, which is no division": (
        pod(container(resources={GPU: "0", "cpu": "64"})),
        "no accelerator @ spec.containers",
    ),
    "a claim that nobody knows": (
        pod(holder(cpu="64"), resourceClaims=[{"name": "x", "resourceClaimName": "x"}]),
        "claims @ spec.resourceClaims",
    ),
}


@pytest.mark.parametrize(("thing", "place"), SKIPPED.values(), ids=SKIPPED.keys())
def test_what_cannot_be_divided_is_skipped(thing: Json, place: str) -> None:
    outcome = judged(GATE, thing)
    assert (places(outcome), report(outcome).result) == ([place], Result.SKIP)


def claim(device_class: str) -> Json:
    requests = [{"name": "x", "exactly": {"deviceClassName": device_class}}]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "x", "namespace": "team-a"},
        "spec": {"devices": {"requests": requests}},
    }


@pytest.mark.parametrize(
    ("device_class", "found"),
    [("gpu.nvidia.com", ["claims"]), ("dranet.example.com", ["over"])],
    ids=["more accelerators", "a network card"],
)
def test_a_claim_that_is_known_counts_for_what_it_is(device_class: str, found: list[str]) -> None:
    thing = pod(holder(cpu="64"), resourceClaims=[{"name": "x", "resourceClaimName": "x"}])
    assert texts(judged(gate((claim(device_class),), **CPU), thing)) == found


MAIN = 'spec.containers["main"].resources'
OVER: dict[str, tuple[Json, str, str]] = {
    "one thousandth too much": (
        pod(asking("requests", cpu="16001m")),
        f"over @ {MAIN}.requests.cpu",
        (
            "fail: cpu: 16001m asked for 1 nvidia.com/gpu, at most 16 per accelerator -> "
            "ask for at most 16 in the whole pod; the rest of the node is for its other accelerators"
        ),
    ),
    "one byte too much": (
        pod(asking("requests", memory=(128 << 30) + 1)),
        f"over @ {MAIN}.requests.memory",
        (
            "fail: memory: 137438953473 asked for 1 nvidia.com/gpu, at most 128Gi per accelerator -> "
            "ask for at most 128Gi in the whole pod; the rest of the node is for its other accelerators"
        ),
    ),
    "a limit stands in for the request": (
        pod(asking("limits", cpu="40")),
        f"over @ {MAIN}.limits.cpu",
        (
            "fail: cpu: 40 asked for 1 nvidia.com/gpu, at most 16 per accelerator -> "
            "ask for at most 16 in the whole pod; the rest of the node is for its other accelerators"
        ),
    ),
    "a sidecar adds up": (
        pod(holder(2, cpu="24"), initContainers=[container("proxy", {"cpu": "9"}, **SIDECAR)]),
        f"over @ {MAIN}.requests.cpu",
        (
            "fail: cpu: 33 asked for 2 nvidia.com/gpu, at most 16 per accelerator -> "
            "ask for at most 32 in the whole pod; the rest of the node is for its other accelerators"
        ),
    ),
    "a container without accelerators asks for most": (
        pod(holder(cpu="1"), container("loader", {"cpu": "16"})),
        'over @ spec.containers["loader"].resources.requests.cpu',
        (
            "fail: cpu: 17 asked for 1 nvidia.com/gpu, at most 16 per accelerator -> "
            "ask for at most 16 in the whole pod; the rest of the node is for its other accelerators"
        ),
    ),
    "the pod's own request": (
        pod(holder(2), resources={"requests": {"memory": "300Gi"}}),
        "over @ spec.resources.requests.memory",
        (
            "fail: memory: 300Gi asked for 2 nvidia.com/gpu, at most 128Gi per accelerator -> "
            "ask for at most 256Gi in the whole pod; the rest of the node is for its other accelerators"
        ),
    ),
    "the pod's own limit": (
        pod(holder(), resources={"limits": {"cpu": "17"}}),
        "over @ spec.resources.limits.cpu",
        (
            "fail: cpu: 17 asked for 1 nvidia.com/gpu, at most 16 per accelerator -> "
            "ask for at most 16 in the whole pod; the rest of the node is for its other accelerators"
        ),
    ),
    "devices of two kinds": (
        pod(container(resources={GPU: "1", "nvidia.com/mig-1g.5gb": "1", "cpu": "33"})),
        f"over @ {MAIN}.requests.cpu",
        (
            "fail: cpu: 33 asked for 1 nvidia.com/gpu + 1 nvidia.com/mig-1g.5gb, at most 16 per accelerator -> "
            "ask for at most 32 in the whole pod; the rest of the node is for its other accelerators"
        ),
    ),
}


@pytest.mark.parametrize(("thing", "place", "text"), OVER.values(), ids=OVER.keys())
def test_what_is_over_is_refused(thing: Json, place: str, text: str) -> None:
    outcome = judged(GATE, thing)
    assert (places(outcome), said(outcome)) == ([place], [text])
    assert report(outcome).action is Action.DENY
    assert said(outcome, "zh") != [text]


STATED = {
    "a request": pod(asking("requests", cpu="1")),
    "a limit": pod(asking("limits", cpu="1")),
    "the pod's own request": pod(resources={"requests": {"cpu": "4"}}),
    "the pod's own limit": pod(resources={"limits": {"cpu": "4"}}),
    "nothing in a container without accelerators": pod(container("log"), holder(cpu="1")),
}


@pytest.mark.parametrize("thing", STATED.values(), ids=STATED.keys())
def test_what_is_stated_is_not_missing(thing: Json) -> None:
    assert texts(judged(MISSING_FAILS, thing)) == []


MISSING = {
    "nothing": pod(),
    "null": pod(asking("requests", cpu=None)),
    "zero, which reserves nothing": pod(asking("requests", cpu="0")),
    "negative": pod(asking("requests", cpu="-1")),
    "no quantity": pod(asking("requests", cpu="many")),
    "another resource": pod(asking("requests", memory="1Gi")),
    "only a sidecar states it": pod(
        holder(), initContainers=[container("proxy", {"cpu": "100m"}, **SIDECAR)]
    ),
    "the pod's own resources say zero": pod(resources={"requests": {"cpu": "0"}}),
}


@pytest.mark.parametrize("thing", MISSING.values(), ids=MISSING.keys())
def test_what_is_missing_is_said_where_it_should_be(thing: Json) -> None:
    outcome = judged(MISSING_FAILS, thing)
    text = (
        "fail: cpu: the container holds accelerators and requests none, so nothing is reserved for it -> "
        "request what it needs, at most 16 per accelerator"
    )
    assert (places(outcome), said(outcome)) == ([f"missing @ {MAIN}.requests.cpu"], [text])
    assert said(outcome, "zh") != [text]


@pytest.mark.parametrize(
    ("when", "action"), [("fail", Action.DENY), ("warn", Action.WARN), ("ignore", Action.NONE)]
)
def test_what_is_done_about_what_is_missing(when: str, action: Action) -> None:
    assert report(judged(gate(**CPU, whenMissing=when), pod())).action is action


def test_a_warning_does_not_soften_what_is_over() -> None:
    thing = pod(holder(cpu="64"), holder(name="second"))
    outcome = judged(gate(**CPU, whenMissing="warn"), thing)
    assert (texts(outcome), report(outcome).action) == (["missing", "over"], Action.DENY)


@given(devices=st.integers(1, 64), asked=st.integers(0, 10**6), most=st.integers(1, 20_000))
def test_the_arithmetic_is_exact(devices: int, asked: int, most: int) -> None:
    outcome = judged(gate(cpu={"max": f"{most}m"}), pod(holder(devices, cpu=f"{asked}m")))
    assert texts(outcome) == (["over"] if Fraction(asked, devices) > most else [])


WHERE = "spec.rules[0].limitResourcesPerAccelerator"
REFUSED: dict[str, tuple[Json, str]] = {
    "nothing": ({}, f"{WHERE}: give cpu, memory or both"),
    "only whenMissing": ({"whenMissing": "fail"}, f"{WHERE}: give cpu, memory or both"),
    "no max": ({"cpu": {}}, f"{WHERE}.cpu.max is missing"),
    "zero": (
        {"cpu": {"max": "0"}},
        f"{WHERE}.cpu.max: expected an amount above zero, such as 500m or 16, found '0'",
    ),
    "no quantity": (
        {"memory": {"max": "128GB"}},
        f"{WHERE}.memory.max: expected whole bytes above zero, such as 512Mi or 16Gi, found '128GB'",
    ),
    "a number": ({"cpu": {"max": 16}}, f"{WHERE}.cpu.max: expected a string, found 16"),
    "another resource": ({"disk": {"max": "1"}}, f"unknown key 'disk' in {WHERE}"),
}


@pytest.mark.parametrize(("parameters", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_parameters_must_say_something(parameters: Json, message: str) -> None:
    assert load_problems(policy({"limitResourcesPerAccelerator": parameters})) == [message]
