"""Documents, problems, places."""

import pytest

from webhook.documents import Document, Path, Position, Problem, listed_objects, read_documents

TEXT = """\
# a note
---
metadata: &m
  name: x
  "labels": {a: b,  c: d}
items:
- one
-   deep:
    - [1, 2]
copy: *m
merged:
  own: 1
  <<: *m
empty:
1: x
"""


def document(text: str = TEXT) -> Document:
    (found,) = read_documents(text.encode(), "a.yaml", strict=False).documents
    return found


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        pytest.param((), (3, 1), (3, 1), id="root"),
        pytest.param(("metadata", "name"), (4, 9), (4, 3), id="map value"),
        pytest.param(("metadata", "labels", "c"), (5, 24), (5, 21), id="flow map value"),
        pytest.param(("items",), (7, 1), (6, 1), id="list"),
        pytest.param(("items", 0), (7, 3), (7, 3), id="list item"),
        pytest.param(("items", 1, "deep", 0, 1), (9, 11), (9, 11), id="deep"),
        pytest.param(("copy", "name"), (4, 9), (4, 3), id="aliased"),
        pytest.param(("merged", "name"), (4, 9), (4, 3), id="merged"),
        pytest.param(("merged", "own"), (12, 8), (12, 3), id="beside merged"),
        pytest.param(("empty",), (14, 7), (14, 1), id="empty"),
        pytest.param(("1",), (15, 4), (15, 1), id="a key that is not text"),
        pytest.param(("metadata", "absent", "deeper"), (3, 11), (3, 1), id="absent: the nearest ancestor"),
        pytest.param(("items", 7), (7, 1), (6, 1), id="an index too high"),
        pytest.param(("items", -1), (7, 1), (6, 1), id="a negative index"),
        pytest.param(("items", "0"), (7, 1), (6, 1), id="a key in a list"),
        pytest.param(("metadata", 0), (3, 11), (3, 1), id="an index in a map"),
        pytest.param(("metadata", "name", "x"), (4, 9), (4, 3), id="below a scalar"),
        pytest.param(("absent",), (3, 1), (3, 1), id="absent at the root"),
    ],
)
def test_locate(path: Path, value: tuple[int, int], key: tuple[int, int]) -> None:
    assert document().locate(path) == value
    assert document().locate(path, key=True) == key


def test_locate_counts_lines_of_the_whole_stream() -> None:
    documents = read_documents(
        b"a: 1\r\n---\r\nb: |\r\n  x\r\n---\r\nc:\r\n- 1\r\n", "a.yaml", strict=False
    ).documents
    assert [documents[1].locate(("b",)), documents[2].locate(("c", 0))] == [(3, 4), (7, 3)]


def test_locate_follows_the_value_where_a_merge_key_comes_last() -> None:
    text = "b: &b\n  x: 1\nc:\n  x: 2\n  <<: *b\n"
    assert document(text).value["c"] == {"x": 1}
    assert document(text).locate(("c", "x")) == (2, 6)


def test_a_document_without_a_text_is_located_at_the_start() -> None:
    assert Document("a.yaml", 0, {"a": 1}).locate(("a",)) == Position(1, 1)


def test_documents_are_equal_by_what_they_hold() -> None:
    assert document("a: 1") == document("a:   1")


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (Problem("a.yaml", Position(4, 7), "no"), "a.yaml:4:7: no"),
        (Problem("a.yaml", Position(4, 7), "no", "do"), "a.yaml:4:7: no\n  hint: do"),
        (Problem("a.yaml", None, "no"), "a.yaml: no"),
    ],
)
def test_a_problem_as_text(problem: Problem, expected: str) -> None:
    assert str(problem) == expected


def test_a_problem_without_the_text_of_the_file_keeps_its_place_only() -> None:
    quoting = Problem(
        "a.yaml", Position(4, 7), "expected a name, found 's3cret'", "did you mean x?", is_warning=True
    )
    assert quoting.without_text() == Problem(
        "a.yaml",
        Position(4, 7),
        "this is not as Kubernetes expects it; the text is not shown, since files of facts may hold secrets",
        "podgate check shows it where the file is given as a manifest",
        is_warning=True,
    )


def test_a_problem_of_a_whole_file_quotes_nothing_and_stays() -> None:
    whole = Problem("a.yaml", None, "expected UTF-8 text, found other bytes", "save the file as UTF-8")
    assert whole.without_text() is whole


POD = "{kind: Pod, metadata: {name: x}}"


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        pytest.param(POD, [()], id="no list"),
        pytest.param(f"{{kind: List, items: [{POD}, {POD}]}}", [("items", 0), ("items", 1)], id="List"),
        pytest.param(f"{{kind: PodList, items: [{POD}]}}", [("items", 0)], id="PodList"),
        pytest.param(
            f"{{kind: List, items: [{POD}, {{kind: List, items: [{POD}]}}]}}",
            [("items", 0), ("items", 1, "items", 0)],
            id="a List in a List",
        ),
        pytest.param("{kind: List, items: []}", [], id="an empty List"),
        pytest.param(f"{{kind: List, items: [~, x, {POD}]}}", [("items", 2)], id="items that are no map"),
        pytest.param("{kind: AllowList, spec: {}}", [()], id="a kind that only ends so"),
        pytest.param("{kind: List, items: ~}", [()], id="null items"),
        pytest.param("{kind: 5, items: []}", [()], id="a kind that is no text"),
        pytest.param(f"{{kind: Listing, items: [{POD}]}}", [()], id="another kind"),
        pytest.param("[1]", [], id="no object"),
    ],
)
def test_listed_objects(text: str, paths: list[Path]) -> None:
    assert [path for path, _ in listed_objects(document(text))] == paths


def test_items_without_a_kind_get_that_of_their_list() -> None:
    text = "{apiVersion: v1, kind: PodList, items: [{a: 1}, {kind: Other, apiVersion: x/v1}]}"
    assert [value for _, value in listed_objects(document(text))] == [
        {"a": 1, "apiVersion": "v1", "kind": "Pod"},
        {"kind": "Other", "apiVersion": "x/v1"},
    ]


def test_items_of_a_plain_list_stay_as_they_are() -> None:
    assert [value for _, value in listed_objects(document("{kind: List, items: [{a: 1}]}"))] == [{"a": 1}]
