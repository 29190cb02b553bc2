"""The same command again leaves in a run directory what people had made there."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

import assay
from assay.cli.report import command as report


def test_the_report_and_the_sample_files_are_written_again(tmp_path: Path) -> None:
    place = tmp_path / "run"
    words = {"model": "dummy", "tasks": ["demo_agreement"], "limit": 4, "run_dir": str(place)}
    store = str(tmp_path / "s.sqlite")
    assay.evaluate(**words, store=store, log_samples=True)
    assert CliRunner().invoke(report, [str(place), "--format", "html"]).exit_code == 0
    before = {path.name for path in place.iterdir()}
    assert {"report.html", "samples_demo_agreement.jsonl"} <= before
    assay.evaluate(**words, store=store)
    assert {path.name for path in place.iterdir()} == before
