"""`assay selftest`: a sound backend passes, a broken one is caught."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from assay.cli.selftest import command
from assay.instance import Instance, Response
from assay.models import Stop, never
from assay.models.hf import HFLM
from assay.models.selftest import run_checks


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_a_sound_model_passes(network: Any, tokenizer: Any, name: str) -> None:
    checks = list(run_checks(HFLM(network(name), tokenizer=tokenizer, threads=1)))
    assert len(checks) >= 9
    assert [check for check in checks if check.passed is False] == []


def test_a_backend_that_depends_on_order_is_caught(network: Any, tokenizer: Any) -> None:
    class Drifting(HFLM):
        def stream(
            self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
        ) -> Iterator[tuple[int, Response]]:
            for place, answer in super().stream(request_type, instances, draws):
                if request_type == "loglikelihood":
                    value, greedy = answer.answer
                    answer = answer._replace(answer=(value + 0.01 * place, greedy))
                yield place, answer

    checks = {check.name: check for check in run_checks(Drifting(network("llama"), tokenizer=tokenizer, threads=1))}
    assert [name for name, check in checks.items() if check.passed is False] == ["one by one", "order"]
    assert checks["one by one"].difference == pytest.approx(0.23, abs=0.01)


def altered(network: Any, change: Callable[..., Any]) -> Any:
    """A copy whose forward pass is `change(forward, tokens, mask, **others)`."""
    copied = deepcopy(network)
    forward = copied.forward

    def changed(input_ids: Any = None, attention_mask: Any = None, **others: Any) -> Any:
        return change(forward, input_ids, attention_mask, **others)

    copied.forward = changed
    return copied


def test_a_model_that_looks_at_padding_is_caught(network: Any, tokenizer: Any) -> None:
    """Padding on the right is never seen by a causal model, so a mask that hides none shows on the left alone."""

    def seeing_all(forward: Any, tokens: Any, mask: Any, **others: Any) -> Any:
        if mask is not None and mask.dim() == 2:
            mask = torch.ones_like(mask)
        return forward(tokens, attention_mask=mask, **others)

    sloppy = altered(network("llama"), seeing_all)
    checks = list(run_checks(HFLM(sloppy, tokenizer=tokenizer, threads=1)))
    assert [check.name for check in checks if check.passed is False] == ["padding on the left and on the right"]


def test_a_model_that_gives_nan_for_padded_rows_is_caught(network: Any, tokenizer: Any) -> None:
    """As a fully masked row does in some attention kernels."""

    def poisoned(forward: Any, tokens: Any, mask: Any, **others: Any) -> Any:
        output = forward(tokens, attention_mask=mask, **others)
        if mask is not None and mask.dim() == 2:
            output.logits[mask[:, 0] == 0] = math.nan
        return output

    checks = list(run_checks(HFLM(altered(network("llama"), poisoned), tokenizer=tokenizer, threads=1)))
    broken = [check for check in checks if check.passed is False]
    assert [check.name for check in broken] == ["padding on the left and on the right"]
    assert "not finite" in broken[0].note


def test_a_model_that_is_told_to_think_is_spared_what_it_does_not_score(network: Any, tokenizer: Any) -> None:
    lm = HFLM(network("llama"), tokenizer=tokenizer, threads=1, enable_thinking=True, think_end_token="</think>")
    checks = list(run_checks(lm))
    assert [check.name for check in checks if check.passed is None] == ["one by one", "order", "token boundary"]
    assert [check for check in checks if check.passed is False] == []


def test_the_command_prints_a_table_and_exits_zero(llama_directory: Path) -> None:
    result = CliRunner().invoke(command, [str(llama_directory), "--model_args", "threads=1"])
    assert result.exit_code == 0, result.output
    assert "tree against plain" in result.output
    assert "padding on the left" in result.output


def test_the_command_exits_non_zero_when_a_check_fails(llama_directory: Path) -> None:
    result = CliRunner().invoke(command, [str(llama_directory), "--model_args", "threads=1", "--tolerance", "0"])
    assert result.exit_code == 1
    assert "failed" in result.output
