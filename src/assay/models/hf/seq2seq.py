"""Log-likelihoods of encoder-decoder models: the context is encoded once, each continuation is read by the decoder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from assay.models.hf.scoring import LogLikelihood, log_probabilities
from assay.models.hf.tokenization import Pair


def score_seq2seq(model: Any, pairs: Sequence[Pair], max_length: int) -> Iterator[tuple[int, LogLikelihood]]:
    by_context: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        by_context[tuple(pair.context[-max_length:])].append(index)
    device = model.get_input_embeddings().weight.device
    for context, indices in by_context.items():
        tokens = torch.tensor([context], device=device)
        mask = torch.ones_like(tokens)
        with torch.inference_mode():
            encoded = model.get_encoder()(input_ids=tokens, attention_mask=mask)
            for index in indices:
                targets = pairs[index].continuation
                labels = torch.tensor([targets], device=device)
                logits = model(encoder_outputs=encoded, attention_mask=mask, labels=labels).logits[0]
                values, greedy = log_probabilities(logits, range(len(targets)), targets)
                yield index, (float(values.sum()), bool(greedy.all()))
