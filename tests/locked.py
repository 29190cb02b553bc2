"""Code run by an interpreter in which a folder of `assay` cannot be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PREAMBLE = """
import sys
sys.modules["{folder}"] = None  # every import of it, or from it, fails
import assay
from assay.cli import main

def command(*arguments):
    try:
        main(list(arguments))
    except SystemExit as end:
        return end.code or 0
    return 0
"""

TASK = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
doc_to_text: "{{question}} ="
doc_to_target: answer
"""
DOCS = '{"question": "2 + 2", "answer": "4"}\n{"question": "2 + 3", "answer": "5"}\n'


def run_without(folder: str, code: str, place: Path, **files: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in `place` with these files beside it (and the task `sums`), while `folder` is hidden."""
    for name, text in {"sums.yaml": TASK, "sums.jsonl": DOCS, **files}.items():
        (place / name).write_text(text)
    (place / "locked.py").write_text(PREAMBLE.format(folder=folder) + code)
    return subprocess.run([sys.executable, "locked.py"], cwd=place, capture_output=True, text=True, timeout=300)
