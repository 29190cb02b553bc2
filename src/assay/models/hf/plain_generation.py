"""Generation by transformers' own `generate`: prompts of like length side by side, padded where that changes nothing.

For what the shared cache cannot do: encoder-decoder models, models whose cache cannot be joined, and settings such as beam
search. Right by definition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from assay.errors import ConfigError
from assay.models.hf.choosing import Place, choose_tokens
from assay.models.hf.linear import LinearMode, linear_mode
from assay.models.hf.row import Prompt
from assay.models.hf.stops import StopWatch, stop_reason
from assay.models.hf.tokenization import TextEncoder


class PlainGenerator:
    """Runs prompts to their ends, batch after batch. `pads`: whether rows of several lengths may stand in one."""

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
