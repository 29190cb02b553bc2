"""CommitmentBank has few docs and three unequal classes: its second score is the mean F1 of the classes."""

from __future__ import annotations

from collections.abc import Sequence


def macro_f1(pairs: Sequence[tuple[int, int]]) -> float:
    """Mean over the three classes of the F1 of (gold, predicted) pairs; a class that never occurs counts as zero.

    >>> macro_f1([(0, 0), (1, 1), (2, 2)]), round(macro_f1([(0, 0), (1, 0), (2, 2)]), 3)
    (1.0, 0.556)
    """
    return sum(_f1(pairs, label) for label in range(3)) / 3


def _f1(pairs: Sequence[tuple[int, int]], label: int) -> float:
    right = sum(gold == predicted == label for gold, predicted in pairs)
    marked = sum((gold == label) + (predicted == label) for gold, predicted in pairs)
    return 2 * right / marked if marked else 0.0
