"""Broken task, group, Python and model files: `validate` and `run` answer each before anything is asked.

Every answer has the file, the line where there is one, and what to do; the exit code is 2, and there is no traceback.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from assay.cli.entry import main

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
    "style": Broken("style: mcc\n", r":9: .*mcc"),
    # -- data
    "no_file": Broken("dataset_kwargs: {data_files: {test: gone.jsonl}}\n", r":8: .*there is no file gone\.jsonl", CHOICE.replace("dataset_kwargs: {{data_files: {{test: docs.jsonl}}}}\n", "")),
    "json_alone": whole("task: json_alone\ndataset_path: json\ntest_split: test\ndoc_to_text: q\ndoc_to_target: t\n", r"json_alone\.yaml:\d+: .*no files are named"),
    "no_dataset": whole("task: no_dataset\ntest_split: test\ndoc_to_text: q\ndoc_to_target: t\n", r"names no dataset"),
    "no_split": whole("task: no_split\ndataset_path: json\ndataset_kwargs: {data_files: {test: docs.jsonl}}\ndoc_to_text: q\ndoc_to_target: t\n", r"no_split\.yaml:\d+: .*no split to evaluate"),
    "wrong_split": Broken("test_split: tset\n", r"tset", CHOICE.replace("test_split: test\n", "")),
    "shots": Broken("num_fewshot: 5\nfewshot_split: test\n", r":9: .*5 shots were asked for"),
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
    "metric_of_text": Broken("metric_list: [{metric: bleu}]\n", r":9: .*bleu says nothing about multiple_choice"),
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


def test_there_are_at_least_sixty() -> None:
    assert len(YAML) >= 60
