"""What the API server would store, beside what `podgate check` would make of the same object."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson

from tests.e2e.client import ApiError, Json, path_of
from tests.policies.case_files import without_record
from webhook.engine import review

if TYPE_CHECKING:
    from tests.e2e.cluster import Cluster
    from webhook.engine import Gate, Outcome
    from webhook.kube.admission_request import AdmissionRequest

RANDOM = re.compile(r"kube-api-access-[a-z0-9]{5}")
"""The volume of the ServiceAccount's token has a name of its own each time."""

UNORDERED = frozenset({"tolerations", "volumes", "volumeMounts"})
VOLATILE = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation")


def tried(cluster: Cluster, thing: Json) -> tuple[Json | ApiError, tuple[str, ...]]:
    """What would be stored, or the refusal; and the warnings."""
    path = path_of(thing["kind"], thing["metadata"]["namespace"])
    try:
        answer = cluster.admin.call("POST", path, thing, dryRun="All")
    except ApiError as refusal:
        return refusal, ()
    return _comparable(answer.body), answer.warnings


def changed(gate: Gate, request: AdmissionRequest) -> tuple[Json, Outcome]:
    """The object as `podgate check` would change it, and all that it says."""
    outcome = review(gate, request)
    found: Json = orjson.loads(orjson.dumps(without_record(outcome.object or {})))
    return found, outcome


def _comparable(thing: Json) -> Json:
    """Without what differs each time, and in one order: the API server adds its own to lists before or after we do."""
    metadata = thing["metadata"]
    text = RANDOM.sub("kube-api-access", orjson.dumps(thing).decode()).replace(metadata["uid"], "uid")
    if "generateName" in metadata:
        text = text.replace(metadata["name"], "name")  # a Job's is in labels, too, as its uid is
    found: Json = orjson.loads(text)
    for key in VOLATILE:
        found["metadata"].pop(key, None)
    for holder in _holders(found.get("spec", {})):
        for key in UNORDERED & holder.keys():
            holder[key] = sorted(holder[key], key=orjson.dumps)
    return without_record(found)


def _holders(spec: Json) -> list[Json]:
    return [spec, *spec.get("initContainers", []), *spec.get("containers", [])]
