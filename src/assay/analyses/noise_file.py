"""`noise.json`: how far scores move when the same docs are sent again. One type, one reader, one writer."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from assay.errors import ConfigError
from assay.results import MetricKey, assay_version, read_key, write_whole
from assay.stats import FEWEST_REPLAYS, Difference, ServingNoise, variance_interval, widened, with_serving

FORMAT = 1


@dataclass(frozen=True)
class Deviation:
    """A standard deviation of the score, with its 95 % interval."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """
        >>> print(Deviation(0.0123, 0.008, 0.031), Deviation(0.0))
        0.0123 [0.0080, 0.0310] 0.0000
        """
        ends = "" if self.low is None or self.high is None else f" [{self.low:.4f}, {self.high:.4f}]"
        return f"{self.value:.4f}{ends}"


@dataclass(frozen=True)
class ScoreNoise:
    """One metric of one task or group over the replays."""

    name: str
    kind: Literal["task", "group"]
    metric: str
    """`acc,none`"""
    n: int
    """Docs that all replays scored."""
    scores: tuple[float, ...]
    run_variance: float
    freedom: float
    doc_part: float
    most: float | None = None
    """With two replays: the most by which two runs differ."""
    docs: Deviation | None = None
    """What another set of docs would change."""
    by_doc: Deviation | None = None
    """Serving noise that each doc adds by itself, with draws where the task samples."""
    draws: Deviation | None = None
    """What another draw would change; None where it was not told apart."""
    sampled: bool = False
    flip_share: tuple[float, float, float] | None = None
    """Docs that differ between two replays: their share and its interval. None where scores are not 0 or 1."""
    flips: tuple[tuple[int, int], ...] = ()
    """(doc id, times right) of docs that were right in some replays and wrong in others."""

    @property
    def key(self) -> MetricKey:
        return read_key(self.metric)

    @property
    def serving(self) -> ServingNoise:
        return ServingNoise(self.run_variance, self.freedom, self.doc_part, self.most)

    def serving_on(self, docs: int) -> ServingNoise:
        """For a number of so many docs. What docs add by themselves is in its own interval, and is less where it has more docs
        than the replays: only so much is taken away from what the replays varied."""
        return replace(self.serving, doc_part=self.doc_part * min(1.0, self.n / max(1, docs)))

    @property
    def whole_run(self) -> Deviation | None:
        """What a run shares: no number of docs lowers it. None where it was only bounded."""
        if self.most is not None:
            return None
        low, high = variance_interval(self.run_variance, self.freedom) if self.run_variance else (0.0, 0.0)
        shift = [max(0.0, end - self.doc_part) ** 0.5 for end in (self.run_variance, low, high)]
        return Deviation(*shift)

    def note(self, docs: int) -> str:
        few = f", measured on {self.n:,} docs; with replays of all {docs:,} it would be less" if self.n < docs else ""
        if self.most is not None:
            return (
                f"serving noise is only bounded ({len(self.scores)} replays): at most {self.most:.2g} is included{few}"
            )
        error = self.serving_on(docs).floor ** 0.5
        return f"serving noise is included: ± {error:.2g} for two runs, from {len(self.scores)} replays{few}"


@dataclass(frozen=True)
class NoiseFile:
    model: str
    replays: tuple[dict[str, Any], ...]
    """How each was sent: server, concurrency, order."""
    rows: tuple[ScoreNoise, ...]
    notes: tuple[str, ...] = ()
    version: str = ""
    path: Path | None = None

    def row(self, name: str, key: MetricKey) -> ScoreNoise | None:
        return next((row for row in self.rows if row.name == name and row.key == key), None)

    def add_to(self, difference: Difference, name: str, key: MetricKey) -> tuple[Difference, str]:
        """The difference with what servers add to it, and what is to be said of that."""
        row = self.row(name, key)
        if row is None:
            return difference, f"{self.path or 'noise file'} does not have it, so no serving noise is included"
        docs = difference.estimate.n
        return with_serving(difference, row.serving_on(docs)), row.note(docs)

    def widen(
        self,
        value: float,
        bounds: tuple[float, float],
        freedom: float,
        name: str,
        key: MetricKey,
        level: float,
        docs: int,
    ) -> tuple[tuple[float, float], float]:
        """The interval of one run's own score, and the part of its variance that no number of docs lowers."""
        row = self.row(name, key)
        if row is None:
            return bounds, 0.0
        serving = row.serving_on(docs)
        return widened(value, lambda _: bounds, freedom, serving, 1, level), serving.floor / 2

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "kind": "assay noise",
            "version": self.version or assay_version(),
            "model": self.model,
            "estimated": len(self.replays) >= FEWEST_REPLAYS,
            "replays": list(self.replays),
            "rows": [asdict(row) for row in self.rows],
            "notes": list(self.notes),
        }

    def save(self, path: Path) -> None:
        write_whole(path, (json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n").encode())

    @classmethod
    def load(cls, path: str | Path) -> NoiseFile:
        """Read `noise.json`, or the directory that `assay noise` wrote it to."""
        where = Path(path) / "noise.json" if Path(path).is_dir() else Path(path)
        try:
            data = json.loads(where.read_text(encoding="utf-8"))
            if data["kind"] != "assay noise" or data["format"] != FORMAT:
                raise ValueError(f"its kind is {data['kind']!r}, format {data['format']!r}")
            rows = tuple(_row(entry) for entry in data["rows"])
            replays, notes = tuple(data["replays"]), tuple(data["notes"])
            return cls(str(data["model"]), replays, rows, notes, str(data["version"]), where)
        except OSError as error:
            raise ConfigError(f"--noise {path} cannot be read: {error.strerror or error}", hint=_HINT) from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigError(f"--noise {where} is not a noise file: {error!r}", hint=_HINT) from error


_HINT = "Use the noise.json that `assay noise` wrote."


def _row(entry: dict[str, Any]) -> ScoreNoise:
    known = {field.name for field in fields(ScoreNoise)}
    values = {name: value for name, value in entry.items() if name in known}
    for name in ("docs", "by_doc", "draws"):
        values[name] = None if values[name] is None else Deviation(**values[name])
    values["scores"] = tuple(float(score) for score in values["scores"])
    values["flips"] = tuple((int(doc), int(times)) for doc, times in values["flips"])
    values["flip_share"] = None if values["flip_share"] is None else tuple(values["flip_share"])
    row = ScoreNoise(**values)
    numbers = (row.run_variance, row.freedom, row.doc_part)
    if not all(isinstance(number, int | float) and 0 <= number < float("inf") for number in numbers):
        raise ValueError(f"variances of {row.name} are {numbers}")
    return row
