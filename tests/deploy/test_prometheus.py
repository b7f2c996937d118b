"""What deploy/prometheus scrapes is what is deployed; tests/e2e/test_operations.py asks as it says."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import certs
from tests.deploy.dockerfile import ROOT
from tests.deploy.rendered import BASE, CONTROLLER, WEBHOOK, container, named, pod_spec, rendered

FOLDER = ROOT / "deploy/prometheus"


def monitor(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"podmonitor-{name}.yaml").read_text())
    return found


@pytest.mark.parametrize("name", [WEBHOOK, CONTROLLER])
def test_a_monitor_finds_the_pods_and_their_port(name: str) -> None:
    deployment = named(rendered(BASE), "Deployment", name)
    found = monitor(name)
    assert found["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    assert found["spec"]["selector"] == deployment["spec"]["selector"]
    (endpoint,) = found["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in {each["name"] for each in container(deployment)["ports"]}


def test_the_webhook_is_trusted_by_the_ca_beside_its_pair() -> None:
    (endpoint,) = monitor(WEBHOOK)["spec"]["podMetricsEndpoints"]
    deployment = named(rendered(BASE), "Deployment", WEBHOOK)
    secrets = {each["secret"]["secretName"] for each in pod_spec(deployment)["volumes"] if "secret" in each}
    assert endpoint["tlsConfig"]["ca"]["secret"]["name"] in secrets
    assert endpoint["tlsConfig"]["serverName"] in certs.service_names(WEBHOOK, "podgate-system")
