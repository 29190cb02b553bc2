"""How many docs a question takes, and what the docs at hand can answer.

Of a comparison (Miller 2024), of a random look for answers that were changed, and of a choice of few docs in place of all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.stats.estimate import Floats
from assay.stats.intervals import normal_quantile


@dataclass(frozen=True)
class PairedNoise:
    """Where the variance of a paired difference comes from.

    `between` is the variance over docs of the true difference, `within_a` and `within_b` the mean variance of one draw
    of a doc around its own mean; the latter shrink with repeats. `floor` is what servers add to the variance of the
    difference itself, however many docs there are.
    """

    between: float
    within_a: float = 0.0
    within_b: float = 0.0
    floor: float = 0.0

    def per_doc(self, repeats_a: float = 1, repeats_b: float = 1) -> float:
        return self.between + self.within_a / repeats_a + self.within_b / repeats_b


def docs_needed(
    effect: float,
    noise: PairedNoise,
    *,
    repeats_a: float = 1,
    repeats_b: float = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int | None:
    """Docs at which a true difference of `effect` is found with this power by a two-sided test; None if no number would.

    >>> docs_needed(0.03, PairedNoise(1 / 9, 1 / 6, 1 / 6))
    3876
    """
    if effect == 0:
        raise ValueError("no number of docs shows a difference of 0")
    reach = normal_quantile(1 - alpha / 2) + normal_quantile(power)
    # To the nearest doc, as published tables have it; the power is off by less than one part in a thousand.
    room = effect**2 / reach**2 - noise.floor
    return max(1, round(noise.per_doc(repeats_a, repeats_b) / room)) if room > 0 else None


def detectable_effect(
    n: int,
    noise: PairedNoise,
    *,
    repeats_a: float = 1,
    repeats_b: float = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """The smallest true difference that `n` docs show with this power."""
    reach = normal_quantile(1 - alpha / 2) + normal_quantile(power)
    return reach * math.sqrt(noise.per_doc(repeats_a, repeats_b) / n + noise.floor)


def repeats_needed(effect: float, n: int, noise: PairedNoise, *, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Draws of each doc, in both runs, at which `n` docs show `effect`; None if no number of draws would."""
    reach = normal_quantile(1 - alpha / 2) + normal_quantile(power)
    room = n * (effect**2 / reach**2 - noise.floor) - noise.between
    within = noise.within_a + noise.within_b
    if room <= 0:
        return None
    return max(1, math.ceil(within / room))


# Would it have been seen?


def chance_to_see(total: int, drawn: int, changed: int) -> float:
    """The probability that at least one of `changed` among `total` docs is among `drawn` that are drawn at random.

    Without replacement, so it is at least 1 - (1 - p)^k.

    >>> chance_to_see(1000, 50, 100) > 1 - 0.9**50
    True
    >>> chance_to_see(10, 10, 1), chance_to_see(10, 3, 0)
    (1.0, 0.0)
    """
    if not 0 <= drawn <= total or not 0 <= changed <= total:
        raise ValueError(f"{drawn} drawn and {changed} changed of {total}")
    unseen = 1.0
    for place in range(drawn):
        unseen *= max(0, total - changed - place) / (total - place)
    return 1.0 - unseen


def smallest_seen(total: int, drawn: int, level: float = 0.95) -> int | None:
    """The fewest changed docs that would have been seen with at least this probability; None where none would.

    >>> smallest_seen(1000, 50)
    57
    """
    if drawn == 0:
        return None
    low, high = 1, total
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if chance_to_see(total, drawn, middle) >= level else (middle + 1, high)
    return low


def odd_one_out(kept_odd: int, odd: int, replays: int) -> float:
    """How often noise alone would give so many docs whose stored answer is the odd one out.

    A stored answer and `replays` new ones of a server that was left alone are exchangeable: where exactly one of them differs
    from all others, it is the stored one in 1 of `replays + 1` cases, however noisy the server is. The value is the upper tail of
    that binomial distribution.

    >>> odd_one_out(1, 1, 2), round(odd_one_out(3, 3, 2), 4), odd_one_out(0, 5, 2)
    (0.3333333333333333, 0.037, 1.0)
    """
    share = 1 / (replays + 1)
    tail = range(kept_odd, odd + 1)
    return min(1.0, math.fsum(math.comb(odd, j) * share**j * (1 - share) ** (odd - j) for j in tail))


# How few docs would do?
#
# Docs chosen because they separated the runs at hand look better than they are: the choice and the calibration fit those
# runs. So each run in turn is left out of both, and its error is what a new run's would be. If a new run is to the earlier
# ones as they are to each other (exchangeable), the interval from those errors holds about at its level. It is a jackknife: what is
# proven for every way to choose is only 1 − 2α (cross-conformal; Vovk 2015, Barber et al. 2021).

SHARES = (1.0, 0.7, 0.4)
"""Of the docs by how well they separate runs: the shares from which to choose. Which is best, the runs decide."""
FEWEST_RUNS = 5
_FOLDS = 5


@dataclass(frozen=True)
class ThinDocs:
    """A choice of docs, how a mean on them becomes a score on all, and how far off that may be."""

    docs: NDArray[np.int64]
    share: float
    intercept: float
    slope: float
    errors: Floats
    """Of each run, where it was left out of the choice: predicted − actual."""
    level: float

    @property
    def half_width(self) -> float | None:
        """None with too few runs: at 95 % it takes 19."""
        return conformal_width(self.errors, self.level)


def conformal_width(errors: Floats, level: float) -> float | None:
    """The smallest width that holds a further error of the same kind with this probability; None where none does.

    >>> conformal_width(np.arange(1.0, 20.0), 0.95), conformal_width(np.arange(1.0, 10.0), 0.95)
    (19.0, None)
    """
    place = math.ceil((len(errors) + 1) * level - 1e-9)
    return None if place > len(errors) else float(np.sort(np.abs(errors))[place - 1])


def thin_docs(values: Floats, count: int, *, level: float = 0.95) -> ThinDocs:
    """The `count` docs on which to run a new model. `values` is [runs, docs] without gaps."""
    runs, docs = values.shape
    if runs < FEWEST_RUNS or not 0 < count < docs:
        raise ValueError(f"{runs} runs and {count} of {docs} docs")
    errors = np.array([_left_out(values, run, count) for run in range(runs)])
    share = _best_share(values, count)
    chosen = _choose(values, count, share)
    intercept, slope = _calibrate(values, chosen)
    return ThinDocs(np.sort(chosen), share, intercept, slope, errors, level)


def _left_out(values: Floats, run: int, count: int) -> float:
    """The error on a run that neither the docs, nor the share, nor the calibration have seen."""
    others = np.delete(values, run, axis=0)
    docs = _choose(others, count, _best_share(others, count))
    intercept, slope = _calibrate(others, docs)
    return float(intercept + slope * values[run, docs].mean() - values[run].mean())


def _best_share(values: Floats, count: int) -> float:
    """By cross-fitting among these runs alone."""
    shares = [share for share in SHARES if share * values.shape[1] >= count] or [1.0]
    if len(shares) == 1:
        return shares[0]
    fold = np.arange(len(values)) % min(_FOLDS, len(values))
    losses = []
    for share in shares:
        loss = 0.0
        for part in np.unique(fold):
            earlier = values[fold != part]
            docs = _choose(earlier, count, share)
            intercept, slope = _calibrate(earlier, docs)
            held = values[fold == part]
            loss += float(((intercept + slope * held[:, docs].mean(axis=1) - held.mean(axis=1)) ** 2).sum())
        losses.append(loss)
    return shares[int(np.argmin(losses))]


def _choose(values: Floats, count: int, share: float) -> NDArray[np.int64]:
    """From the docs that best tell good runs from bad ones, evenly from the easiest to the hardest."""
    score = values.mean(axis=1)
    ease = values.mean(axis=0)
    separation = (score - score.mean()) @ (values - ease)
    pool = np.argsort(-separation, kind="stable")[: max(count, round(share * values.shape[1]))]
    pool = pool[np.lexsort((pool, ease[pool]))]
    return np.asarray(pool[((np.arange(count) + 0.5) * len(pool) / count).astype(np.int64)], dtype=np.int64)


def _calibrate(values: Floats, docs: NDArray[np.int64]) -> tuple[float, float]:
    """The line from a run's mean on these docs to its score on all."""
    part, score = values[:, docs].mean(axis=1), values.mean(axis=1)
    away = part - part.mean()
    # Runs that do not differ on these docs say nothing about a slope.
    slope = float(away @ (score - score.mean()) / (away @ away)) if away @ away > 0 else 0.0
    return float(score.mean() - slope * part.mean()), slope
