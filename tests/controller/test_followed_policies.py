"""For whom calls are made while replicas change from one set of policies to another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.gates import policy
from webhook.controller.policies import OVERLAP_SECONDS, FollowedPolicies
from webhook.policy import load_policy_set
from webhook.registration import MUTATE_LATE, Endpoint, webhook_configurations

PRIORITY = {"setPriorityClass": {"class": "train"}}


class Change:
    """One policy that goes from a mode to another."""

    def __init__(self, mode: str) -> None:
        self.mode, self.seconds = mode, 0.0
        self.followed = FollowedPolicies(self._read, lambda: self.mode, lambda: self.seconds)

    def _read(self) -> Any:
        return load_policy_set([policy("one", PRIORITY, mode=self.mode)])

    def to(self, mode: str) -> None:
        self.mode = mode
        self.followed.current()

    def calls_late(self) -> bool:
        found = webhook_configurations(self.followed.called_for(), Endpoint(url="https://x"))
        return MUTATE_LATE in {entry["name"] for each in found for entry in each["webhooks"]}


@pytest.mark.parametrize(("old", "new"), [("audit", "enforce"), ("enforce", "audit")], ids=["comes", "goes"])
def test_the_late_call_is_made_as_long_as_some_replica_may_write(old: str, new: str) -> None:
    change = Change(old)
    assert change.calls_late() is (old == "enforce")
    change.to(new)
    assert change.calls_late()
    change.seconds = OVERLAP_SECONDS - 1
    assert change.calls_late()
    change.seconds = OVERLAP_SECONDS
    assert change.calls_late() is (new == "enforce")
