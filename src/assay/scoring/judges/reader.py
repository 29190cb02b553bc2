"""The one reader of verdicts. Whatever a judge was asked, its reply is read here, in this order:

1. The whole reply is a JSON object (also in a code block): its key `verdict`.
2. A tag: `<verdict>…</verdict>`. Of several the last one, which is what the judge ended with.
3. A JSON object somewhere in the reply with the key `verdict`; of several the last one.
4. The last line that is not empty, by itself or after a colon: `7`, `Verdict: 7`, `[[7]]`.

What the judge thought beforehand (`<think>…</think>`) is not read. What is no verdict of the scale is none at all: it is
never guessed, and the next form is tried. A reply that was cut off has no last line to rely on where the beginning of
a verdict can be one too (1 of 10).

    >>> from assay.scoring.judges.scales import Grades
    >>> read_verdict("Clear and right.\\n<verdict>8</verdict>", Grades(1, 10))
    8.0
    >>> read_verdict('{"reason": "vague", "verdict": 3}', Grades(1, 10))
    3.0
    >>> read_verdict("Vague.\\n\\nVerdict: 3/10", Grades(1, 10))
    3.0
    >>> read_verdict("I would rather not say.", Grades(1, 10)) is None
    True
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from assay.scoring.judges.scales import Scale

LONGEST = 1_000_000
"""Characters of a reply that are looked at, from its end: a verdict ends a reply."""

_TAG = re.compile(r"<verdict>([^<>]{0,200})</verdict>", re.IGNORECASE)
_BLOCK = re.compile(r"\A```(?:json)?\s*(.*?)\s*```\Z", re.DOTALL)
_KEY = re.compile(r'"verdict"\s*:')


def read_verdict(reply: str, scale: Scale, *, truncated: bool = False) -> float | None:
    """The number that a reply stands for; None where it cannot be read."""
    verdict = read_raw(reply, scale, truncated=truncated)
    return None if verdict is None else scale.read(verdict)


def read_raw(reply: str, scale: Scale, *, truncated: bool = False) -> Any:
    """The verdict as the judge wrote it; None where none can be read."""
    text = reply[-LONGEST:].strip()
    if not isinstance(_object(text), dict):
        text = text.rpartition("</think>")[2].strip()
        if "<think>" in text:
            return None  # the thought never ended, so nothing was said yet
    allowed = (verdict for verdict in _candidates(text) if scale.read(verdict) is not None)
    found = next(allowed, None)
    if found is not None or (truncated and scale.is_open_ended):
        return found
    return next((verdict for verdict in _last_line(text) if scale.read(verdict) is not None), None)


def _candidates(text: str) -> Iterator[Any]:
    block = _BLOCK.match(text)
    whole = _object(block.group(1) if block else text)
    if isinstance(whole, dict):
        yield whole.get("verdict")
        return
    tags = _TAG.findall(text)
    if tags:
        yield tags[-1].strip()
    starts = [match.start() for match in _KEY.finditer(text)]
    if starts:
        opening = text.rfind("{", 0, starts[-1])
        if opening >= 0:
            yield _first_object(text[opening:]).get("verdict")


def _last_line(text: str) -> Iterator[str]:
    line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    yield line
    before, colon, after = line.rpartition(":")
    if colon and len(before.split()) <= 4:
        yield after.strip()


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _first_object(text: str) -> dict[str, Any]:
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
