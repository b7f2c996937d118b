"""checkStorage: near misses first, then what is refused, with its exact words."""

from collections.abc import Mapping
from typing import Any

import pytest

from webhook.engine.texts import say
from webhook.facts import Facts
from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft
from webhook.kube.field_path import format_field
from webhook.policy import Loaded, load_policy_set
from webhook.rules.base import Finding, Received, Result, Subject
from webhook.rules.check_storage import LOCAL_PROVISIONERS, CheckStorage

ALL = {"refuse": ["hostPath", "emptyDirDisk", "localClass"]}
DATA = {**ALL, "forMounts": ["/data", "/checkpoints/"]}


def storage_class(name: str, provisioner: str, *, default: bool = False) -> dict[str, Any]:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    metadata = {"name": name, "annotations": annotations}
    return {"kind": "StorageClass", "metadata": metadata, "provisioner": provisioner}


def claim(name: str, class_name: str | None) -> dict[str, Any]:
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"storageClassName": class_name},
    }


CEPH = storage_class("ceph", "rook-ceph.cephfs.csi.ceph.com")
LOCAL = storage_class("local-path", "rancher.io/local-path")
CLAIMS = (claim("shared", "ceph"), claim("near", "local-path"), claim("odd", "gone"), claim("plain", None))
FACTS = (CEPH, LOCAL, *CLAIMS)


def pod(source: Mapping[str, Any], mount: str = "/data", role: str = "containers") -> dict[str, Any]:
    held = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": mount}]}
    return {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "other"}],
            role: [held],
            "volumes": [{"name": "w", "hostPath": {"path": "/w"}}, {"name": "v", **source}],
        },
    }


def host(path: str = "/mnt/disk") -> dict[str, Any]:
    return {"hostPath": {"path": path}}


def existing(name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}}


def ephemeral(class_name: str | None = None, **annotations: str) -> dict[str, Any]:
    spec = {} if class_name is None else {"storageClassName": class_name}
    return {"ephemeral": {"volumeClaimTemplate": {"metadata": {"annotations": annotations}, "spec": spec}}}


def findings(
    thing: dict[str, Any],
    parameters: Mapping[str, Any] = DATA,
    facts: tuple[Mapping[str, Any], ...] = FACTS,
) -> list[Finding]:
    request = AdmissionRequest(kind="Pod", resource="pods", namespace="team", object=thing)
    received = Received(request, Facts.from_objects(facts), (), shipped_catalogue())
    return list(CheckStorage.model_validate(parameters).validate_subject(Subject(received, Draft(thing))))


NEAR_MISSES = {
    "a longer name": pod(host(), "/database"),
    "beside it": pod(host(), "/data/../tmp"),
    "above it": pod(host(), "/"),
    "in memory": pod({"emptyDir": {"medium": "Memory"}}),
    "in huge pages": pod({"emptyDir": {"medium": "HugePages-2Mi"}}),
    "a shared claim": pod(existing("shared")),
    "a claim that does not exist yet": pod(existing("later")),
    "a claim of a class that does not exist": pod(existing("odd")),
    "a claim without a class": pod(existing("plain")),
    "an ephemeral volume of a shared class": pod(ephemeral("ceph")),
    "an ephemeral volume without a class": pod(ephemeral("")),
    "the old annotation wins": pod(
        ephemeral("local-path", **{"volume.beta.kubernetes.io/storage-class": "ceph"})
    ),
    "no default class": pod(ephemeral()),
    "configuration": pod({"configMap": {"name": "c"}}),
    "null": pod({"hostPath": None, "configMap": {"name": "c"}, "emptyDir": None}),
    "no mounts": {"kind": "Pod", "spec": {"volumes": [{"name": "v", **host()}], "containers": [{}]}},
    "wrong types": {
        "kind": "Pod",
        "spec": {
            "volumes": [3, {"name": ["v"]}, {"hostPath": "a"}, {"name": "v", "hostPath": "a", "emptyDir": 4}],
            "containers": [{"volumeMounts": [None, {"mountPath": "/data"}, {"name": "v", "mountPath": 4}]}],
        },
    },
}


@pytest.mark.parametrize("thing", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_a_pod_with_good_storage_passes(thing: dict[str, Any]) -> None:
    assert findings(thing) == []


HOST = (
    "/data of container main is the directory /mnt/disk of whichever node the pod lands on",
    "mount a PersistentVolumeClaim at /data in place of volume v",
)
DISK = (
    "/data of container main is an emptyDir on the node's disk, which is deleted with the pod",
    "mount a PersistentVolumeClaim at /data in place of volume v",
)
ONE_NODE = (
    (
        "/data of container main is of storage class local-path (rancher.io/local-path), whose volumes "
        "stay on one node"
    ),
    "use a storage class that every node can reach for volume v",
)
TEMPLATE = 'spec.volumes["v"].ephemeral.volumeClaimTemplate'
LEGACY = "volume.beta.kubernetes.io/storage-class"

REFUSED = {
    "hostPath": (pod(host()), 'spec.volumes["v"].hostPath.path', HOST),
    "in an init container": (
        pod(host(), role="initContainers"),
        'spec.volumes["v"].hostPath.path',
        HOST,
    ),
    "in an ephemeral container": (
        pod(host(), role="ephemeralContainers"),
        'spec.volumes["v"].hostPath.path',
        HOST,
    ),
    "emptyDir": (pod({"emptyDir": {}}), 'spec.volumes["v"].emptyDir', DISK),
    "emptyDir with a limit": (pod({"emptyDir": {"sizeLimit": "1Gi"}}), 'spec.volumes["v"].emptyDir', DISK),
    "no source is an emptyDir": (pod({}), 'spec.volumes["v"]', DISK),
    "a claim": (
        pod(existing("near")),
        'spec.volumes["v"].persistentVolumeClaim.claimName',
        ONE_NODE,
    ),
    "an ephemeral volume": (pod(ephemeral("local-path")), f"{TEMPLATE}.spec.storageClassName", ONE_NODE),
    "by the old annotation": (
        pod(ephemeral("ceph", **{LEGACY: "local-path"})),
        f'{TEMPLATE}.metadata.annotations["{LEGACY}"]',
        ONE_NODE,
    ),
}


@pytest.mark.parametrize(("thing", "field", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_and_why(thing: dict[str, Any], field: str, said: tuple[str, str]) -> None:
    (finding,) = findings(thing)
    rule = load("refuse: [hostPath]").policy_set.policies[0].rules[0]
    assert finding.result is Result.FAIL
    assert format_field(thing, finding.path) == field
    assert tuple(say(rule, finding, "en")) == said
    assert say(rule, finding, "zh").message != said[0]


MOUNTS = {
    "below": ("/data/a/b", ["hostPath"]),
    "the other path, as it was written": ("/checkpoints", ["hostPath"]),
    "written in another way": ("//data/./", ["hostPath"]),
    "a relative path": ("data", ["hostPath"]),
    "elsewhere": ("/tmp", []),
}


@pytest.mark.parametrize(("mount", "texts"), MOUNTS.values(), ids=MOUNTS.keys())
def test_mounts_are_compared_by_what_they_name(mount: str, texts: list[str]) -> None:
    assert [finding.text for finding in findings(pod(host(), mount))] == texts


def test_without_mounts_every_mount_counts() -> None:
    assert [finding.text for finding in findings(pod(host(), "/anywhere"), ALL)] == ["hostPath"]


def test_a_volume_is_reported_once() -> None:
    thing = pod(host())
    thing["spec"]["containers"] *= 2
    assert len(findings(thing)) == 1


ONLY = {
    "hostPath": (pod(host()), "emptyDirDisk"),
    "emptyDir": (pod({"emptyDir": {}}), "localClass"),
    "a local class": (pod(existing("near")), "hostPath"),
}


@pytest.mark.parametrize(("thing", "refusal"), ONLY.values(), ids=ONLY.keys())
def test_only_what_is_named_is_refused(thing: dict[str, Any], refusal: str) -> None:
    assert findings(thing, {"refuse": [refusal]}) == []


DEFAULTS = {
    "a local one": ((storage_class("std", "openebs.io/local", default=True), LOCAL), ["localClass"]),
    "a shared one": ((storage_class("std", "x", default=True), LOCAL), []),
    "two of them": (
        (storage_class("a", "openebs.io/local", default=True), storage_class("b", "x", default=True)),
        [],
    ),
}


@pytest.mark.parametrize(("facts", "texts"), DEFAULTS.values(), ids=DEFAULTS.keys())
def test_an_ephemeral_volume_without_a_class_gets_the_default(
    facts: tuple[dict[str, Any], ...], texts: list[str]
) -> None:
    assert [finding.text for finding in findings(pod(ephemeral()), facts=facts)] == texts


UNKNOWN = {
    "the claim": (pod(existing("near")), (LOCAL,), "PersistentVolumeClaim"),
    "the class of a claim": (pod(existing("near")), CLAIMS, "StorageClass"),
    "the class of an ephemeral volume": (pod(ephemeral("local-path")), (), "StorageClass"),
    "the default class": (pod(ephemeral()), (), "StorageClass"),
}


@pytest.mark.parametrize(("thing", "facts", "needs"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_what_is_not_known_is_an_error_where_it_matters(
    thing: dict[str, Any], facts: tuple[dict[str, Any], ...], needs: str
) -> None:
    (finding,) = findings(thing, facts=facts)
    assert (finding.result, finding.text, finding.needs) == (Result.ERROR, "unknown", needs)
    assert finding.path[:3] == ("spec", "volumes", 1)
    assert findings(thing, {"refuse": ["hostPath", "emptyDirDisk"]}, facts) == []


@pytest.mark.parametrize("name", ["", 5], ids=repr)
def test_what_names_no_class_needs_no_facts(name: Any) -> None:
    assert findings(pod(ephemeral(name)), facts=()) == []


@pytest.mark.parametrize("provisioner", sorted(LOCAL_PROVISIONERS))
def test_local_provisioners(provisioner: str) -> None:
    facts = (storage_class("c", provisioner),)
    assert [finding.text for finding in findings(pod(ephemeral("c")), facts=facts)] == ["localClass"]


def load(parameters: str) -> Loaded:
    policy = f"""
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: p
spec:
  match:
    all: true
  rules:
  - name: r
    checkStorage:
      {parameters}
"""
    return load_policy_set([("p.yaml", policy.encode())])


WHERE = "spec.rules[0].checkStorage"
LOAD_ERRORS = {
    "nothing to refuse": ("refuse: []", f"{WHERE}.refuse: expected at least one entry, found an empty list"),
    "another word": (
        "refuse: [emptyDir]",
        f"{WHERE}.refuse[0]: expected hostPath, emptyDirDisk or localClass, found 'emptyDir'",
    ),
    "no mounts": (
        "refuse: [hostPath]\n      forMounts: []",
        f"{WHERE}.forMounts: expected at least one entry, found an empty list",
    ),
    "a relative path": (
        "refuse: [hostPath]\n      forMounts: [data]",
        f"{WHERE}.forMounts[0]: expected an absolute path, found 'data'",
    ),
}


@pytest.mark.parametrize(("parameters", "message"), LOAD_ERRORS.values(), ids=LOAD_ERRORS.keys())
def test_what_is_refused_at_load(parameters: str, message: str) -> None:
    (problem,) = load(parameters).problems
    assert problem.message == message
