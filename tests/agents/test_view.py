"""An agent's trajectory in the viewer: step by step, with what was called and what came back."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from assay.view.sample_view import present

from .scripted import Scripted, run, write_task
from .test_agent_task import DOCS, TASK, TOOLS, perfect


def test_each_draw_shows_its_conversation(tmp_path: Path) -> None:
    run(write_task(tmp_path, TASK, DOCS[:1], tools=TOOLS), Scripted(perfect), tmp_path)
    (file,) = (tmp_path / "run").rglob("*.parquet")
    sample = present(pq.read_table(file).to_pylist(), {"output_type": "agent"}, 0)
    (response,) = sample.responses
    assert response.text == "Austen"
    roles = [turn.role for turn in response.conversation]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert response.conversation[2].text == "Austen"
    assert [turn.took.get("tokens") for turn in response.conversation] == [None, 7, None, 7]
    assert all("seconds" in turn.took for turn in response.conversation[1:3])
    assert response.more["steps"] == 2
    assert response.more["ended"] == "submitted"
