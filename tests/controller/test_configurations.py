"""What is written into the webhook configurations, and when not."""

from __future__ import annotations

from typing import Any

import pytest

import certs
from tests.controller.cluster_in_memory import Cluster, FakeApi
from tests.controller.parts import LATE, MUTATING, START, VALIDATING, configurations, wanted
from webhook.cluster import ApiError
from webhook.controller.leadership import NotLeaderError

CA = certs.new_ca(now=START).certificate
OTHER = certs.new_ca(now=START).certificate


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def policies(cluster: Cluster) -> list[str]:
    return [entry.get("failurePolicy", "") for entry in cluster[VALIDATING]["webhooks"]]


def test_all_are_made_and_then_left_alone(cluster: Cluster) -> None:
    ours = configurations(FakeApi(cluster))
    assert ours.write(ours.read(), CA, {})
    assert cluster.writes == [MUTATING, LATE, VALIDATING]
    assert ours.read().bundles == ((CA,),) * 4
    assert not ours.write(ours.read(), CA, {})
    assert cluster.writes == [MUTATING, LATE, VALIDATING]


def without_late(bundle: bytes) -> tuple[dict[str, Any], ...]:
    """What policies need of which none may write."""
    first, late, validating = wanted(bundle)
    return first, late | {"webhooks": []}, validating


def test_the_late_one_comes_and_goes_with_the_policies_that_need_it(cluster: Cluster) -> None:
    """It stays as an empty object: nobody is called, and the controller may delete nothing."""
    needed = without_late

    def generate(bundle: bytes) -> tuple[dict[str, Any], ...]:
        return needed(bundle)

    ours = configurations(FakeApi(cluster), generate=generate)
    ours.write(ours.read(), CA, {})
    assert cluster.writes == [MUTATING, VALIDATING]
    assert cluster.find(LATE) is None
    needed = wanted
    assert ours.write(ours.read(), CA, {})
    assert cluster.writes == [MUTATING, VALIDATING, LATE]
    assert ours.read().bundles == ((CA,),) * 4
    needed = without_late
    assert ours.write(ours.read(), CA, {})
    assert cluster[LATE]["webhooks"] == []
    assert ours.read().bundles == ((CA,),) * 3
    stored = cluster[LATE]
    del stored["webhooks"]  # as an API server gives it back
    cluster.put(LATE, stored)
    assert not ours.write(ours.read(), CA, {})


def test_an_installation_without_the_late_one_gets_it(cluster: Cluster) -> None:
    ours = configurations(FakeApi(cluster))
    ours.write(ours.read(), CA, {})
    cluster.remove(LATE)
    assert ours.write(ours.read(), CA, {})
    assert cluster.writes == [MUTATING, LATE, VALIDATING, LATE]


def test_what_others_added_stays(cluster: Cluster) -> None:
    ours = configurations(FakeApi(cluster))
    ours.write(ours.read(), CA, {})
    stored = cluster[VALIDATING]
    stored["metadata"]["labels"]["theirs"] = "stays"
    stored["webhooks"].append({"name": "theirs.example.org", "clientConfig": {"caBundle": "dGhlaXJz"}})
    cluster.put(VALIDATING, stored)
    assert not ours.write(ours.read(), CA, {})
    assert ours.write(ours.read(), OTHER, {})
    stored = cluster[VALIDATING]
    assert stored["metadata"]["labels"]["theirs"] == "stays"
    assert stored["webhooks"][-1] == {"name": "theirs.example.org", "clientConfig": {"caBundle": "dGhlaXJz"}}
    assert ours.read().bundles == ((OTHER,),) * 4


def test_without_a_bundle_the_stored_one_stays_and_annotations_come(cluster: Cluster) -> None:
    """So cert-manager's injector is let do its work."""
    ours = configurations(FakeApi(cluster))
    ours.write(ours.read(), CA, {})
    assert ours.write(ours.read(), b"", {"cert-manager.io/inject-ca-from": "ns/podgate"})
    assert ours.read().bundles == ((CA,),) * 4
    assert cluster[MUTATING]["metadata"]["annotations"] == {
        "ours": "stays",
        "cert-manager.io/inject-ca-from": "ns/podgate",
    }


def test_fail_comes_only_after_a_review_succeeded_and_then_stays(cluster: Cluster, lines: list[Any]) -> None:
    faults: tuple[str, ...] = ("10.0.0.7:8443: connection refused",)
    asked: list[tuple[str, bytes]] = []

    def probe(path: str, bundle: bytes) -> tuple[str, ...]:
        asked.append((path, bundle))
        return faults

    ours = configurations(FakeApi(cluster), probe, may_block=True)
    ours.write(ours.read(), CA, {})
    ours.write(ours.read(), CA, {})
    assert policies(cluster) == ["Ignore", "Ignore"]
    assert asked == [("/x", CA)] * 2
    assert [line["faults"] for line in lines if "faults" in line] == [faults], "said once"
    faults = ()
    assert ours.write(ours.read(), CA, {})
    assert policies(cluster) == ["Fail", "Ignore"]
    faults = ("10.0.0.7:8443: connection refused",)
    assert not ours.write(ours.read(), CA, {})
    assert policies(cluster) == ["Fail", "Ignore"], "an outage is no reason to open the gate"
    assert len(asked) == 3


def test_fail_at_another_entry_is_no_fail_of_this_one(cluster: Cluster) -> None:
    """Nobody has seen that a call succeeds, only that somebody wrote `Fail`."""
    ours = configurations(FakeApi(cluster), lambda _path, _bundle: ("refused",), may_block=True)
    ours.write(ours.read(), CA, {})
    stored = cluster[MUTATING]
    stored["webhooks"][0]["failurePolicy"] = "Fail"
    cluster.put(MUTATING, stored)
    assert ours.write(ours.read(), CA, {})
    assert cluster[MUTATING]["webhooks"][0]["failurePolicy"] == "Ignore"
    assert policies(cluster) == ["Ignore", "Ignore"]


def test_fail_at_another_place_is_no_fail_of_this_one(cluster: Cluster) -> None:
    enforcing = configurations(FakeApi(cluster), may_block=True)
    enforcing.write(enforcing.read(), CA, {})
    stored = cluster[VALIDATING]
    stored["webhooks"][0]["clientConfig"]["service"]["name"] = "elsewhere"
    cluster.put(VALIDATING, stored)
    ours = configurations(FakeApi(cluster), lambda _path, _bundle: ("refused",), may_block=True)
    assert ours.write(ours.read(), CA, {})
    assert policies(cluster) == ["Ignore", "Ignore"]


def test_a_new_entry_does_not_block_before_it_has_a_bundle_of_its_own(cluster: Cluster) -> None:
    """Somebody else writes the bundles: that of another entry says nothing of this one."""
    asked: list[bytes] = []

    def probe(_path: str, bundle: bytes) -> tuple[str, ...]:
        asked.append(bundle)
        return () if bundle else ("no certificate",)

    ours = configurations(FakeApi(cluster), probe, may_block=True)
    ours.write(ours.read(), CA, {})
    stored = cluster[VALIDATING]
    del stored["webhooks"][0]
    cluster.put(VALIDATING, stored)
    asked.clear()
    assert ours.write(ours.read(), b"", {})
    assert [entry["failurePolicy"] for entry in cluster[VALIDATING]["webhooks"]] == ["Ignore", "Ignore"]
    assert asked == [b""]


def test_where_the_policies_are_not_known_what_is_stored_stays_and_trusts_the_new_ca(
    cluster: Cluster,
) -> None:
    ours = configurations(FakeApi(cluster), may_block=True)
    ours.write(ours.read(), CA, {})
    before = cluster[VALIDATING]
    before["webhooks"][0]["rules"] = [{"resources": ["what a policy with an error needs"]}]
    before["webhooks"].append({"name": "theirs.example.org", "clientConfig": {"caBundle": "dGhlaXJz"}})
    cluster.put(VALIDATING, before)
    lost = configurations(FakeApi(cluster), is_known=False)
    assert not lost.write(lost.read(), CA, {})
    assert lost.write(lost.read(), OTHER, {})
    assert lost.read().bundles == ((OTHER,),) * 4
    assert policies(cluster)[:2] == ["Fail", "Ignore"]
    stored = cluster[VALIDATING]["webhooks"]
    assert stored[0]["rules"] == before["webhooks"][0]["rules"]
    assert stored[2] == before["webhooks"][2]


def test_where_the_policies_are_not_known_what_is_missing_is_made(cluster: Cluster) -> None:
    ours = configurations(FakeApi(cluster), is_known=False)
    assert ours.write(ours.read(), CA, {})
    assert cluster.writes == [MUTATING, LATE, VALIDATING]


def test_unless_it_is_asked_for_nothing_may_block(cluster: Cluster) -> None:
    """So that whoever deploys without it is back where an outage holds up nothing."""
    enforcing = configurations(FakeApi(cluster), may_block=True)
    enforcing.write(enforcing.read(), CA, {})
    assert policies(cluster) == ["Fail", "Ignore"]
    ours = configurations(FakeApi(cluster))
    assert ours.write(ours.read(), CA, {})
    assert policies(cluster) == ["Ignore", "Ignore"]
    assert not ours.write(ours.read(), CA, {})


def test_a_conflict_is_no_fault_and_is_tried_again_soon(cluster: Cluster) -> None:
    ours = configurations(FakeApi(cluster))
    ours.write(ours.read(), CA, {})
    stale = ours.read()
    stored = cluster[MUTATING]
    stored["metadata"]["labels"]["theirs"] = "stays"
    cluster.put(MUTATING, stored)
    assert ours.write(stale, OTHER, {})
    assert cluster[MUTATING]["metadata"]["labels"]["theirs"] == "stays"
    ours.write(ours.read(), OTHER, {})
    assert ours.read().bundles == ((OTHER,),) * 4


def test_a_refusal_is_a_fault(cluster: Cluster) -> None:
    def refuse(method: str, _path: str) -> None:
        if method == "POST":
            raise ApiError("POST: forbidden", status=403, reason="Forbidden")

    ours = configurations(FakeApi(cluster, before=refuse))
    with pytest.raises(ApiError, match="forbidden"):
        ours.write(ours.read(), CA, {})


def test_who_does_not_lead_writes_nothing(cluster: Cluster) -> None:
    def check() -> None:
        raise NotLeaderError

    ours = configurations(FakeApi(cluster), check=check)
    with pytest.raises(NotLeaderError):
        ours.write(ours.read(), CA, {})
    assert cluster.writes == []


@pytest.mark.parametrize(("is_known", "repairs"), [(True, 3), (False, 4)], ids=["as needed", "as it was"])
def test_a_dispute_is_said_and_not_fought(
    cluster: Cluster, lines: list[Any], is_known: bool, repairs: int
) -> None:
    """Where the policies are not known, the first repair is of what was made, and a row begins after it."""
    now = 1000.0
    ours = configurations(FakeApi(cluster), monotonic=lambda: now, is_known=is_known)
    ours.write(ours.read(), CA, {})

    def put_back() -> bool:
        stored = cluster[MUTATING]
        stored["webhooks"][0]["clientConfig"]["caBundle"] = ""
        stored["metadata"]["managedFields"] = [{"manager": "podgate"}, {"manager": "argocd-controller"}]
        cluster.put(MUTATING, stored)
        return ours.write(ours.read(), CA, {})

    assert [put_back() for _ in range(repairs + 1)] == [*[True] * repairs, False]
    assert ours.contested == 1
    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert [(line["configuration"], line["managers"], line["next_repair_seconds"]) for line in warnings] == [
        ("MutatingWebhookConfiguration gate.podgate.dev", ["argocd-controller"], 30)
    ]
    now += 31
    assert put_back()
    assert not put_back()
    assert ours.write(ours.read(), OTHER, {}), "what is new is written at once"


def test_an_unreadable_bundle_holds_nothing(cluster: Cluster) -> None:
    ours = configurations(FakeApi(cluster))
    ours.write(ours.read(), CA, {})
    stored = cluster[MUTATING]
    stored["webhooks"][0]["clientConfig"]["caBundle"] = "?"
    stored["webhooks"].append(None)
    cluster.put(MUTATING, stored)
    assert ours.read().bundles == ((), (CA,), (CA,), (CA,))
