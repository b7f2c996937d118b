"""Figures in a file, and when new ones are worse: made-up numbers."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from webhook.benchmark.load import Turn
from webhook.benchmark.measure import Row, row_of
from webhook.benchmark.saved import Figures, SavedError, compare, from_json, render, to_json


def row(share: float, name: str = "mutate", connections: int = 1) -> Row:
    return Row(name, connections, 900.0, 1.1, 2.2, share)


def figures(*rows: Row, reviews: str = "abc", machine: str = "one") -> Figures:
    return Figures(machine, reviews, "f00", rows)


def test_what_is_written_is_read() -> None:
    written = figures(row(0.5), row(0.25, "validate/fail", 16))
    assert from_json(to_json(written)) == written


@pytest.mark.parametrize(
    ("now", "worse"),
    [(0.5, False), (0.9, False), (0.426, False), (0.424, True), (0.1, True)],
    ids=["the same", "better", "14.8 % less", "15.2 % less", "a fifth"],
)
def test_worse_is_a_share_that_is_more_than_15_per_cent_less(now: float, worse: bool) -> None:
    (found,) = compare(figures(row(0.5)), figures(row(now)))
    assert found.is_worse is worse
    assert found.change == pytest.approx(now / 0.5 - 1)


def test_another_machine_and_other_policies_are_no_matter() -> None:
    slow = Row("mutate", 1, 9.0, 110.0, 220.0, 0.5)
    before, now = figures(row(0.5)), figures(slow, machine="another")._replace(policies="bad")
    assert not compare(before, now)[0].is_worse


def test_rows_are_found_by_name_and_connections() -> None:
    before = figures(row(0.1, connections=16), row(0.5), row(0.9, "validate/fail"))
    (found,) = compare(before, figures(row(0.5)))
    assert found.before == row(0.5)


@pytest.mark.parametrize(
    ("before", "text"),
    [
        (
            figures(row(0.5), reviews="xyz"),
            "it was measured with other reviews; give the same manifests, or save it again",
        ),
        (
            figures(row(0.5, connections=16)),
            "it has no row for mutate at 1 connections; measure with the same, or save it again",
        ),
    ],
    ids=["other reviews", "other connections"],
)
def test_what_was_not_measured_alike_is_not_compared(before: Figures, text: str) -> None:
    with pytest.raises(SavedError) as found:
        compare(before, figures(row(0.5)))
    assert str(found.value) == text


WHOLE: dict[str, Any] = orjson.loads(to_json(figures(row(0.5))))
ROW = WHOLE["rows"][0]
FIELDS = "a row has not name, connections, calls_per_second, median, p99, share; save it again"
MISSING = "machine, reviews or policies is missing; save it again"
BROKEN: dict[str, tuple[Any, str]] = {
    "a list": (
        [],
        "it has no figures (format: podgate-bench/1); podgate bench --save FILE writes such a file",
    ),
    "another format": (
        WHOLE | {"format": "podgate-bench/9"},
        "it has no figures (format: podgate-bench/1); podgate bench --save FILE writes such a file",
    ),
    "no reviews": (WHOLE | {"reviews": None}, MISSING),
    "a number for the machine": (WHOLE | {"machine": 7}, MISSING),
    "no rows": (WHOLE | {"rows": []}, "there are no rows; save it again"),
    "rows that are a map": (WHOLE | {"rows": {}}, "there are no rows; save it again"),
    "a row that is a list": (WHOLE | {"rows": [[1]]}, FIELDS),
    "a row with more": (WHOLE | {"rows": [ROW | {"x": 1}]}, FIELDS),
    "a name that is a list": (WHOLE | {"rows": [ROW | {"name": []}]}, FIELDS),
    "connections of true": (WHOLE | {"rows": [ROW | {"connections": True}]}, FIELDS),
    "a share of nothing": (
        WHOLE | {"rows": [ROW | {"share": 0}]},
        "share of a row is no number above zero; save it again",
    ),
    "a median of true": (
        WHOLE | {"rows": [ROW | {"median": True}]},
        "median of a row is no number above zero; save it again",
    ),
    "a p99 in words": (
        WHOLE | {"rows": [ROW | {"p99": "2"}]},
        "p99 of a row is no number above zero; save it again",
    ),
}


@pytest.mark.parametrize(("found", "text"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_does_not_fit_says_why(found: Any, text: str) -> None:
    with pytest.raises(SavedError) as error:
        from_json(orjson.dumps(found))
    assert str(error.value) == text


def test_the_share_is_of_the_shortest_latencies_of_each_request() -> None:
    floor = [
        Turn(1000, 1.0, 2.0, (1.0, 5.0)),
        Turn(500, 2.0, 4.0, (3.0, 2.0)),
        Turn(100, 10.0, 20.0, (9.0, 9.0)),
    ]
    ours = [
        Turn(250, 4.0, 8.0, (4.0, 70.0)),
        Turn(250, 4.0, 8.0, (4.0, 2.0)),
        Turn(50, 20.0, 40.0, (8.0, 9.0)),
    ]
    found = row_of("mutate", 1, ours, floor)
    assert found == Row("mutate", 1, 250, 4.0, 8.0, 0.5)
    assert row_of("floor", 1, floor, floor).share == 1


def test_a_machine_that_is_busy_for_a_while_changes_no_share() -> None:
    calm, busy = Turn(250, 4.0, 8.0, (4.0, 4.0)), Turn(5, 200.0, 800.0, (90.0, 150.0))
    floor = [Turn(1000, 1.0, 2.0, (1.0, 1.0))] * 2
    assert row_of("mutate", 1, [calm, busy], floor).share == row_of("mutate", 1, [calm, calm], floor).share


def test_the_table() -> None:
    now = figures(row(1.0, "mutate (floor)"), row(0.2))
    compared = compare(figures(row(1.0, "mutate (floor)"), row(0.5)), now)
    assert render(now.rows) == (
        "call                    connections  median ms   p99 ms  calls/s  of floor\n"
        "mutate (floor)                    1       1.10     2.20      900      100%\n"
        "mutate                            1       1.10     2.20      900       20%\n"
    )
    assert render(now.rows, compared).splitlines()[0].endswith("of floor  before  change")
    assert render(now.rows, compared).splitlines()[2].endswith("  20%     50%    -60%  worse")
