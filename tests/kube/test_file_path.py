"""Paths are compared by what they name."""

import pytest

from webhook.kube.file_path import at_or_below, path_parts

PARTS = {
    "the root": ("/", ()),
    "nothing": ("", ()),
    "a file": ("/dev/nvidia0", ("dev", "nvidia0")),
    "a trailing slash": ("/dev/", ("dev",)),
    "many slashes": ("//var///run", ("var", "run")),
    "a step up and down": ("/dev/../dev/./shm", ("dev", "shm")),
    "above the root": ("/../../dev", ("dev",)),
    "a relative path": ("data/x", ("data", "x")),
    "dots that are a name": ("/a/...", ("a", "...")),
}


@pytest.mark.parametrize(("path", "parts"), PARTS.values(), ids=PARTS.keys())
def test_the_names_on_the_way(path: str, parts: tuple[str, ...]) -> None:
    assert path_parts(path) == parts


BELOW = {
    "a longer name": ("/database", "/data", False),
    "above": ("/", "/data", False),
    "beside": ("/data/../tmp", "/data", False),
    "the directory": ("/data/", "/data", True),
    "inside": ("//data/./a", "/data", True),
    "everything is below the root": ("/data", "/", True),
}


@pytest.mark.parametrize(("path", "directory", "expected"), BELOW.values(), ids=BELOW.keys())
def test_below_is_by_whole_names(path: str, directory: str, expected: bool) -> None:
    assert at_or_below([directory])(path) is expected
    assert at_or_below(["/mnt/data/a", directory])(path) is expected
