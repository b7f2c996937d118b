import json
import time
from typing import Any

import pytest

from webhook.kube.accelerators import (
    MAX_NAME_LENGTH,
    Catalogue,
    CatalogueError,
    Resource,
    shipped_catalogue,
)

UNKNOWN = [
    "cpu",
    "memory",
    "hugepages-2Mi",
    "",
    "/",
    "example.com/gpuish-license",  # a substring is no match
    "example.com/nvidia.com/gpu",
    "nvidia.com/gpux",
    "nvidia.com/GPU",
    "NVIDIA.com/gpu",
    "huawei.com/ascend910",  # case matters
    "gpu.nvidia.com",
    "nvidia.com/",
    "mig-1g.5gb",
    "requests.nvidia.com/gpu",
    "nvidia.com/gpu\n",
    "cambricon.com/mlux",
    "rdma/ib",
    "x" * 1000,
]

# name: vendor, role, sharing
KNOWN: dict[str, tuple[str, str, str]] = {
    "nvidia.com/gpu": ("nvidia", "device", "none"),
    "nvidia.com/gpu.shared": ("nvidia", "device", "timeSlice"),
    "nvidia.com/mig-1g.5gb": ("nvidia", "device", "mig"),
    "nvidia.com/mig-3g.20gb": ("nvidia", "device", "mig"),
    "nvidia.com/mig-1g.5gb.shared": ("nvidia", "device", "mig"),
    "nvidia.com/gpumem": ("nvidia", "memory", "memorySlice"),
    "nvidia.com/gpumem-percentage": ("nvidia", "memory", "memorySlice"),
    "nvidia.com/gpucores": ("nvidia", "cores", "timeSlice"),
    "nvidia.com/priority": ("nvidia", "other", "none"),
    "nvidia.com/hostdev": ("nvidia", "other", "none"),
    "nvidia.com/mlnxnics": ("nvidia", "other", "none"),
    "nvidia.com/rdma-vf": ("nvidia", "other", "none"),
    "volcano.sh/vgpu-number": ("nvidia", "device", "memorySlice"),
    "volcano.sh/vgpu-memory": ("nvidia", "memory", "memorySlice"),
    "volcano.sh/vgpu-memory-percentage": ("nvidia", "memory", "memorySlice"),
    "volcano.sh/vgpu-cores": ("nvidia", "cores", "timeSlice"),
    "volcano.sh/gpu-memory": ("nvidia", "memory", "memorySlice"),
    "volcano.sh/gpu-number": ("nvidia", "device", "none"),
    "volcano.sh/gpu-mem.128Mi": ("nvidia", "memory", "memorySlice"),
    "volcano.sh/gpu-core.percentage": ("nvidia", "cores", "timeSlice"),
    "aliyun.com/gpu-mem": ("nvidia", "memory", "memorySlice"),
    "tencent.com/vcuda-core": ("nvidia", "device", "none"),
    "tencent.com/vcuda-memory": ("nvidia", "memory", "memorySlice"),
    "koordinator.sh/gpu": ("nvidia", "device", "none"),
    "koordinator.sh/gpu.shared": ("nvidia", "device", "memorySlice"),
    "koordinator.sh/gpu-core": ("nvidia", "cores", "timeSlice"),
    "koordinator.sh/gpu-memory": ("nvidia", "memory", "memorySlice"),
    "koordinator.sh/gpu-memory-ratio": ("nvidia", "memory", "memorySlice"),
    "amd.com/gpu": ("amd", "device", "none"),
    "amd.com/spx_nps1": ("amd", "device", "none"),
    "amd.com/cpx_nps4": ("amd", "device", "mig"),
    "amd.com/gpumem": ("amd", "memory", "memorySlice"),
    "gpu.intel.com/i915": ("intel", "device", "none"),
    "gpu.intel.com/i915_monitoring": ("intel", "other", "none"),
    "gpu.intel.com/xe": ("intel", "device", "none"),
    "gpu.intel.com/xe_monitoring": ("intel", "other", "none"),
    "gpu.intel.com/millicores": ("intel", "cores", "timeSlice"),
    "gpu.intel.com/memory.max": ("intel", "memory", "memorySlice"),
    "npu.intel.com/accel": ("intel", "device", "none"),
    "habana.ai/gaudi": ("intel", "device", "none"),
    "huawei.com/Ascend910": ("huawei", "device", "none"),
    "huawei.com/Ascend910-16c": ("huawei", "device", "mig"),
    "huawei.com/Ascend310P-2c": ("huawei", "device", "mig"),
    "huawei.com/Ascend310P-VPro": ("huawei", "device", "none"),
    "huawei.com/Ascend910B4-1": ("huawei", "device", "none"),
    "huawei.com/Ascend910B3-memory": ("huawei", "memory", "memorySlice"),
    "huawei.com/Ascend910B4-1-memory": ("huawei", "memory", "memorySlice"),
    "huawei.com/Ascend910C-core": ("huawei", "cores", "timeSlice"),
    "huawei.com/npu-core": ("huawei", "cores", "mig"),
    "cambricon.com/mlu": ("cambricon", "device", "none"),
    "cambricon.com/mlu370": ("cambricon", "device", "none"),
    "cambricon.com/mlu370.share": ("cambricon", "device", "timeSlice"),
    "cambricon.com/mlu370.mim-2m.8gb": ("cambricon", "device", "mig"),
    "cambricon.com/mlu370.smlu.vmemory": ("cambricon", "memory", "memorySlice"),
    "cambricon.com/mlu.smlu.vcore": ("cambricon", "cores", "timeSlice"),
    "cambricon.com/mlumem": ("cambricon", "memory", "memorySlice"),
    "cambricon.com/vmlu": ("cambricon", "device", "memorySlice"),
    "hygon.com/dcunum": ("hygon", "device", "none"),
    "hygon.com/dcumem": ("hygon", "memory", "memorySlice"),
    "dcu.com/gpu": ("hygon", "device", "none"),
    "iluvatar.ai/gpu": ("iluvatar", "device", "none"),
    "iluvatar.ai/BI-V150-vgpu": ("iluvatar", "device", "memorySlice"),
    "iluvatar.ai/BI-V150.vMem": ("iluvatar", "memory", "memorySlice"),
    "iluvatar.ai/MR-V50.vCore": ("iluvatar", "cores", "timeSlice"),
    "metax-tech.com/gpu": ("metax", "device", "none"),
    "metax-tech.com/sgpu": ("metax", "device", "memorySlice"),
    "metax-tech.com/vmemory": ("metax", "memory", "memorySlice"),
    "mthreads.com/vgpu": ("mthreads", "device", "memorySlice"),
    "mthreads.com/sgpu-memory": ("mthreads", "memory", "memorySlice"),
    "kunlunxin.com/xpu": ("kunlunxin", "device", "none"),
    "kunlunxin.com/vxpu": ("kunlunxin", "device", "memorySlice"),
    "kunlunxin.com/vxpu-memory": ("kunlunxin", "memory", "memorySlice"),
    "enflame.com/gcu": ("enflame", "device", "none"),
    "enflame.com/drs-gcu": ("enflame", "device", "memorySlice"),
    "enflame.com/gcu-memory": ("enflame", "memory", "memorySlice"),
    "birentech.com/gpu": ("biren", "device", "none"),
    "vastaitech.com/va": ("vastai", "device", "none"),
    "aws.amazon.com/neuron": ("aws", "device", "none"),
    "aws.amazon.com/neuroncore": ("aws", "device", "none"),
    "google.com/tpu": ("google", "device", "none"),
    "deviceclass.resource.kubernetes.io/gpu.nvidia.com": ("nvidia", "device", "none"),
    "deviceclass.resource.kubernetes.io/mig.nvidia.com": ("nvidia", "device", "mig"),
    "deviceclass.resource.kubernetes.io/dranet.example.com": ("", "other", "none"),
}

VENDORS = frozenset(
    {
        *("nvidia", "amd", "intel", "huawei", "cambricon", "hygon", "iluvatar", "metax", "mthreads"),
        *("kunlunxin", "enflame", "biren", "vastai", "aws", "google"),
    }
)

RDMA = [
    "rdma/ib",
    "rdma/hca_shared_devices_a",
    "rdma/rdma_shared_device_a",
    "rdma/roce_gdr",
    "nvidia.com/hostdev",
    "nvidia.com/mlnxnics",
    "nvidia.com/sriovlegacy",
    "nvidia.com/sriov_resource",
    "nvidia.com/rdma-vf",
    "mellanox.com/mlnx_sriov_rdma",
    "intel.com/intel_rdma",
    "vke.volcengine.com/rdma",
    "aliyun/erdma",
    "vpc.amazonaws.com/efa",
    "networking.gke.io.networks/rdma-0",
    "networking.gke.io.networks/rdma-0.IP",
    "spidernet.io/gpu1sriov",
    "koordinator.sh/rdma",
]
NOT_RDMA = [
    "nvidia.com/gpu",
    "nvidia.com/mig-1g.5gb",
    "rdma",
    "rdma/a/b",
    "example.com/rdma",
    "intel.com/sriov",
    "networking.gke.io.networks/default",
    "koordinator.sh/gpu",
    "",
    "rdma/" + "x" * MAX_NAME_LENGTH,
]


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_near_miss_is_unknown(name: str) -> None:
    assert shipped_catalogue().resource(name) is None


@pytest.mark.parametrize(("name", "expected"), KNOWN.items(), ids=KNOWN)
def test_knows_a_resource(name: str, expected: tuple[str, str, str]) -> None:
    found = shipped_catalogue().resource(name)
    assert found is not None
    assert (found.vendor, found.role, found.sharing) == expected


@pytest.mark.parametrize(
    ("name", "counts_as", "per_device"),
    [
        ("nvidia.com/gpumem", "nvidia.com/gpu", None),
        ("volcano.sh/vgpu-memory", "volcano.sh/vgpu-number", None),
        ("aliyun.com/gpu-mem", "aliyun.com/gpu-mem", None),
        ("tencent.com/vcuda-core", "", 100),
        ("koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu", 100),
        ("huawei.com/Ascend910B3-memory", "", None),
        ("nvidia.com/gpu", "", None),
    ],
)
def test_knows_how_a_resource_counts(name: str, counts_as: str, per_device: int | None) -> None:
    found = shipped_catalogue().resource(name)
    assert found is not None
    assert (found.counts_as, found.per_device) == (counts_as, per_device)


def test_what_memory_counts_as_is_in_the_catalogue_itself() -> None:
    catalogue = shipped_catalogue()
    for name in KNOWN:
        found = catalogue.resource(name)
        assert found is not None
        if found.counts_as:
            device = catalogue.resource(found.counts_as)
            assert device is not None
            assert device.vendor == found.vendor


def test_has_every_vendor() -> None:
    assert shipped_catalogue().vendors == VENDORS


@pytest.mark.parametrize("name", NOT_RDMA)
def test_is_no_rdma_device(name: str) -> None:
    assert shipped_catalogue().is_rdma(name) is False


@pytest.mark.parametrize("name", RDMA)
def test_is_an_rdma_device_and_no_accelerator(name: str) -> None:
    assert shipped_catalogue().is_rdma(name) is True
    found = shipped_catalogue().resource(name)
    assert found is None or found.role == "other"


@pytest.mark.parametrize(
    ("key", "value", "vendors"),
    [
        ("nvidia.com/gpu.present", "true", {"nvidia"}),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3", {"nvidia"}),
        ("nvidia.com/mig-3g.20gb.count", "2", {"nvidia"}),
        ("feature.node.kubernetes.io/pci-10de.present", "true", {"nvidia"}),
        ("feature.node.kubernetes.io/pci-15b3.present", "true", set()),
        ("cloud.google.com/gke-accelerator", "nvidia-h100-80gb", {"nvidia"}),
        ("cloud.google.com/gke-accelerator", None, {"nvidia", "google"}),
        ("cloud.google.com/gke-tpu-accelerator", "tpu-v6e-slice", {"google"}),
        ("accelerator", "huawei-Ascend910", {"huawei"}),
        ("accelerator", "nvidia-tesla-t4", set()),
        ("accelerator", None, {"huawei"}),
        ("ascend", "off", set()),
        ("amd.com/gpu.family", "AI", {"amd"}),
        ("kubesphere.io/gpu", "true", set()),
        ("nvidia.com/gpu", "true", set()),
        ("kubernetes.io/arch", "amd64", set()),
    ],
)
def test_knows_whose_node_carries_a_label(key: str, value: str | None, vendors: set[str]) -> None:
    assert shipped_catalogue().node_label_vendors(key, value) == vendors


@pytest.mark.parametrize(
    ("key", "vendors"),
    [
        ("nvidia.com/gpu", {"nvidia"}),
        ("huawei.com/Ascend910", {"huawei"}),
        ("birentech.com/gpu", {"biren"}),  # by convention: the name of its device
        ("nvidia.com/gpumem", set()),
        ("rdma/ib", set()),
        ("node.kubernetes.io/not-ready", set()),
        ("", set()),
    ],
)
def test_knows_whose_node_carries_a_taint(key: str, vendors: set[str]) -> None:
    assert shipped_catalogue().taint_vendors(key) == vendors


def test_knows_device_classes() -> None:
    catalogue = shipped_catalogue()
    assert catalogue.device_class("gpu.nvidia.com") == Resource("nvidia", "device")
    assert catalogue.device_class("mig.nvidia.com") == Resource("nvidia", "device", "mig")
    assert catalogue.device_class("dranet.example.com") is None


EXTRA: dict[str, Any] = {
    "vendors": {
        "acme": {
            "resources": [
                {"names": ["acme.example/npu"], "role": "device"},
                {
                    "names": ["acme.example/*-mem"],
                    "role": "memory",
                    "sharing": "memorySlice",
                    "countsAs": "acme.example/npu",
                },
            ],
            "deviceClasses": [{"names": ["npu.acme.example"]}],
            "nodeLabels": ["acme.example/pool"],
            "taints": ["acme.example/only"],
        },
        "nvidia": {"resources": [{"names": ["nvidia.com/gpu*"], "role": "other"}]},
    },
    "rdmaResources": ["acme.example/nic"],
}


def test_what_a_site_adds_wins_and_the_rest_stays() -> None:
    shipped = shipped_catalogue()
    merged = shipped.merged(Catalogue.from_value(EXTRA))
    assert merged.resource("acme.example/npu") == Resource("acme", "device")
    assert merged.resource("acme.example/x-mem") == Resource(
        "acme", "memory", "memorySlice", "acme.example/npu"
    )
    assert merged.resource("nvidia.com/gpu") == Resource(
        "nvidia", "other"
    )  # a pattern on top beats a name below
    assert merged.resource("amd.com/gpu") == shipped.resource("amd.com/gpu")
    assert merged.resource("deviceclass.resource.kubernetes.io/npu.acme.example") == Resource(
        "acme", "device"
    )
    assert merged.is_rdma("acme.example/nic")
    assert merged.is_rdma("rdma/ib")
    assert merged.node_label_vendors("acme.example/pool") == {"acme"}
    assert merged.taint_vendors("acme.example/only") == {"acme"}
    assert merged.vendors == shipped.vendors | {"acme"}
    assert shipped.resource("acme.example/npu") is None


def test_the_last_of_several_wins() -> None:
    first, last = (
        Catalogue.from_value({"vendors": {vendor: {"resources": [{"names": ["x/y"], "role": "device"}]}}})
        for vendor in ("first", "last")
    )
    assert shipped_catalogue().merged(first, last).resource("x/y") == Resource("last", "device")
    assert shipped_catalogue().merged(last, first).resource("x/y") == Resource("first", "device")


def test_patterns_hold_in_the_order_of_the_file_and_those_of_any_domain_last() -> None:
    catalogue = Catalogue.from_value(
        {
            "vendors": {
                "any": {"resources": [{"names": ["*/gpu*"], "role": "other"}]},
                "part": {"resources": [{"names": ["*.d/npu*"], "role": "device"}]},
                "first": {"resources": [{"names": ["a.b/gpu-*"], "role": "device"}]},
                "second": {"resources": [{"names": ["a.b/gpu*"], "role": "device"}]},
            }
        }
    )
    names = ("a.b/gpu-1", "a.b/gpu", "c.d/gpu-1", "c.d/npu", "c.e/npu")
    assert [found and found.vendor for found in map(catalogue.resource, names)] == [
        "first",
        "second",
        "any",
        "part",
        None,
    ]


def test_canonical_is_json_and_tells_catalogues_apart() -> None:
    shipped, extra = shipped_catalogue(), Catalogue.from_value(EXTRA)
    assert json.loads(json.dumps(extra.canonical())) == {"layers": [EXTRA]}
    assert shipped.merged(extra).canonical() != shipped.canonical()
    assert shipped.merged(extra).canonical()["layers"][0] == shipped.canonical()["layers"][0]


def test_a_catalogue_does_not_follow_later_changes_of_its_document() -> None:
    document: dict[str, Any] = {"vendors": {"acme": {"resources": [{"names": ["x/y"], "role": "device"}]}}}
    catalogue = Catalogue.from_value(document)
    document["vendors"]["acme"]["resources"][0]["role"] = "other"
    assert catalogue.canonical()["layers"][0]["vendors"]["acme"]["resources"][0]["role"] == "device"


@pytest.mark.parametrize(
    "value", [None, {}, {"vendors": None}, {"vendors": {"acme": None}}, {"rdmaResources": []}]
)
def test_an_empty_document_adds_nothing(value: object) -> None:
    assert Catalogue.from_value(value).resource("nvidia.com/gpu") is None


def resource_entry(**entry: Any) -> dict[str, Any]:
    return {"vendors": {"acme": {"resources": [{"names": ["x/y"], "role": "device", **entry}]}}}


FAULTS: dict[str, tuple[object, list[str]]] = {
    "a list": ([1], ["expected a map, found a list"]),
    "a text": ("nvidia", ["expected a map, found 'nvidia'"]),
    "unknown key": ({"vendor": {}}, ["vendor: unknown key, expected one of vendors, rdmaResources"]),
    "vendors is a list": ({"vendors": ["acme"]}, ["vendors: expected a map, found a list"]),
    "vendor in upper case": (
        {"vendors": {"NVIDIA": {}}},
        ["vendors.NVIDIA: expected a vendor in lower-case letters, digits and -, found 'NVIDIA'"],
    ),
    "a YAML bool as vendor": (
        {"vendors": {False: {}}},
        ["vendors.False: expected a vendor in lower-case letters, digits and -, found 'False'"],
    ),
    "unknown key of a vendor": (
        {"vendors": {"acme": {"labels": []}}},
        ["vendors.acme.labels: unknown key, expected one of resources, deviceClasses, nodeLabels, taints"],
    ),
    "unknown key of a resource": (
        resource_entry(vendor="x"),
        [
            (
                "vendors.acme.resources[0].vendor: unknown key, "
                "expected one of names, role, sharing, countsAs, perDevice"
            )
        ],
    ),
    "role missing": (
        resource_entry(role=None),
        ["vendors.acme.resources[0].role: expected one of device, memory, cores, other, found nothing"],
    ),
    "unknown role": (
        resource_entry(role="gpu"),
        ["vendors.acme.resources[0].role: expected one of device, memory, cores, other, found 'gpu'"],
    ),
    "unknown sharing": (
        resource_entry(sharing="mps"),
        ["vendors.acme.resources[0].sharing: expected one of none, mig, timeSlice, memorySlice, found 'mps'"],
    ),
    "no names": (
        resource_entry(names=[]),
        ["vendors.acme.resources[0].names: expected a list of at least one name, found an empty list"],
    ),
    "names is a text": (
        resource_entry(names="x/y"),
        ["vendors.acme.resources[0].names: expected a list, found 'x/y'"],
    ),
    "a name without a slash": (
        resource_entry(names=["gpu"]),
        [
            (
                "vendors.acme.resources[0].names[0]: "
                "expected a name such as nvidia.com/gpu or nvidia.com/mig-*, found 'gpu'"
            )
        ],
    ),
    "a number as name": (
        resource_entry(names=[7]),
        [
            (
                "vendors.acme.resources[0].names[0]: "
                "expected a name such as nvidia.com/gpu or nvidia.com/mig-*, found '7'"
            )
        ],
    ),
    "countsAs of a device": (
        resource_entry(countsAs="x/z"),
        ["vendors.acme.resources[0].countsAs: belongs to the roles memory and cores only"],
    ),
    "countsAs is a pattern": (
        resource_entry(role="memory", countsAs="x/*"),
        [
            (
                "vendors.acme.resources[0].countsAs: "
                "expected a name such as nvidia.com/gpu, without *, found 'x/*'"
            )
        ],
    ),
    "perDevice is zero": (
        resource_entry(perDevice=0),
        ["vendors.acme.resources[0].perDevice: expected a whole number from 1, found '0'"],
    ),
    "perDevice is a bool": (
        resource_entry(perDevice=True),
        ["vendors.acme.resources[0].perDevice: expected a whole number from 1, found 'true'"],
    ),
    "a name twice": (
        resource_entry(names=["x/y", "x/z", "x/y"]),
        ["vendors.acme.resources[0].names[2]: x/y stands at vendors.acme.resources[0].names[0] already"],
    ),
    "a label with a space": (
        {"vendors": {"acme": {"nodeLabels": ["a b"]}}},
        [
            (
                "vendors.acme.nodeLabels[0]: "
                "expected a label key such as nvidia.com/gpu.present, or key=value, found 'a b'"
            )
        ],
    ),
    "an RDMA name of the wrong type": (
        {"rdmaResources": [None]},
        ["rdmaResources[0]: expected a name such as nvidia.com/gpu or nvidia.com/mig-*, found nothing"],
    ),
    "a class with a role": (
        {"vendors": {"acme": {"deviceClasses": [{"names": ["a.b"], "role": "device"}]}}},
        ["vendors.acme.deviceClasses[0].role: unknown key, expected one of names, sharing"],
    ),
    "all faults at once": (
        {"vendors": {"acme": {"resources": [{"names": ["x"], "role": "x"}], "taints": {}}}},
        [
            "vendors.acme.resources[0].role: expected one of device, memory, cores, other, found 'x'",
            (
                "vendors.acme.resources[0].names[0]: "
                "expected a name such as nvidia.com/gpu or nvidia.com/mig-*, found 'x'"
            ),
            "vendors.acme.taints: expected a list, found a map",
        ],
    ),
}


@pytest.mark.parametrize(("value", "texts"), FAULTS.values(), ids=FAULTS)
def test_refuses_a_faulty_document(value: object, texts: list[str]) -> None:
    with pytest.raises(CatalogueError) as caught:
        Catalogue.from_value(value)
    assert str(caught.value) == "\n".join(texts)
    assert len(caught.value.problems) == len(texts)


@pytest.mark.timed
def test_an_error_says_every_fault() -> None:
    with pytest.raises(CatalogueError) as found:
        Catalogue.from_value({"vendors": 5, "rdmaResources": 6})
    assert str(found.value).splitlines() == [
        "vendors: expected a map, found '5'",
        "rdmaResources: expected a list, found '6'",
    ]


def test_names_from_objects_cost_nothing_and_fill_nothing() -> None:
    catalogue = Catalogue.from_value(EXTRA)
    start = time.thread_time()
    for _ in range(100):
        assert catalogue.resource("a/" + "*" * 1_000_000) is None
    assert time.thread_time() - start < 1
