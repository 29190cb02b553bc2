"""One sample as a reader wants it: the prompt with its few-shot part apart, choices with likelihoods, what filters did."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.run import unpack_arguments
from assay.view.database import Row
from assay.view.queries import metrics_of


@dataclass(frozen=True)
class Prompt:
    """What the model was sent: `shots` examples first, then the question."""

    examples: str
    question: str
    shots: int

    @property
    def text(self) -> str:
        return self.examples + self.question


@dataclass(frozen=True)
class Choice:
    """One continuation that was scored."""

    label: str
    text: str
    loglikelihood: float
    share: float
    """Of the probability that all choices have together."""
    per_character: float
    is_greedy: bool
    is_target: bool = False
    is_picked: bool = False
    context: str | None = None
    """Where the choices differ in context and share the continuation, that context."""
    tokens: int | None = None


@dataclass(frozen=True)
class Response:
    text: str
    stop: str | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Filtered:
    """What one filter made of the responses, and the scores that followed."""

    name: str
    steps: tuple[str, ...]
    text: str
    metrics: Mapping[str, float]
    flags: tuple[str, ...]
    changed: bool


@dataclass(frozen=True)
class Sample:
    doc_id: int
    prompt: Prompt
    target: Any
    choices: tuple[Choice, ...] = ()
    responses: tuple[Response, ...] = ()
    likelihoods: tuple[dict[str, Any], ...] = ()
    filtered: tuple[Filtered, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    doc: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    cluster: str | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def target_text(self) -> str:
        named = [f"{choice.label}  {choice.text.strip()}" for choice in self.choices if choice.is_target]
        return "\n".join(named) or as_text(self.target)


def present(rows: Sequence[Row], config: Mapping[str, Any], shots: int) -> Sample:
    """The rows of one doc (one per filter) as one sample."""
    first = rows[0]
    requests = unpack_arguments(first["arguments"] or "[]")
    responses = _json(first["resps"], [])
    target = _json(first["target"], None)
    context = str(requests[0][0]) if requests else ""
    prompt = split_prompt(context, shots, str(config.get("fewshot_delimiter") or "\n\n"))
    tokens = _json(first.get("tokens"), None)
    is_choice = config.get("output_type") == "multiple_choice"
    choices = choices_of(requests, responses, target, tokens) if is_choice else ()
    texts = responses_of(responses, _json(first.get("stops"), None), tokens)
    settings = requests[0][1] if requests and len(requests[0]) > 1 and isinstance(requests[0][1], dict) else {}
    return Sample(
        doc_id=first["doc_id"],
        prompt=prompt,
        target=target,
        choices=choices,
        responses=texts,
        likelihoods=() if choices else likelihoods_of(requests, responses),
        filtered=tuple(filtered_of(row, config, texts) for row in rows),
        settings=settings,
        doc=_json(first["doc"], {}) or {},
        flags=tuple(dict.fromkeys(flag for row in rows for flag in row.get("flags") or ())),
        cluster=first.get("cluster"),
        hashes={"doc": first["doc_hash"] or "", "requests": first["request_hash"] or ""},
        counts=counts_of(requests, texts, tokens),
    )


def question_of(row: Row, shots: int, delimiter: str) -> str:
    """The question alone, for lists."""
    requests = unpack_arguments(row["arguments"] or "[]")
    return split_prompt(str(requests[0][0]), shots, delimiter).question if requests else ""


def answer_of(row: Row) -> str:
    """What was scored, short: the filtered response, or the likeliest choice."""
    found = _json(row["filtered_resps"], [])
    pairs = [_pair(item) for item in found] if isinstance(found, list) else []
    if pairs and all(pair is not None for pair in pairs):
        requests = unpack_arguments(row["arguments"] or "[]")
        if len(pairs) > 1 and len(requests) >= len(pairs):
            best = max(range(len(pairs)), key=lambda i: pairs[i][0])  # type: ignore[index]
            return str(requests[best][1]).strip() if len({str(r[1]) for r in requests}) > 1 else f"choice {best}"
        return f"log-likelihood {pairs[0][0]:.2f}"  # type: ignore[index]
    return as_text(found[0] if isinstance(found, list) and len(found) == 1 else found)


def target_of(row: Row) -> str:
    """The target, short: a choice by its text, where the row has one."""
    target = _json(row["target"], None)
    if isinstance(target, int) and not isinstance(target, bool):
        requests = unpack_arguments(row["arguments"] or "[]")
        if 0 <= target < len(requests) and len({str(request[-1]) for request in requests}) > 1:
            return str(requests[target][-1]).strip()
    return as_text(target)


def split_prompt(context: str, shots: int, delimiter: str = "\n\n") -> Prompt:
    """Few-shot examples apart from the question.

    The delimiter may occur inside an example. Examples are worded alike, so the question begins at the last delimiter after
    which the text starts as the examples do, provided that gives the right number of them.

    >>> split_prompt("Q: 1\\n\\nA: 1\\n\\nQ: 2\\n\\nA:", 1).question
    'Q: 2\\n\\nA:'
    """
    if shots < 1 or not delimiter:
        return Prompt("", context, 0)
    starts = [0, *(match.end() for match in re.finditer(re.escape(delimiter), context))]
    if len(starts) == shots + 1:
        return Prompt(context[: starts[-1]], context[starts[-1] :], shots)
    heads: dict[str, list[int]] = {}
    for start in starts:
        if head := re.match(r"\s*\S+", context[start : start + 60]):
            heads.setdefault(head[0].strip(), []).append(start)
    for places in heads.values():
        if len(places) == shots + 1:
            return Prompt(context[: places[-1]], context[places[-1] :], shots)
    return Prompt("", context, 0)


def choices_of(
    requests: Sequence[Sequence[Any]], responses: Any, target: Any, tokens: Any = None
) -> tuple[Choice, ...]:
    """Choices with log-likelihoods. Requests without a context (for mutual information) come after the choices."""
    pairs = [_pair(item[0]) if isinstance(item, list) and item else None for item in responses or []]
    if not pairs or any(pair is None for pair in pairs) or len(requests) != len(pairs):
        return ()
    known: list[tuple[float, bool]] = [pair for pair in pairs if pair is not None]
    count = len(known) // 2 if len(known) > 2 and len(known) % 2 == 0 and _is_twice(requests) else len(known)
    known, requests = known[:count], requests[:count]
    top = max(ll for ll, _ in known)
    weights = [math.exp(ll - top) if math.isfinite(ll) else 0.0 for ll, _ in known]
    total = sum(weights) or 1.0
    varies = len({str(request[0]) for request in requests}) > 1 and len({str(request[1]) for request in requests}) == 1
    picked = max(range(count), key=lambda i: known[i][0])
    return tuple(
        Choice(
            label=_label(i),
            text=str(request[1]) if len(request) > 1 else "",
            loglikelihood=ll,
            share=weights[i] / total,
            per_character=ll / max(1, len(str(request[1]).strip())) if len(request) > 1 else ll,
            is_greedy=greedy,
            is_target=_is_target(target, i, str(request[1]) if len(request) > 1 else ""),
            is_picked=i == picked,
            context=str(request[0])[-400:] if varies else None,
            tokens=_response_tokens(tokens, i, 0),
        )
        for i, (request, (ll, greedy)) in enumerate(zip(requests, known))
    )


def responses_of(responses: Any, stops: Any, tokens: Any = None) -> tuple[Response, ...]:
    found: list[Response] = []
    for i, draws in enumerate(responses if isinstance(responses, list) else []):
        for j, draw in enumerate(draws if isinstance(draws, list) else [draws]):
            if isinstance(draw, str):
                found.append(Response(draw, _at(_at(stops, i), j), _response_tokens(tokens, i, j)))
    return tuple(found)


def _response_tokens(tokens: Any, request: int, draw: int) -> int | None:
    """Of (prompt, response), where the run kept them."""
    pair = _at(_at(tokens, request), draw)
    return int(pair[1]) if isinstance(pair, list) and len(pair) == 2 else None


def likelihoods_of(requests: Sequence[Sequence[Any]], responses: Any) -> tuple[dict[str, Any], ...]:
    """Continuations, or whole texts, with their log-likelihood."""
    found = []
    for request, draws in zip(requests, responses if isinstance(responses, list) else []):
        value = draws[0] if isinstance(draws, list) and draws else draws
        pair = _pair(value)
        if pair is not None:
            found.append({"text": str(request[-1]), "value": pair[0], "is_greedy": pair[1]})
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append({"text": str(request[-1]), "value": float(value), "is_greedy": None})
    return tuple(found)


def filtered_of(row: Row, config: Mapping[str, Any], raw: Sequence[Response]) -> Filtered:
    steps: list[str] = []
    for chain in config.get("filter_list") or []:
        if isinstance(chain, Mapping) and chain.get("name", "none") == row["filter"]:
            steps = [_step(step) for step in chain.get("filter") or []]
    value = _json(row["filtered_resps"], [])
    text = as_text(value[0] if isinstance(value, list) and len(value) == 1 else value)
    changed = bool(raw) and text != raw[0].text
    return Filtered(str(row["filter"]), tuple(steps), text, metrics_of(row), tuple(row.get("flags") or ()), changed)


def counts_of(requests: Sequence[Sequence[Any]], texts: Sequence[Response], tokens: Any) -> dict[str, int]:
    """Sizes; tokens where the run kept them."""
    counts = {"requests": len(requests), "prompt characters": len(str(requests[0][0])) if requests else 0}
    if texts:
        counts["response characters"] = sum(len(text.text) for text in texts)
    pairs = [pair for request in tokens or [] for pair in request or [] if pair]
    if pairs:
        counts["prompt tokens"] = max(prompt for prompt, _ in pairs)
        counts["response tokens"] = sum(response for _, response in pairs)
    return counts


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json(text: str | None, default: Any) -> Any:
    if text is None:
        return default
    try:
        return json.loads(text)
    except ValueError:
        return text


def _pair(value: Any) -> tuple[float, bool] | None:
    """`[loglikelihood, is_greedy]` as it comes out of JSON."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], int | float) and isinstance(value[1], bool):
        return float(value[0]), value[1]
    return None


def _is_twice(requests: Sequence[Sequence[Any]]) -> bool:
    half = len(requests) // 2
    return all(r[0] == "" for r in requests[half:]) and [r[-1] for r in requests[:half]] == [
        r[-1] for r in requests[half:]
    ]


def _is_target(target: Any, position: int, text: str) -> bool:
    wanted = target if isinstance(target, list) else [target]
    return any(
        each == position or (isinstance(each, str) and (each == str(position) or each.strip() == text.strip()))
        for each in wanted
        if not isinstance(each, bool)
    )


def _label(position: int) -> str:
    """A, …, Z, AA, AB, …"""
    letters = ""
    position += 1
    while position:
        position, rest = divmod(position - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _step(step: Any) -> str:
    if not isinstance(step, Mapping):
        return str(step)
    own = {key: value for key, value in step.items() if key not in ("function", "kwargs")}
    arguments = {**own, **(step.get("kwargs") or {})}
    shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"{step.get('function')}({shown})" if shown else str(step.get("function"))


def _at(items: Any, position: int) -> Any:
    return items[position] if isinstance(items, list) and position < len(items) else None
