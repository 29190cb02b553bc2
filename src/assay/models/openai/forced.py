"""Log-likelihoods from a server that echoes no prompts, token by token: llama.cpp's.

Each token of a continuation is forced by a bias, and the server says what it was worth without one:

    prompt                bias       reply: the forced token, and the likeliest
    The | sky | is         blue       blue -2.7     the -1.2,  a -2.1,  blue -2.7,  clear -3.0
    The | sky | is | blue  .         .     -0.9    .   -0.9,  ,  -1.3

A choice that begins with `clear` needs no request for it: it was listed beside ` blue`. The requests of one context go one
after the other to one slot of the server. Its cache holds all but the last token, so that a choice costs its own tokens only.

A grammar that spells out the tokens (`root ::= <[12]> <[34]>`) gives the same numbers in one request. It is not used: a
token that ends within a character is an error there, or the end of the server. Nor has llama.cpp a word on such a token
when it is forced; its log-probability is then looked up among those of the whole vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from operator import index
from typing import Any, TypeVar

from assay.errors import ModelError
from assay.instance import Instance, Response
from assay.models.base import Check, Stop, never
from assay.models.likelihoods import WindowSums, rolling_windows
from assay.models.openai.echo import require_logprobs
from assay.models.openai.sending import MOST_CHOICES, Spending, groups_of, send_affordable
from assay.models.openai.tokens import split_pair
from assay.models.openai.transport import Transport
from assay.models.openai.wire import NOTHING_TO_SCORE, Failed, Job, Unusable, why_unsendable
from assay.models.prefix_tree import prefix_order

T = TypeVar("T")
Ids = tuple[int, ...]

BESIDE = 20
"""Likeliest tokens that are listed beside a forced one: choices of one letter are nearly always among them."""
FORCE = 1000.0
PROBE = "The sun rises in the east."
SAME = 0.05
"""What two replies may differ by, in log-probability: a server computes in half precision, alone or beside others. What is
wrong with a log-probability that knows of the bias is some hundred times as much."""
MOST_SLOTS = 1024
MOST_IDS = 32
"""Of a byte of text: normalising makes up to eleven bytes of one, and no token has less than a byte."""
LOWEST = -95.0
"""Below it llama.cpp has too few bits left: it takes the logarithm of a probability in single precision."""


class ServerTokens:
    """The server's own tokenizer, by the page that it has for it."""

    name = "the server"
    max_length: int | None = None

    def __init__(self, transport: Transport, root: str, props: Mapping[str, Any]) -> None:
        self._transport, self._address = transport, f"{root}/tokenize"
        self.fingerprint = root
        self.encode_once = lru_cache(maxsize=64)(self._encode)
        beginning = self._encode("") or next(
            (ids for name in ("bos_token", "eos_token") if props.get(name) and (ids := self._encode(str(props[name])))),
            (),
        )
        self.prefix: int | None = beginning[0] if beginning else None

    def encode(self, text: str) -> list[int]:
        return list(self.encode_once(text))

    def decode(self, ids: list[int]) -> str:
        raise NotImplementedError

    def _encode(self, text: str) -> Ids:
        reply = self._transport.post(self._address, {"content": text, "add_special": True})
        ids = reply.get("tokens") if isinstance(reply, Mapping) else None
        if not isinstance(ids, list) or not all(type(each) is int and 0 <= each < 2**31 for each in ids):
            raise ModelError(f"{self._address} gives no list of tokens by their numbers")
        if len(ids) > MOST_IDS * (1 + len(text.encode())):
            raise ModelError(f"{self._address} gives {len(ids):,} tokens for {len(text.encode()):,} bytes")
        return tuple(ids)


class Walk:
    """The continuations of one context, and what is known of the tokens after each beginning of them."""

    def __init__(self, context: Ids, continuations: Sequence[Ids]) -> None:
        self.context, self.continuations = context, continuations
        self.slot: int | None = None
        self.needed: dict[Ids, set[int]] = {}
        """The tokens that follow each beginning: of a list of the whole vocabulary no others are kept."""
        for continuation in continuations:
            for at, token in enumerate(continuation):
                self.needed.setdefault(continuation[:at], set()).add(token)
        self.known: dict[Ids, dict[int, float]] = {}
        self.best: dict[Ids, float] = {}
        self.steps = self._steps()

    def _steps(self) -> Iterator[tuple[Ids, int]]:
        """What is to be asked for next; what came meanwhile is not."""
        for continuation in self.continuations:
            for at, token in enumerate(continuation):
                if token not in self.known.setdefault(continuation[:at], {}):
                    yield continuation[:at], token

    def learn(self, before: Ids, listed: Mapping[int, float]) -> None:
        best = max(listed.values())
        if abs(self.best.setdefault(before, best) - best) > SAME:
            raise Unusable("its log-probabilities change with what is forced", again=False)
        self.known[before] |= {token: listed[token] for token in self.needed[before] if token in listed}

    def scores(self) -> list[Response]:
        return [self._score(continuation) for continuation in self.continuations]

    def _score(self, continuation: Ids) -> Response:
        befores = [continuation[:at] for at in range(len(continuation))]
        values = [self.known[before][token] for before, token in zip(befores, continuation)]
        if any(value < LOWEST for value in values):
            return Response(None, failure=f"a token has a log-probability below {LOWEST:g}, which the server rounds")
        greedy = all(value >= self.best[before] for before, value in zip(befores, values))
        return Response((sum(values), greedy), tokens=(len(self.context), len(continuation)))


class TokenByToken:
    """Scores continuations through a server whose way of it was found to be exact."""

    def __init__(
        self,
        transport: Transport,
        spending: Spending,
        root: str,
        model: str,
        props: Mapping[str, Any],
        *,
        words: Any,
        length: int,
    ) -> None:
        self.transport, self.spending, self.model = transport, spending, model
        self.words = words if type(words) is int and words > 0 else None
        self.encoder = ServerTokens(transport, root, props)
        self.length = length
        slots = props.get("total_slots")
        self.slots = min(slots, MOST_SLOTS) if type(slots) is int and slots > 0 else 1
        self.free = list(range(self.slots))
        self.forces = True
        """Whether tokens are forced; otherwise each is looked up in a list of the whole vocabulary."""
        self.probe = self.encoder.encode(PROBE)
        if len(self.probe) < 2:
            raise ModelError(f"{root}/tokenize has {len(self.probe)} tokens for a sentence")
        self.plain = self.probe[-1]
        """A token of whole characters, beside which the server lists others."""

    def send_all(self, jobs: Iterable[Job[T]], stop: Stop = never) -> Iterator[tuple[int, T | Failed]]:
        return self.transport.send_all(jobs, stop, most=self.slots)

    def score(
        self, pairs: Sequence[tuple[Ids, Ids]], stop: Stop, *, together: bool = True
    ) -> Iterator[tuple[int, Response]]:
        """Continuations of the same context `together`, one after the other; contexts beside one another, one a slot."""

        def belong(one: int, other: int) -> bool:
            return together and pairs[one][0] == pairs[other][0]

        groups = list(groups_of(prefix_order([context for context, _ in pairs]), belong, MOST_CHOICES))
        walks: dict[int, Walk] = {}

        def write(group: list[int]) -> Job[list[Response]]:
            walk = walks[group[0]] = Walk(pairs[group[0]][0], [pairs[at][1] for at in group])
            walk.slot = self.free.pop() if self.free else None
            return self._step(walk, *next(walk.steps))

        for group, outcome in send_affordable(self, self.spending, groups, write, stop):
            if (slot := walks.pop(group[0]).slot) is not None:
                self.free.append(slot)
            if isinstance(outcome, Failed):
                outcome = [Response(None, failure=outcome.reason)] * len(group)
            yield from zip(group, outcome)

    def _step(self, walk: Walk, before: Ids, token: int, *, whole: bool = False) -> Job[Any]:
        whole = whole or not self.forces
        body = self._body([*walk.context, *before], self.plain if whole else token, whole=whole)
        if walk.slot is not None:
            body["id_slot"] = walk.slot
        return Job(body, partial(self._read, walk, before, token, whole), goes_on=True)

    def _read(self, walk: Walk, before: Ids, token: int, whole: bool, reply: Any) -> Any:
        listed = read_listed(reply)
        requested = self.words or BESIDE if whole else min(BESIDE, self.words or BESIDE)
        if listed and len(listed) < requested:
            raise Unusable(f"it lists {len(listed)} tokens where {requested} were requested", again=False)
        self.spending.count(reply)
        if token not in listed:
            if whole:
                raise Unusable(
                    f"it lists {len(listed)} tokens, without number {token}, which was asked for", again=False
                )
            return self._step(walk, before, token, whole=True)
        walk.learn(before, listed)
        following = next(walk.steps, None)
        return walk.scores() if following is None else self._step(walk, *following)

    def _body(self, prompt: Sequence[int], token: int | None, *, whole: bool = False) -> dict[str, Any]:
        body = {"model": self.model, "prompt": list(prompt), "max_tokens": 1, "temperature": 0, "cache_prompt": True}
        bias = {} if token is None or not self.forces else {"logit_bias": [[token, FORCE]]}
        return {**body, **bias, "logprobs": self.words if whole and self.words else BESIDE}

    # -- which way is exact ------------------------------------------------------------------------------------------

    def check_way(self) -> Check:
        """Whether the way in use is exact. One that is not is no fault of the server: it is not used."""
        name = "likelihoods by forced tokens" if self.forces else "likelihoods by lists of the vocabulary"
        try:
            difference = self._difference_when_forced() if self.forces else self._difference_of_lists()
        except Unusable as error:
            return Check(name, None, note=str(error))
        if difference > SAME:
            return Check(name, None, difference, note="not exact: log-probabilities change with what is forced")
        return Check(name, True, difference, note="exact")

    def _difference_when_forced(self) -> float:
        """Between what is listed beside one forced token, beside another, and beside none: 0, but for rounding."""
        middle = len(self.probe) // 2
        context, token = self.probe[:middle], self.probe[middle]
        one = self._ask(self._body(context, token))
        if token not in one:
            raise Unusable("it does not take the token that logit_bias forces")
        least = min(one, key=one.__getitem__)
        other, free = self._ask(self._body(context, least)), self._ask(self._body(context, None))
        if least not in other:
            raise Unusable("it does not take the token that logit_bias forces")
        return max(_difference(one, other), _difference(one, free) if free else 0.0)

    def _difference_of_lists(self) -> float:
        """How far the probabilities of the whole vocabulary are from 1 in all."""
        listed = self._ask(self._body(self.probe[: len(self.probe) // 2], self.plain, whole=True))
        if self.words is None or len(listed) < self.words:
            raise Unusable(f"it lists {len(listed)} tokens of a vocabulary of {self.words or 'unknown size'}")
        return abs(sum(math.exp(value) for value in listed.values()) - 1)

    def _ask(self, body: Mapping[str, Any]) -> dict[int, float]:
        def read(reply: Any) -> dict[int, float] | Unusable:
            try:
                return read_listed(reply)
            except Unusable as error:
                return error

        outcome = self.transport.send(Job(body, read))
        if outcome is None or (isinstance(outcome, Failed) and not outcome.refused):
            raise ModelError(f"{self.transport.settings.url}: {outcome.reason if outcome else 'it was not asked'}")
        if isinstance(outcome, Failed):
            raise Unusable(outcome.reason)
        if isinstance(outcome, Unusable):
            raise outcome
        return outcome


def read_listed(reply: Any) -> dict[int, float]:
    """Log-probabilities by token; none where the token that was generated ends within a character."""
    places = (reply["choices"][0].get("logprobs") or {}).get("content") or ()
    if not places:
        return {}
    listed: dict[int, float] = {}
    try:
        pairs = [(index(top["id"]), float(top["logprob"])) for top in (*places[0]["top_logprobs"], places[0])]
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise Unusable(
            f"it does not list tokens by number with their log-probabilities ({error})", again=False
        ) from error
    require_logprobs(value for _, value in pairs)
    for token, value in pairs:
        if not (value == listed.setdefault(token, value) or abs(value - listed[token]) <= SAME):
            raise Unusable(f"it lists token {token} with two log-probabilities", again=False)
    if (total := math.fsum(map(math.exp, listed.values()))) > 1 + SAME:
        raise Unusable(f"the probabilities that it lists add up to {total:g}", again=False)
    return listed


def _difference(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    shared = one.keys() & other.keys()
    return max((abs(one[token] - other[token]) for token in shared), default=math.inf)


def find_exact_way(server: TokenByToken) -> str:
    """Why there is none; nothing where there is, which `server` uses from then on."""
    reasons = []
    for server.forces in (True, False):
        check = server.check_way()
        if check.passed:
            return ""
        reasons.append(f"{check.name}: {check.note}")
    return "; ".join(reasons)


def stream_by_token(
    server: TokenByToken, request_type: str, instances: Sequence[Instance], stop: Stop
) -> Iterator[tuple[int, Response]]:
    """Continuations of contexts, or whole texts after the model's first token, in windows."""
    is_pair = request_type == "loglikelihood"
    pairs: list[tuple[Ids, Ids]] = []
    owners: list[int] = []
    for position, instance in enumerate(instances):
        texts = [str(text) for text in instance.arguments[: 2 if is_pair else 1]]
        if unsendable := why_unsendable(*texts):
            yield position, Response(None, failure=unsendable.reason)
            continue
        context, continuation = split_pair(server.encoder, *(texts if is_pair else ["", *texts]))
        windows = [(context, continuation)]
        if not is_pair:
            windows = rolling_windows(continuation, context[0], server.length - 1)
        if not continuation:
            # Not certain, as a sum over no tokens would have it: such a choice would win against all others.
            yield position, Response(None, failure=NOTHING_TO_SCORE) if is_pair else Response(0.0, tokens=(0, 0))
            continue
        owners += [position] * len(windows)
        pairs += [(tuple(before), tuple(scored)) for before, scored in windows]
    sums = WindowSums(owners)
    for at, answer in server.score(pairs, stop, together=is_pair):
        if is_pair:
            yield owners[at], answer
        elif whole := sums.add(at, answer):
            yield whole
