"""Patterns with ``*`` for names of resources, namespaces, images and paths."""

from collections.abc import Callable
from functools import lru_cache


def glob_matches(pattern: str, text: str) -> bool:
    """Whether `pattern` fits the whole of `text`; ``*`` stands for any run of characters but ``/``."""
    return compile_glob(pattern)(text)


@lru_cache(maxsize=2048)
def compile_glob(pattern: str) -> Callable[[str], bool]:
    """A predicate for one pattern. Its work grows with the text, never faster: nothing is tried twice."""
    if "*" not in pattern:
        return pattern.__eq__
    parts = tuple(tuple(part.split("*")) for part in pattern.split("/"))
    start = pattern.partition("*")[0]

    def matches(text: str) -> bool:
        if not text.startswith(start):  # most texts fit no pattern, and this tells most of them
            return False
        found = text.split("/")
        return len(found) == len(parts) and all(map(_part_matches, parts, found))

    return matches


def _part_matches(pieces: tuple[str, ...], text: str) -> bool:
    """Whether the text holds the pieces in order: the first at its start, the last at its end."""
    if len(pieces) == 1:
        return text == pieces[0]
    first, *middle, last = pieces
    end = len(text) - len(last)
    position = len(first)
    if position > end or not (text.startswith(first) and text.endswith(last)):
        return False
    # The earliest place for each piece leaves the most room for the next: no other choice can do better.
    for piece in middle:
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True
