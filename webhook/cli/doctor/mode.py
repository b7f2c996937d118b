"""The most that policies may do, by the arguments of the Deployments: at the webhook, and for who registers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.cli.doctor.findings import Finding, Level
from webhook.cli.doctor.place import CONTROLLER, WEBHOOK, Modes, Place, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.cluster import Api

CHECK = "mode"


def read_modes(api: Api, namespace: str) -> Modes:
    """What the Deployments say.

    Raises:
        ApiError: nobody answers; an answer that is a refusal is no error.
    """
    return Modes(*(_mode(api, namespace, name) for name in (WEBHOOK, CONTROLLER)))


def check_mode(place: Place) -> Iterator[Finding]:
    """Whether policies do what their files say, and are registered for what they do."""
    mode = place.modes.served
    if mode is None:
        text = (
            f"Deployment {WEBHOOK} in namespace {place.namespace} is not there, cannot be read, or its --mode is "
            "a variable: the mode of the server is not known"
        )
        yield Finding(CHECK, Level.UNKNOWN, text, "another namespace: --namespace NS")
        return
    if place.modes.differ:
        text = (
            f"the server runs with {_shown(mode)}, and the controller with {_shown(place.modes.controller)}"
        )
        yield Finding(CHECK, Level.WARN, text, "give both the same, as the overlays of deploy/kustomize do")
    if mode:
        text = f"the server runs with {_shown(mode)}: whatever policy files say, they do no more"
        todo = "when what is audited looks right: deploy/kustomize/overlays/enforce"
        yield Finding(CHECK, Level.WARN, text, todo)
    elif not place.modes.differ:
        yield Finding(CHECK, Level.OK, "policies do what their files say")


def _shown(mode: str | None) -> str:
    return f"--mode {mode}" if mode else "no --mode"


def _mode(api: Api, namespace: str, name: str) -> str | None:
    from webhook.cluster import ApiError  # noqa: PLC0415

    try:
        deployment = api.find(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    except ApiError as error:
        if not error.status:
            raise
        return None
    if deployment is None:
        return None
    template = mapping(mapping(deployment.get("spec")).get("template"))
    containers = mapping(template.get("spec")).get("containers") or ()
    words = [
        str(word) for each in containers for word in (*(each.get("command") or ()), *(each.get("args") or ()))
    ]
    return _option(words, "--mode")


def _option(words: list[str], name: str) -> str:
    for index, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name:
            return words[index + 1] if index + 1 < len(words) else ""
    return ""
