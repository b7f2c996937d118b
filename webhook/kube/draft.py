"""The one way in which a rule changes an object.

A rule says what it wants (`set`, `append`, `remove`); the draft knows how: it copies only what it writes, makes missing
parents, treats null as absent, keeps what somebody chose, remembers which rule owns which field, and yields one JSON Patch
operation per field. The object it was given is never modified.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple

from webhook.documents import Path
from webhook.kube.field_path import format_field, identify, value_at
from webhook.kube.json_pointer import format_pointer
from webhook.kube.managed_fields import owns

ENGINE = ""
"""The owner of what the engine itself writes (annotations); its writes are no changes of a rule."""


class DraftError(ValueError):
    """A field cannot be written, since something on the way to it has another JSON type."""


class Written(Enum):
    """What became of a wish."""

    WRITTEN = "written"
    SAME = "same"
    CHOSEN = "chosen"
    CLAIMED = "claimed"

    @property
    def holds(self) -> bool:
        """Whether the field now is as the rule wants it."""
        return self in (Written.WRITTEN, Written.SAME)


@dataclass(frozen=True, slots=True)
class Replace:
    """Which present values a rule may overwrite.

    Attributes:
        when: `defaulted` (what nobody chose), `never` (only fill), `always`.
        values: values that may be replaced besides.
    """

    when: Literal["defaulted", "never", "always"] = "defaulted"
    values: tuple[str, ...] = ()


FILL = Replace("never")
ALWAYS = Replace("always")


class Change(NamedTuple):
    """A field that ends otherwise than it began."""

    rule: str
    path: Path
    field: str
    before: Any
    after: Any
    appended: bool


@dataclass(slots=True)
class _Touched:
    rule: str
    path: Path
    before: Any
    after: Any
    appended: bool


@dataclass(slots=True)
class Draft:
    """An object under change; see the module's text.

    Attributes:
        original: the object as given; read-only.
        object: the object as it is now; read-only for everyone but the draft.
        writes: how often it was written; what was computed of the object holds as long as this stays.
    """

    original: Mapping[str, Any]
    object: Any = None
    writes: int = 0
    _copies: dict[int, Any] = field(default_factory=dict)
    _owners: dict[tuple[str | int, ...], str] = field(default_factory=dict)
    _touched: dict[tuple[str | int, ...], _Touched] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.object is None:
            self.object = self.original

    def fork(self) -> "Draft":
        """A second draft that starts where this one is; from here on neither sees what the other writes."""
        self._copies = {}
        touched = {
            key: _Touched(t.rule, t.path, t.before, t.after, t.appended) for key, t in self._touched.items()
        }
        return Draft(self.original, self.object, 0, {}, dict(self._owners), touched)

    def set(
        self,
        path: Path,
        value: Any,
        rule: str,
        replace: Replace = FILL,
        *,
        api_default: Any = None,
        cluster_default: Any = None,
    ) -> Written:
        """Wish that the field at `path` be `value`.

        Args:
            path: where; list items by index. Missing parents are made.
            value: what, never None; shared with the draft, so it must not be modified afterwards.
            rule: who wishes it.
            replace: which present value may be overwritten.
            api_default: the value that the API's own defaulting gives this field
                (kubernetes/kubernetes:pkg/apis/core/v1/defaults.go).
            cluster_default: the value that an admission plugin of the cluster fills in. It counts as not chosen only where
                managedFields shows that no client wrote the field: the field manager runs before admission
                (kubernetes/apiserver:pkg/endpoints/handlers/create.go).

        Raises:
            DraftError: a parent is neither a map nor absent.
        """
        present = value_at(self.object, path)
        key = identify(self.object, path)
        if replace.when != "always" and self._owners.get(key, rule) != rule:
            return Written.CLAIMED
        if present is None or not _equal(present, value):
            if present is not None and not self._may_replace(
                path, present, replace, api_default, cluster_default
            ):
                return Written.CHOSEN
            self._write(path, value, rule, present)
            self._owners[key] = rule
            return Written.WRITTEN
        self._owners[key] = rule
        return Written.SAME

    def append(self, path: Path, item: Any, rule: str, same: Callable[[Any], bool], identity: str) -> Written:
        """Wish that the list at `path` hold `item`.

        Args:
            path: the list; null, empty and absent are alike.
            item: what to add at its end.
            rule: who wishes it.
            same: whether an item that is there already says the same.
            identity: what names the item among its fellows, as text.

        Raises:
            DraftError: there is something at `path` that is no list.
        """
        key = (*identify(self.object, path), f"[{identity}]")
        if self._owners.get(key, rule) != rule:
            return Written.CLAIMED
        self._owners[key] = rule
        present = value_at(self.object, path)
        if isinstance(present, list) and any(same(existing) for existing in present):
            return Written.SAME
        target = self._writable(path, list)
        target.append(item)
        self._touched[key] = _Touched(rule, (*path, len(target) - 1), None, item, appended=True)
        return Written.WRITTEN

    def claim(self, key: tuple[str | int, ...], rule: str) -> bool:
        """Take a field that is no single place of the object (one node label over all terms); False if another rule has it."""
        return self._owners.setdefault(key, rule) == rule

    def remove(self, path: Path, rule: str) -> None:
        """Take the field at `path` away; nothing happens where it is absent."""
        present = value_at(self.object, path)
        if present is not None:
            del self._writable(path[:-1], dict)[path[-1]]
            self._note(path, rule, present, None)

    def changes(self, of: Callable[[str], bool] = bool) -> tuple[Change, ...]:
        """What the rules changed, in the order of first writing, less what ends as it began and the engine's own.

        Args:
            of: whose changes, by rule; all rules' by default, and `ENGINE` is none.
        """
        return tuple(
            Change(t.rule, t.path, format_field(self.object, t.path), t.before, t.after, t.appended)
            for t in self._touched.values()
            if of(t.rule) and not _equal(t.before, t.after)
        )

    def patch(self) -> list[dict[str, Any]]:
        """The JSON Patch (RFC 6902) that makes the original into the object as it is now; empty where nothing changed."""
        return list(_difference(self.original, self.object, ()))

    def _may_replace(
        self, path: Path, present: Any, replace: Replace, api_default: Any, cluster_default: Any
    ) -> bool:
        if replace.when == "always" or present in replace.values:
            return True
        if replace.when == "never":
            return False
        return present == api_default or (present == cluster_default and self._nobody_wrote(path))

    def _nobody_wrote(self, path: Path) -> bool:
        if any(isinstance(segment, int) for segment in path):
            return False  # items of an atomic list have no entries of their own
        managed = value_at(self.original, ("metadata", "managedFields"))
        return owns(managed, tuple(map(str, path))) is False

    def _write(self, path: Path, value: Any, rule: str, before: Any) -> None:
        self._writable(path[:-1], dict)[path[-1]] = value
        self._note(path, rule, before, value)

    def _note(self, path: Path, rule: str, before: Any, after: Any) -> None:
        key = identify(self.object, path)
        touched = self._touched.get(key)
        if touched is None:
            self._touched[key] = _Touched(rule, path, before, after, appended=False)
        else:
            touched.rule, touched.after = rule, after

    def _writable(self, path: Path, kind: type) -> Any:
        """The container at `path`, made or copied so that writing to it touches neither the original nor a value of a policy."""
        self.writes += 1
        node = self._own(self.object)
        self.object = node
        last = len(path) - 1
        for depth, segment in enumerate(path):
            child = node.get(segment) if type(node) is dict else value_at(node, (segment,))
            wanted = kind if depth == last else list if isinstance(path[depth + 1], int) else dict
            if child is None:
                child = self._own(wanted())
            elif type(child) is not wanted and not isinstance(child, wanted):
                found = type(child).__name__
                raise DraftError(
                    f"{format_field(self.object, path[: depth + 1])} is a {found}, not a {wanted.__name__}"
                )
            elif self._copies.get(id(child)) is child:  # ours already, and in its place
                node = child
                continue
            else:
                child = self._own(child)
            if isinstance(segment, int) and segment == len(node):
                node.append(child)
            else:
                node[segment] = child
            node = child
        return node

    def _own(self, node: Any) -> Any:
        if self._copies.get(id(node)) is node:
            return node
        copy = node.copy()
        self._copies[id(copy)] = copy  # kept, so that its id is not given to another object
        return copy


def _equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: `true` is not 1."""
    if type(left) is str:
        return bool(left == right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _difference(before: Any, after: Any, path: Path) -> Iterator[dict[str, Any]]:
    if before is after:
        return
    if type(before) is type(after) is dict or (isinstance(before, Mapping) and isinstance(after, Mapping)):
        yield from _map_difference(before, after, path)
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        yield from _list_difference(before, after, path)
    elif not _equal(before, after):
        yield {"op": "replace", "path": format_pointer(path), "value": after}


def _map_difference(
    before: Mapping[str, Any], after: Mapping[str, Any], path: Path
) -> Iterator[dict[str, Any]]:
    for key in before:
        if key not in after:
            yield {"op": "remove", "path": format_pointer((*path, key))}
    for key, value in after.items():
        former = before.get(key)
        if former is value:
            continue
        if former is None:
            # `add` also over a null: `replace` of a null fails in the API server's library (evanphx/json-patch v4)
            yield {"op": "add", "path": format_pointer((*path, key)), "value": value}
        else:
            yield from _difference(former, value, (*path, key))


def _list_difference(before: Sequence[Any], after: Sequence[Any], path: Path) -> Iterator[dict[str, Any]]:
    for index, value in enumerate(before):
        if value is not after[index]:
            yield from _difference(value, after[index], (*path, index))
    for value in after[len(before) :]:
        yield {"op": "add", "path": format_pointer((*path, "-")), "value": value}
