"""Where the right choice stands: docs that always have it at one place measure whether a model likes that place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from assay.data import doc_hash
from assay.errors import DataError
from assay.instance import Doc
from assay.tasks.perturbation import choice_order

RARE = 1e-6
"""How seldom chance would put the right choice so often at one place, for the docs to be called one-sided."""
_ORDINALS = ("first", "second", "third", "fourth", "fifth")


@dataclass(frozen=True)
class OneSided:
    """The place at which the right choice stands far more often than chance would have it."""

    place: int
    count: int
    docs: int

    def __str__(self) -> str:
        """
        >>> str(OneSided(0, 240, 240)), str(OneSided(7, 90, 100))
        ('the first in all 240 docs', 'number 8 in 90 of 100 docs')
        """
        place = f"the {_ORDINALS[self.place]}" if self.place < len(_ORDINALS) else f"number {self.place + 1}"
        return f"{place} in {'all ' if self.count == self.docs else f'{self.count:,} of '}{self.docs:,} docs"


def one_sided(places: Iterable[tuple[int, int]]) -> OneSided | None:
    """What is one-sided about pairs of (place of the right choice, number of choices), by an exact binomial test.

    >>> one_sided([(0, 2)] * 20)
    OneSided(place=0, count=20, docs=20)
    >>> one_sided([(0, 2)] * 19) is None, one_sided([(i % 4, 4) for i in range(1000)]) is None
    (True, True)
    """
    known = [(place, choices) for place, choices in places if choices > 1 and 0 <= place < choices]
    if not known:
        return None
    ((place, count),) = Counter(place for place, _ in known).most_common(1)
    from scipy.stats import binom

    guessed = sum(1 / choices for _, choices in known) / len(known)
    chance = float(binom.sf(count - 1, len(known), guessed))
    return OneSided(place, count, len(known)) if chance < RARE else None


@dataclass
class ShuffledQuestions:
    """Questions whose choices stand in an order by a hash of the doc, where the docs as they are would be one-sided.

    The docs are all of the split, whatever part of it is asked; without them, questions stay as they are.
    """

    questions: Callable[[Doc], Any]
    said: bool | None = None
    """What the task's file says."""
    found: OneSided | None = field(default=None, init=False, compare=False)
    docs: Callable[[], Iterable[Doc]] | None = field(default=None, init=False, compare=False, repr=False)
    _is_on: bool | None = field(default=None, init=False, compare=False, repr=False)

    def __hash__(self) -> int:
        return hash((self.questions, self.said))

    @property
    def is_on(self) -> bool:
        """Whether the order is another one; settled when first asked, by the docs."""
        if self.said is not None:
            return self.said
        if self._is_on is None:
            if self.docs is None:
                return False
            self._is_on = False  # where reading the docs comes back to here
            self.found = one_sided(self._places(self.docs()))
            self._is_on = self.found is not None
        return self._is_on

    def _places(self, docs: Iterable[Doc]) -> Iterator[tuple[int, int]]:
        for doc in docs:
            with suppress(DataError):  # several right choices, or none: its own turn comes, and says so
                question = self.questions(doc)
                yield question.correct_index, len(question.choices)

    def settle(self, is_on: bool) -> None:
        """Take over what an earlier run settled by all docs."""
        self._is_on = is_on

    def __call__(self, doc: Doc) -> Any:
        question = self.questions(doc)
        if not self.is_on:
            return question
        choices: Sequence[str] = question.choices
        order = choice_order(len(choices), f"{doc_hash(doc)}:shuffle_choices")
        gold = question.correct_index
        # An index that names no choice goes on naming none.
        return question._replace(
            choices=[choices[i] for i in order], correct_index=order.index(gold) if gold in order else gold
        )
