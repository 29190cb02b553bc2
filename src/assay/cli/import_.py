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
    from rich.markup import escape

    from assay.cli.display import console
    from assay.finished import RUN_IMPORTERS
    from assay.show import screen_table

    result = RUN_IMPORTERS["lm_eval"](source, run_dir or beside(source))
    out = console()
    out.print(screen_table(result))
    out.print(f"Kept in [bold]{escape(str(result.path))}[/bold]", highlight=False)


def beside(source: str) -> str:
    """`SOURCE-assay`; of `.` and `..` the directories that they stand for.

    >>> beside("out/")
    'out-assay'
    """
    path = Path(source)
    return f"{path if path.name not in ('', '..') else path.resolve()}-assay"
