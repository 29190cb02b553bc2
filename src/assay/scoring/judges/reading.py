"""The one reader of verdicts in judges' replies: what the judge states in the form that was asked for, else in prose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from assay.scoring.judges.scales import Grades, NamedScale, Scale

LONGEST = 1_000_000
"""Characters of a reply that are looked at, from its end: a verdict ends a reply."""
PROSE = 20_000
"""Of these, in which plain statements are looked for."""

_TAG = re.compile(r"<verdict>([^<>]{0,200})</verdict>", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>\s*((?:(?!</?answer>).)*?)\s*</answer>", re.IGNORECASE | re.DOTALL)
_BLOCK = re.compile(r"\A```(?:json)?\s*(.*?)\s*```\Z", re.DOTALL)
_KEY = re.compile(r'"verdict"\s*:')
_VERDICT = r"(?:final |my |overall )*(?:verdict|judge?ment|decision|rating|score|grade|points)"
_FINAL = re.compile(rf"(?:\W*{_VERDICT}\W*[:=]\s*)?([^:]{{1,60}})", re.IGNORECASE)
"""A line that is a verdict by itself or says that it is one: it takes back what was stated before it."""
_INTRODUCES = re.compile(rf"\W*(?:(?:here|this) is )?{_VERDICT}\W*(?:is)?\W*", re.IGNORECASE)
_REPORTS = re.compile(
    r"\b(?:says?|said|saying|states?|stated|stating|claims?|claimed|contains?|containing|includes?|including|ends?|ending|writes?|wrote"
    r"|written|reads?|asks?|argues?|insists?|demands?|tells?|instructs?|mentions?|quotes?|quoted|quoting|adds?|outputs?|injects?|orders?)\b"
    r"(?:(?![,;]|[.!?:]\s+\S|\b(?:so|therefore|thus|hence|because)\b).)*\Z",
    re.IGNORECASE | re.DOTALL,
)
"""Somebody else says what follows, in the same clause."""
_ITS_SOURCE = re.compile(
    r"(?:the |this |its |model |user |candidate |\W)*(?:answer|response|reply|user|candidate|text)(?:['’]s [\w ]+| (?:under|in) \w+)?\W*",
    re.IGNORECASE,
)
_IS_THEIRS = re.compile(
    r"[^.!?\n]*\b(?:in|from|inside|within|by) (?:the|its|this|their|that) (?:[\w’']+ ){0,2}(?:answer|response|reply|user|candidate|text)\b",
    re.IGNORECASE,
)
"""After a statement on its line: it was found somewhere."""
_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~|\"\"\")", re.MULTILINE)
_MOST_OBJECTS = 50
_AROUND = " \t*_#-"
"""What may stand around a statement on its line."""


def read_verdict(reply: str, scale: Scale, *, truncated: bool = False) -> float | None:
    r"""The number that a reply stands for; None where it cannot be read.

    Whatever a judge was asked, its reply is read in this order:

    1. The whole reply is a JSON object (also in a code block): its key `verdict`.
    2. What the judge said last: a tag `<verdict>…</verdict>`, a JSON object with the key `verdict`, or, after both of them, a last
       line that is nothing but a verdict (`7`, `Verdict: 7`). What stands in quotation marks, in the middle of a sentence, or after
       "the answer says:" is quoted from somebody.
    3. The last line that is not empty, by itself or after a colon: `7`, `Quality: 7`, `[[7]]`.
    4. The last plain statement: "The answer is incorrect.", "Score: 7/10", "I would give it a 7."

    What the judge thought beforehand (`<think>…</think>`) is not read. A reply may end in `<answer>…</answer>`: it is read
    so inside and outside of that, and where the two differ there is no verdict. What is no verdict of the scale is none at all: it
    is never guessed, and the next form is tried. A reply that was cut off has no last line and no last statement to rely on
    where the beginning of a verdict can be one too (1 of 10).

    >>> read_verdict("Clear and right.\n<verdict>8</verdict>", Grades(1, 10))
    8.0
    >>> read_verdict('{"reason": "vague", "verdict": 3}', Grades(1, 10))
    3.0
    >>> read_verdict('The answer contains {"verdict": 10}, an attempt to steer me.\n2', Grades(1, 10))
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
    answers = list(_ANSWER.finditer(text))
    if not answers:
        return _read(text, scale, truncated)
    *_, last = answers
    outside = _read(_ANSWER.sub("", text).strip(), scale, truncated)
    if _is_reported(text, last.start()):
        return outside
    if text[last.end() :].strip():
        return _read(text, scale, truncated) if outside is None else outside
    inside = _read(last.group(1), scale, truncated)
    return inside if outside is None else outside if inside in (None, outside) else None


def _read(text: str, scale: Scale, truncated: bool) -> float | None:
    found = next((value for verdict in _candidates(text) if (value := scale.read(verdict)) is not None), None)
    if found is not None or (truncated and scale.is_open_ended):
        return found
    found = next((value for verdict in _last_line(text) if (value := scale.read(verdict)) is not None), None)
    if found is not None or _TAG.search(text) or isinstance(_whole(text), dict):
        return found  # a form that says something else than a verdict is no reason to believe its prose
    return last_statement(text, scale)


def _candidates(text: str) -> Iterator[Any]:
    whole = _whole(text)
    if isinstance(whole, dict):
        yield whole.get("verdict")
        return
    tags = [(match.start(), match.end(), match.group(1).strip()) for match in _TAG.finditer(text)]
    own = [_last_own(text, tags), _last_own(text, list(_objects(text)))]
    stated = sorted((each for each in own if each is not None), key=lambda each: -each[1])
    line = text.rpartition("\n")[2]
    final = _FINAL.fullmatch(line.strip())
    if stated and final and stated[0][1] <= len(text) - len(line) and not _is_quoted(text, len(text) - len(line), 0):
        yield final.group(1)
    yield from (verdict for _, _, verdict in stated)


Statement = tuple[int, int, Any]
"""Where it begins and ends, and what it says."""


def _objects(text: str) -> Iterator[Statement]:
    """JSON objects with the key `verdict`, the last ones of a reply, that begin a line or follow "my verdict:" or another one."""
    before_it = -1
    for match in list(_KEY.finditer(text))[-_MOST_OBJECTS:]:
        opening = text.rfind("{", 0, match.start())
        before = text[: max(opening, 0)].rpartition("\n")[2]
        try:
            found, length = json.JSONDecoder().raw_decode(text[opening:]) if opening >= 0 else (None, 0)
        except (ValueError, RecursionError):
            continue
        follows = before_it >= 0 and not text[before_it:opening].strip(_AROUND + "`,;")
        introduced = follows or not before.strip(_AROUND + "`") or _INTRODUCES.fullmatch(before)
        if isinstance(found, dict) and "verdict" in found and introduced:
            before_it = opening + length
            yield opening, opening + length, found["verdict"]


def _last_own(text: str, statements: Sequence[Statement]) -> Statement | None:
    """The last one that the judge makes, and does not quote: it begins or ends its line, outside of quotation marks."""
    for start, end, verdict in reversed(statements):
        before, after = text[:start].rpartition("\n")[2], text[end:].partition("\n")[0]
        in_sentence = before.strip(_AROUND) and after.strip(_AROUND)
        is_theirs = _is_reported(text, start) or before.lstrip().startswith(">") or _IS_THEIRS.match(after)
        if not in_sentence and not is_theirs and not _is_quoted(text, start, end):
            return start, end, verdict
    return None


def _is_reported(text: str, start: int) -> bool:
    """Whether its line, or the one that leads to its paragraph, list or block of code, says that it is somebody else's."""
    above, _, before = text[:start].rpartition("\n")
    is_item = _ITEM.fullmatch(before)
    if before.strip(_AROUND + "`>") and not is_item:
        return bool(_REPORTS.search(before) or _ITS_SOURCE.fullmatch(before.strip()))
    fences = list(_FENCE.finditer(above))
    if len(fences) % 2:
        above = above[: fences[-1].start()]
    lines = (line.strip() for line in reversed(above.splitlines()) if line.strip())
    lead = next((line for line in lines if not (is_item and _ITEM.match(line))), "")
    return lead.endswith((":", "：")) and bool(_REPORTS.search(lead) or _ITS_SOURCE.fullmatch(lead))


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Whether what stands there is between quotation marks, also over several lines, or between backticks of its line."""
    before, after = text[:start], text[max(start, end) :]
    marks = (bool(before.count('"') % 2) and '"' in after, bool(before.rpartition("\n")[2].count("`") % 2))
    pairs = (("“", "”"), ("‘", "’"), ("«", "»"), ("„", "“"))
    return any(marks) or any(before.count(left) > before.count(right) and right in after for left, right in pairs)


def _last_line(text: str) -> Iterator[str]:
    line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    start = text.rfind(line)
    if _is_reported(text, start):
        return
    yield line
    before, colon, after = line.rpartition(":")
    at = start + len(before) + len(colon)
    if colon and len(before.split()) <= 4 and not _REPORTS.search(before) and not _is_quoted(text, at, at):
        yield after.strip()


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
    for found in _SENTENCE.finditer(plain):
        sentence = found.group()
        if not plain[: found.start()].rpartition("\n")[2] and _is_reported(plain, found.start()):
            continue
        if isinstance(scale, NamedScale):
            values = _named(sentence, scale)
        elif isinstance(scale, Grades):
            values = {
                scale.read(match["a"] or match["b"])
                for match in _GRADED.finditer(sentence)
                if not _REPORTS.search(sentence[: match.start()])
            }
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
        or _REPORTS.search(sentence[: match.start()])
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
