"""Generation settings of a task file: what they may be called, and what they must be."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping
from typing import Any

from assay.errors import ConfigWarning

OWN = (
    *("until", "max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"),
    *("do_sample", "temperature", "top_p", "top_k", "min_p"),
)
"""What every backend knows."""
OF_BACKENDS = (
    *("max_length", "min_length", "min_new_tokens", "early_stopping", "max_time", "stop_strings", "num_beams"),
    *("num_beam_groups", "penalty_alpha", "use_cache", "typical_p", "epsilon_cutoff", "eta_cutoff", "top_h"),
    *("diversity_penalty", "repetition_penalty", "encoder_repetition_penalty", "length_penalty"),
    *("no_repeat_ngram_size", "bad_words_ids", "force_words_ids", "renormalize_logits", "constraints"),
    *("forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens", "sequence_bias"),
    *("guidance_scale", "watermarking_config", "num_return_sequences", "pad_token_id", "bos_token_id"),
    *("eos_token_id", "decoder_start_token_id", "cache_implementation", "num_assistant_tokens", "dola_layers"),
    *("frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "n", "best_of", "seed"),
    *("stop", "response_format", "reasoning_effort", "reasoning", "thinking", "verbosity", "extra_body", "user"),
    *("chat_template_kwargs", "skip_special_tokens", "spaces_between_special_tokens", "ignore_eos", "min_tokens"),
    *("stop_token_ids", "include_stop_str_in_output", "truncate_prompt_tokens", "allowed_token_ids", "bad_words"),
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "grammar"),
    *("json_schema", "ebnf", "regex", "xtc_probability", "xtc_threshold", "mirostat", "dynatemp_range"),
    *("tools", "tool_choice", "parallel_tool_calls", "service_tier", "store", "think_end_token", "enable_thinking"),
)
"""What transformers, vLLM, SGLang, llama.cpp or OpenAI's servers know."""


def check_generation(settings: Mapping[str, Any]) -> None:
    """Raise `ValueError` for a value that cannot be meant, and for a name that is nearly a known one.

    A name like none that is known may be one of a model of your own: it is passed on, and said.
    """
    until = settings.get("until")
    listed = until if isinstance(until, list | tuple) else [until]
    if until is not None and not all(isinstance(stop, str) for stop in listed):
        raise ValueError(f"until is {until!r}, expected a text or a list of texts")
    for name in ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"):
        length = settings.get(name)
        if length is not None and not _is_length(length):
            raise ValueError(f"{name} is {length!r}, expected a number from 0 on")
    for name in settings:
        if name in OWN or name in OF_BACKENDS:
            continue
        if close := difflib.get_close_matches(str(name), [*OWN, *OF_BACKENDS], n=1, cutoff=0.75):
            raise ValueError(f"there is no setting {name!r}. Did you mean {close[0]}?")
        warnings.warn(
            f"generation_kwargs: no backend is known to have a setting {name!r}; it is passed on as it is",
            ConfigWarning,
            stacklevel=2,
        )


def _is_length(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and int(value) >= 0
    except (TypeError, ValueError):
        return False
