"""For what podgate is called: only for what a loaded policy could judge or change.

The table of docs/calls.md is made here; PODGATE_UPDATE_GOLDEN=1 writes it anew.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.e2e.client import JSON_PATCH, Json, path_of
from tests.e2e.cluster import ADMIN, ALICE, ROOT
from tests.e2e.neighbour import neighbour, one_gpu
from tests.e2e.podgate import SHIPPED, SITE, Podgate, write_policies
from tests.e2e.registration import LATE, MUTATE
from tests.e2e.workloads import container, deployment, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.e2e.cluster import Cluster

    Step = Callable[[Cluster, str], object]

PAGES: Mapping[str, Path] = {"en": ROOT / "docs" / "calls.md", "zh": ROOT / "docs" / "zh" / "calls.md"}
MUTATING: Mapping[str, str] = {MUTATE: "m", LATE: "l"}
"""Both are answered by one route, so that the API server is asked; controllers create no pods and claims here."""
VALIDATING: Mapping[str, str] = {"validate/fail": "f", "validate/ignore": "i"}
NONE = "·"


class PolicySet(NamedTuple):
    """What is loaded: a column of the table.

    Attributes:
        shipped: the shipped policies; all of them, with the site's pools, where there are none and no other.
        other: a policy of its own.
    """

    en: str
    zh: str
    shipped: Sequence[str] = ()
    other: Json | None = None

    def written(self, folder: Path) -> tuple[Path, ...]:
        if self.other:
            return (write_policies(folder, self.other),)
        return tuple(SHIPPED / f"{name}.yaml" for name in self.shipped) or (SHIPPED, SITE)


EVERY_POD = {
    "apiVersion": "podgate.dev/v1alpha1",
    "kind": "PodPolicy",
    "metadata": {"name": "registry"},
    "spec": {
        "mode": "enforce",
        "match": {"all": True, "operations": ["CREATE", "UPDATE"]},
        "rules": [
            {
                "name": "ours",
                "expression": {
                    "resources": ["pods"],
                    "validations": [
                        {
                            "expression": 'object.spec.containers.all(c, c.image.startsWith("registry.example.org/"))'
                        }
                    ],
                },
            }
        ],
    },
}
SETS = (
    PolicySet("all that are shipped", "全部自带策略"),
    PolicySet("`gpu-placement`", "`gpu-placement`", ["gpu-placement"]),
    PolicySet("`gpu-limits`", "`gpu-limits`", ["gpu-limits"]),
    PolicySet("`no-bypass`", "`no-bypass`", ["no-bypass"]),
    PolicySet("`ceph-storage`", "`ceph-storage`", ["ceph-storage"]),
    PolicySet("an `expression` for every pod", "针对所有 Pod 的 `expression`", other=EVERY_POD),
)


class Act(NamedTuple):
    """What somebody does: a row of the table."""

    en: str
    zh: str
    do: Step


def creates(make: Callable[[str], Json]) -> Step:
    return lambda cluster, namespace: cluster.client(ALICE).create(make(namespace))


def changes(kind: str, name: str, body: Json, subresource: str = "") -> Step:
    return lambda cluster, namespace: cluster.admin.patch(path_of(kind, namespace, name, subresource), body)


def sets_image(kind: str, name: str) -> Step:
    place = "/spec" if kind == "Pod" else "/spec/template/spec"
    image = {
        "op": "replace",
        "path": f"{place}/containers/0/image",
        "value": "registry.example.org/ai/main:1.1",
    }
    return lambda cluster, namespace: cluster.admin.patch(
        path_of(kind, namespace, name), [image], content=JSON_PATCH
    )


def evicts(name: str) -> Step:
    def step(cluster: Cluster, namespace: str) -> None:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        cluster.client(ALICE).call("POST", path_of("Pod", namespace, name, "eviction"), eviction)

    return step


def ends(kind: str, name: str) -> Step:
    return lambda cluster, namespace: cluster.admin.delete(
        path_of(kind, namespace, name), gracePeriodSeconds=0
    )


def web(name: str, gpus: int = 0) -> Callable[[str], Json]:
    """A Deployment that makes no pods: their creation is another row."""
    return lambda at: deployment(name, at, {"containers": [container(gpus=gpus)]}, replicas=0)


def claim(namespace: str, name: str = "data", **spec: str) -> Json:
    requests = {"requests": {"storage": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": requests} | spec,
    }


def is_given_a_gpu(cluster: Cluster, namespace: str) -> None:
    with neighbour(cluster, cluster.folder / f"later-{namespace}", one_gpu):
        cluster.client(ALICE).create(pod("given", namespace))


LABEL = {"metadata": {"labels": {"team": "vision"}}}
RUNNING = {"status": {"phase": "Running"}}
SPOT: Json = {"tolerations": [{"key": "example.com/spot", "operator": "Exists"}]}
LINUX: Json = {"nodeSelector": {"kubernetes.io/os": "linux"}}
ZONE: Json = {"nodeSelector": {"topology.kubernetes.io/zone": "a"}}
PLACED: Json = {
    "nodeSelector": {"nvidia.com/gpu.present": "true"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
}
CACHE: Json = {"volumes": [{"name": "cache", "hostPath": {"path": "/var/cache/models"}}]}
QUIET = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
FORGED = {"podgate.dev/policies": "9b60a0e4af93"}
ACTS = (
    Act("plain pod: created", "普通 Pod：创建", creates(lambda at: pod("plain", at))),
    Act("plain pod: label", "普通 Pod：修改标签", changes("Pod", "plain", LABEL)),
    Act("plain pod: image", "普通 Pod：修改镜像", sets_image("Pod", "plain")),
    Act("plain pod: status", "普通 Pod：更新状态", changes("Pod", "plain", RUNNING, "status")),
    Act("plain pod: deleted", "普通 Pod：删除", ends("Pod", "plain")),
    Act("GPU pod: created", "GPU Pod：创建", creates(lambda at: pod("gpu", at, 1))),
    Act(
        "GPU pod placed by its author: created",
        "作者已指定位置的 GPU Pod：创建",
        creates(lambda at: pod("placed", at, 1, **PLACED)),
    ),
    Act(
        "plain pod that a later webhook gives a GPU: created",
        "由之后的 webhook 添加 GPU 的普通 Pod：创建",
        is_given_a_gpu,
    ),
    Act("GPU pod: label", "GPU Pod：修改标签", changes("Pod", "gpu", LABEL)),
    Act("GPU pod: image", "GPU Pod：修改镜像", sets_image("Pod", "gpu")),
    Act("GPU pod: status", "GPU Pod：更新状态", changes("Pod", "gpu", RUNNING, "status")),
    Act("GPU pod: evicted", "GPU Pod：驱逐", evicts("gpu")),
    Act("GPU pod: deleted", "GPU Pod：删除", ends("Pod", "gpu")),
    Act(
        "pod that selects Linux: created",
        "选择 Linux 的 Pod：创建",
        creates(lambda at: pod("linux", at, **LINUX)),
    ),
    Act(
        "pod that selects nodes: created", "选择节点的 Pod：创建", creates(lambda at: pod("zone", at, **ZONE))
    ),
    Act("pod with a toleration: created", "带容忍的 Pod：创建", creates(lambda at: pod("spot", at, **SPOT))),
    Act(
        "pod with a hostPath: created",
        "带 hostPath 的 Pod：创建",
        creates(lambda at: pod("cache", at, **CACHE)),
    ),
    Act(
        "pod that sets `NVIDIA_VISIBLE_DEVICES`: created",
        "设置 `NVIDIA_VISIBLE_DEVICES` 的 Pod：创建",
        creates(lambda at: pod("quiet", at, containers=[container(env=QUIET)])),
    ),
    Act(
        "pod with an annotation of podgate's: created",
        "带 podgate 注解的 Pod：创建",
        creates(lambda at: pod("forged", at, annotations=FORGED)),
    ),
    Act("plain Deployment: created", "普通 Deployment：创建", creates(web("web"))),
    Act("GPU Deployment: created", "GPU Deployment：创建", creates(web("gpu", 1))),
    Act("GPU Deployment: label", "GPU Deployment：修改标签", changes("Deployment", "gpu", LABEL)),
    Act(
        "GPU Deployment: paused",
        "GPU Deployment：暂停",
        changes("Deployment", "gpu", {"spec": {"paused": True}}),
    ),
    Act("GPU Deployment: image", "GPU Deployment：修改镜像", sets_image("Deployment", "gpu")),
    Act("GPU Deployment: deleted", "GPU Deployment：删除", ends("Deployment", "gpu")),
    Act("claim: created", "存储声明：创建", creates(claim)),
    Act(
        "claim that names its class: created",
        "写明存储类的存储声明：创建",
        creates(lambda at: claim(at, "named", storageClassName="ceph-block")),
    ),
    Act("claim: label", "存储声明：修改标签", changes("PersistentVolumeClaim", "data", LABEL)),
    Act("claim: deleted", "存储声明：删除", ends("PersistentVolumeClaim", "data")),
)


@pytest.fixture
def counted(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
) -> Callable[[PolicySet], list[str]]:
    """The calls of each act under a policy set: a column."""

    def count(policies: PolicySet) -> list[str]:
        podgate = start_podgate(policies.written(tmp_path / "policies"), settled=True)
        register(podgate)
        return [calls(cluster, podgate, partial(act.do, cluster, namespace), namespace) for act in ACTS]

    return count


def calls(cluster: Cluster, podgate: Podgate, step: Callable[[], object], namespace: str) -> str:
    """A letter for each entry that a step calls; a patch calls it again where somebody else wrote meanwhile."""
    before, counts = len(reviews(podgate, namespace)), counted_by(cluster)
    step()
    made = {VALIDATING.get(each["webhook"], "") for each in reviews(podgate, namespace)[before:]}
    made |= {MUTATING[entry] for entry in (counted_by(cluster) - counts)}
    return " ".join(sorted(made - {""}, key="mlfi".index)) or NONE


def counted_by(cluster: Cluster) -> Counter[str]:
    """How often the API server has called our mutating entries."""
    found: Counter[str] = Counter()
    for line in cluster.metrics().splitlines():
        if line.startswith("apiserver_admission_webhook_request_total{"):
            found.update(
                {each: int(float(line.split()[-1])) for each in MUTATING if f'name="{each}"' in line}
            )
    return found


def reviews(podgate: Podgate, namespace: str) -> list[Json]:
    """Those of what we do ourselves; controllers do theirs whenever they come to it."""
    return [each for each in podgate.reviews(namespace=namespace) if each["user"] in (ALICE, ADMIN)]


def head(language: str) -> str:
    names = [getattr(each, language) for each in SETS]
    first = {"en": "who does what", "zh": "操作"}[language]
    return f"| {' | '.join([first, *names])} |\n|---{'|---' * len(names)}|\n"


def column(language: str, number: int) -> list[str]:
    """The cells of a policy set in the page, by the acts."""
    lines = PAGES[language].read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert cells[0][1:] == [getattr(each, language) for each in SETS]
    assert [row[0] for row in cells[2:]] == [getattr(each, language) for each in ACTS]
    return [row[number + 1] for row in cells[2:]]


def rewrite(language: str, number: int, found: Sequence[str]) -> None:
    page = PAGES[language]
    lines = page.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    kept = [line for line in lines[first:] if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in kept]
    rows = rows if len(rows) == len(ACTS) else [[NONE] * len(SETS) for _ in ACTS]
    for row, cell in zip(rows, found, strict=True):
        row[number] = cell
    titles = [getattr(act, language) for act in ACTS]
    table = [f"| {' | '.join([title, *row])} |" for title, row in zip(titles, rows, strict=True)]
    text = "\n".join([*lines[:first], head(language) + "\n".join(table), *lines[first + 2 + len(kept) :]])
    page.write_text(text + "\n")


@pytest.mark.parametrize("number", range(len(SETS)), ids=[each.en for each in SETS])
def test_podgate_is_called_for_what_the_table_says(
    counted: Callable[[PolicySet], list[str]], number: int
) -> None:
    found = counted(SETS[number])
    for language in PAGES:
        if os.environ.get("PODGATE_UPDATE_GOLDEN"):
            rewrite(language, number, found)
        assert column(language, number) == found


def test_the_table_shows_what_matters() -> None:
    """Whoever makes the table anew sees here whether it got worse."""
    cells = {
        act.en: [column("en", number)[row] for number in range(len(SETS))] for row, act in enumerate(ACTS)
    }
    narrow = len(SETS) - 1
    for act in ("plain pod: created", "pod that selects Linux: created", "plain Deployment: created"):
        assert cells[act][:narrow] == [NONE] * narrow, act
    lived = [act for act in cells if act.endswith(("label", "status", "paused", "evicted", "deleted"))]
    assert {cell for act in lived for cell in cells[act][:narrow]} == {NONE}
    assert cells["pod with an annotation of podgate's: created"][0] == "m"
