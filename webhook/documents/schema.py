"""Strict schemas for podgate's own kinds, and their errors with a place in the file."""

import re
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from webhook.documents import Document, Path, Problem

_PLAIN_WORD = re.compile(r"[A-Za-z][\w./*-]*\Z")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")

LIST_ERRORS = ("list_type", "tuple_type")
MAPS_HINT = "write keys below it, each with its value"

ENVIRONMENT = "env"
"""The key below which the values of environment variables stand, which may be secrets."""

LONGEST_FOUND = 60
"""Characters of a found value that a message shows: enough to recognise it, short enough for one line."""


class Schema(BaseModel):
    """A part of a policy file: unknown keys are errors, types are not coerced, values are immutable."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=False,
        regex_engine="rust-regex",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_null(cls, value: Any) -> Any:
        """A key without a value says nothing; read as absent it would widen a match."""
        if value is None:
            raise PydanticCustomError("null", "a value")
        return value


def problems_of(
    error: ValidationError, document: Document, base: Path, model: type[BaseModel]
) -> list[Problem]:
    """The errors of a validation as problems: where, what was expected, what was found, what to do.

    Args:
        error: what pydantic found.
        document: the file's document, whose positions are used.
        base: where in the document the validated value stands.
        model: the schema, for "did you mean".
    """
    return [
        _problem(details, document, base, model)
        for details in error.errors(include_url=False)
        if details["type"] != "too_short"
        or not details["input"]  # else its entries are wrong, and each is said
    ]


def written(path: Path) -> str:
    """A path as a message names it: `spec.rules[0].name`."""
    text = "".join(
        f".{part}" if _PLAIN_KEY.match(str(part)) else f'["{part}"]' if isinstance(part, str) else f"[{part}]"
        for part in path
    )
    return text.removeprefix(".") or "the document"


def allowed_keys(model: type[BaseModel]) -> list[str]:
    """The keys that a map of this schema may have, as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _problem(details: ErrorDetails, document: Document, base: Path, model: type[BaseModel]) -> Problem:
    is_key = details["loc"][-1:] == ("[key]",)
    inner = details["loc"][:-1] if is_key else details["loc"]
    path = _as_written((*base, *inner), document)
    where = written(path)
    match details["type"]:
        case "extra_forbidden":
            hint = did_you_mean(str(path[-1]), _keys_at(model, inner[:-1]))
            return Problem(
                document.source,
                document.locate(path, key=True),
                f"unknown key {shown(path[-1])} in {written(path[:-1])}",
                hint,
            )
        case "missing":
            place = document.locate(path[:-1], key=True)
            return Problem(document.source, place, f"{where} is missing", f"add {path[-1]}: …")
        case "value_error":
            fault = details["ctx"]["error"]
            found = f", found {shown(details['input'])}" if isinstance(details["input"], str) else ""
            place = document.locate((*path, *getattr(fault, "path", ())))
            return Problem(document.source, place, f"{where}: {fault}{found}")
    found = (shown_kind if ENVIRONMENT in path else shown)(details["input"])
    holds_maps = _holds_maps(_annotation_at(model, inner))
    of_maps = " of maps" if holds_maps and details["type"] in LIST_ERRORS else ""
    message = f"{where}: expected {_expectation(details)}{of_maps}, found {found}"
    return Problem(
        document.source, document.locate(path, key=is_key), message, _remedy(details, holds_maps=holds_maps)
    )


def _as_written(path: Path, document: Document) -> Path:
    """The path without what normalising added: a map given in place of a list has no index."""
    value, written = document.value, []
    for segment in path:
        if isinstance(segment, int) and not isinstance(value, list):
            continue
        written.append(segment)
        try:
            value = value[segment]
        except (KeyError, IndexError, TypeError):
            value = None
    return tuple(written)


def _keys_at(model: type[BaseModel], path: Path) -> list[str]:
    """The keys of the map at a path inside a schema; none where it is no plain part of it."""
    current = _model_in(_annotation_at(model, path))
    return allowed_keys(current) if current else []


def _annotation_at(model: type[BaseModel], path: Path) -> Any:
    """The type of what stands at a path inside a schema, of a list as of its entries; None where it is no plain part of it."""
    annotation: Any = model
    for segment in path:
        current = _model_in(annotation)
        if isinstance(segment, int) or current is None:
            continue
        if _is_map(annotation):
            annotation = current
            continue
        fields = {field.alias or name: field for name, field in current.model_fields.items()}
        annotation = fields[segment].annotation if segment in fields else None
    return annotation


def _is_map(annotation: Any) -> bool:
    """Whether a type is a map of schemas by a free key."""
    return get_origin(annotation) is dict


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The schema inside a type such as `tuple[X, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


def _holds_maps(annotation: Any) -> bool:
    """Whether the entries of a list are maps: schemas, or what is looked at later."""
    parts = get_args(annotation)
    return annotation is Any or _model_in(annotation) is not None or any(map(_holds_maps, parts))


def did_you_mean(word: str, candidates: list[str]) -> str:
    """A hint for a misspelt `word`: the nearest of the `candidates`, else all of them; "" where there are none."""
    near = get_close_matches(word, candidates, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"it may be one of: {', '.join(sorted(candidates))}" if candidates else ""


def shown(value: Any) -> str:
    """A found value for a message, on one line and bounded."""
    if isinstance(value, dict):
        return "a map" if value else "an empty map"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    text = (
        ascii(value)
        if not str(value).isprintable()
        else repr(value)
        if isinstance(value, str)
        else str(value)
    )
    return text if len(text) <= LONGEST_FOUND else text[: LONGEST_FOUND - 1] + "…"


def shown_kind(value: Any) -> str:
    """What a found value is, without the value itself, for places where secrets stand."""
    if isinstance(value, bool):
        return "a boolean"
    if value is None or isinstance(value, dict | list):
        return shown(value)
    return "text" if isinstance(value, str) else "a number"


_EXPECTATIONS = {
    "string_type": "a string",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "dict_type": "a map",
    "mapping_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
    "list_type": "a list",
    "tuple_type": "a list",
}


def _remedy(details: ErrorDetails, *, holds_maps: bool) -> str:
    """A hint where only a value or quotes are missing, or quotes are too many.

    Args:
        details: the error.
        holds_maps: whether maps must stand there, and not plain values.
    """
    kind, found = details["type"], details["input"]
    if kind == "null":
        return "give it a value, or remove the key"
    if kind in LIST_ERRORS and isinstance(found, str):
        if holds_maps:
            return MAPS_HINT
        return f"write a list: [{found}]" if _PLAIN_WORD.match(found) else "write a list"
    if kind == "string_type" and isinstance(found, bool | int | float):
        return "put it in quotes"
    is_number = isinstance(found, str) and found.isdecimal()
    if (kind == "int_type" and is_number) or (kind == "bool_type" and found in ("true", "false")):
        return "write it without quotes"
    return ""


def _expectation(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind in ("literal_error", "enum"):
        return str(context["expected"]).replace("'", "").replace("True", "true")
    if kind.startswith(("greater_than", "less_than")):
        bound = next(iter(context.values()))
        return {"greater_than": "more than ", "greater_than_equal": "at least "}.get(kind, "at most ") + str(
            bound
        )
    if kind == "too_short":
        return "at least one entry"
    if kind == "string_too_short":
        return "a text that is not empty"
    if kind == "too_long":
        return f"at most {context['max_length']} entries"
    return _EXPECTATIONS.get(kind, details["msg"][:1].lower() + details["msg"][1:])
