"""127 manifests that nobody here wrote, and what is made of them.

They are read from the folder that PODGATE_CORPUS names; `table.py` says by hand what is right. Nothing here takes podgate's word
for what stands in a file: documents, pods and devices are counted once more by an extractor that knows nothing of podgate.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from tests.corpus.table import FABRIC, HEAD, KAI_SHARE, LAUNCHER, RDMA, TABLE
from webhook.cli.main import podgate
from webhook.documents import listed_objects, read_documents
from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.field_path import format_field
from webhook.kube.templates import shipped_templates, templates_of, virtual_pod
from webhook.kube.workload import Workload, inspect_workload

Json = dict[str, Any]

CORPUS = os.environ.get("PODGATE_CORPUS", "")
POLICIES = Path(__file__).parents[2] / "policies"

pytestmark = pytest.mark.skipif(not CORPUS, reason="PODGATE_CORPUS names no folder of real manifests")

VENDORS = {
    "aliyun.com/gpu-mem": "nvidia",
    "amd.com/gpu": "amd",
    "cambricon.com/mlu": "cambricon",
    "cambricon.com/vmlu": "cambricon",
    "google.com/tpu": "google",
    "gpu.intel.com/i915": "intel",
    "huawei.com/Ascend310": "huawei",
    "huawei.com/Ascend910": "huawei",
    "huawei.com/Ascend910B3": "huawei",
    "hygon.com/dcunum": "hygon",
    "iluvatar.ai/MR-V100-vgpu": "iluvatar",
    "kunlunxin.com/vxpu": "kunlunxin",
    "metax-tech.com/gpu": "metax",
    "metax-tech.com/sgpu": "metax",
    "mthreads.com/vgpu": "mthreads",
    "nvidia.com/gpu": "nvidia",
}
"""The devices of the corpus, and whose they are."""

MEMORY_OF_ONE = "aliyun.com/gpu-mem"
"""Memory of one device, whatever the amount (AliyunContainerService/gpushare-scheduler-extender:docs/designs)."""

SKIPPED = {
    "ClusterQueue": 4,
    "ClusterRole": 1,
    "ClusterRoleBinding": 1,
    "ComputeDomain": 1,
    "ConfigMap": 2,
    "DeviceClass": 1,
    "HTTPRoute": 1,
    "LocalQueue": 4,
    "NIMCache": 2,
    "NIMService": 2,
    "Namespace": 4,
    "PodDisruptionBudget": 1,
    "PriorityClass": 2,
    "Queue": 2,
    "ResourceClaimTemplate": 5,
    "ResourceFlavor": 4,
    "Role": 1,
    "RoleBinding": 1,
    "Secret": 1,
    "Service": 15,
    "ServiceAccount": 2,
    "StorageClass": 1,
    "TrainJob": 2,
    "VLLMRuntime": 1,
    "Workspace": 1,
}
"""Kinds without pods, kinds whose pods an operator composes, and kinds that nobody here knows, each by name."""

UNTOUCHED = (
    "NVIDIA__gpu-operator__0800_daemonset",
    "NVIDIA__k8s-device-plugin__nvidia-device-plugin",
    "kubernetes-sigs__kueue__kueue-pod-group",
    "kubernetes-sigs__kueue__sample-job",
    "kubernetes-sigs__kueue__sample-statefulset",
    "kubernetes__examples__cassandra-statefulset",
    "kubernetes__examples__frontend",
    "rook__rook__kube-registry",
    "rook__rook__pod-ephemeral",
    "rook__rook__wordpress",
    "sgl-project__ome__daemonset",
    "tkestack__gpu-manager__gpu-manager",
    "volcano-sh__volcano__job",
)
"""Databases, web servers, registries and the daemons that run accelerators."""

NEAR_MISSES = {
    "an 8-GPU Job of one pod": ("GoogleCloudPlatform__kubernetes-engine-samples__finetune", "Job"),
    "an MPI launcher": ("coreweave__kubernetes-cloud__imagenet-mpijob", "MPIJob/Launcher"),
    "a Ray head": ("ray-project__kuberay__ray-service.deepseek", "RayService/head"),
    "a Ray head with GPUs": ("ray-project__kuberay__ray-cluster.verl", "RayCluster/head"),
    "the leader of a group without a GPU": (
        "kubernetes-sigs__kueue__sample-leaderworkerset-tas",
        "LeaderWorkerSet/leader",
    ),
    "host network": ("oracle-quickstart__oci-hpc-oke__BM.GPU.H100.8", "MPIJob/Worker"),
    "has RDMA already": (
        "coreweave__nccl-tests__nccl-test-distributed-h100-64-mpijob",
        "MPIJob/Worker",
    ),
    "has another cloud's RDMA": ("aws-samples__awsome-distributed-training__nccl-tests", "MPIJob/Worker"),
    "a device claim": ("kubernetes-sigs__dranet__mpi-job", "MPIJob/Worker"),
    "another vendor": ("vllm-project__aibrix__job", "StormService/prefill"),
    "no GPU at all": ("kubernetes-sigs__kueue__sample-mpijob", "MPIJob/Worker"),
    "a share of a GPU": ("Project-HAMi__HAMi__vllm_cross_vgpu", "Deployment"),
}
"""What looks like a pod for a fabric, and is none."""


class Found(NamedTuple):
    """What podgate makes of a pod, and where its pod spec stands in the object."""

    what: str
    workload: Workload
    obj: Json
    spec: tuple[str | int, ...]


@cache
def found_in(name: str) -> tuple[Found, ...]:
    """The pods of a file."""
    path = Path(CORPUS, f"{name}.yaml")
    reading = read_documents(path.read_bytes(), path.name, strict=False)
    assert reading.problems == ()
    objects = (obj for document in reading.documents for _, obj in listed_objects(document))
    return tuple(found for obj in objects for found in pods_of(dict(obj)))


def pods_of(obj: Json) -> Iterator[Found]:
    group = str(obj["apiVersion"]).rpartition("/")[0]
    if (group, obj["kind"]) == ("", "Pod"):
        yield Found("Pod", inspect_workload(obj, shipped_catalogue()), obj, ("spec",))
    kind = shipped_templates().kind_of(group, obj["kind"])
    for template in templates_of(kind, obj) if kind else ():
        pod = virtual_pod(kind, obj, template) if kind else {}
        what = f"{obj['kind']}/{template.role}" if template.role else obj["kind"]
        yield Found(what, inspect_workload(pod, shipped_catalogue()), obj, template.spec_path)


def asked(workload: Workload) -> str:
    counts = [f"{count} {name}" for name, count in workload.accelerators.items()]
    return " + ".join([*counts, *(["claim"] if workload.claims_devices else [])])


@cache
def checked() -> Json:
    """`podgate check` over all of the corpus, with the shipped policies and what they want to be there."""
    arguments = ["check", CORPUS, "--policies", str(POLICIES), "--facts", str(POLICIES / "prerequisites")]
    result = CliRunner().invoke(podgate, [*arguments, "-o", "json"])
    assert isinstance(result.exception, SystemExit | None), "no traceback reaches a user"
    assert result.exit_code in (0, 1)
    found: Json = json.loads(result.stdout)
    return found


# -- the extractor: plain YAML, and nothing of podgate


@cache
def documents(name: str) -> list[Json]:
    with Path(CORPUS, f"{name}.yaml").open(encoding="utf-8") as file:
        loaded = [each for each in yaml.load_all(file, yaml.SafeLoader) if each]
    return [item for each in loaded for item in (each["items"] if each["kind"] == "List" else [each])]


def pod_specs(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        containers = value.get("containers")
        if isinstance(containers, list) and all(
            isinstance(each, dict) and "name" in each for each in containers
        ):
            yield value
        for child in value.values():
            yield from pod_specs(child)
    elif isinstance(value, list):
        for child in value:
            yield from pod_specs(child)


def devices(container: Json) -> Counter[str]:
    """Limits of the known devices; a request where there is no limit."""
    resources = container.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    known = {name: amount for name, amount in amounts.items() if name in VENDORS and amount is not None}
    return Counter({name: 1 if name == MEMORY_OF_ONE else int(amount) for name, amount in known.items()})


def counted(spec: Json) -> str:
    """What a pod asks for: no init container of the corpus asks for a device, so that limits are summed."""
    assert not any(devices(each) for each in spec.get("initContainers") or ())
    total = sum((devices(each) for each in spec["containers"]), Counter[str]())
    claim = ["claim"] if spec.get("resourceClaims") else []
    return " + ".join([*(f"{count} {name}" for name, count in total.items()), *claim])


# -- tests


def test_every_file_has_an_entry() -> None:
    assert {path.stem for path in Path(CORPUS).glob("*.yaml")} == set(TABLE)
    assert len(TABLE) == 127


@pytest.mark.parametrize("name", TABLE)
def test_class_communication_and_devices(name: str) -> None:
    found = [
        (each.what, each.workload.workload_class, each.workload.communication, asked(each.workload))
        for each in found_in(name)
    ]
    assert found == [row[:4] for row in TABLE[name]]


@pytest.mark.parametrize("name", TABLE)
def test_vendors(name: str) -> None:
    def of(text: str) -> set[str]:
        return {VENDORS[part.split()[1]] for part in text.split(" + ") if " " in part}

    assert [set(each.workload.vendors) for each in found_in(name)] == [of(row.asked) for row in TABLE[name]]


OF_A_MODEL = "kserve__kserve__tensorflow-gpu"
"""Its container stands beside the pod spec, under the name of the model's format."""


@pytest.mark.parametrize("name", [name for name in TABLE if name != OF_A_MODEL])
def test_the_table_counts_like_the_extractor(name: str) -> None:
    expected = ["" if row.reason == KAI_SHARE else row.asked for row in TABLE[name]]
    found = [counted(spec) for document in documents(name) for spec in pod_specs(document)]
    assert sorted(found) == sorted(expected)


def test_every_document_is_accounted_for() -> None:
    found = Counter(Path(each["file"]).stem for part in ("objects", "skipped") for each in checked()[part])
    assert {name: found[name] for name in TABLE} == {name: len(documents(name)) for name in TABLE}
    assert checked()["problems"] == []


def test_what_is_skipped_is_named() -> None:
    skipped = checked()["skipped"]
    assert Counter(each["kind"] for each in skipped) == SKIPPED
    assert all(each["name"] and each["line"] > 0 for each in skipped)


def rdma_in(name: str) -> set[tuple[str, str]]:
    """Where RDMA would be asked for in a file, and how much: limits, beside which is always an equal request."""
    changes = [
        (change["path"], change["to"])
        for each in checked()["objects"]
        if Path(each["file"]).stem == name
        for change in (*each["changes"], *each["later"])
        if "rdma/" in change["path"]
    ]
    requests = {(path, to) for path, to in changes if ".resources.requests[" in path}
    limits = {(path, to) for path, to in changes if ".resources.limits[" in path}
    assert {(path.replace(".requests[", ".limits["), to) for path, to in requests} == limits
    assert len(changes) == 2 * len(limits)
    return limits


def rdma_place(found: Found, container: str) -> str:
    spec: Any = found.obj
    for segment in found.spec:
        spec = spec[segment]
    index = [each["name"] for each in spec["containers"]].index(container)
    return format_field(found.obj, (*found.spec, "containers", index, "resources", "limits", RDMA[0]))


@pytest.mark.parametrize("name", TABLE)
def test_rdma_goes_where_the_table_says(name: str) -> None:
    expected = {
        (rdma_place(found, row.rdma), RDMA[1])
        for found, row in zip(found_in(name), TABLE[name], strict=True)
        if row.rdma
    }
    assert rdma_in(name) == expected


def test_the_table_gives_reasons() -> None:
    rows = [row for rows in TABLE.values() for row in rows]
    assert {row.reason for row in rows if row.rdma} == {FABRIC}
    assert all(row.communication != "none" and row.asked for row in rows if row.rdma)
    assert all(row.reason not in ("", FABRIC) for row in rows if not row.rdma)
    assert sum(bool(row.rdma) for row in rows) == 24


@pytest.mark.parametrize(("name", "what"), NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_a_near_miss_gets_no_rdma(name: str, what: str) -> None:
    (index,) = [index for index, row in enumerate(TABLE[name]) if row.what == what]
    found = found_in(name)[index]
    place = format_field(found.obj, found.spec)
    assert TABLE[name][index].rdma == ""
    assert not [path for path, _ in rdma_in(name) if path.startswith(f"{place}.")]


@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_has_nothing_to_do_with_accelerators_stays_as_it_is(name: str) -> None:
    objects = [each for each in checked()["objects"] if Path(each["file"]).stem == name]
    assert objects
    assert [(each["changes"], each["later"]) for each in objects] == [([], [])] * len(objects)
    assert not [each["name"] for each in objects if "refused" in each["verdicts"]]


def test_launchers_and_heads_without_devices_stay_as_they_are() -> None:
    tried = 0
    for name, rows in TABLE.items():
        for found, row in zip(found_in(name), rows, strict=True):
            if row.reason in (LAUNCHER, HEAD):
                tried += 1
                assert changes_below(name, format_field(found.obj, found.spec)) == []
    assert tried == 15


def changes_below(name: str, place: str) -> list[str]:
    return [
        change["path"]
        for each in checked()["objects"]
        if Path(each["file"]).stem == name
        for change in (*each["changes"], *each["later"])
        if re.match(rf"{re.escape(place)}[.\[]", change["path"])
    ]
