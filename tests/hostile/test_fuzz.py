"""The fuzzer itself: it finds what is wrong, writes it down, and shows it again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.engine.gates import load, training_pod
from tests.hostile import fuzz
from tests.hostile.apart import Apart, Here, image_environment
from tests.hostile.fuzz_seeds import SETS, every_type, mutated
from tests.hostile.objects import review
from webhook.rules.base import MutatingRule, Rule, ValidatingRule
from webhook.server.reviews import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WHOLE = orjson.dumps(review(training_pod()))


def types_below(rule: type[Rule]) -> set[str]:
    shipped = (each for each in rule.__subclasses__() if each.__module__.startswith("webhook.rules"))
    return {each.type for each in shipped}


@pytest.fixture(scope="module")
def fuzzer() -> fuzz.Fuzzer:
    return fuzz.Fuzzer(fuzz.Summary(), Here())


def test_a_set_has_every_type_of_rule() -> None:
    found = {type(rule.rule).type for policy in load(*every_type()).policies for rule in policy.rules}
    assert found == types_below(MutatingRule) | types_below(ValidatingRule)


@pytest.mark.parametrize("path", dict.fromkeys(fuzz.PATHS))
@pytest.mark.parametrize("policies", SETS)
def test_an_honest_review_is_no_finding(policies: str, path: str, fuzzer: fuzz.Fuzzer) -> None:
    assert fuzzer.fault(policies, path, WHOLE) == ""


def test_a_rule_that_a_forged_record_broke_may_change_something_the_second_time(fuzzer: fuzz.Fuzzer) -> None:
    """Text is all that an API server lets through there."""
    metadata = {"name": "p", "namespace": "training", "annotations": {"podgate.dev/changes": 2**64 - 1}}
    spec = {"containers": [{"name": "app0", "image": "registry.local/x:1"}]}
    body = orjson.dumps(review({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    answer = fuzzer._application.post("every", "/mutate", body)
    assert fuzz.failed(orjson.loads(answer.body)["response"]) == {"others/r0 error"}
    assert fuzzer.fault("every", "/mutate", body) == ""


def filled_up_to(size: int) -> bytes:
    """The review with an annotation that makes it as long as that."""
    asked = review(training_pod())
    notes = asked["request"]["object"]["metadata"].setdefault("annotations", {})
    notes["example.com/note"] = ""
    notes["example.com/note"] = "x" * (size - len(orjson.dumps(asked)))
    return orjson.dumps(asked)


@pytest.mark.parametrize("more", [-100, 0, 1])
def test_a_review_about_as_large_as_is_taken_is_no_finding(more: int, fuzzer: fuzz.Fuzzer) -> None:
    before = fuzzer.summary.counts["too large when patched"]
    body = filled_up_to(MAX_BODY + more)
    assert len(body) == MAX_BODY + more
    assert fuzzer.fault("shipped", "/mutate", body) == ""
    assert fuzzer.summary.counts["too large when patched"] - before == (more <= 0)


def test_another_limit_than_said_is_a_finding(fuzzer: fuzz.Fuzzer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.server.reviews.MAX_BODY", len(WHOLE) - 1)
    assert f"code 413 for {len(WHOLE)} bytes" in fuzzer.fault("shipped", "/mutate", WHOLE)
    monkeypatch.setattr("webhook.server.reviews.MAX_BODY", len(WHOLE))
    assert "code 413 at the second call" in fuzzer.fault("shipped", "/mutate", WHOLE)
    monkeypatch.setattr("webhook.server.reviews.MAX_BODY", MAX_BODY + 1)
    assert f"code 200 for {MAX_BODY + 1} bytes" in fuzzer.fault(
        "shipped", "/mutate", filled_up_to(MAX_BODY + 1)
    )


def test_the_same_seed_sends_the_same_reviews() -> None:
    one, other = (mutated(WHOLE, random.Random(7)) for _ in range(2))
    assert one == other != WHOLE


def raising(*_: object, **__: object) -> Any:
    raise RuntimeError


def allowing(body: Any) -> Callable[..., Any]:
    return lambda response, *_, **__: {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": body,
    }


BROKEN: dict[str, tuple[str, Any, str]] = {
    "a bug": ("webhook.admission.answer.parse_review", raising, "code 500"),
    "another uid": ("webhook.admission.answer.build_response", allowing({"uid": "x", "allowed": True}), "uid"),
    "a patch without a type": (
        "webhook.admission.answer.build_response",
        allowing({"uid": "u-1", "allowed": True, "patch": "W10="}),
        "patchType",
    ),
    "a patch that does not apply": (
        "webhook.admission.answer.build_response",
        allowing({"uid": "u-1", "allowed": True, "patchType": "JSONPatch",
                  "patch": "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL25vd2hlcmUifV0="}),
        "JsonPatchPathNotFound",
    ),
    "a second call that changes something": (
        "webhook.admission.answer.build_response",
        allowing({"uid": "u-1", "allowed": True, "patchType": "JSONPatch",
                  "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3giLCJ2YWx1ZSI6MX1d"}),
        "the second call changes [{'op': 'add', 'path': '/x', 'value': 1}]",
    ),
    "a call that takes long": ("tests.hostile.fuzz.MOST_SECONDS", -1.0, "took 0.0 s"),
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_fault_is_found_written_and_shown_again(
    broken: tuple[str, Any, str], tmp_path: Path, fuzzer: fuzz.Fuzzer, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, value, said = broken
    monkeypatch.setattr(target, value)
    fault = fuzzer.fault("shipped", "/mutate", WHOLE)
    assert said in fault
    line = fuzz.write_finding(tmp_path, "shipped", "/mutate", WHOLE, fault)
    file = next(tmp_path.iterdir())
    assert line.startswith(f"{file}: shipped /mutate: ")
    assert said in fuzz.replay(file)
    monkeypatch.undo()
    assert fuzz.replay(file) == ""


def test_the_summary_adds_up_and_says_what_was_found() -> None:
    one = fuzz.Summary(3, slowest=0.25, growth=7)
    one.counts["allowed"] = 3
    other = fuzz.Summary(2, slowest=0.1, growth=9, findings=["a finding"])
    other.counts["allowed"] = 2
    assert fuzz.shown(one + other, 2.0).splitlines() == [
        "5 reviews in 2 s, 2 a second",
        "  allowed: 5",
        "  slowest call: 250 ms",
        "  growth of a process: 9 KiB",
        "a finding",
        "1 findings",
    ]
    assert fuzz.shown(one, 1.0).endswith("no findings")


def test_a_short_run_has_no_findings(tmp_path: Path) -> None:
    found = fuzz.run(3, 11, tmp_path)
    assert found.sent > 10
    assert found.findings == []
    assert not list(tmp_path.iterdir())


def test_growth_of_the_application_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "WARM", 1)
    monkeypatch.setattr(fuzz, "SAMPLE", 2)
    monkeypatch.setattr(fuzz, "MOST_GROWTH", 100)
    found = fuzz.run(5, 11, tmp_path)
    assert found.findings == [f"seed 11: grew by {found.growth} KiB"]


@pytest.fixture
def apart() -> Iterator[Apart]:
    application = Apart()
    yield application
    application.close()


def test_a_process_that_is_gone_is_a_finding_and_replaced(
    apart: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuzzer = fuzz.Fuzzer(fuzz.Summary(), apart)
    assert fuzzer.fault("shipped", "/mutate", WHOLE) == ""
    apart._process.kill()
    assert "the application's process is gone" in fuzzer.fault("shipped", "/mutate", WHOLE)
    assert fuzzer.fault("shipped", "/mutate", WHOLE) == ""
    monkeypatch.setattr("tests.hostile.apart.LONGEST", 0)
    assert "TimeoutError: no answer within 0 s" in fuzzer.fault("shipped", "/mutate", WHOLE)


def test_memory_is_measured_as_the_image_keeps_it() -> None:
    assert image_environment() == {"MALLOC_TRIM_THRESHOLD_": "1048576"}
