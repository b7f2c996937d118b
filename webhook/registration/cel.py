"""Pieces of CEL text, in the words that every API server with match conditions knows (Kubernetes 1.30 and later)."""

import json
from collections.abc import Iterable

TRUE = "true"


def quoted(text: str) -> str:
    """A string literal; JSON's escapes are CEL's, too."""
    return json.dumps(text, ensure_ascii=False)


def listed(texts: Iterable[str]) -> str:
    """A list of string literals, each once, sorted."""
    return f"[{', '.join(map(quoted, sorted(set(texts))))}]"


def any_of(conditions: Iterable[str]) -> str:
    """OR; the text of one that always holds is the whole."""
    return _joined(conditions, " || ", absorbing=TRUE, neutral="false")


def all_of(conditions: Iterable[str]) -> str:
    """AND."""
    return _joined(conditions, " && ", absorbing="false", neutral=TRUE)


def _joined(conditions: Iterable[str], operator: str, absorbing: str, neutral: str) -> str:
    found = [each for each in dict.fromkeys(conditions) if each != neutral]
    if absorbing in found:
        return absorbing
    if len(found) > 1:
        found = [f"({each})" for each in found]
    return operator.join(found) or neutral


def fits(name: str, patterns: Iterable[str]) -> str:
    """Whether the string that `name` stands for fits one of the patterns.

    What stands between the first and the last ``*`` of a pattern is not looked at, so that none costs more than its length: the
    answer may be yes for more, never for less.

    Args:
        name: a variable or field of the expression.
        patterns: names or globs, as a policy has them; nothing fits none.
    """
    known = set(patterns)
    ends = {(each.partition("*")[0], each.rpartition("*")[2]) for each in known if "*" in each}
    starts = {start for start, end in ends if not end}
    exact = [each for each in known if "*" not in each and not _is_covered(each, starts)]
    globs = sorted(
        (start, end) for start, end in ends if not _is_covered(start, starts - {start} if not end else starts)
    )
    found = [f"{name} in {listed(exact)}"] if exact else []
    return any_of([*found, *(_fits_glob(name, start, end) for start, end in globs)])


def _fits_glob(name: str, start: str, end: str) -> str:
    asked = (("startsWith", start), ("endsWith", end))
    return all_of(f"{name}.{method}({quoted(part)})" for method, part in asked if part)


def _is_covered(text: str, starts: set[str]) -> bool:
    """Whether all that begins like this fits a pattern that is but a beginning."""
    return text.startswith(tuple(starts))
