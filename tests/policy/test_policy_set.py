"""A policy set: its hash, its order, the ceiling of modes, and what its index looks at."""

from typing import Any

import pytest

from tests.policy.loading import load, policy, pool
from webhook.facts import Facts
from webhook.kube.accelerators import Catalogue, shipped_catalogue
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft
from webhook.policy import PolicySet, load_policy_set
from webhook.policy.match import View
from webhook.rules.base import Mode, Received, Subject

Json = dict[str, Any]

PLAIN = policy(spec="mode: enforce\norder: 5\ntitle: A title")
SET = [("a.yaml", PLAIN), ("b.yaml", policy("pools: [h100]", name="q")), ("c.yaml", pool())]


def hash_of(*files: tuple[str, str], **options: Any) -> str:
    loaded = load_policy_set([(name, text.encode()) for name, text in files], **options)
    return loaded.policy_set.hash


REFERENCE = hash_of(*SET)


def test_a_hash_is_twelve_hexadecimal_digits() -> None:
    assert len(REFERENCE) == 12
    assert int(REFERENCE, 16) >= 0


INDENTED = PLAIN.replace("  - name: r\n    set", "  -   name: r\n      set").replace(
    "    class", "      class"
)

SAME = {
    "other file names": [(f"x-{name}", text) for name, text in SET],
    "names that turn the order round": [(f"{9 - index}.yaml", text) for index, (_, text) in enumerate(SET)],
    "given in another order": SET[::-1],
    "one file of three documents": [("all.yaml", "---\n".join(text for _, text in SET))],
    "comments and blank lines": [(n, f"# one\n\n{text}\n\n# two\n") for n, text in SET],
    "quotes of another kind": [("a.yaml", PLAIN.replace("A title", '"A title"')), *SET[1:]],
    "keys in another order": [
        ("a.yaml", PLAIN.replace("  mode: enforce\n  order: 5\n", "  order: 5\n  mode: enforce\n")),
        *SET[1:],
    ],
    "another indentation": [("a.yaml", INDENTED), *SET[1:]],
    "a faulty file beside": [*SET, ("z.yaml", policy("all: false", name="z"))],
    "a faulty pool beside": [*SET, ("z.yaml", pool("z", "resourceNames: []"))],
    "a second pool of one name": [*SET, ("z.yaml", pool(spec="resourceNames: [a/b]\nnodeLabels:\n  a: b"))],
}


@pytest.mark.parametrize("files", SAME.values(), ids=SAME.keys())
def test_what_does_not_change_the_hash(files: list[tuple[str, str]]) -> None:
    assert hash_of(*files) == REFERENCE


def changed(old: str, new: str) -> list[tuple[str, str]]:
    texts = [(name, text.replace(old, new, 1)) for name, text in SET]
    assert texts != SET
    return texts


OTHER = {
    "a parameter": changed("class: high", "class: low"),
    "a mode": changed("mode: enforce", "mode: warn"),
    "an order": changed("order: 5", "order: 6"),
    "a title": changed("A title", "Another"),
    "a name": changed("name: p", "name: pp"),
    "a match": changed("all: true", "namespaces: [a]"),
    "a pool's label": changed("gpu: h100", "gpu: h200"),
    "a pool's resource": changed("nvidia.com/gpu", "amd.com/gpu"),
    "a further pool": [*SET, ("d.yaml", pool("h200"))],
    "a policy less": [SET[0], SET[2]],
}


@pytest.mark.parametrize("files", OTHER.values(), ids=OTHER.keys())
def test_what_changes_the_hash(files: list[tuple[str, str]]) -> None:
    assert hash_of(*files) != REFERENCE


def test_the_catalogue_and_the_ceiling_change_the_hash() -> None:
    own = Catalogue.from_value(
        {"vendors": {"acme": {"resources": [{"names": ["acme.com/gpu"], "role": "device"}]}}}
    )
    hashes = {
        REFERENCE,
        hash_of(*SET, mode_ceiling=Mode.AUDIT),
        hash_of(*SET, mode_ceiling=Mode.WARN),
        hash_of(*SET, catalogue=shipped_catalogue().merged(own)),
    }
    assert len(hashes) == 4


def test_a_number_that_json_libraries_refuse_is_no_crash() -> None:
    text = policy(rules="- name: r\n  limitAcceleratorCount:\n    perPod:\n      max: 9223372036854775807")
    assert load(text).problems == ()


def test_the_order_is_that_of_spec_order_and_then_of_names() -> None:
    files = [
        policy(name=name, spec=spec)
        for name, spec in (
            ("b", ""),
            ("late", "order: 200"),
            ("a", ""),
            ("first", "order: -1"),
            ("c", "order: 100"),
        )
    ]
    assert [each.name for each in load(*files).policy_set.policies] == ["first", "a", "b", "c", "late"]


@pytest.mark.parametrize(
    ("ceiling", "modes"),
    [
        (Mode.ENFORCE, ["audit", "audit", "disabled", "enforce", "warn"]),
        (Mode.WARN, ["audit", "audit", "disabled", "warn", "warn"]),
        (Mode.AUDIT, ["audit", "audit", "disabled", "audit", "audit"]),
        (Mode.DISABLED, ["disabled"] * 5),
    ],
)
def test_a_ceiling_lowers_modes_and_never_raises_one(ceiling: Mode, modes: list[str]) -> None:
    specs = ("", "mode: audit", "mode: disabled", "mode: enforce", "mode: warn")
    files = [(f"{i}.yaml", policy(name=f"p{i}", spec=spec).encode()) for i, spec in enumerate(specs)]
    found = load_policy_set(files, mode_ceiling=ceiling).policy_set
    assert [each.mode for each in found.policies] == modes
    assert [rule.mode for each in found.policies for rule in each.rules] == modes


# The index.

LIMIT = "- name: r\n  limitAcceleratorCount:\n    perPod:\n      max: 1"
CLAIMS = "- name: r\n  setStorageClass:\n    default: a"

GPU_POD: Json = {
    "kind": "Pod",
    "metadata": {"labels": {"training.kubeflow.org/job-name": "j"}},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
}
WEB_POD: Json = {"kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "c"}]}}
CLAIM: Json = {"kind": "PersistentVolumeClaim", "metadata": {}, "spec": {}}


def looked_at(
    policies: PolicySet, thing: Json, resource: str, operation: str = "CREATE", namespace: str = "team-a"
) -> list[str]:
    request = AdmissionRequest(
        kind=thing["kind"], resource=resource, namespace=namespace, operation=operation, object=thing
    )
    received = Received(request, Facts(), policies.pools, policies.catalogue)
    view = View(Subject(received, Draft(thing)))
    return [each.policy.name for each in policies.bucket(resource, operation).candidates(view)]


INDEXED = load(
    policy(name="everything", rules=LIMIT),
    policy("namespaces: [team-a, team-b]", LIMIT, "by-name", "order: 1"),
    policy("namespaces: [team-*]", LIMIT, "by-glob"),
    policy("- namespaces: [team-b]\n- namespaces: [team-*]", LIMIT, "by-both"),
    policy("workloads: [training, inference]", LIMIT, "by-class", "order: 2"),
    policy("- workloads: [notebook]\n- accelerators: {}", LIMIT, "by-either"),
    policy("accelerators:\n  vendors: [amd]", LIMIT, "by-accelerator", "order: 3"),
    policy("accelerators: none", LIMIT, "by-none"),
    policy("all: true", LIMIT, "off", "mode: disabled"),
    policy("namespaces: [team-a]\noperations: [UPDATE]", LIMIT, "updates"),
    policy(
        "- namespaces: [team-a]\n  operations: [UPDATE]\n- namespaces: [team-b]", LIMIT, "either-operation"
    ),
    policy("all: true", CLAIMS, "claims"),
    policy("workloads: [training]", CLAIMS, "claims-of-pods"),
).policy_set

ALWAYS = ["by-both", "by-glob", "by-none", "claims", "everything"]
CANDIDATES: dict[str, tuple[list[str], list[str]]] = {
    "a training pod with a GPU": (
        looked_at(INDEXED, GPU_POD, "pods"),
        [
            "by-name",
            "by-class",
            "by-accelerator",
            "by-both",
            "by-either",
            *ALWAYS[1:4],
            "claims-of-pods",
            "everything",
        ],
    ),
    "a web pod": (looked_at(INDEXED, WEB_POD, "pods"), ["by-name", *ALWAYS]),
    "a web pod elsewhere": (looked_at(INDEXED, WEB_POD, "pods", namespace="x"), ALWAYS),
    "a namespace that only begins alike": (
        looked_at(INDEXED, WEB_POD, "pods", namespace="team-a2"),
        ALWAYS,
    ),
    "another alternative's namespace": (
        looked_at(INDEXED, WEB_POD, "pods", namespace="team-b"),
        ["by-name", "by-both", "by-glob", "by-none", "claims", "either-operation", "everything"],
    ),
    "a claim": (looked_at(INDEXED, CLAIM, "persistentvolumeclaims"), ["claims"]),
    "an update": (looked_at(INDEXED, WEB_POD, "pods", "UPDATE"), ["either-operation", "updates"]),
    "a resize": (
        looked_at(INDEXED, WEB_POD, "pods/resize", "UPDATE"),
        ["either-operation", "updates"],
    ),
    "an ephemeral container": (
        looked_at(INDEXED, WEB_POD, "pods/ephemeralcontainers", "UPDATE"),
        ["either-operation", "updates"],
    ),
    "a status": (looked_at(INDEXED, WEB_POD, "pods/status", "UPDATE"), []),
    "a deletion": (looked_at(INDEXED, WEB_POD, "pods", "DELETE"), []),
    "a kind that no rule acts on": (looked_at(INDEXED, WEB_POD, "deployments.apps"), []),
}


@pytest.mark.parametrize(("found", "expected"), CANDIDATES.values(), ids=CANDIDATES.keys())
def test_which_policies_are_looked_at(found: list[str], expected: list[str]) -> None:
    assert found == expected
