"""What holds of every review, over the wire, with the shipped policies and with a set that has of everything."""

from collections import Counter
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.admission.wire import call, check_answer, patch_of, review_of
from tests.engine.gates import Json, gate, load, pod, request, training_pod
from tests.property.pods import add, additions, claims, pods
from tests.property.sets import FILES, policy_set
from webhook.admission import Endpoint
from webhook.engine import Outcome, mutate, review, validate
from webhook.engine.annotations import DECISION
from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.node_affinity import TERMS, normalise_toleration, required_terms
from webhook.kube.workload import Workload, inspect_workload
from webhook.policy import PolicySet
from webhook.rules.base import Result

BOTH = pytest.mark.parametrize("name", FILES)
BOUNDED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
OBJECTS = pods() | claims()


def answer(thing: Json, endpoint: Endpoint, policies: PolicySet) -> Json:
    """A response over the wire, checked."""
    asked = review_of(thing, kind=thing["kind"], namespace=thing["metadata"]["namespace"])
    found = orjson.loads(call(asked, endpoint, policies).body)
    check_answer(found, asked, mutating=endpoint is Endpoint.MUTATE)
    response: Json = found["response"]
    return response


def asked(thing: Json) -> Any:
    """The request for a generated object."""
    is_pod = thing["kind"] == "Pod"
    resource = "pods" if is_pod else "persistentvolumeclaims"
    return request(thing, kind=thing["kind"], resource=resource, namespace=thing["metadata"]["namespace"])


def patched(thing: Json, policies: PolicySet) -> Json:
    """The object as the API server makes it of our answer."""
    applied: Json = jsonpatch.apply_patch(thing, patch_of(answer(thing, Endpoint.MUTATE, policies)))
    return applied


def unapplied(thing: Json, policies: PolicySet) -> list[str]:
    """Rules that /validate says are not applied."""
    reports = validate(gate(policies), asked(thing)).reports
    return [each.rule.key for each in reports if any(found.text == "unapplied" for found in each.findings)]


def canonical(thing: Any) -> bytes:
    return orjson.dumps(thing, option=orjson.OPT_SORT_KEYS)


@BOTH
@BOUNDED
@given(thing=OBJECTS)
def test_the_patch_makes_the_result_and_the_input_stays(name: str, thing: Json) -> None:
    policies, before = policy_set(name), orjson.dumps(thing)
    outcome = mutate(gate(policies), asked(thing))
    validate(gate(policies), asked(thing))
    assert orjson.dumps(thing) == before
    assert canonical(patched(thing, policies)) == canonical(outcome.object)
    for operation in outcome.patch:
        is_forgery = operation["path"].startswith("/metadata/annotations/podgate.dev~1")
        assert operation["op"] in ("add", "replace") or is_forgery, "nothing else is ever taken away"
    paths = Counter(each["path"] for each in outcome.patch if not each["path"].endswith("/-"))
    assert not [path for path, count in paths.items() if count > 1]


@BOTH
@BOUNDED
@given(thing=OBJECTS)
def test_twice_is_once(name: str, thing: Json) -> None:
    once = patched(thing, policy_set(name))
    assert patch_of(answer(once, Endpoint.MUTATE, policy_set(name))) == []


@BOTH
@BOUNDED
@given(thing=OBJECTS)
def test_after_mutate_nothing_is_unapplied(name: str, thing: Json) -> None:
    assert unapplied(patched(thing, policy_set(name)), policy_set(name)) == []


@BOTH
@BOUNDED
@given(thing=OBJECTS)
def test_every_answer_is_one_that_the_api_server_takes(name: str, thing: Json) -> None:
    for endpoint in Endpoint:
        answer(thing, endpoint, policy_set(name))
    fail, ignore, both = (
        validated["allowed"]
        for validated in (
            answer(thing, endpoint, policy_set(name))
            for endpoint in (Endpoint.VALIDATE_FAIL, Endpoint.VALIDATE_IGNORE, Endpoint.VALIDATE)
        )
    )
    assert both == (fail and ignore)


def as_compared(thing: Json) -> bytes:
    """A pod without our record, its tolerations and requirements as sets: another webhook's come before or after ours."""
    metadata = {key: value for key, value in thing["metadata"].items() if key != "managedFields"}
    kept = {k: v for k, v in (metadata.get("annotations") or {}).items() if not k.startswith("podgate.dev/")}
    metadata["annotations"] = kept
    spec = dict(thing["spec"])
    spec["tolerations"] = sorted({repr(normalise_toleration(each)) for each in spec.get("tolerations") or []})
    terms = required_terms(thing)
    spec["affinity"] = (
        [sorted(map(str, term.requirements)) for term in terms] if terms else spec.get("affinity")
    )
    return canonical({"metadata": metadata, "spec": spec})


@BOTH
@BOUNDED
@given(thing=pods(managed=True), addition=additions())
def test_a_second_pass_ends_as_one_pass_would(name: str, thing: Json, addition: Json) -> None:
    """Of a pod that stays what it is: what was written for a training pod, or for one vendor, is not taken back."""
    assume(stays_what_it_is(workload(thing), workload(add(thing, addition))))
    policies = policy_set(name)
    in_one = patched(add(thing, addition), policies)
    in_two = patched(add(patched(thing, policies), addition), policies)
    assert as_compared(in_two) == as_compared(in_one)
    assert unapplied(in_two, policies) == []


def workload(thing: Json) -> Workload:
    return inspect_workload(thing, shipped_catalogue())


def stays_what_it_is(before: Workload, after: Workload) -> bool:
    """A further GPU can take WORLD_SIZE to be that of one node: then the RDMA written for several is not taken back."""
    asked_before = before.asks_for_accelerator
    talks_on = before.communication in ("none", after.communication)
    return before.workload_class == after.workload_class and (
        not asked_before or (talks_on and (before.vendors, before.sharing) == (after.vendors, after.sharing))
    )


def found_by(outcome: Outcome) -> dict[str, Any]:
    """What every rule found, without what is done about it."""
    return {
        report.rule.key: (
            report.result,
            [(each.result, each.text, each.args, each.path) for each in report.findings],
        )
        for report in outcome.reports
        if report.result is not Result.PASS
    }


@BOTH
@BOUNDED
@given(thing=OBJECTS)
def test_audit_reports_what_enforcing_would_do_and_does_nothing(name: str, thing: Json) -> None:
    """But for a record that a client forged: that is taken away whatever the policies."""
    assume(DECISION not in (thing["metadata"].get("annotations") or {}))
    enforced = review(gate(policy_set(name, "enforce")), asked(thing))
    audited = review(gate(policy_set(name, "audit")), asked(thing))
    assert found_by(audited) == found_by(enforced)
    assert [change for _, change in audited.would_change] == list(enforced.changes)
    assert (audited.allowed, audited.patch, audited.changes) == (True, [], ())
    assert audited.object is thing
    for endpoint in Endpoint:
        response = answer(thing, endpoint, policy_set(name, "audit"))
        assert set(response) <= {"uid", "allowed", "auditAnnotations"}
        assert response["allowed"]


@BOTH
@pytest.mark.parametrize("place", ["metadata", "labels", "spec", "affinity", "env", "managedFields"])
def test_the_deepest_object_that_is_read_can_be_reviewed(name: str, place: str) -> None:
    deep: Any = "x"
    for level in range(240):
        deep = {"a": deep} if level % 2 else [deep]
    thing = training_pod()
    holder = {
        "metadata": thing,
        "labels": thing["metadata"],
        "spec": thing,
        "managedFields": thing["metadata"],
    }
    inner = {"affinity": thing["spec"], "env": thing["spec"]["containers"][0]}
    (holder | inner)[place][place] = deep
    asked_for = review_of(thing)
    for endpoint in Endpoint:
        response = orjson.loads(call(asked_for, endpoint, policy_set(name)).body)
        check_answer(response, asked_for, mutating=endpoint is Endpoint.MUTATE)


@settings(BOUNDED, max_examples=12)
@given(data=st.data())
@BOTH
def test_the_order_of_the_files_does_not_matter(name: str, data: st.DataObject) -> None:
    renamed = [(f"{data.draw(st.integers(0, 99))}-{file}", text) for file, text in FILES[name]]
    shuffled = load(*data.draw(st.permutations(renamed)))
    assert shuffled.hash == policy_set(name).hash
    for thing in (training_pod(), pod(), data.draw(pods())):
        for endpoint in Endpoint:
            assert answer(thing, endpoint, shuffled) == answer(thing, endpoint, policy_set(name))


@BOTH
@BOUNDED
@given(thing=OBJECTS, old=OBJECTS)
def test_an_update_gets_back_only_list_entries_that_were_stored(name: str, thing: Json, old: Json) -> None:
    policies = policy_set(name)
    for stored in (old, thing, patched(thing, policies)):
        asked_for = review_of(thing, "UPDATE", kind=thing["kind"], oldObject=stored)
        response = orjson.loads(call(asked_for, Endpoint.MUTATE, policies).body)
        check_answer(response, asked_for, mutating=True)
        patch = patch_of(response["response"])
        assert stored is not thing or patch == []
        result: Json = jsonpatch.apply_patch(thing, patch)
        same = {"tolerations", "affinity"}
        assert {k: v for k, v in result["spec"].items() if k not in same} == {
            k: v for k, v in thing["spec"].items() if k not in same
        }
        assert result["metadata"] == thing["metadata"]
        added = [
            each
            for each in result["spec"].get("tolerations") or []
            if each not in (thing["spec"].get("tolerations") or [])
        ]
        assert all(each in stored["spec"]["tolerations"] for each in added)
        pointer = "/" + "/".join(map(str, TERMS))
        affinity_changed = any(each["path"].startswith(pointer[: len("/spec/affinity")]) for each in patch)
        if affinity_changed:
            terms = result["spec"]["affinity"]["nodeAffinity"][TERMS[3]]["nodeSelectorTerms"]
            assert any(
                term in stored["spec"]["affinity"]["nodeAffinity"][TERMS[3]]["nodeSelectorTerms"]
                for term in terms
            )
