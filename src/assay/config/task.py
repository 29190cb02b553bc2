"""The typed form of a task file: every field of lm-evaluation-harness, and ours.

Loose forms (a string for a list, a dict for a list of one) are normalised here, at the edge; nothing behind it asks
again what type a field has.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from assay.config.agent import AgentConfig
from assay.config.functions import Function
from assay.config.loader import LmEvalVersion, read_line
from assay.config.settings import check_generation
from assay.errors import did_you_mean
from assay.registry import load_object
from assay.request_types import OUTPUT_TYPES

DEFAULT_MAX_GEN_TOKS = 256
AGENT_MAX_GEN_TOKS = 1024
MAX_REPEATS = 100_000
"""Draws of one request."""

OWN_FIELDS = frozenset(
    {"agent", "cluster", "doc_to_question", "language", "perturbation", "reducer", "shuffle_choices", "style", "tools"}
    | {"turns", "unmodifiable_words"}
)
"""Fields that no lm-evaluation-harness knows: a file that uses one was written for us, and has our defaults."""


def as_list(value: Any) -> Any:
    """A lone value where a list is meant."""
    return value if value is None or isinstance(value, list) else [*value] if isinstance(value, tuple) else [value]


def known_output_type(name: str) -> str:
    if name not in OUTPUT_TYPES:
        known = did_you_mean(name, OUTPUT_TYPES) or f"Known: {', '.join(OUTPUT_TYPES)}."
        raise ValueError(f"there is no output type {name!r}. {known}")
    return name


class FrozenConfig(BaseModel):
    """A config is a value; a key that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, frozen=True)

    def to_dict(self) -> dict[str, Any]:
        """What was set, as the file would say it."""
        return self.model_dump(exclude_unset=True, exclude_none=True)


class MetricConfig(FrozenConfig):
    """One entry of `metric_list`. Keys that are not fields here are arguments of the metric."""

    metric: str | Function
    aggregation: str | Function | None = None
    higher_is_better: bool | None = None
    hf_evaluate: bool = False
    reducer: str | Function | None = None
    """How the values of several draws of one doc are combined into one. Default: the task's `reducer`."""
    interval: str | None = None
    """The interval method, by its registered name. Default: the first whose conditions hold."""
    kwargs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _collect_arguments(cls, data: Any) -> Any:
        if isinstance(data, str) or callable(data):
            data = {"metric": data}
        if isinstance(data, dict):
            if "end_state" in data and "metric" not in data:  # end_state: !function check.solved
                data = {
                    "metric": "end_state",
                    "check": data["end_state"],
                    **{k: v for k, v in data.items() if k != "end_state"},
                }
            if "reduction" in data:  # the word of lm-evaluation-harness 0.5
                data = {"reducer": data["reduction"], **{k: v for k, v in data.items() if k != "reduction"}}
            known = {k: v for k, v in data.items() if k in cls.model_fields}
            extra = {k: v for k, v in data.items() if k not in cls.model_fields}
            return {**known, "kwargs": {**extra, **(known.get("kwargs") or {})}}
        return data

    @property
    def name(self) -> str:
        return self.metric if isinstance(self.metric, str) else self.metric.__name__


class FilterStep(FrozenConfig):
    """One step of a filter chain: a registered name or a class, and its arguments."""

    function: str | Function
    kwargs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _collect_arguments(cls, data: Any) -> Any:
        if isinstance(data, str) or callable(data):
            return {"function": data}
        if isinstance(data, dict) and "kwargs" not in data:
            return {"function": data.get("function"), "kwargs": {k: v for k, v in data.items() if k != "function"}}
        return data


class FilterConfig(FrozenConfig):
    """A named chain of filters, scored by its own `metric_list` if it has one, else by the task's."""

    name: str = "none"
    filter: Annotated[list[FilterStep], BeforeValidator(as_list)] = Field(default_factory=list)
    metric_list: Annotated[list[MetricConfig], BeforeValidator(as_list)] | None = None

    @property
    def ensemble(self) -> Any:
        """The filters themselves, ready to be applied to instances (`FilterEnsemble`)."""
        return load_object("assay.filters:FilterEnsemble").from_config(self)  # type: ignore[attr-defined]

    @property
    def has_steps_unsaid(self) -> bool:
        """Whether the file does not mention steps at all, which lm-evaluation-harness refuses."""
        return "filter" not in self.model_fields_set


class ScorerConfig(FrozenConfig):
    """A scorer and its settings: `{type: judge, kind: correct}`, or with the settings under `kwargs`."""

    type: str | Function
    kwargs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _collect_settings(cls, data: Any) -> Any:
        if isinstance(data, str) or callable(data):
            return {"type": data}
        if isinstance(data, dict):
            rest = {key: value for key, value in data.items() if key not in cls.model_fields}
            return {"type": data.get("type"), "kwargs": {**rest, **(data.get("kwargs") or {})}}
        return data


class FewshotConfig(FrozenConfig):
    """How few-shot examples are chosen and worded. Keys that are not set come from the task."""

    sampler: str | Function = "default"
    split: str | None = None
    process_docs: Function | None = None
    samples: list[dict[str, Any]] | Function | None = None
    fewshot_indices: list[int] | None = None
    doc_to_text: str | int | Function | None = None
    doc_to_choice: str | list[Any] | dict[str, Any] | Function | None = None
    doc_to_target: str | int | list[Any] | Function | None = None
    gen_prefix: str | None = None
    fewshot_delimiter: str | None = None
    target_delimiter: str | None = None


class TaskConfig(FrozenConfig):
    """One task. Fields up to `metadata` are those of lm-evaluation-harness."""

    task: str = ""
    task_alias: str | None = None
    tag: Annotated[list[str], BeforeValidator(as_list)] | None = None
    class_: Function | None = Field(default=None, alias="class")
    class_config: dict[str, Any] = Field(default_factory=dict)
    """Keys of a `class:` task's file that only its class knows."""
    is_own: bool = False
    """Whether it is a Python task of ours, or worded by a styler; no key of a file."""

    dataset_path: str | None = None
    dataset_name: str | None = None
    dataset_kwargs: dict[str, Any] | None = None
    custom_dataset: Function | None = None
    training_split: str | None = None
    validation_split: str | None = None
    test_split: str | None = None
    fewshot_split: str | None = None

    process_docs: Function | None = None
    doc_to_text: str | int | Function | None = None
    doc_to_target: str | int | list[Any] | Function | None = None
    doc_to_choice: str | list[Any] | dict[str, Any] | Function | None = None
    multiple_inputs: bool = False
    """`doc_to_text` gives a list of contexts, `doc_to_choice` the one continuation, `doc_to_target` the right context."""
    multiple_targets: bool = False
    """Several answers are right. Optional: a list from `doc_to_target` says so too."""
    doc_to_image: str | list[Any] | Function | None = None
    doc_to_audio: str | list[Any] | Function | None = None
    description: str | Function = ""
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    gen_prefix: str | Function | None = None
    use_prompt: str | None = None
    fewshot_config: FewshotConfig = Field(default_factory=FewshotConfig)
    num_fewshot: int | None = None

    output_type: Annotated[str, AfterValidator(known_output_type)] = Field(
        default="generate_until", json_schema_extra=lambda schema: schema.update(enum=list(OUTPUT_TYPES))
    )
    generation_kwargs: dict[str, Any] | None = None
    form_stops: bool = False
    """Set by forms, not by files: the stop strings end an answer in a plain text, and are left out of a chat, where the
    turn ends by itself."""
    repeats: int = Field(default=1, ge=1, le=MAX_REPEATS)
    filter_list: Annotated[list[FilterConfig], BeforeValidator(as_list)] | None = None
    metric_list: Annotated[list[MetricConfig], BeforeValidator(as_list)] | None = None
    process_results: Function | None = None
    scorer: ScorerConfig | None = None
    """A scorer's name, or a mapping with its `type` and settings. The default depends on `output_type`."""
    should_decontaminate: bool = False
    doc_to_decontamination_query: str | Function | None = None
    unsafe_code: bool = False
    metadata: dict[str, Any] = Field(default_factory=dict)

    formats: str | dict[str, Any] | None = None
    """Prompt formats of lm-evaluation-harness 0.5: a name (`mcqa`, `cloze`, `generate`, `cot`), one with changes
    (`{type: mcqa, instruction: …}`), or several by name: `task@name` chooses one, and the first is the default."""
    style: str | dict[str, Any] | None = None
    """A styler by name (`mc`, `cloze`, `bpb`, `mc_completion`), or a mapping with `name` and its options."""
    doc_to_question: str | Function | None = None
    """The bare question, for `style`."""
    reducer: str | Function | None = None
    """How the values of several draws of one doc are combined into one."""
    tools: list[dict[str, Any]] | None = None
    """Functions that the model may call, each `{name, description, parameters}` with a JSON Schema of its arguments."""
    tool_protocol: Literal["native", "text"] = "native"
    """Whether only calls that the server gives as such count, or those too that the model writes into its answer."""
    agent: AgentConfig | None = None
    """Tools, sandbox, limits and user of an agent (`output_type: agent`)."""
    turns: list[str | Function] | None = None
    """What the user says in later turns of a conversation; a template may use the answers so far."""
    cluster: str | None = None
    """A column; docs with equal values in it are not independent (questions on one passage)."""
    language: str | None = None
    perturbation: Annotated[list[str], BeforeValidator(as_list)] | None = None
    """Changes to the question of each doc before it is asked: `typo(0.1)`, `case`, `choice_order`, …"""
    unmodifiable_words: list[str] | None = None
    """Words that a perturbation leaves as they are."""
    shuffle_choices: bool | None = None
    """Whether choices that are listed under letters are put into an order by a hash of the doc. Default: where the right
    one stands at one place far more often than chance would have it."""
    lm_eval_version: Annotated[LmEvalVersion | None, BeforeValidator(read_line)] = None
    """The lm-evaluation-harness version whose rules score the task. Default: that of its directory; none for our own tasks."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, frozen=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _unfold_repeat_cfg(cls, data: Any) -> Any:
        """`repeat_cfg: {repeats: 3, reducer: max}` says the same as the two fields."""
        if isinstance(data, dict) and isinstance(data.get("repeat_cfg"), dict):
            return {**{key: value for key, value in data.items() if key != "repeat_cfg"}, **data["repeat_cfg"]}
        return data

    @field_validator("metadata", "fewshot_config", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return {} if value is None else value

    @field_validator("description", mode="before")
    @classmethod
    def _none_is_no_text(cls, value: Any) -> Any:
        return "" if value is None else value

    @field_validator("tools")
    @classmethod
    def _check_tools(cls, given: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
        for i, tool in enumerate(given or []):
            inner = tool.get("function", tool)
            if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
                raise ValueError(f"tool {i} has no name: expected {{name, description, parameters}}")
            if not isinstance(inner.get("parameters", {}), dict):
                raise ValueError(f"the parameters of tool {inner['name']!r} are not a JSON Schema")
        return given

    @field_validator("generation_kwargs")
    @classmethod
    def _check_generation(cls, given: dict[str, Any] | None) -> dict[str, Any] | None:
        if given is None:
            return given
        check_generation(given)
        if "temperature" not in given:
            return given
        try:
            return {**given, "temperature": float(given["temperature"])}
        except (TypeError, ValueError):
            raise ValueError(f"temperature is {given['temperature']!r}, expected a number") from None

    @model_validator(mode="after")
    def _settle_generation(self) -> Self:
        """Greedy, 256 tokens, up to the few-shot delimiter, unless the file says otherwise."""
        given, until = self.generation_kwargs, [self.fewshot_delimiter]
        if self.agent is not None:  # each turn of an agent ends by itself
            given = {"do_sample": False, "temperature": 0.0, "max_gen_toks": AGENT_MAX_GEN_TOKS, **(given or {})}
            until = []
        if given is None:
            if self.output_type != "generate_until":
                return self
            given = {"until": until, "do_sample": False, "temperature": 0.0, "max_gen_toks": DEFAULT_MAX_GEN_TOKS}
        object.__setattr__(self, "generation_kwargs", {**given, "until": given.get("until", until)})
        return self

    @property
    def alias(self) -> str:
        return self.task_alias or self.task

    @property
    def eval_split(self) -> str | None:
        """The split that is evaluated: test, else validation."""
        return self.test_split or self.validation_split

    @property
    def has_own_defaults(self) -> bool:
        """Whether our defaults apply where lm-evaluation-harness has others: not to its files, wherever they lie."""
        if self.lm_eval_version is not None:
            return False
        is_said = any(getattr(self, name) is not None for name in OWN_FIELDS)
        return is_said or self.is_own or any(each.metric_list for each in self.filter_list or [])

    @property
    def counts_no_gold(self) -> bool:
        """Whether a doc whose right answer is none of its choices counts as wrong; else it is left out."""
        return self.lm_eval_version == "0.4"

    @property
    def joins_spaces(self) -> bool:
        """Whether a delimiter is left out where there is a space already, and lengths are those of what is sent."""
        return self.lm_eval_version == "0.5"

    @property
    def repeat_cfg(self) -> Self:
        """`config.repeat_cfg.reducer`: the two fields stand in the config itself."""
        return self

    def get_filters(self) -> list[FilterConfig]:
        return self.filter_list or [FilterConfig(name="none", filter=[FilterStep(function="take_first")])]

    @property
    def _filter_list(self) -> list[FilterConfig]:
        return self.get_filters()

    @property
    def _metric_list(self) -> list[MetricConfig]:
        return self.metric_list or []

    def override(self, **fields: Any) -> Self:
        """A copy with these fields replaced, validated again."""
        kept = {name: getattr(self, name) for name in self.model_fields_set if name not in fields}
        return type(self)(**{**kept, **fields})
