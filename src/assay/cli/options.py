"""Flags of a run, once, for every verb that takes them; and how flags, environment and a file become one config."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from assay.cli.flags import WholeText, field_flag
from assay.cli.foreign_flags import foreign_flags
from assay.cli.output import echo
from assay.config import RunConfig, flag_of, merge_settings, parse_roles, parse_settings
from assay.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from assay.models import LM

F = TypeVar("F", bound=Callable[..., Any])


def _run_flags(names: Iterable[str]) -> list[Callable[[Any], Any]]:
    """Flags of a run, which the environment may set too: `ASSAY_<FLAG>`."""
    fields = RunConfig.model_fields
    return [
        field_flag(name, fields[name], envvar=f"ASSAY_{(flag_of(fields[name]).name or name).upper()}") for name in names
    ]


TASK_OPTIONS: Sequence[Callable[[Any], Any]] = _run_flags(("include_path", "lm_eval", "data_dir"))
ROLE_OPTIONS: Sequence[Callable[[Any], Any]] = _run_flags(("roles", "labels", "overlay"))
OWN_OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option(
        "--config",
        "-C",
        envvar="ASSAY_CONFIG",
        type=click.Path(exists=True, dir_okay=False),
        help="YAML with any of these flags, or the run.json of an earlier run.",
    ),
    click.option(
        "--wandb_args",
        multiple=True,
        type=WholeText(),
        envvar="ASSAY_WANDB_ARGS",
        metavar="K=V,…",
        help="The same as --log_to wandb:K=V,…",
        hidden=True,
    ),
)
"""Flags of the command line that are no fields of a run."""


def run_options(without: Collection[str] = ()) -> Sequence[Callable[[Any], Any]]:
    """`RunConfig` is the one list of what a run may be told."""
    shown = [name for name, field in RunConfig.model_fields.items() if not flag_of(field).is_hidden]
    return [*_run_flags(name for name in shown if name not in without), *OWN_OPTIONS]


RUN_OPTIONS = run_options()


def load_named_model(name: str, model_args: Sequence[str], **settings: Any) -> LM:
    """A backend by its name; anything else is what `pretrained=` of `hf` takes: a hub name, a directory, a GGUF file."""
    from assay.models import MODELS, load_model

    arguments: Mapping[str, Any] = resolve_config({"model_args": tuple(model_args)}).model_args
    if name not in MODELS and ".py:" not in name and not name.endswith(".py"):
        name, arguments = "hf", {"pretrained": name, **arguments}
    return load_model(name, arguments, **settings)


def with_options(options: Sequence[Callable[[Any], Any]]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def resolve_config(given: dict[str, Any], **defaults: Any) -> RunConfig:
    """Flags win over the environment, that over the file, that over defaults."""
    fields = {k: v for k, v in given.items() if v is not None and v != () and k != "config"}
    fields = _settled_place(fields, _from_line)
    read = read_config_file(Path(given["config"])) if given.get("config") else {}
    merged = {
        "output_path": "runs",
        **defaults,
        **_plain_fields(_settled_place({**read, **fields}, fields.__contains__)),
    }
    # Of these, what a file says and what was typed add up.
    typed, stated = _plain_fields(fields), _plain_fields(read)
    for name, flag in (("roles", "role"), ("loggers", "log_to")):
        merged[name] = {**stated.get(name, {}), **stated.get(flag, {}), **typed.get(name, {})}
        merged.pop(flag, None)
    merged["loggers"] |= merged.pop("wandb_args", {})
    if merged.get("run_dir"):
        merged["output_path"] = None
    return RunConfig(**merged)


def _plain_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(name, value) for name, value in fields.items()}


def _settled_place(fields: dict[str, Any], is_stronger: Callable[[str], bool]) -> dict[str, Any]:
    """`run_dir` goes before `output_path`, but not where only the latter comes from the stronger source."""
    overruled = "output_path" in fields and is_stronger("output_path") and not is_stronger("run_dir")
    return {k: v for k, v in fields.items() if k != "run_dir"} if overruled else fields


def _from_line(name: str) -> bool:
    """Whether a flag was typed, and not read from the environment."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(name) is ParameterSource.COMMANDLINE


_OTHER_KEYS = ("role", "log_to", "wandb_args")
"""Flags that are no fields of the config: they fill `roles` and `loggers`."""


_FILE_FORM = "A config file is YAML with one `flag: value` per line."


def read_config_file(path: Path) -> dict[str, Any]:
    """A YAML file of flags, or the `run.json` of an earlier run.

    Of a run, where it was stored is left out: the same evaluation again is a new run, and never written over the old one.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint=_FILE_FORM) from error
    if isinstance(content, dict) and "format" in content and isinstance(content.get("config"), dict):
        content = {key: value for key, value in content["config"].items() if key not in ("run_dir", "output_path")}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is not a mapping of flags", hint=_FILE_FORM)
    known = [*RunConfig.model_fields, *_OTHER_KEYS]
    for key in [key for key in content if key not in known]:
        if (reason := foreign_flags().not_needed(f"--{key}")) is not None:
            echo(f"note: {path}: {key} is not needed: {reason}.", err=True)
            del content[key]
        else:
            hint = foreign_flags().instead(f"--{key}") or did_you_mean(str(key), known) or f"Known: {', '.join(known)}."
            raise ConfigError(f"{path}: unknown key {key!r}", hint=hint)
    return content


def _plain(name: str, value: Any) -> Any:
    """Texts of flags as the types the config has."""
    if name in ("apply_chat_template", "fewshot_as_multiturn", "lm_eval") and isinstance(value, str):
        return {"true": True, "false": False, "1": True, "0": False}.get(value.lower(), value)
    if name == "limit" and isinstance(value, float) and value >= 1 and value.is_integer():
        return int(value)
    if name in ("role", "roles"):
        return parse_roles(value, flag=f"--{name}")
    if name in ("log_to", "loggers"):
        return _loggers(value)
    if name == "wandb_args":
        return {"wandb": merge_settings(value, flag="--wandb_args")}
    if name == "output_path" and value is not None:
        foreign_flags().check_output_path(str(value))
    if name == "samples" and isinstance(value, str):
        return read_samples_argument(value)
    return value


def _loggers(value: Any) -> dict[str, Any]:
    """`wandb:project=x`, several of these, or in a file a mapping from names to settings."""
    if isinstance(value, dict):
        return {name: settings or {} for name, settings in value.items()}
    parts = (str(text).partition(":") for text in (value if isinstance(value, list | tuple) else [value]))
    return {name: parse_settings(settings, flag=f"--log_to {name}") for name, _, settings in parts}


def read_samples_argument(text: str) -> dict[str, list[int]]:
    """JSON, or the name of a file that holds it."""
    form = 'Write {"task": [0, 3, 7]}.'
    try:
        content = Path(text).read_text(encoding="utf-8") if not text.lstrip().startswith("{") else text
        samples = json.loads(content)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--samples: {text!r} is neither JSON nor a readable file: {error}", hint=form) from error
    if not isinstance(samples, dict) or not all(isinstance(ids, list) for ids in samples.values()):
        raise ConfigError("--samples: expected a mapping of task names to lists of doc ids", hint=form)
    return samples
