"""What is sent to vLLM and how its outputs are read. Knows vLLM's names, and imports nothing of it.

Log-likelihoods take as few tokens as vLLM allows. Asked for the log-probabilities of a prompt, vLLM does not read its
prefix cache for it: every choice of a question would compute the whole context. Asked for those of the token that it
generates next, it does. So the choices of a question become a tree behind their context, and each place where the tree
goes on is one request, for all tokens that follow there:

    context ─ " A" | " B" | " C" | " D"            one request instead of four
    context ─ " the" ─ " cat" | " dog"             two: after the context, and after " the"

Where that would compute more than the plain way (long continuations behind a short context), the prompt is scored as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from assay.errors import ConfigError, ModelError
from assay.instance import Response
from assay.models.generation import GenerationSettings, cut_at_stop, split_reasoning

_OF_TRANSFORMERS = frozenset({"num_beams", "use_cache", "early_stopping", "length_penalty", "num_return_sequences"})
"""Words about caches and beams; there is a cache, and there are no beams."""
BLOCK = 16
"""Tokens of a block of the cache: what another request behind a cached prefix computes, at most."""
MOST_NEXT = 128
"""Tokens whose log-probabilities may be requested at one place (`MAX_LOGPROB_TOKEN_IDS`)."""
Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt in token ids, and the keyword arguments of its `SamplingParams`. Plain data: it crosses processes."""

    prompt: tuple[int, ...]
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Output:
    """The parts of a `RequestOutput` that are used, as plain data."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str | None
    stop_reason: str | int | None
    logprobs: tuple[tuple[float, bool] | None, ...] | None
    """Per prompt token: its log-probability, and whether no other token is more likely. The first has none."""
    cached_tokens: int = 0
    following: Mapping[int, float] | None = None
    """Log-probabilities of the tokens that were requested at the place of the first generated one, and of that one."""


Numbered: TypeAlias = tuple[int, Request]
"""What goes to an engine, some at a time; `(number, Output)` comes back."""


@dataclass(frozen=True, slots=True)
class Start:
    """The first message: what to load. `known` are the names of arguments that are not vLLM's."""

    arguments: Mapping[str, Any]
    known: tuple[str, ...] = ()
    lora: str | None = None
    at_once: int = 1


@dataclass(frozen=True, slots=True)
class Ready:
    """The answer to it, when the model is loaded. What goes wrong, now or later, is sent as the error that it is."""

    version: str
    sampling_names: frozenset[str]
    max_length: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Nobody waits for what was requested before."""


def score_request(context: Sequence[int], continuation: Sequence[int]) -> Request:
    """The prompt is scored as it is read; one token has to be generated, and is ignored."""
    params = {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": 1, "detokenize": False}
    return Request((*context, *continuation), params)


def next_token_request(prompt: Sequence[int], tokens: Sequence[int]) -> Request:
    """The log-probabilities of these tokens after the prompt; the most likely one is generated."""
    params = {"temperature": 0.0, "max_tokens": 1, "logprob_token_ids": list(tokens), "detokenize": False}
    return Request(tuple(prompt), params)


def generation_request(
    prompt: Sequence[int],
    settings: GenerationSettings,
    *,
    stops: Sequence[str],
    seed: int,
    known: Collection[str] | None = None,
) -> Request:
    """`known` are the names that vLLM's `SamplingParams` has."""
    params: dict[str, Any] = {"max_tokens": settings.max_gen_toks, "temperature": settings.temperature}
    if stops:
        params["stop"] = list(stops)
    if not settings.greedy:
        params |= {"top_p": settings.top_p, "top_k": settings.top_k, "min_p": settings.min_p, "seed": seed}
    # A stop string, or the mark that ends a thought, may be a special token: they are cut out afterwards.
    params |= {"skip_special_tokens": False, "spaces_between_special_tokens": False}
    params |= sampling_words(settings.other, known)
    return Request(tuple(prompt), params)


def sampling_words(given: Mapping[str, Any], known: Collection[str] | None) -> dict[str, Any]:
    """What vLLM's sampling has a name for. Words of transformers that ask for what is done anyway are left out."""
    beams = given.get("num_beams", 1)
    if beams not in (None, 1):
        raise ConfigError(
            f"num_beams is {beams}, but vLLM does not support beam search", hint="Use --model hf, or leave it out."
        )
    words = {name: value for name, value in given.items() if name not in _OF_TRANSFORMERS}
    unknown = [] if known is None else [name for name in words if name not in known]
    if unknown:
        raise ConfigError(
            f"generation setting {unknown[0]!r} is not one of vLLM's sampling parameters",
            hint="Leave it out of generation_kwargs, or use --model hf.",
        )
    return words


def read_output(output: Any) -> Output:
    """From vLLM's `RequestOutput`."""
    first = output.outputs[0]
    rows = getattr(output, "prompt_logprobs", None)
    logprobs = None
    if rows is not None:
        logprobs = tuple(_token_score(token, row) for token, row in zip(output.prompt_token_ids, rows))
    return Output(
        text=first.text,
        token_ids=tuple(first.token_ids),
        finish_reason=first.finish_reason,
        stop_reason=getattr(first, "stop_reason", None),
        logprobs=logprobs,
        cached_tokens=int(getattr(output, "num_cached_tokens", None) or 0),
        following=_values(first.logprobs[0]) if getattr(first, "logprobs", None) else None,
    )


def _token_score(token: int, row: Mapping[int, Any] | None) -> tuple[float, bool] | None:
    """The row holds the prompt's own token and the most likely ones, as `Logprob` objects or plain numbers."""
    if row is None or token not in row:
        return None
    values = _values(row)
    return values[token], values[token] >= max(values.values())


def _values(row: Mapping[int, Any]) -> dict[int, float]:
    return {int(token): float(getattr(entry, "logprob", entry)) for token, entry in row.items()}


def read_next(output: Output) -> dict[int, tuple[float, bool]]:
    """Log-probabilities of the next token, each with whether none is more likely: the generated one is the most likely."""
    values = output.following or {}
    best = max(values.values(), default=0.0)
    return {token: (value, value >= best) for token, value in values.items()}


def read_score(output: Output, scored: int) -> tuple[float, bool]:
    """Sum over the last `scored` prompt tokens."""
    if output.logprobs is None:
        raise ModelError(
            "vLLM gave no prompt_logprobs", hint="This version of vLLM may not support them for this model."
        )
    rows = output.logprobs[len(output.logprobs) - scored :]
    if any(row is None for row in rows):
        raise ModelError("vLLM left out the log-probability of a prompt token")
    total = sum(row[0] for row in rows if row is not None)
    return float(total), all(row[1] for row in rows if row is not None)


def read_generation(
    output: Output, settings: GenerationSettings, think_end: str | None, specials: Sequence[str] = ()
) -> Response:
    """`specials` are the texts of special tokens, which the answer is read without, as in other backends."""
    reasoning, text = split_reasoning(output.text, think_end, cut_off=output.finish_reason == "length")
    text, was_cut = cut_at_stop(text, settings.until)
    if was_cut:
        reason = "stop"
    elif output.finish_reason == "length":
        reason = "length"
    else:
        reason = "eos" if output.stop_reason is None else "stop"
    for special in specials:
        text = text.replace(special, "")
    return Response(text, reason, reasoning=reasoning)


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
