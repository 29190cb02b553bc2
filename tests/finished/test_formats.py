"""The registry of formats: rows from packages, names on the command line, and any run written as a run directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.finished.test_readers import (
    LM_EVAL,
    inspect_sample,
    lighteval_rows,
    write_inspect,
    write_lighteval,
)

import assay
from assay.cli import main
from assay.errors import AssayError, ConfigError, DataError, UnknownName
from assay.finished import PARTS, RUN_FORMATS, AnsweredDoc, Run, RunFormat, export_run, open_run, run_of_docs
from assay.results import RunResult


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RUN_FORMATS, "_entries", dict(RUN_FORMATS._entries))
    monkeypatch.setattr(RUN_FORMATS, "_lazy", dict(RUN_FORMATS._lazy))


def table(path: Path) -> Path:
    path.write_text("run,doc,score,cluster\n" + "".join(f"m,d{i},{i % 3 / 2},c{i // 2}\n" for i in range(12)))
    return path


def written(path: Path) -> dict[str, Path]:
    """A small run of every format of others."""
    return {
        "lm-eval": LM_EVAL,
        "inspect": write_inspect(path / "inspect", [inspect_sample(i, "C" if i % 2 else "I") for i in range(1, 9)]),
        "lighteval": write_lighteval(path / "lighteval", lighteval_rows([1.0, 0.0, 1.0, 0.0])),
        "table": table(path / "scores.csv"),
    }


def exit_code(*arguments: object) -> int:
    try:
        main([*map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def write_names(run: Run, folder: Path) -> list[Path]:
    """As a package would: with nothing but the run's own methods."""
    lines = [f"{task} {doc.doc_id} {doc.metrics}" for task in run.tasks for doc in run.docs(task)]
    (folder / "names.txt").write_text("\n".join(lines))
    return [folder / "names.txt"]


@pytest.mark.parametrize("entry", [write_names, RunFormat(write=write_names)])
def test_a_writer_of_a_package_can_be_named_on_the_command_line(tmp_path: Path, entry: RunFormat) -> None:
    RUN_FORMATS.add("names", entry)
    assert exit_code("export", LM_EVAL, "--to", "names", "-o", tmp_path) == 0
    assert len((tmp_path / "names.txt").read_text().splitlines()) == 88


def test_a_reader_and_a_writer_come_from_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_format.py").write_text(
        "from assay.finished import AnsweredDoc, RunFormat, run_of_docs\n"
        "def docs(task, ids):\n"
        "    for i in range(4):\n"
        "        yield AnsweredDoc(i, f'{i}', {'q': i}, i, metrics={'right': i % 2})\n"
        "def read(path):\n"
        "    return run_of_docs(['t'], docs, path=path, model='m', origin='theirs')\n"
        "ROW = RunFormat(lambda path: path.suffix == '.theirs', read)\n"
        "def write(run, folder):\n"
        "    (folder / 'x').write_text(run.result.model_name)\n"
        "    return [folder / 'x']\n"
    )
    info = tmp_path / "their_format-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-format\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[assay.run_readers]\ntheirs = their_format:ROW\n[assay.exports]\ntheir-file = their_format:write\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(RUN_FORMATS, "_plugins_read", False)
    (tmp_path / "a.theirs").touch()
    run = open_run(tmp_path / "a.theirs")
    assert (run.format, run.result["t"]["right"].value) == ("theirs", 0.5)
    (made,) = export_run(tmp_path / "a.theirs", "their-file", tmp_path / "out")
    assert made.read_text() == "m"


def test_what_cannot_be_written_names_what_can(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="cannot be written") as error:
        export_run(LM_EVAL, "lighteval", tmp_path)
    assert error.value.exit_code == 2
    with pytest.raises(UnknownName, match="not known"):
        export_run(LM_EVAL, "lmeval", tmp_path)
    with pytest.raises(ConfigError, match="takes no --organization"):
        export_run(LM_EVAL, "csv", tmp_path, organization="us")


def test_a_part_that_a_run_lacks_is_named_with_what_would_have_it(tmp_path: Path) -> None:
    run = open_run(table(tmp_path / "scores.csv"))
    assert [part for part in PARTS if run.has(part)] == ["samples"]
    with pytest.raises(ConfigError, match=r"\(table\) has no prompts") as error:
        run.require("samples", "prompts")
    assert error.value.hint
    with pytest.raises(ConfigError, match="has no task 'x'"):
        run.columns("x")


@pytest.mark.parametrize("name", ["lm-eval", "inspect", "lighteval", "table"])
def test_every_run_becomes_a_run_directory_with_the_same_docs_and_values(tmp_path: Path, name: str) -> None:
    before = open_run(written(tmp_path)[name])
    export_run(before, "assay", tmp_path / "run")
    after = open_run(tmp_path / "run")
    assert (after.format, after.result.origin, after.tasks) == ("assay", before.result.origin, before.tasks)
    for task in before.tasks:
        old, new = before.columns(task), after.columns(task)
        assert list(old) == list(new)
        for key, column in old.items():
            assert new[key].docs.tolist() == column.docs.tolist()
            assert json.dumps(new[key].values.tolist()) == json.dumps(column.values.tolist())
            assert (new[key].requests is None) == (column.requests is None)
            if column.requests is not None:
                assert new[key].requests.tolist() == column.requests.tolist()
            reported, ours = before.result.tasks[task].scores[key], after.result.tasks[task].scores[key]
            assert ours.estimate.value == pytest.approx(reported.estimate.value)
            assert ours.estimate.method.endswith("(assay, from samples)")
        for theirs, mine in zip(before.docs(task), after.docs(task), strict=True):
            assert (mine.filter, mine.doc_id, mine.doc_hash) == (theirs.filter, theirs.doc_id, theirs.doc_hash)
            assert json.dumps(mine.filtered) == json.dumps(theirs.filtered)
            assert [r.arguments[0] for r in mine.requests] == [r.arguments[0] for r in theirs.requests]


def test_our_own_run_is_copied_whole(tmp_path: Path) -> None:
    export_run(LM_EVAL, "assay", tmp_path / "one")
    export_run(tmp_path / "one", "assay", tmp_path / "two")
    first, second = (RunResult.load(tmp_path / name) for name in ("one", "two"))
    assert first == second
    names = {path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*")}
    assert names == {path.relative_to(tmp_path / "two") for path in (tmp_path / "two").rglob("*")}


def test_a_table_without_rows_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("run,doc,score\n")
    with pytest.raises(DataError, match="without rows"):
        open_run(tmp_path / "empty.csv")


def test_an_empty_log_is_a_run_without_scores(tmp_path: Path) -> None:
    empty = write_inspect(tmp_path / "log", [])
    written = export_run(empty, "assay", tmp_path / "run")
    assert all(path.is_file() for path in written)
    assert (open_run(tmp_path / "run").tasks, open_run(empty).columns("arith")) == ((), {})


def test_a_run_that_breaks_off_leaves_no_sample_file(tmp_path: Path) -> None:
    def docs(task: str, ids: object) -> Iterator[AnsweredDoc]:
        yield AnsweredDoc(0, "0", {}, None, metrics={"x": 1.0})
        if broken:
            raise ConfigError("cut off")

    broken: list[bool] = []
    run = run_of_docs(["t"], docs, path=tmp_path, model="m", origin="theirs")
    broken.append(True)
    with pytest.raises(ConfigError, match="cut off"):
        export_run(run, "assay", tmp_path / "run")
    assert [path for path in (tmp_path / "run").rglob("*") if path.is_file()] == []


def test_a_results_file_that_is_no_run_is_not_the_run_below_it(tmp_path: Path) -> None:
    run, store = tmp_path / "run", str(tmp_path / "store.sqlite")
    assay.evaluate(model="dummy", tasks=["demo_facts"], limit=2, run_dir=str(run), store=store)
    assert open_run(run / "results.json").path == run
    (tmp_path / "results.json").write_text('{"results": null}')
    with pytest.raises(AssayError):
        open_run(tmp_path / "results.json")
