"""Command lines of lm-evaluation-harness. `docs/coming-from-lm-eval.md` has the whole table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from assay.cli import ForeignFlags
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

    def instead(self, flag: str) -> str | None:
        return INSTEAD.get(flag)

    def check_output_path(self, path: str) -> None:
        """There, `x.json` is the file of the results; here a run is a directory, and one of that name helps nobody."""
        if path.endswith((".json", ".jsonl")):
            raise ConfigError(
                f"--output_path: {path} looks like a file, and a run is kept in a directory",
                hint="Give a directory: results go to DIR/MODEL/DATE/results.json, or with --run_dir DIR to DIR/results.json.",
            )


LM_EVAL_FLAGS = LmEvalFlags()
