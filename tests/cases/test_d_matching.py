"""Cases D: whom a policy concerns."""

import pytest

from tests.cases.observing import POLICIES, Answer, Case, Json
from tests.cases.texts import privileged
from webhook.policy import load_policy_set

BATCH = {"spec.priorityClassName": "gpu-batch", "spec.priority": 1000, "spec.preemptionPolicy": "Never"}
ALL = (
    "p-sched",
    "p-tol",
    "p-ann",
    "p-env",
    "p-vis",
    "p-shm",
    "p-node",
    "p-prio",
    "p-cap-4",
    "p-priv",
    "p-reg",
)
IMAGE = Answer(denied=("spec.containers: an image is not registry.local/*/train:*",))


def in_another_namespace(request: Json) -> None:
    """The object says team-a; the request, which counts, does not."""
    request["object"]["metadata"]["namespace"] = "team-a"
    request["namespace"] = "research"


def in_kube_system(request: Json) -> None:
    request["namespace"] = "kube-system"


def a_claim(request: Json) -> None:
    """A kind that policies can name, in place of a ConfigMap."""
    request["kind"]["kind"] = "PersistentVolumeClaim"
    request["resource"]["resource"] = "persistentvolumeclaims"
    request["object"] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "d5"},
        "spec": {},
    }


def created(request: Json) -> None:
    """The same pod when it is made, by a client."""
    request |= {"operation": "CREATE", "oldObject": None, "userInfo": {"username": "alice", "groups": []}}
    del request["subResource"]


CASES = (
    Case("D1", ("p-prio",), (Answer(BATCH),)),
    Case("D1", ("p-prio",), (Answer(),), alter=in_another_namespace, acts=False),
    Case(
        "D2",
        ("p-priv-but-system",),
        (Answer(denied=(f'spec.containers["main"].securityContext.privileged: {privileged("main")}',)),),
    ),
    Case("D2", ("p-priv-but-system",), (Answer(),), alter=in_kube_system, acts=False),
    # Deletions are always allowed; a policy cannot name them.
    Case("D3", ("p-priv",), (Answer(), Answer()), acts=False),
    # ConfigMaps make no call; claims do, and the selector tells the namespaces apart.
    Case("D5", ("freeze",), (Answer(), Answer()), acts=False),
    Case(
        "D5",
        ("freeze",),
        (Answer(), Answer(denied=("spec: the namespace is frozen",))),
        alter=a_claim,
    ),
    # A ClusterRole has no namespace whose label could match, whatever its own labels say.
    Case("D6", ("freeze",), (Answer(), Answer()), acts=False),
    # Nothing is asked about exec.
    Case("D8", ("p-priv",), (Answer(),), acts=False),
    Case("D9", ALL, (Answer(),), acts=False),
    Case(
        "D9",
        ("p-cap-4",),
        (
            Answer(
                denied=(
                    'spec.containers["main"].resources.limits["nvidia.com/gpu"]: 16 nvidia.com/gpu asked, at most 4 per pod',
                )
            ),
        ),
        alter=created,
    ),
    Case("D10", ("p-reg-train",), (Answer(), IMAGE, IMAGE, IMAGE)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert case.observe() == case.expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(
            b"operations: [DELETE]",
            "spec.match.operations[0]: expected CREATE or UPDATE, found 'DELETE'",
            id="D3 deletions",
        ),
        pytest.param(
            b"operations: [CONNECT]",
            "spec.match.operations[0]: expected CREATE or UPDATE, found 'CONNECT'",
            id="D8 exec",
        ),
    ],
)
def test_what_a_policy_cannot_name_is_an_error(written: bytes, expected: str) -> None:
    text = (POLICIES / "p-priv.yaml").read_bytes().replace(b"operations: [CREATE, UPDATE]", written)
    (problem,) = load_policy_set([("p-priv.yaml", text)]).problems
    assert problem.message == expected


@pytest.mark.parametrize("resource", [b"configmaps", b"namespaces", b"secrets"])
def test_d5_d6_other_kinds_of_the_core_group_cannot_be_named(resource: bytes) -> None:
    text = (POLICIES / "freeze.yaml").read_bytes().replace(b"[pods, ", b"[pods, " + resource + b", ")
    (problem,) = load_policy_set([("freeze.yaml", text)]).problems
    assert problem.message.startswith("spec.rules[0].expression.resources[1]: expected a resource as kubectl")
