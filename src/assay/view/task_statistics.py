"""What the page of a task draws: distribution, health, calibration, score by length of prompt."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from assay.results import METRIC_COLUMN
from assay.stats import wilson
from assay.view.choices import choices_of
from assay.view.database import SAMPLES, Database, SampleRecord, quoted
from assay.view.prompts import context_of, requests_of
from assay.view.queries import FLAGS, HALF, SampleFile

PLACES, AT_EACH = 8, 256
"""Rows whose texts are read for calibration and lengths: runs of rows in a few places, enough for a plot whatever the size."""
BINS = 24


@dataclass(frozen=True)
class TaskStats:
    distribution: dict[str, Any] | None
    """Counts of right and wrong, or a histogram."""
    flags: dict[str, int]
    rows: int
    calibration: dict[str, Any] | None
    lengths: dict[str, Any] | None
    sampled: int = 0


class TaskStatistics:
    """Computed once per file, filter and metric."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._known: dict[tuple[Path, int, str, str], TaskStats] = {}

    def of(self, file: SampleFile, filter_name: str, metric: str, *, choices: bool) -> TaskStats:
        key = (file.path, file.rows, filter_name, metric)
        if key not in self._known:
            if len(self._known) > 200:
                self._known.clear()
            self._known[key] = self._compute(file, filter_name, metric, choices=choices)
        return self._known[key]

    def _compute(self, file: SampleFile, filter_name: str, metric: str, *, choices: bool) -> TaskStats:
        sample = self._sample(file, filter_name)
        about = self._about(file, filter_name, metric)
        return TaskStats(
            distribution=self._distribution(file, filter_name, metric, about) if metric else None,
            flags={name: about[f"flag {name}"] for name in FLAGS if about.get(f"flag {name}")},
            rows=about["rows"],
            calibration=calibration(sample, metric) if choices else None,
            lengths=by_length(sample, metric),
            sampled=len(sample),
        )

    def _about(self, file: SampleFile, filter_name: str, metric: str) -> SampleRecord:
        """Rows of the filter, how many of them carry each flag, and what the values of the metric span: in one pass."""
        counts = ["count(*) AS rows"]
        if "flags" in file.columns:
            counts += [f"count(*) FILTER (list_contains(flags, '{name}')) AS \"flag {name}\"" for name in FLAGS]
        if metric:
            column = quoted(METRIC_COLUMN + metric)
            numbers = {"n": "count(*)", "low": f"min({column})", "high": f"max({column})", "mean": f"avg({column})"}
            numbers["is_binary"] = f"bool_and({column} IN (0, 1))"
            counts += [f"{number} FILTER (isfinite({column})) AS {name}" for name, number in numbers.items()]
        sql = f"SELECT {', '.join(counts)} FROM {SAMPLES} WHERE filter = ?"
        return self.database.one(sql, [file.path, filter_name])

    def _distribution(
        self, file: SampleFile, filter_name: str, metric: str, about: SampleRecord
    ) -> dict[str, Any] | None:
        if not about["n"]:
            return None
        low, high = float(about["low"]), float(about["high"])
        if about["is_binary"]:
            right = round(about["mean"] * about["n"])
            return {"kind": "binary", "n": about["n"], "right": right, "wrong": about["n"] - right}
        if low == high:  # one bar, among the values that there might have been
            low, high = (0.0, 1.0) if 0 <= low <= 1 else (low - abs(low) / 2, high + abs(high) / 2)
        width = (high - low) / BINS
        column = quoted(METRIC_COLUMN + metric)
        rows = self.database.rows(
            f"SELECT least(floor(({column} - ?) / ?), ?)::INT AS bin, count(*) AS n FROM {SAMPLES}"
            f" WHERE filter = ? AND isfinite({column}) GROUP BY bin ORDER BY bin",
            [low, width, BINS - 1, file.path, filter_name],
        )
        counts = {row["bin"]: row["n"] for row in rows}
        return {
            "kind": "histogram",
            "n": about["n"],
            "mean": about["mean"],
            "edges": [low + i * width for i in range(BINS + 1)],
            "counts": [counts.get(i, 0) for i in range(BINS)],
        }

    def _sample(self, file: SampleFile, filter_name: str) -> list[SampleRecord]:
        """Rows of a few places, evenly spread: only the row groups that hold them are decoded."""
        length = AT_EACH * len(file.filters)
        last = max(0, file.rows - length)
        starts = sorted({last * i // (PLACES - 1) for i in range(PLACES)}) if file.rows > PLACES * length else [0]
        reach = length if len(starts) > 1 else file.rows
        places = " OR ".join(f"file_row_number BETWEEN {start} AND {start + reach - 1}" for start in starts)
        columns = ["arguments", "resps", "target", *(quoted(METRIC_COLUMN + name) for name in file.metrics)]
        return self.database.rows(
            f"SELECT {', '.join(columns)} FROM {SAMPLES} WHERE ({places}) AND filter = ?", [file.path, filter_name]
        )


def calibration(rows: Sequence[SampleRecord], metric: str, bins: int = 10) -> dict[str, Any] | None:
    """How often the likeliest choice is right, by the share of probability it has. None where there are no likelihoods."""
    counts, right, confidences = [0] * bins, [0] * bins, [0.0] * bins
    for row in rows:
        value = row.get(METRIC_COLUMN + metric)
        confidence = top_share(row)
        if value is not None and confidence is not None:
            place = min(bins - 1, int(confidence * bins))
            counts[place] += 1
            right[place] += value >= HALF
            confidences[place] += confidence
    total = sum(counts)
    if not total:
        return None
    points = [
        {"n": n, "confidence": confidences[i] / n, "accuracy": right[i] / n, **_interval(right[i], n)}
        for i, n in enumerate(counts)
        if n
    ]
    error = sum(p["n"] * abs(p["accuracy"] - p["confidence"]) for p in points) / total
    return {"points": points, "n": total, "error": error}


def top_share(row: SampleRecord) -> float | None:
    """The share of probability of the likeliest choice: Σ exp(llᵢ − max) is 1 / share."""
    pairs = [draws[0] for draws in json.loads(row["resps"]) if draws]
    if len(pairs) < 2 or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        return None
    if len(pairs) % 2 == 0 and len(pairs) > 2 and '["",' in row["arguments"]:
        # Requests without a context may be those for mutual information, which are no choices.
        choices = choices_of(requests_of(row), json.loads(row["resps"]), None)
        return max((choice.share for choice in choices), default=None)
    likelihoods = [float(pair[0]) for pair in pairs]
    top = max(likelihoods)
    total = sum(math.exp(ll - top) for ll in likelihoods) if math.isfinite(top) else math.nan
    return 1 / total if math.isfinite(total) else None


def by_length(rows: Sequence[SampleRecord], metric: str, bins: int = 8) -> dict[str, Any] | None:
    """The mean score in bins of about equal size by length of prompt, in characters. Prompts of one length share a bin:
    which of them came first would say nothing about length."""
    pairs = sorted(
        (len(context_of(requests_of(row))), float(row[METRIC_COLUMN + metric]))
        for row in rows
        if row.get(METRIC_COLUMN + metric) is not None
        and math.isfinite(row[METRIC_COLUMN + metric])
        and row["arguments"] not in (None, "[]")
    )
    if len(pairs) < 2 * bins or pairs[0][0] == pairs[-1][0]:
        return None
    binary = all(value in (0.0, 1.0) for _, value in pairs)
    lengths = [length for length, _ in pairs]
    edges = sorted({bisect_left(lengths, lengths[i * len(pairs) // bins]) for i in range(bins)} | {len(pairs)})
    points = []
    for begin, end in pairwise(edges):
        part = pairs[begin:end]
        values = [value for _, value in part]
        mean = sum(values) / len(values)
        point: dict[str, Any] = {"from": part[0][0], "to": part[-1][0], "n": len(part), "mean": mean}
        point |= _interval(sum(values), len(values)) if binary else _spread(values, mean)
        points.append(point)
    return {"points": points, "n": len(pairs)}


def _interval(right: float, n: int) -> dict[str, float]:
    low, high = wilson(right, n)
    return {"low": low, "high": high}


def _spread(values: Sequence[float], mean: float) -> dict[str, float]:
    variance = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    reach = 1.96 * math.sqrt(variance / len(values))
    return {"low": mean - reach, "high": mean + reach}


def health_lines(flags: Mapping[str, int], rows: int) -> list[dict[str, Any]]:
    """Flags with their share, largest first."""
    return [
        {"name": name, "label": name.replace("_", " "), "count": count, "share": count / rows if rows else 0.0}
        for name, count in sorted(flags.items(), key=lambda item: -item[1])
    ]
