import re
from typing import Any

import orjson
import pytest

from tests.engine.gates import BOB, Json, container, gate, load, pod, policy, request, training_pod
from webhook.engine import mutate, validate
from webhook.engine.annotations import CHANGES, DECISION, MOST_BYTES, NAMES, POLICIES, decision_id, record
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft

SET = load(
    policy("class", {"setPriorityClass": {"class": "ai-train-high"}}, match={"workloads": ["training"]}),
    policy(
        "fabric",
        {"requestRDMA": {"resourceNames": ["rdma/ib"], "env": {"NCCL_IB_HCA": "s3cret"}}},
        match={"accelerators": {"count": {"min": 1}}},
    ),
)
GATE = gate(SET)


def annotations(thing: Any) -> Json:
    return dict(thing["metadata"].get("annotations") or {})


def entries(thing: Any) -> list[Json]:
    found: list[Json] = orjson.loads(annotations(thing)[CHANGES])
    return found


def client(*names: str) -> list[Json]:
    """managedFields of a client that wrote these annotations."""
    written: Json = {".": {}} | {f"f:{name}": {} for name in names}
    return [{"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:annotations": written}}}]


def test_a_changed_pod_tells_what_changed() -> None:
    outcome = mutate(GATE, request(training_pod()))
    assert entries(outcome.object) == [
        {"rule": "class/r0", "path": "spec.priorityClassName", "from": None, "to": "ai-train-high"},
        {"rule": "class/r0", "path": "spec.priority", "from": 0, "to": 1_000_000},
        {
            "rule": "fabric/r0",
            "path": 'spec.containers["pytorch"].resources.limits["rdma/ib"]',
            "from": None,
            "to": "1",
        },
        {
            "rule": "fabric/r0",
            "path": 'spec.containers["pytorch"].resources.requests["rdma/ib"]',
            "from": None,
            "to": "1",
        },
        {"rule": "fabric/r0", "path": 'spec.containers["pytorch"].env["NCCL_IB_HCA"]'},
    ]
    assert annotations(outcome.object)[POLICIES] == SET.hash
    assert annotations(outcome.object)[DECISION] == outcome.decision_id
    assert re.fullmatch("[a-z2-7]{8}", outcome.decision_id)


def test_values_of_the_environment_are_left_out() -> None:
    assert "s3cret" not in annotations(mutate(GATE, request(training_pod())).object)[CHANGES]


def test_an_unchanged_pod_says_nothing() -> None:
    outcome = mutate(GATE, request(pod()))
    assert outcome.patch == []
    assert annotations(outcome.object) == {}


def test_a_second_pass_keeps_the_decision_and_appends() -> None:
    first = mutate(GATE, request(training_pod()))
    assert mutate(GATE, request(first.object)).patch == []  # type: ignore[arg-type]
    grown = orjson.loads(orjson.dumps(first.object))
    grown["spec"]["containers"].append(container("late", 1))
    second = mutate(GATE, request(grown))
    assert second.decision_id == first.decision_id
    assert entries(second.object)[: len(first.changes)] == entries(first.object)
    assert [entry["path"] for entry in entries(second.object)[len(first.changes) :]] == [
        'spec.containers["late"].resources.limits["rdma/ib"]',
        'spec.containers["late"].resources.requests["rdma/ib"]',
        'spec.containers["late"].env["NCCL_IB_HCA"]',
    ]


FORGED = {
    CHANGES: "[]",
    POLICIES: "0123456789ab",
    DECISION: "aaaaaaaa",
    "podgate.dev/skip": "x: y",
    "own": "z",
}


@pytest.mark.parametrize(
    "thing", [pod, training_pod], ids=["pod that nothing changes", "pod that is changed"]
)
@pytest.mark.parametrize("names", [NAMES, (CHANGES,), (DECISION,)], ids=["all", "changes", "decision"])
def test_what_a_client_wrote_under_our_names_is_removed(thing: Any, names: tuple[str, ...]) -> None:
    given = {name: text for name, text in FORGED.items() if name in (*names, "podgate.dev/skip", "own")}
    forged = thing(annotations=given, managed=client(*given))
    outcome = mutate(GATE, request(forged))
    assert annotations(outcome.object) == {"podgate.dev/skip": "x: y", "own": "z"}
    assert outcome.decision_id not in ("aaaaaaaa", "")
    assert {change.rule for change in outcome.changes} <= {"class/r0", "fabric/r0"}
    again = mutate(GATE, request(outcome.object))  # type: ignore[arg-type]
    assert again.patch == []


def test_a_forgery_is_not_recorded_over_in_a_later_pass() -> None:
    forged = training_pod(annotations={CHANGES: "[]"}, managed=client(CHANGES))
    first = orjson.loads(orjson.dumps(mutate(GATE, request(forged)).object))
    first["spec"]["containers"].append(container("late", 1))
    assert CHANGES not in annotations(mutate(GATE, request(first)).object)


def test_an_applied_empty_map_is_no_forgery() -> None:
    managed = [{"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:annotations": {}}}}]
    first = mutate(GATE, request(training_pod(managed=managed)))
    assert set(annotations(first.object)) == set(NAMES)
    assert mutate(GATE, request(first.object)).patch == []  # type: ignore[arg-type]


def test_a_forged_decision_is_not_shown() -> None:
    forged = training_pod(annotations={DECISION: "aaaaaaaa"}, managed=client(DECISION))
    assert validate(GATE, request(forged)).decision_id == decision_id(request(forged))
    carried = training_pod(annotations={DECISION: "aaaaaaaa"})
    assert validate(GATE, request(carried)).decision_id == "aaaaaaaa"


@pytest.mark.parametrize("text", ["AB", "aaaa\naaa", "a" * 9, "ａａａａａａａａ", 7, None], ids=repr)
def test_a_carried_text_that_is_no_decision_is_not_shown(text: Any) -> None:
    thing = training_pod(annotations={DECISION: text})
    assert validate(GATE, request(thing)).decision_id == decision_id(request(thing))
    assert annotations(mutate(GATE, request(thing)).object)[DECISION] == decision_id(request(thing))


def test_a_decision_is_named_after_what_was_asked() -> None:
    asked = request(training_pod())
    assert decision_id(asked) == decision_id(request(training_pod(), uid="another", dry_run=True))
    others = [
        request(training_pod(gpus=4)),
        request(training_pod(), "UPDATE"),
        request(training_pod(), namespace="web"),
        request(training_pod(), username=BOB),
        request(training_pod(), name="trainer-x"),
    ]
    assert len({decision_id(each) for each in (asked, *others)}) == len(others) + 1


@pytest.mark.parametrize("thing", [None, {}, {"metadata": None}, {"metadata": {"generateName": 5}}], ids=repr)
def test_a_decision_has_a_name_whatever_is_asked(thing: Any) -> None:
    assert len(decision_id(AdmissionRequest(kind="Pod", resource="pods", object=thing))) == 8


def test_a_decision_has_a_name_for_what_utf_8_cannot_hold() -> None:
    names = {decision_id(request(training_pod(priority=2**70), name=name)) for name in ("\ud800", "p")}
    numbers = {decision_id(request(training_pod(priority=number))) for number in (2**70, 2**71)}
    assert (len(names), len(numbers)) == (2, 2)


def test_numbers_of_a_file_that_json_cannot_hold() -> None:
    thing = training_pod(priority=2**70)
    outcome = mutate(GATE, request(thing, from_api_server=False))
    entry = next(each for each in entries(outcome.object) if each["path"] == "spec.priority")
    assert entry == {"rule": "class/r0", "path": "spec.priority"}
    assert outcome.decision_id == decision_id(request(thing))


ODD_RECORDS: dict[str, Any] = {
    "no JSON": "[",
    "no list": '{"rule": "x"}',
    "no text": 5,
    "a map": {"a": "b"},
    "deeper than can be written": "[" * 900 + "]" * 900,
    "too long": orjson.dumps(["x" * MOST_BYTES]).decode(),
}


@pytest.mark.parametrize("text", ODD_RECORDS.values(), ids=ODD_RECORDS)
def test_a_record_that_cannot_be_read_is_begun_anew(text: Any) -> None:
    outcome = mutate(GATE, request(training_pod(annotations={CHANGES: text})))
    assert [entry["rule"] for entry in entries(outcome.object)] == ["class/r0"] * 2 + ["fabric/r0"] * 3


@pytest.mark.parametrize("wrong", ["x", [], 5, True], ids=repr)
def test_annotations_of_another_type_are_left_alone(wrong: Any) -> None:
    outcome = mutate(GATE, request(training_pod(annotations=wrong)))
    assert outcome.object is not None
    assert outcome.object["metadata"]["annotations"] is wrong
    assert outcome.object["spec"]["priorityClassName"] == "ai-train-high"


def test_the_record_is_bounded_in_bytes_and_says_what_it_leaves_out() -> None:
    # 训 has three bytes
    many = pod(*(container(f"训练{number}", 1) for number in range(600)), owner="batch/Job")
    text = annotations(mutate(GATE, request(many)).object)[CHANGES]
    assert MOST_BYTES - 200 < len(text.encode()) <= MOST_BYTES
    *kept, last = orjson.loads(text)
    assert last == {"leftOut": 600 * 3 + 2 - len(kept)}
    assert kept[0]["path"] == "spec.priorityClassName"


def test_a_record_that_fills_its_room_is_read_and_leaves_room_for_nothing_else() -> None:
    full = orjson.dumps(["x" * (MOST_BYTES - len('[""]'))]).decode()
    outcome = mutate(GATE, request(training_pod(annotations={CHANGES: full})))
    assert annotations(outcome.object)[CHANGES] == f'[{{"leftOut":{1 + 5}}}]'


@pytest.mark.parametrize(("more", "kept"), [(0, True), (1, False)], ids=["fits", "one byte more"])
def test_an_entry_that_just_fits_is_kept(more: int, kept: bool) -> None:
    room = MOST_BYTES - len('{"leftOut":1}') - len('[""],')
    entry = "x" * (room + more)
    draft = Draft({"metadata": {"annotations": {CHANGES: orjson.dumps([entry]).decode()}}})
    record(draft, (), "0123456789ab", "aaaaaaaa")
    assert entries(draft.object) == ([entry] if kept else [{"leftOut": 1}])


def test_the_record_stays_bounded_over_passes() -> None:
    thing: Any = pod(*(container(f"c{number}", 1) for number in range(100)), owner="batch/Job")
    for number in range(3):
        thing = orjson.loads(orjson.dumps(mutate(GATE, request(thing)).object))
        assert len(annotations(thing)[CHANGES].encode()) <= MOST_BYTES
        thing["spec"]["containers"].append(container(f"late{number}", 1))
