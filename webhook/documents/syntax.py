"""What PyYAML says about a text that is no YAML, in words that help."""

import re
from typing import NamedTuple

import yaml

from webhook.documents.nodes import Chunk
from webhook.documents.text import find_template, find_unreadable, shown
from webhook.documents.values import NESTING_HINT, NESTING_MESSAGE, TEMPLATE_HINT, TEMPLATE_MESSAGE, Finding


class _Explanation(NamedTuple):
    """`{found}` in the message stands for the text at the place of the error."""

    message: str
    hint: str
    at_context: bool = False
    """The place is where the construct begins, not where the parser gave up."""


_QUOTE_OPEN = _Explanation(
    "expected a closing quote, found none", "close the quote that begins here", at_context=True
)
_NO_START = _Explanation(
    "expected the end of the document, found {found}", "separate documents with a line ---"
)
_EXPLANATIONS = {
    "exceeded maximum nesting depth": _Explanation(NESTING_MESSAGE, NESTING_HINT),
    "found undefined alias": _Explanation(
        "expected an alias with an anchor above it, found {found}",
        "quote it if it is text; write the anchor with &",
    ),
    "second occurrence": _Explanation(
        "expected each anchor once, found {found} again", "give one of the two another name"
    ),
    "found unexpected end of stream": _QUOTE_OPEN,
    "found unexpected document indicator": _QUOTE_OPEN,
    "mapping values are not allowed in this context": _Explanation(
        "expected one value on this line, found a second colon at {found}",
        "quote the text if the colon belongs to it, or check the indentation",
    ),
    "found character that cannot start any token": _Explanation(
        "expected a value, found {found}", "quote it if it is text"
    ),
    "found invalid Unicode character escape code": _Explanation(
        "expected the code of a Unicode character, found {found}", "write the character itself"
    ),
    "found unknown escape character": _Explanation(
        "expected a known escape in double quotes, found {found}",
        "write \\\\ for a backslash, or use single quotes",
    ),
    "did not find expected <document start>": _NO_START,
    "but found another document": _NO_START,
}
_TAB = _Explanation("expected spaces, found a tab: a tab cannot indent YAML", "use spaces")
_TAB_INDENT = re.compile(r"[ ]*(?=\t)")
_MISSING = "did not find expected "


def explain(error: Exception, chunk: Chunk) -> Finding:
    """Says what is wrong with a text that could not be parsed.

    Args:
        error: what `Chunk.compose` raised.
        chunk: the text.
    """
    if (template := find_template(chunk.text)) is not None:
        return Finding(chunk.position_at(template), TEMPLATE_MESSAGE, TEMPLATE_HINT)
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return _explain_marked(error, error.problem_mark, chunk)
    return _explain_character(chunk)


def _explain_character(chunk: Chunk) -> Finding:
    index = find_unreadable(chunk.text)
    code = ord(chunk.text[index])
    position = chunk.position_at(index)
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is no UTF-8
        return Finding(
            position, f"expected UTF-8 text, found the byte 0x{code - 0xDC00:02x}", "save the file as UTF-8"
        )
    hint = 'remove it, or write it as an escape in double quotes, as in "\\u0007"'
    return Finding(position, f"expected text, found the control character U+{code:04X}", hint)


def _explain_marked(error: yaml.MarkedYAMLError, mark: yaml.Mark, chunk: Chunk) -> Finding:
    line = _line_at(chunk.text, mark.index - mark.column)
    if tab := _TAB_INDENT.match(line):
        return Finding(chunk.position(mark.line, tab.end()), _TAB.message, _TAB.hint)
    problem = error.problem or ""
    explanation = _EXPLANATIONS.get(problem) or _general(error, problem, chunk)
    place = error.context_mark if explanation.at_context and error.context_mark else mark
    message = explanation.message.replace("{found}", _found(chunk.text, line, mark))
    # Behind the last character the parser counts a line more than there is.
    return Finding(chunk.position_at(min(place.index, len(chunk.text))), message, explanation.hint)


def _found(text: str, line: str, mark: yaml.Mark) -> str:
    if rest := line[mark.column :].rstrip():
        return shown(rest)
    return "the end of the line" if text[mark.index :].strip() else "the end of the document"


def _line_at(text: str, start: int) -> str:
    return re.split(r"[\r\n]", text[start : start + 10_000], maxsplit=1)[0]


def _general(error: yaml.MarkedYAMLError, problem: str, chunk: Chunk) -> _Explanation:
    expected = problem.removeprefix(_MISSING) if problem.startswith(_MISSING) else "valid YAML"
    reason = "" if problem.startswith(_MISSING) else f" ({shown(problem)[1:-1]})"
    message = f"expected {expected}, found {{found}}{reason}"
    if error.context and error.context_mark is not None:
        line, _ = chunk.position(error.context_mark.line, 0)
        message += f", {error.context} that begins on line {line}"
    return _Explanation(
        message, "check the indentation, the quotes and the brackets on this line and above it"
    )
