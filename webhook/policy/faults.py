"""What is wrong with policy files, gathered while they are loaded."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from webhook.documents import Document, Path, Problem
from webhook.documents.schema import Schema, problems_of

_Model = TypeVar("_Model", bound=Schema)


@dataclass(slots=True)
class Faults:
    """Every problem found so far; loading goes on past each."""

    problems: list[Problem] = field(default_factory=list)

    @property
    def errors(self) -> int:
        """How many of them are errors."""
        return sum(not problem.is_warning for problem in self.problems)

    def say(self, document: Document, path: Path, message: str, hint: str = "", *, key: bool = False) -> None:
        """Note an error.

        Args:
            document: the file's document.
            path: what it is about; the nearest part that is there gives the place.
            message: what is wrong, with what was expected and found.
            hint: what to do.
            key: whether it is about the key at `path`, not its value.
        """
        self.problems.append(Problem(document.source, document.locate(path, key=key), message, hint))

    def warn(self, document: Document, path: Path, message: str, hint: str = "") -> None:
        """Note a warning: what it is about is loaded all the same.

        Args:
            document: where it is.
            path: what it is about; a place that is absent is shown at its nearest ancestor.
            message: what is most likely not meant.
            hint: what to do, "" where nothing is to be said.
        """
        place = document.locate(path)
        self.problems.append(Problem(document.source, place, message, hint, is_warning=True))

    def parse(self, model: type[_Model], value: Any, document: Document, base: Path = ()) -> _Model | None:
        """A part of a document as its schema; None, and the problems noted, where it is not one.

        Args:
            model: the schema that it must have.
            value: what is written, as the document has it.
            document: where problems have their places.
            base: the path of `value` in the document.
        """
        try:
            return model.model_validate(value)
        except ValidationError as error:
            self.problems.extend(problems_of(error, document, base, model))
            return None
