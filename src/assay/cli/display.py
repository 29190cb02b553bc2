"""What the command line shows while a run goes on: a live display on a terminal, plain lines elsewhere, little in CI."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

from assay.cli.output import WIDTH_OF_FILES, echo, echo_as_is
from assay.terminal_text import one_line, with_signs

if TYPE_CHECKING:
    from rich.console import Console

    from assay.results import RunResult
    from assay.run import Counts, Progress


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    made = Console(stderr=stderr, width=width_of(sys.stderr if stderr else sys.stdout))
    made.push_render_hook(_signs())
    return made


def width_of(stream: IO[str]) -> int | None:
    """Columns to print on; None leaves it to the terminal. Tables piped to a file are not squeezed into 80 columns."""
    return None if stream.isatty() else int(os.environ.get("COLUMNS", WIDTH_OF_FILES))


def _signs() -> Any:
    """What a console does with text of anybody: characters that act are shown as signs; its own colours stay."""
    from rich.console import ConsoleRenderable, RenderHook
    from rich.segment import Segment

    class Shown:
        def __init__(self, given: ConsoleRenderable) -> None:
            self.given = given

        def __rich_console__(self, on: Any, options: Any) -> Iterator[Segment]:
            for part in on.render(self.given, options):
                yield part if part.control else Segment(with_signs(part.text), part.style)

    class Signs(RenderHook):
        def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
            return [Shown(each) for each in renderables]

    return Signs()


def print_stored(result: RunResult) -> None:
    """Where the run is, and what to do with it."""
    if result.path is not None:
        place = one_line(str(result.path))
        echo_as_is(f"Stored in {place}")
        echo_as_is(f"Report:  assay report {place} --format html\nSamples: assay view {place}")


def exit_if_worthless(context: click.Context, result: RunResult) -> None:
    """Exit with the code of `what_is_missing`, after saying what it is."""
    code, said = what_is_missing(result)
    if code:
        echo(said, err=True)
        context.exit(code)


def what_is_missing(result: RunResult) -> tuple[int, str]:
    """3 if no doc of some task was answered and scored; 1 if some failed, a score is withheld, or a metric has no value."""
    if failed := [name for name, task in result.tasks.items() if task.health.all_failed]:
        return 3, f"assay: every request failed: {', '.join(map(one_line, failed))}"
    if result.withheld:
        return 1, f"withheld: {', '.join(map(one_line, result.withheld))} (see notes)"
    if lost := {name: task.health for name, task in result.tasks.items() if task.health.failed}:
        docs = sum(health.docs for health in lost.values())
        said = f"{sum(health.failed for health in lost.values()):,} of {docs:,} docs failed and are in no score"
        again = (
            "; what was answered is stored, so run the same command again to send the rest" if result.unanswered else ""
        )
        return 1, f"{said}: {', '.join(map(one_line, lost))} (see notes){again}"
    if result.without_values:
        return 1, f"no value: {', '.join(map(one_line, result.without_values))} (see notes)"
    return 0, ""


@contextmanager
def show_progress(*, quiet: bool = False) -> Iterator[Progress]:
    """The display that fits where output goes."""
    from assay.run import Quiet

    if quiet:
        yield Quiet()
    elif sys.stderr.isatty() and not os.environ.get("CI"):
        with _Live() as live:
            yield live
    else:
        yield _PlainProgress(every=60.0 if os.environ.get("CI") else 10.0)


class _PlainProgress:
    """A line now and then, for logs."""

    def __init__(self, every: float) -> None:
        self.every, self.last = every, time.monotonic()
        self.began: float | None = None
        """When the first docs were sent: loading a model says nothing about how long they take."""

    def stage(self, text: str) -> None:
        self.message(text)

    def message(self, text: str) -> None:
        echo(text, err=True)

    def update(self, counts: Counts) -> None:
        from assay.show import progress_line, running_scores

        now = time.monotonic()
        self.began = self.began or now
        if now - self.last >= self.every:
            self.last = now
            scores = running_scores(counts, most=2)
            self.message(" | ".join([progress_line(counts, self.began), *scores]))


class _Live:
    """A bar, a line of facts and the running scores, redrawn a few times a second."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.last = 0.0
        self.stage_text = "starting"
        self.live: Any = None

    def __enter__(self) -> _Live:
        from rich.live import Live

        self.live = Live("", console=console(stderr=True), refresh_per_second=8, transient=True)
        self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.live.__exit__(*error)

    def stage(self, text: str) -> None:
        from rich.spinner import Spinner

        self.stage_text = text
        self.live.update(Spinner("dots", text=text))

    def message(self, text: str) -> None:
        self.live.console.print(text, highlight=False, markup=False)

    def update(self, counts: Counts) -> None:
        now = time.monotonic()
        self.began = self.began or now
        if now - self.last < 0.1:
            return
        self.last = now
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        from assay.show import progress_line, running_scores

        lines = Table.grid()  # a bar alone does not end its line
        lines.add_row(ProgressBar(total=max(counts.docs_total, 1), completed=counts.docs_done, width=40))
        lines.add_row(Text(progress_line(counts, self.began)))
        for line in running_scores(counts):
            lines.add_row(Text(f"  {line}", style="dim"))
        self.live.update(lines)
