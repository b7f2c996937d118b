"""docs/operations.md: no command that nobody runs, and alerts on metrics that exist."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.operations_page import NOT_RUN, PAGE, commands
from tests.test_docs import text_of

TEXT = PAGE.read_text(encoding="utf-8")
PROGRAMS = ("kubectl", "podgate")

#: Of the API server itself; tests/e2e/test_operations.py asks it for them.
OF_THE_API_SERVER = {
    "apiserver_admission_webhook_rejection_count",
    "apiserver_admission_webhook_fail_open_count",
    "apiserver_admission_match_condition_evaluation_errors_total",
}


def test_every_command_is_one_that_is_run_or_is_left_out_for_a_reason() -> None:
    texts = [each.text for each in commands(TEXT)]
    assert len(texts) > 30
    assert set(texts) >= NOT_RUN.keys(), "what is left out stands on the page"
    assert all(NOT_RUN.values())
    run = [text for text in texts if text not in NOT_RUN]
    unknown = [text for text in run if not {each for each in PROGRAMS if each in text.split()}]
    assert unknown == [], "tests/e2e/test_operations.py has only these programs"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("```console\n$ kubectl get \\\n    pods\n```\n", id="two lines"),
        pytest.param("```\n$ podgate doctor\n```\n", id="among output"),
        pytest.param("```bash\npodgate doctor\n```\n", id="another kind"),
    ],
)
def test_a_command_that_could_be_missed_is_noticed(block: str) -> None:
    with pytest.raises(ValueError, match="holds commands alone"):
        list(commands(f"## Heading\n\n{block}"))


def test_a_command_is_found_with_its_heading() -> None:
    text = "## One\n\n```console\n$ a b\n$ c\n```\n\n## Two\n\n```sh\nd | e\n```\n\n```\noutput\n```\n"
    assert list(commands(text)) == [("One", "a b"), ("One", "c"), ("Two", "d | e")]


RULES: list[dict[str, Any]] = yaml.safe_load(text_of("deploy/prometheus/prometheusrule-podgate.yaml"))[
    "spec"
]["groups"][0]["rules"]
LINK = re.compile(r"\[(.*?)\]\(.*?\)")


def rows(page: str) -> list[list[str]]:
    """The table of alerts: name, when, meaning, what to do."""
    table = re.findall(r"^\| `Podgate\w+` \|.*\|$", text_of(page), re.MULTILINE)
    return [[cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in table]


def test_the_rules_are_those_of_the_table() -> None:
    wanted = [
        [
            f"`{rule['alert']}`",
            f"`{rule['expr']}`" + (f" for {rule['for']}" if "for" in rule else ""),
            rule["annotations"]["summary"],
            rule["annotations"]["description"],
        ]
        for rule in RULES
    ]
    assert [[LINK.sub(r"\1", cell) for cell in row] for row in rows("docs/operations.md")] == wanted
    assert len(wanted) > 20


def test_both_languages_have_the_same_alerts() -> None:
    found = [[re.findall("`(.*?)`", cell)[0] for cell in row[:2]] for row in rows("docs/zh/operations.md")]
    assert found == [[f"{rule['alert']}", rule["expr"]] for rule in RULES]


METRIC = re.compile(r"\b(?:podgate|apiserver)_\w+")
SERIES = re.compile("_bucket$")


def documented() -> dict[str, set[str]]:
    """Every metric of the page's table, with its labels."""
    lines = re.findall(r"^\| `(podgate_\w+)` \|(.*)\|$", TEXT, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in lines}


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_asks_for_metrics_and_labels_that_exist(rule: dict[str, Any]) -> None:
    metrics = documented()  # which tests/test_docs.py holds against what is defined
    names = {SERIES.sub("", name) for name in METRIC.findall(rule["expr"])}
    assert names
    assert names - metrics.keys() - OF_THE_API_SERVER == set()
    for name, matchers in re.findall(r"\b(podgate_\w+)\{(.*?)\}", rule["expr"]):
        asked = set(re.findall(r"(\w+)[=!]", matchers))
        assert asked <= metrics[SERIES.sub("", name)], name


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_is_whole(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["expr"].count("(") == rule["expr"].count(")")
    assert rule["expr"].count("{") == rule["expr"].count("}")
    assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))


def test_every_alert_of_a_group_has_a_name_of_its_own() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
