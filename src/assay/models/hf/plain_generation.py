"""Generation by transformers' own `generate`, one prompt after the other.

For what the shared cache cannot do: encoder-decoder models, models whose attention it does not fit, and settings such
as beam search. Slow, and right by definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from assay.errors import ConfigError
from assay.models.generation import GenerationSettings
from assay.models.hf.stops import StopRules, stop_reason
from assay.models.hf.tokenization import TextEncoder


class _Stop(StoppingCriteria):  # type: ignore[misc]
    def __init__(self, rules: StopRules, encoder: TextEncoder, prompt_length: int) -> None:
        self.rules = rules
        self.encoder = encoder
        self.prompt_length = prompt_length

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        # With beams every row is a candidate of the same answer, and each ends by itself.
        rows = [ids[self.prompt_length :] for ids in input_ids.tolist()]
        ended = [stop_reason(row, self.rules, self.encoder) is not None for row in rows]
        return torch.tensor(ended, dtype=torch.bool, device=input_ids.device)


def generate_plainly(
    model: Any,
    encoder: TextEncoder,
    prompt: Sequence[int],
    settings: GenerationSettings,
    rules: StopRules,
    *,
    seed: int,
) -> list[int]:
    """The ids that follow the prompt."""
    seq2seq = bool(model.config.is_encoder_decoder)
    options: dict[str, Any] = {"do_sample": not settings.greedy, **settings.other}
    if not settings.greedy:
        # All of them: what is left out transformers fills in, for top_k with 50.
        options.update(temperature=settings.temperature, top_p=settings.top_p, top_k=settings.top_k)
        options.update({"min_p": settings.min_p} if settings.min_p else {})
        torch.manual_seed(seed)
    prompt_length = 1 if seq2seq else len(prompt)
    tokens = torch.tensor([list(prompt)], device=model.get_input_embeddings().weight.device)
    pad = encoder.tokenizer.pad_token_id
    try:
        with torch.inference_mode():
            output = model.generate(
                input_ids=tokens,
                attention_mask=torch.ones_like(tokens),
                max_new_tokens=rules.max_gen_toks,
                stopping_criteria=StoppingCriteriaList([_Stop(rules, encoder, prompt_length)]),
                pad_token_id=pad if pad is not None else next(iter(rules.eos), 0),
                **options,
            )
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"generation settings {options!r} are refused by transformers: {error}",
            hint="Change generation_kwargs in the task file, or --gen_kwargs.",
        ) from error
    ids: list[int] = output[0].tolist()[prompt_length:]
    return ids
