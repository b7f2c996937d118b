"""What is known of a cluster: a value, absent, or unknown with the reason; nothing that is given raises."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.facts import Facts, Namespace, NodeGroup, PriorityClass, StorageClass, Unknown

Json = dict[str, Any]

NO_FACTS = "no facts about the cluster were given"
ANY: Json = {"kind": "ConfigMap", "metadata": {"name": "x"}}


def thing(kind: str, name: str, *, namespace: str = "", **fields: Any) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return {"kind": kind, "metadata": metadata, **fields}


def facts(*objects: Json, security: str | None = None) -> Facts:
    return Facts.from_objects(objects, security)


TRAIN = thing("PriorityClass", "train", value=5)
LOW = thing("PriorityClass", "low", value=1, globalDefault=True, preemptionPolicy="Never")

# Unknown, absent, known.


@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        ("PriorityClass", lambda f: f.priority_class("a")),
        ("PriorityClass", lambda f: f.default_priority_class()),
        ("StorageClass", lambda f: f.storage_class("a")),
        ("StorageClass", lambda f: f.default_storage_classes()),
        ("VolumeAttributesClass", lambda f: f.volume_attributes_driver("a")),
        ("PersistentVolumeClaim", lambda f: f.claim_class("n", "a")),
        ("Node", lambda f: f.nodes()),
        ("Namespace", lambda f: f.namespace("a")),
        ("Namespace", lambda f: f.pod_security("a")),
        ("ResourceClaim", lambda f: f.device_classes("n", {"resourceClaimName": "a"})),
        ("ResourceClaimTemplate", lambda f: f.device_classes("n", {"resourceClaimTemplateName": "a"})),
    ],
)
def test_a_kind_of_which_nothing_was_given_is_unknown(kind: str, ask: Any) -> None:
    for known, why in ((Facts(), NO_FACTS), (facts(ANY), f"no {kind} is among the facts given")):
        answer = ask(known)
        assert (answer, answer.needs) == (Unknown(why), kind)


def test_a_kind_of_which_something_was_given_is_known() -> None:
    known = facts(TRAIN, thing("StorageClass", "fast", provisioner="p"))
    assert known.priority_class("train") == PriorityClass("train", 5, "PreemptLowerPriority", False)
    assert known.priority_class("other") is None
    assert known.default_priority_class() is None
    assert known.storage_class("fast") == StorageClass("fast", "p", False)
    assert known.storage_class("other") is None
    assert known.default_storage_classes() == ()


# Lists, as `kubectl get -o yaml` and the API print them.

LISTS: Mapping[str, Json] = {
    "a List": {"kind": "List", "apiVersion": "v1", "items": [TRAIN]},
    "a list of the kind": {"kind": "PriorityClassList", "items": [TRAIN]},
    "a list of the kind whose items say nothing of it": {
        "kind": "PriorityClassList",
        "items": [{k: v for k, v in TRAIN.items() if k != "kind"}],
    },
    "a list with rubbish": {"kind": "List", "items": [None, 5, "x", [], TRAIN]},
}


@pytest.mark.parametrize("given_list", LISTS.values(), ids=LISTS.keys())
def test_a_list_is_its_items(given_list: Json) -> None:
    known = facts(given_list).priority_class("train")
    assert isinstance(known, PriorityClass)
    assert known.value == 5


@pytest.mark.parametrize("items", [[], None], ids=["empty", "null"])
def test_an_empty_list_of_a_kind_is_known_to_be_empty(items: Any) -> None:
    known = facts({"kind": "PriorityClassList", "items": items}, {"kind": "NodeList", "items": items})
    assert known.priority_class("a") is None
    assert known.default_priority_class() is None
    assert known.nodes() == ()
    assert known.storage_class("a") == Unknown("no StorageClass is among the facts given")


def test_an_empty_list_of_no_kind_tells_nothing() -> None:
    assert isinstance(facts({"kind": "List", "items": []}).priority_class("a"), Unknown)


def test_another_group_may_have_a_kind_of_the_same_name() -> None:
    other = thing("PriorityClass", "train", apiVersion="scheduling.example.com/v1", value=9)
    assert isinstance(facts(other).priority_class("train"), Unknown)
    known = facts(other, {**TRAIN, "apiVersion": "scheduling.k8s.io/v1"}).priority_class("train")
    assert isinstance(known, PriorityClass)
    assert known.value == 5


# Priority classes.


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"value": -7}, (-7, "PreemptLowerPriority", False)),
        ({"value": 1, "preemptionPolicy": "Never"}, (1, "Never", False)),
        ({}, (0, "PreemptLowerPriority", False)),
        ({"value": "5"}, (0, "PreemptLowerPriority", False)),
        ({"value": True}, (0, "PreemptLowerPriority", False)),
        ({"globalDefault": "true"}, (0, "PreemptLowerPriority", False)),
        ({"globalDefault": True}, (0, "PreemptLowerPriority", True)),
    ],
)
def test_a_priority_class(fields: Json, expected: tuple[int, str, bool]) -> None:
    assert facts(thing("PriorityClass", "c", **fields)).priority_class("c") == PriorityClass("c", *expected)


def test_of_two_global_defaults_the_lowest_is_taken() -> None:
    high = thing("PriorityClass", "high", value=10, globalDefault=True)
    for order in ((high, LOW), (LOW, high)):
        assert facts(*order).default_priority_class() == PriorityClass("low", 1, "Never", True)


# Storage.


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"storageclass.kubernetes.io/is-default-class": "true"}, True),
        ({"storageclass.beta.kubernetes.io/is-default-class": "true"}, True),
        ({"storageclass.kubernetes.io/is-default-class": "false"}, False),
        ({"storageclass.kubernetes.io/is-default-class": True}, False),
        (None, False),
        ("x", False),
    ],
)
def test_a_default_storage_class(annotations: Any, expected: bool) -> None:
    known = facts(thing("StorageClass", "c", metadata={"annotations": annotations}))
    assert [each.name for each in known.default_storage_classes()] == (["c"] if expected else [])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("provisioner", "expected"),
    [
        ("rook-ceph.cephfs.csi.ceph.com", True),
        ("cephfs.csi.ceph.com", True),
        ("rook-ceph.rbd.csi.ceph.com", False),
        ("notcephfs.csi.ceph.com", False),
        ("cephfs.csi.ceph.com.example.org", False),
    ],
)
def test_cephfs_is_told_by_its_driver(provisioner: str, expected: bool) -> None:
    assert StorageClass("c", provisioner, False).is_cephfs is expected


@pytest.mark.parametrize(
    ("provisioner", "expected"),
    [
        ("rook-ceph.rbd.csi.ceph.com", True),
        ("rbd.csi.ceph.com", True),
        ("rook-ceph.cephfs.csi.ceph.com", False),
        ("ardbd.csi.ceph.com", False),
    ],
)
def test_ceph_block_devices_are_told_by_their_driver(provisioner: str, expected: bool) -> None:
    assert StorageClass("c", provisioner, False).is_rbd is expected


def test_a_claim_and_attributes() -> None:
    known = facts(
        thing("PersistentVolumeClaim", "c", namespace="n", spec={"storageClassName": "fast"}),
        thing("PersistentVolumeClaim", "bare", namespace="n"),
        thing("VolumeAttributesClass", "gold", driverName="d"),
    )
    assert [known.claim_class("n", name) for name in ("c", "bare", "other")] == ["fast", "", None]
    assert known.claim_class("elsewhere", "c") is None
    assert [known.volume_attributes_driver(name) for name in ("gold", "other")] == ["d", None]


# Namespaces.


def test_a_namespace() -> None:
    labels = {"kubesphere.io/workspace": "research", "n": 5}
    known = facts(thing("Namespace", "a", metadata={"labels": labels, "annotations": {"x": "y"}}))
    found = known.namespace("a")
    assert found == Namespace("a", {"kubesphere.io/workspace": "research"}, {"x": "y"})
    assert isinstance(found, Namespace)
    assert found.workspace == "research"


def test_a_namespace_that_was_not_given_is_unknown_for_the_request_shows_that_it_exists() -> None:
    answer = facts(thing("Namespace", "a")).namespace("b")
    assert answer == Unknown("namespace b is not among the facts given")
    assert isinstance(answer, Unknown)
    assert answer.needs == "Namespace"


LABEL = "pod-security.kubernetes.io/enforce"


@pytest.mark.parametrize(
    ("labels", "default", "expected"),
    [
        ({LABEL: "baseline"}, None, "baseline"),
        ({LABEL: "baseline"}, "privileged", "baseline"),
        ({}, "privileged", "privileged"),
        ({LABEL: ""}, "restricted", "restricted"),
        ({}, None, Unknown(f"namespace a has no label {LABEL}, and the cluster's default was not given")),
    ],
)
def test_pod_security(labels: Json, default: str | None, expected: str | Unknown) -> None:
    known = facts(thing("Namespace", "a", metadata={"labels": labels}), security=default)
    assert known.pod_security("a") == expected


def test_the_cluster_s_default_level_does_not_stand_for_a_namespace_that_is_not_known() -> None:
    assert facts(security="privileged").pod_security("a") == Unknown(NO_FACTS)


# Nodes.


def test_nodes() -> None:
    known = facts(
        thing(
            "Node",
            "n1",
            metadata={"labels": {"a": "b"}},
            spec={"taints": [{"key": "t", "effect": "NoSchedule"}, None]},
            status={
                "allocatable": {"nvidia.com/gpu": "8", "cpu": "7500m", "bad": "x"},
                "capacity": {"cpu": "8"},
            },
        ),
        thing("Node", "cordoned", spec={"unschedulable": True}),
        thing("Node", "bare"),
    )
    nodes = known.nodes()
    assert isinstance(nodes, tuple)
    assert nodes[1] == NodeGroup({}, {}, ())
    assert len(nodes) == 2
    assert (nodes[0].labels, dict(nodes[0].allocatable)["nvidia.com/gpu"]) == ({"a": "b"}, 8)
    assert "bad" not in nodes[0].allocatable
    assert nodes[0].taints == ({"key": "t", "effect": "NoSchedule"},)


# Device classes of claims.

REQUESTS: Mapping[str, tuple[Any, tuple[str, ...]]] = {
    "v1beta1": ([{"name": "r", "deviceClassName": "gpu.nvidia.com"}], ("gpu.nvidia.com",)),
    "v1 and v1beta2": (
        [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
        ("gpu.nvidia.com",),
    ),
    "alternatives, v1 and v1beta2": (
        [{"name": "r", "firstAvailable": [{"deviceClassName": "a"}, {"deviceClassName": "b"}]}],
        ("a", "b"),
    ),
    "several": (
        [
            {"deviceClassName": "a"},
            {"exactly": {"deviceClassName": "b"}},
            {"exactly": {"deviceClassName": None}},
        ],
        ("a", "b"),
    ),
    "none": ([], ()),
    "rubbish": ([None, 5, {"exactly": "x", "firstAvailable": {"a": 1}}], ()),
}


@pytest.mark.parametrize(("requests", "expected"), REQUESTS.values(), ids=REQUESTS.keys())
def test_the_device_classes_of_a_claim_and_of_a_template(requests: Any, expected: tuple[str, ...]) -> None:
    spec = {"devices": {"requests": requests}}
    known = facts(
        thing("ResourceClaim", "c", namespace="n", spec=spec),
        thing("ResourceClaimTemplate", "t", namespace="n", spec={"spec": spec}),
    )
    assert known.device_classes("n", {"name": "x", "resourceClaimName": "c"}) == expected
    assert known.device_classes("n", {"name": "x", "resourceClaimTemplateName": "t"}) == expected


def test_a_claim_that_was_not_given_is_unknown() -> None:
    known = facts(thing("ResourceClaim", "c", namespace="n"))
    answer = known.device_classes("other", {"resourceClaimName": "c"})
    assert answer == Unknown("ResourceClaim other/c is not among the facts")
    assert isinstance(known.device_classes("n", {"resourceClaimTemplateName": "c"}), Unknown)
    assert isinstance(known.device_classes("n", {}), Unknown)


# Accessors.


def accessor(namespaces: Any = None, labels: Any = None, workspaces: Any = None, name: str = "acc") -> Json:
    return thing(
        "Accessor",
        name,
        spec={
            "storageClassName": "fast",
            "namespaceSelector": {"fieldSelector": namespaces, "labelSelector": labels},
            "workspaceSelector": {"fieldSelector": workspaces},
        },
    )


def by(*expressions: tuple[str, str, list[str]], key: str = "field") -> Json:
    named = "fieldExpressions" if key == "field" else "matchExpressions"
    return {
        named: [
            {key: field, "operator": operator, "values": values} for field, operator, values in expressions
        ]
    }


ACCESSORS: Mapping[str, tuple[Json, bool]] = {
    "no rules": (accessor(), False),
    "another class": ({**accessor([by(("Name", "In", ["b"]))]), "spec": {"storageClassName": "slow"}}, False),
    "named": (accessor([by(("Name", "In", ["a", "b"]))]), False),
    "not named": (accessor([by(("Name", "In", ["b"]))]), True),
    "shut out": (accessor([by(("Name", "NotIn", ["a"]))]), True),
    "another is shut out": (accessor([by(("Name", "NotIn", ["b"]))]), False),
    "one rule of two lets it in": (accessor([by(("Name", "In", ["b"])), by(("Name", "In", ["a"]))]), False),
    "both expressions of a rule must": (
        accessor([by(("Name", "In", ["a"]), ("Name", "NotIn", ["a"]))]),
        True,
    ),
    "active": (accessor([by(("Status", "In", ["Active"]))]), False),
    "terminating only": (accessor([by(("Status", "In", ["Terminating"]))]), True),
    "a field that nobody knows": (accessor([by(("Color", "In", ["red"]))]), False),
    "an operator that nobody knows": (accessor([by(("Name", "Like", ["b"]))]), False),
    "its label": (accessor(None, [by(("tier", "In", ["gold"]), key="key")]), False),
    "another label": (accessor(None, [by(("tier", "In", ["iron"]), key="key")]), True),
    "a label that it has not": (accessor(None, [by(("zone", "In", ["x"]), key="key")]), True),
    "a label without values": (accessor(None, [by(("zone", "In", []), key="key")]), False),
    "its name, but not its label": (
        accessor([by(("Name", "In", ["a"]))], [by(("tier", "NotIn", ["gold"]), key="key")]),
        True,
    ),
    "its workspace": (accessor(workspaces=[by(("Name", "In", ["research"]))]), False),
    "another workspace": (accessor(workspaces=[by(("Name", "In", ["vision"]))]), True),
}
LABELLED = thing(
    "Namespace", "a", metadata={"labels": {"tier": "gold", "kubesphere.io/workspace": "research"}}
)


@pytest.mark.parametrize(("given_accessor", "refused"), ACCESSORS.values(), ids=ACCESSORS.keys())
def test_what_an_accessor_refuses(given_accessor: Json, refused: bool) -> None:
    assert facts(given_accessor, LABELLED).accessor_refusal("fast", "a") == ("acc" if refused else "")


def test_what_is_not_known_of_a_namespace_is_no_refusal() -> None:
    other = facts(accessor(None, [by(("tier", "In", ["iron"]), key="key")]))
    assert other.accessor_refusal("fast", "a") == ""
    outside = facts(accessor(workspaces=[by(("Name", "In", ["vision"]))]), thing("Namespace", "a"))
    assert outside.accessor_refusal("fast", "a") == ""
    assert Facts().accessor_refusal("fast", "a") == ""


def test_one_accessor_of_several_is_enough() -> None:
    both = facts(accessor(), accessor([by(("Name", "In", ["b"]))], name="strict"), LABELLED)
    assert both.accessor_refusal("fast", "a") == "strict"


# Anything at all.

KINDS = st.sampled_from(
    [
        "Namespace",
        "PriorityClass",
        "StorageClass",
        "Node",
        "PersistentVolumeClaim",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "Accessor",
        "VolumeAttributesClass",
        "List",
        "NodeList",
        "AccessorList",
    ]
)
KEYS = st.sampled_from(
    [
        "kind",
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "spec",
        "status",
        "allocatable",
        "taints",
        "items",
        "value",
        "globalDefault",
        "preemptionPolicy",
        "provisioner",
        "devices",
        "requests",
        "exactly",
        "firstAvailable",
        "deviceClassName",
        "storageClassName",
        "namespaceSelector",
        "fieldSelector",
        "labelSelector",
        "workspaceSelector",
        "fieldExpressions",
        "matchExpressions",
        "field",
        "key",
        "operator",
        "values",
        "driverName",
        "unschedulable",
        "apiVersion",
        "a",
    ]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["a", "fast", "In"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.builds(
    lambda kind, body: {**body, "kind": kind}, KINDS | JSON, st.dictionaries(KEYS, JSON, max_size=5)
)


@given(st.lists(OBJECTS, max_size=4), st.dictionaries(KEYS, JSON, max_size=3))
def test_no_object_makes_a_question_raise(objects: list[Json], claim: Json) -> None:
    known = facts(*objects)
    for name in ("a", "fast", ""):
        known.namespace(name)
        known.pod_security(name)
        known.priority_class(name)
        known.storage_class(name)
        known.volume_attributes_driver(name)
        known.claim_class(name, "a")
        known.accessor_refusal("fast", name)
        known.device_classes(name, {"resourceClaimName": "a"})
        known.device_classes(name, claim)
    known.default_priority_class()
    known.default_storage_classes()
    known.nodes()


@given(
    st.sampled_from(["Namespace", "PriorityClass", "StorageClass", "Node", "ResourceClaim", "Accessor"]),
    JSON,
    JSON,
)
def test_no_spec_of_a_named_object_raises(kind: str, spec: Any, rest: Any) -> None:
    known = facts(
        {
            "kind": kind,
            "metadata": {"name": "a", "labels": rest, "annotations": rest},
            "spec": spec,
            "status": rest,
        },
        {"kind": kind, "metadata": {"name": "a", "namespace": "n"}, "spec": spec, "value": rest},
        {
            "kind": "Accessor",
            "metadata": {"name": "x"},
            "spec": {"storageClassName": "fast", "namespaceSelector": spec},
        },
    )
    for answer in (
        known.namespace("a"),
        known.priority_class("a"),
        known.default_priority_class(),
        known.storage_class("a"),
        known.default_storage_classes(),
        known.nodes(),
        known.device_classes("n", {"resourceClaimName": "a"}),
        known.accessor_refusal("fast", "a"),
        known.pod_security("a"),
    ):
        assert answer is None or answer is not NotImplemented
