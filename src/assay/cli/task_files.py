"""The flags by which every verb that reads task files finds them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from assay.cli.flags import WholeText

if TYPE_CHECKING:
    from assay.tasks import TaskManager

F = TypeVar("F", bound=Callable[..., Any])
OpenManager = Callable[..., "TaskManager"]


def task_files(function: F) -> F:
    """Adds `--include_path`, `--lm_eval` and `--no-defaults`, and hands what they choose over as `open_manager`."""

    @click.option(
        "--include_path",
        multiple=True,
        type=WholeText(),
        metavar="DIR",
        envvar="ASSAY_INCLUDE_PATH",
        help="More task files; can be repeated, or joined by the path separator.",
    )
    @click.option(
        "--lm_eval",
        metavar="[DIR]",
        help="Add the tasks of an installed lm-evaluation-harness (or of ASSAY_LM_EVAL_TASKS), or of this directory.",
    )
    @click.option("--no-defaults", is_flag=True, help="Leave out the tasks that ship with assay.")
    @functools.wraps(function)
    def call(*args: Any, include_path: tuple[str, ...], lm_eval: str | None, no_defaults: bool, **options: Any) -> Any:
        chosen = functools.partial(_open_manager, include_path, lm_eval, no_defaults)
        return function(*args, open_manager=chosen, **options)

    return cast(F, call)


def _open_manager(include_path: tuple[str, ...], lm_eval: str | None, no_defaults: bool) -> TaskManager:
    from assay.tasks import TaskManager

    installed_or_folder = True if lm_eval == _INSTALLED else lm_eval
    return TaskManager([*include_path], include_defaults=not no_defaults, lm_eval=installed_or_folder)


def trusting(function: F) -> F:
    """Adds `--trust`. Without it, the verb reads code of task files and never runs it."""

    @click.option("--trust", is_flag=True, help="Run the Python code that task files name; you have read it.")
    @functools.wraps(function)
    def call(*args: Any, trust: bool, **options: Any) -> Any:
        from assay.config import reading_only

        with reading_only(not trust):
            return function(*args, **options)

    return cast(F, call)


def _is_meant_as_directory(word: str | None) -> bool:
    """Also where there is none, so that the error names it; a task file is what the verb is about."""
    path = os.path.expanduser(word or "")
    return os.path.isdir(path) or (os.sep in path and not path.endswith((".yaml", ".yml", ".py")))


class TaskFilesCommand(click.Command):
    """A verb of task files. `--lm_eval` may have a directory behind it; anything else there is the verb's own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = [*args]
        for place, argument in enumerate(args):
            follower = args[place + 1] if place + 1 < len(args) else None
            if argument == "--lm_eval" and not _is_meant_as_directory(follower):
                given[place] = f"--lm_eval={_INSTALLED}"
        return super().parse_args(ctx, given)


_INSTALLED = "true"
