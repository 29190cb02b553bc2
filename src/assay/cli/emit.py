"""Where findings go: the terminal, a format, files whose endings say theirs, and the build system around us."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from assay.cli.output import echo, echo_as_is, echo_json

if TYPE_CHECKING:
    from assay.show import Findings

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Outputs:
    """What was asked for: a format to print, files to write."""

    form: str | None = None
    files: tuple[str, ...] = ()
    link: str | None = None
    typed: tuple[tuple[str, str], ...] = ()
    """Files of a format of their own, whatever their endings: (file, format)."""
    silent: tuple[str, ...] = ()
    """Files that are written and not named."""
    report: str | None = None
    """A file for the result with its title and link, as a schema describes it."""

    def printing(self, form: str) -> Outputs:
        return replace(self, form=form)

    def also(self, *files: Path) -> Outputs:
        return replace(self, silent=tuple(map(str, files)))

    def reporting(self, file: Path, link: str | None) -> Outputs:
        return replace(self, report=str(file), link=self.link or link)

    def check(self) -> None:
        """Before anything is computed: every format must exist, and every file must say which is its own."""
        from assay.errors import ConfigError
        from assay.show import OUTPUT_FORMATS, format_of

        if self.form is not None:
            OUTPUT_FORMATS[self.form]
        for path in map(Path, self.files):
            if self.form in (None, "json"):
                format_of(path)
        for path in map(Path, self.named):
            if not path.absolute().parent.is_dir():
                raise ConfigError(f"{path}: there is no directory {path.parent}", hint="Create it first.")

    @property
    def named(self) -> tuple[str, ...]:
        """Every file that somebody asked for."""
        return (*self.files, *(file for file, _ in self.typed))

    @property
    def is_quiet(self) -> bool:
        """Whether something other than a person may read what is printed."""
        return self.form is not None


_FORMS = {"markdown": "md"}
"""Flags that choose a format by another name."""


def output_flags(*, short: bool = True, link: bool = False, earlier: Sequence[str] = ()) -> Callable[[F], F]:
    """Adds `--json`, `--format` and `--output`, and hands them over as `outputs`.

    `short`: whether `-o` is the output, which on verbs that run models is where runs are stored. `earlier` are flags of
    one format each (`--html FILE`), which still work.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, as_json: bool, form: str | None, output: tuple[str, ...], **rest: Any) -> Any:
            given = {name: path for name in earlier if (path := rest.pop(f"{name}_file")) is not None}
            report = given.pop("report", None)
            place = rest.pop("link") if link else None
            typed = tuple((path, _FORMS.get(name, name)) for name, path in given.items())
            chosen = Outputs("json" if as_json else form, output, place, typed, report=report)
            chosen.check()
            return function(*args, outputs=chosen, **rest)

        made: Any = call
        for name in earlier:
            made = click.option(f"--{name}", f"{name}_file", type=click.Path(dir_okay=False), hidden=True)(made)
        if link:
            made = click.option("--link", metavar="URL", help="Link for the comment.")(made)
        made = click.option(
            "--output",
            *(["-o"] if short else []),
            multiple=True,
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help="Write to this file; its ending says the format: .html, .md, .csv, .tex, .json, .xml (JUnit), .txt.",
        )(made)
        made = click.option(
            "--format",
            "form",
            metavar="NAME",
            help="Print as text, md, latex, csv, json, html, junit or annotations; with --output, write so.",
        )(made)
        return cast(F, click.option("--json", "as_json", is_flag=True, help="The same as --format json.")(made))

    return decorate


def emit(findings: Findings, outputs: Outputs) -> int:
    """Write, tell and print; the exit code that follows from the verdict."""
    from assay.results import write_whole
    from assay.show import FittedTable, save, terminal_parts

    findings = findings.linked(outputs.link)
    for file in (*outputs.files, *outputs.silent):
        save(findings, Path(file), outputs.form)
    for file, form in outputs.typed:
        write_whole(Path(file), findings.to(form).encode("utf-8", "surrogatepass"))
    if outputs.report is not None:
        said = findings.result.to_report(findings.title, outputs.link)
        write_whole(Path(outputs.report), (json.dumps(said, ensure_ascii=False) + "\n").encode())
    emit_ci_annotations(findings)
    if outputs.form == "json":
        echo_json(findings.to_json())
    elif outputs.form is not None and not outputs.named:
        echo_as_is(findings.to(outputs.form), nl=False)
    elif outputs.form is not None:
        echo_as_is("\n".join(outputs.named))
    else:
        from assay.cli.display import console

        out = console()
        for part in terminal_parts(findings):
            if isinstance(part, FittedTable):
                out.print(part)
            else:
                echo(part)
        for file in outputs.named:
            echo_as_is(file)
    return 0 if findings.verdict is None else findings.verdict.exit_code


def emit_ci_annotations(findings: Findings) -> None:
    """Annotations and a summary in a workflow of GitHub, the code quality report in GitLab; elsewhere nothing."""
    from assay.results import write_whole
    from assay.show import to_annotations, to_code_quality

    if not findings.checks:
        return
    if os.environ.get("GITHUB_ACTIONS") == "true":
        echo_as_is(to_annotations(findings), err=True, nl=False)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a", encoding="utf-8") as page:
            page.write(findings.to_markdown())
    if os.environ.get("GITLAB_CI") == "true":
        place = Path(os.environ.get("CI_PROJECT_DIR") or ".") / "gl-code-quality-report.json"
        write_whole(place, to_code_quality(findings).encode())
