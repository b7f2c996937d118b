"""What can go wrong with an expression: at load, and in one evaluation."""

from webhook.kube.plain_text import plain

LONGEST_MESSAGE = 1000
"""Characters: the longest of ours, which lists all functions, has some 500."""


class ExpressionError(ValueError):
    """An expression that is refused at load.

    Attributes:
        message: What was found, in one line that a terminal shows as it is, whatever the expression holds.
        line: Line inside the expression's own text, from 1.
        column: Column inside that line in characters, from 1.
        hint: What to write instead; empty where there is nothing to say.
    """

    def __init__(self, message: str, line: int = 1, column: int = 1, hint: str = "") -> None:
        super().__init__(message)
        self.message = plain(message, LONGEST_MESSAGE)
        self.line = line
        self.column = column
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.message}"


class EvaluationError(Exception):
    """An expression that has no answer for this object: neither true nor false.

    Attributes:
        reason: One line of at most `MAX_REASON` characters.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
