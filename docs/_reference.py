"""The pages as the site is built from them: a copy, with a table from the code for each `<!-- generated: name -->`.

python docs/_reference.py build/docs
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel


def write_pages(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(Path(__file__).parent, target, ignore=shutil.ignore_patterns("_*"))
    page = target / "reference.md"
    text = page.read_text(encoding="utf-8")
    filled = re.sub(r"<!-- generated: (\w+) -->", lambda found: SECTIONS[found[1]](), text)
    page.write_text(filled, encoding="utf-8")


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(header)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def commands() -> str:
    from assay.cli.entry import assay

    context = click.Context(assay)
    parts = []
    for name in assay.list_commands(context):
        found = assay.get_command(context, name)
        assert found is not None
        parts.append(f"### assay {name}\n\n{_first(found.help)}")
        verbs = found.commands.items() if isinstance(found, click.Group) else [(None, found)]
        for verb, command in verbs:
            arguments = [
                p.make_metavar(click.Context(command)) for p in command.params if isinstance(p, click.Argument)
            ]
            usage = " ".join(filter(None, ["assay", name, verb, *arguments, "[OPTIONS]"]))
            options = [
                [f"`{', '.join(option.opts)}`", option.help or ""]
                for option in command.params
                if isinstance(option, click.Option) and not option.hidden
            ]
            parts.append(f"`{usage}`" + (f" – {_first(command.help)}" if verb else ""))
            if options:
                parts.append(table(["option", "meaning"], options))
    return "\n\n".join(parts)


def _first(text: str | None) -> str:
    return " ".join((text or "").split("\b")[0].split())


def fields(model: type[BaseModel]) -> str:
    described = _attribute_docs(model)
    rows = [
        [f"`{field.alias or name}`", f"`{_type(field.annotation)}`", described.get(name, "")]
        for name, field in model.model_fields.items()
    ]
    return f"{inspect.getdoc(model) or ''}\n\n" + table(["key", "type", "meaning"], rows)


def _type(annotation: Any) -> str:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    text = re.sub(r"Annotated\[(.+?), BeforeValidator\([^)]*\)\]", r"\1", text)
    text = re.sub(r"(?:\w+\.)+(\w+)", r"\1", text)
    text = re.sub(r"Optional\[(.+)\]$", r"\1 | None", text)
    return text.replace("FunctionRef | Callable[..., Any]", "!function").replace("Callable[..., Any]", "!function")


def _attribute_docs(model: type[BaseModel]) -> dict[str, str]:
    """The string that stands below a field in the source."""
    source = inspect.getsource(model)
    return dict(re.findall(r'^    (\w+): [^\n]*\n    """(.*?)"""', source, re.MULTILINE | re.DOTALL))


def names(registry: Mapping[str, Any], describe: Callable[[Any], str]) -> str:
    return table(["name", "what"], [[f"`{name}`", describe(registry[name])] for name in sorted(registry)])


def doc(entry: Any) -> str:
    # An aggregator, metric or aggregation is a value; what it does is said by its function.
    source = entry if inspect.isclass(entry) or inspect.isroutine(entry) else getattr(entry, "fn", entry)
    text = "" if inspect.isbuiltin(source) else inspect.getdoc(source) or ""
    is_own = not (text == (inspect.getdoc(type(source)) or "") and not inspect.isclass(source))
    return text.split("\n\n")[0] if is_own else ""


def models() -> str:
    from assay.models import MODELS

    rows = []
    for name in sorted(MODELS):
        try:
            rows.append([f"`{name}`", doc(MODELS[name])])
        except Exception as error:  # a backend whose packages are not installed is listed all the same
            rows.append([f"`{name}`", str(error).splitlines()[0]])
    return table(["name", "what"], rows)


def metrics() -> str:
    from assay.metrics import METRICS

    rows = [
        [f"`{name}`", METRICS[name].kind, METRICS[name].aggregation, _better(METRICS[name]), doc(METRICS[name])]
        for name in sorted(METRICS)
    ]
    return table(["name", "for", "aggregation", "better", "what"], rows)


def _better(metric: Any) -> str:
    return {True: "↑", False: "↓", None: ""}[metric.higher_is_better]


def catalog() -> str:
    from assay.tasks import TaskManager

    manager = TaskManager(lm_eval=False)  # what ships, whatever ASSAY_LM_EVAL_TASKS adds
    found = manager.resolve([name for name, entry in manager.entries.items() if entry.kind == "group"])
    groups = [
        [f"`{name}`", str(len(spec.children)), (spec.config.metadata or {}).get("description", "")]
        for name, spec in sorted(found.groups.items())
        if name in manager.entries
    ]
    alone = manager.resolve([name for name, entry in manager.entries.items() if entry.kind == "task"]).tasks
    families: dict[str, list[str]] = {}
    for name, config in alone.items():
        families.setdefault(str(config.metadata.get("description", "")), []).append(name)
    tasks = [
        [
            ", ".join(f"`{name}`" for name in members[:4])
            + (f" and {len(members) - 4} more" if len(members) > 4 else ""),
            description,
            str(alone[members[0]].metadata.get("license", "")),
        ]
        for description, members in sorted(families.items(), key=lambda item: item[1][0])
    ]
    return "\n\n".join(
        [table(["group", "members", "what"], groups), table(["tasks", "what", "licence of the data"], tasks)]
    )


PUBLIC = (
    *(
        "config",
        "tasks",
        "scoring",
        "metrics",
        "filters",
        "groups",
        "results",
        "stats",
        "models",
        "store",
        "finished",
        "analyses",
        "show",
    ),
    *("evaluation", "instance", "request_types", "errors", "registry"),
)
"""Where the public names live, in the order of the pages."""

ANALYSES = ("compare", "rank", "explain", "drift", "power", "noise", "gate", "ci", "judging", "agreement", "sweep")


def python() -> str:
    """Every public name with its signature and the first words about it."""
    import assay

    parts = ["### assay\n\n" + table(["name", "what"], map(_described, [assay] * len(assay.__all__), assay.__all__))]
    for folder in _with_analyses(PUBLIC):
        module = importlib.import_module(f"assay.{folder}")
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ]
        rows = [_described(module, name) for name in sorted(names)]
        parts.append(f"### assay.{folder}\n\n{_first(module.__doc__)}\n\n" + table(["name", "what"], rows))
    return "\n\n".join(parts)


def _with_analyses(folders: Iterable[str]) -> Iterator[str]:
    """The folder of analyses offers nothing itself; each module in it does."""
    for folder in folders:
        yield from [f"analyses.{each}" for each in ANALYSES] if folder == "analyses" else [folder]


def _described(module: Any, name: str) -> list[str]:
    value = getattr(module, name)
    return [f"`{name}{_signature(value)}`", doc(value).partition(">>>")[0] if callable(value) else ""]


def _signature(value: Any) -> str:
    if not callable(value):
        return ""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    shown = [p.replace(annotation=inspect.Parameter.empty) for p in parameters if p.name != "self"]
    try:
        return re.sub(r"<[^>]*>", "…", str(inspect.Signature(shown)))
    except ValueError:
        return "(…)"


def _group_sections() -> dict[str, Callable[[], str]]:
    from assay.config import AggMetricConfig, FewshotConfig, GroupConfig, TaskConfig
    from assay.filters import FILTERS
    from assay.groups import AGGREGATORS
    from assay.metrics import AGGREGATIONS, REDUCERS
    from assay.tasks import STYLERS

    return {
        "task": lambda: fields(TaskConfig),
        "fewshot": lambda: fields(FewshotConfig),
        "group": lambda: fields(GroupConfig),
        "aggregate": lambda: fields(AggMetricConfig),
        "aggregations": lambda: names(AGGREGATIONS, doc),
        "reducers": lambda: names(REDUCERS, doc),
        "aggregators": lambda: names(AGGREGATORS, doc),
        "filters": lambda: names(FILTERS, doc),
        "stylers": lambda: names(STYLERS, doc),
    }


SECTIONS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "models": models,
    "metrics": metrics,
    "catalog": catalog,
    "python": python,
    **_group_sections(),
}


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
