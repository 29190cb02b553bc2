"""Generation settings in one form, whatever a task file calls them.

Shared by backends that decode by themselves and by those that write the settings into a request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.errors import ConfigError

DEFAULT_TOKS = 256
MOST_THINKING = 32_768
LENGTH_NAMES = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """`generation_kwargs` as they are meant. Greedy when the temperature is 0."""

    until: tuple[str, ...] = ()
    max_gen_toks: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    answer_schema: Mapping[str, Any] | None = None
    """A JSON Schema that the answer is to fit, for servers that can be held to one; others answer as they do."""
    other: Mapping[str, Any] = field(default_factory=dict)
    """What no name above stands for; a backend passes it on or refuses it."""

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @classmethod
    def parse(cls, kwargs: Mapping[str, Any] | None, *, max_gen_toks: int = 256) -> GenerationSettings:
        """Resolve aliases as lm-evaluation-harness does.

        The length goes by four names, the first present wins. `do_sample: false` means temperature 0 whatever else is
        said; without `do_sample`, a temperature above 0 means sampling; `do_sample: true` alone means temperature 1.

        >>> GenerationSettings.parse({"until": "\\n", "do_sample": False, "temperature": 0.7}).temperature
        0.0
        """
        left = dict(kwargs or {})
        until = left.pop("until", None)
        lengths = [left.pop(name) for name in LENGTH_NAMES if left.get(name) is not None]
        for name in LENGTH_NAMES:
            left.pop(name, None)
        do_sample = left.pop("do_sample", None)
        temperature = left.pop("temperature", None)
        if do_sample is False or (do_sample is None and temperature is None):
            temperature = 0.0
        elif temperature is None:
            temperature = 1.0
        try:
            return cls(
                until=_stop_strings(until),
                max_gen_toks=int(lengths[0]) if lengths else max_gen_toks,
                temperature=max(0.0, float(temperature)),
                top_p=float(_take(left, "top_p", 1.0)),
                top_k=max(0, int(_take(left, "top_k", 0))),
                min_p=float(_take(left, "min_p", 0.0)),
                answer_schema=left.pop("answer_schema", None),
                other=left,
            )
        except (TypeError, ValueError) as error:
            raise ConfigError(f"generation settings {dict(kwargs or {})!r} cannot be read: {error}") from error


def _take(settings: dict[str, Any], name: str, default: float) -> Any:
    value = settings.pop(name, None)
    return default if value is None else value


def _stop_strings(until: Any) -> tuple[str, ...]:
    if until is None:
        return ()
    stops = [until] if isinstance(until, str) else list(until)
    return tuple(str(stop) for stop in stops if stop is not None and str(stop) != "")


def cut_at_stop(text: str, until: Sequence[str]) -> tuple[str, bool]:
    """The text before the first stop string, and whether there was one.

    >>> cut_at_stop("7\\n\\nQuestion", ["Q", "\\n\\n"])
    ('7', True)
    """
    ends = [at for stop in until if (at := text.find(stop)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)


_THOUGHTS = (
    ("<think>", "</think>", ""),
    ("<thinking>", "</thinking>", ""),
    ("[THINK]", "[/THINK]", ""),
    ("<|channel|>analysis<|message|>", "<|end|>", "<|channel|>final<|message|>"),
)
"""How thoughts begin and end, and what stands before the answer after them."""


def thoughts_named_in(template: str | None, tokens: Collection[str]) -> tuple[str, str] | None:
    """How this model's thoughts begin and end, by the marks that its chat template or tokenizer names.

    >>> thoughts_named_in("{{ '<think>' }} … </think>", ()), thoughts_named_in(None, {"[THINK]", "[/THINK]"})
    (('<think>', '</think>'), ('[THINK]', '[/THINK]'))
    """
    for opening, closing, answers in _THOUGHTS:
        parts = (opening, closing) if not answers else ("<|channel|>", "<|message|>", "analysis")
        if closing in tokens and opening in tokens:
            return opening, closing
        if template is not None and all(part in template for part in parts):
            return opening, answers or closing
    return None


def split_reasoning(text: str, think_end: str | None, *, cut_off: bool = False) -> tuple[str | None, str]:
    """What stands before the last end of thinking, and the answer behind it; all is answer where there is no such end.

    Unless the text was cut off: then the thought never ended, and there is no answer.

    >>> split_reasoning("2 and 2 …</think>\\n\\n4", "</think>")
    ('2 and 2 …', '4')
    >>> split_reasoning("2 and 2 are 4, but", "</think>", cut_off=True)
    ('2 and 2 are 4, but', '')

    Without being told, by the marks in which models open their thoughts. A thought that never ends leaves no answer:

    >>> split_reasoning("<think>2 and 2</think>4", None), split_reasoning("<think>2 and", None)
    (('2 and 2', '4'), ('2 and', ''))

    A chat template may have opened the thought, so that only its end is in the text:

    >>> split_reasoning("2 and 2</think>4", None), split_reasoning("Write <think> and </think>.", None)[0]
    (('2 and 2', '4'), None)
    """
    if think_end:
        reasoning, mark, answer = text.rpartition(think_end)
        if not mark and cut_off:
            return text, ""
        return (reasoning, answer.lstrip()) if mark else (None, text)
    if "<" not in text and "[" not in text:  # no mark without one of them
        return None, text
    for opening, closing, answers in _THOUGHTS:
        if text.lstrip().startswith(opening):
            thoughts, _, answer = text.lstrip().removeprefix(opening).partition(closing)
            return thoughts.strip(), answer.rpartition(answers)[2].lstrip() if answers else answer.lstrip()
    for opening, closing, answers in _THOUGHTS:
        before, mark, answer = text.partition(closing)
        if mark and not answers and opening not in before:  # the chat template opened it, in the prompt
            return before.strip(), answer.lstrip()
    return None, text


def room_for_prompt(max_length: int, max_gen_toks: int) -> int:
    """How many tokens a prompt may have where the model reads `max_length` in all, its answer included."""
    room = max_length - max_gen_toks
    if room <= 0:
        raise ConfigError(
            f"max_gen_toks is {max_gen_toks} but the model reads {max_length} tokens in total, so no room is left for the prompt",
            hint="Lower max_gen_toks (--gen_kwargs max_gen_toks=…) or raise max_length.",
        )
    return room


def thinking_room(context: int | None) -> int:
    """Tokens for thoughts and answer where nobody says: half the context, up to 32,768. The prompt needs room too.

    >>> thinking_room(131_072), thinking_room(8192), thinking_room(None)
    (32768, 4096, 32768)
    """
    return MOST_THINKING if context is None else max(1, min(MOST_THINKING, context // 2))


def draw_seed(seed: int, context: bytes, draw: int) -> int:
    """A seed that belongs to draw number `draw` of this prompt, whatever is sent beside it."""
    digest = hashlib.sha256(b"%d:%d:" % (seed, draw) + context).digest()
    return int.from_bytes(digest[:8], "little") >> 1
