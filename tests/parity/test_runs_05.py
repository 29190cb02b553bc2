"""Every golden of lm-evaluation-harness 0.5 through the whole house, with its own task files: requests, answers, scores.

What may differ is written down here, each with its reason; anything else fails.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from tests.parity.fake_model import FakeModel, recorded_responses
from tests.parity.goldens import PARITY, load_golden
from tests.parity.test_runs import LEAKS, compare, config_of

import assay
from assay.store import ResponseStore
from assay.tasks import TaskManager

pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("quick_rouge")]

INTEGERS = {"bbh_cot_fewshot_object_counting__hints", "bbh_cot_fewshot_mini__group-hints"}
"""There, a target of digits becomes an integer, and no answer of a model, which is text, ever equals it: a defect of the
preview (every such exact match is 0). Ours compares the texts."""

TASKS_VARIABLE = "ASSAY_TEST_LM_EVAL_05_TASKS"
PATHS = sorted((PARITY / "goldens-0.5").glob("*.json.gz"))


def slice_of(paths: list[Path]) -> list[Path]:
    """What `make test` runs: one golden of each kind of settings, and every ninth beside them."""
    kinds: dict[str, Path] = {}
    for path in paths:
        kinds.setdefault(path.name.split("__", 1)[1], path)
    chosen = {*kinds.values(), *paths[::9]}
    return [path for path in paths if path in chosen]


SLICE = slice_of(PATHS)


def tasks_directory() -> Path | None:
    """The task files of lm-evaluation-harness 0.5: where the environment says, else beside those of 0.4."""
    if named := os.environ.get(TASKS_VARIABLE):
        return Path(named)
    older = os.environ.get("ASSAY_TEST_LM_EVAL_TASKS")
    beside = Path(older).with_name("lm-eval-0.5") if older else Path(__file__).parents[2] / ".cache" / "lm-eval-0.5"
    return beside if beside.is_dir() else None


def require_goldens() -> None:
    missing = [] if PATHS else [f"no goldens under {PARITY}"]
    if tasks_directory() is None:
        missing.append(
            f"no task files of 0.5: pip install --no-deps --target DIR lm-eval==0.5.0.dev1, {TASKS_VARIABLE}=DIR"
        )
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("; ".join(missing))


@lru_cache(maxsize=1)
def manager() -> TaskManager:
    return TaskManager(include_path=[PARITY / "groups"], lm_eval=tasks_directory())


def requests_of(sample: dict[str, Any]) -> list[list[Any]]:
    """As they are sent. The one difference of form: a rolling request is `("", text)` there and `(text,)` here."""
    found: list[list[Any]] = compare().requests_of(sample)
    return [args[1:] if len(args) == 2 and args[0] == "" and isinstance(args[1], str) else args for args in found]


def answers_of(sample: dict[str, Any]) -> list[list[Any]]:
    """A rolling answer is a pair there and a number here."""
    return [[answer[0] if is_rolling(sample, answer) else answer for answer in draws] for draws in sample["resps"]]


def is_rolling(sample: dict[str, Any], answer: Any) -> bool:
    first = compare().requests_of(sample)[0]
    return isinstance(answer, list) and len(first) == 2 and first[0] == "" and len(sample["resps"]) == 1


def differences(golden: dict[str, Any], output: dict[str, Any], samples: dict[str, Any]) -> list[str]:
    """Samples and final numbers that are not the same.

    Members of groups are called `group::task` there, by their own names here (see docs/coming-from-lm-eval.md). The target
    of a choice task is logged as an index there, filtered answers as lists of one: both are forms of the log alone.
    """
    found: list[str] = []
    for name, rows in golden["samples"].items():
        own = own_name(name, samples)
        for row in rows:
            place = f"{name} doc {row['doc_id']} filter {row['filter']}"
            other = samples[own].get((row["doc_id"], row["filter"]))
            if other is None:
                found.append(f"{place}: absent")
                continue
            if requests_of(row) != requests_of(other):
                found.append(f"{place}: requests {requests_of(row)} but {requests_of(other)}")
            if not compare().same(answers_of(row), answers_of(other)):
                found.append(f"{place}: answers {answers_of(row)} but {answers_of(other)}")
            for metric, value in row["metrics"].items():
                if not compare().same(value, other.get(metric)):
                    found.append(f"{place}: {metric} {value} but {other.get(metric)}")
        if len(samples[own]) != len(rows):
            found.append(f"{name}: {len(rows)} samples but {len(samples[own])}")
    for name, scores in golden["results"].items():
        own = own_name(name, output["results"])
        found += [f"{name}: {text}" for text in score_differences(golden, name, scores, output["results"][own])]
    return found


def own_name(name: str, known: Any) -> str:
    return name if name in known else name.rsplit("::", 1)[-1]


def score_differences(golden: dict[str, Any], name: str, want: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """Numbers to the last digit; error bars only where both are closed forms.

    0.5 bootstraps whatever is no mean, and gives nan where it cannot; the error of an unweighted group is the pooled one
    there, that of the number shown (as in 0.4.13) here.
    """
    found = []
    means = compare().plain_means(golden)
    for key, value in want.items():
        if key in ("alias", "sample_len", "name"):
            continue
        if "_stderr," in key:
            is_task = name in golden["samples"]
            exact = is_task and key.replace("_stderr,", ",") in means.get(name, set())
            if exact and not compare().same_stderr(value, got.get(key), exact):
                found.append(f"{key} {value} but {got.get(key)}")
        elif not compare().same(value, got.get(key)) and not (_is_nan(value) and got.get(key) == "N/A"):
            found.append(f"{key} {value} but {got.get(key)}")
    return found


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


@pytest.fixture
def quick_rouge(monkeypatch: pytest.MonkeyPatch) -> None:
    """truthfulqa resamples one score a thousand times to get the same score back; ten times will do."""
    from rouge_score.scoring import BootstrapAggregator

    monkeypatch.setattr(BootstrapAggregator.__init__, "__defaults__", (0.95, 10))


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=() if p in SLICE else pytest.mark.wide, id=p.name.removesuffix(".json.gz")) for p in PATHS],
)
def test_run_gives_what_lm_evaluation_harness_05_gave(path: Path, tmp_path: Path) -> None:
    require_goldens()
    name = path.name.removesuffix(".json.gz")
    golden = load_golden(path)
    model = FakeModel(recorded_responses(golden) if golden["settings"]["hints"] else None)
    with ResponseStore(tmp_path / "store.sqlite") as store:
        assay.evaluate(config_of(golden, tmp_path, manager()), model=model, manager=manager(), store=store)
    names = {part for task in golden["samples"] for part in (task, task.rsplit("::", 1)[-1])}
    output, samples = compare().load_output(tmp_path / "run", names)
    found = differences(golden, output, samples)
    if name in INTEGERS:
        assert found
        assert all(" exact_match" in text for text in found)
        return
    if name in LEAKS:
        assert {text.split(": ")[0] for text in found if ": requests " in text} == {"lambada_openai doc 3 filter none"}
        return
    assert found == []
