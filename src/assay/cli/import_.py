"""`assay import`: a run of another harness as a run directory."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("import", short_help="Turn a run of another harness into a run directory.")
@click.argument("source", type=click.Path(exists=True))
@click.option("--run_dir", type=click.Path(file_okay=False), help="Directory for the run.  [default: SOURCE-assay]")
def command(source: str, run_dir: str | None) -> None:
    """Turn SOURCE into a run that can be viewed, compared and scored again.

    SOURCE is what lm-evaluation-harness, inspect or lighteval wrote, or a table of scores; `assay export SOURCE --to assay`
    does the same.
    """
    from rich.markup import escape

    from assay.cli.display import console
    from assay.finished import export_run
    from assay.results import RunResult
    from assay.show import screen_table

    where = run_dir or beside(source)
    export_run(source, "assay", where)
    result = RunResult.load(where)
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
