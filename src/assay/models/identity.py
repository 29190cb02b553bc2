"""Which model is behind an address? What it says of itself, and what it answers to a handful of fixed probes.

Two models can say the same of themselves, and one model need not answer the same twice: its sums depend on what else it
computes. So the probes are sent three times at first, and a later reply counts as another model's only where it is
further from the earlier ones than those are from each other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, product
from typing import Any

PROBES = (
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):",
    "12 + 7 * 3 =",
    "Die Hauptstadt von Österreich heißt",
)
PROBE_TOKENS = 12
TIMES_AT_FIRST = 3
ROUNDING = 0.005
"""Difference in log-probability of one probe that is nobody's: servers round what they write."""


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """A greedy answer, and the log-probabilities of the likeliest tokens at its first places, where they were given."""

    text: str
    tops: tuple[Mapping[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """What one model was found to be. `replies[i]` are the replies to probe i, each time it was sent."""

    says: Mapping[str, Any] = field(default_factory=dict)
    """Of itself: what it is called, whose it is, how much it reads."""
    builds: tuple[str, ...] = ()
    """`system_fingerprint` of its replies; behind one address there may be several."""
    replies: tuple[tuple[ProbeReply, ...], ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether every probe was answered: what a model says of itself alone does not tell it from another."""
        return bool(self.replies) and all(self.replies)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Identity:
        stored = json.loads(text)
        replies = [[ProbeReply(r["text"], tuple(r["tops"])) for r in times] for times in stored["replies"]]
        return cls(stored["says"], tuple(stored["builds"]), tuple(map(tuple, replies)))

    def joined(self, other: Identity) -> Identity:
        """The same model, probed more often."""
        return Identity(
            {**self.says, **other.says},
            tuple(dict.fromkeys([*self.builds, *other.builds])),
            tuple((*a, *b) for a, b in zip(self.replies, other.replies)),
        )


def difference(one: Identity, two: Identity) -> str | None:
    """Why these are two models; None where nothing tells them apart."""
    for name in sorted(one.says.keys() & two.says.keys()):
        if one.says[name] != two.says[name]:
            return f"its {name} was {one.says[name]} and is now {two.says[name]}"
    if one.builds and two.builds and not set(one.builds) & set(two.builds):
        return f"its system_fingerprint was {', '.join(one.builds)} and is now {', '.join(two.builds)}"
    pairs = list(zip(one.replies, two.replies))
    gaps = [min(distance(a, b) for a, b in product(before, now)) for before, now in pairs]
    # Over all probes together: with a server that varies, one probe alone would raise the alarm too often.
    allowed = sum(max(spread(before), spread(now)) + ROUNDING for before, now in pairs)
    if sum(gaps) <= allowed:
        return None
    worst = max(range(len(gaps)), key=gaps.__getitem__)
    before, now = pairs[worst]
    return f"to the probe {PROBES[worst]!r} it answered {before[0].text!r} and now {now[0].text!r}"


def spread(replies: Sequence[ProbeReply]) -> float:
    """How far the replies to one probe are from each other."""
    return max((distance(a, b) for a, b in combinations(replies, 2)), default=0.0)


def distance(one: ProbeReply, two: ProbeReply) -> float:
    """0 for the same text and log-probabilities: the share of the text that differs, and the mean difference of
    log-probabilities at the places before the answers part.
    """
    same = next((i for i, (a, b) in enumerate(zip(one.text, two.text)) if a != b), min(len(one.text), len(two.text)))
    apart = 1 - same / max(len(one.text), len(two.text), 1) if one.text != two.text else 0.0
    for a, b in zip(one.tops, two.tops):
        shared = [abs(a[token] - b[token]) for token in a.keys() & b.keys()]
        # Tokens at the end of the list come and go; the likeliest ones do not, unless the models differ.
        apart += sum(shared) / len(shared) if shared else 1.0
        if not a or not b or max(a, key=a.__getitem__) != max(b, key=b.__getitem__):
            break
    return apart if math.isfinite(apart) else 1.0
