"""A verb of its own."""

import click

from assay.finished import open_run


@click.command("docs")
@click.argument("run")
def command(run):
    """Say how many docs a run has."""
    click.echo(f"{sum(task.sample_len for task in open_run(run).result.tasks.values())} docs")
