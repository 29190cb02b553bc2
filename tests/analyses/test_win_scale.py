"""Runs that were judged in pairs, on one scale."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.scoring.judges.bench import judge, run, write_bench

from assay.analyses.judging import win_scales
from assay.cli.judge import command
from assay.errors import ConfigError

DOCS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that say i, i + 1 and i + 2, compared with a file that says i − 1 to i + 3; one of them with another run too."""
    folder = tmp_path_factory.mktemp("scale")
    pairwise = "scorer: {{type: judge, kind: pairwise, opponent: {}}}"
    rows = [{"doc_id": i, "answer": str(i + i % 5 - 1)} for i in range(DOCS)]
    (folder / "file.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_bench(folder, DOCS, judged=pairwise.format(folder / "file.jsonl"), plain="")
    for plus in (0, 1, 2):
        run(folder, "judged", run_dir=str(folder / f"plus{plus}"), model_args={"plus": plus})
    run(folder, "plain", run_dir=str(folder / "plain"))
    return folder


def runs(folder: Path, *names: str) -> list[str]:
    return [str(folder / name) for name in names]


def test_runs_that_met_a_common_opponent_are_ranked(folder: Path) -> None:
    """They win, tie and lose 1:1:3, 2:1:2 and 3:1:1 of five games."""
    (scale,) = win_scales(runs(folder, "plus0", "plus1", "plus2"))
    by_name = {player.name.rpartition("(")[2].rstrip(")"): player for player in scale.players}
    names = ["plus2", "plus1", "file.jsonl", "plus0"]
    assert [by_name[name].wins / by_name[name].games for name in names] == pytest.approx([0.7, 0.5, 0.5, 0.3])
    assert (scale.players[0].name, scale.players[-1].name) == (by_name["plus2"].name, by_name["plus0"].name)
    assert by_name["plus1"].strength.value == pytest.approx(by_name["file.jsonl"].strength.value)
    assert (scale.docs, by_name["file.jsonl"].games) == (DOCS, 3 * DOCS)
    for player in scale.players:
        value, low, high = player.strength.value, player.strength.low, player.strength.high
        assert value is not None
        assert low is not None
        assert high is not None
        assert low < value < high
    assert scale.notes == ("judge, unchecked: some pairs have too few labels",)


def test_a_run_that_is_an_opponent_too_is_one_player(folder: Path, tmp_path: Path) -> None:
    own = tmp_path
    write_bench(own, DOCS, judged=f"scorer: {{type: judge, kind: pairwise, opponent: {folder / 'plus1'}}}")
    run(own, "judged", run_dir=str(own / "run"), roles={"judge": judge(own, rule="first")})
    (scale,) = win_scales([*runs(folder, "plus1", "plus2"), own / "run"])
    assert len(scale.players) == 4
    assert any("different judges" in note for note in scale.notes)


def test_the_scale_on_the_command_line(folder: Path) -> None:
    words = ["scale", *runs(folder, "plus0", "plus2"), "--bootstrap_iters", "200"]
    shown = CliRunner().invoke(command, words)
    assert shown.exit_code == 0, shown.output
    assert "judged: 3 players, 60 docs" in shown.output
    assert re.search(r"games won +games\n", shown.output)
    assert re.search(r" 70\.0% +60\n", shown.output)
    (data,) = json.loads(CliRunner().invoke(command, [*words, "--json"]).output)
    assert [player["games"] for player in data["players"]] == [60, 120, 60]


def test_runs_without_pairs_have_no_scale(folder: Path) -> None:
    with pytest.raises(ConfigError, match="pairs"):
        win_scales(runs(folder, "plain"))


def test_labels_of_people_move_the_scale(folder: Path, tmp_path: Path) -> None:
    """People call every game of the run a loss but the first ten; the judge is corrected by it."""
    from assay.evaluation import score_again
    from assay.results import read_samples

    rows: list[dict[str, Any]] = []
    for row in read_samples(folder / "plus2" / "samples" / "judged.parquet"):
        note = json.loads(row["questions"])[0]["note"]
        verdict = "win" if row["doc_id"] < 10 else "loss"
        rows.append({"doc_hash": row["doc_hash"], "answer_hash": note["answer_hash"], "verdict": verdict})
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = {"labels": [str(tmp_path / "labels.jsonl")]}
    score_again(folder / "plus2", words, run_dir=tmp_path / "checked")
    (scale,) = win_scales([tmp_path / "checked"])
    assert scale.labels == DOCS
    assert not scale.notes
    assert scale.players[0].name == "file.jsonl", "the judge alone would have the run ahead"
