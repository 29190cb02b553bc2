"""Twelve typical changes, each made from outside in one small file of `outside/`, and seen wherever it should appear.

The files are installed as a package would be: a folder on the path, and entry points. A process of its own runs them, so
that no test knows of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

OUTSIDE = Path(__file__).parent / "outside"
DOCS = 4_000
"""More than a window of requests: a filter over all docs must see them all at once."""

TASKS = {
    "choices": """
output_type: multiple_choice
doc_to_choice: choices
doc_to_target: answer
metric_list: [{metric: acc, interval: jeffreys}, {metric: margin, aggregation: mean, higher_is_better: true}]
""",
    "other_choices": """
output_type: multiple_choice
doc_to_choice: "{{choices[::-1]}}"
doc_to_target: answer
metric_list: [{metric: acc}]
""",
    "written": """
output_type: generate_until
doc_to_target: "3000 of 4000"
generation_kwargs: {until: ["\\n"], max_gen_toks: 8}
filter_list: [{name: common, filter: [{function: common}, {function: take_first}]}]
metric_list: [{metric: exact_match}]
""",
    "likeliest": """
output_type: likeliest
doc_to_target: "{{choices[1]}}"
""",
}
COMMON = """
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
doc_to_text: "{{question}}"
"""
SCRIPT = """
import json, pathlib, time
import assay
from assay.finished import export_run
from assay.show import run_findings
from assay.tasks import TaskManager
from starlette.testclient import TestClient
from assay.view.server import create_app

names = ["both", "written", "likeliest"]
result = assay.evaluate(model="longest", tasks=names, include_path=["."], include_defaults=False, run_dir="runs/one", store="db")
found = run_findings(result)
task = TaskManager().load(["demo_capitals_en:riddle:0shot"]).tasks["demo_capitals_en:riddle:0shot"]
client = TestClient(create_app([pathlib.Path("runs")], scratch=pathlib.Path("scratch")), base_url="http://127.0.0.1")
run_id = json.loads(client.get("/?download=jsonl").text.splitlines()[0])["id"]
export_run("runs/one", "lines", "out")
pages = {"run": client.get(f"/run/{run_id}").text, "sizes": client.get(f"/sizes?run={run_id}").text}
while "data-reload" in pages["sizes"]:
    time.sleep(0.2)
    pages["sizes"] = client.get(f"/sizes?run={run_id}").text
print(json.dumps({
    "terminal": found.to_text(200),
    "html": found.to_html(),
    "json": json.loads(found.to_json()),
    "notebook": found.to("notebook"),
    "csv": found.to_csv(),
    "viewer": pages["run"],
    "page": pages["sizes"],
    "prompt": next(iter(task.iter_requests())).instances[0].arguments[0],
    "exported": pathlib.Path("out/scores.txt").read_text(),
}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What a process with the outside package shows."""
    folder = tmp_path_factory.mktemp("outside")
    site, work = folder / "site", folder / "work"
    shutil.copytree(OUTSIDE, site / "outside")
    about = site / "outside-1.0.dist-info"
    about.mkdir()
    shutil.move(site / "outside" / "entry_points.txt", about / "entry_points.txt")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    work.mkdir()
    docs = [
        {"id": i, "question": f"Question {i}?", "choices": ["no", "longer"], "answer": int(i % 3 > 0)}
        for i in range(DOCS)
    ]
    (work / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    for name in ("choices", "other_choices", "written", "likeliest"):
        (work / f"{name}.yaml").write_text(f"task: {name}\n{COMMON}{TASKS[name]}")
    (work / "both.yaml").write_text(
        "group: both\ntask: [choices, other_choices]\naggregate_metric_list: [{metric: acc, aggregation: spread}]\n"
    )
    (work / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}

    def start(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    shown: dict[str, Any] = json.loads(start("script.py").splitlines()[-1])
    shown["verb"] = start("-m", "assay", "docs", "runs/one")
    shown["help"] = start("-m", "assay", "--help")
    shown["export"] = start("-m", "assay", "export", "runs/one", "--to", "lines", "-o", "again")
    return shown


PEOPLE = ("terminal", "html", "notebook", "viewer")


def in_all(seen: Mapping[str, Any], *words: str, where: tuple[str, ...] = PEOPLE) -> None:
    for place in where:
        for word in words:
            assert word in seen[place], (place, word)


def scores(seen: Mapping[str, Any], name: str) -> dict[str, Any]:
    block = seen["json"]["assay"]
    found: dict[str, Any] = {
        each["metric"]: each for each in block["tasks"].get(name, block["groups"].get(name))["scores"]
    }
    return found


def test_a_metric(seen: Mapping[str, Any]) -> None:
    in_all(seen, "margin")
    assert seen["json"]["results"]["choices"]["margin,none"] == pytest.approx((2 * 4 - 4) / 3, abs=0.01)


def test_a_filter_over_all_docs(seen: Mapping[str, Any]) -> None:
    in_all(seen, "common")
    assert seen["json"]["results"]["written"]["exact_match,common"] == 0.75, "each answer was counted among all docs"


def test_a_group_aggregator(seen: Mapping[str, Any]) -> None:
    in_all(seen, "spread of 2")
    members = [seen["json"]["results"][name]["acc,none"] for name in ("choices", "other_choices")]
    assert seen["json"]["groups"]["both"]["acc,none"] == pytest.approx(max(members) - min(members))
    assert scores(seen, "both")["acc"]["low"] is not None, "it is lifted to every replicate"


def test_a_model_backend(seen: Mapping[str, Any]) -> None:
    in_all(seen, "longest", where=("terminal", "html", "viewer"))
    assert seen["json"]["config"]["model"] == "longest"


def test_a_request_type(seen: Mapping[str, Any]) -> None:
    in_all(seen, "likeliest")
    assert seen["json"]["results"]["likeliest"]["exact_match,none"] == 1.0


def test_a_styler(seen: Mapping[str, Any]) -> None:
    assert seen["prompt"] == "Riddle: What is the capital of Laos?\nSolution:"


def test_a_results_column(seen: Mapping[str, Any]) -> None:
    in_all(seen, "half width", where=(*PEOPLE,))
    assert "half_width" in seen["csv"].splitlines()[0]


def test_a_verb(seen: Mapping[str, Any]) -> None:
    assert seen["verb"] == f"{4 * DOCS} docs\n"
    assert "docs" in seen["help"].partition("Added")[2]


def test_a_health_counter(seen: Mapping[str, Any]) -> None:
    in_all(seen, "75% apologetic")
    assert seen["json"]["assay"]["tasks"]["written"]["health"]["apologetic"] == 0.75 * DOCS


def test_an_exporter(seen: Mapping[str, Any]) -> None:
    assert "written exact_match,common 0.75" in seen["exported"]
    assert seen["export"].strip().endswith("scores.txt"), "it can be named on the command line"


def test_an_interval_method(seen: Mapping[str, Any]) -> None:
    assert scores(seen, "choices")["acc"]["method"] == "jeffreys"
    assert scores(seen, "other_choices")["acc"]["method"] == "wilson", "only where a task names it"
    assert "jeffreys" in seen["csv"]


def test_a_viewer_page(seen: Mapping[str, Any]) -> None:
    assert "docs in all" in seen["page"]
    assert f"{4 * DOCS:,}" in seen["page"]
