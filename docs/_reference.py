"""`docs/reference`: what the code says of flags, keys and names, as pages. `make reference` writes them, and a test compares
them with the code. The names in Python change with every docstring: only the site has them (`make docs`).

python docs/_reference.py [--site] [FOLDER]
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import BaseModel

FOLDER = Path(__file__).parent / "reference"
GENERATED = "<!-- Written by docs/_reference.py from the code: change the code, then run `make reference`. -->"


def pages(*, of_site: bool = False) -> dict[str, str]:
    """Each page by its file's name."""
    wanted = {name: page for name, page in PAGES.items() if of_site or name != "python"}
    made = {name: f"# {title}\n\n{GENERATED}\n\n{text().strip()}\n" for name, (title, text) in wanted.items()}
    links = "\n".join(f"- [{title}]({name}.md)" for name, (title, _) in wanted.items())
    return {"index": f"# Reference\n\n{GENERATED}\n\n{links}\n", **made}


def write_pages(folder: Path, *, of_site: bool) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in pages(of_site=of_site).items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


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
        parts.append(f"## assay {name}\n\n{_first(found.help)}")
        verbs = found.commands.items() if isinstance(found, click.Group) else [(None, found)]
        for verb, command in verbs:
            arguments = [
                p.make_metavar(click.Context(command)) for p in command.params if isinstance(p, click.Argument)
            ]
            usage = " ".join(filter(None, ["assay", name, verb, *arguments, "[OPTIONS]"]))
            options = [
                [f"`{', '.join(option.opts)}`", _default(option)]
                for option in command.params
                if isinstance(option, click.Option) and not option.hidden
            ]
            parts.append(f"`{usage}`" + (f" – {_first(command.help)}" if verb else ""))
            if options:
                parts.append(table(["option", "meaning"], options))
    return "\n\n".join(parts)


def _default(option: click.Option) -> str:
    """The help, with the default that `--help` prints and the choices that its value has."""
    choices = f"  One of {', '.join(option.type.choices)}." if isinstance(option.type, click.Choice) else ""
    extra = option.get_help_extra(click.Context(click.Command("assay")))
    default = f" Default: {extra['default']}." if extra.get("default") else ""
    return f"{option.help or ''}{choices}{default}"


def _first(text: str | None) -> str:
    return " ".join((text or "").split("\b")[0].split())


def fields(model: type[BaseModel], level: str = "##") -> str:
    """The keys of a mapping, then those of the mappings inside it."""
    described = _attribute_docs(model)
    rows = [
        [f"`{field.alias or name}`", f"`{_type(field.annotation)}`", field.description or described.get(name, "")]
        for name, field in model.model_fields.items()
    ]
    inner = {found.__name__: found for field in model.model_fields.values() for found in _models_in(field.annotation)}
    parts = [inspect.getdoc(model) or "", table(["key", "type", "meaning"], rows)]
    parts += [f"{level} {name}\n\n{fields(found, level + '#')}" for name, found in inner.items() if found is not model]
    return "\n\n".join(parts)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


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

    parts = ["## assay\n\n" + table(["name", "what"], map(_described, [assay] * len(assay.__all__), assay.__all__))]
    for folder in _with_analyses(PUBLIC):
        module = importlib.import_module(f"assay.{folder}")
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ]
        rows = [_described(module, name) for name in sorted(names)]
        parts.append(f"## assay.{folder}\n\n{_first(module.__doc__)}\n\n" + table(["name", "what"], rows))
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


def _options() -> str:
    """Options of analyses, which files take under the verb's name."""
    from assay.config.ci import OPTION_SECTIONS
    from assay.config.options import Options

    for name in ANALYSES:
        importlib.import_module(f"assay.analyses.{name}")
    classes = {each.__name__: each for each in _derived(Options)}
    found = {verb: classes.get(f"{verb.capitalize()}Options") for verb in OPTION_SECTIONS}
    parts = ["`compare: {margin: 0.02}` in `assay.yaml` sets an option of `assay compare` for the directory."]
    parts += [f"### {verb}\n\n{_rows_of(options)}" for verb, options in found.items() if options is not None]
    return "\n\n".join(parts)


def _derived(base: type) -> Iterator[type]:
    for each in base.__subclasses__():
        yield each
        yield from _derived(each)


def _rows_of(model: Any) -> str:
    rows = [
        [f"`{name}`", f"`{_type(field.annotation)}`", field.description or ""]
        for name, field in model.model_fields.items()
    ]
    return table(["key", "type", "meaning"], rows)


RULES = (
    "TASK [METRIC]: not worse than 0.01",
    "TASK [METRIC]: at least 0.4",
    "any task: no more than 2 % newly wrong",
)
"""In each form that a rule has; `ci_file` is tested to name forms that are understood."""


def ci_file() -> str:
    from assay.config import Budget, CIConfig

    rules = "\n".join(f"- `{each}`" for each in RULES)
    budget = f"## budget\n\n{_rows_of(Budget)}\n\n## rules\n\n{rules}"
    return f"{_rows_of(CIConfig)}\n\n{budget}\n\n## Options of other verbs\n\n{_options()}"


def task_file() -> str:
    from assay.config import TaskConfig

    return fields(TaskConfig)


def group_file() -> str:
    from assay.config import GroupConfig

    return fields(GroupConfig)


def run_file() -> str:
    from assay.config import RunConfig

    said = "Keys of a `--config` file, keywords of `assay.evaluate`, and flags of `assay run`, all of the same names."
    return f"{said}\n\n{fields(RunConfig)}"


def registered() -> str:
    from assay.filters import FILTERS
    from assay.groups import AGGREGATORS
    from assay.metrics import AGGREGATIONS, REDUCERS
    from assay.tasks import STYLERS

    return "\n\n".join(
        [
            f"## Models\n\n{models()}",
            f"## Metrics\n\n{metrics()}",
            f"## Aggregations, over docs\n\n{names(AGGREGATIONS, doc)}",
            f"## Reducers, over draws\n\n{names(REDUCERS, doc)}",
            f"## Aggregators, over members of a group\n\n{names(AGGREGATORS, doc)}",
            f"## Filters\n\n{names(FILTERS, doc)}",
            f"## Styles\n\n{names(STYLERS, doc)}",
        ]
    )


PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    "commands": ("Every verb and flag", commands),
    "task-file": ("Keys of a task file", task_file),
    "group-file": ("Keys of a group file", group_file),
    "run-file": ("Keys of a run's config", run_file),
    "assay-yaml": ("Keys of assay.yaml", ci_file),
    "registered": ("Models, metrics, filters and other names", registered),
    "catalog": ("Tasks and groups that ship with Assay", catalog),
    "python": ("Names in Python", python),
}


if __name__ == "__main__":
    folders = [Path(word) for word in sys.argv[1:] if word != "--site"]
    write_pages(folders[0] if folders else FOLDER, of_site="--site" in sys.argv)
