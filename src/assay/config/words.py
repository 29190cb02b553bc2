"""The keyword arguments of `assay.evaluate`, with the types that a caller may give: editors complete and check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from assay.config.run import RoleConfig, Seeds

Settings = Mapping[str, Any] | str
"""`{"pretrained": "gpt2"}`, or `"pretrained=gpt2"`."""


class RunWords(TypedDict, total=False):
    """The fields of `RunConfig`, of which `evaluate` takes `model` and `store` in further forms, and `overrides`."""

    model_args: Settings
    roles: Mapping[str, RoleConfig | Mapping[str, Any] | str] | Sequence[str]
    labels: str | Sequence[str]
    tasks: Any
    """Names in a list or a text, mappings with fields of their own, `Task` objects, Python task classes."""
    overrides: Mapping[str, Mapping[str, Any]] | None
    """Fields by the name of a task or group."""
    num_fewshot: int | None
    batch_size: int | str
    device: str | None
    limit: int | float | None
    samples: Mapping[str, Sequence[int]] | None
    gen_kwargs: Settings
    repeats: int | None
    apply_chat_template: bool | str
    system_instruction: str | None
    reasoning_effort: str | None
    fewshot_as_multiturn: bool | None
    include_path: str | Sequence[str]
    include_defaults: bool
    lm_eval: bool | str
    data_dir: str | None
    seed: Seeds | int | str | Sequence[int | None] | Mapping[str, int | None] | None
    bootstrap_iters: int
    metadata: Settings
    trust_remote_code: bool
    confirm_run_unsafe_code: bool
    sandbox: Literal["auto", "weak", "bwrap", "docker", "podman"]
    output_path: str | None
    run_dir: str | None
    log_samples: bool
    predict_only: bool
    write_out: bool
    fresh: bool
    reuse: Literal["checked", "always"]
    offline: bool
    dry_run: bool
    max_cost: float | None
    max_failed: float | None
    max_truncated: float | None
    max_unparsed: float | None
    max_unfinished: float | None
    style: Literal["auto"] | None
    until: str | None
    control: str | None
    loggers: Mapping[str, Mapping[str, Any]]
    executor: Literal["local", "ray"]
    ray_address: str | None
    replicas: int | None
    gpus_per_replica: float
    cpus_per_replica: float | None
