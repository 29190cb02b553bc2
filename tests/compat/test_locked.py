"""Everything of our own works when nothing of `assay.compat` can be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TASK = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
process_docs: !function sums.process_docs
doc_to_text: "{{question}} ="
doc_to_target: answer
"""
CLASS_TASK = """
include: sums.yaml
task: asked_twice
class: !function sums.AskedTwice
metric_list: [exact_match]
"""
CODE = """
from assay.instance import Instance
from assay.tasks import GenerateTask
from .signs import SIGN

def process_docs(docs):
    return docs.map(lambda doc: {"question": doc["question"].replace("plus", SIGN)})

class AskedTwice(GenerateTask):
    def construct_requests(self, doc, ctx, **kwargs):
        return super().construct_requests(doc, f"{ctx} {ctx}", **kwargs)
"""
MODEL = """
from assay.models import LM

class Four(LM):
    def loglikelihood(self, requests):
        return [(-1.0, True) for _ in requests]
    def loglikelihood_rolling(self, requests):
        return [-1.0 for _ in requests]
    def generate_until(self, requests):
        return ["4" for _ in requests]
"""
LOCKED = """
import json
import sys
from pathlib import Path
sys.modules["assay.compat"] = None  # every import of it, or from it, fails
import assay
from assay.cli import main

def command(*arguments):
    try:
        main(list(arguments))
    except SystemExit as end:
        assert not end.code, (arguments, end.code)

def scores(**config):
    assay.evaluate(include_path=["."], store="answers.sqlite", **config)
    return json.loads(Path(config["run_dir"], "results.json").read_text())["results"]

assert set(scores(model="dummy", tasks=["sums", "asked_twice"], run_dir="a")) == {"sums", "asked_twice"}
assert scores(model="four.py:Four", tasks=["sums"], run_dir="b")["sums"]["exact_match,none"] == 0.5
command("ls", "tasks", "sums", "--include_path", ".")
command("validate", "sums", "asked_twice", "--include_path", ".")
command("show", "sums", "--include_path", ".")
command("run", "--model", "dummy", "--tasks", "sums", "--include_path", ".", "--run_dir", "c")
for form in ("lm-eval", "inspect"):
    command("export", "c", "--to", form, "-o", form)
    command("report", form)
    command("import", form)
"""


def test_the_house_works_with_the_attic_locked(tmp_path: Path) -> None:
    (tmp_path / "sums.yaml").write_text(TASK)
    (tmp_path / "twice.yaml").write_text(CLASS_TASK)
    (tmp_path / "sums.py").write_text(CODE)
    (tmp_path / "signs.py").write_text("SIGN = '+'\n")
    (tmp_path / "four.py").write_text(MODEL)
    (tmp_path / "sums.jsonl").write_text(
        '{"question": "2 plus 2", "answer": "4"}\n{"question": "2 plus 3", "answer": "5"}\n'
    )
    (tmp_path / "locked.py").write_text(LOCKED)
    done = subprocess.run([sys.executable, "locked.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_that_needs_another_harness_says_so(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text("from lm_eval.api.metrics import mean\n")
    code = (
        "import sys; sys.modules['assay.compat'] = None\n"
        "from pathlib import Path; from assay.config import FunctionRef\n"
        "FunctionRef('utils.mean', Path('.')).load()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "MissingPackage" in done.stderr
    assert "assay.compat" in done.stderr


def test_no_file_of_the_catalog_comes_from_another_harness() -> None:
    """import-linter sees packages only, and the catalog is none."""
    import assay.catalog

    files = [file for folder in assay.catalog.__path__ for file in Path(folder).rglob("*.py")]
    assert files
    assert [file.name for file in files if "assay.compat" in file.read_text(encoding="utf-8")] == []
