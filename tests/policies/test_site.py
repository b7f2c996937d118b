"""What the example site makes of the shipped policies."""

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.console import Step
from tests.policies.case_files import (
    ROOT,
    SHIPPED,
    SITE,
    decision,
    objects_in,
    policy_files,
    policy_set_of,
    sentences,
)
from webhook.engine import Gate, Outcome, review
from webhook.facts import Facts
from webhook.kube.templates import shipped_templates
from webhook.review_tools.manifests import Caller, request_for

WORKLOADS = ROOT / "examples" / "workloads"
README = SITE / "README.md"
LAST_DAY, DAY_AFTER = "2027-06-30", "2027-07-01"
"""Of the exception, as the page has them."""

IN_FORCE = datetime(2027, 3, 1, tzinfo=UTC)
ENDS_SOON = datetime(2027, 6, 20, tzinfo=UTC)
ENDED = datetime(2027, 7, 1, tzinfo=UTC)

FACTS = Facts.from_objects([*objects_in(SHIPPED / "prerequisites"), *objects_in(SITE / "prerequisites")])
SETS = {
    "shipped": policy_set_of(policy_files(SHIPPED)),
    "site": policy_set_of(policy_files(SHIPPED, SITE)),
}
MANIFESTS = {
    thing["metadata"]["name"]: thing
    for path in sorted(WORKLOADS.glob("*.yaml"))
    for thing in yaml.safe_load_all(path.read_text(encoding="utf-8"))
}


def outcome(name: str, policies: str, now: datetime = IN_FORCE) -> Outcome:
    return judged(MANIFESTS[name], policies, now)


def judged(thing: dict[str, Any], policies: str, now: datetime = IN_FORCE) -> Outcome:
    request = request_for(thing, Caller(), shipped_templates())
    assert request is not None
    return review(Gate(SETS[policies], FACTS, now=now), request)


def written(found: Outcome) -> dict[str, Any]:
    """What is written into the object or its pods, by the last parts of the field's name."""
    return {
        re.sub(r".*(?=containers|tolerations|matchExpressions|priorityC)", "", change.field): change.after
        for change in (*found.changes, *found.later)
    }


def required(found: Outcome) -> dict[str, list[str]]:
    """What the affinity that is written requires, by label."""
    values = (change.after for change in (*found.changes, *found.later) if "matchExpressions" in change.path)
    return {each["key"]: each["values"] for each in values}


PRESENT, PRODUCT = "nvidia.com/gpu.present", "nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("name", "shipped", "site"),
    [
        pytest.param(
            "pretrain",
            {PRESENT: ["true"]},
            {PRESENT: ["true"], PRODUCT: ["NVIDIA-H100-80GB-HBM3"]},
            id="the language team",
        ),
        pytest.param(
            "detector-worker-1",
            {PRESENT: ["true"]},
            {PRESENT: ["true"], PRODUCT: ["NVIDIA-A100-SXM4-80GB"]},
            id="the vision team",
        ),
        pytest.param(
            "speech-worker-0",
            {"accelerator": ["huawei-Ascend910"]},
            {"accelerator": ["huawei-Ascend910"], "accelerator-type": ["module-910b-8"]},
            id="Ascend",
        ),
        pytest.param("private-copy", {}, {}, id="no accelerator"),
    ],
)
def test_teams_go_to_their_pools(name: str, shipped: Any, site: Any) -> None:
    assert required(outcome(name, "shipped")) == shipped
    assert required(outcome(name, "site")) == site


@pytest.mark.parametrize(
    ("name", "shipped", "site"),
    [
        pytest.param(
            "pretrain", {"rdma/rdma_shared_device_a": "1"}, {"rdma/ib": "8"}, id="an adapter for each GPU"
        ),
        pytest.param(
            "detector-worker-1",
            {"rdma/rdma_shared_device_a": "1"},
            {"rdma/roce_gdr": "1"},
            id="a slot for four GPUs",
        ),
        pytest.param("detector-all-at-once", {}, {}, id="one node"),
        pytest.param("speech-worker-0", {}, {}, id="Ascend"),
    ],
)
def test_each_pool_has_its_fabric(name: str, shipped: Any, site: Any) -> None:
    for policies, expected in (("shipped", shipped), ("site", site)):
        found = outcome(name, policies)
        asked = {
            str(change.path[-1]): change.after
            for change in (*found.changes, *found.later)
            if str(change.path[-1]).startswith("rdma/") and "limits" in change.path
        }
        assert asked == expected, policies


def pod(namespace: str, gpus: str, **requests: str) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": gpus}, "requests": requests}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {
            "containers": [{"name": "main", "image": "registry.example.org/x:1", "resources": resources}]
        },
    }


@pytest.mark.parametrize(
    ("namespace", "gpus", "shipped", "site"),
    [
        pytest.param("detection", "4", True, True, id="vision, half a node"),
        pytest.param("detection", "8", True, False, id="vision, a whole node"),
        pytest.param("llm-train", "8", True, True, id="language, a whole node"),
        pytest.param("llm-train", "6", True, False, id="language, six"),
        pytest.param("llm-train", "16", False, False, id="language, two nodes"),
        pytest.param("speech", "6", True, True, id="another team, as shipped"),
    ],
)
def test_teams_have_their_limits(namespace: str, gpus: str, shipped: bool, site: bool) -> None:
    assert judged(pod(namespace, gpus), "shipped").allowed is shipped
    assert judged(pod(namespace, gpus), "site").allowed is site


@pytest.mark.parametrize(
    ("namespace", "cpu", "warned"),
    [
        pytest.param("llm-train", "24", False, id="an H100's share"),
        pytest.param("llm-train", "25", True, id="more than an H100's share"),
        pytest.param("detection", "16", False, id="elsewhere, the shipped share"),
        pytest.param("detection", "17", True, id="elsewhere, more than it"),
    ],
)
def test_an_h100_has_a_share_of_its_own(namespace: str, cpu: str, warned: bool) -> None:
    found = judged(pod(namespace, "1", cpu=cpu, memory="64Gi"), "site")
    assert (decision(found) == "warned") is warned


def test_defaults_are_written_on_h100_only() -> None:
    assert {
        k: v for k, v in written(outcome("pretrain", "site")).items() if "requests.cpu" in k or "memory" in k
    } == {
        'containers["pytorch"].resources.requests.cpu': "160",
        'containers["pytorch"].resources.requests.memory': "1600Gi",
    }
    assert not any("gpu-defaults" in change.rule for change in outcome("pretrain", "shipped").later)
    assert not any("gpu-defaults" in change.rule for change in judged(pod("detection", "1"), "site").changes)


def test_a_pod_that_could_land_in_two_pools_is_told_to_choose() -> None:
    thing = pod("speech", "8")
    thing["spec"]["containers"][0]["env"] = [{"name": "PET_NNODES", "value": "2"}]
    found = judged(thing, "site")
    assert decision(found) == "warned"
    assert any("could land in the pools a100-roce, h100-ib, nvidia" in text for text in sentences(found))
    assert any(
        "for example nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB" in text for text in sentences(found)
    )
    thing["spec"]["nodeSelector"] = {PRODUCT: "NVIDIA-A100-SXM4-80GB"}
    assert decision(judged(thing, "site")) == "changed"


@pytest.mark.parametrize(
    ("name", "now", "expected", "said"),
    [
        pytest.param("private-copy", IN_FORCE, "refused", "sets NVIDIA_VISIBLE_DEVICES", id="another app"),
        pytest.param("render-node-1", ENDED, "refused", "sets NVIDIA_VISIBLE_DEVICES", id="after its end"),
        pytest.param(
            "render-node-1", ENDS_SOON, "admitted", "only until 2027-07-01", id="soon before its end"
        ),
        pytest.param("render-node-1", IN_FORCE, "admitted", "until 2027-07-01", id="in force"),
    ],
)
def test_the_exception_lasts_until_its_end(name: str, now: datetime, expected: str, said: str) -> None:
    assert decision(outcome(name, "shipped", now)) == "refused"
    found = outcome(name, "site", now)
    assert decision(found) == expected
    assert any(said in text for text in sentences(found))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the page works on, with an exception that has not ended."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("policies", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    exceptions = folder / "examples" / "site" / "exceptions.yaml"
    exceptions.write_text(
        exceptions.read_text(encoding="utf-8").replace(LAST_DAY, coming(180)), encoding="utf-8"
    )
    return folder


def coming(days: int) -> str:
    return f"{datetime.now(UTC) + timedelta(days=days):%Y-%m-%d}"


def commands() -> list[tuple[str, str]]:
    return re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", README.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("command", "expected"), commands())
def test_what_the_page_says_is_what_happens(place: Path, command: str, expected: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        check=False,
        cwd=place,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.returncode == (1 if ": refused" in expected else 0)
    printed = done.stdout.replace(coming(181), DAY_AFTER)
    assert Step(command, 0, expected, printed).holds, printed


def test_the_page_runs_every_command_that_it_names() -> None:
    assert len(commands()) == README.read_text(encoding="utf-8").count("$ podgate") == 4


def test_the_page_names_every_file() -> None:
    text = README.read_text(encoding="utf-8")
    for path in SITE.glob("*.yaml"):
        assert f"({path.name})" in text
