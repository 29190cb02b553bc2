"""Whether two runs were sent the same words, one as messages and the other as text through a chat template."""

from __future__ import annotations

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


def has_same_words(a: Run, b: Run, task: str) -> bool:
    """Whether every doc that both have was sent with the same turns, and what the template adds is the same for all."""
    if not (a.has("prompts") and b.has("prompts")):
        return False
    others: dict[str, AnsweredDoc] = {doc.doc_hash: doc for doc in b.docs(task)}
    added: dict[int, tuple[str, ...]] = {}
    for doc in a.docs(task):
        other = others.get(doc.doc_hash)
        if other is None or doc.request_hash == other.request_hash:
            continue
        if not doc.requests or len(doc.requests) != len(other.requests):
            return False
        for one, two in zip(doc.requests, other.requests):
            around = template_around(one, two)
            if around is None or one.continuation != two.continuation:
                return False
            # Space around a turn is the template's to keep or to strip.
            around = tuple(part.strip() for part in around)
            if added.setdefault(len(around), around) != around:
                return False
    return True
