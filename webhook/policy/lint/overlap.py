"""Whether two alternatives of matches can hold for one object, and whether one is wholly inside another."""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from webhook.kube.globs import glob_matches
from webhook.policy.schema import AcceleratorMatch, Count, MatchClause

Names = Iterable[str]


def may_overlap(one: MatchClause, other: MatchClause) -> bool:
    """Whether one object could match both `one` and `other`; where nobody can tell, it could."""
    return not any(
        (
            _apart(one.workloads, other.workloads),
            _apart(one.communication, other.communication),
            _apart(one.pools, other.pools),
            _apart(one.namespaces, other.namespaces, globs_meet),
            _apart(one.workspaces, other.workspaces, globs_meet),
            _selectors_apart(one.namespace_selector, other.namespace_selector),
            _selectors_apart(one.object_selector, other.object_selector),
            _accelerators_apart(one.accelerators, other.accelerators),
        )
    )


def is_inside(one: MatchClause, outer: MatchClause) -> bool:
    """Whether whatever matches `one` surely matches `outer`."""
    if outer.all:
        return True
    given = outer.model_fields_set - {"operations"}
    return _operations_inside(one, outer) and all(_field_inside(name, one, outer) for name in given)


def globs_meet(one: str, other: str) -> bool:
    """Whether one name could fit both patterns, `one` and `other`; told apart by what stands before the first star."""
    if "*" not in one:
        return glob_matches(other, one)
    if "*" not in other:
        return glob_matches(one, other)
    start, begin = one.partition("*")[0], other.partition("*")[0]
    return start.startswith(begin) or begin.startswith(start)


def _equal(one: str, other: str) -> bool:
    return one == other


def _apart(one: Names | None, other: Names | None, meet: Callable[[str, str], bool] = _equal) -> bool:
    if one is None or other is None:
        return False
    return not any(meet(left, right) for left, right in product(one, other))


def _selectors_apart(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    labels, wanted = (_labels(selector) for selector in (one, other))
    return any(wanted.get(key, value) != value for key, value in labels.items())


def _labels(selector: dict[str, Any] | None) -> dict[str, Any]:
    return (selector or {}).get("matchLabels") or {}


def _accelerators_apart(one: AcceleratorMatch | None, other: AcceleratorMatch | None) -> bool:
    """Pods with the devices of two vendors, or shared in two ways, are not worth a warning."""
    if one is None or other is None:
        return False
    if one.none or other.none:
        return one.none != other.none
    if _apart(one.vendors, other.vendors) or _apart(one.sharing, other.sharing):
        return True
    if _apart(one.resource_names, other.resource_names, globs_meet):
        return True
    return one.resource_names == other.resource_names and _counts_apart(one.count, other.count)


def _counts_apart(one: Count | None, other: Count | None) -> bool:
    if one is None or other is None:
        return False
    below = one.max is not None and one.max < other.min
    return below or (other.max is not None and other.max < one.min)


def _operations_inside(one: MatchClause, outer: MatchClause) -> bool:
    return not outer.operations or set(one.operations or ("CREATE",)) <= set(outer.operations)


def _field_inside(name: str, one: MatchClause, outer: MatchClause) -> bool:
    mine, theirs = getattr(one, name), getattr(outer, name)
    if mine is None:
        return False
    if name in ("namespaces", "workspaces"):
        return all(any(pattern == each or glob_matches(pattern, each) for pattern in theirs) for each in mine)
    if name in ("workloads", "communication", "pools"):
        return set(mine) <= set(theirs)
    return bool(mine == theirs)
