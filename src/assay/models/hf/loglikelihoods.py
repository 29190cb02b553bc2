"""Loglikelihood requests, from text to answers: what cannot be scored, out of memory, windows, and encoder-decoder models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from typing import Any

import torch

from assay.instance import Response
from assay.models.hf.engine import HFEngine
from assay.models.hf.linear import LinearMode
from assay.models.hf.scoring import LogLikelihood, log_probabilities, score_by_tree, score_plainly
from assay.models.hf.state import score_by_state
from assay.models.hf.tokenization import Pair, Scored, to_scored
from assay.models.likelihoods import WindowSums, rolling_windows


class LogLikelihoods:
    """Answers loglikelihood and rolling requests, by the tree where the model allows it."""

    def __init__(self, engine: HFEngine) -> None:
        self.engine = engine

    def stream(
        self, requests: Sequence[tuple[str, str]], missing: Sequence[int] | None = None
    ) -> Iterator[tuple[int, Response]]:
        """For (context, continuation) texts; with `missing`, the answers at these positions alone."""
        pairs = self.encode(requests)
        wanted = set(range(len(pairs)) if missing is None else missing)
        fitting = []
        for position, pair in enumerate(pairs):
            if not (failure := self._why_unscorable(pair)):
                fitting.append(position)
            elif position in wanted:
                yield position, Response(None, failure=failure)
        places = {index for index, position in enumerate(fitting) if position in wanted}
        for index, value in self._score([pairs[position] for position in fitting], places):
            pair = pairs[fitting[index]]
            yield fitting[index], Response(value, tokens=(len(pair.context), len(pair.continuation)))

    def stream_rolling(
        self, texts: Sequence[str], missing: Sequence[int] | None = None
    ) -> Iterator[tuple[int, Response]]:
        """For whole texts; an answer is ready when all of its windows are. With `missing`, those at these positions alone."""
        windows, owners = self.windows(texts)
        sums = WindowSums(owners)
        wanted = set(range(len(texts)) if missing is None else missing)
        yield from ((empty, Response(0.0, tokens=(0, 0))) for empty in sorted(wanted - set(owners)))
        for index, value in self._score(windows, {index for index, owner in enumerate(owners) if owner in wanted}):
            if whole := sums.add(index, Response(value, tokens=(0, len(windows[index].continuation)))):
                yield whole

    def windows(self, texts: Sequence[str]) -> tuple[list[Pair], list[int]]:
        """The windows of all texts, and which text each is of."""
        windows: list[Pair] = []
        owners: list[int] = []
        for position, tokens in enumerate(self.engine.encoder.encode(texts)):
            # The prefix token is needed only where there is a text to stand before.
            prefix = self.engine.encoder.prefix_token_id if tokens else -1
            windows += [Pair(*window) for window in rolling_windows(tokens, prefix, self.engine.max_length)]
            owners += [position] * (len(windows) - len(owners))
        return windows, owners

    def encode(self, requests: Sequence[tuple[str, str]]) -> list[Pair]:
        return (self.engine.encoder.encode_pairs_apart if self.engine.seq2seq else self.engine.encoder.encode_pairs)(
            requests
        )

    def _why_unscorable(self, pair: Pair) -> str | None:
        if not pair.continuation:
            return "the continuation has no tokens of its own, so there is nothing to score"
        if len(pair.continuation) > self.engine.max_length:
            return (
                f"the continuation has {len(pair.continuation)} tokens, but the model reads {self.engine.max_length} "
                "(raise max_length if the model allows it)"
            )
        return None

    def _score(self, pairs: list[Pair], pending: set[int]) -> Iterator[tuple[int, LogLikelihood]]:
        """The answers that are pending. Passes are made of all pairs, and those that hold none of these are left out.

        Out of memory: halve the budget and go on with the requests that have no answer yet.
        """
        chosen = (pairs[index] for index in pending)
        self.engine.usage.prompt_tokens += sum(len(pair.context) + len(pair.continuation) - 1 for pair in chosen)
        self.engine.budget.grow()
        while pending:
            try:
                for index, value in self._score_once(pairs, frozenset(pending)):
                    if index in pending:
                        pending.remove(index)
                        yield index, value
            except Exception as error:  # raised again there, unless memory ran out
                self.engine.recover(error)

    def _score_once(self, pairs: list[Pair], wanted: Set[int]) -> Iterator[tuple[int, LogLikelihood]]:
        if self.engine.seq2seq:
            places = sorted(wanted)
            for index, value in score_seq2seq(self.engine.model, [pairs[i] for i in places], self.engine.max_length):
                yield places[index], value
            return
        engine = self.engine
        scored = [to_scored(pair, engine.max_length) for pair in pairs]
        # A sequence that the model treats otherwise when it is alone is computed by itself.
        short = [index for index, request in enumerate(scored) if len(request.tokens) <= engine.tree_length]
        runner = engine.runner or (engine.states if engine.states and engine.states.shares else None)
        shared = short if runner else []
        if runner is not None and shared:
            before = runner.computed
            asked = {index for index, place in enumerate(shared) if place in wanted}
            for index, value in self._score_shared([scored[i] for i in shared], asked):
                yield shared[index], value
            engine.usage.computed_tokens += runner.computed - before
        plain = sorted(set(range(len(scored))) - set(shared))
        alone = [scored[i] for i in plain]
        asked = {index for index, place in enumerate(plain) if place in wanted}
        for index, value in score_plainly(engine.model, alone, engine.budget.tokens, LinearMode.SCORING, asked):
            yield plain[index], value
        engine.usage.computed_tokens += sum(map(len, {tuple(alone[i].tokens) for i in asked}))

    def _score_shared(self, scored: list[Scored], wanted: Set[int]) -> Iterator[tuple[int, LogLikelihood]]:
        engine = self.engine
        if engine.runner is not None:
            # Whoever has just started it waits for a first answer, and is told sooner if something is wrong. In every window, so
            # that its passes do not depend on whether it was the first of a process.
            return score_by_tree(engine.runner, scored, engine.budget.tokens, engine.budget.tokens // 4, wanted)
        assert engine.states is not None
        return score_by_state(engine.states, scored, engine.budget.tokens, wanted)


def score_seq2seq(model: Any, pairs: Sequence[Pair], max_length: int) -> Iterator[tuple[int, LogLikelihood]]:
    """The context is encoded once, each continuation is read by the decoder."""
    by_context: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        by_context[tuple(pair.context[-max_length:])].append(index)
    device = model.get_input_embeddings().weight.device
    for context, indices in by_context.items():
        tokens = torch.tensor([context], device=device)
        mask = torch.ones_like(tokens)
        with torch.inference_mode():
            encoded = model.get_encoder()(input_ids=tokens, attention_mask=mask)
            for index in indices:
                targets = pairs[index].continuation
                labels = torch.tensor([targets], device=device)
                logits = model(encoder_outputs=encoded, attention_mask=mask, labels=labels).logits[0]
                values, greedy = log_probabilities(logits, range(len(targets)), targets)
                yield index, (float(values.sum()), bool(greedy.all()))
