"""Progress in a notebook while a run goes on. Plain HTML without script."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from assay.registry import load_object
from assay.show.html import shown
from assay.show.palette import INK
from assay.show.progress import progress_line, running_scores

if TYPE_CHECKING:
    from assay.run import Counts

QUIET = ";opacity:.65"


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook. Nothing is imported to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class NotebookProgress:
    """A bar, a line of facts and the running scores, replaced as the run goes on; messages stay."""

    SECONDS = 0.3
    SCORES = 3

    def __init__(self) -> None:
        self._line: Any = None
        self._began, self._due = time.monotonic(), 0.0

    def stage(self, text: str) -> None:
        self._draw(shown(text) + " …")
        self._due = 0.0  # what the stage has to show is shown at once

    def update(self, counts: Counts) -> None:
        if time.monotonic() < self._due:
            return
        share = counts.docs_done / counts.docs_total if counts.docs_total else 0.0
        style = f"width:16em;vertical-align:middle;accent-color:{INK}"
        bar = f'<progress value="{share:.4f}" max="1" style="{style}"></progress>'
        scores = "".join(
            f'<div style="font-size:.9em{QUIET}">{shown(s)}</div>' for s in running_scores(counts, self.SCORES)
        )
        self._draw(f"<div>{bar} {shown(progress_line(counts, self._began))}</div>{scores}")

    def message(self, text: str) -> None:
        _display(f'<div style="font-size:.9em{QUIET}">{shown(text)}</div>')

    def done(self) -> None:
        """The result is shown instead."""
        if self._line is not None:
            self._draw("")

    def _draw(self, html: str) -> None:
        self._due = time.monotonic() + self.SECONDS
        if self._line is None:
            self._line = _display(html, display_id=True)
        else:
            self._line.update(_html(html))


def _html(text: str) -> Any:
    made: Any = load_object("IPython.display:HTML")
    return made(text)


def _display(text: str, **how: Any) -> Any:
    """IPython is there, or nobody would ask: see `in_notebook`."""
    display: Any = load_object("IPython.display:display")
    return display(_html(text), **how)
