import time
from typing import Any

import pytest

from webhook.kube.accelerators import Catalogue, shipped_catalogue
from webhook.kube.devices import asked_devices

GPU = "nvidia.com/gpu"
APP = ("spec", "containers", 0)


def container(name: str = "main", **resources: Any) -> dict[str, Any]:
    return {"name": name, "resources": resources}


def limits(**values: Any) -> dict[str, Any]:
    """A pod whose only container has these limits; the names stand in `NAMES`."""
    return {
        "spec": {
            "containers": [container(limits={NAMES.get(key, key): value for key, value in values.items()})]
        }
    }


NAMES = {
    "gpu": GPU,
    "gpumem": "nvidia.com/gpumem",
    "gpucores": "nvidia.com/gpucores",
    "mig": "nvidia.com/mig-1g.5gb",
    "shared": "nvidia.com/gpu.shared",
}


def asking(**resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [container(limits=dict(resources))]}}


NOTHING: dict[str, dict[str, Any]] = {
    "no accelerator": limits(cpu=8, memory="64Gi"),
    "zero GPUs": limits(gpu=0),
    "zero as text": limits(gpu="0"),
    "negative": limits(gpu="-1"),
    "no quantity": limits(gpu="all"),
    "a name that only looks like one": asking(**{"example.com/gpuish-license": 5}),
    "an RDMA device under the vendor's name": asking(**{"nvidia.com/rdma-vf": 16}),
    "monitoring of all devices": asking(**{"gpu.intel.com/xe_monitoring": 1}),
    "memory of a vendor whose plugin needs the number": asking(**{"huawei.com/Ascend910B3-memory": 2000}),
    "memory beside an explicit zero": limits(gpu=0, gpumem=3000),
    "zero memory": limits(gpumem=0),
    "a device class that may be a NIC": asking(
        **{"deviceclass.resource.kubernetes.io/dranet.example.com": 1}
    ),
    "only an ephemeral container": {"spec": {"ephemeralContainers": [container(limits={GPU: 1})]}},
    "pod-level resources know no devices": {
        "spec": {"resources": {"limits": {GPU: 8}}, "containers": [container()]}
    },
    "empty list of claims": {"spec": {"resourceClaims": [], "containers": [container()]}},
    "a container names a claim that the pod lacks": {
        "spec": {"containers": [container(claims=[{"name": "gpu"}])]}
    },
    "KAI fraction, default scheduler": {
        "metadata": {"annotations": {"gpu-fraction": "0.5"}},
        "spec": {"schedulerName": "default-scheduler", "containers": [container()]},
    },
    "KAI fraction, no scheduler": {
        "metadata": {"annotations": {"gpu-fraction": "0.5"}},
        "spec": {"containers": [container()]},
    },
    "KAI fraction, a scheduler of the wrong type": {
        "metadata": {"annotations": {"gpu-fraction": "zero"}},
        "spec": {"schedulerName": ["kai-scheduler"], "containers": [container()]},
    },
    "KAI fraction that is none": {
        "metadata": {"annotations": {"gpu-fraction": "1.5"}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [container()]},
    },
    "KAI label without annotation": {
        "metadata": {"labels": {"kai.scheduler/queue": "team"}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [container()]},
    },
}


@pytest.mark.parametrize("pod", NOTHING.values(), ids=NOTHING)
def test_asks_for_nothing(pod: dict[str, Any]) -> None:
    asked = asked_devices(pod, shipped_catalogue())
    assert asked == asked_devices({}, shipped_catalogue())
    assert (asked.counts, asked.holders, asked.has_claims) == ({}, (), False)


def kai(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"annotations": {key.replace("_", "-"): value for key, value in annotations.items()}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "initContainers": [container("fetch")],
            "containers": [container("main"), container("second")],
        },
    }


# pod: counts, vendors, sharing
COUNTED: dict[str, tuple[dict[str, Any], dict[str, int], set[str], set[str]]] = {
    "whole GPUs": (limits(gpu=8), {GPU: 8}, {"nvidia"}, {"none"}),
    "a whole number in another spelling": (limits(gpu="1000m"), {GPU: 1}, {"nvidia"}, {"none"}),
    "request only": (
        {"spec": {"containers": [container(requests={GPU: 2})]}},
        {GPU: 2},
        {"nvidia"},
        {"none"},
    ),
    "a decimal GPU is a share of one": (limits(gpu=0.5), {GPU: 1}, {"nvidia"}, {"timeSlice"}),
    "MIG": (limits(mig=2), {"nvidia.com/mig-1g.5gb": 2}, {"nvidia"}, {"mig"}),
    "time-slicing": (limits(shared=1), {"nvidia.com/gpu.shared": 1}, {"nvidia"}, {"timeSlice"}),
    "HAMi: memory beside the device": (limits(gpu=1, gpumem=3000), {GPU: 1}, {"nvidia"}, {"memorySlice"}),
    "HAMi: cores beside the device": (limits(gpu=2, gpucores=30), {GPU: 2}, {"nvidia"}, {"timeSlice"}),
    "HAMi: memory says more than cores": (
        limits(gpu=1, gpucores=30, gpumem=3000),
        {GPU: 1},
        {"nvidia"},
        {"memorySlice"},
    ),
    "HAMi: memory alone is one device": (limits(gpumem=20000), {GPU: 1}, {"nvidia"}, {"memorySlice"}),
    "HAMi: cores alone are one device": (limits(gpucores=50), {GPU: 1}, {"nvidia"}, {"timeSlice"}),
    "HAMi: memory and cores alone are one device": (
        limits(gpumem=20000, gpucores=50),
        {GPU: 1},
        {"nvidia"},
        {"memorySlice"},
    ),
    "another vendor's memory shares nothing": (
        asking(**{GPU: 1, "huawei.com/Ascend910B3-memory": 2000}),
        {GPU: 1},
        {"nvidia"},
        {"none"},
    ),
    "Ascend via HAMi: the memory is no device": (
        asking(**{"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 2000}),
        {"huawei.com/Ascend910B3": 1},
        {"huawei"},
        {"memorySlice"},
    ),
    "Ascend vNPU by cores": (
        asking(**{"huawei.com/npu-core": 4}),
        {"huawei.com/npu-core": 1},
        {"huawei"},
        {"mig"},
    ),
    "Aliyun gpushare: a share of one card, under its own name": (
        asking(**{"aliyun.com/gpu-mem": 5}),
        {"aliyun.com/gpu-mem": 1},
        {"nvidia"},
        {"memorySlice"},
    ),
    "CCE: memory and cores of one card": (
        asking(**{"volcano.sh/gpu-mem.128Mi": 40, "volcano.sh/gpu-core.percentage": 25}),
        {"volcano.sh/gpu-mem.128Mi": 1},
        {"nvidia"},
        {"memorySlice"},
    ),
    "Volcano vGPU": (
        asking(**{"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 3000}),
        {"volcano.sh/vgpu-number": 2},
        {"nvidia"},
        {"memorySlice"},
    ),
    "Tencent: a third of a card": (
        asking(**{"tencent.com/vcuda-core": 30, "tencent.com/vcuda-memory": 15}),
        {"tencent.com/vcuda-core": 1},
        {"nvidia"},
        {"memorySlice"},
    ),
    "Tencent: two whole cards": (
        asking(**{"tencent.com/vcuda-core": 200}),
        {"tencent.com/vcuda-core": 2},
        {"nvidia"},
        {"none"},
    ),
    "Koordinator: half a card": (
        asking(**{"koordinator.sh/gpu": 50}),
        {"koordinator.sh/gpu": 1},
        {"nvidia"},
        {"timeSlice"},
    ),
    "Koordinator: eight whole cards": (
        asking(**{"koordinator.sh/gpu-core": 800, "koordinator.sh/gpu-memory-ratio": 800}),
        {"koordinator.sh/gpu": 8},
        {"nvidia"},
        {"none"},
    ),
    "Koordinator: half of the cores and of the memory": (
        asking(**{"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50}),
        {"koordinator.sh/gpu": 1},
        {"nvidia"},
        {"memorySlice"},
    ),
    "DRA extended resource": (
        asking(**{"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2}),
        {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2},
        {"nvidia"},
        {"none"},
    ),
    "two kinds of device": (
        {"spec": {"containers": [container(limits={GPU: 1}), container(limits={"google.com/tpu": 4})]}},
        {GPU: 1, "google.com/tpu": 4},
        {"nvidia", "google"},
        {"none"},
    ),
    "KAI fraction": (kai(gpu_fraction="0.5"), {GPU: 1}, {"nvidia"}, {"timeSlice"}),
    "KAI fraction that is a whole one": (kai(gpu_fraction="1"), {GPU: 1}, {"nvidia"}, {"timeSlice"}),
    "KAI memory": (kai(gpu_memory="2000"), {GPU: 1}, {"nvidia"}, {"memorySlice"}),
    "KAI fraction of several devices": (
        kai(gpu_fraction="0.5", gpu_fraction_num_devices="2"),
        {GPU: 2},
        {"nvidia"},
        {"timeSlice"},
    ),
}


@pytest.mark.parametrize(("pod", "counts", "vendors", "sharing"), COUNTED.values(), ids=COUNTED)
def test_counts_devices(
    pod: dict[str, Any], counts: dict[str, int], vendors: set[str], sharing: set[str]
) -> None:
    asked = asked_devices(pod, shipped_catalogue())
    assert (asked.counts, set(asked.vendors), set(asked.sharing)) == (counts, vendors, sharing)
    assert asked.holders[0] == APP
    assert not asked.has_claims


def test_counts_init_containers_and_sidecars_as_the_scheduler_does() -> None:
    pod = {
        "spec": {
            "initContainers": [
                container("validate", limits={GPU: 1}),
                {**container("watch", limits={GPU: 1}), "restartPolicy": "Always"},
            ],
            "containers": [container("proxy"), container("train", limits={GPU: 2})],
        }
    }
    asked = asked_devices(pod, shipped_catalogue())
    assert asked.counts == {GPU: 3}
    assert asked.holders == (
        ("spec", "initContainers", 0),
        ("spec", "initContainers", 1),
        ("spec", "containers", 1),
    )


def test_a_device_only_in_an_init_container_counts() -> None:
    pod = {"spec": {"initContainers": [container(limits={GPU: 1})], "containers": [container()]}}
    assert asked_devices(pod, shipped_catalogue()).counts == {GPU: 1}


def test_shares_of_two_containers_add_up_before_they_are_rounded() -> None:
    pod = {"spec": {"containers": [container(limits={GPU: 0.5}), container(limits={GPU: 0.5})]}}
    assert asked_devices(pod, shipped_catalogue()).counts == {GPU: 1}


def test_memory_alone_in_two_containers_is_two_devices() -> None:
    pod = {
        "spec": {
            "containers": [
                container(limits={"nvidia.com/gpumem": 1}),
                container(limits={"nvidia.com/gpumem": 1}),
            ]
        }
    }
    assert asked_devices(pod, shipped_catalogue()).counts == {GPU: 2}


@pytest.mark.parametrize("units", [(300, 100), (100, 300)], ids=["more cores", "more memory"])
def test_of_two_shares_of_one_device_the_larger_counts(units: tuple[int, int]) -> None:
    names = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")
    for order in (names, names[::-1]):
        pod = asking(**{name: dict(zip(names, units, strict=True))[name] for name in order})
        assert list(asked_devices(pod, shipped_catalogue()).counts.values()) == [3]


def test_a_whole_and_a_shared_device_are_both_said() -> None:
    pod = {
        "spec": {"containers": [container(limits={GPU: 1}), container(limits={"nvidia.com/mig-1g.5gb": 1})]}
    }
    assert asked_devices(pod, shipped_catalogue()).sharing == {"none", "mig"}


def test_the_container_that_an_annotation_names_holds_the_share() -> None:
    asked = asked_devices(kai(gpu_fraction="0.5", gpu_fraction_container_name="fetch"), shipped_catalogue())
    assert asked.holders == (("spec", "initContainers", 0),)
    unknown = kai(gpu_fraction="0.5", gpu_fraction_container_name="absent")
    assert asked_devices(unknown, shipped_catalogue()).counts == {}


def test_a_resource_beats_the_annotation() -> None:
    pod = kai(gpu_fraction="0.5")
    pod["spec"]["containers"][1] = container("second", limits={GPU: 4})
    asked = asked_devices(pod, shipped_catalogue())
    assert (asked.counts, asked.holders) == ({GPU: 4}, (("spec", "containers", 1),))


def test_a_claim_asks_and_is_not_counted() -> None:
    pod = {
        "spec": {
            "containers": [container("proxy"), container(claims=[{"name": "gpu"}])],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        }
    }
    asked = asked_devices(pod, shipped_catalogue())
    assert (asked.counts, asked.vendors, asked.sharing) == ({}, frozenset(), frozenset())
    assert (asked.has_claims, asked.holders) == (True, (("spec", "containers", 1),))


def test_a_claim_that_no_container_names_asks_still() -> None:
    asked = asked_devices({"spec": {"resourceClaims": [{"name": "gpu"}]}}, shipped_catalogue())
    assert (asked.has_claims, asked.holders) == (True, ())


def test_a_sites_own_device_counts() -> None:
    extra = Catalogue.from_value(
        {"vendors": {"acme": {"resources": [{"names": ["acme.example/npu"], "role": "device"}]}}}
    )
    asked = asked_devices(asking(**{"acme.example/npu": 2}), shipped_catalogue().merged(extra))
    assert (asked.counts, set(asked.vendors)) == ({"acme.example/npu": 2}, {"acme"})


def test_a_device_that_memory_counts_as_need_not_be_listed() -> None:
    memory = {"names": ["a.b/mem"], "role": "memory", "sharing": "memorySlice", "countsAs": "a.b/dev"}
    catalogue = Catalogue.from_value({"vendors": {"acme": {"resources": [memory]}}})
    asked = asked_devices(asking(**{"a.b/mem": 2}), catalogue)
    assert (asked.counts, set(asked.sharing), set(asked.vendors)) == (
        {"a.b/dev": 1},
        {"memorySlice"},
        {"acme"},
    )


@pytest.mark.timed
def test_the_work_grows_with_the_pod_and_no_faster() -> None:
    """A hostile pod: names that match patterns, each its own, in one container and in as many sidecars."""
    devices = {f"cambricon.com/mlu3{number}": 1 for number in range(20_000)}
    memory = {f"iluvatar.ai/{number}.vMem": 1 for number in range(20_000)}
    sidecars = [
        {"restartPolicy": "Always", "resources": {"limits": {f"cambricon.com/mlu5{number}": 1}}}
        for number in range(20_000)
    ]
    pod = {"spec": {"initContainers": sidecars, "containers": [container(limits=devices | memory)]}}
    start = time.thread_time()
    asked = asked_devices(pod, shipped_catalogue())
    assert len(asked.counts) == 40_000
    assert time.thread_time() - start < 3
