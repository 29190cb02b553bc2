"""The `assay` command: finds the verb, runs it, and turns errors into messages and exit codes."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib.util import find_spec

import click

from assay.cli.foreign_flags import foreign_flags
from assay.cli.help import HelpContext, with_fitted_help
from assay.cli.output import echo, secure_streams, speak_utf8, unwritten
from assay.errors import DISTRIBUTION, AssayError, did_you_mean
from assay.terminal_text import hanging

VERBS: dict[str, tuple[str, str]] = {
    "run": ("assay.cli.run:command", "Evaluate a model on tasks."),
    "score": ("assay.cli.score:command", "Score a run again from its kept responses."),
    "compare": ("assay.cli.compare:command", "Is B better than A? Paired, with an interval."),
    "rank": ("assay.cli.rank:command", "Rank many runs, each with the ranks it may have."),
    "drift": ("assay.cli.drift:command", "Did the model change? Token by token, without labels."),
    "explain": ("assay.cli.explain:command", "Why do two numbers differ?"),
    "gate": ("assay.cli.gate:command", "Fail a build when a run is worse than another."),
    "ci": ("assay.cli.ci:command", "Check the rules in assay.yaml."),
    "agreement": ("assay.cli.agreement:command", "Do filters, or the draws of a doc, agree?"),
    "judge": ("assay.cli.judge:command", "Check how far to trust a judge's verdicts."),
    "label": ("assay.cli.label:command", "Label some answers of a run yourself."),
    "noise": ("assay.cli.noise:command", "How much does a server vary between replays?"),
    "power": ("assay.cli.power:command", "How many docs does it take to see a difference?"),
    "sweep": ("assay.cli.sweep:command", "How much of a score is the prompt?"),
    "matrix": ("assay.cli.matrix:command", "Evaluate several models on many tasks, in one table."),
    "report": ("assay.cli.report:command", "Show a finished run as Markdown, LaTeX, CSV or HTML."),
    "export": ("assay.cli.export:command", "Write a run in other harnesses' formats."),
    "seal": ("assay.cli.seal:command", "Write a run as one file that anyone can check."),
    "verify": ("assay.cli.verify:command", "Compute every number of a sealed run again."),
    "import": ("assay.cli.import_:command", "Turn results of lm-evaluation-harness into a run."),
    "view": ("assay.cli.view:command", "View runs and samples in a browser."),
    "ls": ("assay.cli.ls:command", "List tasks, groups, tags, models, metrics or filters."),
    "show": ("assay.cli.show:command", "Show a resolved task or group, and where each field was set."),
    "validate": ("assay.cli.validate:command", "Check task files without asking a model."),
    "schema": ("assay.cli.schema:command", "Print the JSON Schema of task and group files."),
    "new": ("assay.cli.new:command", "Create a new task, group, metric, filter or model."),
    "fetch": ("assay.cli.fetch:command", "Fetch data and models for a machine without internet."),
    "models": ("assay.cli.models:command", "Fetch and list local models."),
    "store": ("assay.cli.store:command", "Inspect and clean up the response store."),
    "demo": ("assay.cli.demo:command", "Run a first real evaluation."),
    "selftest": ("assay.cli.selftest:command", "Check that a model agrees with itself."),
}
"""Verb to `module:attribute` and its line in `--help`. A verb whose module is not there is not listed."""


class Verbs(click.Group):
    """Knows all verbs and imports only the one that is used: `assay --help` imports none."""

    context_class = HelpContext

    def list_commands(self, context: click.Context) -> list[str]:
        return [name for name, (target, _) in VERBS.items() if find_spec(target.partition(":")[0]) is not None]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(context):
            return None
        module, _, attribute = VERBS[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return with_fitted_help(command)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.list_commands(context):
            hint = did_you_mean(args[0], self.list_commands(context)) or "`assay --help` lists the verbs."
            raise click.UsageError(f"there is no verb {args[0]!r}. {hint}")
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, VERBS[name][1]) for name in self.list_commands(context)])


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
    if arguments is None:
        speak_utf8()
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow's own pool holds on to tens of MB
    secure_streams()
    end_in_order()
    code = _answer(sys.argv[1:] if arguments is None else arguments)
    if problem := unwritten():
        echo(f"assay: the output could not be written: {problem.strerror}", err=True)
        code = code or 3
    sys.exit(code)


def _answer(given: Sequence[str]) -> int | str:
    """Do what the words say; the exit code."""
    debug = "--debug" in given or bool(os.environ.get("ASSAY_DEBUG"))
    given = foreign_flags().add_verb([argument for argument in given if argument != "--debug"])
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
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


def end_in_order() -> None:
    """Being asked to end (SIGTERM) ends as any exit does: files that are being written and sandboxes are cleared away."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, leave)


def _explained(error: click.ClickException) -> click.ClickException:
    """The error with what to type instead, where that is known of a flag of another harness."""
    if not isinstance(error, click.NoSuchOption) or not (sentence := foreign_flags().instead(error.option_name)):
        return error
    return click.UsageError(f"There is no {error.option_name} here. {sentence}", error.ctx)


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
