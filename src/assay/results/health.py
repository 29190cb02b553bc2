"""What may be wrong with a score that its error bar does not show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from assay.results.keys import MetricKey


class Flag(NamedTuple):
    """Something to know about the answer to one doc. `filter` is set for what a filter did with it."""

    name: str
    filter: str | None = None


@dataclass(frozen=True)
class Chance:
    """The accuracy of guessing, and how the model's compares with it.

    `equal` is a statement, not the lack of one: the accuracy is shown to lie within `margin` of guessing.
    """

    accuracy: float
    shown: Literal["above", "below", "equal", "nothing"]
    margin: float
    tests: int = 1
    """Tasks that the error rate of 5 % counts together."""

    @property
    def mark(self) -> str | None:
        """
        >>> Chance(0.25, "equal", 0.05).mark, Chance(0.25, "nothing", 0.05).mark
        ('≈ chance', 'chance not ruled out')
        """
        marks = {"below": "below chance", "equal": "≈ chance", "nothing": "chance not ruled out"}
        return marks.get(self.shown)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Chance:
        """Earlier files have the p-value of a test that only knew "above"."""
        if "p_value" in data:
            return cls(data["accuracy"], "above" if data["p_value"] <= 0.05 else "nothing", 0.0)
        return cls(**data)


_MARKED = ("empty", "unfinished_thought", "refused", "unjudged", "unscored", "unused_labels", "tied", "not_in_top")


@dataclass
class Health:
    """Counts of docs; what depends on a filter is counted per filter."""

    docs: int = 0
    failed: int = 0
    """A request was never answered, or answered with what cannot be one, or cannot be scored. The doc has no score."""
    truncated: int = 0
    empty: int = 0
    tied: int = 0
    no_gold: int = 0
    """The doc's right answer is none of its choices. It is left out, or, by the rules of 0.4, counted as wrong."""
    not_in_top: int = 0
    """A label that the server did not list might be likelier than all that it did."""
    unfinished_thought: int = 0
    refused: int = 0
    """The model declined to answer, and the server said so apart from the answer."""
    unjudged: int = 0
    """No judge gave a verdict that can be read, also when asked once more. The doc has no score."""
    unscored: int = 0
    """A metric, or the task's own scoring, gave no value: the doc is passed over."""
    duplicate_prompts: int = 0
    fewshot_leaks_avoided: int = 0
    unparsed: dict[str, int] = field(default_factory=dict)
    """By filter: docs whose answer it could extract nothing from."""
    left_out: dict[str, int] = field(default_factory=dict)
    """By filter: docs that it dropped."""
    filters_disagree: dict[str, int] = field(default_factory=dict)
    """By metric: docs that two filters score differently."""
    bounds: dict[MetricKey, tuple[float, float]] = field(default_factory=dict)
    """The score if all unparsed answers were wrong, and if all were right."""
    without_no_gold: dict[MetricKey, float] = field(default_factory=dict)
    """Where docs without gold count as wrong: the score without them."""
    chance: Chance | None = None
    """For choice tasks."""
    withheld: str | None = None
    """Why the task's scores must not be used: a share above the threshold that the run was given."""
    unused_labels: int = 0
    """Docs with labels for other answers than the one that was given."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why docs failed, and how many of each."""

    def note(self, flags: Iterable[Flag]) -> None:
        """Count one doc's flags."""
        for name, filter_name in flags:
            if filter_name is None:
                setattr(self, name, getattr(self, name) + 1)
            else:
                by_filter: dict[str, int] = getattr(self, name)
                by_filter[filter_name] = by_filter.get(filter_name, 0) + 1

    def note_failure(self, reason: str) -> None:
        """Reasons beyond the first twenty are counted as one: each may name something of its own."""
        reason = " ".join(reason.split())[:200]
        known = reason if reason in self.reasons or len(self.reasons) < 20 else "other reasons"
        self.reasons[known] = self.reasons.get(known, 0) + 1

    @property
    def all_failed(self) -> bool:
        return bool(self.docs) and self.failed == self.docs

    def share(self, count: int) -> float:
        return count / self.docs if self.docs else 0.0

    def marks(self, filter_name: str | None = None) -> list[str]:
        """Short marks for tables, worst first; of what belongs to filters, only what belongs to this one.

        >>> Health(docs=10, failed=1, truncated=5, unparsed={"strict": 2}).marks("flexible")
        ['1 failed', '50% truncated']
        """
        marks = [f"{self.failed} failed"] if self.failed else []
        marks += self._mark("truncated", self.truncated)
        marks += self.filter_marks(filter_name) if filter_name is not None else []
        for name in _MARKED:
            marks += self._mark(name.replace("_", " "), getattr(self, name))
        marks += [
            f"{mark}{'' if self.without_no_gold else ', left out'}" for mark in self._mark("no gold", self.no_gold)
        ]
        if self.chance and self.chance.mark:
            marks.append(self.chance.mark)
        return marks

    def score_marks(self, key: MetricKey) -> list[str]:
        """What belongs to one score.

        >>> Health(without_no_gold={MetricKey("acc", "none"): 0.75}).score_marks(MetricKey("acc", "none"))
        ['0.7500 without them']
        """
        return [f"{self.without_no_gold[key]:.4f} without them"] if key in self.without_no_gold else []

    def filter_marks(self, filter_name: str) -> list[str]:
        """
        >>> Health(docs=10, unparsed={"strict": 2}).filter_marks("strict")
        ['20% unparsed']
        """
        return self._mark("unparsed", self.unparsed.get(filter_name, 0))

    def _mark(self, name: str, count: int) -> list[str]:
        if not count:
            return []
        return [f"{self.share(count):.0%} {name}" if self.share(count) >= 0.01 else f"{count} {name}"]

    def to_json(self) -> dict[str, Any]:
        bounds = [
            {"metric": key.metric, "filter": key.filter, "low": low, "high": high}
            for key, (low, high) in self.bounds.items()
        ]
        without = [
            {"metric": key.metric, "filter": key.filter, "value": value} for key, value in self.without_no_gold.items()
        ]
        return {**asdict(self), "bounds": bounds, "without_no_gold": without}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Health:
        bounds = {MetricKey(b["metric"], b["filter"]): (b["low"], b["high"]) for b in data.get("bounds", ())}
        without = {MetricKey(w["metric"], w["filter"]): w["value"] for w in data.get("without_no_gold", ())}
        chance = Chance.from_json(data["chance"]) if data.get("chance") else None
        known = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        return cls(**{**known, "bounds": bounds, "without_no_gold": without, "chance": chance})
