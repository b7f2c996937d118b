"""The shipped policies behind the real server: a controller's object, and exceptions around their end."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from tests.server.running import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.server.running import Running

MUTATE, FAIL, IGNORE = "/mutate?timeout=3s", "/validate/fail?timeout=2s", "/validate/ignore?timeout=2s"


def pod_spec(gpus: int) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": str(gpus)}
    return {
        "containers": [{"name": "vllm", "image": "x", "resources": {"limits": amounts, "requests": amounts}}]
    }


def pod(gpus: int, namespace: str) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(gpus)}


def deployment(gpus: int) -> dict[str, Any]:
    labels = {"app": "llama"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(gpus)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llama", "namespace": "serving"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def review(thing: dict[str, Any], operation: str = "CREATE", old: dict[str, Any] | None = None) -> bytes:
    group, _, version = thing["apiVersion"].rpartition("/")
    request = {
        "uid": "u-1",
        "kind": {"group": group, "version": version, "kind": thing["kind"]},
        "resource": {"group": group, "version": version, "resource": f"{thing['kind'].lower()}s"},
        "operation": operation,
        "namespace": thing["metadata"]["namespace"],
        "name": thing["metadata"]["name"],
        "userInfo": {"username": "lin", "groups": ["system:authenticated"]},
        "object": thing,
        "oldObject": old,
        "dryRun": False,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def response(gateway: Running, path: str, body: bytes) -> dict[str, Any]:
    status, answer = gateway.post(body, path)
    assert (status, answer["response"]["uid"]) == (200, "u-1")
    found: dict[str, Any] = answer["response"]
    return found


def test_a_deployment_is_refused_at_apply_time_and_never_changed(serve: Callable[..., Running]) -> None:
    gateway = serve()
    bad, good = deployment(16), deployment(2)

    unchanged = response(gateway, MUTATE, review(bad))
    assert unchanged["allowed"] is True
    assert "patch" not in unchanged
    refused = response(gateway, FAIL, review(bad))
    assert refused["allowed"] is False
    assert refused["status"]["code"] == 403
    [cause] = refused["status"]["details"]["causes"]
    assert cause["field"] == 'spec.template.spec.containers["vllm"].resources.limits["nvidia.com/gpu"]'
    assert refused["status"]["message"].startswith("16 nvidia.com/gpu asked, at most 8 per pod.\n")

    for path in (MUTATE, FAIL, IGNORE):
        answer = response(gateway, path, review(good))
        assert answer["allowed"] is True
        assert "patch" not in answer
        assert "warnings" not in answer
    labels = 'decision="deny",dry_run="false",kind="Deployment",operation="CREATE",webhook="validate/fail"'
    assert gateway.metric(f"podgate_admission_requests_total{{{labels}}}") == 1


def test_a_stored_deployment_that_is_too_large_can_be_scaled_but_not_made_anew(
    serve: Callable[..., Running],
) -> None:
    gateway = serve()
    stored = deployment(16)
    scaled = {**stored, "spec": {**stored["spec"], "replicas": 0}}
    assert response(gateway, FAIL, review(scaled, "UPDATE", stored))["allowed"] is True
    assert response(gateway, FAIL, review(stored, "UPDATE", deployment(8)))["allowed"] is False


def exception(namespace: str, end: datetime) -> str:
    return f"""\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicyException
metadata:
  name: {namespace}
spec:
  policies: [gpu-limits/cap]
  match:
    namespaces: [{namespace}]
  reason: Old nodes with 16 GPUs
  owner: vision@example.org
  expiresAt: "{end:%Y-%m-%d}"
"""


def test_an_exception_holds_to_its_last_day(folder: Path, serve: Callable[..., Running]) -> None:
    today = datetime.now(UTC)
    tomorrow = today + timedelta(days=1)
    site = folder / "site"
    site.mkdir()
    (site / "yesterday.yaml").write_text(exception("yesterday", today - timedelta(days=1)))
    (site / "tomorrow.yaml").write_text(exception("tomorrow", tomorrow))
    (site / "later.yaml").write_text(exception("later", today + timedelta(days=60)))
    gateway = serve("--policies", str(site))

    ended = response(gateway, FAIL, review(pod(16, "yesterday")))
    assert ended["allowed"] is False
    assert "exception" not in ended["status"]["message"]

    ending = response(gateway, FAIL, review(pod(16, "tomorrow")))
    assert ending["allowed"] is True
    until = f"{tomorrow + timedelta(days=1):%Y-%m-%d} 00:00 UTC"
    assert ending["warnings"] == [
        f"[gpu-limits/cap] exception tomorrow lifts this rule only until {until}: Old nodes with 16 GPUs",
        "[gpu-limits/cap] do: mend the workload by then, or ask vision@example.org",
    ]

    lasting = response(gateway, FAIL, review(pod(16, "later")))
    assert lasting["allowed"] is True
    assert "warnings" not in lasting

    assert response(gateway, FAIL, review(pod(16, "training")))["allowed"] is False
    for state in ("active", "ending", "ended"):
        assert gateway.metric(f'podgate_exceptions{{state="{state}"}}') == 1


def test_exceptions_that_end_are_in_the_log_once_for_all_workers(
    folder: Path, serve: Callable[..., Running]
) -> None:
    today = datetime.now(UTC)
    site = folder / "site"
    site.mkdir()
    (site / "a.yaml").write_text(exception("over", today - timedelta(days=3)))
    (site / "b.yaml").write_text(exception("later", today + timedelta(days=60)))
    gateway = serve("--policies", str(site))
    eventually(lambda: "an exception has ended" in gateway.log())
    said = [json.loads(line) for line in gateway.log().splitlines() if '"exception":' in line]
    assert [(line["event"], line["exception"], line["owner"]) for line in said] == [
        ("an exception has ended", "over", "vision@example.org")
    ]
