"""Generation requests, from text to answers: settings, truncation, equal requests, out of memory.

What the shared cache cannot do is left to transformers' own `generate`, right by definition: encoder-decoder models,
models whose cache cannot be joined, and settings such as beam search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from assay.errors import ConfigError
from assay.instance import Response
from assay.models.generation import GenerationSettings, draw_seed, room_for_prompt
from assay.models.hf.budget import bytes_per_token, free_memory
from assay.models.hf.engine import HFEngine
from assay.models.hf.kept_prompts import KeptPrompts
from assay.models.hf.linear import LinearMode, linear_mode
from assay.models.hf.row import Place, Prompt, choose_tokens
from assay.models.hf.rows import RowGenerator
from assay.models.hf.selfcheck import generates_together
from assay.models.hf.state_rows import StateGenerator
from assay.models.hf.stops import StopRules, StopWatch, final_text, stop_reason
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


class PlainGenerator:
    """Runs prompts of like length side by side to their ends, batch after batch, by `generate`. `pads`: whether rows of several lengths may stand in one."""

    def __init__(self, model: Any, encoder: TextEncoder, *, max_rows: int, max_tokens: int, pads: bool) -> None:
        self.model, self.encoder = model, encoder
        self.max_rows, self.max_tokens, self.pads = max_rows, max_tokens, pads
        self.seq2seq = bool(model.config.is_encoder_decoder)

    def run(self, prompts: Sequence[Prompt], unusual: Sequence[bool]) -> Iterator[tuple[int, list[int]]]:
        """Yield `(position, generated ids)`. What is unusual is left to transformers whole, draws too, and then goes alone."""
        alike: dict[Any, list[int]] = defaultdict(list)
        for index, (prompt, odd) in enumerate(zip(prompts, unusual, strict=True)):
            if odd and not prompt.settings.greedy:
                alike[index].append(index)
            else:
                alike[repr(sorted(prompt.settings.other.items())) if odd else ""].append(index)
        for members in alike.values():
            for batch in self._batches(prompts, members):
                answers = self._generate([prompts[index] for index in batch], odd=unusual[batch[0]])
                yield from zip(batch, answers, strict=True)

    def _batches(self, prompts: Sequence[Prompt], members: Sequence[int]) -> Iterator[list[int]]:
        """Longest first, so the first row of a batch says how wide it is."""
        batch: list[int] = []
        for index in sorted(members, key=lambda one: -len(prompts[one].tokens)):
            width = len(prompts[batch[0] if batch else index].tokens)
            full = len(batch) == self.max_rows or (len(batch) + 1) * width > self.max_tokens
            if batch and (full or not (self.pads or len(prompts[index].tokens) == width)):
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def _generate(self, prompts: Sequence[Prompt], *, odd: bool) -> list[list[int]]:
        settings = prompts[0].settings
        options: dict[str, Any] = dict(settings.other) if odd else {}
        options["do_sample"] = odd and not settings.greedy
        if options["do_sample"]:
            # All of them: what is left out transformers fills in, for top_k with 50.
            options.update(temperature=settings.temperature, top_p=settings.top_p, top_k=settings.top_k)
            options.update({"min_p": settings.min_p} if settings.min_p else {})
            torch.manual_seed(prompts[0].seed)
        width = max(len(prompt.tokens) for prompt in prompts)
        start = 1 if self.seq2seq else width
        if not odd:
            options.update(logits_processor=LogitsProcessorList([_Choose(prompts, start)]), repetition_penalty=1.0)
        pad = self.encoder.tokenizer.pad_token_id
        pad = pad if pad is not None else next(iter(prompts[0].rules.eos), 0)
        tokens = torch.full((len(prompts), width), pad)
        mask = torch.zeros_like(tokens)
        for row, prompt in enumerate(prompts):
            place = slice(0, len(prompt.tokens)) if self.seq2seq else slice(width - len(prompt.tokens), width)
            tokens[row, place], mask[row, place] = torch.tensor(prompt.tokens), 1
        device = self.model.get_input_embeddings().weight.device
        try:
            with torch.inference_mode(), linear_mode(LinearMode.GENERATING):
                output = self.model.generate(
                    input_ids=tokens.to(device),
                    attention_mask=mask.to(device),
                    max_new_tokens=max(prompt.rules.max_gen_toks for prompt in prompts),
                    stopping_criteria=StoppingCriteriaList([_Stop(prompts, self.encoder, start)]),
                    pad_token_id=pad,
                    **options,
                )
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"generation settings {settings.other!r} are rejected by transformers: {error}",
                hint="Change generation_kwargs in the task file, or --gen_kwargs.",
            ) from error
        return [self._own(row[start:], prompt) for row, prompt in zip(output.tolist(), prompts, strict=True)]

    def _own(self, ids: list[int], prompt: Prompt) -> list[int]:
        """Without the padding behind a row that ended before others did."""
        for end in range(1, len(ids) + 1):
            if ids[end - 1] in prompt.rules.eos or end == prompt.rules.max_gen_toks:
                return ids[:end]
        watch = StopWatch(prompt.rules, self.encoder)
        return next((ids[:end] for end in range(1, len(ids) + 1) if watch.reason(ids[:end]) is not None), ids)


class _Choose(LogitsProcessor):  # type: ignore[misc]
    """Leaves one token for each row: the likeliest, or the draw that its prompt, number and seed give everywhere else."""

    def __init__(self, prompts: Sequence[Prompt], start: int) -> None:
        self.prompts, self.start = prompts, start

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        said = input_ids[:, self.start :].tolist()
        chosen = choose_tokens([Place(prompt, ids) for prompt, ids in zip(self.prompts, said, strict=True)], scores)
        only = torch.full_like(scores, -torch.inf)
        only[torch.arange(len(chosen)), torch.tensor(chosen)] = 0.0
        return only


class _Stop(StoppingCriteria):  # type: ignore[misc]
    def __init__(self, prompts: Sequence[Prompt], encoder: TextEncoder, start: int) -> None:
        self.prompts, self.encoder, self.start = prompts, encoder, start

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        # With beams several rows are candidates of the same answer, and each ends by itself.
        beams = len(input_ids) // len(self.prompts)
        ended = [
            stop_reason(ids, self.prompts[row // beams].rules, self.encoder) is not None
            for row, ids in enumerate(input_ids[:, self.start :].tolist())
        ]
        return torch.tensor(ended, dtype=torch.bool, device=input_ids.device)


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
        self.kept: KeptPrompts | None = None
        """Of conversations, where requests extend earlier ones."""
        self.eos, self.eos_text = _end_tokens(engine.model, engine.encoder)
        self._config = _generation_config(engine.model)
        self._pads: bool | None = None
        """Whether `generate` may be given rows of several lengths; found out when it is needed."""
        self._batches = False
        """Whether it may be given rows of one length."""
        self._unusual_config = sorted(self._config.keys() & _LEFT_TO_TRANSFORMERS)

    def keep_prompts(self) -> None:
        self.kept = KeptPrompts(int(0.2 * free_memory(self.engine.model.device)))

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
                if self.kept is not None:
                    self.kept.clear()
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
            return RowGenerator(engine.runner, engine.encoder, kept=self.kept, **limits)
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
