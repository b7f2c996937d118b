"""`podgate uninstall`: nothing that can block is left, and nothing of others goes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import Result

from tests.cli.fake_cluster import LATE, MUTATING, VALIDATING, FakeCluster, Json
from webhook.cli import uninstall

Run = Callable[..., Result]

CONTROLLER = "/apis/apps/v1/namespaces/podgate-system/deployments/podgate-controller"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/podgate-system/leases/podgate-controller"
STAYS = """\
Stays: namespace podgate-system with all in it, its roles, priority and storage classes, and what pods were given.
Remove the namespace and the roles as they were made, for example: kubectl delete -k deploy/kustomize/base
"""


OWN = {
    MUTATING: "mutate.podgate.dev",
    LATE: "late.mutate.podgate.dev",
    VALIDATING: "fail.validate.podgate.dev",
}


def installed(fake: FakeCluster, *others: str) -> None:
    for path, own in OWN.items():
        fake.put(path, {"webhooks": [{"name": own}, *({"name": name} for name in others)]})


def lease(renewed: datetime) -> Json:
    time = f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}"
    return {"spec": {"holderIdentity": "pod-1", "renewTime": time, "leaseDurationSeconds": 15}}


def test_all_are_removed_the_one_that_can_block_first(run: Run, fake: FakeCluster) -> None:
    installed(fake)
    result = run("uninstall")
    assert (result.exit_code, result.output) == (
        0,
        f"""\
ValidatingWebhookConfiguration gate.podgate.dev: removed
MutatingWebhookConfiguration zzz.gate.podgate.dev: removed
MutatingWebhookConfiguration gate.podgate.dev: removed
{STAYS}""",
    )
    assert fake.writes == [("DELETE", VALIDATING), ("DELETE", LATE), ("DELETE", MUTATING)]


def test_nothing_there_is_fine(run: Run, fake: FakeCluster) -> None:
    result = run("uninstall")
    assert (result.exit_code, result.output) == (
        0,
        f"""\
ValidatingWebhookConfiguration gate.podgate.dev: not there
MutatingWebhookConfiguration zzz.gate.podgate.dev: not there
MutatingWebhookConfiguration gate.podgate.dev: not there
{STAYS}""",
    )
    assert fake.writes == []


def test_an_installation_without_a_late_configuration_goes_as_well(run: Run, fake: FakeCluster) -> None:
    installed(fake)
    del fake.objects[LATE]
    result = run("uninstall")
    assert result.exit_code == 0
    assert "MutatingWebhookConfiguration zzz.gate.podgate.dev: not there\n" in result.output
    assert OWN.keys().isdisjoint(fake.objects)


def test_a_late_configuration_that_no_policy_needs_any_more_goes(run: Run, fake: FakeCluster) -> None:
    """It has no entries, and an API server leaves out an empty list."""
    fake.put(LATE, {})
    assert "MutatingWebhookConfiguration zzz.gate.podgate.dev: removed\n" in run("uninstall").output
    assert LATE not in fake.objects


def test_entries_of_others_stay(run: Run, fake: FakeCluster) -> None:
    installed(fake, "a.example.com", "b.example.com")
    result = run("uninstall")
    assert result.output.startswith(
        "ValidatingWebhookConfiguration gate.podgate.dev: our entries removed; it stays for a.example.com, b.example.com, "
        "which others added\n"
    )
    assert [entry["name"] for entry in fake.objects[MUTATING]["webhooks"]] == [
        "a.example.com",
        "b.example.com",
    ]


def test_a_dry_run_changes_nothing(run: Run, fake: FakeCluster) -> None:
    installed(fake)
    fake.put(CONTROLLER, {"spec": {"replicas": 2}})
    fake.put(LEASE, lease(datetime.now(UTC)))
    result = run("uninstall", "--dry-run")
    assert result.exit_code == 0
    assert result.output.startswith(
        """\
Deployment podgate-controller: scaled to 0 (dry run)
ValidatingWebhookConfiguration gate.podgate.dev: removed (dry run)
"""
    )
    assert OWN.keys() <= fake.objects.keys()
    assert fake.objects[CONTROLLER]["spec"]["replicas"] == 2


def test_the_controller_is_stopped_before_it_could_put_them_back(run: Run, fake: FakeCluster) -> None:
    installed(fake)
    fake.put(CONTROLLER, {"spec": {"replicas": 2}, "status": {}})
    result = run("uninstall")
    assert result.output.startswith("Deployment podgate-controller: scaled to 0\n")
    assert fake.writes == [
        ("PATCH", CONTROLLER),
        ("DELETE", VALIDATING),
        ("DELETE", LATE),
        ("DELETE", MUTATING),
    ]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uninstall, "CONTROLLER_SECONDS", 2.0)
    monkeypatch.setattr(uninstall, "STEP_SECONDS", 0.01)


@pytest.mark.usefixtures("impatient")
def test_what_a_controller_puts_back_while_it_ends_is_removed_again(run: Run, fake: FakeCluster) -> None:
    """Its pods count as replicas no more once they are told to end."""
    installed(fake)
    fake.put(CONTROLLER, {"spec": {"replicas": 2}, "status": {"replicas": 0}})
    fake.put(LEASE, lease(datetime.now(UTC)))

    def ends(_body: Json) -> tuple[int, Json]:
        if fake.objects[LEASE]["spec"]["holderIdentity"]:
            installed(fake)
            fake.put(LEASE, {"spec": {"holderIdentity": ""}})
        return 200, fake.objects[LEASE]

    fake.answers["GET", LEASE] = ends
    result = run("uninstall")
    assert result.exit_code == 0
    assert result.output.count("ValidatingWebhookConfiguration gate.podgate.dev: removed\n") == 2
    assert OWN.keys().isdisjoint(fake.objects)


@pytest.mark.usefixtures("impatient")
def test_a_controller_that_does_not_end_is_said(run: Run, fake: FakeCluster) -> None:
    fake.put(CONTROLLER, {"spec": {"replicas": 2}, "status": {"replicas": 2}})
    fake.put(LEASE, lease(datetime.now(UTC)))
    result = run("uninstall")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: pod-1 holds the Lease podgate-controller")


def test_a_controller_that_cannot_be_stopped_is_no_reason_to_leave_what_may_block(
    run: Run, fake: FakeCluster
) -> None:
    installed(fake)
    fake.put(LEASE, lease(datetime.now(UTC)))
    fake.refused[CONTROLLER] = 403
    result = run("uninstall")
    assert result.stdout.startswith("Deployment podgate-controller: not stopped: ")
    assert OWN.keys().isdisjoint(fake.objects)
    assert result.exit_code == 1


@pytest.mark.parametrize(("conflicts", "code"), [(1, 0), (4, 0), (5, 3)])
def test_another_writer_in_between_is_no_reason_either(
    conflicts: int, code: int, run: Run, fake: FakeCluster
) -> None:
    installed(fake, "a.example.com")
    left = conflicts

    def update(body: Json) -> tuple[int, Json]:
        nonlocal left
        if left:
            left -= 1
            return 409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "modified"}
        fake.put(VALIDATING, body)
        return 200, body

    fake.answers["PUT", VALIDATING] = update
    assert run("uninstall").exit_code == code
    assert (len(fake.objects[VALIDATING]["webhooks"]) == 1) is (code == 0)


def test_a_configuration_without_entries_of_ours_is_left_alone(run: Run, fake: FakeCluster) -> None:
    fake.put(MUTATING, {"webhooks": [{"name": "a.example.com"}]})
    result = run("uninstall")
    assert "MutatingWebhookConfiguration gate.podgate.dev: not there\n" in result.output
    assert fake.writes == []


@pytest.mark.parametrize(
    ("age", "code"), [(timedelta(), 1), (timedelta(seconds=60), 0)], ids=["in force", "over"]
)
def test_a_controller_elsewhere_is_found_by_its_lease(
    age: timedelta, code: int, run: Run, fake: FakeCluster
) -> None:
    installed(fake)
    fake.put(LEASE, lease(datetime.now(UTC) - age))
    result = run("uninstall")
    assert result.exit_code == code
    assert VALIDATING not in fake.objects
    if code:
        assert result.stderr == (
            "Error: pod-1 holds the Lease podgate-controller of namespace podgate-system and will put the configurations back\n"
            "stop that controller, and run podgate uninstall again\n"
        )


def test_a_refusal_of_the_cluster_is_said(run: Run, fake: FakeCluster) -> None:
    installed(fake)
    fake.refused[VALIDATING] = 403
    result = run("uninstall")
    assert result.exit_code == 3
    assert "403 Forbidden" in result.stderr
