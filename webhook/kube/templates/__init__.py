"""Where each kind of controller keeps its pod templates, and the pods that it would make from them.

The kinds are data (templates.yaml); a site adds kinds of its own with a document of the same shape. Objects are read as
they arrived: a value of the wrong type counts as absent, and nothing here raises for one.
"""

from webhook.kube.templates.document import TemplateKindsError, TemplateProblem
from webhook.kube.templates.kinds import TemplateKind, TemplateKinds, shipped_templates
from webhook.kube.templates.limits import MAX_CONTAINERS, MAX_TEMPLATES
from webhook.kube.templates.objects import Template, claim_templates_of, templates_of, to_object_path
from webhook.kube.templates.places import Place
from webhook.kube.templates.pods import virtual_pod

__all__ = [
    "MAX_CONTAINERS",
    "MAX_TEMPLATES",
    "Place",
    "Template",
    "TemplateKind",
    "TemplateKinds",
    "TemplateKindsError",
    "TemplateProblem",
    "claim_templates_of",
    "shipped_templates",
    "templates_of",
    "to_object_path",
    "virtual_pod",
]
