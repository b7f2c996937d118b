"""The part of an API server that a priority class meets: its own plugin, the webhooks, and the second round.

Followed from kubernetes/kubernetes:plugin/pkg/admission/priority/admission.go and
kubernetes/apiserver:pkg/admission/reinvocation.go, pkg/admission/plugin/webhook/mutating/{dispatcher,reinvocationcontext}.go.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from tests.rules.reviewing import Json, managed, request_of
from webhook.engine import Gate, mutate

Webhook = Callable[[Json], Json]


class ForbiddenError(Exception):
    """The answer of an API server that refuses."""


def priority_class(name: str, value: int, policy: str = "PreemptLowerPriority", **fields: Any) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
        **fields,
    }


def podgate(gate: Gate) -> Webhook:
    """Our mutating webhook: what comes back is the patched object."""

    def call(pod: Json) -> Json:
        before = copy.deepcopy(pod)
        patch = mutate(gate, request_of(pod)).patch
        assert pod == before, "a review must not modify what it was given"
        return dict(jsonpatch.apply_patch(pod, patch))

    return call


@dataclass
class _Rounds:
    """Which webhooks were called, and which must be called again: those before one that changed the object."""

    changed: bool = False
    called: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)

    def require(self) -> None:
        self.again |= self.called
        self.called = set()


@dataclass(frozen=True)
class ApiServer:
    """Creates pods; every webhook has `reinvocationPolicy: IfNeeded`."""

    classes: tuple[Json, ...]
    webhooks: tuple[Webhook, ...]

    def create(self, sent: Mapping[str, Any]) -> Json:
        """What is stored for what a client sent.

        Raises:
            ForbiddenError: the Priority plugin refuses.
        """
        pod: Json = copy.deepcopy(dict(sent))
        pod["metadata"]["managedFields"] = managed(*_leaves(sent))
        pod = self.admit(pod)
        rounds = _Rounds()
        pod = self._call_webhooks(pod, rounds)
        if rounds.changed:
            left, pod = pod, self.admit(pod)
            if pod != left:
                rounds.require()
            pod = self._call_webhooks(pod, rounds, again=True)
        return pod

    def _call_webhooks(self, pod: Json, rounds: "_Rounds", *, again: bool = False) -> Json:
        for index, webhook in enumerate(self.webhooks):
            if again and index not in rounds.again:
                continue
            before, pod = pod, webhook(pod)
            if pod != before:
                rounds.changed = True
                rounds.require()
            rounds.called.add(index)
        return pod

    def admit(self, pod: Json) -> Json:
        """The Priority plugin's answer to the creation of a pod."""
        spec = {**pod["spec"]}
        chosen = self._class_of(spec)
        value, policy = (
            (chosen["value"], chosen["preemptionPolicy"]) if chosen else (0, "PreemptLowerPriority")
        )
        if chosen:
            spec["priorityClassName"] = chosen["metadata"]["name"]
        if spec.get("priority") not in (None, value):
            raise ForbiddenError(
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
            )
        if spec.get("preemptionPolicy") not in (None, policy):
            raise ForbiddenError(
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
        return {**pod, "spec": {**spec, "priority": value, "preemptionPolicy": policy}}

    def _class_of(self, spec: Json) -> Json | None:
        name = spec.get("priorityClassName")
        if not name:
            defaults = [each for each in self.classes if each.get("globalDefault")]
            return min(defaults, key=lambda each: int(each["value"]), default=None)
        found = next((each for each in self.classes if each["metadata"]["name"] == name), None)
        if found is None:
            raise ForbiddenError(f"no PriorityClass with name {name} was found")
        return found


def _leaves(sent: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for key in sent["spec"]:
        yield ("spec", key)
    for key in sent["metadata"].get("labels") or ():
        yield ("metadata", "labels", key)
