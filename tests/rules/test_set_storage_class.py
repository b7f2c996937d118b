"""setStorageClass: claims that keep what they have first, then which class is set, and what is said."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.rules.reviewing import (
    NAMESPACE,
    Json,
    container,
    gate_of,
    judged,
    load_problems,
    managed,
    mutated,
    places,
    pod,
    policy,
    report,
    said,
    texts,
    without_record,
)
from webhook.engine import Gate
from webhook.rules.base import Result

RBD, CEPHFS = "rook-ceph.rbd.csi.ceph.com", "rook-ceph.cephfs.csi.ceph.com"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
CLASS = ("spec", "storageClassName")
RULE: Json = {
    "byIOPattern": {"sequential": "fs-ec", "random": "block-nvme"},
    "byAccessMode": {"ReadWriteOnce": "block", "ReadWriteMany": "fs"},
    "default": "plain",
}


def storage_class(name: str, provisioner: str, *, default: bool = False, mark: str = DEFAULT) -> Json:
    annotations = {mark: "true"} if default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": provisioner,
    }


CLASSES = (
    storage_class("block", RBD),
    storage_class("block-nvme", RBD),
    storage_class("fs", CEPHFS),
    storage_class("fs-ec", CEPHFS),
    storage_class("plain", RBD),
    storage_class("local-path", "rancher.io/local-path"),
)
STANDARD = storage_class("standard", "x", default=True)


def storage_gate(*facts: Json, classes: tuple[Json, ...] = CLASSES, **rule: Any) -> Gate:
    return gate_of(policy({"setStorageClass": {**RULE, **rule}}), facts=(*classes, *facts))


NO_FACTS = gate_of(policy({"setStorageClass": RULE}))


def claim(
    *modes: str,
    annotations: Mapping[str, str] | None = None,
    wrote: tuple[tuple[str, ...], ...] = (),
    **spec: Any,
) -> Json:
    metadata: Json = {
        "name": "p",
        "namespace": NAMESPACE,
        "managedFields": managed(("spec", "accessModes"), *wrote),
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    body = {"accessModes": list(modes or ("ReadWriteOnce",)), **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": body}


def chosen(name: str, *modes: str) -> Json:
    return claim(*modes, wrote=(CLASS,), storageClassName=name)


def attributes_class(driver: str) -> Json:
    return {"kind": "VolumeAttributesClass", "metadata": {"name": "gold"}, "driverName": driver}


def source_claim(storage: str | None, namespace: str = NAMESPACE) -> Json:
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "origin", "namespace": namespace},
        "spec": {"storageClassName": storage},
    }


FROM_CLAIM = {"kind": "PersistentVolumeClaim", "name": "origin"}
FROM_SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}


def accessor(*allowed: str) -> Json:
    rule = {"fieldExpressions": [{"field": "Name", "operator": "In", "values": list(allowed)}]}
    return {
        "kind": "Accessor",
        "metadata": {"name": "block-accessor"},
        "spec": {"storageClassName": "block", "namespaceSelector": {"fieldSelector": [rule]}},
    }


KEPT: Mapping[str, tuple[Gate, Json, str]] = {
    "a chosen class": (
        storage_gate(),
        chosen("local-path"),
        "kept: storage class local-path was chosen and stays -> nothing: a class that somebody chose is respected",
    ),
    "a chosen class that is the default": (
        storage_gate(STANDARD),
        chosen("standard"),
        "kept: storage class standard was chosen and stays -> nothing: a class that somebody chose is respected",
    ),
    "the whole spec was written at once": (
        storage_gate(STANDARD),
        claim(storageClassName="standard") | {"metadata": {"name": "p", "managedFields": managed(("spec",))}},
        "kept: storage class standard was chosen and stays -> nothing: a class that somebody chose is respected",
    ),
    "a class that another webhook wrote, not the default": (
        storage_gate(STANDARD),
        claim(storageClassName="local-path"),
        "kept: storage class local-path was chosen and stays -> nothing: a class that somebody chose is respected",
    ),
    "the default is there, without managedFields": (
        storage_gate(STANDARD),
        {**claim(storageClassName="standard"), "metadata": {"name": "p"}},
        "kept: storage class standard was chosen and stays -> nothing: a class that somebody chose is respected",
    ),
    "the default is there, and never is replaced": (
        storage_gate(STANDARD, replace="never"),
        claim(storageClassName="standard"),
        "kept: storage class standard was chosen and stays -> nothing: a class that somebody chose is respected",
    ),
    "a chosen class, whatever the facts": (
        NO_FACTS,
        chosen("local-path"),
        "kept: storage class local-path was chosen and stays -> nothing: a class that somebody chose is respected",
    ),
    "a chosen class, though the wanted one is gone": (
        storage_gate(classes=(STANDARD,)),
        chosen("local-path"),
        "kept: storage class local-path was chosen and stays -> nothing: a class that somebody chose is respected",
    ),
    "no class is wanted": (
        storage_gate(),
        claim(storageClassName=""),
        (
            'no class wanted: storageClassName "" asks for a volume without a class, and stays'
            " -> nothing, or remove the field if podgate shall choose the class"
        ),
    ),
    "no class is wanted, and always replaces": (
        storage_gate(replace="always"),
        claim(storageClassName=""),
        (
            'no class wanted: storageClassName "" asks for a volume without a class, and stays'
            " -> nothing, or remove the field if podgate shall choose the class"
        ),
    ),
    "the legacy annotation": (
        storage_gate(),
        claim(annotations={"volume.beta.kubernetes.io/storage-class": "old"}),
        (
            "annotated: annotation volume.beta.kubernetes.io/storage-class names the class, so none is set"
            " -> nothing, or remove the annotation if podgate shall choose the class"
        ),
    ),
    "the legacy annotation, empty": (
        storage_gate(),
        claim(annotations={"volume.beta.kubernetes.io/storage-class": ""}),
        (
            "annotated: annotation volume.beta.kubernetes.io/storage-class names the class, so none is set"
            " -> nothing, or remove the annotation if podgate shall choose the class"
        ),
    ),
    "a volume": (
        storage_gate(),
        claim(volumeName="pv-7"),
        (
            "own volume: spec.volumeName chooses an existing volume, so no storage class is set"
            " -> nothing, or remove spec.volumeName if podgate shall choose the class"
        ),
    ),
    "a selector": (
        storage_gate(),
        claim(selector={"matchLabels": {"a": "b"}}),
        (
            "own volume: spec.selector chooses an existing volume, so no storage class is set"
            " -> nothing, or remove spec.selector if podgate shall choose the class"
        ),
    ),
    "an empty selector": (
        storage_gate(),
        claim(selector={}),
        (
            "own volume: spec.selector chooses an existing volume, so no storage class is set"
            " -> nothing, or remove spec.selector if podgate shall choose the class"
        ),
    ),
    "attributes of another driver": (
        storage_gate(attributes_class("ebs.csi.aws.com")),
        claim(volumeAttributesClassName="gold"),
        (
            "other attributes: volumeAttributesClassName gold is not known to be of the driver of block, so no storage class"
            " is set -> name the storage class yourself, or give podgate the VolumeAttributesClass and the StorageClass"
        ),
    ),
    "attributes of which nothing is known": (
        storage_gate(),
        claim(volumeAttributesClassName="gold"),
        (
            "other attributes: volumeAttributesClassName gold is not known to be of the driver of block, so no storage class"
            " is set -> name the storage class yourself, or give podgate the VolumeAttributesClass and the StorageClass"
        ),
    ),
    "a snapshot": (
        storage_gate(),
        claim(dataSource=FROM_SNAPSHOT),
        (
            "other source: the data source VolumeSnapshot snap is not known to be of the driver of block, so no storage class"
            " is set -> name the storage class yourself, or give podgate the claim and the StorageClass"
        ),
    ),
    "a claim of another driver": (
        storage_gate(source_claim("local-path")),
        claim(dataSourceRef=FROM_CLAIM),
        (
            "other source: the data source PersistentVolumeClaim origin is not known to be of the driver of block, so no"
            " storage class is set -> name the storage class yourself, or give podgate the claim and the StorageClass"
        ),
    ),
    "a claim without a class": (
        storage_gate(source_claim(None)),
        claim(dataSource=FROM_CLAIM),
        (
            "other source: the data source PersistentVolumeClaim origin is not known to be of the driver of block, so no"
            " storage class is set -> name the storage class yourself, or give podgate the claim and the StorageClass"
        ),
    ),
    "a claim of that name elsewhere": (
        storage_gate(source_claim("block", "elsewhere")),
        claim(dataSource=FROM_CLAIM),
        (
            "other source: the data source PersistentVolumeClaim origin is not known to be of the driver of block, so no"
            " storage class is set -> name the storage class yourself, or give podgate the claim and the StorageClass"
        ),
    ),
    "a block volume, and CephFS": (
        storage_gate(),
        claim("ReadWriteMany", volumeMode="Block"),
        (
            "no block volumes: storage class fs is CephFS, which serves no block volumes, so it is not set"
            " -> choose a class of block devices, or volumeMode: Filesystem"
        ),
    ),
    "a file system for many nodes, and RBD": (
        storage_gate(),
        claim("ReadWriteMany", annotations={"podgate.dev/io-pattern": "random"}),
        (
            "no shared file systems: storage class block-nvme is Ceph RBD, whose file systems one node mounts, so it is not set"
            " -> choose a class of CephFS, or volumeMode: Block"
        ),
    ),
    "an accessor refuses": (
        storage_gate(accessor("team-b")),
        claim(),
        (
            f"refused: accessor block-accessor does not allow storage class block in namespace {NAMESPACE}, so it is not set"
            " -> allow the namespace in the accessor, or name another class"
        ),
    ),
    "no class for the mode": (
        gate_of(policy({"setStorageClass": {"byAccessMode": {"ReadWriteMany": "fs"}}}), facts=CLASSES),
        claim("ReadWriteOnce"),
        (
            "no class: the policy names no storage class for access mode ReadWriteOnce"
            " -> add ReadWriteOnce to byAccessMode, or a default"
        ),
    ),
    "no mode and no default": (
        gate_of(policy({"setStorageClass": {"byAccessMode": {"ReadWriteMany": "fs"}}}), facts=CLASSES),
        claim() | {"spec": {}},
        "no mode: the claim has no access mode by which to choose its storage class -> add spec.accessModes",
    ),
}


PLACES = {
    "the legacy annotation": 'metadata.annotations["volume.beta.kubernetes.io/storage-class"]',
    "the legacy annotation, empty": 'metadata.annotations["volume.beta.kubernetes.io/storage-class"]',
    "a volume": "spec.volumeName",
    "a selector": "spec.selector",
    "an empty selector": "spec.selector",
    "attributes of another driver": "spec.volumeAttributesClassName",
    "attributes of which nothing is known": "spec.volumeAttributesClassName",
    "a snapshot": "spec.dataSource",
    "a claim of another driver": "spec.dataSourceRef",
    "a claim without a class": "spec.dataSource",
    "a claim of that name elsewhere": "spec.dataSource",
    "no class for the mode": "spec.accessModes",
    "no mode and no default": "spec.accessModes",
}
"""Where a claim says what keeps its class; the others say it by the class."""


@pytest.mark.parametrize(
    ("gate", "thing", "place"),
    [(*KEPT[case][:2], PLACES.get(case, "spec.storageClassName")) for case in KEPT],
    ids=KEPT.keys(),
)
def test_what_keeps_a_class_is_pointed_to(gate: Gate, thing: Json, place: str) -> None:
    assert [found.partition(" @ ")[2] for found in places(mutated(gate, thing))] == [place]


@pytest.mark.parametrize(("gate", "thing", "expected"), KEPT.values(), ids=KEPT.keys())
def test_claims_that_keep_what_they_have(gate: Gate, thing: Json, expected: str) -> None:
    outcome = mutated(gate, thing)
    text, _, words = expected.partition(": ")
    assert outcome.patch == []
    assert (texts(outcome), said(outcome)) == ([text], [f"skip: {words}"])
    assert said(outcome, "zh")[0] != said(outcome)[0]
    assert judged(gate, thing).allowed


SET: Mapping[str, tuple[Gate, Json, str]] = {
    "absent": (storage_gate(), claim(), "block"),
    "null": (storage_gate(), claim(storageClassName=None), "block"),
    "an empty volumeName is none": (storage_gate(), claim(volumeName=""), "block"),
    "the default was filled in": (storage_gate(STANDARD), claim(storageClassName="standard"), "block"),
    "one of several defaults was filled in": (
        storage_gate(STANDARD, storage_class("older", "x", default=True)),
        claim(storageClassName="older"),
        "block",
    ),
    "a default by the beta annotation": (
        storage_gate(
            storage_class("old", "x", default=True, mark="storageclass.beta.kubernetes.io/is-default-class")
        ),
        claim(storageClassName="old"),
        "block",
    ),
    "chosen, and in the list": (storage_gate(replace=["local-path"]), chosen("local-path"), "block"),
    "chosen, and always replaces": (storage_gate(replace="always"), chosen("anything"), "block"),
    "many": (storage_gate(), claim("ReadWriteMany"), "fs"),
    "read-only many": (storage_gate(), claim("ReadOnlyMany"), "fs"),
    "one pod": (storage_gate(), claim("ReadWriteOncePod"), "block"),
    "the most demanding of several": (storage_gate(), claim("ReadWriteOnce", "ReadWriteMany"), "fs"),
    "read-only many beside once": (storage_gate(), claim("ReadWriteOnce", "ReadOnlyMany"), "fs"),
    "its own mode before the one that serves it": (
        storage_gate(byAccessMode={"ReadWriteOnce": "plain", "ReadWriteOncePod": "block"}),
        claim("ReadWriteOncePod"),
        "block",
    ),
    "no mode": (storage_gate(), claim() | {"spec": {"accessModes": None}}, "plain"),
    "a mode that nobody knows": (storage_gate(), claim("ReadWriteSometimes"), "plain"),
    "read sequentially": (
        storage_gate(),
        claim(annotations={"podgate.dev/io-pattern": "sequential"}),
        "fs-ec",
    ),
    "the pattern wins over the mode": (
        storage_gate(),
        claim("ReadWriteOnce", annotations={"podgate.dev/io-pattern": "sequential"}),
        "fs-ec",
    ),
    "a block volume for many nodes": (
        storage_gate(),
        claim("ReadWriteMany", annotations={"podgate.dev/io-pattern": "random"}, volumeMode="Block"),
        "block-nvme",
    ),
    "an unknown pattern is none": (
        storage_gate(),
        claim("ReadWriteMany", annotations={"podgate.dev/io-pattern": "odd"}),
        "fs",
    ),
    "a block volume on a block device": (storage_gate(), claim(volumeMode="Block"), "block"),
    "attributes of the same driver": (
        storage_gate(attributes_class(RBD)),
        claim(volumeAttributesClassName="gold"),
        "block",
    ),
    "a claim of the same driver": (
        storage_gate(source_claim("plain")),
        claim(dataSource=FROM_CLAIM),
        "block",
    ),
    "a claim of the same driver elsewhere": (
        storage_gate(source_claim("plain", "elsewhere")),
        claim(dataSourceRef={**FROM_CLAIM, "namespace": "elsewhere"}),
        "block",
    ),
    "an accessor allows": (storage_gate(accessor(NAMESPACE)), claim(), "block"),
}


@pytest.mark.parametrize(("gate", "thing", "expected"), SET.values(), ids=SET.keys())
def test_which_class_is_set(gate: Gate, thing: Json, expected: str) -> None:
    outcome = mutated(gate, thing)
    assert without_record(outcome.object) == {
        **thing,
        "spec": {**thing["spec"], "storageClassName": expected},
    }
    assert report(outcome).result is Result.PASS
    assert mutated(gate, outcome.object or {}).patch == [], "twice must be once"
    assert texts(judged(gate, outcome.object or {})) == []


def test_the_wanted_class_that_is_there_is_right_whatever_is_known() -> None:
    for gate in (NO_FACTS, storage_gate(accessor("team-b"))):
        outcome = mutated(gate, chosen("block"))
        assert (outcome.patch, texts(outcome)) == ([], [])


# What is known of the class.

MISSING = (
    "error: storage class block does not exist in the cluster"
    " -> create the StorageClass block, or correct the policy"
)
NOT_KNOWN = (
    "error: cannot be evaluated: no facts about the cluster were given"
    " -> give podgate these facts, or ask the platform team"
)
KNOWN: Mapping[str, tuple[Gate, Json, bool, str | None, list[str]]] = {
    "absent, at the API server": (storage_gate(classes=(STANDARD,)), claim(), True, None, [MISSING]),
    "absent, in a file": (storage_gate(classes=(STANDARD,)), claim(), False, None, [MISSING]),
    "not known, at the API server": (NO_FACTS, claim(), True, None, [NOT_KNOWN]),
    "not known, in a file": (NO_FACTS, claim(), False, "block", []),
    "not known, a block volume in a file": (NO_FACTS, claim(volumeMode="Block"), False, None, [NOT_KNOWN]),
    "known, in a file": (storage_gate(), claim(), False, "block", []),
}


@pytest.mark.parametrize(("gate", "thing", "served", "expected", "lines"), KNOWN.values(), ids=KNOWN.keys())
def test_what_is_known_of_the_class(
    gate: Gate, thing: Json, served: bool, expected: str | None, lines: list[str]
) -> None:
    outcome = mutated(gate, thing, from_api_server=served)
    assert ((outcome.object or {})["spec"].get("storageClassName"), said(outcome)) == (expected, lines)


def test_the_kind_of_fact_that_would_help_is_named() -> None:
    (finding,) = report(mutated(NO_FACTS, claim())).findings
    assert finding.needs == "StorageClass"


def test_a_class_that_is_missing_is_pointed_to() -> None:
    assert places(mutated(storage_gate(classes=CLASSES[4:]), claim())) == ["missing @ spec.storageClassName"]


# Generic ephemeral volumes.


def ephemeral(*templates: Json, annotations: Mapping[str, str] | None = None) -> Json:
    volumes = [
        {"name": f"v{index}", "ephemeral": {"volumeClaimTemplate": template}}
        for index, template in enumerate(templates)
    ]
    return pod(
        container(),
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "tmp", "emptyDir": {}},
            *volumes,
        ],
        metadata={"annotations": dict(annotations or {}), "managedFields": managed(("spec", "volumes"))},
    )


def template(*modes: str, **fields: Any) -> Json:
    metadata = fields.pop("metadata", None)
    return {
        **({"metadata": metadata} if metadata else {}),
        "spec": {"accessModes": list(modes or ("ReadWriteOnce",)), **fields},
    }


VOLUMES: Mapping[str, tuple[Json, list[str | None], list[str]]] = {
    "none": (ephemeral(), [], []),
    "one": (ephemeral(template()), ["block"], []),
    "two, by their modes": (ephemeral(template("ReadWriteMany"), template()), ["fs", "block"], []),
    "chosen": (ephemeral(template(storageClassName="local-path")), ["local-path"], ["kept"]),
    "the default is a choice here, for nobody fills it in": (
        ephemeral(template(storageClassName="standard")),
        ["standard"],
        ["kept"],
    ),
    "one chosen, one not": (ephemeral(template(storageClassName="x"), template()), ["x", "block"], ["kept"]),
    "no class is wanted": (ephemeral(template(storageClassName="")), [""], ["no class wanted"]),
    "the legacy annotation of the template": (
        ephemeral(template(metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}})),
        [None],
        ["annotated"],
    ),
    "the pod's pattern": (
        ephemeral(template(), annotations={"podgate.dev/io-pattern": "sequential"}),
        ["fs-ec"],
        [],
    ),
    "the template's pattern wins over the pod's": (
        ephemeral(
            template(metadata={"annotations": {"podgate.dev/io-pattern": "random"}}),
            annotations={"podgate.dev/io-pattern": "sequential"},
        ),
        ["block-nvme"],
        [],
    ),
    "a null template": (ephemeral() | {"spec": {"volumes": [{"name": "v", "ephemeral": None}]}}, [], []),
}


@pytest.mark.parametrize(("thing", "classes", "found"), VOLUMES.values(), ids=VOLUMES.keys())
def test_generic_ephemeral_volumes(thing: Json, classes: list[str | None], found: list[str]) -> None:
    gate = storage_gate(STANDARD)
    outcome = mutated(gate, thing)
    templates = [
        each["ephemeral"]["volumeClaimTemplate"]
        for each in (outcome.object or {})["spec"]["volumes"]
        if each.get("ephemeral")
    ]
    assert [each["spec"].get("storageClassName") for each in templates] == classes
    assert texts(outcome) == found
    assert mutated(gate, outcome.object or {}).patch == []


def test_a_finding_about_a_volume_points_into_it() -> None:
    assert places(mutated(storage_gate(), ephemeral(template(volumeName="pv")))) == [
        'own volume @ spec.volumes["v0"].ephemeral.volumeClaimTemplate.spec.volumeName'
    ]


def test_the_templates_of_a_stateful_set_are_never_written() -> None:
    thing = {"kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {"volumeClaimTemplates": [template()]}}
    assert mutated(storage_gate(), thing).patch == []


@pytest.mark.parametrize(
    "spec",
    [
        {"accessModes": "ReadWriteOnce"},
        {"accessModes": [{"a": 1}, 5, None]},
        {"dataSource": "x"},
        {"selector": 5},
    ],
    ids=["modes are text", "modes are anything", "a source that is text", "a selector that is a number"],
)
def test_wrong_types_raise_nothing(spec: Json) -> None:
    mutated(storage_gate(), claim() | {"spec": spec}, from_api_server=False)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "give at least one of byIOPattern, byAccessMode and default"),
        (
            {"byAccessMode": {"RWO": "a"}},
            "expected ReadWriteMany, ReadOnlyMany, ReadWriteOnce or ReadWriteOncePod, found 'RWO'",
        ),
        ({"default": ""}, "expected a text that is not empty, found ''"),
        ({"byAccessMode": {"ReadWriteOnce": ""}}, "expected a text that is not empty, found ''"),
    ],
    ids=["no class", "a short mode", "an empty default", "an empty class"],
)
def test_what_a_policy_may_not_say(rule: Json, message: str) -> None:
    (found,) = load_problems(policy({"setStorageClass": rule}))
    assert found.endswith(message)
