"""What a run stood on: machine, versions, model. Kept beside the scores, because scores move with them."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from assay.config import RunConfig, without_secrets
from assay.errors import DISTRIBUTION
from assay.models import DEFAULT_TOKS, LM

PACKAGES = (
    DISTRIBUTION,
    "torch",
    "transformers",
    "datasets",
    "numpy",
    "jinja2",
    "sacrebleu",
    "scikit-learn",
    "vllm",
    "ray",
)


@cache
def describe_environment() -> dict[str, Any]:
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "packages": {name: found for name in PACKAGES if (found := package_version(name)) is not None},
    }


def package_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def describe_model(lm: LM, config: RunConfig, name: str) -> dict[str, Any]:
    """The model as the results file shows it; secrets among its arguments are left out."""
    info = lm.info()
    return {
        "name": name,
        "backend": config.model,
        "args": without_secrets(config.model_args),
        "fingerprint": info.fingerprint,
        "tokenizer": info.tokenizer,
        "max_length": info.max_length,
        "chat_template": lm.chat_template(config.apply_chat_template) if config.apply_chat_template else None,
        **({"max_gen_toks": info.max_gen_toks} if info.max_gen_toks > DEFAULT_TOKS else {}),
        **({} if info.num_parameters is None else {"model_num_parameters": info.num_parameters}),
        **info.details,
    }
