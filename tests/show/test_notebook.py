"""What results and comparisons show of themselves, from Python."""

from __future__ import annotations

import inspect
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.config import RunConfig, RunKwargs
from assay.errors import ConfigError
from assay.results import RunResult
from assay.stats import Estimate

TASKS = ["demo_agreement", "demo_capitals_en"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        words: dict[str, Any] = {"model_args": {"seed": seed}, "store": str(folder / "store.sqlite"), "limit": 30}
        assay.evaluate(model="dummy", tasks=TASKS, run_dir=str(folder / f"run{seed}"), **words)
    return folder


@pytest.fixture
def result(folder: Path) -> RunResult:
    return RunResult.load(folder / "run0")


def test_a_result_is_a_table_with_a_bar_for_each_number(result: RunResult) -> None:
    html = result._repr_html_()
    assert html.count("<svg") == sum(len(node.scores) for node in result.nodes())
    for row in result.to_pandas().itertuples():
        assert f"{row.value:.4f}" in html


def test_names_of_anybody_stay_text(result: RunResult) -> None:
    from dataclasses import replace

    node = replace(result.tasks["demo_agreement"], alias="<img src=x onerror=alert(1)>")
    hostile = replace(result, tasks={**result.tasks, "demo_agreement": node}, notes=("<script>",))
    for shown in (hostile._repr_html_(), hostile.plot().svg):
        assert "<img" not in shown
        assert "<script" not in shown


def test_samples_are_read_as_values(result: RunResult) -> None:
    frame = result.samples("demo_agreement")
    assert len(frame) == 30
    assert isinstance(frame["doc"][0], dict)
    assert frame["metric:acc"].mean() == pytest.approx(result["demo_agreement"]["acc"].value)
    assert result.samples("demo_agreement", arrow=True).num_rows == 30


def test_samples_that_are_not_there_say_what_to_do(result: RunResult) -> None:
    with pytest.raises(ConfigError, match="no task or group 'demo_agrement'"):
        result.samples("demo_agrement")
    from dataclasses import replace

    with pytest.raises(ConfigError, match="no samples of demo_agreement were kept") as caught:
        replace(result, path=None).samples("demo_agreement")
    assert "run_dir" in (caught.value.hint or "")


def test_health_is_by_task(result: RunResult) -> None:
    assert result.health["demo_agreement"].docs == 30
    assert "demo_capitals_en: " in repr(result.health)
    assert "<table>" in result.health._repr_html_()


def test_a_plot_is_a_drawing_that_can_be_kept(result: RunResult, tmp_path: Path) -> None:
    plot = result.plot("acc")
    tree = ET.parse(plot.save(tmp_path / "plot.svg"))
    assert len(tree.findall(".//{http://www.w3.org/2000/svg}circle")) == 2
    with pytest.raises(ConfigError, match="no metric 'ac' in these results"):
        result.plot("ac")


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(0.787, 0.028, 0.7271, 0.8362, 208, "wilson"), "0.787 ± 0.028 [0.73, 0.84]"),
        (Estimate(0.5, 0.0002, 0.4996, 0.5004, 9, "t"), "0.500000 ± 0.000200 [0.49960, 0.50040]"),
        (Estimate(12345.6, 100.2, 12000.0, 12600.0, 9, "t"), "1.235e+04 ± 100.200 [1.2e+04, 1.26e+04]"),
        (Estimate(0.5, 0.0, 0.5, 0.5, 9, "t"), "0.500 ± 0.000 [0.50, 0.50]"),
        (Estimate.bare(0.25, 1, "one doc"), "0.250"),
        (Estimate.missing("no docs"), "undefined: no docs"),
        (Estimate(float("nan"), None, None, None, 1, "x"), "nan"),
    ],
)
def test_an_estimate_reads_as_people_write_it(estimate: Estimate, text: str) -> None:
    assert str(estimate) == text


def test_two_runs_are_compared_by_result_or_path(folder: Path, result: RunResult) -> None:
    other = RunResult.load(folder / "run1")
    comparison = assay.compare(result, other)
    by_path = assay.compare(str(folder / "run0"), folder / "run1", metric="acc")
    ours, theirs = comparison.row("demo_agreement", "acc"), by_path.row("demo_agreement", "acc")
    assert ours is not None
    assert theirs is not None
    assert ours.difference == theirs.difference
    assert comparison._repr_html_().count("<svg") == len(comparison.rows)
    assert comparison.plot("acc").svg.count("<circle") == 2
    assert "demo_agreement" in comparison.table()
    row = comparison.rows[0]
    first = f"{row.name} {row.key}: B − A {row.interval}, {str(row.verdict).partition(':')[0]}"
    assert repr(comparison).startswith(f"Comparison(A dummy (run0), B dummy (run1); {first}")


def test_a_run_without_a_directory_is_called_by_its_model_alone() -> None:
    one, other = (
        assay.evaluate(model="dummy", model_args={"seed": i}, tasks=["demo_agreement"], limit=4) for i in (0, 1)
    )
    assert repr(assay.compare(one, other)).startswith("Comparison(A dummy, B dummy; demo_agreement acc,none: B − A ")


def test_what_cannot_be_compared_is_said(result: RunResult) -> None:
    from dataclasses import replace

    with pytest.raises(ConfigError, match="the docs of a were not stored"):
        assay.compare(replace(result, path=None), result)
    with pytest.raises(ConfigError, match="compare: b is a int"):
        assay.compare(result, 3)  # type: ignore[arg-type]


def test_every_field_of_a_config_is_an_argument_of_evaluate() -> None:
    arguments = inspect.signature(assay.evaluate).parameters
    assert set(RunConfig.model_fields) <= set(arguments)
    assert set(RunKwargs.__annotations__) == {*RunConfig.model_fields, "overrides"} - {"model", "store"}
    assert arguments["bootstrap_iters"].default == RunConfig().bootstrap_iters


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"taks": ["x"]}, "there is no argument 'taks'"),
        ({"limit": "many"}, "limit: "),
        ({"num_fewshot": -1}, "num_fewshot"),
    ],
)
@pytest.mark.parametrize("config", [None, RunConfig(model="dummy")])
def test_a_wrong_argument_is_our_error(words: dict[str, Any], message: str, config: RunConfig | None) -> None:
    with pytest.raises(ConfigError, match=message):
        assay.evaluate(config, **words)


def test_arguments_are_laid_over_a_config(folder: Path) -> None:
    config = RunConfig(model="dummy", tasks=["demo_agreement"], limit=7, store=str(folder / "store.sqlite"), seed=3)
    result = assay.evaluate(config, limit=5)
    assert result["demo_agreement"]["acc"].n == 5
    assert result.config["seed"]["fewshot"] == 3


def test_the_package_says_what_it_offers() -> None:
    assert assay.__version__
    assert {"evaluate", "compare", "RunConfig", "__version__"} <= set(dir(assay))
    for name in assay.__all__:
        assert getattr(assay, name) is not None


def test_a_notebook_says_how_a_group_was_made_and_heads_stand_above_their_numbers(tmp_path: Path) -> None:
    store = str(tmp_path / "store.sqlite")
    html = assay.evaluate(model="dummy", tasks=["demo_grammar"], limit=5, store=store)._repr_html_()
    assert ">mean of 2" in html
    assert (
        'text-align:right;padding:.15em .8em .15em 0;white-space:nowrap;font-variant-numeric:tabular-nums">value'
        in html
    )
