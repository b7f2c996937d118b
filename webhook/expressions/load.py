"""Compiling an expression, with all that can be refused before an object is seen.

Policy authors are trusted, objects are not. So what is checked here is that no object can bring its own
pattern, or make an expression build much more than it was given.
"""

import re
from dataclasses import dataclass

from cel_expr_python import cel

from webhook.expressions.condition import Condition, Message
from webhook.expressions.environment import ENVIRONMENT, JSON_VARIABLES, pattern_fault
from webhook.expressions.errors import ExpressionError
from webhook.expressions.faults import compile_error, error_at
from webhook.expressions.syntax_tree import (
    Call,
    Loop,
    Name,
    Node,
    Sequence,
    SyntaxTree,
    Text,
    read_syntax_tree,
)

# Some fifty lines. What is longer is several conditions.
MAX_EXPRESSION_BYTES = 4096

# What searches takes time by the product of both lengths (`contains`: 135 s for 1.5 MB in 3 MB) or a
# compilation a call (`matches`).
_SEARCHES = {"matches": "pattern", "contains": "text"}
# RE2 writes a counted repetition out, CEL compiles a pattern at each call: 0.7 ms for 900 states. A name of a
# Kubernetes object counts to 253.
MAX_REPETITIONS = 1000
_COUNTED = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}")

_JOINING_OVERLOADS = frozenset({"add_string", "add_bytes", "add_list"})

_Scope = dict[str, Node]


def compile_condition(text: str) -> Condition:
    """Compiles an expression that is true or false.

    Raises:
        ExpressionError: It is refused; line and column are inside `text`.
    """
    expression, tree = _compile(text)
    kind = expression.return_type()
    if kind not in (cel.Type.BOOL, cel.Type.DYN):
        raise _wrong_type(text, kind, "a condition must be true or false")
    return Condition(text, _names(tree), expression)


def compile_message(text: str) -> Message:
    """Compiles an expression that writes a message.

    Raises:
        ExpressionError: It is refused; line and column are inside `text`.
    """
    expression, tree = _compile(text)
    kind = expression.return_type()
    if kind != cel.Type.STRING:
        raise _wrong_type(text, kind, "a message must be a string")
    return Message(text, _names(tree), expression)


def _compile(text: str) -> tuple[cel.Expression, SyntaxTree]:
    _check_text(text)
    try:
        expression = ENVIRONMENT.compile(text)
    except RuntimeError as error:
        raise compile_error(text, str(error)) from None
    tree = read_syntax_tree(expression.serialize())
    _Checker(text, tree).check(tree.root, {})
    return expression, tree


def _check_text(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise error_at(text, error.start, "the expression is not valid Unicode") from None
    if size > MAX_EXPRESSION_BYTES:
        raise ExpressionError(
            f"the expression has {size} bytes, at most {MAX_EXPRESSION_BYTES} are allowed",
            hint="split it into several conditions",
        )
    if not text.strip():
        raise ExpressionError("the expression is empty")


def _wrong_type(text: str, kind: cel.Type, expected: str) -> ExpressionError:
    name = str(kind.name()).lower()
    start = len(text) - len(text.lstrip())
    hint = ""
    if name.startswith("optional_type"):
        hint = "end it with .orValue(…)"
    elif kind == cel.Type.DYN:
        hint = "write string(…) around it"
    return error_at(text, start, f"the expression is {name}; {expected}", hint)


def _names(tree: SyntaxTree) -> frozenset[str]:
    names = {node.name for node in tree.root.walk() if isinstance(node, Name)}
    return frozenset(names.intersection(JSON_VARIABLES))


@dataclass(frozen=True, slots=True)
class _Checker:
    """Looks for what an object could make unbounded."""

    text: str
    tree: SyntaxTree

    def check(self, node: Node, scope: _Scope, *, in_loop: bool = False) -> None:
        if isinstance(node, Call):
            self._check_call(node, scope, in_loop=in_loop)
        if not isinstance(node, Loop):
            for child in node.children:
                self.check(child, scope, in_loop=in_loop)
            return
        inner = {**scope, node.accumulator: node, node.variable: node.items}
        for child in node.children:
            self.check(child, inner, in_loop=in_loop or child in node.repeated)

    def _check_call(self, call: Call, scope: _Scope, *, in_loop: bool) -> None:
        if call.function in _SEARCHES:
            self._check_search(call, scope)
        if in_loop and call.function == "bytes":
            raise self._error(call, "bytes() must not stand inside a loop")
        if in_loop and self._joins(call):
            raise self._error(
                call,
                '"+" must not join strings or lists inside a loop',
                "compare with startsWith() and endsWith(), or add numbers as int(a) + int(b)",
            )

    def _check_search(self, call: Call, scope: _Scope) -> None:
        sought = call.children[-1]
        literals = _literals(sought, scope)
        if literals is None:
            raise self._error(
                sought,
                f"{call.function}() needs its {_SEARCHES[call.function]} as a literal",
                "write it out, or loop over a list of literals: an object must not bring its own",
            )
        if call.function == "matches":
            for literal in literals:
                self._check_pattern(literal)

    def _check_pattern(self, literal: Text) -> None:
        if fault := pattern_fault(literal.value):
            raise self._error(literal, fault)
        counts = (int(most or least) for least, most in _COUNTED.findall(literal.value))
        if sum(counts) > MAX_REPETITIONS:
            raise self._error(literal, f"the pattern counts more than {MAX_REPETITIONS} repetitions")

    def _joins(self, call: Call) -> bool:
        if call.function != "_+_":
            return False
        # A name with @ cannot be written: this is how map() and filter() collect.
        first = call.children[0]
        is_macro_step = isinstance(first, Name) and first.name.startswith("@")
        return not is_macro_step and not _JOINING_OVERLOADS.isdisjoint(self.tree.overloads[call.id])

    def _error(self, node: Node, message: str, hint: str = "") -> ExpressionError:
        return error_at(self.text, self.tree.positions[node.id], message, hint)


def _literals(node: Node, scope: _Scope) -> list[Text] | None:
    if isinstance(node, Text):
        return [node]
    items = scope.get(node.name) if isinstance(node, Name) else None
    if not isinstance(items, Sequence):
        return None
    literals = [item for item in items.children if isinstance(item, Text)]
    return literals if len(literals) == len(items.children) else None
