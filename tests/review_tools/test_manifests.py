"""Objects in files as requests, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.documents import read_documents
from webhook.documents.model import NOT_SHOWN
from webhook.engine import Gate, review
from webhook.facts import Facts
from webhook.kube.templates import shipped_templates
from webhook.policy import load_policy_set
from webhook.review_tools.manifests import Caller, facts_in, problems_in, request_for, why_not_reviewed

KINDS = shipped_templates()
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


def problems(text: str) -> list[str]:
    reading = read_documents(text.encode(), "a.yaml", strict=False)
    return [str(problem).partition("\n")[0] for problem in problems_in(reading, shipped_templates())]


def test_the_request_of_a_pod() -> None:
    request = request_for(
        POD, Caller(operation="UPDATE", username="ann", groups=("ops",), namespace="ml"), KINDS
    )
    assert request is not None
    assert request.resource_name == "pods"
    assert (request.operation, request.namespace, request.name) == ("UPDATE", "ml", "a")
    assert (request.username, request.groups) == ("ann", ("ops",))
    assert (request.dry_run, request.from_api_server) == (True, False)
    assert request.object == {**POD, "metadata": {"name": "a", "namespace": "ml"}}
    assert request.raw["userInfo"] == {"username": "ann", "groups": ["ops"]}


def test_the_object_is_not_touched() -> None:
    request_for(POD, Caller(), KINDS)
    assert POD["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("apps/v1", "Deploymint"),
        ("example.org/v1", "Pod"),
        ("v1", "pod"),
        ("v1", None),
        (None, "Pod"),
        (["v1"], {}),
    ],
)
def test_other_kinds_are_not_reviewed(api_version: Any, kind: Any) -> None:
    assert request_for({"apiVersion": api_version, "kind": kind}, Caller(), KINDS) is None


@pytest.mark.parametrize("metadata", [None, "a", [], {"name": 1, "namespace": []}])
def test_a_request_needs_no_sound_metadata(metadata: Any) -> None:
    request = request_for({**POD, "metadata": metadata}, Caller(), KINDS)
    assert request is not None
    assert (request.namespace, request.name) == ("default", "")


def test_the_request_of_a_controller() -> None:
    thing = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"}}
    request = request_for(thing, Caller(), KINDS)
    assert request is not None
    assert (request.resource_name, request.kind, request.version) == (
        "pytorchjobs.kubeflow.org",
        "PyTorchJob",
        "v1",
    )
    assert request.raw["kind"] == {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"}
    assert request.raw["resource"] == {"group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs"}


def test_the_resource_of_a_controller_in_the_core_group() -> None:
    request = request_for({"apiVersion": "v1", "kind": "ReplicationController"}, Caller(), KINDS)
    assert request is not None
    assert request.resource_name == "replicationcontrollers"


DEPLOYMENT: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
REASONS: dict[str, tuple[dict[str, Any], str]] = {
    "no template": (DEPLOYMENT, "without a pod template"),
    "a template that is none": ({**DEPLOYMENT, "spec": {"template": "a"}}, "without a pod template"),
    "a template": ({**DEPLOYMENT, "spec": {"template": {"spec": {}}}}, ""),
    "pods from elsewhere": (
        {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"},
        "its pods come from the training runtime that spec.runtimeRef names",
    ),
    "only claims": (
        {**DEPLOYMENT, "kind": "StatefulSet", "spec": {"volumeClaimTemplates": [{"spec": {}}]}},
        "",
    ),
    "a pod": (POD, ""),
}


@pytest.mark.parametrize("case", REASONS)
def test_what_there_is_nothing_to_review_in(case: str) -> None:
    thing, reason = REASONS[case]
    request = request_for(thing, Caller(), KINDS)
    assert request is not None
    gate = Gate(load_policy_set([]).policy_set, Facts())
    assert why_not_reviewed(review(gate, request)) == reason


PROBLEMS = {
    "texts as they must be": (
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    a: '1'\n  annotations:\n    b:\nspec:\n"
            "  containers:\n  - command: [sleep, '5']\n    env:\n    - name: A\n      value: '1'"
        ),
        [],
    ),
    "numbers in a kind without pods": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    a: 1",
        [],
    ),
    "numbers and booleans where text must stand": (
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    a: 1\n  annotations:\n    b: true\nspec:\n"
            "  containers:\n  - name: m\n    args: [5]\n    env:\n    - name: A\n      value: 1.5"
        ),
        [
            "a.yaml:5:8: metadata.labels.a: expected text, found a number",
            "a.yaml:7:8: metadata.annotations.b: expected text, found a boolean",
            'a.yaml:11:12: spec.containers["m"].args[0]: expected text, found a number',
            'a.yaml:14:14: spec.containers["m"].env["A"].value: expected text, found a number',
        ],
    ),
    "maps and lists where text must stand": (
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    a: [x]\n  annotations:\n    b: {x: z}\n    c: {}\n"
            "spec:\n  containers: [{}]"
        ),
        [
            "a.yaml:5:8: metadata.labels.a: expected text, found a list",
            "a.yaml:7:8: metadata.annotations.b: expected text, found a map",
            "a.yaml:8:8: metadata.annotations.c: expected text, found an empty map",
        ],
    ),
    "a number in a template": (
        (
            "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    metadata:\n      labels:\n        a: 1\n"
            "    spec:\n      containers:\n      - name: m\n        command: [sleep, 5]"
        ),
        [
            "a.yaml:7:12: spec.template.metadata.labels.a: expected text, found a number",
            'a.yaml:11:26: spec.template.spec.containers["m"].command[1]: expected text, found a number',
        ],
    ),
    "a number in an inline pod spec, whose metadata reaches no pod": (
        (
            "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nmetadata:\n  name: a\nspec:\n"
            "  metadata:\n    labels:\n      a: 1\n  template:\n    containers:\n    - name: m\n      args: [5]"
        ),
        ['a.yaml:12:14: spec.template.containers["m"].args[0]: expected text, found a number'],
    ),
    "whole bytes in thousandths": (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - resources:\n      limits:\n        memory: 4000m",
        [],
    ),
    "a part of a byte": (
        (
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: m\n    resources:\n      limits:\n"
            "        memory: 400m"
        ),
        ["a.yaml:8:17: spec.containers[\"m\"].resources.limits.memory: expected whole bytes, found '400m'"],
    ),
    "a good pod": (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - resources:\n      limits:\n        cpu: 500m",
        [],
    ),
    "a null amount": (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - resources:\n      limits:\n        cpu:",
        [],
    ),
    "any text in another kind": (
        "apiVersion: v1\nkind: Pot\nspec:\n  resources:\n    limits:\n      cpu: some",
        [],
    ),
    "in a container": (
        (
            "apiVersion: v1\nkind: Pod\nspec:\n  containers: [{}]\n  initContainers:\n  - name: i\n    resources:\n"
            "      requests:\n        cpu: some"
        ),
        ["a.yaml:9:14: spec.initContainers[\"i\"].resources.requests.cpu: expected a quantity, found 'some'"],
    ),
    "in a pod's own resources and overhead": (
        (
            "apiVersion: v1\nkind: Pod\nspec:\n  containers: [{}]\n  overhead:\n    cpu: [1]\n  resources:\n"
            "    limits:\n      cpu: true"
        ),
        [
            "a.yaml:6:10: spec.overhead.cpu: expected a quantity, found a list",
            "a.yaml:9:12: spec.resources.limits.cpu: expected a quantity, found the boolean true",
        ],
    ),
    "in a claim": (
        "apiVersion: v1\nkind: PersistentVolumeClaim\nspec:\n  resources:\n    requests:\n      storage: 10 Gi",
        ["a.yaml:6:16: spec.resources.requests.storage: expected a quantity, found '10 Gi'"],
    ),
    "in a template": (
        (
            "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n"
            "        resources:\n          limits:\n            cpu: some"
        ),
        [
            "a.yaml:10:18: spec.template.spec.containers[\"a\"].resources.limits.cpu: expected a quantity, found 'some'"
        ],
    ),
    "in a template of a claim": (
        (
            "apiVersion: apps/v1\nkind: StatefulSet\nspec:\n  volumeClaimTemplates:\n  - spec:\n      resources:\n"
            "        requests:\n          storage: much"
        ),
        [
            "a.yaml:8:20: spec.volumeClaimTemplates[0].spec.resources.requests.storage: expected a quantity, found 'much'"
        ],
    ),
    "outside a template": (
        "apiVersion: batch/v1\nkind: Job\nspec:\n  resources:\n    limits:\n      cpu: some",
        [],
    ),
    "a document that is text": (
        "just text",
        ["a.yaml:1:1: expected a Kubernetes object (a map), found text"],
    ),
    "a document without a kind": ("a: b", ["a.yaml:1:1: no Kubernetes object: kind is missing"]),
    "an item that is text, two Lists deep": (
        "kind: List\nitems:\n- kind: List\n  items:\n  - text\n  - kind: Thing",
        ["a.yaml:5:5: expected a Kubernetes object (a map), found text"],
    ),
    "names that are no text": (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: 7\n  namespace: true\nspec:\n  containers: [{name: 1, image: 2.5}]",
        [
            "a.yaml:4:9: metadata.name: expected text, found a number",
            "a.yaml:5:14: metadata.namespace: expected text, found a boolean",
            "a.yaml:7:23: spec.containers[0].name: expected text, found a number",
            "a.yaml:7:33: spec.containers[0].image: expected text, found a number",
        ],
    ),
    "labels of nodes and values of taints that are no text": (
        (
            "apiVersion: v1\nkind: Pod\nspec:\n  nodeSelector:\n    gpu: true\n    zone: 'true'\n"
            "  tolerations:\n  - value: 1\n    tolerationSeconds: 5\n"
            "  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n"
            "        nodeSelectorTerms:\n        - matchExpressions:\n          - {key: gpu, values: ['a', 1]}\n"
            "      preferredDuringSchedulingIgnoredDuringExecution:\n      - weight: 1\n        preference:\n"
            "          matchExpressions:\n          - {key: 5}\n  containers: [{}]"
        ),
        [
            "a.yaml:5:10: spec.nodeSelector.gpu: expected text, found a boolean",
            "a.yaml:8:12: spec.tolerations[0].value: expected text, found a number",
            (
                "a.yaml:15:38: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
                'nodeSelectorTerms[0].matchExpressions["gpu"].values[1]: expected text, found a number'
            ),
            (
                "a.yaml:20:19: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]."
                "preference.matchExpressions[0].key: expected text, found a number"
            ),
        ],
    ),
    "a mount that is no text": (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - volumeMounts:\n    - name: a\n      mountPath: 1",
        ['a.yaml:7:18: spec.containers[0].volumeMounts["a"].mountPath: expected text, found a number'],
    ),
    "a claim's classes and modes that are no text": (
        "apiVersion: v1\nkind: PersistentVolumeClaim\nspec:\n  storageClassName: 1\n  accessModes: [2]",
        [
            "a.yaml:4:21: spec.storageClassName: expected text, found a number",
            "a.yaml:5:17: spec.accessModes[0]: expected text, found a number",
        ],
    ),
    "a template of a claim with a class that is no text": (
        "apiVersion: apps/v1\nkind: StatefulSet\nspec:\n  volumeClaimTemplates:\n  - spec:\n      storageClassName: 1",
        [
            "a.yaml:6:25: spec.volumeClaimTemplates[0].spec.storageClassName: expected text, found a number",
        ],
    ),
    "a pod without a spec": (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a",
        ["a.yaml:1:1: spec.containers: expected at least one container, found nothing (null)"],
    ),
    "a pod whose containers are misspelt": (
        "apiVersion: v1\nkind: Pod\nspec:\n  contianers: [{}]",
        ["a.yaml:4:3: spec.containers: expected at least one container, found nothing (null)"],
    ),
    "containers that are no list": (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers: {}",
        ["a.yaml:4:15: spec.containers: expected at least one container, found an empty map"],
    ),
    "no containers in a Deployment": (
        "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers: []",
        ["a.yaml:6:19: spec.template.spec.containers: expected at least one container, found an empty list"],
    ),
    "no containers where a controller may add them": (
        (
            "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nspec:\n  predictor:\n    model:\n"
            "      storageUri: pvc://a"
        ),
        [],
    ),
    "a kind in small letters": (
        "apiVersion: apps/v1\nkind: deployment",
        ["a.yaml:2:7: kind: expected Deployment, found 'deployment'"],
    ),
    "a kind in another group": (
        "apiVersion: v1\nkind: Deployment",
        ["a.yaml:1:13: apiVersion: expected apps/v1 for a Deployment, found 'v1'"],
    ),
    "a kind in the group that it has left": (
        "apiVersion: extensions/v1beta1\nkind: DaemonSet",
        ["a.yaml:1:13: apiVersion: expected apps/v1 for a DaemonSet, found 'extensions/v1beta1'"],
    ),
    "a version that is served no more": (
        "apiVersion: batch/v1beta1\nkind: CronJob",
        ["a.yaml:1:13: apiVersion: expected batch/v1 for a CronJob, found 'batch/v1beta1'"],
    ),
    "another version of another's kind": ("apiVersion: kubeflow.org/v2beta1\nkind: MPIJob", []),
    "a version that was never there": (
        "apiVersion: v1beta1\nkind: Pod",
        ["a.yaml:1:13: apiVersion: expected v1 for a Pod, found 'v1beta1'"],
    ),
    "a kind without its group": (
        "kind: Pod",
        ["a.yaml:1:1: apiVersion: expected v1 for a Pod, found nothing (null)"],
    ),
    "a kind of its own group with a name that others have": (
        "apiVersion: batch.example.com/v1\nkind: Job",
        [],
    ),
    "a core kind with a name that another group has with pods": ("apiVersion: v1\nkind: Service", []),
    "small letters in another group": ("apiVersion: example.com/v1\nkind: pod", []),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_problems(case: str) -> None:
    text, expected = PROBLEMS[case]
    assert problems(text) == expected


def test_facts_come_from_objects_only() -> None:
    text = b"- a\n---\nkind: PriorityClassList\nitems: []\n"
    facts = facts_in(read_documents(text, "a.yaml", strict=False).documents, "baseline")
    assert facts.priority_class("high") is None
    assert facts.pod_security_default == "baseline"


def test_a_part_of_a_byte_is_a_warning() -> None:
    reading = read_documents(PROBLEMS["a part of a byte"][0].encode(), "a.yaml", strict=False)
    (problem,) = problems_in(reading, KINDS)
    assert problem.is_warning


WORDS = b"""\
apiVersion: v1
kind: Pod
metadata:
  labels:
    a: yes
    b: 1
spec:
  hostNetwork: yes
  containers: [{}]
"""


def test_a_word_that_is_read_as_a_boolean_is_said_once_and_an_error_where_text_must_stand() -> None:
    reading = read_documents(WORDS, "a.yaml", strict=False)
    word = 'expected true, or "yes" in quotes, found unquoted "yes", which Kubernetes reads as true'
    assert [(each.position, each.is_warning, each.message) for each in problems_in(reading, KINDS)] == [
        ((5, 8), False, word),
        ((6, 8), False, "metadata.labels.b: expected text, found a number"),
        ((8, 16), True, word),
    ]


def test_a_word_in_a_file_of_facts_is_not_shown() -> None:
    reading = read_documents(WORDS, "a.yaml", strict=False)
    first, second, third = problems_in(reading, KINDS, quoted=False)
    assert first.message == third.message == NOT_SHOWN
    assert (first.is_warning, second.is_warning, third.is_warning) == (False, False, True)
