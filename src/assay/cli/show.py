"""`assay show`: a task or group as it is understood, and who said so."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

import assay
from assay.cli.emit import Outputs, emit
from assay.cli.output import echo_as_is, echo_json
from assay.cli.task_data import measure_floors, require_trust
from assay.cli.task_files import OpenManager, TaskFilesCommand, task_files, trusting
from assay.terminal_text import one_line

if TYPE_CHECKING:
    from assay.config import GroupConfig, Origin, TaskConfig
    from assay.instance import Instance
    from assay.tasks import Resolved, Task, TaskManager


@click.command("show", cls=TaskFilesCommand)
@click.argument("name", required=False)
@click.option(
    "--schema",
    type=click.Choice(["task", "group", "ci", "gate", "compare"]),
    help="Print the JSON Schema of task or group files, of assay.yaml (ci), or of what gates and comparisons write.",
)
@click.option("--tree", is_flag=True, help="Print the tree of a group.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print fields, values and origins as JSON; with --doc, the requests."
)
@click.option(
    "--floors",
    is_flag=True,
    help="Show what rules without the ability score, such as taking the longest choice; reads the data.",
)
@click.option("--limit", type=click.IntRange(min=1), help="With --floors: docs per task.")
@click.option("--doc", type=click.IntRange(min=0), help="Show what a model would be sent for this doc.")
@click.option("--num_fewshot", type=click.IntRange(min=0), help="With --doc: examples in the prompt.")
@click.option(
    "--apply_chat_template", is_flag=True, help="With --doc: use the chat template of --tokens, or a plain one."
)
@click.option(
    "--tokens",
    metavar="MODEL",
    help="With --doc: show the token boundary of this model: a name from `assay fetch --list-models`, a hub name or a directory.",
)
@click.option("--data_dir", metavar="DIR", envvar="ASSAY_DATA_DIR", help="A local mirror of datasets.")
@task_files
@trusting
def command(
    name: str | None,
    schema: str | None,
    tree: bool,
    as_json: bool,
    floors: bool,
    limit: int | None,
    doc: int | None,
    num_fewshot: int | None,
    apply_chat_template: bool,
    tokens: str | None,
    data_dir: str | None,
    open_manager: OpenManager,
) -> None:
    """Show a task or group, resolved, with the file and line that set each field.

    \b
    assay show arc_easy
    assay show mmlu --tree
    assay show arc_easy --doc 3 --num_fewshot 2
    assay show arc_easy,gsm8k --floors

    Docs and floors of a task that uses Python code need --trust, because the code builds the prompt. Nothing else here runs code.

    \b
    assay show --schema task > task.schema.json

    In VS Code (YAML extension), `"yaml.schemas": {"task.schema.json": "tasks/**/*.yaml"}` then completes keys and
    marks wrong ones; in any editor with yaml-language-server, a first line
    `# yaml-language-server: $schema=task.schema.json` does the same.
    """
    if schema is not None:
        _print_schema(schema)
        return
    if name is None:
        raise click.UsageError("name a task or group, or a schema with --schema.")
    manager = open_manager()
    if doc is not None:
        require_trust(manager.resolve(name))
        loaded = manager.load(name, data_dir)
        for task in loaded.tasks.values():
            show_doc(task, doc, num_fewshot=num_fewshot, chat=apply_chat_template, tokens=tokens, as_json=as_json)
        return
    if floors:
        _show_floors(name, manager, limit, data_dir, as_json=as_json)
        return
    resolved = manager.resolve(name)
    if tree:
        for root in resolved.roots:
            echo_as_is("\n".join(_tree(root, resolved)))
    elif as_json:
        echo_json([_as_json(root, resolved) for root in resolved.roots], indent=1)
    else:
        echo_as_is("\n\n".join(_describe(root, resolved) for root in resolved.roots))


def _show_floors(names: str, manager: TaskManager, limit: int | None, data_dir: str | None, *, as_json: bool) -> None:
    from assay.analyses.floors import findings

    emit(
        findings(measure_floors(names.split(","), manager, data_dir, limit=limit)), Outputs("json" if as_json else None)
    )


def _print_schema(kind: str) -> None:
    from assay.analyses.compare import COMPARISON_SCHEMA
    from assay.analyses.gate import GATE_SCHEMA
    from assay.config import file_schema

    written = {"gate": GATE_SCHEMA, "compare": COMPARISON_SCHEMA}
    echo_json(written[kind] if kind in written else file_schema(kind), indent=2)


def _config(name: str, resolved: Resolved) -> TaskConfig | GroupConfig:
    return resolved.tasks[name] if name in resolved.tasks else resolved.groups[name].config


def fields_of(config: Any) -> dict[str, Any]:
    """The fields that the file sets, and those that the defaults settle, as plain values."""
    fields = {}
    styled = ("output_type", "generation_kwargs") if getattr(config, "style", None) is not None else ()
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        shown = _plain(value)
        is_settled = shown not in (None, {}, [], "", False) and name not in styled  # its style settles those
        if name in config.model_fields_set or is_settled:
            fields[field.alias or name] = shown
    return fields


def _plain(value: Any) -> Any:
    if hasattr(value, "model_fields_set"):
        given = {name: getattr(value, name) for name in type(value).model_fields if name in value.model_fields_set}
        return {name: _plain(item) for name, item in given.items() if item is not None and item != {}}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)


def _as_json(name: str, resolved: Resolved) -> dict[str, Any]:
    origins = resolved.origins.get(name, {})
    source = resolved.sources.get(name)
    return {
        "name": name,
        "kind": "task" if name in resolved.tasks else "group",
        "path": None if source is None else str(source),
        "config": fields_of(_config(name, resolved)),
        "origins": {field: {"path": str(origin.path), "line": origin.line} for field, origin in origins.items()},
        **({"children": [*resolved.groups[name].children]} if name in resolved.groups else {}),
    }


def _describe(name: str, resolved: Resolved) -> str:
    """One field a line, its origin at the end: readable as YAML."""
    origins: Mapping[str, Origin] = resolved.origins.get(name, {})
    config = _config(name, resolved)
    # What a variant says stands in no file.
    said = config.model_fields_set if origins and (":" in name or "@" in name) else ()
    blocks = [
        (
            _yaml({field: value}).partition("\n"),
            short_place(str(origins.get(field, "the name" if value and field in said else "default"))),
        )
        for field, value in fields_of(config).items()
    ]
    width = min(72, max((len(first) for (first, _, _), _ in blocks), default=0))
    return "\n".join(f"{first.ljust(width)}  # {origin}{end}{rest}" for (first, end, rest), origin in blocks)


def short_place(place: str) -> str:
    """Without the directory that one is in, and `assay/catalog/…` for what ships: the rest of those paths says nothing."""
    package = os.path.dirname(os.path.dirname(assay.__file__))
    return place.removeprefix(os.getcwd() + os.sep).removeprefix(package + os.sep)


def _yaml(fields: dict[str, Any]) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Text with line ends in double quotes, where they can be counted."""

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if "\n" in text else None)

    Dumper.add_representer(str, represent)
    return yaml.dump(fields, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10_000).rstrip("\n")


def _tree(
    name: str, resolved: Resolved, before: str = "", after: str = "", condition: str | None = None
) -> Iterator[str]:
    spec = resolved.groups.get(name)
    config = _config(name, resolved)
    alias = f"  ({config.alias})" if config.alias != name else ""
    when = f"  if {condition}" if condition else ""
    yield f"{before}{one_line(name)}{one_line(alias)}{_aggregates(spec.config) if spec else ''}{when}"
    children = spec.children if spec else ()
    for position, child in enumerate(children):
        last = position == len(children) - 1
        rows = _tree(
            child,
            resolved,
            before=f"{after}{'└── ' if last else '├── '}",
            after=f"{after}{'    ' if last else '│   '}",
            condition=spec.conditions.get(child) if spec else None,
        )
        yield from rows


def _aggregates(config: GroupConfig) -> str:
    entries = config.aggregate_metric_list or []
    return f"  [{', '.join(f'{entry.metric}: {entry.aggregation}' for entry in entries)}]" if entries else ""


def show_doc(
    task: Task, doc_id: int, *, num_fewshot: int | None, chat: bool, tokens: str | None, as_json: bool
) -> None:
    """Print the requests of a doc, exactly as a run would make them."""
    from assay.tasks import RequestOptions, preview
    from assay.tasks import as_json as plain_request

    tokenizer = _tokenizer(tokens) if tokens else None
    template = None
    if chat:
        template = _template_of(tokenizer) if tokenizer is not None else plain_template
    options = RequestOptions(
        num_fewshot=num_fewshot, apply_chat_template=chat, chat_template=template, fewshot_as_multiturn=chat
    )
    requests = preview(task, doc_id, options)
    if as_json:
        echo_json([plain_request(request) for request in requests], indent=1, default=str)
        return
    echo_as_is(f"{one_line(task.task_name)}, doc {doc_id}: {len(requests)} × {requests[0].request_type}")
    shown: Any = None
    for request in requests:
        _print_request(request, shown, tokenizer)
        shown = request.arguments[0]
    _print_answer(task, requests[0])


def _print_answer(task: Task, request: Instance) -> None:
    """The target as metrics get it, and every choice, the right ones marked."""
    from assay.tasks import visible

    target = request.target
    right = target if isinstance(target, list) else [target]
    if task.has_choices:
        choices = task.doc_to_choice(request.doc)
        echo_as_is("── choices ──")
        for position, choice in enumerate(choices):
            is_right = any(each in (position, choice) and not isinstance(each, bool) for each in right)
            echo_as_is(f"{'→' if is_right else ' '} {position}  {visible(str(choice))}")
    words = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False, default=str) for each in right]
    echo_as_is("── target ──")
    for word in words:
        echo_as_is(visible(word))


def _print_request(request: Instance, shown: Any, tokenizer: Any) -> None:
    from assay.tasks import visible

    first, *rest = request.arguments
    if first != shown:
        echo_as_is(f"── context ──\n{visible(str(first))}")
    for argument in rest:
        if isinstance(argument, str):
            echo_as_is(f"── continuation {request.idx} ──\n{visible(argument)}")
        else:
            echo_as_is(f"── settings ──\n{json.dumps(argument, ensure_ascii=False, default=str)}")
    if tokenizer is not None and rest and isinstance(rest[0], str):
        echo_as_is(_boundary(str(first), rest[0], tokenizer))


def _boundary(context: str, continuation: str, tokenizer: Any) -> str:
    """The last tokens of the context and those of the continuation: white space between them belongs to the latter."""
    kept = context.rstrip()
    continuation = context[len(kept) :] + continuation
    before = tokenizer.encode(kept, add_special_tokens=False)
    after = tokenizer.encode(kept + continuation, add_special_tokens=False)[len(before) :]
    left, right = (" ".join(map(repr, tokenizer.convert_ids_to_tokens(ids))) for ids in (before[-5:], after))
    return f"   tokens: … {left} | {right}"


def _tokenizer(name: str) -> Any:
    from assay.errors import ModelError, install_hint
    from assay.models import model_path

    try:
        from transformers import AutoTokenizer
    except ModuleNotFoundError as error:
        raise ModelError("--tokens needs the package 'transformers'", hint=install_hint("hf")) from error
    here = model_path(name)  # a name of `assay fetch --list-models`
    try:
        # Said outright: where it is left open, the library asks on the terminal whether to run the model's code.
        return AutoTokenizer.from_pretrained(here or name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"--tokens: no tokenizer {name!r}: {reason}",
            hint="Use a hub name, a directory or a model from `assay fetch --list-models`.",
        ) from error


def _template_of(tokenizer: Any) -> Any:
    def render(messages: Sequence[Any], add_generation_prompt: bool = True, tools: Any = None) -> str:
        text: str = tokenizer.apply_chat_template(
            as_dicts(messages),
            tools=tools,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
        return text

    return render


def plain_template(
    messages: Sequence[Any], add_generation_prompt: bool = True, tools: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Turns one after the other, for reading: no model's template, but its shape.

    >>> plain_template([{"role": "user", "content": "Hi"}])
    '<|user|>\\nHi\\n<|assistant|>\\n'
    """
    turns = [(each["role"], each["content"]) for each in as_dicts(messages)]
    if tools:
        turns.insert(0, ("tools", "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)))
    text = "\n".join(f"<|{role}|>\n{content}" for role, content in turns)
    return f"{text}\n<|assistant|>\n" if add_generation_prompt else text


def as_dicts(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """As templates read them; those of agents and conversations are values of a type."""
    return [each if isinstance(each, dict) else each.to_dict() for each in messages]
