"""What the demonstration prints."""

from __future__ import annotations

from collections.abc import Callable
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import yaml

from webhook.kube.field_path import mapping_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webhook.demonstration.calls import Result

RED, GREEN, YELLOW, CYAN, BOLD = "31", "32", "33", "36", "1"
OWN_PREFIX = "podgate.dev/"
CONTEXT_LINES = 2
INDENT = "   "

Paint = Callable[[str, str], str]


def paint_ansi(text: str, colour: str) -> str:
    """A text in a colour."""
    return f"\x1b[{colour}m{text}\x1b[0m"


def paint_nothing(text: str, _colour: str) -> str:
    """A text as it is."""
    return text


def render_result(number: int, result: Result, paint: Paint) -> str:
    """One workload: what it is, the verdict, the changes, and what its author reads."""
    metadata = result.received["metadata"]
    kind, where = result.received["kind"], f"{metadata['namespace']}/{result.workload.name}"
    lines = [f"{number}. {paint(result.workload.title, BOLD)}"]
    lines.append(f"{INDENT}{kind} {where}, created by {result.workload.sender.username}")
    lines.append(f"{INDENT}{paint(result.verdict, RED if result.refusals else GREEN)}")
    lines.extend(f"{INDENT}  {line}" for line in render_diff(result.received, result.mutated, paint))
    for text in result.refusals:
        lines.extend(INDENT + paint(line, RED) for line in text.splitlines())
    lines.extend(f"{INDENT}{paint(f'Warning: {text}', YELLOW)}" for text in result.warnings)
    mutating, *validating = (f"{seconds * 1000:.1f} ms" for seconds in result.seconds)
    lines.append(f"{INDENT}mutate {mutating}, validate {' and '.join(validating)}")
    return "\n".join(lines) + "\n"


def render_summary(results: Sequence[Result], seconds: float) -> str:
    """One line over all."""
    refused = sum(bool(result.refusals) for result in results)
    changed = sum(not result.refusals and result.received != result.mutated for result in results)
    calls = sum(len(result.seconds) for result in results)
    return (
        f"{len(results)} workloads: {changed} admitted with changes, {len(results) - changed - refused} admitted "
        f"unchanged, {refused} refused; {calls} calls, {seconds:.1f} s in all\n"
    )


def render_diff(before: Mapping[str, Any], after: Mapping[str, Any], paint: Paint) -> Iterator[str]:
    """The changed lines of the YAML, each block under the place in which it stands."""
    old, new = _yaml(_without_record(before)), _yaml(_without_record(after))
    for block in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT_LINES):
        first_change = next(start for tag, _, _, start, _ in block if tag != "equal")
        yield paint(f"@@ {_place(new, min(first_change, len(new) - 1))}", CYAN)
        for tag, old_start, old_end, new_start, new_end in block:
            if tag == "equal":
                yield from (f" {line}" for line in new[new_start:new_end])
            else:
                yield from (paint(f"-{line}", RED) for line in old[old_start:old_end])
                yield from (paint(f"+{line}", GREEN) for line in new[new_start:new_end])
    yield from _record(before, after)


def _record(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Our own annotations in one line: what they hold is above already."""
    path = ("metadata", "annotations")
    names = sorted(mapping_at(after, path).keys() - mapping_at(before, path).keys())
    own = [name.removeprefix(OWN_PREFIX) for name in names if name.startswith(OWN_PREFIX)]
    if own:
        short = {key: mapping_at(after, path)[OWN_PREFIX + key] for key in own if key != "changes"}
        texts = [f"{key}: {value}" for key, value in short.items()]
        yield f"+ annotations {OWN_PREFIX}… ({', '.join(['changes', *texts])})"


def _without_record(thing: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = mapping_at(thing, ("metadata",))
    annotations = mapping_at(metadata, ("annotations",))
    kept = {key: value for key, value in annotations.items() if not key.startswith(OWN_PREFIX)}
    others = {key: value for key, value in metadata.items() if key not in ("annotations", "managedFields")}
    return {**thing, "metadata": {**others, **({"annotations": kept} if kept else {})}}


class _Indented(yaml.SafeDumper):
    """YAML without anchors: two equal lists are two lists."""

    def ignore_aliases(self, data: Any) -> bool:
        """See `yaml.SafeDumper`."""
        del data
        return True


def _yaml(thing: Mapping[str, Any]) -> list[str]:
    text: str = yaml.dump(thing, Dumper=_Indented, sort_keys=False, width=1000)
    return text.splitlines()


def _place(lines: Sequence[str], index: int) -> str:
    """The keys above a line, by their indentation, and the names of items: `spec.containers[trainer].resources`."""
    keys: list[str] = []
    depth = _depth(lines[index])
    item = _item(lines[index])
    for line in reversed(lines[:index]):
        if _depth(line) < depth:
            depth = _depth(line)
            key = line.strip().removeprefix("- ").partition(":")[0]
            keys.append(key if not item else f"{key}[{item}]")
            item = _item(line)
        elif item is None and _depth(line) == depth:
            item = _item(line)
    return ".".join(reversed(keys)) or "the object"


def _item(line: str) -> str | None:
    """The name of the item of a list that begins in a line, "" if it has none; None where no item begins."""
    text = line.lstrip()
    if not text.startswith("- "):
        return None
    return text.removeprefix("- name: ") if text.startswith("- name: ") else ""


def _depth(line: str) -> int:
    """The depth of a line; an item of a list stands as deep as what it is made of."""
    indent = len(line) - len(line.lstrip())
    return indent + 2 if line.lstrip().startswith("- ") else indent
