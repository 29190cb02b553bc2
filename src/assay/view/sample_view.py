"""One sample as a reader wants it: the prompt with its few-shot part apart, choices with likelihoods, what filters did."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.errors import AssayError
from assay.metrics import plain
from assay.results import LABEL_COLUMN, TRAJECTORY, numbers_of, trajectory_in
from assay.view.cells import as_list, as_text, item_at, likelihood_pair, read_cell, response_tokens
from assay.view.choices import ChoiceView, choices_of, with_picks
from assay.view.conversations import conversation_of
from assay.view.database import SampleRecord
from assay.view.prompts import (
    Picture,
    PromptParts,
    Request,
    Turn,
    context_of,
    pictures_of,
    prompt_of,
    requests_of,
    turn_of,
)
from assay.view.questions import OtherQuestion, questions_of


@dataclass(frozen=True)
class ShownResponse:
    text: str
    stop: str | None = None
    tokens: int | None = None
    turn: Turn | None = None
    """What was said to the model before, where that is not the prompt: a further turn of a conversation."""
    reasoning: str = ""
    tool_calls: tuple[Any, ...] = ()
    reasoning_tokens: int | None = None
    refusal: str = ""
    model: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else came with the answer, as the server wrote it."""
    conversation: tuple[Turn, ...] = ()
    """All that was said and called on the way to it, where another harness kept that."""


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

    @property
    def says_something(self) -> bool:
        """Not of a doc that only adds to a sum, such as a text whose perplexity is measured."""
        return bool(self.metrics or self.steps or self.flags or self.changed or self.label is not None)


@dataclass(frozen=True)
class SampleView:
    doc_id: int
    prompt: PromptParts
    target: Any
    compared_as: str | None = None
    """The reference as a metric compares it, where that is not as the target is written."""
    pictures: tuple[Picture, ...] = ()
    choices: tuple[ChoiceView, ...] = ()
    responses: tuple[ShownResponse, ...] = ()
    likelihoods: tuple[dict[str, Any], ...] = ()
    filtered: tuple[FilteredView, ...] = ()
    asked: tuple[OtherQuestion, ...] = ()
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
    def is_conversation(self) -> bool:
        """Whether the responses answer one another's turns, rather than one prompt."""
        return any(response.turn is not None for response in self.responses)

    @property
    def conversations(self) -> tuple[tuple[Turn, ...], ...]:
        """Of each draw."""
        return tuple(response.conversation for response in self.responses)

    @property
    def target_text(self) -> str:
        named = [f"{choice.label}  {choice.text.strip()}" for choice in self.choices if choice.is_target]
        return "\n".join(named) or ("(none)" if self.target is None else as_text(self.target))


def present(rows: Sequence[SampleRecord], config: Mapping[str, Any], shots: int) -> SampleView:
    """The rows of one doc (one per filter) as one sample."""
    first = rows[0]
    requests = requests_of(first)
    responses = read_cell(first["resps"], [])
    target = read_cell(first["target"], None)
    prompt = prompt_of(requests, shots, str(config.get("fewshot_delimiter") or "\n\n"))
    pictures = tuple(pictures_of(requests))
    if prompt.turns and pictures:  # they went with what the user said last
        prompt, pictures = prompt.with_pictures(pictures), ()
    tokens = read_cell(first.get("tokens"), None)
    is_choice = config.get("output_type") == "multiple_choice"
    choices = choices_of(requests, responses, target, tokens) if is_choice else ()
    texts = responses_of(
        requests, responses, read_cell(first.get("stops"), None), tokens, read_cell(first.get("extras"), None)
    )
    doc = read_cell(first["doc"], {})
    settings = requests[0][1] if requests and len(requests[0]) > 1 and isinstance(requests[0][1], dict) else {}
    return SampleView(
        doc_id=first["doc_id"],
        prompt=prompt,
        target=target,
        compared_as=reference_of(target, config),
        pictures=pictures,
        choices=with_picks(choices, numbers_of(first)),
        responses=texts,
        likelihoods=() if choices else likelihoods_of(requests, responses),
        filtered=tuple(filtered_of(row, config, texts) for row in rows),
        asked=tuple(questions_of(first)),
        settings=settings,
        doc=doc if isinstance(doc, dict) else {"doc": doc},
        flags=tuple(dict.fromkeys(flag for row in rows for flag in row.get("flags") or ())),
        cluster=first.get("cluster"),
        hashes={"doc": first["doc_hash"] or "", "requests": first["request_hash"] or ""},
        counts=counts_of(requests, texts, tokens),
    )


def question_of(row: SampleRecord, shots: int, delimiter: str) -> str:
    """The question alone, for lists: of a chat, what its last turn says."""
    prompt = prompt_of(requests_of(row), shots, delimiter)
    return prompt.turns[-1].text if prompt.turns else prompt.question


def answer_of(row: SampleRecord) -> str:
    """What was scored, short: the filtered response, or the likeliest choice."""
    filtered = read_cell(row["filtered_resps"], [])
    items = filtered if isinstance(filtered, list) else []
    pairs = [pair for pair in map(likelihood_pair, items) if pair is not None]
    if not pairs or len(pairs) < len(items):
        return as_text(items[0] if len(items) == 1 else filtered)
    continuations = [str(request[-1]) for request in requests_of(row)]
    if len(pairs) == 1 or len(continuations) < len(pairs):
        return f"log-likelihood {pairs[0][0]:.2f}"
    best = max(range(len(pairs)), key=lambda i: pairs[i][0])
    return continuations[best].strip() if len(set(continuations)) > 1 else f"choice {best}"


def reference_of(target: Any, config: Mapping[str, Any]) -> str | None:
    """What a target is compared as: gsm8k's worked solution is `18` once its metric has taken out what it ignores."""
    for metric in as_list(config.get("metric_list")):
        if isinstance(metric, Mapping) and isinstance(target, str):
            given = metric.get("kwargs")
            settings = {**metric, **(given if isinstance(given, Mapping) else {})}
            patterns = [each for each in as_list(settings.get("regexes_to_ignore")) if isinstance(each, str)]
            flags = [settings.get(f"ignore_{what}") is True for what in ("case", "punctuation", "numbers")]
            try:
                text = str(plain(target, patterns, *flags))
            except (AssayError, ValueError, re.error):  # a pattern that is none
                return None
            return text if text.strip() and text != target else None
    return None


def target_of(row: SampleRecord, config: Mapping[str, Any] | None = None) -> str:
    """The target, short: a choice by its text, where the row has one; else as it is compared."""
    target = read_cell(row["target"], None)
    if isinstance(target, int) and not isinstance(target, bool):
        continuations = [str(request[-1]) for request in requests_of(row)]
        if 0 <= target < len(continuations) and len(set(continuations)) > 1:
            return continuations[target].strip()
    return reference_of(target, config or {}) or as_text(target)


def responses_of(
    requests: Sequence[Request], responses: Any, stops: Any = None, tokens: Any = None, extras: Any = None
) -> tuple[ShownResponse, ...]:
    """The texts, each with what came along."""
    texts: list[ShownResponse] = []
    for i, draws in enumerate(as_list(responses)):
        context = requests[i][0] if 0 < i < len(requests) else None
        for j, draw in enumerate(draws if isinstance(draws, list) else [draws]):
            if isinstance(draw, str):
                more = item_at(item_at(extras, i), j)
                more = more if isinstance(more, dict) else {}
                texts.append(
                    ShownResponse(
                        text=draw,
                        stop=item_at(item_at(stops, i), j),
                        tokens=response_tokens(tokens, i, j),
                        turn=turn_of(context),
                        reasoning=as_text(more.get("reasoning") or ""),
                        tool_calls=tuple(as_list(more.get("tool_calls"))),
                        reasoning_tokens=more.get("reasoning_tokens"),
                        refusal=as_text(more.get("refusal") or ""),
                        model=as_text(more.get("model") or ""),
                        more=facts_of(more),
                        conversation=conversation_of(more),
                    )
                )
    return tuple(texts)


def facts_of(extras: Mapping[str, Any]) -> dict[str, Any]:
    """What else came with an answer; of a trajectory all but what was said, which is shown step by step."""
    more = extras.get("more")
    rest = {key: value for key, value in more.items() if key != TRAJECTORY} if isinstance(more, dict) else {}
    own = {key: value for key, value in trajectory_in(extras).items() if key not in ("conversation", "calls")}
    return rest | own


def likelihoods_of(requests: Sequence[Request], responses: Any) -> tuple[dict[str, Any], ...]:
    """Continuations, or whole texts, with their log-likelihood."""
    lines = []
    for request, draws in zip(requests, as_list(responses)):
        value = draws[0] if isinstance(draws, list) and draws else draws
        pair = likelihood_pair(value)
        if pair is not None:
            lines.append({"text": str(request[-1]), "value": pair[0], "is_greedy": pair[1]})
        elif isinstance(value, int | float) and not isinstance(value, bool):
            lines.append({"text": str(request[-1]), "value": float(value), "is_greedy": None})
    return tuple(lines)


def filtered_of(row: SampleRecord, config: Mapping[str, Any], raw: Sequence[ShownResponse]) -> FilteredView:
    steps: list[str] = []
    for chain in as_list(config.get("filter_list")):
        if isinstance(chain, Mapping) and chain.get("name", "none") == row["filter"]:
            steps = [_step(step) for step in as_list(chain.get("filter"))]
    other = read_cell(row.get("other"), {})
    if rules := as_list(other.get("read_by")) if isinstance(other, dict) else []:
        steps.append(f"parsed by the rule {', '.join(dict.fromkeys(map(str, rules)))}")
    value = read_cell(row["filtered_resps"], [])
    text = as_text(value[0] if isinstance(value, list) and len(value) == 1 else value)
    changed = bool(raw) and text != raw[0].text
    # Every number of a panel has the same label: it is about the answer.
    labels = iter(numbers_of(row, LABEL_COLUMN).values())
    return FilteredView(
        str(row["filter"]),
        tuple(steps),
        text,
        numbers_of(row),
        tuple(row.get("flags") or ()),
        changed,
        label=next(labels, None),
    )


def counts_of(requests: Sequence[Request], texts: Sequence[ShownResponse], tokens: Any) -> dict[str, int]:
    """Sizes; tokens where the run kept them."""
    counts = {"requests": len(requests), "prompt characters": len(context_of(requests))}
    if texts:
        counts["response characters"] = sum(len(text.text) for text in texts)
    pairs = [
        pair for request in as_list(tokens) for pair in as_list(request) if isinstance(pair, list) and len(pair) == 2
    ]
    if pairs:
        counts["prompt tokens"] = max(prompt for prompt, _ in pairs)
        counts["response tokens"] = sum(response for _, response in pairs)
    return counts


def _step(step: Any) -> str:
    """A step of a filter, its patterns as they are written.

    >>> _step({"function": "regex", "regex_pattern": r"#### (\\-?[0-9]+)", "group_select": -1})
    'regex  #### (\\\\-?[0-9]+)  group_select=-1'
    """
    if not isinstance(step, Mapping):
        return str(step)
    own = {key: value for key, value in step.items() if key not in ("function", "kwargs")}
    given = step.get("kwargs")
    arguments = {**own, **(given if isinstance(given, Mapping) else {})}
    patterns = [str(value) for key, value in arguments.items() if key.endswith("pattern")]
    others = [f"{key}={as_text(value)}" for key, value in arguments.items() if not key.endswith("pattern")]
    return "  ".join([str(step.get("function")), *patterns, *others])
