"""Policy files as text, and what loading says of them."""

from textwrap import dedent

from webhook.policy import Loaded, load_policy_set

HEAD = "apiVersion: podgate.dev/v1alpha1\n"


def indented(text: str, spaces: int) -> str:
    return "".join(
        f"{' ' * spaces}{line}\n" if line else "\n" for line in dedent(text).strip("\n").split("\n")
    )


def policy(match: str = "all: true", rules: str = "", name: str = "p", spec: str = "") -> str:
    """A policy; `match` and `rules` from column 5 and 3 on, further keys of its spec from column 3 on."""
    rules = rules or "- name: r\n  setPriorityClass:\n    class: high"
    return (
        f"{HEAD}kind: PodPolicy\nmetadata:\n  name: {name}\nspec:\n"
        f"{indented(spec, 2) if spec else ''}  match:\n{indented(match, 4)}  rules:\n{indented(rules, 2)}"
    )


def pool(name: str = "h100", spec: str = "") -> str:
    spec = spec or "resourceNames: [nvidia.com/gpu]\nnodeLabels:\n  gpu: h100"
    return f"{HEAD}kind: AcceleratorPool\nmetadata:\n  name: {name}\nspec:\n{indented(spec, 2)}"


def load(*files: str) -> Loaded:
    """Files a.yaml, b.yaml, …"""
    return load_policy_set(
        [(f"{chr(ord('a') + index)}.yaml", text.encode()) for index, text in enumerate(files)]
    )


def problems(*files: str) -> list[str]:
    """Every problem on one line: `line:column message | hint`."""
    lines = []
    for problem in load(*files).problems:
        place = f"{problem.position.line}:{problem.position.column}" if problem.position else "-"
        lines.append(f"{place} {problem.message}" + (f" | {problem.hint}" if problem.hint else ""))
    return lines
