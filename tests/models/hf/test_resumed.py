"""An answer has the same bits whichever others of its window are stored: passes are made of the whole window."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import assay
from assay.instance import Instance
from assay.models.hf import HFLM
from assay.paths import assay_home

SMALL = assay_home() / "models" / "smollm2-135m"


def requests(kind: str, n: int) -> list[Instance]:
    chance = random.Random(7)
    words = [
        "light",
        "water",
        "air",
        "hen",
        "spider",
        "door",
        "bench",
        "man",
        "woman",
        "egg",
        "leaves",
        "opens",
        "sits",
        "smiles",
    ]
    shared = " ".join(chance.choices(words, k=25))
    made = []
    for i in range(n):
        context = f"{shared if i % 3 else ''} {' '.join(chance.choices(words, k=1 + i % 9))} {i // 4}"
        rest = f" {' '.join(chance.choices(words, k=1 + i % 5))}"
        arguments: tuple[Any, ...] = (context, rest)
        if kind == "loglikelihood_rolling":
            arguments = (context + rest * (1 + i % 40),)
        elif kind == "letters":
            arguments = (context, ["A", "B", "C"])
        made.append(Instance(kind, {}, arguments, 0))  # type: ignore[arg-type]
    return made


def bits(lm: HFLM, kind: str, instances: list[Instance], missing: list[int] | None = None) -> dict[int, Any]:
    draws = [0] * len(instances)
    stream = (
        lm.stream(kind, instances, draws) if missing is None else lm.stream_missing(kind, instances, draws, missing)
    )
    return {position: response.answer for position, response in stream}


def check(lm: HFLM, kind: str, n: int = 60, rounds: int = 6) -> None:
    instances = requests(kind, n)
    whole = bits(lm, kind, instances)
    assert len(whole) == n
    chance = random.Random(3)
    for size in (1, 2, n // 2, n - 1, *(chance.randrange(1, n) for _ in range(rounds))):
        missing = sorted(chance.sample(range(n), size))
        assert bits(lm, kind, instances, missing) == {position: whole[position] for position in missing}


@pytest.mark.parametrize("kind", ["loglikelihood", "loglikelihood_rolling", "letters"])
@pytest.mark.parametrize("budget", [32, 100, 1024])
def test_any_model_gives_the_same_bits(any_model: HFLM, kind: str, budget: int) -> None:
    before = any_model.loglikelihoods.engine.budget.tokens
    any_model.loglikelihoods.engine.budget.tokens = any_model.loglikelihoods.engine.budget.most = budget
    try:
        check(any_model, kind, rounds=2)
    finally:
        any_model.loglikelihoods.engine.budget.tokens = any_model.loglikelihoods.engine.budget.most = before


def test_passes_without_a_missing_answer_are_not_computed(llama: HFLM) -> None:
    instances = requests("loglikelihood", 200)
    whole = llama.usage.computed_tokens
    bits(llama, "loglikelihood", instances)
    whole = llama.usage.computed_tokens - whole
    some = llama.usage.computed_tokens
    bits(llama, "loglikelihood", instances, [3])
    assert llama.usage.computed_tokens - some < whole / 2


real = pytest.mark.skipif(not SMALL.is_dir(), reason="`assay fetch --model smollm2-135m` was not run")


@real
@pytest.mark.wide
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_small_real_model_gives_the_same_bits(dtype: str) -> None:
    torch.set_num_threads(2)
    try:
        lm = HFLM("smollm2-135m", dtype=dtype)
        check(lm, "loglikelihood", n=24, rounds=1)
    finally:
        torch.set_num_threads(1)


@real
@pytest.mark.wide
def test_a_resumed_run_of_the_small_real_model_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    """Half of the answers are taken out of the store, as a kill would leave it."""
    import sqlite3

    def run(name: str, store: str) -> str:
        assay.evaluate(
            model="hf",
            model_args={"pretrained": "smollm2-135m", "dtype": "float32"},
            tasks=["demo_facts"],
            limit=12,
            store=str(tmp_path / store),
            run_dir=str(tmp_path / name),
        )
        import pyarrow.parquet as pq

        (file,) = (tmp_path / name / "samples").glob("*.parquet")
        return str(pq.read_table(file).to_pylist())

    whole = run("whole", "store.sqlite")
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM responses ORDER BY key")]
        connection.executemany("DELETE FROM responses WHERE key = ?", [(key,) for key in keys[::2]])
    assert len(keys) >= 12
    assert run("resumed", "store.sqlite") == whole
