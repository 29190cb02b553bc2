"""How many docs a question takes, and what the docs at hand can answer (Miller 2024)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from assay.stats.significance import normal_quantile


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
