"""Whatever the family and the precision: the way that the self-check chooses gives what plain scoring gives.

`make test` holds every 17th cell of the grid (family × precision × attention), which has no factor in common with the six cells
of a family, so that each of them comes up; `make test-wide` the whole of it. Which way that is says the table in docs/measured/local-models.md.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.hf.families import FAMILIES, WINDOW, build
from tests.models.hf.family_table import WAYS, documented_ways, model_type, table, written

from assay.models.hf.attention import Attention
from assay.models.hf.scoring import score_by_tree, score_plainly, score_tokens_plainly
from assay.models.hf.selfcheck import SelfCheck, in_full_precision, local_sizes, self_check
from assay.models.hf.state import StateRunner, score_by_state
from assay.models.hf.tokenization import Scored
from assay.models.hf.tree import TreeRunner

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
GRID = [(name, dtype, kernel) for name in FAMILIES for dtype in DTYPES for kernel in (True, False)]
DOCUMENTED = documented_ways()


def cell(place: int, case: tuple[str, str, bool]) -> Any:
    name, dtype, kernel = case
    marks = () if place % 17 == 0 else pytest.mark.wide
    return pytest.param(*case, id=f"{name}-{dtype}-{'kernel' if kernel else 'explicit'}", marks=marks)


CASES = [cell(place, case) for place, case in enumerate(GRID)]
HALF_BY_TREE = [
    cell(place, case)
    for place, case in enumerate(GRID)
    if case[1] != "float32" and DOCUMENTED.get(model_type(case[0])) == "tree"
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
    documented = DOCUMENTED[model_type(name)]
    # Rounding decides nothing about a tree that fits; a state may be too noisy in half precision.
    assert check.way in ((documented,) if dtype == "float32" or documented == "tree" else WAYS), check.reason
    assert (check.reason is None) == (check.way == "tree")
    asked = requests()
    # In half precision noise hides what is wrong, so the way that was chosen there is looked at in float32.
    with in_full_precision(model):
        found, plain = score(model, check, asked), dict(score_plainly(model, asked, 300))
    for index, request in enumerate(asked):
        assert found[index][0] == pytest.approx(plain[index][0], abs=1e-4 * len(request.targets)), (check, request)


@pytest.mark.parametrize(("name", "dtype", "kernel"), HALF_BY_TREE)
def test_the_tree_is_no_noisier_than_plain_scoring(
    name: str, dtype: str, kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Median and 95 % quantile of the error against float32 are at most 1.25 times plain scoring's.

    In mixtures of experts the quantile hangs on how many routes flip, which few prefixes do not tell: a cell beyond the limit is
    asked again with eight times as many.
    """
    if not kernel:
        monkeypatch.setattr(Attention, "_has_kernel", lambda *_: False)
    model = build(name, DTYPES[dtype])
    found = ratios_of_noise(model, prefixes=64)
    if max(found) > 1.25:
        found = ratios_of_noise(model, prefixes=512)
    assert max(found) <= 1.25, found


@pytest.mark.parametrize("bits", [4, 5])
def test_a_noisier_tree_would_be_seen(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention that is rounded to fewer bits than bfloat16 has (8) is beyond the limit."""
    join = Attention.join

    def rounded(self: Attention, *args: Any) -> Any:
        mantissa, exponent = torch.frexp(join(self, *args))
        return torch.ldexp(torch.round(mantissa * 2**bits) / 2**bits, exponent)

    monkeypatch.setattr(Attention, "join", rounded)
    assert max(ratios_of_noise(build("llama", torch.bfloat16), prefixes=64)) > 1.25


def ratios_of_noise(model: Any, *, prefixes: int) -> list[float]:
    """The tree's error over plain scoring's: the median, and the 95 % quantile."""
    draw = random.Random(5)

    def some(count: int) -> list[int]:
        return [draw.randrange(3, 257) for _ in range(count)]

    sequences = [(shared + some(8), 5) for shared in (some(8) for _ in range(prefixes)) for _ in range(2)]
    singles = [Scored(tokens[:at], [tokens[at]]) for tokens, first in sequences for at in range(first, len(tokens))]

    def plainly() -> Any:
        return np.concatenate(list(score_tokens_plainly(model, sequences, 256)))

    found = dict(score_by_tree(TreeRunner(model), singles, 96))
    tree, plain = np.array([found[index][0] for index in range(len(singles))]), plainly()
    with in_full_precision(model):
        truth = plainly()
    return [
        float(np.quantile(np.abs(tree - truth), share) / np.quantile(np.abs(plain - truth), share))
        for share in (0.5, 0.95)
    ]


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


def test_layers_that_count_their_positions_are_told_them() -> None:
    """llama4 scales queries by where they stand, and takes their place in the pass for it unless it is told better."""
    model = build("llama4_text", floor_scale=100)
    asked = requests()
    assert max(len(request.tokens) for request in asked) < 100
    plain = dict(score_plainly(model, asked, 300))
    found = dict(score_by_tree(TreeRunner(model), asked, 200))
    assert max(abs(found[index][0] - plain[index][0]) for index in plain) < 1e-4


def test_a_scale_too_long_to_reach_is_probed_small(monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.models.hf import attention, selfcheck

    monkeypatch.setattr(selfcheck, "_AFFORDABLE", {"cpu": 0.0})
    model = build("llama4_text")
    assert self_check(model).way == "tree"
    monkeypatch.setattr(attention.PassThroughCache, "get_seq_length", lambda *_, **__: 0)
    check = self_check(model)
    assert "differ by" in str(check.reason)
    assert check.way != "tree"
    assert {part.floor_scale for part in model.modules() if hasattr(part, "floor_scale")} == {WINDOW}


def test_a_route_that_flips_in_a_shared_prefix_costs_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the first probes alone this model looks several times as noisy by tree as by plain scoring."""
    from assay.models.hf import selfcheck

    model = build("exaone_moe", torch.float16)
    assert self_check(model).way == "tree"
    monkeypatch.setattr(selfcheck, "separate_probes", selfcheck.short_probes)
    assert self_check(model).way == "state"


def test_a_wrong_window_in_half_precision_is_found_without_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.models.hf import attention, selfcheck

    monkeypatch.setattr(selfcheck, "_fits_in_full", lambda _: False)
    assert self_check(build("mistral", torch.bfloat16)).way == "tree"
    monkeypatch.setattr(attention, "_read_mask", lambda _: (None, None))
    assert self_check(build("mistral", torch.bfloat16)).way == "state"


def test_the_docs_list_every_family_with_its_way() -> None:
    """When this fails, `python -m tests.models.hf.family_table` writes the table anew."""
    assert set(DOCUMENTED) == {model_type(family) for family in FAMILIES}
    assert written(DOCUMENTED) == table()
