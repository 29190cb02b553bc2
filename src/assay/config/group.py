"""The typed form of a group file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from assay.config.functions import Function
from assay.config.task import FrozenConfig, as_list


def _name_of_metric(value: Any) -> Any:
    """A metric that tasks give as `!function` is reported under the function's name."""
    return value if isinstance(value, str) else getattr(value, "__name__", value)


class AggMetricConfig(FrozenConfig):
    """One entry of `aggregate_metric_list`: one metric, its aggregator, and what it runs over."""

    metric: Annotated[str, BeforeValidator(_name_of_metric)]
    aggregation: str | Function = "mean"
    weight_by_size: bool = True
    filter_list: Annotated[list[str], BeforeValidator(as_list)] | None = None
    """Default: the filters found in the children's results."""
    over: Literal["tasks", "subgroups"] = "tasks"
    missing: Literal["undefined", "skip"] | None = None
    """What to do with a child that lacks the metric. Default: `skip` if lm-evaluation-harness knows all keys of the entry, else `undefined`."""
    weights: dict[str, float] | None = None
    higher_is_better: bool | None = None
    kwargs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, data: Any) -> Any:
        return {"metric": data} if isinstance(data, str) else data

    @property
    def lm_eval_semantics(self) -> bool:
        """Whether lm-evaluation-harness would accept this entry: then it also keeps that harness's behaviour."""
        ours = self.model_fields_set & {"over", "missing", "weights", "kwargs", "higher_is_better"}
        return self.aggregation == "mean" and not ours

    @property
    def skips_missing(self) -> bool:
        return self.missing == "skip" or (self.missing is None and self.lm_eval_semantics)


def _members(value: Any) -> Any:
    """The members of a group as a list, those written `- name: if CONDITION` or `- name: always` like any other."""
    listed = as_list(value)
    return [_member(item) for item in listed] if isinstance(listed, list) else listed


def _member(item: Any) -> Any:
    """
    >>> _member({"aime": "if model_size > 7B"}), _member({"gsm8k": "always"}), _member({"task": "always"})
    ({'task': 'aime', 'if': 'model_size > 7B'}, {'task': 'gsm8k'}, {'task': 'always'})
    """
    if not isinstance(item, dict) or len(item) != 1:
        return item
    ((name, said),) = item.items()
    if name in ("task", "group") or not isinstance(said, str):
        return item
    if said.strip() == "always":
        return {"task": name}
    word, _, condition = said.strip().partition(" ")
    return {"task": name, "if": condition.strip()} if word == "if" else item


class GroupFilter(FrozenConfig):
    """Which children enter an aggregate: the `k` best or worst, or those beyond a threshold."""

    function: Literal["top_k", "bottom_k", "threshold"]
    k: int | None = Field(default=None, ge=1)
    threshold: float | None = None
    metric: str | None = None


class GroupConfig(FrozenConfig):
    """One group. `task` lists the members as written: names, or mappings with overrides, inline tasks and subgroups."""

    group: str
    group_alias: str | None = None
    task: Annotated[list[str | dict[str, Any]], BeforeValidator(_members)] = Field(default_factory=list)
    aggregate_metric_list: Annotated[list[AggMetricConfig], BeforeValidator(as_list)] | None = None
    metadata: dict[str, Any] | None = None
    group_filter: Annotated[list[GroupFilter], BeforeValidator(as_list)] | None = None
    scorer: Function | None = None
    tag: Annotated[list[str], BeforeValidator(as_list)] | None = None

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, frozen=True)

    @property
    def alias(self) -> str:
        return self.group_alias or self.group
