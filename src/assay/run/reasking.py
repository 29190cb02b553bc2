"""Some docs of an earlier run asked again, to see whether its answers are the model's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from assay.config import RunConfig
from assay.errors import ModelError
from assay.instance import Instance, context_text, is_chat
from assay.models import LM
from assay.results import RunDirectory
from assay.run.answerers import is_sampled, stream_answers
from assay.run.kept import KeptDocs
from assay.run.plan import make_plan, settle, settle_kept, with_docs
from assay.run.units import KeptDoc

if TYPE_CHECKING:
    from assay.data import Docs
    from assay.tasks import TaskManager


@dataclass
class AskedAgain:
    """One doc: what the run kept of it, and what it is answered now."""

    task: str
    doc_id: int
    kept: list[Any]
    """Of each request, the answer."""
    now: list[list[Any]] = field(default_factory=list)
    """One such list for every time it was asked again."""
    prompt: str = ""


def reask(
    source: RunDirectory,
    config: RunConfig,
    lm: LM,
    chosen: Mapping[str, Sequence[int]],
    *,
    replays: int,
    docs: Mapping[str, Docs] | None = None,
    manager: TaskManager | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[AskedAgain]:
    """Ask the first round of these docs again, `replays` times, past the store.

    With `docs` the prompts are those that the run kept; else they are built from the dataset, with the model's chat template.
    Docs whose answers were drawn at random are left out: nothing can be said about one draw by another.
    """
    if docs is None:
        plan = settle(make_plan(config, lm, manager), config)
    else:
        about = (source.read_json("run.json") or {}).get("model") or {}
        plan, _ = settle_kept(with_docs(make_plan(config, None, manager, about=about), docs), config, source)
    asked: list[tuple[AskedAgain, list[Instance]]] = []
    for task, ids in chosen.items():
        kept_docs = KeptDocs(source.sample_file(task))
        planned = replace(plan.tasks[task], doc_ids=sorted(ids))
        for doc in planned.requests():
            kept = kept_docs.take(doc.doc_id)
            if kept is not None and (entry := _entry(task, doc.doc_id, doc.instances, kept, as_kept=docs is not None)):
                asked.append((entry, doc.instances))
    for _ in range(replays):
        _ask(lm, asked, stop)
    return [entry for entry, _ in asked]


def _entry(task: str, doc_id: int, instances: list[Instance], kept: KeptDoc, *, as_kept: bool) -> AskedAgain | None:
    if as_kept:
        kept.give_arguments(instances)
    if not kept.give_answers(instances) or any(each.failure or is_sampled(each) for each in instances):
        return None
    first = instances[0].arguments[0]
    prompt = context_text(first) if is_chat(first) else str(first)
    return AskedAgain(task, doc_id, [instance.resps[0] for instance in instances], prompt=prompt)


def _ask(lm: LM, asked: list[tuple[AskedAgain, list[Instance]]], stop: Callable[[], bool]) -> None:
    places: dict[str, list[tuple[AskedAgain, int, Instance]]] = {}
    for entry, instances in asked:
        entry.now.append([None] * len(instances))
        for number, instance in enumerate(instances):
            places.setdefault(instance.request_type, []).append((entry, number, instance))
    for request_type, waiting in places.items():
        for place, answer in stream_answers(lm, request_type, [each[2] for each in waiting], [0] * len(waiting), stop):
            if answer.failure is not None:
                raise ModelError(f"the model did not answer: {answer.failure}", hint="Try again later.")
            entry, number, _ = waiting[place]
            entry.now[-1][number] = answer.answer
