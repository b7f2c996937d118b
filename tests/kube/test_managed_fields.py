"""Whether a client wrote a field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.documents import Path
from webhook.kube.managed_fields import client_written, owns, was_added

PRIORITY_CLASS = ("spec", "priorityClassName")


def entry(fields: Any, **others: Any) -> dict[str, Any]:
    return {
        "manager": "kubectl-create",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    } | others


# The form of what the API server records for `kubectl create` of a pod with one container.
CREATED = entry(
    {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"trainer"}': {
                    ".": {},
                    "f:image": {},
                    "f:name": {},
                    "f:resources": {".": {}, "f:limits": {".": {}, "f:nvidia.com/gpu": {}}},
                }
            },
            "f:nodeSelector": {},
            "f:priorityClassName": {},
            "f:tolerations": {},
        },
    }
)
STATUS = entry({"f:status": {"f:phase": {}}}, manager="kubelet", subresource="status")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(("spec", "priority"), id="f:priority is only a prefix of f:priorityClassName"),
        pytest.param(("spec", "priorityClassNames"), id="longer than the entry"),
        pytest.param(("priorityClassName",), id="at another level"),
        pytest.param(("metadata", "labels", "tier"), id="another label"),
        pytest.param(("metadata", "annotations", "a"), id="a map that nobody wrote"),
        pytest.param(("spec", "containers", 'k:{"name":"proxy"}', "image"), id="another container"),
        pytest.param(
            ("spec", "containers", 'k:{"name":"trainer"}', "resources", "limits", "rdma/ib"),
            id="another resource",
        ),
        pytest.param(("spec", "containers", "0", "image"), id="an index is no key"),
        pytest.param(("spec", "f:priorityClassName"), id="the prefix is not part of a name"),
        pytest.param(("metadata", "labels", "."), id="the node itself is no key"),
    ],
)
def test_fields_that_nobody_wrote(path: tuple[str, ...]) -> None:
    assert owns([CREATED, STATUS], path) is False


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(PRIORITY_CLASS, id="field"),
        pytest.param(("metadata", "labels", "app"), id="label"),
        pytest.param(("metadata", "labels"), id="a map in which something was written"),
        pytest.param(("spec", "tolerations"), id="atomic list"),
        pytest.param(("spec", "tolerations", "0", "key"), id="inside of an atomic list"),
        pytest.param(("spec", "nodeSelector", "zone"), id="key of an atomic map"),
        pytest.param(
            ("spec", "containers", 'k:{"name":"trainer"}', "resources", "limits", "nvidia.com/gpu"),
            id="resource of a container",
        ),
        pytest.param(("status", "phase"), id="written through a subresource"),
        pytest.param((), id="the whole object"),
    ],
)
def test_fields_that_somebody_wrote(path: tuple[str, ...]) -> None:
    assert owns([CREATED, STATUS], path) is True
    assert owns([STATUS, CREATED], path) is True


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([entry({"f:spec": {"f:priorityClassName": {}}}, operation="Apply")], id="server-side apply"),
        pytest.param(
            [entry({"f:spec": {"f:priorityClassName": {}}}, manager="kube-controller-manager")], id="controller"
        ),
        pytest.param([entry({"f:spec": {"f:priorityClassName": {}}}, subresource="resize")], id="subresource"),
        pytest.param([entry({"f:spec": {}})], id="the whole spec as one"),
        pytest.param([entry({"f:spec": {"f:priorityClassName": {}}}, fieldsType=None)], id="type left out"),
        pytest.param([{"fieldsV1": None}, CREATED], id="beside an entry that cannot be read"),
    ],
)  # fmt: skip
def test_any_manager_counts(entries: list[Any]) -> None:
    assert owns(entries, PRIORITY_CLASS) is True


@pytest.mark.parametrize(
    "managed_fields",
    [
        pytest.param(None, id="absent"),
        pytest.param([], id="empty"),
        pytest.param({}, id="map"),
        pytest.param("f:spec", id="string"),
        pytest.param([None], id="null entry"),
        pytest.param([{}], id="empty entry"),
        pytest.param(["f:spec"], id="string entry"),
        pytest.param([entry(None)], id="no fields"),
        pytest.param([entry({})], id="empty fields"),
        pytest.param([entry([])], id="fields of a wrong type"),
        pytest.param([entry({"f:spec": None})], id="null node"),
        pytest.param([entry({"f:spec": {"f:priorityClassName": 1}})], id="leaf of a wrong type"),
        pytest.param([entry({"f:spec": {"f:priorityClassName": {}}}, fieldsType="FieldsV2")], id="unknown format"),
        pytest.param([entry({"f:spec": {"f:priorityClassName": {}}}, fieldsType=[])], id="type of a wrong type"),
        pytest.param([STATUS, {}], id="another entry cannot be read"),
    ],
)  # fmt: skip
def test_where_nobody_can_tell(managed_fields: object) -> None:
    assert owns(managed_fields, PRIORITY_CLASS) is None


@pytest.mark.parametrize(
    ("managed_fields", "expected"),
    [
        pytest.param(None, False, id="absent"),
        pytest.param([CREATED], False, id="other annotations"),
        pytest.param([entry({"f:metadata": {"f:annotations": {".": {}, "f:podgate.dev/skip": {}}}})], True, id="sent"),
        pytest.param([entry({"f:metadata": {"f:annotations": {".": {}, "f:podgate.dev/s": {}}}})], False, id="prefix"),
    ],
)  # fmt: skip
def test_annotations_that_a_client_wrote(managed_fields: object, expected: bool) -> None:
    assert ("podgate.dev/skip" in client_written(managed_fields)) is expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["f:spec", "f:a", ".", "fieldsV1"]), inner)
    ),
)


@given(JSON, st.lists(st.sampled_from(["spec", "a", ".", "k:{}"])))
def test_nothing_raises(managed_fields: object, path: list[str]) -> None:
    assert owns(managed_fields, tuple(path)) in (True, False, None)
    assert owns([{"fieldsV1": managed_fields}], tuple(path)) in (True, False, None)


ADDED_TO = {
    "metadata": {"managedFields": [CREATED]},
    "spec": {
        "priority": 0,
        "priorityClassName": "high",
        "nodeSelector": {"pool": "a", "disk": "ssd"},
        "tolerations": [{"key": "a"}, {"operator": "Exists"}],
        "containers": [
            {"name": "proxy", "env": [{"name": "A", "value": "b"}], "volumeMounts": [{"mountPath": "/a"}]},
            {"name": "trainer", "image": "a", "env": [{"name": "A"}], "ports": [{"containerPort": 1}]},
            {"image": "b"},
        ],
        "volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}],
        "hostAliases": [{"ip": "10.0.0.1"}],
    },
}
CONTAINERS = ("spec", "containers")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(("spec", "priorityClassName"), id="a field that was sent"),
        pytest.param((*CONTAINERS, 1, "image"), id="of a container that was sent"),
        pytest.param(("spec", "tolerations", 1), id="an item of a list that is written as a whole"),
        pytest.param(("spec", "nodeSelector", "disk"), id="a key of a map that is written as a whole"),
        pytest.param((*CONTAINERS, 2, "image"), id="of an item without a name"),
        pytest.param(("spec", "hostname"), id="a field that is not there"),
        pytest.param((), id="the whole object"),
    ],
)
def test_nobody_says_that_it_was_added(path: Path) -> None:
    assert not was_added(ADDED_TO, path)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(("spec", "priority"), id="a field"),
        pytest.param((*CONTAINERS, 0, "env", 0), id="of a container that was added"),
        pytest.param((*CONTAINERS, 0, "volumeMounts", 0, "mountPath"), id="a mount of it"),
        pytest.param((*CONTAINERS, 1, "env", 0, "name"), id="a variable of a container that was sent"),
        pytest.param((*CONTAINERS, 1, "ports", 0), id="a list that is looked at whole"),
        pytest.param(("spec", "volumes", 0, "hostPath", "path"), id="a volume"),
        pytest.param(("spec", "hostAliases", 0, "ip"), id="an item of a list that nobody sent"),
    ],
)
def test_it_was_added(path: Path) -> None:
    assert was_added(ADDED_TO, path)


@pytest.mark.parametrize("fields", [None, [], "x", [7], [entry({})]])
def test_without_a_record_nobody_can_tell_what_was_added(fields: Any) -> None:
    assert not was_added(ADDED_TO | {"metadata": {"managedFields": fields}}, ("spec", "priority"))
