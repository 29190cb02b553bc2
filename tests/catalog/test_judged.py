"""The judged tasks of the catalog, on docs in the form of their public data sets."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from tests.scoring.judges.bench import judge, write_bench

import assay
from assay.evaluation import score_again
from assay.results import RunResult, read_samples

MT_BENCH = [{"prompt": [f"{i}?", f"{i + 1}?"], "reference": [], "category": "math", "prompt_id": i} for i in range(4)]
ALPACA = [{"instruction": f"{i}?", "output": "2", "generator": "g", "dataset": "d"} for i in range(4)]
ARENA = [
    {"question_id": str(i), "category": "arena-hard-v0.1", "cluster": f"c{i // 2}", "turns": [{"content": f"{i}?"}]}
    for i in range(4)
]


def run(folder: Path, task: str, **words: Any) -> RunResult:
    own = words.pop("model_args", {})
    given: dict[str, Any] = {
        "model": f"{folder / 'model.py'}:Sayer",
        "model_args": {"log": str(folder / "log.txt"), **own},
        "roles": {"judge": judge(folder)},
        "store": str(folder / "store.sqlite"),
        "data_dir": str(folder / "mirror"),
    }
    if "model" in words:
        given["model_args"] = own
    return assay.evaluate(tasks=[task], **{**given, **words})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_bench(tmp_path)
    monkeypatch.chdir(tmp_path)
    for path, split, rows in (
        ("HuggingFaceH4/mt_bench_prompts/default", "train", MT_BENCH),
        ("lmarena-ai/arena-hard-auto-v0.1/default", "train", ARENA),
    ):
        (tmp_path / "mirror" / path).mkdir(parents=True)
        (tmp_path / "mirror" / path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "mirror" / "tatsu-lab" / "alpaca_eval").mkdir(parents=True)
    (tmp_path / "mirror" / "tatsu-lab" / "alpaca_eval" / "alpaca_eval_gpt4_baseline.json").write_text(
        json.dumps(ALPACA)
    )
    return tmp_path


def test_mt_bench_grades_both_turns(folder: Path) -> None:
    result = run(folder, "mt_bench")["mt_bench"]
    assert (result["grade_turn_1"].value, result["grade_turn_2"].value, result["grade"].n) == (2.0, 3.0, 4)


def test_mt_bench_shows_the_judge_references_where_there_are_some(folder: Path) -> None:
    """In the public data docs of some categories have an answer for each turn, those of others an empty list."""
    rows = [{**row, "reference": ["see 1", "see 2"] if i % 2 else []} for i, row in enumerate(MT_BENCH)]
    place = folder / "mirror/HuggingFaceH4/mt_bench_prompts/default/train.jsonl"
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(folder, "mt_bench")
    asked = [ast.literal_eval(line)[0] for line in (folder / "judge.txt").read_text().splitlines()]
    assert len(asked) == 8, "each turn of each doc is judged"
    assert sum("see 1\n\nsee 2" in prompt for prompt in asked) == 4
    assert sum("best grade" in prompt for prompt in asked) == 4


def test_mt_bench_talks_with_a_chat_model_and_is_scored_again(folder: Path) -> None:
    """A tiny real model: its first answer stands in the conversation of the second turn."""
    from tests.models.hf.conftest import make_network, make_tokenizer

    make_network("llama").save_pretrained(folder / "tiny")
    make_tokenizer().save_pretrained(folder / "tiny")
    words = {
        "model": "hf",
        "model_args": {"pretrained": str(folder / "tiny"), "dtype": "float32"},
        "device": "cpu",
        "apply_chat_template": True,
        "gen_kwargs": {"max_gen_toks": 6},
    }
    roles = {"judge": judge(folder, rule="length")}
    result = run(folder, "mt_bench", run_dir=str(folder / "run"), **words, roles=roles)
    samples = list(read_samples(folder / "run" / "samples" / "mt_bench.parquet"))
    for row, doc in zip(samples, MT_BENCH):
        (first, _), (second, _) = json.loads(row["arguments"])
        (said,), _ = json.loads(row["resps"])
        opening = f"<s>user\n{doc['prompt'][0]}</s>\n<s>assistant\n"
        assert first == opening
        assert second == f"{opening}{said}</s>\n<s>user\n{doc['prompt'][1]}</s>\n<s>assistant\n"
        assert [question["role"] for question in json.loads(row["questions"])] == ["judge", "judge"], "one a turn"
    assert result["mt_bench"]["grade"].n == 4
    again = score_again(folder / "run")
    assert again.tasks["mt_bench"].scores == result.tasks["mt_bench"].scores


def test_alpaca_eval_compares_with_the_answer_of_the_doc(folder: Path) -> None:
    result = run(folder, "alpaca_eval")["alpaca_eval"]
    assert result["win_rate"].value == 1.5 / 4, "3 wins, 2 ties, 0 and 1 lose"


def test_arena_hard_compares_with_a_baseline_run(folder: Path) -> None:
    run(folder, "arena_hard", predict_only=True, roles={}, run_dir="arena_hard_baseline", model_args={"plus": 1})
    result = run(folder, "arena_hard")["arena_hard"]
    assert result["win_rate"].value == 0.0
    assert result["win_rate"].method.startswith("clustered")


def test_demo_open_checks_its_judge_by_fixed_answers(folder: Path) -> None:
    """This judge calls an answer right if it is the reference to the letter: specific, and hardly sensitive."""
    result = run(folder, "demo_open", model="dummy", run_dir=str(folder / "run"))
    score = result.tasks["demo_open"].scores["correct", "fixed"]
    assert score.estimate.value == pytest.approx(0.5), "60 of the 120 fixed answers are right"
    assert score.judge is not None
    assert score.judge.labels == 120
    assert score.judge.specificity is not None
    assert score.judge.specificity.value == 1.0
    assert score.judge.sensitivity is not None
    assert score.judge.sensitivity.value < 0.5
    assert result.tasks["demo_open"].scores["correct", "none"].judge is not None
    assert result.tasks["demo_open"].health.unused_labels == 0
