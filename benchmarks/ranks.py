"""Do the ranges of all ranks hold together on real scores? And what are thin sets of docs worth on runs that had no say?

    python benchmarks/ranks.py --scores mmlu_pro_scores.npz    # prints the table, writes benchmarks/RESULTS.md

The file holds 0/1 scores of 29 models on the 12,032 questions of MMLU-Pro (`models`, `question_id`, `right`; 255: missing).
All questions are the truth; 500 of them are drawn 300 times, ranked, and compared with it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from _results import write_section
from assay.finished import align, open_runs
from assay.stats import mean_pairs, rank_runs, thin_docs

DOCS, TRIES, REPLICATES = 500, 300, 1000


def coverage(values: np.ndarray, units: np.ndarray) -> list[str]:
    truth = rank_runs(mean_pairs(values, units, 200))
    generator = np.random.default_rng(29)
    held = pairs = tiers = 0
    widths, said = [], []
    for _ in range(TRIES):
        drawn = generator.choice(len(units), DOCS, replace=False)
        ranks = rank_runs(mean_pairs(values[:, drawn], units[drawn], REPLICATES))
        held += bool(((ranks.low <= truth.rank) & (truth.rank <= ranks.high)).all())
        pairs += bool(((ranks.lower <= truth.difference) & (truth.difference <= ranks.upper)).all())
        wrong = (ranks.p_adjusted < 0.05) & (np.sign(ranks.difference) != np.sign(truth.difference))
        tiers += bool(wrong.any())
        widths.append(float((ranks.high - ranks.low + 1).mean()))
        said.append(ranks.best[truth.rank == 1].sum())
    return [
        f"| all {len(values)} ranges hold together (asked: at least 92 %) | {held / TRIES:.1%} |",
        f"| all {len(values) * (len(values) - 1) // 2} differences within their simultaneous bounds (nominal 95 %) | {pairs / TRIES:.1%} |",
        f"| a pair told apart by Holm in the wrong direction (at most 5 %) | {tiers / TRIES:.1%} |",
        f"| mean number of ranks in a range | {np.mean(widths):.1f} |",
        f"| mean P(best) of the run that is best | {np.mean(said):.3f} |",
    ]


def thin(values: np.ndarray) -> list[str]:
    """Each run in turn is new: docs, calibration and width come from the others."""
    values = values[:, ~np.isnan(values).any(axis=0)]
    rows = []
    for count in (50, 100, 200, 400):
        hits, widths, errors = 0, [], []
        for new in range(len(values)):
            chosen = thin_docs(np.delete(values, new, axis=0), count)
            width = chosen.half_width or np.inf
            error = chosen.predict(float(values[new, chosen.docs].mean())) - float(values[new].mean())
            hits += abs(error) <= width
            widths.append(width)
            errors.append(error)
        random = 1.96 * np.sqrt(values.var(axis=1).mean() / count)
        rows.append(
            f"| {count} | ± {np.mean(widths):.4f} | ± {random:.4f} | {np.sqrt(np.mean(np.square(errors))):.4f} | {hits} of {len(values)} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", type=Path, default=Path("../shared/real/mmlu_pro_scores.npz"))
    scores = parser.parse_args().scores
    if not scores.is_file():
        print(f"{scores} is not here; nothing measured")
        return
    runs = open_runs(scores)
    columns = [next(iter(run.columns(run.tasks[0]).values())).scored() for run in runs]
    docs = align(*columns)
    values = docs.table()
    lines = [
        f"{len(runs)} models on {values.shape[1]:,} questions of MMLU-Pro. {DOCS} of them, drawn {TRIES} times, against all of them as the truth ({REPLICATES} replicates):",
        "",
        "| | |",
        "|---|---|",
        *coverage(values, docs.units),
        "",
        "A further run on few docs (`--thin`), each model in turn being the further one; 95 %:",
        "",
        "| docs | interval | of as many random docs | root mean square error | held |",
        "|---:|---:|---:|---:|---:|",
        *thin(values),
    ]
    print("\n".join(lines))
    write_section("Ranks", "\n".join(lines))


if __name__ == "__main__":
    main()
