"""What is sent: pods of 5 to 8 KB as an API server sends them, before and after the mutating call."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, NamedTuple

import jsonpatch
import orjson

from tests.bench import policies
from webhook.admission import Endpoint, answer_review
from webhook.demonstration.api_server import received
from webhook.demonstration.gateway import SHIPPED
from webhook.demonstration.reviews import about_to_be_stored, review
from webhook.demonstration.workloads import Workload, read_workloads

if TYPE_CHECKING:
    from webhook.policy import PolicySet

TIME = "2026-01-01T00:00:00Z"
SMALLEST, LARGEST = 5_000, 8_000


class Bodies(NamedTuple):
    """The bodies of the two calls for one pod."""

    name: str
    mutate: bytes
    validate: bytes


def accelerator_pods() -> list[Bodies]:
    """The pods of the demonstration within the sizes: two training workers and one half of a served model."""
    made = [_bodies(workload) for workload in read_workloads()]
    return [each for each in made if SMALLEST <= len(each.mutate) <= LARGEST]


def plain_pod() -> list[Bodies]:
    """The pod of the demonstration that no policy concerns."""
    return [
        _bodies(workload)
        for workload in read_workloads()
        if workload.object["metadata"]["namespace"] == "web"
    ]


def marked(pods: list[Bodies], policy_set: PolicySet) -> list[Bodies]:
    """The pods as if this set had answered `/mutate`: one that another set left is judged twice, in case of a change-over."""
    theirs, ours = policies.load([SHIPPED]).hash.encode(), policy_set.hash.encode()
    return [pod._replace(validate=pod.validate.replace(theirs, ours)) for pod in pods]


def _bodies(workload: Workload) -> Bodies:
    thing = received(workload, TIME, {})
    mutate = orjson.dumps(review(workload, thing, "mutate"))
    answer = answer_review(
        mutate, Endpoint.MUTATE, policy_set=policies.load([SHIPPED]), facts=policies.facts()
    )
    patch = orjson.loads(answer.body)["response"].get("patch")
    mutated = jsonpatch.apply_patch(thing, b64decode(patch).decode()) if patch else thing
    stored = about_to_be_stored(workload, mutated, TIME)
    return Bodies(workload.name, mutate, orjson.dumps(review(workload, stored, "validate")))
