"""Slips in files and flags: what is wrong, where, and what was probably meant."""

from __future__ import annotations

from typing import Any

import pytest
from tests.own_files import Told, command, function, run, write_task

import assay
from assay.config import load_yaml
from assay.errors import AssayError, ConfigError, MissingPackage
from assay.finished import export_run
from assay.models import load_model
from assay.results import RunResult

SUMS = [{"question": f"{i}+1=", "answer": str(i + 1), "options": [str(i), str(i + 1)], "gold": i % 2} for i in range(4)]
GENERATION: dict[str, Any] = {"output_type": "generate_until", "doc_to_text": "question", "doc_to_target": "answer"}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"doc_to_target": function("u.broken")}, "def broken(doc):\n    return doc['x']\n"),
        ({"doc_to_text": function("u.broken")}, "def broken(doc):\n    return doc['x']\n"),
        ({"process_docs": function("u.broken")}, "def broken(docs):\n    return docs.map(lambda d: {'y': d['x']})\n"),
        (
            {"metric_list": [{"metric": function("u.broken")}]},
            "def broken(predictions, references):\n    return {}['x']\n",
        ),
        ({"process_results": function("u.broken")}, "def broken(doc, results):\n    return doc['x']\n"),
    ],
)
def test_errors_in_somebodys_code_give_file_line_and_doc(tmp_path, fields, code):
    file = write_task(tmp_path, SUMS, code, **{**GENERATION, **fields})
    with pytest.raises(AssayError) as caught:
        run(file)
    said = str(caught.value)
    assert f"{tmp_path}/u.py:2" in said
    assert "--debug" in said
    assert "doc 0" in said or "process_docs" in said


def test_the_doc_that_breaks_a_function_is_named(tmp_path):
    code = "def target(doc):\n    return doc['gold'][0]\n"
    choice = {
        "output_type": "multiple_choice",
        "doc_to_text": "q",
        "doc_to_choice": ["a", "b"],
        "doc_to_target": function("u.target"),
    }
    docs = [{"q": f"{i}", "gold": [i % 2] if i != 5 else []} for i in range(8)]
    model = Told()
    with pytest.raises(AssayError, match=r"doc 5.*u\.py:2") as caught:
        run(write_task(tmp_path, docs, code, **choice), model)
    assert "--debug" in str(caught.value)
    assert model.sent == 0


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("task: a\ndoc_to_text: x\ndoc_to_text: y\n", (3, 2)),
        ("task: a\ngeneration_kwargs:\n  until: [a]\n  until: [b]\n", (4, 3)),
        ("task: a\nmetric_list:\n  - metric: acc\n    metric: f1\n", (4, 3)),
    ],
)
def test_a_key_that_stands_twice_is_an_error_with_both_lines(tmp_path, text, lines):
    file = tmp_path / "t.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_yaml(file)
    assert f"t.yaml:{lines[0]}" in caught.value.message
    assert f"line {lines[1]}" in caught.value.message


def test_a_key_that_says_the_same_twice_is_told(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text("task: a\nnum_fewshot: 0\nnum_fewshot: 0\n")
    with pytest.warns(UserWarning, match="stands here and on line 2"):
        assert load_yaml(file).data["num_fewshot"] == 0


@pytest.mark.parametrize("written", ["{{answer}}", "{{answer}} and more", "So {{answer}}: yes"])
def test_a_template_without_quotes_is_told_to_be_quoted(tmp_path, written):
    file = tmp_path / "t.yaml"
    file.write_text(f"task: a\ndoc_to_target: {written}\n")
    with pytest.raises(ConfigError, match=r"t\.yaml:2") as caught:
        load_yaml(file)
    assert "uote" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("fields", "meant"),
    [
        ({"doc_to_text": "{{qestion}}"}, "question"),
        ({"doc_to_text": "qestion", "language": "en"}, "question"),
        ({"doc_to_target": "anwser", "language": "en"}, "answer"),
        ({"doc_to_choice": "optons", "doc_to_target": "gold", "output_type": "multiple_choice"}, "options"),
        ({"doc_to_choice": "options", "doc_to_target": "golt", "output_type": "multiple_choice"}, "gold"),
        ({"doc_to_choice": "optons", "doc_to_target": "gold", "style": "mc"}, "options"),
        ({"doc_to_choice": "options", "doc_to_target": "golt", "style": "mc"}, "gold"),
        ({"doc_to_choice": "optons", "doc_to_target": "golt", "output_type": "multiple_choice"}, "options"),
        ({"metric_list": ["accuracyy"]}, "acc"),
        ({"metric_list": ["exact_mach"]}, "exact_match"),
    ],
)
def test_a_slip_gets_a_suggestion_before_anything_is_sent(tmp_path, fields, meant):
    model = Told()
    with pytest.raises(AssayError) as caught:
        run(write_task(tmp_path, SUMS, **{**GENERATION, **fields}), model)
    assert (model.sent, f"Did you mean {meant}" in str(caught.value.hint)) == (0, True)


def test_a_word_that_is_no_column_is_told_in_files_of_the_harness(tmp_path):
    found = run(write_task(tmp_path, SUMS, **{**GENERATION, "doc_to_text": "qestion"}))
    assert any("'qestion'" in note and "question" in note for note in found.notes)


@pytest.mark.parametrize(("code", "said"), [("1 / 0", "ZeroDivisionError"), ("{}['x']", "KeyError")])
def test_a_doc_on_which_somebodys_scoring_fails_is_told_with_file_line_and_doc(tmp_path, code, said):
    body = f"def pr(doc, results):\n    return {{'ok': 1.0 if doc['question'] != '1+1=' else {code}}}\n"
    found = run(write_task(tmp_path, SUMS, body, **GENERATION, process_results=function("u.pr")))
    (why,) = found.tasks["mine"].health.reasons
    assert why == f"scoring failed: process_results: u.py:2: {said}, first in doc 1"


def test_a_dataset_of_somebodys_code_that_fails_is_told_as_such(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text("task: own\ncustom_dataset: !function u.data\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n")
    (tmp_path / "u.py").write_text("def data(**_):\n    return {}['x']\n")
    with pytest.raises(AssayError, match=r"custom_dataset failed: .*u\.py:2: KeyError"):
        run(file)


def test_an_argument_of_a_model_gets_a_suggestion():
    with pytest.raises(ConfigError) as caught:
        load_model("hf", {"pretained": "gpt2"})
    assert not isinstance(caught.value, MissingPackage)
    assert "Did you mean pretrained" in str(caught.value.hint)


@pytest.mark.parametrize(
    "name", ["hf", "dummy", "ngram", "local-completions", "local-chat-completions", "openai-completions"]
)
def test_a_model_is_called_as_it_was_named(name):
    wrong = {"pretrained": "x"} if name == "ngram" else {"wrongly": 1}
    with pytest.raises(ConfigError, match=f"the model {name} "):
        load_model(name, wrong)


@pytest.mark.parametrize("more", [(), ("--model_args", "seed=4")])
def test_arguments_may_follow_the_name_of_one_model(tmp_path, capsys, more):
    place = tmp_path / "run"
    tasks = ("--tasks", write_task(tmp_path, SUMS, **GENERATION), "--store", tmp_path / "s")
    assert command(capsys, "run", "--model", "dummy,seed=3", *more, *tasks, "--run_dir", place).code == 0
    assert RunResult.load(place).config["model_args"] == {"seed": 4 if more else 3}
    said = command(capsys, "run", "--model", "dummy,sed=3", *tasks, "--run_dir", tmp_path / "other")
    assert (said.code, "Did you mean seed?" in said.err) == (2, True)


@pytest.mark.parametrize("name", ["smolm2-135m", "smollm2-135m"])
def test_a_small_model_in_place_of_a_backend_gets_a_suggestion(name):
    with pytest.raises(ConfigError) as caught:
        load_model(name, {})
    assert "--model hf --model_args pretrained=smollm2-135m" in str(caught.value.hint)


def test_a_small_model_gets_a_suggestion(monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(AssayError) as caught:
        load_model("hf", {"pretrained": "smolm2-135m"}).loglikelihood([])
    assert "smollm2-135m" in str(caught.value.hint)


def test_a_device_that_is_not_there_is_not_proposed_again():
    torch = pytest.importorskip("torch")
    from assay.models.hf.loading import choose_device

    if torch.cuda.is_available():
        pytest.skip("there is such a device here")
    with pytest.raises(ConfigError) as caught:
        choose_device("cuda")
    assert "device_map" not in str(caught.value)


def test_a_plot_is_an_svg_or_a_png_or_refused(tmp_path):
    found = run(write_task(tmp_path, SUMS, **GENERATION))
    with pytest.raises(ConfigError, match="SVG or PNG"):
        found.plot().save(tmp_path / "a.pdf")
    assert not (tmp_path / "a.pdf").exists()
    pytest.importorskip("resvg_py")
    for each in (found.plot(), assay.compare(found, found).plot()):
        assert each.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert found.plot().save(tmp_path / "a.svg").read_text().startswith("<svg")


def test_an_export_that_fails_leaves_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store.db"))
    file, place = write_task(tmp_path, SUMS, **GENERATION), tmp_path / "run"
    command(capsys, "run", "--model", "dummy", "--tasks", file, "--run_dir", place)
    from assay.finished import formats

    def fails(run: Any, folder: Any, **settings: Any) -> Any:
        (folder / "inner").mkdir()
        raise ConfigError("no")

    row = formats.RUN_FORMATS["csv"]
    monkeypatch.setattr(formats, "writable_format", lambda to, settings: type(row)(**{**vars(row), "write": fails}))
    with pytest.raises(ConfigError):
        export_run(place, "csv", tmp_path / "out" / "deep")
    assert not (tmp_path / "out").exists()


def test_an_error_in_the_code_of_a_model_names_its_line(tmp_path, capsys):
    (tmp_path / "own.py").write_text(
        "from assay.models import LM\n\n\nclass Own(LM):\n"
        "    def loglikelihood(self, requests):\n        raise RuntimeError('no such layer')\n\n"
        "    generate_until = loglikelihood_rolling = loglikelihood\n"
    )
    file = write_task(tmp_path, SUMS, **GENERATION)
    said = command(
        capsys,
        "run",
        "--model",
        f"{tmp_path / 'own.py'}:Own",
        "--tasks",
        file,
        "--run_dir",
        tmp_path / "run",
        "--store",
        tmp_path / "store.db",
    )
    assert (said.code, f"{tmp_path / 'own.py'}:6: RuntimeError: no such layer" in said.err) == (3, True)
    assert ("--debug" in said.err, "Traceback" in said.err) == (True, False)


def test_a_python_file_in_place_of_a_task_file_is_told_how_it_is_named(tmp_path, capsys):
    file = tmp_path / "own.py"
    file.write_text("class Own:\n    NAME = 'Own'\n    x: int = 1\n    y = {'a': 1}\n")
    said = command(capsys, "run", "--model", "dummy", "--tasks", file)
    assert (said.code, f"--include_path {file} --tasks NAME" in " ".join(said.err.split())) == (2, True), said
