from copy import deepcopy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.documents import Path
from webhook.kube.draft import ALWAYS, ENGINE, FILL, Change, Draft, DraftError, Replace, Written

WRITTEN, SAME, CHOSEN, CLAIMED = Written.WRITTEN, Written.SAME, Written.CHOSEN, Written.CLAIMED
CLASS: Path = ("spec", "priorityClassName")
LABEL: Path = ("metadata", "labels", "team/owner~1")
TOLERATIONS: Path = ("spec", "tolerations")
GPU = {"key": "nvidia.com/gpu", "operator": "Exists"}


def op(kind: str, path: str, value: Any) -> dict[str, Any]:
    return {"op": kind, "path": path, "value": value}


def checked(draft: Draft, before: Any) -> list[dict[str, Any]]:
    """The draft's patch, after proof that it is right: applied by another library it gives the object, type by type."""
    patch = draft.patch()
    applied = jsonpatch.apply_patch(deepcopy(before), patch)
    assert exact(applied) == exact(draft.object)
    assert exact(draft.original) == exact(before), "the original was modified"
    return patch


def exact(value: Any) -> Any:
    """A value that compares as JSON does: true is not 1, and 1 not 1.0."""
    if isinstance(value, dict):
        return {key: exact(each) for key, each in value.items()}
    if isinstance(value, list):
        return [exact(each) for each in value]
    return type(value).__name__, value


def same_toleration(item: Any) -> bool:
    return bool(item == GPU)


# what there is, path, value -> outcome, patch
SETS: dict[str, tuple[Any, Path, Any, Written, list[dict[str, Any]]]] = {
    "present and equal": ({"spec": {"priorityClassName": "a"}}, CLASS, "a", SAME, []),
    "present and equal, a map": ({"spec": {"x": {"a": [1]}}}, ("spec", "x"), {"a": [1]}, SAME, []),
    "present and other": ({"spec": {"priorityClassName": "b"}}, CLASS, "a", CHOSEN, []),
    "present and empty is chosen": ({"spec": {"priorityClassName": ""}}, CLASS, "a", CHOSEN, []),
    "present and false is chosen": ({"spec": {"x": False}}, ("spec", "x"), True, CHOSEN, []),
    "present and zero is chosen": ({"spec": {"x": 0}}, ("spec", "x"), 1, CHOSEN, []),
    "absent": (
        {"spec": {}},
        CLASS,
        "a",
        WRITTEN,
        [op("add", "/spec/priorityClassName", "a")],
    ),
    "null": (
        {"spec": {"priorityClassName": None}},
        CLASS,
        "a",
        WRITTEN,
        [op("add", "/spec/priorityClassName", "a")],
    ),
    "parent absent": ({}, CLASS, "a", WRITTEN, [op("add", "/spec", {"priorityClassName": "a"})]),
    "parent null": ({"spec": None}, CLASS, "a", WRITTEN, [op("add", "/spec", {"priorityClassName": "a"})]),
    "parents absent, one operation": (
        {"spec": {"containers": [{"name": "a"}]}},
        ("spec", "containers", 0, "resources", "limits", "rdma/ib"),
        "1",
        WRITTEN,
        [op("add", "/spec/containers/0/resources", {"limits": {"rdma/ib": "1"}})],
    ),
    "middle parent null": (
        {"spec": {"containers": [{"resources": {"limits": None}}]}},
        ("spec", "containers", 0, "resources", "limits", "rdma/ib"),
        "1",
        WRITTEN,
        [op("add", "/spec/containers/0/resources/limits", {"rdma/ib": "1"})],
    ),
    "slash and tilde in the key": (
        {"metadata": {"labels": {"a": "b"}}},
        LABEL,
        "x",
        WRITTEN,
        [op("add", "/metadata/labels/team~1owner~01", "x")],
    ),
    "list and its item absent": (
        {},
        ("spec", "terms", 0, "key"),
        "a",
        WRITTEN,
        [op("add", "/spec", {"terms": [{"key": "a"}]})],
    ),
    "item behind those that are there": (
        {"spec": {"terms": [{"key": "b"}]}},
        ("spec", "terms", 1, "key"),
        "a",
        WRITTEN,
        [op("add", "/spec/terms/-", {"key": "a"})],
    ),
}


@pytest.mark.parametrize(("before", "path", "value", "written", "patch"), SETS.values(), ids=SETS)
def test_set(before: Any, path: Path, value: Any, written: Written, patch: list[dict[str, Any]]) -> None:
    draft = Draft(deepcopy(before))
    assert draft.set(path, value, "p/r") is written
    assert checked(draft, before) == patch
    assert draft.set(path, value, "p/r") is (CHOSEN if written is CHOSEN else SAME)
    assert draft.patch() == patch


WRONG_PARENTS: dict[str, tuple[Any, Path, str]] = {
    "text": ({"spec": "x"}, CLASS, "spec is a str, not a dict"),
    "empty text": ({"spec": ""}, CLASS, "spec is a str, not a dict"),
    "false": ({"spec": False}, CLASS, "spec is a bool, not a dict"),
    "list": ({"spec": []}, CLASS, "spec is a list, not a dict"),
    "map for a list": ({"spec": {"terms": {}}}, ("spec", "terms", 0, "key"), "spec.terms is a dict, not a list"),
    "text in a list": (
        {"spec": {"containers": ["x"]}},
        ("spec", "containers", 0, "env", "A"),
        "spec.containers[0] is a str, not a dict",
    ),
    "key with a slash": (
        {"metadata": {"labels": {"a/b": 1}}},
        ("metadata", "labels", "a/b", "c"),
        'metadata.labels["a/b"] is a int, not a dict',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "path", "message"), WRONG_PARENTS.values(), ids=WRONG_PARENTS)
def test_a_parent_of_another_type_is_not_overwritten(before: Any, path: Path, message: str) -> None:
    draft = Draft(deepcopy(before))
    with pytest.raises(DraftError) as found:
        draft.set(path, "a", "p/r", ALWAYS)
    assert str(found.value) == message
    assert checked(draft, before) == []
    assert draft.changes() == ()


APPENDS: dict[str, tuple[Any, Written, list[dict[str, Any]]]] = {
    "already there": ({"spec": {"tolerations": [{"key": "x"}, GPU]}}, SAME, []),
    "parent absent": ({}, WRITTEN, [op("add", "/spec", {"tolerations": [GPU]})]),
    "absent": ({"spec": {}}, WRITTEN, [op("add", "/spec/tolerations", [GPU])]),
    "null": ({"spec": {"tolerations": None}}, WRITTEN, [op("add", "/spec/tolerations", [GPU])]),
    "empty": ({"spec": {"tolerations": []}}, WRITTEN, [op("add", "/spec/tolerations/-", GPU)]),
    "another there": (
        {"spec": {"tolerations": [{"key": "nvidia.com/gpu", "value": "b"}]}},
        WRITTEN,
        [op("add", "/spec/tolerations/-", GPU)],
    ),
    "nulls among the items": (
        {"spec": {"tolerations": [None]}},
        WRITTEN,
        [op("add", "/spec/tolerations/-", GPU)],
    ),
}


@pytest.mark.parametrize(("before", "written", "patch"), APPENDS.values(), ids=APPENDS)
def test_append(before: Any, written: Written, patch: list[dict[str, Any]]) -> None:
    draft = Draft(deepcopy(before))
    assert draft.append(TOLERATIONS, GPU, "p/r", same_toleration, "gpu") is written
    assert draft.append(TOLERATIONS, GPU, "p/r", same_toleration, "gpu") is SAME
    assert checked(draft, before) == patch


@pytest.mark.parametrize("wrong", ["x", {}, 1, False], ids=["text", "map", "number", "false"])
def test_append_to_what_is_no_list(wrong: Any) -> None:
    draft = Draft({"spec": {"tolerations": wrong}})
    with pytest.raises(DraftError, match=rf"spec\.tolerations is a {type(wrong).__name__}, not a list"):
        draft.append(TOLERATIONS, GPU, "p/r", same_toleration, "gpu")
    assert draft.patch() == []


REMOVALS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "absent": ({"metadata": {"labels": {}}}, []),
    "parent absent": ({}, []),
    "parent of another type": ({"metadata": {"labels": "x"}}, []),
    "null": ({"metadata": {"labels": {LABEL[-1]: None}}}, []),
    "present": (
        {"metadata": {"labels": {LABEL[-1]: "x", "b": "y"}}},
        [{"op": "remove", "path": "/metadata/labels/team~1owner~01"}],
    ),
}


@pytest.mark.parametrize(("before", "patch"), REMOVALS.values(), ids=REMOVALS)
def test_remove(before: Any, patch: list[dict[str, Any]]) -> None:
    draft = Draft(deepcopy(before))
    draft.remove(LABEL, "p/r")
    assert checked(draft, before) == patch


def managed(*fields: str) -> list[dict[str, Any]]:
    return [{"manager": "m", "fieldsV1": {"f:spec": {f"f:{name}": {} for name in ("containers", *fields)}}}]


NOBODY, CLIENT = managed(), managed("priorityClassName")

# replace, present value, managedFields, api default, cluster default -> outcome
REPLACES: dict[str, tuple[Replace, str, Any, str | None, str | None, Written]] = {
    "never: the API's default stays": (FILL, "d", NOBODY, "d", "d", CHOSEN),
    "defaulted: a value that somebody sent": (Replace(), "c", CLIENT, "d", None, CHOSEN),
    "defaulted: the API's own default": (Replace(), "d", CLIENT, "d", None, WRITTEN),
    "defaulted: the cluster's default that nobody sent": (Replace(), "d", NOBODY, None, "d", WRITTEN),
    "defaulted: the cluster's default that a client sent": (Replace(), "d", CLIENT, None, "d", CHOSEN),
    "defaulted: the cluster's default, no managedFields": (Replace(), "d", None, None, "d", CHOSEN),
    "defaulted: the cluster's default, empty managedFields": (Replace(), "d", [], None, "d", CHOSEN),
    "defaulted: the cluster's default is not known": (Replace(), "d", NOBODY, None, None, CHOSEN),
    "defaulted: another webhook's value": (Replace(), "w", NOBODY, None, "d", CHOSEN),
    "a list: a value of it": (Replace("defaulted", ("x", "y")), "y", CLIENT, None, None, WRITTEN),
    "a list: another value": (Replace("defaulted", ("x", "y")), "z", CLIENT, None, None, CHOSEN),
    "a list: still what nobody chose": (Replace("defaulted", ("x",)), "d", NOBODY, None, "d", WRITTEN),
    "always": (ALWAYS, "c", CLIENT, None, None, WRITTEN),
}


@pytest.mark.parametrize(
    ("replace", "present", "fields", "api", "cluster", "written"), REPLACES.values(), ids=REPLACES
)
def test_replace(
    replace: Replace, present: str, fields: Any, api: str | None, cluster: str | None, written: Written
) -> None:
    before = {"metadata": {"managedFields": fields}, "spec": {"priorityClassName": present}}
    draft = Draft(deepcopy(before))
    got = draft.set(CLASS, "a", "p/r", replace, api_default=api, cluster_default=cluster)
    assert got is written
    wanted = [op("replace", "/spec/priorityClassName", "a")] if written is WRITTEN else []
    assert checked(draft, before) == wanted


def test_a_list_item_is_never_known_to_be_defaulted() -> None:
    path: Path = ("spec", "volumes", 0, "ephemeral", "volumeClaimTemplate", "spec", "storageClassName")
    claim = {"spec": {"storageClassName": "d"}}
    pod = {
        "metadata": {"managedFields": NOBODY},
        "spec": {"volumes": [{"ephemeral": {"volumeClaimTemplate": claim}}]},
    }
    assert Draft(pod).set(path, "a", "p/r", Replace(), cluster_default="d") is CHOSEN


def test_the_first_owner_keeps_the_field() -> None:
    draft = Draft({"spec": {}})
    assert draft.set(CLASS, "a", "first/r", Replace()) is WRITTEN
    assert draft.set(CLASS, "b", "second/r", Replace("defaulted", ("a",))) is CLAIMED
    assert draft.set(CLASS, "c", "first/r", Replace("defaulted", ("a",))) is WRITTEN
    assert draft.object == {"spec": {"priorityClassName": "c"}}


def test_finding_it_as_wanted_claims_it() -> None:
    draft = Draft({"spec": {"priorityClassName": "a"}})
    assert draft.set(CLASS, "a", "first/r") is SAME
    assert draft.set(CLASS, "b", "second/r", Replace("defaulted", ("a",))) is CLAIMED


def test_a_choice_claims_nothing() -> None:
    draft = Draft({"spec": {"priorityClassName": "x"}})
    assert draft.set(CLASS, "a", "first/r") is CHOSEN
    assert draft.set(CLASS, "b", "second/r", Replace("defaulted", ("x",))) is WRITTEN


def test_always_takes_over() -> None:
    draft = Draft({"spec": {}})
    draft.set(CLASS, "a", "first/r")
    assert draft.set(CLASS, "b", "second/r", ALWAYS) is WRITTEN
    assert draft.set(CLASS, "a", "first/r") is CLAIMED
    (change,) = draft.changes()
    assert change == Change("second/r", CLASS, "spec.priorityClassName", None, "b", appended=False)


def test_a_claim_follows_the_name_not_the_index() -> None:
    draft = Draft({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}})
    assert draft.set(("spec", "containers", 0, "image"), "x", "first/r") is WRITTEN
    assert draft.set(("spec", "containers", 1, "image"), "y", "second/r") is WRITTEN
    assert (
        draft.set(("spec", "containers", 0, "image"), "z", "second/r", Replace("defaulted", ("x",)))
        is CLAIMED
    )


def test_an_item_has_one_owner() -> None:
    draft = Draft({"spec": {"tolerations": [GPU]}})
    assert draft.append(TOLERATIONS, GPU, "first/r", same_toleration, "gpu") is SAME
    assert draft.append(TOLERATIONS, {"key": "y"}, "second/r", lambda _: False, "gpu") is CLAIMED
    assert draft.append(TOLERATIONS, {"key": "y"}, "second/r", lambda _: False, "y") is WRITTEN


def test_a_claim_of_no_single_place() -> None:
    draft = Draft({})
    assert draft.claim(("terms", "zone"), "first/r")
    assert draft.claim(("terms", "zone"), "first/r")
    assert not draft.claim(("terms", "zone"), "second/r")


def test_one_operation_where_several_rules_wrote() -> None:
    before = {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}}
    draft = Draft(deepcopy(before))
    for name in ("A", "B"):
        draft.append(("spec", "containers", 0, "env"), {"name": name}, f"{name}/r", lambda _: False, name)
    draft.set(("spec", "priority"), 1, "A/r")
    draft.set(("spec", "priority"), 2, "B/r", ALWAYS)
    assert checked(draft, before) == [
        op("add", "/spec/containers/0/env/-", {"name": "A"}),
        op("add", "/spec/containers/0/env/-", {"name": "B"}),
        op("add", "/spec/priority", 2),
    ]


def test_no_operation_where_a_field_ends_as_it_began() -> None:
    before = {"spec": {"priorityClassName": "a", "x": {"y": 1}}}
    draft = Draft(deepcopy(before))
    draft.set(CLASS, "b", "p/r", ALWAYS)
    draft.set(CLASS, "a", "p/r", ALWAYS)
    draft.set(("spec", "x", "y"), 2, "p/r", ALWAYS)
    draft.set(("spec", "x"), {"y": 1}, "p/r", ALWAYS)
    assert draft.changes()[0].path == (
        "spec",
        "x",
        "y",
    )  # the field of its own; the map above it ends as it began
    assert checked(draft, before) == []


def test_an_equal_text_that_is_another_object_is_no_change() -> None:
    """Texts that come from elsewhere (a namespace's label) are never the very object that the pod holds."""
    before = {"spec": {"priorityClassName": "low-a"}}
    draft = Draft(deepcopy(before))
    draft.set(CLASS, "high", "p/r", ALWAYS)
    draft.set(CLASS, "-".join(["low", "a"]), "p/r", ALWAYS)
    assert checked(draft, before) == []


def test_true_is_not_one() -> None:
    before = {"spec": {"hostNetwork": 1, "list": [1, 0]}}
    draft = Draft(deepcopy(before))
    assert draft.set(("spec", "hostNetwork"), True, "p/r", ALWAYS) is WRITTEN
    assert draft.set(("spec", "list"), [True, False], "p/r", ALWAYS) is WRITTEN
    assert checked(draft, before) == [
        op("replace", "/spec/hostNetwork", True),
        op("replace", "/spec/list/0", True),
        op("replace", "/spec/list/1", False),
    ]
    assert [(change.before, change.after) for change in draft.changes()] == [
        (1, True),
        ([1, 0], [True, False]),
    ]


def test_a_shorter_list_is_replaced_as_a_whole() -> None:
    before = {"spec": {"x": [1, 2, 3]}}
    draft = Draft(deepcopy(before))
    draft.set(("spec", "x"), [3], "p/r", ALWAYS)
    assert checked(draft, before) == [op("replace", "/spec/x", [3])]


def test_changes_tell_what_rules_did_and_not_what_the_engine_did() -> None:
    draft = Draft(
        {
            "metadata": {"annotations": {"own": "x"}},
            "spec": {"containers": [{"name": "c", "resources": {}}], "priority": 0},
        }
    )
    limit: Path = ("spec", "containers", 0, "resources", "limits", "rdma/ib")
    draft.set(("spec", "priority"), 9, "priority/set", ALWAYS)
    draft.set(limit, "1", "rdma/devices")
    draft.append(TOLERATIONS, GPU, "place/vendor", same_toleration, "gpu")
    draft.set(("metadata", "annotations", "podgate.dev/changes"), "…", ENGINE)
    draft.remove(("metadata", "annotations", "own"), ENGINE)
    assert draft.changes() == (
        Change("priority/set", ("spec", "priority"), "spec.priority", 0, 9, appended=False),
        Change(
            "rdma/devices", limit, 'spec.containers["c"].resources.limits["rdma/ib"]', None, "1", appended=False
        ),
        Change(
            "place/vendor",
            (*TOLERATIONS, 0),
            'spec.tolerations["nvidia.com/gpu"]',
            None,
            GPU,
            appended=True,
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("annotations", "patch"),
    [
        (None, [op("add", "/metadata/annotations", {"a/b": "1", "c": "2"})]),
        ({"c": "x"}, [op("replace", "/metadata/annotations/c", "2"), op("add", "/metadata/annotations/a~1b", "1")]),
        ({"a/b": "1", "c": "2"}, []),
    ],
    ids=["where there are none", "beside others", "that are there already"],
)  # fmt: skip
def test_the_engines_entries_are_in_the_patch_and_no_changes(
    annotations: Any, patch: list[dict[str, Any]]
) -> None:
    before = {"metadata": {"annotations": annotations}}
    draft = Draft(deepcopy(before))
    draft.put(("metadata", "annotations"), {"a/b": "1", "c": "2"})
    assert checked(draft, before) == patch
    assert draft.changes() == ()


def test_the_engines_entries_have_no_place_in_what_is_no_map() -> None:
    draft = Draft({"metadata": {"annotations": "x"}})
    with pytest.raises(DraftError, match=r"metadata\.annotations is a str, not a dict"):
        draft.put(("metadata", "annotations"), {"a": "1"})


def test_what_is_tried_is_seen_by_nobody_else() -> None:
    draft = Draft({"spec": {"x": [1]}})
    draft.set(("spec", "a"), "b", "p/r")
    trial = draft.trial()
    assert trial.set(CLASS, "tried", "p/s") is WRITTEN
    assert (draft.object, trial.object) == (
        {"spec": {"x": [1], "a": "b"}},
        {"spec": {"x": [1], "a": "b", "priorityClassName": "tried"}},
    )
    assert [change.rule for change in draft.changes()] == ["p/r"]


def test_a_trial_without_a_wish_is_not_kept() -> None:
    draft = Draft({"spec": {"priorityClassName": "own"}})
    trial = draft.trial()
    assert trial.set(CLASS, "tried", "p/s") is CHOSEN
    assert not draft.keep(trial)


@pytest.mark.parametrize("value", ["own", "tried"], ids=["that holds already", "that is written"])
def test_a_trial_with_a_wish_lives_on_and_sees_nothing_of_the_other(value: str) -> None:
    draft = Draft({"spec": {"priorityClassName": "own"}})
    draft.set(("spec", "a"), "b", "p/r")
    trial = draft.trial()
    trial.set(CLASS, value, "p/s", ALWAYS)
    assert draft.keep(trial)
    draft.set(("spec", "c"), "d", "p/t")
    draft.set(("spec", "e", "f"), "g", "p/t")
    assert trial.object == {"spec": {"priorityClassName": value, "a": "b"}}
    assert trial.set(CLASS, "other", "p/t") is CLAIMED
    assert draft.set(CLASS, "other", "p/t", ALWAYS) is WRITTEN


def test_a_place_that_was_replaced_or_taken_away_is_looked_for_again() -> None:
    draft, rest = Draft({}), {"kept": "here"}
    draft.set(("spec", "a", "b"), "1", "p/r")
    draft.set(("spec", "a"), rest, "p/r", ALWAYS)
    draft.set(("spec", "a", "c"), "2", "p/r")
    assert (draft.object, rest) == ({"spec": {"a": {"kept": "here", "c": "2"}}}, {"kept": "here"})
    draft.remove(("spec", "a"), "p/r")
    draft.set(("spec", "a", "d"), "3", "p/r")
    assert draft.object == {"spec": {"a": {"d": "3"}}}


def test_a_place_that_is_known_as_a_map_is_no_list() -> None:
    draft = Draft({})
    draft.set(("spec", "a", "b"), "1", "p/r")
    with pytest.raises(DraftError, match=r"^spec\.a is a dict, not a list$"):
        draft.append(("spec", "a"), "x", "p/r", same_toleration, "x")


def test_what_is_taken_back_was_written_before_and_after_a_place_was_looked_for_again() -> None:
    before = {"spec": {"kept": {"x": "y"}, "gone": {"a": "b"}}}
    draft = Draft(before)
    draft.begin()
    draft.set(("spec", "first"), "1", "p/r")
    draft.set(("spec", "kept", "first"), "1", "p/r")
    draft.remove(("spec", "gone"), "p/r")
    draft.set(("spec", "second"), "2", "p/r")
    draft.set(("spec", "kept", "second"), "2", "p/r")
    draft.undo()
    assert draft.object == before


def test_what_is_taken_back_was_appended_to_a_list_that_was_there_or_not() -> None:
    before = {"spec": {"tolerations": [{"key": "own"}]}}
    draft = Draft(before)
    draft.begin()
    draft.append(TOLERATIONS, GPU, "p/r", same_toleration, "gpu")
    draft.append(("spec", "volumes"), {"name": "v"}, "p/r", same_toleration, "v")
    draft.undo()
    assert draft.object == before


def test_a_removal_is_a_change_of_the_rule_that_asked_for_it() -> None:
    draft = Draft({"spec": {"a": "b"}})
    draft.remove(("spec", "a"), "p/r")
    assert [(change.rule, change.before, change.after) for change in draft.changes()] == [("p/r", "b", None)]


def test_forks_do_not_see_each_other() -> None:
    draft = Draft({"spec": {"containers": [{"name": "a"}]}})
    draft.set(("spec", "containers", 0, "image"), "x", "common/r")
    fork = draft.fork()
    fork.set(CLASS, "forked", "audit/r")
    fork.append(TOLERATIONS, GPU, "audit/r", same_toleration, "gpu")
    draft.set(CLASS, "real", "enforce/r")
    draft.set(("spec", "containers", 0, "image"), "y", "common/r", ALWAYS)
    assert draft.object == {
        "spec": {"containers": [{"name": "a", "image": "y"}], "priorityClassName": "real"}
    }
    assert fork.object == {
        "spec": {
            "containers": [{"name": "a", "image": "x"}],
            "priorityClassName": "forked",
            "tolerations": [GPU],
        }
    }
    assert [change.rule for change in draft.changes()] == ["common/r", "enforce/r"]
    assert [change.after for change in fork.changes()] == ["x", "forked", GPU]
    # what was claimed before the fork stays claimed in both, what was claimed in one is free in the other
    assert fork.set(("spec", "containers", 0, "image"), "z", "audit/r") is CLAIMED
    assert draft.append(TOLERATIONS, GPU, "enforce/r", same_toleration, "gpu") is WRITTEN


def test_values_of_a_policy_are_never_written_to() -> None:
    value: dict[str, Any] = {"labels": {"a": "b"}}
    item: dict[str, Any] = {"name": "A"}
    draft = Draft({})
    draft.set(("metadata",), value, "p/r")
    draft.set(("metadata", "labels", "c"), "d", "p/r")
    draft.append(("env",), item, "p/r", lambda _: False, "A")
    draft.set(("env", 0, "value"), "1", "p/r")
    assert (value, item) == ({"labels": {"a": "b"}}, {"name": "A"})
    assert draft.object == {
        "metadata": {"labels": {"a": "b", "c": "d"}},
        "env": [{"name": "A", "value": "1"}],
    }


def test_what_is_not_written_is_shared_with_the_original() -> None:
    containers = [{"name": "a"}, {"name": "b", "env": []}]
    before: dict[str, Any] = {"metadata": {"labels": {}}, "spec": {"containers": containers}}
    draft = Draft(before)
    draft.set(("spec", "containers", 0, "image"), "x", "p/r")
    now = draft.object
    assert now["metadata"] is before["metadata"]
    assert now["spec"]["containers"][1] is before["spec"]["containers"][1]
    assert now["spec"]["containers"][0] is not before["spec"]["containers"][0]
    assert before["spec"]["containers"][0] == {"name": "a"}


def test_an_untouched_draft_is_the_original() -> None:
    before = {"spec": {"priorityClassName": "a"}}
    draft = Draft(before)
    draft.set(CLASS, "a", "p/r")
    draft.set(CLASS, "b", "p/r")
    draft.remove(("spec", "none"), "p/r")
    assert draft.object is before


KEYS = st.sampled_from(["a", "b", "a/b", "~1", "", "name"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x", "a"]) | st.just(1.0),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
PATHS = st.lists(KEYS | st.integers(0, 2), min_size=1, max_size=4).map(lambda path: ("a", *path, "b"))
WISHES = st.lists(
    st.tuples(st.sampled_from(["set", "always", "append", "remove", "fork"]), PATHS, JSON), max_size=8
)


@given(st.dictionaries(KEYS, JSON, max_size=4), WISHES)
def test_any_wishes_give_a_patch_that_makes_the_object(
    before: dict[str, Any], wishes: list[tuple[str, Path, Any]]
) -> None:
    draft = Draft(deepcopy(before))
    others: list[tuple[Draft, Any]] = []
    for number, (kind, path, value) in enumerate(wishes):
        try:
            wish(draft, kind, path, value, others, f"p/{number % 3}")
        except (DraftError, IndexError):
            continue
    checked(draft, before)
    assert len({operation["path"] for operation in draft.patch() if operation["path"][-2:] != "/-"}) == len(
        [operation for operation in draft.patch() if operation["path"][-2:] != "/-"]
    )
    for other, then in others:
        assert exact(other.object) == then, "a fork saw what the other wrote"


def wish(draft: Draft, kind: str, path: Path, value: Any, others: list[tuple[Draft, Any]], rule: str) -> None:
    match kind:
        case "fork":
            others.append((draft.fork(), exact(deepcopy(draft.object))))
        case "append":
            draft.append(path, value, rule, lambda item: exact(item) == exact(value), str(value))
        case "remove":
            draft.remove(path, rule)
        case _ if value is not None:  # no rule wants a null
            draft.set(path, value, rule, ALWAYS if kind == "always" else FILL)
