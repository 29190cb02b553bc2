"""What a reader must know of how a run was made: marks for what is not as usual, and the command that makes it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

_SEEDS = {"python": 0, "numpy": 1234, "torch": 1234, "fewshot": 1234}
_FLAGS = {
    "num_fewshot": "--num_fewshot",
    "limit": "--limit",
    "repeats": "--repeats",
    "system_instruction": "--system_instruction",
    "style": "--style",
    "reasoning_effort": "--reasoning_effort",
    "until": "--until",
}
_SWITCHES = ("apply_chat_template", "fewshot_as_multiturn", "predict_only", "trust_remote_code")


def marks_of(config: Mapping[str, Any], shots: Iterator[int] | tuple[int, ...] = ()) -> list[str]:
    """Limit, shots, chat and seeds, in a few words each, as far as a run says them.

    >>> marks_of({"limit": 20, "apply_chat_template": True, "seed": {"python": 1}}, (0, 5))
    ['limit 20', '0 to 5 shots', 'chat', 'seed python 1']
    """
    marks = []
    if limit := config.get("limit"):
        marks.append(f"limit {limit}")
    if config.get("samples"):
        marks.append("chosen docs")
    if numbers := sorted({*shots}):
        low, high = numbers[0], numbers[-1]
        many = f"{low}" if low == high else f"{low} to {high}"
        marks.append(f"{many} shot{'' if many == '1' else 's'}")
    if template := config.get("apply_chat_template"):
        marks.append("chat" if template is True else f"chat {template}")
    if config.get("system_instruction"):
        marks.append("system prompt")
    if repeats := config.get("repeats"):
        marks.append(f"{repeats} draws")
    seeds = config.get("seed")
    if isinstance(seeds, Mapping):
        marks += [f"seed {name} {seed}" for name, seed in seeds.items() if _SEEDS.get(name, seed) != seed]
    return marks


def command_of(config: Mapping[str, Any]) -> str:
    """The command of such a run. A secret that was left out of the config is left out here too.

    >>> command_of({"model": "hf", "model_args": {"pretrained": "a b"}, "tasks": ["x", "y"], "limit": 5})
    "assay run --model hf --model_args 'pretrained=a b' --tasks x,y --limit 5"
    """
    words = ["assay", "run", "--model", str(config.get("model"))]
    if arguments := config.get("model_args"):
        words += ["--model_args", _pairs(arguments)]
    tasks = config.get("tasks")
    words += ["--tasks", ",".join(map(str, tasks)) if isinstance(tasks, list) else str(tasks or "")]
    for path in config.get("include_path") or ():
        words += ["--include_path", str(path)]
    for name, flag in _FLAGS.items():
        if config.get(name) is not None:
            words += [flag, str(config[name])]
    if settings := config.get("gen_kwargs"):
        words += ["--gen_kwargs", _pairs(settings)]
    words += [f"--{name}" for name in _SWITCHES if config.get(name) is True]
    seeds = config.get("seed")
    if isinstance(seeds, Mapping) and any(_SEEDS.get(name, seed) != seed for name, seed in seeds.items()):
        words += ["--seed", ",".join(str(seeds.get(name, default)) for name, default in _SEEDS.items())]
    return shlex.join(words)


def _pairs(values: Any) -> str:
    return ",".join(f"{key}={value}" for key, value in values.items()) if isinstance(values, Mapping) else str(values)
