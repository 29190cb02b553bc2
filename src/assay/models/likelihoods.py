"""What is made of likelihoods: the labels of a choice question, and the windows of a long text.

Labels are scored as the first token of the answer, by what a server lists or by likelihoods. A label is written with or
without a space before it, large or small; its probability is that of all its forms. For rolling likelihoods a long text
is cut into windows, and what comes back is added up.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from assay.errors import ConfigError
from assay.instance import Instance, Response

LabelLogprobs = tuple[tuple[float, bool], ...]
"""For each label its log-probability, and whether it was listed; a label that was not has an upper bound."""


def log_sum(values: Sequence[float]) -> float:
    largest = max(values, default=-math.inf)
    if not math.isfinite(largest):
        return largest
    return largest + math.log(sum(math.exp(value - largest) for value in values))


def label_logprobs_of(tops: Mapping[str, float], labels: Sequence[str]) -> LabelLogprobs:
    """The labels' log-probabilities from a list of the likeliest tokens.

    What is not listed is at most as likely as the last that is, and all of it together as what the list leaves over.

    >>> tops = {" B": math.log(0.5), "B": math.log(0.25), " the": math.log(0.2)}
    >>> [(round(math.exp(ll), 2), is_listed) for ll, is_listed in label_logprobs_of(tops, ["A", "B"])]
    [(0.05, False), (0.75, True)]
    """
    left = 1.0 - sum(math.exp(ll) for ll in tops.values())
    bound = min(min(tops.values()), math.log(max(left, 1e-12)))
    forms = {label: [ll for token, ll in tops.items() if _label(token) == label.upper()] for label in labels}
    return tuple((log_sum(forms[label]), True) if forms[label] else (bound, False) for label in labels)


def _label(token: str) -> str:
    """A token without the space before it, in whichever way a tokenizer writes that."""
    return token.strip().lstrip("Ġ▁").upper()


def label_pairs(instances: Sequence[Instance]) -> tuple[list[tuple[Any, str]], list[tuple[int, str]]]:
    """Context and continuation for every form of every label, and beside it the request's position and the label."""
    pairs: list[tuple[Any, str]] = []
    owners: list[tuple[int, str]] = []
    for position, instance in enumerate(instances):
        context, labels = instance.args[:2]
        for label in labels:
            forms = dict.fromkeys((f" {label}", label, f" {label.lower()}", label.lower()))
            pairs += [(context, form) for form in forms]
            owners += [(position, label)] * len(forms)
    return pairs, owners


def label_logprobs_by_likelihood(
    score: Callable[..., Iterable[tuple[int, Response]]],
    instances: Sequence[Instance],
    wanted: Collection[int] | None = None,
) -> Iterator[tuple[int, Response]]:
    """The same from a model that gives likelihoods: every form of every label is scored, by `score`.

    With `wanted`, only of the questions at these positions; `score` is then told which of its pairs are theirs.
    """
    pairs, owners = label_pairs(instances)
    missing = Counter(position for position, _ in owners)
    chosen = None if wanted is None else set(wanted)
    places = [place for place, (position, _) in enumerate(owners) if chosen is None or position in chosen]
    found: dict[tuple[int, str], list[float]] = defaultdict(list)
    failures: dict[int, str] = {}
    for place, response in score(pairs) if chosen is None else score(pairs, places):
        position, label = owners[place]
        missing[position] -= 1
        if response.failure is not None:
            failures[position] = response.failure
        else:
            found[position, label].append(response.answer[0])
        if not missing[position] and position in failures:
            yield position, Response(None, failure=failures[position])
        elif not missing[position]:
            labels = instances[position].args[1]
            yield position, Response(tuple((log_sum(found[position, each]), True) for each in labels))


def as_requests(pairs: Sequence[tuple[Any, str]]) -> list[Instance]:
    return [Instance("loglikelihood", {}, pair, 0) for pair in pairs]


def rolling_windows(tokens: Sequence[int], prefix: int | None, length: int) -> list[tuple[list[int], list[int]]]:
    """(context, scored) pairs: every token is scored once, with as much context as fits but at least one token.

    Ten tokens in windows of four; what the model reads is the context and all but the last of what is scored:

        [P] | 0 1 2 3      [3] | 4 5 6 7      [5 6 7] | 8 9

    >>> rolling_windows(range(10), -1, 4)
    [([-1], [0, 1, 2, 3]), ([3], [4, 5, 6, 7]), ([5, 6, 7], [8, 9])]
    """
    if prefix is None:
        raise ConfigError("the tokenizer has neither a BOS nor an EOS token to put before a text")
    if length < 1:
        raise ConfigError("max_length leaves no room for a token to score", hint="Raise max_length.")
    windows = [([prefix], list(tokens[:length]))] if len(tokens) else []
    for start in range(length, len(tokens), length):
        end = min(start + length, len(tokens))
        windows.append((list(tokens[end - length - 1 : start]), list(tokens[start:end])))
    return windows


class WindowSums:
    """Answers of windows, in any order, to answers of texts.

    Added up in the order of the text: sums of floats depend on their order, and the order of arrival on the weather.
    """

    def __init__(self, owners: Sequence[int]) -> None:
        """`owners[i]` is the text that window `i` is of."""
        self._owners = owners
        self._answers: dict[int, dict[int, Response]] = defaultdict(dict)
        self._missing: dict[int, int] = defaultdict(int)
        for owner in owners:
            self._missing[owner] += 1

    def add(self, window: int, answer: Response) -> tuple[int, Response] | None:
        """The text and its answer, when this was the last of its windows."""
        owner = self._owners[window]
        self._answers[owner][window] = answer
        self._missing[owner] -= 1
        if self._missing[owner]:
            return None
        answers = [one for _, one in sorted(self._answers.pop(owner).items())]
        failure = next((one.failure for one in answers if one.failure is not None), None)
        if failure is not None:
            return owner, Response(None, failure=failure)
        total = sum(one.answer[0] for one in answers)
        return owner, Response(total, tokens=(0, sum(one.tokens[1] for one in answers if one.tokens)))
