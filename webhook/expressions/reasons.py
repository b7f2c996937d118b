"""Why an evaluation has no answer, in one short line.

CEL's error texts may quote what the object holds, a secret in an environment variable included, and reasons
are logged and shown: a quotation survives only where the expression itself has it.
"""

import re

from webhook.expressions.operators import written

# Two lines of a terminal; a reason stands inside a message that says more.
MAX_REASON = 200

_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_MISSING_KEY = re.compile(r'Key not found in map : "?(.*?)"?$', re.DOTALL)
_UNBOUND = re.compile(r'No value with name "([^"]*)" found in Activation')
# `name(types)`, or `(type).name(types)` for a method: types only, no values.
_NO_OVERLOAD = re.compile(r"No matching overloads found : (?:\((.*)\)\.)?([^(]*)\((.*)\)")

_UNBOUND_REASONS = {
    "object": "the request has no object",
    "oldObject": "the request has no oldObject",
    "request": "there is no request: the object was not sent by an API server",
    "namespaceObject": "the namespace of the object is not known",
}
_PLAIN_REASONS = (
    ("Iteration budget exceeded", "it loops more than 10,000 times"),
    ("Applying SELECT to non-message type", "a field is read from a value that is not a map"),
    ("regular expression", "matches() was given a pattern that is no regular expression"),
)


def reason_of(error: str, expression: str) -> str:
    """The reason in CEL's error text.

    Args:
        error: The value of an error of CEL, or the text of the exception raised.
        expression: The text of the expression.
    """
    text = _STATUS.sub("", error)
    if unbound := _UNBOUND.search(text):
        return one_line(_UNBOUND_REASONS.get(unbound[1], f"{unbound[1]} is not known"))
    if missing := _MISSING_KEY.search(text):
        return one_line(_missing_key(missing[1], expression))
    for theirs, ours in _PLAIN_REASONS:
        if theirs in text:
            return ours
    if overload := _NO_OVERLOAD.search(text):
        types = ", ".join(filter(None, (overload[1], overload[3])))
        return one_line(f'"{written(overload[2])}" does not take ({types})')
    return one_line(text)


def one_line(text: str) -> str:
    """The text with nothing that moves a terminal's cursor, cut at `MAX_REASON` characters."""
    # The cut comes first, so that the work is bounded too.
    shown = "".join(character if character.isprintable() else " " for character in text[: MAX_REASON + 1])
    return shown if len(shown) <= MAX_REASON else shown[: MAX_REASON - 1] + "…"


def _missing_key(key: str, expression: str) -> str:
    return f'there is no key "{key}"' if key and key in expression else "a key is not there"
