"""deploy/kustomize with the component cert-manager, and the real cert-manager: its pairs are served, its CA is trusted."""

from __future__ import annotations

import os
import ssl
import subprocess
from base64 import b64decode
from contextlib import ExitStack
from typing import TYPE_CHECKING

import orjson
import pytest
import yaml

from tests.e2e.cert_manager import cert_manager, is_issued, renew
from tests.e2e.certmanager.build import CERT_MANAGER
from tests.e2e.client import HOST, ApiError, path_of
from tests.e2e.cluster import ALICE, ROOT
from tests.e2e.deployed import CONTROLLER, NAMESPACE, TLS, Nodes
from tests.e2e.go_program import NotThereError
from tests.e2e.load import Load
from tests.e2e.podgate import PROGRAM
from tests.e2e.registration import PATHS
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.client import Json
    from tests.e2e.cluster import Cluster

KUSTOMIZE = ROOT / "deploy/kustomize"
INJECT = "cert-manager.io/inject-ca-from"
POLICIES = "podgate.dev/policies"
AUTHORITY, SERVING = "podgate-ca", "podgate"
"""The Certificates."""


class Site:
    """podgate as it is deployed, enforcing, with the pairs that cert-manager makes."""

    def __init__(self, cluster: Cluster, namespace: str, nodes: Nodes) -> None:
        self.cluster, self.namespace, self.nodes = cluster, namespace, nodes

    def deploy(self, folder: Path) -> None:
        """Base and components, as deploy/README.md has a site do it."""
        kustomize = os.path.relpath(KUSTOMIZE, folder.resolve())
        site = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"{kustomize}/base"],
            "components": [f"{kustomize}/components/{name}" for name in ("cert-manager", "enforce")],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(site))
        ran = self.cluster.kubectl("apply", "--server-side", "-k", str(folder))
        assert ran.code == 0, ran.err

    def entries(self) -> list[Json]:
        """Ours, of all configurations; [] where one is not there."""
        if not all(map(self.cluster.admin.exists, PATHS)):
            return []
        return [entry for path in PATHS for entry in self.cluster.admin.get(path).get("webhooks", ())]

    def bundles(self) -> set[str]:
        """What our entries trust, "" where that is nobody."""
        return {entry["clientConfig"].get("caBundle", "") for entry in self.entries()}

    def blocks(self) -> bool:
        """Whether an outage would hold something up."""
        return any(entry["failurePolicy"] == "Fail" for entry in self.entries())

    def trusts(self, ca: str) -> bool:
        """Whether all our entries trust a CA, with others or alone."""
        return all(b64decode(ca) in b64decode(each) for each in self.bundles())

    def secret(self, name: str) -> dict[str, str]:
        """What a Secret holds, in base64."""
        return dict(self.cluster.admin.read("Secret", NAMESPACE, name)["data"])

    def served(self) -> bytes:
        """The certificate that podgate serves."""
        text = ssl.get_server_certificate((HOST, self.nodes.port))
        return ssl.PEM_cert_to_DER_cert(text)

    def serves_the_stored_pair(self) -> bool:
        """Whether the pair in the Secret has arrived."""
        first = b64decode(self.secret(TLS)["tls.crt"]).decode()
        return self.served() == ssl.PEM_cert_to_DER_cert(first)

    def examined(self) -> dict[str, str]:
        """What `podgate doctor` finds: the level of each check."""
        words = ["doctor", "-o", "json", "--kubeconfig", str(self.cluster.kubeconfig())]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(
            [*PROGRAM, *words], capture_output=True, check=False, env=environment, timeout=60
        )
        return {each["check"]: each["level"] for each in orjson.loads(ran.stdout)["checks"]}

    def load(self) -> Load:
        """Pods that a policy changes, and that are held up where podgate cannot be called."""
        return Load(
            self.cluster,
            ALICE,
            lambda number: pod(f"load-{number}", self.namespace, gpus=1, schedulerName="nobody"),
            lambda stored: (
                "" if POLICIES in stored["metadata"].get("annotations", {}) else "without its mutation"
            ),
        )


@pytest.fixture
def site(
    cluster: Cluster, namespace: str, scheduler: None, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Site]:
    """Everything is deployed, and `Fail` is in force; the parameter says which feature gates cert-manager has."""
    try:
        CERT_MANAGER.find()
    except NotThereError as error:
        pytest.skip(str(error))
    path = path_of("Namespace", name=NAMESPACE)
    wait_for(lambda: not cluster.admin.exists(path), "an earlier namespace is gone", 30)
    with ExitStack() as stack:
        stack.enter_context(cert_manager(cluster, tmp_path, getattr(request, "param", "")))
        nodes = stack.enter_context(Nodes(cluster, tmp_path / "nodes", {}).at_work())
        made = Site(cluster, namespace, nodes)
        folder = tmp_path / "site"
        folder.mkdir()
        stack.callback(cluster.kubectl, "delete", "--ignore-not-found", "-k", str(folder))
        made.deploy(folder)
        wait_for(made.blocks, "Fail is in force", 90)
        yield made


def test_cert_manager_makes_the_pair_and_writes_every_ca_bundle(site: Site) -> None:
    cluster = site.cluster
    assert is_issued(cluster, NAMESPACE, SERVING)
    wait_for(lambda: site.bundles() == {site.secret(TLS)["ca.crt"]}, "every entry has been written")
    assert {cluster.admin.get(path)["metadata"]["annotations"][INJECT] for path in PATHS} == {
        f"{NAMESPACE}/{SERVING}"
    }
    with pytest.raises(ApiError, match=r"16 nvidia.com/gpu asked, at most 8 per pod"):
        cluster.admin.create(pod("greedy", site.namespace, gpus=16), dryRun="All")
    managers = {
        each["manager"]
        for name in (TLS, "podgate-ca")
        for each in cluster.admin.read("Secret", NAMESPACE, name)["metadata"]["managedFields"]
    }
    assert not [each for each in managers if "podgate" in each], "no Secret is podgate's"
    assert '"level":"error"' not in site.nodes.log(CONTROLLER)


@pytest.mark.parametrize("site", ["", "CAInjectorMerging=false"], indirect=True, ids=["merging", "replacing"])
def test_pair_and_ca_are_renewed_under_load_and_no_call_fails(site: Site) -> None:
    """With the CA injector of today, which keeps the CAs that were trusted, and with that of earlier releases, which does not.

    The CA is everywhere at once while the nodes have yet to bring the pair.
    """
    before, ca = site.served(), site.secret(TLS)["ca.crt"]
    with site.load() as load:
        renew(site.cluster, NAMESPACE, SERVING)
        wait_for(site.serves_the_stored_pair, "the new pair is served", 60)
        assert site.served() != before
        assert site.bundles() == {ca}
        with site.nodes.away():
            old = site.served()
            renew(site.cluster, NAMESPACE, AUTHORITY)
            renew(site.cluster, NAMESPACE, SERVING)
            new_ca = site.secret(TLS)["ca.crt"]
            assert new_ca != ca
            wait_for(lambda: site.trusts(new_ca), "the new CA is trusted", 30)
            load.wait_until(load.seconds + 5)
            assert site.served() == old
        wait_for(site.serves_the_stored_pair, "the last pair is served", 60)
        load.wait_until(load.seconds + 3)
    load.check()
    assert site.blocks()
    found = site.examined()
    assert (found["certificate"], found["probe pod"]) == ("ok", "ok")
