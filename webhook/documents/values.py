"""Nodes to values, as Kubernetes reads them, and what is wrong with them."""

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import yaml

from webhook.documents.nodes import MERGE, TAG_PREFIX, TEXT, UNTAGGED, Chunk, is_merge, is_null, merge_sources
from webhook.documents.scalars import LEADS, JSONScalar, Trap, key_text, read_plain
from webhook.documents.text import shown

DEEPEST_NESTING = 100
"""Levels. Objects of Kubernetes stay far below, even schemas in CustomResourceDefinitions. Whatever walks a
value may take nine calls a level and stays under Python's limit of 1,000."""

MOST_ALIASED_VALUES = 100_000
"""Values that aliases may add to a document. An object in etcd has at most 1.5 MiB
(etcd-io/etcd:server/embed/config.go, DefaultMaxRequestBytes), and a key with its value hardly takes less than
16 bytes of it."""

MOST_ALIASED_TEXT = 1_572_864
"""Characters by which the values of a document may exceed the text they were read from: the same 1.5 MiB."""

MOST_FINDINGS = 1_000
"""Findings about one document: more than anybody reads. After so many, further warnings are left out, and an
error ends the reading of the document."""

FILE_MODE_KEYS = frozenset({"defaultMode", "mode"})
"""Keys whose values may be meant as octal (kubernetes/api:core/v1/types.go, ConfigMapVolumeSource)."""

TEMPLATE_MESSAGE = "expected YAML, found an unrendered Helm template"
TEMPLATE_HINT = "this looks like an unrendered Helm template: render it with helm template"
NESTING_MESSAGE = f"expected at most {DEEPEST_NESTING} levels of nesting, found more"
NESTING_HINT = "no Kubernetes object is nested so deep: check the brackets and the indentation"


class Finding(NamedTuple):
    """An error or a warning, before it has a file.

    Attributes:
        position: line and column in the stream, both from 1.
    """

    position: tuple[int, int]
    message: str
    hint: str
    is_warning: bool = False


class RefusedError(Exception):
    """A document that is not worth reading on."""


def build(chunk: Chunk, root: yaml.Node, *, strict: bool) -> tuple[Any, list[Finding]]:
    """Makes values of JSON types of a document's nodes.

    Args:
        chunk: the text of the document.
        root: its node.
        strict: a trap, and a flow map, is an error; else a trap is a warning and means what Kubernetes reads.

    Returns:
        The value, and what is wrong with it; the value is of no use where one of the findings is an error.
    """
    builder = _Builder(chunk, strict=strict)
    try:
        value = builder.build(root, 0)
        if "*" in chunk.text:
            builder.check_text(value, root)
    except RefusedError:
        value = None
    return value, sorted(set(builder.findings))


class _Builder:
    """One walk over the nodes of one document."""

    def __init__(self, chunk: Chunk, *, strict: bool) -> None:
        self.findings: list[Finding] = []
        self._chunk = chunk
        self._strict = strict
        self._open: set[int] = set()
        self._seen: set[int] = set()
        self._aliased = 0
        self._flow_end = -1

    def build(self, node: yaml.Node, depth: int) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, None)
        identity = id(node)
        self._enter(node, identity, depth)
        value = self._map(node, depth) if isinstance(node, yaml.MappingNode) else self._list(node, depth)
        self._open.discard(identity)
        return value

    def _enter(self, node: yaml.Node, identity: int, depth: int) -> None:
        if depth >= DEEPEST_NESTING:
            self._refuse(node, NESTING_MESSAGE, NESTING_HINT)
        if identity in self._seen:
            self._enter_again(node, identity)
        self._seen.add(identity)
        self._open.add(identity)
        if node.tag != UNTAGGED:
            self._check_collection_tag(node)

    def _enter_again(self, node: yaml.Node, identity: int) -> None:
        if identity in self._open:
            self._refuse(
                node,
                "expected a value that ends, found an alias to a value inside itself",
                "write the value out",
            )
        self._aliased += len(node.value)
        if self._aliased > MOST_ALIASED_VALUES:
            self._refuse(
                node, f"expected aliases for at most {MOST_ALIASED_VALUES} values, found more", _FEWER
            )

    def _list(self, node: yaml.Node, depth: int) -> list[Any]:
        build, depth = self.build, depth + 1
        return [build(item, depth) for item in node.value]

    def _map(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        if self._strict and node.flow_style and node.value:
            self._check_flow_map(node)
        result: dict[str, Any] = {}
        own: dict[str, yaml.Node] = {}  # the keys written here, not merged
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key is not None:
                if key in own:
                    self._report_duplicate(key_node, own[key], key)
                own[key] = key_node
                scalar = isinstance(value_node, yaml.ScalarNode)
                result[key] = self._scalar(value_node, key) if scalar else self.build(value_node, depth + 1)
            elif is_merge(key_node):
                self._merge(value_node, result, own, depth)
        return result

    def _merge(
        self, value_node: yaml.Node, result: dict[str, Any], own: dict[str, yaml.Node], depth: int
    ) -> None:
        """Adds the entries of other maps.

        go-yaml v2 lets them win over keys that stand above the merge key; in YAML the own keys always win.
        """
        sources = merge_sources(value_node)
        if sources is None:
            self._error(
                value_node, 'expected a map or a list of maps to merge with "<<", found another value', _ALIAS
            )
            return
        for source in reversed(sources):
            incoming = self.build(source, depth + 1)
            for key in own.keys() & incoming.keys():
                found = f"found {shown(key)} above it, which Kubernetes reads as the merged value"
                self._surprise(
                    own[key], f'expected own keys below "<<", {found}', 'move "<<" to the top of the map'
                )
            result.update(incoming)

    def _key(self, node: yaml.Node) -> str | None:
        """The text of a key; None for a merge key and for one that is an error."""
        if not isinstance(node, yaml.ScalarNode):
            self._refuse_collection_as_key(node)
            return None
        text: str = node.value
        if node.tag == TEXT:
            return text
        if node.tag == UNTAGGED and text and text[0] not in LEADS:
            return text if text != "<<" else None
        return None if node.tag == MERGE else self._odd_key(node)

    def _odd_key(self, node: yaml.ScalarNode) -> str | None:
        key, value = key_text(node.value), read_plain(node.value).value
        if key is None:
            kind = "null" if is_null(node) else "the number"
            self._error(node, f"expected a key that is text, found {kind} {shown(node.value)}", _QUOTE)
            return None
        before = len(self.findings)
        self._scalar(node, None)
        if len(self.findings) == before and not isinstance(value, str):
            kind = "the boolean" if isinstance(value, bool) else "the number"
            found = f"found {kind} {shown(node.value)}, which Kubernetes reads as {shown(key)}"
            self._surprise(node, f"expected a key that is text, {found}", _QUOTE)
        return key

    def _refuse_collection_as_key(self, node: yaml.Node) -> None:
        index = node.start_mark.index
        template = self._chunk.text.find("{{", max(index - 1, 0), index + 2)
        if template >= 0:
            self.findings.append(Finding(self._chunk.position_at(template), TEMPLATE_MESSAGE, TEMPLATE_HINT))
            raise RefusedError
        kind = "a map" if isinstance(node, yaml.MappingNode) else "a list"
        self._error(node, f"expected a key that is text, found {kind}", _QUOTE)

    def _scalar(self, node: yaml.ScalarNode, key: str | None) -> JSONScalar:
        text: str = node.value
        if node.tag == TEXT:
            return text
        if node.tag != UNTAGGED:
            return self._tagged(node)
        if text and text[0] not in LEADS:
            return text
        value, trap = read_plain(text)
        if trap is not None:
            self._report_trap(trap, node, key)
        return value

    def _report_trap(self, trap: Trap, node: yaml.Node, key: str | None) -> None:
        message = f"expected {trap.expected}, found {trap.found}"
        if trap.is_fatal:
            self._error(node, message, trap.hint)
        elif self._strict or not (trap.is_octal and key in FILE_MODE_KEYS):
            self._surprise(node, message, trap.hint)

    def _tagged(self, node: yaml.ScalarNode) -> JSONScalar:
        """A scalar with a tag of its own: what the text says, if that is what the tag says."""
        agrees = _TAG_CHECKS.get(node.tag)
        if agrees is None:
            self._report_tag(node)
            return None
        value, trap = read_plain(node.value)
        if not agrees(value) or (trap is not None and trap.is_fatal):
            tag = node.tag.removeprefix(TAG_PREFIX)
            self._error(node, f"expected a value of type {tag}, found {shown(node.value)}", _NO_TAG)
        return value

    def _check_collection_tag(self, node: yaml.Node) -> None:
        if node.tag != (_MAP if isinstance(node, yaml.MappingNode) else _SEQUENCE):
            self._report_tag(node)

    def _report_tag(self, node: yaml.Node) -> None:
        tag = node.tag.replace(TAG_PREFIX, "!!", 1)
        self._error(node, f"expected a value that JSON has, found the tag {shown(tag)}", _NO_TAG)

    def _check_flow_map(self, node: yaml.MappingNode) -> None:
        if not all(isinstance(key, yaml.ScalarNode) for key, _ in node.value):
            return  # an error of its own, and most likely a template
        split = [key for key, value in node.value if value.start_mark.index == key.end_mark.index]
        for key in split:
            found = f"found the key {shown(key.value)} without a value: a comma splits text in a flow map"
            self._error(key, f"expected one value, {found}", "quote the text, or write the map as a block")
        # One error for the outermost flow map is enough.
        if not split and node.start_mark.index > self._flow_end:
            self._error(
                node, "expected a block, found a flow map", "write it as a block: each key on its own line"
            )
        self._flow_end = max(self._flow_end, node.end_mark.index)

    def check_text(self, value: Any, root: yaml.Node) -> None:
        """Bounds what aliases to long texts add up to."""
        allowed = len(self._chunk.text) + MOST_ALIASED_TEXT
        pending = [value]
        while pending:
            item = pending.pop()
            if isinstance(item, dict):
                pending.extend(item)
                pending.extend(item.values())
            elif isinstance(item, list):
                pending.extend(item)
            elif isinstance(item, str):
                allowed -= len(item)
        if allowed < 0:
            self._refuse(
                root, f"expected aliases for at most {MOST_ALIASED_TEXT} characters, found more", _FEWER
            )

    def _report_duplicate(self, node: yaml.Node, first: yaml.Node, key: str) -> None:
        line, _ = self._position(first)
        found = f"found {shown(key)} again, which is on line {line} already"
        self._error(node, f"expected each key once, {found}", "remove one of the two, or put them together")

    def _surprise(self, node: yaml.Node, message: str, hint: str) -> None:
        """What Kubernetes reads, but not as it looks."""
        if self._strict:
            self._error(node, message, hint)
        elif len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(self._position(node), message, hint, is_warning=True))

    def _error(self, node: yaml.Node, message: str, hint: str) -> None:
        self.findings.append(Finding(self._position(node), message, hint))
        if len(self.findings) > MOST_FINDINGS:
            raise RefusedError

    def _refuse(self, node: yaml.Node, message: str, hint: str) -> NoReturn:
        self._error(node, message, hint)
        raise RefusedError

    def _position(self, node: yaml.Node) -> tuple[int, int]:
        return self._chunk.position(node.start_mark.line, node.start_mark.column)


def _is_number(value: JSONScalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_MAP, _SEQUENCE = f"{TAG_PREFIX}map", f"{TAG_PREFIX}seq"
_TAG_CHECKS: dict[str, Callable[[JSONScalar], bool]] = {
    f"{TAG_PREFIX}int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    f"{TAG_PREFIX}float": _is_number,
    f"{TAG_PREFIX}bool": lambda value: isinstance(value, bool),
    f"{TAG_PREFIX}null": lambda value: value is None,
    # A date stays text (go.yaml.in/yaml/v2:decode.go, "for backward compatibility reasons").
    f"{TAG_PREFIX}timestamp": lambda value: isinstance(value, str),
}
_ALIAS = 'give it the alias of a map, as in "<<: *defaults"'
_FEWER = "write the values out, or split the document"
_NO_TAG = "leave the tag out"
_QUOTE = "quote the key"
