"""Text to token ids, by the rules of lm-evaluation-harness, on which published scores depend."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import ModelError


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
