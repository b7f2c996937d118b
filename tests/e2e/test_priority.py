"""Priority in every start state: what the API server stores has the number and the preemption policy of its class.

The table of docs/priority.md is made here; PODGATE_UPDATE_GOLDEN=1 writes it anew.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Literal, NamedTuple

import pytest

from tests.e2e.client import ApiError, Json, path_of
from tests.e2e.cluster import ALICE, ROOT
from tests.e2e.neighbour import EARLIER, LAST, neighbour, one_gpu
from tests.e2e.podgate import write_policies
from tests.e2e.registration import FAIL, IGNORE, MUTATE, patient
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import deployment, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.e2e.cluster import Cluster
    from tests.e2e.neighbour import Patch
    from tests.e2e.podgate import Podgate

Reinvocation = Literal["Never", "IfNeeded"]

PREEMPTS, NEVER = "PreemptLowerPriority", "Never"


class Class(NamedTuple):
    """What a pod gets of its priority class."""

    name: str | None
    priority: int
    preemption: str = PREEMPTS

    def __str__(self) -> str:
        shown = f"`{self.name}` {self.priority}" if self.name else f"none, {self.priority}"
        return shown if self.preemption == PREEMPTS else f"{shown} `{self.preemption}`"


NONE = Class(None, 0)
TRAIN = Class("train", 1000)
POLITE = Class("polite", 500, NEVER)
LOW = Class("low", 10)
HOUSE = Class("house", 100, NEVER)
SYSTEM = Class("system-node-critical", 2000001000)
CLASSES = {each.name: each for each in (NONE, TRAIN, POLITE, LOW, HOUSE, SYSTEM)}
REFUSED = "refused"
KUBERNETES_REFUSES = (
    r'pods "[\w-]+" is forbidden: (no PriorityClass with name \w+ was found'
    r"|the (integer|string) value of (priority|PreemptionPolicy) \(\w+\) must not be provided in pod spec;"
    r" priority admission controller computed \w+ from the given PriorityClass name)"
)
"""The Priority plugin, before any webhook (kubernetes/kubernetes:plugin/pkg/admission/priority/admission.go)."""

REPLACES: Mapping[str, object] = {
    "defaulted": "defaulted",
    "never": "never",
    "always": "always",
    "list": ["low"],
}
HEADS: Mapping[str, str] = {
    "en": "| the pod names | `defaulted` | `never` | `always` | `[low]` |\n|---|---|---|---|---|\n",
    "zh": "| Pod 写明 | `defaulted` | `never` | `always` | `[low]` |\n|---|---|---|---|---|\n",
}
PAGES: Mapping[str, Path] = {"en": ROOT / "docs" / "priority.md", "zh": ROOT / "docs" / "zh" / "priority.md"}
TRANSLATIONS = {"refused": "拒绝", "none, 0": "无，0"}
LABEL = "replace"


def policy(name: str, replace: object, wanted: str, **match: object) -> Json:
    """A policy for the pods with its label; `match` is more of its match."""
    return {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicy",
        "metadata": {"name": f"replace-{name}"},
        "spec": {
            "mode": "enforce",
            "match": {"objectSelector": {"matchLabels": {LABEL: name}}} | match,
            "rules": [{"name": "class", "setPriorityClass": {"class": wanted, "replace": replace}}],
        },
    }


def policies(folder: Path, wanted: str = "train", **match: object) -> Path:
    made = (policy(name, replace, wanted, **match) for name, replace in REPLACES.items())
    return write_policies(folder, *made)


class Pod(NamedTuple):
    """A pod as its author writes it."""

    en: str
    zh: str
    spec: Json


NOTHING = Pod("nothing", "什么也没写", {})
EMPTY = Pod("an empty name", "空的类名", {"priorityClassName": ""})
NAMES_TRAIN = Pod("`train`", "`train`", {"priorityClassName": "train"})
NAMES_LOW = Pod("`low`", "`low`", {"priorityClassName": "low"})
NAMES_POLITE = Pod("`polite`", "`polite`", {"priorityClassName": "polite"})
NAMES_HOUSE = Pod("`house`", "`house`", {"priorityClassName": "house"})
NAMES_SYSTEM = Pod(
    "`system-node-critical`", "`system-node-critical`", {"priorityClassName": "system-node-critical"}
)
NAMES_MISSING = Pod("a class that is not there", "不存在的类", {"priorityClassName": "nowhere"})
EXPORTED = Pod(
    "`low` with its own number and policy",
    "`low`，并写出它的数值和抢占策略",
    {"priorityClassName": "low", "priority": 10, "preemptionPolicy": PREEMPTS},
)
NUMBER_ZERO = Pod("the number 0 alone", "只写数值 0", {"priority": 0})
NUMBER = Pod("the number 1000 alone", "只写数值 1000", {"priority": 1000})
OTHER_NUMBER = Pod(
    "`low` with the number 1000", "`low`，数值写成 1000", {"priorityClassName": "low", "priority": 1000}
)
USUAL_PREEMPTION = Pod(
    "`PreemptLowerPriority` alone", "只写 `PreemptLowerPriority`", {"preemptionPolicy": PREEMPTS}
)
NO_PREEMPTION = Pod("`Never` alone", "只写 `Never`", {"preemptionPolicy": NEVER})

ORDINARY = (
    NOTHING,
    EMPTY,
    NAMES_TRAIN,
    NAMES_LOW,
    NAMES_POLITE,
    NAMES_SYSTEM,
    NAMES_MISSING,
    EXPORTED,
    NUMBER_ZERO,
    NUMBER,
    OTHER_NUMBER,
    USUAL_PREEMPTION,
    NO_PREEMPTION,
)


class Start(NamedTuple):
    """The cluster before the pod comes, and the pods that come.

    Attributes:
        wanted: the policy's class.
        missing: classes that the cluster lacks.
        default: whether `house` is the cluster's default class.
        facts: whether podgate knows the classes.
        later: what of that which the policy matches is written by a webhook after podgate.
    """

    en: str
    zh: str
    pods: Sequence[Pod]
    wanted: str = "train"
    missing: Sequence[str] = ()
    default: bool = False
    facts: bool = True
    later: Literal["", "label", "GPU"] = ""


LATER_PARTS: Mapping[Literal["label", "GPU"], str] = {"label": "标签", "GPU": " GPU"}
FEW = (NOTHING, NAMES_TRAIN, NAMES_LOW, NAMES_POLITE)
STARTS = (
    Start("No default class", "没有默认类", ORDINARY),
    Start("The default class is `house`", "默认类为 `house`", (*ORDINARY, NAMES_HOUSE), default=True),
    Start("The policy's class is `polite`", "策略使用 `polite`", FEW, wanted="polite"),
    Start("There is no `train`", "集群中没有 `train`", FEW, missing=["train"]),
    Start(
        "There is no `train`, and the default class is `house`",
        "集群中没有 `train`，默认类为 `house`",
        (NOTHING, NAMES_LOW),
        missing=["train"],
        default=True,
    ),
    Start("podgate does not know the classes", "podgate 不了解集群中的类", FEW, facts=False),
    *(
        Start(
            f"A later webhook adds the {what} that makes the policy match{default}",
            f"之后的 webhook 添加使策略匹配的{translated}{default_translated}",
            pods,
            default=bool(default),
            later=what,
        )
        for what, translated in LATER_PARTS.items()
        for default, default_translated, pods in (
            ("", "", FEW),
            (
                ", and the default class is `house`",
                "，默认类为 `house`",
                (NOTHING, NAMES_LOW, NAMES_HOUSE),
            ),
        )
    ),
)


def furnish(cluster: Cluster, start: Start) -> None:
    for each in (TRAIN, POLITE, LOW, HOUSE):
        assert each.name
        if each.name not in start.missing:
            more = {"globalDefault": True} if each is HOUSE and start.default else {}
            cluster.add_priority_class(each.name, each.priority, preemptionPolicy=each.preemption, **more)


WISH = "example.com/replace"


def label_by_wish(thing: Json) -> list[Json]:
    """The neighbour: the annotation says the label."""
    wish = (thing["metadata"].get("annotations") or {}).get(WISH)
    if not wish or LABEL in thing["metadata"].get("labels", {}):
        return []
    return [{"op": "add", "path": "/metadata/labels", "value": {LABEL: wish}}]


NEIGHBOURS: Mapping[str, Patch] = {"label": label_by_wish, "GPU": one_gpu}


def stored(cluster: Cluster, namespace: str, start: Start, written: Pod, mode: str) -> str:
    """What is stored of a pod's priority, as the table says it; it is a class's own, and nobody is warned of a later webhook."""
    name = f"pod-{start.pods.index(written)}-{mode}"
    labels, annotations = ({}, {WISH: mode}) if start.later == "label" else ({LABEL: mode}, {})
    made = pod(name, namespace, labels=labels, annotations=annotations, **written.spec)
    try:
        answer = cluster.client(ALICE).call("POST", path_of("Pod", namespace), made)
    except ApiError as error:
        if not re.fullmatch(KUBERNETES_REFUSES, error.message):
            raise
        return REFUSED
    assert not (start.later and answer.warnings)
    found = class_of(cluster.admin.read("Pod", namespace, name))
    assert CLASSES[found.name] == found
    return str(found)


def class_of(thing: Json) -> Class:
    spec = thing["spec"]
    return Class(spec.get("priorityClassName") or None, spec["priority"], spec["preemptionPolicy"])


def heading(language: str, start: Start) -> str:
    return f"### {getattr(start, language)}\n\n"


def line(language: str, written: Pod, cells: Sequence[str]) -> str:
    shown = [TRANSLATIONS.get(cell, cell) if language == "zh" else cell for cell in cells]
    return f"| {' | '.join([getattr(written, language), *shown])} |\n"


def documented(language: str, start: Start) -> str:
    """The table below a heading."""
    found = PAGES[language].read_text().partition(heading(language, start))[2]
    return found.partition("\n\n")[0] + "\n"


def rewrite(language: str, start: Start, table: str) -> None:
    page = PAGES[language]
    before, title, after = page.read_text().partition(heading(language, start))
    page.write_text(before + title + table + "\n" + after.partition("\n\n")[2])


@pytest.fixture
def begin(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
) -> Callable[[Start], Podgate]:
    def enter(start: Start) -> Podgate:
        furnish(cluster, start)
        match: Json = {"accelerators": {}} if start.later == "GPU" else {}
        folder = policies(tmp_path / "policies", start.wanted, **match)
        podgate = start_podgate((folder,), facts=start.facts)
        register(podgate, change=patient)
        return podgate

    return enter


CASES = [
    pytest.param(start, reinvocation, id=f"{start.en}, {reinvocation}" if start.later else start.en)
    for start in STARTS
    for reinvocation in (("Never", "IfNeeded") if start.later else ("Never",))
]


@pytest.mark.parametrize(("start", "reinvocation"), CASES)
def test_what_is_stored_is_what_the_table_says(
    cluster: Cluster,
    namespace: str,
    begin: Callable[[Start], Podgate],
    tmp_path: Path,
    start: Start,
    reinvocation: Reinvocation,
) -> None:
    """Whether a webhook that is called after podgate is called again or not."""
    podgate = begin(start)
    with ExitStack() as stack:
        if start.later:
            other = neighbour(cluster, tmp_path / "later", NEIGHBOURS[start.later], reinvocation=reinvocation)
            stack.enter_context(other)
        found = [[stored(cluster, namespace, start, each, mode) for mode in REPLACES] for each in start.pods]
    if start.later:
        assert len(podgate.reviews(namespace=namespace, webhook="mutate")) == len(start.pods) * len(REPLACES)
    for language, head in HEADS.items():
        table = head + "".join(map(partial(line, language), start.pods, found))
        if os.environ.get("PODGATE_UPDATE_GOLDEN"):
            rewrite(language, start, table)
        assert documented(language, start) == table


@pytest.mark.parametrize("language", PAGES)
def test_no_table_is_of_a_start_that_is_gone(language: str) -> None:
    found = re.findall(r"^### (.*)$", PAGES[language].read_text(), re.MULTILINE)
    assert found == [getattr(start, language) for start in STARTS]


@pytest.fixture
def begin_without_the_class(
    start_podgate: Callable[..., Podgate], register: Callable[..., None], tmp_path: Path
) -> Callable[[str], Podgate]:
    """A podgate whose policy has a class that nobody made."""

    def enter(failure_policy: str) -> Podgate:
        made = policy("defaulted", "defaulted", "train")
        spec = made["spec"] | {"failurePolicy": failure_policy}
        podgate = start_podgate((write_policies(tmp_path / "policies", made | {"spec": spec}),))
        register(podgate, change=patient)
        return podgate

    return enter


def _creates(event: Json, namespace: str) -> bool:
    about = event["objectRef"]
    return bool(event["verb"] == "create" and about["namespace"] == namespace and "subresource" not in about)


def test_a_missing_class_under_ignore_is_recorded_and_the_author_hears_nothing(
    cluster: Cluster, namespace: str, begin_without_the_class: Callable[[str], Podgate]
) -> None:
    podgate = begin_without_the_class("Ignore")
    manifest = pod("p", namespace, labels={LABEL: "defaulted"})
    ran = cluster.kubectl("create", "-f", "-", stdin=manifest, user=ALICE)
    assert ran == (0, "pod/p created\n", "")
    (event,) = (each for each in cluster.audit_events(resource="pods", name="p") if _creates(each, namespace))
    for entry in (MUTATE, IGNORE):
        assert event["annotations"][f"{entry}/recorded"] == "replace-defaulted/class error"
    assert {each["decision"] for each in podgate.reviews(namespace=namespace)} == {"error"}
    assert podgate.metric("podgate_policy_errors_total", policy="replace-defaulted", rule="class") == 2


def test_a_missing_class_under_fail_is_told_the_author(
    cluster: Cluster, namespace: str, begin_without_the_class: Callable[[str], Podgate]
) -> None:
    podgate = begin_without_the_class("Fail")
    manifest = pod("p", namespace, labels={LABEL: "defaulted"})
    ran = cluster.kubectl("create", "-f", "-", stdin=manifest, user=ALICE)
    (denial,) = podgate.reviews(namespace=namespace, decision="deny")
    assert ran == (
        1,
        "",
        f"""\
Error from server (Forbidden): error when creating "STDIN": admission webhook "{FAIL}" denied the request: \
priority class train does not exist in the cluster.
  where: spec.priorityClassName
  do:    create the PriorityClass train, or correct the policy
  why:   replace-defaulted/class, policies {denial["policies"]}, decision {denial["decision_id"]}
""",
    )


WAYS: Mapping[str, tuple[str, ...]] = {
    "create": ("create",),
    "apply": ("apply",),
    "server-side": ("apply", "--server-side"),
}


def test_the_default_class_is_told_from_a_chosen_one_however_the_pod_comes(
    cluster: Cluster, namespace: str, begin: Callable[[Start], Podgate]
) -> None:
    """By a client of any sort, or from a controller."""
    begin(STARTS[1])
    expected = {}
    for kind, way, (written, wanted) in product(
        ("Pod", "Deployment"), WAYS, ((NOTHING, TRAIN), (NAMES_HOUSE, HOUSE), (NAMES_LOW, LOW))
    ):
        name = f"{kind.lower()}-{way}-{wanted.name}"
        made = pod(name, namespace, labels={LABEL: "defaulted", "way": name}, **written.spec)
        manifest = (
            made
            if kind == "Pod"
            else deployment(name, namespace, made["spec"], replace="defaulted", way=name)
        )
        ran = cluster.kubectl(*WAYS[way], "-f", "-", stdin=manifest, user=ALICE)
        assert ran.code == 0, ran.err
        expected[name] = wanted

    def all_there() -> dict[str, Class]:
        pods = cluster.admin.items("Pod", namespace)
        assert len(pods) == len(expected)
        return {each["metadata"]["labels"]["way"]: class_of(each) for each in pods}

    assert wait_for(all_there, "all pods are there") == expected


def test_a_class_that_goes_and_comes_back_with_another_number(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
) -> None:
    furnish(cluster, STARTS[0])
    live = ("--live", "--kubeconfig", str(cluster.kubeconfig()))
    register(start_podgate((policies(tmp_path / "policies"),), live, facts=False), change=patient)

    def tried() -> Class | None:
        """None where podgate has not heard yet: the API server, which looks again at what podgate wrote, refuses the pod."""
        probe = pod("p", namespace, labels={LABEL: "defaulted"})
        try:
            return class_of(cluster.client(ALICE).create(probe, dryRun="All"))
        except ApiError as error:
            if not re.fullmatch(KUBERNETES_REFUSES, error.message):
                raise
            return None

    assert tried() == TRAIN
    cluster.remove_priority_class("train")
    wait_for(lambda: tried() == NONE, "podgate has heard that the class is gone")
    again = Class("train", 5, NEVER)
    cluster.add_priority_class("train", again.priority, preemptionPolicy=again.preemption)
    wait_for(lambda: tried() == again, "podgate has heard of the new class")


def as_training(thing: Json) -> list[Json]:
    """The neighbour: every pod is training."""
    is_done = "podgate.dev/workload" in thing["metadata"].get("labels", {})
    labels = {"podgate.dev/workload": "training"}
    return [] if is_done else [{"op": "add", "path": "/metadata/labels", "value": labels}]


AI_TRAIN_HIGH = Class("ai-train-high", 1000000)


def test_a_later_webhook_says_that_a_gpu_pod_is_training(
    cluster: Cluster, namespace: str, patient_podgate: Podgate, tmp_path: Path
) -> None:
    with neighbour(cluster, tmp_path / "later", as_training):
        cluster.client(ALICE).create(pod("p", namespace, gpus=1))
    assert class_of(cluster.admin.read("Pod", namespace, "p")) == AI_TRAIN_HIGH
    assert len(patient_podgate.reviews(namespace=namespace, webhook="mutate")) == 2


def test_an_earlier_webhook_adds_the_gpu(
    cluster: Cluster, namespace: str, patient_podgate: Podgate, tmp_path: Path
) -> None:
    thing = pod("p", namespace, labels={"podgate.dev/workload": "training"})
    with neighbour(cluster, tmp_path / "earlier", one_gpu, name=EARLIER):
        cluster.client(ALICE).create(thing)
    assert class_of(cluster.admin.read("Pod", namespace, "p")) == AI_TRAIN_HIGH
    assert len(patient_podgate.reviews(namespace=namespace, webhook="mutate")) == 1


@pytest.mark.parametrize("reinvocation", ["Never", "IfNeeded"])
def test_a_later_webhook_adds_the_gpu(
    cluster: Cluster, namespace: str, patient_podgate: Podgate, tmp_path: Path, reinvocation: Reinvocation
) -> None:
    """The first entry was not called, so that the API server does not reinvoke it; the late one is called."""
    thing = pod("p", namespace, labels={"podgate.dev/workload": "training"})
    with neighbour(cluster, tmp_path / "later", one_gpu, reinvocation=reinvocation):
        answer = cluster.client(ALICE).call("POST", path_of("Pod", namespace), thing)
    assert class_of(cluster.admin.read("Pod", namespace, "p")) == AI_TRAIN_HIGH
    assert len(patient_podgate.reviews(namespace=namespace, webhook="mutate")) == 1
    assert answer.warnings == ()


EVERY_POD = {
    "apiVersion": "podgate.dev/v1alpha1",
    "kind": "PodPolicy",
    "metadata": {"name": "every-pod"},
    "spec": {
        "mode": "audit",
        "match": {"all": True},
        "rules": [{"name": "seen", "setFields": {"annotations": {"seen": "yes"}}}],
    },
}


def test_where_podgate_was_called_before_both_entries_see_what_a_later_webhook_adds(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
) -> None:
    """The late one writes; the first, called again, has nothing to add."""
    furnish(cluster, STARTS[0])
    folder = policies(tmp_path / "policies")
    podgate = start_podgate((write_policies(folder, EVERY_POD),), settled=True)
    register(podgate, change=patient)
    with neighbour(cluster, tmp_path / "later", label_by_wish):
        cluster.client(ALICE).create(pod("p", namespace, annotations={WISH: "defaulted"}))
    assert class_of(cluster.admin.read("Pod", namespace, "p")) == TRAIN
    decisions = [each["decision"] for each in podgate.reviews(namespace=namespace, webhook="mutate")]
    assert decisions == ["allow", "mutate", "allow"]


FORGED: Mapping[str, Json] = {
    "a record": {"podgate.dev/policies": "0123456789ab", "podgate.dev/changes": "[]"},
    "all": {f"podgate.dev/{name}": "0123456789ab" for name in ("policies", "changes", "decision")},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_who_writes_our_annotations_himself_keeps_nothing_from_us(
    cluster: Cluster, namespace: str, patient_podgate: Podgate, tmp_path: Path, forged: Json
) -> None:
    """The first entry takes them away, so that the late one is called; the API server then calls the first again."""
    thing = pod("p", namespace, labels={"podgate.dev/workload": "training"}, annotations=forged)
    with neighbour(cluster, tmp_path / "later", one_gpu):
        answer = cluster.client(ALICE).call("POST", path_of("Pod", namespace), thing)
    stored = cluster.admin.read("Pod", namespace, "p")
    assert class_of(stored) == AI_TRAIN_HIGH
    assert forged.keys().isdisjoint(stored["metadata"].get("annotations", {}))
    assert answer.warnings == ()
    decisions = [each["decision"] for each in patient_podgate.reviews(namespace=namespace, webhook="mutate")]
    assert decisions == ["mutate", "mutate", "allow"]


@pytest.mark.usefixtures("patient_podgate")
def test_the_last_webhook_of_all_adds_the_gpu_and_the_author_is_told(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Nobody was called before it, and the API server reinvokes only whom it has called (kubernetes/apiserver:pkg/admission)."""
    thing = pod("p", namespace, labels={"podgate.dev/workload": "training"})
    with neighbour(cluster, tmp_path / "last", one_gpu, name=LAST):
        answer = cluster.client(ALICE).call("POST", path_of("Pod", namespace), thing)
    assert class_of(answer.body) == NONE
    assert [text for text in answer.warnings if text.startswith("[training-priority/class] not applied")]
