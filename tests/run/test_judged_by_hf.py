"""A judge that runs here: asked through its chat template, and each shared token of its prompts computed once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.hf.conftest import TEMPLATE, make_tokenizer
from tests.scoring.judges.bench import run, write_bench
from transformers import LlamaConfig, LlamaForCausalLM

from assay.instance import Instance
from assay.models import load_model
from assay.results import read_samples
from assay.scoring.judges import JUDGE_KINDS, Scale
from assay.scoring.judges.one_answer import Correct

DOCS = 40


class Anything(Scale):
    """Whatever is said is a verdict: a network with random weights says nothing that another scale would read."""

    is_open_ended = False

    def read(self, said: Any) -> float | None:
        return float(len(str(said)) % 2)

    def words(self) -> str:
        return "anything"

    def to_json(self) -> dict[str, Any]:
        return {"words": {}}


class Lenient(Correct):
    scale = Anything()


JUDGE_KINDS.add("lenient", Lenient, replace=True)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(7)
    size = {"vocab_size": 512, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096}
    LlamaForCausalLM(LlamaConfig(**size, **heads, bos_token_id=0, eos_token_id=1)).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def judged_run(folder: Path, tiny: Path, **arguments: Any) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """What the judge spent, and every question that it was asked."""
    write_bench(folder, DOCS, judged="scorer: {type: judge, kind: lenient, generation_kwargs: {max_gen_toks: 4}}")
    roles = {"judge": {"model": "hf", "model_args": {"pretrained": str(tiny), **arguments}}}
    run(folder, "judged", roles=roles, run_dir=str(folder / "run"))
    spent = json.loads((folder / "run" / "run.json").read_text())["roles"]["judge"]
    rows = read_samples(folder / "run" / "samples" / "judged.parquet")
    return spent, [question for row in rows for question in json.loads(row["questions"])]


@pytest.mark.parametrize("template", [False, True])
def test_instructions_that_all_questions_share_are_computed_once(tmp_path: Path, tiny: Path, template: bool) -> None:
    spent, asked = judged_run(tmp_path, tiny, apply_chat_template=template)
    assert (len(asked), spent["computed"]) == (DOCS, DOCS)
    model = load_model("hf", {"pretrained": str(tiny)})
    requests = [Instance("generate_until", {}, tuple(question["arguments"]), 0) for question in asked]
    distinct = model.count_tokens("generate_until", requests)
    model.close()
    assert spent["computed_tokens"] <= 1.02 * distinct
    assert spent["prompt_tokens"] > 3 * distinct, "most of each prompt is the instruction"


def test_a_judge_is_asked_through_its_chat_template_where_its_role_says_so(tmp_path: Path, tiny: Path) -> None:
    (tmp_path / "plain").mkdir()
    _, plain = judged_run(tmp_path / "plain", tiny)
    (tmp_path / "chat").mkdir()
    _, chat = judged_run(tmp_path / "chat", tiny, apply_chat_template=True)
    assert TEMPLATE.startswith("{% for m in messages %}<s>{{ m['role'] }}\n")
    for bare, wrapped in zip(plain, chat, strict=True):
        assert wrapped["arguments"][0] == f"<s>user\n{bare['arguments'][0]}</s>\n<s>assistant\n"
    assert all(question["failure"] is None for question in chat)
