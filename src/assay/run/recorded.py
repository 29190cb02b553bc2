"""The words of a run as its files show them: without secrets, and compared with those of an earlier run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.config import RunConfig, without_secrets

PLACE_ONLY = frozenset({"run_dir", "output_path", "store", "fresh", "executor", "ray_address", "replicas", "gpus_per_replica", "cpus_per_replica", "device", "batch_size", "loggers", "log_samples", "write_out", "dry_run"})  # fmt: skip
"""Settings that say where, how fast and what else to write, and cannot change a score."""


def recorded(config: RunConfig) -> dict[str, Any]:
    """The config as JSON types, for `run.json`."""
    shown: dict[str, Any] = without_secrets(config.model_dump(mode="json"))
    return shown


def differences(before: Mapping[str, Any], config: RunConfig) -> list[str]:
    """What is asked for in other words than in a recorded config."""
    found = []
    for key, value in recorded(config).items():
        if key not in PLACE_ONLY and before.get(key) != value:
            found.append(f"{key} was {_short(before.get(key))} and is {_short(value)}")
    return found


def _short(value: Any) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
