"""Text to PyYAML's nodes: no values yet, but every place.

Only libyaml's parser is used, never the one in Python, which reads other texts: the same file must not mean one thing
here and another there.
"""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import yaml

from webhook.documents.scalars import LEADS, NULLS, key_text
from webhook.documents.text import place

TAG_PREFIX = "tag:yaml.org,2002:"
TEXT = f"{TAG_PREFIX}str"
MERGE = f"{TAG_PREFIX}merge"
UNTAGGED = ""
"""The tag of what is neither tagged nor quoted: its text says what it is."""


class _Composer(yaml.CSafeLoader):
    """Leaves tags to us: PyYAML's resolver takes a fifth of the time and reads other values than Kubernetes.

    The names of the methods are PyYAML's.
    """

    def resolve(self, kind: type[yaml.Node], _value: str | None, implicit: tuple[bool, bool]) -> str:
        return UNTAGGED if kind is not yaml.ScalarNode or implicit[0] else TEXT

    def descend_resolver(self, _parent: yaml.Node | None, _index: object) -> None:
        pass

    def ascend_resolver(self) -> None:
        pass


_JSON_START = re.compile(r"\s*[\[{]")
_JSON_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SURROGATE_PAIR = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)
_ESCAPE_ERROR = "found invalid Unicode character escape code"


def _join_surrogates(text: str) -> str:
    """JSON's two escapes for one character as YAML's one.

    A string is filled up with spaces behind its closing quote, so that everything stays in its place.
    """
    return _JSON_STRING.sub(
        lambda string: _SURROGATE_PAIR.sub(_joined, string[0]).ljust(len(string[0])), text
    )


def _joined(pair: re.Match[str]) -> str:
    high, low = int(pair[2], 16), int(pair[3], 16)
    return f"{pair[1]}\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


@contextmanager
def collection_paused() -> Iterator[None]:
    """Keeps Python's cyclic garbage collector from running.

    Nodes live long enough to be visited again and again, and hold no cycles: without it a large List takes
    half the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class Chunk:
    """The text of one document of a stream."""

    text: str = ""
    line: int = 0
    """How many lines of the stream are before it."""

    @cached_property
    def root(self) -> yaml.Node | None:
        """The node of the whole document, which has been read without an error."""
        with collection_paused():
            return self.compose()

    def compose(self) -> yaml.Node | None:
        """Parses the text.

        Returns:
            None where the text holds no document.

        Raises:
            yaml.YAMLError: the text is no YAML.
            UnicodeEncodeError: it holds a lone surrogate.
        """
        text = self._text_with_spaces()
        try:
            return _Composer(text).get_single_node()
        except yaml.MarkedYAMLError as error:
            if error.problem != _ESCAPE_ERROR or not _JSON_START.match(text):
                raise
        return _Composer(_join_surrogates(text)).get_single_node()

    def _text_with_spaces(self) -> str:
        """In JSON a tab may stand before the first value; in YAML it may not."""
        match = _JSON_START.match(self.text)
        if match is None or "\t" not in match[0]:
            return self.text
        return match[0].replace("\t", " ") + self.text[match.end() :]

    def position(self, line: int, column: int) -> tuple[int, int]:
        """`line` and `column` of this text, counted from 0, as those of the stream, counted from 1."""
        return self.line + line + 1, column + 1

    def position_at(self, index: int) -> tuple[int, int]:
        """Line and column in the stream, from 1, of a character."""
        return self.position(*place(self.text, index))


def key_of(node: yaml.Node) -> str | None:
    """The text of a map key that has been read without an error."""
    text: str = node.value
    if node.tag == TEXT or (text and text[0] not in LEADS):
        return text
    return key_text(text)


def is_merge(node: yaml.Node) -> bool:
    """Whether a key is `<<`, which brings in the entries of other maps."""
    tag = node.tag
    return bool(node.value == "<<" and tag in {UNTAGGED, MERGE})


def is_null(node: yaml.Node) -> bool:
    """Whether a node is an unquoted null, or nothing at all."""
    return isinstance(node, yaml.ScalarNode) and node.tag == UNTAGGED and node.value in NULLS


def merge_sources(node: yaml.Node) -> list[yaml.MappingNode] | None:
    """The maps that a merge key brings in, the strongest first; None where its value is something else."""
    sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
    maps = [source for source in sources if isinstance(source, yaml.MappingNode)]
    return maps if len(maps) == len(sources) else None


def place_of(chunk: Chunk, path: tuple[str | int, ...], *, key: bool) -> tuple[int, int]:
    """Line and column, from 1, of the value at a path, or of its nearest ancestor that is there.

    Args:
        chunk: the document's text; it is parsed once and kept.
        path: map keys and list indices, from the root.
        key: give the place of the last step's key, not of its value.
    """
    node = chunk.root
    if node is None:
        return chunk.position(0, 0)
    place_node = node
    for step in path:
        entry = _entry(node, step)
        if entry is None:
            break
        place_node, node = entry
    mark = (place_node if key else node).start_mark
    return chunk.position(mark.line, mark.column)


def _entry(node: yaml.Node, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """The nodes of the key and the value; of a list's item, twice its own."""
    if isinstance(node, yaml.MappingNode):
        return _map_entry(node, step)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and 0 <= step < len(node.value):
        return node.value[step], node.value[step]
    return None


def _map_entry(node: yaml.MappingNode, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """As values are read: the last that writes a key wins, and a merge key writes where it stands."""
    for key, value in reversed(node.value):
        if is_merge(key):
            found = [entry for source in merge_sources(value) or () if (entry := _map_entry(source, step))]
            if found:
                return found[0]
        elif key_of(key) == step:
            return key, value
    return None
