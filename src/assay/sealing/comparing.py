"""What a bundle says against what was derived from it anew: every score of every doc, every number of every task and group."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePath
from typing import Any

ROUNDING = 1e-9
"""Relative difference up to which two numbers are the same sum, added up by another version of a library."""
NOT_DERIVED = {
    "the time and place of the run": (
        "date",
        "total_evaluation_time_seconds",
        "pretty_env_info",
        "transformers_version",
        "assay environment",
        "assay version",
    ),
    "notes of the run": ("assay notes",),
    "directories of data and task files": (
        "assay config include_path",
        "assay config data_dir",
        "assay config lm_eval",
        "assay config labels",
        "assay config overlay",
        "assay config tasks",
    ),
}
"""Of a results file: what answers and docs do not say. Names are those of keys, `*` is any one."""
ONLY_WITH_DATA = {
    "hashes of the dataset": ("assay tasks * data",),
    "shots that would have been the doc itself": ("assay tasks * health fewshot_leaks_avoided",),
}
"""Known only where the dataset is read again."""
AS_STATED = {
    "the answers": ("samples: resps", "samples: stops", "samples: tokens", "samples: extras", "samples: questions"),
    "the model and how it was asked": (
        "results.json: assay model",
        "run.json: model",
        "run.json: roles",
        "run.json: environment",
        "seal.json: model",
    ),
    "the code that scored it": ("seal.json: code", "seal.json: shipped_task_files"),
}
"""What a bundle says in several places, which are compared with each other: together they may be anything."""


@dataclass(frozen=True)
class SealedDifference:
    """One thing that is not what the bundle says."""

    kind: str
    """`file`, `setting`, `doc`, `request`, `answer` or `number`."""
    where: str
    said: Any
    found: Any

    def __str__(self) -> str:
        if self.kind == "file":
            return self.where
        return f"{self.where}: the bundle says {_short(self.said)}, but it is {_short(self.found)}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "where": self.where, "said": self.said, "found": self.found}


class SealComparison:
    """Counts what was compared, and collects what differs."""

    def __init__(self) -> None:
        self.compared = 0
        self.rounded = 0
        """Numbers that differ by no more than rounding."""
        self.differences: list[SealedDifference] = []
        self.not_checked: dict[str, list[str]] = {what: list(places) for what, places in AS_STATED.items()}
        """What the verdict does not speak of, and where it stands in the bundle."""

    def leave_out(self, file: str, left_out: Mapping[str, Sequence[str]]) -> None:
        for what, places in left_out.items():
            self.not_checked.setdefault(what, []).extend(f"{file}: {place}" for place in places)

    def add(self, kind: str, where: str, said: Any, found: Any) -> None:
        """Compare two values, leaf by leaf."""
        if isinstance(said, Mapping) and isinstance(found, Mapping):
            for key in dict.fromkeys([*said, *found]):
                self.add(kind, f"{where} {key}".strip(), said.get(key, MISSING), found.get(key, MISSING))
        elif isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
            for place, pair in enumerate(zip(said, found)):
                self.add(kind, f"{where}[{place}]", *pair)
        else:
            self._leaf(kind, where, said, found)

    def _leaf(self, kind: str, where: str, said: Any, found: Any) -> None:
        self.compared += 1
        if type(said) is type(found) and said == found:
            return
        if _is_number(said) and _is_number(found):
            if said == found or (math.isnan(said) and math.isnan(found)):
                return
            if math.isclose(said, found, rel_tol=ROUNDING, abs_tol=1e-15):
                self.rounded += 1
                return
        self.differences.append(SealedDifference(kind, where, said, found))


MISSING = "nothing"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def compare_results(
    said: Mapping[str, Any], found: Mapping[str, Any], into: SealComparison, *, with_data: bool, same_code: bool
) -> None:
    """Two results files, every leaf of them but for those that cannot be derived, which are named.

    What another version of the code wrote is compared in what both versions say.
    """
    if not same_code:
        found = _as_written_before(said, found)
        into.leave_out("results.json", {"what only this version of Assay writes": ["configs", "assay"]})
    left_out = NOT_DERIVED if with_data else {**NOT_DERIVED, **ONLY_WITH_DATA}
    into.leave_out("results.json", left_out)
    places = [tuple(place.split()) for listed in left_out.values() for place in listed]
    pair = [_without(_with_named_files(each), [*places, ("assay", "config")]) for each in (said, found)]
    into.add("number", "results.json:", *pair)


_DESCRIBED = re.compile(r"[A-Z]\w+(?=\()")
"""How an object of ours is written in a config: its class, and then its fields."""


def _as_written_before(said: Any, found: Any) -> Any:
    """The value without keys that say nothing and were not written, and with counts and objects in their earlier form."""
    if isinstance(said, Mapping) and isinstance(found, Mapping):
        known = {key: value for key, value in found.items() if key in said or value not in (None, 0, "", [], {})}
        return {key: _as_written_before(said.get(key), value) for key, value in known.items()}
    if said == 0 and found == {}:
        return said
    if isinstance(said, str) and isinstance(found, str):
        one, other = _DESCRIBED.match(said), _DESCRIBED.match(found)
        return said if one and other and one[0] == other[0] else found
    return found


def _without(value: Any, places: Sequence[tuple[str, ...]]) -> Any:
    """A JSON value without what stands at these places; other keys of the same name stay."""
    if () in places or not places or not isinstance(value, Mapping):
        return value
    left = {}
    for key, each in value.items():
        below = [rest for first, *rest in places if first in ("*", key)]
        if [] not in below:
            left[key] = _without(each, [tuple(rest) for rest in below])
    return left


def _with_named_files(results: Mapping[str, Any]) -> Mapping[str, Any]:
    configs = results.get("configs")
    return {**results, "configs": _without_places(configs)} if isinstance(configs, Mapping) else results


def _without_places(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Task configs with data files and labels by their names: in which directory they were is not what a number follows from; the
    docs' hashes say what was in the data, and the labels are carried."""

    def named(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: named(each) for key, each in value.items()}
        if isinstance(value, list):
            return [named(each) for each in value]
        return PurePath(value).name if isinstance(value, str) else value

    shown: dict[str, Any] = {}
    for name, config in configs.items():
        shown[name] = config
        if isinstance(config, Mapping) and isinstance(kwargs := config.get("dataset_kwargs"), Mapping):
            files = {"data_files": named(kwargs["data_files"])} if "data_files" in kwargs else {}
            shown[name] = {**config, "dataset_kwargs": {**kwargs, **files}}
        if isinstance(config, Mapping) and isinstance(scorer := config.get("scorer"), Mapping):
            settings = scorer.get("kwargs")
            if isinstance(settings, Mapping) and "labels" in settings:
                kwargs = {**settings, "labels": named(settings["labels"])}
                shown[name] = {**shown[name], "scorer": {**scorer, "kwargs": kwargs}}
    return shown


KINDS = {"doc_hash": "doc", "target": "doc", "cluster": "doc", "request_hash": "request"}
"""What a column of a sample speaks of; all others are made of the answer."""
AS_STORED = ("doc", "arguments", "resps", "stops", "tokens", "extras", "flags", "questions")
"""Columns that are carried over, or compared in a form of their own."""


def compare_rows(
    task: str, said: Iterator[dict[str, Any]], found: Iterator[dict[str, Any]], into: SealComparison, *, docs: bool
) -> None:
    """The samples of a task, row by row. One row too many or too few is said once."""
    for one, other in zip_longest(said, found):
        if one is None or other is None or (one["doc_id"], one.get("filter")) != (other["doc_id"], other["filter"]):
            left, right = (_place(each) for each in (one, other))
            into.differences.append(SealedDifference("doc", f"{task}: samples from here on", left, right))
            return
        where = f"{task}, doc {one['doc_id']}, filter {one['filter']}:"
        columns = [key for key in {**one, **other} if key not in AS_STORED and (docs or key != "target")]
        for key in columns:
            into.add(KINDS.get(key, "number"), f"{where} {key}", _read(one.get(key)), _read(other.get(key)))
        into.add("number", f"{where} flags", sorted(one.get("flags") or ()), sorted(other.get("flags") or ()))
        into.add("answer", f"{where} questions", _verdicts(one), _verdicts(other))


def _read(value: Any) -> Any:
    """JSON texts are compared by what they say: which half of a surrogate pair was escaped is nobody's business."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _verdicts(row: Mapping[str, Any]) -> list[Any]:
    """What a judge was sent and said, without the text of the question, which a bundle may leave out."""
    sent = json.loads(row["questions"]) if row.get("questions") else []
    return [[each.get("role"), (each.get("note") or {}).get("asked"), each.get("resps")] for each in sent]


def _place(row: Mapping[str, Any] | None) -> str:
    return "no further row" if row is None else f"doc {row['doc_id']} under {row.get('filter')}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:79]}…"
