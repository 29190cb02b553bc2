"""Words of the package wonderwords, which RULER draws from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from itertools import accumulate

from assay.errors import MissingPackage


class Pairs:
    """All `adjective-noun`, sorted, without the six million texts that they would be.

    Only those of adjectives that begin alike (`wide`, `wide-eyed`) can stand between each other: they are made when one is
    looked up.

    >>> list(Pairs(["wide-eyed", "wide", "small"], ["end", "fly"]))
    ['small-end', 'small-fly', 'wide-end', 'wide-eyed-end', 'wide-eyed-fly', 'wide-fly']
    """

    def __init__(self, adjectives: Iterable[str], nouns: Iterable[str]) -> None:
        self._nouns = sorted(set(nouns))
        self._alike: list[list[str]] = []
        for first in sorted(f"{each}-" for each in set(adjectives)):
            if self._alike and first.startswith(self._alike[-1][0]):
                self._alike[-1].append(first)
            else:
                self._alike.append([first])
        sizes = (
            len(self._nouns) if len(firsts) == 1 else len(self._texts(at)) for at, firsts in enumerate(self._alike)
        )
        self._ends = [*accumulate(sizes)]

    def _texts(self, at: int) -> list[str]:
        return sorted({f"{first}{noun}" for first in self._alike[at] for noun in self._nouns})

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> str:
        if not 0 <= index < len(self):
            raise IndexError(index)
        at = bisect_right(self._ends, index)
        begin = self._ends[at - 1] if at else 0
        if len(self._alike[at]) == 1:
            return f"{self._alike[at][0]}{self._nouns[index - begin]}"
        return self._texts(at)[index - begin]


@cache
def words_of(*kinds: str) -> tuple[str, ...]:
    """All nouns, verbs or adjectives, sorted."""
    try:
        from wonderwords import RandomWord
    except ModuleNotFoundError:
        raise MissingPackage(
            "RULER's words are those of the package wonderwords, which is not installed",
            hint="pip install wonderwords",
            package="wonderwords",
        ) from None
    return tuple(sorted(RandomWord().filter(include_categories=list(kinds))))


@cache
def adjective_nouns() -> Pairs:
    return Pairs(words_of("adjective"), words_of("noun"))
