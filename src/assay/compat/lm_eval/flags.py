"""Command lines of lm-evaluation-harness. `docs/coming-from-lm-eval.md` has the whole table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from assay.cli import ForeignFlags
from assay.errors import ConfigError

NOT_NEEDED: dict[str, str] = {
    "--use_cache": "every answer is kept; --store PATH says where, --fresh asks again",
    "--cache_requests": "building requests is fast, and every answer is kept",
    "--max_batch_size": "--batch_size auto takes as many tokens as fit",
    "--check_integrity": "a run checks files, functions, metrics and templates before the first request",
    "--verbosity": "--debug shows tracebacks",
    "--show_config": "results.json has the config of every task; `assay show TASK` prints one",
    "--wandb_config_args": "the run's config is always sent; --wandb_args go to wandb.init",
    "--hf_hub_log_args": "upload the run's directory yourself: hf upload REPO DIR --repo-type dataset",
}
"""Flags without which a run does the same, and why. They are left out with a note."""
NOT_NEEDED |= {"-c": NOT_NEEDED["--use_cache"], "-v": NOT_NEEDED["--verbosity"]}
_WITHOUT_VALUE = frozenset({"--check_integrity", "--show_config"})
_WITH_VALUES = frozenset({"--wandb_config_args", "--hf_hub_log_args"})

INSTEAD: dict[str, str] = {
    "--no_cache": "Write --fresh to ask the model again.",
    "--trackio_args": "Write --log_to NAME:KEY=VALUE with wandb, mlflow or tensorboard.",
}
"""Flags that would change a run, and what to type in their place."""


class LmEvalFlags(ForeignFlags):
    def add_verb(self, arguments: Sequence[str]) -> list[str]:
        """`assay --model …` is `assay run --model …`.

        >>> LM_EVAL_FLAGS.add_verb(["--model", "dummy"])
        ['run', '--model', 'dummy']
        >>> LM_EVAL_FLAGS.add_verb(["--help"]), LM_EVAL_FLAGS.add_verb(["ls"])
        (['--help'], ['ls'])
        """
        own = ("-h", "--help", "--version")
        lacks_verb = arguments and arguments[0].startswith("-") and arguments[0] not in own
        return ["run", *arguments] if lacks_verb else [*arguments]

    def repeat_flags(self, arguments: Sequence[str], repeatable: Collection[str]) -> list[str]:
        """Each value after the first of a repeatable flag gets a flag of its own.

        >>> LM_EVAL_FLAGS.repeat_flags(["--tasks", "a", "b", "--limit", "3"], ["--tasks"])
        ['--tasks', 'a', '--tasks', 'b', '--limit', '3']
        """
        repeated: list[str] = []
        flag, has_value = None, False
        for argument in arguments:
            if argument.startswith("-"):
                name, equals, _ = argument.partition("=")
                flag, has_value = (name if name in repeatable else None), bool(equals)
            elif flag is not None:
                if has_value:
                    repeated.append(flag)
                has_value = True
            repeated.append(argument)
        return repeated

    def unneeded(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """
        >>> LM_EVAL_FLAGS.unneeded(["--use_cache", "x", "--tasks", "a", "--show_config"])[0]
        ['--tasks', 'a']
        """
        kept: list[str] = []
        notes: dict[str, None] = {}
        most = 0  # values that the flag before may still have
        for argument in arguments:
            name, equals, _ = argument.partition("=")
            if name in NOT_NEEDED:
                notes[f"{name} is not needed: {NOT_NEEDED[name]}."] = None
                most = 0 if equals or name in _WITHOUT_VALUE else len(arguments) if name in _WITH_VALUES else 1
            elif most and not argument.startswith("-"):
                most -= 1
            else:
                most = 0
                kept.append(argument)
        return kept, [*notes]

    def not_needed(self, flag: str) -> str | None:
        return NOT_NEEDED.get(flag)

    def instead(self, flag: str) -> str | None:
        return INSTEAD.get(flag)

    def check_output_path(self, path: str) -> None:
        """There, `x.json` is the file of the results; here a run is a directory, and one of that name helps nobody."""
        if path.endswith((".json", ".jsonl")):
            raise ConfigError(
                f"--output_path: {path} looks like a file, but a run is kept in a directory",
                hint="Use a directory; results go to DIR/MODEL/DATE/results.json, or with --run_dir DIR to DIR/results.json.",
            )


LM_EVAL_FLAGS = LmEvalFlags()
