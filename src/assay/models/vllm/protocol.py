"""What is asked of vLLM and how its outputs are read. Knows vLLM's names, and imports nothing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import ModelError
from assay.instance import Response
from assay.models.generation import GenerationSettings, cut_at_stop, split_reasoning


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


def score_request(context: Sequence[int], continuation: Sequence[int]) -> Request:
    """The prompt is scored as it is read; one token has to be generated, and is ignored."""
    params = {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": 1, "detokenize": False}
    return Request((*context, *continuation), params)


def generation_request(
    prompt: Sequence[int], settings: GenerationSettings, *, stops: Sequence[str], seed: int
) -> Request:
    params: dict[str, Any] = {"max_tokens": settings.max_gen_toks, "temperature": settings.temperature}
    if stops:
        params["stop"] = list(stops)
    if not settings.greedy:
        params |= {"top_p": settings.top_p, "top_k": settings.top_k, "min_p": settings.min_p, "seed": seed}
    # Decoded as transformers-based scoring does, so that texts agree between backends.
    params |= {"skip_special_tokens": True, "spaces_between_special_tokens": False, **settings.other}
    return Request(tuple(prompt), params)


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
    )


def _token_score(token: int, row: Mapping[int, Any] | None) -> tuple[float, bool] | None:
    """The row holds the prompt's own token and the most likely ones, as `Logprob` objects or plain numbers."""
    if row is None or token not in row:
        return None
    values = {key: float(getattr(entry, "logprob", entry)) for key, entry in row.items()}
    return values[token], values[token] >= max(values.values())


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


def read_generation(output: Output, settings: GenerationSettings, think_end: str | None) -> Response:
    reasoning, text = split_reasoning(output.text, think_end, cut_off=output.finish_reason == "length")
    text, was_cut = cut_at_stop(text, settings.until)
    if was_cut:
        reason = "stop"
    elif output.finish_reason == "length":
        reason = "length"
    else:
        reason = "eos" if output.stop_reason is None else "stop"
    return Response(text, reason, reasoning=reasoning)
