"""Webhooks of other teams before and after ours: the end is right, or it is told; both orders, both reinvocation policies."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest

from tests.e2e.client import ApiError, Json, path_of
from tests.e2e.cluster import ALICE
from tests.e2e.neighbour import EARLIER, LATER, neighbour, one_gpu
from tests.e2e.nodes import GPU
from tests.e2e.podgate import SHIPPED, SITE, Podgate, write_policies
from tests.e2e.registration import IGNORE
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import pod

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.e2e.cluster import Cluster
    from tests.e2e.neighbour import Patch

Reinvocation = Literal["Never", "IfNeeded"]
Situation = tuple[str, Reinvocation]

SITUATIONS: Sequence[Situation] = (
    (EARLIER, "Never"),
    (EARLIER, "IfNeeded"),
    (LATER, "Never"),
    (LATER, "IfNeeded"),
)
LAST_WORD: Situation = (LATER, "IfNeeded")
"""It is called again after we were: one round of reinvocation is all that there is."""

VERIFY = "verify"
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
TERM = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
UNDONE = "not applied: the mutating call was missed, or a later webhook undid it"
AGAIN = "create the object again; if it happens again, tell the platform team"


def policy(verify: str, *, replace: str = "defaulted") -> Json:
    """All that podgate writes into a GPU pod, for the pods with this label."""
    labels = {"nvidia.com/gpu.present": "true"}
    rules: list[Json] = [
        {
            "name": "place",
            "setNodeAffinity": {"byVendor": {"nvidia": {"nodeLabels": labels, "tolerations": [TOLERATION]}}},
        },
        {"name": "class", "setPriorityClass": {"class": "ai-train-high", "replace": replace}},
        {"name": "shm", "addSharedMemory": {"sizeLimit": "16Gi"}},
        {"name": "nccl", "setFields": {"env": {"NCCL_DEBUG": "WARN"}, "containers": "accelerator"}},
        {"name": "zone", "setFields": {"env": {"TZ": "UTC"}, "containers": "all"}},
    ]
    return {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicy",
        "metadata": {"name": verify if replace == "defaulted" else f"{verify}-{replace}"},
        "spec": {
            "mode": "enforce",
            "match": {
                "accelerators": {},
                "objectSelector": {"matchLabels": {VERIFY: verify, "replace": replace}},
            },
            "rules": [rule | {"verify": verify} for rule in rules],
        },
    }


@pytest.fixture
def gate(
    cluster: Cluster, start_podgate: Callable[..., Podgate], register: Callable[..., None], tmp_path: Path
) -> Podgate:
    """A podgate whose grace is over, with these policies."""
    cluster.add_priority_class("low", 10)
    wanted = [
        policy(verify, replace=replace)
        for verify, replace in product(("warn", "fail"), ("defaulted", "always"))
    ]
    podgate = start_podgate((write_policies(tmp_path / "policies", *wanted),), settled=True)
    register(podgate)
    return podgate


class Outcome(NamedTuple):
    """What became of a pod.

    Attributes:
        stored: None where it was refused.
        warnings: what its author was told.
        refusal: what he was told instead.
    """

    stored: Json | None
    warnings: tuple[str, ...] = ()
    refusal: str = ""


@pytest.fixture
def beside(cluster: Cluster, namespace: str, tmp_path: Path) -> Callable[..., Outcome]:
    """Create a pod, of one GPU where nothing else is said, while another team's webhook is in force."""

    def create(
        patch: Patch,
        situation: Situation,
        verify: str = "warn",
        replace: str = "defaulted",
        *,
        gpus: int = 1,
    ) -> Outcome:
        (name, reinvocation), words = (
            situation,
            f"{situation[0].split('.')[0]}-{situation[1]}-{verify}".lower(),
        )
        thing = pod(words, namespace, gpus, labels={VERIFY: verify, "replace": replace})
        folder = tmp_path / f"{words}-{patch.__name__}"
        with neighbour(cluster, folder, patch, name=name, reinvocation=reinvocation) as other:
            try:
                answer = cluster.client(ALICE).call("POST", path_of("Pod", namespace), thing)
            except ApiError as refused:
                assert other.objects
                return Outcome(None, refusal=refused.message)
        assert other.objects
        return Outcome(cluster.admin.read("Pod", namespace, words), answer.warnings)

    return create


def missing(stored: Json) -> list[str]:
    """What of ours the stored pod lacks."""
    spec = stored["spec"]
    containers = spec["containers"]
    holders = [each for each in containers if GPU in each["resources"].get("limits", {})]
    everybody = [*containers, *spec.get("initContainers", [])]
    found = {
        "toleration": TOLERATION in spec["tolerations"],
        "affinity": "nvidia.com/gpu.present" in str(spec.get("affinity")),
        "class": (spec.get("priorityClassName"), spec["priority"]) == ("ai-train-high", 1000000),
        "shm": all("/dev/shm" in mounts_of(each) for each in holders),
        "nccl": [each["name"] for each in everybody if "NCCL_DEBUG" in variables_of(each)]
        == [each["name"] for each in holders],
        "zone": all("TZ" in variables_of(each) for each in everybody),
    }
    return [name for name, is_there in found.items() if not is_there]


def mounts_of(holder: Json) -> list[str]:
    return [each["mountPath"] for each in holder.get("volumeMounts", [])]


def variables_of(holder: Json) -> list[str]:
    return [each["name"] for each in holder.get("env", [])]


def has_proxy(thing: Json) -> bool:
    return any(each["name"] == "proxy" for each in thing["spec"]["containers"])


def adds_a_sidecar(thing: Json) -> list[Json]:
    """A service mesh: its proxy comes first, and a container before all starts."""
    if has_proxy(thing):
        return []
    proxy = {"name": "proxy", "image": "registry.example.org/mesh/proxy:1.0"}
    setup = {
        "name": "mesh-init",
        "image": "registry.example.org/mesh/init:1.0",
        "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}},
    }
    return [
        {"op": "add", "path": "/spec/containers/0", "value": proxy},
        {"op": "add", "path": "/spec/initContainers", "value": [setup]},
    ]


def adds_a_gpu_container(thing: Json) -> list[Json]:
    """A profiler that wants a GPU itself."""
    if has_proxy(thing):
        return []
    gpu = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    proxy = {"name": "proxy", "image": "registry.example.org/tools/profiler:1.0", "resources": gpu}
    return [{"op": "add", "path": "/spec/containers/0", "value": proxy}]


def chooses_nodes(thing: Json) -> list[Json]:
    selector = {"example.com/rack": "a"}
    is_done = "nodeSelector" in thing["spec"]
    return [] if is_done else [{"op": "add", "path": "/spec/nodeSelector", "value": selector}]


def removes_tolerations(thing: Json) -> list[Json]:
    found = thing["spec"].get("tolerations", [])
    ours = [index for index, each in enumerate(found) if each.get("key") == GPU]
    return [{"op": "remove", "path": f"/spec/tolerations/{index}"} for index in reversed(ours)]


def removes_affinity(thing: Json) -> list[Json]:
    return [{"op": "remove", "path": "/spec/affinity"}] if thing["spec"].get("affinity") else []


def removes_variables(thing: Json) -> list[Json]:
    holders = enumerate(thing["spec"]["containers"])
    return [
        {"op": "remove", "path": f"/spec/containers/{index}/env"}
        for index, each in holders
        if each.get("env")
    ]


ADDING: Sequence[Patch] = (adds_a_sidecar, adds_a_gpu_container, chooses_nodes)


@pytest.mark.parametrize("patch", ADDING, ids=lambda each: each.__name__.replace("_", " "))
def test_what_others_add_gets_what_is_its_own_and_ours_stays(
    gate: Podgate, namespace: str, beside: Callable[..., Outcome], patch: Patch
) -> None:
    for situation, verify in product(SITUATIONS, ("warn", "fail")):
        found = beside(patch, situation, verify)
        assert found.stored is not None, (situation, found.refusal)
        assert missing(found.stored) == [], situation
        assert found.warnings == (), situation
        assert patch(found.stored) == [], "the other team's part is there as well"
    assert {each["decision"] for each in gate.reviews(namespace=namespace)} == {"mutate", "allow"}


def test_a_gpu_that_others_give_brings_all_that_is_ours(
    gate: Podgate, namespace: str, beside: Callable[..., Outcome]
) -> None:
    """After us as before us: the late entry is called for what the first was not called for."""
    for situation, verify in product(SITUATIONS, ("warn", "fail")):
        found = beside(one_gpu, situation, verify, gpus=0)
        assert found.stored is not None, (situation, found.refusal)
        assert missing(found.stored) == [], situation
        assert found.warnings == (), situation
    calls = gate.reviews(namespace=namespace, webhook="mutate")
    assert [each["decision"] for each in calls] == ["mutate"] * len(SITUATIONS) * 2


@pytest.mark.usefixtures("gate")
def test_what_is_given_late_is_seen_by_those_that_are_called_again(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    seen = {}
    reinvocations: tuple[Reinvocation, Reinvocation] = ("Never", "IfNeeded")
    for reinvocation in reinvocations:
        name = f"given-{reinvocation}".lower()
        with neighbour(cluster, tmp_path / name, one_gpu, reinvocation=reinvocation) as other:
            labels = {VERIFY: "warn", "replace": "defaulted"}
            cluster.client(ALICE).create(pod(name, namespace, labels=labels))
        seen[reinvocation] = [each["spec"].get("priorityClassName") for each in other.objects]
    assert seen == {"Never": [None], "IfNeeded": [None, "ai-train-high"]}


def gives_and_takes(thing: Json) -> list[Json]:
    """A GPU at first; when it is called again, it takes our toleration away."""
    return one_gpu(thing) or removes_tolerations(thing)


@pytest.mark.usefixtures("gate")
def test_who_gives_the_gpu_and_has_the_last_word_is_told_like_others(beside: Callable[..., Outcome]) -> None:
    """What was written late has no third call; it is verified as ever."""
    kept = beside(gives_and_takes, (LATER, "Never"), gpus=0)
    assert kept.stored is not None, kept.refusal
    assert (missing(kept.stored), kept.warnings) == ([], ())
    lost = beside(gives_and_takes, LAST_WORD, gpus=0)
    assert lost.stored is not None, lost.refusal
    assert missing(lost.stored) == ["toleration"]
    assert lost.warnings == (
        f'[warn/place] {UNDONE} (spec.tolerations["{GPU}"])',
        f"[warn/place] do: {AGAIN}",
    )
    assert f"denied the request: {UNDONE}" in beside(gives_and_takes, LAST_WORD, "fail", gpus=0).refusal


FAST = "example.com/fast"
STORAGE = {
    "apiVersion": "podgate.dev/v1alpha1",
    "kind": "PodPolicy",
    "metadata": {"name": "fast"},
    "spec": {
        "mode": "enforce",
        "match": {"objectSelector": {"matchLabels": {FAST: "yes"}}},
        "rules": [{"name": "class", "setStorageClass": {"default": "ceph-block"}}],
    },
}


def marks_claims(thing: Json) -> list[Json]:
    is_done = FAST in (thing["metadata"].get("labels") or {})
    return [] if is_done else [{"op": "add", "path": "/metadata/labels", "value": {FAST: "yes"}}]


@pytest.mark.parametrize("reinvocation", ["Never", "IfNeeded"])
def test_a_claim_that_others_mark_gets_the_class(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
    reinvocation: Reinvocation,
) -> None:
    register(start_podgate((write_policies(tmp_path / "policies", STORAGE),)))
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    resource = "persistentvolumeclaims"
    with neighbour(cluster, tmp_path / "later", marks_claims, reinvocation=reinvocation, resource=resource):
        cluster.client(ALICE).create(claim)
    stored = cluster.admin.read("PersistentVolumeClaim", namespace, "data")
    assert stored["spec"]["storageClassName"] == "ceph-block"


class Loss(NamedTuple):
    """What another webhook takes away, where it has the last word.

    Attributes:
        lost: of `missing`.
        rules: which of ours are undone, with the fields and the place of the first.
    """

    patch: Any
    lost: list[str]
    rules: dict[str, tuple[str, str]]


LOSSES: dict[str, Loss] = {
    "tolerations": Loss(
        removes_tolerations, ["toleration"], {"place": (f'spec.tolerations["{GPU}"]', "spec.tolerations")}
    ),
    "affinity": Loss(
        removes_affinity,
        ["affinity"],
        {"place": (f'{TERM}.matchExpressions["nvidia.com/gpu.present"]', f"{TERM}.matchExpressions")},
    ),
    "variables": Loss(
        removes_variables,
        ["nccl", "zone"],
        {
            "nccl": ('spec.containers["main"].env["NCCL_DEBUG"]', 'spec.containers["main"].env'),
            "zone": ('spec.containers["main"].env["TZ"]', 'spec.containers["main"].env'),
        },
    ),
}
EACH_LOSS = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@EACH_LOSS
def test_what_others_take_away_is_put_back_unless_they_have_the_last_word(
    gate: Podgate, beside: Callable[..., Outcome], loss: Loss
) -> None:
    for situation, verify in product(SITUATIONS, ("warn", "fail")):
        if situation != LAST_WORD:
            found = beside(loss.patch, situation, verify)
            assert found.stored is not None, (situation, found.refusal)
            assert missing(found.stored) == [], situation
            assert found.warnings == (), situation
    assert gate.metric("podgate_policy_results_total", result="fail") == 0


@EACH_LOSS
def test_the_last_word_of_another_is_told_the_author_and_the_platform_team(
    cluster: Cluster, gate: Podgate, namespace: str, beside: Callable[..., Outcome], loss: Loss
) -> None:
    """With `verify: warn`, the default, the author is not held up: he cannot mend it."""
    found = beside(loss.patch, LAST_WORD)
    assert found.stored is not None, found.refusal
    assert missing(found.stored) == loss.lost
    told = [
        (f"[warn/{rule}] {UNDONE} ({fields})", f"[warn/{rule}] do: {AGAIN}")
        for rule, (fields, _) in loss.rules.items()
    ]
    assert found.warnings == tuple(line for lines in told for line in lines)
    name = found.stored["metadata"]["name"]
    (event,) = wait_for(
        lambda: [
            each
            for each in cluster.audit_events(resource="pods", namespace=namespace, name=name)
            if each["verb"] == "create" and "subresource" not in each["objectRef"]
        ],
        "the audit event",
    )
    failed = ", ".join(f"warn/{rule} fail" for rule in loss.rules)
    assert event["annotations"][f"{IGNORE}/warned"] == failed
    for rule in loss.rules:
        assert gate.metric("podgate_policy_results_total", policy="warn", rule=rule, result="fail") == 1


@EACH_LOSS
def test_the_last_word_of_another_is_refused_where_the_policy_must_not_be_missed(
    gate: Podgate, namespace: str, beside: Callable[..., Outcome], loss: Loss
) -> None:
    """`verify: fail` is the policy's word that no pod at all is better than one without it."""
    found = beside(loss.patch, LAST_WORD, "fail")
    (line,) = gate.reviews(namespace=namespace, decision="deny")
    why = f"policies {line['policies']}, decision {line['decision_id']}"
    texts = [
        f"{UNDONE} ({fields}).\n  where: {place}\n  do:    {AGAIN}\n  why:   fail/{rule}, {why}"
        for rule, (fields, place) in loss.rules.items()
    ]
    denied = f'admission webhook "{IGNORE}" denied the request: '
    assert found == Outcome(None, refusal=denied + "\n".join(texts))


def sets_class(thing: Json) -> list[Json]:
    """As a webhook must: the number with the name, since the Priority plugin has been there before."""
    if thing["spec"].get("priorityClassName") == "low":
        return []
    return [
        {"op": "add", "path": "/spec/priorityClassName", "value": "low"},
        {"op": "add", "path": "/spec/priority", "value": 10},
    ]


def class_of(found: Outcome) -> tuple[str, int]:
    assert found.stored is not None, found.refusal
    return found.stored["spec"]["priorityClassName"], found.stored["spec"]["priority"]


@pytest.mark.usefixtures("gate")
def test_another_class_counts_as_chosen_whoever_sets_it(beside: Callable[..., Outcome]) -> None:
    for situation, verify in product(SITUATIONS, ("warn", "fail")):
        found = beside(sets_class, situation, verify)
        assert class_of(found) == ("low", 10), situation
        assert found.warnings == (), situation


def test_a_class_that_is_always_replaced_is_replaced_or_told(
    gate: Podgate, namespace: str, beside: Callable[..., Outcome]
) -> None:
    for situation, verify in product(SITUATIONS, ("warn", "fail")):
        if situation != LAST_WORD:
            found = beside(sets_class, situation, verify, "always")
            assert class_of(found) == ("ai-train-high", 1000000), situation
            assert found.warnings == (), situation
    told = beside(sets_class, LAST_WORD, "warn", "always")
    assert class_of(told) == ("low", 10)
    fields = "(spec.priorityClassName, spec.priority)"
    assert told.warnings == (
        f"[warn-always/class] {UNDONE} {fields}",
        f"[warn-always/class] do: {AGAIN}",
    )
    refused = beside(sets_class, LAST_WORD, "fail", "always")
    assert f"denied the request: {UNDONE} {fields}.\n  where: spec.priorityClassName\n" in refused.refusal
    assert len(gate.reviews(namespace=namespace, decision="deny")) == 1


def sets_the_name_of_a_class(thing: Json) -> list[Json]:
    """As a webhook must not."""
    is_done = thing["spec"].get("priorityClassName") == "low"
    return [] if is_done else [{"op": "add", "path": "/spec/priorityClassName", "value": "low"}]


@pytest.mark.parametrize("ours", [False, True], ids=["without podgate", "with podgate"])
def test_a_webhook_that_sets_a_class_without_its_number_is_refused_by_kubernetes_with_us_or_without(
    cluster: Cluster, beside: Callable[..., Outcome], request: pytest.FixtureRequest, ours: bool
) -> None:
    """Whoever changed a pod has the chain called again, Priority first (kubernetes/apiserver:pkg/admission/reinvocation.go)."""
    if ours:
        request.getfixturevalue("gate")
    else:
        cluster.add_priority_class("low", 10)
    for situation in SITUATIONS:
        number = 1000000 if ours and situation[0] == LATER else 0
        found = beside(sets_the_name_of_a_class, situation)
        assert found.refusal.endswith(
            f"is forbidden: the integer value of priority ({number}) must not be provided in pod spec; "
            "priority admission controller computed 10 from the given PriorityClass name"
        ), situation


def test_the_shipped_policies_beside_a_service_mesh(
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    namespace: str,
    beside: Callable[..., Outcome],
) -> None:
    podgate = start_podgate((SHIPPED, SITE), settled=True)
    register(podgate)
    for situation in SITUATIONS:
        found = beside(adds_a_sidecar, situation)
        assert found.stored is not None, (situation, found.refusal)
        assert found.warnings == (), situation
        proxy = next(each for each in found.stored["spec"]["containers"] if each["name"] == "proxy")
        assert (proxy["resources"], variables_of(proxy)) == ({}, []), situation
        assert "nvidia.com/gpu.present" in str(found.stored["spec"]["affinity"]), situation
    assert {each["decision"] for each in podgate.reviews(namespace=namespace)} == {"mutate", "allow"}


ALL_DEVICES = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
AFTER = " (added after it was sent, by a webhook or the API server)"


def adds_a_monitor(thing: Json) -> list[Json]:
    """A container that sees all GPUs of the node."""
    monitor = {"name": "monitor", "image": "registry.example.org/tools/monitor:1.0", "env": ALL_DEVICES}
    is_done = any(each["name"] == "monitor" for each in thing["spec"]["containers"])
    return [] if is_done else [{"op": "add", "path": "/spec/containers/-", "value": monitor}]


def tolerates_everything(thing: Json) -> list[Json]:
    everything = {"operator": "Exists"}
    is_done = everything in thing["spec"]["tolerations"]
    return [] if is_done else [{"op": "add", "path": "/spec/tolerations/-", "value": everything}]


@pytest.mark.usefixtures("podgate")
@pytest.mark.parametrize(
    ("patch", "place"),
    [
        pytest.param(
            adds_a_monitor, 'spec.containers["monitor"].env["NVIDIA_VISIBLE_DEVICES"]', id="a container"
        ),
        pytest.param(tolerates_everything, "spec.tolerations[2]", id="a toleration"),
    ],
)
def test_what_others_add_is_judged_and_its_author_told_that_it_is_not_his(
    cluster: Cluster, namespace: str, tmp_path: Path, patch: Patch, place: str
) -> None:
    """Else anybody who may write a webhook could give devices away; but who looks into his manifest finds nothing."""
    with (
        neighbour(cluster, tmp_path / "other", patch, name=EARLIER),
        pytest.raises(ApiError) as refused,
    ):
        cluster.client(ALICE).create(pod("p", namespace))
    assert refused.value.message.splitlines()[1] == f"  where: {place}{AFTER}"
