"""Parity that any clone can check: both harnesses on docs that are made on the spot, requests and scores compared.

lm-evaluation-harness runs in a process of its own: by `make parity` in environments that hold nothing else (named by
`ASSAY_TEST_PARITY_PYTHON_04` and `_05`), else with the packages of this one and the copies that the tests fetch anyway.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.parity.goldens import tasks_directory as older
from tests.parity.live import cases, comparing
from tests.parity.test_runs_05 import tasks_directory as newer

import assay
from assay.instance import Response
from assay.models import LM

pytestmark = [pytest.mark.parity]
RIVAL = Path(__file__).parent / "live" / "rival.py"


class Hashing(LM):
    """The same model on our side."""

    def fingerprint(self) -> str:
        return "hashing"

    def loglikelihood(self, requests: Any) -> list[tuple[float, bool]]:
        return [cases.loglikelihood(*request.args[:2]) for request in requests]

    def loglikelihood_rolling(self, requests: Any) -> list[float]:
        return [cases.rolling(request.args[0]) for request in requests]

    def stream(self, request_type: str, instances: Any, draws: Any, stop: Any = lambda: False) -> Any:
        if request_type != "generate_until":
            yield from super().stream(request_type, instances, draws, stop)
            return
        for position, (instance, draw) in enumerate(zip(instances, draws)):
            drawn = draw if instance.args[1].get("do_sample") else 0
            yield position, Response(cases.answer(instance.args[0], drawn))

    def generate_until(self, requests: Any) -> list[str]:
        raise AssertionError("a run streams")

    def apply_chat_template(self, messages: Any, add_generation_prompt: bool = True) -> str:
        return cases.chat(messages, add_generation_prompt)


def rival_command(line: str) -> tuple[str, dict[str, str]]:
    """The Python that has lm-evaluation-harness of this line, and its environment."""
    if named := os.environ.get(f"ASSAY_TEST_PARITY_PYTHON_{line.replace('.', '')}"):
        return named, {}
    found = older() if line == "0.4" else newer()
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no lm-evaluation-harness {line}; see `make parity`")
    assert found is not None
    return sys.executable, {"PYTHONPATH": str(found.parents[1] if found.name == "tasks" else found)}


def theirs(line: str, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    python, more = rival_command(line)
    (folder / "settings.json").write_text(json.dumps(settings))
    arguments = [str(RIVAL), str(folder), str(folder / "settings.json"), str(folder / "theirs.json")]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**kept, "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(folder / "cache"), **more}
    done = subprocess.run([python, *arguments], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads((folder / "theirs.json").read_text())
    return found


def ours(line: str, folder: Path, settings: dict[str, Any]) -> None:
    for file in folder.glob("live_*.yaml"):
        if file.read_text().startswith("task:"):
            file.write_text(f'{file.read_text()}lm_eval_version: "{line}"\n')
    words = {"apply_chat_template": False, "fewshot_as_multiturn": None, **settings}
    assay.evaluate(
        model=Hashing(),
        tasks=cases.ROOTS,
        include_path=[str(folder)],
        include_defaults=False,
        bootstrap_iters=cases.BOOTSTRAP_ITERS,
        log_samples=True,
        run_dir=str(folder / "run"),
        store=str(folder / "store.sqlite"),
        **words,
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in cases.SLICE else pytest.mark.wide) for name in cases.SETTINGS]
)
@pytest.mark.parametrize("line", ["0.4", "0.5"])
def test_both_harnesses_ask_and_score_the_same(
    line: str, name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    cases.write_cases(tmp_path, line)
    expected = theirs(line, tmp_path, cases.SETTINGS[name])
    assert expected["version"].startswith(line)
    ours(line, tmp_path, cases.SETTINGS[name])
    counts = comparing.compare(expected, *comparing.read_run(tmp_path / "run"), group_errors=line == "0.4")
    assert counts["requests"] > 50
    assert counts["scores"] > 50
    record_property("parity", (expected["version"], dict(counts)))
