"""`--max_cost`: nothing is asked that might pass it, and everything that was answered is kept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.openai.faulty_server import FaultyServer

import assay
from assay.errors import ConfigError
from assay.models import CostLimit, CostReached

TASK = """
task: questions
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{question}}}}"
generation_kwargs: {{until: ["."], max_gen_toks: 8}}
metric_list: [{{metric: exact_match}}]
"""


def evaluate(folder: Path, server: FaultyServer, **more: Any) -> assay.Results:
    """A reply of this server has 5 tokens, of the 8 that are asked for."""
    (folder / "docs.jsonl").write_text("".join(json.dumps({"question": f"Question {i}"}) + "\n" for i in range(20)))
    (folder / "questions.yaml").write_text(TASK.format(folder=folder))
    arguments = {"base_url": server.url, "model": "ngram", **more.pop("model_args", {"price_out": 1e6})}
    return assay.evaluate(
        model="local-chat-completions",
        model_args={"num_concurrent": 4, **arguments},
        tasks=["questions"],
        include_path=[str(folder)],
        store=str(folder / "store.sqlite"),
        bootstrap_iters=0,
        **more,
    )


def test_it_stops_before_the_request_that_might_pass_it_and_goes_on_from_there(tmp_path: Path) -> None:
    with FaultyServer() as server:
        with pytest.raises(CostReached, match="20 of --max_cost 23 is spent") as reached:
            evaluate(tmp_path, server, max_cost=23)
        assert reached.value.exit_code == 130
        assert len(server.bodies) == 4
        result = evaluate(tmp_path, server, max_cost=1000)
        assert len(server.bodies) == 20
    assert result.answers_from.startswith("16 computed, 4 from the store")


def test_what_the_next_request_may_cost_is_said_and_enough_for_it(tmp_path: Path) -> None:
    with FaultyServer() as server:
        with pytest.raises(
            CostReached, match=r"may cost up to .* \(at most \d+ tokens of prompt and 8 of answer\)"
        ) as reached:
            evaluate(tmp_path, server, max_cost=0.1)
        assert "All answers are stored" not in str(reached.value.hint)
        enough = float(re.findall(r"--max_cost ([\d.e+]+)", str(reached.value.hint))[0])
        with pytest.raises(CostReached):
            evaluate(tmp_path, server, max_cost=enough * 1.05)
        assert len(server.bodies) >= 1


def test_what_is_in_the_store_costs_nothing(tmp_path: Path) -> None:
    with FaultyServer() as server:
        evaluate(tmp_path, server)
        evaluate(tmp_path, server, max_cost=0)
        assert len(server.bodies) == 20


def test_a_model_without_prices_would_never_reach_it(tmp_path: Path) -> None:
    with FaultyServer() as server, pytest.raises(ConfigError, match=r"max_cost.*prices"):
        evaluate(tmp_path, server, max_cost=5, model_args={"max_gen_toks": 8})


@given(st.floats(0, 100), st.lists(st.tuples(st.floats(0, 30), st.floats(0, 1)), max_size=30))
def test_the_limit_is_never_passed(most: float, requests: list[tuple[float, float]]) -> None:
    limit, under_way = CostLimit(most), []
    for cost, share in requests:
        if limit.reserve(cost):
            under_way.append((cost, cost * share))
        elif under_way:
            reserved, spent = under_way.pop(0)
            limit.settle(reserved, spent=spent)
        assert limit.spent <= most + 1e-9
