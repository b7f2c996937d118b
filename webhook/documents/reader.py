"""YAML and JSON streams to documents."""

import yaml

from webhook.documents.model import Document, Position, Problem, Reading
from webhook.documents.nodes import Chunk, collection_paused, is_null
from webhook.documents.syntax import explain
from webhook.documents.text import decode, origin, split
from webhook.documents.values import Finding, build


def read_documents(data: bytes, source: str, *, strict: bool) -> Reading:
    """Reads a YAML or JSON stream.

    A document with an error is left out and does not touch the others; an empty one is no document. Values
    are what Kubernetes reads: YAML 1.1 as go-yaml v2 understands it, then JSON (kubernetes-sigs/yaml).

    Args:
        data: the bytes of the file: UTF-8, or UTF-16 or UTF-32 with a byte order mark.
        source: the name of the file, as problems are to show it.
        strict: for our own kinds: what Kubernetes reads otherwise than it looks is an error, and so is a flow
            map. Not strict, for Kubernetes' own: the first is a warning, the second is fine.
    """
    try:
        text = decode(data)
    except UnicodeDecodeError as error:
        message = f"expected {error.encoding.upper()} text, as the byte order mark says, found other bytes"
        return Reading((), (Problem(source, None, message, "save the file as UTF-8"),))
    with collection_paused():
        return _read_text(text, source, strict=strict)


def _read_text(text: str, source: str, *, strict: bool) -> Reading:
    documents: list[Document] = []
    spoilt: list[Document] = []
    problems: list[Problem] = []
    index = 0
    for part, line in split(text):
        chunk = Chunk(part, line)
        root, findings = _compose(chunk)
        if root is not None:
            value, findings = build(chunk, root, strict=strict)
            document = Document(source, index, value, origin(part), chunk)
            if all(finding.is_warning for finding in findings):
                documents.append(document)
            elif value is not None:  # else it was not worth reading on
                spoilt.append(document)
        index += root is not None or bool(findings)
        problems.extend(_problem(source, finding) for finding in findings)
    return Reading(tuple(documents), tuple(problems), tuple(spoilt))


def _compose(chunk: Chunk) -> tuple[yaml.Node | None, list[Finding]]:
    try:
        root = chunk.compose()
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        return None, [explain(error, chunk)]
    return (None if root is None or is_null(root) else root), []


def _problem(source: str, finding: Finding) -> Problem:
    return Problem(source, Position(*finding.position), finding.message, finding.hint, finding.is_warning)
