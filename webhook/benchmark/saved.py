"""Figures in a file, and whether new ones are worse than they.

What is compared is the share of the floor, measured in the same run by turns: a slower or a busier machine slows both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from webhook.benchmark.measure import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = "podgate-bench/1"
WORSE = 0.15
"""Of the share; two runs of the same program on a busy machine differ by less than ten per cent."""

_NUMBERS = ("calls_per_second", "median", "p99", "share")


class SavedError(ValueError):
    """A file does not fit; the text says why and what to do."""


class Figures(NamedTuple):
    """What one run found.

    Attributes:
        reviews: a hash of what was sent: figures of other reviews cannot be compared.
        policies: the hash of the set; other policies can.
    """

    machine: str
    reviews: str
    policies: str
    rows: tuple[Row, ...]


class Compared(NamedTuple):
    """One row beside the one that was kept.

    Attributes:
        change: of the share: -0.2 where it is a fifth less.
    """

    now: Row
    before: Row
    change: float

    @property
    def is_worse(self) -> bool:
        """Whether it is worse by more than `WORSE`."""
        return self.change < -WORSE


def to_json(figures: Figures) -> bytes:
    """The file's content."""
    rows = [row._asdict() for row in figures.rows]
    return (
        orjson.dumps({"format": FORMAT, **figures._asdict(), "rows": rows}, option=orjson.OPT_INDENT_2)
        + b"\n"
    )


def from_json(data: bytes) -> Figures:
    """What `to_json` wrote.

    Raises:
        SavedError: it did not write this.
    """
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise SavedError(f"it is no JSON ({error}); podgate bench --save FILE writes such a file") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise SavedError(
            f"it has no figures (format: {FORMAT}); podgate bench --save FILE writes such a file"
        )
    machine, reviews, policies, rows = (found.get(key) for key in Figures._fields)
    if not (isinstance(machine, str) and isinstance(reviews, str) and isinstance(policies, str)):
        raise SavedError("machine, reviews or policies is missing; save it again")
    if not isinstance(rows, list) or not rows:
        raise SavedError("there are no rows; save it again")
    return Figures(machine, reviews, policies, tuple(map(_row, rows)))


def _row(found: Any) -> Row:
    is_row = isinstance(found, dict) and found.keys() == set(Row._fields)
    if not (is_row and isinstance(found["name"], str) and type(found["connections"]) is int):
        raise SavedError(f"a row has not {', '.join(Row._fields)}; save it again")
    for key in _NUMBERS:
        if not isinstance(found[key], (int, float)) or isinstance(found[key], bool) or found[key] <= 0:
            raise SavedError(f"{key} of a row is no number above zero; save it again")
    return Row(**found)


def compare(before: Figures, now: Figures) -> list[Compared]:
    """Each row of now beside its counterpart.

    Raises:
        SavedError: the two were not measured alike.
    """
    if before.reviews != now.reviews:
        raise SavedError("it was measured with other reviews; give the same manifests, or save it again")
    known = {(row.name, row.connections): row for row in before.rows}
    missing = [row for row in now.rows if (row.name, row.connections) not in known]
    if missing:
        name, connections = missing[0].name, missing[0].connections
        raise SavedError(
            f"it has no row for {name} at {connections} connections; measure with the same, or save it again"
        )
    return [_compared(row, known[row.name, row.connections]) for row in now.rows]


def _compared(now: Row, before: Row) -> Compared:
    return Compared(now, before, now.share / before.share - 1)


def render(rows: Sequence[Row], compared: Sequence[Compared] = ()) -> str:
    """The table for people."""
    lines = [
        f"{'call':<23} {'connections':>11} {'median ms':>10} {'p99 ms':>8} {'calls/s':>8} {'of floor':>9}"
    ]
    lines[0] += f" {'before':>7} {'change':>7}" if compared else ""
    beside = {(each.now.name, each.now.connections): each for each in compared}
    for row in rows:
        line = (
            f"{row.name:<23} {row.connections:>11} {row.median:>10.2f} {row.p99:>8.2f} {row.calls_per_second:>8.0f} "
            f"{row.share:>9.0%}"
        )
        each = beside.get((row.name, row.connections))
        if each:
            line += f" {each.before.share:>7.0%} {each.change:>+7.0%}{'  worse' if each.is_worse else ''}"
        lines.append(line)
    return "\n".join(lines) + "\n"
