"""The scores of a run by fields of its docs: by length and depth, by subject, by year."""

from __future__ import annotations

from collections.abc import Sequence

from assay.analyses.agreement import AgreementOptions
from assay.config import CommandFlag, Names, option
from assay.errors import ConfigError, did_you_mean
from assay.finished import FieldScore, Run, own_fields, scores_by_field
from assay.results import matching
from assay.show import Findings, field_tables


class ByFieldOptions(AgreementOptions):
    """What is looked at, and by what."""

    by: Names = option(
        (),
        "Show instead the scores by these fields of the docs, such as max_length,depth; alone: those that tasks name.",
        flag=CommandFlag(metavar="[FIELDS]", bare="own"),
    )


class FieldScores(tuple[FieldScore, ...]):
    """Of one run."""

    def to_dict(self) -> list[dict[str, object]]:
        return [each.to_dict() for each in self]


def by_field(run: Run, options: ByFieldOptions | None = None) -> FieldScores:
    """Every task whose docs have fields that are named, or that itself names some."""
    run.require("samples", "scores")
    options = options or ByFieldOptions()
    for task in options.tasks:
        if task not in run.tasks:
            raise ConfigError(f"{run.path} has no task {task!r}", hint=did_you_mean(task, run.tasks))
    named: Sequence[str] = () if options.by == ("own",) else options.by
    found: list[FieldScore] = []
    for task in options.tasks or run.tasks:
        if fields := tuple(named) or own_fields(run.result.tasks[task]):
            scores = [*scores_by_field(run, task, fields)]
            keys = list(dict.fromkeys(each.key for each in scores))
            chosen = keys if options.metric is None else matching(options.metric, keys)
            found += [each for each in scores if each.key in chosen]
    if not found:
        raise ConfigError(
            f"{run.path} has no task that names fields of its docs", hint="Name some: --by max_length,depth."
        )
    return FieldScores(found)


def findings(scores: FieldScores) -> Findings:
    return Findings("Scores by fields of the docs", tables=field_tables(scores), result=scores)
