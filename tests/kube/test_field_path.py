from types import MappingProxyType
from typing import Any

import pytest

from webhook.documents import Path
from webhook.kube.field_path import format_field, identify, list_at, mapping_at, value_at

GPU = "nvidia.com/gpu"
POD: dict[str, Any] = {
    "metadata": {"labels": {"app": "x", "a.b/c": "y"}, "annotations": None},
    "spec": {
        "hostNetwork": False,
        "priority": 0,
        "containers": [
            {"name": "trainer", "resources": {"limits": {GPU: "8"}}, "env": [{"name": "A"}, {"name": "A"}]},
            {"image": "x", "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]},
            None,
            {"name": 3},
            {"name": ""},
        ],
        "tolerations": [{"key": GPU}, {"operator": "Exists"}],
    },
}  # fmt: skip

VALUES: dict[str, tuple[Path, Any]] = {
    "absent": (("spec", "volumes"), None),
    "null": (("metadata", "annotations"), None),
    "below null": (("metadata", "annotations", "a"), None),
    "below text": (("metadata", "labels", "app", "x"), None),
    "a key of a list": (("spec", "containers", "name"), None),
    "an index of a map": (("spec", 0), None),
    "an index of text": (("metadata", "labels", "app", 0), None),
    "an index behind the end": (("spec", "containers", 9), None),
    "below a null item": (("spec", "containers", 2, "name"), None),
    "false is a value": (("spec", "hostNetwork"), False),
    "zero is a value": (("spec", "priority"), 0),
    "a key with a slash": (("spec", "containers", 0, "resources", "limits", GPU), "8"),
    "the whole": ((), POD),
}


@pytest.mark.parametrize(("path", "value"), VALUES.values(), ids=VALUES)
def test_value_at(path: Path, value: Any) -> None:
    assert value_at(POD, path) is value


def test_maps_and_lists_of_another_type_are_empty() -> None:
    assert mapping_at(POD, ("metadata", "labels")) is POD["metadata"]["labels"]
    assert mapping_at(POD, ("spec", "containers")) == {}
    assert mapping_at(POD, ("metadata", "annotations")) == {}
    assert list_at(POD, ("spec", "tolerations")) is POD["spec"]["tolerations"]
    assert list_at(POD, ("metadata", "labels")) == []
    assert list_at(None, ("spec",)) == []


# path, how it is identified, how a message shows it
PATHS: dict[str, tuple[Path, tuple[str | int, ...], str]] = {
    "the whole": ((), (), ""),
    "plain keys": (("spec", "priority"), ("spec", "priority"), "spec.priority"),
    "a key with a slash": (
        ("metadata", "labels", "a.b/c"),
        ("metadata", "labels", "a.b/c"),
        'metadata.labels["a.b/c"]',
    ),
    "a container and its resource": (
        ("spec", "containers", 0, "resources", "limits", GPU),
        ("spec", "containers", "[trainer]", "resources", "limits", GPU),
        'spec.containers["trainer"].resources.limits["nvidia.com/gpu"]',
    ),
    "an item without a name": (
        ("spec", "containers", 1, "image"),
        ("spec", "containers", 1, "image"),
        "spec.containers[1].image",
    ),
    "a null item": (("spec", "containers", 2), ("spec", "containers", 2), "spec.containers[2]"),
    "a name of another type": (
        ("spec", "containers", 3, "x"),
        ("spec", "containers", 3, "x"),
        "spec.containers[3].x",
    ),
    "an empty name": (
        ("spec", "containers", 4),
        ("spec", "containers", "[]"),
        'spec.containers[""]',
    ),
    "one volume mounted twice, the first": (
        ("spec", "containers", 1, "volumeMounts", 0, "subPath"),
        ("spec", "containers", 1, "volumeMounts", "[/a]", "subPath"),
        'spec.containers[1].volumeMounts["/a"].subPath',
    ),
    "one volume mounted twice, the second": (
        ("spec", "containers", 1, "volumeMounts", 1, "subPath"),
        ("spec", "containers", 1, "volumeMounts", "[/b]", "subPath"),
        'spec.containers[1].volumeMounts["/b"].subPath',
    ),
    "a toleration": (
        ("spec", "tolerations", 0),
        ("spec", "tolerations", "[nvidia.com/gpu]"),
        'spec.tolerations["nvidia.com/gpu"]',
    ),
    "a toleration without a key": (
        ("spec", "tolerations", 1),
        ("spec", "tolerations", 1),
        "spec.tolerations[1]",
    ),
    "behind the end": (
        ("spec", "containers", 9, "env", 0),
        ("spec", "containers", 9, "env", 0),
        "spec.containers[9].env[0]",
    ),
}


@pytest.mark.parametrize(("path", "identity", "shown"), PATHS.values(), ids=PATHS)
def test_paths(path: Path, identity: tuple[str | int, ...], shown: str) -> None:
    assert identify(POD, path) == identity
    assert format_field(POD, path) == shown


def test_a_field_is_identified_alike_wherever_it_stands() -> None:
    first = {"c": [{"name": "a"}, {"name": "b"}]}
    second = {"c": [{"name": "b"}, {"name": "a"}]}
    assert identify(first, ("c", 0, "image")) == identify(second, ("c", 1, "image"))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param(("spec", "nodeName"), None, id="absent"),
        pytest.param(("spec", 0), None, id="an index of a map"),
        pytest.param(("spec", "priority"), 0, id="there"),
    ],
)
def test_a_read_only_view_of_a_map_is_a_map(path: Path, found: Any) -> None:
    assert value_at(MappingProxyType({"spec": MappingProxyType({"priority": 0})}), path) is found


def test_a_map_key_is_not_an_index() -> None:
    assert identify({"spec": {"0": {}}}, ("spec", "0")) != identify({"spec": [{}]}, ("spec", 0))
