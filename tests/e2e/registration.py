"""Tell the API server of a podgate, and know when it has heard."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.e2e.client import ApiError, Json, path_of, path_to
from tests.e2e.waiting import wait_for
from webhook.cli.folders import read_folders
from webhook.policy import load_policy_set
from webhook.registration import Endpoint, webhook_configurations
from webhook.rules.base import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.cluster import Cluster
    from tests.e2e.podgate import Podgate

NAME, LATE_NAME = "gate.podgate.dev", "zzz.gate.podgate.dev"
MUTATE, LATE = "mutate.podgate.dev", "late.mutate.podgate.dev"
FAIL, IGNORE = "fail.validate.podgate.dev", "ignore.validate.podgate.dev"
"""Of the configurations, and of their entries: users see them in messages, so that they are written out here."""

CONFIGURATIONS = (
    ("MutatingWebhookConfiguration", NAME),
    ("MutatingWebhookConfiguration", LATE_NAME),
    ("ValidatingWebhookConfiguration", NAME),
)
"""Kind and name."""
PATHS = [path_of(kind, name=name) for kind, name in CONFIGURATIONS]

MARKER = "in-force.e2e.podgate.dev"
NOBODY = "https://127.0.0.1:1/"
"""A port at which nobody listens: a call of it fails at once."""


def configurations(podgate: Podgate) -> list[Json]:
    """The configurations that the policies of a podgate need, by URL."""
    loaded = load_policy_set(read_folders(podgate.policies), mode_ceiling=Mode.ENFORCE)
    endpoint = Endpoint(url=podgate.url, ca_bundle=(podgate.folder / "ca.crt").read_bytes())
    found = webhook_configurations(loaded.policy_set, endpoint, enforce_failure_policy=True)
    return [each for each in found if each["webhooks"]]


@contextmanager
def registered(
    podgate: Podgate, cluster: Cluster, *, change: Callable[[Json], None] = lambda _: None
) -> Iterator[None]:
    """The configurations are in force inside, and gone afterwards, whether podgate answers or not.

    Args:
        podgate: who is called.
        cluster: where.
        change: changes each configuration before it is created.
    """
    made = configurations(podgate)
    for configuration in made:
        change(configuration)
        put_in_force(cluster, configuration)
    try:
        yield
    finally:
        for configuration in made:
            take_out_of_force(cluster, configuration)


def patient(configuration: Json) -> None:
    """For `change`: a call may take 10 s, so that no mutation is missed on a machine that has other things to do."""
    for entry in configuration["webhooks"]:
        entry["timeoutSeconds"] = 10


def put_in_force(cluster: Cluster, configuration: Json) -> None:
    """Create or replace a configuration, and wait until the API server goes by it.

    It gets an entry more, as a marker: for one ConfigMap, which it refuses. Where the marker works, so do the others.
    """
    take_out_of_force(cluster, configuration)
    cluster.admin.create(configuration | {"webhooks": [*configuration["webhooks"], _marker(configuration)]})
    wait_for(lambda: _is_in_force(cluster, configuration), f"the {configuration['kind']} is in force")


def take_out_of_force(cluster: Cluster, configuration: Json) -> None:
    """Delete a configuration, and wait until nobody is called any more."""
    cluster.admin.delete(path_to(configuration))
    wait_for(lambda: not _is_in_force(cluster, configuration), f"the {configuration['kind']} is forgotten")


def _marker(configuration: Json) -> Json:
    return {
        "name": MARKER,
        "clientConfig": {"url": NOBODY},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ],
        "objectSelector": {"matchLabels": {MARKER: _marked(configuration)}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "admissionReviewVersions": ["v1"],
    }


def _marked(configuration: Json) -> str:
    """The value of the marker's label: another configuration of the kind may be in force beside it."""
    return f"{configuration['kind']}.{configuration['metadata']['name']}"


def _is_in_force(cluster: Cluster, configuration: Json) -> bool:
    metadata = {"name": "probe", "namespace": "default", "labels": {MARKER: _marked(configuration)}}
    try:
        cluster.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, dryRun="All")
    except ApiError as error:
        if MARKER not in error.message:
            raise
        return True
    return False
