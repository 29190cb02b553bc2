r"""Which choice an answer states: one extractor, a table of rules, and never a guess.

A rule finds places where a choice is *stated*: by its label after words like "the answer is", in a box, in JSON, or by
its text in full. The last statement counts, because models correct themselves. An answer is unparsed where nothing is
stated, where the last statement names two labels without choosing between them, and where it names a label that is not
on offer. A capital letter somewhere in the text is no statement: "I cannot answer this" does not mean option I.

>>> read_choice("First I thought (A). Wait: the answer is (B).", ["Berlin", "Paris"])
Reading(label='B', rule='stated')
>>> read_choice("The answer is A or B.", ["Berlin", "Paris"]) is None
True
>>> read_choice("I cannot answer this.", list("abcdefghij")) is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from assay.errors import ConfigError, DataError
from assay.filters.base import FILTERS
from assay.filters.extraction import Extractor, labels
from assay.instance import Doc


class Reading(NamedTuple):
    """The label that an answer states, and the rule that read it."""

    label: str
    rule: str


def read_choice(text: str, choices: Sequence[str] | int, own_labels: Sequence[str] | None = None) -> Reading | None:
    """The choice that a text states, or None. `choices` are the texts on offer, or how many there are."""
    from assay.filters.statements import NEXT_QUESTION, RULES, Offer, Statement, last_statement, plain_text

    texts = () if isinstance(choices, int) else tuple(choices)
    count = choices if isinstance(choices, int) else len(texts)
    offer = Offer(tuple(own_labels or islice(labels(), count)), texts)
    plain = plain_text(text)
    if new := NEXT_QUESTION.search(plain, 1):  # what follows a new question does not answer this one
        plain = plain[: new.start()]
    last = last_statement([Statement(*found, rule.name) for rule in RULES for found in rule.find(plain, offer)], plain)
    if last is None or len(last.labels) != 1 or last.labels[0] not in offer.labels:
        return None
    return Reading(last.labels[0], last.rule)


# ---------------------------------------------------------------------- the filter


@FILTERS.register("choice")
class Choice(Extractor):
    """The label of the choice that each response states.

    `choices` gives the texts on offer: a column of the doc (a list, or a dict with `text`), or a function of the doc.
    `labels` are A, B, C, … unless the task has its own. `give: text` gives the choice's text in place of its label.
    """

    per_doc = True
    takes_lists = True

    def __init__(
        self,
        choices: str | Callable[[Doc], Sequence[str]] = "choices",
        labels: Sequence[str] | None = None,
        fallback: str = "[invalid]",
        give: str = "label",
    ) -> None:
        if give not in ("label", "text"):
            raise ConfigError(f"filter choice: give is {give!r}", hint="Use label or text.")
        self.choices, self.labels, self.fallback, self.give = choices, labels, fallback, give

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[list[Any]]:
        return [self._read(entry, self._texts(doc)) for entry, doc in zip(resps, docs, strict=True)]

    def _read(self, entry: Sequence[Any], texts: Sequence[str]) -> list[Any]:
        return [self._read_one(each, texts) if isinstance(each, str) else self.fallback for each in entry]

    def _read_one(self, answer: str, texts: Sequence[str]) -> Any:
        if self.give == "text" and answer.strip() in texts:
            return ReadLabel(answer.strip(), "line")  # also where two choices have the same text
        reading = read_choice(answer, texts, self.labels)
        if reading is None:
            return self.fallback
        if self.give == "label":
            return ReadLabel(*reading)
        named = [*(self.labels or islice(labels(), len(texts)))]
        return ReadLabel(texts[named.index(reading.label)], reading.rule)

    def _texts(self, doc: Doc) -> Sequence[str]:
        if callable(self.choices):
            return self.choices(doc)
        found = doc.get(self.choices)
        if isinstance(found, dict):
            found = found.get("text")
        if not isinstance(found, list | tuple):
            raise DataError(
                f"filter choice: the doc has no list of choices in the column {self.choices!r}",
                hint=f"Name the column with `choices:`. There are: {', '.join(sorted(doc))}.",
            )
        return [str(each) for each in found]


class ReadLabel(str):
    """A label that knows the rule it was read by; every filter and metric takes it for the text that it is."""

    rule: str

    def __new__(cls, label: str, rule: str = "") -> ReadLabel:
        made = super().__new__(cls, label)
        made.rule = rule
        return made
