"""JSON Pointer (RFC 6901): a place inside a JSON document, as JSON Patch names it."""

import re

from webhook.documents import Path

_BAD_ESCAPE = re.compile(r"~(?![01])")


class JSONPointerError(ValueError):
    """A text that is no JSON Pointer."""


def escape(segment: str) -> str:
    """A map key as it stands in a pointer: `~` as `~0`, `/` as `~1`, in this order (RFC 6901, section 3)."""
    return segment.replace("~", "~0").replace("/", "~1")


def format_pointer(path: Path) -> str:
    """The pointer to a path of map keys and list indices; the empty string is the whole document."""
    return "".join([f"/{escape(segment) if isinstance(segment, str) else segment}" for segment in path])


def parse_pointer(text: str) -> tuple[str, ...]:
    """The segments of a pointer, unescaped.

    All are strings: only the document says whether `0` is a list index or a map key.

    Raises:
        JSONPointerError: The text neither is empty nor begins with `/`, or has a `~` that escapes nothing.
    """
    if not text:
        return ()
    if not text.startswith("/"):
        raise JSONPointerError(f'a JSON Pointer is empty or begins with "/", found {text!r}')
    if _BAD_ESCAPE.search(text):
        raise JSONPointerError(f'"~" must be followed by 0 or 1 in a JSON Pointer, found {text!r}')
    return tuple(segment.replace("~1", "/").replace("~0", "~") for segment in text[1:].split("/"))
