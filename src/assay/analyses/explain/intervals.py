"""How far a share may be from what it is worth on all docs of the kind: every interval of an explanation is made here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.analyses.compare import Floats
from assay.stats import Clusters, Estimate, mean_estimate, paired_difference, unpaired_difference


def share_estimate(part: Floats, clusters: Clusters | None, bounded: bool) -> Estimate:
    """The mean of what a cause adds to each doc's difference.

    Few flips say little, and none at all do not say zero: as in a comparison, the interval is Tango's where a doc flips or
    does not, and else Student's t, widened for skewness. `bounded`: whether scores lie in [0, 1].
    """
    part = np.round(part, 12)  # a doc that flips is a whole one, whatever the average over orders made of it
    if not bounded and not part.any():
        return Estimate.bare(0.0, len(part), "no doc changed, and the scores have no limits")
    return paired_difference(np.maximum(-part, 0.0), np.maximum(part, 0.0), clusters).estimate


@dataclass(frozen=True)
class Alone:
    """The docs of one run: those that the other has too, and those that it has not."""

    common: Floats
    rest: Floats
    common_clusters: Clusters | None
    rest_clusters: Clusters | None

    @property
    def part(self) -> float:
        return len(self.rest) / (len(self.rest) + len(self.common))


def docs_estimate(sides: Sequence[Alone]) -> Estimate:
    """How far docs that only one run has move B − A, from those of A and of B.

    A mean is moved by the difference of both kinds, as far as their share goes. What the two runs have in common moves both
    alike, and clusters may reach into both kinds: either makes the true error smaller than this one.
    """
    value, squares, n = 0.0, [0.0, 0.0, 0.0], 0
    known = True
    for sign, side in zip((-1, 1), sides, strict=True):
        if len(side.rest) == 0:
            continue
        n += len(side.rest)
        moved = unpaired_difference(
            mean_estimate(side.common, side.common_clusters), mean_estimate(side.rest, side.rest_clusters)
        ).estimate
        assert moved.value is not None
        value += sign * side.part * moved.value
        if moved.stderr is None or moved.low is None or moved.high is None:
            known = False
            continue
        reaches = (moved.value - moved.low, moved.high - moved.value)[::sign]
        for at, reach in enumerate((moved.stderr, *reaches)):
            squares[at] += (side.part * reach) ** 2
    if not known:
        return Estimate.bare(value, n, "too few docs")
    stderr, below, above = map(math.sqrt, squares)
    return Estimate(value, stderr, value - below, value + above, n, "difference of means")
