"""Controllers' pod templates: their author is told what would become of the pods, at the time he can mend it.

The pod is built as its controller would make it, mutated in thought, and judged; what is found is said at the place in the
controller's object where it was written.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from operator import eq
from typing import Any

from webhook.documents import Path
from webhook.engine.decide import weakest_action
from webhook.engine.outcome import Action, Outcome, Report
from webhook.engine.put_back import put_template_back
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.api_defaults import with_defaults
from webhook.kube.draft import ALWAYS, MOST_FIELDS, Change, Draft, TooManyFieldsError
from webhook.kube.field_path import format_field, list_at, mapping_at, value_at
from webhook.kube.templates import (
    Template,
    TemplateKind,
    claim_templates_of,
    templates_of,
    to_object_path,
    virtual_pod,
)
from webhook.policy import CompiledRule, PolicySet
from webhook.rules.base import Finding, Result, error

Review = Callable[[AdmissionRequest], Outcome]

ONLY_ON_PODS: tuple[Path, ...] = (("spec", "priority"), ("spec", "preemptionPolicy"))
"""What the Priority plugin fills in from the class by itself; in a template it would only become wrong."""

MOST = {"sameAsMode": Action.DENY, "warn": Action.WARN, "disabled": Action.NONE}


def template_reports(
    kind: TemplateKind, request: AdmissionRequest, review: Review
) -> tuple[tuple[Report, ...], tuple[Change, ...]]:
    """What the policies find in an object's templates, and what they will change in its pods and claims.

    Args:
        kind: the kind of the object.
        request: the request for the object.
        review: both calls for one pod or claim.
    """
    if request.operation == "UPDATE" and not _templates_changed(kind, request):
        return (), ()
    reports: dict[tuple[Any, ...], Report] = {}
    changes: list[Change] = []
    for template in templates_of(kind, request.object or {}):
        outcome = review(_pod_request(kind, request, template))
        for report in outcome.reports:
            _add(reports, _of_template(outcome.policy_set, report, template))
        changes.extend(_placed(change, template, request) for change in outcome.changes)
    for path in claim_templates_of(kind, request.object or {}):
        outcome = review(_claim_request(request, path))
        changes.extend(_below(change, path, request) for change in outcome.changes)
    return tuple(reports.values()), tuple(changes)


def mutate_templates(
    kind: TemplateKind, request: AdmissionRequest, draft: Draft, review: Review
) -> tuple[Report, ...]:
    """Write into the templates what policies that name this kind would write into the pods: all of it, or nothing.

    On an update only what the stored object holds, equal: the templates of many kinds are immutable.

    Args:
        kind: what is known of the object's kind.
        request: about the object that holds the templates.
        draft: where the changes are written.
        review: the answer about one pod or claim.

    Returns:
        The error of every rule that would write, where they together would write too many fields.
    """
    writing: dict[str, CompiledRule] = {}
    draft.begin()
    try:
        for template in templates_of(kind, request.object or {}):
            outcome = review(_pod_request(kind, request, template))
            rules = {report.rule.key: report.rule for report in outcome.reports}
            for change, path in _wanted(kind, request, template, outcome):
                writing.setdefault(change.rule, rules[change.rule])
                _write(draft, change, path)
            if _is_immutable(request) and request.old_object is not None:
                put_template_back(draft, request.old_object, template.spec_path)
    except TooManyFieldsError:
        draft.undo()
        found = (error("too much", most=MOST_FIELDS),)
        return tuple(Report(rule, Result.ERROR, Action.RECORD, found) for rule in writing.values())
    return ()


def _is_immutable(request: AdmissionRequest) -> bool:
    """A Job's template, but while it is suspended (kubernetes/kubernetes:pkg/apis/batch/validation, ValidateJobSpecUpdate)."""
    is_job = request.operation == "UPDATE" and (request.group, request.kind) == ("batch", "Job")
    return is_job and value_at(request.object, ("spec", "suspend")) is not True


def _wanted(
    kind: TemplateKind, request: AdmissionRequest, template: Template, outcome: Outcome
) -> Iterator[tuple[Change, Path]]:
    """The changes of a template's pod that are to be written into the template, and where."""
    policies = {policy.name: policy for policy in outcome.policy_set.policies}
    for change in outcome.changes:
        path = to_object_path(template, change.path)
        wanted = kind.resource in policies[change.rule.partition("/")[0]].mutate_templates
        if wanted and path and change.path not in ONLY_ON_PODS and _may_write(change, path, request):
            yield change, path


def _pod_request(kind: TemplateKind, request: AdmissionRequest, template: Template) -> AdmissionRequest:
    pod = with_defaults(virtual_pod(kind, request.object or {}, template), request.namespace)
    return request._replace(
        group="",
        version="v1",
        kind="Pod",
        resource="pods",
        operation="CREATE",
        name="",
        username=template.user or request.username,
        object=pod,
        old_object=None,
        from_api_server=False,
        replicas=template.replicas,
    )


def _claim_request(request: AdmissionRequest, path: Path) -> AdmissionRequest:
    claim = {**mapping_at(request.object, path), "apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return request._replace(
        group="",
        version="v1",
        kind="PersistentVolumeClaim",
        resource="persistentvolumeclaims",
        operation="CREATE",
        name="",
        object=with_defaults(claim, request.namespace),
        old_object=None,
        from_api_server=False,
    )


def _templates_changed(kind: TemplateKind, request: AdmissionRequest) -> bool:
    def templates(thing: Mapping[str, Any] | None) -> Iterator[tuple[Any, Any]]:
        for template in templates_of(kind, thing or {}):
            metadata = value_at(thing, template.metadata_path) if template.metadata_path else None
            yield metadata, value_at(thing, template.spec_path)

    return list(templates(request.object)) != list(templates(request.old_object))


def _of_template(policy_set: PolicySet, report: Report, template: Template) -> Report:
    """A pod's report as the author of the template gets it."""
    checks = {policy.name: policy.check_templates for policy in policy_set.policies}
    most = MOST[checks[report.rule.policy]]
    findings = tuple(replace(finding, path=_place(finding, template)) for finding in report.findings)
    return report._replace(findings=findings, action=weakest_action(report.action, most))


def _place(finding: Finding, template: Template) -> Path:
    return (to_object_path(template, finding.path) or template.path) if finding.path else template.path


def _add(reports: dict[tuple[Any, ...], Report], report: Report) -> None:
    """Keep what each template of a rule found, but say the same of alike templates once."""
    said = tuple((finding.text, tuple(map(str, finding.args.values()))) for finding in report.findings)
    reports.setdefault((report.rule.key, report.action, said), report)


def _placed(change: Change, template: Template, request: AdmissionRequest) -> Change:
    path = to_object_path(template, change.path) or template.path
    return change._replace(path=path, field=format_field(request.object, path))


def _below(change: Change, base: Path, request: AdmissionRequest) -> Change:
    path = (*base, *change.path)
    return change._replace(path=path, field=format_field(request.object, path))


def _may_write(change: Change, path: Path, request: AdmissionRequest) -> bool:
    if request.operation == "CREATE":
        return True
    if change.appended:
        return change.after in list_at(request.old_object, path[:-1])
    return bool(value_at(request.old_object, path) == change.after)


def _write(draft: Draft, change: Change, path: Path) -> None:
    if change.appended:
        draft.append(path[:-1], change.after, change.rule, partial(eq, change.after), change.field)
    else:
        draft.set(path, change.after, change.rule, ALWAYS)
