"""A model on several devices: whatever a pass needs is where the layer is; and attention where no CPU kernel is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.hf.families import build

from assay.instance import Instance
from assay.models.hf import HFLM, attention, flex
from assay.models.hf.attention import MASKED, Attention
from assay.models.hf.budget import devices_of
from assay.models.hf.decoding import Base, DecodePlan, RowSpan, Slots
from assay.models.hf.tree import KeptPath, StepPlan
from assay.models.prefix_tree import PrefixTree

HOW = Attention(scale=0.5, softcap=None, window=None, chunk=None, sinks=None)
DEVICES = ("cpu", "meta")


def states(heads: int, tokens: int, device: str) -> Any:
    return torch.randn(1, heads, tokens, 8, device=device)


def test_the_steps_of_a_tree_find_masks_and_places_on_the_device_of_each_layer() -> None:
    """`meta` is a device that every machine has: no numbers, and an error where a tensor of another device comes in."""
    draw = np.random.default_rng(0)
    shared = draw.integers(3, 99, 30).tolist()
    tree = PrefixTree([shared + draw.integers(3, 99, 1 + length % 7).tolist() for length in range(12)])
    path, seen = KeptPath(), 0
    for step in tree.schedule(20):
        path.cut(step.depth)
        plan = StepPlan(step, path)
        for layer, device in enumerate(DEVICES):
            given = [states(heads, len(step), device) for heads in (4, 2, 2)]
            output = plan.attend(layer, HOW, *given)
            assert (output.device, output.shape) == (torch.device(device), (1, len(step), 4, 8))
        path.grow(step.keep)
        seen += len(step)
    assert seen == tree.size
    assert path.length > 0


def test_rows_are_decoded_on_the_device_of_each_layer() -> None:
    like = [(states(2, 3, device), states(2, 3, device)) for device in DEVICES]
    slots = Slots()
    slots.reserve(like, rows=3, tokens=16)
    base = Base([(states(2, 70, device), states(2, 70, device)) for device in DEVICES], 70)
    slots.fill(0, 0, like, torch.arange(3))
    plan = DecodePlan(slots, [RowSpan(base, 3, 1), RowSpan(None, 5, 4), RowSpan(base, 2, 2)])
    for layer, device in enumerate(DEVICES):
        output = plan.attend(layer, HOW, *(states(heads, 7, device) for heads in (4, 2, 2)))
        assert (output.device, output.shape) == (torch.device(device), (1, 7, 4, 8))


def test_a_device_map_with_offloaded_layers_gives_the_same_answers(
    llama: HFLM, llama_directory: Path, tmp_path: Path
) -> None:
    """Layers on the disk have their weights on `meta` until they run."""
    pytest.importorskip("accelerate")
    places: dict[str, Any] = {
        "model.embed_tokens": "cpu",
        "model.norm": "cpu",
        "model.rotary_emb": "cpu",
        "lm_head": "cpu",
    }
    places |= {f"model.layers.{layer}": "disk" if layer % 2 else "cpu" for layer in range(4)}
    spread = HFLM(str(llama_directory), dtype="float32", device_map=places, offload_folder=str(tmp_path), threads=1)
    assert spread.check.way == "tree", spread.check.reason
    assert {part.device.type for part in spread.model.parameters()} == {"cpu", "meta"}
    assert devices_of(spread.model) == {torch.device("cpu")}
    pairs = [Instance("loglikelihood", {}, ("The man walks to", text), 0) for text in (" the door", " a bench")]
    for one, two in zip(spread.loglikelihood(pairs), llama.loglikelihood(pairs)):
        assert one[0] == pytest.approx(two[0], abs=1e-4)
    asked = [
        Instance("generate_until", {}, (text, {"until": [], "max_gen_toks": 6}), 0) for text in ("The man", "1 + 1")
    ]
    assert spread.generate_until(asked) == llama.generate_until(asked)


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("masked", [False, True])
def test_flex_attention_gives_what_explicit_attention_gives(softcap: float | None, masked: bool) -> None:
    torch.manual_seed(0)
    how = Attention(scale=0.3, softcap=softcap, window=None, chunk=None, sinks=None)
    query, key, value = torch.randn(2, 2, 24, 16), torch.randn(2, 2, 40, 16), torch.randn(2, 2, 40, 16)
    mask = torch.where(torch.rand(2, 1, 24, 40) < 0.4, MASKED, 0.0) if masked else None
    expected = how._explicit(query, key, value, mask)
    found = flex.attend(query, key, value, mask, how.scale, softcap, compiled=False)
    for one, two in zip(found, expected):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_explicit_attention_holds_few_scores_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = torch.randn(1, 2, 50, 8), torch.randn(1, 2, 30, 8), torch.randn(1, 2, 30, 8)
    mask = torch.where(torch.rand(1, 1, 50, 30) < 0.3, MASKED, 0.0)
    expected = HOW._explicit(query, key, value, mask)
    monkeypatch.setattr(attention, "SCORES_BYTES", 7 * 4 * 2 * 30)
    seen = []
    usual = Attention._scored
    monkeypatch.setattr(Attention, "_scored", lambda *given: seen.append(given[1].shape[2]) or usual(*given))
    for one, two in zip(HOW._explicit(query, key, value, mask), expected):
        torch.testing.assert_close(one, two)
    assert (max(seen), sum(seen)) == (7, 50)


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_a_tree_by_flex_attention_agrees_with_plain_scoring(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.models.hf.selfcheck import self_check

    usual = flex.attend
    monkeypatch.setattr(Attention, "_has_kernel", lambda *_: False)
    monkeypatch.setattr(flex, "suits", lambda query, key: True)
    monkeypatch.setattr(flex, "attend", lambda *given: usual(*given, compiled=False))
    check = self_check(build(name))
    assert check.way == "tree", check.reason
