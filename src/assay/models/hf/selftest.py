"""Checks of `assay selftest` that need to look inside a transformers model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from assay.models.hf.engine import HFEngine
from assay.models.hf.scoring import log_probabilities, score_by_tree, score_plainly
from assay.models.hf.selfcheck import SelfCheck
from assay.models.hf.state_scoring import score_by_state
from assay.models.hf.tokenization import Scored, to_scored
from assay.models.info import Check
from assay.models.selftest import QUESTIONS, compare

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.5}


def own_checks(engine: HFEngine, check: SelfCheck, tolerance: float) -> Iterator[Check]:
    if engine.seq2seq:
        return
    pairs = engine.encoder.encode_pairs([(context, choice) for context, choices in QUESTIONS for choice in choices])
    scored = [to_scored(pair, engine.max_length) for pair in pairs]
    plain = _sorted(score_plainly(engine.model, scored, engine.budget.tokens))
    if engine.runner is None:
        yield Check("tree against plain", None, note=f"scored by {check.way}: {check.reason}")
    else:
        for budget in (engine.budget.tokens, 24):
            tree = _sorted(score_by_tree(engine.runner, scored, budget))
            yield compare(f"tree against plain, {budget} tokens per pass", tree, plain, tolerance)
    if engine.states is not None and engine.states.shares:
        state = _sorted(score_by_state(engine.states, scored, engine.budget.tokens))
        yield compare("branched states against plain", state, plain, tolerance)
    one = _sorted(score_plainly(engine.model, scored, 1))
    yield compare("plain, batches of one and many", plain, one, tolerance)
    yield compare("padding on the left and on the right", _left_padded(engine.model, scored), plain, tolerance)


def _sorted(scores: Iterator[tuple[int, Any]]) -> list[float]:
    return [value for _, (value, _) in sorted(scores)]


def _left_padded(model: Any, requests: list[Scored]) -> list[float]:
    """All requests in one batch, padded on the left and masked, as generation does it in other harnesses."""
    width = max(len(request.tokens) for request in requests)
    tokens = torch.zeros((len(requests), width), dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, request in enumerate(requests):
        tokens[row, -len(request.tokens) :] = torch.tensor(request.tokens)
        mask[row, -len(request.tokens) :] = 1
    device = model.get_input_embeddings().weight.device
    positions = (mask.cumsum(-1) - 1).clamp(min=0).to(device)
    with torch.inference_mode():
        output = model(tokens.to(device), attention_mask=mask.to(device), position_ids=positions, use_cache=False)
    values = []
    for row, request in enumerate(requests):
        logits = output.logits[row, -len(request.targets) :]
        values.append(float(log_probabilities(logits, range(len(request.targets)), request.targets)[0].sum()))
    return values
