"""What people type from habit with lm-evaluation-harness: taken where it means something here, else answered with what
to type instead. `docs/coming-from-lm-eval.md` has the whole table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import click

from assay.errors import ConfigError

INSTEAD: dict[str, str] = {
    "--use_cache": "Leave it out: every answer is kept. --store PATH says where, --fresh asks again.",
    "--no_cache": "Write --fresh to ask the model again.",
    "--cache_requests": "Leave it out: building requests is fast, and every answer is kept.",
    "--max_batch_size": "Leave it out: --batch_size auto takes as many tokens as fit.",
    "--check_integrity": "`assay validate NAMES` checks files, functions, metrics and templates.",
    "--verbosity": "Leave it out. --debug shows tracebacks.",
    "--show_config": "`assay show TASK` prints a task's config; results.json has those of a run under `configs`.",
    "--wandb_config_args": "Leave it out: the config of the run is sent along. --wandb_args go to wandb.init.",
    "--trackio_args": "Write --log_to NAME:KEY=VALUE with wandb, mlflow or tensorboard.",
    "--hf_hub_log_args": "Leave it out, and upload the run's directory: hf upload REPO DIR --repo-type dataset",
}
INSTEAD |= {"-c": INSTEAD["--use_cache"], "-v": INSTEAD["--verbosity"]}


class RunCommand(click.Command):
    """A verb with the flags of a run. One that may be repeated also takes several words: `--tasks a b`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [each for each in self.params if isinstance(each, click.Option) and each.multiple]
        return super().parse_args(ctx, spread(args, {flag for option in options for flag in option.opts}))


def spread(words: Iterable[str], flags: Collection[str]) -> list[str]:
    """Each word after the first of such a flag as a flag of its own.

    >>> spread(["--tasks", "a", "b", "--limit", "3"], ["--tasks"])
    ['--tasks', 'a', '--tasks', 'b', '--limit', '3']
    """
    found: list[str] = []
    flag, filled = None, False
    for word in words:
        if word.startswith("-"):
            name, equals, _ = word.partition("=")
            flag, filled = (name if name in flags else None), bool(equals)
        elif flag is not None:
            if filled:
                found.append(flag)
            filled = True
        found.append(word)
    return found


def with_verb(words: Sequence[str]) -> list[str]:
    """`assay --model …` is `assay run --model …`.

    >>> with_verb(["--model", "dummy"]), with_verb(["--help"]), with_verb(["ls"])
    (['run', '--model', 'dummy'], ['--help'], ['ls'])
    """
    own = ("-h", "--help", "--version")
    return ["run", *words] if words and words[0].startswith("-") and words[0] not in own else [*words]


def explained(error: click.NoSuchOption) -> click.UsageError:
    """The same error with what to type instead, where that is known."""
    sentence = INSTEAD.get(error.option_name)
    return (
        error if sentence is None else click.UsageError(f"There is no {error.option_name} here. {sentence}", error.ctx)
    )


def require_directory(output_path: str) -> None:
    """There, `x.json` is the file of the results; here a run is a directory, and a directory of that name helps nobody."""
    if output_path.endswith((".json", ".jsonl")):
        raise ConfigError(
            f"--output_path: {output_path} looks like a file, and a run is kept in a directory",
            hint="Give a directory: results go to DIR/MODEL/DATE/results.json, or with --run_dir DIR to DIR/results.json.",
        )
