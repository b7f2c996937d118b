"""`podgate controller`, as its user sees it."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.fake_cluster import LATE, MUTATING, SYSTEM, VALIDATING
from webhook.controller.policies import OVERLAP_SECONDS, FollowedPolicies
from webhook.policy import load_policy_set

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from tests.cli.fake_cluster import FakeCluster

SHIPPED = "policies"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/podgate-system/leases/podgate-controller"
CA, TLS = f"{SYSTEM}/secrets/podgate-ca", f"{SYSTEM}/secrets/podgate-tls"

POLICY = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: {name}
spec:
  match:
    accelerators: {{}}
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: {max}
"""


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log lines stay what the tests of other modules expect."""
    monkeypatch.setattr("webhook.server.logs.configure_logs", lambda _level: None)


def test_one_look_makes_everything_and_gives_the_lease_back(
    fake: FakeCluster, run: Callable[..., Result]
) -> None:
    result = run("controller", "--policies", SHIPPED, "--once")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "changed")
    assert {CA, TLS, MUTATING, VALIDATING, LEASE} <= set(fake.objects)
    assert fake.objects[LEASE]["spec"]["holderIdentity"] == ""
    held = {entry["clientConfig"]["caBundle"] for entry in fake.objects[VALIDATING]["webhooks"]}
    assert held == {fake.objects[CA]["data"]["ca.crt"]}
    assert {entry["failurePolicy"] for entry in fake.objects[VALIDATING]["webhooks"]} == {"Ignore"}


def test_a_service_and_namespace_of_ones_own(fake: FakeCluster, run: Callable[..., Result]) -> None:
    words = ["--namespace", "gate", "--service", "hook", "--exclude-namespace", "batch"]
    assert run("controller", "--policies", SHIPPED, "--once", *words).exit_code == 0
    (entry,) = fake.objects[MUTATING]["webhooks"]
    assert entry["clientConfig"]["service"] == {
        "namespace": "gate",
        "name": "hook",
        "port": 443,
        "path": "/mutate",
    }
    (outside,) = entry["namespaceSelector"]["matchExpressions"]
    assert {"batch", "gate", "kube-system"} <= set(outside["values"])
    assert "/api/v1/namespaces/gate/secrets/podgate-tls" in fake.objects


def test_a_url(fake: FakeCluster, run: Callable[..., Result]) -> None:
    assert run("controller", "--policies", SHIPPED, "--once", "--url", "https://10.0.0.7:9443").exit_code == 0
    (entry,) = fake.objects[MUTATING]["webhooks"]
    assert entry["clientConfig"]["url"] == "https://10.0.0.7:9443/mutate"


def test_where_the_webhook_audits_there_is_no_late_call(
    fake: FakeCluster, run: Callable[..., Result]
) -> None:
    assert run("controller", "--policies", SHIPPED, "--mode", "audit", "--once").exit_code == 0
    assert MUTATING in fake.objects
    assert LATE not in fake.objects
    assert run("controller", "--policies", SHIPPED, "--once").exit_code == 0
    assert [entry["name"] for entry in fake.objects[LATE]["webhooks"]] == ["late.mutate.podgate.dev"]
    assert run("controller", "--policies", SHIPPED, "--mode", "warn", "--once").exit_code == 0
    assert fake.objects[LATE]["webhooks"] == []


def test_cert_manager(fake: FakeCluster, run: Callable[..., Result]) -> None:
    assert run("controller", "--policies", SHIPPED, "--once", "--certificates", "cert-manager").exit_code == 0
    annotations = fake.objects[MUTATING]["metadata"]["annotations"]
    assert annotations["cert-manager.io/inject-ca-from"] == "podgate-system/podgate"
    assert CA not in fake.objects


def test_where_nobody_can_say_whether_a_call_would_succeed_nothing_blocks(
    fake: FakeCluster, run: Callable[..., Result]
) -> None:
    fake.refused[f"{SYSTEM}/services"] = 403
    assert run("controller", "--policies", SHIPPED, "--once", "--enforce").exit_code == 0
    assert {entry["failurePolicy"] for entry in fake.objects[VALIDATING]["webhooks"]} == {"Ignore"}


def test_while_another_leads_one_look_is_refused(fake: FakeCluster, run: Callable[..., Result]) -> None:
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 30}
    fake.objects[LEASE] = {"metadata": {"name": "podgate-controller", "resourceVersion": "1"}, "spec": spec}
    result = run("controller", "--policies", SHIPPED, "--once")
    assert result.exit_code == 3
    assert result.stderr == "Error: another controller leads: stop it, or leave this to it\n"
    assert set(fake.objects) == {LEASE}


def test_one_look_that_takes_longer_than_it_leads_is_said(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.controller.leadership.Leadership.leads", property(lambda _: next(answers)))
    answers = chain([True], repeat(False))
    result = run("controller", "--policies", SHIPPED, "--once")
    assert (result.exit_code, result.stderr) == (3, "Error: the Lease is not ours any more: try again\n")


def test_a_new_ca_is_asked_for_and_made(fake: FakeCluster, run: Callable[..., Result]) -> None:
    run("controller", "--policies", SHIPPED, "--once")
    before = fake.objects[CA]["data"]["ca.crt"]
    result = run("controller", "--rotate")
    assert result.exit_code == 0
    assert result.stdout == (
        "asked for a new CA: the log of the controller in podgate-system says how the hand-over goes\n"
    )
    assert fake.objects[CA]["metadata"]["annotations"]["podgate.dev/rotate"] == "now"
    run("controller", "--policies", SHIPPED, "--once")
    assert fake.objects[CA]["data"]["ca.crt"] != before
    assert "podgate.dev/rotate" not in fake.objects[CA]["metadata"]["annotations"]


def test_where_there_is_no_ca_none_can_be_asked_for(run: Callable[..., Result]) -> None:
    result = run("controller", "--rotate")
    assert result.exit_code == 3
    assert "/api/v1/namespaces/podgate-system/secrets/podgate-ca" in result.stderr


def test_what_the_cluster_refuses_is_said(fake: FakeCluster, run: Callable[..., Result]) -> None:
    fake.refused["/api/v1/namespaces/podgate-system/secrets"] = 403
    result = run("controller", "--policies", SHIPPED, "--once")
    assert result.exit_code == 3
    assert "403" in result.stderr
    assert "the user lacks a permission" in result.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([], "--policies is missing: give the folders that the webhook serves", id="no policies"),
        pytest.param(
            ["--policies", SHIPPED, "--url", "http://x"],
            "--url http://x: expected https://HOST:PORT, as the API server is to call it",
            id="no TLS",
        ),
        pytest.param(
            ["--policies", SHIPPED, "--url", "https://"],
            "--url https://: expected https://HOST:PORT, as the API server is to call it",
            id="no host",
        ),
        pytest.param(
            ["--policies", SHIPPED, "--url", "https://[::1"],
            "--url https://[::1: expected https://HOST:PORT, as the API server is to call it",
            id="half an address",
        ),
        pytest.param(
            ["--policies", SHIPPED, "--url", "https://x:99999"],
            "--url https://x:99999: expected https://HOST:PORT, as the API server is to call it",
            id="no port",
        ),
        pytest.param(
            ["--policies", SHIPPED, "--certificates", "files"],
            "--certificates files and --ca-file FILE go together",
            id="files without a file",
        ),
        pytest.param(
            ["--policies", SHIPPED, "--ca-file", "x"],
            "--certificates files and --ca-file FILE go together",
            id="a file for nothing",
        ),
        pytest.param(
            ["--policies", SHIPPED, "--bind", "8080"],
            "--bind 8080: expected [HOST]:PORT, such as :8080 or 127.0.0.1:8080",
            id="a port alone",
        ),
    ],
)
def test_usage(run: Callable[..., Result], words: list[str], expected: str) -> None:
    result = run("controller", *words)
    assert result.exit_code == 2
    assert f"Error: {expected}\n" in result.stderr


@pytest.mark.parametrize("broken", ["policy", "kind", "none"])
def test_without_good_policies_certificates_are_made_and_what_is_registered_stays(
    fake: FakeCluster, run: Callable[..., Result], tmp_path: Path, broken: str
) -> None:
    good, bad, empty = tmp_path / "good", tmp_path / "bad", tmp_path / "empty"
    for folder in (good, bad, empty):
        folder.mkdir()
    for name in ("a", "b"):
        (good / f"{name}.yaml").write_text(POLICY.format(name=name, max=8))
    run("controller", "--policies", str(good), "--once")
    (good / "a.yaml").rename(bad / "a.yaml")
    (bad / "b.yaml").write_text(POLICY.format(name="b", max="many"))
    (tmp_path / "kinds.yaml").write_text("kind: 7\n")
    words, expected = {
        "policy": (["--policies", str(bad)], "b.yaml:12:14"),
        "kind": (["--policies", str(bad), "--kinds", str(tmp_path / "kinds.yaml")], "kinds.yaml"),
        "none": (["--policies", str(empty)], "there is no policy in the folders"),
    }[broken]
    before = fake.objects[VALIDATING]["webhooks"]
    del fake.objects[TLS]
    result = run("controller", *words, "--once", "--api-server-lag", "0")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: the webhook configurations stay as they are: ")
    assert expected in result.stderr
    assert TLS in fake.objects
    assert fake.objects[VALIDATING]["webhooks"] == before


def test_a_folder_that_is_not_there_is_wrong_usage(fake: FakeCluster, run: Callable[..., Result]) -> None:
    result = run("controller", "--policies", "nowhere", "--once")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: nowhere: cannot be read: No such file or directory\n",
    )
    assert fake.objects == {}


class Files:
    """Policies whose files a test changes."""

    def __init__(self, **policies: Any) -> None:
        self.policies = policies
        self.version = 0
        self.seconds = 0.0

    def change(self, **policies: Any) -> None:
        self.policies, self.version = policies, self.version + 1

    def follow(self) -> FollowedPolicies:
        return FollowedPolicies(self._read, lambda: self.version, lambda: self.seconds)

    def _read(self) -> Any:
        texts = {name: POLICY.format(name=name, max=value) for name, value in self.policies.items()}
        return load_policy_set([(f"{name}.yaml", text.encode()) for name, text in texts.items()])


def names(followed: FollowedPolicies) -> list[str]:
    return [policy.name for policy in followed.current().policies]


def test_policies_are_read_again_once_they_are_at_rest() -> None:
    files = Files(a=8)
    followed = files.follow()
    files.change(a=8, b=4)
    assert [names(followed), names(followed)] == [["a"], ["a", "b"]]


def called_for(followed: FollowedPolicies) -> set[str]:
    return {policy.name for policy in followed.called_for().policies}


def test_calls_for_the_old_policies_end_when_every_replica_has_the_new_ones() -> None:
    files = Files(a=8)
    followed = files.follow()
    assert called_for(followed) == {"a"}
    files.change(b=4)
    assert [called_for(followed), called_for(followed)] == [{"a"}, {"a", "b"}]
    assert names(followed) == ["b"]
    files.seconds = OVERLAP_SECONDS - 1
    assert called_for(followed) == {"a", "b"}
    files.seconds = OVERLAP_SECONDS
    assert called_for(followed) == {"b"}


def test_a_change_soon_after_another_forgets_neither_and_what_comes_back_is_there_once() -> None:
    files = Files(a=8)
    followed = files.follow()
    for name in ("b", "c", "a"):
        files.change(**{name: 8})
        called_for(followed)
        called_for(followed)
        files.seconds += 50
    assert sorted(policy.name for policy in followed.called_for().policies) == ["a", "b", "c"]
    assert followed.called_for().hash == followed.current().hash


@pytest.mark.parametrize("broken", [{"a": "many", "b": 4}, {}], ids=["an error", "no file"])
def test_a_change_with_an_error_keeps_the_old_set(broken: dict[str, Any]) -> None:
    files = Files(a=8)
    followed = files.follow()
    files.change(**broken)
    assert [names(followed), names(followed)] == [["a"], ["a"]]
    files.change(c=2)
    assert [names(followed), names(followed)] == [["a"], ["c"]]


def test_at_the_start_the_good_ones_are_taken_until_all_are_good() -> None:
    files = Files(a=8, b="many")
    followed = files.follow()
    assert names(followed) == ["a"]
    assert followed.fault.startswith("b.yaml:")
    files.change(a=8, b=4)
    assert [names(followed), names(followed)] == [["a"], ["a", "b"]]
    assert followed.fault == ""
    files.change(a="many")
    assert [names(followed), names(followed)] == [["a", "b"], ["a", "b"]]
    assert followed.fault == "", "the old set is all that was meant"
