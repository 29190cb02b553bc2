"""Cutting a long text into windows for rolling likelihoods, and adding up what comes back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from assay.errors import ConfigError
from assay.instance import Response


def rolling_windows(tokens: Sequence[int], prefix: int | None, length: int) -> list[tuple[list[int], list[int]]]:
    """(context, scored) pairs: every token is scored once, with as much context as fits but at least one token.

    Ten tokens in windows of four; what the model reads is the context and all but the last of what is scored:

        [P] | 0 1 2 3      [3] | 4 5 6 7      [5 6 7] | 8 9

    >>> rolling_windows(range(10), -1, 4)
    [([-1], [0, 1, 2, 3]), ([3], [4, 5, 6, 7]), ([5, 6, 7], [8, 9])]
    """
    if prefix is None:
        raise ConfigError("the tokenizer has neither a BOS nor an EOS token to put before a text")
    if length < 1:
        raise ConfigError("max_length leaves no room for a token to score", hint="Raise max_length.")
    windows = [([prefix], list(tokens[:length]))] if len(tokens) else []
    for start in range(length, len(tokens), length):
        end = min(start + length, len(tokens))
        windows.append((list(tokens[end - length - 1 : start]), list(tokens[start:end])))
    return windows


class WindowSums:
    """Answers of windows, in any order, to answers of texts.

    Added up in the order of the text: sums of floats depend on their order, and the order of arrival on the weather.
    """

    def __init__(self, owners: Sequence[int]) -> None:
        """`owners[i]` is the text that window `i` is of."""
        self._owners = owners
        self._answers: dict[int, dict[int, Response]] = defaultdict(dict)
        self._missing: dict[int, int] = defaultdict(int)
        for owner in owners:
            self._missing[owner] += 1

    def add(self, window: int, answer: Response) -> tuple[int, Response] | None:
        """The text and its answer, when this was the last of its windows."""
        owner = self._owners[window]
        self._answers[owner][window] = answer
        self._missing[owner] -= 1
        if self._missing[owner]:
            return None
        answers = [one for _, one in sorted(self._answers.pop(owner).items())]
        failure = next((one.failure for one in answers if one.failure is not None), None)
        if failure is not None:
            return owner, Response(None, failure=failure)
        total = sum(one.answer[0] for one in answers)
        return owner, Response(total, tokens=(0, sum(one.tokens[1] for one in answers if one.tokens)))
