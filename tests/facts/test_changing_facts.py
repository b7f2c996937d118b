"""Facts that change while they are asked: what stays is not parsed again, and what changed is."""

from __future__ import annotations

from typing import Any

from webhook.facts import Facts, Namespace, Unknown
from webhook.facts.cluster import FORGETTABLE

Json = dict[str, Any]


def namespace(name: str, **labels: str) -> Json:
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def priority(name: str, value: int, *, default: bool = False) -> Json:
    return {
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "globalDefault": default,
    }


def test_what_stays_is_not_parsed_again_and_what_changed_is() -> None:
    before = Facts.from_objects([namespace("a", x="1"), namespace("b", x="1"), priority("p", 1)])
    a, p = before.namespace("a"), before.priority_class("p")
    assert isinstance(before.namespace("b"), Namespace)
    after = before.with_table("Namespace", {**before.tables["Namespace"], "b": namespace("b", x="2")})
    assert after.namespace("a") is a
    assert after.priority_class("p") is p
    assert after.namespace("b") == Namespace("b", {"x": "2"}, {})
    assert before.namespace("b") == Namespace("b", {"x": "1"}, {})
    assert after.namespace("b") == Namespace("b", {"x": "2"}, {})


def test_what_is_asked_of_all_objects_of_a_kind_follows() -> None:
    before = Facts.from_objects([priority("p", 1)])
    assert before.default_priority_class() is None
    after = before.with_table("PriorityClass", {"d": priority("d", 7, default=True)})
    default = after.default_priority_class()
    assert not isinstance(default, Unknown)
    assert default is not None
    assert default.name == "d"
    assert after.default_priority_class() is default
    assert before.default_priority_class() is None


def test_an_object_that_is_gone_is_absent() -> None:
    before = Facts.from_objects([priority("p", 1)])
    assert before.with_table("PriorityClass", {}).priority_class("p") is None


def test_what_is_kept_of_objects_that_are_gone_is_bounded() -> None:
    known = Facts.from_objects([])
    for start in range(0, 5 * FORGETTABLE, 100):
        known = known.with_table(
            "Namespace", {f"n{i}": namespace(f"n{i}") for i in range(start, start + 100)}
        )
        for i in range(start, start + 100):
            known.namespace(f"n{i}")
    assert len(known._parsed["Namespace"]) <= FORGETTABLE + 300


def test_a_kind_that_is_not_known_any_more_says_why() -> None:
    known = Facts.from_objects([priority("p", 1), namespace("a")]).without(
        "PriorityClass", "it may not be listed"
    )
    assert known.priority_class("p") == Unknown("it may not be listed")
    assert known.storage_class("s") == Unknown("no StorageClass is among the facts given")
    assert isinstance(known.namespace("a"), Namespace)
    again = known.with_table("PriorityClass", {})
    assert again.priority_class("p") is None


class TestLateNamespaces:
    def test_one_that_comes(self) -> None:
        asked: list[str] = []

        def late(name: str) -> Json:
            asked.append(name)
            return namespace(name, x="1")

        known = Facts.from_objects([namespace("a")]).waiting(late)
        assert known.namespace("a") == Namespace("a", {}, {})
        assert asked == []
        assert known.namespace("b") == known.namespace("b") == Namespace("b", {"x": "1"}, {})
        assert asked == ["b"]

    def test_one_that_does_not_come_is_waited_for_once(self) -> None:
        asked: list[str] = []
        known = Facts.from_objects([namespace("a")]).waiting(asked.append)
        for _ in range(3):
            assert known.namespace("b") == Unknown("namespace b is not known yet")
        assert asked == ["b"]

    def test_each_review_waits_anew(self) -> None:
        asked: list[str] = []
        known = Facts.from_objects([namespace("a")])
        for _ in range(2):
            known.waiting(asked.append).namespace("b")
        assert asked == ["b", "b"]

    def test_nothing_is_waited_for_where_namespaces_are_not_known_at_all(self) -> None:
        asked: list[str] = []
        assert isinstance(Facts().waiting(asked.append).namespace("b"), Unknown)
        assert asked == []

    def test_an_object_without_a_namespace(self) -> None:
        asked: list[str] = []
        known = Facts.from_objects([namespace("a")]).waiting(asked.append)
        assert isinstance(known.namespace(""), Unknown)
        assert asked == []
