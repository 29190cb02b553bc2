"""What vLLM 0.32.0 takes and gives, by name, as far as the backend or its stand-in has to do with it.

Read from the wheel's files by `read_signatures` (`python -m tests.models.vllm.signatures WHEEL` prints it): nothing of
vLLM is imported, which needs a GPU.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator
from pprint import pprint

PLACES = {
    "SamplingParams": ("vllm/sampling_params.py", None),
    "LLM": ("vllm/entrypoints/llm.py", "__init__"),
    "LLMEngine.add_request": ("vllm/v1/engine/llm_engine.py", "add_request"),
    "LLMEngine.step": ("vllm/v1/engine/llm_engine.py", "step"),
    "LLMEngine.abort_request": ("vllm/v1/engine/llm_engine.py", "abort_request"),
    "EngineArgs": ("vllm/engine/arg_utils.py", None),
    "RequestOutput": ("vllm/outputs.py", "__init__"),
    "CompletionOutput": ("vllm/outputs.py", None),
    "Logprob": ("vllm/logprobs.py", None),
    "LoRARequest": ("vllm/lora/request.py", None),
}
"""Class (and method) → file, and the method whose parameters count; None: the fields of the class."""

PINNED: dict[str, str] = {
    "SamplingParams": "n presence_penalty frequency_penalty repetition_penalty temperature watermarking top_p top_k min_p seed "
    "stop stop_token_ids ignore_eos max_tokens min_tokens logprobs prompt_logprobs prompt_logprob_token_ids "
    "prompt_logprob_start logprob_token_ids flat_logprobs detokenize skip_special_tokens spaces_between_special_tokens "
    "include_stop_str_in_output output_kind stream_interval skip_clone structured_outputs logit_bias allowed_token_ids "
    "extra_args bad_words skip_reading_prefix_cache thinking_token_budget repetition_detection "
    "routed_experts_prompt_start trace_decode_token_ids output_text_buffer_length",
    "LLM": "model tokenizer trust_remote_code tensor_parallel_size dtype revision tokenizer_revision seed "
    "gpu_memory_utilization **kwargs",
    "LLMEngine.add_request": "request_id prompt params arrival_time lora_request tokenization_kwargs trace_headers priority "
    "session_id prompt_text kv_hints",
    "LLMEngine.step": "",
    "LLMEngine.abort_request": "request_ids internal",
    "EngineArgs": "model tokenizer dtype revision tokenizer_revision trust_remote_code tensor_parallel_size "
    "enable_prefix_caching max_model_len seed enable_lora gpu_memory_utilization quantization max_num_seqs",
    "RequestOutput": "request_id prompt prompt_token_ids prompt_logprobs outputs finished metrics lora_request "
    "encoder_prompt encoder_prompt_token_ids num_cached_tokens **kwargs",
    "CompletionOutput": "index text token_ids cumulative_logprob logprobs finish_reason stop_reason lora_request",
    "Logprob": "logprob rank decoded_token",
    "LoRARequest": "lora_name lora_int_id lora_path",
}
"""Of `LLM`, `EngineArgs`, the outputs and LoRA only what is used."""


def pinned(name: str) -> set[str]:
    return set(PINNED[name].split())


def read_signatures(wheel: str) -> dict[str, set[str]]:
    """The same from the files of a wheel, private names left out."""
    with zipfile.ZipFile(wheel) as files:
        trees = {path: ast.parse(files.read(path)) for path, _ in PLACES.values()}
    found = {}
    for name, (path, method) in PLACES.items():
        wanted = name.partition(".")[0]
        kind = next(node for node in trees[path].body if isinstance(node, ast.ClassDef) and node.name == wanted)
        names = _fields(kind) if method is None else _parameters(kind, method)
        found[name] = {each for each in names if not each.startswith("_")} - {"self"}
    return found


def _fields(kind: ast.ClassDef) -> Iterator[str]:
    for node in kind.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _parameters(kind: ast.ClassDef, method: str) -> Iterator[str]:
    function = next(node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == method)
    arguments = function.args
    yield from (argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
    if arguments.kwarg:
        yield f"**{arguments.kwarg.arg}"


if __name__ == "__main__":
    pprint(read_signatures(sys.argv[1]))
