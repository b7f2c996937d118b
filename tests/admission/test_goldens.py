"""Whole answers, as files. `PODGATE_WRITE_GOLDENS=1 pytest tests/admission/test_goldens.py` writes them anew: read the diff."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.admission.wire import patch_of, response_of, review_of
from tests.engine.gates import GPU, Json, container, load, pod, policy, pool, training_pod
from webhook.admission import Endpoint
from webhook.engine.annotations import POLICIES
from webhook.policy import PolicySet

GOLDEN = Path(__file__).parent / "golden"

CAP = {"name": "cap", "limitAcceleratorCount": {"perPod": {"max": 4}, "perContainer": {"max": 2}}}
CLASS = {"name": "class", "setPriorityClass": {"class": "ai-train-high"}}
PLACE = {"name": "place", "setNodeAffinity": {"pools": ["h100"]}}
DEVICES = {
    "name": "devices",
    "requestRDMA": {"fromPool": True, "capabilities": ["IPC_LOCK"], "env": {"NCCL_IB_HCA": "mlx5"}},
}
STORAGE = {
    "name": "storage",
    "setStorageClass": {"byAccessMode": {"ReadWriteMany": "ceph-filesystem"}, "default": "ceph-block"},
}
SHOWN = {"link": "https://wiki.example.com/gpu", "contact": "#ai-platform"}
H100 = pool(
    "h100",
    tolerations=[{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
    rdma={"resourceNames": ["rdma/ib"]},
)


def policies(mode: str) -> PolicySet:
    accelerators = {"accelerators": {"count": {"min": 1}}}
    return load(
        H100,
        policy("placement", PLACE, mode=mode, match=accelerators, order=1),
        policy("fabric", DEVICES, mode=mode, match=accelerators, order=2),
        policy("priority", CLASS, mode=mode, match={"workloads": ["training"]}),
        policy("limits", CAP, mode=mode, match=accelerators, failurePolicy="Fail", **SHOWN),
        policy("storage", STORAGE, mode=mode),
    )


ENFORCED, WARNED, AUDITED = (policies(mode) for mode in ("enforce", "warn", "audit"))
PLAIN = pod(container("web"), labels={"app": "web"})
CLAIM: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "training", "managedFields": []},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Ti"}}},
}
MUTATE, VALIDATE = Endpoint.MUTATE, Endpoint.VALIDATE

# policies, endpoint, review, languages
CASES: dict[str, tuple[PolicySet, Endpoint, Json, tuple[str, ...]]] = {
    "nothing-to-mutate": (ENFORCED, MUTATE, review_of(PLAIN), ("en",)),
    "nothing-to-say": (ENFORCED, VALIDATE, review_of(PLAIN), ("en",)),
    "mutated": (ENFORCED, MUTATE, review_of(training_pod()), ("en",)),
    "mutated-claim": (ENFORCED, MUTATE, review_of(CLAIM, kind="PersistentVolumeClaim"), ("en",)),
    "denied": (ENFORCED, VALIDATE, review_of(training_pod()), ("en",)),
    "denied-in-two-languages": (ENFORCED, VALIDATE, review_of(training_pod()), ("en", "zh")),
    "denied-for-the-other-endpoint": (ENFORCED, Endpoint.VALIDATE_IGNORE, review_of(training_pod()), ("en",)),
    "would-be-mutated-warned": (WARNED, MUTATE, review_of(training_pod()), ("en",)),
    "would-be-denied-warned": (WARNED, VALIDATE, review_of(training_pod()), ("en",)),
    "would-be-denied-warned-in-chinese": (WARNED, VALIDATE, review_of(training_pod()), ("zh", "en")),
    "would-be-mutated-audited": (AUDITED, MUTATE, review_of(training_pod()), ("en",)),
    "would-be-denied-audited": (AUDITED, VALIDATE, review_of(training_pod()), ("en",)),
    "deleted-mutate": (ENFORCED, MUTATE, review_of(None, "DELETE", oldObject=training_pod()), ("en",)),
    "deleted-validate": (ENFORCED, VALIDATE, review_of(None, "DELETE"), ("en",)),
    "kind-that-no-rule-knows": (ENFORCED, MUTATE, review_of({"metadata": {}}, kind="Deployment"), ("en",)),
}


def readable(response: Json, policy_set: PolicySet) -> Any:
    """The response with its patch decoded and without what changes with the catalogue of accelerators."""
    decoded = response | ({"patch": patch_of(response)} if "patch" in response else {})
    return orjson.loads(orjson.dumps(decoded).replace(policy_set.hash.encode(), b"<policies>"))


@pytest.mark.parametrize("name", CASES)
def test_the_whole_answer(name: str) -> None:
    policy_set, endpoint, review, languages = CASES[name]
    review = {**review, "request": {**review["request"], "uid": f"uid-of-{name}"}}
    response = readable(response_of(review, endpoint, policy_set, languages=languages), policy_set)
    path = GOLDEN / f"{name}.json"
    if "PODGATE_WRITE_GOLDENS" in os.environ:
        path.write_bytes(orjson.dumps(response, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    assert response == orjson.loads(path.read_bytes())


def test_every_golden_has_its_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def test_the_hash_of_the_policies_is_in_the_patch() -> None:
    response = response_of(review_of(training_pod()), MUTATE, ENFORCED)
    annotations = next(each for each in patch_of(response) if each["path"] == "/metadata/annotations")
    assert annotations["value"][POLICIES] == ENFORCED.hash
