"""Comparing runs: alignment, tests, groups, verdicts, and what is refused."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from tests.analyses.made import flipped, right, write_run

from assay.analyses.compare import CompareOptions, compare_runs, findings
from assay.errors import ConfigError, DataError
from assay.finished import open_run
from assay.stats import mcnemar, mean_stderr

RNG = np.random.default_rng(0)
BASE = {"easy": {"acc,none": right(RNG, 300, 0.8)}, "hard": {"acc,none": right(RNG, 200, 0.3)}}
NEW = {name: {"acc,none": flipped(RNG, m["acc,none"], 0.3, 0.02)} for name, m in BASE.items()}


def compare(a: Path, b: Path, **options: object):
    return compare_runs([open_run(a), open_run(b)], CompareOptions(**options))[0]


def test_rows_hold_the_paired_difference_and_the_exact_test(tmp_path: Path) -> None:
    found = compare(write_run(tmp_path / "a", BASE), write_run(tmp_path / "b", NEW))
    row = found.row("hard", "acc,none")
    a, b = np.array(BASE["hard"]["acc,none"]), np.array(NEW["hard"]["acc,none"])
    assert row.difference.estimate.value == pytest.approx((b - a).mean())
    assert row.difference.estimate.stderr == pytest.approx(mean_stderr(b - a), rel=1e-12)
    assert row.difference.p_value == mcnemar(int((b > a).sum()), int((b < a).sum()))
    assert row.p_adjusted == max(min(1.0, 2 * row.difference.p_value), 0.0)
    assert (row.verdict.kind, row.paired, row.difference.test) == ("better", True, "mcnemar mid-P")
    assert row.flips.gained[:, 0].tolist() == np.flatnonzero(b > a).tolist()
    assert row.flips.lost[:, 1].tolist() == np.flatnonzero(b < a).tolist()


def test_order_of_docs_in_the_files_does_not_matter(tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(200).tolist()
    docs = {"hard": [f"hard-{i}" for i in order]}
    shuffled = {"hard": {"acc,none": [NEW["hard"]["acc,none"][i] for i in order]}}
    straight = compare(write_run(tmp_path / "a", BASE), write_run(tmp_path / "b", NEW)).row("hard", "acc,none")
    mixed = compare(tmp_path / "a", write_run(tmp_path / "c", shuffled, docs=docs)).row("hard", "acc,none")
    assert mixed.difference.estimate == straight.difference.estimate
    for at_a, at_b in mixed.flips.gained.tolist():
        assert order[at_b] == at_a


def test_a_run_against_itself_has_no_difference_and_no_flips(tmp_path: Path) -> None:
    found = compare(write_run(tmp_path / "a", BASE), tmp_path / "a", margin=0.05)
    for row in found.rows:
        assert (row.difference.estimate.value, row.difference.gained, row.difference.lost) == (0.0, 0, 0)
        assert str(row.verdict) == "no difference larger than 0.05"


def test_few_docs_without_a_flip_are_the_same_but_not_equivalent(tmp_path: Path) -> None:
    scores = {"t": {"acc,none": [1.0, 0.0, 1.0]}}
    found = compare(write_run(tmp_path / "a", scores), write_run(tmp_path / "b", scores))
    assert found.row("t", "acc,none").verdict.kind == "same"


def test_runs_that_stopped_early_are_marked(tmp_path: Path) -> None:
    stopped = {"hard": "better than base after 200 docs", "easy": "all docs were asked before the rule was satisfied"}
    found = compare(write_run(tmp_path / "a", BASE), write_run(tmp_path / "b", NEW, stopped=stopped))
    assert found.row("hard", "acc,none").notes == ("B stopped early: p does not account for that",)
    assert found.row("easy", "acc,none").notes == ()


def test_holm_counts_all_tasks_of_all_runs(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / "a", BASE), write_run(tmp_path / "b", NEW), write_run(tmp_path / "c", BASE)]
    first, second = compare_runs([open_run(p) for p in paths])
    assert first.family == second.family == 4
    assert first.row("hard", "acc,none").p_adjusted > first.row("hard", "acc,none").difference.p_value
    assert second.row("hard", "acc,none").p_adjusted == 1.0


def test_differing_prompts_are_refused_with_their_number(tmp_path: Path) -> None:
    prompts = {"hard": [f"other {i}" if i < 7 else f"hard-{i}" for i in range(200)]}
    a, b = write_run(tmp_path / "a", BASE), write_run(tmp_path / "b", NEW, prompts=prompts)
    found = compare(a, b)
    assert found.row("hard", "acc,none") is None
    assert [(r.name, r.reason) for r in found.refusals] == [("hard", "prompts differ on 7 of 200 docs in common")]
    unpaired = compare(a, b, unpaired=True).row("hard", "acc,none")
    assert not unpaired.paired
    paired = compare(a, b, ignore_prompts=True).row("hard", "acc,none")
    assert unpaired.difference.estimate.stderr > paired.difference.estimate.stderr


def test_nothing_left_to_compare_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    prompts = {name: [f"other {i}" for i in range(len(m["acc,none"]))] for name, m in BASE.items()}
    a, b = write_run(tmp_path / "a", BASE), write_run(tmp_path / "b", NEW, prompts=prompts)
    with pytest.raises(ConfigError, match="nothing can be compared") as error:
        compare(a, b)
    assert "--unpaired" in error.value.hint


def test_disjoint_tasks(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", {"easy": BASE["easy"]})
    b = write_run(tmp_path / "b", {"hard": NEW["hard"]}, model="another")
    with pytest.raises(ConfigError, match=r"easy.*hard"):
        compare(a, b)


def test_tasks_of_one_run_alone_are_named(tmp_path: Path) -> None:
    found = compare(write_run(tmp_path / "a", BASE), write_run(tmp_path / "b", {"hard": NEW["hard"]}))
    assert [(r.name, r.reason) for r in found.refusals] == [("easy", "only in A")]
    assert found.row("hard", "acc,none").verdict.kind == "better"


def test_one_doc_in_common(tmp_path: Path) -> None:
    docs = {"hard": ["hard-3", *[f"new-{i}" for i in range(199)]]}
    found = compare(write_run(tmp_path / "a", BASE), write_run(tmp_path / "b", NEW, docs=docs))
    row = found.row("hard", "acc,none")
    assert "one doc in common" in row.notes
    assert (row.only_a, row.only_b, row.difference.estimate.stderr) == (199, 199, None)
    assert row.verdict.kind == "undecided"


def test_no_doc_in_common(tmp_path: Path) -> None:
    docs = {"hard": [f"new-{i}" for i in range(200)]}
    a, b = write_run(tmp_path / "a", BASE), write_run(tmp_path / "b", NEW, docs=docs)
    assert ("hard", "no doc in common") in [(r.name, r.reason) for r in compare(a, b).refusals]
    assert compare(a, b, unpaired=True).row("hard", "acc,none").difference.test == "unpaired t"


def test_duplicated_docs_pair_off_one_by_one(tmp_path: Path) -> None:
    docs = {"t": ["x", "x", "y", "x"]}
    a = write_run(tmp_path / "a", {"t": {"acc,none": [1.0, 0.0, 1.0, 1.0]}}, docs=docs)
    b = write_run(tmp_path / "b", {"t": {"acc,none": [1.0, 0.0, 1.0]}}, docs={"t": ["x", "x", "x"]})
    row = compare(a, b).row("t", "acc,none")
    assert (row.difference.estimate.n, row.only_a, row.only_b) == (3, 1, 0)
    assert (row.difference.gained, row.difference.lost) == (0, 0)
    assert "1 docs occur more than once" in row.notes


def test_nan_scores_are_left_out_and_counted(tmp_path: Path) -> None:
    a = write_run(
        tmp_path / "a", {"t": {"score,none": [0.1, math.nan, 0.3, 0.4]}}, reported={("t", "score,none"): 0.8 / 3}
    )
    b = write_run(tmp_path / "b", {"t": {"score,none": [0.2, 0.3, 0.5, 0.4]}})
    row = compare(a, b).row("t", "score,none")
    assert row.difference.estimate.n == 3
    assert "1 docs of A have no score" in row.notes
    assert math.isfinite(row.difference.estimate.stderr)


def test_clusters_of_the_task_are_used(tmp_path: Path) -> None:
    clusters = {"hard": [str(i // 10) for i in range(200)]}
    found = compare(
        write_run(tmp_path / "a", BASE, clusters=clusters), write_run(tmp_path / "b", NEW, clusters=clusters)
    )
    assert found.row("hard", "acc,none").difference.test == "paired t, by cluster"
    assert found.row("easy", "acc,none").difference.test == "mcnemar mid-P"


def test_continuous_scores_get_the_paired_bootstrap(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    a = rng.random(150)
    b = a + rng.normal(0.05, 0.1, 150)
    found = compare(
        write_run(tmp_path / "a", {"t": {"rouge,none": a.tolist()}}),
        write_run(tmp_path / "b", {"t": {"rouge,none": b.tolist()}}),
    )
    row = found.row("t", "rouge,none")
    assert row.difference.test == "paired t"
    assert row.verdict.kind == "better"
    assert row.flips is None


def test_lower_is_better_turns_the_verdict(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    a = rng.random(150)
    found = compare(
        write_run(tmp_path / "a", {"t": {"error,none": a.tolist()}}),
        write_run(tmp_path / "b", {"t": {"error,none": (a - 0.1).tolist()}}),
    )
    assert found.row("t", "error,none").verdict.kind == "better"


def test_metrics_that_are_no_means_are_lifted_by_replicates(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    gold = (rng.random(300) < 0.4).astype(int)
    sides = [np.where(rng.random(300) < share, gold, 1 - gold) for share in (0.7, 0.95)]
    configs = {"t": {"metric_list": [{"metric": "f1", "aggregation": "f1"}]}}
    runs = [
        write_run(
            tmp_path / name,
            {"t": {"f1,none": [[int(g), int(p)] for g, p in zip(gold, side, strict=True)]}},
            configs=configs,
        )
        for name, side in zip("ab", sides, strict=True)
    ]
    from sklearn.metrics import f1_score

    row = compare(*runs).row("t", "f1,none")
    assert row.difference.a == pytest.approx(f1_score(gold, sides[0]))
    assert row.difference.b == pytest.approx(f1_score(gold, sides[1]))
    assert (row.difference.test, row.verdict.kind) == ("paired delta", "better")


def test_numbers_that_docs_do_not_give_are_compared_as_reported(tmp_path: Path) -> None:
    configs = {"t": {"metric_list": [{"metric": "odd", "aggregation": "<function custom>"}]}}
    scores = {"t": {"odd,none": [0.1, 0.5, 0.9]}}
    a = write_run(tmp_path / "a", scores, configs=configs, reported={("t", "odd,none"): 0.25})
    b = write_run(tmp_path / "b", scores, configs=configs, reported={("t", "odd,none"): 0.75})
    row = compare(a, b).row("t", "odd,none")
    assert not row.paired
    assert row.difference.estimate.value == pytest.approx(0.5)
    assert row.notes == ("as reported; its aggregation cannot be repeated here",)


def test_runs_with_a_control_are_compared_on_their_own_docs(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", BASE)
    hard = ("hard", "acc,none")
    b = write_run(tmp_path / "b", NEW, reported={hard: 0.123}, methods={hard: "control variate"})
    row = compare(a, b).row("hard", "acc,none")
    assert row.paired
    assert row.difference.b == pytest.approx(np.mean(NEW["hard"]["acc,none"]))


GROUPS = {
    "top": {"key": "acc,none", "aggregator": "mean", "children": {"easy": 0.6, "hard": 0.4}},
    "even": {"key": "acc,none", "aggregator": "mean", "children": {"easy": 0.5, "hard": 0.5}},
    "worst": {"key": "acc,none", "aggregator": "min", "children": {"easy": None, "hard": None}},
    "middle": {"key": "acc,none", "aggregator": "harmonic_mean", "children": {"easy": None, "hard": None}},
}


def test_groups_combine_their_members_by_their_own_rule(tmp_path: Path) -> None:
    found = compare(write_run(tmp_path / "a", BASE, groups=GROUPS), write_run(tmp_path / "b", NEW, groups=GROUPS))
    tasks = {name: found.row(name, "acc,none").difference for name in BASE}
    top, even, worst = (found.row(name, "acc,none").difference for name in ("top", "even", "worst"))
    assert top.estimate.value == pytest.approx(0.6 * tasks["easy"].estimate.value + 0.4 * tasks["hard"].estimate.value)
    assert even.estimate.stderr == pytest.approx(
        math.hypot(tasks["easy"].estimate.stderr, tasks["hard"].estimate.stderr) / 2
    )
    assert worst.b == pytest.approx(min(tasks["easy"].b, tasks["hard"].b))
    assert worst.test == "member by member"
    middle = found.row("middle", "acc,none").difference
    assert middle.a == pytest.approx(2 / (1 / tasks["easy"].a + 1 / tasks["hard"].a))
    assert [row.kind for row in found.rows].count("group") == 4


def test_a_mean_group_with_a_shared_doc_agrees_with_the_one_without(tmp_path: Path) -> None:
    shared = {"easy": [f"d{i}" for i in range(300)], "hard": [f"d{i + 299}" for i in range(200)]}
    apart = compare(write_run(tmp_path / "a", BASE, groups=GROUPS), write_run(tmp_path / "b", NEW, groups=GROUPS))
    tied = compare(
        write_run(tmp_path / "c", BASE, groups=GROUPS, docs=shared),
        write_run(tmp_path / "d", NEW, groups=GROUPS, docs=shared),
    )  # one doc is in both tasks, so the tasks are dependent
    closed, lifted = apart.row("even", "acc,none").difference, tied.row("even", "acc,none").difference
    assert (closed.test, lifted.test) == ("paired score", "paired t, by cluster")
    assert lifted.estimate.stderr == pytest.approx(closed.estimate.stderr, rel=0.1)
    assert lifted.estimate.value == pytest.approx(closed.estimate.value)


def test_group_of_groups_up_to_the_root(tmp_path: Path) -> None:
    groups = {
        "root": {"key": "acc,none", "children": {"top": 0.5, "hard": 0.5}},
        "top": {"key": "acc,none", "children": {"easy": 1.0}},
    }
    found = compare(write_run(tmp_path / "a", BASE, groups=groups), write_run(tmp_path / "b", NEW, groups=groups))
    assert [(row.depth, row.name) for row in found.rows] == [(0, "root"), (1, "top"), (2, "easy"), (1, "hard")]
    root, top, hard = (found.row(n, "acc,none").difference.estimate.value for n in ("root", "top", "hard"))
    assert root == pytest.approx((top + hard) / 2)


def test_group_with_a_refused_member_is_refused_too(tmp_path: Path) -> None:
    prompts = {"hard": [f"other {i}" for i in range(200)]}
    found = compare(
        write_run(tmp_path / "a", BASE, groups=GROUPS), write_run(tmp_path / "b", NEW, groups=GROUPS, prompts=prompts)
    )
    assert ("top", "acc,none: hard: prompts differ") in [(r.name, r.reason) for r in found.refusals]


def test_groups_made_by_different_rules_are_refused(tmp_path: Path) -> None:
    other = {"top": {**GROUPS["top"], "aggregator": "median"}}
    found = compare(write_run(tmp_path / "a", BASE, groups=GROUPS), write_run(tmp_path / "b", NEW, groups=other))
    assert any(r.name == "top" and "different rules" in r.reason for r in found.refusals)


def test_undefined_group_says_why(tmp_path: Path) -> None:
    groups = {"top": {"key": "pass@3,none", "children": {}, "undefined": "fewer than 3 draws"}}
    found = compare(write_run(tmp_path / "a", BASE, groups=groups), write_run(tmp_path / "b", NEW, groups=groups))
    assert [(r.name, r.reason, r.kind) for r in found.refusals] == [
        ("top", "pass@3,none: fewer than 3 draws", "undefined")
    ]


def test_choosing_tasks_groups_and_metrics(tmp_path: Path) -> None:
    two = {name: {**m, "acc_norm,none": m["acc,none"]} for name, m in BASE.items()}
    a, b = write_run(tmp_path / "a", two, groups=GROUPS), write_run(tmp_path / "b", two, groups=GROUPS)
    assert {row.name for row in compare(a, b, tasks=("top",)).rows} == {"top", "easy", "hard"}
    assert {row.key for row in compare(a, b, metric=("acc_norm",)).rows} == {("acc_norm", "none")}
    with pytest.raises(ConfigError, match="no task or group 'eazy'") as error:
        compare(a, b, tasks=("eazy",))
    assert "easy" in error.value.hint


def test_truncated_sample_file_is_named(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", BASE), write_run(tmp_path / "b", NEW)
    file = b / "samples" / "hard.parquet"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(DataError, match=r"hard\.parquet"):
        compare(a, b)


def test_missing_runs_and_foreign_directories(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="contains no run"):
        open_run(tmp_path)
    with pytest.raises(ConfigError, match="two runs"):
        compare_runs([open_run(write_run(tmp_path / "a", BASE))])


def test_margin_is_relative_for_large_numbers() -> None:
    options = CompareOptions(margin=0.01)
    assert options.margin_for(0.3, 0.5) == 0.01
    assert options.margin_for(20.0, 25.0) == pytest.approx(0.25)


def test_json_holds_every_row_and_is_valid(tmp_path: Path) -> None:
    runs = [open_run(write_run(tmp_path / n, s, groups=GROUPS)) for n, s in (("a", BASE), ("b", NEW))]
    data = json.loads(findings(compare_runs(runs)).to_json())
    assert {row["name"] for row in data["rows"]} == {*BASE, *GROUPS}
    assert all(row["verdict"] in ("better", "worse", "equivalent", "same", "undecided") for row in data["rows"])
    many = json.loads(findings(compare_runs([*runs, runs[0]])).to_json())
    assert len(many["comparisons"]) == 2
