"""Text of objects made safe for messages, terminals and logs."""

import re
from typing import Final

LONGEST_ARGUMENT: Final = 120
"""Characters of one value from an object inside a message: more than any name that Kubernetes accepts is seldom worth reading."""

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
"""C0, C1 and line separators, which forge lines and terminal sequences; marks of direction, invisible characters (tags
included) and lone surrogates, which show a text as another one (Unicode TR36)."""


def plain(value: object, most: int = LONGEST_ARGUMENT) -> str:
    r"""`value` as one printable line of at most `most` characters; what is unsafe is shown by its number, as `\u202e`."""
    text = str(value)[: most + 1]
    if not (
        text.isascii() and text.isprintable()
    ):  # most texts are, and this is quicker than to look for each character
        text = _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    return text if len(text) <= most else text[: most - 1] + "…"
