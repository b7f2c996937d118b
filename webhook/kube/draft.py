"""The one way in which a rule changes an object.

A rule says what it wants (`set`, `append`, `remove`); the draft knows how: it copies only what it writes, makes missing
parents, treats null as absent, keeps what somebody chose, remembers which rule owns which field, and yields one JSON Patch
operation per field. The object it was given is never modified.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple

from webhook.documents import Path
from webhook.kube.field_path import format_field, format_identified, item_name, look_up, value_at
from webhook.kube.json_pointer import escape
from webhook.kube.managed_fields import owns

ENGINE = ""
"""The owner of what the engine itself writes (annotations); its writes are no changes of a rule."""

MOST_FIELDS = 2_000
"""That rules write in one object: twenty in each of a hundred containers, where no node runs more than some hundred pods. With
the patch, its report and the copies a field takes up to 6 KB and 50 µs: 12 MB and 0.1 s."""

_ABSENT = object()


class DraftError(ValueError):
    """A field cannot be written, since something on the way to it has another JSON type."""


class TooManyFieldsError(DraftError):
    """The rules together would write more than `MOST_FIELDS` fields."""


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
    _touched: dict[tuple[str | int, ...], Change] = field(default_factory=dict)
    _undo: list[tuple[Any, Any, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.object is None:
            self.object = self.original

    def fork(self) -> "Draft":
        """A second draft that starts where this one is; from here on neither sees what the other writes."""
        self._share()
        return self.trial()

    def trial(self) -> "Draft":
        """A draft to try wishes on: nobody else sees them. It must not be used after the next write to this one."""
        owners, touched = dict(self._owners), dict(self._touched)
        return Draft(self.original, self.object, 0, _owners=owners, _touched=touched)

    def keep(self, trial: "Draft") -> bool:
        """Let a trial live on, as a fork; False where nothing was wished on it, so that nothing tells the two apart."""
        if not trial.writes and len(trial._owners) == len(self._owners):  # noqa: SLF001 - another draft
            return False
        self._share()
        return True

    def _share(self) -> None:
        """From here on another draft holds what this one copied: it is copied anew before the next write."""
        self._copies = {}

    def begin(self) -> None:
        """From here on `undo` goes back to where the draft is now: a rule that cannot write all it wants writes nothing."""
        self._undo.clear()

    def undo(self) -> None:
        """Take back what was written, and claimed, since `begin`."""
        self.writes += 1
        while self._undo:
            holder, key, former = self._undo.pop()
            if former is _ABSENT:
                del holder[key]
            else:
                holder[key] = former

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
            DraftError: a parent is neither a map nor absent, or the rules would write more than `MOST_FIELDS` fields
                (`TooManyFieldsError`).
        """
        present, key = look_up(self.object, path)
        owner = self._owners.get(key)
        if owner is not None and owner != rule and replace.when != "always":
            return Written.CLAIMED
        if present is not None:
            if _equal(present, value):
                self._own(key, rule, owner)
                return Written.SAME
            if not self._may_replace(path, present, replace, api_default, cluster_default):
                return Written.CHOSEN
        self._put(self._writable(path[:-1], dict), path[-1], value)
        self._note(key, path, rule, present, value)
        self._own(key, rule, owner)
        return Written.WRITTEN

    def append(self, path: Path, item: Any, rule: str, same: Callable[[Any], bool], identity: str) -> Written:
        """Wish that the list at `path` hold `item`.

        Args:
            path: the list; null, empty and absent are alike.
            item: what to add at its end.
            rule: who wishes it.
            same: whether an item that is there already says the same.
            identity: what names the item among its fellows, as text.

        Raises:
            DraftError: there is something at `path` that is no list, or the rules would write more than `MOST_FIELDS` fields
                (`TooManyFieldsError`).
        """
        present, holder = look_up(self.object, path)
        key = (*holder, f"[{identity}]")
        owner = self._owners.get(key)
        if owner is not None and owner != rule:
            return Written.CLAIMED
        self._own(key, rule, owner)
        if isinstance(present, list) and any(map(same, present)):
            return Written.SAME
        target = self._writable(path, list)
        place = (*path, len(target))
        self._append(target, item)
        # Named as its fellows are.
        shown = format_identified(place, (*holder, item_name(item, place[-1])))
        self._touch(key, Change(rule, place, shown, None, item, True))
        return Written.WRITTEN

    def claim(self, key: tuple[str | int, ...], rule: str) -> bool:
        """Take a field that is no single place of the object (one node label over all terms); False if another rule has it.

        Args:
            key: what names the field, as `identify` does; it need not be a path.
            rule: who takes it; a rule that has it already is not refused.
        """
        owner = self._owners.get(key)
        if owner is None:
            self._own(key, rule, owner)
        return owner is None or owner == rule

    def remove(self, path: Path, rule: str) -> None:
        """Take the field at `path` away in the name of `rule`; nothing happens where it is absent.

        Raises:
            DraftError: it is an item of a list, or the rules would write more than `MOST_FIELDS` fields (`TooManyFieldsError`).
        """
        present, key = look_up(self.object, path)
        if present is not None:
            holder = self._writable(path[:-1], dict)
            self._undo.append((holder, path[-1], present))
            del holder[path[-1]]
            self._note(key, path, rule, present, None)

    def put(self, path: Path, entries: Mapping[str, Any]) -> None:
        """Write `entries`, the engine's own, into the map at `path`: they are no changes of a rule, and nobody owns them.

        Raises:
            DraftError: there is something at `path` that is no map.
        """
        target = self._writable(path, dict)
        for key, value in entries.items():
            self._put(target, key, value)

    def changes(self, of: Callable[[str], bool] = bool) -> tuple[Change, ...]:
        """What the rules changed, in the order of first writing, less what ends as it began and the engine's own.

        Args:
            of: whose changes, by rule; all rules' by default, and `ENGINE` is none.
        """
        return tuple(
            [
                change
                for change in self._touched.values()
                if of(change.rule) and not _equal(change.before, change.after)
            ]
        )

    def patch(self) -> list[dict[str, Any]]:
        """The JSON Patch (RFC 6902) that makes the original into the object as it is now; empty where nothing changed."""
        found: list[dict[str, Any]] = []
        if self.object is not self.original:
            _difference(self.original, self.object, "", found)
        return found

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

    def _note(self, key: tuple[str | int, ...], path: Path, rule: str, before: Any, after: Any) -> None:
        touched = self._touched.get(key)
        if touched is None:
            shown = format_identified(path, key)
            self._touch(key, Change(rule, path, shown, before, after, False))
        else:
            self._put(self._touched, key, touched._replace(rule=rule, after=after))

    def _touch(self, key: tuple[str | int, ...], change: Change) -> None:
        if len(self._touched) >= MOST_FIELDS and change.rule != ENGINE:
            raise TooManyFieldsError(f"policies would write more than {MOST_FIELDS} fields")
        self._put(self._touched, key, change)

    def _own(self, key: tuple[str | int, ...], rule: str, former: str | None) -> None:
        if former != rule:
            self._undo.append((self._owners, key, _ABSENT if former is None else former))
            self._owners[key] = rule

    def _put(self, holder: Any, key: Any, value: Any) -> None:
        former = holder[key] if type(holder) is list else holder.get(key, _ABSENT)
        self._undo.append((holder, key, former))
        holder[key] = value

    def _append(self, holder: list[Any], item: Any) -> None:
        self._undo.append((holder, len(holder), _ABSENT))
        holder.append(item)

    def _writable(self, path: Path, kind: type) -> Any:
        """The container at `path`, made or copied so that writing to it touches neither the original nor a value of a policy."""
        self.writes += 1
        copies = self._copies
        node = self.object
        if id(node) not in copies:
            self.object = node = self._copy(node)
        for depth, segment in enumerate(path, 1):
            parent = node
            node = parent.get(segment) if type(parent) is dict else value_at(parent, (segment,))
            wanted = kind if depth == len(path) else list if type(path[depth]) is int else dict
            if node is None:
                node = self._make(parent, segment, wanted)
            elif type(node) is not wanted and not isinstance(node, wanted):
                place = format_field(self.object, path[:depth])
                raise DraftError(f"{place} is a {type(node).__name__}, not a {wanted.__name__}")
            elif id(node) not in copies:
                node = parent[segment] = self._copy(node)  # equal: nothing to take back
        return node

    def _make(self, parent: Any, segment: str | int, kind: type) -> Any:
        """An empty container of our own where there is none."""
        node = kind()
        self._copies[id(node)] = node
        if isinstance(segment, int) and segment == len(parent):
            self._append(parent, node)
        else:
            self._put(parent, segment, node)
        return node

    def _copy(self, node: Any) -> Any:
        """A copy of `node`; kept, so that its id is not given to another object."""
        copy = node.copy()
        self._copies[id(copy)] = copy
        return copy


def _equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: `true` is not 1."""
    if type(left) is str or left is None:
        return bool(left == right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _difference(before: Any, after: Any, place: str, found: list[dict[str, Any]]) -> None:
    """Add the operations that make `before` into `after`; what a draft did not copy is the same object in both.

    Args:
        before: what was there.
        after: what is there now.
        place: where, as a JSON Pointer.
        found: the operations so far.
    """
    if type(before) is type(after) is dict or (isinstance(before, Mapping) and isinstance(after, Mapping)):
        _map_difference(before, after, place, found)
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        for index, value in enumerate(before):
            if value is not after[index]:
                _difference(value, after[index], f"{place}/{index}", found)
        end = f"{place}/-"
        found.extend([{"op": "add", "path": end, "value": value} for value in after[len(before) :]])
    elif not _equal(before, after):
        found.append({"op": "replace", "path": place, "value": after})


def _map_difference(
    before: Mapping[str, Any], after: Mapping[str, Any], place: str, found: list[dict[str, Any]]
) -> None:
    if not before.keys() <= after.keys():
        gone = [key for key in before if key not in after]
        found.extend([{"op": "remove", "path": f"{place}/{escape(key)}"} for key in gone])
    for key, value in after.items():
        former = before.get(key)
        if former is value:
            continue
        if former is None:
            # `add` also over a null: `replace` of a null fails in the API server's library (evanphx/json-patch v4)
            found.append({"op": "add", "path": f"{place}/{escape(key)}", "value": value})
        else:
            _difference(former, value, f"{place}/{escape(key)}", found)
