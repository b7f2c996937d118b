"""Bytes to text, text to documents, and text as a message may show it."""

import codecs
import re

LONGEST_SHOWN = 60
"""Characters of a file's text that a message repeats: enough to know it again on one line."""

_ENCODINGS = (
    # The longer marks first: UTF-32's little-endian mark begins with UTF-16's.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MARK_AT_LINE_START = re.compile(r"(?<![^\r\n])\ufeff")
# A line that begins with three hyphens ends the document before it, whatever was open there (YAML 1.2.2, rule
# c-forbidden): a block scalar is indented, a quoted one may not hold such a line. A split by lines is exact.
# Directives belong to the document below them; eight are more than anybody writes.
_SEPARATOR = re.compile(r"(?<![^\r\n])(?:%[^\r\n]*(?:\r\n?|\n)){0,8}---(?!\S)")
_LINE_BREAK = re.compile(r"\r\n?|\n")
_UNREADABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ORIGIN = re.compile(r"# Source: ([^\r\n]*[^\s])")
_HEADER_LINE = re.compile(r"(?:---[ \t]*)?[ \t]*(#[^\r\n]*)?(?:\r\n?|\n)")
# Where a value, a key or a line begins with an action of a Go template. In text a template is legitimate, so
# only documents that are no YAML are searched.
_TEMPLATE = re.compile(r"^[ \t]*(?:- +)*(?:[^\s#:{]+:[ \t]+)?(?=\{\{)", re.MULTILINE)


def shown(text: str) -> str:
    """Text from a file, quoted, cut and on one line, without any control character."""
    cut = text[:LONGEST_SHOWN] + "…" if len(text) > LONGEST_SHOWN else text
    if not cut.isprintable():
        cut = "".join(
            c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in cut
        )
    return f'"{cut}"'


def decode(data: bytes) -> str:
    """Bytes as text.

    A byte that is no UTF-8 becomes a lone surrogate, so that it spoils one document only.

    Raises:
        UnicodeDecodeError: the byte order mark promises UTF-16 or UTF-32, and it is not.
    """
    for mark, encoding in _ENCODINGS:
        if data.startswith(mark):
            text = data.decode(encoding)
            break
    else:
        text = data.decode("utf-8", "surrogateescape")
    # Files put together with `cat` have marks in front of later documents, too.
    return _MARK_AT_LINE_START.sub("", text) if "\ufeff" in text else text


def split(text: str) -> list[tuple[str, int]]:
    """The documents of a stream, each with the number of lines before it."""
    starts = [match.start() for match in _SEPARATOR.finditer(text)]
    chunks, line = [], 0
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        chunk = text[start:end]
        chunks.append((chunk, line))
        line += count_lines(chunk)
    return chunks


def count_lines(text: str) -> int:
    """How many lines end in a text."""
    return text.count("\n") if "\r" not in text else sum(1 for _ in _LINE_BREAK.finditer(text))


def place(text: str, index: int) -> tuple[int, int]:
    """Line and column, both from 0, of the character of `text` at `index`."""
    line_start = max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) + 1
    return count_lines(text[:line_start]), index - line_start


def origin(text: str) -> str:
    """The path that Helm writes in a comment above each document, or ""."""
    position = 0
    while match := _HEADER_LINE.match(text, position):
        if match[1] and (source := _ORIGIN.match(match[1])):
            return source[1]
        position = match.end()
    return ""


def find_unreadable(text: str) -> int:
    """The index of the first character that YAML does not allow; of the very first where all are allowed."""
    match = _UNREADABLE.search(text)
    return match.start() if match else 0


def find_template(text: str) -> int | None:
    """The index of the first Go template action that stands where YAML expects a value, a key or a line."""
    match = _TEMPLATE.search(text)
    return match.end() if match else None
