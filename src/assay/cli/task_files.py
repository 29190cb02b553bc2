"""The flags by which every verb that reads task files finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.cli.options import WHOLE_TEXT

if TYPE_CHECKING:
    from assay.tasks import TaskManager

F = TypeVar("F", bound=Callable[..., Any])


def task_files(function: F) -> F:
    """Adds `--include_path`, `--lm_eval` and `--no-defaults`; `open_manager` takes what they give."""
    options = (
        click.option(
            "--include_path",
            multiple=True,
            type=WHOLE_TEXT,
            metavar="DIR",
            envvar="ASSAY_INCLUDE_PATH",
            help="More task files; may be given many times, and splits on the path separator.",
        ),
        click.option(
            "--lm_eval",
            is_flag=True,
            help="Add the tasks of an installed lm-evaluation-harness, or of ASSAY_LM_EVAL_TASKS.",
        ),
        click.option("--no-defaults", is_flag=True, help="Leave out the tasks that ship with assay."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def open_manager(include_path: tuple[str, ...], lm_eval: bool, no_defaults: bool) -> TaskManager:
    from assay.tasks import TaskManager

    return TaskManager([*include_path], include_defaults=not no_defaults, lm_eval=True if lm_eval else None)
