"""No object makes a rule raise: a value of a wrong type is absent, or an error of the rule."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.rules.reviewing import GPU, Json, container, gate_of, managed, pod, policy, pool, request_of
from webhook.engine import Gate, mutate, validate

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["", "1", "-1", "In", "system-x"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "key", "spec", "a/b", GPU]), inner, max_size=2)
    ),
    max_leaves=5,
)

RULES: list[Json] = [
    {"setPriorityClass": {"class": "high"}},
    {
        "setNodeAffinity": {
            "byVendor": {
                "nvidia": {"nodeLabels": {"a": "b"}, "tolerations": [{"key": GPU, "operator": "Exists"}]}
            }
        }
    },
    {"requestRDMA": {"fromPool": True, "capabilities": ["IPC_LOCK"], "env": {"A": "b"}}},
    {
        "setStorageClass": {
            "byIOPattern": {"random": "fast"},
            "byAccessMode": {"ReadWriteMany": "fs"},
            "default": "fast",
        }
    },
    {
        "limitAcceleratorCount": {
            "perPod": {"max": 8},
            "perContainer": {"allowed": [1, 8]},
            "memory": {"nvidia.com/gpumem": {"max": 9}},
            "fitsNode": True,
        }
    },
]
POOL = pool(
    "h100",
    resourceNames=[GPU],
    nodeLabels={"gpu": "h100"},
    devicesPerNode=8,
    rdma={"resourceNames": ["rdma/ib"]},
)
FACTS: tuple[Json, ...] = (
    {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5},
    {"kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "rbd.csi.ceph.com"},
    {"kind": "StorageClass", "metadata": {"name": "fs"}, "provisioner": "cephfs.csi.ceph.com"},
    {
        "kind": "Namespace",
        "metadata": {"name": "team-a", "labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
    },
    {"kind": "NodeList", "items": []},
    {"kind": "ResourceClaimList", "items": []},
)
GATES: list[Gate] = [gate_of(policy(*RULES), POOL, facts=FACTS), gate_of(policy(*RULES), POOL)]

POD = pod(
    container(
        "main",
        {GPU: "2", "nvidia.com/gpumem": "4"},
        env=[{"name": "A", "value": "1"}],
        securityContext={"capabilities": {"add": ["X"], "drop": ["ALL"]}, "privileged": False},
    ),
    metadata={
        "labels": {"kueue.x-k8s.io/queue-name": "q"},
        "annotations": {"podgate.dev/io-pattern": "random", "gpu-fraction": "0.5"},
        "managedFields": managed(("spec", "priorityClassName")),
    },
    initContainers=[container("init", {GPU: "1"}, restartPolicy="Always")],
    priorityClassName="x",
    priority=0,
    preemptionPolicy="Never",
    hostNetwork=False,
    nodeSelector={"a": "b"},
    resources={"limits": {"cpu": "1"}},
    resourceClaims=[{"name": "d", "resourceClaimName": "c"}],
    tolerations=[{"key": GPU, "operator": "Exists"}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                    {},
                ]
            }
        }
    },
    volumes=[
        {"name": "h", "hostPath": {"path": "/dev"}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
    ],
)
CLAIM: Json = {
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "annotations": {"a": "b"}, "managedFields": managed()},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "x",
        "volumeMode": "Block",
        "volumeName": None,
        "selector": None,
        "volumeAttributesClassName": None,
        "dataSource": {"kind": "PersistentVolumeClaim", "name": "o"},
        "dataSourceRef": None,
    },
}


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def replaced(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {key: replaced(item, rest, new) if key == head else item for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, rest, new) if key == head else item for key, item in enumerate(value)]
    return value


@pytest.mark.parametrize("thing", [POD, CLAIM], ids=["a pod", "a claim"])
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_anywhere(thing: Json, data: st.DataObject) -> None:
    places = [path for path in paths(thing) if path != ("kind",)]
    spoilt = thing
    for _ in range(data.draw(st.integers(1, 3))):
        spoilt = replaced(spoilt, data.draw(st.sampled_from(places)), data.draw(JSON))
    gate = data.draw(st.sampled_from(GATES))
    request = request_of(spoilt, from_api_server=data.draw(st.booleans()))
    mutate(gate, request)
    validate(gate, request)
