"""Answers that were cut off are continued; what comes of it is what the larger limit gives from the beginning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import assay
from assay.errors import ConfigError
from assay.results import RunResult
from assay.run import Quiet

WORDS = ("The river", "The mill", "A heron", "Salt", "In the field", "Nobody", "The bridge", "Two boats")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps({"q": word}) + "\n" for word in WORDS))
    task = {
        "task": "own",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "docs.jsonl")}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "x",
        "generation_kwargs": {"until": ["."], "max_gen_toks": 20},
        "metric_list": [{"metric": "exact_match"}],
    }
    (tmp_path / "own.yaml").write_text(json.dumps(task))
    return tmp_path


def run(folder: Path, name: str, **settings: Any) -> RunResult:
    defaults = {
        "model": "ngram",
        "tasks": ["own"],
        "include_path": [str(folder)],
        "run_dir": str(folder / name),
        "store": str(folder / f"{name}.sqlite"),
    }
    return assay.evaluate(**{**defaults, **settings})


def answers(folder: Path, name: str) -> list[list[str]]:
    rows = pq.read_table(folder / name / "samples" / "own.parquet", columns=["doc_id", "resps"]).to_pylist()
    return [json.loads(row["resps"])[0] for row in sorted(rows, key=lambda row: row["doc_id"])]


def counts(folder: Path, name: str) -> dict[str, int]:
    found: dict[str, int] = json.loads((folder / name / "run.json").read_text())["counts"]
    return found


@pytest.mark.parametrize("more", [{}, {"repeats": 3, "temperature": 1.0, "do_sample": True}], ids=["greedy", "sampled"])
def test_only_what_was_cut_off_is_requested(folder: Path, more: dict[str, Any]) -> None:
    repeats = more.pop("repeats", None)
    short = run(folder, "short", gen_kwargs=more, repeats=repeats)
    cut = sum(len(each) == 20 for draws in answers(folder, "short") for each in draws)
    assert 0 < cut < len(WORDS) * (repeats or 1)
    longer = run(
        folder, "longer", gen_kwargs={"max_gen_toks": 200, **more}, repeats=repeats, extend=str(folder / "short")
    )
    assert counts(folder, "longer")["computed"] == cut
    assert longer.tasks["own"].health.truncated <= short.tasks["own"].health.truncated
    assert any(f"{cut} were cut off there and continued" in note for note in longer.notes)
    for before, after in zip(answers(folder, "short"), answers(folder, "longer"), strict=True):
        for one, other in zip(before, after, strict=True):
            assert other == one if len(one) < 20 else other.startswith(one)
    if not more:
        run(folder, "anew", gen_kwargs={"max_gen_toks": 200})
        assert answers(folder, "longer") == answers(folder, "anew")


def test_a_stop_string_may_begin_before_the_cut_and_end_behind_it(folder: Path) -> None:
    run(folder, "free", gen_kwargs={"max_gen_toks": 40, "until": []})
    text = answers(folder, "free")[0][0]
    stop = text[17:23]
    assert text.index(stop) == 17
    run(folder, "short", gen_kwargs={"until": [stop]})
    assert answers(folder, "short")[0][0] == text[:20]
    run(folder, "longer", gen_kwargs={"until": [stop], "max_gen_toks": 40}, extend=str(folder / "short"))
    assert answers(folder, "longer")[0][0] == text[:17]


def test_a_chat_is_requested_again_as_a_whole(folder: Path) -> None:
    chat = {"model": "dummy", "apply_chat_template": True}
    run(folder, "short", gen_kwargs={"max_gen_toks": 1}, **chat)
    longer = run(folder, "longer", gen_kwargs={"max_gen_toks": 50}, extend=str(folder / "short"), **chat)
    run(folder, "anew", gen_kwargs={"max_gen_toks": 50}, **chat)
    assert answers(folder, "longer") == answers(folder, "anew")
    assert longer.notes


def test_a_limit_that_is_no_larger_and_another_model_are_refused_before_anything_is_requested(folder: Path) -> None:
    run(folder, "short")
    with pytest.raises(ConfigError, match=r"may have 20 tokens, and had 20.*\n.*max_gen_toks=80"):
        run(folder, "same", extend=str(folder / "short"))
    with pytest.raises(ConfigError, match="another model"):
        run(folder, "other", model="dummy", gen_kwargs={"max_gen_toks": 200}, extend=str(folder / "short"))
    with pytest.raises(ConfigError, match="cannot be combined"):
        run(folder, "fresh", fresh=True, extend=str(folder / "short"))


def test_docs_that_the_run_does_not_have_or_prompts_that_differ_are_requested(folder: Path) -> None:
    run(folder, "short", limit=3)
    longer = run(folder, "longer", gen_kwargs={"max_gen_toks": 200}, extend=str(folder / "short"))
    assert any("5 are not in that run" in note for note in longer.notes)
    asked = run(
        folder, "system", gen_kwargs={"max_gen_toks": 200}, extend=str(folder / "short"), system_instruction="Be brief."
    )
    assert any("8 are not in that run" in note for note in asked.notes)


def test_what_was_continued_is_stored_and_an_interrupted_run_goes_on(folder: Path) -> None:
    run(folder, "short")
    settings: dict[str, Any] = {"gen_kwargs": {"max_gen_toks": 200}, "extend": str(folder / "short")}
    first = run(folder, "longer", **settings)
    computed = counts(folder, "longer")["computed"]
    again = run(folder, "longer", **settings)
    assert counts(folder, "longer")["computed"] == 0
    assert counts(folder, "longer")["reused"] == computed
    assert again.tasks["own"].scores == first.tasks["own"].scores


def test_a_dry_run_counts_what_is_left(folder: Path) -> None:
    from assay.config import RunConfig
    from assay.run import forecast

    run(folder, "short")
    cut = sum(len(each) == 20 for draws in answers(folder, "short") for each in draws)
    config = RunConfig(
        model="ngram",
        tasks=["own"],
        include_path=[str(folder)],
        store=str(folder / "new.sqlite"),
        gen_kwargs={"max_gen_toks": 200},
        extend=str(folder / "short"),
    )
    assert forecast(config, progress=Quiet()).requests == cut
