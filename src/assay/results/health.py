"""What may be wrong with a score that its error bar does not show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from assay.instance import Instance
from assay.registry import Registry
from assay.results.keys import MetricKey
from assay.tool_calls import calls_in_text


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


@dataclass(frozen=True)
class HealthCounter:
    """Something that is counted of a task's docs. Its name is the key in files, and the flag on single docs.

    `find(instance)` says whether an answered request has it, and is called by whoever scores; without it, code that knows
    raises the flag (`ScoringResult.flag`) or fills in the count.
    """

    name: str
    description: str
    find: Callable[[Instance], bool] | None = None
    of_text: bool = False
    """Whether `find` looks only at requests that are answered with text."""
    heading: str = ""
    """How tables write it; the name in words unless said."""
    rank: int = 500
    """Its place among the marks of a task, lowest first."""
    per_filter: bool = False
    """Whether it is counted for each filter by itself."""
    on_docs: bool = True
    """Whether single docs carry it as a flag, in their samples too."""
    in_marks: bool = True
    """Whether tables show it beside the scores."""
    limit: str | None = None
    """The setting of a run that withholds the scores where its share is larger."""
    mark: Callable[[Health, int], str] | None = None
    """What tables say; the share, or the number where that is below 1 %, unless it is given."""

    @property
    def words(self) -> str:
        return self.heading or self.name.replace("_", " ")


HEALTH_COUNTERS: Registry[HealthCounter] = Registry("health counter", group="assay.health_counters")


def health_counters() -> list[HealthCounter]:
    """All of them, in the order of their marks."""
    return sorted((HEALTH_COUNTERS[name] for name in HEALTH_COUNTERS), key=lambda row: (row.rank, row.name))


def doc_flags() -> tuple[str, ...]:
    """What single docs may be flagged with."""
    return tuple(row.name for row in health_counters() if row.on_docs)


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
    text_calls: int = 0
    """The model wrote a call of a tool into its text. It counts only where the task reads such calls."""
    unscored: int = 0
    """A metric, or the task's own scoring, gave no value: the doc is passed over."""
    duplicate_prompts: int = 0
    fewshot_leaks_avoided: int = 0
    unparsed: dict[str, int] = field(default_factory=dict)
    """By filter: docs whose answer it could extract nothing from."""
    left_out: dict[str, int] = field(default_factory=dict)
    """By filter: docs that it dropped."""
    unjudged: dict[str, int] = field(default_factory=dict)
    """By filter: docs of which no judge gave a verdict that can be read, also when asked once more. They have no score."""
    filters_disagree: dict[str, int] = field(default_factory=dict)
    """By metric: docs that two filters score differently."""
    bounds: dict[MetricKey, tuple[float, float]] = field(default_factory=dict)
    """The score if all truncated, unparsed and unjudged answers were wrong, and if all were right."""
    without_no_gold: dict[MetricKey, float] = field(default_factory=dict)
    """Where docs without gold count as wrong: the score without them."""
    chance: Chance | None = None
    """For choice tasks."""
    shuffled: bool = False
    """Whether choices were put into another order, because the right one stands at one place too often."""
    stripped: dict[MetricKey, float] = field(default_factory=dict)
    """What each score would be if white space around answers did not count, where that makes a difference."""
    withheld: str | None = None
    """Why the task's scores must not be used: a share above the threshold that the run was given."""
    unused_labels: int = 0
    """Docs with labels for other answers than the one that was given."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why docs failed, and how many of each."""
    added: dict[str, int] = field(default_factory=dict)
    """What counters of other packages counted, by name; files have each beside the others."""

    def note(self, flags: Iterable[Flag]) -> None:
        """Count one doc's flags."""
        for name, filter_name in flags:
            if name not in _FIELDS:
                self.added[name] = self.added.get(name, 0) + 1
            elif isinstance(counted := getattr(self, name), dict):
                by_filter = filter_name or "none"
                counted[by_filter] = counted.get(by_filter, 0) + 1
            else:
                setattr(self, name, counted + 1)

    def count(self, name: str, filter_name: str | None = None) -> int:
        """How many docs a counter counted. Of one that counts by filter: this filter's, or the most of any.

        >>> Health(unparsed={"strict": 2, "flexible": 1}).count("unparsed"), Health(tied=3).count("tied")
        (2, 3)
        """
        counted = getattr(self, name) if name in _FIELDS else self.added.get(name, 0)
        if not isinstance(counted, dict):
            return int(counted)
        return max(counted.values(), default=0) if filter_name is None else int(counted.get(filter_name, 0))

    def note_failure(self, reason: str, doc_id: int | None = None) -> None:
        """Reasons beyond the first twenty are counted as one: each may name something of its own.

        With a doc, the reason names the first that it met.
        """
        reason = " ".join(reason.split())[:200]
        if doc_id is not None:
            first = f"{reason}, first in doc "
            reason = next((each for each in self.reasons if each.startswith(first)), f"{first}{doc_id}")
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
        marks: list[str] = []
        for row in health_counters():
            if row.in_marks and not (row.per_filter and filter_name is None):
                marks += self.mark(row, filter_name)
        if self.chance and self.chance.mark:
            marks.append(self.chance.mark)
        return [*marks, "choices shuffled"] if self.shuffled else marks

    def score_marks(self, key: MetricKey) -> list[str]:
        """What belongs to one score.

        >>> Health(without_no_gold={MetricKey("acc", "none"): 0.75}).score_marks(MetricKey("acc", "none"))
        ['0.7500 without them']
        """
        marks = [f"{self.without_no_gold[key]:.4f} without them"] if key in self.without_no_gold else []
        if key in self.stripped:
            marks.append(f"{self.stripped[key]:.4f} if white space around answers did not count")
        return marks

    def bound_marks(self, key: MetricKey, width: float | None) -> list[str]:
        """The score with all truncated, unparsed and unjudged answers wrong, and right, where that is more than a quarter of its interval.

        >>> health = Health(bounds={MetricKey("acc", "none"): (0.5, 0.6)})
        >>> health.bound_marks(MetricKey("acc", "none"), 0.2), health.bound_marks(MetricKey("acc", "none"), 0.8)
        (['0.5000 if those are all wrong, 0.6000 if all are right'], [])
        """
        low, high = self.bounds.get(key, (0.0, 0.0))
        if high - low <= _NOTABLE * (width or 0.0):
            return []
        return [f"{low:.4f} if those are all wrong, {high:.4f} if all are right"]

    def filter_marks(self, filter_name: str) -> list[str]:
        """
        >>> Health(docs=10, unparsed={"strict": 2}).filter_marks("strict")
        ['20% unparsed']
        """
        rows = [row for row in health_counters() if row.in_marks and row.per_filter]
        return [mark for row in rows for mark in self.mark(row, filter_name)]

    def mark(self, row: HealthCounter, filter_name: str | None = None) -> list[str]:
        """What tables say of a counter; nothing where it counted nothing."""
        count = self.count(row.name, filter_name)
        if not count:
            return []
        if row.mark is not None:
            return [row.mark(self, count)]
        return [self.share_mark(row.words, count)]

    def share_mark(self, words: str, count: int) -> str:
        """
        >>> Health(docs=200).share_mark("tied", 50), Health(docs=200).share_mark("tied", 1)
        ('25% tied', '1 tied')
        """
        return f"{self.share(count):.0%} {words}" if self.share(count) >= 0.01 else f"{count} {words}"

    def to_json(self) -> dict[str, Any]:
        bounds = [
            {"metric": key.metric, "filter": key.filter, "low": low, "high": high}
            for key, (low, high) in self.bounds.items()
        ]
        without = [
            {"metric": key.metric, "filter": key.filter, "value": value} for key, value in self.without_no_gold.items()
        ]
        counted = asdict(self)
        added, stripped = counted.pop("added"), counted.pop("stripped")
        if not counted["shuffled"]:
            del counted["shuffled"]
        if stripped:
            added["stripped"] = [
                {"metric": key.metric, "filter": key.filter, "value": value} for key, value in self.stripped.items()
            ]
        return {**counted, **added, "bounds": bounds, "without_no_gold": without}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Health:
        bounds = {MetricKey(b["metric"], b["filter"]): (b["low"], b["high"]) for b in data.get("bounds", ())}
        without = {MetricKey(w["metric"], w["filter"]): w["value"] for w in data.get("without_no_gold", ())}
        chance = Chance.from_json(data["chance"]) if data.get("chance") else None
        stripped = {MetricKey(s["metric"], s["filter"]): s["value"] for s in data.get("stripped", ())}
        known = {name: value for name, value in data.items() if name in _FIELDS}
        if type(known.get("unjudged")) is int:  # files that count them for all filters together
            known["unjudged"] = {"none": known["unjudged"]} if known["unjudged"] else {}
        added = {name: value for name, value in data.items() if name not in _FIELDS and type(value) is int}
        return cls(
            **{
                **known,
                "bounds": bounds,
                "without_no_gold": without,
                "stripped": stripped,
                "chance": chance,
                "added": added,
            }
        )


_FIELDS = frozenset(each.name for each in fields(Health))


def is_truncated(instance: Instance) -> bool:
    return any(each is not None and each.stop_reason == "length" for each in instance.responses)


def is_unfinished(instance: Instance) -> bool:
    """Whether the model was still thinking when it was cut off: there are thoughts, and no answer after them."""
    for each in instance.responses:
        if each is not None and each.reasoning and not (each.tool_calls or each.refusal):
            has_answer = isinstance(each.answer, str) and bool(each.answer.strip())
            if not has_answer:
                return True
    return False


def is_refused(instance: Instance) -> bool:
    return any(each is not None and each.refusal for each in instance.responses) and not is_unfinished(instance)


def is_empty(instance: Instance) -> bool:
    """Whether one of its answers is no text, not a call of a tool that was offered, and nothing else says why."""
    said = list(zip_longest(instance.resps, instance.responses))
    if all(not isinstance(text, str) or text.strip() for text, _ in said):
        return False
    offered = bool(instance.args[1].get("tools"))
    empty = any(
        isinstance(text, str) and not text.strip() and not (offered and response and response.tool_calls)
        for text, response in said
    )
    return empty and not is_unfinished(instance) and not is_refused(instance)


def has_text_calls(instance: Instance) -> bool:
    """Whether the model wrote a call of a tool into an answer, instead of making it."""
    tools = instance.args[1].get("tools") or ()
    return bool(tools) and any(
        each is not None
        and not each.tool_calls
        and isinstance(each.answer, str)
        and bool(calls_in_text(each.answer, tools))
        for each in instance.responses
    )


for _row in (
    HealthCounter(
        "failed",
        "a request was never answered, or its answer is unusable or cannot be scored; the doc has no score",
        rank=10,
        limit="max_failed",
        mark=lambda health, count: f"{count} failed",
    ),
    HealthCounter("truncated", "an answer was cut off", is_truncated, of_text=True, rank=20, limit="max_truncated"),
    HealthCounter(
        "unparsed", "a filter could extract nothing from the answer", rank=30, per_filter=True, limit="max_unparsed"
    ),
    HealthCounter("left_out", "a filter dropped the doc", rank=35, per_filter=True, in_marks=False),
    HealthCounter("empty", "an answer has no text", is_empty, of_text=True, rank=40),
    HealthCounter(
        "unfinished_thought",
        "the model was still thinking when it was cut off",
        is_unfinished,
        of_text=True,
        rank=50,
        limit="max_unfinished",
    ),
    HealthCounter(
        "refused",
        "the model declined to answer, and the server said so apart from the answer",
        is_refused,
        of_text=True,
        rank=60,
    ),
    HealthCounter(
        "text_calls",
        "the model wrote a call of a tool into its text instead of making it",
        has_text_calls,
        of_text=True,
        heading="calls as text",
        rank=65,
    ),
    HealthCounter(
        "unjudged",
        "no judge gave a verdict that can be read; the doc has no score",
        rank=70,
        per_filter=True,
        limit="max_unjudged",
    ),
    HealthCounter("not_independent", "the process that ran a program also said whether it passed its tests", rank=65),
    HealthCounter(
        "weak_sandbox",
        "a program ran with --sandbox weak, or by the task's own code",
        rank=66,
        mark=lambda health, count: "weak sandbox" if count == health.docs else f"{count} in a weak sandbox",
    ),
    HealthCounter("limited", "a limit ended a trajectory; it is scored as it stands", rank=22),
    HealthCounter(
        "looping", "a trajectory was ended because the model repeated the same call with the same result", rank=24
    ),
    HealthCounter(
        "draws_failed", "some trajectories of the doc failed; the others count", heading="with failed draws", rank=12
    ),
    HealthCounter(
        "begun_anew", "a trajectory was begun anew because a tool gave another result when it was called again", rank=68
    ),
    HealthCounter(
        "text_protocol",
        "tools were described and called as text (tool_protocol: text)",
        rank=67,
        mark=lambda health, count: "tools as text",
    ),
    HealthCounter("unscored", "a metric gave no value; the doc is passed over", rank=80),
    HealthCounter("unused_labels", "the doc has labels for other answers than the one that was given", rank=90),
    HealthCounter("tied", "two choices were equally likely, so their order decided", rank=100),
    HealthCounter(
        "not_in_top", "a label that the server did not list may be likelier than those that it did", rank=110
    ),
    HealthCounter(
        "no_gold",
        "the right answer is none of the doc's choices",
        rank=900,
        mark=lambda health, count: (
            f"{health.share_mark('no gold', count)}{'' if health.without_no_gold else ', left out'}"
        ),
    ),
    HealthCounter(
        "duplicate_prompts", "another doc of the task has the same requests", rank=910, on_docs=False, in_marks=False
    ),
    HealthCounter(
        "fewshot_leaks_avoided",
        "the doc would have been among its own examples",
        rank=920,
        on_docs=False,
        in_marks=False,
    ),
):
    HEALTH_COUNTERS.add(_row.name, _row)


_NOTABLE = 0.25
"""Part of an interval's width from which answers that were not read are worth a word."""
