"""Runs of the same tasks under perturbed names: `arc_easy:typo(0.1)` beside `arc_easy`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from assay.finished.run import Run
from assay.tasks import is_perturbation


def clean_name(name: str) -> str:
    """
    >>> clean_name("arc_easy:mc:typo(0.1)"), clean_name("arc_easy:5shot")
    ('arc_easy:mc', 'arc_easy:5shot')
    """
    return ":".join(part for part in name.split(":") if not is_perturbation(part))


def perturbations_in(name: str) -> str:
    return ", ".join(part for part in name.split(":") if is_perturbation(part)) or "none"


def named_like(a: Run, b: Run) -> tuple[Run, dict[str, str]]:
    """B with the names of A, where two names differ in their perturbations alone; and A's name to B's for these.

    `arc_easy:typo(0.1)` is then compared with `arc_easy`, doc by doc. A task with several partners keeps its name: which of them is meant, nobody said.
    """
    names = {clean_name(name): name for name in [*a.result.tasks, *a.result.groups] if name not in b.result}
    wanted = [name for name in [*b.result.tasks, *b.result.groups] if name not in a.result]
    partners = Counter(map(clean_name, wanted))
    back = {names[clean_name(n)]: n for n in wanted if clean_name(n) in names and partners[clean_name(n)] == 1}
    if not back:
        return b, {}
    new = {own: name for name, own in back.items()}

    def renamed(nodes: dict[str, Any]) -> dict[str, Any]:
        return {new.get(name, name): replace(node, name=new.get(name, name)) for name, node in nodes.items()}

    groups = {
        name: replace(group, children=tuple(new.get(child, child) for child in group.children))
        for name, group in renamed(b.result.groups).items()
    }
    roots = tuple(new.get(name, name) for name in b.result.roots)
    read_docs, read_columns = b.read_docs, b.read_columns
    run = replace(
        b,
        result=replace(b.result, tasks=renamed(b.result.tasks), groups=groups, roots=roots),
        tasks=tuple(new.get(name, name) for name in b.tasks),
        read_docs=None if read_docs is None else lambda task, ids: read_docs(back.get(task, task), ids),
        read_columns=None if read_columns is None else lambda task: read_columns(back.get(task, task)),
    )
    return run, back
