"""What one evaluation is asked to do. The command line, a YAML file and Python all fill this one object.

`RunKwargs` are its fields as keyword arguments of `assay.evaluate`, so that editors complete and check them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypedDict

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from assay.config.settings import is_secret, merge_settings
from assay.config.task import FrozenConfig
from assay.errors import ConfigError, did_you_mean

SandboxKind = Literal["auto", "weak", "bwrap", "docker", "podman"]
"""Where programs that a model wrote may run."""


class Seeds(FrozenConfig):
    """Seeds of the process's generators, and of few-shot sampling. None leaves a generator alone."""

    python: int | None = 0
    numpy: int | None = 1234
    torch: int | None = 1234
    fewshot: int | None = 1234

    @classmethod
    def parse(cls, value: Any) -> Seeds:
        """`42` seeds all; `0,1234,None,7` each; a mapping by name; None, in either form, leaves generators alone.

        Older command lines of lm-evaluation-harness have three parts; the seed of examples is then the default.
        """
        if isinstance(value, Seeds):
            return value
        if isinstance(value, dict):
            return cls(**value)
        given = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
        parts = [_seed(part) for part in given]
        if len(parts) == 1:
            parts *= 4
        if len(parts) == 3:
            parts.append(cls().fewshot)
        if len(parts) != 4:
            raise ConfigError(f"seed: {value!r} has {len(parts)} parts", hint=_SEED_FORM)
        return cls(python=parts[0], numpy=parts[1], torch=parts[2], fewshot=parts[3])


_SEED_FORM = "Use one number, or four: python,numpy,torch,fewshot. None leaves that generator alone."


def _seed(part: Any) -> int | None:
    if part is None or str(part).strip().lower() == "none":
        return None
    try:
        return int(part)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"seed: {part!r} is not a whole number", hint=_SEED_FORM) from None


def _batch_size(value: Any) -> Any:
    """A number of requests, or `auto`. lm-evaluation-harness measures N times for `auto:N`; here `auto` always fits."""
    if isinstance(value, str) and re.fullmatch(r"auto(:(0\.)?[1-9]\d*(\.\d+)?)?", value):
        return "auto"
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if isinstance(number, int) and not isinstance(number, bool) and number >= 1:
        return number
    raise ConfigError(f"batch_size is {value!r}", hint="Use a number from 1 up, auto, or auto:N.")


def _paths(value: Any) -> Any:
    """`--include_path` may be given many times and splits on the path separator."""
    items = [] if value is None else value if isinstance(value, list | tuple) else [value]
    return [part for item in items for part in str(item).split(os.pathsep) if part]


def _names(value: Any) -> Any:
    """Task names: a list, or text with commas or spaces between names."""
    items = [] if value is None else value if isinstance(value, list | tuple) else [value]
    return [name for item in items for name in re.split(r"[,\s]+", str(item)) if name]


def _settings(flag: str) -> BeforeValidator:
    return BeforeValidator(lambda value: merge_settings(value, flag=flag))


class RoleConfig(FrozenConfig):
    """Another model of the run, such as a judge."""

    model: str
    model_args: Annotated[dict[str, Any], _settings("model_args")] = Field(default_factory=dict)


def _named_models(value: Any) -> list[tuple[Any, Any]]:
    if value is None:
        return []
    if isinstance(value, Mapping):
        return list(value.items())
    texts = [text.partition("=") for text in ([value] if isinstance(value, str) else value)]
    return [(name.strip(), model) for name, _, model in texts]


def parse_roles(value: Any, *, flag: str = "roles") -> dict[str, Any]:
    """Role name to model and its arguments, from a mapping, or from texts such as `judge=hf,pretrained=gpt2`.

    >>> parse_roles(["judge=hf,pretrained=gpt2", "writer=dummy"])
    {'judge': {'model': 'hf', 'model_args': 'pretrained=gpt2'}, 'writer': {'model': 'dummy', 'model_args': ''}}
    """
    roles: dict[str, Any] = {}
    for name, role in _named_models(value):
        if not isinstance(name, str) or not name.isidentifier() or name == "model" or is_secret(name):
            raise ConfigError(
                f"{flag}: {name!r} cannot be the name of a role",
                hint="Use a word such as judge. `model` is the model under test; names of secrets are not recorded.",
            )
        if name in roles:
            raise ConfigError(f"{flag}: the role {name} appears twice", hint="Use one model per role.")
        if isinstance(role, str):
            model, _, arguments = role.partition(",")
            role = {"model": model.strip(), "model_args": arguments}
        if not role or (isinstance(role, Mapping) and not role.get("model")):
            raise ConfigError(f"{flag}: the role {name} has no model", hint=f"Write {name}=MODEL,KEY=VALUE,…")
        roles[name] = role
    return roles


class RunConfig(FrozenConfig):
    """One evaluation, resolved. Names are those of the flags."""

    model: str = "hf"
    model_args: Annotated[dict[str, Any], _settings("model_args")] = Field(default_factory=dict)
    roles: Annotated[dict[str, RoleConfig], BeforeValidator(parse_roles)] = Field(default_factory=dict)
    """Further models of the run by what they are for: `judge`, …"""
    labels: Annotated[list[str], BeforeValidator(_paths)] = Field(default_factory=list)
    """Files with people's verdicts on answers that a judge scores, beside those that task files name."""
    tasks: Annotated[list[str], BeforeValidator(_names)] = Field(default_factory=list)
    num_fewshot: int | None = Field(default=None, ge=0)
    batch_size: Annotated[int | Literal["auto"], BeforeValidator(_batch_size)] = "auto"
    device: str | None = None
    limit: int | float | None = None
    samples: dict[str, list[int]] | None = None
    gen_kwargs: Annotated[dict[str, Any], _settings("gen_kwargs")] = Field(default_factory=dict)
    repeats: int | None = Field(default=None, ge=1)
    apply_chat_template: bool | str = False
    system_instruction: str | None = None
    fewshot_as_multiturn: bool | None = None
    include_path: Annotated[list[str], BeforeValidator(_paths)] = Field(default_factory=list)
    include_defaults: bool = True
    lm_eval: bool | str = False
    """Add the task directory of an installed lm-evaluation-harness (True), or of this path."""
    data_dir: str | None = None
    seed: Annotated[Seeds, BeforeValidator(Seeds.parse)] = Field(default_factory=Seeds)
    bootstrap_iters: int = Field(default=1000, ge=0)
    metadata: Annotated[dict[str, Any], _settings("metadata")] = Field(default_factory=dict)
    trust_remote_code: bool = False
    confirm_run_unsafe_code: bool = False
    sandbox: SandboxKind = "auto"
    """Where programs that the model wrote run."""

    output_path: str | None = None
    run_dir: str | None = None
    log_samples: bool = False
    predict_only: bool = False
    write_out: bool = False
    store: str | None = None
    fresh: bool = False
    """Ask the model again even where the store has an answer."""
    reuse: Literal["checked", "always"] = "checked"
    """Whether a server has to show that it is still the model whose answers are kept."""
    shuffle: int | None = None
    """Ask in a random order of this seed. Scores do not depend on it, but what a server answers may."""
    offline: bool = False
    """Ask nothing: what the store does not have is a failed request."""
    dry_run: bool = False
    max_failed: float | None = Field(default=None, ge=0, le=1)
    max_truncated: float | None = Field(default=None, ge=0, le=1)
    max_unparsed: float | None = Field(default=None, ge=0, le=1)
    max_unfinished: float | None = Field(default=None, ge=0, le=1)
    max_cost: float | None = Field(default=None, ge=0)
    """Ask nothing more once the next request might pass this, in the currency of the model's prices."""
    reasoning_effort: str | None = None
    """How much a model that thinks is asked to, passed on to it: `low`, `medium`, `high`, …"""
    style: Literal["auto"] | None = None
    """`auto`: choice tasks in the form that the model can answer, where it gives no likelihoods."""
    until: str | None = None
    control: str | None = None
    loggers: dict[str, dict[str, Any]] = Field(default_factory=dict)

    executor: Literal["local", "ray"] = "local"
    ray_address: str | None = None
    replicas: int | None = Field(default=None, ge=1)
    gpus_per_replica: float | None = Field(default=None, ge=0)
    cpus_per_replica: float | None = None

    if not TYPE_CHECKING:  # type checkers and editors know the fields

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise _as_config_error(error) from error

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.limit is not None and not 0 < self.limit < math.inf:
            raise ConfigError(
                f"limit is {self.limit:g}", hint="Use a number of docs (10), or a fraction below 1 (0.1)."
            )
        if self.limit is not None and self.limit > 1 and self.limit != int(self.limit):
            raise ConfigError(
                f"limit is {self.limit:g}", hint="Use a whole number of docs, or a fraction below 1 (0.1)."
            )
        if self.data_dir is not None and not os.path.isdir(os.path.expanduser(self.data_dir)):
            raise ConfigError(
                f"data_dir: there is no directory {self.data_dir}", hint="Use the directory of a dataset mirror."
            )
        if self.offline and self.fresh:
            raise ConfigError("offline and fresh cannot be combined", hint="Leave one of them out.")
        if self.limit is not None and self.samples is not None:
            raise ConfigError("limit and samples cannot be combined", hint="Leave one of them out.")
        if self.fewshot_as_multiturn and not self.apply_chat_template:
            raise ConfigError("fewshot_as_multiturn needs a chat template", hint="Add --apply_chat_template.")
        return self

    @property
    def multiturn(self) -> bool:
        """Few-shot examples as turns of the conversation: the default with a chat template."""
        return bool(self.apply_chat_template) if self.fewshot_as_multiturn is None else self.fewshot_as_multiturn


def _as_config_error(error: ValidationError) -> ConfigError:
    """The error of the first field that is wrong; pydantic wraps those that the validators here raise."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return cause
    # A field that takes several types says which of them was tried: `limit.int`.
    where = ".".join(str(part) for part in first["loc"] if part not in ("int", "float", "bool", "str")) or "config"
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        hint = did_you_mean(where, RunConfig.model_fields) or "`help(assay.evaluate)` lists all arguments."
        return ConfigError(f"there is no argument {where!r} (got {first.get('input')!r})", hint=hint)
    return ConfigError(f"{where}: {first['msg']} (got {first.get('input')!r})", hint="See `assay run --help`.")


Settings = Mapping[str, Any] | str
"""`{"pretrained": "gpt2"}`, or `"pretrained=gpt2"`."""


class RunKwargs(TypedDict, total=False):
    """The fields of `RunConfig`; `evaluate` also takes other forms of `model` and `store`, and `overrides`."""

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
    sandbox: SandboxKind
    output_path: str | None
    run_dir: str | None
    log_samples: bool
    predict_only: bool
    write_out: bool
    fresh: bool
    reuse: Literal["checked", "always"]
    shuffle: int | None
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
    gpus_per_replica: float | None
    cpus_per_replica: float | None
