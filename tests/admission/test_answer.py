from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.admission.wire import UID, call, check_answer, response_of, review_of
from tests.engine.gates import (
    Json,
    container,
    finds,
    gate,
    load,
    pod,
    policy,
    request,
    training_pod,
    with_rule,
)
from webhook.admission import Endpoint, ReviewRecord, build_response
from webhook.engine import mutate
from webhook.policy import PolicySet
from webhook.rules.base import Finding, Mode, Result, Subject, ValidatingRule, error, fail, skip

CAP = {"limitAcceleratorCount": {"perContainer": {"max": 0}}}
RDMA = {"requestRDMA": {"resourceNames": ["rdma/ib"], "env": {"TOKEN": "s3cret"}}}
MUTATE, VALIDATE, VALIDATE_FAIL, VALIDATE_IGNORE = (
    Endpoint.MUTATE,
    Endpoint.VALIDATE,
    Endpoint.VALIDATE_FAIL,
    Endpoint.VALIDATE_IGNORE,
)


HOSTILE = "gpu\n  do:    nothing, all is well\x1b[2J\u202e" + "x" * 500


@pytest.mark.parametrize("mode", ["enforce", "warn", "audit"])
def test_names_from_objects_forge_nothing(mode: str) -> None:
    policies = load(
        policy("limit", CAP, mode=mode),
        policy("fabric", RDMA, mode=mode),
        policy("class", {"setPriorityClass": {"class": "ai-train-high"}}, mode=mode),
    )
    thing = training_pod(priorityClassName=HOSTILE)
    thing["metadata"]["generateName"] = HOSTILE
    thing["spec"]["containers"][0]["name"] = HOSTILE
    review = review_of(thing, name=HOSTILE, namespace=HOSTILE)
    for endpoint in Endpoint:
        response = response_of(review, endpoint, policies)  # checks every text of it
        assert "nothing, all is well\n" not in orjson.dumps(response).decode()


@pytest.mark.parametrize("mode", ["enforce", "warn", "audit"])
def test_a_pod_of_thousands_of_violations_has_a_bounded_answer(mode: str) -> None:
    policies = load(policy("limit", CAP, mode=mode), policy("fabric", RDMA, mode=mode))
    many = pod(*(container(f"c{number}-{'x' * 50}", 1) for number in range(2_000)))
    for endpoint in Endpoint:
        assert len(orjson.dumps(response_of(review_of(many), endpoint, policies) | {"patch": ""})) < 64 * 1024


def test_a_denial_shows_five_and_counts_the_others() -> None:
    policies = finds(*(fail("bad", ("spec", f"f{number}")) for number in range(60)))
    status = response_of(review_of(pod()), VALIDATE, policies)["status"]
    assert status["message"].count("where:") == 5
    assert status["message"].endswith("… and 55 more; podgate check shows all")
    assert [cause["field"] for cause in status["details"]["causes"]] == [f"spec.f{n}" for n in range(50)]


def test_five_are_not_cut() -> None:
    policies = finds(*(fail("bad", ("spec", f"f{number}")) for number in range(5)))
    assert "more" not in response_of(review_of(pod()), VALIDATE, policies)["status"]["message"]


def warnings_of(*rules: Json, **thing: Any) -> list[str]:
    policies = load(policy("p", *rules, mode="warn"))
    found: list[str] = response_of(review_of(pod(**thing)), VALIDATE, policies).get("warnings", [])
    return found


def says(message: str, remediation: str) -> Json:
    """A rule that finds this in every pod."""
    expression = {"resources": ["pods"], "validations": [{"expression": "false"}]}
    return {"expression": expression, "message": message, "remediation": remediation}


WORDS = "word " * 50
WARNED: dict[str, tuple[str, str, list[str]]] = {
    "both in 120": ("m" * 60, "r" * 51, [f"[p/r0] {'m' * 60}; {'r' * 51}"]),
    "one more": ("m" * 60, "r" * 52, [f"[p/r0] {'m' * 60}", f"[p/r0] do: {'r' * 52}"]),
    "256 each": ("m" * 249, "r" * 245, [f"[p/r0] {'m' * 249}", f"[p/r0] do: {'r' * 245}"]),
    "one more each": ("m" * 250, "r" * 246, [f"[p/r0] {'m' * 248}…", f"[p/r0] do: {'r' * 244}…"]),
    "words": (WORDS + "end", WORDS + "end", [f"[p/r0] {'word ' * 49}…", f"[p/r0] do: {'word ' * 48}…"]),
    "the last one fits": (f"{'m' * 244} word", "do", [f"[p/r0] {'m' * 244} word", "[p/r0] do: do"]),
    "no words": ("字" * 250, "做", [f"[p/r0] {'字' * 248}…", "[p/r0] do: 做"]),
}


@pytest.mark.parametrize(("message", "remediation", "lines"), WARNED.values(), ids=WARNED)
def test_a_warning_says_all_that_fits_in_one_line_or_two(
    message: str, remediation: str, lines: list[str]
) -> None:
    assert warnings_of(says(message, remediation)) == lines


def test_a_remedy_of_several_findings_is_said_once() -> None:
    assert warnings_of(says("m" * 120, "mend it"), says("n" * 120, "mend it")) == [
        f"[p/r0] {'m' * 120}",
        "[p/r0] do: mend it",
        f"[p/r1] {'n' * 120}",
        "[p/r1] do: mend it",
    ]
    found = finds(*(fail("bad", ("spec", f"f{number}")) for number in range(60)), mode="warn")
    assert response_of(review_of(pod()), VALIDATE, found)["warnings"] == ["[p/r0] bad; mend it"]


MANY: dict[str, tuple[int, int, int, str]] = {
    "twenty": (20, 10, 20, ""),
    "twenty and one": (21, 10, 20, "… and 1 more; podgate check shows all"),
    "sixty": (60, 10, 20, "… and 40 more; podgate check shows all"),
    "2,400 characters": (10, 240 - len("[p/r0] ") - len("[p/r0] do: ") - 10, 20, ""),
    "2,401 characters": (
        10,
        241 - len("[p/r0] ") - len("[p/r0] do: ") - 10,
        18,
        "… and 1 more; podgate check shows all",
    ),
}


@pytest.mark.parametrize(("rules", "length", "lines", "last"), MANY.values(), ids=MANY)
def test_so_many_warnings_and_how_many_more(rules: int, length: int, lines: int, last: str) -> None:
    """A finding is never shown without its remedy."""
    found = warnings_of(*(says(f"{number:m>{length}}", "r" * 10) for number in range(rules)))
    assert len([line for line in found if line.startswith("[p/r")]) == lines
    assert found[lines:] == [last] * bool(last)


def test_so_many_changes_in_thought() -> None:
    labels = {f"label-{number:02}": "value" for number in range(30)}
    policies = load(policy("p", {"setFields": {"labels": labels}}, mode="warn"))
    found = response_of(review_of(pod()), MUTATE, policies)["warnings"]
    assert found[:1] == ['[p/r0] would set metadata.labels["label-00"] to value']
    assert found[20:] == ["… and 10 more; podgate check shows all"]


@pytest.mark.parametrize(
    ("length", "start"), [(60, "metadata.labels.x"), (61, "…tadata.labels.xx")], ids=["60", "61"]
)
def test_of_a_long_field_the_end_is_said(length: int, start: str) -> None:
    label = "x" * (length - len("metadata.labels."))
    policies = load(policy("p", {"setFields": {"labels": {label: "v"}}}, mode="warn"))
    (warning,) = response_of(review_of(pod()), MUTATE, policies)["warnings"]
    field = warning.removeprefix("[p/r0] would set ").removesuffix(" to v")
    assert (len(field), field[: len(start)]) == (60, start)


def test_each_finding_is_shown_where_its_own_ceiling_puts_it() -> None:
    policies = finds(
        fail("bad", ("spec", "denied")),
        Finding(Result.FAIL, "bad", path=("spec", "warned"), ceiling=Mode.WARN),
        Finding(Result.FAIL, "bad", path=("spec", "recorded"), ceiling=Mode.AUDIT),
        error("unknown", ("spec", "ignored"), why="nobody knows"),
        skip("bad", ("spec", "skipped")),
    )
    response = response_of(review_of(pod()), VALIDATE, policies)
    assert [cause["field"] for cause in response["status"]["details"]["causes"]] == ["spec.denied"]
    assert response["status"]["message"].count("where:") == 1
    assert response["warnings"] == ["[p/r0] bad; mend it"]


def test_an_error_under_fail_is_a_denial_that_says_so() -> None:
    policies = finds(error("unknown", why="nobody knows"), failurePolicy="Fail", contact="#help")
    status = response_of(review_of(pod()), VALIDATE, policies)["status"]
    assert status["message"].splitlines()[:2] == [
        "cannot be evaluated: nobody knows.",
        "  do:    give podgate these facts, or ask the platform team",
    ]
    assert status["message"].endswith(", #help")


def test_a_validating_answer_has_no_patch_whatever_the_outcome() -> None:
    outcome = mutate(gate(load(policy("p", RDMA))), request(training_pod()))
    assert outcome.patch
    assert {"patch", "patchType"} <= set(build_response(outcome, mutating=True)["response"])
    assert not {"patch", "patchType"} & set(build_response(outcome, mutating=False)["response"])


OWN: dict[str, tuple[Endpoint, list[str]]] = {
    "both": (VALIDATE, ["a/r0", "b/r0"]),
    "failurePolicy Fail": (VALIDATE_FAIL, ["b/r0"]),
    "failurePolicy Ignore": (VALIDATE_IGNORE, ["a/r0"]),
}


@pytest.mark.parametrize(("endpoint", "rules"), OWN.values(), ids=OWN)
def test_each_validating_endpoint_answers_for_its_policies(endpoint: Endpoint, rules: list[str]) -> None:
    policies = load(policy("a", CAP), policy("b", CAP, failurePolicy="Fail"))
    response = response_of(review_of(training_pod()), endpoint, policies)
    assert [cause["reason"] for cause in response["status"]["details"]["causes"]] == rules


def deployment(gpus: int) -> Json:
    return {"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [container(gpus=gpus)]}}}}


@pytest.mark.parametrize(("endpoint", "rules"), OWN.values(), ids=OWN)
def test_each_validating_endpoint_answers_for_its_policies_in_templates(
    endpoint: Endpoint, rules: list[str]
) -> None:
    lost = {"setPriorityClass": {"class": "lost"}}
    policies = load(policy("a", lost), policy("b", lost, failurePolicy="Fail"))
    answer = call(review_of(deployment(1), kind="Deployment"), endpoint, policies)
    assert [f"{name}/{rule}" for name, rule, *_ in answer.record.results] == rules


class Breaks(ValidatingRule):
    """Has a bug."""

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        raise ZeroDivisionError


def test_an_endpoint_asks_no_rule_that_it_does_not_answer_for() -> None:
    policies = with_rule(load(policy("p", CAP)), Breaks.model_construct())
    assert response_of(review_of(pod()), VALIDATE_FAIL, policies) == {"uid": UID, "allowed": True}
    with pytest.raises(ZeroDivisionError):
        call(review_of(pod()), VALIDATE_IGNORE, policies)


@pytest.mark.parametrize(
    ("settled", "allowed"), [({}, False), ({"settled": False}, True)], ids=["settled", "not yet"]
)
def test_what_a_later_webhook_undid_is_refused_once_the_policies_are_settled(
    settled: Json, allowed: bool
) -> None:
    policies = load(policy("p", RDMA | {"verify": "fail"}))
    assert response_of(review_of(training_pod()), VALIDATE, policies, **settled)["allowed"] is allowed


def test_the_two_endpoints_together_find_what_the_one_finds() -> None:
    policies = load(
        policy("a", CAP),
        policy("b", CAP, failurePolicy="Fail"),
        policy("c", RDMA, failurePolicy="Fail"),
        policy("d", RDMA, mode="warn"),
    )
    whole, *halves = (
        record_of(policies, each, training_pod()).results
        for each in (VALIDATE, VALIDATE_FAIL, VALIDATE_IGNORE)
    )
    assert [{name for name, *_ in half} for half in halves] == [{"b", "c"}, {"a", "d"}]
    assert sorted(whole) == sorted(halves[0] + halves[1])


def test_own_texts_are_shown_in_every_language() -> None:
    own = {"message": {"en": "Too many", "zh": "太多"}, "remediation": "Ask"}
    policies = load(policy("p", CAP | own))
    status = response_of(review_of(training_pod()), VALIDATE, policies, languages=("en", "zh"))["status"]
    assert status["message"].splitlines()[0] == "Too many."
    assert status["message"].splitlines()[-1] == "  太多。Ask"
    chinese = load(policy("p", CAP | own | {"message": {"zh": "太多"}}))
    status = response_of(review_of(training_pod()), VALIDATE, chinese, languages=("en",))["status"]
    assert status["message"].splitlines()[0] == "太多."
    alike = load(policy("p", CAP | own | {"message": "Too many"}))
    status = response_of(review_of(training_pod()), VALIDATE, alike, languages=("en", "zh"))["status"]
    assert status["message"].splitlines()[-1].startswith("  why:")
    first = response_of(review_of(training_pod()), VALIDATE, policies, languages=("zh",))["status"]
    assert first["details"]["causes"][0]["message"] == "太多"


def test_a_place_is_shown_up_to_256_characters() -> None:
    policies = finds(fail("bad", ("spec", "x" * 251)), fail("bad", ("spec", "x" * 252)))
    causes = response_of(review_of(pod()), VALIDATE, policies)["status"]["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["spec." + "x" * 251, "spec." + "x" * 250 + "…"]


def test_an_audit_annotation_is_cut_where_four_bytes_a_character_would_fill_it() -> None:
    labels = {f"label-{number:03}": "value" for number in range(200)}
    policies = load(policy("p", {"setFields": {"labels": labels}}))
    mutations = response_of(review_of(pod()), MUTATE, policies)["auditAnnotations"]["mutations"]
    assert mutations.startswith('p/r0 metadata.labels["label-000"], p/r0 ')
    assert (len(mutations), mutations[-1]) == (2048, "…")


def test_values_of_the_environment_are_in_no_text() -> None:
    for mode in ("enforce", "warn", "audit"):
        answer = call(review_of(training_pod()), MUTATE, load(policy("p", RDMA, mode=mode)))
        response = orjson.loads(answer.body)["response"]
        response.pop("patch", None)
        assert "s3cret" not in orjson.dumps(response).decode() + repr(answer.record)


def record_of(policies: PolicySet, endpoint: Endpoint, thing: Any, **others: Any) -> ReviewRecord:
    return call(review_of(thing, **others), endpoint, policies).record


# policies, endpoint, pod -> what the record calls it
DECISIONS: dict[str, tuple[PolicySet, Endpoint, Any, str]] = {
    "nothing": (load(policy("p", RDMA)), MUTATE, pod(), "allow"),
    "changed": (load(policy("p", RDMA)), MUTATE, training_pod(), "mutate"),
    "would be changed, audited": (load(policy("p", RDMA, mode="audit")), MUTATE, training_pod(), "allow"),
    "would be changed, warned": (load(policy("p", RDMA, mode="warn")), MUTATE, training_pod(), "warn"),
    "denied": (load(policy("p", CAP)), VALIDATE, training_pod(), "deny"),
    "would be denied at the other endpoint": (load(policy("p", CAP)), VALIDATE_FAIL, training_pod(), "allow"),
    "warned": (load(policy("p", CAP, mode="warn")), VALIDATE, training_pod(), "warn"),
    "audited": (load(policy("p", CAP, mode="audit")), VALIDATE, training_pod(), "allow"),
    "an error": (finds(error("bad")), VALIDATE, pod(), "error"),
    "an error that denies": (finds(error("bad"), failurePolicy="Fail"), VALIDATE, pod(), "deny"),
}


@pytest.mark.parametrize(("policies", "endpoint", "thing", "decision"), DECISIONS.values(), ids=DECISIONS)
def test_the_record_names_the_decision(
    policies: PolicySet, endpoint: Endpoint, thing: Any, decision: str
) -> None:
    assert record_of(policies, endpoint, thing).decision == decision


def test_the_record() -> None:
    policies = load(policy("p", {"setPriorityClass": {"class": "ai-train-high"}}))
    record = record_of(policies, MUTATE, training_pod(), dryRun=True)
    assert record == ReviewRecord(
        uid=UID,
        decision_id=record.decision_id,
        webhook=MUTATE,
        operation="CREATE",
        kind="Pod",
        namespace="training",
        name="trainer-<generated>",
        user="ann",
        dry_run=True,
        decision="mutate",
        results=(("p", "r0", "pass", "enforce"),),
        changes=(("p", "r0", "spec.priorityClassName"), ("p", "r0", "spec.priority")),
        policies=policies.hash,
        warnings=0,
    )


@pytest.mark.parametrize("mode", ["warn", "audit"])
def test_the_record_says_what_a_policy_would_change(mode: str) -> None:
    priority = {"setPriorityClass": {"class": "ai-train-high"}}
    policies = load(policy("p", priority, mode=mode), policy("q", {"setFields": {"labels": {"a": "b"}}}))
    record = record_of(policies, MUTATE, training_pod())
    assert record.changes == (("q", "r0", "metadata.labels.a"),)
    assert record.would_change == (("p/r0", "spec.priorityClassName"), ("p/r0", "spec.priority"))


def test_the_record_counts_the_warnings_that_are_sent() -> None:
    policies = load(policy("p", says("bad", "mend it"), says("worse", "mend it"), mode="warn"))
    assert record_of(policies, VALIDATE, pod()).warnings == 2


@pytest.mark.parametrize("endpoint", Endpoint)
def test_the_same_review_is_answered_alike_every_time(endpoint: Endpoint) -> None:
    policies = load(policy("a", RDMA), policy("b", CAP, mode="warn"))
    bodies = {
        call(review_of(training_pod(), dryRun=dry), endpoint, policies).body for dry in (True, False, False)
    }
    assert len(bodies) == 1


@pytest.mark.parametrize("endpoint", Endpoint)
@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward", "proxy"])
def test_connect_has_no_metadata(endpoint: Endpoint, subresource: str) -> None:
    options = {"kind": "PodExecOptions", "apiVersion": "v1", "command": ["sh"], "container": "main"}
    review = review_of(options, "CONNECT", subResource=subresource)
    review["request"]["kind"]["kind"] = "PodExecOptions"
    policies = load(policy("p", CAP, failurePolicy="Fail"))
    assert response_of(review, endpoint, policies) == {"uid": UID, "allowed": True}


def test_the_checker_sees_what_is_wrong() -> None:
    """A checker that passes everything would prove nothing."""
    good = {"uid": UID, "allowed": True}
    wrong: list[Any] = [
        good | {"uid": "x"},
        good | {"allowed": 1},
        good | {"patch": "W10="},
        good | {"patchType": "JSONPatch"},
        good | {"patch": "W10=", "patchType": "JSONPatch"},
        good | {"allowed": False},
        good | {"warnings": []},
        good | {"warnings": ["x" * 257]},
        good | {"warnings": ["x", "x"]},
        good | {"warnings": ["a\nb"]},
        good | {"auditAnnotations": {"podgate.dev/x": "y"}},
        good | {"auditAnnotations": {"x": "a\x1b"}},
        good | {"more": 1},
    ]
    review = review_of(pod())
    for response in wrong:
        answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        with pytest.raises(AssertionError):
            check_answer(answer, review, mutating=True)


SENT = [
    {
        "manager": "kubectl-create",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"main"}': {".": {}, "f:name": {}}}}},
    }
]
AFTER = " (added after it was sent, by a webhook or the API server)"
PRIVILEGED = {"forbidBypass": {"privileged": True}}


@pytest.mark.parametrize(
    ("operation", "managed", "note"),
    [
        pytest.param("CREATE", SENT, AFTER, id="by another"),
        pytest.param("CREATE", None, "", id="nobody knows"),
        pytest.param("UPDATE", SENT, "", id="an update"),
    ],
)
def test_a_refusal_says_that_its_author_did_not_write_it(
    operation: str, managed: list[Json] | None, note: str
) -> None:
    proxy = container("proxy", securityContext={"privileged": True})
    thing = pod(container(), proxy, managed=managed)
    policies = load(
        policy("p", PRIVILEGED, match={"namespaces": ["training"], "operations": ["CREATE", "UPDATE"]})
    )
    status = response_of(review_of(thing, operation), VALIDATE, policies)["status"]
    place = 'spec.containers["proxy"].securityContext.privileged'
    assert status["message"].splitlines()[1] == f"  where: {place}{note}"
    assert [each["field"] for each in status["details"]["causes"]] == [place]
