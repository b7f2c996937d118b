from typing import Any

import pytest

from webhook.kube.admission_request import AdmissionRequest

# the request's name, the object -> what is shown
NAMES: dict[str, tuple[str, Any, str]] = {
    "neither": ("", {"metadata": {}}, ""),
    "no object": ("", None, ""),
    "nothing to generate from": ("", {"metadata": {"generateName": ""}}, ""),
    "a number to generate from": ("", {"metadata": {"generateName": 5}}, ""),
    "metadata of another type": ("", {"metadata": ["generateName"]}, ""),
    "generated": ("", {"metadata": {"generateName": "trainer-"}}, "trainer-<generated>"),
    "a name": ("trainer", {"metadata": {"generateName": "trainer-"}}, "trainer"),
}


@pytest.mark.parametrize(("name", "thing", "shown"), NAMES.values(), ids=NAMES)
def test_the_name_that_is_shown(name: str, thing: Any, shown: str) -> None:
    assert AdmissionRequest(kind="Pod", resource="pods", name=name, object=thing).shown_name == shown


# group, subresource -> the resource as policies write it
RESOURCES: dict[str, tuple[str, str, str]] = {
    "of the core": ("", "", "jobs"),
    "of a group": ("batch", "", "jobs.batch"),
    "a part of it": ("batch", "status", "jobs.batch/status"),
    "a part, of the core": ("", "status", "jobs/status"),
}


@pytest.mark.parametrize(("group", "subresource", "name"), RESOURCES.values(), ids=RESOURCES)
def test_the_name_of_the_resource(group: str, subresource: str, name: str) -> None:
    request = AdmissionRequest(kind="Job", group=group, resource="jobs", subresource=subresource, object=None)
    assert request.resource_name == name
