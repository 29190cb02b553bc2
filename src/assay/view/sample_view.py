"""One sample as a reader wants it: the prompt with its few-shot part apart, choices with likelihoods, what filters did."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.instance import is_chat
from assay.view.database import SampleRecord
from assay.view.prompts import PromptParts, Request, context_of, prompt_of, requests_of, turns_text
from assay.view.queries import metrics_of


@dataclass(frozen=True)
class ChoiceView:
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
class ShownResponse:
    text: str
    stop: str | None = None
    tokens: int | None = None
    turn: str | None = None
    """What was said to the model before, where that is not the prompt: a further turn of a conversation."""
    reasoning: str = ""
    tool_calls: tuple[Any, ...] = ()
    reasoning_tokens: int | None = None
    refusal: str = ""
    model: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else came with the answer, as the server wrote it."""


@dataclass(frozen=True)
class QuestionReply:
    """What another model said; of a judge, with the verdict that was read from it."""

    text: str
    verdict: str | None = None
    """In the words of the scale, or the grade."""
    is_unread: bool = False
    """A judge's reply from which no verdict could be read."""


@dataclass(frozen=True)
class AskedOther:
    """A question to another model about the responses, a judge's say, and what it answered."""

    role: str
    question: str
    replies: tuple[QuestionReply, ...]
    about: tuple[str, ...] = ()
    """What tells it from the other questions about this doc: the filter, the part, the draw, the second attempt."""
    failure: str | None = None


@dataclass(frozen=True)
class FilteredView:
    """What one filter made of the responses, and the scores that followed."""

    name: str
    steps: tuple[str, ...]
    text: str
    metrics: Mapping[str, float]
    flags: tuple[str, ...]
    changed: bool
    label: float | None = None
    """What people say, where a judge scored the answer and people did too."""


@dataclass(frozen=True)
class SampleView:
    doc_id: int
    prompt: PromptParts
    target: Any
    choices: tuple[ChoiceView, ...] = ()
    responses: tuple[ShownResponse, ...] = ()
    likelihoods: tuple[dict[str, Any], ...] = ()
    filtered: tuple[FilteredView, ...] = ()
    asked: tuple[AskedOther, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    doc: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    cluster: str | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_judged(self) -> bool:
        return any(reply.verdict is not None or reply.is_unread for each in self.asked for reply in each.replies)

    @property
    def target_text(self) -> str:
        named = [f"{choice.label}  {choice.text.strip()}" for choice in self.choices if choice.is_target]
        return "\n".join(named) or as_text(self.target)


def present(rows: Sequence[SampleRecord], config: Mapping[str, Any], shots: int) -> SampleView:
    """The rows of one doc (one per filter) as one sample."""
    first = rows[0]
    requests = requests_of(first)
    responses = _json(first["resps"], [])
    target = _json(first["target"], None)
    prompt = prompt_of(requests, shots, str(config.get("fewshot_delimiter") or "\n\n"))
    tokens = _json(first.get("tokens"), None)
    is_choice = config.get("output_type") == "multiple_choice"
    choices = choices_of(requests, responses, target, tokens) if is_choice else ()
    texts = responses_of(requests, responses, _json(first.get("stops"), None), tokens, _json(first.get("extras"), None))
    doc = _json(first["doc"], {})
    settings = requests[0][1] if requests and len(requests[0]) > 1 and isinstance(requests[0][1], dict) else {}
    return SampleView(
        doc_id=first["doc_id"],
        prompt=prompt,
        target=target,
        choices=choices,
        responses=texts,
        likelihoods=() if choices else likelihoods_of(requests, responses),
        filtered=tuple(filtered_of(row, config, texts) for row in rows),
        asked=tuple(asked_of(first)),
        settings=settings,
        doc=doc if isinstance(doc, dict) else {"doc": doc},
        flags=tuple(dict.fromkeys(flag for row in rows for flag in row.get("flags") or ())),
        cluster=first.get("cluster"),
        hashes={"doc": first["doc_hash"] or "", "requests": first["request_hash"] or ""},
        counts=counts_of(requests, texts, tokens),
    )


def question_of(row: SampleRecord, shots: int, delimiter: str) -> str:
    """The question alone, for lists."""
    return prompt_of(requests_of(row), shots, delimiter).question


def answer_of(row: SampleRecord) -> str:
    """What was scored, short: the filtered response, or the likeliest choice."""
    filtered = _json(row["filtered_resps"], [])
    items = filtered if isinstance(filtered, list) else []
    pairs = [pair for pair in map(_pair, items) if pair is not None]
    if not pairs or len(pairs) < len(items):
        return as_text(items[0] if len(items) == 1 else filtered)
    continuations = [str(request[-1]) for request in requests_of(row)]
    if len(pairs) == 1 or len(continuations) < len(pairs):
        return f"log-likelihood {pairs[0][0]:.2f}"
    best = max(range(len(pairs)), key=lambda i: pairs[i][0])
    return continuations[best].strip() if len(set(continuations)) > 1 else f"choice {best}"


def target_of(row: SampleRecord) -> str:
    """The target, short: a choice by its text, where the row has one."""
    target = _json(row["target"], None)
    if isinstance(target, int) and not isinstance(target, bool):
        continuations = [str(request[-1]) for request in requests_of(row)]
        if 0 <= target < len(continuations) and len(set(continuations)) > 1:
            return continuations[target].strip()
    return as_text(target)


def choices_of(requests: Sequence[Request], responses: Any, target: Any, tokens: Any = None) -> tuple[ChoiceView, ...]:
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
    varies = len({str(request[0]) for request in requests}) > 1 and len({str(request[-1]) for request in requests}) == 1
    picked = max(range(count), key=lambda i: known[i][0])
    return tuple(
        ChoiceView(
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


def responses_of(
    requests: Sequence[Request], responses: Any, stops: Any = None, tokens: Any = None, extras: Any = None
) -> tuple[ShownResponse, ...]:
    """The texts, each with what came along."""
    texts: list[ShownResponse] = []
    for i, draws in enumerate(_list(responses)):
        context = requests[i][0] if 0 < i < len(requests) else None
        for j, draw in enumerate(draws if isinstance(draws, list) else [draws]):
            if isinstance(draw, str):
                more = _at(_at(extras, i), j)
                more = more if isinstance(more, dict) else {}
                texts.append(
                    ShownResponse(
                        text=draw,
                        stop=_at(_at(stops, i), j),
                        tokens=_response_tokens(tokens, i, j),
                        turn=turns_text(context[-1:]) if is_chat(context) else context,
                        reasoning=as_text(more.get("reasoning") or ""),
                        tool_calls=tuple(_list(more.get("tool_calls"))),
                        reasoning_tokens=more.get("reasoning_tokens"),
                        refusal=as_text(more.get("refusal") or ""),
                        model=as_text(more.get("model") or ""),
                        more=more["more"] if isinstance(more.get("more"), dict) else {},
                    )
                )
    return tuple(texts)


def asked_of(row: SampleRecord) -> Iterator[AskedOther]:
    """What scoring asked other models about this doc."""
    for question in _list(_json(row.get("questions"), [])):
        if isinstance(question, dict):
            arguments, note = _list(question.get("arguments")), question.get("note")
            note = note if isinstance(note, dict) else {}
            yield AskedOther(
                role=str(question.get("role")),
                question=as_text(arguments[0]) if arguments else "",
                replies=tuple(_reply(text, note, i) for i, text in enumerate(_list(question.get("resps")))),
                about=tuple(_told_apart(note)),
                failure=None if question.get("failure") is None else as_text(question["failure"]),
            )


def _told_apart(note: Mapping[str, Any]) -> Iterator[str]:
    if note.get("filter", "none") != "none":
        yield f"filter {note['filter']}"
    if note.get("part"):
        yield str(note["part"]).replace("_", " ")
    if note.get("draw"):
        yield f"answer {note['draw'] + 1}"
    if note.get("attempt", 1) != 1:
        yield "asked once more"


def _reply(text: Any, note: Mapping[str, Any], position: int) -> QuestionReply:
    verdicts = note.get("verdicts")
    if not isinstance(verdicts, list) or position >= len(verdicts):
        return QuestionReply(as_text(text))
    value = verdicts[position]
    if not isinstance(value, int | float):
        return QuestionReply(as_text(text), is_unread=True)
    if (
        note.get("part") == "mine second"
    ):  # the judge named the first answer or the second: here it is ours or the other
        value = 1 - value
    allowed = note.get("allowed")
    words = allowed.get("words") if isinstance(allowed, dict) else None
    named = [word for word, stands_for in words.items() if stands_for == value] if isinstance(words, dict) else []
    return QuestionReply(as_text(text), verdict=str(named[0]) if named else f"{value:g}")


def _response_tokens(tokens: Any, request: int, draw: int) -> int | None:
    """Of (prompt, response), where the run kept them."""
    pair = _at(_at(tokens, request), draw)
    return int(pair[1]) if isinstance(pair, list) and len(pair) == 2 else None


def likelihoods_of(requests: Sequence[Request], responses: Any) -> tuple[dict[str, Any], ...]:
    """Continuations, or whole texts, with their log-likelihood."""
    lines = []
    for request, draws in zip(requests, _list(responses)):
        value = draws[0] if isinstance(draws, list) and draws else draws
        pair = _pair(value)
        if pair is not None:
            lines.append({"text": str(request[-1]), "value": pair[0], "is_greedy": pair[1]})
        elif isinstance(value, int | float) and not isinstance(value, bool):
            lines.append({"text": str(request[-1]), "value": float(value), "is_greedy": None})
    return tuple(lines)


def filtered_of(row: SampleRecord, config: Mapping[str, Any], raw: Sequence[ShownResponse]) -> FilteredView:
    steps: list[str] = []
    for chain in _list(config.get("filter_list")):
        if isinstance(chain, Mapping) and chain.get("name", "none") == row["filter"]:
            steps = [_step(step) for step in _list(chain.get("filter"))]
    if rules := _json(row.get("other"), {}).get("read_by"):
        steps.append(f"read by the rule {', '.join(dict.fromkeys(map(str, rules)))}")
    value = _json(row["filtered_resps"], [])
    text = as_text(value[0] if isinstance(value, list) and len(value) == 1 else value)
    changed = bool(raw) and text != raw[0].text
    # Every number of a panel has the same label: it is about the answer.
    labels = (value for name, value in row.items() if name.startswith("label:") and value is not None)
    return FilteredView(
        str(row["filter"]),
        tuple(steps),
        text,
        metrics_of(row),
        tuple(row.get("flags") or ()),
        changed,
        label=next(labels, None),
    )


def counts_of(requests: Sequence[Request], texts: Sequence[ShownResponse], tokens: Any) -> dict[str, int]:
    """Sizes; tokens where the run kept them."""
    counts = {"requests": len(requests), "prompt characters": len(context_of(requests))}
    if texts:
        counts["response characters"] = sum(len(text.text) for text in texts)
    pairs = [pair for request in _list(tokens) for pair in _list(request) if isinstance(pair, list) and len(pair) == 2]
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


def _is_twice(requests: Sequence[Request]) -> bool:
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
    given = step.get("kwargs")
    arguments = {**own, **(given if isinstance(given, Mapping) else {})}
    shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"{step.get('function')}({shown})" if shown else str(step.get("function"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _at(items: Any, position: int) -> Any:
    return items[position] if isinstance(items, list) and position < len(items) else None
