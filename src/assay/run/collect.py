"""Scores of one task as they come in: numbers and hashes only, so that memory does not grow with the text."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.config import short_failure
from assay.filters import ReadLabel, works_per_doc
from assay.instance import Instance
from assay.results import (
    DocIds,
    Flag,
    Health,
    MetricColumn,
    MetricKey,
    Numbers,
    RunDirectory,
    SampleRow,
    SampleWriter,
    pack_arguments,
    pack_questions,
    pack_responses,
    to_json,
)
from assay.run.doc_work import DocWork
from assay.run.gold import labels_of_task, note_gold, why_not
from assay.run.settle import require_label
from assay.run.white_space import values_without_white_space
from assay.scoring import GoldLabel, ScoringResult, ensembles_of, gold_labels
from assay.stats import cluster_key

if TYPE_CHECKING:
    from assay.config import RunConfig
    from assay.filters import FilterEnsemble
    from assay.run.plan import Plan
    from assay.tasks import DocRequests, Task
from assay.timelimit import DOC_SECONDS, begin, watched

RoleAnswers = Callable[[str, Sequence[Instance]], None]
"""(task, questions to other models of the run) → nothing; the answers are filled in."""


class Collector:
    """Collects one task's scores, health and samples."""

    def __init__(
        self,
        task: Task,
        writer: SampleWriter | None,
        *,
        score: bool = True,
        keep_hashes: bool = False,
        answer_roles: RoleAnswers | None = None,
        gold: Mapping[str, GoldLabel] | None = None,
    ) -> None:
        self.gold = gold or {}
        """What people say of gold answers, by doc hash."""
        self.task, self.writer, self.scoring, self.answer_roles = task, writer, score, answer_roles
        self.columns: dict[MetricKey, MetricColumn] = {}
        self.unfolded: set[MetricKey] = set()
        """Metrics that gave scores under other names than their own."""
        self.stripped: dict[MetricKey, dict[int, Any]] = {}
        """Values that would be others if white space around answers did not count."""
        self.health = Health()
        self.unparsed_docs: dict[str, array[int]] = {}
        self.truncated_docs: set[int] = set()
        """By filter."""
        self.no_gold_docs: set[int] = set()
        self.doc_ids = DocIds()
        self.keys: Numbers[int] = Numbers("Q")
        self.prompts: Numbers[int] = Numbers("Q")
        """The first 64 bits of the hash of each doc's requests, until `finish` counts those that are equal."""
        self.clusters: Numbers[int] | None = Numbers("Q") if task.config.cluster else None
        """The key of each doc's cluster."""
        self.choice_counts: Counter[int] = Counter()
        self.drawn_once = True
        """Whether no request was answered more than once."""
        self.hash_of: dict[int, str] = {}
        """Doc hashes by doc id, only where something needs them (`keep_hashes`)."""
        self._keep_hashes = keep_hashes
        self._digest = hashlib.sha256()
        self._waiting: list[DocWork] = []

    @cached_property
    def ensembles(self) -> list[FilterEnsemble]:
        return ensembles_of(self.task.config)

    @cached_property
    def filter_names(self) -> list[str]:
        """One row of samples each."""
        return [ensemble.name for ensemble in self.ensembles] if self.scoring else ["none"]

    @cached_property
    def scores_in_parts(self) -> bool:
        """Whether every filter works doc by doc; one that does not is given all responses of the task at once."""
        return all(works_per_doc(step) for ensemble in self.ensembles for step in ensemble.steps)

    @property
    def task_hash(self) -> str:
        """Over the requests of all docs, in doc order: two runs with the same hash requested the same."""
        return self._digest.hexdigest()

    def add(self, docs: Sequence[DocWork]) -> None:
        """Score some answered docs, or keep them until `finish`."""
        if not self.scoring or self.scores_in_parts:
            self._score(docs)
        else:
            self._waiting.extend(docs)

    def finish(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._score(waiting)
        if self.writer is not None:
            self.writer.close()
        prompts, self.prompts = np.sort(self.prompts), Numbers("Q")
        self.health.duplicate_prompts = int(np.count_nonzero(prompts[1:] == prompts[:-1]))

    def abandon(self) -> None:
        """The run ends without results: leave no half-written file."""
        if self.writer is not None:
            self.writer.discard()

    @property
    def running(self) -> tuple[str, float, int] | None:
        """(metric, mean so far, docs) of the first metric that has a mean."""
        for key, column in self.columns.items():
            if (mean := column.mean) is not None:
                return key.metric, mean, len(column)
        return None

    def _score(self, docs: Sequence[DocWork]) -> None:
        result = self._scored([work.requests for work in docs]) if self.scoring else ScoringResult()
        self.unfolded |= result.unfolded
        if self.gold and why_not(self.task) is None:
            note_gold(self.task, self.gold, [work.requests for work in docs], result)
        if self.scoring:
            requests = [work.requests for work in docs]
            for key, values in values_without_white_space(self.task, self.ensembles, requests, result).items():
                self.stripped.setdefault(key, {}).update(values)
        for key, column in result.columns.items():
            known = self.columns.setdefault(key, MetricColumn(key, column.aggregation, column.higher_is_better))
            known.extend(column.doc_ids, column.values, column.draws)
            if column.gold is not None:
                known.gold = {**(known.gold or {}), **column.gold}
            if column.labels is not None:
                known.labels = {**(known.labels or {}), **column.labels}
        rows = self._noted(docs, result)
        if self.writer is None:
            for _ in rows:
                pass
        else:
            self.writer.add_docs(rows, result.columns.values())

    def _noted(self, docs: Sequence[DocWork], result: ScoringResult) -> Iterator[SampleRow]:
        """Note each doc, one after the other, and give its rows for the sample file, if there is one."""
        for work in docs:
            flags = result.flags.get(work.requests.doc_id, [])
            request_hash = work.request_hash
            failures = (each.failure for each in work.requests.instances if each.failure)
            failure = next(failures, None) or result.why_failed(work.requests.doc_id)
            self._note(work, request_hash, flags, failure)
            if self.writer is not None:
                yield from self._rows(work, request_hash, flags, failure)

    def _scored(self, docs: Sequence[DocRequests]) -> ScoringResult:
        for ensemble in self.ensembles:
            apply_filters(ensemble, docs)
        by_doc = {doc.doc_id: doc.instances for doc in docs}
        if self.answer_roles is not None and self.task.scorer.roles:
            scored = {
                doc_id: self.task.scored_instances(instances)
                for doc_id, instances in by_doc.items()
                if not any(instance.failure for instance in instances)
            }
            while questions := self.task.scorer.next_requests(scored, self.task.config):
                self.answer_roles(self.task.task_name, questions)
        return self.task.score_docs(by_doc)

    def _note(self, work: DocWork, request_hash: str, flags: Sequence[Flag], failure: str | None) -> None:
        doc = work.requests
        self.doc_ids.append(doc.doc_id)
        if self._keep_hashes:
            self.hash_of[doc.doc_id] = doc.doc_hash
        self.keys.append(int(doc.doc_hash[:16], 16))  # `doc_key`, without numpy's detour
        self.prompts.append(int(request_hash[:16], 16))
        self._digest.update(request_hash.encode())
        self.health.docs += 1
        if self.drawn_once:
            self.drawn_once = {instance.repeats for instance in doc.instances} <= {1}
        names = {flag.name for flag in flags} if flags else set()
        if doc.instances and doc.instances[0].choices is not None and not names & {"failed", "no_gold"}:
            # Guessing cannot be right where no choice is, and what was not answered was not guessed.
            self.choice_counts[len(doc.instances[0].choices)] += 1
        if self.clusters is not None:
            column = self.task.config.cluster or ""
            self.clusters.append(int(cluster_key(column, cluster_of(doc, column, self.task.task_name))))
        self.health.note(flags)
        if "no_gold" in names:
            self.no_gold_docs.add(doc.doc_id)
        if names & {"truncated", "limited"}:
            self.truncated_docs.add(doc.doc_id)
        if "failed" in names:
            is_code = failure is not None and failure.startswith(("scoring", "filtering"))
            self.health.note_failure(failure or "no reason is known", doc.doc_id if is_code else None)
        for flag in flags:
            if flag.name == "unparsed" and flag.filter is not None:
                self.unparsed_docs.setdefault(flag.filter, array("q")).append(doc.doc_id)

    def _rows(
        self, work: DocWork, request_hash: str, flags: Sequence[Flag], failure: str | None
    ) -> Iterator[SampleRow]:
        """A row for each filter, without the scores."""
        doc, stored = work.requests, work.stored
        if stored is not None:
            text, arguments, resps = stored.doc, stored.arguments, stored.resps
            came_with = {"stops": stored.stops, "tokens": stored.tokens, "extras": stored.extras}
        else:
            text, arguments = to_json(doc.doc), pack_arguments(doc.instances)
            resps = to_json([instance.resps for instance in doc.instances])
            came_with = pack_responses(doc.instances)
        for name in self.filter_names:
            filtered = [instance.filtered_resps.get(name) for instance in doc.instances]
            yield SampleRow(
                doc_id=doc.doc_id,
                doc_hash=doc.doc_hash,
                request_hash=request_hash,
                filter=name,
                doc=text,
                target=to_json(doc.target),
                arguments=arguments,
                resps=resps,
                filtered_resps=to_json(filtered),
                stops=came_with["stops"],
                tokens=came_with["tokens"],
                extras=came_with["extras"],
                questions=pack_questions(doc.instances),
                failure=failure,
                other=rules_of(filtered),
                flags=tuple([flag.name for flag in flags if flag.filter in (None, name)]) if flags else (),
                cluster=cluster_of(doc, self.task.config.cluster, self.task.task_name),
            )


def rules_of(filtered: Sequence[Any]) -> dict[str, Any]:
    """The rules by which a filter read the answers of a doc, where it says."""
    each = [one for value in filtered for one in (value if isinstance(value, list) else [value])]
    rules = [one.rule for one in each if isinstance(one, ReadLabel)]
    return {"read_by": rules} if rules else {}


def apply_filters(ensemble: FilterEnsemble, docs: Sequence[DocRequests]) -> None:
    """To all docs at once; if that fails, to each alone, and a doc on which it fails is a failed doc."""
    with watched():
        try:
            begin(DOC_SECONDS + len(docs) / 10)
            return ensemble.apply([instance for doc in docs for instance in doc.instances])
        except Exception as error:  # a filter may be anybody's code
            failed = 0
            for doc in docs:
                try:
                    begin()
                    ensemble.apply(doc.instances)
                except Exception as its_error:
                    failed += 1
                    reason = f"filtering failed: {ensemble.name}: {short_failure(its_error.__cause__ or its_error)}"
                    doc.instances[0].failure = doc.instances[0].failure or reason
            if failed == len(docs):
                raise error


@contextmanager
def collecting(
    plan: Plan,
    config: RunConfig,
    directory: RunDirectory | None,
    *,
    score: bool = True,
    answer_roles: RoleAnswers | None = None,
) -> Iterator[dict[str, Collector]]:
    """A collector for every task: complete at the end, or, if something goes wrong, with no half-written file."""
    labels = gold_labels(config.labels)
    collectors = {
        name: Collector(
            planned.task,
            None if directory is None else SampleWriter(directory.sample_file(name)),
            score=score,
            keep_hashes=config.control is not None,
            answer_roles=answer_roles,
            gold={} if name in plan.floor_tasks else labels_of_task(labels, name),
        )
        for name, planned in plan.tasks.items()
    }
    try:
        yield collectors
        for collector in collectors.values():
            collector.finish()
    except BaseException:
        for collector in collectors.values():
            collector.abandon()
        raise


def cluster_of(doc: DocRequests, column: str | None, task: str) -> str | None:
    """The label of a doc's cluster; None where the task has none. A doc without a label would be counted wrongly."""
    if not column:
        return None
    require_label(task, doc.doc_id, column, doc.doc)
    return str(doc.doc[column])
