"""What a metric is, and where metrics and aggregations are registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from assay.registry import Registry
from assay.results import Draws
from assay.stats import Aggregation, Floats

Kind: TypeAlias = str
"""What a metric takes. `generation`: predictions and references; `choice`: a `ChoiceResult`; `loglikelihood`:
`(ll, is_greedy)`; `rolling`: `(ll, text)`; `trajectory`: a `Trajectory`; or what an output type of your own names."""

Value: TypeAlias = Any
"""What a metric gives for one doc: a number, or what its aggregation needs (a pair of texts, a confusion cell)."""


class ChoiceResult(Protocol):
    """All choices of one doc, as choice metrics read them."""

    @property
    def lls(self) -> Sequence[float]: ...
    @property
    def is_greedy(self) -> Sequence[bool]: ...
    @property
    def target(self) -> int | list[int]: ...
    @property
    def choices(self) -> Sequence[str]: ...
    @property
    def char_lens(self) -> Sequence[int]: ...
    @property
    def byte_lens(self) -> Sequence[int]: ...
    @property
    def scored_bytes(self) -> Sequence[int]:
        """Of the choices as they were sent, delimiter included; empty where nothing was."""

    @property
    def token_lens(self) -> Sequence[int]: ...
    @property
    def lls_mutual_info(self) -> Sequence[float]: ...


@dataclass(frozen=True)
class ChoiceBatch:
    """Many docs with equally many choices as arrays [docs, choices]; `gold` marks the right choices."""

    lls: Floats
    gold: NDArray[np.bool_]
    char_lens: Floats
    byte_lens: Floats


@dataclass(frozen=True)
class Metric:
    """One way to score a doc.

    A generation metric is called `fn(references=[…], predictions=[…], **kwargs)`, any other `fn(result, **kwargs)`.
    A dict gives one score per key. Where one name means different things for different tasks (`acc`), `forms` holds
    the further functions. `batch` scores many choice docs at once and must agree with `fn` on each.
    """

    name: str
    fn: Callable[..., Value]
    kind: Kind = "generation"
    aggregation: str = "mean"
    higher_is_better: bool | None = True
    batch: Callable[[ChoiceBatch], Floats] | None = None
    forms: Mapping[Kind, Callable[..., Value]] = field(default_factory=dict)
    takes_draws: bool = False
    """Whether a generation metric wants all draws of a doc in one prediction (pass@k), not one after another."""
    names_scores: bool = False
    """Whether its scores are named by its arguments (maj@8), so that a task may list it more than once."""
    binary: bool | None = None
    """Whether a draw is simply right or wrong, 0 or 1, so that right draws can be counted; None where nobody said."""

    def with_form(self, kind: Kind, fn: Callable[..., Value]) -> Metric:
        """The metric, which says something about results of this kind too."""
        return replace(self, forms={**self.forms, kind: fn})

    def form(self, kind: Kind) -> Callable[..., Value] | None:
        """The function for results of this kind, or None if the metric says nothing about them.

        A trajectory ends with an answer, so what says something about texts says something about that.
        """
        own = self.fn if kind == self.kind else self.forms.get(kind)
        return self.form("generation") if own is None and kind == "trajectory" else own

    def takes_trajectories(self) -> bool:
        return self.kind == "trajectory" or "trajectory" in self.forms


@dataclass(frozen=True)
class Reduced:
    """One value from several draws of a doc, with how many there were and how many of them were right.

    Reducers give it, and a metric that takes all draws at once may, so that groups can make their pass@k from the counts.
    """

    value: Any
    draws: Draws


def _as_metric(name: str, entry: object) -> Metric:
    return entry if isinstance(entry, Metric) else Metric(name, cast("Callable[..., Value]", entry))


def _as_aggregation(name: str, entry: object) -> Aggregation:
    return entry if isinstance(entry, Aggregation) else Aggregation(name, cast("Callable[..., Any]", entry))


METRICS: Registry[Metric] = Registry("metric", group="assay.metrics", made_of=_as_metric)
AGGREGATIONS: Registry[Aggregation] = Registry("aggregation", group="assay.aggregations", made_of=_as_aggregation)
"""A plain function may be registered in either: it is a generation metric, or an aggregation whose error bar is resampled."""


def register_aggregation(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: registers a function of all docs' values as an aggregation. The function itself is unchanged."""

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        AGGREGATIONS.add(name, Aggregation(name, fn))
        return fn

    return decorate


def register_metric(
    name: str,
    *,
    kind: Kind = "generation",
    aggregation: str = "mean",
    higher_is_better: bool | None = True,
    takes_draws: bool = False,
    binary: bool | None = None,
) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Decorator: registers a function as a metric. The function itself is unchanged."""

    def decorate(fn: Callable[..., Value]) -> Callable[..., Value]:
        own = Metric(name, fn, kind, aggregation, higher_is_better, takes_draws=takes_draws, binary=binary)
        METRICS.add(name, own)
        return fn

    return decorate


def passed_through(*, references: list[Any], predictions: list[Any], **_: Any) -> list[Any]:
    """`[reference, prediction]`, which the aggregation scores."""
    return [references[0], predictions[0]]
