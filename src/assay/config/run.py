"""What one evaluation is asked to do. The command line, a YAML file and Python all fill this one object.

`RunKwargs` are its fields as keyword arguments of `assay.evaluate`, so that editors complete and check them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypedDict

from pydantic import BeforeValidator, Field, model_validator

from assay.config.options import CommandFlag, Options, option, task_names_in
from assay.config.settings import merge_settings
from assay.config.task import FrozenConfig
from assay.errors import ConfigError
from assay.secret_texts import is_secret

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
                hint="Use a word such as judge. `model` is the model under test, which --model names; "
                "names of secrets are not recorded.",
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


_MODEL, _PROMPTS, _FILES, _SCORES = "The model", "Prompts and answers", "Task files and data", "Scores"
_STORED, _LIMITS, _SAFETY, _CLUSTER = "What is stored", "Limits", "Code of others", "Cluster"
_BRANCH = "Branches of agents' trajectories"


def _branch_step(value: Any) -> Any:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if number in (None, "first_error", "each") or (type(number) is int and number >= 1):
        return number
    raise ConfigError(f"at is {value!r}", hint="Use the number of a step, from 1 up, or first_error, or each.")


def parse_replacements(value: Any) -> dict[str, str]:
    """What a branch replaces, from a mapping, or from texts such as `system=Be brief.`

    >>> parse_replacements(["system=Be brief, please.", "tool_result=other.jsonl"])
    {'system': 'Be brief, please.', 'tool_result': 'other.jsonl'}
    """
    if not isinstance(value, Mapping):
        pairs = [str(text).partition("=") for text in ([value] if isinstance(value, str) else value or ())]
        value = {name: text for name, _, text in pairs}
    for name in value:
        if name not in ("system", "tool_result"):
            raise ConfigError(
                f"replace: {name!r} cannot be replaced", hint="Write system=TEXT, or tool_result=FILE.jsonl."
            )
    return {name: str(text) for name, text in value.items()}


class RunConfig(Options):
    """One evaluation, resolved. Names are those of the flags."""

    model: str = option(
        "hf", "A backend (see `assay ls models`), or path/to/file.py:Class.", flag=CommandFlag("-M", "NAME")
    )
    model_args: Annotated[dict[str, Any], _settings("model_args")] = option(
        dict,
        "Arguments of the model: key=value,… or JSON; repeated flags merge.",
        flag=CommandFlag("-a", "K=V,…", decides=True),
    )
    roles: Annotated[dict[str, RoleConfig], BeforeValidator(parse_roles)] = option(
        dict,
        "Another model of the run, such as a judge: judge=hf,pretrained=NAME. Once per role.",
        flag=CommandFlag(metavar="ROLE=MODEL,K=V,…", name="role", section=_MODEL, decides=True),
    )
    labels: Annotated[list[str], BeforeValidator(_paths)] = option(
        list,
        "People's verdicts on some of the answers, or on some of the gold answers; they correct scores.",
        flag=CommandFlag(metavar="FILE", section=_SCORES, decides=True),
    )
    overlay: Annotated[list[str], BeforeValidator(_paths)] = option(
        list,
        "Docs that are left out or have another gold answer than the published one: a YAML or JSONL file. Once per file.",
        flag=CommandFlag(metavar="FILE", section=_SCORES, decides=True),
    )
    tasks: Annotated[list[str], BeforeValidator(task_names_in)] = option(
        list,
        "Tasks, groups, tags, globs or files, separated by commas or repeated. Variants: arc_easy:cloze, gsm8k:8shot.",
        flag=CommandFlag("-t", "NAMES", decides=True),
    )
    num_fewshot: int | None = option(
        None, "Examples in the prompt; a task that fixes 0 keeps 0.", ge=0, flag=CommandFlag("-f", decides=True)
    )
    batch_size: Annotated[int | Literal["auto"], BeforeValidator(_batch_size)] = option(
        "auto", "A number, or auto for as many tokens as fit.", flag=CommandFlag("-b")
    )
    device: str | None = option(None, "Torch device.", flag=CommandFlag(section=_MODEL, default="the best available"))
    limit: int | float | None = option(
        None, "Docs per task: a number, or a fraction below 1.", flag=CommandFlag("-L", decides=True)
    )
    sample: Literal["random"] | None = option(
        None,
        "random: --limit draws docs at random from each task; otherwise it takes the first, as lm-evaluation-harness does.",
        flag=CommandFlag(metavar="random", section=_PROMPTS, decides=True),
    )
    samples: dict[str, list[int]] | None = option(
        None,
        'Docs to send: {"task": [ids]}, or a file with that content.',
        flag=CommandFlag("-E", "JSON", section=_PROMPTS, decides=True),
    )
    gen_kwargs: Annotated[dict[str, Any], _settings("gen_kwargs")] = option(
        dict,
        "Generation settings that override each task's own.",
        flag=CommandFlag(metavar="K=V,…", section=_PROMPTS, decides=True),
    )
    repeats: int | None = option(
        None,
        "Draws per request, instead of the task's own number.",
        ge=1,
        flag=CommandFlag(section=_PROMPTS, decides=True),
    )
    apply_chat_template: bool | str = option(
        False,
        "Use the model's chat template, or the one with this name.",
        flag=CommandFlag(metavar="[NAME]", bare="true", decides=True),
    )
    system_instruction: str | None = option(
        None, "Text of the system message.", flag=CommandFlag(section=_PROMPTS, decides=True)
    )
    fewshot_as_multiturn: bool | None = option(
        None,
        "Put examples in separate turns of the conversation.",
        flag=CommandFlag(metavar="[BOOL]", bare="true", default="with a chat template", section=_PROMPTS, decides=True),
    )
    include_path: Annotated[list[str], BeforeValidator(_paths)] = option(
        list,
        "More task files: a directory or file; can be repeated, or joined by the path separator.",
        flag=CommandFlag(metavar="DIR", section=_FILES, decides=True),
    )
    include_defaults: bool = True
    lm_eval: bool | str = option(
        False,
        "Add the tasks of an installed lm-evaluation-harness, or of this directory.",
        flag=CommandFlag(metavar="[DIR]", bare="true", section=_FILES, decides=True),
    )
    data_dir: str | None = option(
        None,
        "A local mirror of datasets, searched first: DIR/<dataset_path>/<dataset_name or default>/<split>.jsonl",
        flag=CommandFlag(metavar="DIR", section=_FILES, decides=True),
    )
    seed: Annotated[Seeds, BeforeValidator(Seeds.parse)] = option(
        Seeds,
        "One number, or python,numpy,torch,fewshot.",
        flag=CommandFlag(metavar="NUMBERS", default="0,1234,1234,1234", section=_PROMPTS, decides=True),
    )
    bootstrap_iters: int = option(
        1000, "Bootstrap replicates; 0 turns error bars off.", ge=0, flag=CommandFlag(section=_SCORES)
    )
    population: Literal["docs"] | None = option(
        None,
        "docs: the notes also have the interval of exactly these docs' own mean, in which only draws vary.",
        flag=CommandFlag(metavar="docs", section=_SCORES),
    )
    floors: Annotated[list[str], BeforeValidator(task_names_in)] = option(
        list,
        "What scores would be without the ability: blind, longest, constant, … by name, or all that cost little.",
        flag=CommandFlag(metavar="[NAMES]", bare="default", section=_SCORES, decides=True),
    )
    metadata: Annotated[dict[str, Any], _settings("metadata")] = option(
        dict, "Passed to tasks and custom datasets.", flag=CommandFlag(metavar="JSON", section=_FILES, decides=True)
    )
    trust_remote_code: bool = option(
        False,
        "Let models and datasets from the hub run their own code.",
        flag=CommandFlag(section=_SAFETY, decides=True),
    )
    confirm_run_unsafe_code: bool = option(
        False,
        "Run code written by the model (in a sandbox) if a task needs it.",
        flag=CommandFlag(section=_SAFETY, decides=True),
    )
    sandbox: SandboxKind = option(
        "auto",
        "Where that code runs; weak: also where this machine cannot give every protection.",
        flag=CommandFlag(section=_SAFETY),
    )
    allow_network: bool = option(
        False,
        "Let the sandbox of an agent use the network if its task says so.",
        flag=CommandFlag(section=_SAFETY, decides=True),
    )
    replay_outside: bool = option(
        False,
        "Call tools again that have effects outside their trajectory, where a killed run goes on.",
        flag=CommandFlag(section=_SAFETY, decides=True),
    )

    extend: str | None = option(
        None,
        "Take the answers of this run, and continue those that were cut off with the larger limit of this one.",
        flag=CommandFlag(metavar="RUN", section=_STORED, decides=True),
    )
    branch: str | None = option(
        None,
        "Go on from trajectories of agents that this run stored, with another model, prompt or tool result.",
        flag=CommandFlag(metavar="RUN", section=_BRANCH, decides=True),
    )
    at: Annotated[int | Literal["first_error", "each"] | None, BeforeValidator(_branch_step)] = option(
        None,
        "The first step that is made anew: a number, first_error (of a tool), or each in turn.",
        flag=CommandFlag(metavar="STEP", section=_BRANCH, default="after the step of tool_result", decides=True),
    )
    replace: Annotated[dict[str, str], BeforeValidator(parse_replacements)] = option(
        dict,
        "What to change from RUN: system=TEXT, or tool_result=FILE of lines with doc, draw, step, result.",
        flag=CommandFlag(metavar="WHAT=…", section=_BRANCH, decides=True),
    )

    output_path: str | None = option(
        None, "Store runs in this directory.", flag=CommandFlag("-o", "DIR", default="runs")
    )
    run_dir: str | None = option(
        None, "Store the run in exactly this directory.", flag=CommandFlag(metavar="DIR", section=_STORED)
    )
    log_samples: bool = option(
        False, "Also write samples_<task>.jsonl in lm-evaluation-harness's format.", flag=CommandFlag("-s")
    )
    predict_only: bool = option(
        False, "Store answers only; compute no scores.", flag=CommandFlag("-x", section=_SCORES, decides=True)
    )
    write_out: bool = option(False, "Print the first prompt of each task.", flag=CommandFlag("-w", section=_PROMPTS))
    store: str | None = option(
        None,
        "The response store.",
        flag=CommandFlag(metavar="PATH", default="in the user cache directory", section=_STORED),
    )
    fresh: bool = option(
        False, "Ask the model again even if the store has the answer.", flag=CommandFlag(section=_STORED)
    )
    reuse: Literal["checked", "always"] = option(
        "checked",
        "Reuse a server's stored answers only if probes show the same model, or always.",
        flag=CommandFlag(section=_STORED),
    )
    shuffle: int | None = option(
        None,
        "Send requests in a random order, to see how much a server's answers depend on it.",
        flag=CommandFlag(metavar="SEED", section=_STORED),
    )
    offline: bool = option(
        False,
        "Send nothing: score the answers in the store and count the others as failed.",
        flag=CommandFlag(section=_STORED),
    )
    dry_run: bool = option(False, "Count docs, requests and tokens, and estimate time and cost; send nothing.")
    max_failed: float | None = option(
        None, "Withhold a score if a larger share of requests failed.", ge=0, le=1, flag=CommandFlag(section=_LIMITS)
    )
    max_truncated: float | None = option(
        None, "Withhold it if a larger share of answers was cut off.", ge=0, le=1, flag=CommandFlag(section=_LIMITS)
    )
    max_unparsed: float | None = option(
        None,
        "Withhold it if no filter could parse a larger share of answers.",
        ge=0,
        le=1,
        flag=CommandFlag(section=_LIMITS),
    )
    max_unjudged: float | None = option(
        0.1,
        "Withhold it if judges gave no verdict that can be read on a larger share of answers.",
        ge=0,
        le=1,
        flag=CommandFlag(section=_LIMITS),
    )
    max_unfinished: float | None = option(
        None,
        "Withhold it if a larger share of answers ended before the model's reasoning did.",
        ge=0,
        le=1,
        flag=CommandFlag(section=_LIMITS),
    )
    max_cost: float | None = option(
        None,
        "Stop before the next request could exceed this cost; all answers are stored.",
        ge=0,
        flag=CommandFlag(section=_LIMITS),
    )
    reasoning_effort: str | None = option(
        None,
        "How much a reasoning model should think: low, medium, high.",
        flag=CommandFlag(metavar="LEVEL", section=_PROMPTS, decides=True),
    )
    style: Literal["auto"] | None = option(
        None,
        "auto: on a model without likelihoods, run choice tasks as :letters if it lists tokens, else as :gen.",
        flag=CommandFlag(section=_PROMPTS, decides=True),
    )
    until: str | None = option(
        None,
        'Stop when the score is precise enough: "ci=0.01" or "decided vs RUN".',
        flag=CommandFlag(metavar="RULE", section=_LIMITS, decides=True),
    )
    control: str | None = option(
        None,
        "Tighten intervals with the scores of an earlier run on all docs.",
        flag=CommandFlag(metavar="RUN", section=_SCORES, decides=True),
    )
    loggers: dict[str, dict[str, Any]] = option(
        dict,
        "Also send results to a tracker: wandb, mlflow, tensorboard; settings go after a colon.",
        flag=CommandFlag(metavar="NAME[:K=V,…]", name="log_to", section=_STORED),
    )

    executor: Literal["local", "ray"] = option("local", "Where the model runs.", flag=CommandFlag(section=_CLUSTER))
    ray_address: str | None = option(
        None, "auto, or HOST:PORT of a Ray cluster.", flag=CommandFlag(metavar="ADDRESS", section=_CLUSTER)
    )
    replicas: int | None = option(None, "Model replicas on the cluster.", ge=1, flag=CommandFlag(section=_CLUSTER))
    gpus_per_replica: float | None = option(
        None, "GPUs per replica.", ge=0, flag=CommandFlag(default="what the model needs", section=_CLUSTER)
    )
    cpus_per_replica: float | None = option(
        None, "CPUs per replica.", flag=CommandFlag(default="an even share of a node", section=_CLUSTER)
    )

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
        if self.sample == "random" and self.limit is None:
            raise ConfigError(
                "sample: random needs a limit", hint="Add --limit N: so many docs of each task are drawn."
            )
        if self.overlay and self.control is not None:
            raise ConfigError(
                "overlay and control cannot be combined", hint="The control run is scored on docs without the overlay."
            )
        if self.limit is not None and self.samples is not None:
            raise ConfigError("limit and samples cannot be combined", hint="Leave one of them out.")
        if self.extend is not None and (self.fresh or self.branch is not None):
            raise ConfigError("extend cannot be combined with fresh or branch", hint="Leave one of them out.")
        if self.branch is None and (self.at is not None or self.replace):
            raise ConfigError("at and replace are about the trajectories of a run", hint="Name it with --branch RUN.")
        if self.branch is not None and self.at is None and "tool_result" not in self.replace:
            raise ConfigError("branch: nobody said where", hint="Add --at N, --at first_error or --at each.")
        if self.fewshot_as_multiturn and not self.apply_chat_template:
            raise ConfigError("fewshot_as_multiturn needs a chat template", hint="Add --apply_chat_template.")
        return self

    @property
    def multiturn(self) -> bool:
        """Few-shot examples as turns of the conversation: the default with a chat template."""
        return bool(self.apply_chat_template) if self.fewshot_as_multiturn is None else self.fewshot_as_multiturn


Settings = Mapping[str, Any] | str
"""`{"pretrained": "gpt2"}`, or `"pretrained=gpt2"`."""


class RunKwargs(TypedDict, total=False):
    """The fields of `RunConfig`; `evaluate` also takes other forms of `model` and `store`, and `overrides`."""

    model_args: Settings
    roles: Mapping[str, RoleConfig | Mapping[str, Any] | str] | Sequence[str]
    labels: str | Sequence[str]
    overlay: str | Sequence[str]
    tasks: Any
    """Names in a list or a text, mappings with fields of their own, `Task` objects, Python task classes."""
    overrides: Mapping[str, Mapping[str, Any]] | None
    """Fields by the name of a task or group."""
    num_fewshot: int | None
    batch_size: int | str
    device: str | None
    limit: int | float | None
    sample: Literal["random"] | None
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
    population: Literal["docs"] | None
    floors: str | Sequence[str]
    metadata: Settings
    trust_remote_code: bool
    confirm_run_unsafe_code: bool
    sandbox: SandboxKind
    allow_network: bool
    replay_outside: bool
    extend: str | None
    branch: str | None
    at: int | Literal["first_error", "each"] | None
    replace: Mapping[str, str] | Sequence[str]
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
    max_unjudged: float | None
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
