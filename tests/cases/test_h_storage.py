"""Cases H: storage classes of claims."""

import pytest

from tests.cases.observing import Answer, Case, Json, Report


def without_annotation(request: Json) -> None:
    """Nor is it for many nodes, which a class of block devices does not serve."""
    del request["object"]["metadata"]["annotations"]
    request["object"]["spec"]["accessModes"] = ["ReadWriteOnce"]


CASES = (
    Case(
        "H1",
        ("p-sc",),
        Report(
            0,
            {f"PersistentVolumeClaim h1-{what} in team-a": "passed" for what in ("empty", "null", "absent")},
            (
                (
                    '13:26 p-sc/class skip none spec.storageClassName: storageClassName "" asks for a volume without a class, '
                    "and stays"
                ),
            ),
            {f"h1-{what} spec.storageClassName": "fast-ceph" for what in ("null", "absent")},
        ),
    ),
    Case("H4", ("p-sc",), (Answer(),), acts=False),
    Case("H4", ("p-sc",), (Answer({"spec.storageClassName": "fast-ceph"}),), alter=without_annotation),
    Case(
        "H5",
        ("only-fast-ceph",),
        Report(
            1,
            {"Pod h5 in team-a": "refused", "StatefulSet h5 in team-a": "refused"},
            (
                (
                    "15:3 only-fast-ceph/volumes fail deny spec.volumes: "
                    "an ephemeral volume has another storage class than fast-ceph"
                ),
                (
                    "26:3 only-fast-ceph/templates fail deny spec.volumeClaimTemplates: "
                    "a claim template has another storage class than fast-ceph"
                ),
            ),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert case.observe() == case.expected
