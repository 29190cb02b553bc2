"""The notebook of the documentation, run by a real kernel: it shows what it says, and what it shows is what we make now.

`ASSAY_TEST_WRITE_NOTEBOOK=1 pytest tests/docs/test_notebook.py` writes its outputs anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


class Listening(nbclient.NotebookClient):  # type: ignore[misc]
    """Remembers what a line showed before it was replaced, as somebody who watches sees it."""

    drawn: ClassVar[list[str]] = []

    def process_message(self, message: dict[str, Any], *more: Any) -> Any:
        if message["msg_type"] == "update_display_data":
            self.drawn.append(message["content"]["data"].get("text/html", ""))
        return super().process_message(message, *more)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    before = dict(os.environ)
    os.environ.update(ASSAY_HOME=str(folder / "home"), HF_DATASETS_CACHE=str(folder / "cache"), CI="true")
    try:
        client = Listening(notebook, timeout=600, resources={"metadata": {"path": str(folder)}})
        client.execute()
    finally:
        os.environ.clear()
        os.environ.update(before)
    if os.environ.get("ASSAY_TEST_WRITE_NOTEBOOK"):
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
        nbformat.write(notebook, NOTEBOOK)
    return notebook


def shown(notebook: Any, source: str) -> dict[str, str]:
    """What the cell that ends with this line evaluates to, by type."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.endswith(source)]
    (result,) = [output for output in cell.outputs if output.output_type == "execute_result"]
    return dict(result.data)


def test_no_cell_fails_and_none_writes_to_the_error_stream(executed: Any) -> None:
    outputs = [output for cell in executed.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"] == []


def test_a_result_shows_itself_with_interval_bars(executed: Any) -> None:
    table = shown(executed, "result")["text/html"]
    assert "demo_agreement" in table
    assert table.count("<svg") == 3, "one for each number"
    assert "<script" not in table


def test_numbers_read_as_people_write_them(executed: Any) -> None:
    text = shown(executed, 'result["demo_agreement"]["acc"]')["text/plain"]
    assert text.startswith("Estimate(0.")
    assert " ± 0.0" in text


def test_samples_are_a_frame_and_plots_are_drawn(executed: Any) -> None:
    assert "doc_id" in shown(executed, '[["doc_id", "target", "metric:acc"]].head(3)')["text/html"]
    assert shown(executed, 'result.plot("acc")')["text/html"].startswith("<svg")
    assert "chance not ruled out" in shown(executed, "result.health")["text/html"], "it guesses"


def test_a_comparison_shows_its_verdicts(executed: Any) -> None:
    table = shown(executed, "comparison")["text/html"]
    assert "B − A" in table
    assert "undecided" in table or "better" in table or "worse" in table
    assert shown(executed, 'comparison.plot("acc")')["text/html"].startswith("<svg")


def test_progress_is_shown_while_it_runs_and_gone_after(executed: Any) -> None:
    (cell,) = [c for c in executed.cells if c.cell_type == "code" and "result = assay.evaluate" in c.source]
    drawn = [output.data["text/html"] for output in cell.outputs if output.output_type == "display_data"]
    assert drawn[:1] == [""], "one line, which is empty in the end"
    bars = [line for line in Listening.drawn if "<progress" in line]
    assert bars, "a bar was seen"
    assert all(re.search(r"[\d,]+/[\d,]+ docs", line) for line in bars)
    assert not any("widget" in line.lower() for line in Listening.drawn)


def test_what_the_page_shows_is_what_is_made_now(executed: Any) -> None:
    stored = nbformat.read(NOTEBOOK, as_version=4)
    for source in ("result", 'result["demo_agreement"]["acc"]', 'result.plot("acc")', "comparison"):
        ours, theirs = (shown(each, source) for each in (executed, stored))
        kind = "text/html" if "text/html" in ours else "text/plain"
        assert ours[kind] == theirs[kind], f"{source}: write the outputs anew, as the docstring says"
