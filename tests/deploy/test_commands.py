"""The containers' arguments and rights against the real commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pytest

from tests.deploy.rendered import (
    BASE,
    CONTROLLER,
    FOLDERS,
    KUSTOMIZE,
    WEBHOOK,
    container,
    named,
    of_kind,
    rendered,
    rules_of,
)
from webhook.cli.controller import CERTIFICATE as DEFAULT_CERTIFICATE
from webhook.cli.main import podgate
from webhook.watch import WATCHED

if TYPE_CHECKING:
    from pathlib import Path

NEEDED = ["serve", "--policies=x", "--cert=x", "--key=x"]

each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
each_deployment = pytest.mark.parametrize("name", [WEBHOOK, CONTROLLER])


def accepts(arguments: list[str]) -> dict[str, Any]:
    """Parse a container's arguments with the real command; gives the value of each option.

    Raises:
        click.UsageError: No such command, option or value.
    """
    command = podgate.get_command(click.Context(podgate), arguments[0])
    if command is None:
        raise click.UsageError(f"there is no command {arguments[0]}")
    return command.make_context(arguments[0], arguments[1:]).params


@each_folder
@each_deployment
def test_arguments_are_known_to_the_command(folder: Path, name: str) -> None:
    accepts(container(named(rendered(folder), "Deployment", name))["args"])


@each_deployment
def test_the_port_is_the_one_that_the_command_listens_on(name: str) -> None:
    own = container(named(rendered(BASE), "Deployment", name))
    (port,) = own["ports"]
    assert accepts(own["args"])["bind"].endswith(f":{port['containerPort']}")


def test_enforcing_means_both_that_policies_act_and_that_an_outage_may_block() -> None:
    for folder, enforces in ((BASE, False), (KUSTOMIZE / "overlays/enforce", True)):
        values = {
            name: accepts(container(named(rendered(folder), "Deployment", name))["args"])
            for name in (WEBHOOK, CONTROLLER)
        }
        assert (values[WEBHOOK]["mode"] is None) is enforces
        assert values[CONTROLLER]["enforce"] is enforces


def test_cert_manager_gives_the_certificate_that_the_controller_names() -> None:
    objects = rendered(KUSTOMIZE / "overlays/cert-manager")
    values = accepts(container(named(objects, "Deployment", CONTROLLER))["args"])
    assert values["certificates"] == "cert-manager"
    name = (values["certificate"] or f"{values['namespace']}/{DEFAULT_CERTIFICATE}").partition("/")[2]
    assert named(objects, "Certificate", name)["metadata"]["namespace"] == values["namespace"]


def test_kubesphere_heals_without_podgate() -> None:
    deployment = named(rendered(KUSTOMIZE / "overlays/kubesphere"), "Deployment", CONTROLLER)
    assert "kubesphere-system" in accepts(container(deployment)["args"])["excluded"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param([*NEEDED, "--polices=x"], "No such option", id="option"),
        pytest.param([*NEEDED, "--mode=enforce"], "is not one of", id="value"),
        pytest.param(NEEDED[:-1], "Missing parameter: key", id="something left out"),
        pytest.param(["server"], "there is no command", id="command"),
    ],
)
def test_arguments_that_are_wrong_would_be_noticed(arguments: list[str], complaint: str) -> None:
    with pytest.raises(click.UsageError, match=complaint):
        accepts(arguments)


@each_folder
def test_arguments_name_files_that_are_mounted(folder: Path) -> None:
    for deployment in of_kind(rendered(folder), "Deployment"):
        places = {mount["mountPath"] for mount in container(deployment)["volumeMounts"]}
        files = [
            value
            for argument in container(deployment)["args"]
            if (value := argument.partition("=")[2]).startswith("/")
        ]
        assert files
        assert [
            file for file in files if not any(f"{file}/".startswith(f"{place}/") for place in places)
        ] == []


def test_both_processes_read_the_same_policies() -> None:
    read = [
        [each for each in container(deployment)["args"] if each.startswith("--policies")]
        for deployment in of_kind(rendered(BASE), "Deployment")
    ]
    assert read[0] == read[1] != []


@pytest.mark.parametrize("kind", WATCHED)
def test_the_webhook_may_watch_what_it_watches(kind: str) -> None:
    group, resource = _kind_of(WATCHED[kind].path)
    allowed = [
        rule["verbs"]
        for rule in rules_of(rendered(BASE), WEBHOOK)
        if group in rule["apiGroups"] and resource in rule["resources"]
    ]
    assert allowed == [["list", "watch"]]


def _kind_of(path: str) -> tuple[str, str]:
    """The group and the resource of a path of the API for the whole cluster."""
    parts = path.strip("/").split("/")
    return ("" if parts[0] == "api" else parts[1]), parts[-1]


def test_and_no_more_than_that_and_the_pause() -> None:
    watched = {_kind_of(resource.path) for resource in WATCHED.values()}
    allowed = {
        (group, resource)
        for rule in rules_of(rendered(BASE), WEBHOOK)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert allowed == watched | {("", "configmaps")}
