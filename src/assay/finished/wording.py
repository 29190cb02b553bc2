"""Whether two runs asked the same, in other requests: as messages and as text through a chat template, or with other settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from assay.finished.run import AnsweredDoc, Run, SentRequest
from assay.instance import context_text, is_chat


def template_around(a: SentRequest, b: SentRequest) -> tuple[str, ...] | None:
    """What stands around the turns of a chat in the text of the other request; None unless the text has them all in order, and a template around them.

    >>> from assay.instance import Message
    >>> chat = (Message("user", "Hello"), Message("assistant", "Hi"))
    >>> template_around(SentRequest(chat), SentRequest("<user>Hello<bot>Hi"))
    ('<user>', '<bot>', '')
    """
    chat, text = (a.prompt, b.prompt) if is_chat(a.prompt) else (b.prompt, a.prompt)
    if not is_chat(chat) or not isinstance(text, str):
        return None
    around: list[str] = []
    at = 0
    for turn in chat:
        said = (turn.content if isinstance(turn.content, str) else context_text((turn,))).strip()
        place = text.find(said, at)
        if place < 0:
            return None
        around.append(text[at:place])
        at = place + len(said)
    around.append(text[at:])
    return tuple(around) if any(part.strip() for part in around) else None


SAME_WORDS = "one run was sent messages, the other the same words through a chat template"


def same_questions(a: Run, b: Run, task: str) -> str | None:
    """Where two runs sent other requests and yet asked the same: in what these differ. None where the questions do, or nobody knows.

    Every doc that both have was sent with the same turns, and what a template adds is the same for all; or with the same prompt
    and other settings.
    """
    if not (a.has("prompts") and b.has("prompts")):
        return None
    added: dict[int, tuple[str, ...]] = {}
    settings: dict[str, str] = {}
    for doc, other in _in_both(a, b, task):
        if doc.request_hash == other.request_hash:
            continue
        if not doc.requests or len(doc.requests) != len(other.requests):
            return None
        for one, two in zip(doc.requests, other.requests):
            if one.prompt is None or (one.continuation, one.more) != (two.continuation, two.more):
                return None
            if one.prompt == two.prompt:
                settings = _differing(one.settings, two.settings) | settings
                continue
            around = template_around(one, two)
            if around is None:
                return None
            # Space around a turn is the template's to keep or to strip.
            around = tuple(part.strip() for part in around)
            if added.setdefault(len(around), around) != around:
                return None
    said = [SAME_WORDS] if added else []
    if settings:
        said.append("other generation settings: " + ", ".join(f"{name} {both}" for name, both in settings.items()))
    return "; ".join(said) or None


def _in_both(a: Run, b: Run, task: str) -> Iterator[tuple[AnsweredDoc, AnsweredDoc]]:
    """The docs that both runs have, read side by side: only those wait that the other run has not come to."""
    waiting: tuple[dict[str, AnsweredDoc], dict[str, AnsweredDoc]] = ({}, {})
    for pair in zip_longest(a.docs(task), b.docs(task)):
        for side, doc in enumerate(pair):
            if doc is None:
                continue
            other = waiting[1 - side].pop(doc.doc_hash, None)
            if other is None:
                waiting[side][doc.doc_hash] = doc
            else:
                yield (other, doc) if side else (doc, other)


def _differing(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, str]:
    """
    >>> _differing({"max_gen_toks": 2, "until": []}, {"max_gen_toks": 16, "until": []})
    {'max_gen_toks': '2 and 16'}
    """
    missing = object()
    pairs = {
        name: (one.get(name, missing), two.get(name, missing)) for name in [*one, *(n for n in two if n not in one)]
    }
    return {
        name: " and ".join("none" if value is missing else json.dumps(value, ensure_ascii=False) for value in both)
        for name, both in pairs.items()
        if both[0] != both[1]
    }
