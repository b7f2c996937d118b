"""Cases F: priority classes and the numbers that belong to them."""

import pytest

from tests.cases.observing import Answer, Case, Json, Report

BATCH = {"spec.priorityClassName": "gpu-batch", "spec.priority": 1000, "spec.preemptionPolicy": "Never"}
NOT_THEIRS = (
    "spec.priorityClassName: priority class system-node-critical is for the cluster's own pods, "
    "and namespace team-a is not one of theirs"
)


def resolved(request: Json) -> None:
    """The number is there, as the API server's own plugin fills it in."""
    request["object"]["spec"]["priority"] = 2000001000


CASES = (
    Case("F1", ("p-prio",), (Answer(BATCH),)),
    Case(
        "F3",
        ("numbers",),
        Report(
            1,
            {"Pod f3a in team-a": "refused", "Pod f3b in team-a": "passed"},
            (
                (
                    "12:18 numbers/number fail deny spec.priority: the pod has priority 1 but names no priority class, "
                    "and Kubernetes takes a number only from a class"
                ),
            ),
        ),
    ),
    # The input names a class and has no number, which no API server lets through: that is said as well.
    Case(
        "F4",
        ("system-classes", "p-prio"),
        (
            Answer(
                {},
                (NOT_THEIRS,),
                (
                    (
                        "[p-prio/class] the pod names priority class system-node-critical but has no priority, "
                        "so the scheduler reads it as 0"
                    ),
                    (
                        "[p-prio/class] do: create the pod again; if it happens again, tell the platform team: "
                        "a webhook sets the class too late"
                    ),
                ),
            ),
            Answer(),
        ),
    ),
    Case("F4", ("system-classes", "p-prio"), (Answer({}, (NOT_THEIRS,)), Answer()), alter=resolved),
    Case(
        "F6",
        ("known-classes",),
        Report(
            1,
            {"PyTorchJob f6 in team-a": "refused"},
            (
                (
                    "15:64 known-classes/known fail deny spec.pytorchReplicaSpecs.Worker.template.spec.priorityClassName: "
                    "priority class gpu-bacth is not for training pods (label training.kubeflow.org/job-name), "
                    "which may have gpu-batch, gpu-high"
                ),
            ),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert case.observe() == case.expected
