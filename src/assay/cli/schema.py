"""`assay schema`: JSON Schema of task and group files, for editors."""

from __future__ import annotations

import click

from assay.cli.output import echo_json


@click.command("schema", short_help="Print the JSON Schema of task and group files.")
@click.argument("kind", type=click.Choice(["task", "group", "ci", "gate", "compare"]))
def command(kind: str) -> None:
    """Print the JSON Schema of task or group files, of assay.yaml (ci), or of what gates and
    comparisons write (gate, compare).

    \b
    assay schema task > task.schema.json

    In VS Code (YAML extension), `"yaml.schemas": {"task.schema.json": "tasks/**/*.yaml"}` then completes keys and
    marks wrong ones; in any editor with yaml-language-server, a first line
    `# yaml-language-server: $schema=task.schema.json` does the same.
    """
    from assay.config import file_schema

    if kind in ("gate", "compare"):
        from assay.analyses.gate_files import COMPARISON_SCHEMA, GATE_SCHEMA

        echo_json(GATE_SCHEMA if kind == "gate" else COMPARISON_SCHEMA, indent=2)
        return
    echo_json(file_schema(kind), indent=2)
