"""Variants by name: `arc_easy:cloze`, `arc_easy:mc:5shot`, `gsm8k:8shot`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from assay.config import FewshotConfig, TaskConfig
from assay.errors import ConfigError, did_you_mean
from assay.tasks.styled import StyledField, style_config
from assay.tasks.styles import STYLERS, make_styler

_SHOTS = re.compile(r"(\d+)shot")
_WORDED_ANEW = frozenset(
    {"output_type", "metric_list", "filter_list", "process_results", "generation_kwargs", "gen_prefix", "repeats"}
    | {"target_delimiter", "style", "class_", "use_prompt", "doc_to_decontamination_query"}
)
"""What belongs to the wording of the task as it was, and goes with it."""


def apply_variant(config: TaskConfig, parts: Sequence[str]) -> TaskConfig:
    """The task's config in another wording, with another number of shots, or both; the name is left to the caller."""
    for part in parts:
        if shots := _SHOTS.fullmatch(part):
            config = config.override(num_fewshot=int(shots[1]))
        elif part in STYLERS:
            config = _restyled(config, part)
        else:
            raise ConfigError(
                f"task {config.task}: there is no variant {part!r}",
                hint=did_you_mean(part, STYLERS)
                or f"There are: {', '.join(STYLERS)}, and a number of shots such as 5shot.",
            )
    return config


def _restyled(config: TaskConfig, name: str) -> TaskConfig:
    written = config.doc_to_text
    if isinstance(written, StyledField):  # a Python task: its questions are known, and are worded again
        styler = make_styler(_style(name, vars(written.styler)), config.language)
        return style_config(_stripped(config), styler, written.questions)
    if config.class_ is not None or config.doc_to_choice is None:
        raise ConfigError(
            f"task {config.task} has no choices, so there is no {name!r} variant of it",
            hint="Only the number of shots can be varied, as in :5shot.",
        )
    given = config.style if isinstance(config.style, dict) else {}
    return _stripped(config).override(style=_style(name, given))


def _style(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The style by that name, with the options of the former one that it has as well."""
    known = {field.name for field in fields(STYLERS[name])}
    return {"name": name, **{key: value for key, value in options.items() if key in known}}


def _stripped(config: TaskConfig) -> TaskConfig:
    """Data, shots and fields of the task, without what belonged to its former wording."""
    kept = {key: getattr(config, key) for key in config.model_fields_set if key not in _WORDED_ANEW}
    shots = config.fewshot_config
    wording = {"doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix", "target_delimiter"}
    kept["fewshot_config"] = FewshotConfig(**{key: getattr(shots, key) for key in shots.model_fields_set - wording})
    return TaskConfig(**kept)
