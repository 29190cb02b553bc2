"""Log-likelihoods from a completions server: the prompt is echoed with the log-probability of each of its tokens.

    prompt    "The sky is" + " blue"          echo, logprobs=1, max_tokens=1
    tokens    The | sky | is | blue | .       the last one was generated and is dropped
    logprobs  None  -4.1  -1.2  -2.7  -0.9    blue is scored: it starts at the length of the context

With a tokenizer of our own the prompt is sent as ids and the border is a count of ids; without one it is a count of
characters, and a token that reaches over the border counts to the continuation.

Servers disagree on where in the prompt an echoed token lies. OpenAI counts characters of the prompt. vLLM adds up the
lengths of the tokens' texts, that of the BOS which it put in front included; and as it decodes each token alone, a word
of SentencePiece has lost its space, and a token that holds half a character is a `�`. SGLang says -1 everywhere. So a
server's offsets are believed where the texts stand in the prompt as they say; otherwise the texts are laid along the
prompt:

    prompt          The sun 😀
    tokens     <s>  The  sun  ' '  �  �  .       BOS is skipped, "sun" gets its space back, two pieces share 😀,
    place      -    0-3  3-7  7-8  8-9 8-9 9-     and what comes after the end was generated
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import isnan
from typing import Any

from assay.models.openai.wire import Unusable

Place = tuple[int, int]
"""Start and end in characters of the prompt."""
_MOST_SPECIALS = 3
_HALF = "\ufffd"


class _Ambiguous(Exception):
    """The texts can be laid along the prompt in more than one way."""


@dataclass(frozen=True, slots=True)
class EchoRequest:
    """One prompt, and where in it scoring begins."""

    prompt: str | list[int]
    start: int
    """In characters of a text, in tokens of a list."""

    def body(self, model: str, seed: int | None) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "model": model,
            "prompt": self.prompt,
            "echo": True,
            "logprobs": 1,
            "max_tokens": 1,
            "temperature": 0,
        }
        return settings if seed is None else {**settings, "seed": seed}

    @property
    def context(self) -> str | list[int]:
        return self.prompt[: self.start]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to score."""
        return self.start >= len(self.prompt)


@dataclass(frozen=True, slots=True)
class EchoedToken:
    logprob: float
    best: float
    """The highest log-probability at this place."""


def scored_tokens(request: EchoRequest, reply: Any) -> list[EchoedToken]:
    """The continuation's tokens, each with its log-probability."""
    logprobs = reply["choices"][0].get("logprobs") or {}
    values = logprobs.get("token_logprobs") or []
    if len(values) < 2:  # a prompt has a context and a continuation; one token is the generated one
        raise Unusable("it does not echo prompts with log-probabilities", again=False)
    if isinstance(request.prompt, str):
        scored = _scored_by_place(request.prompt, request.start, logprobs)
    else:
        scored = _scored_by_count(len(request.prompt), request.start, len(values), reply)
    tops = logprobs.get("top_logprobs")
    if not tops:
        raise Unusable(
            "it has no top_logprobs, which tell whether the continuation is the most likely one", again=False
        )
    if len(tops) != len(values):
        raise Unusable("its lists of log-probabilities differ in length")
    return [_token(values[i], tops[i]) for i in scored]


def sum_score(scored: Sequence[EchoedToken]) -> tuple[float, bool]:
    """The sum over the continuation's tokens, and whether each was the most likely one.

    Servers repeat the token's own value among the top ones; equality is how lm-evaluation-harness decides as well.
    """
    return sum(token.logprob for token in scored), all(token.logprob >= token.best for token in scored)


ABOVE_ZERO = 1e-3
"""What rounding in half precision may do to the logarithm of 1."""


def require_logprobs(values: Iterable[float]) -> None:
    """Refuse what cannot be the logarithm of a probability."""
    if impossible := [value for value in values if not value <= ABOVE_ZERO]:
        why = "no number" if isnan(impossible[0]) else "above 0"
        raise Unusable(f"it has a log-probability of {impossible[0]:g}, which is {why}", again=False)


def _token(value: Any, top: Any) -> EchoedToken:
    if value is None or isnan(value):
        raise Unusable("a token of the continuation has no log-probability")
    if not top:
        raise Unusable("a token of the continuation has no top_logprobs")
    require_logprobs([value, *top.values()])
    return EchoedToken(float(value), float(max(top.values())))


def _scored_by_place(prompt: str, start: int, logprobs: Any) -> Sequence[int]:
    texts = logprobs.get("tokens") or []
    if len(texts) != len(logprobs["token_logprobs"]):
        raise Unusable("its lists of log-probabilities differ in length")
    scored = scored_tokens_of(prompt, start, texts, logprobs.get("text_offset") or [])
    if scored is None:
        raise Unusable(
            "its texts and offsets do not show which tokens belong to the continuation (with tokenizer=NAME in --model_args, tokens are counted instead)",
            again=False,
        )
    if not scored:
        raise Unusable("it has no token of the continuation")
    return scored


def _scored_by_count(sent: int, start: int, echoed: int, reply: Any) -> Sequence[int]:
    # A server may put a BOS in front. One that does not count the prompt still shows it by one token too many.
    counted = (reply.get("usage") or {}).get("prompt_tokens") or max(sent, echoed - 1)
    added = counted - sent
    if added not in (0, 1) or echoed < counted:
        raise Unusable(f"{echoed} tokens were echoed for a prompt of {sent}")
    return range(start + added, counted)


def scored_tokens_of(prompt: str, border: int, texts: Sequence[str], offsets: Sequence[int]) -> Sequence[int] | None:
    """Which tokens of an echoed prompt belong to what follows the border; None where it cannot be told."""
    plain = _plain_tokens(prompt, border, texts, offsets)
    if plain is not None:
        return plain
    places = place_tokens(prompt, texts, offsets)
    return None if places is None else tokens_beyond(border, places, len(prompt))


def _plain_tokens(prompt: str, border: int, texts: Sequence[str], offsets: Sequence[int]) -> range | None:
    """The rule for prompts whose tokens' texts, but for a BOS before them, are the prompt itself; None for others.

    Most are of this kind. Only the tokens from the border on are looked at one by one, from the end: a context may have
    thousands.
    """
    joined = "".join(texts)
    specials = 0 if joined.startswith(prompt) else int(texts[0].startswith("<") and not prompt.startswith(texts[0]))
    before = len(texts[0]) if specials else 0
    if not joined.startswith(prompt, before) or _HALF in prompt or "bytes:" in prompt:
        return None
    has_offsets = not specials and len(offsets) == len(texts) and offsets[-1] >= 0
    end, first, last = len(joined) - before, len(texts), len(texts)
    while first > specials and end > border:  # the token before `first` ends behind the border
        start = end - len(texts[first - 1])
        if start == end or (has_offsets and offsets[first - 1] != start):
            return None  # a piece of a character, or the server says otherwise and may be right
        first, end = first - 1, start
        if start >= len(prompt):
            last = first
    return range(first, last)


def place_tokens(prompt: str, texts: Sequence[str], offsets: Sequence[int]) -> list[Place] | None:
    """The place of each token; None where it cannot be told.

    Specials before the prompt are at (0, 0); what was generated starts at or behind the prompt's end.
    """
    if _fit(prompt, texts, offsets):
        ends = [*offsets[1:], max(len(prompt), offsets[-1] + 1)]
        return list(zip(offsets, ends))
    for specials in range(min(_MOST_SPECIALS, len(texts) - 1) + 1):
        if any(_HALF in text for text in texts[:specials]):
            break  # pieces of characters are the prompt's own
        try:
            places = _lay(prompt, texts[specials:])
        except _Ambiguous:
            return None  # a special more would make it clear, but the prompt's own first token would be taken for it
        if places is not None:
            return [(0, 0)] * specials + places
    return None


def tokens_beyond(border: int, places: Sequence[Place], length: int) -> list[int] | None:
    """Which tokens of a prompt of this length belong to what follows the border, one that reaches over it included.

    None where several share a place that the border cuts: nothing says which of them are on which side.

    >>> tokens_beyond(3, [(0, 0), (0, 3), (3, 7), (7, 8)], 7)
    [2]
    """
    cut = [place for place in places if place[0] < border < place[1]]
    if len(cut) > 1:
        return None
    # A piece of a character may have no width, so its start counts as well as its end.
    return [i for i, (start, end) in enumerate(places) if start < length and (start >= border or end > border)]


def _fit(prompt: str, texts: Sequence[str], offsets: Sequence[int]) -> bool:
    """Whether every text stands in the prompt where its offset says."""
    if len(offsets) != len(texts) or not offsets or offsets[0] != 0 or any(b < a for a, b in pairwise(offsets)):
        return False
    inside = [(text, at) for text, at in zip(texts, offsets) if at < len(prompt)]
    sums = list(accumulate(map(len, texts), initial=0))[:-1]
    if any(_is_piece(text) for text, _ in inside) and list(offsets) == sums:
        return False  # wrong from the first piece on, whose text is not as long as what it stands for
    reached = inside[-1][1] + len(inside[-1][0]) >= len(prompt) or len(inside) < len(texts)
    return reached and all(_is_piece(text) or prompt.startswith(text, at) for text, at in inside)


def _is_piece(text: str) -> bool:
    """Whether a token holds part of a character, which servers write as `�`, as `bytes:\\xf0`, or not at all."""
    return not text or _HALF in text or text.startswith("bytes:")


def _sizes(pieces: Sequence[str]) -> tuple[int, int]:
    """The least and the most bytes that pieces can stand for. A decoder writes one `�` for one to three bytes."""
    least = most = 0
    for text in pieces:
        if text.startswith("bytes:"):
            known, halves = text.count("\\x"), 0
        else:
            known, halves = len(text.replace(_HALF, "").encode()), text.count(_HALF)
        least += known + halves
        most += known + 3 * halves if text else 6  # an end and a beginning, both left out
    return least, most


def _can_stand_for(pieces: Sequence[str], gap: str) -> bool:
    """Whether pieces can be these characters: what is legible of them, and between it any beyond ASCII or lost space."""
    least, most = _sizes(pieces)
    spaces = sum(character.isspace() for character in gap)
    if not least <= len(gap.encode()) <= most + spaces:
        return False
    joined = "".join(_HALF if not text or text.startswith("bytes:") else text for text in pieces)
    unclear = _between(re.split(f"{_HALF}+", joined), gap)
    return unclear is not None and all(character.isspace() or not character.isascii() for character in unclear)


def _between(parts: Sequence[str], gap: str) -> str | None:
    """What is left of the gap without these parts: the first at its start, the last at its end, each as soon as it comes.

    >>> _between(["a", "b", "c"], "aéé b c")
    'éé  '
    """
    at = 0 if gap.startswith(parts[0]) else len(gap) - len(gap.lstrip())
    if not gap.startswith(parts[0], at):
        return None
    at += len(parts[0])
    left = []
    for part in parts[1:-1]:
        found = gap.find(part, at)
        if found < 0:
            return None
        left.append(gap[at:found])
        at = found + len(part)
    end = len(gap) - len(parts[-1])
    return "".join(left) + gap[at:end] if at <= end and gap.endswith(parts[-1]) else None


def _lay(prompt: str, texts: Sequence[str]) -> list[Place] | None:
    """Lay texts along the prompt from its start. All of the prompt must be covered; tokens may be left over."""
    places: list[Place] = []
    pieces: list[str] = []
    at = 0
    for text in texts:
        if _is_piece(text):
            pieces.append(text)
            continue
        found = _find_after(prompt, at, pieces, text) if pieces else _find(prompt, at, text)
        if found is None:
            break
        places += [(at, found[0])] * len(pieces) + [found]
        pieces, at = [], found[1]
    if prompt[at:]:
        covering = _pieces_of(prompt[at:], pieces, all_laid=len(places) + len(pieces) == len(texts))
        if covering is None:
            return None
        places += [(at, len(prompt))] * covering
    return places + [(len(prompt), len(prompt) + 1)] * (len(texts) - len(places))


def _find(prompt: str, at: int, text: str) -> Place | None:
    """The text right here, or behind space that decoding took from it; at the very start it may have one too many."""
    for form in (text, text.replace("▁", " ")):
        if prompt.startswith(form, at):
            return at, at + len(form)
        word = len(prompt) - len(prompt[at:].lstrip())
        if prompt.startswith(form, word):
            return at, word + len(form)
        if at == 0 and form.startswith(" ") and prompt.startswith(form[1:]):
            return 0, len(form) - 1
    return None


def _find_after(prompt: str, at: int, pieces: Sequence[str], text: str) -> Place | None:
    """The text behind the nearest characters that the pieces can stand for."""
    least, most = _sizes(pieces)
    start = prompt.find(text, at + (least + 3) // 4)  # a character has four bytes at most
    while 0 <= start <= at + most + 100:
        if _can_stand_for(pieces, prompt[at:start]):
            lost = 0 if pieces[-1][-1:].isspace() else start - at - len(prompt[at:start].rstrip())
            return start - lost, start + len(text)
        start = prompt.find(text, start + 1)
    return None


def _pieces_of(rest: str, pieces: Sequence[str], *, all_laid: bool) -> int | None:
    """How many of the pieces stand for the rest of the prompt; the last of them may be the generated token."""
    counts = [len(pieces) - 1, len(pieces)] if all_laid else [len(pieces)]
    possible = [count for count in counts if count > 0 and _can_stand_for(pieces[:count], rest)]
    if len(possible) > 1:
        raise _Ambiguous
    return possible[0] if possible else None
