"""Storage classes: what claims end with, however they are made, and that old claims and re-applied files stay free."""

from __future__ import annotations

from itertools import product, starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.e2e.client import Json, path_of, path_to
from tests.e2e.cluster import ALICE
from tests.e2e.neighbour import neighbour
from tests.e2e.podgate import SHIPPED, write_policies
from tests.e2e.registration import patient
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import IMAGE, container, pod, template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.e2e.cluster import Cluster
    from tests.e2e.podgate import Podgate

BLOCK, FILES = "ceph-block", "ceph-filesystem"
STANDARD = "standard"
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
LEGACY = "volume.beta.kubernetes.io/storage-class"
DEPRECATED = f"""\
Warning: metadata.annotations[{LEGACY}]: deprecated since v1.8; use "storageClassName" attribute instead
"""
ONE, MANY = "ReadWriteOnce", "ReadWriteMany"
CONTROLLER_SECONDS = 30
"""Controllers wait some seconds after a fault before they try again."""


def claim_spec(mode: str = ONE, size: str = "1Gi", **spec: Any) -> Json:
    return {"accessModes": [mode], "resources": {"requests": {"storage": size}}} | spec


def claim(
    name: str, namespace: str, mode: str = ONE, *, annotations: dict[str, str] | None = None, **spec: Any
) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
        "spec": claim_spec(mode, **spec),
    }


def class_of(cluster: Cluster, namespace: str, name: str) -> str | None:
    found: str | None = cluster.admin.read("PersistentVolumeClaim", namespace, name)["spec"].get(
        "storageClassName"
    )
    return found


def storage_class(*, default: bool) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STANDARD, "annotations": {IS_DEFAULT: str(default).lower()}},
        "provisioner": "disk.example.com",
        "allowVolumeExpansion": True,
    }


def filled_in(cluster: Cluster) -> str | None:
    """The class that the API server's own plugin gives a claim."""
    probe = cluster.admin.create(claim("probe", "default"), dryRun="All")
    found: str | None = probe["spec"].get("storageClassName")
    return found


def wait_for_default(cluster: Cluster, name: str | None) -> None:
    wait_for(lambda: filled_in(cluster) == name, f"claims without a class get {name}")


@pytest.fixture
def standard(cluster: Cluster) -> None:
    """A class that is not the default."""
    cluster.admin.replace(storage_class(default=False))


@pytest.fixture
def default_standard_later(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """Make the default class when it is called; asked for before podgate, so that the class goes after it."""

    def make() -> None:
        cluster.admin.replace(storage_class(default=True))

    yield make
    cluster.admin.delete(path_of("StorageClass", name=STANDARD))
    wait_for_default(cluster, None)


@pytest.fixture
def default_standard(cluster: Cluster, default_standard_later: Callable[[], None]) -> None:
    """A default class."""
    default_standard_later()
    wait_for_default(cluster, STANDARD)


class Case(NamedTuple):
    """A claim as its author writes it, and the class that it ends with."""

    expected: str | None
    spec: Json
    annotations: dict[str, str] = {}


CASES: Mapping[str, Case] = {
    "used-by-one": Case(BLOCK, claim_spec(ONE)),
    "used-by-many": Case(FILES, claim_spec(MANY)),
    "a-block-device": Case(BLOCK, claim_spec(ONE, volumeMode="Block")),
    "read-sequentially": Case(FILES, claim_spec(ONE), {"podgate.dev/io-pattern": "sequential"}),
    "an-explicit-class": Case(STANDARD, claim_spec(ONE, storageClassName=STANDARD)),
    "the-very-class": Case(BLOCK, claim_spec(ONE, storageClassName=BLOCK)),
    "a-class-for-one-used-by-many": Case(BLOCK, claim_spec(MANY, storageClassName=BLOCK)),
    "no-class-in-so-many-words": Case("", claim_spec(ONE, storageClassName="")),
    "the-class-in-the-old-annotation": Case(None, claim_spec(ONE), {LEGACY: STANDARD}),
}
BY_HAND: Mapping[str, Case] = {
    "a-volume-of-its-own": Case(None, claim_spec(ONE, volumeName="vol-1")),
    "a-selector": Case(None, claim_spec(ONE, selector={"matchLabels": {"disk": "fast"}})),
    "shared-block-devices": Case(None, claim_spec(MANY, volumeMode="Block")),
}
"""What podgate leaves to Kubernetes: then the default class is filled in where there is one."""

WAYS: Mapping[str, tuple[str, ...]] = {
    "create": ("create",),
    "apply": ("apply",),
    "server-side": ("apply", "--server-side"),
}


def classes_of_claims(cluster: Cluster, namespace: str, cases: Mapping[str, Case]) -> dict[str, str | None]:
    """Make every claim in every way, and read what is stored."""
    for (name, case), (way, words) in product(cases.items(), WAYS.items()):
        thing = claim(f"{name}-{way}", namespace, annotations=case.annotations) | {"spec": case.spec}
        ran = cluster.kubectl(*words, "-f", "-", stdin=thing, user=ALICE)
        assert (ran.code, ran.err) == (0, DEPRECATED if LEGACY in case.annotations else "")
    return {
        each["metadata"]["name"]: each["spec"].get("storageClassName")
        for each in cluster.admin.items("PersistentVolumeClaim", namespace)
    }


def expected_of(cases: Mapping[str, Case], **other: str) -> dict[str, str | None]:
    return {
        f"{name}-{way}": other.get("default", case.expected) for name, case in cases.items() for way in WAYS
    }


@pytest.mark.usefixtures("standard", "patient_podgate")
def test_claims_where_the_cluster_has_no_default_class(cluster: Cluster, namespace: str) -> None:
    cases = {**CASES, **BY_HAND}
    assert classes_of_claims(cluster, namespace, cases) == expected_of(cases)


@pytest.mark.usefixtures("default_standard", "patient_podgate")
def test_claims_where_the_cluster_has_a_default_class(cluster: Cluster, namespace: str) -> None:
    found = classes_of_claims(cluster, namespace, {**CASES, **BY_HAND})
    assert found == expected_of(CASES) | expected_of(BY_HAND, default=STANDARD)


REPLACES: Mapping[str, Any] = {
    "defaulted": "defaulted",
    "never": "never",
    "always": "always",
    "list": [STANDARD],
}


def policy(name: str, replace: Any) -> Json:
    return {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicy",
        "metadata": {"name": name},
        "spec": {
            "mode": "enforce",
            "match": {"objectSelector": {"matchLabels": {"replace": name}}},
            "rules": [{"name": "class", "setStorageClass": {"default": BLOCK, "replace": replace}}],
        },
    }


@pytest.mark.usefixtures("default_standard")
@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        pytest.param({}, [BLOCK, STANDARD, BLOCK, BLOCK], id="the default class, filled in"),
        pytest.param(
            {"storageClassName": STANDARD}, [STANDARD, STANDARD, BLOCK, BLOCK], id="the default class, chosen"
        ),
        pytest.param({"storageClassName": FILES}, [FILES, FILES, BLOCK, FILES], id="another class"),
        pytest.param({"storageClassName": ""}, ["", "", "", ""], id="no class"),
    ],
)
def test_what_each_replace_overwrites(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
    chosen: Json,
    expected: list[str],
) -> None:
    register(
        start_podgate((write_policies(tmp_path / "policies", *starmap(policy, REPLACES.items())),)),
        change=patient,
    )
    for name in REPLACES:
        thing = claim(name, namespace, **chosen)
        thing["metadata"]["labels"] = {"replace": name}
        cluster.client(ALICE).create(thing)
    assert [class_of(cluster, namespace, name) for name in REPLACES] == expected


def add_the_label(thing: Json) -> list[Json]:
    """What another webhook knows of a claim."""
    return [{"op": "add", "path": "/metadata/labels", "value": {"replace": "always"}}]


def test_who_writes_our_annotations_on_a_claim_himself_keeps_nothing_from_us(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
) -> None:
    """No policy matches before another webhook adds the label, and the late entry is not called for what carries a record."""
    register(
        start_podgate((write_policies(tmp_path / "policies", policy("always", "always")),)), change=patient
    )
    forged = {"podgate.dev/policies": "0123456789ab", "own": "z"}
    with neighbour(cluster, tmp_path / "later", add_the_label, resource="persistentvolumeclaims"):
        cluster.client(ALICE).create(claim("c", namespace, annotations=forged, storageClassName=STANDARD))
    stored = cluster.admin.read("PersistentVolumeClaim", namespace, "c")
    assert stored["spec"]["storageClassName"] == BLOCK
    kept = stored["metadata"]["annotations"]
    assert kept["own"] == "z"
    assert "podgate.dev/policies" not in kept, "what is forged is not replaced by a record, either"


def ephemeral(name: str, mode: str = ONE, **spec: Any) -> Json:
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(mode, **spec)}}}


def ephemeral_class(volume: Json) -> str | None:
    found: str | None = volume["ephemeral"]["volumeClaimTemplate"]["spec"].get("storageClassName")
    return found


@pytest.mark.usefixtures("default_standard", "patient_podgate")
def test_generic_ephemeral_volumes_and_the_claims_that_are_made_of_them(
    cluster: Cluster, namespace: str
) -> None:
    expected = {"scratch": BLOCK, "shared": FILES, "chosen": STANDARD, "classless": ""}
    volumes = [
        ephemeral("scratch"),
        ephemeral("shared", MANY),
        ephemeral("chosen", storageClassName=STANDARD),
        ephemeral("classless", storageClassName=""),
    ]
    thing = pod("p", namespace, volumes=volumes)
    for words in (("apply",), ("apply",), ("apply", "--server-side")):
        ran = cluster.kubectl(*words, "-f", "-", stdin=thing, user=ALICE)
        assert ran.code == 0, ran.err
    stored = cluster.admin.read("Pod", namespace, "p")["spec"]["volumes"]
    assert {each["name"]: ephemeral_class(each) for each in stored if "ephemeral" in each} == expected
    claims = claims_of(cluster, namespace, len(expected))
    assert claims == {f"p-{name}": wanted for name, wanted in expected.items()}


def stateful_set(name: str, namespace: str, replicas: int = 1, image: str = IMAGE) -> Json:
    own = {"app": name}
    claims = [
        {"metadata": {"name": "data"}, "spec": claim_spec(ONE)},
        {"metadata": {"name": "shared"}, "spec": claim_spec(MANY)},
        {"metadata": {"name": "chosen"}, "spec": claim_spec(ONE, storageClassName=STANDARD)},
    ]
    mounts = [
        {"name": each["metadata"]["name"], "mountPath": f"/{each['metadata']['name']}"} for each in claims
    ]
    main = container("main", image=image, volumeMounts=mounts)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": own},
            "template": template({"containers": [main]}, own),
            "volumeClaimTemplates": claims,
        },
    }


def claims_of(cluster: Cluster, namespace: str, count: int) -> dict[str, str | None]:
    def all_there() -> dict[str, str | None]:
        found = cluster.admin.items("PersistentVolumeClaim", namespace)
        assert len(found) == count
        return {each["metadata"]["name"]: each["spec"].get("storageClassName") for each in found}

    return wait_for(all_there, f"{count} claims", CONTROLLER_SECONDS)


APPLIES = pytest.mark.parametrize(
    "words", [("apply",), ("apply", "--server-side")], ids=["client-side", "server-side"]
)


@APPLIES
@pytest.mark.usefixtures("default_standard", "patient_podgate")
def test_a_stateful_set_is_applied_again_and_its_claims_have_their_classes(
    cluster: Cluster, namespace: str, words: Sequence[str]
) -> None:
    thing = stateful_set("db", namespace)
    for _ in range(3):
        ran = cluster.kubectl(*words, "-f", "-", stdin=thing, user=ALICE)
        assert (ran.code, ran.err) == (0, "")
    stored = cluster.admin.read("StatefulSet", namespace, "db")
    written = [each["spec"].get("storageClassName") for each in stored["spec"]["volumeClaimTemplates"]]
    assert written == [None, None, STANDARD]
    assert stored["metadata"]["generation"] == 1
    expected = {"data-db-0": BLOCK, "shared-db-0": FILES, "chosen-db-0": STANDARD}
    assert claims_of(cluster, namespace, 3) == expected
    diff = cluster.kubectl("diff", *words[1:], "-f", "-", stdin=thing, user=ALICE)
    assert diff == (0, "", "")
    changed = stateful_set("db", namespace, replicas=2, image="registry.example.org/ai/main:2.0")
    ran = cluster.kubectl(*words, "-f", "-", stdin=changed, user=ALICE)
    assert (ran.code, ran.err) == (0, "")
    expected |= {"data-db-1": BLOCK, "shared-db-1": FILES, "chosen-db-1": STANDARD}
    assert claims_of(cluster, namespace, 6) == expected


def volume(name: str, claimed: Json) -> Json:
    """A volume that waits for a claim."""
    metadata = claimed["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": [ONE],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": metadata["namespace"], "name": metadata["name"]},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": claimed["spec"].get("storageClassName", ""),
            "csi": {"driver": "disk.example.com", "volumeHandle": name},
        },
    }


@pytest.fixture
def volumes(cluster: Cluster) -> Iterator[list[Json]]:
    """Volumes that go after the test."""
    made: list[Json] = []
    yield made
    for each in made:
        cluster.admin.delete(path_to(each))


def called_for_updates(configuration: Json) -> None:
    """As somebody may have widened it: every change of a claim comes by."""
    patient(configuration)
    for entry in configuration["webhooks"]:
        entry["matchConditions"] = []
        entry["failurePolicy"] = "Fail"
        for rule in entry["rules"]:
            rule["operations"] = ["CREATE", "UPDATE", "DELETE"]


ALWAYS = {
    "apiVersion": "podgate.dev/v1alpha1",
    "kind": "PodPolicyOverride",
    "metadata": {"name": "always"},
    "spec": {
        "policies": ["ceph-storage"],
        "match": {"all": True},
        "rules": [{"name": "class", "setStorageClass": {"replace": "always"}}],
    },
}
"""The policy that would like most to change a claim."""

REGISTRATIONS = pytest.mark.parametrize(
    "change", [patient, called_for_updates], ids=["as registered", "called for updates, too"]
)


def phase_of(cluster: Cluster, thing: Json) -> str | None:
    found: str | None = cluster.admin.get(path_to(thing))["status"].get("phase")
    return found


@REGISTRATIONS
@pytest.mark.usefixtures("standard")
def test_old_claims_are_bound_labelled_expanded_and_deleted(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    volumes: list[Json],
    tmp_path: Path,
    change: Callable[[Json], None],
) -> None:
    old = (claim("with", namespace, storageClassName=STANDARD), claim("without", namespace))
    for each in old:
        cluster.client(ALICE).create(each)
    podgate = start_podgate((SHIPPED, write_policies(tmp_path / "site", ALWAYS)))
    register(podgate, change=change)
    for each in old:
        volumes.append(cluster.admin.create(volume(f"{each['metadata']['name']}-{namespace}", each)))
        wait_for(lambda: phase_of(cluster, volumes[-1]) == "Available", "the volume is there")
        # The controller looks at a claim that changes, and at the others every 15 s.
        cluster.client(ALICE).patch(path_to(each), {"metadata": {"labels": {"team": "vision"}}})
    wait_for(
        lambda: [phase_of(cluster, each) for each in old] == ["Bound", "Bound"],
        "the claims are bound",
        CONTROLLER_SECONDS,
    )
    # The other one has no class, and so none that allows it.
    cluster.client(ALICE).patch(path_to(old[0]), {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    stored = [cluster.admin.get(path_to(each)) for each in old]
    assert [each["spec"].get("storageClassName") for each in stored] == [STANDARD, None]
    assert [each["metadata"]["labels"] for each in stored] == [{"team": "vision"}] * 2
    assert [each["spec"]["resources"]["requests"]["storage"] for each in stored] == ["2Gi", "1Gi"]
    for each in old:
        cluster.client(ALICE).delete(path_to(each))
    wait_for(
        lambda: not cluster.admin.items("PersistentVolumeClaim", namespace),
        "the claims are gone",
        CONTROLLER_SECONDS,
    )
    asked = {each["operation"] for each in podgate.reviews(namespace=namespace, kind="PersistentVolumeClaim")}
    assert asked == ({"UPDATE", "DELETE"} if change is called_for_updates else set())


@REGISTRATIONS
def test_an_old_claim_gets_the_default_class_that_comes_later(
    cluster: Cluster,
    namespace: str,
    default_standard_later: Callable[[], None],
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    change: Callable[[Json], None],
) -> None:
    """Its controller writes it, and no other (kubernetes/kubernetes:pkg/controller/volume/persistentvolume)."""
    cluster.client(ALICE).create(claim("old", namespace))
    register(start_podgate(), change=change)
    default_standard_later()
    cluster.client(ALICE).patch(
        path_of("PersistentVolumeClaim", namespace, "old"), {"metadata": {"labels": {"look": "again"}}}
    )
    wait_for(lambda: class_of(cluster, namespace, "old"), "the claim has a class", CONTROLLER_SECONDS)
    assert class_of(cluster, namespace, "old") == STANDARD


@APPLIES
@pytest.mark.usefixtures("patient_podgate")
def test_a_claim_is_applied_again(cluster: Cluster, namespace: str, words: Sequence[str]) -> None:
    thing = claim("data", namespace)
    for _ in range(3):
        ran = cluster.kubectl(*words, "-f", "-", stdin=thing, user=ALICE)
        assert (ran.code, ran.err) == (0, "")
        assert class_of(cluster, namespace, "data") == BLOCK
    assert cluster.kubectl("diff", *words[1:], "-f", "-", stdin=thing, user=ALICE) == (0, "", "")
