"""Prompts that are longer than the model reads: said before they are asked, and refused where none would fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay.errors import ConfigError
from assay.instance import Instance, context_text
from assay.models import LM, GenerationSettings
from assay.request_types import REQUEST_TYPES

IN_A_ROW = 8
"""So many prompts that fit, longest text first, and the shorter ones are taken to fit too."""
MOST = 64
"""So many prompts that are too long are counted, and no more: each may be a question to a server."""


def say_what_is_too_long(lm: LM, instances: Sequence[Instance], say: Callable[[str], None]) -> None:
    """One line for each task with prompts that are too long. Where the model would read none of them whole and does not
    cut them itself, the task is refused."""
    by_task: dict[str, list[Instance]] = {}
    for instance in instances:
        if REQUEST_TYPES[instance.request_type].has_context:
            by_task.setdefault(instance.task_name, []).append(instance)
    if not by_task:
        return
    cuts = lm.cuts_prompts  # a model that loads late is there from now on, and knows what it reads
    context = lm.context_length()
    if context is None:
        return
    for task, asked in by_task.items():
        ordered = sorted(asked, key=_characters, reverse=True)
        none_fits = _is_too_long(lm, ordered[-1], context)
        count = len(asked) if none_fits else _count(lm, ordered, context)
        if not count:
            continue
        least = "at least " if count == MOST < len(asked) and not none_fits else ""
        what = f"{task}: {least}{count:,} of {len(asked):,} prompts are longer than the {context:,} tokens that this model can read, including the answer"
        if none_fits and not cuts:
            raise ConfigError(what, hint="Use fewer shots (--num_fewshot), or serve it with a longer context.")
        then = "they are cut on the left" if cuts else "the server will reject them"
        say(f"{what}: {then}. Fewer shots (--num_fewshot) make them shorter.")


def _count(lm: LM, ordered: Sequence[Instance], context: int) -> int:
    """Prompts that are too long, the longest texts first."""
    count = fitting = 0
    for instance in ordered:
        if fitting == IN_A_ROW or count == MOST:
            break
        is_too_long = _is_too_long(lm, instance, context)
        if is_too_long is None:
            break
        count, fitting = count + is_too_long, 0 if is_too_long else fitting + 1
    return count


def _is_too_long(lm: LM, instance: Instance, context: int) -> bool | None:
    """None where nobody can say, and where the text has no more bytes than there may be tokens."""
    text = f"{context_text(instance.args[0])}{_given(instance)}"
    room = context - _answer(lm, instance)
    tokens = lm.text_tokens(text) if len(text.encode("utf-8", "replace")) > room else None
    return None if tokens is None else tokens > room


def _characters(instance: Instance) -> int:
    return len(context_text(instance.args[0])) + len(_given(instance))


def _given(instance: Instance) -> str:
    """The text after the prompt that is scored and not written."""
    place = REQUEST_TYPES[instance.request_type].scored_argument
    return "" if place is None else str(instance.args[place])


def _answer(lm: LM, instance: Instance) -> int:
    """Tokens of the answer that have to fit beside the prompt; the last of a given text is not read."""
    row = REQUEST_TYPES[instance.request_type]
    if row.is_text:
        return GenerationSettings.parse(instance.args[1], max_gen_toks=lm.info().max_gen_toks).max_gen_toks
    return 0 if row.scored_argument is None else -1
