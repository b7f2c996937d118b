"""The checked syntax tree of a compiled expression, as far as the checks at load read it.

CEL hands its tree out as a `cel.expr.CheckedExpr` (cel-expr/cel-spec:proto/cel/expr/checked.proto and
syntax.proto), serialised inside a `google.protobuf.Any`. The few messages that are read here need no
protobuf library: each is a sequence of fields, a number and a varint or a length-prefixed value.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Numbers for varints, bytes for what is length-prefixed.
_Fields = dict[int, list[Any]]

# Wire types (protobuf's encoding guide).
_VARINT, _FIXED64, _LENGTH_PREFIXED, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}

# The field of google.protobuf.Any that holds the message.
_ANY_VALUE = 2
# Fields of cel.expr.CheckedExpr, and of the SourceInfo and Reference in it.
_REFERENCES, _EXPRESSION, _SOURCE_INFO = 2, 4, 5
_POSITIONS = 4
_OVERLOAD_IDS = 3
_MAP_KEY, _MAP_VALUE = 1, 2
# Fields of cel.expr.Expr: its id, and one of the others.
_ID, _CONSTANT, _IDENTIFIER, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = range(2, 10)
_STRING_VALUE = 6


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One expression with the expressions that it is made of.

    Attributes:
        id: CEL's own number of it, under which the tree has its position and overloads.
    """

    id: int
    children: tuple["Node", ...] = ()

    def walk(self) -> Iterator["Node"]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True, eq=False)
class Text(Node):
    """A string literal."""

    value: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    """A variable; a declared dotted name is one variable."""

    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """A function, method or operator; its children are the receiver, if there is one, and the arguments."""

    function: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Sequence(Node):
    """A list literal."""


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Node):
    """What the macros `all`, `exists`, `map`, `filter` … become.

    Attributes:
        variable: Name of the loop variable.
        accumulator: Name of the variable that carries the result along; `optMap` gives it the author's name.
        items: What is looped over.
        repeated: The children that are evaluated once an item.
    """

    variable: str = ""
    accumulator: str = ""
    items: Node = Node(0)
    repeated: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class SyntaxTree:
    """A checked expression.

    Attributes:
        root: The whole expression.
        positions: Offset in characters of each node, by id.
        overloads: The overloads that each call can come to at run time, by the id of the call.
    """

    root: Node
    positions: dict[int, int]
    overloads: dict[int, tuple[str, ...]]


def read_syntax_tree(checked: bytes) -> SyntaxTree:
    """The tree that `Expression.serialize()` of cel-expr-python gives."""
    fields = _read(_read(checked)[_ANY_VALUE][0])
    references = dict(_map_entries(fields[_REFERENCES]))
    positions = _map_entries(_read(fields[_SOURCE_INFO][0])[_POSITIONS])
    return SyntaxTree(
        root=_node(fields[_EXPRESSION][0]),
        positions=dict(positions),
        overloads={key: _strings(_read(value)[_OVERLOAD_IDS]) for key, value in references.items()},
    )


def _node(data: bytes) -> Node:
    fields = _read(data)
    kind = next(kind for kind in _BUILDERS if kind in fields)
    return _BUILDERS[kind](_first(fields, _ID, 0), _read(fields[kind][0]))


def _constant(node_id: int, fields: _Fields) -> Node:
    if _STRING_VALUE in fields:
        return Text(node_id, value=fields[_STRING_VALUE][0].decode())
    return Node(node_id)


def _identifier(node_id: int, fields: _Fields) -> Node:
    return Name(node_id, name=_first(fields, 1, b"").decode())


def _select(node_id: int, fields: _Fields) -> Node:
    return Node(node_id, _nodes(fields[1]))


def _call(node_id: int, fields: _Fields) -> Node:
    return Call(node_id, _nodes(fields[1] + fields[3]), fields[2][0].decode())


def _sequence(node_id: int, fields: _Fields) -> Node:
    return Sequence(node_id, _nodes(fields[1]))


def _struct(node_id: int, fields: _Fields) -> Node:
    entries = [_read(entry) for entry in fields[2]]
    return Node(node_id, _nodes([part for entry in entries for part in entry[3] + entry[4]]))


def _comprehension(node_id: int, fields: _Fields) -> Node:
    items, start, condition, step, result = (_nodes(fields[number]) for number in (2, 4, 5, 6, 7))
    return Loop(
        node_id,
        items + start + condition + step + result,
        variable=_first(fields, 1, b"").decode(),
        accumulator=_first(fields, 3, b"").decode(),
        items=items[0],
        repeated=condition + step,
    )


_BUILDERS = {
    _CONSTANT: _constant,
    _IDENTIFIER: _identifier,
    _SELECT: _select,
    _CALL: _call,
    _LIST: _sequence,
    _STRUCT: _struct,
    _COMPREHENSION: _comprehension,
}


def _nodes(values: list[Any]) -> tuple[Node, ...]:
    return tuple(_node(value) for value in values)


def _map_entries(entries: list[Any]) -> Iterator[tuple[int, Any]]:
    for entry in entries:
        fields = _read(entry)
        yield _first(fields, _MAP_KEY, 0), _first(fields, _MAP_VALUE, 0)


def _read(data: bytes) -> _Fields:
    fields: _Fields = defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire_type = tag & 7
        if wire_type == _VARINT:
            value, at = _varint(data, at)
            fields[tag >> 3].append(value)
            continue
        size, at = _varint(data, at) if wire_type == _LENGTH_PREFIXED else (_FIXED_SIZES[wire_type], at)
        fields[tag >> 3].append(data[at : at + size])
        at += size
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1


def _first(fields: _Fields, number: int, default: Any) -> Any:
    return fields[number][0] if number in fields else default


def _strings(values: list[Any]) -> tuple[str, ...]:
    return tuple(value.decode() for value in values)
