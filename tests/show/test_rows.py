"""What the rows of every table say of a node."""

from __future__ import annotations

from assay.evaluation import evaluate
from assay.results.rows import rows_of


def test_a_group_shows_shots_only_where_all_tasks_below_it_agree() -> None:
    result = evaluate(model="dummy", tasks=["demo"], limit=2, store=None)
    shots = {row.name: row.shots for row in rows_of(result)}
    assert shots["demo"] is None  # tasks among its children have 0, those of its subgroups 3
    assert shots["demo_english"] is None
    assert shots["demo_capitals"] == shots["demo_capitals_en"] == 3
    assert shots["demo_grammar"] == 0
