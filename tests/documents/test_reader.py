"""Streams, files and encodings: what `read_documents` makes of whole inputs."""

from pathlib import Path

import pytest

from webhook.documents import Reading, read_documents

DATA = Path(__file__).parent / "data"


def read(text: str | bytes, *, strict: bool = False) -> Reading:
    data = text if isinstance(text, bytes) else text.encode()
    return read_documents(data, "a.yaml", strict=strict)


def values(reading: Reading) -> list[object]:
    return [document.value for document in reading.documents]


def lines(reading: Reading) -> list[str]:
    return [("warning " if p.is_warning else "error ") + str(p).replace("\n", " |") for p in reading.problems]


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "---\n",
        "# note\n",
        "---\n# note\n---\n\n...\n",
        "--- # note",
        "~",
        "--- null",
        "%YAML 1.1\n---\n",
        "\ufeff",
    ],
)
def test_a_document_without_content_is_none(text: str, strict: bool) -> None:
    assert read(text, strict=strict) == Reading((), ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: 1", [{"a": 1}], id="one"),
        pytest.param("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}], id="two"),
        pytest.param("a: 1\n--- # note\nb: 2\n", [{"a": 1}, {"b": 2}], id="a comment on the separator"),
        pytest.param("a: 1\n...\n---   \nb: 2\n", [{"a": 1}, {"b": 2}], id="an end mark"),
        pytest.param("--- [1]\n--- {a: 1}\n--- text", [[1], {"a": 1}, "text"], id="content on the separator"),
        pytest.param(
            "a: |\n  x\n  ---\n  y\n---\nb: 2", [{"a": "x\n---\ny\n"}, {"b": 2}], id="in a block scalar"
        ),
        pytest.param("a: x\n ---\n---y: z", [{"a": "x ---", "---y": "z"}], id="near misses"),
        pytest.param("---a: 1", [{"---a": 1}], id="three hyphens in a key"),
        pytest.param("a: 1\r\n---\r\nb: x\r\n", [{"a": 1}, {"b": "x"}], id="CRLF"),
        pytest.param("a: 1\r---\rb: x\r", [{"a": 1}, {"b": "x"}], id="CR"),
        pytest.param(
            "\ufeffa: 1\n---\n\ufeffb: 2\n\ufeff---\nc: 3", [{"a": 1}, {"b": 2}, {"c": 3}], id="marks"
        ),
        pytest.param("%YAML 1.1\n---\na: 1\n---\nb: 2", [{"a": 1}, {"b": 2}], id="a directive first"),
        pytest.param("a: 1\n...\n%YAML 1.1\n---\nb: 2", [{"a": 1}, {"b": 2}], id="a directive later"),
    ],
)
def test_a_stream_is_split_where_yaml_splits_it(text: str, expected: list[object]) -> None:
    assert values(read(text)) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings(encoding: str) -> None:
    assert values(read("a: 训练 😀".encode(encoding))) == [{"a": "训练 😀"}]


def test_a_bad_document_leaves_those_before_and_after_it() -> None:
    reading = read("a: 1\n---\nb: [\n---\nc: \xff\n".encode("latin-1") + b"---\nd: \x07\n---\n---\ne: 5\n")
    assert values(reading) == [{"a": 1}, {"e": 5}]
    assert [document.index for document in reading.documents] == [0, 4]
    assert lines(reading) == [
        (
            "error a.yaml:4:1: expected node content, found the end of the document, while parsing a flow node that"
            " begins on line 4 |  hint: check the indentation, the quotes and the brackets on this line and above it"
        ),
        "error a.yaml:5:4: expected UTF-8 text, found the byte 0xff |  hint: save the file as UTF-8",
        (
            "error a.yaml:7:4: expected text, found the control character U+0007 |"
            '  hint: remove it, or write it as an escape in double quotes, as in "\\u0007"'
        ),
    ]
    assert reading.documents[1].locate(("e",)) == (10, 4)


def test_text_that_is_not_what_its_byte_order_mark_says() -> None:
    assert lines(read(b"\xff\xfea")) == [
        (
            "error a.yaml: expected UTF-16-LE text, as the byte order mark says, found other bytes"
            " |  hint: save the file as UTF-8"
        )
    ]


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        pytest.param("a: 1", [""], id="none"),
        pytest.param("# Source: c/templates/a.yaml\na: 1", ["c/templates/a.yaml"], id="first document"),
        pytest.param(
            "---\n# Source: c/a.yaml\n\n# note\na: 1\n---\nb: 2", ["c/a.yaml", ""], id="not the next one"
        ),
        pytest.param("---\r\n# Source: c/a.yaml\r\na: 1\r\n", ["c/a.yaml"], id="CRLF"),
        pytest.param("a: 1\n# Source: c/a.yaml\n", [""], id="below the content"),
        pytest.param("--- # Source: c/a.yaml\na: 1\n", ["c/a.yaml"], id="on the separator"),
        pytest.param("# Sources: x\n# Source:\na: 1", [""], id="near misses"),
    ],
)
def test_the_origin_is_the_comment_that_helm_writes(text: str, origins: list[str]) -> None:
    assert [document.origin for document in read(text).documents] == origins


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{"a":1,"b":[true,null,"x"]}', {"a": 1, "b": [True, None, "x"]}, id="without spaces"),
        pytest.param('\t{\n\t"a":\t1\n\t}\t', {"a": 1}, id="tabs"),
        pytest.param(" \n\t[\t1]\n", [1], id="a list behind a tab"),
        pytest.param('{"a": "\\/\\u00e9\\n\\t"}', {"a": "/é\n\t"}, id="escapes"),
        pytest.param('{"a": "x\\ud83d\\ude00y\\\\ud83d"}', {"a": "x😀y\\ud83d"}, id="a surrogate pair"),
        pytest.param('{"yes": "no", "1": "017"}', {"yes": "no", "1": "017"}, id="quoted traps"),
        pytest.param('{"a": 1e3, "b": -1.5E-2}', {"a": 1000, "b": -0.015}, id="numbers"),
    ],
)
def test_json(text: str, expected: object) -> None:
    assert (values(read(text)), read(text).problems) == ([expected], ())


def test_a_surrogate_pair_leaves_everything_in_its_place() -> None:
    (document,) = read('{"\\ud83d\\ude00": "\\ud83d\\ude00\\ud83d\\ude00", "b": 1, "c": 2}').documents
    assert [document.locate((key,)) for key in ("😀", "b", "c")] == [(1, 18), (1, 51), (1, 59)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '{"a": 1,\n "b": 2, "a": 3}',
            'error a.yaml:2:10: expected each key once, found "a" again, which is on line 1 already'
            " |  hint: remove one of the two, or put them together",
            id="a key twice",
        ),
        pytest.param(
            '{"a": "\\ud83d"}',
            'error a.yaml:1:10: expected the code of a Unicode character, found "d83d\\"}"'.replace(
                '\\"', '"'
            )
            + " |  hint: write the character itself",
            id="half a surrogate pair",
        ),
        pytest.param(
            '{"a": 1}\n{"b": 2}',
            'error a.yaml:2:1: expected the end of the document, found "{"b": 2}"'
            " |  hint: separate documents with a line ---",
            id="two documents without a separator",
        ),
    ],
)
def test_json_errors(text: str, expected: str) -> None:
    assert (values(read(text)), lines(read(text))) == ([], [expected])


ODD_FILES: list[tuple[str, int, list[tuple[int, int]]]] = [
    ("alias-bomb-and-self-reference.yaml", 0, [(6, 6), (14, 7)]),
    ("clean-input-for-sarif.yaml", 1, []),
    ("comments-only.yaml", 0, []),
    ("crds-and-unknown-kinds.yaml", 4, []),
    ("crlf.yaml", 2, []),
    ("duplicate-keys.yaml", 0, [(11, 5), (12, 3)]),
    ("list-with-a-violation.yaml", 1, []),
    ("merge-key-and-override.yaml", 1, []),
    ("octal-and-base-60.yaml", 1, [(9, 29), (12, 25)]),
    ("parser-must-not-traceback.yaml", 0, [(5, 31), (5, 53)]),
    ("same-name-two-namespaces-odd-text.yaml", 2, []),
    ("separator-inside-block-scalar.yaml", 2, []),
    ("unquoted-dates.yaml", 1, [(8, 14), (9, 12)]),
    ("unrendered-template.yaml", 0, [(7, 10)]),
    ("wrong-scalar-types.yaml", 1, []),
    ("yaml-1-1-booleans.yaml", 1, [(8, 10), (10, 11), (16, 24), (17, 24)]),
]


@pytest.mark.parametrize(("name", "documents", "problems"), ODD_FILES, ids=[case[0] for case in ODD_FILES])
def test_odd_files(name: str, documents: int, problems: list[tuple[int, int]]) -> None:
    reading = read((DATA / name).read_bytes())
    assert len(reading.documents) == documents
    assert [problem.position for problem in reading.problems] == problems


def test_no_odd_file_is_forgotten() -> None:
    assert sorted(case[0] for case in ODD_FILES) == sorted(path.name for path in DATA.glob("*.yaml"))


def test_crlf_leaves_no_carriage_return_and_the_right_places() -> None:
    first, second = read((DATA / "crlf.yaml").read_bytes()).documents
    assert (first.value["metadata"]["name"], second.value["metadata"]["name"]) == (
        "case-13-one",
        "case-13-two",
    )
    assert second.locate(("spec", "containers", 0, "image")) == (18, 12)


def test_dates_stay_as_written() -> None:
    (document,) = read((DATA / "unquoted-dates.yaml").read_bytes()).documents
    assert document.value["metadata"]["annotations"] == {
        "expires": "2026-01-31",
        "built": "2026-01-31T10:00:00Z",
    }


def test_own_keys_win_over_merged_ones() -> None:
    (document,) = read((DATA / "merge-key-and-override.yaml").read_bytes()).documents
    limits = [container["resources"]["limits"] for container in document.value["spec"]["containers"]]
    assert limits == [{"nvidia.com/gpu": 2, "memory": "8Gi"}, {"nvidia.com/gpu": 8, "memory": "8Gi"}]
