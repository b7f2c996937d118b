"""Compiled expressions: conditions, which hold or not, and messages."""

from dataclasses import dataclass, field

from cel_expr_python import cel

from webhook.expressions.bindings import Bindings
from webhook.expressions.errors import EvaluationError
from webhook.expressions.reasons import reason_of

# As for ValidatingAdmissionPolicy (kubernetes/apiserver:pkg/apis/cel/config.go,
# `MaxEvaluatedMessageExpressionSizeBytes`).
MAX_MESSAGE_BYTES = 5 * 1024


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression that passed the checks at load; may be shared between threads.

    Attributes:
        text: The expression as written.
        names: The JSON variables that it reads.
    """

    text: str
    names: frozenset[str]
    expression: cel.Expression = field(repr=False, compare=False)

    def evaluate(self, bindings: Bindings) -> cel.Value:
        """The value for one review.

        Raises:
            EvaluationError: The value is an error. CEL returns most errors as values that are truthy, and
                raises a few.
        """
        activation = bindings.activation(self.names)
        try:
            value = self.expression.eval(activation)
        except RuntimeError as error:
            raise EvaluationError(reason_of(str(error), self.text)) from None
        if value.type() == cel.Type.ERROR:
            raise EvaluationError(reason_of(str(value.value()), self.text))
        return value


@dataclass(frozen=True, slots=True)
class Condition(Compiled):
    """An expression that is true or false."""

    def holds(self, bindings: Bindings) -> bool:
        """Whether the condition is true.

        Raises:
            EvaluationError: It is neither true nor false here.
        """
        value = self.evaluate(bindings)
        if value.type() != cel.Type.BOOL:
            raise EvaluationError(f"the value is {_type_name(value.type())}, not true or false")
        return value.value() is True


@dataclass(frozen=True, slots=True)
class Message(Compiled):
    """An expression that writes the text of a denial."""

    def render(self, bindings: Bindings) -> str:
        """The text.

        Raises:
            EvaluationError: There is none, or one that ValidatingAdmissionPolicy would not show either:
                blank, with a line break or of more than 5 KiB
                (kubernetes/apiserver:pkg/admission/plugin/policy/validating/validator.go).
        """
        value = self.evaluate(bindings)
        text = str(value.value()).strip()
        if not text:
            raise EvaluationError("the message is blank")
        if len(text) > MAX_MESSAGE_BYTES or len(text.encode()) > MAX_MESSAGE_BYTES:
            raise EvaluationError(f"the message is longer than {MAX_MESSAGE_BYTES} bytes")
        if "\n" in text:
            raise EvaluationError("the message has a line break")
        return text


def _type_name(kind: cel.Type) -> str:
    return str(kind.name()).lower()
