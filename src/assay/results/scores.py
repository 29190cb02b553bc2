"""A number with what it is worth and how it was made, of a task or of a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.results.keys import MetricKey
from assay.stats import Estimate, Rate, rescaled

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]


def no_replicates() -> Floats:
    return np.empty(0)


@dataclass(frozen=True)
class JudgeCheck:
    """What is known about the judge behind a score. Without labels it is unchecked, and the score is the judge's opinion."""

    labels: int = 0
    """Docs that people judged too."""
    is_corrected: bool = False
    reason: str | None = None
    """Why the score could not be corrected though there are labels."""
    opinion: float | None = None
    """The number that the judge alone gives."""
    weight: float | None = None
    """How much the judge's verdicts count beside the labels (λ of PPI++)."""
    sensitivity: Rate | None = None
    specificity: Rate | None = None

    @property
    def mark(self) -> str:
        """
        >>> JudgeCheck().mark, JudgeCheck(labels=200, is_corrected=True).mark
        ('judge, unchecked', 'judge, 200 labels')
        """
        if self.is_corrected:
            return f"judge, {self.labels:,} labels"
        return "judge, unchecked" + (f" ({self.reason})" if self.reason else "")

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> JudgeCheck:
        rates = {name: Rate(**entry[name]) for name in ("sensitivity", "specificity") if entry.get(name)}
        return cls(**{**entry, **rates})

    @classmethod
    def of_members(cls, checks: Sequence[JudgeCheck | None]) -> JudgeCheck | None:
        """Of a group: checked where all its judged members are."""
        known = [check for check in checks if check is not None]
        if not known:
            return None
        return cls(sum(check.labels for check in known), all(check.is_corrected for check in known))


@dataclass(frozen=True)
class GoldCheck:
    """What the number would be if the gold answers were right, as far as people checked them."""

    estimate: Estimate
    labels: int
    """Docs whose gold answer was checked."""
    wrong: float | None = None
    """The share of docs on which it matters, or that have no right answer."""

    @property
    def mark(self) -> str:
        """
        >>> GoldCheck(Estimate(0.62, 0.02, 0.58, 0.66, 900, "labels"), 120, 0.05).mark
        'gold checked 0.62 [0.58, 0.66] (120 labels, 5 % changed)'
        >>> GoldCheck(Estimate.missing("7 labels, fewer than 20"), 7).mark
        'gold unchecked: 7 labels, fewer than 20'
        """
        e = self.estimate
        if e.value is None or e.low is None or e.high is None:
            return f"gold unchecked: {e.undefined or e.method}"
        changed = "" if self.wrong is None else f", {self.wrong * 100:.2g} % changed"
        return f"gold checked {e.value:.2f} [{e.low:.2f}, {e.high:.2f}] ({self.labels:,} labels{changed})"

    def to_json(self) -> dict[str, Any]:
        return {**self.estimate.to_dict(), "labels": self.labels, "wrong": self.wrong}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> GoldCheck:
        return cls(Estimate.from_dict(entry), entry["labels"], entry.get("wrong"))


@dataclass(frozen=True)
class Score:
    """What a task passes to its groups, a group to its parents, and a run to its results file.

    The fields up to `withheld` are the score as it is written down. The others are the evidence behind it, there only
    while the run is in memory. They are functions because most scores are never lifted: nothing is computed until a
    parent asks, and then once (`draws`, `draw_counts`, `docs`, `doc_keys`).
    """

    estimate: Estimate
    size: int
    """What the score weighs where members count by size: the docs it is about, whether or not all were asked."""
    aggregation: str | None = "mean"
    """The aggregation over docs, by name; of a group's score the aggregator over its members. None: a file did not say."""
    higher_is_better: bool | None = None
    withheld: str | None = None
    """Why the number must not be used."""
    judge: JudgeCheck | None = None
    """Where the values are a judge's verdicts: how far they were checked."""
    gold: GoldCheck | None = None
    """Where people checked gold answers: the number under the right ones, beside the published one and never in its place."""
    lm_eval_stderr: float | None = None
    """What lm-evaluation-harness gives as the standard error, where it is not the estimate's own; only its part of
    `results.json` has it."""
    asked: int | None = None
    """Docs asked, where `--limit` left out others: lm-evaluation-harness weighs by these."""
    floors: Mapping[str, Estimate] = field(default_factory=dict)
    """What the number would be without the ability, by the name of the floor; there with `--floors`."""
    above_floor: Estimate | None = None
    """How far it lies above the highest of them, on the same docs."""
    over_shuffled: Estimate | None = None
    """How far it lies above the score with the choices in another order, on the same docs: what their places do."""
    replicates: Callable[[], Floats] = field(default=no_replicates, compare=False, repr=False)
    counts: Callable[[], NDArray[np.int64]] | None = field(default=None, compare=False, repr=False)
    """Per problem (n draws, c right), for aggregators such as pass@k that work on problems."""
    samples: Callable[[], tuple[Floats, Keys]] | None = field(default=None, compare=False, repr=False)
    """Per doc, its value and the key of its bootstrap weights (clusters already share theirs). In the order of `counts`."""
    keys: Callable[[], Keys | None] | None = field(default=None, compare=False, repr=False)
    """The keys of all docs behind the number, for numbers that no doc has alone: an f1, a group's mean."""
    documents: Callable[[], Keys | None] | None = field(default=None, compare=False, repr=False)
    """The keys of the docs themselves, clusters or not, as often as the number counts each."""
    interval: Callable[[float], tuple[float, float] | None] | None = field(default=None, compare=False, repr=False)
    """Level to interval, by the method of the estimate's own."""
    one_end: Callable[[int, float], float | None] | None = field(default=None, compare=False, repr=False)
    """Side (0 low, 1 high) and level to that end, where it is cheaper than both."""

    @property
    def floor_mark(self) -> str:
        """
        >>> from dataclasses import replace
        >>> half = Estimate(0.5, 0.1, 0.3, 0.7, 20, "wilson")
        >>> Score(half, 20, floors={"blind": replace(half, value=0.4), "last_number": replace(half, value=0.1)}).floor_mark
        'blind 0.40 · last number 0.10'
        >>> moved = replace(half, value=0.25, low=0.1, high=0.4)
        >>> Score(half, 20, floors={"shuffled": replace(half, value=0.25)}, over_shuffled=moved).floor_mark
        'shuffled 0.25 (+0.25 [+0.10, +0.40] by the order of the choices)'
        """
        known = {name: floor.value for name, floor in self.floors.items() if floor.value is not None}
        best_first = sorted(known.items(), key=lambda item: item[1], reverse=self.higher_is_better is not False)
        parts: dict[bool, list[str]] = {True: [], False: []}
        for name, value in best_first:
            parts[name == "shuffled"].append(f"{name.replace('_', ' ')} {value:.2f}")
        floors = " · ".join(parts[False]) + _less(self.above_floor, "vs the highest")
        shuffled = "".join(parts[True]) + _less(self.over_shuffled, "by the order of the choices")
        return " · ".join(filter(None, (floors, shuffled)))

    def end(self, side: int, level: float) -> float | None:
        """The low (0) or high (1) end of the interval at this level."""
        if self.one_end is not None:
            return self.one_end(side, level)
        bounds = self.bounds(level)
        return None if bounds is None else bounds[side]

    def bounds(self, level: float) -> tuple[float, float] | None:
        """The interval at another level; read from a file, where the docs are not at hand, its sides are drawn in or out."""
        return rescaled(self.estimate, level) if self.interval is None else self.interval(level)

    @cached_property
    def draws(self) -> Floats:
        """The bootstrap replicates, computed on first use and kept."""
        return self.replicates()

    @cached_property
    def docs(self) -> tuple[Floats, Keys] | None:
        return None if self.samples is None else self.samples()

    @cached_property
    def doc_keys(self) -> Keys | None:
        """Which docs the number rests on; None where nobody knows."""
        if self.keys is not None:
            return self.keys()
        return None if self.docs is None else self.docs[1]

    @cached_property
    def draw_counts(self) -> NDArray[np.int64] | None:
        return None if self.counts is None else self.counts()


def _less(difference: Estimate | None, what: str) -> str:
    if difference is None or difference.value is None or difference.low is None or difference.high is None:
        return ""
    return f" ({difference.value:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}] {what})"


@dataclass(frozen=True)
class Share:
    """A member that entered, its weight, and its number. Aggregators without weights give no weight."""

    name: str
    weight: float | None
    value: float


@dataclass(frozen=True)
class GroupScore(Score):
    """A score that lists its members."""

    children: tuple[Share, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    """Members without the number, and why."""
    filtered_out: tuple[str, ...] = ()
    lm_eval_value: float | None = None
    """What lm-evaluation-harness gives as the number, where it is another one: with `--limit` it weighs by docs asked."""


def write_scores(scores: Mapping[MetricKey, Score]) -> list[dict[str, Any]]:
    """Scores as JSON. Each entry names its metric and filter, so that a comma in a name needs no taking apart."""
    return [{"metric": key.metric, "filter": key.filter, **_write_score(score)} for key, score in scores.items()]


def _write_score(score: Score) -> dict[str, Any]:
    entry: dict[str, Any] = {
        **score.estimate.to_dict(),
        "size": score.size,
        "aggregation": score.aggregation,
        "higher_is_better": score.higher_is_better,
    }
    if score.withheld is not None:
        entry["withheld"] = score.withheld
    if score.judge is not None:
        entry["judge"] = asdict(score.judge)
    if score.gold is not None:
        entry["gold"] = score.gold.to_json()
    if score.lm_eval_stderr is not None:
        entry["lm_eval_stderr"] = score.lm_eval_stderr
    if score.asked is not None:
        entry["asked"] = score.asked
    if score.floors:
        entry["floors"] = {name: floor.to_dict() for name, floor in score.floors.items()}
    if score.above_floor is not None:
        entry["above_floor"] = score.above_floor.to_dict()
    if score.over_shuffled is not None:
        entry["over_shuffled"] = score.over_shuffled.to_dict()
    if isinstance(score, GroupScore):
        entry["children"] = [vars(child) for child in score.children]
        entry["missing"] = dict(score.missing)
        entry["filtered_out"] = list(score.filtered_out)
        if score.lm_eval_value is not None:
            entry["lm_eval_value"] = score.lm_eval_value
    return entry


def read_scores(entries: list[dict[str, Any]]) -> dict[MetricKey, Score]:
    return {_key(entry): Score(**_common(entry)) for entry in entries}


def read_group_scores(entries: list[dict[str, Any]]) -> dict[MetricKey, GroupScore]:
    return {
        _key(entry): GroupScore(
            **_common(entry),
            children=tuple(Share(**child) for child in entry["children"]),
            missing=entry["missing"],
            filtered_out=tuple(entry["filtered_out"]),
            lm_eval_value=entry.get("lm_eval_value"),
        )
        for entry in entries
    }


def _key(entry: Mapping[str, Any]) -> MetricKey:
    return MetricKey(entry["metric"], entry["filter"])


def _common(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "estimate": Estimate.from_dict(entry),
        "size": entry["size"],
        "aggregation": entry["aggregation"],
        "higher_is_better": entry["higher_is_better"],
        "withheld": entry.get("withheld"),
        "judge": JudgeCheck.from_json(entry["judge"]) if entry.get("judge") else None,
        "gold": GoldCheck.from_json(entry["gold"]) if entry.get("gold") else None,
        "lm_eval_stderr": entry.get("lm_eval_stderr"),
        "asked": entry.get("asked"),
        "floors": {name: Estimate.from_dict(floor) for name, floor in entry.get("floors", {}).items()},
        "above_floor": Estimate.from_dict(entry["above_floor"]) if entry.get("above_floor") else None,
        "over_shuffled": Estimate.from_dict(entry["over_shuffled"]) if entry.get("over_shuffled") else None,
    }


def self_preference(config: Mapping[str, Any]) -> list[str]:
    """What is to be said of a run, by its recorded config, whose judge is the model under test."""

    def names(arguments: Mapping[str, Any] | None) -> set[str]:
        given = arguments or {}
        return {str(given[key]) for key in ("pretrained", "model") if given.get(key)}

    tested = names(config.get("model_args"))
    same = [name for name, role in (config.get("roles") or {}).items() if tested & names(role.get("model_args"))]
    return [f"{name} is also the model under test, and models favour their own answers" for name in same]
