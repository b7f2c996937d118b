"""Places inside a Kubernetes object, written as its users write them."""

from collections.abc import Mapping
from typing import Any

from webhook.documents import Path

LONGEST_KEPT = 64
"""Characters of a name that is kept: those of an object may have any length, and Kubernetes' own are shorter."""

MOST_KEPT = 2048

_IDENTITY_KEYS = ("mountPath", "name", "key")
"""What names an item of a list, the first that it has: one volume may be mounted in several places."""


def value_at(value: Any, path: Path) -> Any:
    """The part of `value` at `path`, or None where it, or a part on the way to it, is absent, null or of another type."""
    for segment in path:
        if type(value) is dict:  # keys are texts: an index finds nothing
            value = value.get(segment)
        elif value is None:
            return None
        elif isinstance(segment, str):
            if not isinstance(value, Mapping):
                return None
            value = value.get(segment)
        elif isinstance(value, list) and segment < len(value):
            value = value[segment]
        else:
            return None
    return value


def mapping_at(value: Any, path: Path) -> Mapping[str, Any]:
    """The map at `path` in `value`; an empty one where there is none."""
    for segment in path:  # as `value_at`, less a call: this is what rules ask most
        if type(value) is dict:
            value = value.get(segment)
        elif value is None:
            return {}
        else:
            value = value_at(value, (segment,))
    # The type first: to ask whether something is a Mapping takes ten times as long.
    return value if type(value) is dict or (value is not None and isinstance(value, Mapping)) else {}


def list_at(value: Any, path: Path) -> list[Any]:
    """The list at `path` in `value`; an empty one where there is none."""
    found = value_at(value, path)
    return found if isinstance(found, list) else []


def identify(value: Any, path: Path) -> tuple[str | int, ...]:
    """`path` with list indices replaced by the mountPath (else name, key) of the item, where it has one.

    Two paths name one field exactly if they are identified alike, however the lists are ordered.

    Args:
        value: what the path leads through; an index that it does not have stays one.
        path: from the root of `value`.
    """
    return look_up(value, path)[1]


def look_up(value: Any, path: Path) -> tuple[Any, tuple[str | int, ...]]:
    """What is in `value` at `path`, as `value_at` says, and how `identify` names the place: found on one way."""
    identity: list[str | int] | None = None
    for depth, segment in enumerate(path):
        if type(value) is dict:
            value = value.get(segment)
        elif value is not None:
            value = value_at(value, (segment,))
            if type(segment) is int:
                identity = identity or list(path)
                identity[depth] = item_name(value, segment)
    return value, tuple(identity) if identity else path


def is_named(name: str, item: Any) -> bool:
    """Whether `item`, of a list whose items have names, has this `name`."""
    return (type(item) is dict or isinstance(item, Mapping)) and bool(item.get("name") == name)


def format_field(value: Any, path: Path) -> str:
    """`path` in `value` as a message shows it: `spec.containers["trainer"].resources.limits["nvidia.com/gpu"]`."""
    return format_identified(path, identify(value, path))


def format_identified(path: Path, identity: tuple[str | int, ...]) -> str:
    """As `format_field`, for a `path` whose `identity` (of `identify`) is known already."""
    steps = [
        _STEPS[segment] if type(segment) is str else _item_step(name)
        for segment, name in zip(path, identity, strict=True)
    ]
    return "".join(steps).removeprefix(".")


def item_name(item: Any, index: str | int) -> str | int:
    """What `identify` names an `item` of a list by: its `index` where it has no name."""
    if type(item) is dict or isinstance(item, Mapping):
        for key in _IDENTITY_KEYS:
            name = item.get(key)
            if isinstance(name, str):
                return f"[{name}]"
    return index


def _item_step(name: str | int) -> str:
    return f"[{name}]" if isinstance(name, int) else f'["{name[1:-1]}"]'


class _Steps(dict[str, str]):
    """How names stand in a place. The first ones are kept: names of fields are few, and those of resources and labels, too."""

    def __missing__(self, name: str) -> str:
        step = f".{name}" if name.isidentifier() and name.isascii() else f'["{name}"]'
        if len(name) <= LONGEST_KEPT and len(self) < MOST_KEPT:
            self[name] = step
        return step


_STEPS = _Steps()
