"""A part of a task's docs: the first ones are no sample, a random part is one; and answers that nobody could read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import assay
from assay.errors import ConfigError
from assay.results import Health, MetricKey
from assay.scoring.scorers import variance_of_mean
from assay.stats import ConfidenceSequence, StoppingRule, docs_or_draws, mean_estimate, over_draws

TASKS = ["demo_agreement", "demo_reflexives"]


def asked(folder: Path, name: str, **how: object) -> tuple[assay.RunResult, dict[str, list[int]]]:
    result = assay.evaluate(model="dummy", tasks=TASKS, run_dir=str(folder / name), **how)  # type: ignore[arg-type]
    opened = assay.finished.open_run(folder / name)
    ids = {task: next(iter(opened.columns(task).values())).doc_ids.tolist() for task in TASKS}
    return result, ids


def test_the_first_docs_are_called_no_sample_and_a_random_part_is_drawn_from_all(tmp_path: Path) -> None:
    first, ids = asked(tmp_path, "first", limit=20)
    assert ids["demo_agreement"] == list(range(20))
    assert any("demo_agreement: first 20 of 120: not a sample" in note for note in first.remarks)
    drawn, ids = asked(tmp_path, "drawn", limit=20, sample="random")
    more = asked(tmp_path, "more", limit=40, sample="random")[1]
    assert not any("not a sample" in note for note in drawn.remarks)
    for task in TASKS:
        assert len(ids[task]) == 20
        assert max(ids[task]) > 40
        assert set(ids[task]) < set(more[task])
    assert ids["demo_agreement"] != ids["demo_reflexives"]


def test_a_sample_needs_a_size() -> None:
    with pytest.raises(ConfigError, match="limit"):
        assay.evaluate(model="dummy", tasks=TASKS, sample="random")


def test_all_docs_of_a_few_clusters_end_with_an_interval_that_says_something() -> None:
    """200 docs in 20 clusters: the bets alone left [0, 1]."""
    rng = np.random.default_rng(0)
    rule, units = StoppingRule.parse("ci=0.02"), np.repeat(np.arange(20), 10)
    rule.largest = 10
    scores = (rng.random(200) < 0.7).astype(float)
    rule.update(scores, units=units.tolist())
    assert rule.last_look == pytest.approx(0.025)
    last = mean_estimate(scores, units, level=1 - rule.last_look)
    low, high = rule.interval or (0.0, 1.0)
    assert min(high, last.high) - max(low, last.low) < 0.35
    alone = StoppingRule.parse("ci=0.02")
    assert alone.last_look == 0


def test_a_stop_in_clusters_still_looks_at_the_level_that_is_left() -> None:
    rule = StoppingRule.parse("ci=0.1")
    rule.largest = 5
    rule.update(np.ones(50), units=[i // 5 for i in range(50)])
    plain = ConfidenceSequence(width=0.1, level=0.975, largest=5)
    plain.update(np.full(10, 5.0), np.full(10, 5.0))
    assert rule.interval == plain.interval


def test_answers_that_were_not_read_are_shown_as_bounds_where_they_matter() -> None:
    key = MetricKey("exact_match", "strict")
    health = Health(docs=100, truncated=10, bounds={key: (0.5, 0.6)})
    assert health.bound_marks(key, 0.39) == ["0.5000 if those are all wrong, 0.6000 if all are right"]
    assert health.bound_marks(key, 0.41) == []
    assert health.bound_marks(key, None) != []


def test_a_repeated_score_says_how_much_of_its_error_is_docs_and_how_much_draws() -> None:
    """Half of the docs are always right, and the others by the toss of a coin."""
    rng = np.random.default_rng(0)
    right = np.concatenate([np.full(400, 4), rng.binomial(4, 0.5, 400)])
    found = docs_or_draws(of_right(right, 4), mean_estimate(right / 4).stderr)
    assert found is not None
    # Docs vary by 1/16, and the mean of four draws by 1/16 on half of the docs.
    assert found.draw_share == pytest.approx((1 / 32) / (1 / 16 + 1 / 32), abs=0.04)
    assert found.draws_for_half is None
    assert found.docs_for_half == 3200
    coins = rng.binomial(4, 0.5, 800)
    tossed = docs_or_draws(of_right(coins, 4), mean_estimate(coins / 4).stderr)
    assert tossed is not None
    assert tossed.draw_share > 0.9
    assert tossed.draws_for_half is not None
    assert 12 <= tossed.draws_for_half <= 40
    assert docs_or_draws([], 0.1) is None


def of_right(right: np.ndarray, draws: int) -> list[tuple[int, float]]:
    """The draws of each doc and the variance of their mean, where so many of them are right."""
    return [(draws, variance_of_mean([1.0] * int(c) + [0.0] * int(draws - c))) for c in right]


def test_graded_draws_are_told_from_docs_too(tmp_path: Path) -> None:
    """Metrics with values between 0 and 1, and beyond, of three answers to each doc."""
    (tmp_path / "docs.jsonl").write_text("".join(f'{{"q": "{i} + {i}", "a": "{i}"}}\n' for i in range(30)))
    (tmp_path / "u.py").write_text(
        "import zlib\ndef wide(references, predictions, **_):\n"
        "    return float(zlib.crc32((predictions[0] + references[0]).encode()) % 10000)\n"
        "def share(references, predictions, **_):\n    return wide(references, predictions) / 10000\n"
    )
    (tmp_path / "t.yaml").write_text(
        "task: graded\ndataset_path: json\ndataset_kwargs: {data_files: {test: docs.jsonl}}\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_text: '{{q}} ='\ndoc_to_target: '{{a}}'\nrepeats: 3\n"
        "generation_kwargs: {do_sample: true, temperature: 1.0, max_gen_toks: 8}\n"
        "filter_list: [{name: all, filter: [{function: take_first_k, k: 3}]}]\n"
        "metric_list: [{metric: !function u.share, reducer: mean}, {metric: !function u.wide, reducer: mean}]\n"
    )
    result = assay.evaluate(model="dummy", tasks=[str(tmp_path / "t.yaml")], population="docs")
    for metric in ("share", "wide"):
        estimate = result["graded"][metric]
        about = [note for note in result.remarks if note.startswith(f"graded {metric}")]
        assert any("comes from docs" in note for note in about)
        own = next(note for note in about if "own mean" in note)
        low, high = (float(each) for each in own.split("[")[1].split("]")[0].split(","))
        assert low < estimate.value < high
        assert high - low < 1.3 * (estimate.high - estimate.low)


@pytest.mark.parametrize("draws", [2, 6])
@pytest.mark.parametrize("docs", [8, 80])
@pytest.mark.parametrize("spread", ["coins", "sure or a coin", "near 1"])
def test_the_interval_of_these_docs_own_mean_holds_it(spread: str, docs: int, draws: int) -> None:
    rng, held, times = np.random.default_rng(docs * draws), 0, 400
    chances = {"coins": [0.5], "sure or a coin": [0.0, 1.0, 1.0, 0.5], "near 1": [0.97]}[spread]
    for _ in range(times):
        p = rng.choice(chances, docs)
        right = rng.binomial(draws, p)
        found = over_draws(float(right.mean() / draws), of_right(right, draws), bounded=True)
        held += found.low <= p.mean() <= found.high
    assert held / times > 0.9


def test_draws_that_never_differ_leave_an_interval_for_shares_and_none_for_other_scores() -> None:
    same = [(4, 0.0)] * 5
    share = over_draws(1.0, same, bounded=True)
    assert share.low is not None
    assert share.low < 0.9
    assert over_draws(7.0, same, bounded=False).low is None


def test_draws_and_docs_are_told_apart_in_a_run_and_for_its_own_docs(tmp_path: Path) -> None:
    result = assay.evaluate(
        model="dummy", tasks=["demo_subtraction"], limit=40, population="docs", run_dir=str(tmp_path / "r")
    )
    key = next(key for key, score in result["demo_subtraction"].scores.items() if key.filter == "flexible")
    notes = [note for note in result.remarks if note.startswith(f"demo_subtraction {key}")]
    assert any("draws" in note and "variance" in note for note in notes) or all("own mean" in note for note in notes)
    assert any("own mean" in note for note in notes)
