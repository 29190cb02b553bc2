"""Probabilities of the next byte, by Witten-Bell interpolation over contexts of growing length, and draws from them.

    P(b | c₁…cₖ) = (count(c₁…cₖ b) + T · P(b | c₂…cₖ)) / (N + T)

N is how often the context was seen and T how many different bytes followed it; a context never seen leaves the shorter
one's answer as it is. At the bottom is the uniform distribution, so that every byte is possible and each row sums to one.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from assay.models.generation import GenerationSettings, draw_seed

END = 0
"""The byte that begins and ends every text."""

_CACHED = 8192


class ByteNgrams:
    """Counts of a text as sorted arrays: for each length, contexts packed with the byte that followed them."""

    def __init__(self, text: bytes, order: int) -> None:
        self.order = order
        data = np.frombuffer(text, dtype=np.uint8).astype(np.uint64)
        self._levels: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        packed = data.copy()
        for length in range(order):
            if length:
                packed = packed[1:] | (data[: max(0, len(data) - length)] << np.uint64(8 * length))
            values, counts = np.unique(packed, return_counts=True)
            self._levels.append((values, counts))
        self._cache: OrderedDict[bytes, NDArray[np.float64]] = OrderedDict()

    def logprobs(self, context: bytes) -> NDArray[np.float64]:
        """Log-probabilities of all 256 next bytes. Only the last `order - 1` bytes of the context matter."""
        context = context[len(context) - self.order + 1 :] if len(context) >= self.order else context
        known = self._cache.get(context)
        if known is None:
            known = np.log(self._probabilities(context))
            known.flags.writeable = False
            self._cache[context] = known
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return known

    def _probabilities(self, context: bytes) -> NDArray[np.float64]:
        result = np.full(256, 1 / 256)
        for length in range(len(context) + 1):
            values, counts = self._levels[length]
            first = int.from_bytes(context[len(context) - length :], "big") << 8
            # As uint64: a comparison with Python integers would turn the whole array into floats.
            start, stop = np.searchsorted(values, np.array([first, first + 255], dtype=np.uint64), side="left")
            if stop < len(values) and values[stop] == first + 255:
                stop += 1
            if start == stop:
                break  # what follows a longer context was not seen either
            seen = counts[start:stop]
            total, kinds = int(seen.sum()), stop - start
            result *= kinds / (total + kinds)
            result[(values[start:stop] & np.uint64(255)).astype(np.intp)] += seen / (total + kinds)
        return result


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
