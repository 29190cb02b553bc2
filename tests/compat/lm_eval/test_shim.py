"""`lm_eval` as task files import it, and only while they do."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from assay.compat.lm_eval.shim import NAMES, lm_eval_package
from assay.config import FunctionRef, add_task_root
from assay.config.functions import load_function
from assay.errors import ConfigError
from assay.models import LM


def module(folder: Path, text: str, name: str = "utils.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return folder


def test_the_names_that_task_files_import_work_without_lm_eval(tmp_path: Path) -> None:
    module(
        tmp_path,
        "from lm_eval.utils import weighted_f1_score, general_detokenize\n"
        "from lm_eval.api.instance import Instance\n"
        "from lm_eval.api.task import ConfigurableTask\n"
        "from lm_eval.filters.extraction import RegexFilter, Filter\n"
        "from lm_eval.api.registry import register_filter\n"
        "from lm_eval.api.metrics import metric_max_over_ground_truths, mean\n"
        "from lm_eval.api.filter import Filter as Filter2\n"
        "def use():\n"
        "    from lm_eval.api.metrics import mean as late\n"
        "    best = metric_max_over_ground_truths(lambda p, r: float(p == r), 'a', ['b', 'a'])\n"
        "    return [late([1, 2]), best, weighted_f1_score([(1, 1), (0, 0)]), general_detokenize('is n\\'t ( so ) .')]\n",
    )
    before = {name for name in sys.modules if name.startswith("lm_eval")}
    assert load_function("utils.use", tmp_path)() == [1.5, 1.0, 1.0, "isn't (so)."]
    assert {name for name in sys.modules if name.startswith("lm_eval")} == before


def test_every_name_of_the_stand_in_exists(tmp_path: Path) -> None:
    lines = [f"from {home} import {name}" for home, names in NAMES.items() for name in names]
    module(tmp_path, "\n".join([*lines, "def f():\n    return 1"]), "all_names.py")
    assert load_function("all_names.f", tmp_path)() == 1


def test_a_registered_filter_of_a_task_file_is_known_afterwards(tmp_path: Path) -> None:
    from assay.filters import FILTERS

    module(
        tmp_path,
        "from lm_eval.api.registry import register_filter\nfrom lm_eval.api.filter import Filter\n"
        "@register_filter('of_this_test')\nclass Mine(Filter):\n    def apply(self, resps, docs):\n        return resps\n",
    )
    cls = load_function("utils.Mine", tmp_path)
    assert FILTERS["of_this_test"] is cls


def test_siblings_are_found_under_the_task_root_and_are_one_module(tmp_path: Path) -> None:
    add_task_root(tmp_path)
    module(tmp_path / "ifeval", "seen = []\n", "common.py")
    module(tmp_path / "ifeval", "from lm_eval.tasks.ifeval import common\ndef f():\n    return common\n")
    # A folder of the same name nearer by must not be taken for the sibling.
    module(tmp_path / "board" / "ifeval", "raise AssertionError\n", "common.py")
    module(tmp_path / "board" / "ifeval", "from lm_eval.tasks.ifeval.common import seen\ndef f():\n    return seen\n")
    common = FunctionRef("utils.f", tmp_path / "ifeval")()
    assert FunctionRef("utils.f", tmp_path / "board" / "ifeval")() is common.seen


def test_an_unknown_lm_eval_module_is_said_to_be_one(tmp_path: Path) -> None:
    module(tmp_path, "from lm_eval.evaluator import simple_evaluate\n")
    with pytest.raises(ConfigError, match=r"lm_eval.evaluator is a module of lm-evaluation-harness"):
        load_function("utils.f", tmp_path)


def test_a_real_lm_eval_is_put_back_untouched() -> None:
    real = ModuleType("lm_eval")
    sys.modules["lm_eval"] = real
    try:
        with lm_eval_package():
            import lm_eval

            assert lm_eval is not real
        assert sys.modules["lm_eval"] is real
    finally:
        del sys.modules["lm_eval"]


def test_filters_of_the_stand_in_do_what_theirs_do(tmp_path: Path) -> None:
    module(
        tmp_path,
        "from lm_eval.filters import build_filter_ensemble, selection, transformation\n"
        "from lm_eval.filters.extraction import MultiChoiceRegexFilter, WhitespaceFilter\n"
        "from lm_eval.filters.selection import MajorityVoteFilter, TakeFirstFilter, TakeKFilter\n"
        "from lm_eval.filters.transformation import LowercaseFilter, MapFilter, SPANFilter, UppercaseFilter\n"
        "class Mine(MultiChoiceRegexFilter):\n    pass\n"
        "def use():\n"
        "    doc = {'choices': ['Guilty', 'Guilty of Romance']}\n"
        "    return [\n"
        "        list(map(list, Mine(regex_pattern=r'\\\\(([AB])\\\\)').apply([['I say guilty of romance: B']], [doc]))),\n"
        "        list(selection.TakeFirstFilter().apply([['a', 'b']], [{}])),\n"
        "        list(map(list, TakeKFilter(k=2).apply([['a', 'b', 'c']], [{}]))),\n"
        "        list(map(list, MajorityVoteFilter().apply([['a', 'b', 'b']], [{}]))),\n"
        "        list(map(list, LowercaseFilter().apply([['AB']], [{}]))),\n"
        "        list(map(list, transformation.UppercaseFilter().apply([['ab']], [{}]))),\n"
        "        list(map(list, MapFilter({'a': 1}, 0).apply([['a', 'x']], [{}]))),\n"
        "        list(map(list, WhitespaceFilter().apply([[' a']], [{}]))),\n"
        "        build_filter_ensemble('both', [('lowercase', None), ('take_first', None)]).name,\n"
        "    ]\n",
    )
    assert load_function("utils.use", tmp_path)() == [
        [["(B)"]],
        ["a"],
        [["a", "b"]],
        [["b"]],
        [["ab"]],
        [["AB"]],
        [[1, 0]],
        [["a"]],
        "both",
    ]


METRICS_FILE = """from lm_eval.api.registry import get_aggregation, register_aggregation, register_metric
@register_aggregation("median_of_this_test")
def median_of_this_test(items):
    return sorted(items)[len(items) // 2]
@register_metric(metric="length_of_this_test", higher_is_better=False, output_type="generate_until", aggregation="median_of_this_test")
def length(references, predictions, **kwargs):
    return float(len(predictions[0]) - len(references[0]))
def process_docs(docs):
    return docs
"""


def test_a_registered_metric_and_aggregation_of_a_task_file_score_a_run(tmp_path: Path) -> None:
    from assay import evaluate
    from assay.results import MetricKey

    module(tmp_path, METRICS_FILE)
    (tmp_path / "docs.jsonl").write_text("".join(f'{{"q": "{"x" * i}", "t": ""}}\n' for i in range(5)))
    (tmp_path / "t.yaml").write_text(
        "task: t\ndataset_path: json\ndataset_kwargs: {data_files: {test: docs.jsonl}}\ntest_split: test\n"
        "process_docs: !function utils.process_docs\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{t}}'\n"
        "metric_list: [{metric: length_of_this_test}]\n"
    )
    result = evaluate(model=Echo(), tasks=["t"], include_path=[str(tmp_path)])
    score = result.tasks["t"].scores[MetricKey("length_of_this_test", "none")]
    assert (score.estimate.value, score.aggregation, score.higher_is_better) == (2.0, "median_of_this_test", False)


class Echo(LM):
    def loglikelihood(self, requests: Any) -> Any: ...
    def loglikelihood_rolling(self, requests: Any) -> Any: ...
    def generate_until(self, requests: Any) -> list[str]:
        return [request.args[0] for request in requests]
