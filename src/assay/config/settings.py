"""`key=value` settings as people type them on a command line, and the generation settings of a task file."""

from __future__ import annotations

import ast
import difflib
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any

from assay.errors import ConfigError, ConfigWarning


def parse_value(text: str) -> Any:
    """A boolean, a number, a Python literal, or the text itself.

    >>> [parse_value(t) for t in ("true", "8", "1e-3", "[1, 2]", "auto", "none")]
    [True, 8, 0.001, [1, 2], 'auto', None]
    """
    lowered = text.strip().lower()
    if lowered in ("none", "null"):
        return None
    if lowered in ("true", "false"):
        return lowered == "true"
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _json_object(text: str, flag: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise ConfigError(
            f"{flag}: {text!r} is not valid JSON: {error}",
            hint="Check quotes and commas, or write key=value,key=value.",
        ) from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{flag}: expected a JSON object, got {text!r}")
    return settings


def parse_settings(text: str, *, flag: str = "argument") -> dict[str, Any]:
    """`a=1,b=x`, `a=1 b=x`, or one JSON object. Commas inside brackets and quotes do not split.

    A quote is one only at the start of a value or inside brackets: `pretrained=/m/john's` has an apostrophe.

    >>> parse_settings('pretrained=gpt2,dtype=float32,chat_template_args={"x": [1, 2]}')
    {'pretrained': 'gpt2', 'dtype': 'float32', 'chat_template_args': {'x': [1, 2]}}
    >>> parse_settings('until=["a,b"] do_sample=true')
    {'until': ['a,b'], 'do_sample': True}
    >>> parse_settings("pretrained=/m/john's,stop='a,b'")
    {'pretrained': "/m/john's", 'stop': 'a,b'}
    """
    if text.lstrip().startswith("{"):
        return _json_object(text.strip(), flag)
    settings = {}
    for part in _split(text.strip()):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{flag}: {part!r} is not key=value", hint="Write key=value,key=value or a JSON object.")
        settings[key.strip()] = parse_value(value)
    return settings


def _split(text: str) -> list[str]:
    """Pieces at commas, or at spaces before a `key=`, outside brackets and quotes."""
    pieces, current, depth, quote = [], "", 0, ""
    for position, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (depth or re.fullmatch(r"[^=]+=\s*", current)):
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth = max(0, depth - 1)
        ends = not quote and depth == 0
        if ends and (char == "," or (char == " " and re.match(r"\s*\w+=", text[position:]))):
            pieces.append(current)
            current = ""
        else:
            current += char
    return [piece.strip() for piece in [*pieces, current] if piece.strip()]


def merge_settings(value: Any, *, flag: str) -> Any:
    """One mapping from a mapping, a text, or several of either; later ones win."""
    if value is None:
        return {}
    if isinstance(value, str):
        return parse_settings(value, flag=flag)
    if isinstance(value, list | tuple):
        merged: dict[str, Any] = {}
        for item in value:
            merged.update(merge_settings(item, flag=flag))
        return merged
    return value


OWN_GENERATION = (
    *("until", "max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"),
    *("do_sample", "temperature", "top_p", "top_k", "min_p"),
)
"""Generation settings that every backend knows."""
BACKEND_GENERATION = (
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
"""Those that transformers, vLLM, SGLang, llama.cpp or OpenAI's servers know besides."""


def check_generation(settings: Mapping[str, Any]) -> None:
    """Raise `ValueError` for a value that cannot be meant, and for a name that is nearly a known one.

    A name like none that is known may be one of a model of your own: it is passed on, and said.
    """
    until = settings.get("until")
    listed = until if isinstance(until, list | tuple) else [until]
    if until is not None and not all(isinstance(stop, str) for stop in listed):
        raise ValueError(f"until is {until!r}, expected a string or a list of strings")
    for name in ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"):
        length = settings.get(name)
        if length is not None and not _is_length(length):
            raise ValueError(f"{name} is {length!r}, expected a number from 0 up")
    for name in settings:
        if name in OWN_GENERATION or name in BACKEND_GENERATION:
            continue
        if close := difflib.get_close_matches(str(name), [*OWN_GENERATION, *BACKEND_GENERATION], n=1, cutoff=0.75):
            raise ValueError(f"there is no setting {name!r}. Did you mean {close[0]}?")
        warnings.warn(
            f"generation_kwargs: no known backend has a setting {name!r}; it is passed on unchanged",
            ConfigWarning,
            stacklevel=2,
        )


def _is_length(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and int(value) >= 0
    except (TypeError, ValueError):
        return False
