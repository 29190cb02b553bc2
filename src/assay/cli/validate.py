"""`assay validate`: is what the task files say true? Asks no model, and runs code of task files only with `--trust`."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from assay.cli.options import resolve_config
from assay.cli.output import echo, echo_json
from assay.cli.task_data import add_floors, check_data, print_data
from assay.cli.task_files import OpenManager, TaskFilesCommand, task_files, trusting
from assay.config import ConfigWarning, task_names_in
from assay.errors import AssayError, ConfigError, MissingPackage, UntrustedCode
from assay.run import check_group
from assay.scoring import doubtful_settings
from assay.tasks import Resolved, TaskManager, check_task
from assay.terminal_text import hanging, one_line


@dataclass
class ValidationTally:
    """What was found. A task with three faults is one failed task and three failures."""

    loaded: dict[str, int] = field(default_factory=lambda: {"tasks": 0, "groups": 0})
    failed: dict[str, int] = field(default_factory=lambda: {"tasks": 0, "groups": 0})
    failures: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unchecked: list[dict[str, Any]] = field(default_factory=list)
    """What could not be checked without running code of the files."""
    unknown: dict[str, int] = field(default_factory=lambda: {"tasks": 0, "groups": 0})
    """Of those that loaded: how many have such a part."""

    def add(self, kind: str, name: str, path: str | None, found: list[ConfigError]) -> None:
        errors = [error for error in found if not isinstance(error, UntrustedCode)]
        (self.failed if errors else self.loaded)[kind] += 1
        if found and not errors:
            self.unknown[kind] = self.unknown.get(kind, 0) + 1
        for error in found:
            if isinstance(error, UntrustedCode):
                self.unchecked.append({"name": name, "path": path, "reason": error.message})
        for error in errors:
            package = error.package if isinstance(error, MissingPackage) else None
            self.failures.append({"name": name, "path": path, "reason": str(error), "missing_package": package})

    def to_json(self, more: dict[str, Any] | None = None) -> str:
        counts = {kind: {"loaded": self.loaded[kind], "failed": self.failed[kind]} for kind in self.loaded}
        return json.dumps(
            {
                **counts,
                "failures": self.failures,
                "unchecked": self.unchecked,
                "warnings": self.warnings,
                **(more or {}),
            },
            ensure_ascii=False,
            indent=1,
        )


@click.command("validate", cls=TaskFilesCommand, short_help="Check task files without asking a model.")
@click.argument("names", nargs=-1)
@click.option("--tasks", "-t", multiple=True, metavar="NAMES", help="Names to check; the same as the arguments.")
@click.option("--json", "as_json", is_flag=True, help="Print counts and failures as JSON.")
@click.option(
    "--data_dir",
    metavar="DIR",
    envvar="ASSAY_DATA_DIR",
    help="Also render the first doc of tasks whose data are in this mirror.",
)
@click.option("--data", is_flag=True, help="Also check which tasks can load their data from the mirror, files or hub.")
@click.option("-v", "--verbose", is_flag=True, help="Show every failure and warning, not just one of each kind.")
@click.option("--model", "-M", metavar="NAME", help="Also check a model: its arguments, class and files.")
@click.option("--model_args", "-a", multiple=True, metavar="K=V,…", help="Arguments of the model, as for `assay run`.")
@task_files
@trusting
@click.pass_context
def command(
    context: click.Context,
    names: tuple[str, ...],
    tasks: tuple[str, ...],
    as_json: bool,
    data_dir: str | None,
    data: bool,
    verbose: bool,
    model: str | None,
    model_args: tuple[str, ...],
    open_manager: OpenManager,
) -> None:
    """Check tasks and groups, by name or all of them.

    Includes and functions must resolve; keys, metrics, filters, aggregations, samplers and group members must exist;
    templates must compile and, if the data are local, render; no group may contain itself. The exit code is 2 if anything
    is wrong. Python code in task files is read but not run, and what could not be checked is listed; --trust runs it, as a
    run would.

    \b
    assay validate my_task --include_path my_tasks
    assay validate my_tasks/new.yaml
    assay validate --lm_eval
    assay validate --model hf --model_args pretrained=my_model

    With --model and no names, only the model is checked. --data lists files without loading them; exit code 3 if data are missing. With names,
    it also reads the data that are here and shows the highest floor of each metric: what it gives without any ability.
    """
    manager, tally = open_manager(), ValidationTally()
    mirror = Path(data_dir) if data_dir else None
    # Task modules may print while they are imported; what belongs to them goes to stderr.
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        chosen = task_names_in((*names, *tasks), between=",")
        if model is not None:
            _validate_model(model, model_args, tally)
        if chosen or model is None:
            _validate(manager, chosen, tally, mirror)
        report = check_data(manager, chosen, mirror) if data else None
        if report is not None and chosen and not tally.failures:
            add_floors(report, manager, mirror)
    tally.warnings = _config_warnings(caught)
    if as_json:
        echo_json(tally.to_json(None if report is None else {"data": report.to_dict()}))
    else:
        _print(tally, verbose)
        if report is not None:
            print_data(report, verbose=verbose)
    if tally.failures:
        context.exit(2)
    if report is not None and report.failures:
        context.exit(3)


def _validate_model(name: str, model_args: tuple[str, ...], tally: ValidationTally) -> None:
    from assay.models import check_model

    tally.loaded["models"] = tally.failed["models"] = 0
    found: list[ConfigError] = []
    try:
        check_model(name, resolve_config({"model_args": model_args}).model_args)
    except AssayError as error:
        found.append(_as_config_error(error))
    tally.add("models", name, None, found)


def _validate(manager: TaskManager, names: list[str], tally: ValidationTally, data_dir: Path | None) -> None:
    index = manager.index
    check = _Checker(manager, tally, data_dir)
    if names:
        for name in names:
            check(name)
        return
    # A broken file may have no name at all, so nobody would ever ask for it.
    known = {entry.file for entry in index.entries.values()}
    for path, error in index.broken.items():
        if path not in known:
            tally.add("tasks", Path(path).name, path, [ConfigError(error)])
    # Tasks before groups: a group then only answers for what it changes or writes out itself.
    for kind in ("task", "group"):
        for name in _progress(index.names(kind), f"{kind}s"):
            check(name)


class _Checker:
    """Checks a name and all that it stands for, each task and group once."""

    def __init__(self, manager: TaskManager, tally: ValidationTally, data_dir: Path | None) -> None:
        self.manager, self.tally, self.data_dir = manager, tally, data_dir
        self.done: set[str] = set()
        self.failed: set[str] = set()

    def __call__(self, name: str) -> None:
        try:
            resolved = self.manager.resolve(name)
        except Exception as error:  # a report over a directory says what is wrong with one file, and goes on
            entry = self.manager.entries.get(name)
            kind = "groups" if entry is not None and entry.kind == "group" else "tasks"
            self.tally.add(kind, name, entry.file if entry else None, [_as_config_error(error)])
            return
        blamed = self._check_tasks(resolved)
        for key, spec in resolved.groups.items():
            blamed.setdefault(key.partition("::")[0], []).extend(check_group(spec, resolved))
        for key in resolved.groups:
            if "::" not in key and key not in self.done:
                self.done.add(key)
                self.tally.add("groups", key, _text(resolved.sources.get(key)), blamed[key])

    def _check_tasks(self, resolved: Resolved) -> dict[str, list[ConfigError]]:
        """What groups are to blame for: faults of the tasks that they write out or change."""
        blamed: dict[str, list[ConfigError]] = {}
        for key, config in resolved.tasks.items():
            plain = self.manager.is_plain(key, config, resolved.sources.get(key))
            if key in (self.done if plain else self.failed):
                continue  # a group that changes a task is not to blame for what was wrong before
            errors = check_task(config, resolved.origins.get(key), data_dir=self.data_dir)
            if any(not isinstance(error, UntrustedCode) for error in errors):
                self.failed.add(key)
            for doubt in [] if errors else doubtful_settings(config):
                warnings.warn(f"task {key}: {doubt}", ConfigWarning, stacklevel=2)
            if plain or key in resolved.roots:
                self.done.add(key)
                self.tally.add("tasks", key, _text(resolved.sources.get(key)), errors)
            else:
                blamed.setdefault(_owner(key, resolved), []).extend(errors)
        return blamed


def _owner(key: str, resolved: Resolved) -> str:
    """The group that answers for a task it writes out or changes."""
    if "::" in key:
        return key.partition("::")[0]
    return next(name.partition("::")[0] for name, spec in resolved.groups.items() if key in spec.children)


def _as_config_error(error: Exception) -> ConfigError:
    if isinstance(error, ConfigError):
        return error
    if isinstance(error, AssayError):
        return ConfigError(error.message, hint=error.hint)
    return ConfigError(f"it cannot be read: {type(error).__name__}: {error}")


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _config_warnings(caught: list[warnings.WarningMessage]) -> list[str]:
    return list(dict.fromkeys(str(item.message) for item in caught if issubclass(item.category, ConfigWarning)))


def _progress(names: list[str], what: str) -> Iterator[str]:
    """A counter on a terminal: thousands of files and their imports take a while."""
    for position, name in enumerate(names, 1):
        if position % 100 == 0 and sys.stderr.isatty():
            click.echo(f"\r\033[K{position:,} of {len(names):,} {what}", nl=False, err=True)
        yield name
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)


def _print(tally: ValidationTally, verbose: bool) -> None:
    shown: dict[str, list[dict[str, Any]]] = {}
    for failure in tally.failures:
        shown.setdefault(failure["reason"] if verbose else _kind(failure), []).append(failure)
    for failures in shown.values():
        first, rest = failures[0], len(failures) - 1
        echo(
            f"✗ {one_line(first['name'])}: {hanging(first['reason'])}"
            + (f"\n  and {rest:,} more" if rest and not verbose else "")
        )
    _print_unchecked(tally, verbose)
    for warning in tally.warnings if verbose else tally.warnings[:5]:
        echo(hanging(f"! {warning}"))
    if len(tally.warnings) > 5 and not verbose:
        echo(f"! and {len(tally.warnings) - 5:,} more warnings (-v)")
    for kind in tally.loaded:
        unknown = f"; {tally.unknown[kind]:,} of them not known without --trust" if tally.unknown.get(kind) else ""
        echo(f"{kind}: {tally.loaded[kind]:,} loaded, {tally.failed[kind]:,} failed{unknown}")
    if tally.unchecked:
        echo("Python code was read but not run, so what it does is not checked. Read it, then use --trust.")
    packages = Counter(failure["missing_package"] for failure in tally.failures if failure["missing_package"])
    if packages:
        echo(f"missing packages: {', '.join(f'{name} ({count:,})' for name, count in packages.most_common())}")


_OWN = re.compile(r"(?:task|group) '[^']*'|\S*/\S*")


def _kind(failure: Mapping[str, Any]) -> str:
    """What failures of one cause share: a missing package, or the reason without the names of tasks and files.

    >>> _kind({"missing_package": None, "reason": "a/b.yaml:3: task 'b': dataset_path: it names no dataset"})
    ' : dataset_path: it names no dataset'
    """
    return f"package {failure['missing_package']}" if failure["missing_package"] else _OWN.sub("", failure["reason"])


def _print_unchecked(tally: ValidationTally, verbose: bool) -> None:
    """One line for each thing that was not checked; ten of them without `-v`."""
    shown = tally.unchecked if verbose else tally.unchecked[:10]
    for item in shown:
        echo(f"? not checked: {hanging(item['reason'])}")
    if rest := len(tally.unchecked) - len(shown):
        echo(f"? and {rest:,} more not checked (-v)")
