from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.node_affinity import (
    REQUIRED,
    TERMS,
    Requirement,
    contradiction,
    could_be,
    normalise_toleration,
    placement_of,
    required_terms,
    requirements_of,
    selector_requirements,
    suits,
    tolerates,
)


def need(text: str) -> Requirement:
    """`zone In a,b` as a requirement."""
    key, operator, *values = text.split()
    return Requirement(key, operator, tuple(values[0].split(",")) if values else ())


def pod(*terms: Any, selector: Any = None) -> dict[str, Any]:
    """A pod with these terms (text is an expression, a list of texts an AND of them) and this node selector."""
    spec: dict[str, Any] = {} if selector is None else {"nodeSelector": selector}
    if terms:
        written = [
            {"matchExpressions": [need(text).to_json() for text in term]} if isinstance(term, list) else term
            for term in terms
        ]
        spec["affinity"] = {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": written}}}
    return {"spec": spec}


# requirement, value of the label (None: no such label) -> whether such a node meets it
ADMITS: dict[str, tuple[str, str | None, bool]] = {
    "In: another value": ("k In a,b", "c", False),
    "In: no label": ("k In a,b", None, False),
    "In: one of them": ("k In a,b", "b", True),
    "NotIn: one of them": ("k NotIn a,b", "a", False),
    "NotIn: another value": ("k NotIn a,b", "c", True),
    "NotIn: no label": ("k NotIn a,b", None, True),
    "Exists: no label": ("k Exists", None, False),
    "Exists: empty label": ("k Exists", "", True),
    "DoesNotExist: empty label": ("k DoesNotExist", "", False),
    "DoesNotExist: no label": ("k DoesNotExist", None, True),
    "Gt: equal": ("k Gt 5", "5", False),
    "Gt: less, though more as text": ("k Gt 10", "9", False),
    "Gt: no label": ("k Gt 5", None, False),
    "Gt: no number": ("k Gt 5", "6x", False),
    "Gt: fraction": ("k Gt 5", "6.5", False),
    "Gt: blank before": ("k Gt 5", "+6_0", False),
    "Gt: empty": ("k Gt 5", "", False),
    "Gt: other digits": ("k Gt 5", "٦", False),
    "Gt: above 64 bits": ("k Gt 5", "9223372036854775808", False),
    "Gt: bound above 64 bits": ("k Gt 9223372036854775808", "6", False),
    "Gt: more": ("k Gt 5", "6", True),
    "Gt: largest": ("k Gt 5", "9223372036854775807", True),
    "Gt: sign": ("k Gt -3", "+2", True),
    "Gt: zeros before": ("k Gt 5", "0000000000000000000000006", True),
    "Gt: only zeros": ("k Gt -1", "0" * 63, True),
    "Lt: equal": ("k Lt 5", "5", False),
    "Lt: no label": ("k Lt 5", None, False),
    "Lt: less": ("k Lt 5", "-6", True),
    "Lt: smallest": ("k Lt 5", "-9223372036854775808", True),
    "an operator that nobody knows": ("k Near a", "a", False),
}


@pytest.mark.parametrize(("requirement", "value", "admitted"), ADMITS.values(), ids=ADMITS)
def test_admits(requirement: str, value: str | None, admitted: bool) -> None:
    assert need(requirement).admits(value) is admitted


@pytest.mark.parametrize("values", [(), ("1", "2")], ids=["none", "two"])
def test_a_comparison_has_one_bound(values: tuple[str, ...]) -> None:
    assert not Requirement("k", "Gt", values).admits("9")


IMPLIES: dict[str, tuple[str, str, bool]] = {
    "another key": ("j In a", "k In a", False),
    "In more": ("k In a,b", "k In a", False),
    "In fewer": ("k In a", "k In a,b", True),
    "In in another order": ("k In b,a", "k In a,b", True),
    "In is Exists": ("k In a", "k Exists", True),
    "Exists is not In": ("k Exists", "k In a", False),
    "In is NotIn of others": ("k In a", "k NotIn b,c", True),
    "In is not NotIn of its own": ("k In a,b", "k NotIn b", False),
    "In numbers is Gt": ("k In 6,7", "k Gt 5", True),
    "In numbers is not Gt": ("k In 5,7", "k Gt 5", False),
    "Gt is Exists": ("k Gt 5", "k Exists", True),
    "Lt is Exists": ("k Lt 5", "k Exists", True),
    "NotIn is not Exists": ("k NotIn a", "k Exists", False),
    "DoesNotExist is NotIn": ("k DoesNotExist", "k NotIn a", True),
    "DoesNotExist is not Exists": ("k DoesNotExist", "k Exists", False),
    "NotIn more is NotIn": ("k NotIn a,b", "k NotIn a", True),
    "NotIn in another order": ("k NotIn b,a", "k NotIn a,b", True),
    "NotIn fewer": ("k NotIn a", "k NotIn a,b", False),
    "the same Gt": ("k Gt 5", "k Gt 5", True),
}


@pytest.mark.parametrize(("left", "right", "implied"), IMPLIES.values(), ids=IMPLIES)
def test_implies(left: str, right: str, implied: bool) -> None:
    assert need(left).implies(need(right)) is implied


EXCLUDES: dict[str, tuple[str, str, bool]] = {
    "another key": ("j In a", "k In b", False),
    "In with one in common": ("k In a,b", "k In b,c", False),
    "In with none in common": ("k In a,b", "k In c", True),
    "In and NotIn of all": ("k In a,b", "k NotIn a,b,c", True),
    "In and NotIn of some": ("k In a,b", "k NotIn a", False),
    "In and DoesNotExist": ("k In a", "k DoesNotExist", True),
    "In and Exists": ("k In a", "k Exists", False),
    "In and Gt": ("k In 1,2", "k Gt 2", True),
    "In and Gt in common": ("k In 1,3", "k Gt 2", False),
    "a padded number meets Gt": ("k In 00000000000000000000003", "k Gt 2", False),
    "NotIn and DoesNotExist": ("k NotIn a", "k DoesNotExist", False),
    "Exists and DoesNotExist": ("k Exists", "k DoesNotExist", True),
    "Gt and DoesNotExist": ("k Gt 1", "k DoesNotExist", True),
    "Lt and DoesNotExist": ("k Lt 1", "k DoesNotExist", True),
    "Exists and NotIn": ("k Exists", "k NotIn a", False),
}


@pytest.mark.parametrize(("left", "right", "excluded"), EXCLUDES.values(), ids=EXCLUDES)
def test_excludes(left: str, right: str, excluded: bool) -> None:
    assert need(left).excludes(need(right)) is excluded
    assert need(right).excludes(need(left)) is excluded


UNIVERSE: tuple[str | None, ...] = (
    None,
    *("", "a", "b", "true", "-1", "0", "1", "2", "3", "+2", "02", "1x", "00000000000000000000002"),
    *("9223372036854775807", "9223372036854775808"),
)
VALUES = st.sampled_from([value for value in UNIVERSE if value is not None])
REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from(["k", "j"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"]),
    st.lists(VALUES, max_size=3).map(tuple),
)


@given(REQUIREMENTS, REQUIREMENTS)
def test_what_is_said_of_two_requirements_has_no_counterexample(
    left: Requirement, right: Requirement
) -> None:
    both = [value for value in UNIVERSE if left.admits(value) and right.admits(value)]
    only_left = [value for value in UNIVERSE if left.admits(value) and not right.admits(value)]
    if left.implies(right):
        assert left.key == right.key
        assert not only_left
    if left.excludes(right):
        assert left.key == right.key
        assert not both
    assert left.implies(left)


NODES = [
    {key: value for key, value in (("k", first), ("j", second)) if value is not None}
    for first in UNIVERSE[:8]
    for second in UNIVERSE[:8]
]
PODS = st.builds(
    lambda terms, selector: pod(
        *({"matchExpressions": [each.to_json() for each in term]} for term in terms), selector=selector
    ),
    st.lists(st.lists(REQUIREMENTS, max_size=2), max_size=3),
    st.none() | st.dictionaries(st.sampled_from(["k", "j"]), VALUES, max_size=2),
)


def suits_by_the_book(thing: dict[str, Any], node: dict[str, str]) -> bool:
    """The scheduler's own steps, one by one (kubernetes/component-helpers:scheduling/corev1/nodeaffinity)."""
    spec = thing["spec"]
    if any(node.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    if "affinity" not in spec:
        return True
    for term in spec["affinity"]["nodeAffinity"][REQUIRED[-1]]["nodeSelectorTerms"]:
        expressions = term["matchExpressions"]
        if expressions and all(
            Requirement(e["key"], e["operator"], tuple(e.get("values", ()))).admits(node.get(e["key"]))
            for e in expressions
        ):
            return True
    return False


@given(PODS, st.lists(REQUIREMENTS, max_size=3))
def test_a_pod_and_the_nodes_for_it(thing: dict[str, Any], wanted: list[Requirement]) -> None:
    fitting = [node for node in NODES if suits_by_the_book(thing, node)]
    assert [node for node in NODES if suits(placement_of(thing), node)] == fitting
    for node in fitting:
        assert could_be(placement_of(thing), node)
        assert could_be(placement_of(thing), {"k": node["k"]} if "k" in node else {})
    if contradiction(placement_of(thing), wanted) is not None:
        both = [node for node in fitting if all(each.admits(node.get(each.key)) for each in wanted)]
        assert not both


CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing said": (pod(), ""),
    "one term leaves room": (pod(["gpu In false"], ["zone In a"]), ""),
    "an empty term leaves none": (pod(["gpu In false"], []), "gpu In [false] / gpu In [true]"),
    "a term of fields alone leaves room": (
        pod(["gpu In false"], {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}),
        "",
    ),
    "every term": (pod(["gpu In false"], ["gpu DoesNotExist"]), "gpu In [false] / gpu In [true]"),
    "the node selector, whatever the terms": (
        pod(["gpu In true"], selector={"gpu": "no"}),
        "gpu In [no] / gpu In [true]",
    ),
    "every term is empty: no pair": (pod([], []), ""),
}


@pytest.mark.parametrize(("thing", "shown"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_contradiction(thing: dict[str, Any], shown: str) -> None:
    found = contradiction(placement_of(thing), [need("gpu In true")])
    assert (" / ".join(each.shown for each in found) if found else "") == shown


COULD_BE: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing said": (pod(), True),
    "a label that is not known": (pod(selector={"zone": "a"}), True),
    "the label that it wants": (pod(selector={"gpu": "true"}), True),
    "another value": (pod(selector={"gpu": "false"}), False),
    "one of two terms": (pod(["gpu In false"], ["gpu Exists"]), True),
    "selector and term are ANDed": (pod(["gpu Exists"], selector={"gpu": "false"}), False),
    "empty terms match nothing": (pod([], []), False),
    "an empty term beside one": (pod([], ["gpu In true"]), True),
    "no terms at all": (
        {"spec": {"affinity": {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": []}}}}},
        False,
    ),
}


@pytest.mark.parametrize(("thing", "expected"), COULD_BE.values(), ids=COULD_BE)
def test_could_be(thing: dict[str, Any], expected: bool) -> None:
    assert could_be(placement_of(thing), {"gpu": "true"}) is expected


ODD_AFFINITIES: dict[str, Any] = {
    "null": None,
    "empty": {},
    "text": "x",
    "list": [],
    "null node affinity": {"nodeAffinity": None},
    "null required": {"nodeAffinity": {REQUIRED[-1]: None}},
    "preferred only": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}},
}


@pytest.mark.parametrize("affinity", ODD_AFFINITIES.values(), ids=ODD_AFFINITIES)
def test_no_required_affinity(affinity: Any) -> None:
    thing = {"spec": {"affinity": affinity}}
    assert required_terms(thing) is None
    assert list(placement_of(thing).alternatives()) == [()]


def test_terms_keep_their_places() -> None:
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}
    found = required_terms(pod({}, None, ["zone In a"], fields, {"matchExpressions": None}))
    assert found is not None
    assert [(term.path, term.is_empty, term.fields) for term in found] == [
        ((*TERMS, 0), True, False),
        ((*TERMS, 2), False, False),
        ((*TERMS, 3), False, True),
        ((*TERMS, 4), True, False),
    ]
    assert found[1].requirements == (need("zone In a"),)


ODD_EXPRESSIONS: dict[str, tuple[Any, tuple[Requirement, ...]]] = {
    "null": (None, ()),
    "map": ({}, ()),
    "items of other types": ([None, "x", 1, []], ()),
    "no operator": ([{"key": "k"}], ()),
    "key of another type": ([{"key": 1, "operator": "In", "values": ["a"]}], ()),
    "values null": ([{"key": "k", "operator": "Exists", "values": None}], (need("k Exists"),)),
    "values a number": ([{"key": "k", "operator": "In", "values": 5}], (Requirement("k", "In"),)),
    "values a text": ([{"key": "k", "operator": "In", "values": "true"}], (Requirement("k", "In"),)),
    "a value of another type": ([{"key": "k", "operator": "In", "values": [1, "a"]}], (need("k In a"),)),
}


@pytest.mark.parametrize(("written", "read"), ODD_EXPRESSIONS.values(), ids=ODD_EXPRESSIONS)
def test_what_is_no_requirement_is_left_out(written: Any, read: tuple[Requirement, ...]) -> None:
    assert requirements_of(written) == read


def test_a_node_selector_as_requirements() -> None:
    assert selector_requirements(pod(selector={"a": "b", "c": None, "d": 1})) == (need("a In b"),)
    assert selector_requirements(pod(selector="x")) == ()
    assert selector_requirements({"spec": None}) == ()


def test_a_requirement_reads_and_writes_alike() -> None:
    for requirement in (need("k In a,b"), need("k Exists"), need("k Gt 3")):
        assert requirements_of([requirement.to_json()]) == (requirement,)
    assert need("k Exists").to_json() == {"key": "k", "operator": "Exists"}
    assert (need("k In a,b").shown, need("k Exists").shown) == ("k In [a, b]", "k Exists")


ALIKE: dict[str, tuple[Any, Any, bool]] = {
    "another effect": ({"key": "k"}, {"key": "k", "effect": "NoSchedule"}, False),
    "another value": ({"key": "k", "value": "a"}, {"key": "k", "value": "b"}, False),
    "for a time only": ({"key": "k"}, {"key": "k", "tolerationSeconds": 0}, False),
    "Equal or nothing": ({"key": "k", "value": "a"}, {"value": "a", "operator": "Equal", "key": "k"}, True),
    "null or absent": ({"key": "k", "value": None}, {"key": "k", "effect": None}, True),
    "empty or absent": ({"key": "k", "value": "", "effect": ""}, {"key": "k"}, True),
    "no map": ("x", None, True),
}


@pytest.mark.parametrize(("left", "right", "alike"), ALIKE.values(), ids=ALIKE)
def test_tolerations_that_say_the_same(left: Any, right: Any, alike: bool) -> None:
    assert (normalise_toleration(left) == normalise_toleration(right)) is alike


TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TOLERATES: dict[str, tuple[Any, dict[str, str], bool]] = {
    "another key": ({"key": "amd.com/gpu", "operator": "Exists"}, TAINT, False),
    "another value": ({"key": "nvidia.com/gpu", "value": "x"}, TAINT, False),
    "Equal without a value": ({"key": "nvidia.com/gpu"}, TAINT, False),
    "another effect": ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, TAINT, False),
    "an operator that nobody knows": ({"key": "nvidia.com/gpu", "operator": "Near"}, TAINT, False),
    "no map": (None, TAINT, False),
    "Exists": ({"key": "nvidia.com/gpu", "operator": "Exists"}, TAINT, True),
    "Exists with the effect": (
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        TAINT,
        True,
    ),
    "everything": ({"operator": "Exists"}, TAINT, True),
    "the value": ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}, TAINT, True),
    "a taint without a value": ({"key": "k"}, {"key": "k", "effect": "NoSchedule"}, True),
}


@pytest.mark.parametrize(("toleration", "taint", "expected"), TOLERATES.values(), ids=TOLERATES)
def test_tolerates(toleration: Any, taint: dict[str, str], expected: bool) -> None:
    assert tolerates(toleration, taint) is expected
