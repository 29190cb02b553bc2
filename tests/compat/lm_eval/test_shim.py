"""`lm_eval` as task files import it, and only while they do."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from assay.compat.lm_eval.shim import NAMES, lm_eval_package
from assay.config import FunctionRef, add_task_root
from assay.config.functions import load_function
from assay.errors import ConfigError


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
