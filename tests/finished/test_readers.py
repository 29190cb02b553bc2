"""Files of other harnesses, as they write them."""

import json
import shutil
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.analyses.made import digest

from assay.analyses.compare import CompareOptions, compare_runs
from assay.errors import ConfigError, DataError
from assay.evaluation import evaluate
from assay.finished import align, open_run, open_runs
from assay.finished.own import keys_of_column
from assay.stats import doc_keys

MINI = Path(__file__).parent / "mini"
LM_EVAL = MINI / "lm_eval"
"""Written by lm-eval 0.4.13 with the model of mini/model.py; the environment was cut out of the results file."""


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("run")
    evaluate(
        model=f"{MINI / 'model.py'}:HashLM",
        tasks=["mini"],
        include_path=[str(MINI)],
        include_defaults=False,
        run_dir=str(where / "ours"),
        store=str(where / "store.sqlite"),
    )
    return where / "ours"


def test_lm_eval_and_ours_agree_on_every_doc_of_the_same_model(ours: Path) -> None:
    (found,) = compare_runs([open_run(LM_EVAL), open_run(ours)])
    assert found.refusals == ()
    assert {(row.name, row.key) for row in found.rows} == {
        ("mini_colours", ("acc", "none")),
        ("mini_colours", ("acc_norm", "none")),
        ("mini_sums", ("exact_match", "strict")),
        ("mini_sums", ("exact_match", "flexible")),
        ("mini", ("acc", "none")),
        ("mini", ("exact_match", "strict")),
        ("mini", ("exact_match", "flexible")),
    }
    for row in found.rows:
        assert (row.difference.estimate.value, row.difference.gained, row.difference.lost) == (0.0, 0, 0)
        assert row.paired
        assert row.notes == ()
        assert (row.only_a, row.only_b) == (0, 0)


def test_lm_eval_groups_are_averaged_as_their_numbers_tell(tmp_path: Path) -> None:
    run = open_run(LM_EVAL)
    assert run.format == run.result.origin == "lm-evaluation-harness"
    (share,) = run.result.groups["mini"].scores["acc", "none"].children
    assert (share.name, share.weight) == ("mini_colours", 1.0)
    copy = shutil.copytree(LM_EVAL, tmp_path / "copy")
    (file,) = copy.glob("results_*.json")
    data = json.loads(file.read_text())
    for task, value in (("mini_colours", 0.2), ("mini_sums", 0.8)):
        data["results"][task]["x,none"] = value
    for number, aggregator in ((0.5, "mean"), ((40 * 0.2 + 24 * 0.8) / 64, "mean"), (0.3, "unknown")):
        data["results"]["mini"]["x,none"] = number
        file.write_text(json.dumps(data))
        group = open_run(copy).result.groups["mini"].scores["x", "none"]
        assert group.aggregation == aggregator
        if aggregator == "mean":
            assert sum(share.weight * share.value for share in group.children) == pytest.approx(number)


def test_a_group_that_lm_eval_gave_no_number_is_no_loss(tmp_path: Path) -> None:
    copy = shutil.copytree(LM_EVAL, tmp_path / "copy")
    (file,) = copy.glob("results_*.json")
    data = json.loads(file.read_text())
    data["results"]["mini"]["acc,none"] = "N/A"
    file.write_text(json.dumps(data))
    (found,) = compare_runs([open_run(copy), open_run(copy)])
    assert [(r.name, r.kind) for r in found.refusals] == [("mini", "undefined")]
    assert found.row("mini", "acc") is None


def test_lm_eval_results_without_samples_say_what_to_do(tmp_path: Path) -> None:
    copy = shutil.copytree(LM_EVAL, tmp_path / "copy")
    for file in copy.glob("samples_*"):
        file.unlink()
    run = open_run(copy)
    assert run.result.tasks["mini_sums"].scores, "scores are there"
    assert not any(map(run.has, ("samples", "prompts", "answers", "draws")))
    for needs_docs in (lambda: run.columns("mini_sums"), lambda: compare_runs([run, run]), lambda: list(run.docs("x"))):
        with pytest.raises(ConfigError, match=r"lm-evaluation-harness\) has no samples") as error:
            needs_docs()
        assert "--log_samples" in error.value.hint


def test_lm_eval_samples_cut_off_in_the_middle(tmp_path: Path) -> None:
    copy = shutil.copytree(LM_EVAL, tmp_path / "copy")
    file = next(copy.glob("samples_mini_sums*"))
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"samples_mini_sums.*line \d+"):
        open_run(copy).columns("mini_sums")
    file.write_text('{"doc_id": 1}\n')
    with pytest.raises(DataError, match="doc 1 is not a sample"):
        open_run(copy).columns("mini_sums")


def lighteval_rows(scores: list[float], prefix: str = "") -> list[dict[str, Any]]:
    return [
        {
            f"{prefix}doc{prefix}": {
                "query": f"What is {i}?",
                "choices": ["a", "b"],
                "gold_index": i % 2,
                "id": str(i),
            },
            f"{prefix}metric{prefix}": {"em": score, "len": 3.0},
            f"{prefix}model_response{prefix}": {"input": f"Q: What is {i}?", "text": ["a"]},
        }
        for i, score in enumerate(scores)
    ]


def write_lighteval(path: Path, rows: list[dict[str, Any]], date: str = "2026-01-02T03-04-05.678") -> Path:
    folder = path / "details" / "org" / "model" / date
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / f"details_gsm8k|5_{date}.parquet")
    return path


@pytest.mark.parametrize("prefix", ["", "__"])
def test_lighteval_details_of_both_layouts(tmp_path: Path, prefix: str) -> None:
    a = write_lighteval(tmp_path / "a", lighteval_rows([1.0, 0.0, 1.0, 0.0], prefix))
    b = write_lighteval(tmp_path / "b", lighteval_rows([1.0, 1.0, 1.0, 0.0]))
    run = open_run(a)
    assert (run.format, run.result.model_name, run.tasks) == ("lighteval", "org/model", ("gsm8k|5",))
    assert run.result.date == datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC).timestamp()
    (found,) = compare_runs([run, open_run(b)], CompareOptions(metric=("em",)))
    row = found.row("gsm8k|5", "em,none")
    assert (row.difference.gained, row.difference.lost, row.paired) == (1, 0, True)
    assert found.a.shown_docs("gsm8k|5", np.array([1]), "none")[0]["filtered_resps"] == '["a"]'


def test_lighteval_takes_the_newest_details_and_sees_other_prompts(tmp_path: Path) -> None:
    a = write_lighteval(tmp_path / "a", lighteval_rows([0.0, 0.0]))
    write_lighteval(a, lighteval_rows([1.0, 1.0]), date="2026-02-02T03-04-05.678")
    assert open_run(a).columns("gsm8k|5")["em", "none"].values.tolist() == [1.0, 1.0]
    other = lighteval_rows([1.0, 1.0])
    other[0]["model_response"]["input"] = "Q: else"
    with pytest.raises(ConfigError, match="prompts differ on 1 of 2"):
        compare_runs([open_run(a), open_run(write_lighteval(tmp_path / "b", other))])


def test_lighteval_file_without_metrics(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no metrics; the columns are doc"):
        open_run(write_lighteval(tmp_path / "a", [{"doc": {"query": "x"}}]))


def inspect_sample(i: int, value: Any, epoch: int = 1, question: str | None = None) -> dict[str, Any]:
    asked = question or f"What is {i}?"
    return {
        "id": i,
        "epoch": epoch,
        "input": f"What is {i}?",
        "choices": None,
        "target": "4",
        "messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": f"it is {epoch}"}],
        "scores": {"match": {"value": value}},
        "output": {"completion": "it is 4"},
    }


def write_inspect(path: Path, samples: list[dict[str, Any]], task: str = "arith") -> Path:
    path.mkdir(exist_ok=True)
    with zipfile.ZipFile(path / f"{task}.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        header = {"version": 2, "eval": {"task": task, "model": "org/model", "created": "2026-01-01"}}
        archive.writestr("header.json", json.dumps(header))
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
    return path


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_table_with_draws_has_their_mean_pass_at_k_pass_hat_k_and_its_clusters(tmp_path: Path, form: str) -> None:
    drawn = {"d1": [1, 0, 1], "d2": [1, 1, 1], "d3": [0, 0, 0]}
    rows = [
        {"run": run, "doc": doc, "draw": draw, "score": score, "cluster": "x" if doc < "d3" else None}
        for run in ("a", "b")
        for doc, scores in drawn.items()
        for draw, score in enumerate(scores)
    ]
    table = pa.Table.from_pylist(rows)
    path = tmp_path / f"t.{form}"
    if form == "csv":
        pyarrow.csv.write_csv(table, path)
    elif form == "parquet":
        pq.write_table(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = open_runs(path)
    columns = first.columns("t")
    assert columns["score", "none"].values.tolist() == pytest.approx([2 / 3, 1, 0])
    assert columns["pass@3(score)", "none"].values.tolist() == [1, 1, 0]
    assert columns["pass^3(score)", "none"].values.tolist() == [0, 1, 0]
    clusters = columns["score", "none"].clusters
    assert clusters is not None
    assert len(set(clusters.tolist())) == 2
    assert len(align(columns["score", "none"], second.columns("t")["score", "none"])) == 3


def test_inspect_logs_with_grades_epochs_and_unscored_samples(tmp_path: Path) -> None:
    samples = [
        inspect_sample(1, "C"),
        inspect_sample(1, "I", epoch=2),
        inspect_sample(2, "P"),
        inspect_sample(3, float("nan")),
        inspect_sample(4, {"a": 1, "b": 0.25}),
    ]
    run = open_run(write_inspect(tmp_path / "a", samples))
    assert (run.format, run.result.model_name, run.tasks) == ("inspect", "org/model", ("arith",))
    columns = run.columns("arith")
    assert columns["match", "none"].values[:2].tolist() == [0.5, 0.5]
    assert np.isnan(columns["match", "none"].values[2])
    assert columns["match/b", "none"].values[3] == 0.25


def test_inspect_logs_compare_by_content_not_by_id(tmp_path: Path) -> None:
    a = write_inspect(tmp_path / "a", [inspect_sample(i, "C" if i % 2 else "I") for i in range(1, 9)])
    moved = [{**inspect_sample(i, "C"), "id": 100 + i} for i in range(8, 0, -1)]
    (found,) = compare_runs([open_run(a), open_run(write_inspect(tmp_path / "b", moved))])
    row = found.row("arith", "match,none")
    assert (row.difference.gained, row.difference.lost, row.difference.estimate.n) == (4, 0, 8)
    asked = [inspect_sample(i, "C", question="Please: " + str(i)) for i in range(1, 9)]
    with pytest.raises(ConfigError, match="prompts differ on 8 of 8"):
        compare_runs([open_run(a), open_run(write_inspect(tmp_path / "c", asked))])


def test_broken_inspect_logs(tmp_path: Path) -> None:
    (tmp_path / "x.eval").write_bytes(b"PK not a zip")
    with pytest.raises(DataError, match="not an inspect log"):
        open_run(tmp_path / "x.eval")
    with zipfile.ZipFile(tmp_path / "x.eval", "w") as archive:
        archive.writestr("samples/1_epoch_1.json", "{}")
    with pytest.raises(DataError, match=r"no header\.json"):
        open_run(tmp_path)


def read_or_named(path: Path) -> int:
    """The docs of a run; where it cannot be read, 2 if the error names it."""
    try:
        run = open_run(path)
    except DataError as error:
        return 2 if str(path) in str(error) else 0
    return len(list(run.docs(run.tasks[0])))


@pytest.mark.parametrize("part", ["id", "input", "choices", "target", "scores", "messages", "output", "error"])
@pytest.mark.parametrize("wrong", [7, "text", [3], {"a": 7}, [[]], True])
def test_wrong_types_in_an_inspect_log_are_read_or_named(tmp_path: Path, part: str, wrong: Any) -> None:
    samples = [inspect_sample(1, "C"), {**inspect_sample(2, "C"), part: wrong}]
    assert read_or_named(write_inspect(tmp_path / "a", samples)) == 2


@pytest.mark.parametrize("part", ["doc", "metric", "model_response"])
@pytest.mark.parametrize("wrong", [7, "{", "[3]", '{"input": 7, "text": 3, "gold_index": "x", "choices": 7}'])
def test_wrong_types_in_lighteval_details_are_read_or_named(tmp_path: Path, part: str, wrong: Any) -> None:
    rows = [{**row, part: wrong} for row in lighteval_rows([1.0, 0.0])]
    assert read_or_named(write_lighteval(tmp_path / "a", rows)) == 2


def test_keys_of_columns_of_hashes_and_of_any_text() -> None:
    hashes = [digest(i) for i in range(50)]
    assert (keys_of_column(pa.array(hashes)) == doc_keys(hashes)).all()
    chunked = pa.chunked_array([hashes[:20], hashes[20:]])
    assert (keys_of_column(chunked) == doc_keys(hashes)).all()
    assert (keys_of_column(pa.array(hashes)[7:30]) == doc_keys(hashes[7:30])).all()
    odd = ["short", "not hex but just as long as sixteen", ""]
    assert (keys_of_column(pa.array(odd)) == doc_keys(odd)).all()
    same_length = ["zzzzzzzzzzzzzzzzzzzz", "aaaaaaaaaaaaaaaaaaaa"]
    assert (keys_of_column(pa.array(same_length)) == doc_keys(same_length)).all()
    assert keys_of_column(pa.array([], type=pa.string())).size == 0
