"""setResources: what is stated already first, then what each accelerator brings."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.applying import applied
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
    without_record,
)
from webhook.engine import Gate
from webhook.kube.pod import containers
from webhook.kube.quantity import parse_quantity
from webhook.rules.base import Result


def gate(requests: Json | None = None, limits: Json | None = None) -> Gate:
    given = {"requests": requests, "limits": limits}
    return gate_of(policy({"setResources": {"perAccelerator": {k: v for k, v in given.items() if v}}}))


CPU = gate({"cpu": "8"})
BOTH = gate({"cpu": "8", "memory": "64Gi"}, {"memory": "96Gi"})


def stated(part: str, **amounts: Any) -> Json:
    """A container with one GPU that states something besides."""
    resources: Json = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    resources[part] = resources[part] | amounts
    return {"name": "main", "resources": resources}


def resources_of(gate: Gate, thing: Json, index: int = 0) -> Json:
    """What the container ends with, the GPUs left out."""
    found = without_record(applied(gate, thing).object)["spec"]["containers"][index].get("resources") or {}
    kept = {part: {k: v for k, v in values.items() if k != GPU} for part, values in found.items()}
    return {part: values for part, values in kept.items() if values}


LEFT: dict[str, tuple[Json, list[str]]] = {
    "no accelerator": (pod(container()), ["no accelerator @ spec.containers"]),
    "no accelerator, and resources of its own": (
        pod(container(), resources={"requests": {"cpu": "4"}}),
        ["no accelerator @ spec.containers"],
    ),
    "zero accelerators": (pod(container(resources={GPU: "0"})), ["no accelerator @ spec.containers"]),
    "a request of its own": (
        pod(stated("requests", cpu="2")),
        ['kept @ spec.containers["main"].resources.requests.cpu'],
    ),
    "a request of zero": (
        pod(stated("requests", cpu=0)),
        ['kept @ spec.containers["main"].resources.requests.cpu'],
    ),
    "a limit without a request": (
        pod(stated("limits", cpu="4")),
        ['kept @ spec.containers["main"].resources.limits.cpu'],
    ),
    "a request that is no quantity": (
        pod(stated("requests", cpu="eight")),
        ['kept @ spec.containers["main"].resources.requests.cpu'],
    ),
    "the same request and a limit besides": (
        pod(container(resources={GPU: "1", "cpu": "8"})),
        ['kept @ spec.containers["main"].resources.limits.cpu'],
    ),
    "the pod's own request": (
        pod(resources={"requests": {"cpu": "4"}}),
        ["pod level @ spec.resources.requests.cpu"],
    ),
    "the pod's own limit": (
        pod(resources={"limits": {"cpu": "4"}}),
        ["pod level @ spec.resources.limits.cpu"],
    ),
    "a claim that cannot be counted": (
        pod(
            {"name": "main", "resources": {"claims": [{"name": "gpu"}]}},
            resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}],
        ),
        ['no count @ spec.containers["main"].resources'],
    ),
    "the same request, spelt otherwise": (pod(stated("requests", cpu="8000m")), []),
}


@pytest.mark.parametrize(("thing", "findings"), LEFT.values(), ids=LEFT.keys())
def test_what_is_left_alone(thing: Json, findings: list[str]) -> None:
    outcome = applied(CPU, thing)
    assert outcome.patch == []
    assert places(outcome) == findings
    assert report(outcome).result is (Result.SKIP if findings else Result.PASS)


FREE = {
    "null": pod(stated("requests", cpu=None)),
    "another resource stated": pod(stated("requests", memory="1Gi")),
    "the pod states another resource": pod(resources={"requests": {"memory": "4Gi"}}),
    "the pod states null": pod(resources={"requests": {"cpu": None}}),
}


@pytest.mark.parametrize("thing", FREE.values(), ids=FREE.keys())
def test_what_only_seems_to_be_stated(thing: Json) -> None:
    outcome = applied(CPU, thing)
    assert (outcome.object or {})["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "8"
    assert places(outcome) == []


WRITTEN: dict[str, tuple[Gate, Json, Json]] = {
    "one device": (CPU, pod(), {"requests": {"cpu": "8"}}),
    "eight devices, suffixes kept": (
        BOTH,
        pod(container(resources={GPU: "8"})),
        {"requests": {"cpu": "64", "memory": "512Gi"}, "limits": {"memory": "768Gi"}},
    ),
    "a limit alone brings its request": (
        gate(limits={"memory": "64Gi"}),
        pod(container(resources={GPU: "2"})),
        {"requests": {"memory": "128Gi"}, "limits": {"memory": "128Gi"}},
    ),
    "thousandths of a processor": (
        gate({"cpu": "1500m"}),
        pod(container(resources={GPU: "3"})),
        {"requests": {"cpu": "4500m"}},
    ),
    "scratch space": (
        gate({"ephemeral-storage": "100G"}),
        pod(container(resources={GPU: "2"})),
        {"requests": {"ephemeral-storage": "200G"}},
    ),
    "the limit of another resource is no reason to stop": (
        BOTH,
        pod(stated("limits", memory="1Gi")),
        {"requests": {"cpu": "8"}, "limits": {"memory": "1Gi"}},
    ),
    "slices count one by one": (
        CPU,
        pod(container(resources={"nvidia.com/mig-1g.5gb": "2"})),
        {
            "requests": {"cpu": "16", "nvidia.com/mig-1g.5gb": "2"},
            "limits": {"nvidia.com/mig-1g.5gb": "2"},
        },
    ),
    "a share that only names memory is one device": (
        CPU,
        pod(container(resources={"nvidia.com/gpumem": "4000"})),
        {"requests": {"cpu": "8", "nvidia.com/gpumem": "4000"}, "limits": {"nvidia.com/gpumem": "4000"}},
    ),
    "units of a device are no devices": (
        CPU,
        pod(container("a", {"tencent.com/vcuda-core": "200"}), container("b", {GPU: "1"})),
        {
            "requests": {"cpu": "16", "tencent.com/vcuda-core": "200"},
            "limits": {"tencent.com/vcuda-core": "200"},
        },
    ),
    "a share by annotation is one device": (
        CPU,
        pod(container(), metadata={"annotations": {"gpu-fraction": "0.5"}}, schedulerName="kai-scheduler"),
        {"requests": {"cpu": "8"}},
    ),
}


@pytest.mark.parametrize(("gate", "thing", "resources"), WRITTEN.values(), ids=WRITTEN.keys())
def test_what_is_written(gate: Gate, thing: Json, resources: Json) -> None:
    assert resources_of(gate, thing) == resources


@pytest.mark.parametrize(
    "empty", [{}, {"resources": None}, {"resources": {}}], ids=["absent", "null", "empty"]
)
def test_a_container_without_accelerators_gets_nothing(empty: Json) -> None:
    thing = pod({"name": "log", **empty}, container("trainer", {GPU: "2"}), {"name": "proxy"})
    assert [resources_of(CPU, thing, index) for index in range(3)] == [{}, {"requests": {"cpu": "16"}}, {}]


def test_each_container_gets_the_amounts_of_its_own_devices() -> None:
    thing = pod(container("a", {GPU: "1"}), container("b", {GPU: "4"}))
    assert [resources_of(CPU, thing, index) for index in (0, 1)] == [
        {"requests": {"cpu": "8"}},
        {"requests": {"cpu": "32"}},
    ]


def test_our_own_amounts_in_the_api_servers_spelling_pass() -> None:
    thing = pod(container(resources={GPU: "16", "memory": "1Ti"}))
    outcome = applied(gate(limits={"memory": "64Gi"}), thing)
    assert (outcome.patch, report(outcome).result) == ([], Result.PASS)


def test_the_first_of_two_rules_holds_in_every_pass() -> None:
    rules = [{"setResources": {"perAccelerator": {"requests": {"cpu": amount}}}} for amount in ("8", "16")]
    outcome = applied(gate_of(policy(*rules)), pod())
    assert places(outcome) == ['kept @ spec.containers["main"].resources.requests.cpu']
    again = applied(gate_of(policy(*rules)), outcome.object or {})
    assert places(again) == places(outcome)


def test_what_was_set_is_applied_when_validated() -> None:
    assert report(judged(BOTH, applied(BOTH, pod()).object or {})).result is Result.PASS


AMOUNTS = st.sampled_from([None, "0", "2", "8", "16"])
RESOURCES = st.fixed_dictionaries(
    {"gpus": st.integers(0, 8), "request": AMOUNTS, "limit": AMOUNTS, "memory": AMOUNTS}
)
PARTS = st.lists(RESOURCES, min_size=1, max_size=3)


def parts_of(parts: list[Json], prefix: str) -> list[Json]:
    return [
        {
            "name": f"{prefix}{index}",
            "resources": {
                "limits": {GPU: str(part["gpus"]), "cpu": part["limit"]},
                "requests": {GPU: str(part["gpus"]), "cpu": part["request"], "memory": part["memory"]},
            },
        }
        for index, part in enumerate(parts)
    ]


@given(first=PARTS, added=PARTS)
def test_containers_that_another_webhook_adds_end_as_in_one_pass(
    first: list[Json], added: list[Json]
) -> None:
    before, later = parts_of(first, "a"), parts_of(added, "b")
    once = without_record(applied(BOTH, pod(*before)).object)
    two_passes = without_record(applied(BOTH, pod(*later, *once["spec"]["containers"])).object)
    assert two_passes == without_record(applied(BOTH, pod(*later, *before)).object)


@given(
    devices=st.integers(1, 10**4),
    request=st.tuples(st.integers(1, 10**4), st.sampled_from(["Mi", "G", "Gi"])),
    limit=st.tuples(st.integers(1, 10**4), st.sampled_from(["Mi", "G", "Gi"])),
)
def test_a_limit_is_never_below_its_request(
    devices: int, request: tuple[int, str], limit: tuple[int, str]
) -> None:
    texts = ["".join(map(str, each)) for each in (request, limit)]
    parameters = {"perAccelerator": {"requests": {"memory": texts[0]}, "limits": {"memory": texts[1]}}}
    if load_problems(policy({"setResources": parameters})):
        assert parse_quantity(texts[1]) < parse_quantity(texts[0])
        return
    thing = pod(container(resources={GPU: str(devices)}))
    written = applied(gate_of(policy({"setResources": parameters})), thing).object or {}
    (only,) = containers(written)
    amounts = [parse_quantity(only.value["resources"][part]["memory"]) for part in ("requests", "limits")]
    assert amounts == [devices * parse_quantity(text) for text in texts]
    assert amounts[0] <= amounts[1]


TEXTS = {
    "no accelerator": (
        pod(container()),
        "skip: no container of the pod holds an accelerator -> nothing: the amounts are for each accelerator",
    ),
    "kept": (
        pod(stated("requests", cpu="2")),
        "skip: the container keeps its own cpu -> nothing: what somebody stated is respected",
    ),
    "pod level": (
        pod(resources={"limits": {"cpu": "4"}}),
        (
            "skip: no cpu is set in containers, since the pod's own resources state it -> "
            "nothing: the pod's own resources hold for all of its containers"
        ),
    ),
    "no count": (
        LEFT["a claim that cannot be counted"][0],
        (
            "skip: no resources are set: the accelerators of a resource claim cannot be counted -> "
            "state cpu and memory of the container yourself"
        ),
    ),
}


@pytest.mark.parametrize(("thing", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_what_it_says(thing: Json, text: str) -> None:
    outcome = applied(CPU, thing)
    assert said(outcome) == [text]
    assert said(outcome, "zh") != [text]


WHERE = "spec.rules[0].setResources.perAccelerator"
AMOUNT = "expected a whole number above zero and a suffix, such as 8 or 64Gi, found"
REFUSED: dict[str, tuple[Json, str]] = {
    "nothing": ({}, f"{WHERE}: give requests, limits or both"),
    "an accelerator": (
        {"limits": {GPU: "1"}},
        f"{WHERE}.limits: {GPU} cannot be set, expected cpu, memory, ephemeral-storage",
    ),
    "zero": ({"requests": {"cpu": "0"}}, f"{WHERE}.requests: cpu: {AMOUNT} '0'"),
    "negative": ({"requests": {"cpu": "-1"}}, f"{WHERE}.requests: cpu: {AMOUNT} '-1'"),
    "a fraction": ({"requests": {"memory": "1.5Gi"}}, f"{WHERE}.requests: memory: {AMOUNT} '1.5Gi'"),
    "thousandths of a byte": ({"requests": {"memory": "500m"}}, f"{WHERE}.requests: memory: {AMOUNT} '500m'"),
    "no quantity": ({"requests": {"memory": "64GB"}}, f"{WHERE}.requests: memory: {AMOUNT} '64GB'"),
    "a number": ({"requests": {"cpu": 8}}, f"{WHERE}.requests.cpu: expected a string, found 8"),
    "a limit below its request": (
        {"requests": {"memory": "64Gi"}, "limits": {"memory": "64G"}},
        f"{WHERE}: the limit of memory, 64G, is below its request, 64Gi",
    ),
}


@pytest.mark.parametrize(("parameters", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_amounts_must_be_ones_that_can_be_multiplied(parameters: Json, message: str) -> None:
    assert load_problems(policy({"setResources": {"perAccelerator": parameters}})) == [message]
