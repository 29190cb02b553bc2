"""What both harnesses are asked: task files over generated docs, settings, and a model whose answers are a hash.

Nothing here imports either harness: the process that runs lm-evaluation-harness imports this file too.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

WORDS = ["river", "stone", "lamp", "window", "garden", "paper", "winter", "music", "bridge", "candle"]


def number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:6], "big")


def loglikelihood(context: str, continuation: str) -> tuple[float, bool]:
    drawn = number(f"ll\0{context}\0{continuation}")
    return -(drawn % 100_003) / 1000 - 0.001, drawn % 3 == 0


def rolling(text: str) -> float:
    return -(number(f"rolling\0{text}") % 100_003) / 1000 - 0.001


def answer(context: str, draw: int) -> str:
    """Short texts of several kinds, some of which the filters below can read. `draw` counts draws of one context."""
    drawn = number(f"text\0{context}\0{draw}")
    value = drawn % 7
    forms = (f"{value}", f" {value}.", f"I add and get #### {value}", f"The answer is {value}", WORDS[drawn % 10], "")
    return forms[drawn // 7 % len(forms)]


def chat(messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
    """A chat template: each turn on its own lines, and the open turn of the assistant."""
    turns = "".join(f"<{message['role']}>\n{message['content']}\n" for message in messages)
    return f"{turns}<assistant>\n" if add_generation_prompt else turns.removesuffix("\n")


SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "chat": {
        "num_fewshot": 2,
        "apply_chat_template": True,
        "fewshot_as_multiturn": True,
        "system_instruction": "Be brief.",
    },
    "shots": {"num_fewshot": 3},
    "one turn": {"num_fewshot": 1, "apply_chat_template": True, "fewshot_as_multiturn": False},
    "system": {"system_instruction": "Answer."},
    "limit": {"limit": 5},
}
SLICE = ("chat",)
"""What `make test` runs; `make parity` and `make test-wide` run all."""

BOOTSTRAP_ITERS = 10
"""With none, lm-evaluation-harness leaves out every standard error, those of means too."""

ROOTS = ["live_contexts", "live_drawn", "live_target", "live_text", "live_group"]


def write_cases(folder: Path, line: str) -> None:
    """Every output type, filters, draws, and a group in a group, averaged by size and evenly."""
    docs = [_doc(n) for n in range(12)]
    for split, chosen in (("test", docs[:8]), ("train", docs[8:])):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in chosen))
    files = {split: str(folder / f"{split}.jsonl") for split in ("test", "train")}
    head = f"dataset_path: json\ndataset_kwargs: {{data_files: {json.dumps(files)}}}\n"
    head += "test_split: test\ntraining_split: train\nmetadata: {version: 1}\n"
    for name, body in _bodies(line).items():
        (folder / f"{name}.yaml").write_text(f"task: {name}\n{head}{body}")
    (folder / "live_group.yaml").write_text(
        "group: live_group\ntask: [live_inner, live_write]\n"
        "aggregate_metric_list: [{metric: acc, weight_by_size: true}]\nmetadata: {version: 1}\n"
    )
    (folder / "live_inner.yaml").write_text(
        "group: live_inner\ntask: [live_choice, live_spaced]\n"
        "aggregate_metric_list: [{metric: acc, weight_by_size: false}, {metric: acc_norm, weight_by_size: true}]\n"
        "metadata: {version: 1}\n"
    )


def _doc(n: int) -> dict[str, Any]:
    choices = [WORDS[(n + i) % 10] * (i + 1) for i in range(3 + n % 2)]
    return {
        "question": f"What is {n} and {n % 4}?",
        "choices": choices,
        "spaced": [f" {choice}" for choice in choices],
        "answer": n % 3,
        "sum": str(n % 7),
        "page": f"{WORDS[n % 10]} and {WORDS[(n + 3) % 10]}, émigré №{n}.",
        "names": [WORDS[n % 10], WORDS[(n + 1) % 10]],
    }


def _bodies(line: str) -> dict[str, str]:
    varied = {
        "0.4": "doc_to_text: '{{answer % 2}}'\ndoc_to_choice: '{{names}}'\ndoc_to_target: ' was late.'\n",
        "0.5": "multiple_inputs: true\ndoc_to_text: '{{names}}'\ndoc_to_choice: [' was late.']\ndoc_to_target: '{{answer % 2}}'\n",
    }
    ask = 'doc_to_text: "Question: {{question}}\\nAnswer:"\n'
    return {
        "live_choice": f"output_type: multiple_choice\n{ask}doc_to_choice: choices\ndoc_to_target: answer\n"
        "metric_list: [{metric: acc}, {metric: acc_norm}]\ndescription: 'Choose.\\n'\n",
        "live_spaced": f"output_type: multiple_choice\n{ask}doc_to_choice: spaced\ndoc_to_target: answer\n"
        "metric_list: [{metric: acc}, {metric: acc_norm}]\n",
        "live_contexts": f"output_type: multiple_choice\n{varied[line]}metric_list: [{{metric: acc}}]\ntarget_delimiter: ''\n",
        "live_write": f"output_type: generate_until\n{ask}doc_to_target: 'The sum is {{{{sum}}}}'\n"
        "generation_kwargs: {until: ['\\n'], max_gen_toks: 16}\n"
        "filter_list:\n  - {name: strict, filter: [{function: regex, regex_pattern: '#### (\\d+)'}, {function: take_first}]}\n"
        "  - {name: any, filter: [{function: regex, group_select: -1, regex_pattern: '(\\d+)'}, {function: take_first}]}\n"
        "metric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: true}]\n",
        "live_drawn": f"output_type: generate_until\n{ask}doc_to_target: 'n{{{{sum}}}}'\nrepeats: 4\n"
        "generation_kwargs: {until: ['\\n'], do_sample: true, temperature: 1.0}\n"
        "filter_list: [{name: voted, filter: [{function: majority_vote}, {function: take_first}]}]\n"
        "metric_list: [{metric: exact_match}]\n",
        "live_target": "output_type: loglikelihood\ndoc_to_text: '{{question}}'\ndoc_to_target: ' {{choices[0]}}'\n"
        "metric_list: [{metric: perplexity}, {metric: acc}]\n",
        "live_text": "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{page}}'\n"
        "metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]\n",
    }
