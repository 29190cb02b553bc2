"""The formats that findings can be shown in, by name; a package may add its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from assay.errors import ConfigError
from assay.registry import Registry
from assay.results import write_whole
from assay.show.data import to_annotations, to_code_quality, to_csv, to_json, to_junit
from assay.show.findings import Findings
from assay.show.html import to_html, to_notebook
from assay.show.latex import to_latex
from assay.show.markdown import to_markdown
from assay.show.terminal import to_text


@dataclass(frozen=True)
class Format:
    """One way to show findings."""

    render: Callable[..., str]
    endings: tuple[str, ...] = ()
    """Files of these endings are written so."""


OUTPUT_FORMATS: Registry[Format] = Registry("output format", group="assay.output_formats")
"""Name to format."""

for _name, _format in {
    "text": Format(to_text, (".txt",)),
    "md": Format(to_markdown, (".md", ".markdown")),
    "latex": Format(to_latex, (".tex",)),
    "csv": Format(to_csv, (".csv",)),
    "json": Format(to_json, (".json",)),
    "html": Format(to_html, (".html", ".htm")),
    "notebook": Format(to_notebook),
    "junit": Format(to_junit, (".xml",)),
    "annotations": Format(to_annotations),
    "code-quality": Format(to_code_quality),
}.items():
    OUTPUT_FORMATS.add(_name, _format)


def format_of(path: Path) -> str:
    """What a file's ending says."""
    for name in OUTPUT_FORMATS:
        found = OUTPUT_FORMATS.get_installed(name)
        if found is not None and path.suffix.lower() in found.endings:
            return name
    known = ", ".join(ending for name in OUTPUT_FORMATS for ending in OUTPUT_FORMATS[name].endings)
    raise ConfigError(f"{path}: its ending names no format", hint=f"Known endings: {known}.")


def save(findings: Findings, path: Path, form: str | None = None) -> Path:
    """Write findings in the format that the file's ending says, or in this one where it says none; the file appears whole."""
    is_known = any(path.suffix.lower() in OUTPUT_FORMATS[name].endings for name in OUTPUT_FORMATS)
    text = findings.to(form if form is not None and not is_known else format_of(path))
    write_whole(path, text.encode("utf-8", "surrogatepass"))
    return path
