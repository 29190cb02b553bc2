"""Backends of an installed lm-evaluation-harness: `--model lm_eval:NAME`, with that backend's own arguments."""

from __future__ import annotations

import importlib
from typing import Any

from assay.errors import ConfigError, MissingPackage, did_you_mean
from assay.registry import missing_package


def backend_class(name: str) -> Any:
    """The class behind a name of lm-evaluation-harness's own registry. This module, and no other, imports that package."""
    try:
        importlib.import_module("lm_eval.models")
        registry = importlib.import_module("lm_eval.api.registry")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "lm_eval":
            raise missing_package("lm-evaluation-harness", error) from error
        raise MissingPackage(
            f"the model 'lm_eval:{name}' belongs to lm-evaluation-harness, which is not installed",
            hint="pip install lm-eval",
            package="lm_eval",
        ) from error
    known = list(registry.MODEL_REGISTRY.keys())
    if name not in known:
        hint = did_you_mean(name, known) or f"It has: {', '.join(sorted(known))}."
        raise ConfigError(f"the installed lm-evaluation-harness has no model {name!r}", hint=hint)
    try:
        try:
            return registry.get_model(name)
        except ValueError:  # "already registered"
            return _registered_by_itself(registry, name)
    except ModuleNotFoundError as error:
        raise missing_package(f"the model 'lm_eval:{name}'", error) from error


def _registered_by_itself(registry: Any, name: str) -> Any:
    """The class that a module registers under a name for which the list of backends has another, as it does in 0.4.13 for
    ipex and neuronx: without that entry the module can be imported."""
    entries = registry.MODEL_REGISTRY._objs
    module = str(entries[name]).partition(":")[0]
    for alias in [alias for alias, entry in entries.items() if str(entry).startswith(f"{module}:")]:
        del entries[alias]
    importlib.import_module(module)
    return registry.get_model(name)
