"""One look at the cluster: first start, pauses, other people's certificates, faults."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import certs
from certs.rotate import Authority, is_issued_by, split_bundle
from tests.controller.cluster_in_memory import Cluster, FakeApi
from tests.controller.parts import (
    CA_SECRET,
    LATE,
    MUTATING,
    NAMES,
    NAMESPACE,
    PAUSE,
    START,
    TLS_SECRET,
    VALIDATING,
    configurations,
    own_certificates,
    reconciler,
)
from webhook.cluster import ApiError
from webhook.controller.certificates import (
    CertificatesError,
    CertManagerCertificates,
    FileCertificates,
)
from webhook.controller.metrics import Metrics
from webhook.controller.objects import authority_secret, read_authority, read_serving
from webhook.controller.reconcile import Reconciler, Result

if TYPE_CHECKING:
    from webhook.cluster import Api
    from webhook.controller.certificates import Certificates


ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def with_certificates(cluster: Cluster, certificates: Certificates) -> Reconciler:
    api = FakeApi(cluster)
    return Reconciler(cast("Api", api), NAMESPACE, certificates, configurations(api), Metrics())


def pause(cluster: Cluster, until: datetime, **more: str) -> None:
    data = {"until": f"{until:%Y-%m-%dT%H:%M:%SZ}", **more}
    metadata = {"name": "podgate-pause", "namespace": NAMESPACE}
    cluster.put(PAUSE, {"kind": "ConfigMap", "metadata": metadata, "data": data})


def test_an_empty_cluster_gets_everything_in_one_look(cluster: Cluster) -> None:
    ours = reconciler(FakeApi(cluster))
    assert ours.reconcile() is Result.CHANGED
    assert set(cluster.writes) == {CA_SECRET, TLS_SECRET, MUTATING, LATE, VALIDATING}
    authority = read_authority(cluster[CA_SECRET])
    serving, published = read_serving(cluster[TLS_SECRET])
    assert authority is not None
    assert serving is not None
    assert published == authority.trusted == (authority.signer.certificate,)
    assert cluster[TLS_SECRET]["type"] == "kubernetes.io/tls"
    assert "ca.key" not in cluster[TLS_SECRET]["data"], "the CA's key is for the controller alone"
    held = cluster[VALIDATING]["webhooks"][0]["clientConfig"]["caBundle"]
    assert base64.b64decode(held) == authority.signer.certificate


def test_it_comes_to_rest(cluster: Cluster) -> None:
    ours = reconciler(FakeApi(cluster))
    while ours.reconcile() is Result.CHANGED:
        pass
    writes = len(cluster.writes)
    assert ours.reconcile() is Result.UNCHANGED
    assert len(cluster.writes) == writes


@pytest.mark.parametrize("path", [CA_SECRET, TLS_SECRET, MUTATING, LATE, VALIDATING])
def test_what_somebody_deletes_comes_back_and_trusts_what_is_served(cluster: Cluster, path: str) -> None:
    now = START
    ours = reconciler(FakeApi(cluster), clock=lambda: now)
    while ours.reconcile() is Result.CHANGED:
        pass
    serving, _ = read_serving(cluster[TLS_SECRET])
    assert serving is not None
    cluster.remove(path)
    for _ in range(10):
        ours.reconcile()
        now += timedelta(seconds=10)
    held = base64.b64decode(cluster[VALIDATING]["webhooks"][0]["clientConfig"]["caBundle"])
    assert any(is_issued_by(serving.certificate, ca) for ca in split_bundle(held))
    assert cluster.find(path) is not None


@pytest.mark.parametrize("call", range(1, 16))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_first_start_that_fails_at_any_call_is_repeated(cluster: Cluster, call: int, when: str) -> None:
    """Also where the API server did what was asked, and its answer was lost."""
    calls = 0

    def fail(_method: str, _path: str) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise ApiError("no answer", status=0)

    quiet = {"before": lambda _method, _path: None, "after": lambda _method, _path: None}
    broken = reconciler(FakeApi(cluster, **{**quiet, when: fail}))
    try:
        broken.reconcile()
    except ApiError:
        broken.reconcile()
    authority = read_authority(cluster[CA_SECRET])
    serving, _ = read_serving(cluster[TLS_SECRET])
    assert authority is not None
    assert serving is not None
    assert certs.problems_of(serving, at=START, ca=authority.signer.certificate) == ()
    held = base64.b64decode(cluster[MUTATING]["webhooks"][0]["clientConfig"]["caBundle"])
    assert held == authority.signer.certificate


def test_the_configurations_stay_as_they_are_during_a_pause(cluster: Cluster, lines: list[Any]) -> None:
    pause(cluster, datetime.now(UTC) + timedelta(hours=1), reason="an incident", by="ada")
    ours = reconciler(FakeApi(cluster))
    assert [ours.reconcile(), ours.reconcile()] == [Result.PAUSED, Result.PAUSED]
    assert {MUTATING, LATE, VALIDATING}.isdisjoint(cluster.writes)
    said = [(line["event"], line["reason"], line["by"]) for line in lines if "paused" in line["event"]]
    assert said == [("paused: the webhook configurations stay as they are", "an incident", "ada")], "once"
    cluster.remove(PAUSE)
    assert ours.reconcile() is Result.CHANGED
    assert {MUTATING, VALIDATING} <= set(cluster.writes)
    assert "the pause is over" in [line["event"] for line in lines]


def test_a_certificate_does_not_end_because_of_a_pause(cluster: Cluster) -> None:
    now = START
    ours = reconciler(FakeApi(cluster), clock=lambda: now)
    while ours.reconcile() is Result.CHANGED:
        pass
    before = cluster[MUTATING], cluster[VALIDATING]
    first, _ = read_serving(cluster[TLS_SECRET])
    pause(cluster, datetime.now(UTC) + timedelta(hours=1))
    now += timedelta(days=80)
    for _ in range(2):
        assert ours.reconcile() is Result.PAUSED
        now += timedelta(minutes=10)
    serving, _ = read_serving(cluster[TLS_SECRET])
    assert serving not in (None, first)
    assert (cluster[MUTATING], cluster[VALIDATING]) == before
    held = base64.b64decode(before[1]["webhooks"][0]["clientConfig"]["caBundle"])
    assert serving is not None
    assert certs.problems_of(serving, at=now, names=NAMES[:1], ca=held) == ()


def test_a_new_ca_waits_for_the_end_of_a_pause(cluster: Cluster) -> None:
    """No API server trusts it before, so that no replica may serve what it signed."""
    now = START
    ours = reconciler(FakeApi(cluster), clock=lambda: now)
    while ours.reconcile() is Result.CHANGED:
        pass
    first = cluster[TLS_SECRET]["data"]["tls.crt"]
    pause(cluster, datetime.now(UTC) + timedelta(hours=1))
    secret = cluster[CA_SECRET]
    secret["metadata"].setdefault("annotations", {})["podgate.dev/rotate"] = "now"
    cluster.put(CA_SECRET, secret)
    for _ in range(20):
        assert ours.reconcile() is Result.PAUSED
        now += timedelta(minutes=10)
    assert cluster[TLS_SECRET]["data"]["tls.crt"] == first
    cluster.remove(PAUSE)
    for _ in range(20):
        ours.reconcile()
        now += timedelta(minutes=10)
    assert cluster[TLS_SECRET]["data"]["tls.crt"] != first


def test_a_pause_that_is_over_is_none(cluster: Cluster) -> None:
    pause(cluster, datetime.now(UTC) - timedelta(seconds=1))
    assert reconciler(FakeApi(cluster)).reconcile() is Result.CHANGED


def test_a_pause_that_cannot_be_read_is_said_once_and_is_none(cluster: Cluster, lines: list[Any]) -> None:
    cluster.put(
        PAUSE, {"kind": "ConfigMap", "metadata": {"name": "podgate-pause"}, "data": {"until": "soon"}}
    )
    ours = reconciler(FakeApi(cluster))
    ours.reconcile()
    ours.reconcile()
    assert [line["event"] for line in lines].count("the pause is not heeded") == 1
    assert cluster.find(MUTATING) is not None


def test_cert_manager_is_left_to_write_the_bundles(cluster: Cluster) -> None:
    ours = with_certificates(cluster, CertManagerCertificates("podgate-system/podgate"))
    assert ours.reconcile() is Result.CHANGED
    assert set(cluster.writes) == {MUTATING, LATE, VALIDATING}, "no Secret"
    for path in (MUTATING, LATE, VALIDATING):
        stored = cluster[path]
        assert stored["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == "podgate-system/podgate"
        for entry in stored["webhooks"]:
            entry["clientConfig"]["caBundle"] = "aW5qZWN0ZWQ="
        cluster.put(path, stored)
    assert ours.reconcile() is Result.UNCHANGED


def test_a_file_is_followed(cluster: Cluster, tmp_path: Path) -> None:
    first, second = (certs.new_ca(now=START).certificate for _ in range(2))
    file = tmp_path / "ca.crt"
    file.write_bytes(b"# ours\n" + first)
    ours = with_certificates(cluster, FileCertificates(file))
    ours.reconcile()
    file.write_bytes(first + second)
    assert ours.reconcile() is Result.CHANGED
    assert set(cluster.writes) == {MUTATING, LATE, VALIDATING}
    held = base64.b64decode(cluster[MUTATING]["webhooks"][0]["clientConfig"]["caBundle"])
    assert held == first + second


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(None, "{file}: No such file or directory", id="no file"),
        pytest.param(b"", "{file}: holds no PEM certificate: give the CA's", id="empty"),
        pytest.param(b"garbage", "{file}: holds no PEM certificate: give the CA's", id="garbage"),
    ],
)
def test_a_file_of_no_use_changes_nothing(
    cluster: Cluster, tmp_path: Path, content: bytes | None, expected: str
) -> None:
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CertificatesError) as caught:
        with_certificates(cluster, FileCertificates(file)).reconcile()
    assert str(caught.value) == expected.format(file=file)
    assert cluster.writes == []


def test_what_others_put_into_the_secrets_stays(cluster: Cluster) -> None:
    ours = reconciler(FakeApi(cluster))
    while ours.reconcile() is Result.CHANGED:
        pass
    secret = cluster[CA_SECRET]
    secret["metadata"].setdefault("annotations", {}).update(
        {"theirs": "stays", "podgate.dev/rotate": "please"}
    )
    secret["metadata"]["labels"] = {"backup": "no"}
    cluster.put(CA_SECRET, secret)
    ours.reconcile()
    metadata = cluster[CA_SECRET]["metadata"]
    assert (metadata["annotations"]["theirs"], metadata["labels"]) == ("stays", {"backup": "no"})
    assert "podgate.dev/rotate" not in metadata["annotations"], "asked once"
    authority = read_authority(cluster[CA_SECRET])
    assert authority is not None
    assert len(authority.trusted) == 2


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(None, id="no data"),
        pytest.param({"trusted.crt": 7, "ca.crt": None}, id="wrong types"),
        pytest.param({"trusted.crt": "?", "ca.crt": "?", "ca.key": "?"}, id="no base64"),
        pytest.param({"trusted.crt": "Z2FyYmFnZQ=="}, id="no PEM"),
    ],
)
def test_a_broken_secret_is_made_anew(cluster: Cluster, data: Any) -> None:
    cluster.put(
        CA_SECRET, {"kind": "Secret", "metadata": {"name": "podgate-ca"}, "type": "Opaque", "data": data}
    )
    reconciler(FakeApi(cluster)).reconcile()
    authority = read_authority(cluster[CA_SECRET])
    assert authority is not None
    assert certs.problems_of(authority.signer, at=START) == ()


def test_a_foreign_ca_that_cannot_sign_is_said_and_replaced_when_that_is_asked_for(cluster: Cluster) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "theirs")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(START).not_valid_after(START + timedelta(days=900))
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    formats = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pair = certs.Pair(certificate, key.private_bytes(serialization.Encoding.PEM, *formats))
    secret = authority_secret(None, NAMESPACE, Authority(pair, (certificate,)))
    cluster.put(CA_SECRET, secret)
    with pytest.raises(CertificatesError, match="podgate-ca: the CA's key is not an ECDSA key"):
        reconciler(FakeApi(cluster)).reconcile()
    secret["metadata"]["annotations"]["podgate.dev/rotate"] = "now"
    cluster.put(CA_SECRET, secret)
    reconciler(FakeApi(cluster)).reconcile()
    assert cluster.find(TLS_SECRET) is not None


def test_every_metric_is_documented() -> None:
    names = {metric.name for metric in Metrics().registry.collect()}
    for page in ("docs/operations.md", "docs/zh/operations.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert {name for name in names if name not in text} == set()


def test_the_metrics_say_how_certificates_stand(cluster: Cluster) -> None:
    api, metrics = FakeApi(cluster), Metrics()
    ours = Reconciler(cast("Api", api), NAMESPACE, own_certificates(api), configurations(api), metrics)
    ours.reconcile()
    ours.reconcile()

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"podgate_controller_{name}", labels)

    expiry = value("certificate_expiry_timestamp_seconds", certificate="serving")
    assert expiry == (START + certs.SERVING_LIFETIME).timestamp()
    assert value("certificate_expiry_timestamp_seconds", certificate="ca") is not None
    assert value("rotation", phase="steady") == 1
    assert value("rotation", phase="trusting") == 0
    assert value("contested_configurations") == 0
