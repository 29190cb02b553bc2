"""Generation requests, from text to answers: settings, truncation, equal requests, out of memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.errors import ConfigError
from assay.models.base import Answer, Usage
from assay.models.generation import GenerationSettings, draw_seed
from assay.models.hf.budget import TokenBudget
from assay.models.hf.plain_generation import generate_plainly
from assay.models.hf.stops import StopRules, final_text, stop_reason
from assay.models.hf.tokenization import TextEncoder
from assay.models.hf.tree import TreeRunner


@dataclass(frozen=True, slots=True)
class Prompt:
    """One generation: token ids to continue, how, and the seed of this draw."""

    tokens: tuple[int, ...]
    settings: GenerationSettings
    rules: StopRules
    seed: int

    @property
    def key(self) -> tuple[Any, ...]:
        """Prompts of equal key have equal answers: draws of a greedy prompt are one generation."""
        settings = self.settings
        how = (
            settings.temperature,
            settings.top_p,
            settings.top_k,
            settings.min_p,
            repr(sorted(settings.other.items())),
        )
        return (self.tokens, how, self.rules, 0 if settings.greedy else self.seed)


class Generations:
    """Answers generation requests."""

    def __init__(
        self,
        model: Any,
        encoder: TextEncoder,
        runner: TreeRunner | None,
        budget: TokenBudget,
        usage: Usage,
        *,
        max_length: int,
        max_gen_toks: int,
        think_end_token: str | int | None,
        seed: int,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.runner = runner
        self.budget = budget
        self.usage = usage
        self.max_length = max_length
        self.max_gen_toks = max_gen_toks
        self.think_end_token = think_end_token
        self.seed = seed
        self.seq2seq = bool(model.config.is_encoder_decoder)
        self.eos, self.eos_text = _end_tokens(model, encoder)

    def stream(
        self, requests: Sequence[tuple[str, Mapping[str, Any]]], draws: Sequence[int]
    ) -> Iterator[tuple[int, Answer]]:
        prompts = self.prepare(requests, draws)
        self.usage.prompt_tokens += sum(len(prompt.tokens) for prompt in prompts)
        positions: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for position, prompt in enumerate(prompts):
            positions[prompt.key].append(position)
        for _key, owners in positions.items():
            prompt = prompts[owners[0]]
            ids = generate_plainly(
                self.model, self.encoder, list(prompt.tokens), prompt.settings, prompt.rules, seed=prompt.seed
            )
            answer = self.answer(ids, prompt.rules)
            yield from ((owner, answer) for owner in owners)

    def prepare(self, requests: Sequence[tuple[str, Mapping[str, Any]]], draws: Sequence[int]) -> list[Prompt]:
        """Contexts in token ids, cut from the left so that the answer has room."""
        settings = [GenerationSettings.parse(kwargs, max_gen_toks=self.max_gen_toks) for _, kwargs in requests]
        contexts = self.encoder.encode([context for context, _ in requests])
        return [
            self._prompt(tokens, setting, draw) for tokens, setting, draw in zip(contexts, settings, draws, strict=True)
        ]

    def _prompt(self, tokens: list[int], settings: GenerationSettings, draw: int) -> Prompt:
        room = self.max_length if self.seq2seq else self.max_length - settings.max_gen_toks
        if room <= 0:
            raise ConfigError(
                f"max_gen_toks is {settings.max_gen_toks} and the model reads {self.max_length} tokens in all, "
                "so no room is left for the prompt",
                hint="Lower max_gen_toks (--gen_kwargs max_gen_toks=…) or raise max_length.",
            )
        kept = tuple(tokens[-room:]) or (self.encoder.prefix_token_id,)
        rules = StopRules(settings.until, self.eos, self.eos_text, settings.max_gen_toks, self.think_end_token)
        seed = draw_seed(self.seed, np.asarray(kept, dtype="<i4").tobytes(), draw)
        return Prompt(kept, settings, rules, seed)

    def answer(self, ids: Sequence[int], rules: StopRules) -> Answer:
        self.usage.generated_tokens += len(ids)
        return Answer(final_text(ids, rules, self.encoder), stop_reason(ids, rules, self.encoder) if ids else "eos")


def _end_tokens(model: Any, encoder: TextEncoder) -> tuple[frozenset[int], str]:
    """Ids that end a generation: the tokenizer's EOS and whatever the model's generation config names."""
    own = encoder.tokenizer.eos_token_id
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids = {own} | (set(named) if isinstance(named, list | tuple) else {named})
    text = encoder.decode([own], skip_special_tokens=False) if own is not None else ""
    return frozenset(int(token) for token in ids if token is not None), text
