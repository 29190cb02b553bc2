"""The reading side of a task: its docs, each split processed once, and what the fields of its file make of a doc."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, cast

from assay.config import TaskConfig, what_failed
from assay.data import CorrectedDoc, DataSource, Docs, as_dataset, columns_of, iter_docs, seeded_globals
from assay.errors import AssayError, ConfigError, DataError
from assay.instance import Doc
from assay.tasks.fields import (
    Field,
    choice_field,
    free_field,
    media_field,
    only_choice,
    prefix_field,
    target_field,
    text_field,
)
from assay.tasks.prompt import Shot, make_shot


class TaskDocs:
    """What a task reads. Nothing is read before it is needed."""

    config: TaskConfig
    task_name: str
    seeds: tuple[int | None, int | None]
    """Seeds of `random` and `numpy.random` for code of the task that prepares docs."""
    _data_dir: Path | None
    _processed: dict[tuple[str, Any], Docs]

    @cached_property
    def source(self) -> DataSource:
        config = self.config
        return DataSource(
            config.dataset_path,
            config.dataset_name,
            config.dataset_kwargs,
            custom=config.custom_dataset,
            metadata=config.metadata,
            data_dir=self._data_dir,
            as_written=config.has_own_defaults,
        )

    def docs(self, split: str, process: Any = None) -> Docs:
        """The docs of a split; `process` runs once per split, always from the same random state."""
        key = (split, process)
        if key not in self._processed:
            docs: Docs = self.source[split]
            if process is not None:
                docs = self._run_process(process, as_dataset(docs), split)
            self._processed[key] = docs if hasattr(docs, "__getitem__") else [*docs]
        return self._processed[key]

    def _run_process(self, process: Any, docs: Docs, split: str) -> Docs:
        try:
            with seeded_globals(*self.seeds):
                processed: Docs = process(docs)
        except AssayError:
            raise
        except Exception as error:  # code of a task file may raise anything
            said, hint = what_failed(error)
            raise DataError(
                f"task {self.task_name}: process_docs failed on the split {split!r}: {said}",
                hint=f"Columns: {', '.join(columns_of(docs))}.{'' if hint is None else f' {hint}'}",
            ) from error
        return processed

    @cached_property
    def eval_docs(self) -> Docs:
        """The docs that are evaluated: the test split, else the validation split."""
        split = self.config.eval_split
        if split is None:
            raise ConfigError(
                f"task {self.task_name}: no split to evaluate", hint="Set test_split or validation_split."
            )
        docs = self.docs(split, self.config.process_docs)
        if len(docs) == 0:
            raise DataError(f"task {self.task_name}: the split {split!r} of {self.source.label} has no docs")
        return docs

    @property
    def doc_count(self) -> int:
        return len(self.eval_docs)

    def fewshot_docs(self) -> Docs:
        """The pool: `fewshot_split`, else listed `samples`, else the training, validation or evaluated split."""
        config, own = self.config, self.config.fewshot_config
        if split := self._fewshot_split:
            return self.docs(split, own.process_docs if "process_docs" in own.model_fields_set else config.process_docs)
        if own.samples is not None:
            return own.samples if isinstance(own.samples, list) else [*own.samples()]
        split = config.training_split or config.validation_split or config.test_split
        return self.docs(cast(str, split), config.process_docs)

    @property
    def _fewshot_split(self) -> str | None:
        return self.config.fewshot_config.split or self.config.fewshot_split

    # ------------------------------------------------------------------ fields of a doc

    @cached_property
    def features(self) -> list[str]:
        """Columns of the evaluated docs: a field that is the name of one means its value."""
        return columns_of(self.eval_docs)

    @property
    def has_choices(self) -> bool:
        return self.config.doc_to_choice is not None

    @cached_property
    def _text(self) -> Field:
        if self.config.use_prompt:
            raise ConfigError(
                f"use_prompt is {self.config.use_prompt!r}, but prompts from other packages are not supported",
                hint="Put the prompt into doc_to_text and doc_to_target.",
            )
        if self.config.multiple_inputs:
            return self._target_field(self.config.doc_to_target)
        return text_field(self.config.doc_to_text, self.features, has_choices=self.has_choices)

    @cached_property
    def _target(self) -> Field:
        if self.config.multiple_inputs:
            return only_choice(self._choice_field(self.config.doc_to_choice))
        return self._target_field(self.config.doc_to_target)

    @cached_property
    def _choices(self) -> Field:
        if self.config.multiple_inputs:
            return self._choice_field(self.config.doc_to_text)
        return self._choice_field(self.config.doc_to_choice)

    def _target_field(self, value: Any) -> Field:
        own = self.config.has_own_defaults
        return target_field(value, self.features, has_choices=self.has_choices, renders_lists=own)

    def _choice_field(self, value: Any) -> Field:
        return choice_field(value, self.features, renders_lists=self.config.has_own_defaults)

    @cached_property
    def _prefix(self) -> Field:
        return prefix_field(self.config.gen_prefix, self.features)

    @cached_property
    def _description(self) -> Field:
        return free_field(self.config.description)

    @cached_property
    def _media(self) -> dict[str, Field]:
        given = {"visual": self.config.doc_to_image, "audio": self.config.doc_to_audio}
        return {key: media_field(value, self.features, f"doc_to_{key}") for key, value in given.items() if value}

    # With `multiple_inputs` the fields of the file change places, once and here: the text is the index of the right
    # context, the choices are the contexts, and the target is the continuation, as files for 0.4 write it.
    def doc_to_text(self, doc: Doc) -> Any:
        if isinstance(doc, CorrectedDoc) and doc.gold is not None and self.multiple_input:
            return doc.gold
        return self._text(doc)

    def doc_to_target(self, doc: Doc) -> Any:
        if isinstance(doc, CorrectedDoc) and self.multiple_input:  # the target is what all contexts go on with
            doc = CorrectedDoc(doc, doc.published)
        return self._target(doc)

    def doc_to_choice(self, doc: Doc) -> list[str]:
        choices: list[str] = self._choices(doc)
        return choices

    @cached_property
    def multiple_input(self) -> bool:
        """Whether the contexts differ and the continuation is shared (winogrande). The first doc decides for all."""
        return self.has_choices and isinstance(self.doc_to_text(self._first_doc), int)

    @cached_property
    def multiple_target(self) -> bool:
        """Whether there are several right answers. The first doc decides for all."""
        return self.config.multiple_targets or isinstance(self.doc_to_target(self._first_doc), list)

    @cached_property
    def _first_doc(self) -> Doc:
        for doc in iter_docs(self.eval_docs):
            return doc
        raise DataError(f"task {self.task_name!r} has no docs")

    # ------------------------------------------------------------------ shots

    @cached_property
    def _shot_fields(self) -> tuple[Field, Field | None, Field, Field]:
        """Question, choices, answer and prefix of a shot: the few-shot config's own fields, else the task's.

        An explicit null says that shots have no choices, or no prefix.
        """
        own, columns = self.config.fewshot_config, self.features
        text: Field = self.doc_to_text
        target: Field = self.doc_to_target
        choices: Field | None = self.doc_to_choice if self.config.doc_to_choice else None
        if own.doc_to_text is not None:
            text = text_field(own.doc_to_text, columns, has_choices=self.has_choices)
        if own.doc_to_target is not None:
            target = self._target_field(own.doc_to_target)
        if "doc_to_choice" in own.model_fields_set:
            choices = self._choice_field(own.doc_to_choice) if own.doc_to_choice else None
        prefix = own.gen_prefix if "gen_prefix" in own.model_fields_set else self.config.gen_prefix
        return text, choices, target, free_field(prefix)

    def render_shot(self, doc: Doc) -> Shot:
        """A solved example, ready for any prompt."""
        text, choice, target, prefix = self._shot_fields
        config, own = self.config, self.config.fewshot_config
        question, choices, answer = text(doc), choice(doc) if choice else None, target(doc)
        if self.multiple_input and choices:
            question, choices = choices[question], None
        return make_shot(
            doc,
            question,
            answer,
            choices,
            prefix(doc),
            target_delimiter=config.target_delimiter if own.target_delimiter is None else own.target_delimiter,
            fewshot_delimiter=config.fewshot_delimiter if own.fewshot_delimiter is None else own.fewshot_delimiter,
        )
