"""Which kinds a match condition can look into."""

from typing import Any

import pytest

from webhook.kube.templates import TemplateKinds
from webhook.registration.objects import template_paths, typed_templates

PLAIN: dict[str, Any] = {
    "group": "apps",
    "kind": "Deployment",
    "resource": "deployments.apps",
    "pods": [{"template": "spec.template"}],
}
OTHERS: dict[str, dict[str, Any]] = {
    "a kind that the API server does not type": {
        "group": "example.org",
        "resource": "deployments.example.org",
    },
    "several templates": {"pods": [{"template": "spec.template"}, {"template": "spec.canary"}]},
    "templates in a list": {"pods": [{"template": "spec.tasks[*].template"}]},
    "a pod spec without its template": {"pods": [{"template": "spec", "spec": "podSpec"}]},
    "labels of the object on its pods": {"copies": ["labels"]},
    "a variable of the controller's": {"env": [{"name": "RANK", "value": "0"}]},
    "a step that is no name of CEL": {"pods": [{"template": "spec.pod-template"}]},
}


def kinds(**changed: Any) -> TemplateKinds:
    return TemplateKinds.from_value({"kinds": [PLAIN | changed]})


def test_one_template_whose_pods_are_what_it_says_is_looked_into() -> None:
    assert typed_templates(kinds().kinds) == {"deployments.apps": "spec.template"}


@pytest.mark.parametrize("case", OTHERS)
def test_any_other_is_asked_about_always(case: str) -> None:
    assert typed_templates(kinds(**OTHERS[case]).kinds) == {}


def test_a_variable_that_says_what_the_pod_says_hides_nothing() -> None:
    known = kinds(env=[{"name": "INDEX", "field": "metadata.labels['index']"}])
    assert typed_templates(known.kinds) == {"deployments.apps": "spec.template"}


def test_an_update_is_compared_by_its_template_whatever_the_controller_adds() -> None:
    known = kinds(copies=["labels"], env=[{"name": "RANK", "value": "0"}])
    assert template_paths(known.kinds) == {"deployments.apps": "spec.template"}
