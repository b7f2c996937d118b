"""Policy sets for the properties: the shipped one, and one that has of everything."""

from functools import cache
from typing import Any

import yaml

from tests.engine.gates import GPU, File, Json, load, policy, pool, shipped_files
from tests.property.pods import ASCEND, MIG
from webhook.policy import PolicySet

TAINTED = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
ACCELERATORS = {"accelerators": {"count": {"min": 1}}}
HAS_MAIN = {"name": "main", "expression": 'object.spec.containers.exists(c, c.name == "app0")'}


def _place() -> Json:
    return {
        "name": "vendor",
        "setNodeAffinity": {
            "byVendor": {
                "nvidia": {"nodeLabels": {"nvidia.com/gpu.present": "true"}, "tolerations": TAINTED},
                "huawei": {
                    "nodeLabels": {"accelerator": "huawei-Ascend910"},
                    "tolerations": [{"key": ASCEND, "operator": "Exists"}],
                },
            }
        },
    }


def site(kind: str, name: str, **spec: Any) -> File:
    """An override or an exception."""
    body = {"apiVersion": "podgate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return f"{name}.yaml", yaml.safe_dump(body, sort_keys=False).encode()


def rich_files() -> list[File]:
    """Pools of different fabrics, every mode, CEL, exclusions, overrides, an exception, an opt-out."""
    fabric = {
        "fromPool": True,
        "whenPoolUnclear": "warn",
        "capabilities": ["IPC_LOCK"],
        "env": {"NCCL_IB_HCA": "mlx5", "NCCL_DEBUG": "INFO"},
    }
    classes: Json = {
        "byAccessMode": {"ReadWriteOnce": "ceph-block", "ReadWriteMany": "ceph-filesystem"},
        "byIOPattern": {"random": "ceph-block"},
    }
    return [
        pool("h100", tolerations=TAINTED, devicesPerNode=8, rdma={"resourceNames": ["rdma/ib"], "count": 2}),
        pool(
            "a100",
            devicesPerNode=8,
            rdma={"resourceNames": ["rdma/roce", "rdma/ib"], "per": "accelerator"},
        ),
        pool("mig", resourceNames=["nvidia.com/mig-*"]),
        pool(
            "ascend",
            resourceNames=[ASCEND],
            devicesPerNode=8,
            rdma={"resourceNames": ["rdma/hccl"], "per": "node", "count": 4},
        ),
        policy("place", _place(), match=ACCELERATORS, order=10, failurePolicy="Fail"),
        policy(
            "gold",
            {"setNodeAffinity": {"pools": ["h100", "a100"]}, "verify": "fail"},
            match={"objectSelector": {"matchLabels": {"tier": "gold"}}} | ACCELERATORS,
            order=20,
        ),
        policy("fabric", {"requestRDMA": fabric}, match=ACCELERATORS, exclude=[{"workloads": ["notebook"]}], order=30),
        policy(
            "newer-gpus",
            {"setNodeAffinity": {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["old"]}],
                                 "tolerations": [{"key": "zone", "value": "new"}]}},
            match={"all": True}, mode="warn", order=15,
        ),
        policy("audited-fabric", {"requestRDMA": {"resourceNames": ["rdma/next"]}}, match=ACCELERATORS, mode="audit", order=25),
        policy(
            "training",
            {"setPriorityClass": {"class": "ai-train-high", "replace": ["ai-interactive"]}},
            match={"workloads": ["training"]},
        ),
        policy("notebooks", {"setPriorityClass": {"class": "ai-interactive"}}, match={"workloads": ["notebook"]}, mode="warn"),
        policy(
            "others",
            {"setPriorityClass": {"class": "ai-inference"}},
            match={"workloads": ["other", "inference"], "matchConditions": [HAS_MAIN]},
        ),
        policy(
            "storage",
            {"setStorageClass": classes | {"replace": ["local-path"]}},
            optOut="allowed",
            templates={"mutate": ["jobs.batch"]},
        ),
        site("PodPolicyOverride", "gold-sixteen", policies=["cap"], match={"objectSelector": {"matchLabels": {
            "tier": "gold"}}}, rules=[{"name": "r0", "limitAcceleratorCount": {"perPod": {"max": 16}}}]),
        site("PodPolicyOverride", "web-warns", policies=["others", "web"], match={"namespaces": ["web"]}, mode="warn"),
        site("PodPolicyException", "old-notebooks", policies=["place", "cap/r0"], match={"workloads": ["notebook"]},
             reason="Migration until June", owner="a@example.com", reference="OPS-1", expiresAt="2099-06-30"),
        policy("cap", {"limitAcceleratorCount": {"perPod": {"max": 8}}}, match=ACCELERATORS, failurePolicy="Fail"),
        policy(
            "shapes",
            {"limitAcceleratorCount": {"perContainer": {"allowed": [1, 2, 4, 8]}, "fitsNode": True, "sum": True}},
            match=[ACCELERATORS, {"accelerators": {"resourceNames": [MIG]}}],
            mode="warn",
        ),
        policy(
            "classed",
            {"limitAcceleratorCount": {"perPod": {"max": 2}}},
            match={"matchConditions": [
                {"name": "classed", "expression": 'object.?spec.?priorityClassName.orValue("") == "ai-train-high"'}
            ]},
            mode="audit",
        ),
        policy("web", {"limitAcceleratorCount": {"perPod": {"max": 0}}}, match={"namespaceSelector": {
            "matchLabels": {"pod-security.kubernetes.io/enforce": "baseline"}}}),
        policy("memory", {"addSharedMemory": {"sizeLimit": "16Gi"}}, match=ACCELERATORS, order=110),
        policy("shares", {"setResources": {"perAccelerator": {"requests": {"cpu": "8", "memory": "64Gi"}}}}, match=ACCELERATORS),
        policy("fields", {"setFields": {
            "schedulerName": "volcano",
            "labels": {"cost-center": {"fromNamespaceLabel": "finance", "default": "none"}},
            "annotations": {"own/key": "ours", "own/other": "ours"},
            "env": {"NCCL_DEBUG": "WARN", "PASSWORD": "ours"},
            "containers": "accelerator",
        }}),
        policy("judged", {"checkPlacement": {}}, {"requireRDMA": {}}, {"reserveNodes": {"pools": "all"}}, mode="warn"),
        policy("ways-past", {"forbidBypass": {"env": ["NVIDIA_VISIBLE_DEVICES"], "hostPaths": ["/dev/*"], "privileged": True}}),
        policy("registry", {"expression": {"resources": ["pods"], "validations": [
            {"expression": 'object.spec.containers.all(c, c.name != "app2")'}
        ]}}, mode="audit"),
        policy("switched-off", {"limitAcceleratorCount": {"perPod": {"max": 0}}}, mode="disabled"),
    ]  # fmt: skip


def in_mode(files: list[File], mode: str) -> list[File]:
    """The files, each policy in this mode unless it is disabled."""
    found: list[File] = []
    for name, data in files:
        documents: list[Any] = [each for each in yaml.safe_load_all(data) if each]
        for document in documents:
            has_mode = document["kind"] == "PodPolicy" or "mode" in document["spec"]
            if has_mode and document["spec"].get("mode") != "disabled":
                document["spec"]["mode"] = mode
        found.append((name, yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True).encode()))
    return found


FILES = {"shipped": shipped_files(), "rich": rich_files()}


@cache
def policy_set(name: str, mode: str = "") -> PolicySet:
    """A set, with the modes of its files or wholly in one."""
    return load(*(in_mode(FILES[name], mode) if mode else FILES[name]))
