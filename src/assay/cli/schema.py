"""`assay schema`: JSON Schema of task and group files, for editors."""

from __future__ import annotations

import click

from assay.cli.output import echo_json


@click.command("schema", short_help="Print the JSON Schema of task and group files.")
@click.argument("kind", type=click.Choice(["task", "group", "ci", "gate"]))
def command(kind: str) -> None:
    """Print the JSON Schema of task or group files, of assay.yaml (ci), or of a gate's report (gate).

    \b
    assay schema task > task.schema.json

    In VS Code (YAML extension), `"yaml.schemas": {"task.schema.json": "tasks/**/*.yaml"}` then completes keys and
    marks wrong ones; in any editor with yaml-language-server, a first line
    `# yaml-language-server: $schema=task.schema.json` does the same.
    """
    from assay.config import file_schema

    if kind == "gate":
        from assay.comparison import GATE_SCHEMA

        echo_json(GATE_SCHEMA, indent=2)
        return
    echo_json(file_schema(kind), indent=2)
