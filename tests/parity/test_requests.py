"""Requests of goldens of lm-evaluation-harness, byte for byte, and the model that answers them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.parity.fake_model import FakeModel, recorded_responses
from tests.parity.goldens import golden_paths, load_golden, options_of, plain, require_parity_data, tasks_of

pytestmark = [pytest.mark.parity]


LEAK = "lambada_openai__fs5-limit12-seed42"
SOME = [path for i, path in enumerate(golden_paths()) if i % 7 == 3 or path.name.startswith(LEAK)]
"""The runs of `test_runs.py` compare the requests of all goldens; here some are built without running anything."""


def golden_rows(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """One row per doc: the requests stand there again for every filter."""
    return {row["doc_id"]: row for row in reversed(rows)}


def test_goldens_are_there() -> None:
    require_parity_data()


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_requests_are_identical(path: Path, tmp_path: Path) -> None:
    require_parity_data()
    golden = load_golden(path)
    tasks = tasks_of(golden, tmp_path)
    options = options_of(golden)
    assert set(tasks) == set(golden["samples"])
    for name, rows in golden["samples"].items():
        expected = golden_rows(rows)
        seen = []
        for requests in tasks[name].iter_requests(options):
            row = expected[requests.doc_id]
            where = f"{name}, doc {requests.doc_id}"
            asked = [plain(instance.arguments) for instance in requests.instances]
            if requests.shot_replaced:
                # The one difference on purpose: there, the doc stands solved among its own shots.
                assert asked != row["arguments"], where
                assert tasks[name].render_shot(requests.doc).text in row["arguments"][0][0], where
            else:
                assert asked == row["arguments"], where
            assert plain(requests.target) == row["target"], where
            seen.append(requests.doc_id)
        assert seen == sorted(expected), name


@pytest.mark.parametrize("path", golden_paths()[::7], ids=lambda path: path.name.removesuffix(".json.gz"))
def test_fake_model_gives_the_recorded_answers(path: Path, tmp_path: Path) -> None:
    """The second implementation of the model agrees with the first, so that scores can be compared at all."""
    require_parity_data()
    golden = load_golden(path)
    model = FakeModel(recorded_responses(golden) if golden["settings"]["hints"] else None)
    options = options_of(golden)
    for name, task in tasks_of(golden, tmp_path).items():
        expected = golden_rows(golden["samples"][name])
        asked = [
            (r.doc_id, position, instance)
            for r in task.iter_requests(options)
            for position, instance in enumerate(r.instances)
            for _ in range(instance.repeats)
        ]
        for kind in ("loglikelihood", "loglikelihood_rolling", "generate_until"):
            batch = [item for item in asked if item[2].request_type == kind]
            answers = getattr(model, kind)([instance for _, _, instance in batch])
            got: dict[tuple[int, int], list[Any]] = {}
            for (doc_id, position, _), answer in zip(batch, answers, strict=True):
                got.setdefault((doc_id, position), []).append(plain(answer))
            for (doc_id, position), responses in got.items():
                assert responses == expected[doc_id]["resps"][position], f"{name}, doc {doc_id}"
