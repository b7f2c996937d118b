"""What a finding says, in a language."""

from collections.abc import Mapping
from typing import NamedTuple

from webhook.kube.plain_text import plain
from webhook.policy import CompiledRule
from webhook.rules.base import Finding, Sentence

LONGEST_SENTENCE = 1000
"""Characters of a policy's own text inside a message; it may be a paragraph."""


class Said(NamedTuple):
    """A finding in words."""

    message: str
    remediation: str


def say(rule: CompiledRule, finding: Finding, language: str) -> Said:
    """A finding in words: the policy's own for a violation, else the rule type's.

    Args:
        rule: whose finding it is.
        finding: what to say; values from objects are made safe.
        language: `en`, `zh`, …; English where there is no text in it.
    """
    message, remediation = rule.rule.text(finding.text, language)
    args = {name: _shown(value) for name, value in finding.args.items()}
    own = finding.result == "fail"
    return Said(
        _in(rule.message, language) if own and rule.message else message.format(**args),
        _in(rule.remediation, language) if own and rule.remediation else remediation.format(**args),
    )


def _shown(value: object) -> str:
    return plain(value, LONGEST_SENTENCE) if isinstance(value, Sentence) else plain(value)


def _in(text: Mapping[str, str], language: str) -> str:
    return text.get(language) or text.get("en") or next(iter(text.values()))
