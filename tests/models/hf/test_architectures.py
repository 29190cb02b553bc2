"""Whatever the family and the precision: the way that the self-check chooses gives what plain scoring gives.

`make test` holds every 17th case of the grid (family × precision × attention), which has no factor in common with the six ways
of a family, so that each of them comes up; `make test-wide` the whole of it.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.hf.families import FAMILIES, WINDOW, build

from assay.models.hf.attention import Attention
from assay.models.hf.scoring import score_by_tree, score_plainly, score_tokens_plainly
from assay.models.hf.selfcheck import SelfCheck, in_full_precision, local_sizes, self_check
from assay.models.hf.state import StateRunner
from assay.models.hf.state_scoring import score_by_state
from assay.models.hf.tokenization import Scored
from assay.models.hf.tree import TreeRunner

NOT_BY_TREE = {
    "state": [
        "bloom",
        "codegen",
        "diffllama",
        "doge",
        "falcon",
        "falcon_alibi",
        "falcon_h1",
        "gpt_neo",
        "gpt_neox_japanese",
        "gptj",
        "granitemoehybrid",
        "lfm2",
        "lfm2_moe",
        "mamba2",
        "mpt",
        "nemotron_h",
        "qwen3_5_text",
        "qwen3_next",
        "xglm",
    ],
    "batch": ["bamba", "falcon_mamba", "jamba", "mamba", "minimax", "recurrent_gemma", "rwkv"],
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
GRID = [(name, dtype, kernel) for name in FAMILIES for dtype in DTYPES for kernel in (True, False)]
CASES = [
    pytest.param(*case, id="-".join([case[0], case[1], "kernel" if case[2] else "explicit"]), marks=marks)
    for place, case in enumerate(GRID)
    for marks in [() if place % 17 == 0 else pytest.mark.wide]
]


def requests() -> list[Scored]:
    """Longer than every window of the families: shared prefixes of 60 tokens, questions, answers of 1 to 20 tokens."""
    draw = random.Random(3)

    def some(count: int) -> list[int]:
        return [draw.randrange(3, 257) for _ in range(count)]

    found = []
    for _ in range(2):
        shared = some(60)
        for _ in range(2):
            question = shared + some(12)
            found += [Scored((question + answer)[:-1], answer) for answer in (some(1), some(3), some(20))]
    assert max(len(request.tokens) for request in found) > 2 * WINDOW
    return found


def score(model: Any, check: SelfCheck, asked: list[Scored]) -> dict[int, tuple[float, bool]]:
    if check.way == "tree":
        return dict(score_by_tree(TreeRunner(model), asked, 64))
    return dict(
        score_by_state(StateRunner(model), asked, 64) if check.way == "state" else score_plainly(model, asked, 64)
    )


@pytest.mark.parametrize(("name", "dtype", "kernel"), CASES)
def test_no_family_gets_a_wrong_number(name: str, dtype: str, kernel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernel:
        monkeypatch.setattr(Attention, "_has_kernel", lambda *_: False)
    model = build(name, DTYPES[dtype])
    check = self_check(model)
    assert check.way in ("tree", "state", "batch")
    asked = requests()
    # In half precision noise hides what is wrong, so the way that was chosen there is looked at in float32.
    with in_full_precision(model):
        found, plain = score(model, check, asked), dict(score_plainly(model, asked, 300))
    for index, request in enumerate(asked):
        assert found[index][0] == pytest.approx(plain[index][0], abs=1e-4 * len(request.targets)), (check, request)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if i % 8 == 0 else pytest.mark.wide) for i, name in enumerate(FAMILIES)]
)
def test_the_way_of_a_family(name: str) -> None:
    """What docs/models.md says of the family."""
    expected = next((way for way, names in NOT_BY_TREE.items() if name in names), "tree")
    check = self_check(build(name))
    assert check.way == expected, check.reason
    assert (check.reason is None) == (expected == "tree")


@pytest.mark.parametrize(
    ("name", "dtype", "kernel"),
    [
        pytest.param(*case, marks=() if place % 19 == 0 else pytest.mark.wide)
        for place, case in enumerate(
            (name, dtype, kernel)
            for name in FAMILIES
            for dtype in ("bfloat16", "float16")
            for kernel in (True, False)
            if not any(name in names for names in NOT_BY_TREE.values())
        )
    ],
)
def test_the_tree_is_no_noisier_than_plain_scoring(
    name: str, kernel: bool, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against float32, over more than 64 tokens: the median and the 95 % quantile, at most a quarter above plain's."""
    if not kernel:
        monkeypatch.setattr(Attention, "_has_kernel", lambda *_: False)
    model = build(name, DTYPES[dtype])
    check = self_check(model)
    if check.way != "tree":
        pytest.skip(f"{name} is scored by {check.way} in {dtype}: {check.reason}")
    tree, plain = noise_of_tree_and_plain(model)
    for share in (0.5, 0.95):
        limit = 1.25 * np.quantile(plain, share) + 0.25 * torch.finfo(model.dtype).eps
        assert np.quantile(tree, share) <= limit, share


def noise_of_tree_and_plain(model: Any) -> tuple[Any, Any]:
    """Differences to float32 of single tokens."""
    draw = random.Random(5)
    stems = [[draw.randrange(3, 257) for _ in range(24)] for _ in range(8)]
    sequences = [(stem + [draw.randrange(3, 257) for _ in range(16)], 20) for stem in stems for _ in range(4)]
    singles = [Scored(tokens[:at], [tokens[at]]) for tokens, first in sequences for at in range(first, len(tokens))]

    def plainly() -> Any:
        return np.concatenate(list(score_tokens_plainly(model, sequences, 256)))

    found = dict(score_by_tree(TreeRunner(model), singles, 96))
    tree, plain = np.array([found[index][0] for index in range(len(singles))]), plainly()
    with in_full_precision(model):
        truth = plainly()
    assert len(truth) >= 64
    return np.abs(tree - truth), np.abs(plain - truth)


def test_a_window_that_no_layer_has_changes_nothing() -> None:
    """A Llama config may say `sliding_window`, and the layers do not read it."""
    model = build("llama_with_a_stray_window")
    assert local_sizes(model.config) == [WINDOW]
    check = self_check(model)
    assert check.way == "tree"
    asked = requests()
    found, plain = score(model, check, asked), dict(score_plainly(model, asked, 300))
    assert max(abs(found[index][0] - plain[index][0]) for index in found) < 1e-4


def test_a_wrong_window_is_found_by_probes_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.models.hf import attention

    monkeypatch.setattr(attention, "_read_mask", lambda _: (None, None))
    assert self_check(build("mistral")).way == "state"


def test_a_window_too_long_to_fill_is_probed_small(monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.models.hf import attention, selfcheck

    monkeypatch.setattr(selfcheck, "_AFFORDABLE", {"cpu": 0.0})
    model = build("mistral")
    assert self_check(model).way == "tree"
    assert model.config.sliding_window == WINDOW
    monkeypatch.setattr(attention, "_read_mask", lambda _: (None, None))
    assert self_check(model).way == "state"


def test_what_noise_hides_is_found_in_float32() -> None:
    """Plain scoring of this chaotic little model is off by whole nats in bfloat16, and so would be a state that is wrong."""
    model = build("mamba", torch.bfloat16)
    assert self_check(model).way == "batch"
    assert {part.dtype for part in model.parameters()} == {torch.bfloat16}


def family_table() -> str:
    """The table in docs/models.md."""
    others = {name for names in NOT_BY_TREE.values() for name in names}
    ways = {"tree": [name for name in FAMILIES if name not in others], **NOT_BY_TREE}
    real = {way: sorted({FAMILIES[name].get("model_type", name) for name in names}) for way, names in ways.items()}
    lines = [f"| {way} | {len(names)} | {', '.join(names)} |" for way, names in real.items()]
    return "\n".join(["| way | families | model types |", "|---|---|---|", *lines])


def test_the_docs_list_every_family_with_its_way() -> None:
    """When this fails, put what `family_table` gives into docs/models.md."""
    assert family_table() in (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
