"""What a faulty policy file is told: where, what was expected, what was found, what to do."""
# ruff: noqa: E501 - a message is one line

from collections.abc import Mapping

import pytest

from tests.policy.loading import HEAD, load, policy, pool, problems
from webhook.policy.schema import MOST_RULES
from webhook.rules import rule_types

MATCHES: Mapping[str, tuple[str, list[str]]] = {
    "an empty match": (
        "{}",
        [
            "7:5 spec.match: an empty match is an error; write all: true for everything",
        ],
    ),
    "all is not true": (
        "all: false",
        [
            "7:10 spec.match.all: expected true, found the boolean false",
        ],
    ),
    "all: true beside others": (
        "all: true\nworkloads: [training]",
        [
            "7:5 spec.match: all: true stands alone; remove it, or what else is said",
        ],
    ),
    "a key without a value": (
        "workloads:",
        [
            "7:15 spec.match.workloads: expected a value, found nothing (null) | give it a value, or remove the key",
        ],
    ),
    "a key without a value beside another": (
        "workloads:\nnamespaces: [x]",
        [
            "7:15 spec.match.workloads: expected a value, found nothing (null) | give it a value, or remove the key",
        ],
    ),
    "accelerators without a value": (
        "accelerators:",
        [
            "7:18 spec.match.accelerators: expected a value, found nothing (null) | give it a value, or remove the key",
        ],
    ),
    "operations alone": (
        "operations: [CREATE]",
        [
            "7:5 spec.match: operations alone say nothing about objects; write all: true for everything",
        ],
    ),
    "an unknown key of a match": (
        "workload: [training]",
        [
            "7:5 unknown key 'workload' in spec.match | did you mean workloads?",
        ],
    ),
    "an unknown class": (
        "workloads: [trainig]",
        [
            "7:17 spec.match.workloads[0]: expected training, inference, notebook or other, found 'trainig'",
        ],
    ),
    "a word in place of a list": (
        "workloads: training",
        [
            "7:16 spec.match.workloads: expected a list, found 'training' | write a list: [training]",
        ],
    ),
    "none inside a map": (
        "accelerators:\n  none: true",
        [
            "8:7 spec.match.accelerators: write accelerators: none, or a map of vendors, resourceNames, count and sharing",
        ],
    ),
    "a word that is not none": (
        "accelerators: some",
        [
            "7:19 spec.match.accelerators: expected a map, found 'some'",
        ],
    ),
    "an unknown key of accelerators": (
        "accelerators:\n  resourcesNames: [a/b]",
        [
            "8:7 unknown key 'resourcesNames' in spec.match.accelerators | did you mean resourceNames?",
        ],
    ),
    "an unknown vendor": (
        "accelerators:\n  vendors: [nvidai]",
        [
            "8:17 unknown vendor 'nvidai' | did you mean nvidia?",
        ],
    ),
    "an unknown way of sharing": (
        "accelerators:\n  sharing: [mps]",
        [
            "8:17 spec.match.accelerators.sharing[0]: expected none, mig, timeSlice or memorySlice, found 'mps'",
        ],
    ),
    "a number in quotes": (
        'accelerators:\n  count:\n    min: "1"',
        [
            "9:14 spec.match.accelerators.count.min: expected a whole number, found '1' | write it without quotes",
        ],
    ),
    "a boolean in place of a number": (
        "accelerators:\n  count:\n    min: true",
        [
            "9:14 spec.match.accelerators.count.min: expected a whole number, found the boolean true",
        ],
    ),
    "a fraction in place of a whole number": (
        "accelerators:\n  count:\n    min: 1.5",
        [
            "9:14 spec.match.accelerators.count.min: expected a whole number, found 1.5",
        ],
    ),
    "a negative count": (
        "accelerators:\n  count:\n    min: -1",
        [
            "9:14 spec.match.accelerators.count.min: expected at least 0, found -1",
        ],
    ),
    "a minimum above the maximum": (
        "accelerators:\n  count:\n    min: 4\n    max: 2",
        [
            "9:9 spec.match.accelerators.count: no count is at least 4 and at most 2",
        ],
    ),
    "an empty list": (
        "namespaces: []",
        [
            "7:17 spec.match.namespaces: expected at least one entry, found an empty list",
        ],
    ),
    "a number in place of a name": (
        "namespaces: [1]",
        [
            "7:18 spec.match.namespaces[0]: expected a string, found 1 | put it in quotes",
        ],
    ),
    "an operator in lower case": (
        "objectSelector:\n  matchExpressions:\n  - key: a\n    operator: in\n    values: [b]",
        [
            "10:19 spec.match.objectSelector: matchExpressions[0].operator: expected one of In, NotIn, Exists, DoesNotExist, found 'in'",
        ],
    ),
    "a selector of another form": (
        "namespaceSelector:\n  labels:\n    a: b",
        [
            "9:9 spec.match.namespaceSelector: labels: expected one of matchLabels, matchExpressions, found the unknown key 'labels'",
        ],
    ),
    "a selector that is text": (
        "namespaceSelector: team=a",
        ["7:24 spec.match.namespaceSelector: expected a map, found 'team=a'"],
    ),
    "a boolean label": (
        "namespaceSelector:\n  matchLabels:\n    a: true",
        [
            '9:12 spec.match.namespaceSelector: matchLabels.a: expected a text (in quotes, as "true" or "1"), found true',
        ],
    ),
    "CEL that is cut off": (
        "matchConditions:\n- name: c\n  expression: object.spec.(",
        [
            "9:19 spec.match.matchConditions[0].expression: syntax error: no viable alternative at input '.(' (at line 1, column 13 of the expression)",
        ],
    ),
    "CEL that is no condition": (
        "matchConditions:\n- name: c\n  expression: workload.accelerators + 1",
        [
            "9:19 spec.match.matchConditions[0].expression: the expression is int; a condition must be true or false (at line 1, column 1 of the expression)",
        ],
    ),
    "CEL with a misspelt function": (
        "matchConditions:\n- name: c\n  expression: acceleratorcount('a') > 1",
        [
            '9:19 spec.match.matchConditions[0].expression: unknown function "acceleratorcount" (at line 1, column 1 of the expression) | did you mean "acceleratorCount"?',
        ],
    ),
    "a condition without a name": (
        "matchConditions:\n- expression: 'true'",
        [
            "8:7 spec.match.matchConditions[0].name is missing | add name: …",
        ],
    ),
    "a pool that does not exist": (
        "pools: [h100]",
        [
            "7:13 there is no AcceleratorPool 'h100'",
        ],
    ),
    "an operation that no policy sees": (
        "operations: [DELETE]\nnamespaces: [a]",
        [
            "7:18 spec.match.operations[0]: expected CREATE or UPDATE, found 'DELETE'",
        ],
    ),
    "an alternative that is no map": (
        "- all: true\n- x",
        [
            "8:7 spec.match[1]: expected a map, found 'x'",
        ],
    ),
    "an empty alternative": (
        "- namespaces: [a]\n- {}",
        [
            "8:7 spec.match[1]: an empty match is an error; write all: true for everything",
        ],
    ),
    "a misspelt communication": (
        "communication: [multinode]",
        [
            "7:21 spec.match.communication[0]: expected multiNode, disaggregated or none, found 'multinode'",
        ],
    ),
    "a selector without a value": (
        "objectSelector:",
        [
            "7:20 spec.match.objectSelector: expected a value, found nothing (null) | give it a value, or remove the key",
        ],
    ),
}

RULES: Mapping[str, tuple[str, list[str]]] = {
    "a misspelt type": (
        "- name: r\n  setPriorityclass:\n    class: a",
        [
            "10:5 unknown rule type 'setPriorityclass' | did you mean setPriorityClass?",
        ],
    ),
    "two types": (
        "- name: r\n  setPriorityClass:\n    class: a\n  limitAcceleratorCount:\n    perPod:\n      max: 1",
        [
            "12:5 a rule has one type, found setPriorityClass and limitAcceleratorCount | write two rules",
        ],
    ),
    "no name": (
        "- setPriorityClass:\n    class: a",
        [
            "9:5 spec.rules[0].name is missing | add name: …",
        ],
    ),
    "two rules of one name": (
        "- name: r\n  setPriorityClass:\n    class: a\n- name: r\n  setPriorityClass:\n    class: b",
        [
            "12:11 there are two rules called r in this policy | give one of them another name",
        ],
    ),
    "a misspelt parameter": (
        "- name: r\n  setPriorityClass:\n    clas: a",
        [
            "10:5 spec.rules[0].setPriorityClass.class is missing | add class: …",
            "11:7 unknown key 'clas' in spec.rules[0].setPriorityClass | did you mean class?",
        ],
    ),
    "a word in place of parameters": (
        "- name: r\n  setPriorityClass: a",
        [
            "10:23 spec.rules[0].setPriorityClass: expected a map, found 'a'",
        ],
    ),
    "no parameters": (
        "- name: r\n  setPriorityClass:",
        [
            "10:5 spec.rules[0].setPriorityClass.class is missing | add class: …",
        ],
    ),
    "another word for verify": (
        "- name: r\n  verify: deny\n  setPriorityClass:\n    class: a",
        [
            "10:13 spec.rules[0].verify: expected warn or fail, found 'deny'",
        ],
    ),
    "a rule that is no map": (
        "- x",
        [
            "9:5 spec.rules[0]: expected a rule (a map), found 'x'",
        ],
    ),
    "a name in capitals": (
        "- name: R_1\n  setPriorityClass:\n    class: a",
        [
            "9:11 spec.rules[0].name: expected a lower-case name of letters, digits, - and ., at most 63 characters, found 'R_1'",
        ],
    ),
    "a number for a message": (
        "- name: r\n  message: 5\n  setPriorityClass:\n    class: a",
        [
            "10:14 spec.rules[0].message: expected a text, or a map of texts by language, found 5",
        ],
    ),
    "a misspelt key inside byVendor": (
        "- name: r\n  setNodeAffinity:\n    byVendor:\n      nvidia:\n        nodeLabel:\n          a: b",
        [
            "12:9 spec.rules[0].setNodeAffinity.byVendor.nvidia.nodeLabels is missing | add nodeLabels: …",
            "13:11 unknown key 'nodeLabel' in spec.rules[0].setNodeAffinity.byVendor.nvidia | did you mean nodeLabels?",
        ],
    ),
    "a misspelt vendor": (
        "- name: r\n  setNodeAffinity:\n    byVendor:\n      nvida:\n        nodeLabels:\n          a: b",
        [
            "12:9 unknown vendor 'nvida' | did you mean nvidia?",
        ],
    ),
    "a pool that does not exist": (
        "- name: r\n  setNodeAffinity:\n    pools: [h100]",
        [
            "11:15 there is no AcceleratorPool 'h100'",
        ],
    ),
    "a misspelt operator": (
        "- name: r\n  setNodeAffinity:\n    tolerations:\n    - key: a\n      operator: Exist",
        [
            "13:19 spec.rules[0].setNodeAffinity.tolerations[0].operator: expected Exists or Equal, found 'Exist'",
        ],
    ),
    "two sources of nodes": (
        "- name: r\n  setNodeAffinity:\n    pools: [h100]\n    matchExpressions:\n    - key: a\n      operator: Exists",
        [
            "11:7 spec.rules[0].setNodeAffinity: give one of pools, byVendor and matchExpressions, not several",
        ],
    ),
    "no limit at all": (
        "- name: r\n  limitAcceleratorCount: {}",
        [
            "10:28 spec.rules[0].limitAcceleratorCount: give at least one of perContainer, perPod, memory and fitsNode",
        ],
    ),
    "an empty limit": (
        "- name: r\n  limitAcceleratorCount:\n    perPod: {}",
        [
            "11:15 spec.rules[0].limitAcceleratorCount.perPod: give max or allowed",
        ],
    ),
    "a misspelt key inside a limit": (
        "- name: r\n  limitAcceleratorCount:\n    perPod:\n      maximum: 8",
        [
            "12:9 unknown key 'maximum' in spec.rules[0].limitAcceleratorCount.perPod | did you mean max?",
        ],
    ),
    "a misspelt key below a resource name": (
        "- name: r\n  limitAcceleratorCount:\n    memory:\n      nvidia.com/gpumem:\n        mx: 8",
        [
            '12:9 spec.rules[0].limitAcceleratorCount.memory["nvidia.com/gpumem"].max is missing | add max: …',
            "13:11 unknown key 'mx' in spec.rules[0].limitAcceleratorCount.memory[\"nvidia.com/gpumem\"] | did you mean max?",
        ],
    ),
    "no source of RDMA": (
        "- name: r\n  requestRDMA: {}",
        [
            "10:18 spec.rules[0].requestRDMA: give either fromPool: true or resourceNames",
        ],
    ),
    "a short access mode": (
        "- name: r\n  setStorageClass:\n    byAccessMode:\n      RWO: x",
        [
            "12:9 spec.rules[0].setStorageClass.byAccessMode.RWO: expected ReadWriteMany, ReadOnlyMany, ReadWriteOnce or ReadWriteOncePod, found 'RWO'",
        ],
    ),
    "optOut in a rule": (
        "- name: r\n  optOut: denied\n  setPriorityClass:\n    class: a",
        [
            "10:5 unknown key 'optOut' in spec.rules[0] | it may be one of: message, name, remediation, setPriorityClass, verify",
        ],
    ),
}

SPECS: Mapping[str, tuple[str, list[str]]] = {
    "a template kind that is not": (
        "templates:\n  mutate: [pytorchjob]",
        [
            (
                "7:14 unknown kind with pods 'pytorchjob'; kinds are named as kubectl writes them | "
                "did you mean pytorchjobs.kubeflow.org?"
            ),
        ],
    ),
    "another check of templates": (
        "templates:\n  check: enforce",
        [
            "7:12 spec.templates.check: expected sameAsMode, warn or disabled, found 'enforce'",
        ],
    ),
    "optOut as a boolean": (
        "optOut: true",
        [
            "6:11 spec.optOut: expected allowed or denied, found the boolean true",
        ],
    ),
    "another severity": (
        "severity: hi",
        [
            "6:13 spec.severity: expected low, medium, high or critical, found 'hi'",
        ],
    ),
    "another mode": (
        "mode: enforced",
        [
            "6:9 spec.mode: expected disabled, audit, warn or enforce, found 'enforced'",
        ],
    ),
    "an order in quotes": (
        'order: "1"',
        [
            "6:10 spec.order: expected a whole number, found '1' | write it without quotes",
        ],
    ),
    "an order beyond all integers": (
        "order: 99999999999999999999999999",
        [
            '6:10 expected "99999999999999999999999999" in quotes, found unquoted "99999999999999999999999999", which Kubernetes reads as the number 1e+26: it is too large for an integer | quote it if it is text',
        ],
    ),
    "a failurePolicy in lower case": (
        "failurePolicy: ignore",
        [
            "6:18 spec.failurePolicy: expected Ignore or Fail, found 'ignore'",
        ],
    ),
    "an exclude with a pool that does not exist": (
        "exclude:\n- pools: [x]",
        [
            "7:13 there is no AcceleratorPool 'x'",
        ],
    ),
    "an exclude without a value": (
        "exclude:",
        [
            "6:11 spec.exclude: expected a value, found nothing (null) | give it a value, or remove the key",
        ],
    ),
    "a number for a title": (
        "title: 5",
        [
            "6:10 spec.title: expected a text, or a map of texts by language, found 5",
        ],
    ),
    "off is false in YAML": (
        "mode: off",
        [
            '6:9 expected false, or "off" in quotes, found unquoted "off", which Kubernetes reads as false | quote it if it is text',
        ],
    ),
    "exclude vendor": (
        "exclude:\n- accelerators:\n    vendors: [amd, intl]",
        [
            "8:22 unknown vendor 'intl' | did you mean intel?",
        ],
    ),
}

DOCUMENTS: Mapping[str, tuple[str, list[str]]] = {
    "another version": (
        "apiVersion: podgate.dev/v1\nkind: PodPolicy\n",
        [
            "1:13 expected podgate.dev/v1alpha1, found 'podgate.dev/v1' | write apiVersion: podgate.dev/v1alpha1",
        ],
    ),
    "no version": (
        "kind: PodPolicy\n",
        [
            "1:1 expected podgate.dev/v1alpha1, found nothing (null) | write apiVersion: podgate.dev/v1alpha1",
        ],
    ),
    "a list": (
        "- a\n",
        [
            "1:1 expected a map, found a list | a policy starts with apiVersion and kind",
        ],
    ),
    "no kind": (
        "apiVersion: podgate.dev/v1alpha1\n",
        [
            "1:1 kind is missing | it may be one of: AcceleratorPool, PodPolicy, PodPolicyException, PodPolicyOverride",
        ],
    ),
    "a name in capitals": (
        "apiVersion: podgate.dev/v1alpha1\nkind: PodPolicy\nmetadata:\n  name: A_b\nspec:\n  match:\n    all: true\n  rules:\n  - name: r\n    setPriorityClass:\n      class: high\n",
        [
            "4:9 metadata.name: expected a lower-case name of letters, digits, - and ., at most 63 characters, found 'A_b'",
        ],
    ),
    "no name": (
        "apiVersion: podgate.dev/v1alpha1\nkind: PodPolicy\nmetadata: {}\nspec:\n  match:\n    all: true\n",
        [
            "3:1 metadata.name is missing | add name: …",
        ],
    ),
    "a spec that is no map": (
        "apiVersion: podgate.dev/v1alpha1\nkind: PodPolicy\nmetadata:\n  name: a\nspec: 5\n",
        [
            "5:7 spec: expected a map, found 5",
        ],
    ),
    "a status": (
        "apiVersion: podgate.dev/v1alpha1\nkind: PodPolicy\nmetadata:\n  name: p\nspec:\n  match:\n    all: true\n  rules:\n  - name: r\n    setPriorityClass:\n      class: high\nstatus: {}\n",
        [
            "12:1 unknown key 'status' in the document | it may be one of: apiVersion, kind, metadata, spec",
        ],
    ),
    "another engine's policy": (
        "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\n",
        [
            "2:7 unknown kind 'ClusterPolicy' | it may be one of: AcceleratorPool, PodPolicy, PodPolicyException, PodPolicyOverride",
        ],
    ),
}

POOLS: Mapping[str, tuple[str, list[str]]] = {
    "a name in the spec": (
        "name: x\nresourceNames: [a/b]\nnodeLabels:\n  a: b",
        [
            "6:3 unknown key 'name' in spec | it may be one of: devicesPerNode, nodeLabels, rdma, resourceNames, tolerations",
        ],
    ),
    "per node without devicesPerNode": (
        "resourceNames: [a/b]\nnodeLabels:\n  a: b\nrdma:\n  resourceNames: [rdma/a]\n  per: node",
        [
            "6:3 spec: rdma.per: node needs devicesPerNode",
        ],
    ),
    "a misspelt key of rdma": (
        "resourceNames: [a/b]\nnodeLabels:\n  a: b\nrdma:\n  resourceName: [rdma/a]",
        [
            "9:3 spec.rdma.resourceNames is missing | add resourceNames: …",
            "10:5 unknown key 'resourceName' in spec.rdma | did you mean resourceNames?",
        ],
    ),
    "no labels": (
        "resourceNames: [a/b]",
        [
            "5:1 spec.nodeLabels is missing | add nodeLabels: …",
        ],
    ),
    "a boolean label": (
        "resourceNames: [a/b]\nnodeLabels:\n  a: true",
        [
            "8:8 spec.nodeLabels.a: expected a string, found the boolean true | put it in quotes",
        ],
    ),
    "no devices": (
        "resourceNames: [a/b]\nnodeLabels:\n  a: b\ndevicesPerNode: 0",
        [
            "9:19 spec.devicesPerNode: expected at least 1, found 0",
        ],
    ),
}


@pytest.mark.parametrize(("match", "expected"), MATCHES.values(), ids=MATCHES.keys())
def test_a_faulty_match(match: str, expected: list[str]) -> None:
    assert problems(policy(match)) == expected


@pytest.mark.parametrize(("rules", "expected"), RULES.values(), ids=RULES.keys())
def test_a_faulty_rule(rules: str, expected: list[str]) -> None:
    assert problems(policy(rules=rules)) == expected


@pytest.mark.parametrize(("spec", "expected"), SPECS.values(), ids=SPECS.keys())
def test_a_faulty_spec(spec: str, expected: list[str]) -> None:
    assert problems(policy(spec=spec)) == expected


@pytest.mark.parametrize(("text", "expected"), DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_a_document_that_is_no_policy(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize(("spec", "expected"), POOLS.values(), ids=POOLS.keys())
def test_a_faulty_pool(spec: str, expected: list[str]) -> None:
    assert problems(policy(), pool(spec=spec)) == expected


def test_a_setter_in_a_policy_for_updates() -> None:
    text = policy("- namespaces: [a]\n- operations: [CREATE, UPDATE]\n  namespaces: [b]")
    assert problems(text) == [
        (
            "11:5 rule r (setPriorityClass) sets fields, and the policy's match names UPDATE"
            " | put it into a policy of its own with operations: [CREATE]"
        )
    ]


def test_pools_of_one_rule_that_no_single_affinity_can_name() -> None:
    rule = "- name: r\n  setNodeAffinity:\n    pools: [one, two]"
    spec = "resourceNames: [nvidia.com/gpu]\nnodeLabels:\n  gpu: {}\n  zone: {}"
    same = policy(rules=rule), pool("one", spec.format("a", "x")), pool("two", spec.format("b", "x"))
    assert problems(*same) == []
    two_labels = policy(rules=rule), pool("one", spec.format("a", "x")), pool("two", spec.format("b", "z"))
    assert problems(*two_labels) == [
        (
            "11:14 the pools one, two differ in gpu and zone; they may differ in one label only"
            " | write one rule for each, or plain matchExpressions"
        )
    ]
    other_keys = policy(rules=rule), pool("one"), pool("two", spec.format("b", "z"))
    assert problems(*other_keys) == [
        (
            "11:14 the pools one, two do not have the same label keys, so one affinity cannot say them all"
            " | write one rule for each, or plain matchExpressions"
        )
    ]


def test_a_misspelt_pool() -> None:
    rule = "- name: r\n  setNodeAffinity:\n    pools: [h100, h1000]"
    assert problems(policy(rules=rule), pool()) == [
        "11:21 there is no AcceleratorPool 'h1000' | did you mean h100?"
    ]


def test_a_word_where_maps_must_stand() -> None:
    text = policy().replace("match:\n", "exclude: sandbox\n  match:\n", 1)
    assert problems(text) == [
        "6:12 spec.exclude: expected a list of maps, found 'sandbox' | write keys below it, each with its value"
    ]


def test_two_of_one_name() -> None:
    assert problems(policy(), policy(), pool(), pool()) == [
        "4:9 there are two policies called p; the other is in a.yaml:4 | give one of them another name",
        "4:9 there are two pools called h100; the other is in c.yaml:4 | give one of them another name",
    ]


def test_all_errors_of_all_files_at_once() -> None:
    first = policy("namespace: [a]", rules="- name: r\n  setPriorityClass:\n    clazz: x", spec="orders: 1")
    found = load(policy("all: false", name="q"), first)
    assert [(p.source, p.position and p.position.line) for p in found.problems] == [
        ("a.yaml", 7),
        ("b.yaml", 6),
        ("b.yaml", 8),
        ("b.yaml", 11),
        ("b.yaml", 12),
    ]


def test_what_is_read_otherwise_than_it_looks_hides_no_other_error() -> None:
    text = policy(
        "namespaces: legacy", rules="- name: n\n  setPriorityClass:\n    clazz: x", spec="order: 010"
    )
    assert problems(text, policy("namespace: [x]", name="second")) == [
        '6:10 expected 8, or "010" in quotes, found unquoted "010", which Kubernetes reads as the octal number 8 | quote it if it is text',
        "8:17 spec.match.namespaces: expected a list, found 'legacy' | write a list: [legacy]",
        '10:11 expected false, or "n" in quotes, found unquoted "n", which Kubernetes reads as false | quote it if it is text',
        "11:5 spec.rules[0].setPriorityClass.class is missing | add class: …",
        "12:7 unknown key 'clazz' in spec.rules[0].setPriorityClass | did you mean class?",
        "7:5 unknown key 'namespace' in spec.match | did you mean namespaces?",
    ]


def test_an_unreadable_document_hides_no_error_of_those_beside_it() -> None:
    found = problems(f"{policy('namespace: [x]')}\n---\na: [\n---\n{policy(name='good')}")
    assert [each.partition(" ")[2].partition(" |")[0] for each in found][:1] == [
        "unknown key 'namespace' in spec.match"
    ]
    assert len(found) == 2


def test_nothing_is_said_of_a_document_that_is_not_worth_reading_on() -> None:
    (problem,) = problems("a: &a\n- *a\n")
    assert problem.endswith("found an alias to a value inside itself | write the value out")


def test_nothing_of_a_file_with_an_error_is_kept() -> None:
    found = load(f"{policy(name='good')}\n---\n{policy(name='odd', spec='order: 010')}", policy(name="last"))
    assert [each.name for each in found.policy_set.policies] == ["last"]


def test_one_bad_file_takes_no_other_down() -> None:
    found = load(policy(name="good"), policy("all: false", name="bad"), "a: [\n", policy(name="last"))
    assert [each.name for each in found.policy_set.policies] == ["good", "last"]
    assert found.has_errors


def test_a_policy_whose_pool_is_faulty_is_dropped_with_it() -> None:
    found = load(policy("pools: [h100]", name="needs"), policy(name="other"), pool(spec="resourceNames: []"))
    assert [each.name for each in found.policy_set.policies] == ["other"]
    assert "there is no AcceleratorPool 'h100'" in [problem.message for problem in found.problems]


def test_a_rule_without_a_type() -> None:
    assert problems(policy(rules="- name: r")) == [
        f"9:5 the rule has no type | add one of: {', '.join(rule_types())}"
    ]


def test_too_many_rules() -> None:
    one = "- name: r{}\n  setPriorityClass:\n    class: a"
    many = "\n".join(one.format(index) for index in range(MOST_RULES + 1))
    assert [line.split(" | ")[0].split(" ", 1)[1] for line in problems(policy(rules=many))] == [
        "spec.rules: expected at most 64 entries, found a list"
    ]


def test_an_empty_set_is_a_warning() -> None:
    found = load()
    assert (found.has_errors, [str(problem) for problem in found.problems]) == (
        False,
        [
            ": no policy was found\n  hint: give a folder of PodPolicy files: *.yaml or *.yml, not hidden, not below prerequisites"
        ],
    )


EVERYTHING = policy(
    """
- workloads: [training, inference, notebook, other]
  accelerators:
    vendors: [nvidia]
    resourceNames: [nvidia.com/gpu, nvidia.com/mig-*]
    count:
      min: 1
    sharing: [none, mig]
  pools: [h100]
  communication: [multiNode, disaggregated]
  operations: [CREATE]
  namespaces: [team-*]
  namespaceSelector:
    matchLabels:
      tier: gold
  workspaces: [research]
  objectSelector:
    matchExpressions:
    - key: app
      operator: Exists
  matchConditions:
  - name: only-big
    expression: acceleratorCount("nvidia.com/gpu") >= 4
- accelerators: none
""",
    """
- name: priority
  setPriorityClass:
    class: ai-train-high
  verify: fail
  message: A text.
  remediation:
    en: Do it.
    zh: 请处理。
""",
    spec="""
title:
  en: Training pods get the training priority
  zh: 训练任务使用训练优先级
description: Why.
severity: critical
link: https://wiki.example.com/gpu/priority
contact: "#ai-platform"
mode: enforce
failurePolicy: Fail
order: -5
exclude:
- namespaces: [sandbox]
  operations: [CREATE]
""",
)


def test_every_key_of_the_language_is_accepted() -> None:
    assert problems(EVERYTHING, pool()) == []
    assert HEAD in EVERYTHING
