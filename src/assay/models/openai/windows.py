"""Cutting a long text into windows for rolling likelihoods."""

from __future__ import annotations

from assay.errors import ConfigError


def rolling_windows(tokens: list[int], prefix: int | None, length: int) -> list[tuple[list[int], list[int]]]:
    """(context, scored) pairs: every token is scored once, the last window with as much context as fits.

    Ten tokens in windows of four:

        [P] | 0 1 2 3      [3] | 4 5 6 7      [5 6 7] | 8 9

    >>> rolling_windows(list(range(10)), -1, 4)
    [([-1], [0, 1, 2, 3]), ([3], [4, 5, 6, 7]), ([5, 6, 7], [8, 9])]
    """
    if prefix is None:
        raise ConfigError("the tokenizer has neither BOS nor EOS to stand before a text")
    windows = [([prefix], tokens[:length])] if tokens else []
    for start in range(length, len(tokens), length):
        end = min(start + length, len(tokens))
        windows.append((tokens[end - length - 1 : start], tokens[start:end]))
    return windows
