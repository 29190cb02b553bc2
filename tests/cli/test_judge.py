"""`assay judge check` says what a judge is worth."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from tests.scoring.judges.bench import judge, run, write_bench
from tests.scoring.judges.test_labels import is_right, label

from assay.analyses.judging import check_judges
from assay.cli.judge import command
from assay.evaluation import score_again


def test_agreement_calibration_and_what_more_labels_would_give(tmp_path: Path) -> None:
    write_bench(tmp_path, 300, judged="scorer: {type: judge}")
    run(tmp_path, "judged", run_dir=str(tmp_path / "run"))
    labels = label(tmp_path, "run", lambda i: is_right(i) != (i % 10 == 0), every=4)
    score_again(tmp_path / "run", {"labels": [str(labels)]}, run_dir=tmp_path / "checked")
    (found,) = check_judges(tmp_path / "checked")
    assert found.agreement == 1 - 15 / 75
    assert [each.verdict for each in found.calibration] == [0.0, 1.0]
    assert found.half_width_with_more is not None
    assert found.half_width is not None
    assert found.half_width_with_more < found.half_width
    shown = CliRunner().invoke(command, ["check", str(tmp_path / "checked")])
    assert shown.exit_code == 0, shown.output
    for word in ("80.0% of 75 labels", "sensitivity", "specificity", "100 more labels", "length and error"):
        assert word in shown.output
    assert json.loads(CliRunner().invoke(command, ["check", str(tmp_path / "checked"), "--json"]).output)


def test_a_panel_and_repeats_are_checked_against_themselves(tmp_path: Path) -> None:
    scorer = "scorer: {type: judge, kind: grade, judges: [judge, second], judge_repeats: 3}"
    write_bench(tmp_path, judged=scorer)
    roles = {"judge": judge(tmp_path), "second": judge(tmp_path, name="second")}
    run(tmp_path, "judged", run_dir=str(tmp_path / "run"), roles=roles)
    (found,) = check_judges(tmp_path / "run")
    assert found.panel.value == 1.0, "both follow the same rule"
    assert found.repeats.value is not None
    assert found.repeats.value < 1.0
    assert not found.check.is_corrected
    shown = CliRunner().invoke(command, ["check", str(tmp_path / "run")]).output
    assert "judge, unchecked" in shown
    assert "panel, α" in shown


def test_a_model_that_judges_itself_is_warned_about(tmp_path: Path) -> None:
    write_bench(tmp_path, judged="scorer: {type: judge}")
    judging = judge(tmp_path)
    judging["model_args"]["model"] = "some-model"
    other = run(tmp_path, "judged", roles={"judge": judging}, model_args={"model": "another"})
    assert not other.notes
    same = run(
        tmp_path, "judged", run_dir=str(tmp_path / "run"), roles={"judge": judging}, model_args={"model": "some-model"}
    )
    (warning,) = check_judges(tmp_path / "run")[0].warnings
    assert warning == "judge is also the model under test, and models favour their own answers"
    assert warning in same.notes


def test_of_pairs_the_longer_answer_is_what_counts(tmp_path: Path) -> None:
    """The opponent's answers grow longer, the run's hardly do: the judge, which prefers larger numbers, goes by both."""
    write_bench(tmp_path, judged=f"scorer: {{type: judge, kind: pairwise, opponent: {tmp_path}/other.jsonl}}")
    rows = [{"doc_id": i, "answer": "9" * (1 + i % 4)} for i in range(30)]
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(tmp_path, "judged", run_dir=str(tmp_path / "run"))
    (found,) = check_judges(tmp_path / "run")
    assert found.opinion_length is not None
    assert found.opinion_length > 0.5
