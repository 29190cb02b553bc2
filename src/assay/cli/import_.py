"""`assay import`: results of lm-evaluation-harness as a run."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("import", short_help="Turn results of lm-evaluation-harness into a run.")
@click.argument("source", type=click.Path(exists=True, file_okay=False))
@click.option("--run_dir", type=click.Path(file_okay=False), help="Directory for the run.  [default: SOURCE-assay]")
def command(source: str, run_dir: str | None) -> None:
    """Turn SOURCE into a run that can be viewed, compared and scored again.

    SOURCE is a directory with results_*.json and samples_*.jsonl.
    """
    from assay.cli.display import print_stored
    from assay.cli.emit import Outputs, emit
    from assay.finished import RUN_IMPORTERS
    from assay.show import run_findings

    result = RUN_IMPORTERS["lm_eval"](source, run_dir or beside(source))
    emit(run_findings(result), Outputs())
    print_stored(result)


def beside(source: str) -> str:
    """`SOURCE-assay`; of `.` and `..` the directories that they stand for.

    >>> beside("out/")
    'out-assay'
    """
    path = Path(source)
    return f"{path if path.name not in ('', '..') else path.resolve()}-assay"
