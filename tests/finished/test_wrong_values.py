"""Nulls and wrong types in the files of every format, one value at a time: an error that names them or a run that every verb takes."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.finished.test_genuine import GENUINE
from tests.finished.test_readers import LM_EVAL

from assay import evaluate
from assay.analyses.compare import compare_runs
from assay.errors import AssayError
from assay.finished import RUN_FORMATS, export_run, open_runs, read_scores
from assay.finished.formats import format_at

SETS = {
    "inspect": (GENUINE / "inspect/json", "*.json"),
    "harbor": (GENUINE / "harbor/attempts", "*.json"),
    "nemo": (GENUINE / "nemo/repeats", "*.json*"),
    "verifiers": (GENUINE / "verifiers/rollouts", "*.json*"),
    "eee": (GENUINE / "eee/agent", "*.json*"),
    "eval-framework": (GENUINE / "evalframework/repeats", "*.json*"),
    "openai": (GENUINE / "openai/facets", "*.jsonl"),
    "lm-eval": (LM_EVAL, "*.json*"),
}
WRONG: tuple[Any, ...] = (None, True, -1, 1e308, float("nan"), 10**30, "", "text", [], [[]], {}, {"a": [1]}, "\ud800")
Place = tuple[str | int, ...]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ours")
    evaluate(model="dummy", tasks=["demo_english"], limit=3, run_dir=str(folder / "run"), store=str(folder / "s.db"))
    return folder / "run"


def places(node: Any, at: Place = ()) -> Iterator[Place]:
    yield at
    inside = node.items() if isinstance(node, dict) else enumerate(node[:2]) if isinstance(node, list) else ()
    for key, each in inside:
        yield from places(each, (*at, key))


def changed(data: Any, at: Place, value: Any) -> Any:
    if not at:
        return value
    data = node = copy.deepcopy(data)
    for key in at[:-1]:
        node = node[key]
    node[at[-1]] = value
    return data


def spoil(file: Path, line: int | None, at: Place, value: Any) -> None:
    if line is None:
        file.write_text(json.dumps(changed(json.loads(file.read_text()), at, value)))
        return
    lines = file.read_text().splitlines()
    lines[line] = json.dumps(changed(json.loads(lines[line]), at, value))
    file.write_text("\n".join(lines) + "\n")


def use(run: Path, folder: Path) -> None:
    """Whatever reads a run: its docs and columns, its scores alone, a comparison, exports."""
    name, row = format_at(run)
    runs = open_runs(run)
    for each in runs:
        for task in each.tasks:
            list(each.docs(task))
            each.columns(task)
        each.result.to_dict()
    compare_runs([runs[0], runs[0]])
    for place in [run] if name == "assay" else sorted(run.rglob("*.json"))[:2]:
        try:
            read_scores(place, name, row)
        except AssayError:
            continue
    for to in RUN_FORMATS:
        if RUN_FORMATS[to].write is not None:
            try:
                export_run(runs[0], to, folder / to)
            except AssayError:
                continue


def check(run: Path, folder: Path) -> None:
    """Anything but an error of ours fails the test."""
    with contextlib.suppress(AssayError):
        use(run, folder)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "seed"),
    [pytest.param(n, s, marks=[] if s < 4 else [pytest.mark.wide]) for n in [*SETS, "assay"] for s in range(150)],
)
def test_a_wrong_value_anywhere_is_an_error_or_a_run(name: str, seed: int, ours: Path, tmp_path: Path) -> None:
    rng = random.Random(f"{name} {seed}")
    source, pattern = SETS.get(name, (ours, "results.json"))
    shutil.copytree(source, tmp_path / "run")
    file = rng.choice(sorted((tmp_path / "run").rglob(pattern)))
    lines = file.read_text().splitlines()
    line = rng.randrange(len(lines)) if file.suffix == ".jsonl" else None
    found = json.loads(file.read_text() if line is None else lines[line])
    spoil(file, line, rng.choice(list(places(found))), rng.choice(WRONG))
    check(tmp_path / "run", tmp_path)


TASK = ("assay", "tasks", "demo_facts")
GROUP = ("assay", "groups", "demo_english")
OURS: list[tuple[Place, Any]] = [
    ((*TASK, "scores", 0, "metric"), True),
    ((*TASK, "scores", 0, "aggregation"), [[]]),
    ((*TASK, "scores", 0, "value"), 1e308),
    ((*TASK, "stop_reason"), [[]]),
    ((*TASK, "task_hash"), True),
    ((*TASK, "num_fewshot"), [[]]),
    ((*TASK, "sample_len"), None),
    ((*GROUP, "children", 0), {}),
    ((*GROUP, "children", 0), "demo_english"),
    ((*GROUP, "scores", 0, "children", 1, "weight"), "text"),
    (("assay", "roots", 0), -1),
    (("date",), 1e30),
    (("date",), "text"),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("at", "value"), OURS, ids=[f"{at[-1]}-{value!r}"[:40] for at, value in OURS])
def test_a_wrong_value_in_our_results_is_named(at: Place, value: Any, ours: Path, tmp_path: Path) -> None:
    shutil.copytree(ours, tmp_path / "run")
    results = json.loads((tmp_path / "run/results.json").read_text())
    tasks, groups = results["assay"]["tasks"], results["assay"]["groups"]
    known = {"demo_facts": next(iter(tasks)), "demo_english": next(iter(groups))}
    at = tuple(known.get(str(key), key) for key in at)
    spoil(tmp_path / "run/results.json", None, at, known.get(str(value), value))
    check(tmp_path / "run", tmp_path)


LM_EVAL_CASES: list[tuple[str, Place, Any]] = [
    ("samples_mini_colours*", ("arguments", "gen_args_3"), {"a": [1]}),
    ("samples_mini_colours*", ("filter",), float("nan")),
    ("samples_mini_colours*", ("filter",), {"a": [1]}),
    ("results*", ("task_hashes", "mini_colours"), -1),
    ("results*", ("n-shot", "mini_colours"), {"a": [1]}),
    ("results*", ("group_subtasks", "mini", 0), "mini"),
]


@pytest.mark.parametrize(("pattern", "at", "value"), LM_EVAL_CASES)
def test_a_wrong_value_of_lm_eval_is_named(pattern: str, at: Place, value: Any, tmp_path: Path) -> None:
    shutil.copytree(LM_EVAL, tmp_path / "run")
    (file,) = (tmp_path / "run").glob(f"{pattern}.json*")
    spoil(file, 0 if file.suffix == ".jsonl" else None, at, value)
    check(tmp_path / "run", tmp_path)


def test_groups_that_share_all_their_members_level_by_level_are_read_in_no_time(tmp_path: Path) -> None:
    """Forty levels, each twice the next: two to the forty paths."""
    shutil.copytree(LM_EVAL, tmp_path / "run")
    (file,) = (tmp_path / "run").glob("results*.json")
    data = json.loads(file.read_text())
    for n in range(40):
        for side in "ab":
            below = ["mini_colours"] if n == 39 else [f"g{n + 1}a", f"g{n + 1}b"]
            data["group_subtasks"][f"g{n}{side}"] = below
            data["results"][f"g{n}{side}"] = {"alias": "g", **data["results"]["mini"]}
    file.write_text(json.dumps(data))
    with pytest.raises(AssayError, match="rows"):
        open_runs(tmp_path / "run")


def test_half_a_character_in_a_name_is_refused_where_a_file_would_have_it(tmp_path: Path) -> None:
    shutil.copytree(GENUINE / "nemo/repeats", tmp_path / "run")
    (file,) = (tmp_path / "run").glob("eval-*.json")
    spoil(file, None, ("benchmark", "name"), "\ud800")
    with pytest.raises(AssayError, match="half of a surrogate pair"):
        export_run(tmp_path / "run", "inspect", tmp_path / "out")
