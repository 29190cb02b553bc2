"""Instances to responses. A backend is a class with three methods; `load_model` finds and builds it."""

from typing import TYPE_CHECKING, Any

from assay.models.arguments import check_arguments
from assay.models.base import LM, ChatRenderer, Stop, StreamingLM, never, to_response
from assay.models.catalog import CATALOG, PulledModel, pulled
from assay.models.catalog import resolve as model_path
from assay.models.generation import DEFAULT_TOKS, LENGTH_NAMES, GenerationSettings, cut_at_stop
from assay.models.identity import (
    TIMES_AT_FIRST,
    Identity,
    class_fingerprint,
    count_parameters,
    difference,
    object_fingerprint,
)
from assay.models.info import ABILITIES, Capabilities, Check, CostLimit, CostReached, ModelInfo, TokenDivergences, Usage
from assay.models.lazy import LazyLM
from assay.models.pulling import pull
from assay.models.registry import MODELS, check_model, load_model, load_when_asked
from assay.models.selftest import run_checks
from assay.models.waiting import waiting_for

if TYPE_CHECKING:
    from assay.models.hf.measuring import token_counter
    from assay.models.prefix_tree import count_distinct

__all__ = [
    "ABILITIES",
    "CATALOG",
    "DEFAULT_TOKS",
    "LENGTH_NAMES",
    "LM",
    "MODELS",
    "TIMES_AT_FIRST",
    "Capabilities",
    "ChatRenderer",
    "Check",
    "CostLimit",
    "CostReached",
    "GenerationSettings",
    "Identity",
    "LazyLM",
    "ModelInfo",
    "PulledModel",
    "Stop",
    "StreamingLM",
    "TokenDivergences",
    "Usage",
    "check_arguments",
    "check_model",
    "class_fingerprint",
    "count_distinct",
    "count_parameters",
    "cut_at_stop",
    "difference",
    "load_model",
    "load_when_asked",
    "model_path",
    "never",
    "object_fingerprint",
    "pull",
    "pulled",
    "run_checks",
    "to_response",
    "token_counter",
    "waiting_for",
]


def __getattr__(name: str) -> Any:
    if name == "count_distinct":  # needs numpy, which `assay ls` does without
        from assay.models.prefix_tree import count_distinct

        return count_distinct
    if name == "token_counter":  # as local models are loaded, which most runs do without
        from assay.models.hf.measuring import token_counter

        return token_counter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
