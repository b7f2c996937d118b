"""What lint warns of in policies that load; every case beside its near miss."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from webhook.kube.accelerators import Catalogue, shipped_catalogue
from webhook.policy import load_policy_set
from webhook.policy.lint.names import edits
from webhook.review_tools.lint import lint

if TYPE_CHECKING:
    from webhook.documents import Problem

SHIPPED = [
    file
    for file in sorted((Path(__file__).parents[2] / "policies").glob("*.yaml"))
    if not file.name.endswith(".test.yaml")
]
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def policy(name: str, match: Any, *rules: dict[str, Any], **spec: Any) -> str:
    """A policy with rules named r0, r1, …"""
    named = [{"name": f"r{index}", **rule} for index, rule in enumerate(rules)]
    return document("PodPolicy", name, match=match, rules=named, **spec)


def document(kind: str, name: str, **spec: Any) -> str:
    value = {"apiVersion": "podgate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return yaml.safe_dump(value, sort_keys=False, default_flow_style=False)


def warnings(*files: str) -> list[str]:
    """Every warning: the line that it is about, and its message."""
    named = _named(*files)
    return [f"{_line(dict(named), problem)} {problem.message}" for problem in _found(*files)]


def _named(*files: str) -> list[tuple[str, bytes]]:
    return [(f"{chr(ord('a') + index)}.yaml", text.encode()) for index, text in enumerate(files)]


def _found(*files: str) -> tuple[Problem, ...]:
    named = _named(*files)
    loaded = load_policy_set(named)
    assert not loaded.has_errors, loaded.problems
    found = lint(named, loaded.policy_set, NOW)
    assert all(problem.is_warning and problem.hint for problem in found)
    return found


def _line(files: dict[str, bytes], problem: Any) -> str:
    line = files[problem.source].decode().splitlines()[problem.position.line - 1]
    return f"{problem.source} «{line.strip()}»"


def priority(name: str = "high", **more: Any) -> dict[str, Any]:
    return {"setPriorityClass": {"class": name, **more}}


def fields(**given: Any) -> dict[str, Any]:
    return {"setFields": given}


def labelled(value: str) -> dict[str, Any]:
    return {"objectSelector": {"matchLabels": {"lane": value}}}


LIMIT = {"limitAcceleratorCount": {"perPod": {"max": 8}}}
TRAINING = {"workloads": ["training"]}
ALL = {"all": True}

MEETING: dict[str, tuple[Any, Any]] = {
    "everything": (ALL, TRAINING),
    "a class in common": ({"workloads": ["training", "other"]}, TRAINING),
    "different predicates": ({"namespaces": ["a"]}, {"workloads": ["other"]}),
    "a name within a glob": ({"namespaces": ["team-a"]}, {"namespaces": ["team-*"]}),
    "globs that may meet": ({"namespaces": ["team-*"]}, {"namespaces": ["team-a*"]}),
    "a vendor in common": (
        {"accelerators": {"vendors": ["nvidia", "amd"]}},
        {"accelerators": {"vendors": ["amd"]}},
    ),
    "a glob of resources": (
        {"accelerators": {"resourceNames": ["nvidia.com/*"]}},
        {"accelerators": {"resourceNames": ["nvidia.com/gpu"]}},
    ),
    "counts that touch": (
        {"accelerators": {"count": {"max": 4}}},
        {"accelerators": {"count": {"min": 4}}},
    ),
    "counts of different names": (
        {"accelerators": {"resourceNames": ["nvidia.com/gpu"], "count": {"max": 4}}},
        {"accelerators": {"resourceNames": ["nvidia.com/gpu", "nvidia.com/mig-*"], "count": {"min": 8}}},
    ),
    "labels that may stand together": (
        {"objectSelector": {"matchLabels": {"a": "1"}}},
        {"objectSelector": {"matchLabels": {"b": "2"}}},
    ),
    "one of several alternatives": ([{"workloads": ["other"]}, TRAINING], TRAINING),
}
APART: dict[str, tuple[Any, Any]] = {
    "classes": (TRAINING, {"workloads": ["inference", "notebook"]}),
    "namespaces": ({"namespaces": ["team-a"]}, {"namespaces": ["team-b", "x-*"]}),
    "globs of namespaces": ({"namespaces": ["a-*"]}, {"namespaces": ["b-*"]}),
    "workspaces": ({"workspaces": ["a"]}, {"workspaces": ["b"]}),
    "communication": ({"communication": ["none"]}, {"communication": ["multiNode"]}),
    "none and some": ({"accelerators": "none"}, {"accelerators": {"vendors": ["nvidia"]}}),
    "vendors": ({"accelerators": {"vendors": ["nvidia"]}}, {"accelerators": {"vendors": ["amd"]}}),
    "sharing": ({"accelerators": {"sharing": ["mig"]}}, {"accelerators": {"sharing": ["none"]}}),
    "resources": (
        {"accelerators": {"resourceNames": ["nvidia.com/gpu"]}},
        {"accelerators": {"resourceNames": ["amd.com/*"]}},
    ),
    "counts": ({"accelerators": {"count": {"max": 4}}}, {"accelerators": {"count": {"min": 5}}}),
    "labels of the namespace": (
        {"namespaceSelector": {"matchLabels": {"tier": "gold"}}},
        {"namespaceSelector": {"matchLabels": {"tier": "silver", "a": "b"}}},
    ),
    "labels of the pod": (
        {"objectSelector": {"matchLabels": {"app": "a"}}},
        {"objectSelector": {"matchLabels": {"app": "b"}}},
    ),
}


@pytest.mark.parametrize("case", MEETING)
def test_matches_that_may_meet(case: str) -> None:
    one, other = MEETING[case]
    for first, second in ((one, other), (other, one)):
        assert warnings(policy("p", first, priority("high")), policy("q", second, priority("low"))) == [
            (
                "b.yaml «setPriorityClass:» q/r0 and p/r0 may both set spec.priorityClassName: "
                "where both apply, p/r0 wins, since it comes first by name (both have order 100)"
            )
        ]


@pytest.mark.parametrize("case", APART)
def test_matches_that_never_meet(case: str) -> None:
    one, other = APART[case]
    for first, second in ((one, other), (other, one)):
        assert warnings(policy("p", first, priority("high")), policy("q", second, priority("low"))) == []


WINNERS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "the lower order": (
        priority("high"),
        priority("low"),
        {"order": 50},
        (
            "a.yaml «setPriorityClass:» p/r0 and q/r0 may both set spec.priorityClassName: where both apply, "
            "q/r0 wins, since it comes first by its order (50, the other's is 100)"
        ),
    ),
    "the last that replaces always": (
        priority("high"),
        priority("low", replace="always"),
        {},
        (
            "a.yaml «setPriorityClass:» p/r0 and q/r0 may both set spec.priorityClassName: where both apply, "
            "q/r0 wins, since it says replace: always"
        ),
    ),
    "a scheduler": (
        fields(schedulerName="volcano", runtimeClassName="nvidia"),
        fields(schedulerName="kai-scheduler", runtimeClassName="nvidia"),
        {},
        (
            "b.yaml «setFields:» q/r0 and p/r0 may both set spec.schedulerName: where both apply, "
            "p/r0 wins, since it comes first by name (both have order 100)"
        ),
    ),
    "a label": (
        fields(labels={"team": "a", "x": "1"}),
        fields(labels={"team": "b", "z": "2"}),
        {},
        (
            "b.yaml «setFields:» q/r0 and p/r0 may both set label team: where both apply, "
            "p/r0 wins, since it comes first by name (both have order 100)"
        ),
    ),
    "a variable of containers in common": (
        fields(env={"A": "1"}),
        {"requestRDMA": {"resourceNames": ["rdma/ib"], "env": {"A": "2"}}},
        {},
        (
            "b.yaml «requestRDMA:» q/r0 and p/r0 may both set environment variable A: where both apply, "
            "p/r0 wins, since it comes first by name (both have order 100)"
        ),
    ),
    "a node label": (
        {"setNodeAffinity": {"byVendor": {"nvidia": {"nodeLabels": {"gpu": "a"}}}}},
        {"setNodeAffinity": {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["b"]}]}},
        {},
        (
            "b.yaml «setNodeAffinity:» q/r0 and p/r0 may both set the required node label gpu: where both apply, "
            "p/r0 wins, since it comes first by name (both have order 100)"
        ),
    ),
    "a storage class": (
        {"setStorageClass": {"default": "a"}},
        {"setStorageClass": {"default": "b"}},
        {},
        (
            "b.yaml «setStorageClass:» q/r0 and p/r0 may both set the storage class of claims: where both apply, "
            "p/r0 wins, since it comes first by name (both have order 100)"
        ),
    ),
}


@pytest.mark.parametrize("case", WINNERS)
def test_which_rule_wins(case: str) -> None:
    one, other, spec, expected = WINNERS[case]
    assert warnings(policy("p", ALL, one), policy("q", ALL, other, **spec)) == [expected]


NO_CONFLICT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the same value": (priority("high"), priority("high")),
    "other labels": (fields(labels={"a": "1"}), fields(labels={"b": "1"})),
    "a label and an annotation": (fields(labels={"a": "1"}), fields(annotations={"a": "2"})),
    "other containers": (
        fields(env={"A": "1"}, containers="accelerator"),
        fields(env={"A": "2"}, containers="other"),
    ),
    "nodes of other vendors": (
        {"setNodeAffinity": {"byVendor": {"nvidia": {"nodeLabels": {"gpu": "a"}}}}},
        {"setNodeAffinity": {"byVendor": {"amd": {"nodeLabels": {"gpu": "b"}}}}},
    ),
    "a setter and a limit": (priority("high"), LIMIT),
}


@pytest.mark.parametrize("case", NO_CONFLICT)
def test_rules_that_are_in_no_conflict(case: str) -> None:
    one, other = NO_CONFLICT[case]
    assert warnings(policy("p", ALL, one), policy("q", ALL, other)) == []


def test_two_rules_of_one_policy_always_meet() -> None:
    assert warnings(policy("p", TRAINING, priority("high"), priority("low"))) == [
        (
            "a.yaml «setPriorityClass:» p/r1 and p/r0 may both set spec.priorityClassName: "
            "where both apply, p/r0 wins, since it stands first"
        )
    ]


def test_a_policy_that_is_not_run_conflicts_with_none() -> None:
    assert (
        warnings(policy("p", ALL, priority("high")), policy("q", ALL, priority("low"), mode="disabled")) == []
    )


def test_several_fields_of_two_rules_are_one_warning() -> None:
    one, other = fields(labels={"a": "1", "b": "1"}), fields(labels={"a": "2", "b": "2"})
    assert len(warnings(policy("p", ALL, one), policy("q", ALL, other))) == 1


CLAIM_CHECK = {
    "expression": {
        "resources": ["persistentvolumeclaims"],
        "validations": [{"expression": "object.spec != null"}],
    }
}
UNREACHABLE: dict[str, tuple[str, list[str]]] = {
    "claims by what only pods have": (
        policy("p", [TRAINING, {"accelerators": "none"}], CLAIM_CHECK),
        [
            (
                "a.yaml «expression:» p/r0 can never act: it judges persistentvolumeclaims, "
                "and accelerators and workloads are about pods alone"
            )
        ],
    ),
    "claims, by one alternative": (policy("p", [TRAINING, {"namespaces": ["a"]}], CLAIM_CHECK), []),
    "claims among pods": (
        policy("p", TRAINING, {"setStorageClass": {"default": "a"}}),
        ["a.yaml «setStorageClass:» p/r0 acts on no claim: workloads are about pods alone"],
    ),
    "names of another vendor": (
        policy("p", {"accelerators": {"vendors": ["amd"], "resourceNames": ["nvidia.com/gpu"]}}, priority()),
        ["a.yaml «- nvidia.com/gpu» this never holds: nvidia.com/gpu is of nvidia, not of amd"],
    ),
    "names, one of which fits": (
        policy(
            "p",
            {"accelerators": {"vendors": ["amd"], "resourceNames": ["nvidia.com/gpu", "amd.com/gpu"]}},
            priority(),
        ),
        [],
    ),
    "names that nobody knows": (
        policy(
            "p", {"accelerators": {"vendors": ["amd"], "resourceNames": ["acme.example/npu"]}}, priority()
        ),
        [],
    ),
    "accelerators for pods without": (
        policy("p", {"accelerators": "none"}, LIMIT),
        [
            (
                "a.yaml «limitAcceleratorCount:» p/r0 can never act: it is about accelerators, "
                "and the match is for pods that ask for none"
            )
        ],
    ),
    "accelerators by one alternative": (policy("p", [{"accelerators": "none"}, TRAINING], LIMIT), []),
    "other pods among those with accelerators": (
        policy("p", {"accelerators": {"vendors": ["nvidia"]}}, {"reserveNodes": {"pools": "all"}}),
        ["a.yaml «reserveNodes:» p/r0 can never act: it is about pods that ask for no accelerator"],
    ),
    "excluded by itself": (
        policy("p", {"namespaces": ["a", "b-1"]}, priority(), exclude=[{"namespaces": ["a", "b-*"]}]),
        ["a.yaml «namespaces:» this never holds: the exclude of policy p exempts all that it matches"],
    ),
    "excluded in part": (
        policy("p", {"namespaces": ["a", "c"]}, priority(), exclude=[{"namespaces": ["a", "b-*"]}]),
        [],
    ),
    "everything excluded": (
        policy("p", [TRAINING, ALL], priority(), exclude={**ALL}),
        [
            "a.yaml «- workloads:» this never holds: the exclude of policy p exempts all that it matches",
            "a.yaml «- all: true» this never holds: the exclude of policy p exempts all that it matches",
        ],
    ),
    "excluded by other labels": (
        policy("p", labelled("fast"), priority(), exclude=labelled("slow")),
        [],
    ),
    "excluded by its own labels": (
        policy("p", {**labelled("fast"), "namespaces": ["a"]}, priority(), exclude=labelled("fast")),
        ["a.yaml «objectSelector:» this never holds: the exclude of policy p exempts all that it matches"],
    ),
    "excluded but for one class": (
        policy("p", {"workloads": ["training", "other"]}, priority(), exclude=TRAINING),
        [],
    ),
    "excluded among other classes": (
        policy("p", TRAINING, priority(), exclude={"workloads": ["other", "training"]}),
        ["a.yaml «workloads:» this never holds: the exclude of policy p exempts all that it matches"],
    ),
    "excluded at another operation": (
        policy("p", TRAINING, priority(), exclude={**TRAINING, "operations": ["UPDATE"]}),
        [],
    ),
    "excluded, if of a namespace": (
        policy("p", TRAINING, priority(), exclude={**TRAINING, "namespaces": ["a"]}),
        [],
    ),
}


@pytest.mark.parametrize("case", UNREACHABLE)
def test_what_never_acts(case: str) -> None:
    text, expected = UNREACHABLE[case]
    assert warnings(text) == expected


def pool(*names: str, rdma: str = "") -> str:
    fabric = {"rdma": {"resourceNames": [rdma]}} if rdma else {}
    return document("AcceleratorPool", "a", resourceNames=list(names), nodeLabels={"gpu": "a"}, **fabric)


def asking(name: str) -> str:
    return policy("p", {"accelerators": {"resourceNames": [name]}}, LIMIT)


NAMES: dict[str, tuple[list[str], list[str]]] = {
    "in a match": (
        [asking("nvidia.com/gup")],
        ["a.yaml «- nvidia.com/gup» unknown resource name 'nvidia.com/gup'"],
    ),
    "a pattern": (
        [asking("nvidia.com/mgi-*")],
        ["a.yaml «- nvidia.com/mgi-*» unknown resource name 'nvidia.com/mgi-*'"],
    ),
    "a good pattern": ([asking("nvidia.com/mig-1g.*")], []),
    "a wide pattern": ([asking("nvidia.com/*")], []),
    "a known one": ([asking("huawei.com/Ascend910")], []),
    "a stranger": ([asking("acme.example/npu")], []),
    "in a pool": (
        [pool("nvidia.com/gpus")],
        ["a.yaml «- nvidia.com/gpus» unknown resource name 'nvidia.com/gpus'"],
    ),
    "RDMA of a pool": (
        [pool("nvidia.com/gpu", rdma="rdma/bi")],
        ["a.yaml «- rdma/bi» unknown resource name 'rdma/bi'"],
    ),
    "RDMA of a rule": (
        [policy("p", ALL, {"requestRDMA": {"resourceNames": ["rdma/bi"]}})],
        ["a.yaml «- rdma/bi» unknown resource name 'rdma/bi'"],
    ),
    "another fabric": ([policy("p", ALL, {"requestRDMA": {"resourceNames": ["rdma/fabric"]}})], []),
    "as the pool has it": (
        [
            pool("nvidia.com/gpu", rdma="rdma/ibx1"),
            policy("p", ALL, {"requestRDMA": {"resourceNames": ["rdma/ibx1"]}}),
        ],
        [],
    ),
    "only another number": ([pool("nvidia.com/gpu", rdma="rdma/hca1")], []),
    "a key": (
        [policy("p", ALL, {"limitAcceleratorCount": {"memory": {"nvidia.com/gpumen": {"max": 1}}}})],
        ["a.yaml «nvidia.com/gpumen:» unknown resource name 'nvidia.com/gpumen'"],
    ),
    "in an expression": (
        [
            policy(
                "p",
                {
                    "matchConditions": [
                        {"name": "big", "expression": 'acceleratorCount("nvidia.com/gqu") > 1'}
                    ]
                },
                LIMIT,
            )
        ],
        [
            (
                'a.yaml «expression: acceleratorCount("nvidia.com/gqu") > 1» '
                "unknown resource name 'nvidia.com/gqu'"
            )
        ],
    ),
    "a node label is none": (
        [
            policy(
                "p",
                ALL,
                {"setNodeAffinity": {"byVendor": {"nvidia": {"nodeLabels": {"nvidia.com/gp": "a"}}}}},
            )
        ],
        [],
    ),
}


@pytest.mark.parametrize("case", NAMES)
def test_resource_names(case: str) -> None:
    files, expected = NAMES[case]
    assert warnings(*files) == expected


def test_the_name_that_was_meant() -> None:
    text = policy("p", ALL, {"requestRDMA": {"resourceNames": ["rdma/bi"]}}).encode()
    (found,) = lint([("a.yaml", text)], load_policy_set([("a.yaml", text)]).policy_set, NOW)
    assert str(found).endswith("unknown resource name 'rdma/bi'\n  hint: did you mean rdma/ib?")


EDITS = {
    ("gpu", "gpu"): 0,
    ("gup", "gpu"): 1,
    ("gpus", "gpu"): 1,
    ("gp", "gpu"): 1,
    ("gqu", "gpu"): 1,
    ("ugp", "gpu"): 2,
    ("", "gpu"): 3,
    ("abc", "xyz"): 3,
    ("a" * 500, "b"): 3,
}


@pytest.mark.parametrize(("one", "other"), EDITS)
def test_how_many_letters_differ(one: str, other: str) -> None:
    assert edits(one, other, 2) == edits(other, one, 2) == EDITS[one, other]


def exception(end: str, **more: str) -> str:
    return document(
        "PodPolicyException",
        "legacy",
        policies=["p"],
        match=ALL,
        reason="Migration",
        owner="vision",
        expiresAt=end,
        **more,
    )


ENDS = {
    "ended": (
        "2026-05-31",
        [
            "b.yaml «expiresAt: '2026-05-31'» exception legacy ended on 2026-06-01 00:00 UTC: it lifts nothing any more"
        ],
    ),
    "ending": (
        "2026-06-14",
        ["b.yaml «expiresAt: '2026-06-14'» exception legacy ends on 2026-06-15 00:00 UTC"],
    ),
    "not soon": ("2026-06-15", []),
}


@pytest.mark.parametrize("case", ENDS)
def test_exceptions(case: str) -> None:
    end, expected = ENDS[case]
    assert warnings(policy("p", ALL, LIMIT), exception(end)) == expected


def test_whoever_renews_an_exception_finds_its_ticket() -> None:
    limits = policy("p", ALL, LIMIT)
    (ended,) = _found(limits, exception("2026-05-31", reference="OPS-4711"))
    (ending,) = _found(limits, exception("2026-06-14", reference="OPS-4711"))
    assert ended.hint == "remove it, or agree with vision on a new end (OPS-4711)"
    assert ending.hint == "mend what it is for (Migration), or agree with vision on a new end (OPS-4711)"


def test_a_rule_that_only_a_second_pass_reaches() -> None:
    first = policy("first", labelled("fast"), priority("high"), order=1)
    second = policy("second", {"namespaces": ["a"]}, fields(labels={"lane": "fast"}), order=2)
    assert warnings(first, second) == [
        (
            "a.yaml «- name: r0» first/r0 would write spec.priorityClassName only in a second pass, "
            "after what later rules set: passes must end alike"
        )
    ]


def test_a_rule_is_named_once_whatever_number_of_matches_shows_it() -> None:
    first = policy("first", labelled("fast"), priority("high"), order=1)
    matches = [{"namespaces": ["a"]}, {"namespaces": ["b"]}]
    second = policy("second", matches, fields(labels={"lane": "fast"}), order=2)
    assert len(warnings(first, second)) == 1


def test_a_vendor_without_devices_is_tried_on_pods_that_ask_for_none() -> None:
    """Such a vendor hands out parts only: no pod can ask for one of its devices."""
    parts = {"resources": [{"names": ["acme.example/memory"], "role": "memory", "sharing": "memorySlice"}]}
    catalogue = shipped_catalogue().merged(Catalogue.from_value({"vendors": {"acme": parts}}))
    text = policy("p", {"accelerators": {"vendors": ["acme"]}}, fields(labels={"lane": "fast"})).encode()
    loaded = load_policy_set([("a.yaml", text)], catalogue=catalogue)
    assert loaded.problems == ()
    assert lint([("a.yaml", text)], loaded.policy_set, NOW) == ()


def test_in_the_other_order_both_passes_end_alike() -> None:
    first = policy("first", labelled("fast"), priority("high"), order=3)
    second = policy("second", {"namespaces": ["a"]}, fields(labels={"lane": "fast"}), order=2)
    assert warnings(first, second) == []


def test_a_claim_keeps_the_class_of_the_first_pass() -> None:
    storage = {"setStorageClass": {"default": "a", "replace": ["b"]}}
    assert warnings(policy("p", {"namespaces": ["a-*"]}, storage)) == []


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_policies_speak_both_languages(file: Path) -> None:
    for value in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        if value["kind"] == "PodPolicy":
            texts = [value["spec"].get(key, {}) for key in ("title", "description")]
            texts += [
                rule[key]
                for rule in value["spec"]["rules"]
                for key in ("message", "remediation")
                if key in rule
            ]
            assert [sorted(text) for text in texts] == [["en", "zh"]] * len(texts)


def test_nothing_is_to_be_said_of_the_shipped_policies() -> None:
    files = [(str(file), file.read_bytes()) for file in SHIPPED]
    assert lint(files, load_policy_set(files).policy_set, NOW) == ()


def test_pools_that_are_required_by_two_rules() -> None:
    one = policy("p", ALL, {"setNodeAffinity": {"pools": ["a"]}})
    other = policy(
        "q",
        ALL,
        {"setNodeAffinity": {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["b"]}]}},
    )
    assert len(warnings(one, other, pool("nvidia.com/gpu"))) == 1
    assert warnings(one, other.replace("- b", "- a"), pool("nvidia.com/gpu")) == []
