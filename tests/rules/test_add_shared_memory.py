"""addSharedMemory: pods that have their own /dev/shm first, then where the volume goes."""

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
from webhook.rules.base import Result

VOLUME = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
MOUNT = {"name": "dshm", "mountPath": "/dev/shm"}
GATE = gate_of(policy({"addSharedMemory": {"sizeLimit": "16Gi"}}))


def trainer(*mounts: Any, name: str = "trainer") -> Json:
    return container(name, {GPU: "1"}, **({"volumeMounts": list(mounts)} if mounts else {}))


def spec_of(thing: Json) -> Json:
    spec: Json = without_record(applied(GATE, thing).object)["spec"]
    return spec


LEFT: dict[str, tuple[Json, list[str]]] = {
    "no accelerator": (pod(container()), ["no accelerator @ spec.containers"]),
    "zero accelerators": (pod(container(resources={GPU: "0"})), ["no accelerator @ spec.containers"]),
    "mounted from another volume, with a slash at the end": (
        pod(
            trainer({"name": "cache", "mountPath": "/dev/shm/"}),
            volumes=[{"name": "cache", "emptyDir": {"medium": "Memory"}}],
        ),
        ['taken @ spec.containers["trainer"].volumeMounts["/dev/shm/"]'],
    ),
    "mounted by a path that the runtime cleans": (
        pod(trainer({"name": "cache", "mountPath": "//dev/./x/../shm"}), volumes=[{"name": "cache"}]),
        ['taken @ spec.containers["trainer"].volumeMounts["//dev/./x/../shm"]'],
    ),
    "mounted by a path that the kubelet makes absolute": (
        pod(trainer({"name": "cache", "mountPath": "dev/shm"}), volumes=[{"name": "cache"}]),
        ['taken @ spec.containers["trainer"].volumeMounts["dev/shm"]'],
    ),
    "the name is taken by a volume of another size": (
        pod(trainer(), volumes=[{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]),
        ['other volume @ spec.volumes["dshm"]'],
    ),
    "the name is taken by memory without a size": (
        pod(trainer(), volumes=[{"name": "dshm", "emptyDir": {"medium": "Memory"}}]),
        ['other volume @ spec.volumes["dshm"]'],
    ),
    "the name is taken by a disk of the same size": (
        pod(trainer(), volumes=[{"name": "dshm", "emptyDir": {"sizeLimit": "16Gi"}}]),
        ['other volume @ spec.volumes["dshm"]'],
    ),
    "name and path are taken": (
        pod(trainer(MOUNT), volumes=[{"name": "dshm", "hostPath": {"path": "/dev/shm"}}]),
        ['taken @ spec.containers["trainer"].volumeMounts["/dev/shm"]'],
    ),
    "the node's own": (pod(trainer(), hostIPC=True), ["host @ spec.hostIPC"]),
    "ours already": (pod(trainer(MOUNT), volumes=[VOLUME]), []),
    "ours already, its size spelt by the API server": (
        pod(
            trainer(MOUNT),
            volumes=[{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16384Mi"}}],
        ),
        [],
    ),
}


@pytest.mark.parametrize(("thing", "findings"), LEFT.values(), ids=LEFT.keys())
def test_what_is_left_alone(thing: Json, findings: list[str]) -> None:
    outcome = applied(GATE, thing)
    assert outcome.patch == []
    assert places(outcome) == findings
    assert report(outcome).result is (Result.SKIP if findings else Result.PASS)


NEAR_MISSES = {
    "a folder inside": {"name": "cache", "mountPath": "/dev/shm/cache"},
    "a folder around it": {"name": "cache", "mountPath": "/dev"},
    "a longer name": {"name": "cache", "mountPath": "/dev/shm2"},
    "another place": {"name": "cache", "mountPath": "/mnt/dev/shm"},
    "no path": {"name": "cache", "mountPath": None},
    "no mount at all": None,
}


@pytest.mark.parametrize("mount", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_a_mount_elsewhere_does_not_take_the_place(mount: Any) -> None:
    assert spec_of(pod(trainer(mount)))["containers"][0]["volumeMounts"] == [mount, MOUNT]


@pytest.mark.parametrize("empty", [{}, {"volumes": None}, {"volumes": []}], ids=["absent", "null", "empty"])
@pytest.mark.parametrize(
    "mounts", [{}, {"volumeMounts": None}, {"volumeMounts": []}], ids=["absent", "null", "empty"]
)
def test_absent_null_and_empty_lists_end_alike(empty: Json, mounts: Json) -> None:
    spec = spec_of(pod(container("trainer", {GPU: "1"}, **mounts), **empty))
    assert (spec["volumes"], spec["containers"][0]["volumeMounts"]) == ([VOLUME], [MOUNT])


def test_only_containers_with_an_accelerator_get_it() -> None:
    init = container("warm-up", {GPU: "1"})
    spec = spec_of(pod(container("log"), trainer(), container("proxy"), initContainers=[init]))
    assert [each.get("volumeMounts") for each in spec["containers"]] == [None, [MOUNT], None]
    assert spec["initContainers"][0]["volumeMounts"] == [MOUNT]


def test_a_container_that_names_a_claim_gets_it() -> None:
    claiming = {"name": "trainer", "resources": {"claims": [{"name": "gpu"}]}}
    spec = spec_of(pod(claiming, resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]))
    assert spec["containers"][0]["volumeMounts"] == [MOUNT]


def test_one_container_keeps_its_own_and_the_other_gets_ours() -> None:
    own = {"name": "own", "mountPath": "/dev/shm"}
    outcome = applied(GATE, pod(trainer(own), trainer(name="second"), volumes=[{"name": "own"}]))
    spec = without_record(outcome.object)["spec"]
    assert [each["volumeMounts"] for each in spec["containers"]] == [[own], [MOUNT]]
    assert spec["volumes"] == [{"name": "own"}, VOLUME]
    assert places(outcome) == ['taken @ spec.containers["trainer"].volumeMounts["/dev/shm"]']


def test_a_volume_of_ours_without_mounts_is_mounted() -> None:
    spec = spec_of(pod(trainer(), volumes=[VOLUME]))
    assert (spec["volumes"], spec["containers"][0]["volumeMounts"]) == ([VOLUME], [MOUNT])


def test_the_first_of_two_sizes_holds_in_every_pass() -> None:
    gate = gate_of(
        policy({"addSharedMemory": {"sizeLimit": "16Gi"}}, {"addSharedMemory": {"sizeLimit": "32Gi"}})
    )
    outcome = applied(gate, pod(trainer()))
    assert without_record(outcome.object)["spec"]["volumes"] == [VOLUME]
    again = applied(gate, outcome.object or {})
    for answer in (outcome, again):
        assert report(answer, "p/r").result is Result.PASS
        assert [finding.text for finding in report(answer, "p/r1").findings] == ["taken"]


HOLDERS = st.sampled_from([{}, {GPU: "1"}, {GPU: "8"}])
MOUNTS = st.sampled_from([None, [], [{"name": "own", "mountPath": "/dev/shm/"}], [MOUNT]])
PARTS = st.lists(st.tuples(HOLDERS, MOUNTS), min_size=1, max_size=3)
VOLUMES = st.sampled_from([None, [], [{"name": "own", "emptyDir": {}}], [VOLUME]])


def parts_of(parts: list[tuple[Json, Any]], prefix: str) -> list[Json]:
    return [
        container(f"{prefix}{index}", resources, volumeMounts=mounts)
        for index, (resources, mounts) in enumerate(parts)
    ]


@given(first=PARTS, added=PARTS, volumes=VOLUMES)
def test_containers_that_another_webhook_adds_end_as_in_one_pass(
    first: list[tuple[Json, Any]], added: list[tuple[Json, Any]], volumes: Any
) -> None:
    before, later = parts_of(first, "a"), parts_of(added, "b")
    once = without_record(applied(GATE, pod(*before, volumes=volumes)).object)
    injected = pod(*later, *once["spec"]["containers"], volumes=once["spec"]["volumes"])
    two_passes = spec_of(injected)
    assert two_passes == spec_of(pod(*later, *before, volumes=volumes))


def test_what_was_added_is_applied_when_validated() -> None:
    assert report(judged(GATE, applied(GATE, pod()).object or {})).result is Result.PASS


TEXTS = {
    "no accelerator": (
        pod(container()),
        "skip: no container of the pod holds an accelerator -> nothing: shared memory goes where the accelerators are",
    ),
    "taken": (
        pod(trainer({"name": "own", "mountPath": "/dev/shm"})),
        (
            "skip: the container keeps its own mount at /dev/shm -> "
            "nothing, or remove the mount if podgate shall size the shared memory"
        ),
    ),
    "other volume": (
        pod(trainer(), volumes=[{"name": "dshm", "emptyDir": {}}]),
        (
            "skip: no shared memory is added: the pod has another volume named dshm -> "
            "mount it at /dev/shm yourself, or give it another name"
        ),
    ),
    "host": (
        pod(trainer(), hostIPC=True),
        (
            "skip: no shared memory is added: with hostIPC the pod shares the node's /dev/shm -> "
            "nothing, or remove hostIPC if the pod needs shared memory of its own"
        ),
    ),
}


@pytest.mark.parametrize(("thing", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_what_it_says(thing: Json, text: str) -> None:
    outcome = applied(GATE, thing)
    assert said(outcome) == [text]
    assert said(outcome, "zh") != [text]


BYTES = "expected whole bytes above zero, such as 512Mi or 16Gi"
WHERE = "spec.rules[0].addSharedMemory.sizeLimit"
REFUSED = {
    "missing": ({}, f"{WHERE} is missing"),
    "zero, which the kubelet reads as no limit": ({"sizeLimit": "0"}, f"{WHERE}: {BYTES}, found '0'"),
    "negative": ({"sizeLimit": "-1Gi"}, f"{WHERE}: {BYTES}, found '-1Gi'"),
    "no quantity": ({"sizeLimit": "16GB"}, f"{WHERE}: {BYTES}, found '16GB'"),
    "part of a byte": ({"sizeLimit": "1500m"}, f"{WHERE}: {BYTES}, found '1500m'"),
    "a number": ({"sizeLimit": 17179869184}, f"{WHERE}: expected a string, found 17179869184"),
}


def test_the_smallest_size_is_one_byte() -> None:
    assert load_problems(policy({"addSharedMemory": {"sizeLimit": "1"}})) == []


@pytest.mark.parametrize(("parameters", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_size_must_be_one(parameters: Json, message: str) -> None:
    assert load_problems(policy({"addSharedMemory": parameters})) == [message]
