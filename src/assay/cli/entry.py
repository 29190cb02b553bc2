"""The `assay` command: finds the verb, runs it, and turns errors into messages and exit codes."""

from __future__ import annotations

import errno
import gc
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import NamedTuple

import click

from assay.cli.address_space import is_out_of_memory, require_address_space
from assay.cli.foreign_flags import foreign_flags
from assay.cli.help import HelpContext, with_fitted_help
from assay.cli.limits import limit_looking
from assay.cli.output import echo, reexec_utf8, secure_streams, settle_columns, unwritten
from assay.errors import DISTRIBUTION, AssayError, ConfigError, ModelError, did_you_mean
from assay.registry import load_object
from assay.terminal_text import hanging


class Verb(NamedTuple):
    """Where a verb lives, the heading under which `--help` lists it, and when to use it."""

    target: str
    heading: str
    use: str


def _verb(name: str, heading: str, use: str) -> Verb:
    return Verb(f"assay.cli.{name}:command", heading, use)


VERBS: dict[str, Verb] = {
    "demo": _verb("demo", "Evaluate", "A first real evaluation, with a small model and data that ship."),
    "run": _verb("run", "Evaluate", "Evaluate one model or several on tasks and groups."),
    "score": _verb(
        "score", "Evaluate", "Score a run again after a filter, a metric or labels changed; no model needed."
    ),
    "sweep": _verb("sweep", "Evaluate", "See how much of a score is the prompt: wordings, shots, examples."),
    "view": _verb("view", "Evaluate", "Look at runs, prompts and answers in a browser."),
    "report": _verb("report", "Evaluate", "Show a finished run again: table, page, LaTeX, CSV, agreement of filters."),
    "compare": _verb("compare", "Compare", "Is B better than A? Doc by doc, with an interval and a verdict."),
    "rank": _verb("rank", "Compare", "Rank many runs, each with the ranks it may have."),
    "explain": _verb("explain", "Compare", "Find out why two numbers differ."),
    "drift": _verb("drift", "Compare", "Did the model change? Token by token, without labels."),
    "power": _verb("power", "Compare", "How many docs does it take to see a difference?"),
    "noise": _verb("noise", "Compare", "How much does a server vary between replays?"),
    "gate": _verb("gate", "Gate", "Fail a build when a run is worse than another."),
    "ci": _verb("ci", "Gate", "Check the rules in assay.yaml with as few docs as it takes."),
    "judge": _verb("judge", "Judge", "Check a judge's verdicts, label answers, place runs on one scale."),
    "export": _verb("export", "Share", "Write a run of any harness as a run of ours, or in another harness's format."),
    "seal": _verb("seal", "Share", "Write a run as one file that anyone can check."),
    "verify": _verb("verify", "Share", "Compute every number of a sealed run again."),
    "ls": _verb("ls", "Tasks", "List tasks, groups, tags, models, metrics or filters."),
    "show": _verb("show", "Tasks", "See a task as it is understood, a prompt, or the schema of a file."),
    "validate": _verb("validate", "Tasks", "Check task files without asking a model."),
    "new": _verb("new", "Tasks", "Start a task, group, metric, filter or model of your own."),
    "fetch": _verb("fetch", "Machine", "Fetch data and models, for a machine without internet too."),
    "store": _verb("store", "Machine", "Inspect and clean up the stored responses."),
    "selftest": _verb("selftest", "Machine", "Check that a model or server agrees with itself."),
}
"""A verb whose module is not there is not listed. Packages add theirs by the entry point group `assay.verbs`."""


def _fetch_words(arguments: Sequence[str]) -> list[str]:
    """`models pull NAME` and `models ls` as `fetch` says them."""
    if arguments[:1] == ["pull"]:
        return ["fetch", "--model", *arguments[1:]]
    return ["fetch", "--list-models"] if arguments[:1] in (["ls"], []) else ["fetch", *arguments]


def _matrix_words(arguments: Sequence[str]) -> list[str]:
    is_placed = any(each.startswith(("--output_path", "--run_dir", "-o")) for each in arguments)
    return ["run", *arguments, *([] if is_placed else ["--output_path", "matrix"])]


def _import_words(arguments: Sequence[str]) -> list[str]:
    return ["export", *("--output" if each == "--run_dir" else each for each in arguments), "--to", "assay"]


EARLIER: dict[str, Callable[[Sequence[str]], list[str]]] = {
    "agreement": lambda rest: ["report", *rest, "--agreement"],
    "import": _import_words,
    "label": lambda rest: ["judge", "label", *rest],
    "matrix": _matrix_words,
    "models": _fetch_words,
    "schema": lambda rest: ["show", "--schema", *rest],
}
"""Verbs that are part of another now: they work, and print the command as it is written today."""


class Verbs(click.Group):
    """Knows all verbs and imports only the one that is used: `assay --help` imports none."""

    context_class = HelpContext

    def list_commands(self, context: click.Context) -> list[str]:
        there = [name for name, verb in VERBS.items() if find_spec(verb.target.partition(":")[0]) is not None]
        return [*there, *(name for name in _added_verbs() if name not in VERBS)]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(context):
            return None
        target = VERBS[name].target if name in VERBS else _added_verbs()[name]
        command = load_object(target, kind="verb")
        assert isinstance(command, click.Command)
        return with_fitted_help(command)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in EARLIER:
            args = EARLIER[args[0]](args[1:])
            echo(f"note: this is now `assay {shlex.join(args)}`", err=True)
        if args[0] not in self.list_commands(context):
            hint = did_you_mean(args[0], self.list_commands(context)) or "`assay --help` lists the verbs."
            raise click.UsageError(f"there is no verb {args[0]!r}. {hint}")
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        there = self.list_commands(context)
        widest = max(map(len, there))
        for heading in dict.fromkeys(verb.heading for verb in VERBS.values()):
            verbs = [
                (name.ljust(widest), VERBS[name].use)
                for name in there
                if name in VERBS and VERBS[name].heading == heading
            ]
            if verbs:
                with formatter.section(heading):
                    formatter.write_dl(verbs)
        if added := [(name.ljust(widest), f"From {_added_verbs()[name]}.") for name in there if name not in VERBS]:
            with formatter.section("Added"):
                formatter.write_dl(added)


@cache
def _added_verbs() -> dict[str, str]:
    """Verbs of other packages: name to `module:attribute` of a click command."""
    return {point.name: point.value for point in entry_points(group="assay.verbs")}


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        echo(f"assay {version(DISTRIBUTION)}")
        context.exit()


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.option(
    "--debug", is_flag=True, expose_value=False, help="Show tracebacks; can appear anywhere on the command line."
)
def assay() -> None:
    """Measure language models and know how far to trust the scores."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a gate failed or a score is withheld, 2 wrong arguments, config or local file,
    3 data, model or server failed, 4 a gate cannot tell, 130 interrupted."""
    settle_columns()
    if arguments is None:
        reexec_utf8()
        limit_looking(sys.argv[1:])
        gc.set_threshold(
            100_000, 20, 20
        )  # answers are many objects and few of them garbage: a third less processor time
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow's own pool holds on to tens of MB
    secure_streams()
    exit_on_sigterm()
    code = _answer(sys.argv[1:] if arguments is None else arguments)
    if problem := unwritten():
        echo(f"assay: the output could not be written: {problem.strerror}", err=True)
        code = code or 3
    sys.exit(code)


def _answer(given: Sequence[str]) -> int | str:
    """Run the command line; the exit code."""
    debug = "--debug" in given or bool(os.environ.get("ASSAY_DEBUG"))
    given = foreign_flags().add_verb([argument for argument in given if argument != "--debug"])
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        _require_text(given)
        if given and not given[0].startswith("-"):
            require_address_space()
        return assay.main(given, prog_name="assay", standalone_mode=False) or 0
    except AssayError as error:
        if debug:
            raise
        echo(hanging(f"assay: {error}"), err=True)
        return error.exit_code
    except click.ClickException as error:
        _show(_explained(error))
        return 2
    except (KeyboardInterrupt, click.Abort):
        echo("assay: interrupted", err=True)
        return 130
    except Exception as error:
        if debug or (fault := _fault_of(error)) is None:
            raise
        echo(hanging(f"assay: {fault}"), err=True)
        return fault.exit_code


def _fault_of(error: Exception) -> AssayError | None:
    """What to say where memory, the file system or code of the user's own (a model's, say) gave up; None for a fault of ours."""
    if is_out_of_memory(error):
        return ModelError(f"out of memory ({str(error)[:200]})" if str(error) else "out of memory")
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return ConfigError(f"the file system has no names as long as {str(error.filename)[:60]}…")
    from assay.config import code_place, what_failed

    if code_place(error) is None:
        return None
    said, hint = what_failed(error)
    return ModelError(said, hint=hint)


def _require_text(given: Sequence[str]) -> None:
    """Names that are no text (bytes of another encoding) could not be written into any file of a run."""
    for argument in given:
        if any("\ud800" <= sign <= "\udfff" for sign in argument):
            raise ConfigError(f"{argument!r} is not UTF-8", hint="Rename it, or write it in UTF-8.")


def exit_on_sigterm() -> None:
    """Being asked to end (SIGTERM) ends as any exit does: files that are being written and sandboxes are cleared away."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, leave)


def _explained(error: click.ClickException) -> click.ClickException:
    """The error with what to type instead, where that is known of a flag of another harness; else with names that are close
    without their dashes, which make any two short flags alike."""
    if not isinstance(error, click.NoSuchOption):
        return error
    if sentence := foreign_flags().instead(error.option_name):
        return click.UsageError(f"There is no {error.option_name} here. {sentence}", error.ctx)
    bare = {name.lstrip("-"): name for name in error.possibilities or ()}
    close = [bare[name] for name in get_close_matches(error.option_name.lstrip("-"), bare)]
    return click.NoSuchOption(error.option_name, possibilities=close or bare.values(), ctx=error.ctx)


def _show(error: click.ClickException) -> None:
    """As an error of our own: what is wrong, and what to do."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):  # since click 8.2
        error.show()
        return
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"\n  See `{context.command_path} --help`." if context else ""
    echo(hanging(f"assay: {message[:1].lower()}{message[1:]}{hint}"), err=True)


def _show_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
    from assay.config import ConfigWarning

    # Those of libraries are for their developers.
    if issubclass(category, ConfigWarning):
        echo(hanging(f"warning: {message}"), err=True)
