"""`assay.yaml` of a repository: which models must hold which rules on which tasks, and what that may cost."""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from assay.config.parse import compose_file, parse_file
from assay.config.run import RunConfig
from assay.errors import ConfigError, did_you_mean

RuleKind = Literal["not worse", "at least", "newly wrong"]
_NUMBER = r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(?P<unit>%|points?)?"
_RULES: dict[RuleKind, re.Pattern[str]] = {
    "not worse": re.compile(rf"not worse than\s+{_NUMBER}"),
    "at least": re.compile(rf"at least\s+{_NUMBER}"),
    "newly wrong": re.compile(rf"no more than\s+{_NUMBER}\s+newly wrong"),
}
ANY_TASK = "any task"
_FORM = (
    "Write `TASK [METRIC]: not worse than 0.01`, `TASK [METRIC]: at least 0.4` or "
    "`any task: no more than 2 % newly wrong`."
)

OPTION_SECTIONS = ("compare", "drift", "explain", "gate", "judge", "noise", "power", "rank", "report", "sweep")
"""Verbs whose options may stand in the same file, each under its name; they read them, `assay ci` does not."""


class CIRule(BaseModel):
    """What must hold for one task, or for each."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    text: str
    task: str | None
    """None: any task."""
    metric: str | None
    kind: RuleKind
    limit: float

    @property
    def needs_baseline(self) -> bool:
        return self.kind != "at least"

    @classmethod
    def parse(cls, text: str) -> CIRule:
        """A rule as people write it. The name ends at the last colon: variants of tasks have colons of their own.

        >>> CIRule.parse("arc_easy:cloze acc: not worse than 0.01")
        CIRule(text='arc_easy:cloze acc: not worse than 0.01', task='arc_easy:cloze', metric='acc', kind='not worse', limit=0.01)
        >>> rule = CIRule.parse("any task: no more than 2 % newly wrong")
        >>> rule.task, rule.kind, rule.limit
        (None, 'newly wrong', 0.02)
        """
        name, colon, claim = text.rpartition(":")
        words = name.split()
        if not colon or not words:
            raise ConfigError(f"the rule {text!r} names no task", hint=_FORM)
        for kind, pattern in _RULES.items():
            if match := pattern.fullmatch(claim.strip()):
                limit = float(match["number"]) / (100 if match["unit"] else 1)
                if kind != "at least" and not 0 < limit < 1:
                    raise ConfigError(f"the rule {text!r}: {limit:g} must lie between 0 and 1", hint=_FORM)
                every = name.strip().lower() == ANY_TASK
                if not every and len(words) > 2:
                    raise ConfigError(f"the rule {text!r}: {name!r} is more than a task and a metric", hint=_FORM)
                metric = words[1] if len(words) == 2 and not every else None
                return cls(text=text, task=None if every else words[0], metric=metric, kind=kind, limit=limit)
        raise ConfigError(f"the rule {text!r} is not understood", hint=_FORM)


_FLOOR_LIMIT = re.compile(r"(?P<number>\d*\.?\d+)\s*(?P<unit>%)?\s*(?P<above>above chance)?")


class FloorLimit(BaseModel):
    """How high a floor of a benchmark may be: by itself, or above guessing."""

    model_config = ConfigDict(frozen=True)
    limit: float
    above_chance: bool = False

    @classmethod
    def parse(cls, text: Any) -> FloorLimit:
        """
        >>> FloorLimit.parse("0.05 above chance"), FloorLimit.parse(0.3)
        (FloorLimit(limit=0.05, above_chance=True), FloorLimit(limit=0.3, above_chance=False))
        """
        found = _FLOOR_LIMIT.fullmatch(str(text).strip())
        if found is None:
            raise ConfigError(
                f"the floor {text!r} is no limit", hint="Write `blind: 0.05 above chance`, or `longest: 0.4`."
            )
        limit = float(found["number"]) / (100 if found["unit"] else 1)
        return cls(limit=limit, above_chance=bool(found["above"]))


def _floor_limit(value: Any) -> Any:
    return value if isinstance(value, FloorLimit) else FloorLimit.parse(value)


def _rule(value: Any) -> Any:
    return CIRule.parse(value) if isinstance(value, str) else value


class Budget(BaseModel):
    """The budget of a run in CI; it ends earlier if every rule is decided."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    docs: int | None = Field(default=None, ge=2, description="Docs per task.")
    minutes: float | None = Field(default=None, gt=0, description="For all models and tasks together.")
    cost: float | None = Field(default=None, gt=0, description="In the currency of the model's prices.")


class CIConfig(BaseModel):
    """All of `assay.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    models: list[dict[str, Any]] = Field(
        min_length=1,
        description="Each has a `name` and flags of `assay run`: model, model_args, apply_chat_template, …",
    )
    tasks: list[str] = Field(min_length=1)
    rules: list[Annotated[CIRule, BeforeValidator(_rule)]] = Field(
        description="What every model must meet; may be left out where there are `floors`."
    )
    floors: dict[str, Annotated[FloorLimit, BeforeValidator(_floor_limit)]] = Field(
        default_factory=dict, description="How high floors of the tasks may be: `blind: 0.05 above chance`."
    )
    baseline: str | None = Field(default=None, description="A run directory; `assay ci --record` creates it.")
    budget: Budget = Field(default_factory=Budget)
    alpha: float = Field(
        default=0.05, gt=0, lt=0.5, description="Probability that a rule passes although it does not hold."
    )
    noise: str | None = Field(default=None, description="noise.json from `assay noise`.")
    cannot_tell: Literal["pass", "fail"] | None = Field(default=None, description="What an undecided rule counts as.")
    link: str | None = None
    output: str = "assay-ci"
    """Where runs and reports are kept."""

    @model_validator(mode="before")
    @classmethod
    def _has_checks(cls, stated: Any) -> Any:
        """Rules are required, unless the file is about the benchmark itself."""
        if not isinstance(stated, dict) or stated.get("rules"):
            return stated
        rest = {key: value for key, value in stated.items() if key != "rules"}
        return {**rest, "rules": []} if stated.get("floors") else rest

    def run_configs(self, where: Path) -> dict[str, RunConfig]:
        """Name to what `assay run` would be given, without the docs."""
        configs: dict[str, RunConfig] = {}
        for entry in self.models:
            for key in entry:
                if key != "name" and key not in RunConfig.model_fields:
                    hint = did_you_mean(key, ["name", *RunConfig.model_fields])
                    raise ConfigError(f"{where}: models: unknown key {key!r}", hint=hint)
            words = {key: value for key, value in entry.items() if key != "name"}
            try:
                config = RunConfig(**{**words, "tasks": self.tasks})
            except ConfigError as error:
                raise error.reworded(f"{where}: models: {error.message}") from error
            args = config.model_args
            name = str(entry.get("name") or args.get("pretrained") or args.get("model") or config.model)
            if name in configs:
                raise ConfigError(f"{where} names the model {name!r} twice", hint="Give each a different `name`.")
            for key in ("until", "control", "limit", "samples", "dry_run", "predict_only", "offline", "fresh"):
                if key in words:
                    raise ConfigError(f"{where}: models: {key!r} is set by `assay ci`", hint="Remove it.")
            configs[name] = config
        return configs


def load_ci(path: Path) -> CIConfig:
    """Read and check `assay.yaml`; an error names the file and the line."""
    if not path.is_file():
        raise ConfigError(f"there is no {path}", hint="`assay ci --help` shows what to write in it.")
    sections = {*OPTION_SECTIONS, *(point.name for point in entry_points(group="assay.verbs"))}
    # `noise: FILE` is a setting of `assay ci`, `noise: {…}` holds options of `assay noise`.
    stated = {
        key: value
        for key, value in parse_file(path).data.items()
        if key not in sections or (key in CIConfig.model_fields and not isinstance(value, dict))
    }
    try:
        return CIConfig(**stated)
    except ValidationError as error:
        raise _located(error, path, sections) from error


def _located(error: ValidationError, path: Path, sections: Collection[str]) -> ConfigError:
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    where = ".".join(map(str, first["loc"]))
    line = _line_of(compose_file(path), first["loc"])
    if isinstance(cause, ConfigError):
        return cause.reworded(f"{path}:{line}: {cause.message}")
    known = Budget.model_fields if first["loc"][0] == "budget" else [*CIConfig.model_fields, *sections]
    if first["type"] == "extra_forbidden":
        return ConfigError(f"{path}:{line}: unknown key {where!r}", hint=did_you_mean(str(first["loc"][-1]), known))
    return ConfigError(
        f"{path}:{line}: {where}: {first['msg']} (got {first.get('input')!r})",
        hint=_FORM if where.startswith("rules") else None,
    )


def _line_of(node: yaml.Node | None, loc: tuple[int | str, ...]) -> int:
    """The line of what a location names, or of the nearest thing around it."""
    line = 1 if node is None else node.start_mark.line + 1
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            key = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if key is None:
                return line
            line, node = key[0].start_mark.line + 1, key[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return line
    return line
