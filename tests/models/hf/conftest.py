"""Tiny real models, made here: a Llama, a GPT-2, two with sliding windows, one with attention sinks, an encoder-decoder."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from assay.models.hf import HFLM

TEXT = """Question: What do plants need to grow? Answer: light, water and air.
Question: Which animal lays eggs? Answer: the hen. Question: How many legs has a spider? Answer: eight.
The man walks to the door and opens it. A woman is sitting on a bench. Then she stands up, smiles, and leaves.
Ein Mann geht über die Straße. 日本語のテキスト。 1 + 1 = 2, 12 * 12 = 144.
"""
TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}"
    "{% if not loop.last or add_generation_prompt %}</s>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@cache
def make_tokenizer(*, specials: bool = True) -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"] if specials else [],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    raw.train_from_iterator([TEXT], trainer)
    named = {"bos_token": "<s>", "eos_token": "</s>"} if specials else {}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, **named)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


_SIZE: dict[str, Any] = {"vocab_size": 512, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4}
_HEADS: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2}
_ENDS: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
_LONG: dict[str, Any] = {"max_position_embeddings": 256}


def _llama() -> Any:
    return LlamaForCausalLM(LlamaConfig(**_SIZE, **_HEADS, **_ENDS, **_LONG))


def _gpt2() -> Any:
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=512, n_embd=32, n_layer=3, n_head=4, n_positions=256, bos_token_id=0, eos_token_id=1)
    )


def _gemma2() -> Any:
    # Every other layer sees 6 tokens; scores and logits are soft-capped.
    return Gemma2ForCausalLM(
        Gemma2Config(
            **_SIZE,
            **_HEADS,
            **_ENDS,
            **_LONG,
            head_dim=8,
            sliding_window=6,
            query_pre_attn_scalar=8,
            attn_logit_softcapping=2.0,
            final_logit_softcapping=3.0,
        )
    )


def _mistral() -> Any:
    return MistralForCausalLM(MistralConfig(**_SIZE, **_HEADS, **_ENDS, **_LONG, sliding_window=5))


def _gpt_oss() -> Any:
    config = GptOssConfig(
        **_SIZE, **_HEADS, **_ENDS, **_LONG, head_dim=8, sliding_window=6, num_local_experts=2, num_experts_per_tok=1
    )
    return GptOssForCausalLM(config)


BUILDERS: dict[str, Callable[[], Any]] = {
    "llama": _llama,
    "gpt2": _gpt2,
    "gemma2": _gemma2,
    "mistral": _mistral,
    "gpt_oss": _gpt_oss,
}


@cache
def make_network(name: str) -> Any:
    """Weights are larger than at a usual start, so that a token that sees what it should not changes the answer."""
    torch.manual_seed(7)
    network = BUILDERS[name]().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.mul_(5.0)
    return network


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer()


@pytest.fixture(scope="session")
def bare_tokenizer() -> PreTrainedTokenizerFast:
    """Without BOS and EOS."""
    return make_tokenizer(specials=False)


@pytest.fixture(scope="session")
def network() -> Callable[[str], Any]:
    return make_network


@pytest.fixture(params=list(BUILDERS), scope="session")
def any_model(request: pytest.FixtureRequest) -> HFLM:
    return HFLM(make_network(request.param), tokenizer=make_tokenizer(), threads=1)


@pytest.fixture(scope="session")
def llama() -> HFLM:
    return HFLM(make_network("llama"), tokenizer=make_tokenizer(), threads=1)


@pytest.fixture(scope="session")
def llama_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama")
    make_network("llama").save_pretrained(path)
    make_tokenizer().save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def t5() -> HFLM:
    torch.manual_seed(3)
    config = T5Config(
        vocab_size=512,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
    return HFLM(T5ForConditionalGeneration(config).eval(), tokenizer=make_tokenizer(), threads=1)
