"""The options `--kubeconfig` and `--context`, and what commands that talk to a cluster have in common."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from webhook.cli.folders import PathParameter, read_folders
from webhook.cli.mode import ceiling
from webhook.cli.site import read_site

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from webhook.cluster import Api
    from webhook.policy import PolicySet

NAMESPACE = "podgate-system"
FORBIDDEN = 403

kubeconfig_option = click.option(
    "--kubeconfig",
    type=PathParameter(),
    metavar="FILE",
    help="The cluster's; else $KUBECONFIG, the pod's own, ~/.kube/config.",
)
context_option = click.option("--context", metavar="NAME", help="Of the kubeconfig.")
namespace_option = click.option(
    "--namespace", default=NAMESPACE, show_default=True, metavar="NS", help="podgate's own namespace."
)
policies_option = click.option(
    "--policies",
    multiple=True,
    type=PathParameter(),
    metavar="DIR",
    help="Folders or files of the policies that are loaded in the cluster; repeatable.",
)


POLICIES = ("podgate-policies", "podgate-site")
"""The ConfigMaps that the shipped deployment has its policies in."""


class ClusterError(click.ClickException):
    """The cluster did not answer, or refused; the text says what to do."""

    exit_code = 3


class ConfigurationError(click.ClickException):
    """No cluster is configured, or not in a way that can be used."""

    exit_code = 2


class PoliciesError(click.ClickException):
    """Policies that cannot be loaded."""

    exit_code = 2


class Collection(NamedTuple):
    """Where the objects of a kind are."""

    kind: str
    path: str


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MUTATING = Collection("MutatingWebhookConfiguration", f"{ADMISSION}/mutatingwebhookconfigurations")
VALIDATING = Collection("ValidatingWebhookConfiguration", f"{ADMISSION}/validatingwebhookconfigurations")


@contextmanager
def said() -> Iterator[None]:
    """Errors of the API as errors of the command."""
    from webhook.cluster import ApiError  # noqa: PLC0415 - the client library is imported when it is needed

    try:
        yield
    except ApiError as error:
        raise ClusterError(error.message) from error


def connect(kubeconfig: Path | None, context: str | None) -> Api:
    """The cluster's API.

    Raises:
        ConfigurationError: no cluster is configured. No call is made.
    """
    from webhook.cluster import Api, ApiError  # noqa: PLC0415

    try:
        return Api.connect(kubeconfig, context)
    except ApiError as error:
        raise ConfigurationError(error.message) from error


def load_policies(
    policies: Sequence[Path],
    kinds: Sequence[Path] = (),
    accelerators: Sequence[Path] = (),
    mode: str | None = None,
) -> PolicySet:
    """The policies, all of which must be good: a configuration for half of them would let the others be missed.

    Args:
        policies: their folders and files.
        kinds: files of further kinds with pods.
        accelerators: files of further accelerators.
        mode: the most that a policy file may do, as at the webhook.

    Raises:
        PoliciesError: there is an error in them; all of them are said.
        FolderError: a file cannot be read.
    """
    from webhook.output.problems import render_problems  # noqa: PLC0415
    from webhook.policy import load_policy_set  # noqa: PLC0415

    site = read_site(kinds, accelerators)
    loaded = load_policy_set(
        read_folders(policies),
        mode_ceiling=ceiling(mode),
        catalogue=site.catalogue,
        templates=site.templates,
    )
    errors = [each for each in (*site.problems, *loaded.problems) if not each.is_warning]
    if errors:
        raise PoliciesError(f"the policies have errors\n{render_problems(errors)}".rstrip())
    return loaded.policy_set


def stored_policies(api: Api, namespace: str, mode: str | None = None) -> PolicySet | None:
    """The policies in the deployment's ConfigMaps, at most in a mode; None where they are elsewhere, or may not be read."""
    from webhook.cluster import ApiError  # noqa: PLC0415
    from webhook.policy import load_policy_set  # noqa: PLC0415

    files: list[tuple[str, bytes]] = []
    for name in POLICIES:
        try:
            stored = api.find(f"/api/v1/namespaces/{namespace}/configmaps/{name}") or {}
        except ApiError:
            return None
        files += [(key, str(text).encode()) for key, text in (stored.get("data") or {}).items()]
    return load_policy_set(files, mode_ceiling=ceiling(mode)).policy_set if files else None
