"""`ls`, `show` and `validate` on real files."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def no_other_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    for name in ("ASSAY_LM_EVAL_TASKS", "ASSAY_DATA_DIR", "ASSAY_INCLUDE_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    put(folder, "base", "dataset_path: d\ntest_split: test\ndoc_to_text: '{{q}}'\ndoc_to_target: a\n")
    put(folder, "a.yaml", "include: base\ntask: a\ntag: letters\noutput_type: generate_until\n")
    put(folder, "b.yaml", "include: base\ntask: b\ntag: letters\n")
    put(folder, "g.yaml", "group: g\ntask: [a, b]\naggregate_metric_list:\n  - metric: exact_match\n")
    return folder


def put(root: Path, name: str, text: str | bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def options(root: Path) -> list[str]:
    return ["--no-defaults", "--include_path", str(root)]


def test_ls_json_has_name_kind_and_path(run: Run, root: Path) -> None:
    code, out, _ = run("ls", "--json", *options(root))
    rows = json.loads(out)
    assert code == 0
    assert [(row["name"], row["kind"]) for row in rows] == [
        ("a", "task"),
        ("b", "task"),
        ("g", "group"),
        ("letters", "tag"),
    ]
    assert rows[0]["path"] == str(root / "a.yaml")


def test_ls_by_kind_and_pattern(run: Run, root: Path) -> None:
    assert [row["name"] for row in json.loads(run("ls", "tasks", "a*", "--json", *options(root))[1])] == ["a"]
    assert [row["name"] for row in json.loads(run("ls", "lett", "--json", *options(root))[1])] == ["letters"]
    assert run("ls", "tasks", *options(root))[1].splitlines()[1].split() == ["a", "generate_until", "0", "d"]
    assert run("ls", "nonsense", "x", *options(root))[0] == 2


DESCRIBED = (
    "include: base\ntask: {name}\noutput_type: multiple_choice\nnum_fewshot: 5\n"
    "metadata:\n  version: 1.0\n  description: Which of four words, a long way down the list, does not belong?\n"
)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_ls_shows_type_shots_and_description_at_every_width(
    run: Run, root: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "a_name_that_goes_on_and_on_until_no_terminal_has_room_for_anything_else"
    put(root, "odd.yaml", DESCRIBED.format(name="odd_word"))
    put(root, "long.yaml", DESCRIBED.format(name=long))
    put(root, "styled.yaml", "include: base\ntask: styled\nstyle: {name: bpb}\n")
    monkeypatch.setenv("COLUMNS", str(width))
    out = run("ls", *options(root))[1]
    lines = out.splitlines()
    assert [line for line in lines if line != line.rstrip() or (len(line) > width and line != long)] == []
    assert lines[0].split()[:3] == ["name", "type", "shots"]
    assert long in out
    assert str(root) not in out
    assert next(line for line in lines if line.startswith("odd_word")).split()[:3] == [
        "odd_word",
        "multiple_choice",
        "5",
    ]
    assert " ".join(out.split()).count("Which of four words, a long way down the list, does not belong?") == 2
    assert next(line for line in lines if line.startswith("styled")).split()[1:3] == ["style", "bpb"]
    assert "2 tasks" in out


def test_ls_in_a_pipe_has_one_line_an_entry(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    put(root, "odd.yaml", DESCRIBED.format(name="odd_word"))
    assert len(run("ls", *options(root))[1].splitlines()) == 6


def test_a_file_that_includes_another_takes_over_its_shots_and_description(run: Run, root: Path) -> None:
    put(root, "odd.yaml", DESCRIBED.format(name="odd_word"))
    put(root, "heir.yaml", "include: odd.yaml\ntask: heir\n")
    put(root, "own.yaml", "include: odd.yaml\ntask: own\nnum_fewshot: 0\nmetadata: {version: 2}\n")
    rows = {row["name"]: row for row in json.loads(run("ls", "--json", *options(root))[1])}
    assert (rows["heir"]["num_fewshot"], rows["heir"]["about"][:5]) == (5, "Which")
    assert (rows["own"]["num_fewshot"], rows["own"]["about"]) == (0, "d")
    kept = {row["name"]: row for row in json.loads(run("ls", "--json", *options(root))[1])}
    assert kept == rows, "the same from the kept index"


def test_ls_of_nothing(run: Run, root: Path) -> None:
    assert json.loads(run("ls", "zzz", "--json", *options(root))[1]) == []
    assert "no tasks" in run("ls", "tasks", "zzz", *options(root))[2]


def test_ls_shows_broken_files_with_their_error(run: Run, root: Path) -> None:
    put(root, "broken.yaml", "- 1\n")
    put(root, "named.yaml", "task: named\nx: [\n")
    code, out, _ = run("ls", "--json", *options(root))
    errors = {row["name"]: row.get("error", "") for row in json.loads(out)}
    assert code == 0
    assert "found a list" in errors["broken.yaml"]
    assert "not valid YAML" in errors["named"]
    assert errors["a"] == ""


@pytest.mark.parametrize(("kind", "one"), [("models", "dummy"), ("metrics", "exact_match"), ("filters", "take_first")])
def test_ls_of_registries(run: Run, kind: str, one: str) -> None:
    rows = json.loads(run("ls", kind, "--json")[1])
    found = next(row for row in rows if row["name"] == one)
    assert (found["kind"], ":" in found["path"]) == (kind.removesuffix("s"), True)
    assert found["about"]


def test_show_names_the_file_and_line_of_every_field(run: Run, root: Path) -> None:
    code, out, _ = run("show", "a", *options(root))
    assert code == 0
    lines = {line.partition(":")[0]: line for line in out.splitlines()}
    assert lines["doc_to_text"].endswith(f"# {root / 'base'}:3")
    assert lines["task"].endswith(f"# {root / 'a.yaml'}:2")
    assert "repeats: 1" in out
    data = json.loads(run("show", "a", "--json", *options(root))[1])[0]
    assert data["config"]["dataset_path"] == "d"
    assert data["origins"]["dataset_path"] == {"path": str(root / "base"), "line": 1}


def test_show_gives_no_line_of_a_file_for_what_the_name_says(run: Run, root: Path) -> None:
    put(
        root, "c.yaml", "include: base\ntask: c\noutput_type: multiple_choice\nnum_fewshot: 1\ndoc_to_choice: '{{c}}'\n"
    )
    lines = run("show", "c:mc:4shot", *options(root))[1].splitlines()
    assert not [line for line in lines if line.startswith(("output_type", "generation_kwargs"))]
    assert [re.split(r"  +# ", line) for line in lines if line.startswith(("num_fewshot", "style"))] == [
        ["num_fewshot: 4", "the name"],
        ["style:", "the name"],
    ]
    assert next(line for line in lines if line.startswith("doc_to_choice")).endswith("c.yaml:5")


def test_show_prints_the_tree_of_a_group(run: Run, root: Path) -> None:
    put(root, "top.yaml", "group: top\ntask:\n  - g\n  - {task: a, if: 'model.params > 1'}\n")
    assert run("show", "top", "--tree", *options(root))[1].splitlines() == [
        "top",
        "├── g  [exact_match: mean]",
        "│   ├── a",
        "│   └── b",
        "└── a  if model.params > 1",
    ]


def test_show_a_doc_as_the_model_would_get_it(run: Run, root: Path, tmp_path: Path) -> None:
    put(tmp_path, "data/d/default/test.jsonl", '{"q": "One?", "a": "1"}\n{"q": "Two?\\n", "a": "2"}\n')
    words = ["show", "a", "--doc", "1", "--data_dir", str(tmp_path / "data"), *options(root)]
    code, out, _ = run(*words)
    assert code == 0
    assert "Two?⏎" in out
    (request,) = json.loads(run(*words, "--json")[1])
    assert request["arguments"][0] == "Two?\n"
    assert run("show", "a", "--doc", "5", "--data_dir", str(tmp_path / "data"), *options(root))[0] == 2


def test_show_a_doc_with_its_target_and_all_choices(run: Run, root: Path, tmp_path: Path) -> None:
    put(tmp_path, "data/d/default/test.jsonl", '{"q": "One?", "a": 1, "c": ["uno", "due tre"]}\n')
    put(root, "c.yaml", "include: base\ntask: c\noutput_type: multiple_choice\ndoc_to_choice: c\n")
    place = ["--doc", "0", "--data_dir", str(tmp_path / "data"), *options(root)]
    out = run("show", "c", *place)[1]
    assert out.endswith("── choices ──\n  0  uno\n→ 1  due·tre\n── target ──\n1\n")
    put(tmp_path, "data/d/default/test.jsonl", '{"q": "One?", "a": "eins"}\n')
    assert run("show", "a", *place)[1].endswith("── target ──\neins\n")


def test_tokens_takes_a_model_that_was_pulled(run: Run, root: Path, tmp_path: Path) -> None:
    put(tmp_path, "data/d/default/test.jsonl", '{"q": "One?", "a": "1"}\n')
    code, _, said = run(
        "show", "a", "--doc", "0", "--tokens", "smollm2-135m", "--data_dir", str(tmp_path / "data"), *options(root)
    )
    assert code != 0
    assert "assay fetch --model smollm2-135m" in said, "not looked for on the hub"


def validate(run: Run, root: Path, *words: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = run("validate", *words, "--json", *options(root))
    return code, json.loads(out)


def test_validate_counts(run: Run, root: Path) -> None:
    code, found = validate(run, root)
    assert code == 0
    assert found["tasks"] == {"loaded": 2, "failed": 0}
    assert found["groups"] == {"loaded": 1, "failed": 0}
    assert found["failures"] == []
    assert "tasks: 2 loaded, 0 failed" in run("validate", *options(root))[1]


WRONG = {
    "unknown key": ("taks: x\n", "unknown key 'taks'"),
    "include": ("include: absent\n", "no file"),
    "function": ("process_docs: !function utils.nope\n", "utils.py has no 'nope'"),
    "module": ("process_docs: !function absent.f\n", "no module 'absent'"),
    "metric": ("metric_list: [{metric: exact_mach}]\n", "unknown metric 'exact_mach'"),
    "aggregation": ("metric_list: [{metric: exact_match, aggregation: meen}]\n", "unknown aggregation 'meen'"),
    "filter": ("filter_list: [{name: f, filter: [{function: regexx}]}]\n", "unknown filter 'regexx'"),
    "filter argument": (
        "filter_list: [{name: f, filter: [{function: regex, pattern: x}]}]\n",
        "cannot be created from|pattern",
    ),
    "regex": (
        "filter_list: [{name: f, filter: [{function: regex, regex_pattern: '('}]}]\n",
        "cannot be created from|pattern",
    ),
    "filters of one name": (
        "filter_list: [{name: f, filter: []}, {name: f, filter: []}]\n",
        "two filters are named .f.",
    ),
    "template": ("doc_to_text: '{{q'\n", "not valid Jinja"),
    "sampler": ("fewshot_config: {sampler: random_n}\n", "unknown few-shot sampler"),
    "split": ("test_split: null\n", "no split to evaluate"),
    "dataset": ("dataset_path: null\n", "it has no dataset"),
    "package": ("process_docs: !function needs.f\n", "needs the package 'surely_not_installed'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_validate_really_checks(run: Run, root: Path, case: str) -> None:
    text, reason = WRONG[case]
    put(root, "utils.py", "def process(docs):\n    return docs\n")
    put(root, "needs.py", "import surely_not_installed\n")
    include = "" if case == "include" else "include: base\n"
    put(root, "wrong.yaml", f"task: wrong\n{include}{text}")
    code, found = validate(run, root)
    assert code == 2
    assert found["tasks"] == {"loaded": 2, "failed": 1}
    (failure,) = found["failures"]
    assert failure["name"] == "wrong"
    assert failure["path"] == str(root / "wrong.yaml")
    assert re.search(reason, failure["reason"]), failure["reason"]
    assert failure["missing_package"] == ("surely_not_installed" if case == "package" else None)
    assert f"{root / 'wrong.yaml'}:" in failure["reason"] or case in ("include", "dataset", "split")


def test_a_group_file_finds_the_tasks_of_the_files_beside_it(run: Run, root: Path) -> None:
    """As the pre-commit hook names them: each changed file by its path, and no directory."""
    code, out, err = run("validate", str(root / "g.yaml"), str(root / "a.yaml"), "--no-defaults")
    assert code == 0, out + err
    assert "groups: 1 loaded, 0 failed" in out
    put(root, "g.yaml", "group: g\ntask: [a, c]\n")
    code, out, _ = run("validate", str(root / "g.yaml"), "--no-defaults")
    assert code == 2
    assert "there is no task, group or tag named 'c'" in out


def test_validate_renders_the_first_doc_where_the_data_are_at_hand(run: Run, root: Path, tmp_path: Path) -> None:
    put(tmp_path, "data/d/default/test.jsonl", '{"question": "One?", "a": "1"}\n')
    code, found = validate(run, root, "a", "--data_dir", str(tmp_path / "data"))
    assert code == 2
    assert "'q'" in found["failures"][0]["reason"]
    assert "question" in found["failures"][0]["reason"]


def test_all_that_ships_with_its_data_is_valid_and_can_be_shown(run: Run) -> None:
    """Agents too, whose tools are offered in chats alone."""
    code, out, err = run("validate", "demo", "demo_agent", "--json")
    assert (code, json.loads(out)["failures"]) == (0, []), err
    for name in ("demo_agent_table", "demo_agent_files", "demo_capitals_en", "demo_prose"):
        code, out, err = run("show", name, "--doc", "0", "--apply_chat_template")
        assert code == 0, err
    assert (
        '"columns"'
        in run("show", "demo_agent_table", "--doc", "0", "--apply_chat_template")[1].partition("<|user|>")[0]
    )


def test_validate_names_bad_groups(run: Run, root: Path) -> None:
    put(root, "x.yaml", "group: x\ntask: [y]\n")
    put(root, "y.yaml", "group: y\ntask: [x]\n")
    put(root, "z.yaml", "group: z\ntask: [absent]\n")
    put(root, "w.yaml", "group: w\ntask: [a]\naggregate_metric_list: [{metric: exact_match, aggregation: meen}]\n")
    code, found = validate(run, root)
    reasons = {failure["name"]: failure["reason"] for failure in found["failures"]}
    assert code == 2
    assert found["groups"] == {"loaded": 1, "failed": 4}
    assert "x → y → x" in reasons["x"]
    assert "no task, group or tag named 'absent'" in reasons["z"]
    assert "unknown aggregator 'meen'" in reasons["w"]


def test_validate_blames_a_group_for_what_it_writes_itself(run: Run, root: Path) -> None:
    put(root, "h.yaml", "group: h\ntask:\n  - {task: own, dataset_path: d}\n  - {task: b, doc_to_text: '{{'}\n")
    _, found = validate(run, root)
    assert found["tasks"] == {"loaded": 2, "failed": 0}
    assert [failure["name"] for failure in found["failures"]] == ["h", "h"]


def test_validate_collects_warnings_and_goes_on(run: Run, root: Path) -> None:
    put(root, "slip.yaml", "task: slip\ninclude: base\nmetric_list: [{metric: exact_match, high_is_better: true}]\n")
    code, found = validate(run, root)
    assert code == 0
    assert "high_is_better is treated as higher_is_better" in found["warnings"][0]


def test_what_task_modules_print_does_not_spoil_the_json(run: Run, root: Path) -> None:
    put(root, "loud.py", "print('hello')\ndef f(docs):\n    return docs\n")
    put(root, "loud.yaml", "task: loud\ninclude: base\nprocess_docs: !function loud.f\n")
    assert validate(run, root)[0] == 0


BAD_FILES: dict[str, str | bytes] = {
    "empty": "",
    "syntax": "task: bad\nx: [1\n",
    "tabs": "task: bad\nmetadata:\n\tversion: 1\n",
    "list": "- task: bad\n",
    "circle": "include: bad.yaml\ntask: bad\n",
    "not utf-8": b"task: bad\ndescription: caf\xe9\n",
    "laughs": "a0: &a0 [ha]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40)) + "task: bad\n",
    "nested": "task: bad\na: " + "[" * 50_000 + "]" * 50_000,
}


@pytest.mark.parametrize("case", BAD_FILES)
@pytest.mark.parametrize("verb", ["validate", "show"])
def test_every_bad_file_is_exit_code_2_and_a_message(run: Run, root: Path, case: str, verb: str) -> None:
    path = put(root, "bad.yaml", BAD_FILES[case])
    code, out, err = run(verb, str(path), *options(root))
    assert code == 2
    assert "bad.yaml" in out + err
    assert "Traceback" not in out + err


def test_a_file_without_permission(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is made here; the loader's own test steps down for a real one."""
    path = put(root, "bad.yaml", "task: bad\n")

    open_file = os.open

    def refuse(file: Any, *arguments: Any, **options: Any) -> int:
        if str(file) == str(path):
            raise PermissionError(13, "Permission denied")
        return open_file(file, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    code, out, _ = run("validate", str(path), *options(root))
    assert code == 2
    assert f"{path}: no permission to read it" in out


def test_two_files_with_one_name_is_exit_code_2(run: Run, root: Path) -> None:
    put(root, "second.yaml", "task: a\ninclude: base\n")
    code, _, err = run("show", "a", *options(root))
    assert code == 2
    assert "defined more than once" in err
    assert validate(run, root)[1]["tasks"]["failed"] == 1


def test_python_tasks_are_found_by_their_file(run: Run, tmp_path: Path) -> None:
    path = put(
        tmp_path,
        "capitals.py",
        "from assay.tasks import MCStyle\n\n\nclass Capitals:\n"
        "    NAME = 'Capitals'\n    DATASET_PATH = 'x'\n    SAMPLE_SPLIT = 'test'\n    FEWSHOT_SPLIT = 'train'\n"
        "    SUBJECTS = ['europe', 'asia']\n    TASK_STYLER = MCStyle()\n"
        "    def _get_raw_question(self, item):\n        return item['q']\n"
        "    def _get_choices(self, item):\n        return item['c']\n"
        "    def _get_correct_index(self, item):\n        return item['a']\n",
    )
    rows = json.loads(run("ls", "--json", *options(path))[1])
    assert [(row["name"], row["kind"]) for row in rows] == [
        ("Capitals", "group"),
        ("Capitals_asia", "task"),
        ("Capitals_europe", "task"),
    ]
    assert "├── Capitals_europe" in run("show", "Capitals", "--tree", *options(path))[1]
