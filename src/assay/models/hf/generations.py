"""Generation requests, from text to answers: settings, truncation, equal requests, out of memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay.instance import Response
from assay.models.generation import GenerationSettings, draw_seed, room_for_prompt
from assay.models.hf.budget import bytes_per_token, free_memory
from assay.models.hf.engine import HFEngine
from assay.models.hf.plain_generation import PlainGenerator
from assay.models.hf.row import Prompt
from assay.models.hf.rows import RowGenerator
from assay.models.hf.selfcheck import generates_together
from assay.models.hf.state_rows import StateGenerator
from assay.models.hf.stops import StopRules, final_text, stop_reason
from assay.models.hf.tokenization import TextEncoder

_ROWS = {"cpu": 64, "cuda": 256}
"""Rows at a time, memory permitting. More is hardly faster by the token."""
_ORDINARY: dict[str, Any] = {"num_beams": 1, "use_cache": True, "num_return_sequences": 1, "repetition_penalty": 1.0}
_SAMPLING = ("top_p", "top_k", "min_p")
_LEFT_TO_TRANSFORMERS = frozenset(
    [
        "no_repeat_ngram_size",
        "bad_words_ids",
        "suppress_tokens",
        "begin_suppress_tokens",
        "min_new_tokens",
        "min_length",
        "typical_p",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "sequence_bias",
        "encoder_repetition_penalty",
    ]
)


class Generations:
    """Answers generation requests."""

    def __init__(
        self,
        engine: HFEngine,
        *,
        max_gen_toks: int,
        max_rows: int | None,
        think_end_token: str | int | None,
        seed: int,
        thoughts: tuple[str, str] | None = None,
    ) -> None:
        self.engine = engine
        self.max_gen_toks = max_gen_toks
        self.max_rows = max_rows or _ROWS.get(engine.model.device.type, 128)
        self.most_rows = self.max_rows
        self.think_end_token = think_end_token
        self.thoughts = None if think_end_token is not None else thoughts
        self.seed = seed
        self.eos, self.eos_text = _end_tokens(engine.model, engine.encoder)
        self._config = _generation_config(engine.model)
        self._pads: bool | None = None
        """Whether `generate` may be given rows of several lengths; found out when it is needed."""
        self._batches = False
        """Whether it may be given rows of one length."""
        self._unusual_config = sorted(self._config.keys() & _LEFT_TO_TRANSFORMERS)

    def stream(
        self, requests: Sequence[tuple[str, Mapping[str, Any]]], draws: Sequence[int]
    ) -> Iterator[tuple[int, Response]]:
        prompts = self.prepare(requests, draws)
        self.engine.usage.prompt_tokens += sum(len(prompt.tokens) for prompt in prompts)
        positions: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for position, prompt in enumerate(prompts):
            positions[prompt.key].append(position)
        owners = list(positions.values())
        for index, ids in self._generate([prompts[group[0]] for group in owners]):
            answer = self.answer(ids, prompts[owners[index][0]])
            yield from ((owner, answer) for owner in owners[index])

    def _generate(self, prompts: list[Prompt]) -> Iterator[tuple[int, list[int]]]:
        """Out of memory: fewer rows and smaller passes, and on with the prompts that have no answer yet."""
        self.engine.budget.grow()
        self.max_rows = min(self.most_rows, 2 * self.max_rows)
        pending = list(range(len(prompts)))
        while pending:
            answered = set()
            try:
                for index, ids in self._generate_once([prompts[place] for place in pending]):
                    answered.add(index)
                    yield pending[index], ids
            except Exception as error:  # raised again there, unless memory ran out
                self.engine.recover(error)
                self.max_rows = max(1, self.max_rows // 2)
            pending = [place for index, place in enumerate(pending) if index not in answered]

    def _generate_once(self, prompts: list[Prompt]) -> Iterator[tuple[int, list[int]]]:
        runner = self.engine.runner or self.engine.states
        for index, prompt in enumerate(prompts):
            if prompt.rules.max_gen_toks < 1:
                yield index, []
        together = [index for index, prompt in enumerate(prompts) if self._can_share(prompt)]
        if runner is not None and together:
            before = runner.computed
            rows = self._generator()
            for index, ids in rows.run([prompts[place] for place in together]):
                yield together[index], ids
            self.engine.usage.computed_tokens += runner.computed - before
        wanted = {index for index, prompt in enumerate(prompts) if prompt.rules.max_gen_toks >= 1}
        alone = sorted(wanted - set(together))
        if alone:
            self.engine.usage.computed_tokens += sum(len(prompts[index].tokens) for index in alone)
            plain = self._plain_generator([prompts[index] for index in alone])
            unusual = [self._is_unusual(prompts[index]) for index in alone]
            for index, ids in plain.run([prompts[place] for place in alone], unusual):
                yield alone[index], ids

    def _plain_generator(self, prompts: Sequence[Prompt]) -> PlainGenerator:
        engine = self.engine
        # Encoders take padding behind a text, which a mask hides.
        if self._pads is None and len(prompts) > 1:
            self._pads = engine.seq2seq or generates_together(engine.model, (9, 4, 6))
            self._batches = self._pads or generates_together(engine.model, (6, 6, 6))
        tokens = int(0.25 * free_memory(engine.model.device) / bytes_per_token(engine.model))
        rows = self.max_rows if self._batches else 1
        return PlainGenerator(engine.model, engine.encoder, max_rows=rows, max_tokens=tokens, pads=bool(self._pads))

    def _generator(self) -> RowGenerator | StateGenerator:
        engine = self.engine
        limits: dict[str, Any] = {
            "tokens_per_pass": engine.budget.tokens,
            "max_rows": self.max_rows,
            "cache_bytes": int(0.4 * free_memory(engine.model.device)),
        }
        if engine.runner is not None:
            return RowGenerator(engine.runner, engine.encoder, **limits)
        assert engine.states is not None
        return StateGenerator(engine.states, engine.encoder, **limits)

    def _can_share(self, prompt: Prompt) -> bool:
        return (
            (self.engine.runner is not None or self.engine.states is not None)
            and prompt.rules.max_gen_toks >= 1
            and not self._is_unusual(prompt)
            and len(prompt.tokens) + prompt.rules.max_gen_toks <= self.engine.tree_length
        )

    def _is_unusual(self, prompt: Prompt) -> bool:
        """Settings beyond the common ones are left to transformers' own generation."""
        unusual = {name: value for name, value in prompt.settings.other.items() if _ORDINARY.get(name, ...) != value}
        unusual.pop("repetition_penalty", None)
        return bool(unusual or self._unusual_config)

    def prepare(self, requests: Sequence[tuple[str, Mapping[str, Any]]], draws: Sequence[int]) -> list[Prompt]:
        """Contexts in token ids, cut from the left so that the answer has room."""
        settings = [self._settings(kwargs) for _, kwargs in requests]
        contexts = self.engine.encoder.encode_prompts([context for context, _ in requests])
        return [
            self._prompt(tokens, setting, draw) for tokens, setting, draw in zip(contexts, settings, draws, strict=True)
        ]

    def _settings(self, kwargs: Mapping[str, Any]) -> GenerationSettings:
        settings = GenerationSettings.parse(kwargs, max_gen_toks=self.max_gen_toks)
        named = {name: self._config[name] for name in _SAMPLING if name in self._config and kwargs.get(name) is None}
        return settings if settings.greedy or not named else replace(settings, **named)

    def _prompt(self, tokens: list[int], settings: GenerationSettings, draw: int) -> Prompt:
        room = self.engine.max_length
        if not self.engine.seq2seq:
            room = room_for_prompt(room, settings.max_gen_toks)
        prompt = tuple(tokens[-room:]) or (self.engine.encoder.prefix_token_id,)
        end = self.think_end_token
        if end is None and self.thoughts is not None and self._opens_thought(prompt):
            end = self.thoughts[1]
        rules = StopRules(settings.until, self.eos, self.eos_text, settings.max_gen_toks, end, self.thoughts)
        seed = draw_seed(self.seed, np.asarray(prompt, dtype="<i4").tobytes(), draw)
        penalty = settings.other.get("repetition_penalty") or self._config.get("repetition_penalty") or 1.0
        return Prompt(prompt, settings, rules, seed, float(penalty))

    def _opens_thought(self, tokens: Sequence[int]) -> bool:
        """Whether the prompt ends where a thought begins, as many chat templates have it."""
        assert self.thoughts is not None
        end = self.engine.encoder.decode(tokens[-len(self.thoughts[0]) - 4 :], skip_special_tokens=False)
        return end.rstrip().endswith(self.thoughts[0])

    def answer(self, ids: Sequence[int], prompt: Prompt) -> Response:
        self.engine.usage.generated_tokens += len(ids)
        reasoning, text = final_text(ids, prompt.rules, self.engine.encoder)
        reason = stop_reason(ids, prompt.rules, self.engine.encoder) if ids else "length"
        if reasoning is None and prompt.rules.think_end_token is not None and self.think_end_token is None:
            reasoning, text = text, ""  # the prompt opened a thought that never ended
        thought = len(self.engine.encoder.encode([reasoning], add_special_tokens=False)[0]) if reasoning else None
        tokens = (len(prompt.tokens), len(ids))
        return Response(text, reason, tokens=tokens, reasoning=reasoning, reasoning_tokens=thought)


def _generation_config(model: Any) -> dict[str, Any]:
    """What the model's own generation config asks for, beyond what transformers does without one."""
    config = getattr(model, "generation_config", None)
    neutral = {"no_repeat_ngram_size": 0, "min_length": 0, "typical_p": 1.0, "encoder_repetition_penalty": 1.0}
    found = {} if config is None else config.to_diff_dict()
    return {name: value for name, value in found.items() if value is not None and neutral.get(name, ...) != value}


def _end_tokens(model: Any, encoder: TextEncoder) -> tuple[frozenset[int], str]:
    """Ids that end a generation: the tokenizer's EOS and whatever the model's generation config names."""
    own = encoder.tokenizer.eos_token_id
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids = {own} | (set(named) if isinstance(named, list | tuple) else {named})
    text = encoder.decode([own], skip_special_tokens=False) if own is not None else ""
    return frozenset(int(token) for token in ids if token is not None), text
