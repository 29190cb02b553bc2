"""Speculative decoding without a second model: n-gram prompt lookup drafts tokens, and one pass verifies them.

A pass over one token of each row costs nearly as much as one over several: most of it is reading the weights. So a row
brings a draft along, and whatever of it turns out to be what the row would have said is already computed. Answers copy
from their question, follow the examples and repeat themselves, so the draft is what followed the last time:

    … 5 hours / week = 250 hours / year * 5 hours      said so far
      ───────              ────────────   ───────      the last tokens stood here before
                         ▸ / week = 250 …              the draft

Drafted tokens that are not accepted are thrown away. What is said does not depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence

_SIZES = (3, 2)
"""So many last tokens are looked up, the longer ones first."""
_FIRST, _MOST = 4, 16
_MOST_MISSES = 5
_REMEMBERED = 4096
"""Tokens of a prompt that are looked at, from its end."""


class NgramDrafter:
    """What one row has read and said, by its runs of tokens.

    >>> drafter = NgramDrafter([1, 2, 3, 4, 1, 2])
    >>> drafter.draft(3)
    [3, 4, 1]
    >>> drafter.say(9)
    >>> drafter.draft(3)
    []
    """

    def __init__(self, prompt: Sequence[int]) -> None:
        self._tokens: list[int] = []
        self._following: dict[tuple[int, ...], int] = {}
        """Run of tokens → the place after its last occurrence, once there is a token there."""
        self._reach = _FIRST
        self._misses = self._resting = 0
        """Drafts in a row of which nothing was right, and passes for which no further one is tried."""
        for token in prompt[-_REMEMBERED:]:
            self.say(token)

    def say(self, token: int) -> None:
        for size in _SIZES:
            if len(self._tokens) >= size:
                self._following[tuple(self._tokens[-size:])] = len(self._tokens)
        self._tokens.append(token)

    def draft(self, most: int) -> list[int]:
        """At most so many tokens, and no more than it is worth."""
        if self._resting:
            self._resting -= 1
            return []
        tokens = self._tokens
        runs = (tuple(tokens[-size:]) for size in _SIZES)
        start = next((self._following[run] for run in runs if run in self._following), None)
        draft: list[int] = []
        if start is not None:
            # Past the end of what was said it reads on in itself: a loop is drafted for more than one turn.
            for place in range(start, start + min(most, self._reach)):
                draft.append(tokens[place] if place < len(tokens) else draft[place - len(tokens)])
        return draft

    def learn(self, right: int) -> None:
        """So many tokens of the last draft were right. After each miss it rests twice as long: text that is drawn rarely repeats."""
        self._reach = min(_MOST, 2 * right + 1)
        self._misses = 0 if right else min(_MOST_MISSES, self._misses + 1)
        self._resting = 2**self._misses - 1
