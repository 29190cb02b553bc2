"""What is evaluated: a task turns docs into requests, and answers into scores. Making one reads no data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from assay.config import FilterConfig, TaskConfig, what_failed
from assay.data import NUMPY_SEED, RANDOM_SEED, doc_hash, iter_docs, mirror_dir
from assay.errors import AssayError, ConfigError, DataError
from assay.instance import Doc, Instance
from assay.registry import load_object
from assay.request_types import OUTPUT_TYPES
from assay.scoring import ScoringResult, filters_of, with_scorer_defaults
from assay.tasks.fewshot import Draw, FewshotPool, ShotBook, make_sampler
from assay.tasks.formats import apply_format, offer_choices
from assay.tasks.languages import ANSWER_WORDS, QUESTION_WORDS
from assay.tasks.overlay import Correction, corrected
from assay.tasks.perturbation import choice_order, perturbed_text
from assay.tasks.prompt import (
    DocRequests,
    RequestOptions,
    Shot,
    ascends,
    chat_messages,
    chat_prompt,
    join_spaced,
    pick,
    plain_prompt,
    select_docs,
    select_ids,
)
from assay.tasks.questions import NO_GOLD, gold_index, reordered_options, without_question
from assay.tasks.scores import TaskScores
from assay.tasks.styled import StyledField, apply_style, check_perturbation, shuffle_of

if TYPE_CHECKING:
    from assay.agents import BranchPoint, Workspace


def worded(config: TaskConfig) -> TaskConfig:
    """The config as it is worded and scored: in its format or style, with the filter and metrics of its scorer."""
    return with_scorer_defaults(offer_choices(check_perturbation(apply_style(apply_format(config)))))


class Task(TaskScores):
    """One task. A new type needs only `OUTPUT_TYPE`, `construct_requests` and a default scorer."""

    OUTPUT_TYPE: ClassVar[str] = ""
    """One of `OUTPUT_TYPES`; a name of your own where the class builds its requests and scores them itself."""
    NEEDS_CONTEXT: ClassVar[bool] = True
    converses: ClassVar[bool] = False
    """Whether its later requests extend the earlier ones."""
    acts: ClassVar[bool] = False
    """Whether its rounds wait for tools or for other models, so that docs go on side by side and not round by round."""
    roles: tuple[str, ...] = ()
    """Other models of the run that take part in its rounds; a run that does not name them is refused at once."""

    corrections: Mapping[str, Correction] = {}
    """What an overlay says of docs, by their hash."""
    task_file: Path | None = None
    """The file that the task comes from, for messages."""

    def __init__(self, config: TaskConfig, *, data_dir: str | Path | None = None, name: str | None = None) -> None:
        self.config = config
        self.task_name = name or config.task
        self._groups: list[Any] = []
        self._tags: list[str] = list(config.tag or [])
        self.sample_len = 0
        self.instances: list[Instance] = []
        self.fewshot_replaced = 0
        """Docs of the last request building that would have been among their own shots and got another one."""
        self.seeds = (RANDOM_SEED, NUMPY_SEED)
        self._data_dir = mirror_dir(data_dir)
        self._processed = {}
        self._result: ScoringResult | None = None
        self._docs: Mapping[int, Doc] = {}
        if (shuffle := shuffle_of(config)) is not None:
            shuffle.docs = lambda: iter_docs(self.eval_docs)

    @staticmethod
    def from_config(config: TaskConfig, *, data_dir: str | Path | None = None, name: str | None = None) -> Task:
        """The task type that fits the config: by `class`, by `turns`, else by `output_type`."""
        if config.class_ is None:
            config = worded(config)
        if config.class_ is not None:
            make = load_object("assay.tasks.types:build_class_task")
        elif config.turns:
            make = load_object("assay.tasks.types:ConversationTask")
        else:
            make = OUTPUT_TYPES[config.output_type].task_class
        return cast(Task, cast(Any, make)(config, data_dir=data_dir, name=name))

    @classmethod
    def from_task_file(cls, config: TaskConfig, *, data_dir: str | Path | None = None, name: str | None = None) -> Task:
        """An object of this class for a file that says `class:`. Classes of other harnesses take other arguments."""
        if "output_type" not in config.model_fields_set and cls.OUTPUT_TYPE in OUTPUT_TYPES:
            config = config.override(output_type=cls.OUTPUT_TYPE)
        return cls(config, data_dir=data_dir, name=name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task_name!r})"

    @property
    def name(self) -> str:
        return self.task_name

    @property
    def _qualified_name(self) -> str:
        return self.task_name

    @property
    def groups(self) -> list[Any]:
        """The groups this task sits in, each once, as objects of `assay.groups`; links go both ways."""
        # A class of one's own may not have called `super().__init__`.
        groups: list[Any] = self.__dict__.setdefault("_groups", [])
        groups[:] = {id(group): group for group in groups}.values()
        return groups

    @property
    def tags(self) -> list[str]:
        tags: list[str] = self.__dict__.setdefault("_tags", [])
        tags[:] = dict.fromkeys(tags)
        return tags

    @property
    def _instances(self) -> list[Instance]:
        return self.instances

    @property
    def _filters(self) -> Sequence[FilterConfig]:
        return filters_of(self.config)

    def add_to_group(self, group: Any) -> None:
        """Join a group, and become its child if the group does not know yet."""
        if not any(each is group for each in self.groups):
            self.groups.append(group)
            group.add(self)

    # ------------------------------------------------------------------ shots

    def num_fewshot(self, options: RequestOptions) -> int:
        """The run's number of shots, unless the task insists on none, or its name on a number: `gsm8k:8shot`."""
        own = self.config.num_fewshot
        is_fixed = own == 0 or any(re.fullmatch(r"\d+shot", part) for part in self.task_name.split(":")[1:])
        return (own or 0) if options.num_fewshot is None or is_fixed else options.num_fewshot

    def _shot_book(self, options: RequestOptions) -> ShotBook:
        own, docs = self.config.fewshot_config, self.fewshot_docs()
        pool = FewshotPool(docs, own.fewshot_indices, is_evaluated=docs is self.eval_docs)
        sampler = make_sampler(own.sampler, pool, options.fewshot_seed)
        # Also where both are absent: the draws of many task files depend on it.
        excludes = self._fewshot_split == self.config.test_split
        return ShotBook(pool, sampler, self.render_shot, excludes=excludes)

    # ------------------------------------------------------------------ requests

    def check_options(self, options: RequestOptions) -> None:
        """Refuse, before anything is sent, what this type of task cannot do."""

    def own_workspaces(self, doc_ids: Sequence[int]) -> Iterable[tuple[int, Workspace]]:
        """Sandboxes that docs describe by themselves, each with what it needs."""
        return ()

    def iter_requests(self, options: RequestOptions | None = None) -> Iterator[DocRequests]:
        """The requests of each doc, one doc at a time; memory does not grow with the number of docs."""
        options = options or RequestOptions()
        self.check_options(options)
        n = self.num_fewshot(options) if self.NEEDS_CONTEXT else 0
        book = self._shot_book(options) if n else None
        self.fewshot_replaced = 0
        for doc_id, (doc, draw) in self._asked(options, book, n):
            try:
                shots = book.render(draw) if book and draw else []
                requests = self._requests_of(doc_id, doc, shots, options)
                if self.corrections and (right := self.corrections.get(requests.doc_hash)) is not None:
                    again = self._requests_of(doc_id, right.of(doc), shots, options)
                    requests = corrected(requests, again, right)
            except Exception as error:  # code of a task file may raise anything
                raise self._with_doc(error, doc_id, doc) from error
            requests.shot_replaced = draw is not None and draw.replaced
            self.fewshot_replaced += requests.shot_replaced
            yield requests

    def _asked(
        self, options: RequestOptions, book: ShotBook | None, n: int
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
        self, options: RequestOptions, book: ShotBook | None, n: int
    ) -> Iterator[tuple[int, tuple[Doc, Draw | None]]]:
        for doc_id, doc in select_docs(self.eval_docs, options):
            draw = None
            if book:
                try:
                    draw = book.draw(doc_id, doc, n)
                except Exception as error:  # code of a task file may raise anything
                    raise self._with_doc(error, doc_id, doc) from error
            yield doc_id, (doc, draw)

    def _with_doc(self, error: Exception, doc_id: int, doc: Doc) -> AssayError:
        """The error with the doc that it came from; code of a task file may raise anything."""
        where = f"{'' if self.task_file is None else f'{self.task_file}: '}task {self.task_name}, doc {doc_id}"
        if isinstance(error, AssayError):
            return type(error)(f"{where}: {error.message}", hint=error.hint)
        said, hint = what_failed(error)
        more = "" if hint is None else f" {hint}"
        return DataError(f"{where}: {said}", hint=f"Columns: {', '.join(map(str, doc))}.{more}")

    def _requests_of(self, doc_id: int, doc: Doc, shots: Sequence[Shot], options: RequestOptions) -> DocRequests:
        context = self._context(doc, shots, options) if self.NEEDS_CONTEXT else ""
        target = self._shown_target(doc)
        made = self.construct_requests(doc, context, target=target, options=options)
        instances = made if isinstance(made, list) else [made]
        repeats = options.repeats or self.config.repeats
        for instance in instances:
            instance.doc_id, instance.task_name, instance.repeats = doc_id, self.task_name, repeats
        return DocRequests(doc_id, doc, target, instances)

    def _context(self, doc: Doc, shots: Sequence[Shot], options: RequestOptions) -> Any:
        """The prompt up to the continuation, text or messages; a list, one for each choice, where contexts differ."""
        if "no_context" in (self.config.perturbation or ()):
            return ""
        system, prefix = self._system(doc, options), self._prefix(doc)
        if options.apply_chat_template and options.chat_template:
            template, multiturn = options.chat_template, options.fewshot_as_multiturn

            def assemble(question: str, delimiter: str) -> Any:
                return chat_prompt(template, chat_messages(system, shots, question, multiturn=multiturn), prefix)
        else:
            head = system + "".join([shot.text for shot in shots])

            def assemble(question: str, delimiter: str) -> Any:
                return plain_prompt(head, question, prefix, delimiter)

        if self.multiple_input:
            return [assemble(self._perturbed(question, doc), "") for question in self.doc_to_choice(doc)]
        return assemble(self._question(doc), self.config.target_delimiter)

    def _system(self, doc: Doc, options: RequestOptions) -> str:
        if options.system is not None:
            return options.system
        return join_spaced(options.system_instruction, self._description(doc), self.config.fewshot_delimiter)

    def _question(self, doc: Doc) -> str:
        question = self.doc_to_text(doc)
        if isinstance(question, int | float):
            # Digits alone were taken for an index; only the first doc may decide that.
            question = str(question)
        if not isinstance(question, str):
            raise DataError(
                f"the question is {str(question)[:80]}, expected text",
                hint="Check doc_to_text, or remove such docs in process_docs.",
            )
        return self._perturbed(question, doc)

    def _perturbed(self, question: str, doc: Doc) -> str:
        """What the task's perturbation makes of a question; a styled task has it perturbed before it is worded."""
        config = self.config
        if not config.perturbation or isinstance(config.doc_to_text, StyledField):
            return question
        if "blind" in config.perturbation:
            return without_question(question, self._labels(doc))
        if "choice_order" in config.perturbation:
            question = self.in_other_order(question, doc) or question  # one that lists none is refused with its target
        keep = [*(config.unmodifiable_words or ()), *QUESTION_WORDS.split("|"), *ANSWER_WORDS.split("|")]
        return perturbed_text(question, config.perturbation, doc_hash(doc), keep)

    def _labels(self, doc: Doc) -> list[str]:
        return [str(choice) for choice in self.doc_to_choice(doc)]

    def in_other_order(self, question: str, doc: Doc) -> str | None:
        """A question with the options that it lists in the order that the doc's hash gives; None where it lists none."""
        labels = self._labels(doc)
        return reordered_options(question, labels, choice_order(len(labels), doc_hash(doc)))

    def _shown_target(self, doc: Doc) -> Any:
        """What is right, where the options stand now: of options in another order, the place of the right one."""
        target, config = self.doc_to_target(doc), self.config
        if "choice_order" not in (config.perturbation or ()) or isinstance(config.doc_to_text, StyledField):
            return target
        if self.multiple_input or self.in_other_order(str(self.doc_to_text(doc)), doc) is None:
            raise DataError(
                "choice_order: the prompt lists no options under the choices",
                hint=f"{self.task_name.partition(':')[0]}:mc:choice_order lists them.",
            )
        labels = self._labels(doc)
        order = choice_order(len(labels), doc_hash(doc))
        places = [gold_index(each, labels) for each in (target if isinstance(target, list) else [target])]
        moved = [place if place == NO_GOLD else order.index(place) for place in places]
        return moved if isinstance(target, list) else moved[0]

    def construct_requests(self, doc: Doc, ctx: str | list[str], **kwargs: Any) -> list[Instance] | Instance:
        raise NotImplementedError(f"{type(self).__name__} does not say what its requests are")

    def next_requests(self, requests: DocRequests) -> list[Instance]:
        """Further requests of a doc, once all it has are answered: they are appended to it, and answered in their turn.

        None by default. A doc that gets some is sent again, round by round, until there are no more.
        """
        return []

    def trajectories(self, requests: DocRequests) -> list[DocRequests]:
        """A doc's draws, where each is a conversation of its own; by default a doc goes through its rounds as one."""
        return [requests]

    def branches(self, requests: DocRequests, points: Sequence[BranchPoint]) -> list[DocRequests]:
        """In place of its draws: trajectories of a finished run, from where each is left."""
        raise NotImplementedError(f"{type(self).__name__} has no trajectories")

    def fold(self, requests: DocRequests, trajectories: Sequence[DocRequests]) -> None:
        """Answer a doc's own request by its trajectories, all of which are over."""

    def _with_media(self, doc: Doc, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Images and sounds go as a last argument."""
        return (*arguments, {key: field(doc) for key, field in self._media.items()}) if self._media else arguments

    def build_all_requests(self, options: RequestOptions | None = None) -> list[Instance]:
        """All requests at once, held as `instances`."""
        self.instances = [instance for requests in self.iter_requests(options) for instance in requests.instances]
        return self.instances

    def select_ids(self, options: RequestOptions) -> Sequence[int]:
        """Ids of the docs that `samples` or `limit` select, ascending."""
        return select_ids(self.doc_count, options)


# The requests of one doc, as `assay show` prints them.

_MARKS = str.maketrans({" ": "·", "\t": "→\t", "\n": "⏎\n", "\u00a0": "⍽", "\r": "␍"})


def preview(task: Task, doc_id: int, options: RequestOptions | None = None) -> list[Instance]:
    """The requests of a doc, with the shots it would have in a run over all docs."""
    total = task.doc_count
    if not 0 <= doc_id < total:
        raise ConfigError(
            f"task {task.task_name} has no doc {doc_id}", hint=f"There are {total} docs, with ids 0 to {total - 1}."
        )
    chosen = replace(options or RequestOptions(), samples=None, limit=doc_id + 1, only=(doc_id,))
    return next(iter(task.iter_requests(chosen))).instances


def visible(text: str) -> str:
    r"""The text with its white space shown.

    >>> visible("A: b\n")
    'A:·b⏎\n'
    """
    return text.translate(_MARKS)


def as_json(instance: Instance) -> dict[str, Any]:
    """A request as plain values: what `assay show --json` prints."""
    return {
        "request_type": instance.request_type,
        "idx": instance.idx,
        "doc_id": instance.doc_id,
        "task": instance.task_name,
        "repeats": instance.repeats,
        "target": instance.target,
        "arguments": list(instance.arguments),
    }
