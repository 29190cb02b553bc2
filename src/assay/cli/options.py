"""Flags of a run, once, for every verb that takes them; and how flags, environment and a file become one config."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from assay.cli.foreign_flags import foreign_flags
from assay.cli.output import echo
from assay.config import RunConfig, merge_settings, parse_roles, parse_settings
from assay.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from assay.models import LM

F = TypeVar("F", bound=Callable[..., Any])


class WholeText(click.types.StringParamType):
    """Text that may be given many times as a flag and once in the environment, where click would split it at spaces."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return [rv]


WHOLE_TEXT = WholeText()


def _flag(name: str, *letters: str, **settings: Any) -> Callable[[F], F]:
    """An option whose absence is None, so that a file or a default can fill it; also read from `ASSAY_<NAME>`."""
    settings.setdefault("default", None)
    if settings.get("multiple"):
        settings["type"] = WHOLE_TEXT
    bare = name.lstrip("-")
    return click.option(name, *letters, bare, envvar=f"ASSAY_{bare.upper()}", **settings)


def _bool(name: str, *letters: str, help: str) -> Callable[[F], F]:
    return _flag(name, *letters, is_flag=True, flag_value=True, type=bool, help=help)


TASK_OPTIONS: Sequence[Callable[[Any], Any]] = (
    _flag(
        "--include_path",
        multiple=True,
        metavar="DIR",
        help="More task files: a directory or file; can be repeated, or joined by the path separator.",
    ),
    _flag(
        "--lm_eval",
        is_flag=False,
        flag_value="true",
        metavar="[DIR]",
        help="Add the tasks of an installed lm-evaluation-harness, or of this directory.",
    ),
    _flag(
        "--data_dir",
        metavar="DIR",
        help="A local mirror of datasets, searched first: DIR/<dataset_path>/<dataset_name or default>/<split>.jsonl",
    ),
)

ROLE_OPTIONS: Sequence[Callable[[Any], Any]] = (
    _flag(
        "--role",
        multiple=True,
        metavar="ROLE=MODEL,K=V,…",
        help="Another model of the run, such as a judge: judge=hf,pretrained=NAME. Once per role.",
    ),
    _flag(
        "--labels",
        multiple=True,
        metavar="FILE",
        help="People's verdicts on some of the answers, used to correct judged scores.",
    ),
)

RUN_OPTIONS: Sequence[Callable[[Any], Any]] = (
    _flag(
        "--config",
        "-C",
        type=click.Path(exists=True, dir_okay=False),
        help="YAML with any of these flags, or the run.json of an earlier run.",
    ),
    _flag("--model", "-M", help="A backend (see `assay ls models`), or path/to/file.py:Class.  [default: hf]"),
    _flag(
        "--model_args",
        "-a",
        multiple=True,
        metavar="K=V,…",
        help="Arguments of the model: key=value,… or JSON; repeated flags merge.",
    ),
    *ROLE_OPTIONS,
    _flag(
        "--tasks",
        "-t",
        multiple=True,
        metavar="NAMES",
        help="Tasks, groups, tags, globs or files, separated by commas or repeated. Variants: arc_easy:cloze, gsm8k:8shot.",
    ),
    _flag(
        "--num_fewshot", "-f", type=click.IntRange(min=0), help="Examples in the prompt; a task that fixes 0 keeps 0."
    ),
    _flag("--batch_size", "-b", help="A number, or auto for as many tokens as fit.  [default: auto]"),
    _flag("--device", help="Torch device.  [default: the best available]"),
    _flag("--limit", "-L", type=float, help="Docs per task: a number, or a fraction below 1."),
    _flag("--samples", "-E", metavar="JSON", help='Docs to ask: {"task": [ids]}, or a file with that content.'),
    _flag("--gen_kwargs", multiple=True, metavar="K=V,…", help="Generation settings that override each task's own."),
    _flag("--repeats", type=click.IntRange(min=1), help="Draws per request, instead of the task's own number."),
    _flag(
        "--apply_chat_template",
        is_flag=False,
        flag_value="true",
        metavar="[NAME]",
        help="Use the model's chat template, or the one with this name.",
    ),
    _flag("--system_instruction", help="Text of the system message."),
    _flag(
        "--fewshot_as_multiturn",
        is_flag=False,
        flag_value="true",
        metavar="[BOOL]",
        help="Put examples in separate turns of the conversation.  [default: with a chat template]",
    ),
    *TASK_OPTIONS,
    _flag("--output_path", "-o", metavar="DIR", help="Keep runs in this directory.  [default: runs]"),
    _flag("--run_dir", metavar="DIR", help="Keep the run in exactly this directory."),
    _bool("--log_samples", "-s", help="Also write samples_<task>.jsonl in lm-evaluation-harness's format."),
    _bool("--predict_only", "-x", help="Keep answers only; compute no scores."),
    _bool("--write_out", "-w", help="Print the first prompt of each task."),
    _flag("--seed", help="One number, or python,numpy,torch,fewshot.  [default: 0,1234,1234,1234]"),
    _flag(
        "--bootstrap_iters",
        type=click.IntRange(min=0),
        help="Bootstrap replicates; 0 turns error bars off.  [default: 1000]",
    ),
    _flag("--metadata", multiple=True, metavar="JSON", help="Passed to tasks and custom datasets."),
    _flag("--store", metavar="PATH", help="The response store.  [default: in the user cache directory]"),
    _bool("--fresh", help="Ask the model again even if the store has the answer."),
    _flag(
        "--reuse",
        type=click.Choice(["checked", "always"]),
        help="Reuse a server's kept answers only if probes show the same model, or always.  [default: checked]",
    ),
    _flag(
        "--shuffle",
        type=int,
        metavar="SEED",
        help="Ask in a random order, to see how much a server's answers depend on it.",
    ),
    _bool("--offline", help="Send nothing: score the answers in the store and count the others as failed."),
    _bool("--dry_run", help="Count docs, requests and tokens, and estimate time and cost; send nothing."),
    _bool("--trust_remote_code", help="Let models and datasets from the hub run their own code."),
    _bool("--confirm_run_unsafe_code", help="Run code written by the model (in a sandbox) if a task needs it."),
    _flag(
        "--sandbox",
        type=click.Choice(["auto", "weak", "bwrap", "docker", "podman"]),
        help="Where that code runs; weak does without protections that this machine lacks.  [default: auto]",
    ),
    _flag(
        "--style",
        type=click.Choice(["auto"]),
        help="auto: on a model without likelihoods, run choice tasks as :letters if it lists tokens, else as :gen.",
    ),
    _flag("--max_failed", type=float, help="Withhold a score if a larger share of requests failed."),
    _flag("--max_truncated", type=float, help="Withhold it if a larger share of answers was cut off."),
    _flag("--max_unparsed", type=float, help="Withhold it if no filter could parse a larger share of answers."),
    _flag(
        "--max_unfinished",
        type=float,
        help="Withhold it if a larger share of answers ended before the model's reasoning did.",
    ),
    _flag("--max_cost", type=float, help="Stop before the next request could exceed this cost; all answers are kept."),
    _flag("--reasoning_effort", metavar="LEVEL", help="How much a reasoning model should think: low, medium, high."),
    _flag("--until", metavar="RULE", help='Stop when the score is precise enough: "ci=0.01" or "decided vs RUN".'),
    _flag("--control", metavar="RUN", help="Tighten intervals with the scores of an earlier run on all docs."),
    _flag(
        "--log_to",
        multiple=True,
        metavar="NAME[:K=V,…]",
        help="Also send results to a tracker: wandb, mlflow, tensorboard; settings go after a colon.",
    ),
    _flag("--wandb_args", multiple=True, metavar="K=V,…", help="The same as --log_to wandb:K=V,…"),
    _flag("--executor", type=click.Choice(["local", "ray"]), help="Where the model runs.  [default: local]"),
    _flag("--ray_address", metavar="ADDRESS", help="auto, or HOST:PORT of a Ray cluster."),
    _flag("--replicas", type=click.IntRange(min=1), help="Model replicas on the cluster."),
    _flag("--gpus_per_replica", type=float, help="GPUs per replica.  [default: what the model needs]"),
    _flag("--cpus_per_replica", type=float, help="CPUs per replica.  [default: an even share of a node]"),
)


def names_in(values: Iterable[str]) -> tuple[str, ...]:
    """The names of a flag that may be repeated and may hold several.

    >>> names_in(["arc_easy,gsm8k", "mmlu"])
    ('arc_easy', 'gsm8k', 'mmlu')
    """
    return tuple(name for value in values for name in value.split(",") if name)


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
    if given.get("config"):
        fields = _settled_place({**read_config_file(Path(given["config"])), **fields}, fields.__contains__)
    merged = {"output_path": "runs", **defaults, **{k: _plain(k, v) for k, v in fields.items()}}
    merged["roles"] = {**merged.get("roles", {}), **merged.pop("role", {})}
    merged["loggers"] = {**merged.get("loggers", {}), **merged.pop("log_to", {}), **merged.pop("wandb_args", {})}
    if merged.get("run_dir"):
        merged["output_path"] = None
    return RunConfig(**merged)


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

    Of a run, where it was kept is left out: the same evaluation again is a new run, and never written over the old one.
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
    if name == "log_to":
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
