"""`assay rank`: from runs of any kind, and tables, to ranges of ranks, in every output."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.analyses.made import write_run
from tests.finished.test_readers import inspect_sample, lighteval_rows, write_inspect, write_lighteval

from assay.analyses.rank import Rankings, RankOptions, findings, rank
from assay.cli.rank import command
from assay.errors import ConfigError, DataError
from assay.finished import Run, open_run, open_runs


def scores(chance: float, n: int = 400, seed: int = 0) -> list[float]:
    """A run right on about this share of docs; runs of one seed find the same docs hard."""
    hard = np.random.default_rng(99).random(n)
    noise = np.random.default_rng(seed).normal(0, 0.15, n)
    return (hard + noise < chance).astype(float).tolist()


def made(path: Path, chance: float, seed: int, **more: object) -> Path:
    return write_run(path, {"task": {"acc,none": scores(chance, seed=seed)}}, model=path.name, **more)  # type: ignore[arg-type]


def invoke(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(command, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_a_leaderboard_of_runs(tmp_path: Path) -> None:
    paths = [
        made(tmp_path / name, chance, seed)
        for seed, (name, chance) in enumerate([("low", 0.3), ("top", 0.8), ("near", 0.795)])
    ]
    (ranking,) = rank([open_run(path) for path in paths])
    assert {run.label: run.range for run in ranking.runs} == {"top": "1–2", "near": "1–2", "low": "3"}
    assert [run.tier for run in ranking.runs] == [1, 1, 2]
    assert abs(sum(run.best for run in ranking.runs) - 1) < 1e-9
    value, low, high = ranking.bounds(ranking.runs[0], ranking.runs[-1])
    assert low > 0.3
    assert value == pytest.approx((ranking.runs[0].score.value or 0) - (ranking.runs[-1].score.value or 0))
    assert high > value


def test_lower_is_better_turns_the_order(tmp_path: Path) -> None:
    paths = [
        write_run(
            tmp_path / str(i),
            {"t": {"loss,none": [x + 2 * i for x in scores(0.5, seed=i)]}},
            model=f"m{i}",
            directions={("t", "loss,none"): False},
        )
        for i in range(2)
    ]
    (ranking,) = rank([open_run(path) for path in paths])
    assert [run.label for run in ranking.runs] == ["m0", "m1"]
    assert [run.range for run in ranking.runs] == ["1", "2"]
    assert ranking.bounds(*ranking.runs)[0] < -1
    assert "good" in findings(Rankings([ranking])).to_html()


def group_run(path: Path, chances: dict[str, float], seed: int, aggregator: str) -> Path:
    tasks = {name: {"acc,none": scores(chance, 200, seed)} for name, chance in chances.items()}
    means = [float(np.mean(each["acc,none"])) for each in tasks.values()]
    group = {
        "aggregator": aggregator,
        "key": "acc,none",
        "children": dict.fromkeys(tasks, 0.5),
        "value": float(np.mean(means) if aggregator == "mean" else np.min(means)),
    }
    return write_run(path, tasks, groups={"both": group}, model=path.name)


@pytest.mark.parametrize("aggregator", ["mean", "min"])
def test_groups_are_ranked_by_their_own_rule(tmp_path: Path, aggregator: str) -> None:
    even = group_run(tmp_path / "even", {"x": 0.6, "y": 0.6}, 1, aggregator)
    torn = group_run(tmp_path / "torn", {"x": 0.95, "y": 0.35}, 2, aggregator)
    (ranking,) = rank([open_run(even), open_run(torn)], RankOptions(tasks=("both",)))
    ranges = {run.label: run.range for run in ranking.runs}
    assert ranges == ({"even": "1", "torn": "2"} if aggregator == "min" else {"even": "1–2", "torn": "1–2"})


def harmonic_run(folder: Path, right: int) -> Run:
    """Two tasks of 30 docs, a few of them right: a replicate may draw none of those, and has no harmonic mean."""
    tasks = {task: {"acc,none": [1.0] * right + [0.0] * (30 - right)} for task in ("x", "y")}
    group: dict[str, object] = {"aggregator": "harmonic_mean", "key": "acc,none", "value": right / 30}
    group["children"] = dict.fromkeys(tasks, 0.5)
    name = f"of-{right}"
    return open_run(write_run(folder / name, tasks, groups={"both": group}, model=name))


def test_a_number_that_is_undefined_in_many_replicates_gives_no_ranks(tmp_path: Path) -> None:
    runs = [harmonic_run(tmp_path, right) for right in (2, 3, 4)]
    with pytest.raises(ConfigError, match=r"undefined in \d+%"):
        rank(runs, RankOptions(tasks=("both",)))


def test_a_number_that_is_undefined_in_few_replicates_is_ranked_by_the_others(tmp_path: Path) -> None:
    runs = [harmonic_run(tmp_path, right) for right in (5, 6, 7)]
    (ranking,) = rank(runs, RankOptions(tasks=("both",)))
    assert {run.range for run in ranking.runs} == {"1–3"}
    assert sum(run.best for run in ranking.runs) == pytest.approx(1)
    assert any("of the replicates, which are left out" in note for note in ranking.notes)


def test_missing_docs_are_handled_by_pairs_and_said(tmp_path: Path) -> None:
    whole = made(tmp_path / "whole", 0.6, 1)
    part = write_run(tmp_path / "part", {"task": {"acc,none": scores(0.6, 300, 2)}}, model="part")
    (ranking,) = rank([open_run(whole), open_run(part)])
    assert any("part 100" in note and "both have" in note for note in ranking.notes)
    assert ranking.pairs.common[0, 1] == 300


def test_other_prompts_are_refused_unless_ignored(tmp_path: Path) -> None:
    a = made(tmp_path / "a", 0.6, 1)
    b = made(tmp_path / "b", 0.6, 2, prompts={"task": [f"other {i}" for i in range(400)]})
    runs = [open_run(a), open_run(b)]
    with pytest.raises(ConfigError, match=r"\b400 docs"):
        rank(runs)
    (ranking,) = rank(runs, RankOptions(ignore_prompts=True))
    assert "400 docs" in ranking.notes[0]


def test_clusters_widen_the_ranges(tmp_path: Path) -> None:
    values = {
        name: np.repeat(scores(chance, 40, seed), 10).tolist()
        for seed, (name, chance) in enumerate([("a", 0.5), ("b", 0.7)])
    }
    labels = {"t": [str(i // 10) for i in range(400)]}
    ranges = {}
    for kind, clusters in (("alone", None), ("clustered", labels)):
        paths = [
            write_run(tmp_path / kind / n, {"t": {"acc,none": v}}, model=n, clusters=clusters)
            for n, v in values.items()
        ]
        (ranking,) = rank([open_run(path) for path in paths])
        _, low, high = ranking.bounds(*ranking.runs)
        ranges[kind] = high - low
    assert ranges["clustered"] > 2 * ranges["alone"]


def test_a_median_is_ranked_by_its_replicates(tmp_path: Path) -> None:
    paths = [
        write_run(
            tmp_path / f"m{i}",
            {"t": {"time,none": (np.random.default_rng(i).normal(i, 1, 200)).tolist()}},
            model=f"m{i}",
            aggregations={("t", "time,none"): "median"},
            reported={("t", "time,none"): float(np.median(np.random.default_rng(i).normal(i, 1, 200)))},
        )
        for i in range(3)
    ]
    (ranking,) = rank([open_run(path) for path in paths])
    assert [run.label for run in ranking.runs] == ["m2", "m1", "m0"]
    assert [run.range for run in ranking.runs] == ["1", "2", "3"]


# Tables


def table_rows() -> dict[str, list[float]]:
    return {"a, the first": scores(0.8, seed=1), "b": scores(0.4, seed=2)}


def write_table(path: Path, form: str) -> Path:
    rows, docs = table_rows(), [f"d{i}" for i in range(400)]
    if form == "npz":
        np.savez(
            path.with_suffix(".npz"),
            scores=np.array(list(rows.values())),
            runs=np.array(list(rows)),
            docs=np.array(docs),
        )
        return path.with_suffix(".npz")
    if "long" in form:
        table = pa.table(
            {
                "run": [run for run in rows for _ in docs],
                "doc": docs * 2,
                "score": [x for values in rows.values() for x in values],
            }
        )
    else:
        table = pa.table({"doc": docs, **rows})
    if form.startswith("csv"):
        import pyarrow.csv

        pyarrow.csv.write_csv(table, path.with_suffix(".csv"))
        return path.with_suffix(".csv")
    pq.write_table(table, path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


@pytest.mark.parametrize("form", ["csv long", "csv wide", "parquet long", "parquet wide", "npz"])
def test_a_plain_table_holds_several_runs(tmp_path: Path, form: str) -> None:
    (ranking,) = rank(open_runs(write_table(tmp_path / "scores", form)))
    assert [(run.label, run.range) for run in ranking.runs] == [("a, the first", "1"), ("b", "2")]


def test_an_empty_cell_is_no_zero(tmp_path: Path) -> None:
    file = tmp_path / "scores.csv"
    file.write_text("doc,a,b\n" + "".join(f"{i},1,{'' if i < 10 else 1}\n" for i in range(100)))
    (ranking,) = rank(open_runs(file))
    assert {run.label: run.score.value for run in ranking.runs} == {"a": 1.0, "b": 1.0}
    assert "b 10" in ranking.notes[0]


def test_clusters_of_a_table_widen_the_error_of_a_score(tmp_path: Path) -> None:
    rows = [(doc, doc // 10, (doc // 10) % 3 > 0, (doc // 10) % 2) for doc in range(400)]
    errors = []
    for name, places in (("alone", (0, 2, 3)), ("clustered", (0, 1, 2, 3))):
        file = tmp_path / f"{name}.csv"
        head = [("doc", "cluster", "a", "b")[place] for place in places]
        lines = [head, *([str(int(row[place])) for place in places] for row in rows)]
        file.write_text("".join(",".join(line) + "\n" for line in lines))
        (ranking,) = rank(open_runs(file))
        errors.append(ranking.runs[0].score.stderr or 0.0)
    assert errors[1] > 3 * errors[0]  # ten docs of a cluster are one: √10 of the error


def test_a_table_of_something_else_says_what_it_expected(tmp_path: Path) -> None:
    file = tmp_path / "other.csv"
    file.write_text("name,place\nx,1\n")
    with pytest.raises(DataError, match="name, place"):
        open_runs(file)


def test_a_run_and_a_table_are_ranked_together(tmp_path: Path) -> None:
    """Tasks are told apart by name, docs by content: a table and a run share none unless they say so."""
    file = tmp_path / "task.csv"
    file.write_text("doc,x,y\n1,0,1\n2,1,1\n")
    with pytest.raises(ConfigError, match=r"no metric|no doc in common"):
        rank([*open_runs(file), open_run(made(tmp_path / "run", 0.5, 1))])


def test_files_of_lm_evaluation_harness_are_ranked() -> None:
    runs = [open_run(Path(__file__).parents[1] / "finished" / "mini" / "lm_eval") for _ in range(2)]
    rankings = rank(runs)
    assert rankings
    assert {run.range for ranking in rankings for run in ranking.runs} == {"1–2"}


def test_files_of_lighteval_and_inspect_are_ranked(tmp_path: Path) -> None:
    right, wrong = [1.0] * 60, [1.0] * 15 + [0.0] * 45
    details = [write_lighteval(tmp_path / f"l{i}", lighteval_rows(each)) for i, each in enumerate((wrong, right))]
    logs = [
        write_inspect(
            tmp_path / f"i{i}.eval", [inspect_sample(n, "C" if each else "I") for n, each in enumerate(values)]
        )
        for i, values in enumerate((wrong, right))
    ]
    for paths in (details, logs):
        (ranking,) = rank([open_run(path) for path in paths])
        assert [(run.place, run.range) for run in ranking.runs] == [(1, "1"), (0, "2")]


# Output


def test_the_verb_prints_table_markdown_json_and_a_page(tmp_path: Path) -> None:
    file = write_table(tmp_path / "scores", "npz")
    code, text = invoke(file)
    assert code == 0
    assert "hold together at 95%" in text
    code, markdown = invoke(file, "--markdown")
    assert "| 1 | a, the first |" in markdown
    code, listed = invoke(file, "--json", "--html", tmp_path / "ranks.html")
    (ranking,) = json.loads(listed)["rankings"]
    assert [run["rank_low"] for run in ranking["runs"]] == [1, 2]
    assert len(ranking["pairs"]) == 1
    page = (tmp_path / "ranks.html").read_text()
    assert "<title>a, the first − b: +0." in page
    assert "&gt;0.999" in page  # never certain
    assert "1.000" not in page


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    file = tmp_path / "scores.npz"
    names = np.array(["<script>alert(1)</script>", "a|b\x1b[31m"])
    np.savez(file, scores=np.array(list(table_rows().values())), runs=names, docs=np.arange(400))
    invoke(file, "--html", tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert "<script>" not in page
    assert "\x1b" not in page
    _, markdown = invoke(file, "--markdown")
    assert "a\\|b" in markdown
    assert "\x1b" not in markdown


def test_thin_names_docs_that_a_run_can_be_asked(tmp_path: Path) -> None:
    values = np.array([scores(chance, seed=i) for i, chance in enumerate(np.linspace(0.2, 0.9, 22))])
    file = tmp_path / "scores.npz"
    np.savez(file, scores=values, runs=np.array([f"m{i}" for i in range(22)]), docs=np.arange(400))
    code, text = invoke(file, "--thin", 50, "--thin_docs", tmp_path / "docs.json")
    assert code == 0
    assert re.search(r"\n +50 +0\.0\d+ ", text)
    chosen = json.loads((tmp_path / "docs.json").read_text())["scores"]
    assert len(set(chosen)) == 50
    assert max(chosen) < 400


def test_thin_with_few_runs_withholds_the_interval(tmp_path: Path) -> None:
    values = np.array([scores(chance, seed=i) for i, chance in enumerate(np.linspace(0.2, 0.9, 6))])
    file = tmp_path / "scores.npz"
    np.savez(file, scores=values, runs=np.array([f"m{i}" for i in range(6)]), docs=np.arange(400))
    _, text = invoke(file, "--thin", 50)
    assert "at most 86%" in text


def test_one_run_has_no_rank(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two runs"):
        rank([open_run(made(tmp_path / "only", 0.5, 1))])
