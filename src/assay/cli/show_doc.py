"""What a model would get for one doc, with its white space visible."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from assay.instance import Instance
    from assay.tasks import Task


def show_doc(
    task: Task, doc_id: int, *, num_fewshot: int | None, chat: bool, tokens: str | None, as_json: bool
) -> None:
    """Print the requests of a doc, exactly as a run would make them."""
    from assay.tasks import RequestOptions, preview
    from assay.tasks import as_json as plain

    tokenizer = _tokenizer(tokens) if tokens else None
    template = None
    if chat:
        template = _template_of(tokenizer) if tokenizer is not None else plain_template
    options = RequestOptions(
        num_fewshot=num_fewshot, apply_chat_template=chat, chat_template=template, fewshot_as_multiturn=chat
    )
    requests = preview(task, doc_id, options)
    if as_json:
        click.echo(json.dumps([plain(request) for request in requests], ensure_ascii=False, indent=1, default=str))
        return
    click.echo(f"{task.task_name}, doc {doc_id}: {len(requests)} × {requests[0].request_type}")
    shown: Any = None
    for request in requests:
        _print(request, shown, tokenizer)
        shown = request.arguments[0]


def _print(request: Instance, shown: Any, tokenizer: Any) -> None:
    from assay.report.signs import with_signs
    from assay.tasks import visible

    first, *rest = request.arguments
    if first != shown:
        click.echo(f"── context ──\n{with_signs(visible(str(first)))}")
    for argument in rest:
        if isinstance(argument, str):
            click.echo(f"── continuation {request.idx} ──\n{with_signs(visible(argument))}")
        else:
            click.echo(f"── settings ──\n{json.dumps(argument, ensure_ascii=False, default=str)}")
    if tokenizer is not None and rest and isinstance(rest[0], str):
        click.echo(_boundary(str(first), rest[0], tokenizer))


def _boundary(context: str, continuation: str, tokenizer: Any) -> str:
    """The last tokens of the context and those of the continuation: white space between them belongs to the latter."""
    kept = context.rstrip()
    continuation = context[len(kept) :] + continuation
    before = tokenizer.encode(kept, add_special_tokens=False)
    after = tokenizer.encode(kept + continuation, add_special_tokens=False)[len(before) :]
    left, right = (" ".join(map(repr, tokenizer.convert_ids_to_tokens(ids))) for ids in (before[-5:], after))
    return f"   tokens: … {left} | {right}"


def _tokenizer(name: str) -> Any:
    from assay.errors import ModelError

    try:
        from transformers import AutoTokenizer
    except ModuleNotFoundError as error:
        raise ModelError("--tokens needs the package 'transformers'", hint="pip install 'assay[hf]'") from error
    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ModelError(f"--tokens: no tokenizer {name!r}: {str(error).splitlines()[0]}", hint="Give a model's name or directory.") from error  # fmt: skip


def _template_of(tokenizer: Any) -> Any:
    def render(messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        text: str = tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
        return text

    return render


def plain_template(messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
    """Turns one after the other, for reading: no model's template, but its shape.

    >>> plain_template([{"role": "user", "content": "Hi"}])
    '<|user|>\\nHi\\n<|assistant|>\\n'
    """
    text = "\n".join(f"<|{message['role']}|>\n{message['content']}" for message in messages)
    return f"{text}\n<|assistant|>\n" if add_generation_prompt else text
