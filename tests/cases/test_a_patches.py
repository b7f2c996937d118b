"""Cases A: a patch that the API server takes, and that makes just the object that is meant."""

from copy import deepcopy
from typing import Any

import jsonpatch
import pytest
import yaml

from tests.cases.observing import HERE, Answer, Case, Json, Report, answer, differences, policy_set
from tests.cases.texts import first_container
from webhook.kube.draft import ALWAYS, Draft
from webhook.policy import load_policy_set

TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
RDMA = "rdma/hca_shared_devices_a"


def without_mounts(request: Json) -> None:
    del first_container(request)["volumeMounts"]
    del request["object"]["spec"]["volumes"]


def without_toleration(request: Json) -> None:
    request["object"]["spec"]["tolerations"] = []


def without_choice(request: Json) -> None:
    del first_container(request)["env"]


def gpus_for_rdma(request: Json) -> None:
    for container in request["object"]["spec"]["containers"]:
        container["resources"] = {"limits": {"nvidia.com/gpu": 1}}


def gpu_in_template(request: Json) -> None:
    container = request["object"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": 1}}


def rdma(index: int) -> Json:
    """What a container with a GPU gets: a limit beside the GPU's, and a request."""
    return {
        f"spec.containers[{index}].resources.limits.{RDMA}": "1",
        f"spec.containers[{index}].resources.requests": {RDMA: "1"},
    }


def no_lock(container: str) -> str:
    place = f'spec.containers["{container}"].resources.limits["{RDMA}"]'
    return f"{place}: container {container} has {RDMA} but not the capability IPC_LOCK, so RDMA may fail to lock memory"


CASES = (
    Case("A1", ("p-ann",), (Answer({"metadata.annotations": {"policy.example.com/checked": "true"}}),)),
    Case("A3", ("p-ann",), (Answer({"metadata.annotations.policy.example.com/checked": "true"}),)),
    Case(
        "A4",
        ("p-tol",),
        Report(
            0,
            {f"Pod a4-{what} in team-a": "passed" for what in ("null", "empty", "absent")},
            changes={
                f'a4-{what} spec.tolerations["nvidia.com/gpu"]': TAINT for what in ("null", "empty", "absent")
            },
        ),
    ),
    # No container holds an accelerator: nothing is written, and nothing is lost.
    Case("A5", ("limits-in-templates",), (Answer(),), acts=False),
    Case(
        "A5",
        ("limits-in-templates",),
        (
            Answer(
                {
                    "spec.template.spec.containers[0].resources.limits.cpu": "10",
                    "spec.template.spec.containers[0].resources.requests": {"cpu": "10"},
                }
            ),
        ),
        alter=gpu_in_template,
    ),
    Case("A6", ("p-tol",), (Answer(), Answer({"spec.tolerations[1]": TAINT}))),
    Case("A6", ("p-tol",), (Answer({"spec.tolerations[0]": TAINT}),) * 2, alter=without_toleration),
    Case(
        "A7",
        ("p-tol-pool",),
        (
            Answer(
                {
                    "spec.tolerations[1]": {
                        "key": "pool",
                        "operator": "Equal",
                        "value": "gpu",
                        "effect": "NoSchedule",
                    }
                }
            ),
            Answer(),
        ),
    ),
    Case("A9", ("p-env",), (Answer(),), acts=False),
    Case(
        "A9",
        ("p-env",),
        (Answer({"spec.containers[0].env": [{"name": "NCCL_DEBUG", "value": "WARN"}]}),),
        alter=without_choice,
    ),
    Case("A10", ("p-shm",), (Answer(),), acts=False),
    Case(
        "A10",
        ("p-shm",),
        (
            Answer(
                {
                    "spec.containers[0].volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
                    "spec.volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
                }
            ),
        ),
        alter=without_mounts,
    ),
    # Who asks for RDMA himself is told; who asks for accelerators is given both.
    Case("A16", ("p-rdma-check",), (Answer(denied=(no_lock("c1"), no_lock("c4"))),)),
    Case(
        "A16",
        ("p-rdma",),
        (
            Answer(
                {
                    **rdma(0),
                    **rdma(1),
                    **rdma(2),
                    **rdma(3),
                    **rdma(4),
                    "spec.containers[0].securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                    "spec.containers[3].securityContext.capabilities.add": ["IPC_LOCK"],
                }
            ),
        ),
        alter=gpus_for_rdma,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert case.observe() == case.expected


TILDE = """
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: p-node
spec:
  match:
    all: true
  rules:
  - name: nodes
    setNodeAffinity:
      matchExpressions:
      - key: gpu.example.com/class~1
        operator: In
        values: [big]
"""


def test_a3_a_tilde_in_a_label_key_is_refused_at_load() -> None:
    (problem,) = load_policy_set([("p-node.yaml", TILDE.encode())]).problems
    assert str(problem).startswith("p-node.yaml:13:")
    assert "gpu.example.com/class~1" in str(problem)


def test_a3_pointers_escape_tilde_before_slash() -> None:
    draft = Draft({"spec": {"nodeSelector": {"gpu.example.com/class": "small"}}})
    draft.set(("spec", "nodeSelector", "gpu.example.com/class~1"), "big", "p/r")
    assert draft.patch() == [
        {"op": "add", "path": "/spec/nodeSelector/gpu.example.com~1class~01", "value": "big"}
    ]
    assert jsonpatch.apply_patch(draft.original, draft.patch())["spec"]["nodeSelector"] == {
        "gpu.example.com/class": "small",
        "gpu.example.com/class~1": "big",
    }


def a9_passes() -> tuple[Json, Json]:
    (review,) = yaml.safe_load_all(next(HERE.glob("A9-*.yaml")).read_bytes())
    again = deepcopy(review)
    again["request"]["uid"] = "00000000-0000-4000-8000-000000000099"
    again["request"]["object"]["metadata"]["labels"] = {"touched-by": "another-webhook"}
    return review, again


def test_a9_the_second_pass_decides_like_the_first() -> None:
    assert [answer(review, policy_set(("p-env",))) for review in a9_passes()] == [Answer(), Answer()]


def pairs() -> list[Json]:
    found: list[Json] = yaml.safe_load(next(HERE.glob("A11-*.yaml")).read_bytes())["pairs"]
    return found


@pytest.mark.parametrize("pair", pairs(), ids=["nested", "odd keys", "true is not 1", "moved items"])
def test_a11_a_patch_makes_just_the_object(pair: Json) -> None:
    before, after = pair["before"], pair["after"]
    draft = Draft(before)
    for key, value in after.items():
        write(draft, (key,), value)
    result: Any = jsonpatch.apply_patch(before, draft.patch()) if draft.patch() else before
    assert list(differences(after, result)) == []
    assert list(differences(result, after)) == []


def write(draft: Draft, path: tuple[str, ...], value: Any) -> None:
    """As a rule would: maps key by key, anything else as a whole."""
    if isinstance(value, dict):
        for key, child in value.items():
            write(draft, (*path, key), child)
    else:
        draft.set(path, value, "p/r", ALWAYS)
