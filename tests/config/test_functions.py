"""`!function`: found beside the file, and imported late."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.config import FunctionRef, add_task_root
from assay.config.functions import load_function
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


def test_a_module_above_the_file(tmp_path: Path) -> None:
    module(tmp_path, "def f():\n    return 'above'\n")
    module(tmp_path, "def f():\n    return 'beside'\n", "inner/deeper/utils.py")
    assert FunctionRef("../../utils.f", tmp_path / "inner" / "deeper")() == "above"
    with pytest.raises(ConfigError, match=r"there is no file .*\.\./utils.py and no such module"):
        load_function("../utils.f", tmp_path / "inner" / "deeper")


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


def test_a_dataclass_and_relative_imports_in_a_task_module(tmp_path: Path) -> None:
    add_task_root(tmp_path)
    module(tmp_path / "family", "x = 7\n", "words.py")
    module(
        tmp_path / "family",
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom .words import x\n"
        "@dataclass\nclass Point:\n    a: int = x\ndef f():\n    return Point().a\n",
    )
    assert FunctionRef("utils.f", tmp_path / "family")() == 7


def test_no_bytecode_is_written_beside_task_files(tmp_path: Path) -> None:
    load_function("utils.f", module(tmp_path, "def f():\n    pass\n"))
    assert [path.name for path in tmp_path.iterdir()] == ["utils.py"]


def test_a_sibling_that_is_not_there(tmp_path: Path) -> None:
    module(tmp_path, "from .helpers import f\n")
    with pytest.raises(ConfigError, match=r"utils.py:1: there is no module 'helpers' among the task files"):
        load_function("utils.f", tmp_path)


def test_a_sibling_is_one_module_also_when_it_is_named_itself(tmp_path: Path) -> None:
    module(tmp_path, "seen = []\ndef f():\n    return seen\n", "words.py")
    module(tmp_path, "from .words import seen\ndef f():\n    return seen\n")
    assert load_function("utils.f", tmp_path)() is load_function("words.f", tmp_path)()


def test_the_language_of_a_text_is_the_same_each_time_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    langdetect = pytest.importorskip("langdetect")
    monkeypatch.setattr(langdetect.DetectorFactory, "seed", None)
    text = "import langdetect\n\ndef language(text):\n    return str(langdetect.detect_langs(text))\n"
    language = FunctionRef("speech.language", module(tmp_path, text, "speech.py"))
    assert len({language("choice1 de la") for _ in range(30)}) == 1
