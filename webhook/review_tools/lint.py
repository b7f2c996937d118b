"""All warnings about a policy set: what can be told from its files, and what a review in thought shows."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from webhook.documents import Position, Problem
from webhook.engine.lanes import Lanes, run_mutations
from webhook.engine.resolve import ENDING
from webhook.facts import Facts
from webhook.facts.cluster import WORKSPACE_LABEL
from webhook.kube.accelerators import Catalogue
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.workload import WORKLOAD_LABEL
from webhook.policy import PolicySet
from webhook.policy.lint import Sources, conflicts, misspelt_names, unreachable
from webhook.policy.schema import AcceleratorMatch, MatchClause
from webhook.rules.base import MutatingRule, Received

CLAIMS = "persistentvolumeclaims"


def lint(files: Iterable[tuple[str, bytes]], policy_set: PolicySet, now: datetime) -> tuple[Problem, ...]:
    """What is most likely not meant in policies that load, in the order of their files.

    Args:
        files: name and content of each, as they were loaded without an error.
        policy_set: what came of them.
        now: what exceptions are measured by.
    """
    sources = Sources.of(files)
    found = [
        *conflicts(policy_set, sources),
        *unreachable(policy_set, sources),
        *misspelt_names(policy_set, sources),
        *ended_exceptions(policy_set, sources, now),
        *restless_rules(policy_set, sources),
    ]
    return tuple(sorted(found, key=lambda each: (each.source, each.position or Position(0, 0))))


def ended_exceptions(policy_set: PolicySet, sources: Sources, now: datetime) -> Iterator[Problem]:
    """A warning for each exception that has ended, or ends soon.

    Args:
        policy_set: whose exceptions are looked at.
        sources: where they are written.
        now: what their ends are measured by, with its zone.
    """
    exceptions = {each.name: each for policy in policy_set.policies for each in policy.exceptions}
    for name, exception in exceptions.items():
        end = f"{exception.expires_at:%Y-%m-%d %H:%M} UTC"
        about = f" ({exception.reference})" if exception.reference else ""
        if now >= exception.expires_at:
            message = f"exception {name} ended on {end}: it lifts nothing any more"
            hint = f"remove it, or agree with {exception.owner} on a new end{about}"
        elif exception.expires_at - now <= ENDING:
            message = f"exception {name} ends on {end}"
            hint = f"mend what it is for ({exception.reason}), or agree with {exception.owner} on a new end{about}"
        else:
            continue
        yield sources.warn("PodPolicyException", name, ("spec", "expiresAt"), message, hint)


def restless_rules(policy_set: PolicySet, sources: Sources) -> Iterator[Problem]:
    """A warning for each rule that, in a second pass over what the first one left, would write again.

    Every policy is tried on small objects made from its own match, with all policies in force.

    Args:
        policy_set: whose setters are tried.
        sources: where the rules are written.
    """
    said: set[str] = set()
    for policy in policy_set.policies:
        mutating = any(isinstance(rule.rule, MutatingRule) for rule in policy.rules)
        for clause in [clause for clause, _ in policy.clauses] if mutating else ():
            for request, facts in _objects(clause, policy_set.catalogue):
                for rule, field in _second_writes(policy_set, request, facts):
                    if rule not in said:
                        said.add(rule)
                        yield _restless(rule, field, sources)


def _restless(rule: str, field: str, sources: Sources) -> Problem:
    policy, _, name = rule.partition("/")
    message = (
        f"{rule} would write {field} only in a second pass, after what later rules set: passes must end alike"
    )
    hint = "let it run after the rule that sets what it matches (spec.order), or match something else"
    return sources.warn("PodPolicy", policy, sources.rule(policy, name), message, hint)


def _second_writes(
    policy_set: PolicySet, request: AdmissionRequest, facts: Facts
) -> Iterator[tuple[str, str]]:
    """The rules that write in a second pass, each with a field; audited ones included."""
    first = _pass(policy_set, request, facts)
    again = _pass(policy_set, request._replace(object=first.audited.subject.object), facts)
    for change in again.audited.subject.draft.changes():
        yield change.rule, change.field


def _pass(policy_set: PolicySet, request: AdmissionRequest, facts: Facts) -> Lanes:
    lanes = Lanes.of(Received(request, facts, policy_set.pools, policy_set.catalogue))
    bucket = policy_set.bucket(request.resource_name, "CREATE")
    run_mutations(bucket.candidates(lanes.real), lanes)
    return lanes


def _objects(clause: MatchClause, catalogue: Catalogue) -> Iterator[tuple[AdmissionRequest, Facts]]:
    """Small objects that a match was made for: pods of each workload class, and a claim."""
    namespace = _example((clause.namespaces or ("default",))[0])
    selected = dict((clause.namespace_selector or {}).get("matchLabels") or {})
    if clause.workspaces:
        selected[WORKSPACE_LABEL] = _example(clause.workspaces[0])
    facts = Facts.from_objects(
        [{"kind": "Namespace", "metadata": {"name": namespace, "labels": selected}}], None
    )
    labels = dict((clause.object_selector or {}).get("matchLabels") or {})
    limits = dict(_asked(clause.accelerators, catalogue))
    for workload in clause.workloads or ("",):
        own = {**labels, WORKLOAD_LABEL: workload} if workload else labels
        spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
        yield _request("Pod", "pods", namespace, own, spec), facts
    spec = {"accessModes": ["ReadWriteOnce"]}
    yield _request("PersistentVolumeClaim", CLAIMS, namespace, labels, spec), facts


def _request(
    kind: str, resource: str, namespace: str, labels: dict[str, Any], spec: dict[str, Any]
) -> AdmissionRequest:
    thing = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "lint", "labels": labels}, "spec": spec}
    return AdmissionRequest(
        kind=kind, resource=resource, namespace=namespace, object=thing, from_api_server=False
    )


def _example(pattern: str) -> str:
    return pattern.replace("*", "x")


def _asked(wanted: AcceleratorMatch | None, catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    """One accelerator that a match is for, as a limit."""
    if wanted is None or wanted.none:
        return
    count = str(max(1, wanted.count.min)) if wanted.count else "1"
    named = [_example(name) for name in wanted.resource_names or ()]
    for name in (*named, *_devices(catalogue)):
        found = catalogue.resource(name)
        of_vendor = found and (not wanted.vendors or found.vendor in wanted.vendors)
        if (name in named and not wanted.vendors) or of_vendor:
            yield name, count
            return


def _devices(catalogue: Catalogue) -> Iterator[str]:
    for layer in catalogue.canonical()["layers"]:
        for vendor in (layer.get("vendors") or {}).values():
            for entry in (vendor or {}).get("resources") or ():
                yield from (_example(name) for name in entry["names"] if entry.get("role") == "device")
