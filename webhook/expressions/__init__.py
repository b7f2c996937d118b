"""CEL: conditions and messages that policy authors write, checked at load and bounded at evaluation."""

from webhook.expressions.bindings import Bindings
from webhook.expressions.condition import Condition, Message
from webhook.expressions.errors import EvaluationError, ExpressionError
from webhook.expressions.load import compile_condition, compile_message

__all__ = [
    "Bindings",
    "Condition",
    "EvaluationError",
    "ExpressionError",
    "Message",
    "compile_condition",
    "compile_message",
]
