"""At load: does the tree give what plain scoring gives? Where it does not, the model is scored plainly."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from assay.models.hf.attention import UnsupportedAttention
from assay.models.hf.budget import is_out_of_memory
from assay.models.hf.scoring import score_by_tree, score_plainly
from assay.models.hf.tokenization import Scored
from assay.models.hf.tree import TreeRunner

_TOLERANCE = {torch.float64: 1e-6, torch.float32: 3e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""Largest difference in log-likelihood per token that rounding explains. A wrong mask misses it by far."""


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """The largest difference between the two ways, or why the tree could not be tried."""

    passed: bool
    difference: float | None = None
    reason: str | None = None


def self_check(model: Any) -> SelfCheck:
    requests = probe_requests(model.get_input_embeddings().weight.shape[0])
    kinds = set(getattr(getattr(model.config, "text_config", None) or model.config, "layer_types", None) or ())
    if unknown := kinds - {"full_attention", "sliding_attention", "chunked_attention"}:
        return SelfCheck(False, reason=f"it has {', '.join(sorted(unknown))} layers")
    plain = dict(score_plainly(model, requests, budget=64))
    try:
        # A budget this small makes the schedule keep chains, hang blocks from them and cut back again.
        tree = dict(score_by_tree(TreeRunner(model), requests, budget=12))
    except UnsupportedAttention as error:
        return SelfCheck(False, reason=str(error))
    except Exception as error:
        if is_out_of_memory(error):
            raise
        # Whatever a model's own code raises when it is run in this way, plain scoring is right for it.
        return SelfCheck(False, reason=f"{type(error).__name__}: {str(error)[:200]}")
    differences = [
        abs(tree[index][0] - plain[index][0]) / len(request.targets) for index, request in enumerate(requests)
    ]
    difference = float(np.max(differences))  # unlike Python's max, NaN if any of them is
    if not difference <= _TOLERANCE.get(model.dtype, 3e-4):
        return SelfCheck(False, difference, f"log-likelihoods differ by up to {difference:.2g} per token")
    return SelfCheck(True, difference)


def tree_length(config: Any) -> int:
    """Longest sequence for the tree.

    Some models scale their rotary embedding by the longest position of a pass, and a pass of the tree holds sequences of
    many lengths. Up to the length they were trained on all are scaled alike.
    """
    config = getattr(config, "text_config", None) or config
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if rope.get("rope_type") not in ("dynamic", "longrope"):
        return sys.maxsize
    trained = rope.get("original_max_position_embeddings") or getattr(config, "original_max_position_embeddings", None)
    return int(trained or config.max_position_embeddings)


def probe_requests(vocabulary: int) -> Sequence[Scored]:
    """Sequences of arbitrary tokens that share prefixes of several lengths."""
    draw = random.Random(0)

    def some(count: int) -> list[int]:
        return [draw.randrange(vocabulary) for _ in range(count)]

    shared = some(7)
    requests = []
    for _ in range(3):
        question = shared + some(6)
        for length in (1, 3, 4):
            answer = some(length)
            requests.append(Scored((question + answer)[:-1], answer))
    alone = some(20)
    return [*requests, Scored(alone[:-1], alone[-5:])]
