"""What a reader must know of how a run was made: marks for what is not as usual, and the command that makes it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from assay.config import RunConfig, flag_of, parse_settings
from assay.errors import ConfigError

_SEEDS = {"python": 0, "numpy": 1234, "torch": 1234, "fewshot": 1234}


def marks_of(config: Mapping[str, Any], shots: Iterator[int] | tuple[int, ...] = ()) -> list[str]:
    """Limit, shots, chat and seeds, in a few words each, as far as a run says them.

    >>> marks_of({"limit": 20, "apply_chat_template": True, "seed": {"python": 1}}, (0, 5))
    ['limit 20', '0 to 5 shots', 'chat', 'seed python 1']
    >>> marks_of({"seed": {"python": 7, "numpy": 7, "torch": 7, "fewshot": 7}})
    ['seed 7']
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
        values = [*seeds.values()]
        if len(values) == len(_SEEDS) and values == values[:1] * len(values):
            marks.append(f"seed {values[0]}")
        else:
            marks += [f"seed {name} {seed}" for name, seed in seeds.items() if _SEEDS.get(name, seed) != seed]
    return marks


def command_of(config: Mapping[str, Any], model: Mapping[str, Any] | None = None) -> str:
    """What to type for such a run. A secret that was left out of the config is left out here too.

    A model that was handed over in Python, of which `model` tells, has no command; then it is the call in Python.

    >>> command_of({"model": "hf", "model_args": {"pretrained": "a b"}, "tasks": ["x", "y"], "limit": 5})
    "assay run --model hf --model_args 'pretrained=a b' --tasks x,y --limit 5"
    >>> print(command_of({"model": "hf", "tasks": ["x"], "limit": 5}, {"is_object": True, "backend": "mine.Pupil"}))
    # The model was a Python object of the class mine.Pupil, so this run has no command. In Python:
    assay.evaluate(model=…, tasks=['x'], limit=5)
    """
    if model and model.get("is_object"):
        words = ["model=…", *(f"{name}={value!r}" for name, value in _chosen(config))]
        about = f"# The model was a Python object of the class {model.get('backend')}, so this run has no command. In Python:"
        return f"{about}\nassay.evaluate({', '.join(words)})"
    words = ["assay", "run", "--model", str(config.get("model"))]
    for name, value in _chosen(config):
        words += _flags(name, value)
    return shlex.join(words)


def _chosen(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What decides the answers and was not left as it was, in the order in which people type it."""
    for name, field in RunConfig.model_fields.items():
        if not flag_of(field).decides:
            continue
        value = config.get(name)
        if name == "seed" and isinstance(value, Mapping):
            value = {**_SEEDS, **value}
            value = None if value == _SEEDS else value
        is_off = value is None or (value is False and name != "fewshot_as_multiturn")
        if not is_off and value not in ("", [], {}):  # 0 is a number of shots
            yield name, value


def _flags(name: str, value: Any) -> list[str]:
    flag = f"--{name}"
    if name == "seed" and isinstance(value, Mapping):
        return [flag, ",".join(str(value[kind]) for kind in _SEEDS)]
    if name == "roles" and isinstance(value, Mapping):
        return [word for role, about in value.items() for word in ("--role", f"{role}={_role(about)}")]
    if name in ("include_path", "labels", "overlay") and isinstance(value, list | tuple):
        return [word for path in value for word in (flag, str(path))]
    if isinstance(value, Mapping):
        return [flag, json.dumps(value) if name == "samples" else _pairs(value)]
    if isinstance(value, list | tuple):
        return [flag, ",".join(map(str, value))]
    if value is True:
        return [flag]
    return [flag, "false" if value is False else str(value)]


def _role(about: Any) -> str:
    if not isinstance(about, Mapping):
        return str(about)
    arguments = about.get("model_args")
    return ",".join(filter(None, (str(about.get("model")), _pairs(arguments) if arguments else "")))


def _pairs(values: Any) -> str:
    """`key=value,…`, with a value as JSON where it would not be read back as it is."""
    if not isinstance(values, Mapping):
        return str(values)
    return ",".join(f"{key}={_value(value)}" for key, value in values.items())


def _value(value: Any) -> str:
    plain = str(value)
    try:
        if parse_settings(f"x={plain}") == {"x": value}:
            return plain
    except ConfigError:
        pass
    return json.dumps(value, ensure_ascii=False)
