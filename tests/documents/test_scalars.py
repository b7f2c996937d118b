"""What an unquoted scalar means, against what Kubernetes' own reader answered."""

import json
from pathlib import Path
from typing import Any

import pytest

from webhook.documents import Position, read_documents

# One line of JSON for each text: what YAMLToJSON of sigs.k8s.io/yaml v1.6.0 made of it.
ANSWERS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "kubernetes-yaml.jsonl").read_text("utf-8").splitlines()
]

# Where we refuse on purpose what Kubernetes reads.
REFUSED = {
    "a: !foo bar": "a tag",
    "a: !!binary aGk=": "a tag",
    "a: !!set {a}": "a tag",
    "a: !!str {a: 1}": "a tag",
    "!foo x: a": "a tag",
    "a: &x 1\nb: &x 2\nc: *x": "an anchor twice",
    "true: x\nyes: y": "a key twice",
    "b: &b {y: 1}\nc: {<<: *b, y: 2, y: 3}": "a key twice",
    **dict.fromkeys(
        (
            answer["yaml"]
            for answer in ANSWERS
            if answer["yaml"].endswith(": a") and answer["yaml"][0] in "+-.0123456789"
        ),
        "a number as a key, whose digits are not kept",
    ),
}
# Where we read what Kubernetes refuses, or otherwise.
READ = {
    "a: !!int 1e3": {"a": 1000},
    "a: !!timestamp x": {"a": "x"},
    "a: ! 12": {"a": 12},
    "a: ! yes": {"a": True},
    "a: ! 'yes'": {"a": True},
    '{"a":"\\ud83d\\ude00"}': {"a": "😀"},  # kubectl reads JSON as JSON
    'a: "\\u00e9\\/"': {"a": "é/"},
    "a: 1\n---\n\ufeffb: 2": {"a": 1},  # YAMLToJSON reads the first document only
}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["yaml"])
def test_values_are_what_kubernetes_reads(answer: dict[str, Any]) -> None:
    text = answer["yaml"]
    reading = read_documents(text.encode(), "a.yaml", strict=False)
    if not reading.documents:
        assert "error" in answer or text in REFUSED
        assert any(not problem.is_warning for problem in reading.problems)
        return
    expected: Any = READ[text] if text in READ else answer["value"]
    value = reading.documents[0].value
    assert value == _as_floats_beyond_64_bits(expected)
    if isinstance(value, dict):  # True equals 1 and 1.0
        assert [isinstance(item, bool) for item in value.values()] == [
            isinstance(item, bool) for item in expected.values()
        ]


def _as_floats_beyond_64_bits(value: Any) -> Any:
    """JSON decoders of Kubernetes read integers beyond 64 bits as floats."""
    if isinstance(value, dict):
        return {key: _as_floats_beyond_64_bits(item) for key, item in value.items()}
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value


TRAPS = [
    ("yes", True, 'true, or "yes" in quotes', "true"),
    ("NO", False, 'false, or "NO" in quotes', "false"),
    ("on", True, 'true, or "on" in quotes', "true"),
    ("Off", False, 'false, or "Off" in quotes', "false"),
    ("y", True, 'true, or "y" in quotes', "true"),
    ("~", None, 'null, or "~" in quotes', "null"),
    ("NULL", None, 'null, or "NULL" in quotes', "null"),
    ("017", 15, '15, or "017" in quotes', "the octal number 15"),
    ("-0o17", -15, '-15, or "-0o17" in quotes', "the octal number -15"),
    ("0x1F", 31, '31, or "0x1F" in quotes', "the hexadecimal number 31"),
    ("0b11", 3, '3, or "0b11" in quotes', "the binary number 3"),
    ("08", 8, '8, or "08" in quotes', "the number 8"),
    ("1_000", 1000, '1000, or "1_000" in quotes', "the number 1000"),
    ("1_0.5", 10.5, '10.5, or "1_0.5" in quotes', "the number 10.5"),
    ("12:30", "12:30", '"12:30" in quotes', "text and others as a number to base 60"),
    ("-1:30.5", "-1:30.5", '"-1:30.5" in quotes', "text and others as a number to base 60"),
    ("2026-01-31", "2026-01-31", '"2026-01-31" in quotes', "text and others as a date"),
    (
        "2026-01-31T10:00:00Z",
        "2026-01-31T10:00:00Z",
        '"2026-01-31T10:00:00Z" in quotes',
        "text and others as a date",
    ),
    ("=", "=", '"=" in quotes', "text and others refuse"),
    ("12e4567", "12e4567", "a number in range", "text: it is out of range for a number"),
    (
        "99999999999999999999",
        1e20,
        '"99999999999999999999" in quotes',
        "the number 1e+20: it is too large for an integer",
    ),
]


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@pytest.mark.parametrize(("text", "value", "expected", "reads_as"), TRAPS, ids=[trap[0] for trap in TRAPS])
def test_traps(text: str, value: object, expected: str, reads_as: str, strict: bool) -> None:
    reading = read_documents(f"# note\n- a:  {text}\n".encode(), "a.yaml", strict=strict)
    assert [document.value for document in reading.documents] == ([] if strict else [[{"a": value}]])
    (problem,) = reading.problems
    assert (
        problem.message
        == f'expected {expected}, found unquoted "{text}", which Kubernetes reads as {reads_as}'
    )
    assert (problem.position, problem.hint) == (Position(2, 7), "quote it if it is text")
    assert problem.is_warning is not strict


@pytest.mark.parametrize(
    "text",
    [
        "true", "True", "FALSE", "null", "", "yess", "nothing", "oN", "10", "-1", "+1", "0", "-0", "1.50", ".5", "1e3",
        "8080:80", "12:60", "host:5000", "a:1", "1.2.3", "64Gi", "500m", "2026-01", "2026-01-31-2", "_1", "0x", "0o8",
        "==", "~x", "-", "--x", "v1", "1/2", "07:ab", '"yes"', "'017'", '"12:30"', "'~'", '"2026-01-31"', '"="',
    ],
)  # fmt: skip
def test_no_traps(text: str) -> None:
    value = f"- [{text}]" if text == "-" else f"a: {text}"
    assert read_documents(value.encode(), "a.yaml", strict=True).problems == () or text == "-"


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (".inf", '".inf"'),
        ("-.Inf", '"-.Inf"'),
        (".NaN", '".NaN"'),
        ("9" * 310, f'"{"9" * 60}…"'),
        ("9" * 5000, f'"{"9" * 60}…"'),
        ("0." + "1" * 5000, f'"0.{"1" * 58}…"'),
    ],
    ids=["infinite", "minus infinite", "not a number", "310 digits", "5000 digits", "5000 decimals"],
)
def test_numbers_that_json_has_not_are_errors(text: str, found: str, strict: bool) -> None:
    reading = read_documents(f"a: {text}".encode(), "a.yaml", strict=strict)
    expected = "a finite number" if "." in text[:2] and text[-1] in "fN" else "a number in range"
    assert [(p.message, p.is_warning) for p in reading.problems] == [
        (f"expected {expected}, found unquoted {found}", False)
    ]
    assert reading.documents == ()


@pytest.mark.parametrize("key", ["defaultMode", "mode"])
def test_the_mode_of_a_file_is_meant_to_be_octal(key: str) -> None:
    text = f"{key}: 0644".encode()
    reading = read_documents(text, "a.yaml", strict=False)
    assert (reading.documents[0].value, reading.problems) == ({key: 420}, ())
    assert len(read_documents(text, "a.yaml", strict=True).problems) == 1


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@pytest.mark.parametrize(
    ("key", "read_as", "message"),
    [
        ("1", "1", 'expected a key that is text, found the number "1", which Kubernetes reads as "1"'),
        (
            "true",
            "true",
            'expected a key that is text, found the boolean "true", which Kubernetes reads as "true"',
        ),
        (
            "on",
            "true",
            'expected true, or "on" in quotes, found unquoted "on", which Kubernetes reads as true',
        ),
        (
            "017",
            "15",
            'expected 15, or "017" in quotes, found unquoted "017", which Kubernetes reads as the octal number 15',
        ),
        (
            "12:30",
            "12:30",
            (
                'expected "12:30" in quotes, found unquoted "12:30", which Kubernetes reads as text and others as a'
                " number to base 60"
            ),
        ),
    ],
)
def test_keys_that_are_not_text(key: str, read_as: str, message: str, strict: bool) -> None:
    reading = read_documents(f"a:\n  {key}: x".encode(), "a.yaml", strict=strict)
    assert [document.value for document in reading.documents] == ([] if strict else [{"a": {read_as: "x"}}])
    assert [(p.position, p.message, p.is_warning) for p in reading.problems] == [
        ((2, 3), message, not strict)
    ]


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("~", 'null "~"'),
        ("null", 'null "null"'),
        ("1.10", 'the number "1.10"'),
        ("1e6", 'the number "1e6"'),
        ("08", 'the number "08"'),
        (".inf", 'the number ".inf"'),
        ("18446744073709551615", 'the number "18446744073709551615"'),
        ("? [a]\n", "a list"),
        ("? {a: b}\n", "a map"),
    ],
)
def test_keys_that_kubernetes_refuses_or_changes(key: str, found: str, strict: bool) -> None:
    reading = read_documents(f"{key}: x".encode(), "a.yaml", strict=strict)
    assert reading.documents == ()
    errors = [problem for problem in reading.problems if "key" in problem.message]
    assert [(p.message, p.hint, p.is_warning) for p in errors] == [
        (f"expected a key that is text, found {found}", "quote the key", False)
    ]
