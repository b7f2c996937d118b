"""One repair is an accident, three are a dispute, and a dispute is not fought."""

from __future__ import annotations

from webhook.controller.contest import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, ROW_SECONDS, Contest


def repaired(*times: float) -> Contest:
    contest = Contest()
    for at in times:
        contest = contest.repaired(at)
    return contest


def test_two_repairs_are_made_at_once() -> None:
    contest = repaired(0.0, 1.0)
    assert (contest.is_on, contest.left(1.0)) == (False, 0.0)


def test_the_third_is_a_dispute() -> None:
    contest = repaired(0.0, 1.0, 2.0)
    assert (contest.is_on, contest.left(2.0)) == (True, FIRST_PAUSE_SECONDS)


def test_each_further_repair_doubles_the_pause_up_to_a_bound() -> None:
    contest, at, pauses = Contest(), 0.0, []
    for _ in range(14):
        contest = contest.repaired(at)
        pauses.append(contest.left(at))
        at += pauses[-1] + 10
    assert pauses[:5] == [0.0, 0.0, 30.0, 60.0, 120.0]
    assert max(pauses) == LONGEST_PAUSE_SECONDS
    assert pauses[-1] == LONGEST_PAUSE_SECONDS


def test_repairs_of_long_ago_are_forgotten() -> None:
    contest = repaired(0.0, 1.0, ROW_SECONDS + 2)
    assert (contest.is_on, contest.repairs) == (False, 1)
