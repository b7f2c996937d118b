"""A site's own accelerators and kinds with pods, on top of the shipped ones."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from webhook.documents import Document, Problem, read_documents
from webhook.kube.accelerators import Catalogue, CatalogueError, CatalogueProblem, shipped_catalogue
from webhook.kube.plain_text import plain
from webhook.kube.templates import TemplateKinds, TemplateKindsError, TemplateProblem, shipped_templates

LONGEST_MESSAGE = 1000
"""Characters; a fault may list every key that is allowed."""

ACCELERATORS_HINT = "it begins with vendors: or rdmaResources:"
KINDS_HINT = "it begins with kinds:"


@dataclass(frozen=True, slots=True)
class SiteData:
    """What is known of accelerators and of kinds with pods, and what is wrong with the site's files."""

    catalogue: Catalogue = field(default_factory=shipped_catalogue)
    templates: TemplateKinds = field(default_factory=shipped_templates)
    problems: tuple[Problem, ...] = ()


def site_data(kinds: Iterable[tuple[str, bytes]], accelerators: Iterable[tuple[str, bytes]]) -> SiteData:
    """The shipped data with a site's files on top; a file with an error is left out.

    Args:
        kinds: name and content of files in the shape of templates.yaml.
        accelerators: the same in the shape of accelerators.yaml.
    """
    problems: list[Problem] = []
    of_kinds = [
        kind for document in _documents(kinds, KINDS_HINT, problems) for kind in _kinds(document, problems)
    ]
    of_accelerators = [
        catalogue
        for document in _documents(accelerators, ACCELERATORS_HINT, problems)
        for catalogue in _catalogue(document, problems)
    ]
    catalogue, templates = shipped_catalogue(), shipped_templates()
    return SiteData(
        catalogue.merged(*of_accelerators) if of_accelerators else catalogue,
        templates.merged(*of_kinds) if of_kinds else templates,
        tuple(problems),
    )


def _documents(files: Iterable[tuple[str, bytes]], hint: str, problems: list[Problem]) -> Iterator[Document]:
    for source, data in files:
        reading = read_documents(data, source, strict=True)
        problems.extend(reading.problems)
        if not (reading.documents or reading.problems):
            problems.append(Problem(source, None, "the file is empty", hint))
        elif all(problem.is_warning for problem in reading.problems):
            yield from reading.documents


def _kinds(document: Document, problems: list[Problem]) -> list[TemplateKinds]:
    try:
        return [TemplateKinds.from_value(document.value)]
    except TemplateKindsError as error:
        problems.extend(_problem(document, fault, KINDS_HINT) for fault in error.problems)
        return []


def _catalogue(document: Document, problems: list[Problem]) -> list[Catalogue]:
    try:
        return [Catalogue.from_value(document.value)]
    except CatalogueError as error:
        problems.extend(_problem(document, fault, ACCELERATORS_HINT) for fault in error.problems)
        return []


def _problem(document: Document, fault: CatalogueProblem | TemplateProblem, hint: str) -> Problem:
    message = plain(str(fault), LONGEST_MESSAGE)
    place = document.locate(fault.path, key="unknown key" in message)
    return Problem(document.source, place, message, hint if len(fault.path) <= 1 else "")
