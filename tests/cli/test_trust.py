"""Task files from strangers: looking at them runs nothing of theirs, and says what it therefore did not check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from assay.config import FunctionRef, outline, reading_only
from assay.errors import ConfigError, UntrustedCode
from assay.tasks import TaskManager

BAIT = """import pathlib
pathlib.Path(__file__).with_name("RAN").write_text("ran")
def f(*given, **named):
    return given[0] if given else None
class Thing:
    def __init__(self, *given, **named): pass
    def apply(self, resps, docs): return resps
"""
TASK = """task: baited
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
"""
HOOKS = {
    "process_docs": "process_docs: !function bait.f\n",
    "doc_to_text": TASK.replace('doc_to_text: "{{q}}"', "doc_to_text: !function bait.f"),
    "doc_to_target": TASK.replace('doc_to_target: "{{a}}"', "doc_to_target: !function bait.f"),
    "process_results": "process_results: !function bait.f\n",
    "metric": "metric_list: [{metric: !function bait.f}]\n",
    "aggregation": "metric_list: [{metric: exact_match, aggregation: !function bait.f}]\n",
    "filter": "filter_list: [{name: x, filter: [{function: !function bait.Thing}]}]\n",
    "sampler": "num_fewshot: 1\nfewshot_split: test\nfewshot_config: {sampler: !function bait.Thing}\n",
    "shots": "num_fewshot: 1\nfewshot_config: {samples: !function bait.f}\n",
    "custom_dataset": TASK.replace(
        "dataset_path: json\ndataset_kwargs: {data_files: {test: docs.jsonl}}", "custom_dataset: !function bait.f"
    ),
    "class": "task: baited\nclass: !function bait.Thing\n",
    "scorer": "scorer: {type: !function bait.Thing}\n",
    "reducer": "repeats: 2\nreducer: !function bait.f\n",
    "turns": "turns: [!function bait.f]\n",
    "importable": "process_docs: !function importable_bait.f\n",
    "inside a package": "process_docs: !function packaged_bait.inner.f\n",
}
"""Every place of a task file that code can stand in."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    for name in ("ASSAY_LM_EVAL_TASKS", "ASSAY_DATA_DIR", "ASSAY_INCLUDE_PATH"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "files"
    importable = tmp_path / "importable"
    for place in (root, importable, importable / "packaged_bait"):
        place.mkdir()
    monkeypatch.syspath_prepend(str(importable))
    (root / "bait.py").write_text(BAIT)
    (importable / "importable_bait.py").write_text(BAIT)
    (importable / "packaged_bait" / "__init__.py").write_text(BAIT)
    (importable / "packaged_bait" / "inner.py").write_text(BAIT)
    (root / "docs.jsonl").write_text('{"q": "One?", "a": "1"}\n')
    return root


def ran(folder: Path) -> list[Path]:
    return sorted(folder.parent.rglob("RAN"))


def put(folder: Path, hook: str) -> None:
    text = HOOKS[hook]
    (folder / "baited.yaml").write_text(text if text.startswith("task:") else TASK + text)
    (folder / "group.yaml").write_text(
        "group: pack\ntask: [baited]\naggregate_metric_list:\n  - {metric: exact_match, aggregation: !function bait.f}\n"
    )


@pytest.mark.parametrize("hook", HOOKS)
def test_looking_at_a_strangers_task_runs_nothing_of_it(folder: Path, run: Run, hook: str) -> None:
    put(folder, hook)
    where = ["--include_path", str(folder), "--no-defaults"]
    for words in (
        ["ls"],
        ["ls", "--json"],
        ["show", "baited"],
        ["show", "baited", "--json"],
        ["show", "pack", "--tree"],
    ):
        assert run(*words, *where)[0] == 0, words
    run("schema", "task")
    code, out, _ = run("validate", "--json", *where)
    found = json.loads(out)
    assert (code, found["failures"]) == (0, [])
    assert {item["name"] for item in found["unchecked"]} == {"baited", "pack"}
    assert all("bait" in item["reason"] for item in found["unchecked"])
    said = run("validate", *where)[1]
    assert "? not checked: " in said
    assert "--trust" in said
    code, _, err = run("show", "baited", "--doc", "0", *where)
    assert code == 2
    assert "--trust" in err
    assert ran(folder) == []


@pytest.mark.parametrize("hook", ["process_docs", "importable", "inside a package", "class"])
def test_trust_runs_the_code(folder: Path, run: Run, hook: str) -> None:
    put(folder, hook)
    run("validate", "--trust", "baited", "--include_path", str(folder))
    assert ran(folder)


def test_show_doc_with_trust_makes_the_prompt(folder: Path, run: Run) -> None:
    put(folder, "process_docs")
    code, out, _ = run("show", "baited", "--doc", "0", "--trust", "--include_path", str(folder))
    assert code == 0
    assert "One?" in out


def test_a_run_implies_trust(folder: Path, run: Run) -> None:
    put(folder, "process_docs")
    code, _, err = run("run", "--model", "dummy", "--tasks", "baited", "--include_path", str(folder))
    assert code == 0, err
    assert ran(folder)


def test_files_of_the_package_are_trusted(run: Run, folder: Path) -> None:
    code, out, _ = run("validate", "--json", "hellaswag", "ifeval", "minerva_math500")
    found = json.loads(out)
    assert code == 0
    assert found["unchecked"] == []


def test_a_package_function_that_a_stranger_names_is_not_called(run: Run, folder: Path) -> None:
    (folder / "baited.yaml").write_text(TASK + "process_docs: !function assay.paths.read_regular\n")
    _, out, _ = run("validate", "--json", "baited", "--include_path", str(folder))
    assert ["assay.paths.read_regular" in item["reason"] for item in json.loads(out)["unchecked"]] == [True]


def test_what_can_be_seen_to_be_wrong_is_still_an_error(run: Run, folder: Path) -> None:
    (folder / "typo.py").write_text("def process(docs):\n    return docs\n")
    (folder / "syntax.py").write_text("def f(:\n")
    (folder / "deep.py").write_text("x = " + "(" * 5000 + "1" + ")" * 5000)
    (folder / "lacks.py").write_text("import surely_not_installed\ndef f(docs): ...\n")
    (folder / "may.py").write_text(
        "try:\n    import surely_not_installed\nexcept ImportError:\n    pass\ndef f(d): ...\n"
    )
    for module, says in {
        "typo": "has no 'f'",
        "syntax": "not valid Python",
        "deep": "not valid Python",
        "lacks": "needs the package 'surely_not_installed'",
        "absent": "no module 'absent'",
    }.items():
        (folder / "baited.yaml").write_text(TASK + f"process_docs: !function {module}.f\n")
        code, out, _ = run("validate", "baited", "--include_path", str(folder))
        assert code == 2
        assert says in out
    (folder / "baited.yaml").write_text(TASK + "process_docs: !function may.f\n")
    assert run("validate", "baited", "--include_path", str(folder))[0] == 0


def test_the_rest_of_a_task_with_code_is_checked_without_trust(run: Run, folder: Path) -> None:
    (folder / "baited.yaml").write_text(TASK + "process_docs: !function bait.f\nmetric_list: [{metric: exact_mach}]\n")
    code, out, _ = run("validate", "baited", "--include_path", str(folder))
    assert code == 2
    assert "unknown metric 'exact_mach'" in out


def test_a_name_that_the_code_may_register_is_not_checked(run: Run, folder: Path) -> None:
    (folder / "own.py").write_text(
        "from assay.filters import FILTERS\n@FILTERS.register('own')\nclass Own: ...\ndef f(docs):\n    return docs\n"
    )
    (folder / "baited.yaml").write_text(
        TASK + "process_docs: !function own.f\nfilter_list: [{name: x, filter: [{function: own}]}]\n"
    )
    code, out, _ = run("validate", "baited", "--include_path", str(folder))
    assert code == 0
    assert "unless the code of !function own.f registers it" in out


CLASSES = """import pathlib
from assay.tasks import BaseTask, MCStyle
pathlib.Path(__file__).with_name("RAN").write_text("ran")
class Shared(BaseTask):
    SAMPLE_SPLIT = "test"
class Rivers(Shared):
    NAME = "Rivers"
    DATASET_PATH = "x"
    SUBJECTS = ["europe", "asia"]
    TASK_STYLER = MCStyle()
"""


def test_python_tasks_are_listed_shown_and_validated_by_their_source(run: Run, folder: Path) -> None:
    (folder / "rivers.py").write_text(CLASSES)
    where = ["--include_path", str(folder / "rivers.py"), "--no-defaults"]
    rows = json.loads(run("ls", "--json", *where)[1])
    assert [row["name"] for row in rows] == ["Rivers", "Rivers_asia", "Rivers_europe"]
    assert "├── Rivers_europe" in run("show", "Rivers", "--tree", *where)[1]
    assert "class: '!function rivers.Rivers'" in run("show", "Rivers_asia", *where)[1]
    code, out, _ = run("validate", "--json", *where)
    found = json.loads(out)
    assert (code, found["tasks"], found["groups"]) == (0, {"loaded": 2, "failed": 0}, {"loaded": 1, "failed": 0})
    assert {item["name"] for item in found["unchecked"]} >= {"Rivers_asia", "Rivers_europe"}
    assert run("show", "Rivers_asia", "--doc", "0", *where)[0] == 2
    assert ran(folder) == []


def test_a_python_task_that_lacks_what_it_needs_is_an_error_without_trust(run: Run, folder: Path) -> None:
    (folder / "rivers.py").write_text(CLASSES.replace('    DATASET_PATH = "x"\n', ""))
    code, _, err = run("validate", "--include_path", str(folder / "rivers.py"), "--no-defaults")
    assert code == 2
    assert "has no DATASET_PATH" in err
    assert ran(folder) == []


def test_a_name_that_is_computed_needs_trust(run: Run, folder: Path) -> None:
    (folder / "rivers.py").write_text(CLASSES.replace('NAME = "Rivers"', 'NAME = "Riv" + str("ers")'))
    code, _, err = run("ls", "--include_path", str(folder / "rivers.py"), "--no-defaults")
    assert code == 2
    assert "NAME of the task class Rivers" in err
    assert ran(folder) == []


def test_reading_only_holds_for_every_way_to_the_code(folder: Path) -> None:
    put(folder, "process_docs")
    with reading_only():
        loaded = TaskManager(folder, include_defaults=False).load("baited")
        with pytest.raises(UntrustedCode):
            list(loaded.tasks["baited"].eval_docs)
        with pytest.raises(UntrustedCode):
            FunctionRef("bait.f", folder)()
        with pytest.raises(UntrustedCode):
            FunctionRef("os.system")("true")
    assert ran(folder) == []


@pytest.mark.parametrize(
    ("text", "names", "is_open"),
    [
        ("a = b, (c, *d) = 1, 2", {"a", "b", "c", "d"}, False),
        ("if x:\n    def f(): pass\nelse:\n    from y import g as h", {"f", "h"}, False),
        ("with open('x') as file, x as y:\n    z = 1", {"file", "y", "z"}, False),
        ("for i in range(3):\n    try:\n        pass\n    except E as e:\n        k = 1", {"i", "k"}, False),
        ("def f():\n    hidden = 1\nclass C:\n    inner = 1", {"f", "C"}, False),
        ("(n := 3)\nx: int = 1\nimport a.b.c", {"n", "x", "a"}, False),
        ("from y import *", {"*"}, True),
        ("globals()['f'] = 1", set(), True),
        ("def __getattr__(name): ...", {"__getattr__"}, True),
        ("match x:\n    case 1:\n        q = 1", {"q"}, False),
    ],
)
def test_an_outline_knows_what_a_module_binds(tmp_path: Path, text: str, names: set[str], is_open: bool) -> None:
    (tmp_path / "module.py").write_text(text)
    found = outline(tmp_path / "module.py")
    assert (found.names, found.is_open) == (names, is_open)


def test_an_outline_of_a_pipe_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "module.py")
    with pytest.raises(ConfigError):
        outline(tmp_path / "module.py")


def test_ls_in_a_strangers_directory_imports_nothing_of_it(folder: Path) -> None:
    """`python -m` puts the working directory first on the path, so a stray module may be in the way of ours."""
    (folder / "baited.yaml").write_text(TASK + "process_docs: !function bait.f\n")
    for words in (["ls", "tasks"], ["validate", "baited"], ["show", "baited"]):
        subprocess.run(
            [sys.executable, "-m", "assay", *words, "--include_path", "."], cwd=folder, check=True, capture_output=True
        )
    assert ran(folder) == []
