"""Broken task, group, Python and model files: `validate` and `run` answer each before anything is asked.

Every answer has the file, the line where there is one, and what to do; the exit code is 2, and there is no traceback.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import assay
from assay.cli.entry import main
from assay.errors import ConfigError

DATA = """{"q": "Which?", "c": ["red", "green"], "a": 0, "t": "red"}
{"q": "What?", "c": ["red", "blue"], "a": 1, "t": "blue"}
"""
CHOICE = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: docs.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{q}}}}"
doc_to_choice: c
doc_to_target: a
"""
GENERATION = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: docs.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{t}}}}"
"""
MODEL = """import pathlib
from assay.models import LM
class Asked(LM):
    def _note(self, requests):
        pathlib.Path(__file__).with_name("ASKED").write_text("asked")
    def loglikelihood(self, requests):
        self._note(requests)
        return [(-1.0, True) for _ in requests]
    def loglikelihood_rolling(self, requests):
        self._note(requests)
        return [-1.0 for _ in requests]
    def generate_until(self, requests):
        self._note(requests)
        return ["x" for _ in requests]
"""


class Broken(NamedTuple):
    text: str
    """What is added to a sound file, or, beginning with `task:`, `group:` or code, the whole of it."""
    says: str
    """A pattern that the message must hold."""
    base: str = CHOICE


def whole(text: str, says: str) -> Broken:
    return Broken(text, says, "")


TASKS = {
    # -- keys and values of the file
    "unknown_key": Broken("doc_to_txt: q\n", r":9: .*unknown key 'doc_to_txt'(?s:.)*doc_to_text"),
    "not_yaml": Broken("metric_list: [acc\n", r":\d+: not valid YAML"),
    "tab": Broken("metadata:\n\tversion: 1\n", r":10: not valid YAML"),
    "empty": whole("", r"the file is empty"),
    "list": whole("- task\n", r":1: found a list"),
    "no_name": whole("dataset_path: json\n", r"expected a name"),
    "output_type": Broken("output_type: multiple_choices\n", r"multiple_choice", GENERATION.replace("output_type: generate_until\n", "")),
    "repeats_zero": Broken("repeats: 0\n", r":8: .*repeats", GENERATION),
    "repeats_text": Broken("repeats: many\n", r":8: .*repeats", GENERATION),
    "num_fewshot_text": Broken("num_fewshot: some\n", r":9: .*num_fewshot"),
    "include_missing": Broken("include: nowhere.yaml\n", r"nowhere\.yaml"),
    "language": Broken("style: mc\nlanguage: Klingon\n", r":9: .*Klingon"),
    "perturbation": Broken("style: mc\nperturbation: tpyo\n", r":10: .*tpyo(?s:.)*typo"),
    "style": Broken("style: mcc\n", r":9: .*mcc"),
    # -- data
    "no_file": Broken("dataset_kwargs: {data_files: {test: gone.jsonl}}\n", r":8: .*there is no file gone\.jsonl", CHOICE.replace("dataset_kwargs: {{data_files: {{test: docs.jsonl}}}}\n", "")),
    "json_alone": whole("task: json_alone\ndataset_path: json\ntest_split: test\ndoc_to_text: q\ndoc_to_target: t\n", r"json_alone\.yaml:\d+: .*no files are named"),
    "no_dataset": whole("task: no_dataset\ntest_split: test\ndoc_to_text: q\ndoc_to_target: t\n", r"it has no dataset"),
    "no_split": whole("task: no_split\ndataset_path: json\ndataset_kwargs: {data_files: {test: docs.jsonl}}\ndoc_to_text: q\ndoc_to_target: t\n", r"no_split\.yaml:\d+: .*no split to evaluate"),
    "wrong_split": Broken("test_split: tset\n", r"tset", CHOICE.replace("test_split: test\n", "")),
    "shots": Broken("num_fewshot: 5\nfewshot_split: test\n", r":9: .*5 shots were requested"),
    # -- fields
    "text_column": Broken('doc_to_text: "{{question}}"\n', r":8: .*question", CHOICE.replace('doc_to_text: "{{{{q}}}}"\n', "")),
    "text_syntax": Broken('doc_to_text: "{{q"\n', r":8: .*doc_to_text", CHOICE.replace('doc_to_text: "{{{{q}}}}"\n', "")),
    "text_filter": Broken('doc_to_text: "{{q | uppr}}"\n', r":8: .*uppr", CHOICE.replace('doc_to_text: "{{{{q}}}}"\n', "")),
    "text_test": Broken('doc_to_text: "{% if q is strange %}x{% endif %}"\n', r":8: .*strange", CHOICE.replace('doc_to_text: "{{{{q}}}}"\n', "")),
    "choice_text": Broken('doc_to_choice: "{{q}}"\n', r":8: .*not a list", CHOICE.replace("doc_to_choice: c\n", "")),
    "choice_empty": Broken('doc_to_choice: "{{[]}}"\n', r":8: .*doc_to_choice", CHOICE.replace("doc_to_choice: c\n", "")),
    "gold_text": Broken("doc_to_target: q\n", r":8: .*no doc has its right answer", CHOICE.replace("doc_to_target: a\n", "")),
    "gold_number": Broken("doc_to_target: 7\n", r":8: .*no doc has its right answer", CHOICE.replace("doc_to_target: a\n", "")),
    # -- functions
    "function_module": Broken("process_docs: !function nowhere.f\n", r":9: .*nowhere"),
    "function_name": Broken("process_docs: !function helper.g\n", r":9: .*helper"),
    "function_path": Broken("process_docs: !function ../utils.f\n", r":9: .*\.\./utils"),
    "function_import": Broken("process_docs: !function failing.f\n", r"failing\.py:1: importing it failed"),
    "function_syntax": Broken("process_docs: !function unparsable.f\n", r"unparsable\.py:1: not valid Python"),
    "function_package": Broken("process_docs: !function needy.f\n", r"needs the package 'no_such_package_here'"),
    "function_empty": Broken("process_docs: !function\n", r":9: .*!function"),
    # -- metrics
    "metric": Broken("metric_list: [{metric: acc_nrom}]\n", r":9: .*unknown metric 'acc_nrom'(?s:.)*acc_norm"),
    "metric_kind": Broken("metric_list: [{metric: acc}]\n", r":8: .*acc.*generate_until", GENERATION),
    "metric_of_text": Broken("metric_list: [{metric: bleu}]\n", r":9: .*bleu does not apply to multiple_choice"),
    "metric_argument": Broken("metric_list: [{metric: exact_match, ignore_cases: true}]\n", r":8: .*ignore_cases(?s:.)*ignore_case", GENERATION),
    "metric_argument_of_choice": Broken("metric_list: [{metric: acc, ignore_cases: true}]\n", r":9: .*ignore_cases"),
    "metric_twice": Broken("metric_list: [{metric: acc}, {metric: acc}]\n", r":9: .*two metrics"),
    "aggregation": Broken("metric_list: [{metric: acc, aggregation: maen}]\n", r":9: .*maen(?s:.)*mean"),
    "reducer": Broken("reducer: frist\n", r":8: .*frist", GENERATION),
    "metric_no_name": Broken("metric_list: [{aggregation: mean}]\n", r":9: .*metric"),
    # -- filters
    "filter": Broken("filter_list: [{name: x, filter: [{function: regexx}]}]\n", r":8: .*regexx(?s:.)*regex", GENERATION),
    "filter_regex": Broken('filter_list: [{name: x, filter: [{function: regex, regex_pattern: "(["}]}]\n', r":8: .*\(\[", GENERATION),
    "filter_argument": Broken("filter_list: [{name: x, filter: [{function: regex, pattern: a}]}]\n", r":8: .*pattern", GENERATION),
    "filter_no_arguments": Broken("filter_list: [{name: x, filter: [{function: lowercase, how: yes}]}]\n", r":8: .*how", GENERATION),
    "filter_missing": Broken("filter_list: [{name: x, filter: [{function: take_first_k}]}]\n", r":8: .*k", GENERATION),
    "filter_twice": Broken("filter_list: [{name: x, filter: [{function: take_first}]}, {name: x, filter: [{function: take_first}]}]\n", r":8: .*two filters", GENERATION),
    # -- generation
    "until": Broken("generation_kwargs: {until: 3}\n", r":8: .*until is 3", GENERATION),
    "until_list": Broken("generation_kwargs: {until: [a, 3]}\n", r":8: .*until", GENERATION),
    "generation_name": Broken("generation_kwargs: {max_gen_tokens: 5}\n", r":8: .*max_gen_tokens(?s:.)*max_gen_toks", GENERATION),
    "generation_length": Broken("generation_kwargs: {max_gen_toks: many}\n", r":8: .*max_gen_toks", GENERATION),
    "temperature": Broken("generation_kwargs: {temperature: hot}\n", r":8: .*temperature", GENERATION),
    # -- shots
    "sampler": Broken("fewshot_config: {sampler: frist_n}\n", r":9: .*frist_n"),
    "fewshot_key": Broken("fewshot_config: {sample: []}\n", r":9: .*sample"),
}  # fmt: off
GROUPS = {
    "group_empty": whole("group: group_empty\ntask: []\n", r"group_empty\.yaml:\d+: .*no members"),
    "group_member": whole("group: group_member\ntask: [sond]\n", r"group_member\.yaml:2: .*sond(?s:.)*sound"),
    "group_circle": whole("group: group_circle\ntask: [group_circle]\n", r"contains itself"),
    "group_key": whole("group: group_key\ntask: [sound]\naggregate_metrics: []\n", r"group_key\.yaml:3: .*aggregate_metrics"),
    "group_aggregator": whole("group: group_aggregator\ntask: [sound]\naggregate_metric_list: [{metric: acc, aggregation: meen}]\n", r"group_aggregator\.yaml:3: .*meen(?s:.)*mean"),
    "group_metric": whole("group: group_metric\ntask: [sound]\naggregate_metric_list: [{metric: accc}]\n", r"group_metric\.yaml:3: .*'accc'(?s:.)*acc"),
    "group_filter_name": whole("group: group_filter_name\ntask: [sound]\naggregate_metric_list: [{metric: acc, filter_list: nnoe}]\n", r"group_filter_name\.yaml:3: .*nnoe"),
    "group_weights": whole("group: group_weights\ntask: [sound]\naggregate_metric_list: [{metric: acc, aggregation: weighted_mean, weights: {other: 1}}]\n", r"group_weights\.yaml:3: .*other"),
    "group_condition": whole("group: group_condition\ntask: [{task: sound, if: 'model.params >'}]\n", r"group_condition\.yaml:2: .*model\.params >"),
    "group_top": whole("group: group_top\ntask: [sound]\ngroup_filter: {function: top_k}\naggregate_metric_list: [{metric: acc}]\n", r"group_top\.yaml:3: .*k"),
    "group_missing": whole("group: group_missing\ntask: [sound]\naggregate_metric_list: [{metric: acc, missing: ignore}]\n", r"group_missing\.yaml:3: .*missing"),
    "group_scorer": whole("group: group_scorer\ntask: [sound]\nscorer: !function nowhere.f\n", r"group_scorer\.yaml:3: .*nowhere"),
}  # fmt: off
HELPERS = {
    "helper.py": "def f(docs):\n    return docs\n",
    "failing.py": "raise RuntimeError('no')\n",
    "unparsable.py": "def f(:\n",
    "needy.py": "import no_such_package_here\n",
}
YAML = {**TASKS, **GROUPS}

PYTHON_TASK = """from assay.tasks import BaseTask, MCStyle
class Colours(BaseTask[str]):
    NAME = "Colours"
    DATASET_PATH = "json"
    DATASET_KWARGS = {"data_files": {"test": "docs.jsonl"}}
    SAMPLE_SPLIT = "test"
    TASK_STYLER = MCStyle()
    def _get_raw_question(self, item):
        return item["q"]
    def _get_choices(self, item):
        return item["c"]
    def _get_correct_index(self, item):
        return item["a"]
"""


def changed(old: str, new: str, says: str) -> Broken:
    """The sound Python task with one line of it changed."""
    assert old in PYTHON_TASK
    return Broken(PYTHON_TASK.replace(old, new), says)


PYTHON = {
    # -- the file
    "syntax": Broken("class Colours(:\n", r"syntax\.py:1: not valid Python(?s:.)*Correct that line"),
    "import_fails": Broken("\nraise RuntimeError('no')\n", r"import_fails\.py:2: importing it failed: RuntimeError(?s:.)*--debug"),
    "exits": Broken("import sys\nsys.exit(3)\n", r"exits\.py:2: importing it failed: SystemExit"),
    "package": Broken("import no_such_package_here\n", r"package\.py:1 needs the package 'no_such_package_here'(?s:.)*pip install"),
    "no_task": Broken("x = 1\n", r"no_task\.py:1: no task class(?s:.)*NAME"),
    "empty": Broken("", r"empty\.py:1: no task class"),
    # -- what the class lacks
    "no_split": changed('    SAMPLE_SPLIT = "test"\n', "", r"no_split\.py:2: .*has no SAMPLE_SPLIT(?s:.)*Add SAMPLE_SPLIT"),
    "no_dataset": changed('    DATASET_PATH = "json"\n', "", r"no_dataset\.py:2: .*has no DATASET_PATH"),
    "no_choices": changed("_get_choices", "_choices", r"no_choices\.py:2: .*has no _get_choices"),
    "no_styler": changed("    TASK_STYLER = MCStyle()\n", "", r"no_styler\.py:2: .*has no TASK_STYLER"),
    # -- what nobody would read
    "attribute": changed("    TASK_STYLER", '    FEWSHOT_SPLT = "test"\n    TASK_STYLER', r"attribute\.py:7: .*unknown attribute FEWSHOT_SPLT(?s:.)*FEWSHOT_SPLIT"),
    "own_constant": changed("    TASK_STYLER", "    COLOURS = 3\n    TASK_STYLER", r"own_constant\.py:7: .*unknown attribute COLOURS(?s:.)*Start your own constants with _"),
    "hook": changed("_get_choices", "_get_chioces", r"hook\.py:10: .*unknown attribute _get_chioces(?s:.)*_get_choices"),
    # -- values
    "styler": changed("MCStyle()\n", '"mc"\n', r"styler\.py:7: .*TASK_STYLER is 'mc'(?s:.)*MCStyle\(\)"),
    "klingon": changed("    TASK_STYLER", '    LANGUAGE = "Klingon"\n    TASK_STYLER', r"klingon\.py:7: .*LANGUAGE.*'Klingon'(?s:.)*Known"),
    "languages": changed("    TASK_STYLER", '    LANGUAGE = {"a": "Klingon"}\n    TASK_STYLER', r"languages\.py:7: .*LANGUAGE.*'Klingon'"),
    "shots": changed("    TASK_STYLER", '    NUM_FEWSHOT = "some"\n    TASK_STYLER', r"shots\.py:7: .*num_fewshot"),
    "metrics": changed("    TASK_STYLER", '    METRICS = ["acc_nrom"]\n    TASK_STYLER', r"metrics\.py:7: .*'acc_nrom'(?s:.)*acc_norm"),
    "perturbation": changed("    TASK_STYLER", '    PERTURBATION = "tpyo"\n    TASK_STYLER', r"perturbation\.py:\d+: .*tpyo"),
    # -- data
    "json_alone": changed('    DATASET_KWARGS = {"data_files": {"test": "docs.jsonl"}}\n', "", r"json_alone\.py:4: .*no files are named(?s:.)*data_files"),
    "no_file": changed("docs.jsonl", "gone.jsonl", r"no_file\.py:5: .*there is no file gone\.jsonl"),
    "split": changed('SPLIT = "test"', 'SPLIT = "tset"', r"split\.py:6: .*tset(?s:.)*test"),
    # -- docs
    "column": changed('item["q"]', 'item["question"]', r"column\.py:9: task .Colours.: doc 0: .*question"),
    "index": changed('item["a"]', "7", r"index\.py:\d+: .*7"),
    "choices": changed('item["c"]', "[]", r"choices\.py:\d+: .*choices"),
}  # fmt: off
ASKED = "from assay.models import LM\nclass Asked(LM):\n"
METHODS = "".join(
    f"    def {name}(self, requests): ...\n" for name in ("loglikelihood", "loglikelihood_rolling", "generate_until")
)


class BrokenModel(NamedTuple):
    says: str
    model: str = "hf"
    arguments: str = "pretrained={folder}/model"
    files: Mapping[str, bytes] = {}
    """Written into the model's directory over those of a sound model; an empty one is taken away."""


def model_file(text: str, says: str, name: str = "Asked", arguments: str = "") -> BrokenModel:
    return BrokenModel(says, f"{{folder}}/model/own.py:{name}", arguments, {"own.py": text.encode()})


MODELS = {
    # -- a class in a file
    "own_syntax": model_file("class Asked(:\n", r"own\.py:1: not valid Python"),
    "own_import": model_file("\n1 / 0\n" + ASKED + METHODS, r"own\.py:2: importing it failed: ZeroDivisionError(?s:.)*--debug"),
    "own_package": model_file("import no_such_package_here\n" + ASKED + METHODS, r"own\.py:1 needs the package 'no_such_package_here'"),
    "own_name": model_file(ASKED + METHODS, r"own\.py:1: it has no class 'Askd'(?s:.)*Asked", "Askd"),
    "own_no_methods": model_file("class Asked:\n    pass\n", r"own\.py.*does not have the methods of a model(?s:.)*loglikelihood"),
    "own_abstract": model_file(ASKED + "    pass\n", r"own\.py.*making a Asked failed: TypeError.*abstract"),
    "own_raises": model_file(ASKED + "    def __init__(self):\n        raise OSError('no weights')\n" + METHODS, r"own\.py:4: making a Asked failed: OSError: no weights"),
    "own_exits": model_file(ASKED + "    def __init__(self):\n        raise SystemExit(5)\n" + METHODS, r"own\.py:4: making a Asked failed: SystemExit"),
    "own_argument": model_file(ASKED + "    def __init__(self, depth=1): ...\n" + METHODS, r"Asked.*deph(?s:.)*depth", arguments="deph=3"),
    "own_needs": model_file(ASKED + "    def __init__(self, depth): ...\n" + METHODS, r"Asked needs depth(?s:.)*--model_args depth="),
    "own_missing": BrokenModel(r"there is no file .*gone\.py(?s:.)*file\.py:ClassName", "{folder}/gone.py:Asked", ""),
    # -- names and arguments
    "name": BrokenModel(r"'huggingfac'(?s:.)*huggingface", "huggingfac"),
    "argument": BrokenModel(r"max_lenght(?s:.)*max_length", arguments="pretrained={folder}/model,max_lenght=5"),
    "no_argument": BrokenModel(r"needs pretrained(?s:.)*pretrained=smollm2-135m", arguments=""),
    "dtype": BrokenModel(r"dtype 'float31'(?s:.)*float32", arguments="pretrained={folder}/model,dtype=float31"),
    "ngram_text": BrokenModel(r"training text .*gone\.txt(?s:.)*text_file=", "ngram", "text_file={folder}/gone.txt"),
    "ngram_empty": BrokenModel(r"training text .*own\.txt is empty", "ngram", "text_file={folder}/model/own.txt", {"own.txt": b"\n"}),
    # -- files of weights
    "no_directory": BrokenModel(r"no model directory .*gone(?s:.)*config\.json", arguments="pretrained={folder}/gone"),
    "no_config": BrokenModel(r"has no config\.json(?s:.)*pretrained=", files={"config.json": b""}),
    "config_json": BrokenModel(r"config\.json:2: not valid JSON(?s:.)*download complete", files={"config.json": b'{"model_type": "llama",\n}'}),
    "config_list": BrokenModel(r"config\.json:1: found a list", files={"config.json": b"[]"}),
    "config_type": BrokenModel(r"config\.json:1: it names no model_type", files={"config.json": b"{}"}),
    "config_unknown": BrokenModel(r"lllama", files={"config.json": b'{"model_type": "lllama"}'}),
    "no_weights": BrokenModel(r"has no weights(?s:.)*download complete", files={"model.safetensors": b""}),
    "cut_weights": BrokenModel(r"model\.safetensors cannot be read(?s:.)*download complete", files={"model.safetensors": b"\x10\0\0"}),
    "weights_header": BrokenModel(r"model\.safetensors cannot be read(?s:.)*download complete", files={"model.safetensors": b"\x02\0\0\0\0\0\0\0{{"}),
    "no_shard": BrokenModel(r"index\.json names model-2\.safetensors, which does not exist", files={"model.safetensors.index.json": b'{"weight_map": {"a": "model-2.safetensors"}}'}),
    "no_tokenizer": BrokenModel(r"has no tokenizer files(?s:.)*tokenizer=", files={"tokenizer.json": b"", "tokenizer_config.json": b""}),
    "tokenizer": BrokenModel(r"no tokenizer could be loaded(?s:.)*tokenizer=", files={"tokenizer.json": b"{"}),
    "gguf_missing": BrokenModel(r"no file tiny\.gguf in(?s:.)*GGUF files there", arguments="pretrained={folder}/model/tiny.gguf"),
    "gguf_magic": BrokenModel(r"tiny\.gguf is not a GGUF file", arguments="pretrained={folder}/model/tiny.gguf", files={"tiny.gguf": b"<html>not found"}),
    "gguf_short": BrokenModel(r"tiny\.gguf cannot be read", arguments="pretrained={folder}/model/tiny.gguf", files={"tiny.gguf": b"GGUF\3"}),
}  # fmt: off


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ASSAY_LM_EVAL_TASKS", raising=False)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    place = tmp_path / "files"
    place.mkdir()
    (place / "docs.jsonl").write_text(DATA)
    (place / "asked.py").write_text(MODEL)
    (place / "sound.yaml").write_text(CHOICE.format(name="sound"))
    for name, text in HELPERS.items():
        (place / name).write_text(text)
    return place


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out + said.err


def run_words(folder: Path, task: str) -> list[str]:
    model = f"{folder / 'asked.py'}:Asked"
    return [
        "run",
        "--model",
        model,
        "--tasks",
        task,
        "--include_path",
        str(folder),
        "--output_path",
        str(folder / "out"),
    ]


@pytest.mark.parametrize("name", YAML)
def test_a_broken_file_is_answered_before_anything_is_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    broken = YAML[name]
    path = folder / f"{name}.yaml"
    path.write_text((broken.base.format(name=name) if broken.base else "") + broken.text)
    for words in (["validate", "--trust", str(path), "--include_path", str(folder)], run_words(folder, str(path))):
        code, said = answer(capsys, *words)
        assert re.search(broken.says, said), f"{words[0]} says:\n{said}"
        assert code == 2, f"{words[0]} exits with {code}:\n{said}"
        assert path.stem in said
        assert "Traceback" not in said
    assert not (folder / "ASKED").exists()


@pytest.mark.parametrize("name", PYTHON)
def test_a_broken_python_task_is_answered_before_anything_is_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = folder / f"{name}.py"
    path.write_text(PYTHON[name].text)
    words = ["validate", "--trust", "--no-defaults", "--include_path", str(path)]
    asked = ["--model", f"{folder / 'asked.py'}:Asked", "--output_path", str(folder / "out")]
    for line in (words, ["run", "--tasks", "Colours", "--include_path", str(path), *asked]):
        code, said = answer(capsys, *line)
        assert re.search(PYTHON[name].says, said), f"{line[0]} says:\n{said}"
        assert code == 2, f"{line[0]} exits with {code}:\n{said}"
        assert "Traceback" not in said
    assert not (folder / "ASKED").exists()


@pytest.mark.parametrize(
    "name", ["syntax", "no_task", "no_split", "no_dataset", "attribute", "own_constant", "hook", "klingon"]
)
def test_much_of_a_python_task_is_known_without_running_it(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = folder / f"{name}.py"
    path.write_text(PYTHON[name].text + "\nopen(__file__ + '.ran', 'w')\n")
    code, said = answer(capsys, "validate", "--no-defaults", "--include_path", str(path))
    assert re.search(PYTHON[name].says, said), said
    assert code == 2
    assert not path.with_suffix(".py.ran").exists()


@pytest.fixture(scope="session")
def sound_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random llama with its tokenizer."""
    from tests.models.hf.conftest import make_network, make_tokenizer

    place = tmp_path_factory.mktemp("sound")
    make_network("llama").save_pretrained(place)
    make_tokenizer().save_pretrained(place)
    return place


@pytest.mark.parametrize("name", MODELS)
def test_a_broken_model_is_answered_before_anything_is_asked(
    folder: Path, sound_model: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    broken = MODELS[name]
    shutil.copytree(sound_model, folder / "model")
    for file, content in broken.files.items():
        (folder / "model" / file).unlink(missing_ok=True)
        if content:
            (folder / "model" / file).write_bytes(content)
    model = ["--model", broken.model.format(folder=folder)]
    if broken.arguments:
        model += ["--model_args", broken.arguments.format(folder=folder)]
    asked = ["--tasks", "sound", "--include_path", str(folder), "--output_path", str(folder / "out")]
    for line in (["validate", "--trust", *model], ["run", *model, *asked]):
        code, said = answer(capsys, *line)
        assert re.search(broken.says, said), f"{line[0]} says:\n{said}"
        assert code == 2, f"{line[0]} exits with {code}:\n{said}"
        assert "Traceback" not in said
    assert not (folder / "out").exists(), "nothing was kept, for nothing was asked"


def test_the_sound_python_task_and_model_are_sound(
    folder: Path, sound_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "colours.py").write_text(PYTHON_TASK)
    words = ["--model", "hf", "--model_args", f"pretrained={sound_model}"]
    python = ["--no-defaults", "--include_path", str(folder / "colours.py"), "Colours"]
    assert answer(capsys, "validate", "--trust", *words, *python)[0] == 0
    code, said = answer(
        capsys, "run", *words, "--tasks", "Colours", "--include_path", str(folder / "colours.py"), "--device", "cpu"
    )
    assert code == 0, said


def test_a_model_file_is_not_run_without_trust(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "own.py").write_text("open(__file__ + '.ran', 'w')\n" + ASKED + METHODS)
    code, said = answer(capsys, "validate", "--model", f"{folder / 'own.py'}:Asked")
    assert (code, "not checked: the model" in said) == (0, True), said
    assert not (folder / "own.py.ran").exists()


def test_the_sound_files_are_sound(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "validate", "--trust", "sound", "--include_path", str(folder))[0] == 0
    code, said = answer(capsys, *run_words(folder, "sound"))
    assert code == 0, said
    assert (folder / "ASKED").exists()


def test_a_report_over_a_directory_ends_whatever_its_files_hold(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, broken in YAML.items():
        (folder / f"{name}.yaml").write_text((broken.base.format(name=name) if broken.base else "") + broken.text)
    code, said = answer(capsys, "validate", "--trust", "--no-defaults", "--include_path", str(folder), "-v")
    assert code == 2
    assert re.search(r"^tasks: 1 loaded, \d+ failed$", said, re.MULTILINE), said
    assert "Traceback" not in said


def test_there_are_at_least_sixty_of_files_and_twenty_of_python_and_of_models() -> None:
    assert len(YAML) >= 60
    assert min(len(PYTHON), len(MODELS)) >= 20


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"metric_list": [{"metric": "acc_nrom"}]}, "acc_nrom"),
        ({"filter_list": [{"name": "x", "filter": [{"function": "take_frist"}]}]}, "take_frist"),
        ({"doc_to_text": "{{question"}, "doc_to_text"),
    ],
)
@pytest.mark.parametrize("way", ["mapping", "overrides"])
def test_tasks_that_are_no_files_are_checked_as_early(
    folder: Path, fields: dict[str, Any], says: str, way: str
) -> None:
    (folder / "loud.py").write_text(f"open({str(folder / 'LOADED')!r}, 'w')\n" + MODEL)
    words = {"tasks": ["sound"], "overrides": {"sound": fields}}
    if way == "mapping":
        words = {"tasks": [{"task": "sound", **fields}]}
    with pytest.raises(ConfigError, match=says):
        assay.evaluate(model=f"{folder / 'loud.py'}:Asked", include_path=[str(folder)], **words)
    assert not (folder / "LOADED").exists(), "no model was loaded for a task that is wrong"
