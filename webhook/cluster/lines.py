"""JSON values, one a line, out of pieces of a stream that break anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: etcd takes requests of 1.5 MiB (its default limit), and JSON is up to twice the stored form; an event holds one object.
LONGEST_LINE = 8 * 1024 * 1024


class LineError(ValueError):
    """What came is not a sequence of JSON objects, one a line."""


def objects_in(pieces: Iterable[bytes], longest: int = LONGEST_LINE) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream, each as soon as its line has ended.

    Args:
        pieces: The stream.
        longest: Bytes of one line; what has not ended by then never will.

    Raises:
        LineError: A line is too long or is no JSON object, or the stream ends inside of one.
    """
    rest: list[bytes] = []
    held = 0
    for piece in pieces:
        *ended, last = piece.split(b"\n")
        for line in ended:
            yield from _objects(b"".join([*rest, line]))
            rest, held = [], 0
        rest.append(last)
        held += len(last)
        if held > longest:
            raise LineError(f"a line of more than {longest} bytes")
    yield from _objects(b"".join(rest), at_end=True)


def _objects(line: bytes, *, at_end: bool = False) -> Iterator[dict[str, Any]]:
    if not line.strip():
        return
    try:
        value = orjson.loads(line)
    except ValueError as error:
        raise LineError(
            "the stream ended inside of an object" if at_end else "a line that is no JSON"
        ) from error
    if not isinstance(value, dict):
        raise LineError("a line that is no JSON object")
    yield value
