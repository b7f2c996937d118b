"""What the gate says to a case, in a form that a table of expectations can hold.

A case is a file beside this one: AdmissionReviews that are sent as an API server sends them, to both endpoints, or manifests
that are given to `podgate check`. Nothing here reads podgate's inner types: bytes go in, and bytes or text come out.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from click.testing import CliRunner

from tests.admission.wire import patched, response_of
from webhook.admission import Endpoint
from webhook.cli.main import podgate
from webhook.facts import Facts
from webhook.policy import PolicySet, load_policy_set

HERE = Path(__file__).parent
POLICIES = HERE / "policies"
FACTS = HERE / "facts"

Json = dict[str, Any]


class Answer(NamedTuple):
    """What both calls say to one review.

    Attributes:
        fields: what `/mutate` sets, by the place, but for the gate's own annotations; None for what it takes away.
        denied: for each cause of a refusal by `/validate`, the place and what is wrong.
        warned: the warnings of both calls.
    """

    fields: Mapping[str, Any] = {}
    denied: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()


class Report(NamedTuple):
    """What `podgate check` says of a file.

    Attributes:
        exit_code: of the command.
        objects: the verdicts on each object that was judged, by kind and name.
        found: what is wrong: line and column, rule, what came of it, place, and message.
        changes: what would be changed, by object and place.
        skipped: kind and name of what was not judged.
        problems: line and column, severity and text of what is wrong with the file itself.
    """

    exit_code: int
    objects: Mapping[str, str] = {}
    found: tuple[str, ...] = ()
    changes: Mapping[str, Any] = {}
    skipped: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


Observed = tuple[Answer, ...] | Report


@dataclass(frozen=True)
class Case:
    """A case, the policies that it needs, and what must come of it.

    Attributes:
        policies: names of files in policies/.
        expected: an answer for each review of the file, or the report on it.
        alter: what is changed in each document first: the near miss of the same case.
        acts: whether a policy must do something; then the expectation must fail without the policies.
    """

    id: str
    policies: tuple[str, ...]
    expected: Observed
    alter: Callable[[Json], None] | None = None
    acts: bool = True

    @property
    def path(self) -> Path:
        """The input."""
        (found,) = HERE.glob(f"{self.id}-*.yaml")
        return found

    def observe(self, policies: tuple[str, ...] | None = None) -> Observed:
        """What the gate says, with these policies in place of the case's own."""
        chosen = self.policies if policies is None else policies
        if isinstance(self.expected, Report):
            return check(self.path, chosen)
        reviews = list(yaml.safe_load_all(self.path.read_bytes()))
        for review in reviews if self.alter else ():
            self.alter(review["request"])  # type: ignore[misc]
        return tuple(answer(review, policy_set(chosen)) for review in reviews)


def answer(review: Json, policies: PolicySet) -> Answer:
    """Both calls for a review, as the API server makes them: `/validate` sees the mutated object.

    A mutated object that is sent once more must not be changed again.
    """
    first = response_of(review, Endpoint.MUTATE, policies, facts=facts())
    sent = review["request"]["object"]
    result = deepcopy(sent)
    if "patch" in first:
        result = patched(deepcopy(sent), first)
        again = response_of(_with_object(review, result), Endpoint.MUTATE, policies, facts=facts())
        assert "patch" not in again, "a second pass must find nothing to do"
    second = response_of(_with_object(review, result), Endpoint.VALIDATE, policies, facts=facts())
    causes = second.get("status", {}).get("details", {}).get("causes", [])
    return Answer(
        dict(differences(sent, _without_own(result, sent))),
        tuple(f"{cause['field']}: {cause['message']}" for cause in causes),
        (*first.get("warnings", ()), *second.get("warnings", ())),
    )


def check(path: Path, policies: Iterable[str]) -> Report:
    """`podgate check` of one file."""
    given = [option for name in policies for option in ("--policies", str(POLICIES / f"{name}.yaml"))]
    if not given:
        given = ["--policies", str(POLICIES / "unrelated.yaml")]
    result = CliRunner().invoke(podgate, ["check", str(path), *given, "--facts", str(FACTS), "-o", "json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), "no traceback reaches a user"
    return _report(json.loads(result.stdout), result.exit_code)


def _report(found: Json, exit_code: int) -> Report:
    assert found["exitCode"] == exit_code
    return Report(
        exit_code,
        {_name(each): ", ".join(each["verdicts"]) for each in found["objects"]},
        tuple(_found(each) for thing in found["objects"] for each in thing["results"] if each["message"]),
        {
            f"{thing['name']} {change['path']}": change.get("to", "(not shown)")
            for thing in found["objects"]
            for change in thing["changes"]
        },
        tuple(_name(each) for each in found["skipped"]),
        tuple(
            f"{each['line']}:{each['column']} {each['severity']}: {each['message']}"
            for each in found["problems"]
        ),
    )


def _name(each: Json) -> str:
    return f"{each['kind']} {each['name']}" + (f" in {each['namespace']}" if each["namespace"] else "")


def _found(each: Json) -> str:
    what = (
        f"{each['line']}:{each['column']} {each['policy']}/{each['rule']} {each['result']} {each['action']}"
    )
    place = f" {each['field']}" if each["field"] else ""
    return f"{what}{place}: {each['message']['en']}"


@cache
def policy_set(names: tuple[str, ...]) -> PolicySet:
    """The policies of these files, which have no faults."""
    loaded = load_policy_set([(name, (POLICIES / f"{name}.yaml").read_bytes()) for name in names])
    assert not [str(problem) for problem in loaded.problems if not problem.is_warning]
    return loaded.policy_set


@cache
def facts() -> Facts:
    """The cluster of the cases."""
    return Facts.from_objects(
        thing for path in sorted(FACTS.glob("*.yaml")) for thing in yaml.safe_load_all(path.read_bytes())
    )


def differences(before: Any, after: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Where two JSON values differ, type-strictly, and what stands there afterwards: by hand, without a library."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from differences(before.get(key), after.get(key), f"{place}.{key}" if place else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        for index, item in enumerate(after):
            old = before[index] if index < len(before) else None
            yield from differences(old, item, f"{place}[{index}]")
    elif json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True):
        yield place, after


def _with_object(review: Json, thing: Any) -> Json:
    return {**review, "request": {**review["request"], "object": thing}}


def _without_own(result: Any, sent: Any) -> Any:
    """The object without the annotations in which the gate records what it did."""
    metadata = result.get("metadata") if isinstance(result, dict) else None
    if not metadata or not metadata.get("annotations"):
        return result
    own = {key: value for key, value in metadata["annotations"].items() if not key.startswith("podgate.dev/")}
    if own or "annotations" in sent["metadata"]:
        metadata["annotations"] = own
    else:
        del metadata["annotations"]
    return result
