"""Text to token ids, by the rules of lm-evaluation-harness, on which published scores depend; and messages to text, by the
template that comes with the tokenizer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.errors import ConfigError, ModelError, did_you_mean
from assay.models.chat_templates import render_chat


@dataclass(frozen=True, slots=True)
class Pair:
    """A context and the continuation to score, in token ids."""

    context: list[int]
    continuation: list[int]


@dataclass(frozen=True, slots=True)
class Scored:
    """What the model reads, and what it is expected to say at the last `len(targets)` places.

    context + continuation   c c c c x y z
    tokens                   c c c c x y        (the last token predicts nothing)
    targets                        x y z
    """

    tokens: list[int]
    targets: list[int]


class TextEncoder:
    """A tokenizer with the questions of a special token at the start settled once.

    Specials are the tokenizer's own default unless `add_bos_token` says otherwise, and are left off where the text
    already starts with the prefix token, as a chat template's output does.
    """

    def __init__(
        self, tokenizer: Any, *, add_bos_token: bool | None = None, prefix_token_id: int | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self.add_bos_token = add_bos_token
        self._prefix_token_id = prefix_token_id
        self._prefix_text: str | None = None

    @property
    def prefix_token_id(self) -> int:
        """Stands before the first scored token where there is no context: the argument, else BOS, else EOS."""
        for candidate in (self._prefix_token_id, self.tokenizer.bos_token_id, self.tokenizer.eos_token_id):
            if candidate is not None:
                return int(candidate)
        raise ModelError(
            "the tokenizer has neither a BOS nor an EOS token, so there is nothing to condition an empty context on",
            hint="Name a token: --model_args prefix_token_id=<id>.",
        )

    def encode(self, texts: Sequence[str], *, add_special_tokens: bool | None = None) -> list[list[int]]:
        """Token ids of each text. Each distinct text is encoded once."""
        return self._encode(texts, add_special_tokens, self._decoded_prefix)

    def encode_prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of prompts to continue. Here it is the BOS text, not the prefix token, that keeps specials off."""
        return self._encode(texts, None, lambda: self.tokenizer.bos_token or "")

    def _encode(
        self, texts: Sequence[str], add_special_tokens: bool | None, find_prefix: Callable[[], str]
    ) -> list[list[int]]:
        prefix = find_prefix() if add_special_tokens is None else ""
        by_specials: dict[bool | None, list[str]] = defaultdict(list)
        for text in dict.fromkeys(texts):
            if add_special_tokens is not None:
                specials: bool | None = add_special_tokens
            else:
                specials = False if prefix and text.startswith(prefix) else self.add_bos_token
            by_specials[specials].append(text)
        ids: dict[str, list[int]] = {}
        for specials, group in by_specials.items():
            options = {} if specials is None else {"add_special_tokens": specials}
            ids.update(zip(group, self.tokenizer(group, **options)["input_ids"]))
        return [list(ids[text]) for text in texts]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[Pair]:
        """Context and continuation split where the tokens of the context end.

        Trailing whitespace of the context goes to the continuation, whose ids are what the whole text has beyond the
        length of the context alone. The context keeps its own ids even where the whole text splits otherwise.
        """
        moved = [_move_whitespace(context, continuation) for context, continuation in pairs]
        contexts = iter(self.encode([context for context, _ in moved if context]))
        wholes = iter(self.encode([context + continuation for context, continuation in moved if context]))
        bare = iter(self.encode([text for context, text in moved if not context], add_special_tokens=False))
        return [
            Pair(ids := next(contexts), next(wholes)[len(ids) :]) if context else self._without_context(next(bare))
            for context, _ in moved
        ]

    def encode_pairs_apart(self, pairs: Sequence[tuple[str, str]]) -> list[Pair]:
        """For encoder-decoder models: two texts, encoded each by itself."""
        moved = [_move_whitespace(context, continuation) for context, continuation in pairs]
        contexts = iter(self.encode([context for context, _ in moved if context]))
        continuations = self.encode([continuation for _, continuation in moved], add_special_tokens=False)
        return [
            Pair(next(contexts), continuation) if context else self._without_context(continuation)
            for (context, _), continuation in zip(moved, continuations)
        ]

    def _without_context(self, ids: list[int]) -> Pair:
        # A text that brings its own prefix token conditions on that one, not on two.
        if ids and ids[0] == self.prefix_token_id:
            return Pair(ids[:1], ids[1:])
        return Pair([self.prefix_token_id], ids)

    def _decoded_prefix(self) -> str:
        if self._prefix_text is None:
            try:
                self._prefix_text = self.decode([self.prefix_token_id], skip_special_tokens=False)
            except ModelError:  # no such token: no text can start with it
                self._prefix_text = ""
        return self._prefix_text


def _move_whitespace(context: str, continuation: str) -> tuple[str, str]:
    """
    >>> _move_whitespace("Answer: ", "yes")
    ('Answer:', ' yes')
    >>> _move_whitespace(" ", "yes")
    ('', ' yes')
    """
    stripped = context.rstrip()
    return stripped, context[len(stripped) :] + continuation


def to_scored(pair: Pair, max_length: int) -> Scored:
    """Cut from the left so that the last `max_length` inputs remain.

    >>> to_scored(Pair([1, 2, 3], [4, 5]), max_length=3)
    Scored(tokens=[2, 3, 4], targets=[4, 5])
    """
    return Scored((pair.context + pair.continuation)[-(max_length + 1) :][:-1], pair.continuation)


class ChatFormatter:
    """The tokenizer's chat template, or one of its named ones, or a template given as text."""

    def __init__(self, tokenizer: Any, template: str | None, arguments: Mapping[str, Any]) -> None:
        self.tokenizer = tokenizer
        self.arguments = dict(arguments)
        self._template = template

    def select(self, name: bool | str | None) -> str | None:
        """The text of the template that is used from now on. A name picks one of several; True or None the default."""
        templates = self._named()
        if isinstance(name, str):
            if name not in templates:
                raise ConfigError(
                    f"the tokenizer has no chat template named {name!r}",
                    hint=did_you_mean(name, templates) or f"It has: {', '.join(templates) or 'none'}.",
                )
            self._template = templates[name]
        return self.template

    @property
    def template(self) -> str | None:
        if self._template is not None:
            return self._template
        templates = self._named()
        if not templates or "default" in templates:
            return templates.get("default")
        raise ConfigError(
            f"the tokenizer has several chat templates and none is the default: {', '.join(templates)}",
            hint="Name one: --apply_chat_template <name>.",
        )

    @property
    def in_use(self) -> str | None:
        """The text of the template, or None where none was chosen and there is no default."""
        return self._template if self._template is not None else self._named().get("default")

    @property
    def has_template(self) -> bool:
        return self._template is not None or bool(self._named())

    def _named(self) -> dict[str, str]:
        found = getattr(self.tokenizer, "chat_template", None)
        if isinstance(found, dict):
            return found
        return {} if found is None else {"default": found}

    def apply(self, messages: list[dict[str, Any]], add_generation_prompt: bool) -> str:
        """The prompt text. A template that refuses a system message gets the messages without it."""
        import jinja2

        template = self.template
        if template is None:
            raise ModelError(
                f"the tokenizer {self.tokenizer.name_or_path!r} has no chat template",
                hint="Run without --apply_chat_template, or set one: --model_args chat_template=<file>.",
            )
        try:
            return self._render(template, messages, add_generation_prompt)
        except jinja2.exceptions.TemplateError as error:
            rest = [message for message in messages if message["role"] != "system"]
            if len(rest) == len(messages):
                raise self._refusal(error) from error
        try:
            return self._render(template, rest, add_generation_prompt)
        except jinja2.exceptions.TemplateError as error:
            raise self._refusal(error) from error

    def _render(self, template: str, messages: list[dict[str, Any]], add_generation_prompt: bool) -> str:
        name = str(self.tokenizer.name_or_path)
        return render_chat(
            self.tokenizer, name, messages, open_end=add_generation_prompt, chat_template=template, **self.arguments
        )

    def _refusal(self, error: Exception) -> ModelError:
        return ModelError(
            f"the chat template of {self.tokenizer.name_or_path!r} raised: {error}",
            hint="Some templates require alternating roles; try without --fewshot_as_multiturn or --system_instruction.",
        )


def thinking_arguments(enable_thinking: bool | None, reasoning_effort: str | None) -> dict[str, Any]:
    """What a template is told about thinking: only what somebody said, since templates tell False from absent."""
    said = {"enable_thinking": enable_thinking, "reasoning_effort": reasoning_effort}
    return {name: value for name, value in said.items() if value is not None}


def template_text(template: str | None) -> str | None:
    """A template given as text, or as the name of a file that holds it."""
    if template is None or "{" in template:
        return template
    try:
        return Path(template).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the chat template {template!r} is neither a template nor a file that can be read: {error}"
        ) from error
