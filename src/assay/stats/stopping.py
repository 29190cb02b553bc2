"""When a run may stop: `--until ci=0.01`, `--until "decided vs RUN"`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from assay.errors import ConfigError
from assay.stats.estimate import Floats
from assay.stats.sequential import ConfidenceSequence, DiscordantEvidence

_CI = re.compile(r"ci\s*=\s*±?(?P<width>[0-9.eE+-]+)\s*(?P<percent>%|pt)?")
_DECIDED = re.compile(r"decided\s+vs\s+(?P<run>.+?)(?:\s+margin\s*=\s*(?P<margin>[0-9.eE+-]+))?")


@dataclass
class StoppingRule:
    """Fed with the scores of each doc once, in a random order; says when to stop and why.

    One rule watches one task: `fresh()` makes another with the same words.
    """

    text: str
    width: float | None = None
    baseline: str | None = None
    margin: float | None = None
    alpha: float = 0.05
    n: int = 0
    _interval: ConfidenceSequence | None = field(default=None, repr=False)
    _flips: DiscordantEvidence | None = field(default=None, repr=False)
    _score: ConfidenceSequence | None = field(default=None, repr=False)
    """Of the score itself, while the rule looks at differences."""

    @classmethod
    def parse(cls, text: str, *, alpha: float = 0.05) -> StoppingRule:
        """`ci=0.01` (half-width; also `ci=1pt`), or `decided vs RUN [margin=0.02]`.

        >>> StoppingRule.parse("ci=1pt").width
        0.01
        >>> StoppingRule.parse("decided vs runs/base margin=0.02").baseline
        'runs/base'
        """
        words = text.strip()
        if match := _CI.fullmatch(words):
            width = _number(match["width"], text) / (100 if match["percent"] else 1)
            if not 0 < width < 0.5:
                raise ConfigError(f"--until {text!r}: the half-width must lie between 0 and 0.5", hint="Try ci=0.01.")
            return cls(text, width=width, alpha=alpha)
        if match := _DECIDED.fullmatch(words):
            margin = _number(match["margin"], text) if match["margin"] else None
            if margin is not None and not 0 < margin < 1:
                raise ConfigError(f"--until {text!r}: the margin must lie between 0 and 1", hint="Try margin=0.02.")
            return cls(text, baseline=match["run"].strip("'\""), margin=margin, alpha=alpha)
        raise ConfigError(
            f"--until {text!r} is not understood", hint='Say ci=0.01 (half-width of the interval) or "decided vs RUN".'
        )

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the score, valid whenever one looks; None before the first doc. A fixed-n interval is not, after a stop."""
        watched = self._interval if self.width is not None else self._score
        return None if watched is None else watched.interval

    def fresh(self) -> StoppingRule:
        return StoppingRule(self.text, self.width, self.baseline, self.margin, self.alpha)

    def update(self, scores: Floats, baseline: Floats | None = None) -> str | None:
        """Take in the scores of further docs (and the baseline's on the same docs); the reason to stop, or None."""
        values = np.asarray(scores, dtype=np.float64)
        if values.size and not (np.nanmin(values) >= 0 and np.nanmax(values) <= 1):
            raise ConfigError(
                f"--until {self.text!r} needs scores in [0, 1], got {np.nanmin(values):g} to {np.nanmax(values):g}",
                hint="Name a metric such as acc or exact_match, or leave --until out for this task.",
            )
        if self.width is not None:
            return self._until_narrow(values[~np.isnan(values)])
        if baseline is None:
            raise ConfigError(f"--until {self.text!r} needs the scores of {self.baseline} on the same docs")
        pair = np.asarray(baseline, dtype=np.float64)
        both = ~(np.isnan(values) | np.isnan(pair))
        return self._until_decided(values[both], pair[both])

    def _until_narrow(self, values: Floats) -> str | None:
        assert self.width is not None
        if self._interval is None:
            self._interval = ConfidenceSequence(width=self.width, level=1 - self.alpha)
        self._interval.update(values)
        self.n += len(values)
        if self._interval.half_width > self.width:
            return None
        low, high = self._interval.interval
        return f"interval [{low:.4f}, {high:.4f}] is within ±{self.width:g} after {self.n} docs"

    def _until_decided(self, b: Floats, a: Floats) -> str | None:
        self.n += len(a)
        binary = bool(np.isin(a, (0.0, 1.0)).all() and np.isin(b, (0.0, 1.0)).all())
        if self._interval is None:
            # Differences lie in [−1, 1]; the sequence lives on [0, 1], where no difference is one half.
            wanted = self.margin if self.margin is not None else 0.05
            self._interval = ConfidenceSequence(width=wanted / 2, level=1 - self.alpha / (2 if self.margin else 1))
            self._flips = DiscordantEvidence()
            self._score = ConfidenceSequence(width=0.05, level=1 - self.alpha)
        assert self._score is not None
        self._score.update(b)
        if not binary and self._flips is not None:
            self._flips = None
        return self._decision(a, b)

    def _decision(self, a: Floats, b: Floats) -> str | None:
        assert self._interval is not None
        # Two ways to end share the error rate between them.
        alpha = self.alpha / 2 if self.margin is not None else self.alpha
        if self._flips is not None:
            self._flips.update(a, b)
            if self._flips.p_value <= alpha:
                word = "better" if self._flips.gained > self._flips.lost else "worse"
                return f"{word} than {self.baseline} after {self.n} docs (anytime p = {self._flips.p_value:.2g})"
        if self._flips is None or self.margin is not None:
            self._interval.update((1 + b - a) / 2)
            low, high = (2 * end - 1 for end in self._interval.interval)
            if self._flips is None and (low > 0 or high < 0):
                word = "better" if low > 0 else "worse"
                return f"{word} than {self.baseline} after {self.n} docs (difference in [{low:.4f}, {high:.4f}])"
            if self.margin is not None and max(abs(low), abs(high)) < self.margin:
                return f"no difference larger than {self.margin:g} to {self.baseline} after {self.n} docs"
        return None


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--until {whole!r}: {text!r} is not a number", hint="Try ci=0.01.") from None
