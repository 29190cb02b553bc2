"""κ between filters, α among draws: the textbook's numbers, intervals that cover, units that count once."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from tests.analyses.made import write_run
from tests.analyses.test_verbs import call

from assay.stats import cohen_kappa, draw_agreement, krippendorff

RNG = np.random.default_rng(2)


def test_kappa_is_that_of_sklearn_for_any_number_of_labels() -> None:
    for labels in (2, 5):
        a, b = RNG.integers(0, labels, (2, 200)).astype(float)
        b = np.where(RNG.random(200) < 0.5, a, b)
        assert cohen_kappa(a, b, np.arange(200, dtype=np.uint64)).value == pytest.approx(cohen_kappa_score(a, b))


def test_alpha_of_counts_is_alpha_of_the_draws_themselves() -> None:
    right = RNG.binomial(5, RNG.beta(2, 2, 80))
    ratings = [[1.0] * c + [0.0] * (5 - c) for c in right.tolist()]
    counts = np.column_stack([np.full(80, 5), right])
    assert draw_agreement(counts, np.arange(80, dtype=np.uint64)).value == pytest.approx(krippendorff(ratings).value)


def test_kappa_of_equal_or_single_ratings_is_undefined_with_its_reason() -> None:
    keys = np.arange(3, dtype=np.uint64)
    equal, single = cohen_kappa(np.ones(3), np.ones(3), keys), cohen_kappa(np.ones(1), np.ones(1), keys[:1])
    undrawn = draw_agreement(np.array([[1, 1], [1, 0]]), keys[:2])
    assert len({found.undefined for found in (equal, single, undrawn)} - {None}) == 3


def test_intervals_of_kappa_cover_also_where_docs_come_in_copies() -> None:
    rng = np.random.default_rng(0)
    covered = {1: 0, 4: 0}
    for _ in range(200):
        for copies in covered:
            a = (rng.random(150) < 0.6).astype(float)
            b = np.where(rng.random(150) < 0.5, a, (rng.random(150) < 0.6).astype(float))
            keys = rng.integers(0, 2**63, 150, dtype=np.uint64)
            found = cohen_kappa(*(np.repeat(each, copies) for each in (a, b)), np.repeat(keys, copies))
            assert found.low is not None
            assert found.high is not None
            covered[copies] += found.low <= 0.5 <= found.high
    assert min(covered.values()) / 200 >= 0.9


def test_the_verb_shows_filters_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strict = (RNG.random(120) < 0.5).astype(float)
    loose = np.where(RNG.random(120) < 0.2, 1.0, strict)
    write_run(
        tmp_path / "run",
        {
            "sums": {"exact_match,strict, then first": strict.tolist(), "exact_match,loose": loose.tolist()},
            "drawn": {"acc,none": (RNG.binomial(4, 0.5, 120) / 4).tolist()},
        },
        configs={"drawn": {"repeats": 4}},
    )
    code, out, _ = call(capsys, "agreement", tmp_path / "run", "--json")
    rows = {(row["task"], row["between"]): row for row in json.loads(out)}
    assert code == 0
    kappa = rows["sums", "strict, then first / loose"]
    assert kappa["measure"] == "Cohen's κ"
    assert kappa["value"] == pytest.approx(cohen_kappa_score(strict, loose))
    assert kappa["low"] < kappa["value"] < kappa["high"]
    assert rows["drawn", "4 draws (none)"]["value"] == pytest.approx(0, abs=0.15)
    assert "Krippendorff's α" in call(capsys, "agreement", tmp_path / "run", "-t", "drawn")[1]
    write_run(tmp_path / "plain", {"easy": {"acc,none": strict.tolist()}})
    code, _, err = call(capsys, "agreement", tmp_path / "plain")
    assert code == 2
    assert "two filters or with several draws" in err
