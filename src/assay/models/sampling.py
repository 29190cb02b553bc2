"""One token drawn from a distribution, for backends that decode by themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.models.generation import GenerationSettings, draw_seed


def draw_generator(seed: int, context: bytes, draw: int) -> np.random.Generator:
    return np.random.default_rng(draw_seed(seed, context, draw))


def choose_token(logits: NDArray[np.floating], settings: GenerationSettings, generator: np.random.Generator) -> int:
    """The most likely token, or a draw."""
    return int(logits.argmax()) if settings.greedy else draw_token(logits, settings, generator.random())


def draw_token(logits: NDArray[np.floating], settings: GenerationSettings, point: float) -> int:
    """A token by inverse transform at `point` in [0, 1), after temperature, top-k, top-p and min-p, in this order.

    Candidates lie in order of falling probability, so equal points give equal tokens unless probabilities really differ.
    """
    scaled = logits.astype(np.float64) / settings.temperature
    probabilities = np.exp(scaled - scaled.max())
    probabilities /= probabilities.sum()
    order = _candidates(probabilities, settings)
    kept = probabilities[order]
    if settings.top_p < 1.0:
        # The token that crosses the threshold stays: without it top_p = 0 would keep none.
        total = kept.sum() if settings.top_k else 1.0
        kept = kept[: int(np.searchsorted(np.cumsum(kept) / total, settings.top_p)) + 1]
    if settings.min_p > 0.0:
        kept = kept[kept >= settings.min_p * kept[0]]
    sums = np.cumsum(kept)
    return int(order[min(int(np.searchsorted(sums, point * sums[-1], side="right")), len(kept) - 1)])


def _candidates(probabilities: NDArray[np.float64], settings: GenerationSettings) -> NDArray[np.int64]:
    """Tokens that can be drawn, most likely first; sorting the whole vocabulary for each token would cost more than the model."""
    size = len(probabilities)
    if settings.top_k and settings.top_k < size:
        # All that tie with the last are in, so that which of them stays does not depend on the partition.
        least = np.partition(probabilities, size - settings.top_k)[size - settings.top_k]
        some = np.flatnonzero(probabilities >= least)
    elif settings.top_p < 1.0:
        # Tokens below this weigh less than 1 - top_p together, so the nucleus is among the others.
        some = np.flatnonzero(probabilities >= (1.0 - settings.top_p) / size)
    else:
        some = np.flatnonzero(probabilities > 0.0)
    order = some[np.argsort(-probabilities[some], kind="stable")]
    return order[: settings.top_k] if settings.top_k else order
