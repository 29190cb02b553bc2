"""`Results`: what `assay.evaluate` returns and what a run directory holds. Both are the same thing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import ConfigError, did_you_mean
from assay.report.rows import estimate_of, rows_of
from assay.report.table import render_text
from assay.run import RunDirectory, plain
from assay.stats import Estimate

if TYPE_CHECKING:
    import pandas


class Scores:
    """The numbers of one task or group, by metric: `scores["acc"]`, or `scores["exact_match,strict-match"]`."""

    def __init__(self, name: str, entries: dict[str, dict[str, Any]]) -> None:
        self.name = name
        self._entries = entries

    def __getitem__(self, key: str) -> Estimate:
        if key in self._entries:
            return estimate_of(self._entries[key])
        under = [full for full in self._entries if full.rpartition(",")[0] == key]
        if len(under) == 1:
            return estimate_of(self._entries[under[0]])
        if under:
            raise ConfigError(f"{self.name} has {key!r} under several filters", hint=f"Say which: {', '.join(under)}.")
        raise ConfigError(f"{self.name} has no metric {key!r}", hint=f"It has: {', '.join(self._entries) or 'none'}.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Scores({self.name!r}, {list(self._entries)})"


class Results:
    """`results["mmlu"]["acc"]` is an `Estimate`; `table()` is text; `data` is the results file as it is on disk."""

    def __init__(self, data: dict[str, Any], directory: RunDirectory | None = None) -> None:
        self.data = data
        self.directory = directory

    @classmethod
    def load(cls, path: str | Path) -> Results:
        """The results of a run directory."""
        directory = RunDirectory.open(path)
        data = directory.read_json("results.json")
        if data is None:
            raise ConfigError(f"{path} has no results yet", hint="Run the same command again to finish it.")
        return cls(data, directory)

    def __getitem__(self, name: str) -> Scores:
        estimates = self.data["assay"]["estimates"]
        if name not in estimates:
            raise ConfigError(f"no task or group {name!r} in these results", hint=did_you_mean(name, estimates) or f"There are: {', '.join(estimates)}.")  # fmt: skip
        return Scores(name, estimates[name])

    def __contains__(self, name: object) -> bool:
        return name in self.data["assay"]["estimates"]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data["assay"]["estimates"])

    @property
    def withheld(self) -> list[str]:
        """Tasks whose health was worse than the run allowed."""
        return [name for name, health in self.data["assay"]["health"].items() if health.get("withheld")]

    @property
    def remarks(self) -> list[str]:
        """What is to be said beside the table: why tasks were stopped, what was left out."""
        block = self.data["assay"]
        return [*(f"{task}: {reason}" for task, reason in block["stop_reasons"].items()), *block["notes"]]

    def table(self, width: int | None = None) -> str:
        return render_text(self.data, width)

    def to_dict(self) -> dict[str, Any]:
        """The schema of lm-evaluation-harness, with our `assay` block."""
        return self.data

    def to_json(self) -> str:
        return json.dumps(self.data, ensure_ascii=False, indent=2, default=plain)

    def to_pandas(self) -> pandas.DataFrame:
        """One row a number."""
        import pandas as pd

        rows = [
            {
                "name": row.name,
                "kind": row.kind,
                "depth": row.depth,
                "metric": row.metric,
                "filter": row.filter,
                "value": row.estimate.value,
                "stderr": row.estimate.stderr,
                "low": row.estimate.low,
                "high": row.estimate.high,
                "n": row.estimate.n,
                "method": row.estimate.method,
                "shots": row.shots,
                "higher_is_better": row.higher_is_better,
            }
            for row in rows_of(self.data)
            if row.metric
        ]
        return pd.DataFrame(rows)

    def save(self, path: str | Path) -> Path:
        """Write `results.json` into a directory and return its path."""
        directory = RunDirectory(path)
        directory.path.mkdir(parents=True, exist_ok=True)
        directory.write_json("results.json", self.data)
        return directory.path / "results.json"

    def __repr__(self) -> str:
        return f"Results({', '.join(self)})"
