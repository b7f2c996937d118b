"""`podgate pause`: what it writes can be read back, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner, Result

from tests.cli.fake_cluster import PAUSE, SYSTEM, FakeCluster, Json
from webhook.cli.main import podgate
from webhook.policy.pause import parse_pause

Run = Callable[..., Result]

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
WHY = ("--reason", "INC-7: the scheduler is down")
POLICY = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: gpu-limits
spec:
  match:
    all: true
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 8
"""


@pytest.fixture(autouse=True)
def _jane(fake: FakeCluster) -> None:
    fake.answers["POST", WHOAMI] = lambda body: (201, body | {"status": {"userInfo": {"username": "jane"}}})


def test_all_policies(run: Run, fake: FakeCluster) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    result = run("pause", "--for", "2h", *WHY)
    pause = parse_pause(fake.objects[PAUSE])
    assert (pause.policies, pause.reason, pause.by) == (None, "INC-7: the scheduler is down", "jane")
    assert before + timedelta(hours=2) <= pause.until <= datetime.now(UTC) + timedelta(hours=2)
    assert (result.exit_code, result.output) == (
        0,
        f"""\
Paused until {pause.until:%Y-%m-%dT%H:%M:%SZ}: all policies audit only, and the webhook configurations stay as they are.
It ends by itself; sooner with: podgate pause --end
""",
    )


def test_some_policies_until_a_moment(run: Run, fake: FakeCluster) -> None:
    until = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    result = run("pause", "a", "b", "a", "--until", until.astimezone().isoformat(), *WHY)
    pause = parse_pause(fake.objects[PAUSE])
    assert (pause.policies, pause.until) == (frozenset({"a", "b"}), until)
    assert f"Paused until {until:%Y-%m-%dT%H:%M:%SZ}: policies a, b audit only" in result.output


def test_a_second_one_replaces_the_first_and_keeps_what_is_no_pause(run: Run, fake: FakeCluster) -> None:
    run("pause", "a", "--for", "1h", *WHY)
    stored = fake.objects[PAUSE]
    fake.put(PAUSE, {**stored, "metadata": {"labels": {"team": "platform"}}})
    run("pause", "--for", "1h30m", *WHY)
    assert fake.objects[PAUSE]["metadata"]["labels"] == {"team": "platform"}
    assert parse_pause(fake.objects[PAUSE]).policies is None


def test_the_end(run: Run, fake: FakeCluster) -> None:
    run("pause", "--for", "1h", *WHY)
    assert run("pause", "--end").output == "The pause is over: policies do what they say.\n"
    assert PAUSE not in fake.objects
    assert run("pause", "--end").output == "There is no pause.\n"


def test_who_it_was_is_left_out_where_the_cluster_does_not_tell(run: Run, fake: FakeCluster) -> None:
    fake.refused[WHOAMI] = 403
    assert run("pause", "--for", "1h", *WHY).exit_code == 0
    assert parse_pause(fake.objects[PAUSE]).by == ""


def test_a_name_that_no_policy_has_is_refused(run: Run, fake: FakeCluster) -> None:
    fake.put(f"{SYSTEM}/configmaps/podgate-policies", {"data": {"gpu-limits.yaml": POLICY}})
    result = run("pause", "gpu-limit", "--for", "1h", *WHY)
    assert result.exit_code == 2
    assert "Error: there is no policy 'gpu-limit' in the cluster; " in result.stderr
    assert "gpu-limits" in result.stderr
    assert fake.writes == []
    assert run("pause", "gpu-limits", "--for", "1h", *WHY).exit_code == 0


def test_names_are_believed_where_the_policies_may_not_be_read(run: Run, fake: FakeCluster) -> None:
    fake.refused[f"{SYSTEM}/configmaps/podgate-policies"] = 403
    assert run("pause", "gpu-limit", "--for", "1h", *WHY).exit_code == 0


def test_a_refusal_of_the_cluster_is_said(run: Run, fake: FakeCluster) -> None:
    fake.refused[PAUSE] = 403
    result = run("pause", "--for", "1h", *WHY)
    assert result.exit_code == 3
    assert "403 Forbidden" in result.stderr


HOW_LONG = "say how long: --for 2h, or --until 2026-12-01T20:00:00Z; --end ends a pause"
MOST = "a pause lasts at most 7 days; what shall last longer is an override with mode: audit"
WRONG: dict[str, tuple[list[str], str]] = {
    "no end": (list(WHY), HOW_LONG),
    "two ends": (["--for", "1h", "--until", "2026-12-01T20:00:00Z", *WHY], HOW_LONG),
    "no reason": (["--for", "1h"], "say why, for those who find it: --reason 'INC-7: …'"),
    "an empty reason": (["--for", "1h", "--reason", " "], "say why, for those who find it: --reason 'INC-7: …'"),
    "no unit": (["--for", "2", *WHY], "--for 2: expected a duration such as 30m, 2h or 1d12h"),
    "nothing": (["--for", "", *WHY], "--for : expected a duration such as 30m, 2h or 1d12h"),
    "below zero": (["--for", "-2h", *WHY], "--for -2h: expected a duration such as 30m, 2h or 1d12h"),
    "a week and a second": (["--for", "7d2s", *WHY], MOST),
    "no zone": (
        ["--until", "2026-12-01T20:00:00", *WHY],
        "--until 2026-12-01T20:00:00: expected a time with its zone, such as 2026-12-01T20:00:00Z",
    ),
    "no time": (["--until", "tomorrow", *WHY], "--until tomorrow: expected a time with its zone, such as 2026-12-01T20:00:00Z"),
    "past": (["--until", "2020-01-01T00:00:00Z", *WHY], "2020-01-01T00:00:00Z is over already"),
    "the end and more": (["a", "--end"], "--end ends the whole pause and stands alone"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "error"), WRONG.values(), ids=WRONG)
def test_wrong_usage(words: list[str], error: str) -> None:
    result = CliRunner().invoke(podgate, ["pause", *words])
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: {error}\n")


def test_just_a_week_is_taken_by_those_who_read_it(run: Run, fake: FakeCluster) -> None:
    assert run("pause", "--for", "7d", *WHY).exit_code == 0
    stored: Json = fake.objects[PAUSE]
    stored["metadata"]["creationTimestamp"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    assert parse_pause(stored).policies is None
