"""Cases K: what comes from people who mean harm."""

import time
from datetime import UTC, datetime

import orjson
import pytest
import yaml

from tests.admission.wire import call
from tests.cases.observing import HERE, Answer, Case, Json, Report, facts, policy_set
from tests.cases.texts import privileged
from webhook.admission import Endpoint
from webhook.server.logs import render_line, review_line


def by_the_platform(request: Json) -> None:
    request["userInfo"]["username"] = "system:serviceaccount:platform:marker"


def volume(directory: str, pattern: str) -> Answer:
    return Answer(
        denied=(
            (
                f'spec.volumes["d"].hostPath.path: volume d is {directory} of the node, '
                f"which gives access to {pattern} past the scheduler"
            ),
        )
    )


CASES = (
    Case(
        "K2",
        ("p-sched", "reserved-annotations"),
        (
            Answer(
                denied=(
                    "metadata.annotations: annotations of policy.example.com/ are set by the platform only",
                )
            ),
        ),
    ),
    Case("K2", ("p-sched", "reserved-annotations"), (Answer(),), alter=by_the_platform, acts=False),
    Case(
        "K5",
        ("p-priv",),
        Report(
            2,
            problems=(
                "13:6 error: expected aliases for at most 100000 values, found more",
                "21:7 error: expected a value that ends, found an alias to a value inside itself",
            ),
        ),
        acts=False,
    ),
    Case(
        "K6",
        ("p-reg-nested",),
        (Answer(denied=("spec.containers: an image is not of the form registry.local/aaa",)),),
    ),
    Case(
        "K7",
        ("p-priv",),
        (
            Answer(
                denied=(
                    'spec.containers["m\\u000a2026-01-01 INFO allowed all"].securityContext.privileged: '
                    + privileged("m\\u000a2026-01-01 INFO allowed all"),
                )
            ),
        ),
    ),
    # Secrets make no call, and no policy can name them.
    Case(
        "K8",
        ("p-priv",),
        (
            Answer(),
            Answer(denied=(f'spec.containers["main"].securityContext.privileged: {privileged("main")}',)),
        ),
    ),
    Case(
        "K11",
        ("host-devices",),
        (
            volume("/dev/nvidia0", "/dev/nvidia*"),
            volume("/dev/../dev/", "/dev/nvidia*"),
            volume("/", "/dev/nvidia*"),
            volume("//var//run/nvidia-container-devices", "/var/run/nvidia-container-devices"),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert case.observe() == case.expected


def reviews(case: str) -> list[bytes]:
    """The bodies that are sent."""
    return [orjson.dumps(each) for each in yaml.safe_load_all(next(HERE.glob(f"{case}-*.yaml")).read_bytes())]


def test_k6_a_pattern_is_matched_in_time_that_its_length_bounds() -> None:
    (body,) = reviews("K6")
    policies = policy_set(("p-reg-nested",))
    call(body, Endpoint.VALIDATE, policies, facts=facts())
    started = time.thread_time()
    call(body, Endpoint.VALIDATE, policies, facts=facts())
    assert time.thread_time() - started < 0.1


def test_k7_one_line_is_logged_and_nothing_in_it_is_raw() -> None:
    (body,) = reviews("K7")
    answer = call(body, Endpoint.VALIDATE, policy_set(("p-priv",)), facts=facts())
    line = render_line(review_line(answer.record, 0.001))
    assert line.isascii()
    assert line.decode().isprintable()
    said = orjson.loads(line)
    assert said["user"] == 'eve\r\n{"level":"info","allowed":true}'
    assert (said["decision"], said["failed"]) == ("deny", ["p-priv/privileged"])


@pytest.mark.parametrize("endpoint", [Endpoint.MUTATE, Endpoint.VALIDATE])
@pytest.mark.parametrize("secret", ["S3cr3t-value", "UzNjcjN0LXZhbHVl"])
def test_k8_no_secret_is_answered_or_logged(endpoint: Endpoint, secret: str) -> None:
    policies = policy_set(("p-priv", "p-env", "p-vis"))
    bodies = reviews("K8")
    assert any(secret in body.decode() for body in bodies)
    for body in bodies:
        answer = call(body, endpoint, policies, facts=facts(), now=datetime(2026, 1, 1, tzinfo=UTC))
        assert secret not in answer.body.decode()
        assert secret not in render_line(review_line(answer.record, 0.001)).decode()
