"""Instances to responses. A backend is a class with three methods; `load_model` finds and builds it."""

from assay.models.adapter import AdaptedLM
from assay.models.base import (
    LM,
    Answer,
    Message,
    StreamingLM,
    Usage,
    check_arguments,
    class_fingerprint,
    plain_response,
)
from assay.models.lazy import LazyLM, spec_key
from assay.models.registry import MODELS, load_model

__all__ = [
    "LM",
    "MODELS",
    "AdaptedLM",
    "Answer",
    "LazyLM",
    "Message",
    "StreamingLM",
    "Usage",
    "check_arguments",
    "class_fingerprint",
    "load_model",
    "plain_response",
    "spec_key",
]
