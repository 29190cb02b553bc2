"""`assay schema`: JSON Schema of task and group files, for editors."""

from __future__ import annotations

import click

from assay.cli.output import echo_json


@click.command("schema", short_help="JSON Schema of task and group files.")
@click.argument("kind", type=click.Choice(["task", "group"]))
def command(kind: str) -> None:
    """Print the JSON Schema of task or group files.

    \b
    assay schema task > task.schema.json

    In VS Code (YAML extension), `"yaml.schemas": {"task.schema.json": "tasks/**/*.yaml"}` then completes keys and
    marks wrong ones; in any editor with yaml-language-server, a first line
    `# yaml-language-server: $schema=task.schema.json` does the same.
    """
    from assay.config import file_schema

    echo_json(file_schema(kind), indent=2)
