"""`--dry_run`: what a run, several models or a sweep would cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Name

if TYPE_CHECKING:
    from assay.config import RunConfig
    from assay.run import Forecast


@dataclass(frozen=True)
class Expected:
    """A forecast, and what it is a part of."""

    forecast: Forecast
    part_of: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        sums = {"requests": self.forecast.requests, "to_ask": self.forecast.to_ask}
        return {**self.part_of, **asdict(self.forecast), **sums}


def forecast_shown(config: RunConfig, *, quiet: bool) -> Forecast:
    """The forecast, with what takes time shown on the way. A run that would be refused is refused here too."""
    from assay.cli.display import show_progress
    from assay.evaluation import check_first
    from assay.run import forecast

    check_first(config)
    with show_progress(quiet=quiet) as progress:
        return forecast(config, progress=progress)


COLUMNS: tuple[Column[tuple[str, Any]], ...] = (
    Column("task", kinds.NAME, lambda item: Name(item[0]), shrinks=True),
    Column("docs", kinds.COUNT, lambda item: item[1].docs),
    Column("requests", kinds.COUNT, lambda item: item[1].requests),
    Column("in the store", kinds.COUNT, lambda item: item[1].kept),
    Column("tokens", kinds.COUNT, lambda item: item[1].tokens),
)


def forecast_findings(expected: Forecast, title: str, said: str = "Nothing was sent.", **part_of: Any) -> Findings:
    about = "" if expected.exact else "about "
    notes = [f"{expected.to_ask:,} requests to send, {about}{expected.prompt_tokens:,} prompt tokens"]
    if expected.distinct_tokens:
        fewer = f"{expected.prompt_tokens / expected.distinct_tokens:.1f} times fewer"
        notes.append(f"{about}{expected.distinct_tokens:,} tokens to compute with shared prefixes ({fewer})")
    if expected.generated_tokens:
        notes.append(f"at most {expected.generated_tokens:,} tokens to generate")
    if expected.seconds is not None:
        notes.append(f"at most about {duration(expected.seconds)} on this machine")
    if expected.cost is not None:
        notes.append(f"at most about {expected.cost:.2f} in the currency of the prices given")
    for name, floors in expected.judged.items():
        beside = f", and those of the floors {', '.join(floors)}" if floors else ""
        notes.append(f"{name}: not counted here: judging {expected.tasks[name].docs:,} answers{beside}")
    table = Table.of(COLUMNS, expected.tasks.items(), title=title)
    return Findings(title, tables=(table,), notes=(*notes, said), result=Expected(expected, part_of))


def duration(seconds: float) -> str:
    """
    >>> duration(42), duration(300), duration(9000)
    ('42 s', '5 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
