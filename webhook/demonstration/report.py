"""What the demonstration prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import yaml

from webhook.kube.field_path import mapping_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webhook.demonstration.calls import Result

RED, GREEN, YELLOW, CYAN, BOLD = "31", "32", "33", "36", "1"
OWN_PREFIX = "podgate.dev/"
SHORT = 90
"""Characters of a map or list, as Python writes it, that is shown in one line."""

INDENT = "   "
NOT_SHOWN = "…"

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
    if not result.refusals:  # a refused object is not stored, so nothing came of its changes
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
    """What was taken away and what was added, as YAML, each under the place in which it stands."""
    for place, changes in _changes("", _shown(before), _shown(after)):
        yield paint(f"@@ {place.removeprefix('.') or 'the object'}", CYAN)
        for sign, part in changes:
            yield from (paint(f"{sign} {line}", RED if sign == "-" else GREEN) for line in _yaml(part))
    yield from _record(before, after)


def _changes(place: str, old: Any, new: Any) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """What differs at each place; the order of a list is no difference."""
    before, after = _parts(old), _parts(new)
    both = [step for step in before if step in after and before[step] != after[step]]
    deeper = [step for step in both if _are_alike(before[step], after[step])]
    here: list[tuple[str, Any]] = []
    for step in dict.fromkeys([*before, *after]):
        if before.get(step) != after.get(step) and step not in deeper:
            here.extend(
                (sign, _alone(step, parts[step]))
                for sign, parts in (("-", before), ("+", after))
                if step in parts
            )
    if here:
        yield place, here
    for step in deeper:
        yield from _changes(place + step, before[step], after[step])


def _parts(whole: Any) -> dict[str, Any]:
    """The values in a map or list by the step that leads to each: `.limits`, `[trainer]`; an item without a name is its own."""
    if isinstance(whole, dict):
        return {f".{key}": value for key, value in whole.items()}
    parts: dict[str, Any] = {}
    for item in whole:
        step = f"[{_item(item)}]"
        while step in parts:
            step += " again"
        parts[step] = item
    return parts


def _item(item: Any) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    return str(name or _yaml(item))


def _alone(step: str, value: Any) -> Any:
    """A part of a map or list as one that holds nothing else."""
    return {step[1:]: value} if step.startswith(".") else [value]


def _are_alike(old: Any, new: Any) -> bool:
    return isinstance(old, (dict, list)) and type(old) is type(new)


def _record(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Our own annotations in one line: what they hold is above already."""
    path = ("metadata", "annotations")
    names = sorted(mapping_at(after, path).keys() - mapping_at(before, path).keys())
    own = [name.removeprefix(OWN_PREFIX) for name in names if name.startswith(OWN_PREFIX)]
    if own:
        short = {key: mapping_at(after, path)[OWN_PREFIX + key] for key in own if key != "changes"}
        texts = [f"{key}: {value}" for key, value in short.items()]
        yield f"+ annotations {OWN_PREFIX}… ({', '.join(['changes', *texts])})"


def _shown(thing: Mapping[str, Any]) -> Any:
    return _without_values(_without_record(thing))


def _without_values(part: Any) -> Any:
    """A part with the names alone of environment variables, whose values may be secrets and which no policy changes."""
    if isinstance(part, list):
        return [_without_values(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {key: _without_values(value) for key, value in part.items()}
    if isinstance(part.get("env"), list):
        kept["env"] = [_without_value(variable) for variable in part["env"]]
    return kept


def _without_value(variable: Any) -> Any:
    has_value = isinstance(variable, dict) and "value" in variable
    return {**variable, "value": NOT_SHOWN} if has_value else variable


def _without_record(thing: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = mapping_at(thing, ("metadata",))
    annotations = mapping_at(metadata, ("annotations",))
    kept = {key: value for key, value in annotations.items() if not key.startswith(OWN_PREFIX)}
    others = {key: value for key, value in metadata.items() if key not in ("annotations", "managedFields")}
    return {**thing, "metadata": {**others, **({"annotations": kept} if kept else {})}}


class _Compact(yaml.SafeDumper):
    """YAML without anchors, since two equal lists are two lists, and with short maps and lists in one line."""

    def ignore_aliases(self, data: Any) -> bool:
        """See `yaml.SafeDumper`."""
        del data
        return True

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        """See `yaml.SafeDumper`."""
        del flow_style
        return super().represent_mapping(tag, mapping, flow_style=len(str(mapping)) <= SHORT)

    def represent_sequence(
        self, tag: str, sequence: Any, flow_style: bool | None = None
    ) -> yaml.SequenceNode:
        """See `yaml.SafeDumper`."""
        del flow_style
        return super().represent_sequence(tag, sequence, flow_style=len(str(sequence)) <= SHORT)

    def serialize(self, node: Any) -> None:
        """See `yaml.SafeDumper`; the outermost map or list has lines of its own."""
        if isinstance(node, yaml.CollectionNode):
            node.flow_style = False
        super().serialize(node)


def _yaml(thing: Any) -> list[str]:
    text: str = yaml.dump(thing, Dumper=_Compact, sort_keys=False, width=1000)
    return text.splitlines()
