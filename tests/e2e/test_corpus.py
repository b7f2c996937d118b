"""Manifests that nobody here wrote, and the pods that controllers would make of them, told to a real API server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.e2e.client import ApiError, Json, path_to
from tests.e2e.cluster import facts_of, prerequisites
from tests.e2e.dry_runs import changed, tried
from tests.e2e.podgate import SHIPPED, SITE
from tests.policies.case_files import changes, policy_files, policy_set_of
from webhook.documents import listed_objects, read_documents
from webhook.engine import Gate
from webhook.facts import Facts
from webhook.kube.templates import shipped_templates, templates_of, virtual_pod
from webhook.review_tools.manifests import Caller, request_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.cluster import Cluster
    from tests.e2e.podgate import Podgate

CORPUS = os.environ.get("PODGATE_CORPUS", "")

KNOWN = {
    ("", "Pod"),
    ("", "PersistentVolumeClaim"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("batch", "Job"),
    ("batch", "CronJob"),
}
"""Group and kind of what this API server knows, of what policies judge."""

OWNER = "6f1b9c9e-0000-4000-8000-000000000000"

pytestmark = pytest.mark.skipif(not CORPUS, reason="PODGATE_CORPUS names no folder of real manifests")


def objects() -> Iterator[tuple[str, Json]]:
    """With names for people: what can be created here, and the pods that controllers would create."""
    for path in sorted(Path(CORPUS).glob("*.yaml")):
        reading = read_documents(path.read_bytes(), path.name, strict=False)
        for document in reading.documents:
            for _, thing in listed_objects(document):
                yield from those_of(f"{path.stem} {thing.get('kind')}", dict(thing))


def those_of(name: str, thing: Json) -> Iterator[tuple[str, Json]]:
    group, kind = str(thing.get("apiVersion")).rpartition("/")[0], str(thing.get("kind"))
    if (group, kind) in KNOWN:
        yield name, thing
    if known := shipped_templates().kind_of(group, kind):
        for template in templates_of(known, thing):
            yield f"{name}/{template.role}", virtual_pod(known, thing, template)


def sent(thing: Json, namespace: str) -> Json:
    """The object in a namespace that has no ServiceAccounts but its default one."""
    found: Json = orjson.loads(orjson.dumps(thing))
    metadata = found["metadata"]
    metadata["namespace"] = namespace
    if "name" not in metadata:
        metadata.setdefault("generateName", "pod-")
    for each in metadata.get("ownerReferences", ()):
        each.update(uid=OWNER, name="owner")
    for spec in pod_specs(found):
        spec.pop("serviceAccountName", None)
        spec.pop("serviceAccount", None)
    return found


def pod_specs(value: Any) -> Iterator[Json]:
    """Whatever has containers."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for each in value.values():
            yield from pod_specs(each)


def fault(gate: Gate, cluster: Cluster, thing: Json, found: Json | ApiError) -> str:
    """What podgate made wrong of an object that the API server takes; "" if nothing."""
    request = request_for(thing, Caller(username="admin", groups=("system:masters",)), shipped_templates())
    assert request is not None
    expected, outcome = changed(gate, request)
    if isinstance(found, ApiError):
        is_ours = found.status == 403 and "podgate.dev" in found.message
        return "" if is_ours and not outcome.allowed else f"refused: {found}"
    if not outcome.allowed:
        return "`podgate check` refuses it"
    wanted, _ = tried(cluster, expected)
    if isinstance(wanted, ApiError):
        return f"what `podgate check` makes of it is refused: {wanted}"
    return "" if found == wanted else f"not as `podgate check` says: {changes(found, wanted)}"


@pytest.mark.parametrize("with_nodes", [True, False], ids=["nodes-known", "nodes-unknown"])
def test_real_manifests_are_stored_or_refused_as_podgate_check_says(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., Any],
    with_nodes: bool,
) -> None:
    facts = facts_of(cluster) if with_nodes else list(prerequisites())
    gate = Gate(policy_set_of(policy_files(SHIPPED, SITE)), Facts.from_objects(facts))
    things = {f"{number} {name}": sent(thing, namespace) for number, (name, thing) in enumerate(objects())}
    taken = {
        name: thing for name, thing in things.items() if not isinstance(tried(cluster, thing)[0], ApiError)
    }
    assert len(taken) > 190
    register(start_podgate(facts=facts))
    found = {name: tried(cluster, thing)[0] for name, thing in taken.items()}
    cluster.reset()
    faults = {name: fault(gate, cluster, thing, found[name]) for name, thing in taken.items()}
    told = "\n".join(f"{name}: {each}" for name, each in faults.items() if each)
    assert not told, told


@pytest.mark.parametrize("words", [("apply",), ("apply", "--server-side")], ids=" ".join)
def test_real_manifests_can_be_applied_again_and_again(
    cluster: Cluster, namespace: str, patient_podgate: Podgate, words: tuple[str, ...]
) -> None:
    """Nothing is refused, and nothing changes; controllers' pods as if somebody had written them."""
    things = [named(sent(thing, namespace), number) for number, (_, thing) in enumerate(objects())]
    taken = [thing for thing in things if is_taken(cluster, thing)]
    assert len(taken) > 160
    everything = {"apiVersion": "v1", "kind": "List", "items": taken}
    seen = []
    for _ in range(3):
        ran = cluster.kubectl(*words, "-f", "-", stdin=everything)
        assert (ran.code, ran.out.count("\n")) == (0, len(taken)), ran.err
        seen.append([cluster.admin.get(path_to(thing))["metadata"].get("generation") for thing in taken])
    assert seen[0] == seen[1] == seen[2]


def is_taken(cluster: Cluster, thing: Json) -> bool:
    """Whether kubectl would send it, and podgate allows it."""
    try:
        cluster.admin.create(thing, dryRun="All", fieldValidation="Strict")
    except ApiError:
        return False
    return None not in [each for spec in pod_specs(thing) for each in limits(spec)]


def limits(spec: Json) -> Iterator[Any]:
    """Of all containers."""
    for container in spec["containers"]:
        yield from (container.get("resources") or {}).get("limits", {}).values()


def named(thing: Json, number: int) -> Json:
    """The object with a name that no other has; it stays as it is, for nobody owns it, and no pod of it is preempted."""
    for key in ("generateName", "ownerReferences"):
        thing["metadata"].pop(key, None)
    thing["metadata"]["name"] = f"thing-{number}"
    for spec in pod_specs(thing):
        spec["schedulerName"] = "nobody"
    return thing
