"""Answers with control characters and lone surrogates: shown as signs, and never a traceback."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from html import escape
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from tests.analyses.test_verbs import call
from tests.show.spoiled import Spoiled, write_tasks

from assay.evaluation import evaluate
from assay.finished import export_run

HOSTILE = "\x1b]0;pwned\x07 \ud800"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = write_tasks(tmp_path)
    for name, model in (("good", Spoiled()), ("hostile", Spoiled(text=HOSTILE))):
        evaluate(
            model=model,
            tasks=["words"],
            include_path=str(folder),
            run_dir=str(tmp_path / name),
            store=str(tmp_path / "store.sqlite"),
        )
    return tmp_path


def test_flips_show_signs_instead_of_sending_them(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "compare", runs / "good", runs / "hostile", "--flips")
    assert code == 0
    assert "␛]0;pwned␇ U+D800" in out
    assert not {"\x1b", "\x07", "\ud800"} & set(out)


@pytest.mark.parametrize("form", ["inspect", "lm-eval", "csv", "jsonl"])
def test_every_export_takes_them(runs: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    code, out, _ = call(capsys, "export", runs / "hostile", "--to", form, "-o", runs / "out")
    assert code == 0
    if form == "inspect":
        with zipfile.ZipFile(out.strip()) as archive:
            sample = json.loads(archive.read("samples/0_epoch_1.json").decode("utf-8"))
        assert sample["output"]["choices"][0]["message"]["content"] == "\x1b]0;pwned\x07 \ufffd"


def test_an_export_that_cannot_be_written_says_so(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "file").write_text("")
    code, _, err = call(capsys, "export", runs / "good", "--to", "csv", "-o", runs / "file" / "below")
    assert code == 2
    assert "cannot write to" in err


def test_no_cell_of_an_exported_table_is_a_formula(tmp_path: Path) -> None:
    docs = [{"q": str(i), "a": -i, "from": f"=HYPERLINK({i})"} for i in range(3)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (tmp_path / "sums.yaml").write_text(
        "task: sums\ndataset_path: json\ndataset_kwargs: {data_files: {test: docs.jsonl}}\ntest_split: test\n"
        'cluster: from\noutput_type: generate_until\ndoc_to_text: "{{q}}"\ndoc_to_target: a\n'
        'filter_list: [{name: "@SUM(1)", filter: [{function: take_first}]}]\nmetric_list: [{metric: exact_match}]\n'
    )
    store, run = str(tmp_path / "store.sqlite"), str(tmp_path / "run")
    evaluate(model="dummy", tasks=[str(tmp_path / "sums.yaml")], run_dir=run, store=store)
    table = export_run(run, "csv", tmp_path)[0]
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["cluster"] for row in rows] == [f"'=HYPERLINK({i})" for i in range(3)]
    assert {row["filter"] for row in rows} == {"'@SUM(1)"}
    assert [row["target"] for row in rows] == ["0", "-1", "-2"], "numbers stay numbers"


@pytest.mark.parametrize(
    "alias",
    [
        "<img src=x onerror=alert(1)>",
        "</td><script>alert(1)</script>",
        "[x](javascript:alert(1))",
        "![x](http://x/y.png)",
        "<!-- hidden",
        "a | b `c` **d** \\<b>e</b>",
        "</summary></details><h1>x</h1>",
        "&lt;img&gt; &#60;b&#62;",
    ],
)
def test_an_alias_becomes_no_markup_in_a_markdown_report(
    alias: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a real renderer that lets HTML through, as those of repositories do for some tags."""
    (tmp_path / "docs.jsonl").write_text('{"q": "x", "a": "y"}\n')
    (tmp_path / "t.yaml").write_text(
        "task: t\ndataset_path: json\ndataset_kwargs: {data_files: {test: docs.jsonl}}\ntest_split: test\n"
        f'output_type: generate_until\ndoc_to_text: "{{{{q}}}}"\ndoc_to_target: a\ntask_alias: {json.dumps(alias)}\n'
    )
    run = tmp_path / "run"
    evaluate(model="dummy", tasks=[str(tmp_path / "t.yaml")], run_dir=str(run), store=str(tmp_path / "s.sqlite"))
    _, out, _ = call(capsys, "report", run, "--format", "md")
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(out)
    tags = set(re.findall(r"<[/!]?([a-z0-9-]+)", page))
    assert tags <= {"h3", "p", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ul", "li"}
    assert escape(alias, quote=False) in page.replace("&quot;", '"')
