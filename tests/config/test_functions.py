"""`!function`: found beside the file, imported late, and with a stand-in for `lm_eval` while that lasts."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from assay.config import FunctionRef, add_task_root
from assay.config.modules import load_function
from assay.config.shim import NAMES, lm_eval_package
from assay.errors import ConfigError, MissingPackage


def module(folder: Path, text: str, name: str = "utils.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return folder


def test_nothing_is_imported_until_the_function_is_needed(tmp_path: Path) -> None:
    module(tmp_path, "raise RuntimeError('imported')\n")
    ref = FunctionRef("utils.process", tmp_path)
    assert ref.__name__ == "process"
    with pytest.raises(ConfigError, match=r"utils.py:1: importing it failed: RuntimeError: imported"):
        ref.load()


def test_the_file_beside_the_yaml_comes_before_an_importable_module(tmp_path: Path) -> None:
    module(tmp_path, "def dumps(x):\n    return 'mine'\n", "json.py")
    assert FunctionRef("json.dumps", tmp_path)({}) == "mine"
    assert FunctionRef("json.dumps", tmp_path / "elsewhere")({}) == "{}"
    assert load_function("os.path.basename") is __import__("os").path.basename


def test_a_module_in_a_subfolder(tmp_path: Path) -> None:
    module(tmp_path, "def f():\n    return 1\n", "inner/deep.py")
    assert FunctionRef("inner.deep.f", tmp_path)() == 1


def test_equal_names_in_different_folders_are_different_modules(tmp_path: Path) -> None:
    for name in ("a", "b"):
        module(tmp_path / name, f"def f():\n    return {name!r}\n")
    assert [FunctionRef("utils.f", tmp_path / name)() for name in ("a", "b", "a")] == ["a", "b", "a"]


def test_one_module_for_all_its_functions_and_anew_after_an_edit(tmp_path: Path) -> None:
    import os

    module(tmp_path, "calls = []\ndef add():\n    calls.append(1)\n    return len(calls)\n")
    assert [FunctionRef("utils.add", tmp_path)() for _ in range(2)] == [1, 2]
    module(tmp_path, "def add():\n    return 'new'\n")
    os.utime(tmp_path / "utils.py", ns=(1, 1))
    assert FunctionRef("utils.add", tmp_path)() == "new"


def test_a_missing_function_has_a_suggestion(tmp_path: Path) -> None:
    module(tmp_path, "def process_docs(x):\n    return x\n")
    with pytest.raises(ConfigError, match=r"utils.py has no 'proces_docs'\n  Did you mean process_docs"):
        load_function("utils.proces_docs", tmp_path)


def test_a_missing_module_has_a_suggestion(tmp_path: Path) -> None:
    module(tmp_path, "")
    with pytest.raises(ConfigError, match=r"no file .*utilz.py and no module 'utilz'(?s:.)*Did you mean utils"):
        load_function("utilz.f", tmp_path)


def test_a_name_without_a_module(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no module"):
        load_function("process_docs", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "import surely_not_installed.sub\n",
        "try:\n    import surely_not_installed\nexcept ImportError:\n    raise ImportError('please install extras')\n",
        "try:\n    import surely_not_installed\nexcept ImportError:\n    raise SystemExit('please install extras')\n",
        "try:\n    import surely_not_installed\nexcept ImportError as e:\n    raise ModuleNotFoundError('extras!') from e\n",
    ],
)
def test_a_missing_package_is_named_however_the_module_words_it(tmp_path: Path, text: str) -> None:
    module(tmp_path, text)
    with pytest.raises(MissingPackage, match="needs the package 'surely_not_installed'") as caught:
        load_function("utils.f", tmp_path)
    assert caught.value.package == "surely_not_installed"


def test_a_module_that_exits_or_is_no_python_is_an_error_not_an_end(tmp_path: Path) -> None:
    module(tmp_path, "import sys\nsys.exit('swipl is missing')\n", "leaves.py")
    with pytest.raises(ConfigError, match=r"leaves.py:2: importing it failed: SystemExit: swipl is missing"):
        load_function("leaves.f", tmp_path)
    module(tmp_path, "def f(:\n", "wrong.py")
    with pytest.raises(ConfigError, match=r"wrong.py:1: not valid Python"):
        load_function("wrong.f", tmp_path)


def test_a_failed_import_is_not_tried_again_for_every_field(tmp_path: Path) -> None:
    module(tmp_path, f"open({str(tmp_path / 'log')!r}, 'a').write('x')\nraise ValueError('no')\n")
    for _ in range(3):
        with pytest.raises(ConfigError, match="ValueError: no"):
            load_function("utils.f", tmp_path)
    assert (tmp_path / "log").read_text() == "x"


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


def test_a_dataclass_and_relative_imports_in_a_task_module(tmp_path: Path) -> None:
    add_task_root(tmp_path)
    module(tmp_path / "family", "x = 7\n", "words.py")
    module(
        tmp_path / "family",
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom .words import x\n"
        "@dataclass\nclass Point:\n    a: int = x\ndef f():\n    return Point().a\n",
    )
    assert FunctionRef("utils.f", tmp_path / "family")() == 7


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


def test_no_bytecode_is_written_beside_task_files(tmp_path: Path) -> None:
    load_function("utils.f", module(tmp_path, "def f():\n    pass\n"))
    assert [path.name for path in tmp_path.iterdir()] == ["utils.py"]
