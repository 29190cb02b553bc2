"""`assay demo` with a tiny real transformer in place of the one it fetches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli.demo import command

pytestmark = pytest.mark.slow


@pytest.fixture
def tiny_model(tmp_path: Path) -> str:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.set_num_threads(1)
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator([], trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>"], initial_alphabet=letters))
    PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="<s>").save_pretrained(tmp_path / "tiny")
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=300, max_position_embeddings=512, bos_token_id=0, eos_token_id=0, **shape)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "tiny")
    return str(tmp_path / "tiny")


def test_demo_ends_with_a_table_a_report_and_what_to_do_next(
    tiny_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    words = ["--model", tiny_model, "--limit", "2"]
    first = CliRunner().invoke(command, words, catch_exceptions=False)
    assert first.exit_code == 0
    for expected in ("demo_capitals", "pass@3", "report.html", "assay view", "assay run", "assay new task"):
        assert expected in first.output
    assert "demo_capitals" in (tmp_path / "runs/demo-tiny-2/report.html").read_text(encoding="utf-8")
    scores = (tmp_path / "runs/demo-tiny-2/results.json").read_text(encoding="utf-8")

    second = CliRunner().invoke(command, words, catch_exceptions=False)
    assert second.exit_code == 0
    run = json.loads((tmp_path / "runs/demo-tiny-2/run.json").read_text(encoding="utf-8"))
    assert run["counts"]["computed"] == 0
    assert CliRunner().invoke(command, [*words[:2], "--limit", "1"]).exit_code == 0, "another demo beside it"
    again = (tmp_path / "runs/demo-tiny-2/results.json").read_text(encoding="utf-8")
    assert json.loads(again)["results"] == json.loads(scores)["results"]


def test_demo_without_torch_says_so_before_it_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch is hidden as it would be where it is not installed: nothing on the path has it."""
    import assay.cli.demo as demo
    from assay.errors import MissingPackage

    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match="the demo needs the package 'torch'"):
        CliRunner().invoke(command, ["--run_dir", str(tmp_path / "run")], catch_exceptions=False)
    assert not (tmp_path / "home").exists()
