"""What is evaluated: a task turns docs into requests. Making one reads no data; docs load on first use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

from assay.config import FunctionRef, TaskConfig
from assay.data import NUMPY_SEED, RANDOM_SEED, mirror_dir
from assay.errors import AssayError, DataError
from assay.instance import Doc, Instance, OutputType
from assay.tasks.fewshot import SAMPLERS
from assay.tasks.fields import Field, choice_field, free_field, target_field, text_field
from assay.tasks.prompt import Shot, chat_prompt, join_spaced, make_shot, plain_prompt
from assay.tasks.reading import TaskDocs
from assay.tasks.requests import DocRequests, RequestOptions, ascends, pick, select_docs, select_ids
from assay.tasks.scored import Scored
from assay.tasks.shots import Draw, ForeignSampler, ShotBook


class Task(TaskDocs, Scored):
    """One task. A new type gives `OUTPUT_TYPE`, `construct_requests` and a default scorer, nothing else."""

    OUTPUT_TYPE: ClassVar[OutputType]
    NEEDS_CONTEXT: ClassVar[bool] = True

    def __init__(self, config: TaskConfig, *, data_dir: str | Path | None = None, name: str | None = None) -> None:
        self.config = config
        self.task_name = name or config.task
        self.groups: list[Any] = []
        """The groups this task sits in, as objects of `assay.groups`; links go both ways."""
        self.tags: list[str] = list(config.tag or [])
        self.instances: list[Instance] = []
        self.fewshot_replaced = 0
        """Docs of the last request building that would have been among their own shots and got another one."""
        self.seeds = (RANDOM_SEED, NUMPY_SEED)
        self._data_dir = mirror_dir(data_dir)
        self._processed = {}

    @staticmethod
    def from_config(config: TaskConfig, *, data_dir: str | Path | None = None, name: str | None = None) -> Task:
        """The task type that fits the config: by `class`, else by `output_type`."""
        from assay.tasks.configurable import build_class_task
        from assay.tasks.styled import apply_style
        from assay.tasks.types import TASK_TYPES

        if config.class_ is not None:
            return build_class_task(config, data_dir=data_dir, name=name)
        config = apply_style(config)
        return TASK_TYPES[config.output_type](config, data_dir=data_dir, name=name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task_name!r})"

    def add_to_group(self, group: Any) -> None:
        """Join a group, and become its child if the group does not know yet."""
        if group not in self.groups:
            self.groups.append(group)
            group.add(self)

    # ------------------------------------------------------------------ shots

    @property
    def fixes_shots(self) -> bool:
        """Whether the name says how many shots there are: `gsm8k:8shot`."""
        return any(re.fullmatch(r"\d+shot", part) for part in self.task_name.split(":")[1:])

    def num_fewshot(self, options: RequestOptions) -> int:
        """The run's number of shots, unless the task insists on none or its variant on a number."""
        own = self.config.num_fewshot
        if options.num_fewshot is None or own == 0 or self.fixes_shots:
            return own or 0
        return options.num_fewshot

    def _shot_book(self, options: RequestOptions) -> ShotBook | ForeignSampler:
        own = self.config.fewshot_config
        pool = self.fewshot_docs()
        # Also where both are absent: the draws of many task files depend on it.
        excludes = self._fewshot_split == self.config.test_split
        if isinstance(own.sampler, FunctionRef | type):
            cls = own.sampler.load() if isinstance(own.sampler, FunctionRef) else own.sampler
            return ForeignSampler(cls, pool, options.fewshot_seed, self.render_shot, excludes=excludes)
        positions = own.fewshot_indices
        sampler = SAMPLERS[cast(str, own.sampler)](len(pool if positions is None else positions), options.fewshot_seed)
        return ShotBook(
            pool,
            sampler,
            self.render_shot,
            excludes=excludes,
            positions=positions,
            pool_is_asked=pool is self.eval_docs,
        )

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
            target = target_field(own.doc_to_target, columns, has_choices=self.has_choices)
        if "doc_to_choice" in own.model_fields_set:
            choices = choice_field(own.doc_to_choice, columns) if own.doc_to_choice else None
        prefix = own.gen_prefix if "gen_prefix" in own.model_fields_set else self.config.gen_prefix
        return text, choices, target, free_field(prefix)

    def render_shot(self, doc: Doc) -> Shot:
        """A solved example, ready for any prompt."""
        text, choice, target, prefix = self._shot_fields
        own = self.config.fewshot_config
        question, choices, answer = text(doc), choice(doc) if choice else None, target(doc)
        if self.multiple_input and choices:
            question, choices = choices[question], None
        return make_shot(
            doc,
            question,
            answer,
            choices,
            prefix(doc),
            target_delimiter=own.target_delimiter if own.target_delimiter is not None else self.config.target_delimiter,
            fewshot_delimiter=own.fewshot_delimiter
            if own.fewshot_delimiter is not None
            else self.config.fewshot_delimiter,
        )

    # ------------------------------------------------------------------ requests

    def iter_requests(self, options: RequestOptions | None = None) -> Iterator[DocRequests]:
        """The requests of each doc, one doc at a time; memory does not grow with the number of docs."""
        options = options or RequestOptions()
        n = self.num_fewshot(options) if self.NEEDS_CONTEXT else 0
        book = self._shot_book(options) if n else None
        self.fewshot_replaced = 0
        for doc_id, (doc, draw) in self._asked(options, book, n):
            with self._naming(doc_id, doc):
                shots = book.render(draw) if book and draw else []
                requests = self._requests_of(doc_id, doc, shots, options)
            requests.shot_replaced = draw is not None and draw.replaced
            self.fewshot_replaced += requests.shot_replaced
            yield requests

    def _asked(
        self, options: RequestOptions, book: ShotBook | ForeignSampler | None, n: int
    ) -> Iterator[tuple[int, tuple[Doc, Draw | None]]]:
        """Docs with their draws, which are made in the order of the dataset whatever the order of `only`."""
        only = options.only
        walk = self._drawn(options, book, n)
        if only is None:
            yield from walk
        elif ascends(only):
            yield from pick(walk, only)
        else:
            draws = {doc_id: draw for doc_id, (_, draw) in walk} if book else {}
            for doc_id in only:
                yield doc_id, (cast(Doc, self.eval_docs[doc_id]), draws.get(doc_id))

    def _drawn(
        self, options: RequestOptions, book: ShotBook | ForeignSampler | None, n: int
    ) -> Iterator[tuple[int, tuple[Doc, Draw | None]]]:
        for doc_id, doc in select_docs(self.eval_docs, options):
            draw = None
            if book:
                with self._naming(doc_id, doc):
                    draw = book.draw(doc_id, doc, n)
            yield doc_id, (doc, draw)

    @contextmanager
    def _naming(self, doc_id: int, doc: Doc) -> Iterator[None]:
        """Whatever goes wrong with a doc names it; code of a task file may raise anything."""
        try:
            yield
        except AssayError as error:
            raise type(error)(f"task {self.task_name}, doc {doc_id}: {error.message}", hint=error.hint) from error
        except Exception as error:
            raise DataError(
                f"task {self.task_name}, doc {doc_id}: {type(error).__name__}: {error}",
                hint=f"Columns: {', '.join(map(str, doc))}.",
            ) from error

    def _requests_of(self, doc_id: int, doc: Doc, shots: Sequence[Shot], options: RequestOptions) -> DocRequests:
        context = self._context(doc, shots, options) if self.NEEDS_CONTEXT else ""
        target = self.doc_to_target(doc)
        made = self.construct_requests(doc, context, target=target, options=options)
        instances = made if isinstance(made, list) else [made]
        repeats = options.repeats or self.config.repeats
        for instance in instances:
            instance.doc_id, instance.task_name, instance.repeats = doc_id, self.task_name, repeats
        return DocRequests(doc_id, doc, target, instances)

    def _context(self, doc: Doc, shots: Sequence[Shot], options: RequestOptions) -> str | list[str]:
        """The prompt up to the continuation; one for each choice where the contexts differ."""
        config = self.config
        system = join_spaced(options.system_instruction, self._description(doc), config.fewshot_delimiter)
        prefix = self._prefix(doc)
        if options.apply_chat_template and options.chat_template:
            template, multiturn = options.chat_template, options.fewshot_as_multiturn

            def assemble(question: str, delimiter: str) -> str:
                return chat_prompt(template, system, shots, question, prefix, multiturn=multiturn)
        else:
            head = system + "".join([shot.text for shot in shots])

            def assemble(question: str, delimiter: str) -> str:
                return plain_prompt(head, question, prefix, delimiter)

        if self.multiple_input:
            return [assemble(question, "") for question in self.doc_to_choice(doc)]
        question = self.doc_to_text(doc)
        if isinstance(question, int | float):
            # Digits alone were taken for an index; only the first doc may decide that.
            question = str(question)
        if not isinstance(question, str):
            raise DataError(
                f"the question is {str(question)[:80]}, expected text",
                hint="Check doc_to_text, or drop such docs in process_docs.",
            )
        return assemble(question, config.target_delimiter)

    def construct_requests(self, doc: Doc, ctx: str | list[str], **kwargs: Any) -> list[Instance] | Instance:
        raise NotImplementedError(f"{type(self).__name__} does not say what its requests are")

    def _with_media(self, doc: Doc, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Images and sounds go as a last argument."""
        return (*arguments, {key: field(doc) for key, field in self._media.items()}) if self._media else arguments

    def build_all_requests(self, options: RequestOptions | None = None) -> list[Instance]:
        """All requests at once, kept as `instances`."""
        self.instances = [instance for requests in self.iter_requests(options) for instance in requests.instances]
        return self.instances

    def select_ids(self, options: RequestOptions) -> Sequence[int]:
        """Ids of the docs that `samples` or `limit` select, ascending."""
        return select_ids(self.doc_count, options)
