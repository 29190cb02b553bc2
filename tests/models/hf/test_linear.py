"""The faster linear layers give what the usual ones give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from assay.instance import Instance
from assay.models.hf import HFLM, processor
from assay.models.hf import linear as packing
from assay.models.hf.linear import LinearMode, linear_mode, pack_linear_layers


class Holder(torch.nn.Module):
    """A model as far as packing looks at one: layers, and perhaps a vocabulary projection."""

    device = torch.device("cpu")

    def __init__(self, layer: torch.nn.Linear, *, is_head: bool = False) -> None:
        super().__init__()
        self.layer = layer
        self.is_head = is_head

    def get_output_embeddings(self) -> torch.nn.Linear | None:
        return self.layer if self.is_head else None


@pytest.mark.parametrize("mode", [LinearMode.GENERATING, LinearMode.SCORING])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 24), (3, 24), (2, 5, 24), (200, 24), (0, 24)])
def test_packed_layers_agree_with_plain_ones(shape: tuple[int, ...], bias: bool, mode: LinearMode) -> None:
    layer = torch.nn.Linear(24, 40, bias=bias)
    states = torch.randn(*shape)
    with torch.inference_mode():
        plain = layer(states)
        assert pack_linear_layers(Holder(layer)) == 1
        assert torch.equal(layer(states), plain), "outside of both modes nothing has changed"
        with linear_mode(mode):
            torch.testing.assert_close(layer(states), plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "is_head", "packed"),
    [(64, False, True), (packing._SHORT, False, True), (packing._SHORT + 1, False, False), (64, True, False)],
)
def test_scores_keep_the_usual_product_where_the_other_rounds_worse(inputs: int, is_head: bool, packed: bool) -> None:
    layer = torch.nn.Linear(inputs, 48)
    pack_linear_layers(Holder(layer, is_head=is_head))
    with torch.inference_mode():
        with linear_mode(LinearMode.SCORING):
            assert layer.forward._is_better(100) is packed
        with linear_mode(LinearMode.GENERATING):
            assert layer.forward._is_better(packing._FEW)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("plenty", [True, False])
def test_half_precision_is_rounded_once_from_float32(
    dtype: torch.dtype, bias: bool, plenty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "is_slow", lambda _: True)
    monkeypatch.setattr(packing, "_SLICE", 16)
    monkeypatch.setattr(packing, "free_memory", lambda device: 1 << 30 if plenty else 0)
    layer = torch.nn.Linear(24, 40, bias=bias).to(dtype)
    assert pack_linear_layers(Holder(layer)) == 1
    for rows in (0, 1, packing._WIDENED_FROM, 200):
        states = torch.randn(1, rows, 24).to(dtype)
        with torch.inference_mode():
            usual = layer(states)
            with linear_mode(LinearMode.GENERATING):
                found = layer(states)
        wide = torch.nn.functional.linear(states.float(), layer.weight.float(), layer.bias.float() if bias else None)
        assert found.dtype == dtype
        # Half a unit in the last place of what float32 gives, and as near to what the layer gave before.
        torch.testing.assert_close(found.float(), wide, rtol=torch.finfo(dtype).eps / 2, atol=1e-5)
        torch.testing.assert_close(found, usual, rtol=2 * torch.finfo(dtype).eps, atol=1e-3)


INTEL, AMD = "vendor_id\t: GenuineIntel\ncpuid level\t: ", "vendor_id\t: AuthenticAMD\ncpuid level\t: "


@pytest.mark.parametrize(
    ("capability", "cpuinfo", "slow"),
    [
        ("AVX512", f"{AMD}16\nflags\t: avx512f", True),
        ("AVX512", f"{AMD}16\nflags\t: avx512f avx512_bf16", False),
        ("AVX512", f"{INTEL}32\nflags\t: avx512f avx512_bf16", True),
        ("AVX512", f"{INTEL}32\nflags\t: avx512_bf16 amx_bf16 amx_tile", False),
        ("AVX512", f"{INTEL}28\nflags\t: avx512_bf16 amx_bf16 amx_tile", True),
        ("DEFAULT", "", False),
    ],
)
def test_bfloat16_is_slow_where_an_x86_processor_lacks_fast_instructions(
    capability: str, cpuinfo: str, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever oneDNN says: it has kernels there too, which widen number by number."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "")  # so that it is put back as it was
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    for module in (packing, processor):
        monkeypatch.setattr(module, "cpuinfo", lambda: cpuinfo)
    processor.limit_instructions()
    assert packing.is_slow(torch.bfloat16) is slow


def test_half_precision_does_not_end_the_process_on_this_machine() -> None:
    """Some virtual machines announce instructions that they do not have whole."""
    script = "import assay.models.hf, torch; x = torch.ones(64, 64, dtype=torch.bfloat16); print((x @ x)[0, 0].item())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "64.0\n"), done.stderr


def test_layers_are_left_alone_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    holder = Holder(torch.nn.Linear(8, 8))
    monkeypatch.setattr(packing, "free_memory", lambda device: 100)
    assert pack_linear_layers(holder) == 0
    assert "forward" not in vars(holder.layer)


def test_only_models_that_were_loaded_here_are_changed(llama: HFLM, llama_directory: Path) -> None:
    """The answers are the same; a model that was handed over stays as it was."""
    loaded = HFLM(str(llama_directory), dtype="float32", device="cpu", threads=1)
    assert "forward" in vars(loaded.model.lm_head)
    assert "forward" not in vars(llama.model.lm_head)
    prompts = ["Question: Which animal lays eggs? Answer:", "The man walks", "1 + 1 ="]
    generations = [Instance("generate_until", {}, (p, {"until": [], "max_gen_toks": 12}), 0) for p in prompts]
    assert loaded.generate_until(generations) == llama.generate_until(generations)
    pairs = [Instance("loglikelihood", {}, (p, " the hen"), 0) for p in prompts]
    for one, two in zip(loaded.loglikelihood(pairs), llama.loglikelihood(pairs)):
        assert one[0] == pytest.approx(two[0], abs=1e-4)
