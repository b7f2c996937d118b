"""Policy sets, facts, pods and requests for tests of the engine and of what stands above it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import yaml

from webhook.engine import Gate, Report
from webhook.engine.texts import say
from webhook.facts import Facts
from webhook.kube.admission_request import AdmissionRequest
from webhook.policy import CompiledPolicy, PolicySet, load_policy_set
from webhook.policy.policy_set import index_of
from webhook.rules.base import COMMON_TEXTS, Finding, Mode, Rule, Subject, Texts, ValidatingRule

GPU = "nvidia.com/gpu"
POLICIES = Path(__file__).parents[2] / "policies"
ANN, BOB = "ann", "bob"

File = tuple[str, bytes]
Json = dict[str, Any]


def policy(name: str, *rules: Json, **spec: Any) -> File:
    """A policy file; its rules are named r0, r1, … where they have no name."""
    named = [{"name": f"r{index}"} | rule for index, rule in enumerate(rules)]
    body = {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicy",
        "metadata": {"name": name},
        "spec": {"mode": "enforce", "match": {"all": True}} | spec | {"rules": named},
    }
    return f"{name}.yaml", yaml.safe_dump(body, sort_keys=False, allow_unicode=True).encode()


def pool(name: str, **spec: Any) -> File:
    """A pool file."""
    body = {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "AcceleratorPool",
        "metadata": {"name": name},
        "spec": {"resourceNames": [GPU], "nodeLabels": {"pool": name}} | spec,
    }
    return f"{name}.yaml", yaml.safe_dump(body, sort_keys=False).encode()


def load(*files: File, ceiling: Mode = Mode.ENFORCE) -> PolicySet:
    """A policy set of files that have no errors."""
    loaded = load_policy_set(files, mode_ceiling=ceiling)
    assert not [str(problem) for problem in loaded.problems if not problem.is_warning]
    return loaded.policy_set


def shipped_files() -> list[File]:
    """The policies of the project itself."""
    paths = [path for path in sorted(POLICIES.glob("*.yaml")) if not path.name.endswith(".test.yaml")]
    return [(path.name, path.read_bytes()) for path in paths]


def with_rule(policy_set: PolicySet, rule: Rule) -> PolicySet:
    """The set with this rule in place of every rule: for rules that no file can write."""

    def changed(policy: CompiledPolicy) -> CompiledPolicy:
        return replace(policy, rules=tuple(replace(each, rule=rule) for each in policy.rules))

    policies = tuple(map(changed, policy_set.policies))
    return replace(policy_set, policies=policies, index=index_of(policies))


class Found(ValidatingRule):
    """Says what it was made with."""

    texts: ClassVar[Texts] = {"bad": {"en": ("bad", "mend it")}, "unknown": COMMON_TEXTS["unknown"]}
    findings: tuple[Any, ...] = ()

    def validate_subject(self, subject: Subject) -> Iterator[Finding]:
        yield from self.findings


def finds(*findings: Finding, **spec: Any) -> PolicySet:
    """A policy `p` whose one rule finds this in everything."""
    cap = {"limitAcceleratorCount": {"perPod": {"max": 0}}}
    return with_rule(load(policy("p", cap, **spec)), Found.model_construct(findings=findings))


@cache
def facts() -> Facts:
    """A cluster that has what the shipped policies want, and a default priority and storage class."""
    found: list[Mapping[str, Any]] = []
    for path in sorted((POLICIES / "prerequisites").glob("*.yaml")):
        found.extend(each for each in yaml.safe_load_all(path.read_bytes()) if each)
    found.append(
        {
            "kind": "PriorityClass",
            "metadata": {"name": "cluster-default"},
            "value": 100,
            "globalDefault": True,
        }
    )
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    local = {"name": "local-path", "annotations": annotations}
    found.append({"kind": "StorageClass", "metadata": local, "provisioner": "rancher.io/local-path"})
    return Facts.from_objects(found)


def gate(policy_set: PolicySet, **others: Any) -> Gate:
    """A gate on the cluster of `facts`."""
    return Gate(policy_set, others.pop("facts", facts()), **others)


def container(name: str = "main", gpus: Any = 0, **others: Any) -> Json:
    """A container as the API server shows it: request beside limit."""
    amount = {GPU: gpus}
    resources = {"limits": amount, "requests": dict(amount)} if gpus else {}
    return {"name": name, "image": "registry.local/main:1", "resources": resources} | others


def managed_fields(spec: Json, **metadata: Any) -> list[Json]:
    """What the API server notes down of a client that creates an object with this spec (and metadata)."""
    fields: Json = {"f:spec": owned(spec)}
    if metadata:
        fields["f:metadata"] = owned(metadata)
    return [{"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}]


def owned(value: Json) -> Json:
    """A map as FieldsV1: containers and such by name, any other list as one."""
    fields: Json = {}
    for key, child in value.items():
        if isinstance(child, dict):
            fields[f"f:{key}"] = {".": {}} | owned(child)
        elif (
            isinstance(child, list)
            and child
            and all(isinstance(each, dict) and "name" in each for each in child)
        ):
            fields[f"f:{key}"] = {f'k:{{"name":"{each["name"]}"}}': {".": {}} | owned(each) for each in child}
        else:
            fields[f"f:{key}"] = {}
    return fields


def pod(
    *containers: Json,
    labels: Json | None = None,
    annotations: Json | None = None,
    owner: str = "",
    managed: Any = None,
    **spec: Any,
) -> Json:
    """A pod as the API server shows it to a webhook."""
    metadata: Json = {"generateName": "trainer-", "namespace": "training"}
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    if owner:
        version, _, kind = owner.rpartition("/")
        metadata["ownerReferences"] = [
            {"apiVersion": f"{version}/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
        ]
    sent = {"containers": list(containers or (container(),))} | spec
    metadata["managedFields"] = managed_fields(sent) if managed is None else managed
    filled_in = {
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "schedulerName": "default-scheduler",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": filled_in | sent,
    }  # fmt: skip


def training_pod(gpus: int = 8, **others: Any) -> Json:
    """A worker of a PyTorchJob, which every shipped mutation concerns."""
    labels = {"training.kubeflow.org/job-name": "j", "training.kubeflow.org/replica-type": "worker"}
    env = [{"name": "WORLD_SIZE", "value": "4"}, {"name": "PET_NNODES", "value": "4"}]
    main = container("pytorch", gpus, env=env)
    return pod(main, labels=labels, owner="kubeflow.org/PyTorchJob", **others)


def request(thing: Json | None, operation: str = "CREATE", **others: Any) -> AdmissionRequest:
    """A request of Ann's for a pod in the namespace training."""
    values: Json = {"uid": "u-1", "kind": "Pod", "resource": "pods", "namespace": "training", "username": ANN}
    return AdmissionRequest(**(values | {"object": thing, "operation": operation} | others))


def said(reports: Iterable[Report]) -> list[str]:
    """Every report as a line: `policy/rule result action: messages`."""
    return [
        f"{report.rule.key} {report.result} {report.action}"
        + "".join(f": {say(report.rule, finding, 'en').message}" for finding in report.findings)
        for report in reports
    ]


def by_rule(reports: Iterable[Report]) -> dict[str, Report]:
    """The reports by `policy/rule`."""
    return {report.rule.key: report for report in reports}


def deadline_after(calls: int) -> Callable[[], bool]:
    """A deadline that has passed once it was asked so often."""
    asked = iter(range(calls))
    return lambda: next(asked, None) is None
