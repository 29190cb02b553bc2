"""Files and names of lm-evaluation-harness 0.5 on the command line: what is wrong is said before anything is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compat.lm_eval.test_flags import run
from tests.seeds.parts import Written, load_task, write_task
from tests.seeds.parts import run as evaluate

CAPITALS = [{"question": "What is the capital of France?", "choices": ["Berlin", "Paris"], "answer": 1}]
WRITES = "output_type: generate_until\ndoc_to_choice: choices\ndoc_to_target: '{{choices[answer]}}'\n"


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (
            "{type: regex, regexp: x}",
            "scorer: the filter regex has no argument 'regexp'\n  Did you mean regex_pattern?",
        ),
        ("{type: regex, kwargs: {group: 1}}", "scorer: the filter regex has no argument 'group'"),
        ("choice_matches", "scorer: unknown scorer 'choice_matches'\n  Did you mean choice_match or choice?"),
    ],
)
def test_what_is_wrong_with_a_scorer_is_said_with_its_line(
    scorer: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_task(tmp_path, "sums", f"scorer: {scorer}\n")
    assert run("validate", "--no-defaults", "--include_path", tmp_path) == 2
    said = capsys.readouterr().out
    assert message in said
    assert "sums.yaml:8:" in said
    assert run("run", "--model", "dummy", "--tasks", "sums", "--include_path", tmp_path) == 2
    assert "loading the model" not in capsys.readouterr().err


@pytest.mark.parametrize("scorer", ["choice_match", "choice", "first_token", "{type: regex, regex_pattern: '(P.*)'}"])
def test_a_written_task_with_a_scorer_can_be_asked_as_a_choice(scorer: str, tmp_path: Path) -> None:
    write_task(tmp_path, "capitals", f"{WRITES}scorer: {scorer}\n", CAPITALS)
    assert load_task(tmp_path, "capitals@mcqa").config.scorer is None
    found = evaluate(tmp_path, ["capitals@mcqa", "capitals"], Written(lambda prompt, draw: "Paris"))
    assert found["capitals@mcqa"]["acc"].value == 0.0, "A is the likelier label"
    assert found["capitals"]["exact_match"].value == 1.0


def test_a_group_that_includes_a_mapping_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_task(tmp_path, "a")
    (tmp_path / "g.yaml").write_text("group: g\ntask: [a]\ninclude: {num_fewshot: 2}\n")
    assert run("ls", "--no-defaults", "--include_path", tmp_path) == 0
    said = capsys.readouterr().out
    assert "g     group" in said
    assert "broken" not in said


def test_a_format_that_one_of_several_tasks_lacks_is_an_error_that_names_the_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_task(tmp_path, "cap_one", WRITES, CAPITALS)
    write_task(tmp_path, "cap_two", f"{WRITES}formats: {{mcqa: , short: {{type: cloze}}}}\n", CAPITALS)
    assert run("run", "--model", "dummy", "--tasks", "cap_*@cloze", "--include_path", tmp_path) == 2
    assert "task cap_two has no format 'cloze'\n  The task has: mcqa, short." in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["show", "ls", "validate"])
def test_a_directory_of_lm_eval_that_is_not_there_is_named(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tasks"] if verb == "ls" else []
    assert run(verb, *words, "demo_agreement", "--lm_eval", tmp_path / "gone") == 2
    assert f"{tmp_path / 'gone'}" in capsys.readouterr().err


def test_a_group_whose_members_write_their_answers_has_a_number_and_no_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choose = (
        "output_type: multiple_choice\ndoc_to_choice: choices\ndoc_to_target: answer\nmetric_list: [{metric: acc}]\n"
    )
    write_task(tmp_path, "cap", choose, CAPITALS)
    (tmp_path / "g.yaml").write_text(
        "group: g\ntask: [cap]\naggregate_metric_list: [{metric: acc, weight_by_size: true}]\n"
    )
    kept = ("--run_dir", tmp_path / "run", "--store", tmp_path / "store.sqlite")
    assert run("run", "--model", "dummy", "--tasks", "g@generate", "--include_path", tmp_path, *kept) == 0
    said = capsys.readouterr()
    assert "g@generate" in said.out
    assert "no member reports" not in said.err


def test_a_format_that_lists_choices_is_not_for_a_task_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_task(tmp_path, "sums")
    assert run("run", "--model", "dummy", "--tasks", "sums@generate", "--include_path", tmp_path) == 2
    assert "task sums@generate has no choices, which this format needs" in capsys.readouterr().err
    own = "formats: {type: generate, instruction: 'Add.', answer_prompt: '', gen_prefix: null}\n"
    write_task(tmp_path, "own", own)
    assert load_task(tmp_path, "own").build_all_requests()[0].args[0].startswith("Add.Question: 1+1=?")
