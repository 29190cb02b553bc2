"""All instances of one doc under one filter, ready for metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

from assay.errors import ScoringError
from assay.instance import Doc, Instance
from assay.request_types import REQUEST_TYPES


@runtime_checkable
class Results(Protocol):
    """The base of all results. `Results.create` builds the one that fits the instances."""

    results: Any
    target: Any
    scores: dict[str, Any]
    instances: Sequence[Instance]

    @classmethod
    def from_instances(cls, instances: Sequence[Instance], filter_name: str | None = None) -> Self: ...

    def to_metric_inputs(self) -> Any: ...

    @staticmethod
    def create(instances: Sequence[Instance], filter_name: str | None = None) -> GenResult | MCResult:
        """The result of one doc's instances: choices for loglikelihoods, generations for everything else."""
        if instances and scores_continuations(instances):
            return MCResult.from_instances(instances, filter_name, acc_mutual_info=True)
        return GenResult.from_instances(instances, filter_name)


def scores_continuations(instances: Sequence[Instance]) -> bool:
    """Whether a doc's requests score given texts after a prompt, rather than have one written."""
    row = REQUEST_TYPES[instances[0].request_type]
    return row.has_context and row.scored_argument is not None


def filtered(instance: Instance, filter_name: str | None) -> Any:
    """What a filter made of an instance's responses; without a filter, the first response."""
    if filter_name is None:
        resps: Any = instance.resps
        is_bare = isinstance(resps, tuple) and len(resps) == 2 and isinstance(resps[1], bool)
        return resps if is_bare else resps[0]  # one (loglikelihood, is_greedy) that was not put into a list
    try:
        return instance.filtered_resps[filter_name]
    except KeyError:
        raise ScoringError(
            f"task {instance.task_name!r}, doc {instance.doc_id}: filter {filter_name!r} was not applied",
            hint=f"Applied: {', '.join(instance.filtered_resps) or 'none'}. Call apply_filters first.",
        ) from None


def likelihood(instance: Instance, filter_name: str | None) -> Any:
    """What a filter left of an answer that is scored and not written. All draws of it are one computation, so of a list of
    them the first is the answer."""
    left = filtered(instance, filter_name)
    answer = left[0] if isinstance(left, list) and left and not isinstance(left[0], float | int) else left
    try:
        return REQUEST_TYPES[instance.request_type].plain(answer)
    except (TypeError, ValueError, IndexError):
        raise ScoringError(
            f"task {instance.task_name!r}, doc {instance.doc_id}: filter {filter_name!r} left {str(left)[:60]!r} of a likelihood",
            hint=f"What is left must be the answer, or a list of its draws: {instance.resps!r}.",
        ) from None


@dataclass
class GenResult(Results):
    """The generations for one doc. `results` lists all draws; `prediction` is what the filter left, list or not."""

    results: Sequence[Any]
    target: Any
    instances: Sequence[Instance] = ()
    repeats: int = 1
    filter_name: str = "none"
    scores: dict[str, Any] = field(default_factory=lambda: defaultdict(list))
    prediction: Any = None

    @classmethod
    def from_instances(cls, instances: Sequence[Instance], filter_name: str | None = None) -> Self:
        responses = [filtered(instance, filter_name) for instance in instances]
        draws = [draw for response in responses for draw in (response if isinstance(response, list) else [response])]
        one = instances[0]
        return cls(draws, one.target, instances, one.repeats, filter_name or "none", prediction=responses[0])

    @property
    def doc(self) -> Doc:
        return self.instances[0].doc

    def to_metric_inputs(self) -> dict[str, Any]:
        return {"predictions": self.results, "references": self.target}


@dataclass
class MCResult(Results):
    """The choices of one doc.

    `target` is the index of the right choice, a list of them, or an index beyond the choices where the doc names none.
    Lengths that are not given are those of the choices.
    """

    lls: Sequence[float]
    is_greedy: Sequence[bool]
    target: int | list[int]
    instances: Sequence[Instance] = ()
    choices: Sequence[str] = ()
    char_lens: Sequence[int] = ()
    byte_lens: Sequence[int] = ()
    token_lens: Sequence[int] = ()
    lls_mutual_info: Sequence[float] = ()
    scores: dict[str, Any] = field(default_factory=dict)
    filter_name: str = "none"

    def __post_init__(self) -> None:
        self.char_lens = self.char_lens or [len(choice) for choice in self.choices]
        self.byte_lens = self.byte_lens or [len(choice.encode("utf-8", "surrogatepass")) for choice in self.choices]

    @classmethod
    def from_instances(
        cls,
        instances: Sequence[Instance] = (),
        filter_name: str | bool | None = None,
        *,
        acc_mutual_info: bool = False,
        results: Sequence[Instance] = (),
    ) -> Self:
        """Where there are twice as many requests as choices, the second half asked for each choice without context.

        `acc_mutual_info`, which may also come second, makes use of that half. The instances may also be called `results`.
        """
        instances = instances or results
        acc_mutual_info = acc_mutual_info or filter_name is True
        filter_name = None if isinstance(filter_name, bool) else filter_name
        responses = [likelihood(instance, filter_name) for instance in instances]
        lls, greedy = [ll for ll, _ in responses], [is_greedy for _, is_greedy in responses]
        choices = choices_of(instances)
        k = len(choices)
        without_context = lls[k:] if acc_mutual_info and len(lls) == 2 * k else []
        mutual = [a - b for a, b in zip(lls, without_context)]
        target = gold_indices(instances[0].target, choices)
        counts = [instance.token_count for instance in instances[:k]]
        tokens = [count for count in counts if count is not None]
        known = tokens if len(tokens) == k else []
        return cls(
            lls[:k],
            greedy[:k],
            target,
            instances,
            choices,
            token_lens=known,
            lls_mutual_info=mutual,
            filter_name=filter_name or "none",
        )

    @property
    def results(self) -> Sequence[float]:
        return self.lls

    @property
    def doc(self) -> Doc:
        return self.instances[0].doc

    @cached_property
    def scored_bytes(self) -> list[int]:
        """Bytes of the continuations as they were sent, delimiter included."""
        sent = [str(instance.args[1]) for instance in self.instances[: len(self.choices)]]
        return [len(text.encode("utf-8", "surrogatepass")) for text in sent]

    def to_metric_inputs(self) -> MCResult:
        return self


def choices_of(instances: Sequence[Instance]) -> Sequence[str]:
    """The choices that the task named, else the continuations as they were sent."""
    named = instances[0].choices
    return [str(instance.args[1]) for instance in instances] if named is None else named


def gold_indices(target: Any, choices: Sequence[str]) -> int | list[int]:
    """The target as indices: text becomes its position among the choices, or −1 if there is no such choice."""
    if isinstance(target, list | tuple):
        return [_index(part, choices) for part in target]
    return _index(target, choices)


def has_gold(target: Any, choices: Sequence[str]) -> bool:
    """Whether a right answer is among the choices. What is no index and no text is scoring's to refuse."""
    if type(target) is int:
        return 0 <= target < len(choices)
    try:
        found = gold_indices(target, choices)
    except ScoringError:
        return True
    return any(index >= 0 for index in (found if isinstance(found, list) else [found]))


def _index(target: Any, choices: Sequence[str]) -> int:
    if isinstance(target, str):
        return choices.index(target) if target in choices else -1
    try:
        index = int(target)
    except (TypeError, ValueError):
        raise ScoringError(f"the right choice is given as {target!r}", hint="Use its index or its text.") from None
    return index if 0 <= index < len(choices) else -1
