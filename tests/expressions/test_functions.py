"""The functions beside CEL's own."""

import pytest

from webhook.expressions import Bindings, EvaluationError, compile_condition
from webhook.expressions.functions import MAX_PARTS, MAX_TEXT


def holds(text: str, a: object = None) -> bool:
    bindings = Bindings(object={"a": a}, workload={}, accelerator_count=lambda _: 0)
    return compile_condition(text).holds(bindings)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("'abc'.charAt(2) == 'c'", id="charAt"),
        pytest.param("'abc'.charAt(3) == ''", id="charAt the end"),
        pytest.param("'é中😀'.charAt(2) == '😀'", id="characters, not bytes"),
        pytest.param("'abcabc'.indexOf('c') == 2", id="indexOf"),
        pytest.param("'abcabc'.indexOf('c', 3) == 5", id="indexOf from"),
        pytest.param("'abc'.indexOf('x') == -1", id="indexOf of what is not there"),
        pytest.param("'abc'.indexOf('', 3) == 3", id="indexOf nothing"),
        pytest.param("'abcabc'.lastIndexOf('c') == 5", id="lastIndexOf"),
        pytest.param("'abcabc'.lastIndexOf('c', 4) == 2", id="lastIndexOf before"),
        pytest.param("'abcabc'.lastIndexOf('c', 5) == 5", id="lastIndexOf at"),
        pytest.param("'abc'.lastIndexOf('') == 3", id="lastIndexOf nothing"),
        pytest.param("'aBÉ'.lowerAscii() == 'abÉ'", id="lowerAscii"),
        pytest.param("'aBé'.upperAscii() == 'ABé'", id="upperAscii"),
        pytest.param("'a/b/c'.split('/') == ['a', 'b', 'c']", id="split"),
        pytest.param("'a/b/c'.split('/', 2) == ['a', 'b/c']", id="split at most"),
        pytest.param("'a/b/c'.split('/', -1).size() == 3", id="split without a limit"),
        pytest.param("'a/b'.split('/', 1) == ['a/b']", id="split in one"),
        pytest.param("'a/b'.split('/', 0) == []", id="split in none"),
        pytest.param("'abc'.split('') == ['a', 'b', 'c']", id="split in characters"),
        pytest.param("'abc'.split('', 2) == ['a', 'bc']", id="split in characters at most"),
        pytest.param("''.split('/') == ['']", id="split nothing"),
        pytest.param("''.split('') == []", id="split nothing in characters"),
        pytest.param("'abc'.substring(1) == 'bc'", id="substring"),
        pytest.param("'abc'.substring(1, 2) == 'b'", id="substring to"),
        pytest.param("'abc'.substring(3) == ''", id="substring at the end"),
        pytest.param(r"' \u00a0\u3000a b\n'.trim() == 'a b'", id="trim"),
        pytest.param(r"'\u001ca'.trim() == '\u001ca'", id="trim leaves controls that are no white space"),
        pytest.param("quantity('1Gi') == 1073741824.0", id="quantity of a string"),
        pytest.param("quantity('500m') == 0.5", id="quantity below one"),
        pytest.param("quantity(8) == 8.0", id="quantity of an int"),
        pytest.param("quantity(1.5) == 1.5", id="quantity of a double"),
    ],
)
def test_functions(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("'abc'.charAt(4) == ''", "offset 4 is outside of a string of 3 characters", id="charAt"),
        pytest.param(
            "'abc'.indexOf('c', -1) == 0", "offset -1 is outside of a string of 3 characters", id="indexOf"
        ),
        pytest.param(
            "'abc'.lastIndexOf('c', 4) == 0", "offset 4 is outside of a string of 3 characters", id="lastIndexOf"
        ),
        pytest.param("'abc'.substring(2, 1) == ''", "substring() ends before it starts", id="substring"),
        pytest.param("quantity('8 GPUs') > 1.0", "quantity() was given what is no quantity", id="quantity"),
        pytest.param("quantity('9e308') > 1.0", "quantity() was given what is no quantity", id="no double holds it"),
        pytest.param("quantity(object.a) > 1.0", '"quantity" does not take (bool)', id="quantity of a bool"),
        pytest.param("object.a.trim() == ''", '"trim" does not take (bool)', id="not a string"),
    ],
)  # fmt: skip
def test_what_functions_refuse(text: str, reason: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        holds(text, True)
    assert raised.value.reason == reason


@pytest.mark.parametrize(
    "call",
    ["charAt(0)", "indexOf('a')", "lastIndexOf('a')", "lowerAscii()", "split('a')", "substring(1)", "trim()", "upperAscii()"],
)  # fmt: skip
def test_a_long_string_is_not_taken_apart(call: str) -> None:
    assert not holds(f"object.a.{call} == dyn(null)", "/" * MAX_TEXT if "split" not in call else "a")
    with pytest.raises(EvaluationError) as raised:
        holds(f"object.a.{call} == dyn(null)", "/" * (MAX_TEXT + 1))
    assert raised.value.reason == "a string of more than 8192 characters is too long to be taken apart"


@pytest.mark.parametrize("separator", ["/", ""], ids=["separator", "characters"])
def test_split_makes_a_bounded_number_of_parts(separator: str) -> None:
    text = separator.join("x" * MAX_PARTS)
    assert holds(f"object.a.split('{separator}').size() == {MAX_PARTS}", text)
    with pytest.raises(EvaluationError) as raised:
        holds(f"object.a.split('{separator}').size() > 1", text + separator + "x")
    assert raised.value.reason == "split() makes more than 256 parts"
    assert holds(f"object.a.split('{separator}', 2)[0] == 'x'", text + separator + "x")


def test_quantity_keeps_the_value_out_of_the_reason() -> None:
    with pytest.raises(EvaluationError) as raised:
        holds("quantity(object.a) > 1.0", "hunter2")
    assert "hunter2" not in raised.value.reason
