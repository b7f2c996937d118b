"""Tell the API server of a podgate, and know when it has heard."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.e2e.client import ApiError, Json, path_to
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.cluster import Cluster
    from tests.e2e.podgate import Podgate

NAME = "gate.podgate.dev"
MUTATE, FAIL, IGNORE = "mutate.podgate.dev", "fail.validate.podgate.dev", "ignore.validate.podgate.dev"
EXCLUDED = ("kube-system", "kube-public", "kube-node-lease", "podgate-system")

PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
CLAIMS = PODS | {"operations": ["CREATE"], "resources": ["persistentvolumeclaims"]}
SUBRESOURCES = PODS | {"operations": ["UPDATE"], "resources": ["pods/ephemeralcontainers", "pods/resize"]}
APPS = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["deployments", "statefulsets", "daemonsets", "replicasets"],
}
JOBS = APPS | {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"]}


def configurations(url: str, ca_bundle: str) -> tuple[Json, Json]:
    """The mutating and the validating configuration, by URL."""
    mutating = [_entry(MUTATE, f"{url}/mutate", ca_bundle, "Ignore", 3, [PODS, CLAIMS])]
    mutating[0]["reinvocationPolicy"] = "IfNeeded"
    rules = [PODS, SUBRESOURCES, CLAIMS, APPS, JOBS]
    validating = [
        _entry(FAIL, f"{url}/validate/fail", ca_bundle, "Fail", 2, rules),
        _entry(IGNORE, f"{url}/validate/ignore", ca_bundle, "Ignore", 2, rules),
    ]
    return (
        _configuration("MutatingWebhookConfiguration", mutating),
        _configuration("ValidatingWebhookConfiguration", validating),
    )


def _configuration(kind: str, entries: list[Json]) -> Json:
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": NAME}, "webhooks": entries}


def _entry(name: str, url: str, ca_bundle: str, policy: str, seconds: int, rules: list[Json]) -> Json:
    outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(EXCLUDED)}
    return {
        "name": name,
        "clientConfig": {"url": url, "caBundle": ca_bundle},
        "rules": rules,
        "failurePolicy": policy,
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": [outside]},
        "sideEffects": "None",
        "timeoutSeconds": seconds,
        "admissionReviewVersions": ["v1"],
    }


@contextmanager
def registered(
    podgate: Podgate,
    cluster: Cluster,
    namespace: str,
    *,
    change: Callable[[Json], None] = lambda _: None,
    probe: bool = True,
) -> Iterator[None]:
    """The configurations are in force inside, and gone afterwards.

    Args:
        podgate: who is called.
        cluster: where.
        namespace: where the probe is tried.
        change: changes each configuration before it is created.
        probe: wait until every entry was called; not where podgate cannot answer.
    """
    made = configurations(podgate.url, podgate.ca_bundle)
    for configuration in made:
        change(configuration)
        cluster.admin.replace(configuration)
    try:
        if probe:
            wait_until_called(cluster, podgate, namespace, sum(len(each["webhooks"]) for each in made))
        yield
    finally:
        for configuration in made:
            cluster.admin.delete(path_to(configuration))
        wait_for(lambda: _is_forgotten(cluster, podgate, namespace), "no webhook entry is called any more")


def wait_until_called(cluster: Cluster, podgate: Podgate, namespace: str, entries: int = 3) -> None:
    """Try a GPU pod, without creating it, until as many different entries were called for it."""
    wait_for(
        lambda: len(_called_for_a_probe(cluster, podgate, namespace)) == entries,
        "every webhook entry is called",
    )


def _called_for_a_probe(cluster: Cluster, podgate: Podgate, namespace: str) -> set[Any]:
    before = len(podgate.reviews())
    _try_probe(cluster, namespace)
    return {each["webhook"] for each in podgate.reviews()[before:]}


def _is_forgotten(cluster: Cluster, podgate: Podgate, namespace: str) -> bool:
    """Whether nobody is called, also where nobody could answer."""
    before = len(podgate.reviews())
    return _try_probe(cluster, namespace) and len(podgate.reviews()) == before


def _try_probe(cluster: Cluster, namespace: str) -> bool:
    """Whether a GPU pod would be admitted; one of our entries may refuse it, or fail."""
    try:
        cluster.admin.create(pod("probe", namespace, gpus=1), dryRun="All")
    except ApiError as error:
        if "podgate.dev" not in error.message:
            raise
        return False
    return True
