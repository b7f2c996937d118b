"""The option `--languages`."""

from __future__ import annotations

import click

LANGUAGES = ("en", "zh")


class Languages(click.ParamType[tuple[str, ...]]):
    """The value of `--languages`: a list, the first first."""

    name = "LIST"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """See `click.ParamType.convert`."""
        if isinstance(value, tuple):
            return value
        languages = tuple(dict.fromkeys(part.strip() for part in str(value).split(",")))
        strange = [language for language in languages if language not in LANGUAGES]
        if strange:
            self.fail(
                f"unknown language {strange[0]!r}; expected {' and '.join(LANGUAGES)}, as in en,zh",
                param,
                ctx,
            )
        return languages
