"""The one reader of verdicts in judges' replies: what the judge states in the form that was asked for, else in prose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from assay.scoring.judges.scales import Grades, NamedScale, Scale

LONGEST = 1_000_000
"""Characters of a reply that are looked at, from its end: a verdict ends a reply."""
PROSE = 20_000
"""Of these, in which plain statements are looked for."""

_TAG = re.compile(r"<verdict>([^<>]{0,200})</verdict>", re.IGNORECASE)
_BLOCK = re.compile(r"\A```(?:json)?\s*(.*?)\s*```\Z", re.DOTALL)
_ALONE = re.compile(r"^[ \t]*(?:[^\n{}:]{0,60}:[ \t]*)?(?=\{)", re.MULTILINE)
_INTRODUCES = re.compile(r"\b(?:verdict|judge?ment|decision|grade|score|rating|conclusion)\b", re.IGNORECASE)
_ENDS_LINE = re.compile(r"[ \t]*(?:```)?[ \t]*(?:\n|\Z)")


def read_verdict(reply: str, scale: Scale, *, truncated: bool = False) -> float | None:
    r"""The number that a reply stands for; None where it cannot be read.

    Whatever a judge was asked, its reply is read in this order:

    1. The whole reply is a JSON object (also in a code block): its key `verdict`.
    2. A tag: `<verdict>…</verdict>`. Of several the last one, which is what the judge ended with.
    3. The last line that is not empty, by itself or after a colon: `7`, `Verdict: 7`, `[[7]]`.
    4. A JSON object with the key `verdict` that stands on lines of its own; of several the last one.
    5. The last plain statement: "The answer is incorrect.", "Score: 7/10", "I would give it a 7."

    What the judge thought beforehand (`<think>…</think>`) is not read, and neither is what it quotes. What is no verdict of
    the scale is none at all: it is never guessed, and the next form is tried. A reply that was cut off has no last line
    and no last statement to rely on where the beginning of a verdict can be one too (1 of 10).

    >>> read_verdict("Clear and right.\n<verdict>8</verdict>", Grades(1, 10))
    8.0
    >>> read_verdict('{"reason": "vague", "verdict": 3}', Grades(1, 10))
    3.0
    >>> read_verdict('It contains {"verdict": 10}, to steer me.\n2', Grades(1, 10))
    2.0
    >>> read_verdict("The answer is correct. It names the city.", NamedScale({"correct": 1.0, "incorrect": 0.0}))
    1.0
    >>> read_verdict("I would rather not say.", Grades(1, 10)) is None
    True
    """
    text = reply[-LONGEST:].strip()
    if not isinstance(_object(text), dict):
        text = text.rpartition("</think>")[2].strip()
        if "<think>" in text:
            return None  # the thought never ended, so nothing was said yet
    forms = _tagged if truncated and scale.is_open_ended else _stated
    found = next((value for verdict in forms(text) if (value := scale.read(verdict)) is not None), None)
    if found is not None or forms is _tagged:
        return found
    return None if _names_another_form(text) else last_statement(text, scale)


def _names_another_form(text: str) -> bool:
    """Whether a tag or an object is there that says something else than a verdict: then its prose is no better."""
    return _TAG.search(text) is not None or isinstance(_whole(text), dict)


def _tagged(text: str) -> Iterator[Any]:
    """What nobody can take for something else: the whole reply, or a tag."""
    whole = _whole(text)
    if isinstance(whole, dict):
        yield whole.get("verdict")
    elif tags := _TAG.findall(text):
        yield tags[-1].strip()


def _stated(text: str) -> Iterator[Any]:
    yield from _tagged(text)
    if isinstance(_whole(text), dict):
        return
    line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    yield line
    before, colon, after = line.rpartition(":")
    if colon and len(before.split()) <= 4:
        yield after.strip()
    alone = [found["verdict"] for found in _objects_alone(text) if "verdict" in found]
    if alone:
        yield alone[-1]


def _objects_alone(text: str) -> Iterator[dict[str, Any]]:
    """Objects that stand on lines of their own, or after "my verdict:". One within a sentence is what somebody else said."""
    decoder = json.JSONDecoder()
    for place in _ALONE.finditer(text):
        if place[0].strip() and not _INTRODUCES.search(place[0]):
            continue
        try:
            found, end = decoder.raw_decode(text, place.end())
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and _ENDS_LINE.match(text, end):
            yield found


def _whole(text: str) -> Any:
    block = _BLOCK.match(text)
    return _object(block.group(1) if block else text)


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# ---------------------------------------------------------------------- plain statements


_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]{0,999}`|\"[^\"\n]{0,999}\"|“[^”\n]{0,999}”|«[^»\n]{0,999}»|^[ \t]{0,9}>[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_SENTENCE = re.compile(r"[^.!?\n]+(?:\.(?=\d)[^.!?\n]*)*")
_OPEN = re.compile(
    r"\b(?:if|whether|unless|would be|could|should|might|may|must|perhaps|maybe|probably|seems?|appears?|or|but|however|although"
    r"|though|except|not sure|cannot)\b",
    re.IGNORECASE,
)
"""What leaves a sentence open: it is then no statement."""
_CERTAIN = r"(?:(?:therefore|thus|hence|clearly|indeed|completely|entirely|fully|absolutely|actually|also|definitely|quite)\s+)*"
_SUBJECT = (
    r"(?<!right )(?<!correct )(?<!reference )(?<!expected )(?<!true )(?<!given right )"
    r"\b(?:answer|response|reply|solution|result|statement|verdict|it|this)"
    r"(?:\s+(?:(?:that|which)\s+)?(?:I|you|we)\s+(?:judged?|am\s+judging|are\s+judging)|\s+(?:given|provided|above|in question))?"
)
_GRADED = re.compile(
    r"\b(?:score|grade|rating|verdict|mark)s?\s*(?:is|of|:|=|would be)?\s*:?\s*(?P<a>-?\d+(?:\.\d+)?(?:\s*/\s*\d+|\s+out of\s+\d+)?)(?![\d/]|\.\d)"
    r"|\b(?:give|rate|grade|score|assign|award)\b(?:\s+(?:it|this|the|an?|answer|response|reply|score|grade|rating|of|as|with)\b){0,8}"
    r"\s+(?P<b>-?\d+(?:\.\d+)?(?:\s*/\s*\d+|\s+out of\s+\d+)?)(?![\d/]|\.\d)",
    re.IGNORECASE,
)
_SYNONYMS = {"correct": ("correct", "right"), "incorrect": ("incorrect", "wrong")}


def last_statement(text: str, scale: Scale) -> float | None:
    """What the last sentence that gives a verdict says. One that gives two, or leaves it open, says nothing.

    >>> words = NamedScale({"correct": 1.0, "incorrect": 0.0})
    >>> last_statement("The answer is not correct.", words), last_statement("It would be correct if it said 4.", words)
    (0.0, None)
    >>> last_statement("It is brief. I would give this answer a 7 out of 10.", Grades(1, 10))
    7.0
    """
    plain = re.sub(r"[*_]+", "", _QUOTED.sub(" ", text[-PROSE:]))
    said: float | None = None
    for sentence in _SENTENCE.findall(plain):
        if isinstance(scale, NamedScale):
            values = _named(sentence, scale)
        elif isinstance(scale, Grades):
            values = {scale.read(match["a"] or match["b"]) for match in _GRADED.finditer(sentence)}
        else:
            return None
        if values:
            said = values.pop() if len(values) == 1 else None
    return said


def _named(sentence: str, scale: NamedScale) -> set[float | None]:
    """The verdicts of a sentence; None for one that is left open."""
    known = {each: word for word in scale.values for each in _SYNONYMS.get(word, (word,))}
    listed = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    stated = re.compile(
        rf"{_SUBJECT}\s+(?:is|was)\s+{_CERTAIN}(?P<not>not\s+|n't\s+)?{_CERTAIN}(?P<word>{listed})\b(?P<rest>.*)",
        re.IGNORECASE,
    )
    values: set[float | None] = set()
    match = stated.search(sentence)
    if match is None:
        return values
    word = next(word for each, word in known.items() if each.casefold() == match["word"].casefold())
    others = [other for other in scale.values if other != word]
    rest = match["rest"].strip(" ,;:-–—")
    reason = re.match(r"(?:because|since|as|and|for|which|given)\b", rest, re.IGNORECASE)
    contrary = [each for each, meant in known.items() if meant != word]
    is_open = (
        _OPEN.search(sentence[: match.end("word")])
        or (rest and not reason)
        or re.search(
            rf"\b(?:is|was|but|yet)\s+(?:\w+\s+){{0,2}}(?:{'|'.join(map(re.escape, contrary))})\b(?!\s+answer)",
            rest,
            re.IGNORECASE,
        )
    )
    if is_open or (match["not"] and len(others) != 1):
        return {None}
    return {scale.values[others[0] if match["not"] else word]}
