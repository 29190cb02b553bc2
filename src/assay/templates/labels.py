"""Labels of choices, and the positions that they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import DataError


def get_n_letters(n: int) -> list[str]:
    """Labels of `n` choices: A to Z, then AA, AB, … so that none is cut off.

    >>> get_n_letters(3), get_n_letters(28)[25:]
    (['A', 'B', 'C'], ['Z', 'AA', 'AB'])
    """
    return [_label(position) for position in range(n)]


def _label(position: int) -> str:
    label = ""
    position += 1
    while position:
        position, letter = divmod(position - 1, 26)
        label = chr(ord("A") + letter) + label
    return label


def answer_key_to_index(key: str | int, labels: Sequence[str] | None = None) -> int:
    """The position of an answer key: among the labels if given, else letters count from A and numbers from 1.

    >>> [answer_key_to_index(key) for key in ("A", "c", "1", "4", "AA")], answer_key_to_index("1", ["0", "1"])
    ([0, 2, 0, 3, 26], 1)
    """
    text = str(key).strip()
    if labels is not None:
        if text not in labels:
            raise DataError(f"the answer key is {key!r}, expected one of {', '.join(map(str, labels))}")
        return list(labels).index(text)
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text) - 1
    if not (text.isascii() and text.isalpha()):
        raise DataError(f"the answer key is {key!r}, expected a letter or a number from 1 up")
    position = 0
    for letter in text.upper():
        position = position * 26 + ord(letter) - ord("A") + 1
    return position - 1


def letter_choices(choices: Sequence[str], sep: str = "\n", style: str = ". ") -> str:
    """Choices with their labels: a filter of templates.

    >>> letter_choices(["yes", "no"], sep=" ", style=") ")
    'A) yes B) no'
    """
    return sep.join(f"{label}{style}{choice}" for label, choice in zip(get_n_letters(len(choices)), choices))
