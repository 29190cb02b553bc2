"""The one registry: lazy entries, suggestions, and plug-ins of installed packages."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from assay.errors import AssayError, ConfigError, MissingPackage, did_you_mean
from assay.registry import Registry


def test_a_lazy_entry_is_imported_on_first_use_only() -> None:
    registry = Registry[object]("thing", lazy={"later": "json:dumps", "never": "no_such_module:x"})
    assert "never" in registry
    assert registry["later"] is __import__("json").dumps
    assert list(registry) == ["later", "never"]


def test_a_miss_suggests_the_nearest_name() -> None:
    registry = Registry[int]("metric")
    registry.add("exact_match", 1)
    with pytest.raises(ConfigError, match=r"unknown metric 'exact_mach'\n  Did you mean exact_match\?"):
        registry["exact_mach"]


def test_a_miss_in_an_empty_registry_says_so() -> None:
    with pytest.raises(ConfigError, match="No filter is registered"):
        Registry[int]("filter")["x"]


def test_a_second_entry_of_one_name_is_refused_unless_it_is_the_same() -> None:
    registry = Registry[object]("model")
    entry = object()
    registry.add("m", entry)
    registry.add("m", entry)
    with pytest.raises(ConfigError, match="already a model named 'm'"):
        registry.add("m", object())
    other = object()
    assert registry.add("m", other, replace=True) is other


def test_get_gives_none_for_an_unknown_name() -> None:
    registry = Registry[int]("x")
    registry.add("one", 1)
    assert (registry.get("one"), registry.get("two")) == (1, None)


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    registry = Registry[object]("model", lazy={"far": "surely_not_installed.backend:LM"})
    with pytest.raises(MissingPackage, match="pip install surely_not_installed") as caught:
        registry["far"]
    assert caught.value.package == "surely_not_installed"


def test_a_module_without_the_attribute() -> None:
    with pytest.raises(ConfigError, match="json has no 'nothing'"):
        Registry[object]("model", lazy={"far": "json:nothing"})["far"]


def test_home_tells_where_an_entry_lives_without_importing_it() -> None:
    registry = Registry[object]("model", lazy={"far": "surely_not_installed:LM"})
    registry.add("near", Registry)
    assert registry.home("far") == "surely_not_installed:LM"
    assert registry.home("near") == "assay.registry:Registry"


PLUGIN = """
print("tiny_plugin is imported")
from assay.filters import Filter

def always_half(**kwargs):
    return 0.5

class Shout(Filter):
    def apply(self, resps, docs):
        return [[text.upper() for text in texts] for texts in resps]
"""


@pytest.mark.slow
def test_an_installed_package_adds_its_own_metric_and_filter(tmp_path: Path) -> None:
    """A real package, really installed, found by a fresh interpreter through its entry points."""
    wheel = tmp_path / "tiny_plugin-1.0-py3-none-any.whl"
    files = {
        "tiny_plugin/__init__.py": PLUGIN,
        "tiny_plugin-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-plugin\nVersion: 1.0\n",
        "tiny_plugin-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny_plugin-1.0.dist-info/entry_points.txt": "[assay.metrics]\nalways_half = tiny_plugin:always_half\n"
        "[assay.filters]\nshout = tiny_plugin:Shout\n",
        "tiny_plugin-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    target = tmp_path / "site"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        str(target),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)
    program = """
        from assay.filters import FILTERS
        from assay.metrics import METRICS
        assert "shout" in list(FILTERS) and "always_half" in METRICS
        print("listed")
        print(FILTERS["shout"]().apply([["a"]], [{}]), METRICS["always_half"].fn())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={"PYTHONPATH": str(target), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["listed", "tiny_plugin is imported", "[['A']] 0.5"], done.stderr


def test_errors_survive_the_border_of_a_process() -> None:
    for error in (ConfigError("a", hint="b"), MissingPackage("a", hint="b", package="c"), AssayError("a")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.hint) == (type(error), str(error), error.hint)
        assert getattr(again, "package", None) == getattr(error, "package", None)


def test_rewording_keeps_kind_hint_and_package() -> None:
    again = MissingPackage("x", hint="pip install y", package="y").reworded("task t: x")
    assert (type(again), again.message, again.hint, again.package) == (
        MissingPackage,
        "task t: x",
        "pip install y",
        "y",
    )


def test_exit_codes() -> None:
    assert (ConfigError.exit_code, AssayError.exit_code) == (2, 3)


def test_did_you_mean_is_silent_when_nothing_is_near() -> None:
    assert did_you_mean("zzz", ["acc", "f1"]) is None
    assert did_you_mean("", []) is None


def test_an_entry_whose_module_is_not_there_is_none_and_one_that_lacks_a_package_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_more.py").write_text("import surely_not_installed\nx = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    things = Registry[object](
        "thing", lazy={"absent": "surely_absent.inner:x", "lacking": "needs_more:x", "there": "math:pi"}
    )
    assert things.get_installed("absent") is None
    assert things.get_installed("there") == math.pi
    with pytest.raises(MissingPackage, match="surely_not_installed"):
        things.get_installed("lacking")


ROWS = """
from assay.request_types import RequestType
from assay.results import HealthCounter
from assay.stats import Estimate, IntervalMethod

counter = HealthCounter("seen", "an answer was seen", lambda instance: True)
method = IntervalMethod(
    "wide", "always", lambda evidence: True, lambda e, level: Estimate(e.value, 0.5, 0.0, 1.0, e.n, "wide", level=level)
)
echo = RequestType(
    "echo", ("context",), str, answer=lambda lm, instances: [i.args[0] for i in instances], build=lambda doc, ctx: (ctx,)
)
"""


def test_rows_of_a_package_are_found_through_its_entry_points(tmp_path: Path) -> None:
    """An interval method, a health counter and a request type, all three used by one run of a fresh interpreter."""
    (tmp_path / "rows.py").write_text(ROWS)
    about = tmp_path / "rows-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rows\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[assay.interval_methods]\nwide = rows:method\n[assay.health_counters]\nseen = rows:counter\n"
        "[assay.request_types]\necho = rows:echo\n"
    )
    program = f"""
        import assay
        from assay.results import MetricKey
        docs = [{{"q": "a"}}, {{"q": "b"}}]
        task = {{"task": "t", "output_type": "echo", "custom_dataset": lambda **_: {{"test": docs}}, "test_split": "test",
                "doc_to_text": "q", "doc_to_target": "q"}}
        found = assay.evaluate(model="dummy", tasks=[task], store={str(tmp_path / "store.sqlite")!r})["t"]
        score = found.scores[MetricKey("exact_match")].estimate
        print(score.value, score.method, found.health.count("seen"))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["1.0", "wide", "2"], done.stderr
