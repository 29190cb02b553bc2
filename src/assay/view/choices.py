"""The choices of a question as a reader wants them: likelihoods, shares, the target, and what each metric picks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.view.cells import likelihood_pair, response_tokens
from assay.view.prompts import Request


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
    picked_by: tuple[str, ...] = ()
    """The metrics that take this choice for the answer; `likeliest` where none compares choices."""
    context: str | None = None
    """Where the choices differ in context and share the continuation, that context."""
    tokens: int | None = None


def choices_of(requests: Sequence[Request], responses: Any, target: Any, tokens: Any = None) -> tuple[ChoiceView, ...]:
    """Choices with log-likelihoods. Requests without a context (for mutual information) come after the choices."""
    pairs = [likelihood_pair(item[0]) if isinstance(item, list) and item else None for item in responses or []]
    if not pairs or any(pair is None for pair in pairs) or len(requests) != len(pairs):
        return ()
    known: list[tuple[float, bool]] = [pair for pair in pairs if pair is not None]
    count = len(known) // 2 if len(known) > 2 and len(known) % 2 == 0 and _is_twice(requests) else len(known)
    known, requests = known[:count], requests[:count]
    top = max(ll for ll, _ in known)
    weights = [math.exp(ll - top) if math.isfinite(ll) else 0.0 for ll, _ in known]
    total = sum(weights) or 1.0
    varies = len({str(request[0]) for request in requests}) > 1 and len({str(request[-1]) for request in requests}) == 1
    return tuple(
        ChoiceView(
            label=_label(i),
            text=str(request[1]) if len(request) > 1 else "",
            loglikelihood=ll,
            share=weights[i] / total,
            per_character=ll / max(1, len(str(request[1]).strip())) if len(request) > 1 else ll,
            is_greedy=greedy,
            is_target=_is_target(target, i, str(request[1]) if len(request) > 1 else ""),
            context=str(request[0])[-400:] if varies else None,
            tokens=response_tokens(tokens, i, 0),
        )
        for i, (request, (ll, greedy)) in enumerate(zip(requests, known))
    )


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


def with_picks(choices: Sequence[ChoiceView], metrics: Mapping[str, float]) -> tuple[ChoiceView, ...]:
    """Which choice each metric takes for the answer. A metric that says otherwise than its usual rule is not marked."""
    picks: dict[int, list[str]] = {}
    for name, rule in RULES.items():
        if choices and name in metrics:
            picked = max(range(len(choices)), key=lambda i: rule(choices[i]))
            if choices[picked].is_target == (metrics[name] == 1):
                picks.setdefault(picked, []).append(name)
    if choices and not picks:
        picks[max(range(len(choices)), key=lambda i: choices[i].loglikelihood)] = ["likeliest"]
    return tuple(replace(choice, picked_by=tuple(picks.get(i, ()))) for i, choice in enumerate(choices))


RULES: dict[str, Callable[[ChoiceView], float]] = {
    "acc": lambda choice: choice.loglikelihood,
    "acc_norm": lambda choice: choice.per_character,
    "acc_bytes": lambda choice: choice.loglikelihood / max(1, len(choice.text.strip().encode("utf-8", "replace"))),
    "acc_tokens": lambda choice: choice.loglikelihood / max(1, choice.tokens or 0),
}
"""By what a metric orders choices."""


def _label(position: int) -> str:
    """A, …, Z, AA, AB, …"""
    letters = ""
    position += 1
    while position:
        position, rest = divmod(position - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
