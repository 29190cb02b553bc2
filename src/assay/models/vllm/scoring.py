"""Log-likelihoods in as few tokens as vLLM allows.

Asked for the log-probabilities of a prompt, vLLM does not read its prefix cache for it: every choice of a question would
compute the whole context. Asked for those of the token that it generates next, it does. So the choices of a question
become a tree behind their context, and each place where the tree goes on is one request, for all tokens that follow there:

    context ─ " A" | " B" | " C" | " D"            one request instead of four
    context ─ " the" ─ " cat" | " dog"             two: after the context, and after " the"

Where that would compute more than the plain way (long continuations behind a short context), the prompt is scored as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assay.models.vllm.protocol import Output, Request, next_token_request, read_next, read_score, score_request

BLOCK = 16
"""Tokens of a block of the cache: what another request behind a cached prefix computes, at most."""
MOST_NEXT = 128
"""Tokens whose log-probabilities may be requested at one place (`MAX_LOGPROB_TOKEN_IDS`)."""

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScorePlan:
    """Requests, and which pair needs what of each: its token at a place, or the whole continuation (None)."""

    requests: list[Request]
    readers: list[list[tuple[int, int | None]]]


def _places(continuations: Mapping[int, Ids]) -> dict[Ids, dict[int, list[int]]]:
    """Where the tree of continuations goes on: the tokens before each place, and which pairs need which token there."""
    places: dict[Ids, dict[int, list[int]]] = {}
    for at, continuation in continuations.items():
        for depth, token in enumerate(continuation):
            places.setdefault(continuation[:depth], {}).setdefault(token, []).append(at)
    return places


def plan_scores(pairs: Sequence[tuple[Ids, Ids]], *, by_token: bool) -> ScorePlan:
    """What to ask for pairs of context and continuation; `by_token` is whether this vLLM can be requested by token."""
    groups: dict[Ids, list[int]] = {}
    for at, (context, _) in enumerate(pairs):
        groups.setdefault(context, []).append(at)
    plan = ScorePlan([], [])
    for context, members in groups.items():
        places = _places({at: pairs[at][1] for at in members})
        plainly = sum(len(context) + len(pairs[at][1]) for at in members)
        shared = len(context) + BLOCK * len(places)
        fits = all(len(following) <= MOST_NEXT for following in places.values())
        if by_token and fits and (len(places) == 1 or shared < plainly):
            for before, following in places.items():
                plan.requests.append(next_token_request((*context, *before), list(following)))
                plan.readers.append([(at, len(before)) for needing in following.values() for at in needing])
        else:
            for at in members:
                plan.requests.append(score_request(context, pairs[at][1]))
                plan.readers.append([(at, None)])
    return plan


@dataclass(slots=True)
class ScoreSums:
    """Collects what outputs say of each pair; a pair is done with its last token, and summed in the order of its tokens."""

    pairs: Sequence[tuple[Ids, Ids]]
    missing: set[int] = field(default_factory=set)
    """Pairs of which a token was left out: to be scored plainly."""
    _found: dict[int, dict[int, tuple[float, bool]]] = field(default_factory=dict)

    def add(
        self, readers: Sequence[tuple[int, int | None]], output: Output
    ) -> Iterator[tuple[int, tuple[float, bool]]]:
        """The pairs that are done now, with their scores."""
        following = read_next(output)
        for at, place in readers:
            continuation = self.pairs[at][1]
            if place is None:
                yield at, read_score(output, len(continuation))
            elif continuation[place] not in following:
                self.missing.add(at)
            else:
                found = self._found.setdefault(at, {})
                found[place] = following[continuation[place]]
                if len(found) == len(continuation):
                    tokens = [found[i] for i in range(len(continuation))]
                    yield at, (sum(value for value, _ in tokens), all(best for _, best in tokens))
