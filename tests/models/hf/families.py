"""Tiny random models of many families, built from their transformers configs."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

WINDOW = 32
"""What a family calls its window, chunk or local attention is made this small, so that probes of 90 tokens reach beyond it."""

_COMMON: dict[str, Any] = {
    "vocab_size": 257,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
_EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 1,
    "n_group": 1,
    "topk_group": 1,
}
_LATENT: dict[str, Any] = {
    **_EXPERTS,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "head_dim": 8,
    "num_key_value_heads": 4,
    "first_k_dense_replace": 1,
}
_MAMBA: dict[str, Any] = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_n_groups": 1,
    "mamba_expand": 2,
    "mamba_chunk_size": 16,
    "mamba_d_ssm": 64,
    "mamba_dt_rank": 4,
}
_DELTA: dict[str, Any] = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "linear_attention", "full_attention"],
    "shared_expert_intermediate_size": 32,
}
_SLIDING: dict[str, Any] = {"sliding_window": WINDOW}

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama_with_a_stray_window": {"model_type": "llama", **_SLIDING},
    "qwen2": {},
    "qwen2_sliding": {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 1, **_SLIDING},
    "qwen3": {},
    "qwen3_moe": _EXPERTS,
    "qwen2_moe": {**_EXPERTS, "shared_expert_intermediate_size": 32},
    "mistral": _SLIDING,
    "ministral": _SLIDING,
    "mixtral": {**_EXPERTS, **_SLIDING},
    "gemma": {},
    "gemma2": {**_SLIDING, "query_pre_attn_scalar": 8},
    "gemma3_text": {**_SLIDING, "sliding_window_pattern": 2},
    "gemma3n_text": {
        **_SLIDING,
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 257,
        "laurel_rank": 4,
        "altup_num_inputs": 2,
        "intermediate_size": [64] * 4,
        "activation_sparsity_pattern": [0.0] * 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "gemma4_text": {
        **_SLIDING,
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 257,
        "global_head_dim": 8,
    },
    "phi": {},
    "phi3": _SLIDING,
    "phimoe": _EXPERTS,
    "gpt2": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256},
    "gpt_neo": {
        "num_layers": 2,
        "num_hidden_layers": 2,
        "attention_types": [[["global", "local"], 1]],
        "window_size": WINDOW,
        "num_heads": 4,
    },
    "gptj": {"n_embd": 32, "n_layer": 3, "n_head": 4, "rotary_dim": 4, "n_positions": 256},
    "gpt_neox": {},
    "gpt_neox_japanese": {"intermediate_multiple_size": 2},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32},
    "bloom": {"n_layer": 3, "n_head": 4},
    "falcon": {"head_dim": None, "new_decoder_architecture": False},
    "falcon_alibi": {"model_type": "falcon", "head_dim": None, "alibi": True, "multi_query": False},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 3, "max_seq_len": 256, "expansion_ratio": 2},
    "olmo": {},
    "olmo2": {},
    "olmo3": {**_SLIDING, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
    "olmoe": _EXPERTS,
    "cohere": {},
    "cohere2": {**_SLIDING, "sliding_window_pattern": 2},
    "deepseek_v2": {**_LATENT, "topk_method": "greedy"},
    "deepseek_v3": _LATENT,
    "granite": {},
    "granitemoe": _EXPERTS,
    "granitemoehybrid": {
        **_EXPERTS,
        **_MAMBA,
        "shared_intermediate_size": 32,
        "layer_types": ["mamba", "attention", "mamba"],
    },
    "mamba": {"state_size": 8, "expand": 2, "time_step_rank": 4},
    "mamba2": {"state_size": 8, "expand": 2, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 16},
    "falcon_mamba": {"state_size": 8, "expand": 2, "time_step_rank": 4},
    "jamba": {
        **_EXPERTS,
        **_MAMBA,
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "use_mamba_kernels": False,
    },
    "bamba": {**_MAMBA, "attn_layer_indices": [1]},
    "falcon_h1": _MAMBA,
    "lfm2": {"layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False},
    "lfm2_moe": {**_EXPERTS, "layer_types": ["conv", "full_attention", "conv"], "num_dense_layers": 1},
    "qwen3_next": {**_EXPERTS, **_DELTA},
    "qwen3_5_text": _DELTA,
    "nemotron_h": {
        **_EXPERTS,
        "layers_block_type": ["mamba", "attention", "moe"],
        "mamba_num_heads": 8,
        "mamba_head_dim": 8,
        "ssm_state_size": 8,
        "n_groups": 1,
        "chunk_size": 16,
        "expand": 2,
        "moe_shared_expert_intermediate_size": 32,
    },
    "recurrent_gemma": {"lru_width": 32, "attention_window_size": WINDOW, "conv1d_width": 4},
    "rwkv": {"attention_hidden_size": 32, "context_length": 256},
    "minimax": {
        **_EXPERTS,
        "block_size": 16,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    },
    "minimax_m2": {**_EXPERTS, "rotary_dim": 8},
    "gpt_oss": {**_EXPERTS, **_SLIDING, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "glm": {},
    "glm4": {},
    "glm4_moe": {**_EXPERTS, "first_k_dense_replace": 1},
    "glm4_moe_lite": _LATENT,
    "nemotron": {},
    "starcoder2": _SLIDING,
    "gpt_bigcode": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256},
    "codegen": {"n_embd": 32, "n_layer": 3, "n_head": 4, "rotary_dim": 4, "n_positions": 256, "n_ctx": 256},
    "stablelm": {},
    "exaone4": {**_SLIDING, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "exaone_moe": {**_EXPERTS, **_SLIDING, "first_k_dense_replace": 1},
    "smollm3": {},
    "persimmon": {"num_key_value_heads": 4},
    "helium": {},
    "ernie4_5": {},
    "ernie4_5_moe": {**_EXPERTS, "moe_num_experts": 4, "moe_k": 2},
    "seed_oss": {},
    "hunyuan_v1_dense": {},
    "hunyuan_v1_moe": {**_EXPERTS, "moe_topk": 2},
    "arcee": {},
    "apertus": {},
    "dots1": {**_EXPERTS, "n_shared_experts": 1, "first_k_dense_replace": 1},
    "bitnet": {},
    "diffllama": {},
    "doge": {},
    "llama4_text": {
        **_EXPERTS,
        "intermediate_size_mlp": 64,
        "attention_chunk_size": WINDOW,
        "floor_scale": WINDOW,
        "interleave_moe_layer_step": 1,
        "layer_types": ["chunked_attention", "chunked_attention", "full_attention"],
        "no_rope_layers": [1, 1, 0],
    },
    "longcat_flash": {
        **_LATENT,
        "num_layers": 2,
        "ffn_hidden_size": 64,
        "expert_ffn_hidden_size": 32,
        "zero_expert_num": 1,
        "moe_topk": 2,
    },
    "biogpt": {},
    "xglm": {"d_model": 32, "ffn_dim": 64, "attention_heads": 4, "num_layers": 3},
    "afmoe": {**_EXPERTS, **_SLIDING, "num_dense_layers": 1},
    "vaultgemma": {**_SLIDING, "query_pre_attn_scalar": 8},
    "flex_olmo": _EXPERTS,
    "jais2": {},
    "cwm": {**_SLIDING, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "modernbert-decoder": {"local_attention": WINDOW, "global_attn_every_n_layers": 2},
    "solar_open": _EXPERTS,
}
"""By name what a family needs beyond the common sizes; `model_type` where the name is not that of transformers."""


def build(name: str, dtype: Any = torch.float32, **others: Any) -> Any:
    """Weights are larger than at a usual start, so that a token that sees what it should not changes the answer."""
    options = {**_COMMON, **FAMILIES[name], **others}
    options = {key: value for key, value in options.items() if value is not None}
    config = AutoConfig.for_model(options.pop("model_type", name), **options)
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(5.0)
    return model.to(dtype).eval()
