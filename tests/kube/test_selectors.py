from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.selectors import SelectorError, compile_label_selector


def expression(operator: str, *values: str, key: str = "tier") -> dict[str, Any]:
    written: dict[str, Any] = {"key": key, "operator": operator}
    return {"matchExpressions": [{**written, "values": list(values)} if values else written]}


GOLD, SILVER, EMPTY = {"tier": "gold"}, {"tier": "silver"}, {"tier": ""}
OTHER = {"team": "vision"}

# selector: what it matches, what it does not
SELECTORS: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "empty": ({}, [GOLD, OTHER, {}, None], []),
    "empty parts": ({"matchLabels": {}, "matchExpressions": []}, [GOLD, {}, None], []),
    "null parts": ({"matchLabels": None, "matchExpressions": None}, [GOLD, {}, None], []),
    "matchLabels": (
        {"matchLabels": {"tier": "gold"}},
        [GOLD, GOLD | OTHER],
        [
            SILVER,
            EMPTY,
            OTHER,
            {},
            None,
            {"tier": "Gold"},
            {"Tier": "gold"},
            {"tier": None},
            {"tier": ["gold"]},
        ],
    ),
    "matchLabels, all of them": (
        {"matchLabels": {"tier": "gold", "team": "vision"}},
        [GOLD | OTHER],
        [GOLD, OTHER, SILVER | OTHER],
    ),
    "an empty value is a value": ({"matchLabels": {"tier": ""}}, [EMPTY], [GOLD, {}, None, {"tier": None}]),
    "In": (expression("In", "gold", "silver"), [GOLD, SILVER], [EMPTY, OTHER, {}, None]),
    "NotIn holds where the label is absent": (
        expression("NotIn", "gold"),
        [SILVER, EMPTY, OTHER, {}, None, {"tier": 7}],
        [GOLD],
    ),
    "Exists": (expression("Exists"), [GOLD, EMPTY], [OTHER, {}, None, {"tier": None}]),
    "DoesNotExist": (expression("DoesNotExist"), [OTHER, {}, None, {"tier": None}], [GOLD, EMPTY]),
    "Exists with an empty list of values": (
        {"matchExpressions": [{"key": "tier", "operator": "Exists", "values": []}]},
        [GOLD],
        [{}],
    ),
    "labels and expressions": (
        {"matchLabels": {"team": "vision"}, **expression("NotIn", "gold")},
        [OTHER, OTHER | SILVER],
        [GOLD, OTHER | GOLD, {}],
    ),
    "two expressions on one key": (
        {
            "matchExpressions": [
                *expression("Exists")["matchExpressions"],
                *expression("NotIn", "gold")["matchExpressions"],
            ]
        },
        [SILVER, EMPTY],
        [GOLD, {}],
    ),
    "a key with a prefix": (
        {"matchLabels": {"kubesphere.io/workspace": "research"}},
        [{"kubesphere.io/workspace": "research"}],
        [{"workspace": "research"}, {"kubesphere.io/workspace": "other"}],
    ),
}


@pytest.mark.parametrize(("selector", "hits", "misses"), SELECTORS.values(), ids=SELECTORS)
def test_matches_as_kubernetes_does(selector: dict[str, Any], hits: list[Any], misses: list[Any]) -> None:
    matches = compile_label_selector(selector)
    assert [labels for labels in misses if matches(labels)] == []
    assert [labels for labels in hits if not matches(labels)] == []


KEY = "a label key such as app or kubesphere.io/workspace"
TEXT = 'a text (in quotes, as "true" or "1")'
VALUE = "a label value of at most 63 letters, digits, - _ and ."
OPERATOR = "one of In, NotIn, Exists, DoesNotExist"
MALFORMED: dict[str, tuple[object, str]] = {
    "null": (None, "expected a map, found nothing"),
    "a list": ([], "expected a map, found an empty list"),
    "a text": ("tier=gold", "expected a map, found 'tier=gold'"),
    "a bare label": (
        {"tier": "gold"},
        "tier: expected one of matchLabels, matchExpressions, found the unknown key 'tier'",
    ),
    "matchLabels is a list": ({"matchLabels": ["tier"]}, "matchLabels: expected a map, found a list"),
    "a bool as value": ({"matchLabels": {"gpu": True}}, f"matchLabels.gpu: expected {TEXT}, found true"),
    "a number as value": ({"matchLabels": {"gpu": 1}}, f"matchLabels.gpu: expected {TEXT}, found 1"),
    "null as value": ({"matchLabels": {"gpu": None}}, f"matchLabels.gpu: expected {TEXT}, found nothing"),
    "a pattern as value": (
        {"matchLabels": {"team": "a*"}},
        f"matchLabels.team: expected {VALUE}, found 'a*'",
    ),
    "a value that is too long": (
        {"matchLabels": {"team": "a" * 64}},
        f"matchLabels.team: expected {VALUE}, found '{'a' * 40}'",
    ),
    "a line end in a value": (
        {"matchLabels": {"team": "a\n"}},
        f"matchLabels.team: expected {VALUE}, found 'a\\n'",
    ),
    "an empty key": ({"matchLabels": {"": "a"}}, f"matchLabels.: expected {KEY}, found ''"),
    "a key with an empty prefix": (
        {"matchLabels": {"/a": "a"}},
        f"matchLabels./a: expected {KEY}, found '/a'",
    ),
    "a key with two slashes": (
        {"matchLabels": {"a//b": "a"}},
        f"matchLabels.a//b: expected {KEY}, found 'a//b'",
    ),
    "a key in upper case before the slash": (
        {"matchLabels": {"A.io/b": "a"}},
        f"matchLabels.A.io/b: expected {KEY}, found 'A.io/b'",
    ),
    "a key of a YAML bool": ({"matchLabels": {True: "a"}}, f"matchLabels.True: expected {KEY}, found true"),
    "matchExpressions is a map": ({"matchExpressions": {}}, "matchExpressions: expected a list, found a map"),
    "an expression is a text": (
        {"matchExpressions": ["tier"]},
        "matchExpressions[0]: expected a map, found 'tier'",
    ),
    "key missing": (
        {"matchExpressions": [{"operator": "Exists"}]},
        f"matchExpressions[0].key: expected {KEY}, found nothing",
    ),
    "unknown key of an expression": (
        {"matchExpressions": [{"key": "a", "operator": "In", "value": "b"}]},
        "matchExpressions[0].value: expected one of key, operator, values, found the unknown key 'value'",
    ),
    "operator missing": (
        {"matchExpressions": [{"key": "a"}]},
        f"matchExpressions[0].operator: expected {OPERATOR}, found nothing",
    ),
    "an operator of node selectors": (
        expression("Gt", "1"),
        f"matchExpressions[0].operator: expected {OPERATOR}, found 'Gt'",
    ),
    "an operator in lower case": (
        expression("in", "a"),
        f"matchExpressions[0].operator: expected {OPERATOR}, found 'in'",
    ),
    "an operator of the wrong type": (
        {"matchExpressions": [{"key": "a", "operator": ["In"]}]},
        f"matchExpressions[0].operator: expected {OPERATOR}, found a list",
    ),
    "In without values": (
        expression("In"),
        "matchExpressions[0].values: expected at least one value with In, found nothing",
    ),
    "NotIn with an empty list": (
        {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": []}]},
        "matchExpressions[0].values: expected at least one value with NotIn, found an empty list",
    ),
    "Exists with values": (
        expression("Exists", "a"),
        "matchExpressions[0].values: expected no values with Exists, found a list",
    ),
    "values is a text": (
        {"matchExpressions": [{"key": "a", "operator": "In", "values": "b"}]},
        "matchExpressions[0].values: expected a list, found 'b'",
    ),
    "a number among the values": (
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", 1]}]},
        f"matchExpressions[0].values[1]: expected {TEXT}, found 1",
    ),
}


@pytest.mark.parametrize(("selector", "message"), MALFORMED.values(), ids=MALFORMED)
def test_refuses_a_malformed_selector(selector: object, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_label_selector(selector)
    assert str(caught.value) == message


def test_an_error_says_where_what_was_expected_and_found() -> None:
    with pytest.raises(SelectorError) as caught:
        compile_label_selector(expression("Gt", "1"))
    error = caught.value
    assert (error.path, error.expected, error.found) == (
        ("matchExpressions", 0, "operator"),
        OPERATOR,
        "'Gt'",
    )


labels = st.none() | st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["", "x", "y"]))
value_lists = st.lists(st.sampled_from(["", "x", "y"]), min_size=1)


@given(labels, value_lists)
def test_in_and_not_in_are_opposites(of: dict[str, str] | None, values: list[str]) -> None:
    is_in, is_not_in = (
        compile_label_selector(expression(operator, *values, key="a")) for operator in ("In", "NotIn")
    )
    assert is_in(of) is not is_not_in(of)


@given(labels)
def test_exists_and_does_not_exist_are_opposites(of: dict[str, str] | None) -> None:
    exists, absent = (
        compile_label_selector(expression(operator, key="a")) for operator in ("Exists", "DoesNotExist")
    )
    assert exists(of) is not absent(of)


@given(labels, st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["", "x", "y"])))
def test_match_labels_are_in_with_one_value(of: dict[str, str] | None, wanted: dict[str, str]) -> None:
    written = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    by_labels = compile_label_selector({"matchLabels": wanted})
    by_expressions = compile_label_selector({"matchExpressions": written})
    assert by_labels(of) is by_expressions(of)
