"""What is laid into a stored configuration, and what stays as others wrote it."""

from copy import deepcopy
from typing import Any

from tests.engine.gates import load, policy
from webhook.registration import Endpoint, merged, webhook_configurations, without_ours

Json = dict[str, Any]

CAP = {"limitAcceleratorCount": {"perPod": {"max": 8}}}


def wanted(ca: bytes = b"new", **options: Any) -> Json:
    files = policy("one", CAP), policy("two", CAP, failurePolicy="Fail")
    return webhook_configurations(load(*files), Endpoint(url="https://x", ca_bundle=ca), **options)[-1]


def stored(**options: Any) -> Json:
    """What we wrote, as an API server gives it back."""
    found = deepcopy(wanted(**options))
    found["metadata"] |= {"resourceVersion": "7", "uid": "u", "generation": 2}
    return found


def test_nothing_stored_is_what_is_wanted() -> None:
    assert merged(None, wanted()) == wanted()


def test_a_second_time_changes_nothing() -> None:
    assert merged(stored(), wanted()) == stored()


def test_labels_and_annotations_of_others_stay() -> None:
    found = stored()
    found["metadata"]["labels"] |= {"team": "platform", "app.kubernetes.io/name": "other"}
    found["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] = "x"
    metadata = merged(found, wanted())["metadata"]
    assert metadata["labels"]["team"] == "platform"
    assert metadata["labels"]["app.kubernetes.io/name"] == "podgate"
    assert metadata["annotations"]["argocd.argoproj.io/tracking-id"] == "x"
    assert metadata["resourceVersion"] == "7"


def test_an_entry_of_another_stays_where_it_is() -> None:
    found = stored()
    foreign = {"name": "other.example.com", "rules": []}
    found["webhooks"].insert(0, foreign)
    assert merged(found, wanted())["webhooks"][0] == foreign
    assert without_ours(found) == [foreign]


def test_an_entry_that_is_wanted_no_more_goes() -> None:
    only_ignore = webhook_configurations(
        load(policy("one", CAP)), Endpoint(url="https://x", ca_bundle=b"new")
    )[-1]
    assert [entry["name"] for entry in merged(stored(), only_ignore)["webhooks"]] == [
        "ignore.validate.podgate.dev"
    ]


def test_where_nothing_is_wanted_the_configuration_is_empty_as_an_api_server_gives_it_back() -> None:
    nothing = wanted() | {"webhooks": []}
    emptied = merged(stored(), nothing)
    assert emptied["webhooks"] == []
    del emptied["webhooks"]
    assert merged(emptied, nothing) == emptied


def test_the_stored_bundle_stays_where_none_is_given_and_goes_where_one_is() -> None:
    bundles = [entry["clientConfig"]["caBundle"] for entry in stored(ca=b"old")["webhooks"]]
    kept = [
        entry["clientConfig"]["caBundle"] for entry in merged(stored(ca=b"old"), wanted(ca=b""))["webhooks"]
    ]
    replaced = [
        entry["clientConfig"]["caBundle"] for entry in merged(stored(ca=b"old"), wanted())["webhooks"]
    ]
    assert kept == bundles != replaced


def test_a_url_gives_way_to_a_service() -> None:
    service = webhook_configurations(load(policy("one", CAP)), Endpoint(service=("n", "s")))[-1]
    [client] = [e["clientConfig"] for e in merged(stored(), service)["webhooks"]]
    assert "url" not in client
    assert "caBundle" in client


def test_a_selector_that_somebody_put_into_our_entry_goes() -> None:
    found = stored()
    found["webhooks"][0]["objectSelector"] = {"matchLabels": {"gate": "off"}}
    assert merged(found, wanted()) == stored()


def test_what_is_stored_is_not_written_into() -> None:
    found = stored(ca=b"old")
    before = deepcopy(found)
    merged(found, wanted())
    assert found == before
