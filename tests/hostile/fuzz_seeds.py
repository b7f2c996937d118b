"""What the fuzzer starts from: real reviews, generated pods and claims, every kind with pods, and the small hostile objects."""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING, Any

import orjson
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.bench.bodies import accelerator_pods, plain_pod
from tests.engine.gates import Json, load, shipped_files
from tests.hostile.app import BACKTRACKING
from tests.hostile.objects import OBJECTS, controller, review
from tests.property.pods import claims, pods
from tests.property.sets import rich_files
from webhook.rules.base import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.policy import PolicySet

LARGEST = 40_000
SETS = ("shipped", "audit", "every")
GENERATED = 400
"""Pods and claims; hypothesis takes some seconds for them."""

VALUES: list[Any] = [
    *(None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 1e300, 0.1, "", "x", "8", "1e9", "-1", "9" * 400, "a" * 5_000),
    *("\u202e\x00", "true", "nvidia.com/gpu", "../..", "*", [], {}, [None], [[]], {"": None}, {"a": {"b": [1]}}),
    *({"nvidia.com/gpu": "8"}, [{"name": "x"}] * 50, {f"k{n}": "v" for n in range(50)}),
]  # fmt: skip
OPERATIONS = ["CREATE"] * 8 + ["UPDATE"] * 3 + ["DELETE", "CONNECT"]
SUBRESOURCES = [""] * 40 + ["ephemeralcontainers", "status", "scale", "resize", "binding", "x"]
USERS = ["ann", "ann", "ann", "system:serviceaccount:kube-system:daemon-set-controller", "system:node:a", ""]
GROUPS: list[Any] = [["system:authenticated"], ["system:nodes"], [None, 7], None]


def policy_sets() -> dict[str, PolicySet]:
    """The shipped policies, the same at most auditing, and a set with every type of rule."""
    return {
        "shipped": load(*shipped_files()),
        "audit": load(*shipped_files(), ceiling=Mode.AUDIT),
        "every": load(*every_type()),
    }


def every_type() -> list[tuple[str, bytes]]:
    """Files with every type of rule, every mode, overrides, exceptions and expressions."""
    rich = rich_files()
    taken = {name for name, _ in rich}
    return [
        *rich,
        *(
            file
            for file in shipped_files()
            if file[0] not in taken and "pools" not in file[0] and "ascend" not in file[0]
        ),
        BACKTRACKING,
    ]


def seeds(number: int) -> list[bytes]:
    """The bodies that are mutated; the generated ones differ by number."""
    real = [body for each in (*accelerator_pods(), *plain_pod()) for body in (each.mutate, each.validate)]
    hostile = [
        review(make()) for name, make in OBJECTS.items() if "00 " not in name and "so many" not in name
    ]
    made = [orjson.dumps(each) for each in (*generated(number), *controllers(number), *hostile)]
    return [*real, *(body for body in made if len(body) < LARGEST)]


def generated(number: int) -> list[Json]:
    """Reviews of pods and claims by hypothesis."""
    found: list[Json] = []

    @seed(number)
    @settings(
        max_examples=GENERATED,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(thing=pods() | claims())
    def collect(thing: Json) -> None:
        found.append(review(thing))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collect()
    return found


def controllers(number: int) -> Iterator[Json]:
    """Reviews of every kind with pods that is known here, around pods that were generated."""
    dice = random.Random(number)
    templates = [
        {"metadata": {"labels": {"app": "x"}}, "spec": each["request"]["object"]["spec"]}
        for each in generated(number + 1)
        if each["request"]["object"]["kind"] == "Pod"
    ]
    for _ in range(60):
        one, two = dice.choice(templates), dice.choice(templates)
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": [dice.choice(["ReadWriteOnce", "ReadWriteMany"])]},
        }
        yield review(controller("Deployment", replicas=3, template=one))
        yield review(controller("StatefulSet", template=one, volumeClaimTemplates=[claim]))
        yield review(
            controller(
                "JobSet",
                replicatedJobs=[
                    {"name": n, "template": {"spec": {"template": t}}} for n, t in (("a", one), ("b", two))
                ],
            )
        )
        yield review(
            controller(
                "RayCluster",
                headGroupSpec={"template": one},
                workerGroupSpecs=[{"groupName": "w", "template": two}],
            )
        )
        yield review(
            controller(
                "PyTorchJob",
                pytorchReplicaSpecs={"Master": {"template": one}, "Worker": {"replicas": 3, "template": two}},
            )
        )
        yield review(controller("CronJob", jobTemplate={"spec": {"template": one}}))
        yield review(controller("Job", template=two))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every map and list with each key or index of it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def mutated(body: bytes, dice: random.Random) -> bytes:
    """The review as another request, with up to eight values, keys, list items or bytes changed."""
    asked = orjson.loads(body)
    request, count = asked["request"], dice.choice([0, 0, 1, 1, 2, 3, 8])
    request["operation"] = dice.choice(OPERATIONS)
    request["subResource"] = dice.choice(SUBRESOURCES)
    request["userInfo"] = {"username": dice.choice(USERS), "groups": dice.choice(GROUPS)}
    request["dryRun"] = dice.random() < 0.1
    if request["operation"] in ("UPDATE", "DELETE"):
        request["oldObject"] = orjson.loads(body)["request"]["object"]
    for _ in range(count):
        change(asked, dice)
    if dice.random() < 0.02:
        asked["request"] = dice.choice(VALUES)
    body = orjson.dumps(asked)
    return damaged(body, dice) if dice.random() < 0.05 else body


def change(asked: Any, dice: random.Random) -> None:
    """One change somewhere, mostly in the object."""
    within = asked["request"].get("object") if isinstance(asked.get("request"), dict) else None
    found = list(places(within if isinstance(within, dict) and dice.random() < 0.9 else asked))
    if not found:
        return
    holder, key = dice.choice(found)
    match dice.randrange(5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[str(dice.choice(VALUES))[:300]] = holder[key]
        case 2 if isinstance(holder, list):
            holder.extend(copied([holder[key]] * dice.randint(1, 200)))
        case 3:
            other, place = dice.choice(found)
            holder[key] = copied(other[place])
        case _:
            holder[key] = copied(dice.choice(VALUES))


def copied(value: Any) -> Any:
    """A value that shares nothing with where it came from."""
    return orjson.loads(orjson.dumps(value))


def damaged(body: bytes, dice: random.Random) -> bytes:
    """The body with bytes missing or put in."""
    start, end = sorted(dice.choices(range(len(body) + 1), k=2))
    return dice.choice(
        [body[:start], body[:start] + body[end:], body[:start] + dice.randbytes(8) + body[start:]]
    )
