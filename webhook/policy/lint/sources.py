"""Where the parts of a loaded policy set are written."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from webhook.documents import Document, Path, Problem, read_documents


@dataclass(frozen=True, slots=True)
class Sources:
    """The documents of a policy set by kind and name; of two with one name the first, as it is loaded."""

    documents: dict[tuple[str, str], Document]

    @classmethod
    def of(cls, files: Iterable[tuple[str, bytes]]) -> "Sources":
        """Read the files once more, this time for the places of what is in them.

        Args:
            files: name and content of each, as they were loaded without an error: else of two documents with one name
                nobody knows which one counts.
        """
        documents: dict[tuple[str, str], Document] = {}
        for source, data in sorted(files):
            reading = read_documents(data, source, strict=True)
            if all(problem.is_warning for problem in reading.problems):
                for document in reading.documents:
                    key = _key(document.value)
                    if key:
                        documents.setdefault(key, document)
        return cls(documents)

    def clause(self, policy: str, key: str, index: int) -> Path:
        """Where alternative `index` of a `policy`'s `key` (`match`, `exclude`) is: a single one may be written without a list."""
        written = self.documents["PodPolicy", policy].value["spec"].get(key)
        return ("spec", key, index) if isinstance(written, list) else ("spec", key)

    def rule(self, policy: str, name: str) -> Path:
        """The path of the rule called `name` in `policy`, both of them loaded."""
        rules = self.documents["PodPolicy", policy].value["spec"]["rules"]
        return "spec", "rules", next(index for index, rule in enumerate(rules) if rule["name"] == name)

    def warn(
        self, kind: str, name: str, path: Path, message: str, hint: str, *, key: bool = False
    ) -> Problem:
        """A warning about a place in a document.

        Args:
            kind: the kind of the document.
            name: the name in it.
            path: what the warning is about.
            message: what is most likely not meant.
            hint: what to do.
            key: whether it is about the key at `path`, not its value.
        """
        document = self.documents[kind, name]
        return Problem(document.source, document.locate(path, key=key), message, hint, is_warning=True)


def _key(value: Any) -> tuple[str, str] | None:
    kind = value.get("kind") if isinstance(value, dict) else None
    metadata = value.get("metadata") if isinstance(value, dict) else None
    name = (
        metadata.get("name") if isinstance(metadata, dict) and isinstance(value.get("spec"), dict) else None
    )
    return (kind, name) if isinstance(kind, str) and isinstance(name, str) else None
