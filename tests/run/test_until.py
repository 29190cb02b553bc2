"""`--until` and `--control` in a real run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.run.test_run import Echo, bench, run  # noqa: F401  `bench` is a fixture

from assay.errors import ConfigError
from assay.tasks.fewshot import RandomSampler


def many(folder: Path, docs: int = 600) -> None:
    rows = [{"question": f"test {i} +", "answer": i % 3} for i in range(docs)]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


class Better(Echo):
    """Always right on `colours`: knows the question's number."""

    def stream(self, request_type: Any, instances: Any, draws: Any, stop: Any = None) -> Any:
        from assay.instance import Response

        colours = [" red", " green", " blue"]
        for position, instance in enumerate(instances):
            number = int(instance.args[0].rsplit("test ", 1)[-1].split()[0])
            right = colours[number % 3] == instance.args[1]
            yield position, Response((0.0 if right else -1.0, False))

    def fingerprint(self) -> str:
        return "better"


def test_stops_when_the_interval_is_narrow_enough(bench: Path) -> None:  # noqa: F811
    many(bench)
    model = Echo()
    results = run(bench, model, tasks=["colours"], until="ci=0.1")
    estimate = results["colours"]["acc"]
    assert estimate.n < 600
    assert model.asked == 3 * estimate.n
    assert estimate.method == "confidence sequence"
    assert (estimate.high or 1) - (estimate.low or 0) <= 0.2 + 1e-9
    assert "within ±0.1" in results.remarks[0]


def test_stops_when_the_difference_is_decided(bench: Path) -> None:  # noqa: F811
    many(bench)
    run(bench, tasks=["colours"], run_dir=str(bench / "base"))
    results = run(bench, Better(), tasks=["colours"], until=f"decided vs {bench / 'base'}")
    assert "better than" in results.remarks[0]
    assert results["colours"]["acc"].n < 200


def test_refuses_a_baseline_that_was_asked_something_else(bench: Path) -> None:  # noqa: F811
    run(bench, tasks=["colours"], run_dir=str(bench / "base"), num_fewshot=1)
    with pytest.raises(ConfigError, match="did not ask the same"):
        run(bench, Better(), tasks=["colours"], until=f"decided vs {bench / 'base'}")


def test_a_control_run_tightens_the_interval_of_a_part(bench: Path) -> None:  # noqa: F811
    many(bench)
    run(bench, tasks=["colours"], run_dir=str(bench / "base"))
    plain = run(bench, tasks=["colours"], samples={"colours": list(range(0, 600, 5))})["colours"]["acc"]
    results = run(bench, tasks=["colours"], limit=120, control=str(bench / "base"))
    tight = results["colours"]["acc"]
    assert tight.n == 120
    assert (tight.stderr or 1) < 0.6 * (plain.stderr or 0), "the same model on all docs says nearly everything"
    assert "docs are worth" in results.remarks[0]


def lower_is_better(folder: Path) -> None:
    task = folder / "colours.yaml"
    task.write_text(
        task.read_text().replace(
            "- metric: acc\n", "- metric: acc\n    aggregation: mean\n    higher_is_better: false\n"
        )
    )


@pytest.mark.parametrize("rule", ["ci=0.1", "decided vs {base}"])
def test_the_interval_is_that_of_the_score_where_lower_is_better(bench: Path, rule: str) -> None:  # noqa: F811
    many(bench)
    lower_is_better(bench)
    run(bench, Better(), tasks=["colours"], run_dir=str(bench / "base"))
    results = run(bench, tasks=["colours"], until=rule.format(base=bench / "base"))
    acc = results["colours"]["acc"]
    assert acc.method == "confidence sequence"
    assert acc.low is not None
    assert acc.high is not None
    assert acc.low < 1 / 3 < acc.high
    assert acc.low + acc.high < 1, "around a third, not mirrored around two thirds"
    assert rule.startswith("ci") or "better than" in results.remarks[0], "fewer right answers are better here"


def test_every_doc_is_drawn_for_once_and_leaks_are_counted(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    many(bench, 200)
    task = bench / "colours.yaml"
    task.write_text(task.read_text().replace("training_split: train\n", "").replace("fewshot_split: train\n", ""))
    plain = run(bench, tasks=["colours"], fresh=True)
    draws = 0
    draw = RandomSampler.draw

    def counted(*words: Any) -> Any:
        nonlocal draws
        draws += 1
        return draw(*words)

    monkeypatch.setattr(RandomSampler, "draw", counted)
    model = Echo()
    results = run(bench, model, tasks=["colours"], until="ci=0.001")
    assert results["colours"]["acc"].n == 200
    assert draws == 201, "one for each doc, and one for the doc that is looked at before the run"
    assert model.asked == 0, "every doc has the shots that it has in a run over all docs"
    leaks = plain.tasks["colours"].health.fewshot_leaks_avoided
    assert leaks > 0
    assert results.tasks["colours"].health.fewshot_leaks_avoided == leaks
