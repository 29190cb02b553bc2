"""`assay selftest`: a sound backend passes, a broken one is caught."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay.cli.selftest import command
from assay.instance import Instance
from assay.models import load_model
from assay.models.hf import HFLM
from assay.models.selftest import run_checks


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_a_sound_model_passes(network: Any, tokenizer: Any, name: str) -> None:
    checks = list(run_checks(HFLM(network(name), tokenizer=tokenizer, threads=1)))
    assert len(checks) >= 9
    assert [check for check in checks if check.passed is False] == []


def test_the_ngram_model_passes() -> None:
    checks = {check.name: check for check in run_checks(load_model("ngram", {}))}
    assert [check for check in checks.values() if check.passed is False] == []


def test_a_backend_that_depends_on_order_is_caught(network: Any, tokenizer: Any) -> None:
    class Drifting(HFLM):
        def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
            return [
                (value + 0.01 * place, greedy) for place, (value, greedy) in enumerate(super().loglikelihood(requests))
            ]

    checks = {check.name: check for check in run_checks(Drifting(network("llama"), tokenizer=tokenizer, threads=1))}
    assert checks["one by one"].passed is False
    assert checks["order"].passed is False
    assert checks["one by one"].difference == pytest.approx(0.23, abs=0.01)


def test_the_command_prints_a_table_and_exits_zero(llama_directory: Path) -> None:
    result = CliRunner().invoke(command, [str(llama_directory), "--model_args", "threads=1"])
    assert result.exit_code == 0, result.output
    assert "tree against plain" in result.output
    assert "padding on the left" in result.output


def test_the_command_exits_non_zero_when_a_check_fails(llama_directory: Path) -> None:
    result = CliRunner().invoke(command, [str(llama_directory), "--model_args", "threads=1", "--tolerance", "0"])
    assert result.exit_code == 1
    assert "failed" in result.output
