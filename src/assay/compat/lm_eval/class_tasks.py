"""Task classes written for lm-evaluation-harness: `class: !function task.SQuAD2`.

Such a class derives from `ConfigurableTask`, which task files find here, and overrides what it likes of the methods
below. Unlike there, making one loads no data unless the class itself asks for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from assay.config import MetricConfig, TaskConfig
from assay.data import Docs, as_dataset, mirror_dir
from assay.errors import ConfigError
from assay.instance import Doc, Instance
from assay.request_types import OUTPUT_TYPES
from assay.scoring import aggregation_of, higher_is_better_of, metric_configs
from assay.tasks import (
    DocRequests,
    GenerateTask,
    LoglikelihoodTask,
    MultipleChoiceTask,
    RequestOptions,
    RollingTask,
    Shot,
    Task,
)


class ConfigurableTask(GenerateTask, LoglikelihoodTask, RollingTask, MultipleChoiceTask):
    """The base class that task files know by this name."""

    VERSION: ClassVar[Any] = "Yaml"
    CONFIG: ClassVar[Any] = None
    DATASET_PATH: ClassVar[str | None] = None
    DATASET_NAME: ClassVar[str | None] = None
    NEEDS_CONTEXT = True

    def __init__(
        self,
        data_dir: Any = None,
        cache_dir: Any = None,
        download_mode: Any = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        own = {"dataset_path": self.DATASET_PATH, "dataset_name": self.DATASET_NAME}
        fields = {**(self.CONFIG or {}), **{k: v for k, v in own.items() if v is not None}, **(config or {})}
        known = {k: v for k, v in fields.items() if k in TaskConfig.model_fields and v is not None}
        super().__init__(TaskConfig(**known), data_dir=data_dir)
        self.DATASET_NAME = self.config.dataset_name  # type: ignore[misc]
        self._dataset: Any = None
        self._shots: Sequence[Shot] = ()
        self._listed = self.config.metric_list
        """The metrics of the file or class, before those of its own `process_results` took their place."""
        self._options = RequestOptions()

    @classmethod
    def from_task_file(cls, config: TaskConfig, *, data_dir: str | Path | None = None, name: str | None = None) -> Task:
        given = {field: getattr(config, field) for field in config.model_fields_set - {"class_", "class_config"}}
        parameters = inspect.signature(cls.__init__).parameters.values()
        takes_config = any(p.name == "config" or p.kind is p.VAR_KEYWORD for p in parameters)
        # Also the fields that a class may read although they are none of ours (unitxt's `recipe`), and `class` itself,
        # which some classes take out.
        task = cls(config={**config.class_config, **given, "class": config.class_}) if takes_config else cls()
        task._data_dir = mirror_dir(data_dir)
        task.config = task.config.override(task=config.task, lm_eval_version=config.lm_eval_version)
        task.task_name = name or config.task
        task.adopt_scoring()
        return task

    @property
    def task(self) -> str:
        return self.config.task

    @task.setter
    def task(self, name: str) -> None:
        """Classes of 0.5 set it before they have a config, and say the same in that."""

    @property
    def _config(self) -> TaskConfig:
        return self.config

    @_config.setter
    def _config(self, config: TaskConfig | Mapping[str, Any]) -> None:
        self.config = config if isinstance(config, TaskConfig) else TaskConfig(**config)

    # ------------------------------------------------------------------ data

    @property
    def dataset(self) -> Any:
        """Splits by name, loaded when first asked for."""
        if self._dataset is None:
            self.download(self.config.dataset_kwargs)
        return self._dataset

    @dataset.setter
    def dataset(self, value: Any) -> None:
        self._dataset = value

    def download(self, dataset_kwargs: dict[str, Any] | None = None) -> None:
        self._dataset = self.source

    def has_training_docs(self) -> bool:
        return self.config.training_split is not None

    def has_validation_docs(self) -> bool:
        return self.config.validation_split is not None

    def has_test_docs(self) -> bool:
        return self.config.test_split is not None

    def training_docs(self) -> Docs:
        return self._split_docs(self.config.training_split)

    def validation_docs(self) -> Docs:
        return self._split_docs(self.config.validation_split)

    def test_docs(self) -> Docs:
        return self._split_docs(self.config.test_split)

    def _split_docs(self, split: str | None) -> Docs:
        return as_dataset(self.docs(split, self.config.process_docs)) if split else []

    @cached_property
    def eval_docs(self) -> Docs:
        if self.has_test_docs():
            return self.test_docs()
        if self.has_validation_docs():
            return self.validation_docs()
        raise ConfigError(
            f"task {self.task_name}: no docs to evaluate", hint="The class has neither test nor validation docs."
        )

    def fewshot_docs(self) -> Docs:
        if self._fewshot_split or self.config.fewshot_config.samples is not None:
            return super().fewshot_docs()
        if self.has_training_docs():
            return self.training_docs()
        return self.validation_docs() if self.has_validation_docs() else self.test_docs()

    # ------------------------------------------------------------------ requests

    def _requests_of(self, doc_id: int, doc: Doc, shots: Sequence[Shot], options: RequestOptions) -> DocRequests:
        self._shots, self._options = shots, options
        chat: dict[str, Any] = {
            "apply_chat_template": options.apply_chat_template,
            "chat_template": options.chat_template,
        }
        context = self.fewshot_context(
            doc=doc,
            num_fewshot=len(shots),
            system_instruction=options.system_instruction,
            fewshot_as_multiturn=options.fewshot_as_multiturn,
            gen_prefix=self._prefix(doc),
            **chat,
        )
        repeats = options.repeats or self.config.repeats
        if "doc_id" in inspect.signature(self.construct_requests).parameters:  # as 0.5 calls it
            chat["doc_id"] = doc_id
        made = self.construct_requests(doc=doc, ctx=context, metadata=(self.task_name, doc_id, repeats), **chat)
        target = self.doc_to_target(doc)
        instances = [made] if isinstance(made, Instance) else list(made)
        for position, instance in enumerate(instances):
            instance.doc_id, instance.task_name, instance.repeats = doc_id, self.task_name, repeats
            # Several requests of one kind and number would be one request to everybody after this.
            instance.idx = position
            if instance.target is None:
                instance.target = target
        return DocRequests(doc_id, doc, target, instances)

    def fewshot_context(self, doc: Doc, num_fewshot: int = 0, **kwargs: Any) -> Any:
        return self._context(doc, self._shots, self._options)

    def construct_requests(self, doc: Doc, ctx: str | list[str], **kwargs: Any) -> Any:
        kind = OUTPUT_TYPES[self.config.output_type].task_class
        return kind.construct_requests(self, doc, ctx, target=self.doc_to_target(doc), options=self._options)

    # ------------------------------------------------------------------ scoring

    def process_results(self, doc: Doc, results: Any) -> dict[str, Any]:
        """What the metrics of the config give for a doc: for classes that add to it, or change some of it."""
        config = self.config.override(process_results=None, filter_list=None, metric_list=self._listed)
        kind = OUTPUT_TYPES[config.output_type]
        requests = self._requests_of(0, doc, (), self._options).instances
        for instance, response in zip(requests, results):
            instance.resps, instance.filtered_resps = [response], {"none": response}
        scorer = kind.scorer_class(multiple_target=self.multiple_target)
        scored = scorer.score({0: requests}, config).completed({0: requests}, config)
        return {key.metric: column.values[0] for key, column in scored.columns.items() if len(column)}

    def aggregation(self) -> dict[str, Callable[..., Any]]:
        """Those of the metrics of the config: for classes that add to them, or change some."""
        return {each.name: aggregation_of(each).fn for each in self._metrics}

    def higher_is_better(self) -> dict[str, bool]:
        given = {each.name: higher_is_better_of(each) for each in self._metrics}
        return {name: is_better for name, is_better in given.items() if is_better is not None}

    @property
    def _metrics(self) -> Sequence[MetricConfig]:
        return metric_configs(self.config.override(metric_list=self._listed))

    def adopt_scoring(self) -> None:
        """Write the class's own `process_results` and aggregations into its config, where the scorer looks."""
        own = type(self)
        if own.process_results is ConfigurableTask.process_results:
            return
        self._listed = self.config.metric_list
        if (
            own.aggregation is ConfigurableTask.aggregation
            and own.higher_is_better is ConfigurableTask.higher_is_better
        ):
            self.config = self.config.override(process_results=self.process_results)
            return
        better = self.higher_is_better()
        metrics = [
            {"metric": name, "aggregation": function, "higher_is_better": better.get(name)}
            for name, function in self.aggregation().items()
        ]
        self.config = self.config.override(process_results=self.process_results, metric_list=metrics or None)


class LmEvalInstance(Instance):
    """An instance as code for lm-evaluation-harness makes it: task, doc and repeats in one `metadata` triple (0.4), or
    each by its name, with images and sounds apart from the arguments and `metadata` a mapping (0.5)."""

    __slots__ = ()

    def __init__(
        self,
        request_type: str,
        doc: Doc,
        arguments: tuple[Any, ...],
        idx: int | str = 0,
        metadata: tuple[str, int, int] | Mapping[str, Any] | None = None,
        *,
        task_name: str | None = None,
        doc_id: int | None = None,
        repeats: int | None = None,
        additional_args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(idx, str):  # the fourth is the name of the task in 0.5
            task_name, idx = idx, 0
        name, number, times = ("", 0, 1) if metadata is None or isinstance(metadata, Mapping) else metadata
        media = (dict(additional_args),) if additional_args else ()
        place = (doc_id or number or 0, task_name or name or "", repeats or times or 1)
        super().__init__(request_type, doc, (*arguments, *media), idx, *place, **kwargs)
