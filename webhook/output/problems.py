"""Errors and warnings about files, as editors and compilers show them."""

from collections.abc import Iterable
from typing import Any

from webhook.documents import Problem


def render_problem(problem: Problem) -> str:
    """`file:line:column: message`, `warning:` before the message of a warning, the hint on a line of its own."""
    place = ":".join(map(str, (problem.source, *(problem.position or ()))))
    parts = [
        f"{place}: " if problem.source else "",
        "warning: " if problem.is_warning else "",
        problem.message,
    ]
    hint = f"\n  hint: {problem.hint}" if problem.hint else ""
    return "".join(parts) + hint


def render_problems(problems: Iterable[Problem]) -> str:
    """Each problem on its own lines; "" if there are none."""
    return "".join(f"{render_problem(problem)}\n" for problem in problems)


def problem_to_json(problem: Problem) -> dict[str, Any]:
    """A problem as the `json` formats have it; line and column are null where the problem is about a whole file."""
    line, column = problem.position or (None, None)
    return {
        "file": problem.source,
        "line": line,
        "column": column,
        "severity": "warning" if problem.is_warning else "error",
        "message": problem.message,
        "hint": problem.hint,
    }
