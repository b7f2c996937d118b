"""Absolute paths of files inside a pod or on its node, compared by what they name and not by how they are written."""

from collections.abc import Callable, Iterable
from functools import lru_cache

LONGEST_KEPT = 256
"""Characters of a path whose parts are kept: real paths are shorter, and what is kept of long ones would be megabytes."""


def path_parts(path: str) -> tuple[str, ...]:
    """The names on the way from `/`, with `//`, `.` and `..` resolved; symbolic links are not known.

    A path that does not begin with `/` is taken from there, as the kubelet takes a relative mount path
    (kubernetes/kubernetes:pkg/kubelet/kubelet_pods.go, makeMounts).
    """
    return _known_parts(path) if len(path) <= LONGEST_KEPT else _parts(path)


def _parts(path: str) -> tuple[str, ...]:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


_known_parts = lru_cache(2048)(_parts)
"""Pods mount the same few places, and policies name always the same."""


def at_or_below(directories: Iterable[str]) -> Callable[[str], bool]:
    """Whether a path names one of `directories` or something in it: `/data/a` is below `/data`, `/database` is not."""
    named = frozenset(map(path_parts, directories))
    depths = frozenset(map(len, named))

    def holds(path: str) -> bool:
        parts = path_parts(path)
        for depth in depths:  # noqa: SIM110 - a generator costs more than what it asks
            if parts[:depth] in named:
                return True
        return False

    return holds


def absolute_path(path: str) -> str:
    """The path itself.

    Raises:
        ValueError: it does not begin with `/`.
    """
    if not path.startswith("/"):
        raise ValueError("expected an absolute path")
    return path
