"""Where an answer states a choice: the rules, a table with examples, and what stands around a statement.

Its patterns, of phrases in twenty languages, take a while to compile; so this module is imported with the first answer
that is read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from assay.filters.announcements import BY_LABEL, CONNECTIVES, JOINED, KEYS, NEGATED, NEW_QUESTION, STATED, SUPPOSED


class Statement(NamedTuple):
    """One place where labels are stated: one of them, several without a choice between them, or none on offer."""

    start: int
    end: int
    labels: tuple[str, ...]
    rule: str


# ---------------------------------------------------------------------- the text, made even


_WRAPPED = re.compile(r"\\(?:text|textbf|textrm|textit|mathbf|mathrm|mathit|bf|rm)\s*\{([^{}]*)\}")
_BLANK = re.compile(r"(\s{16})\s*?(\s{16})(?!\s)")
"""Long white space says nothing, and patterns would try every part of it."""
_DECORATION = re.compile(r"\*+|`+|\$+|\\[()\[\]]|(?<![A-Za-z0-9])_+|_+(?![A-Za-z0-9])|^[ \t]*[>#]+[ \t]*", re.MULTILINE)


def plain_text(text: str) -> str:
    r"""Without markdown and the wrapping of formulas, wide letters made narrow.

    >>> plain_text(r"## The answer is **Ｂ**, $\text{C}$")
    'The answer is B, C'
    """
    even = _BLANK.sub(r"\1\2", unicodedata.normalize("NFKC", text))
    return _DECORATION.sub("", _WRAPPED.sub(r"\1", even))


_BETWEEN = re.compile(r"[\s\"'“”‘’«»「」『』.,;:!?。！？、，]+")


def bare_text(text: str) -> str:
    """A choice's text as it is compared: without case, quotes, and marks between words.

    >>> bare_text(' "Paris, France." ')
    'paris france'
    """
    return _BETWEEN.sub(" ", plain_text(text).casefold()).strip()


# ---------------------------------------------------------------------- labels


@dataclass(frozen=True)
class Offer:
    """The labels on offer, and the texts behind them where they are known."""

    labels: tuple[str, ...]
    texts: tuple[str, ...] = ()

    @cached_property
    def bare(self) -> tuple[str, ...]:
        return tuple(bare_text(text) for text in self.texts)

    @cached_property
    def reach(self) -> int:
        """Characters that are enough to find any of the texts, however it is spaced and quoted."""
        return 2 * max(map(len, self.texts), default=0) + 40

    def text_at(self, text: str, *, whole: bool) -> tuple[tuple[str, ...], int]:
        """Labels of the choices whose text, in full, opens this text (with `whole`: is this text), and its length. The
        longest text wins, and where two choices have the same one, both are named."""
        found: dict[int, list[str]] = {}
        bare = bare_text(text)
        for label, own in zip(self.labels, self.bare):
            if own and (bare == own or (not whole and bare.startswith(f"{own} "))):
                found.setdefault(len(own), []).append(label)
        longest = max(found, default=0)
        return tuple(found.get(longest, ())), longest


_OPENING, _CLOSING = "([{\"'“‘«「『【<", ")]}\"'”’»」』】>"
_LETTER = re.compile(
    rf"[{re.escape(_OPENING)}\s]{{0,3}}(?<![A-Za-z0-9])(?P<label>[A-Za-z]{{1,2}}|\d{{1,2}})(?![A-Za-z0-9_^])"
    rf"(?P<close>\s?[{re.escape(_CLOSING)}]+)?"
)
_ENDS = re.compile(
    r"\s*(?:\Z|\n|[.,;:!?|/。，；：！？、।؛،](?![A-Za-z0-9])|[-–—=](?=\s)|\(|'?[dt][iıuü]r\b|[\u0600-\u06ff\u0900-\u097f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af])"
)
_JOIN = re.compile(JOINED)
_JOINED_ON = re.compile(rf"(?:{JOINED})[(\[]?[A-Z0-9]{{1,2}}(?![A-Za-z0-9])")
_ITEM = re.compile(r"^\s*[(\[]?([A-Z]{1,2})[.)\]:]+\s", re.MULTILINE)
_LIST = re.compile(r"(?:\s*[(\[]?[A-Z]{1,2}[.)\]:]+[ \t][^\n]*(?:\n|\Z)){2,}")
_FOLLOWED = re.compile(rf"\s+(?:{CONNECTIVES})(?!\w)", re.IGNORECASE)


def label_at(text: str, start: int, offer: Offer) -> tuple[str, int] | None:
    """The label that stands at this place, and where it ends. A letter that opens a word or a sentence is none.

    >>> offer = Offer(("A", "B"))
    >>> label_at("is (b), so", 3, offer), label_at("is A good idea", 3, offer), label_at("is A because", 3, offer)
    (('B', 6), None, ('A', 4))
    """
    match = _LETTER.match(text, start)
    if match is None:
        return None
    written, end = match["label"], match.end()
    label = written if written in offer.labels else written.upper()
    if match["close"] is not None and (match["close"].strip() in ")" or match[0].lstrip()[0] in _OPENING):
        return label, end
    rest = text[match.end("label") : match.end("label") + offer.reach]
    if not rest and match[0][0] in _OPENING:  # cut off in the middle: "(D" may have become anything
        return None
    if _ENDS.match(rest):
        return label, match.end("label")
    if not written.isupper() and not written.isdigit():
        return None
    own = offer.texts[offer.labels.index(label)] if label in offer.labels and offer.texts else ""
    if _FOLLOWED.match(rest) or _JOINED_ON.match(rest) or (own and bare_text(rest).startswith(bare_text(own))):
        return label, match.end("label")
    return None


def labels_at(text: str, start: int, offer: Offer) -> tuple[tuple[str, ...], int] | None:
    """The label at this place, with those that are joined to it: "A or B", "(A), (C) and (D)".

    >>> labels_at("either A or (B).", 7, Offer(("A", "B")))
    (('A', 'B'), 15)

    So are the items of a list, whatever stands behind their labels:

    >>> labels_at("A. in the north\\nB. in the south", 0, Offer(("A", "B")))[0]
    ('A', 'B')
    """
    first = label_at(text, start, offer)
    if first is None:
        return None
    found, end = [first[0]], first[1]
    if listed := _LIST.match(text, start):
        return tuple(dict.fromkeys(_ITEM.findall(listed[0]))), listed.end()
    while join := _JOIN.match(text, _after_text(text, end, found[-1], offer)):
        following = label_at(text, join.end(), offer)
        if following is None:
            break
        found.append(following[0])
        end = following[1]
    return tuple(dict.fromkeys(found)), end


def _after_text(text: str, end: int, label: str, offer: Offer) -> int:
    """Where the text of a choice ends that follows its label: "(H) Rods and (G) Cones" names two."""
    own = offer.texts[offer.labels.index(label)] if offer.texts and label in offer.labels else ""
    found = _own_text(own).match(text, end) if own else None
    return end if found is None else found.end()


@lru_cache(maxsize=4096)
def _own_text(own: str) -> re.Pattern[str]:
    return re.compile(rf"\s*[.:)]?\s*{re.escape(plain_text(own)).rstrip('.')}\.?", re.IGNORECASE)


def choice_at(text: str, start: int, offer: Offer) -> tuple[tuple[str, ...], int] | None:
    """What is stated from this place on: labels, or the text of a choice in full."""
    labelled = labels_at(text, start, offer)
    if labelled is not None and all(label in offer.labels for label in labelled[0]):
        return labelled
    line = re.compile(r"[^\n]*").match(text, start)
    if line is not None:
        named, length = offer.text_at(line[0][: offer.reach], whole=False)
        if named:
            return named, start + length
    if labelled is not None and len(labelled[0][0]) == 1:
        return (), labelled[1]
    return None


# ---------------------------------------------------------------------- the rules


Find = Callable[[str, Offer], Iterator[tuple[int, int, tuple[str, ...]]]]


@dataclass(frozen=True)
class Rule:
    """One way to state a choice. The example is read as `label` of `Berlin`, `Paris` and `Rome`; a test goes through
    all of them."""

    name: str
    find: Find
    examples: tuple[str, ...]


_STATED = re.compile(STATED, re.IGNORECASE)
_SUPPOSED = re.compile(SUPPOSED, re.IGNORECASE)
_NEGATED = re.compile(NEGATED, re.IGNORECASE)
_DENIED = re.compile(r"\s*(?:is|are|would be)\s+(?:\w+\s+)?(?:incorrect|wrong|false|not|partially)\b", re.IGNORECASE)
_NONE = re.compile(
    r"\banswer is not (?:in|on|listed|among|given|provided|available|one of)\b"
    r"|\bwhich is (?:also )?not (?:the (?:correct|right)|correct|right|available|listed|an option)\b"
    r"|\bI (?:cannot|can't|am unable to) (?:\w+ ){0,2}(?:answer|provide)\b",
    re.IGNORECASE,
)


_BROKEN_OFF = re.compile(r"\s*[(\[]([A-Za-z0-9]{1,2})\Z")


def stated(text: str, offer: Offer) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """After an announcement, unless it denies or supposes what follows: "the answer is not", "if the answer is"."""
    position, before_that = 0, tuple[str, ...]()
    while match := _STATED.search(text, position):
        position = match.start() + 1  # an announcement may hold another: "Final answer: the answer is"
        before = text[max(0, match.start() - 40) : match.start()]
        found = choice_at(text, match.end(), offer)
        broken_off = _BROKEN_OFF.match(text, match.end())
        if broken_off and (broken_off[1],) != before_that:  # it was about to say otherwise
            yield match.start(), len(text), ()
        if found is None or _NEGATED.search(match[0]) or _SUPPOSED.search(before) or _DENIED.match(text, found[1]):
            continue
        yield match.start(), found[1], found[0]
        position, before_that = found[1], found[0]


def denied(text: str, offer: Offer) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """That no choice is the answer. It takes back what was stated before."""
    return ((match.start(), match.end(), ()) for match in _NONE.finditer(text))


_BY_LABEL = re.compile(BY_LABEL, re.IGNORECASE)


def called_right(text: str, offer: Offer) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """The label comes first: "B is the correct answer"."""
    for match in _BY_LABEL.finditer(text):
        names = [name for name in (match["label"], match["second"]) if name]
        if text[: match.start()].rstrip("( ").casefold().endswith(("statement", "statements")):
            continue  # a part of the question, not a choice
        if all(name.isupper() or name.isdigit() for name in names) and not _NEGATED.search(match[0]):
            yield match.start(), match.end(), tuple(dict.fromkeys(names))


_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{([^{}]*)\}")
_TAG = re.compile(r"<(answer|final_answer|choice)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_JSON = re.compile(rf"[\"'](?:{KEYS})[\"']\s*:\s*(?:\"([^\"\n]*)\"|'([^'\n]*)'|(\d+)\b)", re.IGNORECASE)


def enclosed(pattern: re.Pattern[str]) -> Find:
    """What an enclosure holds: a label with or without its text, or a text."""

    def find(text: str, offer: Offer) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        for match in pattern.finditer(text):
            content = next((group for group in reversed(match.groups()) if group is not None), "").strip()
            found = choice_at(content, 0, offer)
            if found is not None:
                yield match.start(), match.end(), found[0]

    return find


_LABELLED = re.compile(
    r"\s*(?:[-•]\s+)?[(\[]?(?P<label>[A-Za-z]{1,2}|\d{1,2})(?:[)\]]?[.:)]?|[)\]])\s*(?P<text>.*?)\s*"
)


def lines(text: str, offer: Offer) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """The first or last line, where it is a label alone, a label with its text, or a text. A list of several options is
    no statement, unless a lone label follows it."""
    spans = [(m.start(), m.end(), m[0]) for m in re.finditer(r"[^\n]*\S[^\n]*", text)]
    found = [(start, end, *_line_label(line, offer, is_only=len(spans) == 1)) for start, end, line in spans]
    named = [(start, end, label, lone) for start, end, label, lone in found if label]
    ends = {spans[0][0], spans[-1][0]} if spans else set()
    is_list = len({label for *_, label, _ in named}) > 1
    for start, end, label, lone in named:
        if start in ends and (not is_list or (lone and sum(one[3] for one in named) == 1)):
            yield start, end, (label,)


_WORD = re.compile(r"[^\W\d_]{3}")


def _line_label(line: str, offer: Offer, *, is_only: bool) -> tuple[str, bool]:
    """The label that a line is, and whether it stands alone; no label for any other line. A number as the last of
    several lines may be a formula that was cut off."""
    match = _LABELLED.fullmatch(line)
    if match is not None:
        label = match["label"] if match["label"] in offer.labels else match["label"].upper()
        if label in offer.labels:
            if not match["text"]:
                return label, True
            if label in offer.text_at(match["text"], whole=True)[0]:
                return label, False
    whole, _ = offer.text_at(line, whole=True)
    return (whole[0], False) if len(whole) == 1 and (is_only or _WORD.search(line)) else ("", False)


RULES: tuple[Rule, ...] = (
    Rule("boxed", enclosed(_BOX), (r"So we get \boxed{B}.", r"$\boxed{\text{(B)}}$", r"\boxed{Paris}")),
    Rule("json", enclosed(_JSON), ('{"reason": "the Seine", "answer": "B"}', "{'choice': 'Paris'}")),
    Rule("tag", enclosed(_TAG), ("<answer>B</answer>", "<answer>\n(B) Paris\n</answer>")),
    Rule(
        "stated",
        stated,
        (
            "The answer is (B).",
            "**Answer:** B",
            "The correct option is therefore B because …",
            "The answer is Paris.",
            'Answer: "Paris"',
            "I would choose option B.",
        ),
    ),
    Rule("called_right", called_right, ("Option B is correct.", "So (B) is the right answer.")),
    Rule("denied", denied, ()),
    Rule(
        "line",
        lines,
        (
            "B",
            "(b)",
            "**B**",
            "B. Paris",
            "B) Paris\nIt lies on the Seine.",
            "Let me think.\n\nB",
            "paris.",
            "A. Berlin\nB. Paris\nC. Rome\n\nB",
        ),
    ),
)
"""Every way to state a choice. Each example states B, Paris."""


# ---------------------------------------------------------------------- the last word


_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？।]|\n")
_CORRECTION = re.compile(r"\b(?:wait|no|rather|actually|instead|correction|but|sorry)\b", re.IGNORECASE)
NEXT_QUESTION = re.compile(NEW_QUESTION, re.IGNORECASE | re.MULTILINE)


def last_statement(statements: Iterable[Statement], text: str) -> Statement | None:
    """The last statement, with the labels of all others in its sentence unless it corrects them."""
    ordered = sorted(statements, key=lambda one: (one.end, one.start))
    if not ordered:
        return None
    last = ordered[-1]
    if not last.labels:  # no choice on offer is right, which also takes back what its own sentence said before
        return last
    breaks = (match.end() for mark in (_SENTENCE_END, _CORRECTION) for match in mark.finditer(text, 0, last.start + 1))
    sentence = max(breaks, default=0)
    named = list(last.labels)
    for other in ordered[:-1]:
        if other.end > sentence:
            named += other.labels or ("",)
    return last._replace(labels=tuple(dict.fromkeys(named)))
