"""A generation: its prompt and settings, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from assay.models.generation import GenerationSettings
from assay.models.hf.decoding import Base
from assay.models.hf.speculation import NgramDrafter
from assay.models.hf.stops import StopRules, StopWatch


@dataclass(frozen=True, slots=True)
class Prompt:
    """One generation: token ids to continue, how, and the seed of this draw."""

    tokens: tuple[int, ...]
    settings: GenerationSettings
    rules: StopRules
    seed: int
    repetition_penalty: float = 1.0

    @property
    def key(self) -> tuple[Any, ...]:
        """Prompts of equal key have equal answers: all draws of a greedy prompt are one generation."""
        settings = self.settings
        how = (settings.temperature, settings.top_p, settings.top_k, settings.min_p, self.repetition_penalty)
        return (self.tokens, how, repr(sorted(settings.other.items())), self.rules, 0 if settings.greedy else self.seed)


@dataclass(slots=True)
class Row:
    """A generation under way. Its last id is not in the cache yet."""

    index: int
    prompt: Prompt
    base: Base | None
    prompt_length: int
    """Tokens of its prompt that are in its slot; the others are in the base."""
    drafter: NgramDrafter
    watch: StopWatch
    ids: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Tokens in its slot."""
        return self.prompt_length + len(self.ids) - 1

    def draft(self, most: int) -> list[int]:
        """What may follow; nothing beyond the last token it may say, for which the model may have no position."""
        left = self.prompt.rules.max_gen_toks - len(self.ids) - 1
        return self.drafter.draft(min(most, left))

    def say(self, token: int) -> None:
        self.ids.append(token)
        self.drafter.say(token)
