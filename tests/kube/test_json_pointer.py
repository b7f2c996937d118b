"""JSON Pointers, with the examples of RFC 6901."""

import jsonpointer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.json_pointer import escape, format_pointer


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        pytest.param((), "", id="whole document"),
        pytest.param(("",), "/", id="empty key"),
        pytest.param(("foo", 0), "/foo/0", id="index"),
        pytest.param(("foo", "-"), "/foo/-", id="end of a list"),
        pytest.param(("a/b",), "/a~1b", id="slash"),
        pytest.param(("m~n",), "/m~0n", id="tilde"),
        pytest.param(("~1",), "/~01", id="a tilde before 1 stays a tilde"),
        pytest.param(("~/",), "/~0~1", id="both"),
        pytest.param(("c%d", 'k"l', " "), '/c%d/k"l/ ', id="nothing else is escaped"),
        pytest.param(
            ("metadata", "annotations", "podgate.dev/skip"),
            "/metadata/annotations/podgate.dev~1skip",
            id="annotation",
        ),
        pytest.param(("limits", "nvidia.com/gpu"), "/limits/nvidia.com~1gpu", id="resource name"),
    ],
)
def test_pointers_of_paths(path: tuple[str | int, ...], pointer: str) -> None:
    assert format_pointer(path) == pointer
    assert jsonpointer.JsonPointer(pointer).parts == list(map(str, path))


@given(st.lists(st.text()))
def test_a_path_survives_the_round_trip(path: list[str]) -> None:
    assert jsonpointer.JsonPointer(format_pointer(tuple(path))).parts == path


@given(st.lists(st.text(alphabet="~/01ab-")))
def test_pointers_are_those_of_the_jsonpointer_library(path: list[str]) -> None:
    pointer = format_pointer(tuple(path))
    assert pointer == jsonpointer.JsonPointer.from_parts(path).path
    assert [escape(segment) for segment in path] == pointer.split("/")[1:]
