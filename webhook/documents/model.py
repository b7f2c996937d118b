"""What reading a file gives: documents, problems, and the places of both."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from webhook.documents.nodes import Chunk, place_of

Path = tuple[str | int, ...]
"""Where a value stands inside a document: map keys and list indices."""


class Position(NamedTuple):
    """A place in a text, as editors count it."""

    line: int
    """From 1."""
    column: int
    """From 1, in characters."""


NOT_SHOWN = (
    "this is not as Kubernetes expects it; the text is not shown, since files of facts may hold secrets"
)
NOT_SHOWN_HINT = "podgate check shows it where the file is given as a manifest"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or a warning about a file.

    The message is one line without control characters, and says what was expected and what was found; the
    hint says what to do.
    """

    source: str
    position: Position | None
    message: str
    hint: str = ""
    is_warning: bool = False

    def __str__(self) -> str:
        """`source:line:column: message`, and the hint on a line of its own."""
        place = "" if self.position is None else f":{self.position.line}:{self.position.column}"
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{self.source}{place}: {self.message}{hint}"

    def without_text(self) -> "Problem":
        """The same without a word of the file, which may hold secrets; a problem of a whole file quotes nothing."""
        return self if self.position is None else replace(self, message=NOT_SHOWN, hint=NOT_SHOWN_HINT)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a YAML or JSON stream."""

    source: str
    """The name of the file, as it is to be shown."""
    index: int
    """Its number in the stream, from 0; empty documents do not count."""
    value: Any
    """JSON types only; read-only."""
    origin: str = ""
    """The template it came from: the path of Helm's `# Source:` comment, "" where there is none."""
    chunk: Chunk = field(default_factory=Chunk, repr=False, compare=False)
    """The text that the document was read from."""

    def locate(self, path: Path, *, key: bool = False) -> Position:
        """Where a value is written; for an absent one, its nearest ancestor that is there.

        What an alias or a merge key brings in is located where it is written. The first call on a document
        parses its text again: places are asked for seldom, and nodes take 60 times the memory of their text.

        Args:
            path: map keys and list indices, from the root.
            key: give the place of the key of the last step that is there, not of its value.
        """
        line, column = place_of(self.chunk, path, key=key)
        return Position(line, column)


class Reading(NamedTuple):
    """What a file holds: the documents without an error, and the errors and warnings about all of them.

    Attributes:
        spoilt: the documents with an error that have a value all the same: good for nothing but to look for more errors.
    """

    documents: tuple[Document, ...]
    problems: tuple[Problem, ...]
    spoilt: tuple[Document, ...] = ()


def listed_objects(document: Document) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The objects of a document: itself, or what its List holds, Lists inside Lists included.

    Items without a kind get the one of their List, as kubectl and client-go give it
    (kubernetes/apimachinery:pkg/apis/meta/v1/unstructured/helpers.go, decodeToList). An item that is no
    map is left out.

    Yields:
        The path of the object in the document, and the object.
    """
    if isinstance(document.value, dict):
        yield from _listed((), document.value)


def _listed(path: Path, value: dict[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    kind, items = value.get("kind"), value.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield path, value
        return
    for index, item in enumerate(items):
        if isinstance(item, dict):
            yield from _listed((*path, "items", index), _with_kind(item, value))


def _with_kind(item: dict[str, Any], listing: dict[str, Any]) -> dict[str, Any]:
    kind = listing["kind"].removesuffix("List")
    if not kind or item.get("kind"):
        return item
    return {**item, "apiVersion": listing.get("apiVersion"), "kind": kind}
